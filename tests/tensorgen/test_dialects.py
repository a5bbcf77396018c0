"""The table of vector instructions: complete, and each entry of one width."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from tensorgen.dialects import VECTOR_DIALECTS, VectorDialect, vector_dialect
from tensorgen.target import Target
from tensorgen.types import bfloat16, dtype_named, float32, float64, int32

WIDTHS = {"avx512": 512, "avx2": 256, "sse42": 128, "neon": 128, "neon32": 128}
PLACES = {
    "load": {"p"},
    "store": {"p", "v"},
    "fill": {"x"},
    "multiply_add": {"a", "b", "c"},
    "multiply_then_add": {"a", "b", "c"},
    "load_partial": {"p", "m"},
    "store_partial": {"p", "v", "m"},
}
ENTRIES = [(isa, name) for isa, name in VECTOR_DIALECTS]


def templates(dialect: VectorDialect) -> dict[str, str]:
    values = {field.name: getattr(dialect, field.name) for field in fields(dialect)}
    return {name: values[name] for name in PLACES if values[name] is not None}


@pytest.mark.parametrize(("isa", "name"), ENTRIES)
def test_lanes_fill_a_register(isa: str, name: str) -> None:
    dialect = VECTOR_DIALECTS[isa, name]
    assert dialect.lanes * dtype_named(name).bits == WIDTHS[isa]
    assert dialect.registers >= 16


@pytest.mark.parametrize(("isa", "name"), ENTRIES)
def test_templates_have_their_placeholders(isa: str, name: str) -> None:
    for operation, text in templates(VECTOR_DIALECTS[isa, name]).items():
        assert set(re.findall(r"{(\w)}", text)) == PLACES[operation], (operation, text)


@pytest.mark.parametrize(("isa", "name"), ENTRIES)
def test_all_instructions_are_of_one_width_and_type(isa: str, name: str) -> None:
    suffix = {"float32": ("ps", "f32"), "float64": ("pd", "f64")}[name]
    prefix = {"avx512": "_mm512_", "avx2": "_mm256_", "sse42": "_mm_"}.get(isa, "v")
    for text in templates(VECTOR_DIALECTS[isa, name]).values():
        for instruction in re.findall(r"\b(_mm\w+|v\w+)\(", text):
            assert instruction.startswith(prefix), instruction
            assert instruction.endswith(suffix), instruction


@pytest.mark.parametrize("isa", [*WIDTHS, "c99"])
def test_multiply_then_add_rounds_twice(isa: str) -> None:
    dialect = vector_dialect(isa, float32)
    assert dialect is not None
    assert not re.search("fmadd|fma", dialect.multiply_then_add)


def test_what_an_instruction_set_lacks_is_plain_c() -> None:
    dialect = vector_dialect("neon32", float64)
    assert dialect is not None
    assert (dialect.type, dialect.lanes) == ("double", 1)
    assert vector_dialect("c99", float32) == vector_dialect("unknown", float32)
    assert vector_dialect("avx512", int32) is None
    assert vector_dialect("avx512", bfloat16) is None


def test_every_target_has_vectors_of_floats() -> None:
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "armv7"):
        target = Target.named(name)
        dialect = vector_dialect(target.isa, float32)
        assert dialect is not None
        assert dialect.lanes * 32 == target.vector_bits
        assert dialect.registers == target.vector_registers


OPERATIONS = {"add", "sub", "mul", "div", "max", "min", "max_number", "min_number"}
ALL = [*ENTRIES, ("c99", "float32"), ("c99", "float64")]


def with_narrower(isa: str, name: str) -> tuple[VectorDialect, ...]:
    widest = vector_dialect(isa, dtype_named(name))
    assert widest is not None
    return (widest, *widest.narrower)


@pytest.mark.parametrize(("isa", "name"), ALL)
def test_every_vector_has_the_operations_that_epilogues_use(isa: str, name: str) -> None:
    for dialect in with_narrower(isa, name):
        assert {operation for operation, _ in dialect.operations} == OPERATIONS
        for _, template in dialect.operations:
            assert {"a", "b"} <= set(re.findall(r"{(\w)}", template)) <= {"a", "b"}


@pytest.mark.parametrize(("isa", "name"), ALL)
def test_shorter_vectors_are_found_by_their_length(isa: str, name: str) -> None:
    dialects = with_narrower(isa, name)
    lanes = [dialect.lanes for dialect in dialects]
    assert lanes == sorted(set(lanes), reverse=True)
    # Rows of four columns are the shortest that windows are tiled for.
    assert lanes[-1] <= 4
    for dialect in dialects:
        assert vector_dialect(isa, dtype_named(name), dialect.lanes) == dialect
    assert vector_dialect(isa, dtype_named(name), 3) is None


@pytest.mark.parametrize(("isa", "name"), ALL)
def test_alternate_lanes_have_their_placeholders(isa: str, name: str) -> None:
    for dialect in with_narrower(isa, name):
        for template, declaration in zip(dialect.alternate, dialect.indices, strict=True):
            found = set(re.findall(r"{(\w)}", template))
            assert found - {"i"} == {"a", "b"} or dialect.lanes == 1
            assert ("i" in found) == bool(declaration)
        part = dialect.load_partial or dialect.load_signed
        assert part is None or dialect.choose is not None


@pytest.mark.parametrize(("isa", "name"), ALL)
def test_stores_of_part_of_a_vector_say_which_part(isa: str, name: str) -> None:
    for dialect in with_narrower(isa, name):
        whole = dialect.stored("p", "v", dialect.lanes)
        assert whole == dialect.store.format(p="p", v="v")
        for count in range(1, dialect.lanes):
            text = dialect.stored("p", "v", count)
            if dialect.store_partial is not None:
                assert text is not None
                assert f"0x{2**count - 1:X}" in text
            elif dialect.store_most is not None and count >= dialect.lanes / 2:
                assert text is not None
                assert f", {count})" in text
            else:
                assert text is None

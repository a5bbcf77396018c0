"""Any text and any number, as C reads it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st
from numpy.typing import NDArray

from tensorgen.module_text import (
    LINE_LENGTH,
    MAX_STRING_BYTES,
    call_text,
    comment_text,
    filled,
    needs_math_header,
    number_literals,
    string_literal,
)
from tensorgen.types import Array
from tests.required_tools import require

NASTY = st.text(alphabet=st.sampled_from("*/\\?\n\r\0\"'%ax1 é你\ud800"))
ANY_TEXT = st.one_of(NASTY, st.text(), st.text(st.characters(codec=None)))


@given(ANY_TEXT)
def test_comment_text_stays_in_its_comment(text: str) -> None:
    spelled = comment_text(text)
    assert re.fullmatch(r"[ -\[\]-~]*", spelled)
    assert len(spelled) <= 400
    for mark in ("*/", "/*", "//", "??"):
        assert mark not in spelled


@given(st.text(st.sampled_from("abz019 _.,:;()[]+-=<>")))
def test_comment_text_keeps_plain_text(text: str) -> None:
    assert comment_text(text[:200]) == text[:200]


@given(ANY_TEXT)
def test_string_literal_reads_back(text: str) -> None:
    literal = string_literal(text)
    assert re.fullmatch(r'"([ !#->@-\[\]-~]|\\["\\?]|\\[0-3][0-7][0-7])*"', literal)
    read = re.sub(
        r"\\([0-7]{3}|.)",
        lambda found: chr(int(found[1], 8)) if found[1].isdigit() else found[1],
        literal[1:-1],
    )
    assert read.encode("latin-1") == text.encode("utf-8", "surrogatepass")[:MAX_STRING_BYTES]


@given(
    numpy_st.arrays(
        st.sampled_from([np.float32, np.float64]),
        numpy_st.array_shapes(min_dims=0),
        elements=None,
    )
)
def test_float_literals_read_back(array: NDArray[np.floating[Any]]) -> None:
    literals = number_literals(array)
    for literal, value in zip(literals, array.reshape(-1), strict=True):
        if np.isnan(value):
            assert literal == "NAN"
        elif np.isinf(value):
            assert literal == ("INFINITY" if value > 0 else "-INFINITY")
        else:
            assert re.fullmatch(r"-?\d+(\.\d+)?(e[-+]\d+)?f?", literal)
            assert "." in literal or "e" in literal
            assert literal.endswith("f") == (array.dtype == np.float32)
            read = array.dtype.type(literal.removesuffix("f"))
            assert read.tobytes() == value.tobytes()


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([[-128, 127]], np.int8), ["-128", "127"]),
        (np.array([-(2**63)]), ["INT64_MIN"]),
        (np.array(2**64 - 1, np.uint64), ["18446744073709551615u"]),
        (np.array([True, False]), ["1", "0"]),
        (np.array([1.0, -0.0, np.nan], np.float16), ["15360", "32768", "32256"]),
        (np.array([1.0], ml_dtypes.bfloat16), ["16256"]),
        (np.zeros((0, 3), np.float32), []),
        (np.arange(6, dtype=np.uint8).reshape(2, 3).T, ["0u", "3u", "1u", "4u", "2u", "5u"]),
    ],
)
def test_literals_of_other_types(array: Array, expected: list[str]) -> None:
    assert number_literals(array) == expected


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compilers_read_the_same_bits(compiler: str, tmp_path: Path) -> None:
    require(compiler)
    bits = np.random.default_rng(0).integers(0, 2**32, 2000, dtype=np.uint32)
    special = np.array([0, 1, 0x80000000, 0x80000001, 0x7F7FFFFF, 0x7F800000, 0xFF800000])
    values = np.concatenate([special.astype(np.uint32), bits]).view(np.float32)
    values = values[~np.isnan(values)]
    (tmp_path / "values.c").write_text(
        "#include <math.h>\n#include <stdio.h>\nstatic const float values[] = {\n"
        + filled(number_literals(values), "    ")
        + "\n};\nint main(void)\n{\n    fwrite(values, 4, sizeof values / 4, stdout);\n}\n"
    )
    command = [compiler, "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "values.c"]
    subprocess.run([*command, "-o", "values"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "values"], capture_output=True, check=True).stdout
    assert printed == values.tobytes()


@given(st.lists(st.text(st.sampled_from("abc"), min_size=1, max_size=60)))
def test_filled_keeps_order_and_length(items: list[str]) -> None:
    text = filled(items, "    ")
    assert [item for item in re.split(r"[,\s]+", text) if item] == items
    assert all(len(line) <= LINE_LENGTH for line in text.splitlines())


def test_call_text_breaks_long_lines() -> None:
    assert call_text("f", ["a", "b"], ";", "  ") == "  f(a, b);"
    long = call_text("f", ["a" * 60, "b" * 60], ";", "")
    assert long == f"f(\n    {'a' * 60},\n    {'b' * 60});"


@pytest.mark.parametrize(
    "text",
    ["x = fmaxf(x, 0.0f);", "sqrt(x)", "acc = _mm256_set1_ps(-INFINITY);", "isnan(x)", "lrintf(x)"],
)
def test_what_math_declares_needs_its_header(text: str) -> None:
    assert needs_math_header(text)


@pytest.mark.parametrize(
    "text", ["tasor_exp_f32(x)", "_mm512_max_ps(a, b)", "x = max(y, round_up(z));", "not_a_nanoid"]
)
def test_other_names_need_none(text: str) -> None:
    assert not needs_math_header(text)


def test_all_that_math_declares_is_known(tmp_path: Path) -> None:
    """As the compiler's own header has it for C99."""
    require("gcc")
    (tmp_path / "a.c").write_text("#include <math.h>\n")
    command = ["gcc", "-std=c99", "-E", "-P", "a.c"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    declared = set(re.findall(r"\b([a-z]\w*) \(", found.stdout))
    assert len(declared) > 150
    assert [name for name in sorted(declared) if not needs_math_header(f"{name}(x)")] == []

"""Identifiers for untrusted names: safe for C and C++, distinct, stable, readable."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.ports import MAX_IDENTIFIER_LENGTH, c_identifier, unique_identifiers
from tests.required_tools import require

HOSTILE = (
    "", " ", "_", "__", "__x", "_X", "9lives", "1.5", "a b", "a\nb", "a\0b", 'a"b', "a'b", "a\\b",
    "*/", "/* x", "// x", "??/", "a;system(0);", "#define x", "../../etc/passwd", "C:\\x", "a:0",
    "onnx::Conv_123", "/layer1/conv/Conv_output_0", "int", "class", "and", "nullptr", "typeof",
    "EOF", "NULL", "stdin", "errno", "I", "INT_MAX", "PRIu64", "size_t", "float32x4_t", "vaddq_f32",
    "_mm512_add_ps", "vld1q_lane_s8", "exp", "expf", "memcpy", "omp_set", "INPUT", "A0", "naïve",
    "ßtraße", "日本語", "\u202eevil", "\ud800", "\uff41", "①", "x" * 10_000, "X" * 64, "_" * 100,
)  # fmt: skip

any_text = st.one_of(st.text(), st.sampled_from(HOSTILE), st.from_regex(r"[A-Za-z0-9_. /]{1,70}"))


@given(any_text)
def test_an_identifier_breaks_no_rule_of_c_or_cpp(name: str) -> None:
    made = c_identifier(name)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", made, re.ASCII)
    assert "__" not in made
    assert len(made) <= MAX_IDENTIFIER_LENGTH
    assert c_identifier(made) == made


@given(st.lists(any_text), st.sets(st.sampled_from(["arena", "x", "a_b", "unnamed", "int_"])))
def test_unique_identifiers_are_distinct_and_safe(names: list[str], taken: set[str]) -> None:
    made = unique_identifiers(names, taken=taken)
    assert len(made) == len(names)
    assert len(set(made)) == len(names)
    assert not taken & set(made)
    assert all(c_identifier(identifier) == identifier for identifier in made)
    assert made == unique_identifiers(names, taken=sorted(taken))


@given(st.lists(st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True), unique=True))
def test_a_safe_name_keeps_its_spelling_beside_its_lookalikes(names: list[str]) -> None:
    safe = [name for name in names if c_identifier(name) == name]
    lookalikes = [f".{name}" for name in safe]
    assert unique_identifiers([*lookalikes, *safe])[len(safe) :] == tuple(safe)


def test_many_equal_names_are_numbered_in_order_and_fast() -> None:
    made = unique_identifiers(["x"] * 20_000)
    assert made[:3] == ("x", "x_2", "x_3")
    assert made[-1] == "x_20000"
    assert len(set(made)) == 20_000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("input.1", "input_1"), ("onnx::Conv_12", "onnx_Conv_12"), ("X", "X"), ("123", "t_123"),
        ("int", "int_"), ("EOF", "EOF_"), ("", "unnamed"), ("日本", "unnamed"),
        ("entrée", "entree"), ("__cplusplus", "cplusplus"), ("a*/b", "a_b"), ("size_t", "size_t_"),
        ("I", "I_"), ("token_type_ids", "token_type_ids"), ("gamma", "gamma"),
    ],
)  # fmt: skip
def test_spellings_that_people_will_meet(name: str, expected: str) -> None:
    assert c_identifier(name) == expected


def test_lookalikes_get_numbers() -> None:
    assert unique_identifiers(("a.b", "a/b", "a_b")) == ("a_b_2", "a_b_3", "a_b")


def test_long_names_that_differ_only_at_the_end_stay_apart() -> None:
    first, second = c_identifier("x" * 200 + "a"), c_identifier("x" * 200 + "b")
    assert first != second
    assert len(first) <= MAX_IDENTIFIER_LENGTH


C_HEADERS = (
    "complex", "errno", "inttypes", "iso646", "limits", "math", "stdbool", "stddef", "stdint",
    "stdio", "stdlib", "string", "tgmath",
)  # fmt: skip
CPP_HEADERS = ("cerrno", "cinttypes", "climits", "cmath", "cstdint", "cstdio", "cstdlib", "cstring")


@pytest.mark.parametrize(
    ("compiler", "standard", "headers"),
    [
        ("cc", "c99", [f"{name}.h" for name in C_HEADERS]),
        ("cc", "c2x", [f"{name}.h" for name in C_HEADERS]),
        ("g++", "c++17", CPP_HEADERS),
    ],
)
def test_compilers_accept_hostile_names_beside_the_standard_headers(
    compiler: str, standard: str, headers: tuple[str, ...], tmp_path: Path
) -> None:
    require(compiler)
    parameters = ", ".join(f"const float *{name}" for name in unique_identifiers(HOSTILE))
    source = tmp_path / ("names.cpp" if compiler == "g++" else "names.c")
    source.write_text(
        "".join(f"#include <{header}>\n" for header in headers)
        + f"int model_run({parameters});\nint model_run({parameters}) {{ return 0; }}\n"
    )
    command = [compiler, f"-std={standard}", "-Wall", "-Werror", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

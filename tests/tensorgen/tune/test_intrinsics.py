"""The part of a compiler's header that a text uses: what is there, and that it compiles alike."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tensorgen.build import Compiler, find_compiler
from tensorgen.c_functions import definitions
from tensorgen.c_functions_softmax import SOFTMAX
from tensorgen.c_functions_transpose import TRANSPOSE
from tensorgen.c_functions_vectors import VECTOR_FUNCTIONS
from tensorgen.target import Target, host_target
from tensorgen.tune.intrinsics import HEADER, Intrinsics, intrinsics_of

TARGET = Target.named("x86-64-v4")
TEXT = f"""#include <{HEADER}>
void scale(float *x, float by) {{
    __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x), _mm512_set1_ps(by));
    __mmask16 m = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
    _mm512_mask_storeu_ps(x, m, _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT));
}}
"""


@pytest.fixture(scope="module")
def intrinsics() -> Intrinsics:
    if host_target().architecture != "x86_64":
        pytest.skip("needs a compiler for x86-64")
    found = intrinsics_of(find_compiler(TARGET), TARGET)
    if found is None:
        pytest.skip("needs a header written as gcc's")
    return found


def test_the_part_has_what_is_used_and_little_else(intrinsics: Intrinsics) -> None:
    part = intrinsics.part_for(TEXT)
    for name in ("_mm512_mul_ps", "_mm512_set1_ps", "_mm512_mask_storeu_ps", "_CMP_ORD_Q"):
        assert re.search(rf"\b{name}\b", part), name
    assert "_mm512_div_ps" not in part
    assert len(part) < 100_000
    assert len(intrinsics.definitions) > 1000


def test_the_code_is_the_same(intrinsics: Intrinsics, tmp_path: Path) -> None:
    compiler = find_compiler(TARGET)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / HEADER).write_text(intrinsics.part_for(TEXT))
    (tmp_path / "scale.c").write_text(TEXT)
    made = []
    for flags in ((), ("-Ipart",)):
        command = (*compiler.command, "-O1", *TARGET.compiler_flags, *flags, "-S", "-o", "-")
        answer = subprocess.run(
            (*command, "scale.c"), cwd=tmp_path, capture_output=True, text=True, check=True
        )
        # Labels are numbered by what the compiler has read.
        made.append(re.sub(r"\.LF[BE]\d+", ".LF", answer.stdout))
    assert made[0] == made[1]
    assert "zmm" in made[0]


def test_the_part_suffices_for_all_functions_of_ours(
    intrinsics: Intrinsics, tmp_path: Path
) -> None:
    """Those that are macros in the header, too: their names stand in no function of it."""
    functions = (*VECTOR_FUNCTIONS, *TRANSPOSE, *SOFTMAX)
    ours = definitions(function.name for function in functions if "_mm512" in function.text)
    assert "_mm512_setr_ps" in ours
    headers = ("float.h", "math.h", "stddef.h", "stdint.h", HEADER)
    text = "".join(f"#include <{name}>\n" for name in headers) + ours
    (tmp_path / HEADER).write_text(intrinsics.part_for(text))
    (tmp_path / "ours.c").write_text(text)
    command = (
        *find_compiler(TARGET).command,
        "-O1",
        *TARGET.compiler_flags,
        "-I.",
        "-S",
        "-o",
        "-",
    )
    answer = subprocess.run((*command, "ours.c"), cwd=tmp_path, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def test_other_compilers_and_targets_have_none() -> None:
    assert intrinsics_of(find_compiler(TARGET), Target.named("c99")) is None
    assert intrinsics_of(Compiler(("no-such-compiler",), ""), TARGET) is None
    assert intrinsics_of(Compiler(("true",), ""), TARGET) is None

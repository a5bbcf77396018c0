"""The words of vector functions: the same in every instruction set, spelled from the inside out."""

from __future__ import annotations

import re

import pytest

from tensorgen.c_functions_vectors import VECTOR_FUNCTIONS
from tensorgen.dialects import vector_dialect
from tensorgen.types import float32
from tensorgen.vector_spelling import VECTOR_SPELLINGS

AVX2 = VECTOR_SPELLINGS["avx2"]


def test_words_are_spelled_wherever_they_stand() -> None:
    text = (
        "const v y = choose(less(x, splat(0.0f)), fma(x, splat(2.0f), tasor_max_f32x8(x, y)), x);"
    )
    assert AVX2.expanded(text) == (
        "const v y = _mm256_blendv_ps(x, _mm256_fmadd_ps(x, _mm256_set1_ps(2.0f), "
        "tasor_max_f32x8(x, y)), _mm256_cmp_ps(x, _mm256_set1_ps(0.0f), _CMP_LT_OQ));"
    )


def test_text_without_words_stays() -> None:
    text = "tasor_add_f32x8(adds(x), y) + max"
    assert AVX2.expanded(text) == text


def test_every_instruction_set_has_the_same_words_and_functions() -> None:
    first, *others = VECTOR_SPELLINGS.values()
    functions = {function.name for function in VECTOR_FUNCTIONS}
    for spelling in others:
        assert spelling.words.keys() == first.words.keys()
        for name in functions:
            if name.endswith(f"_{first.suffix}"):
                assert name.replace(first.suffix, spelling.suffix) in functions


@pytest.mark.parametrize("isa", VECTOR_SPELLINGS)
def test_vectors_are_those_of_the_dialect(isa: str) -> None:
    spelling, dialect = VECTOR_SPELLINGS[isa], vector_dialect(isa, float32)
    assert dialect is not None
    assert (spelling.type, spelling.lanes) == (dialect.type, dialect.lanes)
    prefix = {"avx512": "_mm512_", "avx2": "_mm256_"}[isa]
    for template in spelling.words.values():
        assert all(name.startswith(prefix) for name in re.findall(r"_mm\d*_\w+", template))

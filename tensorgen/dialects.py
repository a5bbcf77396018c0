"""How each instruction set spells the vector operations of Loop IR, as a table.

An entry holds the C type of a vector register and one template for each operation. Portable C99 has
vectors of one element: plain scalars, which any compiler may vectorize itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorgen.types import DType, float32, float64


@dataclass(frozen=True, slots=True)
class VectorDialect:
    """One vector register type and its operations as templates.

    Placeholders: {p} pointer, {v} register, {x} scalar, {a} {b} {c} registers, {n} lane count,
    {m} lane mask as a hexadecimal constant. Without `load_partial`, fewer lanes are read through a
    zeroed array. With `loads_ahead`, compilers move all loads of a step to its begin, whatever the
    order in the source: each broadcast element takes a register of its own.
    """

    type: str
    lanes: int
    load: str
    store: str
    fill: str
    multiply_add: str
    multiply_then_add: str
    load_partial: str | None
    store_partial: str | None
    registers: int
    loads_per_cycle: float
    multiply_adds_per_cycle: float
    loads_ahead: bool = False


_AVX512 = VectorDialect(
    type="__m512",
    lanes=16,
    load="_mm512_loadu_ps({p})",
    store="_mm512_storeu_ps({p}, {v});",
    fill="_mm512_set1_ps({x})",
    multiply_add="_mm512_fmadd_ps({a}, {b}, {c})",
    multiply_then_add="_mm512_add_ps({c}, _mm512_mul_ps({a}, {b}))",
    load_partial="_mm512_maskz_loadu_ps((__mmask16){m}, {p})",
    store_partial="_mm512_mask_storeu_ps({p}, (__mmask16){m}, {v});",
    registers=32,
    loads_per_cycle=1.0,
    multiply_adds_per_cycle=1.0,
)
_AVX512_DOUBLE = VectorDialect(
    type="__m512d",
    lanes=8,
    load="_mm512_loadu_pd({p})",
    store="_mm512_storeu_pd({p}, {v});",
    fill="_mm512_set1_pd({x})",
    multiply_add="_mm512_fmadd_pd({a}, {b}, {c})",
    multiply_then_add="_mm512_add_pd({c}, _mm512_mul_pd({a}, {b}))",
    load_partial="_mm512_maskz_loadu_pd((__mmask8){m}, {p})",
    store_partial="_mm512_mask_storeu_pd({p}, (__mmask8){m}, {v});",
    registers=32,
    loads_per_cycle=1.0,
    multiply_adds_per_cycle=1.0,
)
_AVX2 = VectorDialect(
    type="__m256",
    lanes=8,
    load="_mm256_loadu_ps({p})",
    store="_mm256_storeu_ps({p}, {v});",
    fill="_mm256_set1_ps({x})",
    multiply_add="_mm256_fmadd_ps({a}, {b}, {c})",
    multiply_then_add="_mm256_add_ps({c}, _mm256_mul_ps({a}, {b}))",
    load_partial=None,
    store_partial=None,
    registers=16,
    loads_per_cycle=2.0,
    multiply_adds_per_cycle=2.0,
)
_AVX2_DOUBLE = VectorDialect(
    type="__m256d",
    lanes=4,
    load="_mm256_loadu_pd({p})",
    store="_mm256_storeu_pd({p}, {v});",
    fill="_mm256_set1_pd({x})",
    multiply_add="_mm256_fmadd_pd({a}, {b}, {c})",
    multiply_then_add="_mm256_add_pd({c}, _mm256_mul_pd({a}, {b}))",
    load_partial=None,
    store_partial=None,
    registers=16,
    loads_per_cycle=2.0,
    multiply_adds_per_cycle=2.0,
)
_SSE42 = VectorDialect(
    type="__m128",
    lanes=4,
    load="_mm_loadu_ps({p})",
    store="_mm_storeu_ps({p}, {v});",
    fill="_mm_set1_ps({x})",
    multiply_add="_mm_add_ps({c}, _mm_mul_ps({a}, {b}))",
    multiply_then_add="_mm_add_ps({c}, _mm_mul_ps({a}, {b}))",
    load_partial=None,
    store_partial=None,
    registers=16,
    loads_per_cycle=2.0,
    multiply_adds_per_cycle=1.0,
)
_SSE42_DOUBLE = VectorDialect(
    type="__m128d",
    lanes=2,
    load="_mm_loadu_pd({p})",
    store="_mm_storeu_pd({p}, {v});",
    fill="_mm_set1_pd({x})",
    multiply_add="_mm_add_pd({c}, _mm_mul_pd({a}, {b}))",
    multiply_then_add="_mm_add_pd({c}, _mm_mul_pd({a}, {b}))",
    load_partial=None,
    store_partial=None,
    registers=16,
    loads_per_cycle=2.0,
    multiply_adds_per_cycle=1.0,
)
_NEON = VectorDialect(
    type="float32x4_t",
    lanes=4,
    load="vld1q_f32({p})",
    store="vst1q_f32({p}, {v});",
    fill="vdupq_n_f32({x})",
    multiply_add="vfmaq_f32({c}, {a}, {b})",
    multiply_then_add="vaddq_f32({c}, vmulq_f32({a}, {b}))",
    load_partial=None,
    store_partial=None,
    registers=32,
    loads_per_cycle=2.0,
    multiply_adds_per_cycle=2.0,
    loads_ahead=True,
)
_NEON_DOUBLE = VectorDialect(
    type="float64x2_t",
    lanes=2,
    load="vld1q_f64({p})",
    store="vst1q_f64({p}, {v});",
    fill="vdupq_n_f64({x})",
    multiply_add="vfmaq_f64({c}, {a}, {b})",
    multiply_then_add="vaddq_f64({c}, vmulq_f64({a}, {b}))",
    load_partial=None,
    store_partial=None,
    registers=32,
    loads_per_cycle=2.0,
    multiply_adds_per_cycle=2.0,
    loads_ahead=True,
)
# 32-bit Arm has half as many registers, and none for two doubles.
_NEON32 = replace(_NEON, registers=16, loads_per_cycle=1.0, multiply_adds_per_cycle=1.0)


def _scalar(dtype: DType) -> VectorDialect:
    """Portable C: a vector of one element."""
    return VectorDialect(
        type=dtype.c_name,
        lanes=1,
        load="*({p})",
        store="*({p}) = {v};",
        fill="{x}",
        multiply_add="{c} + {a} * {b}",
        multiply_then_add="{c} + {a} * {b}",
        load_partial=None,
        store_partial=None,
        registers=16,
        loads_per_cycle=1.0,
        multiply_adds_per_cycle=1.0,
    )


VECTOR_DIALECTS: dict[tuple[str, str], VectorDialect] = {
    ("avx512", "float32"): _AVX512,
    ("avx512", "float64"): _AVX512_DOUBLE,
    ("avx2", "float32"): _AVX2,
    ("avx2", "float64"): _AVX2_DOUBLE,
    ("sse42", "float32"): _SSE42,
    ("sse42", "float64"): _SSE42_DOUBLE,
    ("neon", "float32"): _NEON,
    ("neon", "float64"): _NEON_DOUBLE,
    ("neon32", "float32"): _NEON32,
}
"""The vector types of each instruction set, by (isa, element type)."""


def vector_dialect(isa: str, dtype: DType) -> VectorDialect | None:
    """The vector operations on `dtype`, plain scalars if the instruction set has none; None for
    types that contractions are not tiled in."""
    if dtype not in (float32, float64):
        return None
    return VECTOR_DIALECTS.get((isa, dtype.name)) or _scalar(dtype)

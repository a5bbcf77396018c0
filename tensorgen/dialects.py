"""How each instruction set spells the vector operations of Loop IR, as a table.

An entry holds the C type of a vector register and one template for each operation. Portable C99 has
vectors of one element: plain scalars, which any compiler may vectorize itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from tensorgen.types import DType, float32, float64

HELD_VECTORS = 8
"""Of the rows of a softmax that AVX-512 holds in registers, the most vectors: two rows of them fill
half of its registers."""

SUMMED_ROWS = 4
"""Rows that AVX-512 multiplies with a block while it transposes it. As many as hide the latency of
their sums; more would only make the code longer."""


@dataclass(frozen=True, slots=True)
class VectorDialect:
    """One vector register type and its operations as templates.

    Placeholders: {p} pointer, {v} register, {x} scalar, {a} {b} {c} registers, {n} lane count,
    {m} lane mask as a hexadecimal constant. Without `load_partial`, fewer lanes are read through a
    zeroed array. With `loads_ahead`, compilers move all loads of a step to its begin, whatever the
    order in the source: each broadcast element takes a register of its own. A broadcast element
    counts as `broadcast_loads` of `loads_per_cycle`: half where loads of whole vectors take both
    ports and multiply-adds broadcast from memory, one where it is an instruction of its own. Where
    it is a load and a shuffle, it takes the place of `broadcast_sums` multiply-adds, too.

    `operations` are those on two registers, by the name of the scalar operator; `max_number` and
    `min_number` are `max` and `min` where {b} is no NaN. `alternate` takes the even, or the odd,
    lanes of {a} and {b}; it may use the constant {i}, whose declarations are `indices`. `choose`
    takes the lanes of {m} from {v}, the others are {x}. `load_signed` reads the lanes for which {s}
    has -1 instead of 0, where there is no `load_partial`; then `choose` goes by {s}. `store_most`
    stores the first {n} lanes, half of all or more, where there is no `store_partial`. `narrower`
    are shorter vectors of the same elements. `transposes` tells that blocks
    of them are transposed in registers (`lane_vectors`), parts of blocks as fast. To transpose
    while copying takes `turned_copy` cycles more an element. A row of at most `held_vectors` stays
    in registers while its softmax is computed, and `summed_rows` are multiplied with a block while
    it is transposed.
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
    broadcast_loads: float = 1.0
    broadcast_sums: float = 0.0
    loads_ahead: bool = False
    operations: tuple[tuple[str, str], ...] = ()
    alternate: tuple[str, str] = ("{a}", "{b}")
    indices: tuple[str, str] = ("", "")
    load_signed: str | None = None
    store_most: str | None = None
    choose: str | None = None
    narrower: tuple[VectorDialect, ...] = ()
    transposes: bool = False
    turned_copy: float = 0.7
    held_vectors: int = 0
    summed_rows: int = 0

    @property
    def temporaries(self) -> int:
        """Registers that a multiply-add takes beside accumulator and vector: for the broadcast
        element, and for a product that is rounded before it is added."""
        return 2 if self.multiply_add == self.multiply_then_add else 1

    @property
    def broadcasts_apart(self) -> bool:
        """Whether broadcasts are instructions of their own, not parts of multiply-adds. A core that
        looks a number of instructions ahead then sees fewer steps, and waits more for caches."""
        return self.broadcast_loads >= 1.0

    def unfused(self) -> VectorDialect:
        """The same vectors without fused multiply-adds, nor the functions that need them."""
        return replace(self, multiply_add=self.multiply_then_add, held_vectors=0, summed_rows=0)

    def stored(self, pointer: str, register: str, count: int) -> str | None:
        """The statement that stores the first `count` lanes; None if there is no instruction."""
        if count == self.lanes:
            return self.store.format(p=pointer, v=register)
        if self.store_partial is not None:
            mask = f"0x{(1 << count) - 1:X}"
            return self.store_partial.format(p=pointer, v=register, m=mask)
        if self.store_most is not None and 2 * count >= self.lanes:
            return self.store_most.format(p=pointer, v=register, n=count)
        return None

    def operation(self, name: str) -> str | None:
        """The template of an operation on two registers; None if there is no instruction."""
        return dict(self.operations).get(name)


def _permuted(prefix: str, suffix: str) -> tuple[str, str]:
    """`alternate` by the permutation of two vectors that AVX-512 has."""
    text = f"{prefix}_permutex2var_{suffix}({{a}}, {{i}}, {{b}})"
    return text, text


def _indices(vector: str, setter: str, lanes: int) -> tuple[str, str]:
    """The declarations of `_permuted`'s constants; intrinsics name the last element first."""
    even, odd = (
        ", ".join(str(element) for element in range(2 * lanes - 2 + odd, -1, -2)) for odd in (0, 1)
    )
    return f"const {vector} {{i}} = {setter}({even});", f"const {vector} {{i}} = {setter}({odd});"


def _shuffled(template: str, even: str, odd: str) -> tuple[str, str]:
    """`alternate` by an instruction that takes an immediate number for {n}."""
    return template.replace("{n}", even), template.replace("{n}", odd)


def _operations(prefix: str, suffix: str, unordered: str) -> tuple[tuple[str, str], ...]:
    """The operations of x86. Its max and min give {b} if either is NaN; `unordered` puts {a} into
    the lanes of {v} where {a} is NaN."""
    plain = tuple(
        (name, f"{prefix}_{name}_{suffix}({{a}}, {{b}})") for name in ("add", "sub", "mul", "div")
    )
    return (
        *plain,
        *((name, unordered.replace("{v}", f"{prefix}_{name}_{suffix}({{a}}, {{b}})"))
          for name in ("max", "min")),
        *((f"{name}_number", f"{prefix}_{name}_{suffix}({{b}}, {{a}})") for name in ("max", "min")),
    )  # fmt: skip


def _masked_operations(prefix: str, suffix: str) -> tuple[tuple[str, str], ...]:
    unordered = f"{prefix}_cmp_{suffix}_mask({{a}}, {{a}}, _CMP_UNORD_Q)"
    return _operations(prefix, suffix, f"{prefix}_mask_mov_{suffix}({{v}}, {unordered}, {{a}})")


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
    broadcast_loads=0.5,
    operations=_masked_operations("_mm512", "ps"),
    choose="_mm512_mask_mov_ps(_mm512_set1_ps({x}), (__mmask16){m}, {v})",
    alternate=_permuted("_mm512", "ps"),
    indices=_indices("__m512i", "_mm512_set_epi32", 16),
    held_vectors=HELD_VECTORS,
    summed_rows=SUMMED_ROWS,
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
    broadcast_loads=0.5,
    operations=_masked_operations("_mm512", "pd"),
    choose="_mm512_mask_mov_pd(_mm512_set1_pd({x}), (__mmask8){m}, {v})",
    alternate=_permuted("_mm512", "pd"),
    indices=_indices("__m512i", "_mm512_set_epi64", 8),
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
    operations=_operations(
        "_mm256", "ps", "_mm256_blendv_ps({v}, {a}, _mm256_cmp_ps({a}, {a}, _CMP_UNORD_Q))"
    ),
    alternate=_shuffled(
        "_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd("
        "_mm256_shuffle_ps({a}, {b}, {n})), 0xD8))",
        "0x88",
        "0xDD",
    ),
    load_signed="_mm256_maskload_ps({p}, _mm256_setr_epi32({s}))",
    store_most="tasor_store_most_f32x8({p}, {v}, {n});",
    choose="_mm256_blendv_ps(_mm256_set1_ps({x}), {v}, "
    "_mm256_castsi256_ps(_mm256_setr_epi32({s})))",
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
    operations=_operations(
        "_mm256", "pd", "_mm256_blendv_pd({v}, {a}, _mm256_cmp_pd({a}, {a}, _CMP_UNORD_Q))"
    ),
    alternate=_shuffled(
        "_mm256_permute4x64_pd(_mm256_shuffle_pd({a}, {b}, {n}), 0xD8)", "0x0", "0xF"
    ),
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
    operations=_operations("_mm", "ps", "_mm_blendv_ps({v}, {a}, _mm_cmpunord_ps({a}, {a}))"),
    alternate=_shuffled("_mm_shuffle_ps({a}, {b}, {n})", "0x88", "0xDD"),
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
    operations=_operations("_mm", "pd", "_mm_blendv_pd({v}, {a}, _mm_cmpunord_pd({a}, {a}))"),
    alternate=("_mm_unpacklo_pd({a}, {b})", "_mm_unpackhi_pd({a}, {b})"),
)


def _neon_operations(suffix: str) -> tuple[tuple[str, str], ...]:
    """NEON's max and min propagate NaN."""
    names = ("add", "sub", "mul", "div", "max", "min", "max_number", "min_number")
    return tuple((name, f"v{name[:3]}q_{suffix}({{a}}, {{b}})") for name in names)


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
    operations=_neon_operations("f32"),
    alternate=_shuffled("vuzpq_f32({a}, {b}).val[{n}]", "0", "1"),
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
    operations=_neon_operations("f64"),
    alternate=("vuzp1q_f64({a}, {b})", "vuzp2q_f64({a}, {b})"),
)
# 32-bit Arm has half as many registers, and none for two doubles.
_NEON32 = replace(
    _NEON,
    registers=16,
    loads_per_cycle=1.0,
    multiply_adds_per_cycle=1.0,
    # It divides no vectors; compilers write this as divisions of elements.
    operations=tuple((dict(_NEON.operations) | {"div": "{a} / {b}"}).items()),
)


_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def _scalar(dtype: DType) -> VectorDialect:
    """Portable C: a vector of one element."""
    suffix = f"f{dtype.bits}"
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
        operations=(
            *((name, f"{{a}} {symbol} {{b}}") for name, symbol in _SYMBOLS.items()),
            *((f"{name}{kind}", f"tasor_{name}_{suffix}({{a}}, {{b}})")
              for name in ("max", "min") for kind in ("", "_number")),
        ),
    )  # fmt: skip


def _masked(dialect: VectorDialect, prefix: str, suffix: str) -> VectorDialect:
    """A shorter vector under AVX-512, which has masks and multiply-adds for it, too."""
    return replace(
        dialect,
        multiply_add=f"{prefix}_fmadd_{suffix}({{a}}, {{b}}, {{c}})",
        load_partial=f"{prefix}_maskz_loadu_{suffix}((__mmask8){{m}}, {{p}})",
        store_partial=f"{prefix}_mask_storeu_{suffix}({{p}}, (__mmask8){{m}}, {{v}});",
        registers=32,
        operations=_masked_operations(prefix, suffix),
        choose=f"{prefix}_mask_mov_{suffix}({prefix}_set1_{suffix}({{x}}), (__mmask8){{m}}, {{v}})",
    )


_AVX512_8 = replace(
    _masked(_AVX2, "_mm256", "ps"),
    alternate=_permuted("_mm256", "ps"),
    indices=_indices("__m256i", "_mm256_set_epi32", 8),
)
_AVX512_4 = _masked(_SSE42, "_mm", "ps")
_AVX2_4 = replace(
    _SSE42,
    multiply_add="_mm_fmadd_ps({a}, {b}, {c})",
    load_signed="_mm_maskload_ps({p}, _mm_setr_epi32({s}))",
    choose="_mm_blendv_ps(_mm_set1_ps({x}), {v}, _mm_castsi128_ps(_mm_setr_epi32({s})))",
)
_AVX2_2_DOUBLE = replace(_SSE42_DOUBLE, multiply_add="_mm_fmadd_pd({a}, {b}, {c})")

VECTOR_DIALECTS: dict[tuple[str, str], VectorDialect] = {
    ("avx512", "float32"): replace(
        _AVX512, narrower=(_AVX512_8, _AVX512_4), transposes=True, turned_copy=0.15
    ),
    ("avx512", "float64"): replace(
        _AVX512_DOUBLE,
        narrower=(_masked(_AVX2_DOUBLE, "_mm256", "pd"), _masked(_SSE42_DOUBLE, "_mm", "pd")),
    ),
    ("avx2", "float32"): replace(_AVX2, narrower=(_AVX2_4,), transposes=True, turned_copy=0.15),
    ("avx2", "float64"): replace(_AVX2_DOUBLE, narrower=(_AVX2_2_DOUBLE,)),
    ("sse42", "float32"): replace(_SSE42, broadcast_sums=0.5),
    ("sse42", "float64"): _SSE42_DOUBLE,
    ("neon", "float32"): _NEON,
    ("neon", "float64"): _NEON_DOUBLE,
    ("neon32", "float32"): _NEON32,
}
"""The vector types of each instruction set, by (isa, element type)."""


@cache
def vector_dialect(isa: str, dtype: DType, lanes: int | None = None) -> VectorDialect | None:
    """The vector operations on `dtype`, plain scalars if the instruction set has none; None for
    types that are not computed in vectors. With `lanes`, those on vectors of that length, None if
    there are none."""
    if dtype not in (float32, float64):
        return None
    widest = VECTOR_DIALECTS.get((isa, dtype.name)) or _scalar(dtype)
    if lanes is None:
        return widest
    return next((d for d in (widest, *widest.narrower) if d.lanes == lanes), None)

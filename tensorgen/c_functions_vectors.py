"""C functions on whole vectors, for what compilers do not make of the scalar functions.

What it does: float32 versions in intrinsics, with the bounds and special values of their scalar
namesakes (but for a sigmoid that is subnormal), for each instruction set of `vector_spelling`. What
it does not: anything that a compiler vectorizes as well by itself. AVX-512 scales by a power of
two, subnormal results and overflow included, in one instruction where others take six; fused
multiply-adds let Horner's rule end in a single rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap

from tensorgen.c_function import CFunction, c_function, float_literal
from tensorgen.c_functions_exponential import ERF_DOC, ERF_LARGE_F32, ERF_SMALL_F32, EXP_F32
from tensorgen.vector_spelling import FOLDED_LANES, VECTOR_SPELLINGS, VectorSpelling

TABLE_LANES = 16
"""Lanes of the vectors that one instruction picks from a table of as many floats."""

_EXP_COEFFICIENTS = (1.0, 1.0, *EXP_F32)
_EXP_OF_MINUS = tuple(c * (-1.0) ** n for n, c in enumerate(_EXP_COEFFICIENTS))
"""Of exp(-r) in r."""
_EXPM1_TWICE = tuple(c * 2.0**n for n, c in enumerate(_EXP_COEFFICIENTS))[1:]
"""Of exp(r) in r, and of (exp(2r) - 1) / r."""

_MAX = """
static inline $vector tasor_${name}_$t($vector x, $vector y)
{
    const $vector ordered = ${name}(y, x);
    return choose(is_nan(y), y, ordered);
}
"""

# Of two operands of which one is NaN, max and min give the second one.
_EXP = """
static inline $vector tasor_exp_$t($vector x)
{
    const $vector above = max(splat(-104.0f), x);
    const $vector y = min(splat(89.0f), above);
    $reduced
    return scale(n, sum, p);
}
"""

# What is not above the least normal number is 0: arithmetic with smaller ones is a hundred times as
# slow on many processors, and beside the 1 that every softmax adds they are nothing.
_EXP_NONPOSITIVE = """
static inline $vector tasor_exp_nonpositive_$t($vector x)
{
    const $mask tiny = less(x, splat(-87.33654f));
    const $vector y = x;
    $reduced
    return without(tiny, scale_normal(n, sum, p));
}
"""

_EXP_REDUCED = """const $vector shifter = splat($exp_shifter);
    const $vector sum = fma(y, splat(1.442695f), shifter);
    const $vector n = sub(sum, shifter);
    const $vector high = fnma(n, splat(0.693359375f), y);
    const $vector r = fnma(n, splat(-0.00021219444f), high);
    $polynomial"""

# n has sixteenths, which come from a table by the last four bits of the sum: three terms are enough
# for the rest. That of the square is more than a half: it makes up for what the table's entries,
# rounded, lack. With these constants the error is at most 0.98 units, tried with every float.
_EXP_BY_TABLE = """
static inline $vector tasor_exp_nonpositive_$t($vector x)
{
    const $mask normal = _mm512_cmp_ps_mask(x, splat(-87.33654f), _CMP_NLT_UQ);
    const $vector shifter = splat(786432.0f);
    const $vector sum = fma(x, splat(1.442695f), shifter);
    const $vector n = sub(sum, shifter);
    const $vector powers = _mm512_setr_ps(
        $powers);
    const $vector power = _mm512_permutexvar_ps(_mm512_castps_si512(sum), powers);
    const $vector high = fnma(n, splat(0.693359375f), x);
    const $vector r = fnma(n, splat(-0.00021219444f), high);
    $vector p = splat(0.166667f);
    p = fma(p, r, splat(0.500025f));
    p = fma(p, r, splat(1.0f));
    p = fma(mul(p, r), power, power);
    return _mm512_maskz_scalef_ps(normal, p, n);
}
"""

# exp(-x) is infinite from x = -88.4 down: there the quotient is 0, and would be subnormal at best.
_SIGMOID = """
static inline $vector tasor_sigmoid_$t($vector x)
{
    const $vector one = splat(1.0f);
    const $vector below = min(splat(80.0f), x);
    const $vector y = max(splat(-89.0f), below);
    const $vector shifter = splat($shifter);
    const $vector sum = fma(y, splat(-1.442695f), shifter);
    const $vector n = sub(sum, shifter);
    const $vector high = fma(n, splat(0.693359375f), y);
    const $vector r = fma(n, splat(-0.00021219444f), high);
    $polynomial
    return div(one, add(one, scale_normal(n, sum, p)));
}
"""

# -2|x| = n ln 2 + 2 r: the constants take the factor.
_TANH = """
static inline $vector tasor_tanh_$t($vector x)
{
    const $vector one = splat(1.0f);
    const $vector sign = splat(-0.0f);
    const $vector y = max(splat(-10.0f), or(x, sign));
    const $vector shifter = splat($shifter);
    const $vector sum = fma(y, splat(2.88539f), shifter);
    const $vector n = sub(sum, shifter);
    const $vector high = fnma(n, splat(0.3466796875f), y);
    const $vector r = fnma(n, splat(-0.00010609722f), high);
    $polynomial
    const $vector scale = power(n, sum);
    const $vector rest = sub(scale, one);
    const $vector expm1 = fma(scale, mul(p, r), rest);
    const $vector quotient = div(expm1, add(expm1, splat(2.0f)));
    return or(and(sign, x), andnot(sign, quotient));
}
"""

# Even and odd powers apart: half as long a chain, of which a processor sees only a few at a time.
_ERF = """
static inline $vector tasor_erf_$t($vector x)
{
    const $vector sign = splat(-0.0f);
    const $vector y = andnot(sign, x);
    const $vector bounded = min(splat(3.92f), y);
    const $vector z = mul(bounded, bounded);
    $small
    const $vector below = fma(y, p, y);
    const $vector t = sub(bounded, splat(2.5f));
    const $vector square = mul(t, t);
    $even
    $odd
    const $vector above = fma(odd, t, even);
    const $mask is_small = less(y, splat(1.0f));
    const $vector magnitude = choose(is_small, below, above);
    return or(and(sign, x), magnitude);
}
"""

# The excess of an infinite quotient is infinite or NaN; made finite, it changes nothing.
_QUOTIENT = """
static inline $vector tasor_quotient_$t($vector x, $vector y, $vector reciprocal)
{
    const $vector near = mul(x, reciprocal);
    const $vector excess = fms(near, y, x);
    const $vector most = splat(FLT_MAX);
    const $vector least = splat(-FLT_MAX);
    const $vector finite = max(min(excess, most), least);
    return fnma(finite, reciprocal, near);
}
"""

_RESCALED = """
static inline $vector tasor_rescaled_$t($vector x, $vector factor, $vector rest)
{
    return fma(x, factor, mul(x, rest));
}
"""

# numpy aligns its arrays to 16 bytes: parts of that size go past the caches as well.
_STREAM_AVX512 = """
static inline void tasor_stream_f32x16(float *p, __m512 x)
{
    if ((uintptr_t)p % 64 == 0) {
        _mm512_stream_ps(p, x);
    } else if ((uintptr_t)p % 16 == 0) {
        _mm_stream_ps(p, _mm512_castps512_ps128(x));
        _mm_stream_ps(p + 4, _mm512_extractf32x4_ps(x, 1));
        _mm_stream_ps(p + 8, _mm512_extractf32x4_ps(x, 2));
        _mm_stream_ps(p + 12, _mm512_extractf32x4_ps(x, 3));
    } else {
        _mm512_storeu_ps(p, x);
    }
}
"""

_STREAM_AVX2 = """
static inline void tasor_stream_f32x8(float *p, __m256 x)
{
    if ((uintptr_t)p % 32 == 0) {
        _mm256_stream_ps(p, x);
    } else if ((uintptr_t)p % 16 == 0) {
        _mm_stream_ps(p, _mm256_castps256_ps128(x));
        _mm_stream_ps(p + 4, _mm256_extractf128_ps(x, 1));
    } else {
        _mm256_storeu_ps(p, x);
    }
}
"""

_STREAM_DOC = "x into p[0], p[1], ..., past the caches if p is aligned; a fence ends it."

# Two factors, of which the second rounds: their exponents are n + 254 in two halves.
_SCALED_AVX2 = """
static inline __m256 tasor_scaled_f32x8(__m256 sum, __m256 x)
{
    const __m256i biased = _mm256_castps_si256(sum);
    const __m256i exponents = _mm256_set1_epi32(0x7F800000);
    const __m256i half = _mm256_and_si256(_mm256_slli_epi32(biased, 22), exponents);
    const __m256i rest = _mm256_sub_epi32(_mm256_slli_epi32(biased, 23), half);
    const __m256 scaled = _mm256_mul_ps(x, _mm256_castsi256_ps(half));
    return _mm256_mul_ps(scaled, _mm256_castsi256_ps(rest));
}
"""


# The last four of the lanes again, behind the first four: AMD's masked stores are slow.
_STORE_MOST_AVX2 = """
static inline void tasor_store_most_f32x8(float *p, __m256 v, int count)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i last = _mm256_add_epi32(lanes, _mm256_set1_epi32(count - 4));
    _mm_storeu_ps(p, _mm256_castps256_ps128(v));
    _mm_storeu_ps(p + (count - 4), _mm256_castps256_ps128(_mm256_permutevar8x32_ps(v, last)));
}
"""

# The upper half of the lanes on the lower one, down to one: the same pairs as a loop makes.
_FOLD_AVX512 = """
static inline float tasor_${name}_of_${lanes}_lanes_f32(const float *lanes)
{
    $whole
    const __m512 upper8 = _mm512_shuffle_f32x4(of16, of16, 0x4E);
    const __m512 of8 = _mm512_${fold}_ps($pair8);
    const __m512 upper4 = _mm512_shuffle_f32x4(of8, of8, 0xB1);
    const __m512 of4 = _mm512_${fold}_ps($pair4);
    const __m512 upper2 = _mm512_permute_ps(of4, 0x4E);
    const __m512 of2 = _mm512_${fold}_ps($pair2);
    const __m512 upper1 = _mm512_permute_ps(of2, 0xB1);
    const __m512 of1 = _mm512_${fold}_ps($pair1);
    $result
}
"""


_TWO_VECTORS = """const __m512 low = _mm512_loadu_ps(lanes);
    const __m512 high = _mm512_loadu_ps(lanes + 16);
    const __m512 of16 = _mm512_${fold}_ps($pair16);"""


def _fold_avx512(name: str, fold: str, lanes: int, doc: str) -> CFunction:
    pairs = [("low", "high"), *((f"of{n * 2}", f"upper{n}") for n in (8, 4, 2, 1))]
    whole, parts = _TWO_VECTORS, "low, high"
    if lanes == TABLE_LANES:
        whole, parts = "const __m512 of16 = _mm512_loadu_ps(lanes);", "of16, of16"
    result = "return _mm512_cvtss_f32(of1);"
    if fold != "add":
        # Without NaN the instruction is the same function, operands in the order of the plain one.
        pairs = [(y, x) for x, y in pairs]
        result = (
            f"const __mmask16 unordered = _mm512_cmp_ps_mask({parts}, _CMP_UNORD_Q);\n"
            "    return unordered != 0 ? NAN : _mm512_cvtss_f32(of1);"
        )
    texts = {f"pair{n}": ", ".join(pair) for n, pair in zip((16, 8, 4, 2, 1), pairs, strict=True)}
    return c_function(
        _FOLD_AVX512.replace("$whole", whole), doc,
        name=name, fold=fold, result=result, lanes=str(lanes), **texts,
    )  # fmt: skip


# As with AVX-512, of vectors of eight: those of the upper half of the lanes on those of the lower
# one, and then the halves of the vector that is left. In registers: a load across the stores of two
# vectors of lanes waits until both have left for the cache.
_FOLD_AVX2 = """
static inline float tasor_${name}_of_${lanes}_lanes_f32x8(const float *lanes)
{
    $vectors
    const __m128 lower4 = _mm256_castps256_ps128($of8);
    const __m128 upper4 = _mm256_extractf128_ps($of8, 1);
    const __m128 of4 = _mm_${fold}_ps($pair4);
    const __m128 upper2 = _mm_movehl_ps(of4, of4);
    const __m128 of2 = _mm_${fold}_ps($pair2);
    const __m128 upper1 = _mm_movehdup_ps(of2);
    const __m128 of1 = _mm_${fold}_ss($pair1);
    $result
}
"""


def _fold_avx2(name: str, fold: str, lanes: int, doc: str) -> CFunction:
    def folded(lower: str, upper: str) -> str:
        # As with AVX-512: without NaN the function has its operands in this order.
        return f"{lower}, {upper}" if fold == "add" else f"{upper}, {lower}"

    names = [f"at{lane}" for lane in range(0, lanes, 8)]
    loads = enumerate(names)
    lines = [f"const __m256 {name} = _mm256_loadu_ps(lanes + {8 * n});" for n, name in loads]
    # A comparison finds a NaN in either operand: the upper half of the vectors with the lower one.
    checked = zip(names[: -(-len(names) // 2)], names[len(names) // 2 :], strict=True)
    unordered = " | ".join(
        f"_mm256_movemask_ps(_mm256_cmp_ps({x}, {y}, _CMP_UNORD_Q))" for x, y in checked
    )
    while len(names) > 1:
        half = len(names) // 2
        made = [f"of{8 * half}_at{8 * n}" for n in range(half)]
        pairs = zip(made, names[:half], names[half:], strict=True)
        lines += (f"const __m256 {x} = _mm256_{fold}_ps({folded(y, z)});" for x, y, z in pairs)
        names = made
    result = "return _mm_cvtss_f32(of1);"
    if fold != "add":
        result = f"return ({unordered}) != 0 ? NAN : _mm_cvtss_f32(of1);"
    return c_function(
        _FOLD_AVX2, doc,
        name=name, fold=fold, lanes=str(lanes), result=result, vectors="\n    ".join(lines),
        of8=names[0], pair4=folded("lower4", "upper4"), pair2=folded("of4", "upper2"),
        pair1=folded("of2", "upper1"),
    )  # fmt: skip


def _polynomial(name: str, variable: str, coefficients: Iterable[float]) -> str:
    """C statements that set `name` to a polynomial, by Horner's rule; constant term first."""
    *rest, first = (f"splat({float_literal(c, 'float')})" for c in coefficients)
    lines = [f"$vector {name} = {first};"]
    lines += (f"    {name} = fma({name}, {variable}, {value});" for value in reversed(rest))
    return "\n".join(lines)


_FUNCTIONS: tuple[tuple[str, str, float | None], ...] = (
    (_MAX.replace("${name}", "max"), "The greater of x and y; NaN if either is NaN.", 0),
    (_MAX.replace("${name}", "min"), "The lesser of x and y; NaN if either is NaN.", 0),
    (
        _SIGMOID.replace("$polynomial", _polynomial("p", "r", _EXP_OF_MINUS)),
        "1 / (1 + exp(-x)); 0 where that is less than half of the least normal number.", 2.5,
    ),
    (
        _TANH.replace("$polynomial", _polynomial("p", "r", _EXPM1_TWICE)),
        "tanh(x), the magnitude as -e / (2 + e) with e = exp(-2|x|) - 1.", 2.5,
    ),
    (
        _ERF.replace("$small", _polynomial("p", "z", ERF_SMALL_F32))
        .replace("$even", _polynomial("even", "square", ERF_LARGE_F32[::2]))
        .replace("$odd", _polynomial("odd", "square", ERF_LARGE_F32[1::2])),
        f"erf(x): {ERF_DOC}", 2.0,
    ),
    (
        _QUOTIENT,
        "x / y for a y > 0 not too far from 1 and its correctly rounded reciprocal; correctly "
        "rounded, too, unless x is below 2**-100 in magnitude (Markstein's theorem).", 1.0,
    ),
    (_RESCALED, "x * (factor + rest) for a rest that is about the rounding of the factor.", None),
)  # fmt: skip
"""Text, description and bound of each function."""


def table(entries: Iterable[str]) -> str:
    """The lanes of a table, as arguments in C."""
    return "\n        ".join(wrap(", ".join(entries), 90))


def _table_of_powers() -> str:
    """A table of 2 to as many parts of 1 as there are lanes."""
    powers = (2.0 ** (k / TABLE_LANES) for k in range(TABLE_LANES))
    return table(float_literal(power, "float") for power in powers)


def _exponentials(spelling: VectorSpelling) -> Iterator[tuple[str, str, float]]:
    """exp for every x, and for those of at most 0 as the instruction set computes it fastest."""
    reduced = _EXP_REDUCED.replace("$polynomial", _polynomial("p", "r", _EXP_COEFFICIENTS))
    how = "x = n ln 2 + r with |r| <= ln(2)/2, minimax polynomial in r."
    yield (
        _EXP.replace("$reduced", reduced.replace("$exp_shifter", "$scale_shifter")),
        f"exp(x): {how}",
        1.0,
    )
    nonpositive = _EXP_NONPOSITIVE.replace("$reduced", reduced.replace("$exp_shifter", "$shifter"))
    if spelling.lanes == TABLE_LANES:
        nonpositive = _EXP_BY_TABLE.replace("$powers", _table_of_powers())
        how = "x = n ln 2 + r with 16 n an integer and |r| <= ln(2)/32."
    yield nonpositive, f"exp(x) for an x that is NaN or at most 0, 0 below 2**-126: {how}", 1.0


def _spelled(spelling: VectorSpelling) -> Iterator[CFunction]:
    for text, doc, ulp in (*_exponentials(spelling), *_FUNCTIONS):
        yield c_function(
            spelling.expanded(text), doc, ulp,
            vector=spelling.type, mask=spelling.mask, t=spelling.suffix,
            shifter=spelling.shifter, scale_shifter=spelling.scale_shifter,
        )  # fmt: skip


VECTOR_FUNCTIONS: tuple[CFunction, ...] = (
    *(function for spelling in VECTOR_SPELLINGS.values() for function in _spelled(spelling)),
    c_function(_SCALED_AVX2, "x 2**n for the n of a sum with 12583166, rounded once.", 1.0),
    c_function(_STORE_MOST_AVX2, "The first count lanes of v, from 4 to 8, into p[0], p[1], ..."),
    c_function(_STREAM_AVX512, _STREAM_DOC),
    c_function(_STREAM_AVX2, _STREAM_DOC),
    *(
        made(name, fold, lanes, doc.format(lanes))
        for isa, made in (("avx512", _fold_avx512), ("avx2", _fold_avx2))
        for lanes in FOLDED_LANES[isa]
        for name, fold, doc in (
            ("sum", "add", "The sum of {} values, added by halves."),
            ("max", "max", "The greatest of {} values; NaN if one is NaN."),
            ("min", "min", "The least of {} values; NaN if one is NaN."),
        )
    ),
)

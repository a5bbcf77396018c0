"""C functions on whole vectors, for what compilers do not make of the scalar functions.

What it does: float32 versions in intrinsics, with the bounds and special values of their scalar
namesakes, for each instruction set of `vector_spelling`. What it does not: anything that a compiler
vectorizes as well by itself. AVX-512 scales by a power of two, subnormal results and overflow
included, in one instruction where others take six; fused multiply-adds let Horner's rule end in a
single rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensorgen.c_function import CFunction, c_function, float_literal
from tensorgen.c_functions_exponential import ERF_LARGE_F32, ERF_SMALL_F32, EXP_F32
from tensorgen.vector_spelling import VECTOR_SPELLINGS, VectorSpelling

_EXP_COEFFICIENTS = (1.0, 1.0, *EXP_F32)
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
    const $vector shifter = splat($scale_shifter);
    const $vector sum = fma(y, splat(1.442695f), shifter);
    const $vector n = sub(sum, shifter);
    const $vector high = fnma(n, splat(0.693359375f), y);
    const $vector r = fnma(n, splat(-0.00021219444f), high);
    $polynomial
    return scale(n, sum, p);
}
"""

_SIGMOID = """
static inline $vector tasor_sigmoid_$t($vector x)
{
    const $vector one = splat(1.0f);
    const $vector e = tasor_exp_$t(or(x, splat(-0.0f)));
    const $mask negative = less(x, zeros());
    return div(choose(negative, e, one), add(one, e));
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

_ERF = """
static inline $vector tasor_erf_$t($vector x)
{
    const $vector one = splat(1.0f);
    const $vector sign = splat(-0.0f);
    const $vector y = andnot(sign, x);
    const $vector bounded = min(splat(3.94f), y);
    const $vector z = mul(bounded, bounded);
    $small
    $large
    const $vector shifter = splat($shifter);
    const $vector sum = fma(q, splat(1.442695f), shifter);
    const $vector n = sub(sum, shifter);
    const $vector high = fnma(n, splat(0.693359375f), q);
    const $vector r = fnma(n, splat(-0.00021219444f), high);
    $exponential
    const $vector above = sub(one, scale_normal(n, sum, e));
    const $vector below = fma(y, p, y);
    const $mask is_small = less(y, splat(0.875f));
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


# The upper half of the lanes on the lower one, down to one: the same pairs as a loop makes.
_FOLD_AVX512 = """
static inline float tasor_${name}_of_lanes_f32x32(const float *lanes)
{
    const __m512 low = _mm512_loadu_ps(lanes);
    const __m512 high = _mm512_loadu_ps(lanes + 16);
    const __m512 of16 = _mm512_${fold}_ps($pair16);
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


def _fold(name: str, fold: str, doc: str) -> CFunction:
    pairs = [("low", "high"), *((f"of{n * 2}", f"upper{n}") for n in (8, 4, 2, 1))]
    result = "return _mm512_cvtss_f32(of1);"
    if fold != "add":
        # Without NaN the instruction is the same function, operands in the order of the plain one.
        pairs = [(y, x) for x, y in pairs]
        result = (
            "const __mmask16 unordered = _mm512_cmp_ps_mask(low, high, _CMP_UNORD_Q);\n"
            "    return unordered != 0 ? NAN : _mm512_cvtss_f32(of1);"
        )
    texts = {f"pair{n}": ", ".join(pair) for n, pair in zip((16, 8, 4, 2, 1), pairs, strict=True)}
    return c_function(_FOLD_AVX512, doc, name=name, fold=fold, result=result, **texts)


def _polynomial(name: str, variable: str, coefficients: Iterable[float]) -> str:
    """C statements that set `name` to a polynomial, by Horner's rule; constant term first."""
    *rest, first = (f"splat({float_literal(c, 'float')})" for c in coefficients)
    lines = [f"$vector {name} = {first};"]
    lines += (f"    {name} = fma({name}, {variable}, {value});" for value in reversed(rest))
    return "\n".join(lines)


_FUNCTIONS: tuple[tuple[str, str, float], ...] = (
    (_MAX.replace("${name}", "max"), "The greater of x and y; NaN if either is NaN.", 0),
    (_MAX.replace("${name}", "min"), "The lesser of x and y; NaN if either is NaN.", 0),
    (
        _EXP.replace("$polynomial", _polynomial("p", "r", _EXP_COEFFICIENTS)),
        "exp(x): x = n ln 2 + r with |r| <= ln(2)/2, minimax polynomial in r.", 1.0,
    ),
    (_SIGMOID, "1 / (1 + exp(-x)), from exp(-|x|), which cannot overflow.", 2.5),
    (
        _TANH.replace("$polynomial", _polynomial("p", "r", _EXPM1_TWICE)),
        "tanh(x), the magnitude as -e / (2 + e) with e = exp(-2|x|) - 1.", 2.5,
    ),
    (
        _ERF.replace("$small", _polynomial("p", "z", ERF_SMALL_F32))
        .replace("$large", _polynomial("q", "bounded", (-c for c in ERF_LARGE_F32)))
        .replace("$exponential", _polynomial("e", "r", _EXP_COEFFICIENTS)),
        "erf(x): odd polynomial below 7/8, then 1 - exp(polynomial).", 2.0,
    ),
    (
        _QUOTIENT,
        "x / y for a y > 0 not too far from 1 and its correctly rounded reciprocal; correctly "
        "rounded, too, unless x is below 2**-100 in magnitude (Markstein's theorem).", 1.0,
    ),
)  # fmt: skip
"""Text, description and bound of each function."""


def _spelled(spelling: VectorSpelling) -> Iterator[CFunction]:
    for text, doc, ulp in _FUNCTIONS:
        yield c_function(
            spelling.expanded(text), doc, ulp,
            vector=spelling.type, mask=spelling.mask, t=spelling.suffix,
            shifter=spelling.shifter, scale_shifter=spelling.scale_shifter,
        )  # fmt: skip


VECTOR_FUNCTIONS: tuple[CFunction, ...] = (
    *(function for spelling in VECTOR_SPELLINGS.values() for function in _spelled(spelling)),
    c_function(_SCALED_AVX2, "x 2**n for the n of a sum with 12583166, rounded once.", 1.0),
    _fold("sum", "add", "The sum of 32 values, added by halves."),
    _fold("max", "max", "The greatest of 32 values; NaN if one is NaN."),
    _fold("min", "min", "The least of 32 values; NaN if one is NaN."),
)

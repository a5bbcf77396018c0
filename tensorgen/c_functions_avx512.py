"""C functions on whole vectors of AVX-512, for what compilers do not make of the scalar functions.

What it does: float32 versions in intrinsics, with the bounds and special values of their scalar
namesakes. What it does not: anything that a compiler vectorizes as well by itself. One instruction
scales by a power of two, subnormal results and overflow included, where other instruction sets take
six; fused multiply-adds let Horner's rule end in a single rounding.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorgen.c_function import CFunction, c_function, float_literal
from tensorgen.c_functions_exponential import ERF_LARGE_F32, ERF_SMALL_F32, EXP_F32

_EXP_COEFFICIENTS = (1.0, 1.0, *EXP_F32)
_EXPM1_TWICE = tuple(c * 2.0**n for n, c in enumerate(_EXP_COEFFICIENTS))[1:]
"""Of exp(r) in r, and of (exp(2r) - 1) / r."""

_MAX = """
static inline __m512 tasor_${name}_f32x16(__m512 x, __m512 y)
{
    const __m512 ordered = _mm512_${name}_ps(y, x);
    return _mm512_mask_mov_ps(ordered, _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q), y);
}
"""

# Of two operands of which one is NaN, max and min give the second one.
_EXP = """
static inline __m512 tasor_exp_f32x16(__m512 x)
{
    const __m512 above = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
    const __m512 y = _mm512_min_ps(_mm512_set1_ps(89.0f), above);
    const __m512 shifter = _mm512_set1_ps(12582912.0f);
    const __m512 sum = _mm512_fmadd_ps(y, _mm512_set1_ps(1.442695f), shifter);
    const __m512 n = _mm512_sub_ps(sum, shifter);
    const __m512 high = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), y);
    const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-0.00021219444f), high);
    $polynomial
    return _mm512_scalef_ps(p, n);
}
"""

_SIGMOID = """
static inline __m512 tasor_sigmoid_f32x16(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 e = tasor_exp_f32x16(_mm512_or_ps(x, _mm512_set1_ps(-0.0f)));
    const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_div_ps(_mm512_mask_mov_ps(one, negative, e), _mm512_add_ps(one, e));
}
"""

# -2|x| = n ln 2 + 2 r: the constants take the factor.
_TANH = """
static inline __m512 tasor_tanh_f32x16(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 sign = _mm512_set1_ps(-0.0f);
    const __m512 y = _mm512_max_ps(_mm512_set1_ps(-10.0f), _mm512_or_ps(x, sign));
    const __m512 shifter = _mm512_set1_ps(12582912.0f);
    const __m512 sum = _mm512_fmadd_ps(y, _mm512_set1_ps(2.88539f), shifter);
    const __m512 n = _mm512_sub_ps(sum, shifter);
    const __m512 high = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.3466796875f), y);
    const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-0.00010609722f), high);
    $polynomial
    const __m512 scale = _mm512_scalef_ps(one, n);
    const __m512 rest = _mm512_sub_ps(scale, one);
    const __m512 expm1 = _mm512_fmadd_ps(scale, _mm512_mul_ps(p, r), rest);
    const __m512 quotient = _mm512_div_ps(expm1, _mm512_add_ps(expm1, _mm512_set1_ps(2.0f)));
    return _mm512_or_ps(_mm512_and_ps(sign, x), _mm512_andnot_ps(sign, quotient));
}
"""

_ERF = """
static inline __m512 tasor_erf_f32x16(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 sign = _mm512_set1_ps(-0.0f);
    const __m512 y = _mm512_andnot_ps(sign, x);
    const __m512 bounded = _mm512_min_ps(_mm512_set1_ps(3.94f), y);
    const __m512 z = _mm512_mul_ps(bounded, bounded);
    $small
    $large
    const __m512 shifter = _mm512_set1_ps(12582912.0f);
    const __m512 sum = _mm512_fmadd_ps(q, _mm512_set1_ps(1.442695f), shifter);
    const __m512 n = _mm512_sub_ps(sum, shifter);
    const __m512 high = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), q);
    const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-0.00021219444f), high);
    $exponential
    const __m512 above = _mm512_sub_ps(one, _mm512_scalef_ps(e, n));
    const __m512 below = _mm512_fmadd_ps(y, p, y);
    const __mmask16 is_small = _mm512_cmp_ps_mask(y, _mm512_set1_ps(0.875f), _CMP_LT_OQ);
    const __m512 magnitude = _mm512_mask_mov_ps(above, is_small, below);
    return _mm512_or_ps(_mm512_and_ps(sign, x), magnitude);
}
"""

# The excess of an infinite quotient is infinite or NaN; made finite, it changes nothing.
_QUOTIENT = """
static inline __m512 tasor_quotient_f32x16(__m512 x, __m512 y, __m512 reciprocal)
{
    const __m512 near = _mm512_mul_ps(x, reciprocal);
    const __m512 excess = _mm512_fmsub_ps(near, y, x);
    const __m512 most = _mm512_set1_ps(FLT_MAX);
    const __m512 least = _mm512_set1_ps(-FLT_MAX);
    const __m512 finite = _mm512_max_ps(_mm512_min_ps(excess, most), least);
    return _mm512_fnmadd_ps(finite, reciprocal, near);
}
"""

_PROPER_QUOTIENT = """
static inline __m512 tasor_proper_quotient_f32x16(__m512 x, __m512 y, __m512 reciprocal)
{
    const __m512 near = _mm512_mul_ps(x, reciprocal);
    return _mm512_fnmadd_ps(_mm512_fmsub_ps(near, y, x), reciprocal, near);
}
"""


# The upper half of the lanes on the lower one, down to one: the same pairs as a loop makes.
_FOLD = """
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
    return c_function(_FOLD, doc, name=name, fold=fold, result=result, **texts)


def _polynomial(name: str, variable: str, coefficients: Iterable[float]) -> str:
    """C statements that set `name` to a polynomial, by Horner's rule; constant term first."""
    *rest, first = (f"_mm512_set1_ps({float_literal(c, 'float')})" for c in coefficients)
    lines = [f"__m512 {name} = {first};"]
    lines += (
        f"    {name} = _mm512_fmadd_ps({name}, {variable}, {value});" for value in reversed(rest)
    )
    return "\n".join(lines)


AVX512: tuple[CFunction, ...] = (
    c_function(_MAX, "The greater of x and y; NaN if either is NaN.", 0, name="max"),
    c_function(_MAX, "The lesser of x and y; NaN if either is NaN.", 0, name="min"),
    c_function(
        _EXP, "exp(x): x = n ln 2 + r with |r| <= ln(2)/2, minimax polynomial in r.", 1.0,
        polynomial=_polynomial("p", "r", _EXP_COEFFICIENTS),
    ),
    c_function(
        _SIGMOID, "1 / (1 + exp(-x)), from exp(-|x|), which cannot overflow.", 2.5
    ),
    c_function(
        _TANH, "tanh(x), the magnitude as -e / (2 + e) with e = exp(-2|x|) - 1.", 2.5,
        polynomial=_polynomial("p", "r", _EXPM1_TWICE),
    ),
    c_function(
        _ERF, "erf(x): odd polynomial below 7/8, then 1 - exp(polynomial).", 2.0,
        small=_polynomial("p", "z", ERF_SMALL_F32),
        large=_polynomial("q", "bounded", (-c for c in ERF_LARGE_F32)),
        exponential=_polynomial("e", "r", _EXP_COEFFICIENTS),
    ),
    c_function(
        _QUOTIENT,
        "x / y for a y > 0 not too far from 1 and its correctly rounded reciprocal; correctly "
        "rounded, too, unless x is below 2**-100 in magnitude (Markstein's theorem).", 1.0,
    ),
    c_function(
        _PROPER_QUOTIENT, "The same for an x that is NaN or at most 1 in magnitude.", 1.0
    ),
    _fold("sum", "add", "The sum of 32 values, added by halves."),
    _fold("max", "max", "The greatest of 32 values; NaN if one is NaN."),
    _fold("min", "min", "The least of 32 values; NaN if one is NaN."),
)  # fmt: skip

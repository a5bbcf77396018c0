"""C functions of the exponential family: exp, sigmoid, tanh, sinh, cosh, erf.

What it does: branch-free float and double versions, whose loops compilers turn into vector code.
What it does not: call libm beyond what compiles to single instructions (fabs, copysign).

Reduction: x = n ln 2 + r with n an integer and |r| <= ln(2)/2; ln 2 is split so that n times its
high part is exact (W. J. Cody, W. Waite, "Software Manual for the Elementary Functions", 1980).
n comes from adding 1.5 * 2**(digits - 1), which leaves n in the last bits of the sum. Scaling by
2**n takes two factors, so that results round only once where they are subnormal; exp adds twice the
bias of the exponent, too, so that both factors are cut out of the sum. Coefficients are minimax
polynomials found by Remez exchange in 60 digits, weighted for relative error.
"""

from __future__ import annotations

from tensorgen.c_function import CFunction, c_function, polynomial

# (exp(r) - 1 - r) / r**2 on |r| <= ln(2)/2: relative error of exp below 2**-28 and 2**-57.
EXP_F32 = (4.9999994e-01, 1.666652e-01, 4.16684e-02, 8.368851e-03, 1.3814302e-03)
_EXP_F64 = (
    0.5000000000000011, 0.16666666666666408, 0.04166666666652811, 0.008333333333496923,
    0.0013888888944248031, 0.00019841269502740395, 2.4801492389414776e-05,
    2.7557588423016055e-06, 2.763052308369724e-07, 2.4999857336630136e-08,
)  # fmt: skip
# erf(x) / x - 1 in x**2, |x| <= 1, and erf(x) in x - 5/2, 1 <= x <= 3.92: relative error of erf
# below 2**-24.5, and error below 2**-25. From 3.92 on it rounds to 1, and so does the polynomial.
ERF_SMALL_F32 = (
    1.2837912e-01, -3.7612325e-01, 1.128018e-01, -2.671131e-02, 4.9175494e-03, -5.631415e-04,
)  # fmt: skip
ERF_LARGE_F32 = (
    9.995931e-01, 2.1780802e-03, -5.4466524e-03, 8.353237e-03, -8.615318e-03, 6.103245e-03,
    -2.8181754e-03, 5.703722e-04, 2.865077e-04, -2.7890128e-04, 6.1886989e-05, 2.1040783e-05,
    -9.124553e-06,
)  # fmt: skip
# erf(x) / x - 1 in x**2, |x| <= 1: relative error below 2**-62.
_ERF_SMALL_F64 = (
    0.1283791670955126, -0.3761263890318375, 0.11283791670954854, -0.02686617064507233,
    0.005223977624775138, -0.0008548326978400269, 0.00012055331023987196,
    -1.4925593186524433e-05, 1.6460967524298657e-06, -1.634996756623166e-07,
    1.4657482167729802e-08, -1.136409260141745e-09, 5.942542091149331e-11,
)  # fmt: skip
# exp(x**2) erfc(x) in (x - 3) / (x + 3), 1 <= x <= 6.05: error below 2**-61 of erf.
_ERF_LARGE_F64 = (
    0.17900115118138993, -0.32623356004317244, 0.24560380170759688, -0.15011593654609845,
    0.0716658374779481, -0.024392489382997717, 0.004269237175466319, 0.0007083261041129217,
    -0.0005949385324537456, 5.033897003776233e-05, 7.177298765075837e-05,
    -6.335007329873798e-06, -6.546348761166374e-06,
)  # fmt: skip
# (sinh(x) - x) / x**3 in x**2, |x| <= 1: relative error below 2**-63.
_SINH = (
    0.16666666666666669, 0.008333333333333146, 0.00019841269841432675, 2.7557319156806642e-06,
    2.5052123180644173e-08, 1.6057256221356794e-10, 7.75886003005284e-13,
)  # fmt: skip

_PARTS = (
    {
        "t": "f32", "type": "float", "s": "f", "bits": "uint32_t", "mantissa": "23",
        "per_ln2": "1.442695f", "shifter": "12582912.0f", "zero": "0x4B400000u", "bias": "127u",
        "ln2_high": "0.693359375f", "ln2_low": "-0.00021219444f",
        "least": "-104.0f", "most": "89.0f", "offset": "512u", "half_bias": "129u",
        "least_normal": "-87.33654f", "saturated": "-20.0f",
        "biased_shifter": "12583166.0f", "greatest": "0x4B40017Fu", "exponents": "0x7F800000u",
    },
    {
        "t": "f64", "type": "double", "s": "", "bits": "uint64_t", "mantissa": "52",
        "per_ln2": "1.4426950408889634", "shifter": "6755399441055744.0",
        "zero": "UINT64_C(0x4338000000000000)", "bias": "1023u",
        "ln2_high": "0.6931471803691238", "ln2_low": "1.9082149292705877e-10",
        "least": "-746.0", "most": "711.0", "offset": "4096u", "half_bias": "1025u",
        "least_normal": "-708.396418532264", "saturated": "-40.0",
        "biased_shifter": "6755399441057790.0", "greatest": "UINT64_C(0x4338000000000BFF)",
        "exponents": "UINT64_C(0x7FF0000000000000)",
    },
)  # fmt: skip
_EXP = (EXP_F32, _EXP_F64)

_EXPM1_REDUCED = """
static inline $type tasor_expm1_reduced_$t($type high, $type low)
{
    const $type r = high - low;
    $polynomial
    return (p * (r * r) - low) + high;
}
"""

_EXP_SCALED = """
static inline $type tasor_exp_scaled_$t($type x, $type tail, $bits shift)
{
    const $type bounded = x < $least ? $least : x;
    const $type y = bounded > $most ? $most : bounded;
    const $type sum = y * $per_ln2 + $shifter;
    const $type n = sum - $shifter;
    const $type low = n * $ln2_low - tail;
    const $type expm1 = tasor_expm1_reduced_$t(y - n * $ln2_high, low);
    const $bits biased = tasor_bits_$t(sum) - $zero + $offset - shift;
    const $bits half = biased >> 1;
    const $type first = tasor_from_bits_$t((half - $half_bias) << $mantissa);
    const $type second = tasor_from_bits_$t((biased - half - $half_bias) << $mantissa);
    return (1.0$s + expm1) * first * second;
}
"""

# Cut off below, where all are 0, as a number; above, where all are infinite, as the pattern of a
# sum that is positive, which leaves x itself to be infinite or NaN.
_EXP_TEXT = """
static inline $type tasor_exp_$t($type x)
{
    const $type y = x < $least ? $least : x;
    const $type shifter = $biased_shifter;
    const $bits greatest = $greatest;
    const $bits sum = tasor_bits_$t(y * $per_ln2 + shifter);
    const $bits bounded = sum < greatest ? sum : greatest;
    const $type n = tasor_from_bits_$t(bounded) - shifter;
    const $type high = y - n * $ln2_high;
    const $type expm1 = tasor_expm1_reduced_$t(high, n * $ln2_low);
    const $bits half = bounded << ($mantissa - 1) & $exponents;
    const $type first = tasor_from_bits_$t(half);
    const $type second = tasor_from_bits_$t((bounded << $mantissa) - half);
    return (1.0$s + expm1) * first * second;
}
"""

# Of a softmax: what is below the normal numbers is nothing beside the 1 that it adds, but makes the
# arithmetic that follows a hundred times as slow on many processors.
_EXP_NONPOSITIVE = """
static inline $type tasor_exp_nonpositive_$t($type x)
{
    const $type y = x < $least_normal ? 0.0$s : x;
    const $type sum = y * $per_ln2 + $shifter;
    const $type n = sum - $shifter;
    const $type high = y - n * $ln2_high;
    const $type expm1 = tasor_expm1_reduced_$t(high, n * $ln2_low);
    const $bits exponent = tasor_bits_$t(sum) - $zero + $bias;
    const $type scale = tasor_from_bits_$t(exponent << $mantissa);
    return x < $least_normal ? 0.0$s : (1.0$s + expm1) * scale;
}
"""

_EXP_BELOW = """
static inline $type tasor_exp_below_$t($type x, $type *expm1)
{
    const $type y = x < $saturated ? $saturated : x;
    const $type sum = y * $per_ln2 + $shifter;
    const $type n = sum - $shifter;
    const $type low = n * $ln2_low;
    const $type reduced = tasor_expm1_reduced_$t(y - n * $ln2_high, low);
    const $bits exponent = tasor_bits_$t(sum) - $zero + $bias;
    const $type scale = tasor_from_bits_$t(exponent << $mantissa);
    *expm1 = scale * reduced + (scale - 1.0$s);
    return scale * reduced + scale;
}
"""

_SIGMOID = """
static inline $type tasor_sigmoid_$t($type x)
{
    const $type e = tasor_exp_$t(-fabs$s(x));
    return (x < 0.0$s ? e : 1.0$s) / (1.0$s + e);
}
"""

_TANH = """
static inline $type tasor_tanh_$t($type x)
{
    $type expm1;
    const $type twice = -2.0$s * fabs$s(x);
    const $type e = tasor_exp_below_$t(twice, &expm1);
    const int large = twice < -1.25$s;
    const $type quotient = (large ? 2.0$s * e : -expm1) / (1.0$s + e);
    return copysign$s(large ? 1.0$s - quotient : quotient, x);
}
"""

_ERF_F32_TEXT = """
static inline float tasor_erf_f32(float x)
{
    const float y = fabsf(x);
    const float bounded = y > 3.92f ? 3.92f : y;
    const float z = bounded * bounded;
    const float t = bounded - 2.5f;
    $small
    $large
    return copysignf(y < 1.0f ? y * p + y : q, x);
}
"""

_ERF_F64_TEXT = """
static inline double tasor_erf_f64(double x)
{
    const double magnitude = fabs(x);
    const double y = magnitude > 6.0 ? 6.0 : magnitude;
    const double z = y * y;
    const double w = (y - 3.0) / (y + 3.0);
    $small
    $large
    const double tail = 1.0 - tasor_exp_scaled_f64(-z, 0.0, 0u) * q;
    return copysign(y < 1.0 ? y * p + y : tail, x);
}
"""

_SINH_F64_TEXT = """
static inline double tasor_sinh_f64(double x)
{
    const double y = fabs(x);
    const double half = tasor_exp_scaled_f64(y, 0.0, 1u);
    const double z = y * y;
    $polynomial
    return copysign(y < 1.0 ? p * z * y + y : half - 0.25 / half, x);
}
"""

_COSH_F64_TEXT = """
static inline double tasor_cosh_f64(double x)
{
    const double half = tasor_exp_scaled_f64(fabs(x), 0.0, 1u);
    return half + 0.25 / half;
}
"""

_BY_DOUBLE = """
static inline float tasor_${name}_f32(float x)
{
    return (float)tasor_${name}_f64((double)x);
}
"""

ERF_DOC = "odd polynomial below 1, then a polynomial around 5/2; 1 from 3.92 on."
_EXP_DOC = "x = n ln 2 + r with |r| <= ln(2)/2, minimax polynomial in r."


def _either(parts: dict[str, str], coefficients: tuple[float, ...]) -> tuple[CFunction, ...]:
    """The functions that are spelled alike for float and double."""
    return (
        c_function(
            _EXPM1_REDUCED,
            "exp(high - low) - 1 for |high - low| <= ln(2)/2: minimax polynomial.",
            polynomial=polynomial(parts["type"], "p", "r", coefficients),
            **parts,
        ),
        c_function(_EXP_TEXT, f"exp(x): {_EXP_DOC}", 1.0, **parts),
        c_function(
            _EXP_NONPOSITIVE,
            "exp(x) for an x that is NaN or at most 0; 0 below the normal numbers.", 1.0, **parts,
        ),
        c_function(
            _EXP_BELOW, "exp(x) and exp(x) - 1 for x <= 0, x cut off where exp(x) - 1 is -1.",
            **parts,
        ),
        c_function(
            _SIGMOID, "1 / (1 + exp(-x)), from exp(-|x|), which cannot overflow.",
            2.5, **parts,
        ),
        c_function(
            _TANH,
            "tanh(x): (1 - e) / (1 + e) with e = exp(-2|x|), above 5/8 as 1 - 2 e / (1 + e).",
            2.5, **parts,
        ),
    )  # fmt: skip


EXPONENTIAL: tuple[CFunction, ...] = (
    *(
        function
        for parts, coefficients in zip(_PARTS, _EXP, strict=True)
        for function in _either(parts, coefficients)
    ),
    c_function(
        _EXP_SCALED,
        f"exp(x + tail) / 2**shift for a tail of rounding errors: {_EXP_DOC}",
        1.0,
        **_PARTS[1],
    ),
    c_function(
        _ERF_F32_TEXT,
        f"erf(x): {ERF_DOC}",
        2.0,
        small=polynomial("float", "p", "z", ERF_SMALL_F32),
        large=polynomial("float", "q", "t", ERF_LARGE_F32),
    ),
    c_function(
        _ERF_F64_TEXT,
        "erf(x): odd polynomial below 1, then 1 - exp(-x**2) times a polynomial.",
        1.5,
        small=polynomial("double", "p", "z", _ERF_SMALL_F64),
        large=polynomial("double", "q", "w", _ERF_LARGE_F64),
    ),
    c_function(
        _SINH_F64_TEXT,
        "sinh(x): odd polynomial below 1, then (exp(|x|) - exp(-|x|)) / 2 from one exp.",
        2.0,
        polynomial=polynomial("double", "p", "z", _SINH),
    ),
    c_function(_COSH_F64_TEXT, "cosh(x) = (exp(|x|) + exp(-|x|)) / 2 from one exp.", 2.0),
    c_function(_BY_DOUBLE, "sinh(x), computed in double.", 0.6, name="sinh"),
    c_function(_BY_DOUBLE, "cosh(x), computed in double.", 0.6, name="cosh"),
)

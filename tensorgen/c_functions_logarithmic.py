"""C functions of the logarithmic family: log, log1p, asinh, acosh, atanh, pow.

What it does: log and pow of float and log of double without branches; pow of double with a
logarithm of twice the precision. What it does not: call libm beyond what compiles to single
instructions (fabs, sqrt, copysign, rint).

Reduction: x = 2**k m with sqrt(1/2) <= m < sqrt(2), f = m - 1. In double, log(1 + f) is computed
from s = f / (2 + f) as 2 atanh(s), the way P. T. P. Tang and others do. Coefficients are minimax
polynomials found by Remez exchange in 60 digits, weighted for relative error.
"""

from __future__ import annotations

from tensorgen.c_function import CFunction, c_function, polynomial

# (log(1 + f) - f + f**2 / 2) / f**3: relative error of log below 2**-30.
_LOG_F32 = (
    3.3333313e-01, -2.500001e-01, 2.0002124e-01, -1.6668005e-01, 1.4219454e-01,
    -1.24053426e-01, 1.1888693e-01, -1.1677498e-01, 6.747718e-02,
)  # fmt: skip
# (2 atanh(s) - 2 s) / s**3 in s**2: relative error of log below 2**-59.
_LOG_F64 = (
    0.6666666666666735, 0.39999999999411096, 0.28571428743262406, 0.22222198475993993,
    0.18183569739930922, 0.15313903242587365, 0.14797507669045395,
)  # fmt: skip
# (2 atanh(s) / s - 2 - 2 s**2 / 3 - 2 s**4 / 5) / s**6 in s**2: error of log below 2**-72; halved.
_LOG_PAIR = tuple(
    value / 2
    for value in (
        0.2857142857143319, 0.2222222222000124, 0.1818181860723124, 0.15384572754772025,
        0.13335769343814777, 0.11684904070378861, 0.1191219997260372,
    )
)  # fmt: skip

_LOG_F32_TEXT = """
static inline float tasor_log_f32(float x)
{
    const int subnormal = x < 1.17549435e-38f;
    const float scaled = subnormal ? x * 8388608.0f : x;
    const uint32_t bits = tasor_bits_f32(scaled) - 0x3F3504F3u + 0x40000000u;
    const float k = (float)(int32_t)(bits >> 23) - (subnormal ? 151.0f : 128.0f);
    const float f = tasor_from_bits_f32((bits & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
    const float z = f * f;
    $polynomial
    const float low = (p * f * z - k * 0.00021219444f) - 0.5f * z;
    const float logarithm = (f + low) + k * 0.693359375f;
    const float positive = x < INFINITY ? logarithm : x;
    const float of_zero = x == 0.0f ? -INFINITY : positive;
    return x < 0.0f ? NAN : of_zero;
}
"""

_LOG_REDUCED_F64_TEXT = """
static inline double tasor_log_reduced_f64(double f, double k, double tail)
{
    const double s = f / (2.0 + f);
    const double z = s * s;
    const double half = 0.5 * f * f;
    $polynomial
    return k * 0.6931471803691238
        - ((half - (s * (half + p * z) + (k * 1.9082149292705877e-10 + tail))) - f);
}
"""

_SPLIT_F64_TEXT = """
static inline double tasor_split_f64(double x, double *k)
{
    const int subnormal = x < 2.2250738585072014e-308;
    const double scaled = subnormal ? x * 4503599627370496.0 : x;
    const uint64_t bits = tasor_bits_f64(scaled) - UINT64_C(0x3FE6A09E667F3BCD)
        + UINT64_C(0x4000000000000000);
    const uint64_t integer = UINT64_C(0x4330000000000000) | bits >> 52;
    const double biased = tasor_from_bits_f64(integer) - 4503599627370496.0;
    const uint64_t mantissa = (bits & UINT64_C(0x000FFFFFFFFFFFFF)) + UINT64_C(0x3FE6A09E667F3BCD);
    *k = biased - (subnormal ? 1076.0 : 1024.0);
    return tasor_from_bits_f64(mantissa);
}
"""

_LOG_F64_TEXT = """
static inline double tasor_log_f64(double x)
{
    double k;
    const double m = tasor_split_f64(x, &k);
    const double logarithm = tasor_log_reduced_f64(m - 1.0, k, 0.0);
    const double positive = x < (double)INFINITY ? logarithm : x;
    const double of_zero = x == 0.0 ? -(double)INFINITY : positive;
    return x < 0.0 ? (double)NAN : of_zero;
}
"""

_LOG1P_F64_TEXT = """
static inline double tasor_log1p_f64(double x, double tail, double twos)
{
    double k;
    const double sum = 1.0 + x;
    const double m = tasor_split_f64(sum, &k);
    const double error = (tasor_sum_error_f64(1.0, x, sum) + tail) / sum;
    const double logarithm = tasor_log_reduced_f64(m - 1.0, k + twos, error);
    const double positive = sum < (double)INFINITY ? logarithm : sum;
    const double of_zero = sum == 0.0 ? -(double)INFINITY : positive;
    return sum < 0.0 ? (double)NAN : of_zero;
}
"""

_ASINH_F64_TEXT = """
static inline double tasor_asinh_f64(double x)
{
    const double y = fabs(x);
    const int large = y > 1152921504606846976.0;
    const double z = large ? 0.0 : y * y;
    const double rest = z / (1.0 + sqrt(1.0 + z));
    const double sum = y + rest;
    const double tail = large ? 0.0 : tasor_sum_error_f64(y, rest, sum);
    return copysign(tasor_log1p_f64(sum, tail, large ? 1.0 : 0.0), x);
}
"""

_ACOSH_F64_TEXT = """
static inline double tasor_acosh_f64(double x)
{
    const int large = x > 1152921504606846976.0;
    const double y = x - 1.0;
    const double bounded = large ? 0.0 : y;
    const double root = sqrt(bounded * bounded + 2.0 * bounded);
    const double sum = y + root;
    const double tail = large ? 0.0 : tasor_sum_error_f64(y, root, sum);
    return x < 1.0 ? (double)NAN : tasor_log1p_f64(sum, tail, large ? 1.0 : 0.0);
}
"""

_ATANH_F64_TEXT = """
static inline double tasor_atanh_f64(double x)
{
    const double y = fabs(x);
    return copysign(0.5 * tasor_log1p_f64(2.0 * y / (1.0 - y), 0.0, 0.0), x);
}
"""

_LOG_PAIR_TEXT = """
static inline double tasor_log_pair_f64(double x, double *low)
{
    double k, product_low, z_low, u_low, log_low;
    const double m = tasor_split_f64(x, &k);
    const double numerator = m - 1.0;
    const double denominator = m + 1.0;
    const double denominator_low = tasor_sum_error_f64(m, 1.0, denominator);
    const double s = numerator / denominator;
    const double product = tasor_product_pair_f64(s, 0.0, denominator, 0.0, &product_low);
    const double s_low = ((numerator - product) - product_low - s * denominator_low) / denominator;
    const double z = tasor_product_pair_f64(s, s_low, s, s_low, &z_low);
    $polynomial
    double u = tasor_sum_pair_f64(0.2, -1.1102230246251566e-17, p * z, 0.0, &u_low);
    u = tasor_product_pair_f64(u, u_low, z, z_low, &u_low);
    u = tasor_sum_pair_f64(0.3333333333333333, 1.850371707708594e-17, u, u_low, &u_low);
    u = tasor_product_pair_f64(u, u_low, z, z_low, &u_low);
    u = tasor_product_pair_f64(u, u_low, s, s_low, &u_low);
    u = tasor_sum_pair_f64(s, s_low, u, u_low, &u_low);
    u = tasor_sum_pair_f64(k * 0.6931471803691238, k * 1.9082149292705877e-10,
                           2.0 * u, 2.0 * u_low, &log_low);
    *low = log_low + k * 1.1612227229362532e-26;
    return u;
}
"""

_POW_F64_TEXT = """
static inline double tasor_pow_f64(double x, double y)
{
    const double magnitude = fabs(x);
    const int integer = rint(y) == y;
    const int odd = integer && rint(0.5 * y) != 0.5 * y;
    const int negative = odd && tasor_bits_f64(x) >> 63 != 0u;
    double power, low;
    if (y == 0.0 || x == 1.0) {
        return 1.0;
    }
    if (x != x || y != y) {
        return x + y;
    }
    if (x < 0.0 && !integer && magnitude < (double)INFINITY) {
        return (double)NAN;
    }
    if (magnitude == 1.0) {
        power = 1.0;
    } else if (magnitude == 0.0 || magnitude == (double)INFINITY) {
        power = (magnitude == 0.0) == (y < 0.0) ? (double)INFINITY : 0.0;
    } else {
        const double floor_y = y < -3.6893488147419103e+19 ? -3.6893488147419103e+19 : y;
        const double bounded = floor_y > 3.6893488147419103e+19 ? 3.6893488147419103e+19 : floor_y;
        const double logarithm = tasor_log_pair_f64(magnitude, &low);
        const double product = tasor_product_pair_f64(bounded, 0.0, logarithm, low, &low);
        power = tasor_exp_scaled_f64(product, fabs(product) < 1024.0 ? low : 0.0, 0u);
    }
    return negative ? -power : power;
}
"""

_POW_F32_TEXT = """
static inline float tasor_pow_f32(float x, float y)
{
    const float magnitude = fabsf(x);
    const double exponent = (double)y * tasor_log_f64((double)magnitude);
    const float positive = (float)tasor_exp_f64(exponent);
    const int integer = rintf(y) == y;
    const int odd = integer & (rintf(0.5f * y) != 0.5f * y);
    const uint32_t sign = (uint32_t)odd << 31 & tasor_bits_f32(x);
    const float of_one = magnitude == 1.0f ? 1.0f : positive;
    const float power = tasor_from_bits_f32(tasor_bits_f32(of_one) | sign);
    const int undefined = (x < 0.0f) & (magnitude < INFINITY) & !integer;
    const float general = undefined ? NAN : power;
    return ((y == 0.0f) | (x == 1.0f)) != 0 ? 1.0f : general;
}
"""

_BY_DOUBLE = """
static inline float tasor_${name}_f32(float x)
{
    return (float)tasor_${name}_f64((double)x);
}
"""

LOGARITHMIC: tuple[CFunction, ...] = (
    c_function(
        _LOG_F32_TEXT,
        "log(x): x = 2**k (1 + f), minimax polynomial in f.",
        1.0,
        polynomial=polynomial("float", "p", "f", _LOG_F32),
    ),
    c_function(
        _LOG_REDUCED_F64_TEXT,
        "log(1 + f) + k ln 2 + tail: 2 atanh(s) with s = f / (2 + f), minimax polynomial in s**2.",
        polynomial=polynomial("double", "p", "z", _LOG_F64),
    ),
    c_function(
        _SPLIT_F64_TEXT, "The m of x = 2**k m with sqrt(1/2) <= m < sqrt(2), for positive finite x."
    ),
    c_function(_LOG_F64_TEXT, "log(x): x = 2**k (1 + f), polynomial in f / (2 + f).", 1.0),
    c_function(
        _LOG1P_F64_TEXT,
        "log(1 + x + tail) + twos ln 2 for a tail below 1 ulp of x; the rounding of 1 + x is made"
        " good.",
    ),
    c_function(
        _ASINH_F64_TEXT,
        "asinh(x) = log1p(|x| + x**2 / (1 + sqrt(1 + x**2))), log(2|x|) above 2**60.",
        2.0,
    ),
    c_function(
        _ACOSH_F64_TEXT,
        "acosh(x) = log1p(y + sqrt(y**2 + 2 y)) with y = x - 1, log(2 x) above 2**60.",
        2.0,
    ),
    c_function(_ATANH_F64_TEXT, "atanh(x) = log1p(2|x| / (1 - |x|)) / 2.", 2.0),
    c_function(
        _LOG_PAIR_TEXT,
        "log(x) as high and low part, to 2**-66, for positive finite x: 2 atanh(s) in pairs.",
        polynomial=polynomial("double", "p", "z", _LOG_PAIR),
    ),
    c_function(
        _POW_F64_TEXT,
        "x to the power y: exp(y log(x)) with log(x) to 66 bits; special values as in C99 annex F.",
        1.0,
    ),
    c_function(
        _POW_F32_TEXT,
        "x to the power y: exp(y log(x)) in double; special values as in C99 annex F.",
        0.6,
    ),
    c_function(_BY_DOUBLE, "asinh(x), computed in double.", 0.6, name="asinh"),
    c_function(_BY_DOUBLE, "acosh(x), computed in double.", 0.6, name="acosh"),
    c_function(_BY_DOUBLE, "atanh(x), computed in double.", 0.6, name="atanh"),
)  # fmt: skip

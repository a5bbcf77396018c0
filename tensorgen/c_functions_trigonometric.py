"""C functions of the trigonometric family: sin, cos, tan, asin, acos, atan.

What it does: right results for every finite argument, however large; the float versions are
branch-free. What it does not: call libm beyond what compiles to single instructions (fabs, sqrt,
copysign).

Reduction of |x| to r = |x| - q pi/2 with |r| <= pi/4. Float: |x| times 2/pi modulo 4, from a table
with one entry for each exponent of x; the modulus removes the leading bits of 2/pi that give only
whole turns, after the idea of M. Payne and R. Hanek, "Radian reduction for trigonometric
functions", 1983. Double: pi/2 in four parts below 2**20 (W. J. Cody, W. Waite, 1980), Payne and
Hanek in integers above. Coefficients are minimax polynomials found by Remez exchange in 60 digits,
weighted for relative error.
"""

from __future__ import annotations

from tensorgen.c_function import CFunction, c_function, float_literal, initializer, polynomial

_TWO_OVER_PI_BITS = 1184
_TWO_OVER_PI = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0"
    "06492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F4"
    "9C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D"
    "7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046",
    16,
)
"""The first 1184 bits of 2/pi = 0.6366..."""

# (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2, |r| <= pi/4: relative errors of
# sin below 2**-27 and 2**-57, of cos below 2**-33 and 2**-63.
_SIN_F32 = (-1.6666655e-01, 8.332158e-03, -1.9514957e-04)
_COS_F32 = (4.1666646e-02, -1.3887313e-03, 2.4432788e-05)
_SIN_F64 = (
    -0.1666666666666663, 0.008333333333322063, -0.00019841269829543186, 2.755731360471646e-06,
    -2.5050745066482096e-08, 1.589606912075468e-10,
)  # fmt: skip
_COS_F64 = (
    0.041666666666666595, -0.0013888888888872978, 2.4801587288800546e-05,
    -2.755731416411804e-07, 2.0875698726814425e-09, -1.1358424423363502e-11,
)  # fmt: skip
# (asin(r) - r) / r**3 in r**2, |r| <= 1/2: relative errors of asin below 2**-27 and 2**-59.
_ASIN_F32 = (1.6666754e-01, 7.4952796e-02, 4.5472857e-02, 2.4166312e-02, 4.219027e-02)
_ASIN_F64 = (
    0.16666666666666763, 0.07499999999970469, 0.044642857174945566, 0.030381942690984366,
    0.0223722154817503, 0.0173516027867835, 0.01398093515072737, 0.011397943305884816,
    0.01078585211070587, 0.003684641930159878, 0.021761867668965693, -0.021078092560539077,
    0.032679280697400934,
)  # fmt: skip
# (atan(r) - r) / r**3 in r**2, |r| <= tan(pi/8): relative errors of atan below 2**-30 and 2**-59.
_ATAN_F32 = (-3.3333316e-01, 1.9998465e-01, -1.4243424e-01, 1.05929546e-01, -6.0759354e-02)
_ATAN_F64 = (
    -0.3333333333333319, 0.1999999999995282, -0.14285714280121287, 0.11111110779796282,
    -0.09090897654997683, 0.0769205842880064, -0.0666308415162002, 0.05847747038430241,
    -0.05038673358260787, 0.038048732847924746, -0.017890079265366482,
)  # fmt: skip

_LEAST_EXPONENT = 152  # smaller ones need no modulus
_GREATEST_EXPONENT = 254


def _turns_tables() -> tuple[str, str]:
    """For each exponent e of a float, (u 2/pi mod 4) / u in two parts, where u = 2**(e - 150).

    A float of that exponent is an integer times u, so the modulus drops whole turns only. The high
    part has 28 bits, so that its product with a float is exact in double.
    """
    high, low = [], []
    for exponent in range(_LEAST_EXPONENT, _GREATEST_EXPONENT + 1):
        kept = _TWO_OVER_PI % 2 ** (_TWO_OVER_PI_BITS - (exponent - 150) + 2)
        rest_bits = max(kept.bit_length() - 28, 0)
        top = kept >> rest_bits << rest_bits
        high.append(float_literal(top / 2**_TWO_OVER_PI_BITS, "double"))
        low.append(float_literal((kept - top) / 2**_TWO_OVER_PI_BITS, "double"))
    return initializer(high), initializer(low)


def _digits() -> str:
    """2/pi in words of 32 bits, after two words of zeros for the digits before the point."""
    count = _TWO_OVER_PI_BITS // 32
    words = [_TWO_OVER_PI >> 32 * (count - 1 - i) & 0xFFFFFFFF for i in range(count)]
    return initializer(f"0x{word:08X}u" for word in (0, 0, *words))


_TURNS_F32_TEXT = """
static inline double tasor_quarter_turns_f32(float x, uint32_t *quadrant)
{
    static const double high[$count] = {
$high
    };
    static const double low[$count] = {
$low
    };
    const uint32_t exponent = tasor_bits_f32(x) >> 23 & 0xFFu;
    const uint32_t at_least = exponent < ${least}u ? ${least}u : exponent;
    const uint32_t bounded = at_least > ${greatest}u ? ${greatest}u : at_least;
    const uint64_t row = (uint64_t)bounded - ${least}u;
    const double y = (double)fabsf(x);
    const double turns = y * high[row];
    const double rest = y * low[row];
    const double sum = (turns + rest) + 6755399441055744.0;
    *quadrant = (uint32_t)tasor_bits_f64(sum);
    return ((turns - (sum - 6755399441055744.0)) + rest) * 1.5707963267948966;
}
"""

_SIN_COS_F32_TEXT = """
static inline float tasor_sin_cos_f32(float r, uint32_t quadrant, uint32_t sign)
{
    const float z = r * r;
    $sin
    $cos
    const float sine = p * z * r + r;
    const float cosine = q * z * z + (1.0f - 0.5f * z);
    const uint32_t bits = tasor_bits_f32((quadrant & 1u) != 0u ? cosine : sine);
    return tasor_from_bits_f32(bits ^ (quadrant & 2u) << 30 ^ sign);
}
"""

_SIN_F32_TEXT = """
static inline float tasor_sin_f32(float x)
{
    uint32_t quadrant;
    const float r = (float)tasor_quarter_turns_f32(x, &quadrant);
    return tasor_sin_cos_f32(r, quadrant, tasor_bits_f32(x) & 0x80000000u);
}
"""

_COS_F32_TEXT = """
static inline float tasor_cos_f32(float x)
{
    uint32_t quadrant;
    const float r = (float)tasor_quarter_turns_f32(x, &quadrant);
    return tasor_sin_cos_f32(r, quadrant + 1u, 0u);
}
"""

_TAN_F32_TEXT = """
static inline float tasor_tan_f32(float x)
{
    uint32_t quadrant;
    double low;
    const double r = tasor_quarter_turns_f32(x, &quadrant);
    const double sine = tasor_sin_reduced_f64(r, 0.0, &low);
    const double cosine = tasor_cos_reduced_f64(r, 0.0, &low);
    const int odd = (quadrant & 1u) != 0u;
    const float tangent = (float)((odd ? -cosine : sine) / (odd ? sine : cosine));
    return tasor_from_bits_f32(tasor_bits_f32(tangent) ^ (tasor_bits_f32(x) & 0x80000000u));
}
"""

_TURNS_LARGE_F64_TEXT = """
static inline double tasor_quarter_turns_large_f64(double x, double *tail, uint32_t *quadrant)
{
    static const uint32_t digits[$count] = {
$digits
    };
    const uint64_t bits = tasor_bits_f64(x);
    const uint32_t shift = (uint32_t)(bits >> 52) - 1043u;
    const uint32_t *const first = digits + (shift >> 5);
    const uint64_t mantissa = (bits & UINT64_C(0x000FFFFFFFFFFFFF)) | UINT64_C(0x0010000000000000);
    const uint64_t low = mantissa & 0xFFFFFFFFu;
    const uint64_t high = mantissa >> 32;
    uint64_t words[9];
    uint64_t carry = 0u;
    uint32_t negative;
    double value[5], sum, rest, turns;
    int i;
    words[8] = 0u;
    for (i = 7; i >= 0; --i) {
        const uint64_t a = low * first[i];
        const uint64_t b = i < 7 ? high * first[i + 1] : 0u;
        const uint64_t word = (a & 0xFFFFFFFFu) + (b & 0xFFFFFFFFu) + carry;
        words[i] = word & 0xFFFFFFFFu;
        carry = (word >> 32) + (a >> 32) + (b >> 32);
    }
    for (i = 0; i < 8; ++i) {
        words[i] = (words[i] << 32 | words[i + 1]) << (shift & 31u) >> 32;
    }
    negative = words[1] >> 31 != 0u;
    *quadrant = (uint32_t)words[0] + negative;
    for (i = 0; i < 5; ++i) {
        const uint64_t word = negative != 0u ? words[i + 1] ^ 0xFFFFFFFFu : words[i + 1];
        value[i] = (double)word * tasor_from_bits_f64((uint64_t)(991 - 32 * i) << 52);
    }
    sum = value[0];
    rest = 0.0;
    for (i = 1; i < 5; ++i) {
        const double next = sum + value[i];
        rest += tasor_sum_error_f64(sum, value[i], next);
        sum = next;
    }
    turns = tasor_product_pair_f64(sum, rest, 1.5707963267948966, 6.123233995736766e-17, &rest);
    *tail = negative != 0u ? -rest : rest;
    return negative != 0u ? -turns : turns;
}
"""

_TURNS_F64_TEXT = """
static inline double tasor_quarter_turns_f64(double x, double *tail, uint32_t *quadrant)
{
    const double y = fabs(x);
    if (!(y < 1048576.0)) {
        if (!(y < (double)INFINITY)) {
            *tail = 0.0;
            *quadrant = 0u;
            return y - y;
        }
        return tasor_quarter_turns_large_f64(y, tail, quadrant);
    }
    {
        const double turns = y * 0.6366197723675814 + 6755399441055744.0;
        const double n = turns - 6755399441055744.0;
        const double r = y - n * 1.5707963267341256;
        const double second = n * -6.077100506303966e-11;
        const double third = n * -2.0222662487111665e-21;
        const double sum = r + second;
        const double next = sum + third;
        const double rest = tasor_sum_error_f64(r, second, sum)
            + tasor_sum_error_f64(sum, third, next) - n * 8.4784276603689e-32;
        const double high = next + rest;
        *quadrant = (uint32_t)tasor_bits_f64(turns);
        *tail = tasor_sum_error_f64(next, rest, high);
        return high;
    }
}
"""

_SIN_REDUCED_TEXT = """
static inline double tasor_sin_reduced_f64(double r, double tail, double *low)
{
    const double z = r * r;
    $polynomial
    const double rest = p * z * r + tail * (1.0 - 0.5 * z);
    const double high = r + rest;
    *low = rest - (high - r);
    return high;
}
"""

_COS_REDUCED_TEXT = """
static inline double tasor_cos_reduced_f64(double r, double tail, double *low)
{
    const double z = r * r;
    const double half = 0.5 * z;
    const double most = 1.0 - half;
    $polynomial
    const double rest = ((1.0 - most) - half) + (p * z * z - r * tail);
    const double high = most + rest;
    *low = rest - (high - most);
    return high;
}
"""

_SIN_COS_F64_TEXT = """
static inline double tasor_sin_cos_f64(double x, uint32_t quarters, uint64_t sign)
{
    double tail, low;
    uint32_t quadrant;
    const double r = tasor_quarter_turns_f64(x, &tail, &quadrant);
    const double sine = tasor_sin_reduced_f64(r, tail, &low);
    const double cosine = tasor_cos_reduced_f64(r, tail, &low);
    const uint32_t shifted = quadrant + quarters;
    const uint64_t bits = tasor_bits_f64((shifted & 1u) != 0u ? cosine : sine);
    return tasor_from_bits_f64(bits ^ (uint64_t)(shifted & 2u) << 62 ^ sign);
}
"""

_SIN_F64_TEXT = """
static inline double tasor_sin_f64(double x)
{
    return tasor_sin_cos_f64(x, 0u, tasor_bits_f64(x) & UINT64_C(0x8000000000000000));
}
"""

_COS_F64_TEXT = """
static inline double tasor_cos_f64(double x)
{
    return tasor_sin_cos_f64(x, 1u, 0u);
}
"""

_TAN_F64_TEXT = """
static inline double tasor_tan_f64(double x)
{
    double tail, sine_low, cosine_low;
    uint32_t quadrant;
    const double r = tasor_quarter_turns_f64(x, &tail, &quadrant);
    const double sine = tasor_sin_reduced_f64(r, tail, &sine_low);
    const double cosine = tasor_cos_reduced_f64(r, tail, &cosine_low);
    const int odd = (quadrant & 1u) != 0u;
    const double divisor = odd ? sine : cosine;
    const double quotient = (odd ? -cosine : sine) / divisor;
    const double rest = (odd ? -cosine_low : sine_low) - quotient * (odd ? sine_low : cosine_low);
    const double tangent = quotient + rest / divisor;
    const uint64_t sign = tasor_bits_f64(x) & UINT64_C(0x8000000000000000);
    return tasor_from_bits_f64(tasor_bits_f64(tangent) ^ sign);
}
"""

_ASIN_EXCESS = """
static inline $type tasor_asin_excess_$t($type r, $type z)
{
    $polynomial
    return p * z * r;
}
"""

_ASIN_TEXT = """
static inline $type tasor_asin_$t($type x)
{
    const $type y = fabs$s(x);
    const $type z = y > 0.5$s ? 0.5$s * (1.0$s - y) : y * y;
    const $type r = y > 0.5$s ? sqrt$s(z) : y;
    const $type excess = tasor_asin_excess_$t(r, z);
    const $type rest = ($quarter_pi - 2.0$s * r) - (2.0$s * excess - $half_pi_low);
    return copysign$s(y > 0.5$s ? $quarter_pi + rest : r + excess, x);
}
"""

_ACOS_TEXT = """
static inline $type tasor_acos_$t($type x)
{
    const $type y = fabs$s(x);
    const $type z = y > 0.5$s ? 0.5$s * (1.0$s - y) : y * y;
    const $type r = y > 0.5$s ? sqrt$s(z) : x;
    const $type angle = r + tasor_asin_excess_$t(r, z);
    const $type obtuse = 2.0$s * ($half_pi - (angle - $half_pi_low));
    const $type large = x < 0.0$s ? obtuse : 2.0$s * angle;
    return y > 0.5$s ? large : $half_pi - (angle - $half_pi_low);
}
"""

_ATAN_TEXT = """
static inline $type tasor_atan_$t($type x)
{
    const $type y = fabs$s(x);
    const $type numerator = y > 2.4142135$s ? -1.0$s : y - 1.0$s;
    const $type denominator = y > 2.4142135$s ? y : y + 1.0$s;
    const $type base = y > 2.4142135$s ? $half_pi : $quarter_pi;
    const $type base_low = y > 2.4142135$s ? $half_pi_low : $quarter_pi_low;
    const $type r = y < 0.41421356$s ? y : numerator / denominator;
    const $type z = r * r;
    $polynomial
    const $type rest = p * z * r;
    const $type angle = y < 0.41421356$s ? rest + r : base + (r + (rest + base_low));
    return copysign$s(angle, x);
}
"""

_PARTS = (
    {
        "t": "f32", "type": "float", "s": "f",
        "half_pi": "1.5707964f", "half_pi_low": "-4.371139e-08f",
        "quarter_pi": "0.7853982f", "quarter_pi_low": "-2.1855694e-08f",
    },
    {
        "t": "f64", "type": "double", "s": "",
        "half_pi": "1.5707963267948966", "half_pi_low": "6.123233995736766e-17",
        "quarter_pi": "0.7853981633974483", "quarter_pi_low": "3.061616997868383e-17",
    },
)  # fmt: skip
_ASIN = (_ASIN_F32, _ASIN_F64)
_ATAN = (_ATAN_F32, _ATAN_F64)

_HIGH, _LOW = _turns_tables()

_FLOAT = (
    c_function(
        _TURNS_F32_TEXT,
        "|x| less the nearest multiple q of pi/2, for every finite x; NaN otherwise.",
        count=str(_GREATEST_EXPONENT - _LEAST_EXPONENT + 1),
        high=_HIGH,
        low=_LOW,
        least=str(_LEAST_EXPONENT),
        greatest=str(_GREATEST_EXPONENT),
    ),
    c_function(
        _SIN_COS_F32_TEXT,
        "sin(r + quadrant pi/2) for |r| <= pi/4, its sign bit flipped by that of `sign`.",
        sin=polynomial("float", "p", "z", _SIN_F32),
        cos=polynomial("float", "q", "z", _COS_F32),
    ),
    c_function(_SIN_F32_TEXT, "sin(x): reduced modulo pi/2 in double, minimax polynomial.", 2.0),
    c_function(_COS_F32_TEXT, "cos(x): reduced modulo pi/2 in double, minimax polynomial.", 2.0),
    c_function(_TAN_F32_TEXT, "tan(x) = sin(x) / cos(x), computed in double.", 0.6),
)

_DOUBLE = (
    c_function(
        _TURNS_LARGE_F64_TEXT,
        "x less the nearest multiple q of pi/2 as high and low part, 2**20 <= x: Payne-Hanek.",
        count=str(_TWO_OVER_PI_BITS // 32 + 2),
        digits=_digits(),
    ),
    c_function(
        _TURNS_F64_TEXT,
        "|x| less the nearest multiple q of pi/2 as high and low part; NaN unless x is finite.",
    ),
    c_function(
        _SIN_REDUCED_TEXT,
        "sin(r + tail) for |r| <= pi/4, and what it lacks: minimax polynomial.",
        polynomial=polynomial("double", "p", "z", _SIN_F64),
    ),
    c_function(
        _COS_REDUCED_TEXT,
        "cos(r + tail) for |r| <= pi/4, and what it lacks: minimax polynomial.",
        polynomial=polynomial("double", "p", "z", _COS_F64),
    ),
    c_function(
        _SIN_COS_F64_TEXT,
        "sin(|x| + quarters pi/2), its sign bit flipped by that of `sign`.",
    ),
    c_function(_SIN_F64_TEXT, "sin(x): reduced modulo pi/2 in pairs, minimax polynomial.", 1.0),
    c_function(_COS_F64_TEXT, "cos(x): reduced modulo pi/2 in pairs, minimax polynomial.", 1.0),
    c_function(_TAN_F64_TEXT, "tan(x) = sin(x) / cos(x), each with what it lacks.", 2.0),
)


def _inverse(
    parts: dict[str, str], asin: tuple[float, ...], atan: tuple[float, ...]
) -> tuple[CFunction, ...]:
    return (
        c_function(
            _ASIN_EXCESS,
            "asin(r) - r for |r| <= 1/2 and z = r**2: odd minimax polynomial.",
            polynomial=polynomial(parts["type"], "p", "z", asin),
            **parts,
        ),
        c_function(
            _ASIN_TEXT, "asin(x), above 1/2 as pi/2 - 2 asin(sqrt((1 - |x|) / 2)).", 1.5, **parts
        ),
        c_function(_ACOS_TEXT, "acos(x), above 1/2 as 2 asin(sqrt((1 - |x|) / 2)).", 1.5, **parts),
        c_function(
            _ATAN_TEXT,
            "atan(x): |x| brought below tan(pi/8) by subtracting pi/4 or pi/2, odd polynomial.",
            2.0,
            polynomial=polynomial(parts["type"], "p", "z", atan),
            **parts,
        ),
    )


TRIGONOMETRIC: tuple[CFunction, ...] = (
    *_FLOAT,
    *_DOUBLE,
    *(
        function
        for parts, asin, atan in zip(_PARTS, _ASIN, _ATAN, strict=True)
        for function in _inverse(parts, asin, atan)
    ),
)

"""C functions of floating-point arithmetic: bits, rounding, remainders, order, predicates.

What it does: gives the operations that C99 leaves to libm calls, or defines otherwise than numpy
and ONNX do, and the error-free sums and products that the accurate functions are built on.
What it does not: approximate anything; every result here is exact or correctly rounded.

Error-free transformations: T. J. Dekker, "A floating-point technique for extending the available
precision", 1971; D. E. Knuth, TAOCP 2, 4.2.2. The product adds up products of half-width parts,
which are exact, and splits by clearing bits: fused multiply-adds would spoil both the error of a
rounded product and Veltkamp's splitting.
"""

from __future__ import annotations

from tensorgen.c_function import CFunction, c_function

_TYPES = (
    {"t": "f32", "type": "float", "bits": "uint32_t", "s": "f"},
    {"t": "f64", "type": "double", "bits": "uint64_t", "s": ""},
)


def _bit_casts(parts: dict[str, str]) -> tuple[CFunction, ...]:
    return (
        c_function(
            """
static inline $bits tasor_bits_$t($type x)
{
    $bits bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
""",
            f"The bit pattern of a {parts['type']}.",
            **parts,
        ),
        c_function(
            """
static inline $type tasor_from_bits_$t($bits bits)
{
    $type x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
""",
            f"The {parts['type']} of a bit pattern.",
            **parts,
        ),
    )


def _wrapper(name: str, c99: str, doc: str, ulp: float, parts: dict[str, str]) -> CFunction:
    text = """
static inline $type tasor_${name}_$t($type x)
{
    return $c99$s(x);
}
"""
    return c_function(text, doc, ulp, name=name, c99=c99, **parts)


def _unary(parts: dict[str, str]) -> tuple[CFunction, ...]:
    return (
        _wrapper("floor", "floor", "The greatest integer of at most x.", 0, parts),
        _wrapper("ceil", "ceil", "The least integer of at least x.", 0, parts),
        _wrapper("trunc", "trunc", "x without its fraction.", 0, parts),
        _wrapper("round", "rint", "The integer nearest to x, halves to even.", 0, parts),
        _wrapper("abs", "fabs", "The magnitude of x.", 0, parts),
        _wrapper("sqrt", "sqrt", "The square root of x, correctly rounded.", 0.5, parts),
        c_function(
            """
static inline $type tasor_sign_$t($type x)
{
    const $type of_negative = x < 0.0$s ? -1.0$s : x + 0.0$s;
    return x > 0.0$s ? 1.0$s : of_negative;
}
""",
            "-1, 0 or 1; NaN of NaN.",
            0,
            **parts,
        ),
    )


_QUOTIENT_DOC = (
    "x / y for a y > 0 not too far from 1 and its correctly rounded reciprocal; correctly rounded, "
    "too, unless x is below {least} in magnitude (Markstein's theorem)."
)


def _infinity(parts: dict[str, str]) -> str:
    return "(double)INFINITY" if parts["t"] == "f64" else "INFINITY"


def _predicates(parts: dict[str, str]) -> tuple[CFunction, ...]:
    text = """
static inline uint8_t tasor_${name}_$t($type x)
{
    return (uint8_t)($condition);
}
"""
    infinity = _infinity(parts)
    conditions = (
        ("isnan", "x != x", "1 if x is NaN, else 0."),
        ("isinf", f"x == {infinity} || x == -{infinity}", "1 if x is infinite, else 0."),
        ("isposinf", f"x == {infinity}", "1 if x is plus infinity, else 0."),
        ("isneginf", f"x == -{infinity}", "1 if x is minus infinity, else 0."),
    )
    return tuple(
        c_function(text, doc, name=name, condition=condition, **parts)
        for name, condition, doc in conditions
    )


def _binary(parts: dict[str, str]) -> tuple[CFunction, ...]:
    # y is what is new in a reduction and often a constant elsewhere: what is asked of it alone does
    # not wait for x, or is known.
    order = """
static inline $type tasor_${name}_$t($type x, $type y)
{
    const $type ordered = y $sign x ? y : x;
    return y != y ? y : ordered;
}
"""
    return (
        c_function(
            order, "The greater of x and y; NaN if either is NaN.", 0, name="max", sign=">", **parts
        ),
        c_function(
            order, "The lesser of x and y; NaN if either is NaN.", 0, name="min", sign="<", **parts
        ),
        # Where the quotient is exact the excess is +0, and -0 is added, which keeps a quotient of
        # -0. gcc would lose that sign with the minus before the excess.
        c_function(
            """
static inline $type tasor_quotient_$t($type x, $type y, $type reciprocal)
{
    const $type near = x * reciprocal;
    const $type excess = fma$s(near, y, -x);
    return fabs$s(near) < $infinity ? fma$s(excess, -reciprocal, near) : near;
}
""",
            _QUOTIENT_DOC.format(least="2**-100" if parts["t"] == "f32" else "2**-968"),
            1.0,
            infinity=_infinity(parts),
            **parts,
        ),
        c_function(
            """
static inline $type tasor_reciprocal_rest_$t($type y, $type reciprocal)
{
    return fma$s(-reciprocal, y, 1.0$s) * reciprocal;
}
""",
            "What 1 / y is beyond its correctly rounded value.",
            None,
            **parts,
        ),
        c_function(
            """
static inline $type tasor_rescaled_$t($type x, $type factor, $type rest)
{
    return fma$s(x, factor, x * rest);
}
""",
            "x * (factor + rest) for a rest that is about the rounding of the factor.",
            None,
            **parts,
        ),
        c_function(
            """
static inline $type tasor_max_number_$t($type x, $type y)
{
    return y > x ? y : x;
}
""",
            "The greater of x and y; x if either is NaN.",
            0,
            **parts,
        ),
        c_function(
            """
static inline $type tasor_mod_$t($type x, $type y)
{
    const $type remainder = tasor_fmod_$t(x, y);
    if (remainder == 0.0$s) {
        return copysign$s(0.0$s, y);
    }
    return (remainder < 0.0$s) != (y < 0.0$s) ? remainder + y : remainder;
}
""",
            "The remainder with the sign of the divisor, as Python has it: fmod, and y added where"
            " the signs differ.",
            0.5,
            **parts,
        ),
    )


_FMOD = (
    c_function(
        """
static inline double tasor_fmod_f64(double x, double y)
{
    const uint64_t magnitude = UINT64_C(0x7FFFFFFFFFFFFFFF);
    const uint64_t infinity = UINT64_C(0x7FF0000000000000);
    const uint64_t implicit = UINT64_C(0x0010000000000000);
    const uint64_t a = tasor_bits_f64(x) & magnitude;
    const uint64_t b = tasor_bits_f64(y) & magnitude;
    uint64_t exponent = a >> 52;
    uint64_t least = b >> 52;
    uint64_t rest = a & (implicit - 1u);
    uint64_t divisor = b & (implicit - 1u);
    double scaled;
    if (b == 0u || a >= infinity || b > infinity) {
        return (x * y) / (x * y);
    }
    if (a < b) {
        return x;
    }
    rest |= exponent == 0u ? 0u : implicit;
    divisor |= least == 0u ? 0u : implicit;
    exponent += exponent == 0u;
    least += least == 0u;
    rest %= divisor;
    while (exponent > least && rest != 0u) {
        const uint64_t step = exponent - least < 11u ? exponent - least : 11u;
        rest = (rest << step) % divisor;
        exponent -= step;
    }
    scaled = (double)rest * tasor_from_bits_f64(((least >> 1) + 485u) << 52);
    scaled *= tasor_from_bits_f64((least - (least >> 1) + 486u) << 52);
    return copysign(scaled, x);
}
""",
        "The remainder with the sign of the dividend, as C has it: long division, 11 bits a step.",
        0,
    ),
    c_function(
        """
static inline float tasor_fmod_f32(float x, float y)
{
    return (float)tasor_fmod_f64((double)x, (double)y);
}
""",
        "The remainder with the sign of the dividend, as C has it: exact in double.",
        0,
    ),
)

_ERROR_FREE = (
    c_function(
        """
static inline double tasor_sum_error_f64(double x, double y, double sum)
{
    const double part = sum - x;
    return (x - (sum - part)) + (y - part);
}
""",
        "What the rounded sum of x and y lacks (Knuth's two-sum).",
    ),
    c_function(
        """
static inline double tasor_sum_pair_f64(double x, double x_low, double y, double y_low,
                                        double *low)
{
    const double sum = x + y;
    const double rest = tasor_sum_error_f64(x, y, sum) + (x_low + y_low);
    const double high = sum + rest;
    *low = tasor_sum_error_f64(sum, rest, high);
    return high;
}
""",
        "The sum of two numbers given as high and low part.",
    ),
    c_function(
        """
static inline double tasor_product_pair_f64(double x, double x_low, double y, double y_low,
                                            double *low)
{
    const uint64_t high_half = UINT64_C(0xFFFFFFFFF8000000);
    const double x_high = tasor_from_bits_f64(tasor_bits_f64(x) & high_half);
    const double y_high = tasor_from_bits_f64(tasor_bits_f64(y) & high_half);
    const double x_rest = (x - x_high) + x_low;
    const double y_rest = (y - y_high) + y_low;
    const double product = x_high * y_high;
    const double rest = x_high * y_rest + x_rest * y_high + x_rest * y_rest;
    const double high = product + rest;
    *low = rest - (high - product);
    return high;
}
""",
        "The product of two numbers given as high and low part.",
    ),
)

ARITHMETIC: tuple[CFunction, ...] = (
    *(function for parts in _TYPES for function in _bit_casts(parts)),
    *_ERROR_FREE,
    *_FMOD,
    *(function for parts in _TYPES for function in _unary(parts)),
    *(function for parts in _TYPES for function in _binary(parts)),
    *(function for parts in _TYPES for function in _predicates(parts)),
)

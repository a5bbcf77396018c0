"""C functions of integer arithmetic, one set for each integer type, free of undefined behaviour.

What it does: gives wrapping arithmetic modulo 2**bits, division with either rounding, powers and
shifts, all defined for every operand. What it does not: report overflow or division by zero.

Defined here where C is silent: division and remainder by zero give 0; the lowest value divided by
-1 wraps; a shift count outside 0 ... bits - 1 gives 0; a negative exponent gives the exact power
truncated toward zero, and 0 for base 0.
"""

from __future__ import annotations

from tensorgen.c_function import CFunction, c_function
from tensorgen.types import (
    DType,
    Kind,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

INTEGER_SUFFIX: dict[DType, str] = {
    int8: "i8", int16: "i16", int32: "i32", int64: "i64",
    uint8: "u8", uint16: "u16", uint32: "u32", uint64: "u64",
}  # fmt: skip


def _parts(dtype: DType) -> dict[str, str]:
    # Below 32 bits C would promote to int, whose overflow is undefined: compute in unsigned.
    wide = max(32, dtype.bits)
    return {
        "t": INTEGER_SUFFIX[dtype],
        "type": dtype.c_name,
        "wrap": f"uint{wide}_t",
    }


_WRAPPING = """
static inline $type tasor_${name}_$t($type x, $type y)
{
    return ($type)(($wrap)x $sign ($wrap)y);
}
"""

_NEG = """
static inline $type tasor_neg_$t($type x)
{
    return ($type)(0u - ($wrap)x);
}
"""

_ORDER = """
static inline $type tasor_${name}_$t($type x, $type y)
{
    return x $sign y ? x : y;
}
"""

_POW = """
static inline $type tasor_pow_$t($type x, $type y)
{
    $wrap result = 1u;
    $wrap factor = ($wrap)x;
    $wrap rest = ($wrap)y;$negative_exponent
    while (rest != 0u) {
        if ((rest & 1u) != 0u) {
            result *= factor;
        }
        factor *= factor;
        rest >>= 1;
    }
    return ($type)result;
}
"""

_NEGATIVE_EXPONENT = """
    if (y < 0) {
        const int of_minus_one = (rest & 1u) != 0u ? -1 : 1;
        const int of_other = x == 1 ? 1 : 0;
        return ($type)(x == -1 ? of_minus_one : of_other);
    }"""

_SHIFT = """
static inline $type tasor_${name}_$t($type x, $type y)
{
    return $condition ? ($type)($shifted) : ($type)0;
}
"""

_SIGNED_ABS = """
static inline $type tasor_abs_$t($type x)
{
    return x < 0 ? tasor_neg_$t(x) : x;
}
"""

_UNSIGNED_ABS = """
static inline $type tasor_abs_$t($type x)
{
    return x;
}
"""

_SIGNED_DIVISION = {
    "div": """
static inline $type tasor_div_$t($type x, $type y)
{
    if (y == 0) {
        return 0;
    }
    return y == -1 ? tasor_neg_$t(x) : ($type)(x / y);
}
""",
    "floordiv": """
static inline $type tasor_floordiv_$t($type x, $type y)
{
    const $type quotient = tasor_div_$t(x, y);
    const $type remainder = tasor_fmod_$t(x, y);
    return ($type)(quotient - (remainder != 0 && (remainder < 0) != (y < 0)));
}
""",
    "fmod": """
static inline $type tasor_fmod_$t($type x, $type y)
{
    return y == 0 || y == -1 ? ($type)0 : ($type)(x % y);
}
""",
    "mod": """
static inline $type tasor_mod_$t($type x, $type y)
{
    const $type remainder = tasor_fmod_$t(x, y);
    return remainder != 0 && (remainder < 0) != (y < 0) ? ($type)(remainder + y) : remainder;
}
""",
}

_UNSIGNED_DIVISION = """
static inline $type tasor_${name}_$t($type x, $type y)
{
    return y == 0u ? ($type)0 : ($type)(x $sign y);
}
"""


def _arithmetic(dtype: DType, parts: dict[str, str]) -> tuple[CFunction, ...]:
    signed = dtype.kind is Kind.SIGNED
    sign = "(x > 0) - (x < 0)" if signed else "x > 0u"
    return (
        c_function(_WRAPPING, "x + y, wrapping.", name="add", sign="+", **parts),
        c_function(_WRAPPING, "x - y, wrapping.", name="sub", sign="-", **parts),
        c_function(_WRAPPING, "x * y, wrapping.", name="mul", sign="*", **parts),
        c_function(_NEG, "-x, wrapping.", **parts),
        c_function(
            _SIGNED_ABS if signed else _UNSIGNED_ABS, "The magnitude of x, wrapping.", **parts
        ),
        c_function(
            f"static inline $type tasor_sign_$t($type x)\n{{\n    return ($type)({sign});\n}}",
            "-1, 0 or 1." if signed else "0 or 1.",
            **parts,
        ),
        c_function(_ORDER, "The greater of x and y.", name="max", sign=">", **parts),
        c_function(_ORDER, "The lesser of x and y.", name="min", sign="<", **parts),
    )


def _division(dtype: DType, parts: dict[str, str]) -> tuple[CFunction, ...]:
    docs = {
        "div": "x / y rounded toward zero; 0 if y is 0.",
        "fmod": "The remainder with the sign of the dividend, as C has it; 0 if y is 0.",
        "floordiv": "x / y rounded down; 0 if y is 0.",
        "mod": "The remainder with the sign of the divisor, as Python has it; 0 if y is 0.",
    }
    if dtype.kind is Kind.SIGNED:
        return tuple(c_function(_SIGNED_DIVISION[name], doc, **parts) for name, doc in docs.items())
    signs = {"div": "/", "fmod": "%", "floordiv": "/", "mod": "%"}
    return tuple(
        c_function(_UNSIGNED_DIVISION, doc, name=name, sign=signs[name], **parts)
        for name, doc in docs.items()
    )


def _powers_and_shifts(dtype: DType, parts: dict[str, str]) -> tuple[CFunction, ...]:
    signed = dtype.kind is Kind.SIGNED
    condition = f"y >= 0 && y < {dtype.bits}" if signed else f"y < {dtype.bits}u"
    negative = _NEGATIVE_EXPONENT.replace("$type", parts["type"]) if signed else ""
    left = f"({parts['wrap']})x << y"
    # The right shift of a negative number is left to the compiler by C; ~ makes it non-negative.
    right = "x < 0 ? ~(~x >> y) : x >> y" if signed else "x >> y"
    return (
        c_function(
            _POW, "x to the power y by squaring, wrapping.", negative_exponent=negative, **parts
        ),
        c_function(
            _SHIFT, "x shifted left; 0 if the count is out of range.",
            name="shl", condition=condition, shifted=left, **parts,
        ),
        c_function(
            _SHIFT, "x shifted right, keeping its sign; 0 if the count is out of range.",
            name="shr", condition=condition, shifted=right, **parts,
        ),
    )  # fmt: skip


def _functions(dtype: DType) -> tuple[CFunction, ...]:
    parts = _parts(dtype)
    return (
        *_arithmetic(dtype, parts),
        *_division(dtype, parts),
        *_powers_and_shifts(dtype, parts),
    )


INTEGER: tuple[CFunction, ...] = tuple(
    function for dtype in INTEGER_SUFFIX for function in _functions(dtype)
)

"""C functions that convert between element types.

What it does: 16-bit floats from and to their patterns, with one rounding to nearest even, and
floats to integers without undefined behaviour. What it does not: conversions that a C cast does
right already (integer to integer, integer to float, between float and double).

Double rounding on the way from double to a 16-bit float is avoided by rounding to odd in between:
S. Boldo, G. Melquiond, "When double rounding is odd", 2005.
"""

from __future__ import annotations

import numpy as np

from tensorgen.c_function import CFunction, c_function, float_literal
from tensorgen.c_functions_integer import INTEGER_SUFFIX
from tensorgen.types import DType, Kind, float32, float64

_HALVES = (
    c_function(
        """
static inline float tasor_f32_from_f16(uint16_t x)
{
    const uint32_t magnitude = (uint32_t)x & 0x7FFFu;
    const uint32_t special = magnitude >= 0x7C00u ? 0x38000000u : 0u;
    const float normal = tasor_from_bits_f32((magnitude << 13) + 0x38000000u + special);
    const float subnormal = (float)(int32_t)magnitude * 5.9604645e-08f;
    const uint32_t bits = tasor_bits_f32(magnitude < 0x0400u ? subnormal : normal);
    return tasor_from_bits_f32(bits | ((uint32_t)x & 0x8000u) << 16);
}
""",
        "The value of a float16 pattern.",
        0,
    ),
    c_function(
        """
static inline uint16_t tasor_f16_from_f32(float x)
{
    const uint32_t bits = tasor_bits_f32(x);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const uint32_t even = magnitude >> 13 & 1u;
    const uint32_t normal = (magnitude + 0x0FFFu + even - 0x38000000u) >> 13;
    const float small = tasor_from_bits_f32(magnitude < 0x38800000u ? magnitude : 0u);
    const uint32_t subnormal = tasor_bits_f32(small + 0.5f) - 0x3F000000u;
    const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    const uint32_t large = magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u;
    const uint32_t half = magnitude >= 0x477FF000u ? large : finite;
    return (uint16_t)(half | (bits >> 16 & 0x8000u));
}
""",
        "The float16 pattern nearest to x, halves to even; adding 1/2 rounds the subnormals.",
        0.5,
    ),
    c_function(
        """
static inline float tasor_f32_from_bf16(uint16_t x)
{
    return tasor_from_bits_f32((uint32_t)x << 16);
}
""",
        "The value of a bfloat16 pattern.",
        0,
    ),
    c_function(
        """
static inline uint16_t tasor_bf16_from_f32(float x)
{
    const uint32_t bits = tasor_bits_f32(x);
    const uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x0040u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}
""",
        "The bfloat16 pattern nearest to x, halves to even.",
        0.5,
    ),
    c_function(
        """
static inline float tasor_round_to_odd_f32(double x)
{
    const float nearest = (float)x;
    const double back = (double)nearest;
    const uint32_t bits = tasor_bits_f32(nearest) - (fabs(back) > fabs(x));
    return tasor_from_bits_f32(back == x ? bits : bits | 1u);
}
""",
        "x truncated to float, with the last bit set if that lost something.",
    ),
    c_function(
        """
static inline uint16_t tasor_f16_from_f64(double x)
{
    return tasor_f16_from_f32(tasor_round_to_odd_f32(x));
}
""",
        "The float16 pattern nearest to x, halves to even.",
        0.5,
    ),
    c_function(
        """
static inline uint16_t tasor_bf16_from_f64(double x)
{
    return tasor_bf16_from_f32(tasor_round_to_odd_f32(x));
}
""",
        "The bfloat16 pattern nearest to x, halves to even.",
        0.5,
    ),
)

_TO_INTEGER = """
static inline $type tasor_${to}_from_${t}($float x)
{
    const $float above = x > $lowest ? x : $lowest;
    const $float inside = above < $highest ? above : $highest;
    const $type converted = ($type)inside;
    const $type saturated = $saturate;
    return x != x ? ($type)0 : saturated;
}
"""


def _to_integer(source: DType, target: DType) -> CFunction:
    """Clamp to the floats that the integer type holds, then convert; the top needs a select."""
    high = 2 ** (target.bits - (target.kind is Kind.SIGNED)) - 1
    low = -high - 1 if target.kind is Kind.SIGNED else 0
    kind = np.float32 if source is float32 else np.float64
    highest = kind(high)
    above = float_literal(float(highest), source.c_name)
    saturate = "converted"
    if int(highest) > high:
        highest = np.nextafter(highest, kind(0))
        prefix = "" if target.kind is Kind.SIGNED else "U"
        top = f"{prefix}INT{target.bits}_MAX"
        saturate = f"x >= {above} ? {top} : converted"
    return c_function(
        _TO_INTEGER,
        f"x truncated to {target.name}; saturates, 0 of NaN.",
        to=INTEGER_SUFFIX[target],
        t="f32" if source is float32 else "f64",
        float=source.c_name,
        type=target.c_name,
        lowest=float_literal(low, source.c_name),
        highest=float_literal(float(highest), source.c_name),
        saturate=saturate,
    )


CONVERSION: tuple[CFunction, ...] = (
    *_HALVES,
    *(_to_integer(source, target) for source in (float32, float64) for target in INTEGER_SUFFIX),
)

"""How instruction sets spell what the vector functions of float32 are written in, as a table.

The functions stand in `c_functions_vectors`, in words that every instruction set has a template
for: `fma(a, b, c)` is a * b + c, rounded once. What it does not: describe what kernels hold in
registers; `dialects` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class VectorSpelling:
    """One instruction set: its C types of vectors and of comparisons, lanes, and its words.

    `words` are templates of {0}, {1}, …: `splat` fills all lanes, `max` and `min` give the second
    of two operands of which one is NaN, `max_number` the first; `choose(m, x, y)` takes the lanes
    of x where m holds and those of y elsewhere, `without(m, x)` those of x where it does not and 0
    elsewhere; `andnot(x, y)` has the bits of y that are not in x. Powers of two: a float n comes
    with its sum with `shifter`, or with `scale_shifter`, whose last bits hold n for `scale`, which
    multiplies by 2**n for every n of a result, subnormal ones included; `power` is 2**n and
    `scale_normal` multiplies by it, for n from -126 to 127; for 128 what comes may be infinite.
    """

    type: str
    mask: str
    lanes: int
    shifter: str
    scale_shifter: str
    words: Mapping[str, str]

    @property
    def suffix(self) -> str:
        """The end of the functions' names: f32x16, say."""
        return f"f32x{self.lanes}"

    def expanded(self, text: str) -> str:
        """The text with words as the instruction set spells them."""
        word = re.compile(rf"(?<!\w)({'|'.join(self.words)})\(")
        # From the last on: what stands inside a word starts behind it.
        for match in reversed(list(word.finditer(text))):
            arguments, end = _arguments(text, match.end())
            text = text[: match.start()] + self.words[match[1]].format(*arguments) + text[end:]
        return text


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """The arguments of a call, the first of which starts there, and the end of the call."""
    depth, begin = 0, start
    arguments: list[str] = []
    for position in range(start, len(text)):
        character = text[position]
        if depth == 0 and character in ",)":
            arguments.append(text[begin:position].strip())
            begin = position + 1
            if character == ")":
                return arguments, begin
        depth += (character == "(") - (character == ")")
    raise AssertionError("parentheses are closed")


def _x86(prefix: str) -> dict[str, str]:
    """What AVX2 and AVX-512 spell alike."""
    two = ("add", "sub", "mul", "div", "max", "min", "or", "and", "andnot")
    fused = {"fma": "fmadd", "fms": "fmsub", "fnma": "fnmadd"}
    return {
        **{name: f"{prefix}_{name}_ps({{0}}, {{1}})" for name in two},
        **{word: f"{prefix}_{name}_ps({{0}}, {{1}}, {{2}})" for word, name in fused.items()},
        "splat": f"{prefix}_set1_ps({{0}})",
        "sqrt": f"{prefix}_sqrt_ps({{0}})",
        "max_number": f"{prefix}_max_ps({{1}}, {{0}})",
    }


_BITS = "_mm256_castps_si256({1})"
_NORMAL = f"_mm256_castsi256_ps(_mm256_slli_epi32({_BITS}, 23))"

VECTOR_SPELLINGS: Mapping[str, VectorSpelling] = MappingProxyType({
    "avx512": VectorSpelling(
        "__m512", "__mmask16", 16, "12582912.0f", "12582912.0f", MappingProxyType({
            **_x86("_mm512"),
            "less": "_mm512_cmp_ps_mask({0}, {1}, _CMP_LT_OQ)",
            "is_nan": "_mm512_cmp_ps_mask({0}, {0}, _CMP_UNORD_Q)",
            "choose": "_mm512_mask_mov_ps({2}, {0}, {1})",
            "without": "_mm512_maskz_mov_ps(_knot_mask16({0}), {1})",
            "power": "_mm512_scalef_ps(_mm512_set1_ps(1.0f), {0})",
            "scale": "_mm512_scalef_ps({2}, {0})",
            "scale_normal": "_mm512_scalef_ps({2}, {0})",
        }),
    ),
    # The sums carry the bias of the exponent, too, for `scale` twice: it takes two factors.
    "avx2": VectorSpelling(
        "__m256", "__m256", 8, "12583039.0f", "12583166.0f", MappingProxyType({
            **_x86("_mm256"),
            "less": "_mm256_cmp_ps({0}, {1}, _CMP_LT_OQ)",
            "is_nan": "_mm256_cmp_ps({0}, {0}, _CMP_UNORD_Q)",
            "choose": "_mm256_blendv_ps({2}, {1}, {0})",
            "without": "_mm256_andnot_ps({0}, {1})",
            "power": _NORMAL,
            "scale": "tasor_scaled_f32x8({1}, {2})",
            "scale_normal": f"_mm256_mul_ps({_NORMAL}, {{2}})",
        }),
    ),
})  # fmt: skip
"""The instruction sets with vector functions of their own."""

FOLDED_LANES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"avx512": (16, 32), "avx2": (8, 16, 32)}
)
"""How many lanes in an array an instruction set has functions for that fold them into one value."""

"""C functions that transpose a block of as many rows and columns as a vector has elements.

Rows are loaded whole and stored whole; what lies between are exchanges of pairs of vectors, first
of neighbouring elements, then of pairs of them, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorgen.c_function import CFunction, c_function


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One stage: of the vectors `distance` apart, `low` makes the first and `high` the second."""

    distance: int
    low: str
    high: str


_AVX512 = (
    _Exchange(1, "_mm512_unpacklo_ps({a}, {b})", "_mm512_unpackhi_ps({a}, {b})"),
    _Exchange(
        2,
        "_mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd({a}), _mm512_castps_pd({b})))",
        "_mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd({a}), _mm512_castps_pd({b})))",
    ),
    _Exchange(4, "_mm512_shuffle_f32x4({a}, {b}, 0x88)", "_mm512_shuffle_f32x4({a}, {b}, 0xDD)"),
    _Exchange(8, "_mm512_shuffle_f32x4({a}, {b}, 0x88)", "_mm512_shuffle_f32x4({a}, {b}, 0xDD)"),
)
_AVX2 = (
    _Exchange(1, "_mm256_unpacklo_ps({a}, {b})", "_mm256_unpackhi_ps({a}, {b})"),
    _Exchange(
        2,
        "_mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd({a}), _mm256_castps_pd({b})))",
        "_mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd({a}), _mm256_castps_pd({b})))",
    ),
    _Exchange(
        4, "_mm256_permute2f128_ps({a}, {b}, 0x20)", "_mm256_permute2f128_ps({a}, {b}, 0x31)"
    ),
)

_TRANSPOSE = """
static inline void tasor_transpose_f32_${size}x$size(
    const float *x, ptrdiff_t step, float *out, ptrdiff_t out_step)
{
$statements
}
"""


def _statements(vector: str, prefix: str, stages: tuple[_Exchange, ...]) -> Iterator[str]:
    """Loads, exchanges and stores of a block of `2**len(stages)` rows."""
    size = 1 << len(stages)
    for row in range(size):
        yield f"const {vector} x{row} = {prefix}_loadu_ps(x + {row} * step);"
    before = "x"
    for stage, after in zip(stages, "abcd", strict=False):
        for row in range(size):
            first = row & ~stage.distance
            template = stage.high if row & stage.distance else stage.low
            a, b = f"{before}{first}", f"{before}{first | stage.distance}"
            yield f"const {vector} {after}{row} = {template.format(a=a, b=b)};"
        before = after
    for row in range(size):
        # Exchanges of elements within a pair of pairs leave the middle two in each other's place.
        held = row & ~3 | (row & 1) << 1 | (row & 2) >> 1
        yield f"{prefix}_storeu_ps(out + {row} * out_step, {before}{held});"


def _transpose(vector: str, prefix: str, stages: tuple[_Exchange, ...]) -> CFunction:
    size = str(1 << len(stages))
    return c_function(
        _TRANSPOSE,
        f"out[j * out_step + i] = x[i * step + j] for all i and j below {size}.",
        size=size,
        statements="\n".join(f"    {line}" for line in _statements(vector, prefix, stages)),
    )


TRANSPOSE: tuple[CFunction, ...] = (
    _transpose("__m512", "_mm512", _AVX512),
    _transpose("__m256", "_mm256", _AVX2),
)

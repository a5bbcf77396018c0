"""C functions that transpose a block of at most as many rows and columns as a vector has elements.

Rows are loaded and stored as vectors; what lies between are exchanges of pairs of vectors, first of
neighbouring elements, then of pairs of them, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensorgen.c_function import CFunction, c_function


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One stage: of the vectors `distance` apart, `low` makes the first and `high` the second."""

    distance: int
    low: str
    high: str


_STAGES = (
    _Exchange(1, "_mm512_unpacklo_ps({a}, {b})", "_mm512_unpackhi_ps({a}, {b})"),
    _Exchange(
        2,
        "_mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd({a}), _mm512_castps_pd({b})))",
        "_mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd({a}), _mm512_castps_pd({b})))",
    ),
    _Exchange(4, "_mm512_shuffle_f32x4({a}, {b}, 0x88)", "_mm512_shuffle_f32x4({a}, {b}, 0xDD)"),
    _Exchange(8, "_mm512_shuffle_f32x4({a}, {b}, 0x88)", "_mm512_shuffle_f32x4({a}, {b}, 0xDD)"),
)

_TRANSPOSE = """
TASOR_INLINE void tasor_transpose_f32x16(
    const float *x, ptrdiff_t step, int rows, float *out, ptrdiff_t out_step, int columns)
{
    const __mmask16 loaded = (__mmask16)((1u << columns) - 1u);
    const __mmask16 stored = (__mmask16)((1u << rows) - 1u);
    const __m512 zero = _mm512_setzero_ps();
$statements
}
"""


_TRANSPOSE_FOUR = """
TASOR_INLINE void tasor_transpose_f32x4(
    const float *x, ptrdiff_t step, int rows, float *out, ptrdiff_t out_step, int columns)
{
    const __mmask16 loaded = (__mmask16)((1u << columns) - 1u);
    const __mmask8 stored = (__mmask8)((1u << rows) - 1u);
    const __m512 zero = _mm512_setzero_ps();
$statements
}
"""


def _four_statements() -> Iterator[str]:
    """As `_statements`, but after two stages each quarter of a vector is a column of four rows."""
    for row in range(4):
        loaded = f"_mm512_maskz_loadu_ps(loaded, x + {row} * step)"
        yield f"const __m512 x{row} = {loaded if not row else f'rows > {row} ? {loaded} : zero'};"
    yield from _exchanged(4, _STAGES[:2])
    for column in range(16):
        part = f"_mm512_extractf32x4_ps(b{_held(column & 3)}, {column >> 2})"
        stored = f"_mm_mask_storeu_ps(out + {column} * out_step, stored, {part});"
        yield stored if not column else f"if (columns > {column}) {{ {stored} }}"


def _exchanged(size: int, stages: Sequence[_Exchange]) -> Iterator[str]:
    before = "x"
    for stage, after in zip(stages, "abcd", strict=False):
        for row in range(size):
            first = row & ~stage.distance
            template = stage.high if row & stage.distance else stage.low
            a, b = f"{before}{first}", f"{before}{first | stage.distance}"
            yield f"const __m512 {after}{row} = {template.format(a=a, b=b)};"
        before = after


def _held(column: int) -> int:
    """The vector that holds a column after the first two stages or all of them: exchanges within a
    pair of pairs leave the middle two in each other's place."""
    return column & ~3 | (column & 1) << 1 | (column & 2) >> 1


def _statements() -> Iterator[str]:
    """Loads, exchanges and stores of a block of 16 rows; the numbers of rows and columns are
    constants wherever this is called, so that nothing is left of the conditions."""
    size = 1 << len(_STAGES)
    for row in range(size):
        loaded = f"_mm512_maskz_loadu_ps(loaded, x + {row} * step)"
        yield f"const __m512 x{row} = {loaded if not row else f'rows > {row} ? {loaded} : zero'};"
    yield from _exchanged(size, _STAGES)
    for column in range(size):
        stored = f"_mm512_mask_storeu_ps(out + {column} * out_step, stored, d{_held(column)});"
        yield stored if not column else f"if (columns > {column}) {{ {stored} }}"


TRANSPOSE: tuple[CFunction, ...] = (
    c_function(
        _TRANSPOSE,
        "out[j * out_step + i] = x[i * step + j] for all i below rows and j below columns, each 1 "
        "to 16.",
        statements="\n".join(f"    {line}" for line in _statements()),
    ),
    c_function(
        _TRANSPOSE_FOUR,
        "out[j * out_step + i] = x[i * step + j] for all i below rows, 1 to 4, and j below "
        "columns, 1 to 16.",
        statements="\n".join(f"    {line}" for line in _four_statements()),
    ),
)

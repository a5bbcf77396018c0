"""C functions that transpose a block of at most as many rows and columns as a vector has elements.

Rows are loaded and stored as vectors; what lies between are exchanges of pairs of vectors, first of
neighbouring elements, then of pairs of them, and so on. Where loads put halves of two rows into one
vector, one exchange fewer is left for the unit that all of them need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tensorgen.c_function import CFunction, c_function
from tensorgen.dialects import SUMMED_ROWS


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
)
_STAGES_AVX2 = (
    *(
        _Exchange(stage.distance, *(t.replace("_mm512", "_mm256") for t in (stage.low, stage.high)))
        for stage in _STAGES
    ),
    _Exchange(
        4, "_mm256_permute2f128_ps({a}, {b}, 0x20)", "_mm256_permute2f128_ps({a}, {b}, 0x31)"
    ),
)

_HEAD = """
TASOR_INLINE void tasor_transpose_${most}x${columns}_f32(
    const float *x, ptrdiff_t step, int rows, float *out, ptrdiff_t out_step, int columns)
{
"""

_WHOLE_BLOCK = """
static void tasor_transpose_whole_${lanes}x${lanes}_f32(
    const float *x, ptrdiff_t step, float *out, ptrdiff_t out_step)
{
    tasor_transpose_${lanes}x${lanes}_f32(x, step, $lanes, out, out_step, $lanes);
}
"""

_SUMMED = """
TASOR_INLINE void tasor_transpose_sum_${rows}x16_f32(
    const float *x, ptrdiff_t step, float *out, ptrdiff_t out_step,
    const float *factor, ptrdiff_t factor_step, $sums)
{
$statements
}
"""

_MASKS = """\
    const __mmask16 loaded = (__mmask16)((1u << columns) - 1u);
    const __mmask$wide stored = (__mmask$wide)((1u << rows) - 1u);
    const __m512 zero = _mm512_setzero_ps();
$statements
}
"""

_MASKS_AVX2 = """\
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i loaded = _mm256_cmpgt_epi32(_mm256_set1_epi32(columns), lanes);
    const __m256 zero = _mm256_setzero_ps();
$statements
}
"""
_WHOLE = "_mm256_loadu_ps({p})"
_LOAD_AVX2 = "(columns > 7 ? _mm256_loadu_ps({p}) : _mm256_maskload_ps({p}, loaded))"


def _exchanged(vector: str, size: int, stages: Sequence[_Exchange]) -> Iterator[str]:
    before = "x"
    for stage, after in zip(stages, "abcd", strict=False):
        for row in range(size):
            first = row & ~stage.distance
            template = stage.high if row & stage.distance else stage.low
            a, b = f"{before}{first}", f"{before}{first | stage.distance}"
            yield f"const {vector} {after}{row} = {template.format(a=a, b=b)};"
        before = after


def _loads(vector: str, size: int, load: str) -> Iterator[str]:
    """The rows; their number is a constant wherever this is called, so that nothing is left of the
    conditions."""
    for row in range(size):
        loaded = load.format(p=f"x + {row} * step")
        yield f"const {vector} x{row} = {_if_row(row, loaded)};"


def _if_row(row: int, loaded: str) -> str:
    return f"rows > {row} ? {loaded} : zero" if row else loaded


def _stores(size: int, store: Callable[[str, int], str]) -> Iterator[str]:
    for column in range(size):
        stored = store(f"out + {column} * out_step", column)
        yield stored if not column else f"if (columns > {column}) {{ {stored} }}"


def _held(column: int) -> int:
    """The vector that holds a column after the first two stages or all of them: exchanges within a
    pair of pairs leave the middle two in each other's place."""
    return column & ~3 | (column & 1) << 1 | (column & 2) >> 1


def _sixteen_exchanged(*, whole: bool) -> Iterator[str]:
    """By halves of eight columns, of which a vector has four rows apart: after two stages each of
    its quarters is a column of four rows."""
    for half in range(2):
        masked = f"_mm256_maskz_loadu_ps((__mmask8)(loaded >> {8 * half}), {{p}})"
        load = f"(columns > {8 * half + 7} ? _mm256_loadu_ps({{p}}) : {masked})"
        for vector, row in enumerate((0, 1, 2, 3, 8, 9, 10, 11)):
            name = f"x{8 * half + vector}"
            places = [f"x + {r} * step + {8 * half}" for r in (row, row + 4)]
            low, high = ((_WHOLE if whole else load).format(p=place) for place in places)
            widened = f"_mm512_castps256_ps512({low})"
            yield f"const __m512 {name}_low = {widened if whole else _if_row(row, widened)};"
            both = f"_mm512_mask_broadcast_f32x8({name}_low, 0xFF00, {high})"
            value = both if whole else f"rows > {row + 4} ? {both} : {name}_low"
            yield f"const __m512 {name} = {value};"
    yield from _exchanged("__m512", 16, _STAGES)


def _column_of_sixteen(column: int) -> str:
    """One more exchange makes a column of sixteen rows."""
    first = _held(column & 3) + (column & 8)
    order = "0xDD" if column & 4 else "0x88"
    return f"_mm512_shuffle_f32x4(b{first}, b{first + 4}, {order})"


def _sixteen() -> Iterator[str]:
    yield from _sixteen_exchanged(whole=False)

    def store(place: str, column: int) -> str:
        return f"_mm512_mask_storeu_ps({place}, stored, {_column_of_sixteen(column)});"

    yield from _stores(16, store)


def _sixteen_summed() -> Iterator[str]:
    """Exchanges and multiply-adds take units of their own: both go on at a time."""
    yield from _sixteen_exchanged(whole=True)
    for column in range(16):
        yield f"const __m512 d{column} = {_column_of_sixteen(column)};"
        yield f"_mm512_storeu_ps(out + {column} * out_step, d{column});"
        for row in range(SUMMED_ROWS):
            factor = f"_mm512_set1_ps(factor[{row} * factor_step + {column}])"
            yield f"*sum{row} = _mm512_fmadd_ps({factor}, d{column}, *sum{row});"


def _four() -> Iterator[str]:
    """After two stages each quarter of a vector is a column of four rows."""
    yield from _loads("__m512", 4, "_mm512_maskz_loadu_ps(loaded, {p})")
    yield from _exchanged("__m512", 4, _STAGES)

    def store(place: str, column: int) -> str:
        part = f"_mm512_extractf32x4_ps(b{_held(column & 3)}, {column >> 2})"
        return f"_mm_mask_storeu_ps({place}, stored, {part});"

    yield from _stores(16, store)


def _eight() -> Iterator[str]:
    """Parts of columns are stored by two stores that overlap: masked ones are slow on AMD's."""
    yield from _loads("__m256", 8, _LOAD_AVX2)
    yield from _exchanged("__m256", 8, _STAGES_AVX2)

    def store(place: str, column: int) -> str:
        vector = f"c{_held(column)}"
        return (
            f"if (rows > 7) {{ _mm256_storeu_ps({place}, {vector}); }} "
            f"else {{ tasor_store_most_f32x8({place}, {vector}, rows); }}"
        )

    yield from _stores(8, store)


def _four_of_eight() -> Iterator[str]:
    """After two stages each half of a vector is a column of four rows."""
    yield from _loads("__m256", 4, _LOAD_AVX2)
    yield from _exchanged("__m256", 4, _STAGES_AVX2[:2])

    def store(place: str, column: int) -> str:
        vector = f"b{_held(column & 3)}"
        half = f"_mm256_castps256_ps128({vector})"
        if column > 3:
            half = f"_mm256_extractf128_ps({vector}, 1)"
        return f"tasor_store_first_f32x4({place}, {half}, rows);"

    yield from _stores(8, store)


def _summed() -> CFunction:
    sums = [f"sum{row}" for row in range(SUMMED_ROWS)]
    return c_function(
        _SUMMED,
        "out[j * out_step + i] = x[i * step + j] for all i and j below 16. To lane i of sum r, "
        "their products with factor[r * factor_step + j] are added, j after j.",
        rows=str(SUMMED_ROWS),
        sums=", ".join(f"__m512 *{name}" for name in sums),
        statements="\n".join(f"    {line}" for line in _sixteen_summed()),
    )


def _transpose(
    most: int, columns: int, masks: str, text: Iterator[str], fewest: int = 1
) -> CFunction:
    return c_function(
        _HEAD + masks,
        f"out[j * out_step + i] = x[i * step + j] for all i below rows, {fewest} to {most}, and j "
        f"below columns, 1 to {columns}.",
        most=str(most),
        columns=str(columns),
        wide=str(max(most, 8)),
        statements="\n".join(f"    {line}" for line in text),
    )


def _whole(lanes: int) -> CFunction:
    """Not inlined where several call it: most blocks are whole, a hundred operations each."""
    return c_function(
        _WHOLE_BLOCK,
        f"out[j * out_step + i] = x[i * step + j] for all i and j below {lanes}.",
        lanes=str(lanes),
    )


_STORE_FIRST = """
TASOR_INLINE void tasor_store_first_f32x4(float *p, __m128 v, int count)
{
    if (count > 3) {
        _mm_storeu_ps(p, v);
    } else if (count > 1) {
        _mm_storel_pi((__m64 *)(void *)p, v);
        if (count > 2) { _mm_store_ss(p + 2, _mm_movehl_ps(v, v)); }
    } else {
        _mm_store_ss(p, v);
    }
}
"""

TRANSPOSE: tuple[CFunction, ...] = (
    _transpose(16, 16, _MASKS, _sixteen()),
    _whole(16),
    _summed(),
    _transpose(4, 16, _MASKS, _four()),
    c_function(_STORE_FIRST, "The first of four lanes, so many."),
    _transpose(8, 8, _MASKS_AVX2, _eight(), fewest=4),
    _whole(8),
    _transpose(4, 8, _MASKS_AVX2, _four_of_eight()),
)

"""C functions that compute the softmax of short rows, each held in vector registers.

A row is read twice, for its greatest element and for its powers, and written once: the powers stay
in registers until their sum is known. Three rows are under way at a time, so that none waits for
the few steps that go one after the other: while the powers of one are computed, the greatest of the
next is found, and the quotients of the last are stored. Only AVX-512 has the registers for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tensorgen.c_function import CFunction, c_function
from tensorgen.c_functions_vectors import TABLE_LANES, table
from tensorgen.dialects import HELD_VECTORS

# n has thirty-seconds, which come from two tables by the last five bits of the sum: two terms are
# enough for the rest r, |r| <= 1/64, which they raise 2 to within 2**-24. The bits of the sum moved
# to the exponent, as which they raise 2 to whole powers, leave those five in the fraction: entries
# of the tables have that much less.
_POWER = """
static inline __m512 tasor_softmax_power_f32x16(__m512 x, __m512 greatest)
{
    const __m512 below = _mm512_sub_ps(x, greatest);
    const __mmask16 normal = _mm512_cmp_ps_mask(below, _mm512_set1_ps(-87.33654f), _CMP_NLT_UQ);
    const __m512 per_ln2 = _mm512_set1_ps(1.442695f);
    const __m512 shifter = _mm512_set1_ps(393216.0f);
    const __m512 sum = _mm512_fmadd_ps(below, per_ln2, shifter);
    const __m512 r = _mm512_fmsub_ps(below, per_ln2, _mm512_sub_ps(sum, shifter));
    const __m512i n = _mm512_castps_si512(sum);
    const __m512i low = _mm512_setr_epi32(
        $low);
    const __m512i high = _mm512_setr_epi32(
        $high);
    const __m512i root = _mm512_permutex2var_epi32(low, n, high);
    const __m512i whole = _mm512_slli_epi32(n, $place);
    const __m512 power = _mm512_castsi512_ps(_mm512_add_epi32(root, whole));
    const __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0.2402265f), r, _mm512_set1_ps(0.6931573f));
    return _mm512_maskz_fmadd_ps(normal, _mm512_mul_ps(p, r), power, power);
}
"""

_PART_BITS = 5
_PARTS = 1 << _PART_BITS
"""2 is raised to so many parts of 1 by tables."""

_PLACE = 23 - _PART_BITS
"""By so many bits the number of parts is moved for its wholes to be an exponent."""

_FOLDED = """
static inline float tasor_softmax_${name}_f32x16(__m512 v)
{
    const __m256 half = _mm512_extractf32x8_ps(v, 1);
    const __m256 of8 = _mm256_${fold}_ps(_mm512_castps512_ps256(v), half);
    const __m128 of4 = _mm_${fold}_ps(_mm256_castps256_ps128(of8), _mm256_extractf128_ps(of8, 1));
    const __m128 of2 = _mm_${fold}_ps(of4, _mm_movehl_ps(of4, of4));
    return _mm_cvtss_f32(_mm_${fold}_ss(of2, _mm_movehdup_ps(of2)));
}
"""

_GREATEST = """
static inline float tasor_softmax_greatest_${vectors}_f32x16(const float *x, __mmask16 last)
{
    const __m512 outside = _mm512_set1_ps(-INFINITY);
    $loads
    $pairs
    return tasor_softmax_greatest_f32x16($greatest);
}
"""

_ROWS = """
static inline void tasor_softmax_rows_${vectors}_f32x16(
    const float *x, ptrdiff_t step, int rows, float *out, ptrdiff_t out_step, int lanes)
{
    const __mmask16 last = (__mmask16)((1u << lanes) - 1u);
    const __m512 outside = _mm512_set1_ps(-INFINITY);
    __m512 factor = _mm512_setzero_ps();
    $begins
    float greatest = tasor_softmax_greatest_${vectors}_f32x16(x, last);
    for (int row = 0; row < rows; row++) {
        const float *const here = x + row * step;
        const __m512 top = _mm512_set1_ps(greatest);
        if (row + 1 < rows) {
            greatest = tasor_softmax_greatest_${vectors}_f32x16(here + step, last);
        }
        $powers
        if (row > 0) {
            float *const before = out + (row - 1) * out_step;
            $stores
        }
        $pairs
        factor = _mm512_set1_ps(1.0f / tasor_softmax_sum_f32x16($sum));
        $keeps
    }
    float *const end = out + (rows - 1) * out_step;
    $stores_last
}
"""


def _table_of_roots(first: int) -> str:
    """A table of the bits of 2 to the first and the next few parts, each less its number where it
    comes in the fraction."""
    numbers = range(first, first + TABLE_LANES)
    bits = (int(np.float32(2.0 ** (k / _PARTS)).view(np.int32)) for k in numbers)
    return table(f"0x{have - (k << _PLACE):08X}" for k, have in zip(numbers, bits, strict=True))


def _paired(operation: str, name: str, count: int) -> tuple[list[str], str]:
    """Statements that put vectors `name`0, `name`1, ... together, neighbours first, so that few
    wait for one another, and the name of what comes out."""
    names, made = [f"{name}{n}" for n in range(count)], []
    while len(names) > 1:
        halved = []
        for first, second in zip(names[::2], names[1::2], strict=False):
            both = first + second.removeprefix(name)
            made.append(f"const __m512 {both} = _mm512_{operation}_ps({first}, {second});")
            halved.append(both)
        names = [*halved, *names[len(names) & ~1 :]]
    return made, names[0]


def _place(row: str, vector: int) -> str:
    return f"{row} + {vector * 16}" if vector else row


def _loads(row: str, vectors: int) -> Iterator[str]:
    """The vectors of a row; what lies behind the row is no part of it."""
    for n in range(vectors - 1):
        yield f"_mm512_loadu_ps({_place(row, n)})"
    yield f"_mm512_mask_loadu_ps(outside, last, {_place(row, vectors - 1)})"


def _stores(row: str, vectors: int) -> Iterator[str]:
    for n in range(vectors - 1):
        yield f"_mm512_storeu_ps({_place(row, n)}, _mm512_mul_ps(held{n}, factor));"
    n = vectors - 1
    place = _place(row, n)
    yield f"_mm512_mask_storeu_ps({place}, last, _mm512_mul_ps(held{n}, factor));"


def _lines(statements: Iterable[str], depth: int) -> str:
    return ("\n" + " " * 4 * depth).join(statements)


def _of_rows(vectors: int) -> Iterator[CFunction]:
    loads = enumerate(_loads("x", vectors))
    pairs, greatest = _paired("max", "x", vectors)
    yield c_function(
        _GREATEST,
        f"The greatest element of a row of {vectors} vectors, so many lanes of the last one. A NaN "
        "may be left out.",
        vectors=str(vectors),
        loads=_lines((f"const __m512 x{n} = {load};" for n, load in loads), 1),
        pairs=_lines(pairs, 1),
        greatest=greatest,
    )
    power = "const __m512 e{} = tasor_softmax_power_f32x16({}, top);"
    pairs, total = _paired("add", "e", vectors)
    yield c_function(
        _ROWS,
        "out[i * out_step + j] = exp(x[i * step + j] - m) / s, where m is the greatest element of "
        "row i and s the sum of such powers, for all i below rows, at least 1, and all j of "
        f"{vectors} vectors, of whose last one so many lanes belong to the row, 1 to 16. Quotients "
        "are products with 1 / s. The result may take the place of x.",
        vectors=str(vectors),
        begins=_lines((f"__m512 held{n} = _mm512_setzero_ps();" for n in range(vectors)), 1),
        powers=_lines((power.format(n, x) for n, x in enumerate(_loads("here", vectors))), 2),
        pairs=_lines(pairs, 2),
        sum=total,
        keeps=_lines((f"held{n} = e{n};" for n in range(vectors)), 2),
        stores=_lines(_stores("before", vectors), 3),
        stores_last=_lines(_stores("end", vectors), 1),
    )


SOFTMAX: tuple[CFunction, ...] = (
    c_function(
        _POWER,
        "exp(x - greatest) for an x that is NaN or at most the greatest, 0 below 2**-126, within 2 "
        "ulp and one more for each 4 that x is below: log2(e) is a float, whose rounding takes "
        "less than the difference's.",
        place=str(_PLACE),
        low=_table_of_roots(0),
        high=_table_of_roots(TABLE_LANES),
    ),
    c_function(_FOLDED, "The sum of the lanes.", name="sum", fold="add"),
    c_function(
        _FOLDED, "The greatest of the lanes. A NaN may be left out.", name="greatest", fold="max"
    ),
    *(function for n in range(1, HELD_VECTORS + 1) for function in _of_rows(n)),
)

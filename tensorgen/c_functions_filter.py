"""C functions that transform a tile under minimal filtering: a matrix of integers on either side.

They are made for the matrices of a kernel, not held in a table. All columns of the tile are
combined by the first matrix, and then all lines of what they have become by the second; the lanes
of a vector are tiles of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from tensorgen.c_function import CFunction, c_function, float_literal
from tensorgen.digest import content_digest
from tensorgen.minimal_filtering import Row

_TEXT = """
static void $name(
    const $type *restrict x, ptrdiff_t line, ptrdiff_t column, $type *restrict out,
    ptrdiff_t out_line, ptrdiff_t out_column)
{
    $type columns[$size] TASOR_ALIGNED;
    TASOR_NO_UNROLL
    for (ptrdiff_t j = 0; j < $width; j++) {
        TASOR_SIMD
        for (ptrdiff_t lane = 0; lane < $lanes; lane++) {
$down
        }
    }
    TASOR_NO_UNROLL
    for (ptrdiff_t i = 0; i < $height; i++) {
        TASOR_SIMD
        for (ptrdiff_t lane = 0; lane < $lanes; lane++) {
$across
        }
    }
}
"""


_SUFFIX = {"float": "f32", "double": "f64"}


@lru_cache(maxsize=256)
def filter_function(
    down: tuple[Row, ...], across: tuple[Row, ...], c_type: str, lanes: int
) -> CFunction:
    """`out = down x across^T` for a tile x on each of so many lanes of float or double.

    Its parameters are x, elements from a line of x to the next and from a column to the next, and
    the same of out.
    """
    height, width = len(down), len(across[0])
    digest = content_digest(str(down), str(across)).hex()[:6]
    sizes = f"{height}x{len(down[0])}_{len(across)}x{width}"
    loaded = [f"x[{_times(k, 'line')}j * column + lane]" for k in range(len(down[0]))]
    made = [f"columns[j * {lanes} + lane{_behind(i * width * lanes)}]" for i in range(height)]
    kept = [f"columns[i * {width * lanes} + lane{_behind(j * lanes)}]" for j in range(width)]
    stored = [f"out[i * out_line + {_times(j, 'out_column')}lane]" for j in range(len(across))]
    return c_function(
        _TEXT,
        "out[i * out_line + j * out_column] = the sum of down[i][k] * across[j][l] * "
        f"x[k * line + l * column] over all k and l, on each of {lanes} lanes: down = "
        f"{_matrix(down)}, across = {_matrix(across)}.",
        None,
        name=f"tasor_filter_{sizes}_{digest}_{_SUFFIX[c_type]}x{lanes}",
        type=c_type,
        size=str(height * width * lanes),
        width=str(width),
        height=str(height),
        lanes=str(lanes),
        down="\n".join(_combinations(c_type, down, loaded, made)),
        across="\n".join(_combinations(c_type, across, kept, stored)),
    )


def _times(count: int, step: str) -> str:
    """The start of an index, so many steps; nothing for none."""
    return "" if count == 0 else f"{step} + " if count == 1 else f"{count} * {step} + "


def _behind(count: int) -> str:
    """The end of an index, so many elements further."""
    return f" + {count}" if count else ""


def _matrix(rows: Sequence[Row]) -> str:
    return "[" + ", ".join("[" + " ".join(map(str, row)) + "]" for row in rows) + "]"


def _combinations(
    c_type: str, rows: Sequence[Row], elements: Sequence[str], results: Sequence[str]
) -> Iterator[str]:
    """Statements that set each result to the sum of the elements with the weights of its row."""
    indent = " " * 12
    for number, element in enumerate(elements):
        if any(row[number] for row in rows):
            yield f"{indent}const {c_type} x{number} = {element};"
    for row, result in zip(rows, results, strict=True):
        yield f"{indent}{result} = {_combination(c_type, row)};"


def _combination(c_type: str, row: Row) -> str:
    """Terms that are added first, so that the first one needs no sign if one has none."""
    total = ""
    pairs = [(weight, f"x{number}") for number, weight in enumerate(row) if weight]
    for weight, element in sorted(pairs, key=lambda pair: pair[0] < 0):
        size = abs(weight)
        term = element if size == 1 else f"{element} * {float_literal(size, c_type)}"
        sign = "-" if weight < 0 else "+"
        total = f"{total} {sign} {term}" if total else term if weight > 0 else f"-{term}"
    assert total, "no row of a filter is zero"
    return total

"""The transform of a tile under minimal filtering, data or products alike: a matrix on either side.

What it does not: know where the elements come from or go to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorgen.expr import Expr
from tensorgen.loop import Buffer, FilterTile
from tensorgen.minimal_filtering import Row
from tensorgen.simplify import Affine, affine, simplify

Index = Callable[[int, int], Expr]
"""Where the first lane of an element of a tile is, by its line and its column."""


def transform(
    source: Buffer, read: Index, target: Buffer, written: Index, down: Sequence[Row],
    across: Sequence[Row], lanes: int,
) -> FilterTile:  # fmt: skip
    """D x A^T for the matrices D `down` and A `across`, on each of the lanes. Elements of a line
    are as far apart as those of any other, and so are those of a column."""
    height, width = len(down[0]), len(across[0])
    line, column = _steps(read, height, width)
    target_line, target_column = _steps(written, len(down), len(across))
    return FilterTile(
        target, simplify(written(0, 0)), target_line, target_column,
        source, simplify(read(0, 0)), line, column,
        tuple(down), tuple(across), lanes,
    )  # fmt: skip


def _steps(index: Index, lines: int, columns: int) -> tuple[int, int]:
    """From an element to that of the next line and of the next column; 0 where there is none."""
    first = affine(simplify(index(0, 0)))
    line = _step(first, index, 1, 0) if lines > 1 else 0
    column = _step(first, index, 0, 1) if columns > 1 else 0
    last = affine(simplify(index(lines - 1, columns - 1)))
    reached = first.constant + (lines - 1) * line + (columns - 1) * column
    assert (last.terms, last.constant) == (first.terms, reached), "steps of one length"
    return line, column


def _step(first: Affine, index: Index, line: int, column: int) -> int:
    there = affine(simplify(index(line, column)))
    assert there.terms == first.terms, "a step that does not depend on where it is"
    return there.constant - first.constant

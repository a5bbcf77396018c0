"""The transform of a tile under minimal filtering, data or products alike: a matrix on either side.

What it does not: know where the elements come from or go to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorgen.expr import Expr, Load, apply, const
from tensorgen.loop import Buffer, LoopKind, Space, Stmt, Store
from tensorgen.lower_winograd_frame import Counter, Frame, nested_counters
from tensorgen.minimal_filtering import Row
from tensorgen.simplify import simplify

Source = Callable[[int, Counter], Load]
"""The element of a tile in a line and a column."""

Target = Callable[[Counter, int, Expr], Store]
"""The store of a value as that of a line and a column of the transformed tile."""


def transform(
    frame: Frame, down: Sequence[Row], across: Sequence[Row], lane: Counter, source: Source,
    target: Target,
) -> tuple[Buffer, tuple[Stmt, ...]]:  # fmt: skip
    """D x A^T for the matrices D `down` and A `across`, on each of the lanes: all columns, and then
    all lines of what they have become, which is in the buffer."""
    lanes, width = frame.schedule.lanes, len(across[0])
    columns = frame.numbers.buffer("columns", frame.dtype, len(down) * width * lanes, Space.STACK)
    column = frame.counter("column", width)
    first = [
        Store(
            columns,
            simplify((column + i * width) * lanes + lane),
            combination(weights, [source(k, column) for k in range(len(weights))]),
        )
        for i, weights in enumerate(down)
    ]
    line = frame.counter("line", len(down))
    elements = [columns.at(simplify((line * width + k) * lanes + lane)) for k in range(width)]
    second = [target(line, j, combination(weights, elements)) for j, weights in enumerate(across)]
    return columns, (*vector_loop(column, lane, first), *vector_loop(line, lane, second))


def vector_loop(outer: Counter, lane: Counter, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Vector statements for every step of a loop."""
    lanes = nested_counters((lane,), tuple(body), LoopKind.SIMD)
    return nested_counters((outer,), lanes, LoopKind.ROLLED)


def combination(weights: Row, elements: Sequence[Load]) -> Expr:
    """The sum of the elements with integer weights, the first one above 0 if there is one."""
    total: Expr | None = None
    pairs = [(w, e) for w, e in zip(weights, elements, strict=True) if w]
    for weight, element in sorted(pairs, key=lambda pair: pair[0] < 0):
        size = abs(weight)
        term: Expr = element if size == 1 else element * const(size, element.dtype)
        if total is None:
            total = term if weight > 0 else apply("neg", term)
        else:
            total = total + term if weight > 0 else total - term
    assert total is not None, "no row of a filter is zero"
    return total

"""What a kernel asks the caches for: every place, by walking its loops."""

from __future__ import annotations

from tensorgen.expr import Axis, Const, Expr, const
from tensorgen.loop import Allocate, Declare, For, Prefetch, Stmt
from tensorgen.lower_loops import replace_axes
from tensorgen.types import int64


def asked_places(
    body: tuple[Stmt, ...], values: dict[Axis, Expr], asked: dict[int, set[int]]
) -> None:
    """The flat places of every buffer, by its number, whose lines a kernel asks for."""
    for statement in body:
        match statement:
            case For(axis=axis):
                for value in range(axis.extent):
                    asked_places(statement.body, {**values, axis: const(value, int64)}, asked)
            case Allocate() | Declare():
                asked_places(statement.body, values, asked)
            case Prefetch(buffer=buffer):
                place = replace_axes(statement.index, values)
                assert isinstance(place, Const)
                asked.setdefault(buffer.number, set()).add(int(place.value))
            case _:
                pass

"""What a kernel asks the caches for, and what it reads: every place, by walking its loops."""

from __future__ import annotations

from collections.abc import Iterator

from tensorgen.expr import Axis, Const, Expr, const
from tensorgen.loop import Allocate, Buffer, Declare, For, If, Prefetch, Stmt, VectorLoad
from tensorgen.lower_loops import replace_axes
from tensorgen.types import int64


def asked_places(
    body: tuple[Stmt, ...], values: dict[Axis, Expr], asked: dict[int, set[int]]
) -> None:
    """The flat places of every buffer, by its number, whose lines a kernel asks for."""
    for buffer, place, is_read in places_in_turn(body, values):
        if not is_read:
            asked.setdefault(buffer.number, set()).add(place)


def places_in_turn(
    body: tuple[Stmt, ...], values: dict[Axis, Expr]
) -> Iterator[tuple[Buffer, int, bool]]:
    """Each flat place of a buffer that is asked for or, as a vector, read: in the order in which a
    kernel does it, and whether it is read."""
    for statement in body:
        match statement:
            case For(axis=axis):
                for value in range(axis.extent):
                    inside = {**values, axis: const(value, int64)}
                    yield from places_in_turn(statement.body, inside)
            case Allocate() | Declare():
                yield from places_in_turn(statement.body, values)
            case If(condition=condition):
                holds = replace_axes(condition, values)
                assert isinstance(holds, Const)
                taken = statement.body if holds.value else statement.otherwise
                yield from places_in_turn(taken, values)
            case Prefetch(buffer=buffer) | VectorLoad(buffer=buffer):
                place = replace_axes(statement.index, values)
                assert isinstance(place, Const)
                yield buffer, int(place.value), isinstance(statement, VectorLoad)
            case _:
                pass

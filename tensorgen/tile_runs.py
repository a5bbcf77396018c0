"""Runs of tiles along one axis: whole tiles in a loop, and the shorter one behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tensorgen.expr import Axis, Expr, const
from tensorgen.loop import If, Numbers, Stmt
from tensorgen.lower_loops import Span, spans
from tensorgen.simplify import simplify
from tensorgen.types import int64


@dataclass(frozen=True, slots=True)
class Block:
    """A tile along one axis: its first element, its length, and its number."""

    start: Expr
    length: int
    tile: Expr


@dataclass(frozen=True, slots=True)
class Turns:
    """A run of tiles along one axis: the loop over them (if several), and the tile of each turn.

    Where threads share a loop, it has the shorter tile at the end, too, so that they meet once:
    `rest` is the condition under which a turn is a whole tile, and the tile that it else is.
    """

    loop: tuple[Axis, ...]
    block: Block
    rest: tuple[Expr, Block] | None = None

    def chosen(self, made: Callable[[Block], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """What is made for the tile of a turn."""
        if self.rest is None:
            return made(self.block)
        whole, last = self.rest
        return (If(whole, made(self.block), made(last)),)

    def moved(self, start: Expr, number: Expr | None = None) -> Turns:
        """The same tiles, all of one length, from another place on. Their numbers stay, or go on
        from that of the first."""
        tile = self.block.tile if number is None else simplify(number + self.block.tile)
        block = replace(self.block, start=simplify(start + self.block.start), tile=tile)
        return replace(self, block=block)


def turns_of(
    numbers: Numbers, name: str, extent: int, tile: int, whole: bool, backwards: bool = False
) -> tuple[Turns, ...]:
    """The runs of tiles that cover an axis; all in one with `whole`."""
    cut = spans(extent, tile)
    if whole and len(cut) > 1:
        full, rest = cut
        loop = numbers.axis(f"{name}_o", full.blocks + 1)
        number = simplify(const(full.blocks, int64) - loop) if backwards else loop
        last = Block(const(rest.start, int64), rest.length, const(full.blocks, int64))
        block = Block(simplify(number * tile), tile, number)
        return (Turns((loop,), block, (number < full.blocks, last)),)
    return tuple(
        run_of(numbers, name, span, tile, backwards) for span in (cut[::-1] if backwards else cut)
    )


def run_of(numbers: Numbers, name: str, span: Span, tile: int, backwards: bool = False) -> Turns:
    """The run of a span of tiles of one length."""
    first = span.start // tile
    if span.blocks == 1:
        return Turns((), Block(const(span.start, int64), span.length, const(first, int64)))
    loop = numbers.axis(f"{name}_o", span.blocks)
    number = const(span.blocks - 1, int64) - loop if backwards else loop
    start = simplify(number * tile + span.start)
    return Turns((loop,), Block(start, tile, simplify(number + first)))

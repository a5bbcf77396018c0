"""Where the elements are that a function reads and writes, as streams that go along its loops.

What it does: of many indices makes few streams. Whatever is read or written in one array, moved by
the same steps of the same loops, is in one stream, so many bytes behind it; and rows that are as
far apart as the caller says are in one as well, if an address can tell how many of them lie
between. What it does not: know registers, or write anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from tensorgen.expr import Apply, Axis, Expr
from tensorgen.simplify import affine
from tensorgen.tune.assembly_page import NoAssembly

ELEMENT_BYTES = 4

REACHED_ROWS = (1, 2, 4, 8)
"""So many rows behind a stream an address can be."""

Multiple = tuple[int | None, int]
"""So many times the number that is the axis of that position, or that often one."""

Moves = tuple[tuple[int, tuple[Multiple, ...]], ...]
"""How many elements the turns of loops go on by, by the loops' axes."""

_Sum = tuple[tuple[int, int], ...]
"""Numbers, by their axes, times factors."""


@dataclass(frozen=True, slots=True)
class Stream:
    """It begins in an array, `begin` elements from its first one on, and `moves` from there."""

    array: int
    begin: _Sum
    moves: Moves

    def step(self, loop: int) -> tuple[Multiple, ...]:
        """How many elements a turn of a loop goes on by."""
        return next((steps for axis, steps in self.moves if axis == loop), ())


@dataclass(frozen=True, slots=True)
class Place:
    """An element of a stream, which has that number: so many bytes behind it, and besides so many
    `rows`, each as long as the number says that is the axis `apart`."""

    stream: int
    apart: int
    rows: int
    behind: int


@dataclass(frozen=True, slots=True)
class Streams:
    """Streams, and the places of elements in them by whoever reads or writes them."""

    streams: tuple[Stream, ...]
    places: Mapping[int, Place]


@dataclass(frozen=True, slots=True)
class Access:
    """An element of an array. Of an axis there may be `known` the position and the value."""

    array: int
    index: Expr
    known: tuple[int, int] | None


def streams_of(accesses: Mapping[int, Access], numbers: Set[int]) -> Streams:
    """The streams of what is read and written. The axes of these positions are `numbers`, which
    are the same in all of a function. Raises NoAssembly for indices that do not go straight on."""
    forms = {key: (access.array, *_form(access, numbers)) for key, access in accesses.items()}
    alike: dict[tuple[int, Moves], set[_Sum]] = {}
    for array, moves, fixed, _ in forms.values():
        alike.setdefault((array, moves), set()).add(fixed)
    known: dict[tuple[int, Moves, _Sum], tuple[int, int, int]] = {}
    streams: list[Stream] = []
    for (array, moves), sums in alike.items():
        own: dict[_Sum, int] = {}
        for fixed, begin, apart, rows in _rows_of(sums):
            if begin not in own:
                own[begin] = len(streams)
                streams.append(Stream(array, begin, moves))
            known[array, moves, fixed] = own[begin], apart, rows
    places = {
        key: Place(*known[array, moves, fixed], checked(ELEMENT_BYTES * constant))
        for key, (array, moves, fixed, constant) in forms.items()
    }
    return Streams(tuple(streams), places)


def checked(number: int) -> int:
    """A number that instructions have room for. Raises NoAssembly."""
    if not -(2**31) <= number < 2**31:
        raise NoAssembly
    return number


def _form(access: Access, numbers: Set[int]) -> tuple[Moves, _Sum, int]:
    """What loops add to an index, what numbers add, and a constant."""
    at, value = access.known or (None, 0)
    moves: dict[int, tuple[Multiple, ...]] = {}
    fixed: list[tuple[int, int]] = []
    found = affine(access.index)
    constant = found.constant
    for atom, factor in found.terms:
        match atom:
            case Axis(position=position) if position == at:
                constant += factor * value
            case Axis(position=position) if position in numbers:
                fixed.append((position, factor))
            case Axis(position=position):
                moves[position] = (*moves.get(position, ()), (None, factor))
            case Apply(args=(Axis(position=left), Axis(position=right))) if (
                atom.op.name == "mul" and (left in numbers) != (right in numbers)
            ):
                loop, number = (right, left) if left in numbers else (left, right)
                if loop == at:
                    if value:
                        raise NoAssembly
                    continue
                moves[loop] = (*moves.get(loop, ()), (number, factor))
            case _:
                raise NoAssembly
    return tuple(sorted(moves.items())), tuple(sorted(fixed)), constant


def _rows_of(sums: Set[_Sum]) -> Iterable[tuple[_Sum, _Sum, int, int]]:
    """Of each sum where its stream begins, and how many rows behind that it is. If sums differ in
    one number alone, that is how far rows are apart."""
    terms = [dict(one) for one in sums]
    varying = {
        position
        for position in set().union(*terms)
        if len({one.get(position, 0) for one in terms}) > 1
    }
    if len(varying) != 1:
        return [(one, one, 0, 0) for one in sorted(sums)]
    (apart,) = varying
    by_rows = {dict(one).get(apart, 0): one for one in sums}
    found: list[tuple[_Sum, _Sum, int, int]] = []
    left = sorted(by_rows)
    while left:
        first = left.pop(0)
        begin = by_rows[first]
        found.append((begin, begin, apart, 0))
        for rows in REACHED_ROWS:
            if first + rows in left:
                left.remove(first + rows)
                found.append((by_rows[first + rows], begin, apart, rows))
    return found

"""The parts of a kernel in which it spends its time, as functions that candidates share.

What it does: finds the blocks of sums of a kernel, and the loops that bring them to where they
belong, and has functions called in their place (`outline`). What is left is a frame: loops around
calls, which a compiler is done with soon. What it does not: compile anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tensorgen.emit import Spelling
from tensorgen.lane_vectors import softmax_function
from tensorgen.loop import (
    Allocate,
    Buffer,
    Call,
    Declare,
    Fill,
    FilterTile,
    For,
    If,
    LoopKernel,
    LoopKind,
    MultiplyAdd,
    Prefetch,
    SoftmaxRows,
    Stmt,
    Store,
    TransposeBlock,
    TransposeSums,
    VectorApply,
    VectorLoad,
    VectorStore,
    is_hint,
    statements,
)
from tensorgen.tune.outline import outlined

LEAST_WORK = 1024
"""Operations on vectors that are worth a call, which takes as long as some twenty: less would be
longer than in a library by more than others are."""

LEAST_STORES = 8
"""Elements that are stored by loops that are worth a call. What stores fewer may be in a frame."""

_LANES = 16
"""So many elements that a loop stores are about as much work as a vector."""


def with_parts_apart(kernel: LoopKernel, spelling: Spelling) -> LoopKernel:
    """The kernel, to be printed so, with calls in the place of its parts."""
    allocated = (s.buffer for s in statements(kernel.body) if isinstance(s, Allocate))
    buffers = {buffer.number: buffer for buffer in (*kernel.parameters, *allocated)}
    return replace(kernel, body=_Parts(spelling, buffers).within(kernel.body, worth=False))


def is_frame(body: tuple[Stmt, ...], spelling: Spelling) -> bool:
    """Whether all that is left in a block, printed so, are loops and conditions around calls."""
    return all(_is_frame(statement, spelling) for statement in body)


def _is_frame(statement: Stmt, spelling: Spelling) -> bool:
    match statement:
        case For():
            return is_frame(statement.body, spelling) or 0 < _stored(statement) < LEAST_STORES
        case Allocate():
            return is_frame(statement.body, spelling)
        case If():
            return is_frame(statement.body, spelling) and is_frame(statement.otherwise, spelling)
        case SoftmaxRows():
            return not spelling.strict and softmax_function(spelling.isa, statement) is not None
        case Call() | FilterTile() | Prefetch() | TransposeBlock():
            return True
        case _:
            return False


@dataclass(frozen=True, slots=True)
class _Parts:
    """Looks for the parts of a kernel with these buffers."""

    spelling: Spelling
    buffers: Mapping[int, Buffer]

    def within(self, body: tuple[Stmt, ...], worth: bool) -> tuple[Stmt, ...]:
        """A block with calls in the place of its parts; `worth` tells that even little is worth
        one, since most parts of a block around it are more. Neighbours that are no parts are one
        together."""
        worth = worth or _work_of_each(body) >= LEAST_WORK
        found: list[Stmt] = []
        each = ((statement, self._replaced(statement, worth)) for statement in body)
        for is_done, group in groupby(each, key=lambda pair: is_frame(pair[1], self.spelling)):
            pairs = tuple(group)
            call: Call | None = None
            if not is_done:
                # Sums so short are not worth numbers for their sizes.
                together = tuple(statement for statement, _ in pairs)
                if worth or sum(map(_work, together)) >= LEAST_WORK:
                    call = outlined(together, self.buffers, sizes=False)
            found += [s for _, replaced in pairs for s in replaced] if call is None else [call]
        return tuple(found)

    def _replaced(self, statement: Stmt, worth: bool) -> tuple[Stmt, ...]:
        match statement:
            case Declare():
                return self._sums_apart(statement, worth)
            case For(kind=LoopKind.PARALLEL, collapse=nested):
                return (self._shared(statement, nested, worth),)
            case For() if (call := self._stores_apart(statement)) is not None:
                return (call,)
            case For() | Allocate():
                return (replace(statement, body=self.within(statement.body, worth)),)
            case If(body=body, otherwise=otherwise):
                body, otherwise = (self.within(block, worth) for block in (body, otherwise))
                return (replace(statement, body=body, otherwise=otherwise),)
            case _:
                return (statement,)

    def _stores_apart(self, loop: For) -> Call | None:
        """The call of a loop that does nothing but store elements; None if it does more, or too
        little."""
        return outlined((loop,), self.buffers) if _stored(loop) >= LEAST_STORES else None

    def _shared(self, loop: For, nested: int, worth: bool) -> For:
        """Nested loops that threads share as one: they stay."""
        if nested == 1:
            return replace(loop, body=self.within(loop.body, worth))
        (inner,) = loop.body
        assert isinstance(inner, For), "nested loops that are shared as one"
        return replace(loop, body=(self._shared(inner, nested - 1, worth),))

    def _sums_apart(self, declare: Declare, worth: bool) -> tuple[Stmt, ...]:
        """What is done with registers, between what is done without them: hints in front, and what
        becomes of the sums behind, in the array that they are left in."""
        start = next((n for n, s in enumerate(declare.body) if not is_hint(s)), len(declare.body))
        before, block = declare.body[:start], declare.body[start:]
        array = block[-1] if block else None
        behind: tuple[Stmt, ...] = ()
        if isinstance(array, Allocate):
            stores = [isinstance(statement, VectorStore) for statement in array.body]
            end = (*stores, False).index(False)
            block, behind = (*block[:-1], *array.body[:end]), array.body[end:]
        part = replace(declare, body=block)
        is_worth = worth or _work(part) >= LEAST_WORK
        call = outlined((part,), self.buffers) if is_worth else None
        if isinstance(array, Allocate) and not any(map(_is_on_registers, statements(behind))):
            behind = behind if call is None else self.within(behind, worth)
            return (*before, replace(array, body=(call or part, *behind)))
        return (declare,) if call is None or behind else (*before, call)


def _is_on_registers(statement: Stmt) -> bool:
    return isinstance(
        statement, Fill | VectorLoad | VectorStore | MultiplyAdd | VectorApply | TransposeSums
    )


def _stored(loop: For) -> float:
    """How many elements a loop stores, if it does nothing else; otherwise none."""
    inside = statements((loop,))
    stores = all(isinstance(statement, For | If | Store) for statement in inside)
    return _work(loop) * _LANES if stores else 0


def _work_of_each(body: Sequence[Stmt]) -> float:
    """About how many operations a block takes for each time that one of its parts is run."""
    times = sum(map(_times, body))
    return sum(map(_work, body)) / times if times else 0.0


def _times(statement: Stmt) -> float:
    """How often parts of a statement are run: blocks of sums, and loops that only store."""
    match statement:
        case For(axis=axis, body=body):
            return 1 if _stored(statement) else axis.extent * sum(map(_times, body))
        case If(body=body, otherwise=otherwise):
            return max(sum(map(_times, body)), sum(map(_times, otherwise)))
        case Allocate(body=body):
            return sum(map(_times, body))
        case Declare():
            return 1
        case _:
            return 0


def _work(statement: Stmt) -> float:
    """About how many operations on vectors a statement takes."""
    match statement:
        case Store():
            return 1 / _LANES
        case For(axis=axis, body=body):
            return axis.extent * sum(map(_work, body))
        case If(body=body, otherwise=otherwise):
            return max(sum(map(_work, body)), sum(map(_work, otherwise)))
        case Declare(body=body) | Allocate(body=body):
            return sum(map(_work, body))
        case TransposeSums(block=square, sums=rows):
            # A vector is read, taken through exchanges in pairs, written, and multiplied by rows.
            return square.lanes * (2 + square.lanes.bit_length() - 1 + len(rows))
        case Prefetch():
            return 0
        case _:
            return 1

"""The parts of a kernel in which it spends its time, as functions that candidates share.

What it does: finds the blocks of sums of a kernel, and the loops that bring them to where they
belong, and has functions called in their place (`outline`). What is left is a frame: loops around
calls, which a compiler is done with soon. What it does not: compile anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorgen.loop import (
    Allocate,
    Buffer,
    Call,
    Declare,
    FilterTile,
    For,
    If,
    LoopKernel,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    TransposeBlock,
    VectorStore,
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


def with_parts_apart(kernel: LoopKernel) -> LoopKernel:
    """The kernel, with calls in the place of its parts."""
    allocated = (s.buffer for s in statements(kernel.body) if isinstance(s, Allocate))
    buffers = {buffer.number: buffer for buffer in (*kernel.parameters, *allocated)}
    return replace(kernel, body=_within(kernel.body, buffers))


def is_frame(body: tuple[Stmt, ...]) -> bool:
    """Whether all that is left in a block are loops and conditions around calls."""
    return all(map(_is_frame, body))


def _is_frame(statement: Stmt) -> bool:
    match statement:
        case For():
            return is_frame(statement.body) or 0 < _stored(statement) < LEAST_STORES
        case Allocate():
            return is_frame(statement.body)
        case If():
            return is_frame(statement.body) and is_frame(statement.otherwise)
        case Call() | FilterTile() | Prefetch() | TransposeBlock():
            return True
        case _:
            return False


def _within(body: tuple[Stmt, ...], buffers: Mapping[int, Buffer]) -> tuple[Stmt, ...]:
    return tuple(found for statement in body for found in _replaced(statement, buffers))


def _replaced(statement: Stmt, buffers: Mapping[int, Buffer]) -> tuple[Stmt, ...]:
    match statement:
        case Declare():
            return _sums_apart(statement, buffers)
        case For(kind=LoopKind.PARALLEL, collapse=nested):
            return (_shared(statement, nested, buffers),)
        case For():
            return (_loop(statement, buffers),)
        case Allocate():
            return (replace(statement, body=_within(statement.body, buffers)),)
        case If(body=body, otherwise=otherwise):
            body, otherwise = _within(body, buffers), _within(otherwise, buffers)
            return (replace(statement, body=body, otherwise=otherwise),)
        case _:
            return (statement,)


def _shared(loop: For, nested: int, buffers: Mapping[int, Buffer]) -> For:
    """Nested loops that threads share as one: they stay."""
    if nested == 1:
        return replace(loop, body=_within(loop.body, buffers))
    (inner,) = loop.body
    assert isinstance(inner, For), "nested loops that are shared as one"
    return replace(loop, body=(_shared(inner, nested - 1, buffers),))


def _loop(loop: For, buffers: Mapping[int, Buffer]) -> Stmt:
    """A loop around calls, or a call of the whole loop: where it does nothing but store elements,
    and where there is too little inside for a call."""
    if _stored(loop) >= LEAST_STORES and (call := outlined((loop,), buffers)) is not None:
        return call
    around = replace(loop, body=_within(loop.body, buffers))
    if is_frame(around.body) or _work(loop) < LEAST_WORK:
        return around
    # Sums so short are not worth numbers for their sizes.
    call = outlined((loop,), buffers, sizes=False)
    return around if call is None else call


def _sums_apart(declare: Declare, buffers: Mapping[int, Buffer]) -> tuple[Stmt, ...]:
    """What is done with registers, between what is done without them: hints in front, and what
    becomes of the sums behind, in the array that they are left in."""
    start = next((n for n, s in enumerate(declare.body) if not _is_hint(s)), len(declare.body))
    before, block = declare.body[:start], declare.body[start:]
    around = block[-1] if block else None
    behind: tuple[Stmt, ...] = ()
    if isinstance(around, Allocate):
        stores = [isinstance(statement, VectorStore) for statement in around.body]
        end = (*stores, False).index(False)
        block, behind = (*block[:-1], *around.body[:end]), around.body[end:]
    part = replace(declare, body=block)
    call = outlined((part,), buffers) if _work(part) >= LEAST_WORK else None
    if call is None:
        return (declare,)
    if isinstance(around, Allocate):
        return (*before, replace(around, body=(call, *_within(behind, buffers))))
    return (*before, call)


def _is_hint(statement: Stmt) -> bool:
    return isinstance(statement, Prefetch) or (
        isinstance(statement, For) and all(map(_is_hint, statement.body))
    )


def _stored(loop: For) -> float:
    """How many elements a loop stores, if it does nothing else; otherwise none."""
    inside = statements((loop,))
    stores = all(isinstance(statement, For | If | Store) for statement in inside)
    return _work(loop) * _LANES if stores else 0


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
        case Prefetch():
            return 0
        case _:
            return 1

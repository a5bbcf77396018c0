"""Flat form of a stage: every access as one affine index into a row-major buffer.

Between the tensor expression, whose loads have one index an axis, and the loops, whose loads have
one index. Here adjacent axes that every access walks in step become one axis, which turns most
elementwise stages into a single loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Expr,
    Load,
    Reduce,
    const,
    free_axes,
    map_children,
    substitute,
    walk,
)
from tensorgen.simplify import affine, simplify
from tensorgen.types import Shape, TensorType, int64, row_major_strides


@dataclass(frozen=True, slots=True)
class FlatStage:
    """`buffer[index] = body` for all values of `axes`; loads in `body` have one flat index."""

    axes: tuple[Axis, ...]
    index: Expr
    body: Expr


def flat_index(indices: Sequence[Expr], shape: Shape) -> Expr:
    """The row-major position of an element, simplified."""
    total: Expr = const(0, int64)
    for index, stride in zip(indices, row_major_strides(shape), strict=True):
        total = total + index * stride
    return simplify(total)


def flat_loads(expr: Expr) -> Expr:
    """The term with one flat index in every load."""
    memo: dict[bytes, Expr] = {}

    def visit(term: Expr) -> Expr:
        known = memo.get(term.digest)
        if known is None:
            known = map_children(term, visit)
            if isinstance(known, Load):
                flat = TensorType(known.type.dtype, (known.type.size,))
                known = Load(known.operand, flat, (flat_index(known.indices, known.type.shape),))
            memo[term.digest] = known
        return known

    return visit(expr)


def merge_axes(stage: FlatStage) -> FlatStage:
    """Merge adjacent output axes, innermost first."""
    position = len(stage.axes) - 2
    while position >= 0:
        outer, inner = stage.axes[position], stage.axes[position + 1]
        terms = [stage.index, *index_terms(stage.body)]
        if mergeable(outer, inner, terms):
            merged = Axis(inner.position, outer.extent * inner.extent, merged_name(outer, inner))
            rename = _merge(outer, inner, merged)
            stage = replace(
                stage,
                axes=(*stage.axes[:position], merged, *stage.axes[position + 2 :]),
                index=simplify(substitute(stage.index, rename)),
                body=simplify(substitute(stage.body, rename)),
            )
            position = min(position, len(stage.axes) - 1)
        position -= 1
    return stage


def merge_reduction_axes(expr: Expr) -> Expr:
    """The term with adjacent axes of each reduction merged where every access allows it."""

    def merge(term: Expr) -> Expr:
        inner = map_children(term, merge)
        if not isinstance(inner, Reduce):
            return inner
        axes, body = [axis for axis in inner.axes if axis.extent != 1], inner.body
        position = len(axes) - 2
        while position >= 0:
            first, second = axes[position], axes[position + 1]
            if mergeable(first, second, list(index_terms(body))):
                extent = first.extent * second.extent
                merged = Axis(second.position, extent, merged_name(first, second))
                body = simplify(substitute(body, _merge(first, second, merged)))
                axes[position : position + 2] = [merged]
            position -= 1
        return Reduce(inner.fold, tuple(axes), body)

    return merge(expr)


def index_terms(body: Expr) -> Iterator[Expr]:
    """The int64 terms of a body that are not part of a larger affine term."""
    if body.dtype == int64:
        yield body
    for term in walk(body):
        match term:
            case Load(indices=indices):
                yield from indices
            case Apply(op=op, args=args) if op.predicate and args[0].dtype == int64:
                yield from args
            case Cast(arg=arg) if arg.dtype == int64:
                yield arg
            case _:
                pass


def mergeable(outer: Axis, inner: Axis, terms: Sequence[Expr]) -> bool:
    """True if every term depends on the two axes only through `outer * extent + inner`."""
    for term in terms:
        form = affine(term)
        if form.coefficient(outer) != form.coefficient(inner) * inner.extent:
            return False
        for atom, _ in form.terms:
            if not isinstance(atom, Axis) and {outer, inner} & free_axes(atom):
                return False
    return True


def merged_name(outer: Axis, inner: Axis) -> str:
    """The display name of two merged axes."""
    return f"{outer.name}_{inner.name}" if len(outer.name) + len(inner.name) < 16 else inner.name


def _merge(outer: Axis, inner: Axis, merged: Axis) -> Callable[[Expr], Expr | None]:
    zero = const(0, int64)

    def rename(term: Expr) -> Expr | None:
        if term == outer:
            return zero
        return merged if term == inner else None

    return rename

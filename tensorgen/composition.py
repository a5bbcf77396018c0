"""Tensor expressions put together: one inlined into another, operands given other numbers."""

from __future__ import annotations

from collections.abc import Sequence

from tensorgen.expr import (
    Axis,
    Expr,
    Load,
    Reduce,
    TensorExpr,
    canonical,
    map_children,
    provisional_axis,
    substitute,
)


def inline(consumer: TensorExpr, operand: int, producer: TensorExpr) -> TensorExpr:
    """`consumer` with every load of `operand` replaced by the producer's element there."""

    def replace(term: Expr) -> Expr | None:
        if isinstance(term, Load) and term.operand == operand:
            indices = tuple(substitute(index, replace) for index in term.indices)
            return element_at(producer, indices)
        return None

    return canonical(consumer.axes, substitute(consumer.body, replace))


def renumber_operands(tensor: TensorExpr, operands: dict[int, int]) -> TensorExpr:
    """The expression with its operands renumbered."""
    if all(old == number for old, number in operands.items()):
        return tensor

    def replace(term: Expr) -> Expr | None:
        if isinstance(term, Load):
            indices = tuple(substitute(index, replace) for index in term.indices)
            return Load(operands[term.operand], term.type, indices)
        return None

    return TensorExpr(tensor.axes, substitute(tensor.body, replace))


def element_at(tensor: TensorExpr, indices: Sequence[Expr]) -> Expr:
    """The element of `tensor` at `indices`, with provisional positions for its reductions."""
    axes = {axis.position: index for axis, index in zip(tensor.axes, indices, strict=True)}

    def rename(expr: Expr, scope: dict[int, Expr]) -> Expr:
        memo: dict[bytes, Expr] = {}

        def visit(term: Expr) -> Expr:
            known = memo.get(term.digest)
            if known is not None:
                return known
            match term:
                case Axis():
                    result = scope.get(term.position, term)
                case Reduce():
                    fresh = tuple(provisional_axis(a.extent, a.name) for a in term.axes)
                    bound = {a.position: b for a, b in zip(term.axes, fresh, strict=True)}
                    result = Reduce(term.fold, fresh, rename(term.body, {**scope, **bound}))
                case _:
                    result = map_children(term, visit)
            memo[term.digest] = result
            return result

        return visit(expr)

    return rename(tensor.body, axes)

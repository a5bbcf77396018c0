"""16-bit floats are computed in float32: the pass that says so in the terms themselves.

After it no operator is applied to a float16 or bfloat16 term. A load of one is converted, a cast
to one rounds (and comes back), and whoever stores the result rounds once more.
"""

from __future__ import annotations

from typing import assert_never

from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    cast,
    const,
)
from tensorgen.types import float32


def widen(expr: Expr) -> Expr:
    """The term computed in float32 wherever it was a 16-bit float; the same object elsewhere."""
    memo: dict[bytes, Expr] = {}

    def visit(term: Expr) -> Expr:
        known = memo.get(term.digest)
        if known is None:
            known = _widen(term)
            memo[term.digest] = known
        return known

    def _widen(term: Expr) -> Expr:
        match term:
            case Const(value=value, dtype=dtype):
                rounded = float(dtype.numpy.type(value)) if dtype.is_half else value
                return const(rounded, float32) if dtype.is_half else term
            case Axis():
                return term
            case Load():
                load = Load(term.operand, term.type, tuple(visit(i) for i in term.indices))
                return Cast(load, float32) if term.dtype.is_half else load
            case Apply():
                return Apply(term.op, tuple(visit(arg) for arg in term.args))
            case Cast(bits=True):
                inner = visit(term.arg)
                narrow = cast(inner, term.arg.dtype) if term.arg.dtype.is_half else inner
                reread = Cast(narrow, term.dtype, bits=True)
                return Cast(reread, float32) if term.dtype.is_half else reread
            case Cast():
                inner = cast(visit(term.arg), term.dtype)
                return Cast(inner, float32) if term.dtype.is_half else inner
            case Select():
                return Select(visit(term.condition), visit(term.then), visit(term.otherwise))
            case Reduce():
                return Reduce(term.fold, term.axes, visit(term.body))
            case _:
                assert_never(term)

    return visit(expr)

"""What conditions on axes say: the conditions that they join, and comparisons as affine forms."""

from __future__ import annotations

from tensorgen.expr import Apply, Expr
from tensorgen.simplify import Affine, affine
from tensorgen.types import int64


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """The conditions that hold together if and only if this one does."""
    match condition:
        case Apply(op=op, args=(left, right)) if op.name == "and":
            return (*conjuncts(left), *conjuncts(right))
        case _:
            return (condition,)


def nonnegative(comparison: Expr) -> Affine | None:
    """The form that is at least 0 if and only if a comparison of whole numbers holds; None for any
    other condition."""
    match comparison:
        case Apply(op=op, args=(left, right)) if left.dtype == int64 and op.name in ("lt", "le"):
            difference = affine(right).plus(affine(left).scaled(-1))
            return difference.plus(Affine((), -1)) if op.name == "lt" else difference
        case _:
            return None


def all_nonnegative(condition: Expr) -> tuple[Affine, ...] | None:
    """The forms that are at least 0 if and only if a condition holds; None if it is more than
    comparisons of whole numbers."""
    forms = tuple(map(nonnegative, conjuncts(condition)))
    known = tuple(form for form in forms if form is not None)
    return known if len(known) == len(forms) else None

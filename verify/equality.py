"""Whether two sums are equal for all integers that the assumptions allow.

What it does: brings both to canonical form and pairs equal terms; what is left must cancel where
its conditions hold, which is a quantifier-free question over the integers for Z3. What it does not:
refute. `Open` says that no proof was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorgen.sizes import Size
from verify.assumptions import Assumptions
from verify.canonical import canonical
from verify.certificate import Comparison
from verify.normal_form import Quotient, Sum, product_text
from verify.obligation import bounds, cancelling, matched
from verify.solver import is_unsatisfiable


@dataclass(frozen=True, slots=True)
class Open:
    """No proof: the terms of both sides that remain."""

    source: tuple[str, ...]
    target: tuple[str, ...]


def compared(
    source: Sum,
    target: Sum,
    assumptions: Assumptions,
    axes: Sequence[Size] = (),
    extents: Sequence[Size] = (),
    quotients: Sequence[Quotient] = (),
    result: int = 0,
) -> Comparison | Open:
    """Compares two sums at an index `axes` of a result, by position, with those extents; they may
    name quotients."""
    also = bounds(axes, extents, quotients)
    inside = assumptions
    for size in also:
        inside = inside.with_nonnegative(size)
    left, right = canonical(source, inside), canonical(target, inside)
    pairs, groups = matched(left, right)
    questions = []
    for group in groups:
        conditional = any(term.guards for term in (*group.source, *group.target))
        question = cancelling(group, assumptions, also)
        if not conditional or not is_unsatisfiable(question):
            return Open(
                tuple(product_text(term) for one in groups for term in one.source),
                tuple(product_text(term) for one in groups for term in one.target),
            )
        questions.append(question)
    return Comparison(
        result, tuple(axes), tuple(extents), tuple(quotients), left, right, pairs, tuple(questions)
    )

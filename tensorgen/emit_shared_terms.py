"""Which subterms of a statement become named constants in front of it, and what they are called."""

from __future__ import annotations

from tensorgen.expr import Apply, Axis, Cast, Const, Expr, Load, Select, children


def shared_terms(value: Expr) -> tuple[Expr, ...]:
    """Subterms to name: used more than once, not trivial, and evaluated in any case.

    Innermost first. Terms inside a branch of a `Select` stay there unless they also occur outside:
    evaluating them always could read out of bounds.
    """
    uses: dict[bytes, int] = {}
    certain: set[bytes] = set()
    order: dict[bytes, Expr] = {}

    def visit(term: Expr, always: bool) -> None:
        uses[term.digest] = uses.get(term.digest, 0) + 1
        first = term.digest not in order
        upgraded = always and term.digest not in certain
        if always:
            certain.add(term.digest)
        if first or upgraded:
            match term:
                case Load() | Axis() | Const():
                    pass
                case Select(condition=condition):
                    visit(condition, always)
                    visit(term.then, False)
                    visit(term.otherwise, False)
                case _:
                    for child in children(term):
                        visit(child, always)
            order.setdefault(term.digest, term)

    visit(value, True)
    return tuple(
        term
        for digest, term in order.items()
        if uses[digest] > 1
        and digest in certain
        and isinstance(term, Apply | Select | Cast | Load)
        and not (isinstance(term, Cast) and isinstance(term.arg, Axis | Const))
    )


def label(term: Expr) -> str:
    """What such a constant holds, in a word."""
    match term:
        case Apply(op=op):
            return {"and": "both", "or": "either", "not": "negated"}.get(op.name, f"{op.name}")
        case Load():
            return "element"
        case Select():
            return "selected"
        case _:
            return "value"

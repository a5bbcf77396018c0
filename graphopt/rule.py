"""One rewrite rule: source pattern, target pattern, conditions; and what applying it means.

    channel-scale: mul(y := conv(x, w, **q), c) => conv(x, mul(w, …), **q) where along(c, 1, y), …

A rule claims: under every binding of its names for which both sides are defined, have the same
types, and every truth condition holds, both sides are equal — in the arithmetic of the reals for
floating-point tensors, modulo 2**bits for integers. So `mul(x, 1) => x` says nothing of a constant
whose shape would grow x, and needs no guard against it.

What it does not: read rule files (`rules`), search graphs (`rewrite`), prove anything.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from graphopt.graph import Value
from graphopt.matching import Bindings, Make, argument, build, make_node
from graphopt.pattern import FunctionCall, Pattern, expression_text, pattern_text
from graphopt.rule_functions import CONDITIONS, UNDEFINED, Undefined, Uses


@dataclass(frozen=True, slots=True)
class Rule:
    """`source => target where …`. The digest identifies what is claimed; it ignores the name."""

    name: str
    source: Pattern
    target: Pattern
    where: tuple[FunctionCall, ...] = ()
    digest: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        assert len(self.source.terms) == len(self.target.terms), "as many results on both sides"
        digest = hashlib.blake2b(statement_text(self).encode(), digest_size=16).hexdigest()
        object.__setattr__(self, "digest", digest)

    def __str__(self) -> str:
        return rule_text(self)


def statement_text(rule: Rule) -> str:
    """The rule without its name."""
    text = f"{pattern_text(rule.source)} => {pattern_text(rule.target)}"
    if not rule.where:
        return text
    return f"{text} where {', '.join(expression_text(condition) for condition in rule.where)}"


def rule_text(rule: Rule) -> str:
    """The rule as a line of a rule file."""
    return f"{rule.name}: {statement_text(rule)}"


def holds(condition: FunctionCall, bindings: Bindings, uses: Uses | None) -> bool:
    """Whether a condition holds; false when unknown.

    Without `uses` only the truth of a rule is asked for: profit conditions hold.
    """
    function = CONDITIONS[condition.function]
    if function.profit and uses is None:
        return True
    try:
        arguments = [argument(arg, bindings) for arg in condition.args]
        return bool(function.value(*([uses] if function.takes_uses else []), *arguments))
    except Undefined:
        return False


def replacement(
    rule: Rule,
    roots: tuple[Value, ...],
    bindings: Bindings,
    uses: Uses | None = None,
    make: Make = make_node,
) -> tuple[Value, ...] | None:
    """The values that a rule puts in place of the matched `roots`; None if it does not apply.

    It does not apply where a condition fails, the target is undefined or has other types. `make`
    builds the target's nodes; `uses` counts readers in the graph, see `holds`.
    """
    if not all(holds(condition, bindings, uses) for condition in rule.where):
        return None
    try:
        values = build(rule.target, bindings, make)
    except UNDEFINED:
        return None
    if any(old.type != new.type for old, new in zip(roots, values, strict=True)):
        return None
    return values

"""More general forms of a rule, for a prover to choose from.

What it does: an enumeration finds rules for the parameters and ranks that it had. Here concrete
parameters become names: parameters of windows and pads, axes of concatenations, permutations,
slices; and conditions are left out. Each form claims more than the rule it is made of, and may be
false: `most_general` keeps what a given test accepts, from the most general form down.

What it does not: propose forms (`moves`, but for conditions left out) or prove anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from graphopt.minimize.moves import MOVES
from graphopt.minimize.terms import (
    is_closed,
    names_in,
    tidied,
    with_conditions,
)
from graphopt.pattern import (
    FunctionCall,
    Literal,
    Name,
    applications,
)
from graphopt.rule import Rule, statement_text

Test = Callable[[Rule], bool]
"""Whether a rule is known to be true."""

MOST_TESTS = 40
"""So many forms of one rule are tested."""
FEW = 2
"""So many general forms of a rule are tested that is not accepted itself."""


def most_general(rule: Rule, accepts: Test) -> Rule | None:
    """The most general form that the test accepts; None if it accepts none, the rule included."""
    seen: dict[str, bool] = {}

    def accepted(form: Rule) -> bool:
        form = tidied(form)
        text = statement_text(form)
        if text not in seen:
            seen[text] = len(seen) < MOST_TESTS and is_closed(form) and accepts(form)
        return seen[text]

    for form in dict.fromkeys((_with_any_slices(rule), rule)):
        found = _most_general(form, accepted)
        if found is not None:
            return tidied(found)
    return None


def _with_any_slices(rule: Rule) -> Rule:
    """The rule without conditions that compare a name with what is computed from itself.

    Such a one says of a slice's sizes that it keeps other axes whole, as enumerated splits do.
    """
    return with_conditions(rule, tuple(c for c in rule.where if not _is_on_itself(c)))


def _is_on_itself(condition: FunctionCall) -> bool:
    name, *others = condition.args
    return (
        condition.function == "equal"
        and isinstance(name, Name)
        and any(name.name in names_in(other) for other in others)
    )


def _most_general(rule: Rule, accepted: Test) -> Rule | None:
    if not accepted(rule):
        # What is hard to say of the literal parameters may be easy of any.
        whole = islice(_whole_forms(rule), FEW)
        found = next((form for form in whole if accepted(form)), None)
        return None if found is None else _with_fewer_conditions(found, accepted)
    for form in _whole_forms(rule):
        free = _without_conditions(form)
        if accepted(free):
            return _with_fewer_labels(free, accepted)
    rule = _with_fewer_conditions(rule, accepted)
    for move in MOVES:
        rule = next((form for form in move(rule) if form != rule and accepted(form)), rule)
    return _with_fewer_conditions(rule, accepted)


def _whole_forms(rule: Rule) -> Iterator[Rule]:
    """The rule with every kind of parameter made general, in each way there is."""
    forms = [rule]
    for move in MOVES:
        forms = [further for form in forms for further in (list(move(form)) or [form])]
    yield from forms


def _without_conditions(rule: Rule) -> Rule:
    """The rule without the conditions that only say what was enumerated."""
    return with_conditions(rule, tuple(c for c in rule.where if not _is_incidental(c, rule)))


def _is_incidental(condition: FunctionCall, rule: Rule) -> bool:
    """Whether a rule may be true without a condition.

    Where an operand is broadcast, operators that move axes would have to move others than they do:
    there operands of one shape remain so, and scalars scalars.
    """
    operators = {p.op for side in (rule.source, rule.target) for p in applications(side)}
    pointwise = all(op.family == "elementwise" for op in operators)
    match condition.function:
        case "rank":
            return pointwise or condition.args[0] != Literal(0)
        case "same_shape":
            return all(op.family == "elementwise" or op.name == "matmul" for op in operators)
        case _:
            return False


def _with_fewer_conditions(rule: Rule, accepted: Test) -> Rule:
    """The rule without as many incidental conditions as the test accepts, one by one."""
    free = _without_conditions(rule)
    if accepted(free):
        return _with_fewer_labels(free, accepted)
    for condition in rule.where:
        fewer = with_conditions(rule, tuple(c for c in rule.where if c != condition))
        if _is_incidental(condition, rule) and accepted(fewer):
            rule = fewer
    return _with_fewer_labels(_with_narrower_ranks(rule, accepted), accepted)


def _with_fewer_labels(rule: Rule, accepted: Test) -> Rule:
    """The rule without conditions on inner results that those on operands imply."""
    labels = {part.label for part in applications(rule.source) if part.label is not None}
    for condition in rule.where:
        alike = [c for c in rule.where if c.function == "same_shape"]
        if condition not in alike or len(alike) == 1 or labels.isdisjoint(names_in(condition)):
            continue
        fewer = with_conditions(rule, tuple(c for c in rule.where if c != condition))
        if accepted(fewer):
            rule = fewer
    return rule


def _with_narrower_ranks(rule: Rule, accepted: Test) -> Rule:
    """Ranks asked of as few tensors as the test accepts."""
    for condition in rule.where:
        if condition.function != "rank" or len(condition.args) < 3:
            continue
        current = condition
        for arg in condition.args[1:]:
            if len(current.args) < 3:
                break
            fewer = FunctionCall("rank", tuple(a for a in current.args if a != arg))
            where = tuple(fewer if c == current else c for c in rule.where)
            if accepted(with_conditions(rule, where)):
                rule, current = with_conditions(rule, where), fewer
    return rule

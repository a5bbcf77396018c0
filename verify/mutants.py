"""Mutants of rules: what provers and oracles must not believe.

What it does: breaks rules in one place at a time (an operator, an operand, a parameter, a
condition, a subterm, the order of results), in a fixed order, and keeps those that some operands
fit. Many are false, some happen to be true. What it does not: say which (see `oracle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from graphopt.instances import Instance, find_instance, instances
from graphopt.ops import OPS
from graphopt.ops.spec import OpSpec
from graphopt.pattern import (
    COMMUTATIVE,
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Pattern,
    Role,
    Term,
    Variable,
    expression_text,
    literal_text,
    spelling,
    subterms,
)
from graphopt.pattern import Sequence as Operands
from graphopt.rule import Rule, replacement, statement_text
from graphopt.rule_functions import CONDITIONS, FUNCTIONS

DRAWS = 24
"""A mutant is well-typed if its target is on one of twice so many draws of the source."""

SURE = 6
"""No more draws are looked at when a target was well-typed on so many."""

ATTEMPTS = 120
"""So many draws in a row may fail."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule made of another by one change."""

    rule: Rule
    origin: str
    change: str


Changed = tuple[Term, str]


def mutants(
    rules: Sequence[Rule], true: Iterable[Rule] = (), each: int | None = None
) -> Iterator[Mutant]:
    """Well-typed mutants of rules, at most `each` of one, distinct in what they say.

    None says what one of `rules` or of the rules known to be `true` says. Mutants of different
    rules alternate, so that the first so many are of all of them.
    """
    seen = {statement_text(rule) for rule in (*rules, *true)}
    streams = [islice(_well_typed(rule, seen), each) for rule in rules]
    while streams:
        going = []
        for stream in streams:
            mutant = next(stream, None)
            if mutant is not None:
                yield mutant
                going.append(stream)
        streams = going


def _well_typed(rule: Rule, seen: set[str]) -> Iterator[Mutant]:
    draws: tuple[Instance, ...] | None = None
    found = 0
    for candidate, change in _spread(list(_changed_rules(rule))):
        statement = statement_text(candidate)
        if statement in seen or candidate.source == candidate.target:
            continue
        seen.add(statement)
        if draws is None:
            draws = _draws(rule)
        if _fits(candidate, draws if candidate.where == rule.where else None):
            found += 1
            base, bracket, tag = rule.name.partition("[")
            name = f"{base}-mutant-{found}{bracket}{tag}"
            yield Mutant(replace(candidate, name=name), rule.name, change)


def _fits(rule: Rule, draws: tuple[Instance, ...] | None) -> bool:
    """Whether some operands fit a rule; only such as were drawn for its source, if any were."""
    try:
        if draws is None:
            return find_instance(rule, attempts=ATTEMPTS) is not None
        fitting = 0
        for draw in draws:
            fitting += replacement(rule, draw.source, draw.bindings) is not None
            if fitting == SURE:
                break
        return fitting > 0
    except (LookupError, ValueError, AttributeError, ArithmeticError):
        # A parameter of another kind, such as a shape for the name of an element type.
        return False


def _spread(changes: list[tuple[Rule, str]]) -> Iterator[tuple[Rule, str]]:
    """The changes so that neighbours, which are alike, come far apart."""
    step = next(n for n in (7, 11, 13, 17, 19, 23, 29) if len(changes) % n or not changes)
    for position in range(len(changes)):
        yield changes[position * step % len(changes)]


def _draws(rule: Rule) -> tuple[Instance, ...]:
    """Instances of a rule, and of its source whatever the target."""
    source_only = replace(rule, target=rule.source)
    return (
        *islice(instances(rule, 1, ATTEMPTS), DRAWS),
        *islice(instances(source_only, 2, ATTEMPTS), DRAWS),
    )


# One change


def _changed_rules(rule: Rule) -> Iterator[tuple[Rule, str]]:
    names = _Names.of(rule)
    terms = rule.target.terms
    for position, term in enumerate(terms):
        for changed, what in _changed_terms(term, names):
            if not isinstance(changed, Application | Variable):
                continue
            target = Pattern((*terms[:position], changed, *terms[position + 1 :]))
            yield replace(rule, target=target), what
    for first, second in combinations(range(len(terms)), 2):
        swapped = list(terms)
        swapped[first], swapped[second] = terms[second], terms[first]
        yield (
            replace(rule, target=Pattern(tuple(swapped))),
            f"results {first} and {second} exchanged",
        )
    for condition in rule.where:
        if not CONDITIONS[condition.function].profit:
            kept = tuple(other for other in rule.where if other is not condition)
            yield replace(rule, where=kept), f"without {expression_text(condition)}"


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that a source binds: what may stand in a target."""

    tensors: tuple[str, ...]
    params: tuple[str, ...]

    @staticmethod
    def of(rule: Rule) -> _Names:
        tensors: list[str] = []
        params: list[str] = []
        for root in rule.source.terms:
            for term in subterms(root):
                if isinstance(term, Variable):
                    tensors.append(term.name)
                elif isinstance(term, Application):
                    tensors += [] if term.label is None else [term.label]
                    params += [value.name for _, value in term.params if isinstance(value, Name)]
        return _Names(tuple(dict.fromkeys(tensors)), tuple(dict.fromkeys(params)))


def _changed_terms(term: Term, names: _Names) -> Iterator[Changed]:
    """The term changed in one place, and how."""
    match term:
        case Variable():
            for name in names.tensors:
                if name != term.name:
                    yield Variable(name), f"{term.name} replaced by {name}"
        case Literal():
            for value in _other_literals(term):
                yield value, f"{literal_text(term.value)} replaced by {literal_text(value.value)}"
        case Application():
            yield from _changed_operators(term)
            yield from _changed_operands(term, names)
            yield from _changed_parameters(term, names)
        case Operands():
            return


def _changed_operators(term: Application) -> Iterator[Changed]:
    for other in OPS:
        if other is not term.op and _alike(other, term.op):
            yield replace(term, op=other), f"{spelling(term.op)} replaced by {spelling(other)}"


def _alike(one: OpSpec, other: OpSpec) -> bool:
    return (one.arity, one.params, one.family) == (other.arity, other.params, other.family)


def _changed_operands(term: Application, names: _Names) -> Iterator[Changed]:
    args = term.args
    where = spelling(term.op)
    if term.op.name not in COMMUTATIVE:
        for first, second in combinations(range(len(args)), 2):
            if args[first] != args[second]:
                swapped = list(args)
                swapped[first], swapped[second] = args[second], args[first]
                what = f"operands {first} and {second} of {where} exchanged"
                yield replace(term, args=tuple(swapped)), what
    for position, arg in enumerate(args):
        if isinstance(arg, Variable | Application):
            yield arg, f"{where} dropped, operand {position} kept"
        if term.op.arity is None and len(args) > 1:
            kept = (*args[:position], *args[position + 1 :])
            yield replace(term, args=kept), f"operand {position} of {where} dropped"
        for changed, what in _changed_terms(arg, names):
            yield replace(term, args=(*args[:position], changed, *args[position + 1 :])), what


def _changed_parameters(term: Application, names: _Names) -> Iterator[Changed]:
    for position, (name, value) in enumerate(term.params):
        for changed in _changed_expressions(value, names):
            params = list(term.params)
            params[position] = (name, changed)
            what = (
                f"{name} of {spelling(term.op)}: {expression_text(value)} replaced by "
                f"{expression_text(changed)}"
            )
            yield replace(term, params=tuple(params)), what


def _changed_expressions(expression: Expression, names: _Names) -> Iterator[Expression]:
    match expression:
        case Literal():
            yield from _other_literals(expression)
        case Name():
            yield from (Name(name) for name in names.params if name != expression.name)
        case FunctionCall():
            yield from _changed_calls(expression, names)


def _changed_calls(call: FunctionCall, names: _Names) -> Iterator[Expression]:
    function = FUNCTIONS[call.function]
    roles = function.roles_for(len(call.args))
    for other in FUNCTIONS.values():
        if other is not function and other.roles == function.roles and not other.repeats:
            yield replace(call, function=other.name)
    for first, second in combinations(range(len(call.args)), 2):
        if roles[first] is roles[second] and call.args[first] != call.args[second]:
            swapped = list(call.args)
            swapped[first], swapped[second] = call.args[second], call.args[first]
            yield replace(call, args=tuple(swapped))
    for position, (arg, role) in enumerate(zip(call.args, roles, strict=True)):
        if role is Role.PARAMETER:
            yield arg
            changed = _changed_expressions(arg, names)
        elif role is Role.TENSOR and isinstance(arg, Name):
            changed = (Name(name) for name in names.tensors if name != arg.name)
        else:
            continue
        for other_arg in changed:
            yield replace(call, args=(*call.args[:position], other_arg, *call.args[position + 1 :]))


def _other_literals(literal: Literal) -> Iterator[Literal]:
    """Literals near one, of the same kind."""
    match literal.value:
        case bool() as flag:
            yield Literal(not flag)
        case int() | float() as value:
            yield from (Literal(other) for other in (value + 1, value - 1, -value))
        case tuple() as items:
            for position, item in enumerate(items):
                for other in _other_literals(Literal(item)):
                    yield Literal((*items[:position], other.value, *items[position + 1 :]))
            for first, second in combinations(range(len(items)), 2):
                swapped = list(items)
                swapped[first], swapped[second] = items[second], items[first]
                yield Literal(tuple(swapped))
        case _:
            return

"""Ground instances of axioms, grown from both sides of a rule until these meet.

What it does: finds where the source of an axiom fits a term or its equals, builds both sides of
that instance, and makes them equal, round after round. An instance is used only if its conditions
hold, and both its sides are defined and of one type, for all sizes of the case in hand: what the
assumptions leave open does not count. What it does not: prove anything; which of the instances a
proof needs, and that they are enough, is for `axiom_proof` to say.

Source: de Moura and Bjørner, "Efficient E-matching for SMT solvers" (CADE 2007), without its code
trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from graphopt.graph import Constant, Node, Param, Params
from graphopt.matching import Bindings, build_term, literal_array
from graphopt.pattern import Application, FunctionCall, Literal, Name, Term, Variable
from graphopt.pattern import Sequence as Operands
from graphopt.rule import Rule, holds
from graphopt.rule_functions import UNDEFINED
from verify.axiom_terms import LeftOpen, TermId, Terms

MOST_ROUNDS = 6
MOST_TERMS = 3000
"""Growth ends at this many terms."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An axiom with a value for each name, and the two terms that it makes equal."""

    axiom: Rule
    bindings: Bindings
    left: TermId
    right: TermId


@dataclass(frozen=True, slots=True)
class Found:
    """What names stand for: classes of terms, parameters with their texts."""

    tensors: Mapping[str, TermId]
    parameters: Mapping[str, tuple[str, Param]]
    captured: Mapping[str, tuple[str, Params]]

    def with_tensor(self, name: str, number: TermId) -> Found | None:
        """None if the name stands for another class."""
        known = self.tensors.get(name)
        if known is None:
            return replace(self, tensors={**self.tensors, name: number})
        return self if known == number else None

    def with_parameter(self, name: str, text: str, value: Param) -> Found | None:
        """None if the name stands for another parameter."""
        known = self.parameters.get(name)
        if known is None:
            return replace(self, parameters={**self.parameters, name: (text, value)})
        return self if known[0] == text else None

    def with_captured(self, name: str, text: str, params: Params) -> Found | None:
        """None if the name stands for other parameters."""
        known = self.captured.get(name)
        if known is None:
            return replace(self, captured={**self.captured, name: (text, params)})
        return self if known[0] == text else None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal meanings."""
        texts = {**self.parameters, **self.captured}
        return (
            tuple(sorted(self.tensors.items())),
            tuple((name, texts[name][0]) for name in sorted(texts)),
        )

    def bindings(self, terms: Terms) -> Bindings:
        """Each class by its oldest term."""
        return Bindings(
            {name: terms.values[terms.find(number)] for name, number in self.tensors.items()},
            {},
            {name: value for name, (_, value) in self.parameters.items()},
            {name: params for name, (_, params) in self.captured.items()},
        )


NOTHING = Found({}, {}, {})


def grown(
    terms: Terms, axioms: Sequence[Rule], goals: Sequence[tuple[TermId, TermId]]
) -> tuple[Instance, ...] | None:
    """Instances that make the two terms of every goal equal; None if growth ended before.

    Sizes must be judged by an `Entailed`.
    """
    instances: list[Instance] = []
    tried: set[tuple[str, tuple[object, ...]]] = set()

    def reached() -> bool:
        return all(terms.equal(left, right) for left, right in goals)

    if reached():
        return ()
    for _ in range(MOST_ROUNDS):
        fits = [(axiom, found) for axiom in axioms for found in _fits(axiom, terms)]
        progress = False
        for axiom, found in fits:
            key = (axiom.name, found.key)
            if key in tried:
                continue
            tried.add(key)
            instance = _instance(axiom, found.bindings(terms), terms)
            if instance is None:
                continue
            progress = True
            instances.append(instance)
            terms.merge(instance.left, instance.right)
            if reached():
                return tuple(instances)
            if len(terms) > MOST_TERMS:
                return None
        if not progress:
            return None
    return None


# Matching


def _fits(axiom: Rule, terms: Terms) -> Iterator[Found]:
    (source,) = axiom.source.terms
    assert isinstance(source, Application), "an axiom about an operator"
    for number in terms.classes(source.op.name):
        yield from _term_fits(source, number, NOTHING, terms)


def _term_fits(term: Term, number: TermId, found: Found, terms: Terms) -> Iterator[Found]:
    match term:
        case Variable(name=name):
            extended = found.with_tensor(name, terms.find(number))
            if extended is not None:
                yield extended
        case Literal():
            if _is_literal(term, number, terms):
                yield found
        case Application():
            for member in terms.members(number, term.op.name):
                for matched in _member_fits(term, member, found, terms):
                    if term.label is None:
                        yield matched
                        continue
                    labelled = matched.with_tensor(term.label, terms.find(number))
                    if labelled is not None:
                        yield labelled
        case Operands():
            raise AssertionError("an axiom has no sequences")
        case _:
            assert_never(term)


def _is_literal(literal: Literal, number: TermId, terms: Terms) -> bool:
    """Whether a term equals the constant that the literal is on its own."""
    array = literal_array(literal, terms.values[number].type.dtype)
    known = None if array is None else terms.of(Constant(array))
    return known is not None and terms.equal(known, number)


def _member_fits(
    pattern: Application, member: TermId, found: Found, terms: Terms
) -> Iterator[Found]:
    operands = terms.operands[member]
    if len(operands) != len(pattern.args):
        return
    extended = _with_parameters(pattern, member, found, terms)
    if extended is not None:
        yield from _operands_fit(pattern.args, operands, extended, terms)


def _with_parameters(
    pattern: Application, member: TermId, found: Found, terms: Terms
) -> Found | None:
    node = terms.values[member]
    assert isinstance(node, Node)
    texts, given = terms.parameters[member], node.keywords
    current = found
    for name, expression in pattern.params:
        match expression:
            case Literal(value=wanted):
                if texts[name] != terms.parameter(wanted):
                    return None
            case Name(name=variable):
                extended = current.with_parameter(variable, texts[name], given[name])
                if extended is None:
                    return None
                current = extended
            case FunctionCall():
                raise AssertionError("a source computes no parameters")
            case _:
                assert_never(expression)
    if pattern.rest is None:
        return current
    names = sorted(pattern.captured)
    text = "; ".join(texts[name] for name in names)
    return current.with_captured(pattern.rest, text, tuple((name, given[name]) for name in names))


def _operands_fit(
    args: Sequence[Term], operands: Sequence[TermId], found: Found, terms: Terms
) -> Iterator[Found]:
    if not args:
        yield found
        return
    for extended in _term_fits(args[0], operands[0], found, terms):
        yield from _operands_fit(args[1:], operands[1:], extended, terms)


# Building


def _instance(axiom: Rule, bindings: Bindings, terms: Terms) -> Instance | None:
    (source,), (target,) = axiom.source.terms, axiom.target.terms
    try:
        if not all(holds(condition, bindings, None) for condition in axiom.where):
            return None
        left = build_term(source, bindings, terms.made)
        right = build_term(target, bindings, terms.made)
        if left.type != right.type:
            return None
    except (*UNDEFINED, ZeroDivisionError, LeftOpen):
        return None
    return Instance(axiom, bindings, terms.add(left), terms.add(right))

"""Assignments: what the names of a rule stand for, apart from the values built of them.

What it does: takes the free choices out of an instance (tensors, also those that literals stand
for, and parameters) and builds the instance anew from other choices, if they fit. What it does not:
choose (see `counterexample`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from graphopt.graph import Constant, Node, Param, Params, Value
from graphopt.instances import Instance
from graphopt.matching import Bindings
from graphopt.pattern import Application, Literal, Name, Sequence, Term, Variable
from graphopt.proposals import UNFIT
from graphopt.rule import Rule, replacement
from tensorgen.types import Array

Place = tuple[str, int]
"""Where a tensor stands: a variable's name and 0, a sequence's name and the position in it, or ""
and the position of a literal in the source."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The free choices of an instance, in a fixed order."""

    tensors: tuple[tuple[Place, Array], ...]
    params: tuple[tuple[str, Param], ...]
    captured: tuple[tuple[str, Params], ...]

    def with_tensor(self, place: Place, array: Array) -> Assignment:
        """Another array in one place."""
        tensors = tuple((key, array if key == place else old) for key, old in self.tensors)
        return replace(self, tensors=tensors)

    def named(self) -> Iterator[tuple[str, Array]]:
        """The tensors that names stand for: x, or xs[0]."""
        lengths = [name for (name, position), _ in self.tensors if position == 1]
        for (name, position), array in self.tensors:
            if name:
                yield f"{name}[{position}]" if name in lengths or position else name, array


def assignment_of(rule: Rule, instance: Instance) -> Assignment:
    """The free choices that an instance was built from."""
    labels = {
        term.label
        for root in rule.source.terms
        for term in _subterms(root)
        if isinstance(term, Application)
    }
    bindings = instance.bindings
    tensors: list[tuple[Place, Array]] = []
    for name, value in sorted(bindings.tensors.items()):
        if name not in labels:
            tensors.append(((name, 0), _array(value)))
    for name, values in sorted(bindings.sequences.items()):
        tensors += [((name, n), _array(value)) for n, value in enumerate(values)]
    literals = [
        array
        for root, value in zip(rule.source.terms, instance.source, strict=True)
        for array in _literals(root, value, bindings)
    ]
    tensors += [(("", n), array) for n, array in enumerate(literals)]
    return Assignment(
        tuple(tensors), tuple(sorted(bindings.params.items())),
        tuple(sorted(bindings.captured.items())),
    )  # fmt: skip


def _subterms(term: Term) -> Iterator[Term]:
    yield term
    if isinstance(term, Application):
        for arg in term.args:
            yield from _subterms(arg)


def _array(value: Value) -> Array:
    assert isinstance(value, Constant), "the operands of an instance are constants"
    return value.array


def _literals(term: Term, value: Value, bindings: Bindings) -> Iterator[Array]:
    """The constants that the literals of a term stand for, in order."""
    if isinstance(term, Literal):
        yield _array(value)
    if not isinstance(term, Application):
        return
    assert isinstance(value, Node)
    operands = iter(value.inputs)
    for arg in term.args:
        length = len(bindings.sequences[arg.name]) if isinstance(arg, Sequence) else 1
        for operand in [next(operands) for _ in range(length)]:
            yield from _literals(arg, operand, bindings)


def instance_of(rule: Rule, assignment: Assignment) -> Instance | None:
    """The instance that choices give; None where the rule does not apply to them."""
    builder = _Builder(assignment)
    try:
        roots = tuple(builder.value(term) for term in rule.source.terms)
    except UNFIT:
        return None
    target = replacement(rule, roots, builder.bindings)
    return None if target is None else Instance(builder.bindings, roots, target)


class _Builder:
    """One building of a source; literals are taken in the order in which they stand."""

    def __init__(self, assignment: Assignment) -> None:
        sequences: dict[str, list[Value]] = {}
        tensors: dict[str, Value] = {}
        self.literals: list[Value] = []
        for (name, position), array in assignment.tensors:
            constant = Constant(array)
            if not name:
                self.literals.append(constant)
            elif position == 0:
                tensors[name] = constant
                sequences[name] = [constant]
            else:
                sequences[name].append(constant)
        self.literals.reverse()
        self.given = sequences
        self.bindings = Bindings(tensors, {}, dict(assignment.params), dict(assignment.captured))

    def value(self, term: Term) -> Value:
        match term:
            case Variable():
                return self.bindings.tensors[term.name]
            case Literal():
                return self.literals.pop()
            case Application():
                return self.node(term)
            case Sequence():
                raise AssertionError("a sequence stands only among operands")
            case _:
                assert_never(term)

    def node(self, term: Application) -> Value:
        operands: list[Value] = []
        for arg in term.args:
            if isinstance(arg, Sequence):
                members = tuple(self.given.get(arg.name, ()))
                self.bindings = self.bindings.with_sequence(arg.name, members)
                operands += members
            else:
                operands.append(self.value(arg))
        params: dict[str, Param] = {}
        for name, expression in term.params:
            if isinstance(expression, Name):
                params[name] = self.bindings.params[expression.name]
            else:
                assert isinstance(expression, Literal), "a source computes no parameters"
                params[name] = expression.value
        if term.rest is not None:
            params.update(self.bindings.captured[term.rest])
        node = term.op(*operands, **params)
        if term.label is not None:
            self.bindings = self.bindings.with_tensor(term.label, node)
        return node

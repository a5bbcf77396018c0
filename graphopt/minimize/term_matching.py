"""Where the sources of rules fit classes of terms.

What it does: finds every choice of classes, and of what names stand for, under which classes hold
the terms of a source pattern. What it does not: judge conditions or build targets (`rule`), or
match graphs (`graphopt.matching`, whose rules for literals and parameters these are).
"""

from __future__ import annotations

from collections.abc import Iterator

from graphopt.graph import Param, Params, Value
from graphopt.matching import Bindings, equals_literal
from graphopt.minimize.term_classes import Applied, Classes, ClassId
from graphopt.pattern import (
    COMMUTATIVE,
    Application,
    FunctionCall,
    Literal,
    Name,
    Role,
    Term,
    Variable,
)
from graphopt.pattern import Sequence as Operands
from graphopt.rule import Rule

Found = dict[str, tuple[Role, object]]
"""What names stand for while a pattern is matched: classes for tensors, else parameters."""


class Matcher:
    """Finds where rules fit the classes of an e-graph as it is now."""

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        self._by_op: dict[str, list[ClassId]] = {}
        self._members: dict[tuple[ClassId, str], list[Applied]] = {}
        for number in classes.classes:
            for applied in classes.operators(number):
                name = applied.op.name
                if (number, name) not in self._members:
                    self._members[number, name] = []
                    self._by_op.setdefault(name, []).append(number)
                self._members[number, name].append(applied)

    @property
    def operators(self) -> frozenset[str]:
        """The names of all operators that there are."""
        return frozenset(self._by_op)

    def bindings(self, names: Found) -> Bindings:
        """What was found, as conditions and targets take it."""
        stand_in = self._classes.stand_in
        tensors: dict[str, Value] = {}
        sequences: dict[str, tuple[Value, ...]] = {}
        params: dict[str, Param] = {}
        captured: dict[str, Params] = {}
        for name, (role, bound) in names.items():
            match role:
                case Role.TENSOR:
                    assert isinstance(bound, int)
                    tensors[name] = stand_in(bound)
                case Role.TENSORS:
                    assert isinstance(bound, tuple)
                    sequences[name] = tuple(map(stand_in, bound))
                case Role.PARAMETER:
                    params[name] = bound  # type: ignore[assignment]
                case Role.PARAMETERS:
                    captured[name] = bound  # type: ignore[assignment]
        return Bindings(tensors, sequences, params, captured)

    def fits(self, rule: Rule) -> Iterator[tuple[tuple[ClassId, ...], Found]]:
        """Every tuple of classes that the source of a rule fits, with what names stand for."""
        terms = rule.source.terms

        def extend(
            roots: tuple[ClassId, ...], names: Found
        ) -> Iterator[tuple[tuple[ClassId, ...], Found]]:
            if len(roots) == len(terms):
                yield roots, names
                return
            term = terms[len(roots)]
            assert isinstance(term, Application)
            for number in self._by_op[term.op.name]:
                if number not in roots:
                    for found in self._term(term, number, names):
                        yield from extend((*roots, number), found)

        return extend((), {})

    def _term(self, term: Term, number: ClassId, names: Found) -> Iterator[Found]:
        """Every extension of the names under which a class holds what a term says."""
        match term:
            case Variable():
                yield from _bound(names, term.name, Role.TENSOR, number)
            case Literal():
                if equals_literal(self._classes.stand_in(number), term):
                    yield names
            case Application():
                for applied in self._members.get((number, term.op.name), ()):
                    found = _with_params(term, applied.params, names)
                    if found is None:
                        continue
                    orders = [term.args]
                    if term.op.name in COMMUTATIVE:
                        orders.append(term.args[::-1])
                    for args in orders:
                        for extended in self._operands(args, applied.operands, found):
                            if term.label is None:
                                yield extended
                            else:
                                yield from _bound(extended, term.label, Role.TENSOR, number)
            case Operands():
                raise AssertionError("a sequence stands only among operands")

    def _operands(
        self, args: tuple[Term, ...], operands: tuple[ClassId, ...], names: Found
    ) -> Iterator[Found]:
        if not args:
            if not operands:
                yield names
            return
        first, others = args[0], args[1:]
        if not isinstance(first, Operands):
            if operands:
                for found in self._term(first, operands[0], names):
                    yield from self._operands(others, operands[1:], found)
            return
        needed = sum(not isinstance(arg, Operands) for arg in others)
        for length in range(len(operands) - needed + 1):
            for found in _bound(names, first.name, Role.TENSORS, operands[:length]):
                yield from self._operands(others, operands[length:], found)


def _bound(names: Found, name: str, role: Role, value: object) -> Iterator[Found]:
    """The names with one more, or as they are if it stands for that already."""
    known = names.get(name)
    if known is None:
        yield {**names, name: (role, value)}
    elif known[1] == value:
        yield names


def _with_params(term: Application, params: Params, names: Found) -> Found | None:
    given = dict(params)
    wanted: list[tuple[str, Role, object]] = []
    for name, expression in term.params:
        match expression:
            case Literal():
                if given[name] != expression.value:
                    return None
            case Name():
                wanted.append((expression.name, Role.PARAMETER, given[name]))
            case FunctionCall():
                raise AssertionError("a source computes no parameters")
    if term.rest is not None:
        captured = tuple((name, given[name]) for name in sorted(term.captured))
        wanted.append((term.rest, Role.PARAMETERS, captured))
    for name, role, bound in wanted:
        known = names.get(name)
        if known is None:
            names = {**names, name: (role, bound)}
        elif known[1] != bound:
            return None
    return names

"""Z3's part in a proof from axioms: whether ground instances of axioms entail an equation.

What it does: puts the quantifier-free question over uninterpreted functions (QF_UF), takes the
unsatisfiable core, drops what the proof does not need, and writes the rest as SMT-LIB 2 for any
solver to check again. What it does not: find instances (see `axiom_instances`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import z3

from graphopt.graph import Value
from verify.axiom_instances import Instance
from verify.axiom_terms import TermId, Terms

SOLVER_MILLISECONDS = 2000
"""The time for one question."""


@dataclass(frozen=True, slots=True)
class Step:
    """An axiom, what its names stand for, and the equation that it gives."""

    axiom: str
    bindings: tuple[tuple[str, str], ...]
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class GroundProof:
    """Equations that entail the goals, and the question that says so: it must be unsatisfiable."""

    steps: tuple[Step, ...]
    smtlib: str


def ground_proof(
    terms: Terms, instances: Sequence[Instance], goals: Sequence[tuple[TermId, TermId]]
) -> GroundProof | None:
    """A proof of the goals from as few of the instances as dropping them one by one leaves; None
    if Z3 finds none in time."""
    spelled = _Spelling(terms)
    solver = z3.SolverFor("QF_UF")
    solver.set("timeout", SOLVER_MILLISECONDS)
    labels: dict[str, Instance] = {}
    for number, instance in enumerate(instances):
        label = f"use {number}"
        labels[label] = instance
        equation = spelled.term(instance.left) == spelled.term(instance.right)
        solver.add(z3.Implies(z3.Bool(label), equation))
    equations = [spelled.term(left) == spelled.term(right) for left, right in goals]
    solver.add(z3.Not(z3.And(*equations)))

    def core(used: Sequence[str]) -> list[str] | None:
        if solver.check(*map(z3.Bool, used)) != z3.unsat:
            return None
        found = {str(label) for label in solver.unsat_core()}
        return [label for label in used if label in found]

    used = core(list(labels))
    if used is None:
        return None
    for label in list(used):
        fewer = core([other for other in used if other != label]) if label in used else None
        used = used if fewer is None else fewer
    chosen = [labels[label] for label in used]
    return GroundProof(
        tuple(_step(instance, terms) for instance in chosen),
        "\n".join(_smtlib(terms, chosen, goals)) + "\n",
    )


class _Spelling:
    """Terms for Z3, each made once."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._sort = z3.DeclareSort("Tensor")
        self._known: dict[TermId, Any] = {}

    def term(self, number: TermId) -> Any:
        """The term for Z3."""
        if number not in self._known:
            operands = [self.term(operand) for operand in self._terms.operands[number]]
            sorts = [self._sort] * (len(operands) + 1)
            function = z3.Function(self._terms.symbols[number], *sorts)
            self._known[number] = function(*operands)
        return self._known[number]


def _step(instance: Instance, terms: Terms) -> Step:
    bindings = instance.bindings

    def named(value: Value) -> str:
        return terms.text(terms.add(value))

    texts = {name: named(value) for name, value in bindings.tensors.items()}
    for name, value in bindings.params.items():
        texts[name] = terms.parameter(value)
    for name, params in bindings.captured.items():
        inside = (f"{key}={terms.parameter(value)}" for key, value in params)
        texts[name] = ", ".join(inside)
    return Step(
        instance.axiom.name,
        tuple(sorted(texts.items())),
        terms.text(instance.left),
        terms.text(instance.right),
    )


# SMT-LIB


def _smtlib(
    terms: Terms, instances: Sequence[Instance], goals: Sequence[tuple[TermId, TermId]]
) -> Iterator[str]:
    yield "(set-logic QF_UF)"
    yield "(declare-sort Tensor 0)"
    sides = [*((i.left, i.right) for i in instances), *goals]
    functions: dict[str, tuple[str, int]] = {}
    for number in sorted({part for pair in sides for side in pair for part in _parts(side, terms)}):
        symbol, arity = terms.symbols[number], len(terms.operands[number])
        if (known := f"{symbol} of {arity}") not in functions:
            functions[known] = (_quoted(symbol, len(functions)), arity)
            name = functions[known][0]
            yield f"(declare-fun {name} ({' '.join(['Tensor'] * arity)}) Tensor)"

    def written(number: TermId) -> str:
        operands = terms.operands[number]
        name, _ = functions[f"{terms.symbols[number]} of {len(operands)}"]
        return f"({' '.join([name, *map(written, operands)])})" if operands else name

    for instance in instances:
        yield f"; {instance.axiom.name}"
        yield f"(assert (= {written(instance.left)} {written(instance.right)}))"
    equations = [f"(= {written(left)} {written(right)})" for left, right in goals]
    both = equations[0] if len(equations) == 1 else f"(and {' '.join(equations)})"
    yield f"(assert (not {both}))"
    yield "(check-sat)"


def _parts(number: TermId, terms: Terms) -> Iterator[TermId]:
    yield number
    for operand in terms.operands[number]:
        yield from _parts(operand, terms)


def _quoted(symbol: str, number: int) -> str:
    """A symbol that SMT-LIB can spell; `number` tells apart those that it cannot."""
    if "|" in symbol or "\\" in symbol or not symbol.isprintable() or not symbol.isascii():
        return f"|function {number}|"
    return f"|{symbol}|"

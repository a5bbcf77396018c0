"""Equality saturation: all that rules say of a small graph, and the best term in it.

What it does: applies every rule to every class of an e-graph, round after round, until nothing new
follows or a bound is reached; then takes the cheapest graph by an additive cost exactly
(`extraction`). Rules of several results are refused where one root depends on another; cycles that
arise nevertheless, through classes, are excluded at extraction.

What it does not: serve large graphs, or fused costs: kernels are not additive over operators. It is
there to measure how far a search falls short.

Source: Yang et al., "Equality saturation for tensor graph superoptimization" (Tensat, MLSys 2021).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from graphopt.graph import Graph, Value
from graphopt.rule import Rule, replacement
from graphopt.search.backtracking import Clock
from graphopt.search.cost import OperatorCost
from graphopt.search.equality_graph import ClassId, EqualityGraph, Matcher
from graphopt.search.extraction import cheapest_term


class SaturationStop(Enum):
    """Why saturation ended."""

    SATURATED = "no rule says anything new"
    OPERATORS = "the bound on operators was reached"
    ROUNDS = "the bound on rounds was reached"
    SECONDS = "the budget of seconds was used up"


@dataclass(frozen=True, slots=True)
class SaturationBudget:
    """Bounds on rounds, on operators in the e-graph and on seconds."""

    rounds: int = 6
    operators: int = 2000
    seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Saturated:
    """The cheapest graph, its additive cost, the size of the e-graph, and why growth ended.

    With SATURATED the graph is the cheapest that the rules reach.
    """

    graph: Graph
    cost: float
    classes: int
    operators: int
    rounds: int
    stop: SaturationStop


def saturate(
    graph: Graph,
    rules: Sequence[Rule],
    cost: OperatorCost,
    budget: SaturationBudget = SaturationBudget(),
    clock: Clock = time.monotonic,
) -> Saturated:
    """Saturate a graph with rules and extract the cheapest graph."""
    classes = EqualityGraph()
    roots = classes.add_graph(graph)
    deadline = clock() + budget.seconds
    stop = SaturationStop.ROUNDS
    rounds = 0
    while rounds < budget.rounds:
        rounds += 1
        outcome = _round(classes, rules, budget, deadline, clock)
        if outcome is not None:
            stop = outcome
            break
    outputs = cheapest_term(classes, roots, cost.of_node)
    best = graph.with_outputs(outputs)
    return Saturated(best, cost(best), len(classes.classes), classes.size, rounds, stop)


def _round(
    classes: EqualityGraph,
    rules: Sequence[Rule],
    budget: SaturationBudget,
    deadline: float,
    clock: Clock,
) -> SaturationStop | None:
    """Apply every rule once everywhere; None if there may be more to say."""
    matcher = Matcher(classes)
    found: list[tuple[tuple[ClassId, ...], tuple[Value, ...]]] = []
    for rule in rules:
        for roots, bindings in matcher.fits(rule):
            if clock() >= deadline:
                return SaturationStop.SECONDS
            old = tuple(classes.representative(root) for root in roots)
            values = replacement(rule, old, bindings, _read_once)
            if values is not None and not _circular(classes, roots):
                found.append((roots, values))
    before = classes.size
    changed = False
    for roots, values in found:
        for root, value in zip(roots, values, strict=True):
            changed |= classes.merge(root, classes.add(value))
        if classes.size > budget.operators:
            classes.rebuild()
            return SaturationStop.OPERATORS
    classes.rebuild()
    if not changed and classes.size == before:
        return SaturationStop.SATURATED
    return None


def _circular(classes: EqualityGraph, roots: Sequence[ClassId]) -> bool:
    """Whether a root is computed from another, whichever terms are taken."""
    if len(roots) == 1:
        return False
    for root in roots:
        others = {classes.find(other) for other in roots} - {classes.find(root)}
        pending = [operand for op in classes.operators(root) for operand in op.operands]
        seen: set[ClassId] = set()
        while pending:
            number = classes.find(pending.pop())
            if number in others:
                return True
            if number not in seen:
                seen.add(number)
                pending.extend(o for op in classes.operators(number) for o in op.operands)
    return False


def _read_once(value: Value) -> int:
    return 1

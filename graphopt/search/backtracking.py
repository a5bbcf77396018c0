"""Search by cost with backtracking: the best graph that a budget of rewrites leads to.

What it does: keeps graphs in a queue by cost, takes the cheapest, and tries every rule at every
place. A successor joins the queue if it costs less than `alpha` times the best graph known, so
that a step may cost a little if what it makes possible saves more. Before single places, each rule
is tried at all its places at once. A rule that only leads to another (`chains`) is applied together
with it. Graphs are told apart by digest. The same inputs give the same result unless the budget of
seconds ends the search.

Sources: Jia et al., "TASO" (SOSP 2019), algorithm 2; Jia et al., "Optimizing DNN computation with
relaxed graph substitutions" (MetaFlow, SysML 2019), for alpha.

What it does not: cut large graphs (`regions`).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import count
from types import MappingProxyType

from graphopt.graph import Graph
from graphopt.search.cost import GraphCost
from graphopt.search.moves import Application, Position, rules_with_places
from graphopt.search.places import RuleIndex

Clock = Callable[[], float]

NO_CHAINS: Mapping[str, str] = MappingProxyType({})


class StopReason(Enum):
    """Why a search ended."""

    EXHAUSTED = "every graph within reach of alpha was tried"
    GRAPHS = "the budget of graphs was used up"
    SECONDS = "the budget of seconds was used up"


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may use.

    `alpha` bounds how much more than the best a graph may cost to be rewritten further; 1.0 allows
    none. `seconds` and `graphs` bound the whole. A graph may have `growth` times the nodes of the
    start, and `spare_nodes` more, not counting what depends on weights alone.
    """

    alpha: float = 1.05
    seconds: float = 10.0
    graphs: int = 2000
    growth: float = 1.5
    spare_nodes: int = 6

    def most_nodes(self, nodes: int) -> int:
        """How many nodes a graph may have if the start has so many."""
        return int(self.growth * nodes) + self.spare_nodes


@dataclass(frozen=True, slots=True)
class Found:
    """The best graph, its cost and the start's, the applications that lead there, in order."""

    graph: Graph
    cost: float
    cost_before: float
    applications: tuple[Application, ...]
    explored: int
    stop: StopReason


@dataclass(frozen=True, slots=True)
class _State:
    position: Position
    cost: float
    path: tuple[Application, ...]


def backtrack(
    graph: Graph,
    index: RuleIndex,
    cost: GraphCost,
    budget: Budget,
    clock: Clock = time.monotonic,
    chains: Mapping[str, str] = NO_CHAINS,
) -> Found:
    """The cheapest graph found from `graph`; the graph itself if none is cheaper.

    `chains` names rules that are applied together with another, behind them.
    """
    run = _Run(index, cost, budget, clock, chains)
    return run.search(graph)


class _Stopped(Exception):
    """A budget is used up."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class _Run:
    def __init__(
        self,
        index: RuleIndex,
        cost: GraphCost,
        budget: Budget,
        clock: Clock,
        chains: Mapping[str, str],
    ) -> None:
        self.index = index
        numbers = {rule.name: number for number, rule in enumerate(index.rules)}
        self.chains = {
            numbers[first]: numbers[second]
            for first, second in chains.items()
            if first in numbers and second in numbers
        }
        self.cost = cost
        self.budget = budget
        self.clock = clock
        self.deadline = clock() + budget.seconds
        self.explored = 0
        self.serial = count()
        self.queue: list[tuple[float, int, int, _State]] = []
        self.seen: set[str] = set()

    def search(self, graph: Graph) -> Found:
        before = self.cost(graph)
        start = _State(Position(graph, self.index), before, ())
        self.most_nodes = self.budget.most_nodes(start.position.size)
        self.best = start
        self.seen.add(graph.digest)
        self.push(start, 0)
        stop = StopReason.EXHAUSTED
        try:
            while self.queue:
                cost, phase, _, state = heapq.heappop(self.queue)
                if self.too_dear(cost):
                    break
                self.expand(state, phase)
        except _Stopped as stopped:
            stop = stopped.reason
        best = self.best
        return Found(best.position.graph, best.cost, before, best.path, self.explored, stop)

    def too_dear(self, cost: float) -> bool:
        return cost >= self.budget.alpha * self.best.cost and cost > self.best.cost

    def push(self, state: _State, phase: int) -> None:
        heapq.heappush(self.queue, (state.cost, phase, next(self.serial), state))

    def expand(self, state: _State, phase: int) -> None:
        """First each rule everywhere; single places when nothing cheaper waits."""
        if phase == 0:
            for rule, places in rules_with_places(state.position.places).items():
                if places > 1:
                    self.check_budget()
                    position, applications = state.position.apply_everywhere(rule, places)
                    if len(applications) > 1:
                        self.follow(rule, position, (*state.path, *applications), places)
            self.push(state, 1)
            return
        for step in state.position.successors():
            self.check_budget()
            position = Position(step.graph, self.index, state.position, step)
            self.follow(step.rule, position, (*state.path, step.application), 1)

    def follow(
        self, rule: int, position: Position, path: tuple[Application, ...], places: int
    ) -> None:
        """Consider what a rule led to, behind the rule that it is chained to."""
        second = self.chains.get(rule)
        if second is None:
            self.consider(position, path)
            return
        behind, applications = position.apply_everywhere(second, places)
        if applications:
            self.consider(behind, (*path, *applications))

    def check_budget(self) -> None:
        if self.explored >= self.budget.graphs:
            raise _Stopped(StopReason.GRAPHS)
        if self.clock() >= self.deadline:
            raise _Stopped(StopReason.SECONDS)

    def consider(self, position: Position, path: tuple[Application, ...]) -> None:
        """Cost a graph that was not seen before, and queue it if it is not too dear."""
        digest = position.graph.digest
        if digest in self.seen:
            return
        self.seen.add(digest)
        if position.size > self.most_nodes:
            return
        self.explored += 1
        cost = self.cost(position.graph)
        state = _State(position, cost, path)
        if cost < self.best.cost:
            self.best = state
        if not self.too_dear(cost):
            self.push(state, 0)

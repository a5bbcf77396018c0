"""The search over graph rewrites, from a graph to the cheapest graph found.

What it does: cuts the graph into regions, searches each distinct region by cost with backtracking,
checks every application that its result needs, puts results in place as long as the predicted cost
of the whole graph falls, and computes the weights that rules joined. The result is never predicted
to cost more than the input.

What it does not: measure the whole graph, or simplify it (`optimize`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from graphopt.fold import FoldLimits, fold_constants
from graphopt.graph import Graph, Value
from graphopt.rule import Rule
from graphopt.search.backtracking import Budget, Clock, Found, StopReason, backtrack
from graphopt.search.cost import CostModel, KernelCost
from graphopt.search.moves import Application
from graphopt.search.needed import needed_applications
from graphopt.search.places import RuleIndex
from graphopt.search.regions import Region, became, regions
from graphopt.search.shipped import CHAINS
from graphopt.search.spot_check import Check, Checked, spot_check
from tensorgen.simplify import Memory, remembering
from tensorgen.task import Task

JOINED_WEIGHTS = FoldLimits(growth=10.0, work=2**33)
"""Costs take for granted that weights are computed at compile time, so more may be than otherwise:
a 1 x 1 kernel made 3 x 3 has nine times the bytes."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What a search may use and how it cuts.

    `alpha` bounds how much more than the best a graph may cost to be rewritten further (1.0: none).
    `seconds` bounds the whole search, `graphs` each distinct region, `total_graphs` all regions
    together (None: no bound). A region's graphs may have `growth` times its nodes and `spare_nodes`
    more; regions of more than `region_nodes` are divided. Applications are kept that make the
    kernels that they change cheaper by more than the share `least_gain`: costs are not exact, and
    rounding would change for nothing. `check` judges applications; None checks nothing.
    """

    alpha: float = 1.2
    seconds: float = 30.0
    graphs: int = 200
    total_graphs: int | None = 500
    growth: float = 1.5
    spare_nodes: int = 120
    region_nodes: int = 256
    least_gain: float = 0.02
    check: Check | None = spot_check


DEFAULT_SETTINGS = SearchSettings()


@dataclass(frozen=True, slots=True)
class AppliedAt:
    """A rule used in the result: its name, the operator and type it was applied to, the region it
    was applied in, and the digest of the first value it replaced there."""

    rule: str
    op: str
    type: str
    region: int
    value: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.op} {self.type} in region {self.region}"


@dataclass(frozen=True, slots=True)
class RegionResult:
    """What became of one region: nodes, predicted seconds before and after, graphs explored.

    `same_as` is the number of the equal region whose result was used, its own if it was searched.
    """

    nodes: int
    cost_before: float
    cost_after: float
    explored: int
    same_as: int
    accepted: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best graph and how it came about. Costs are predicted seconds of one run.

    `checked` counts applications whose spot check agreed, `unchecked` those too large for one;
    `refuted` names rules that a spot check refuted: they were not used, and are wrong.
    """

    graph: Graph
    applied: tuple[AppliedAt, ...]
    cost_before: float
    cost_after: float
    explored: int
    stop: StopReason
    regions: tuple[RegionResult, ...] = field(repr=False)
    checked: int
    unchecked: int
    refuted: tuple[str, ...]
    seconds: float

    @property
    def regions_searched(self) -> int:
        """How many regions were searched; the others took over an equal one's result."""
        return sum(region.same_as == number for number, region in enumerate(self.regions))


def search(
    graph: Graph,
    rules: Sequence[Rule],
    cost_model: CostModel,
    settings: SearchSettings = DEFAULT_SETTINGS,
    clock: Clock = time.monotonic,
) -> SearchResult:
    """The cheapest graph found from `graph` by `rules`; the same graph if none is cheaper.

    The same arguments give the same result unless the budget of seconds ends the search.
    """
    # Rewritten graphs differ in a few kernels, whose indices are alike. None of them is printed.
    with remembering(Memory()):
        return _Search(tuple(rules), cost_model, settings, clock).run(graph)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A region with the result found for it, or for the equal region `same_as`."""

    region: Region
    found: Found
    same_as: int


class _Search:
    """One search: its rules, costs, and the time that it must end."""

    def __init__(
        self, rules: tuple[Rule, ...], model: CostModel, settings: SearchSettings, clock: Clock
    ) -> None:
        self.rules = rules
        self.index = RuleIndex(rules)
        self.cost = KernelCost(model)
        self.settings = settings
        self.clock = clock
        self.started = clock()
        self.verdicts: dict[bytes, Checked] = {}
        self.counted: dict[str, Counter[Task]] = {}
        self.refuted: set[str] = set()
        self.checked = 0
        self.unchecked = 0

    def run(self, graph: Graph) -> SearchResult:
        before = self.cost(graph)
        kernels = self.cost.kernels
        parts = regions(graph, kernels.stored(graph), self.settings.region_nodes, kernels.is_weight)
        entries = self.searched(parts)
        result, accepted, after = self.assembled(graph, entries, before)
        if result is not graph:
            result = fold_constants(result, JOINED_WEIGHTS)
        return SearchResult(
            graph=result,
            applied=tuple(
                _applied_at(application, number)
                for number, entry in enumerate(entries)
                if accepted[number]
                for application in entry.found.applications
            ),
            cost_before=before,
            cost_after=after,
            explored=sum(e.found.explored for n, e in enumerate(entries) if e.same_as == n),
            stop=_stop_of(entries),
            regions=tuple(
                RegionResult(
                    len(entry.region.graph.nodes),
                    entry.found.cost_before,
                    entry.found.cost,
                    entry.found.explored if entry.same_as == number else 0,
                    entry.same_as,
                    accepted[number],
                )
                for number, entry in enumerate(entries)
            ),
            checked=self.checked,
            unchecked=self.unchecked,
            refuted=tuple(sorted(self.refuted)),
            seconds=self.clock() - self.started,
        )

    def searched(self, parts: Sequence[Region]) -> list[_Entry]:
        """Every region with its result; equal ones are searched once.

        Seconds and graphs are shared by what a region costs, the dearest first, so that what one
        region leaves over serves those behind it.
        """
        first: dict[str, int] = {}
        for number, part in enumerate(parts):
            first.setdefault(part.graph.digest, number)
        weight = {
            digest: self.cost(parts[number].graph) * len(parts[number].graph.nodes)
            for digest, number in first.items()
        }
        found: dict[str, Found] = {}
        left = sum(weight.values())
        for digest in sorted(first, key=lambda digest: (-weight[digest], first[digest])):
            share = min(1.0, weight[digest] / left) if weight[digest] > 0 else 1.0
            budget = self.share_of_budget(share, sum(f.explored for f in found.values()))
            whole = parts[first[digest]].graph
            found[digest] = self.region_result(whole, self.for_size(budget, whole))
            left -= weight[digest]
        return [_Entry(part, found[part.graph.digest], first[part.graph.digest]) for part in parts]

    def share_of_budget(self, share: float, explored: int) -> Budget:
        """A share of what is left after so many graphs, rounded up."""
        settings = self.settings
        seconds = max(0.0, settings.seconds - (self.clock() - self.started))
        graphs = settings.graphs
        if settings.total_graphs is not None:
            graphs = min(graphs, ceil(share * max(0, settings.total_graphs - explored)))
        return Budget(
            settings.alpha, seconds * share, graphs, settings.growth, settings.spare_nodes
        )

    def for_size(self, budget: Budget, graph: Graph) -> Budget:
        """Fewer graphs where each takes longer to look at: a concatenation of thousands, say."""
        operands = sum(len(node.inputs) for node in graph.nodes)
        excess = max(1.0, operands / (2 * self.settings.region_nodes))
        return replace(budget, graphs=ceil(budget.graphs / excess))

    def region_result(self, graph: Graph, budget: Budget) -> Found:
        """The best graph of a region by applications that pass their checks."""
        while True:
            found = self.only_what_pays(
                graph, backtrack(graph, self.index, self.cost, budget, self.clock, CHAINS)
            )
            wrong = self.wrong_rule(found.applications)
            if wrong is None:
                return found
            self.refuted.add(wrong)
            self.index = RuleIndex([r for r in self.rules if r.name not in self.refuted])

    def only_what_pays(self, graph: Graph, found: Found) -> Found:
        """What was found, without applications that do not pay."""
        best, needed = needed_applications(graph, found.applications, self.pays)
        return replace(found, graph=best, cost=self.cost(best), applications=needed)

    def pays(self, without: Graph, instead: Graph) -> bool:
        """Whether the kernels, and copies of weights, that one graph has instead of another's are
        cheaper enough."""
        before, after = self.tasks(without), self.tasks(instead)
        gone, come = (
            sum(count * self.cost.of_task(task) for task, count in each.items())
            for each in (before - after, after - before)
        )
        copies = self.cost.of_copies(instead) - self.cost.of_copies(without)
        gone, come = gone + max(-copies, 0.0), come + max(copies, 0.0)
        return gone - come > self.settings.least_gain * gone

    def tasks(self, graph: Graph) -> Counter[Task]:
        """How often each kernel of a graph runs."""
        known = self.counted.get(graph.digest)
        if known is None:
            known = self.counted[graph.digest] = Counter(self.cost.kernels.tasks(graph))
        return known

    def wrong_rule(self, applications: Sequence[Application]) -> str | None:
        """The name of a rule that a check refutes."""
        check = self.settings.check
        if check is None:
            return None
        for application in applications:
            key = application.claim
            if key not in self.verdicts:
                self.verdicts[key] = check(application)
            match self.verdicts[key]:
                case Checked.AGREED:
                    self.checked += 1
                case Checked.SKIPPED:
                    self.unchecked += 1
                case Checked.DIFFERS:
                    return application.rule.name
        return None

    def assembled(
        self, graph: Graph, entries: Sequence[_Entry], before: float
    ) -> tuple[Graph, list[bool], float]:
        """The graph with results in place of regions, which were, and its cost.

        All of them if that is the sum of its parts; else one kind of region after another, each as
        long as the whole gets cheaper.
        """
        better = [entry.found.cost < entry.found.cost_before for entry in entries]
        if not any(better):
            return graph, better, before
        gain = sum(e.found.cost_before - e.found.cost for e in entries)
        whole = _put_together(graph, entries, better)
        cost = self.cost(whole)
        if cost <= before - 0.9 * gain:
            return whole, better, cost
        accepted = [False] * len(entries)
        best, least = graph, before
        kinds = sorted({e.same_as for e, good in zip(entries, better, strict=True) if good})
        for kind in kinds:
            tried = [a or e.same_as == kind for a, e in zip(accepted, entries, strict=True)]
            candidate = _put_together(graph, entries, tried)
            cost = self.cost(candidate)
            if cost < least:
                accepted, best, least = tried, candidate, cost
        return best, accepted, least


def _put_together(graph: Graph, entries: Sequence[_Entry], accepted: Sequence[bool]) -> Graph:
    """The graph with the accepted results in place of their regions."""
    current: dict[Value, Value] = {}
    for entry, good in zip(entries, accepted, strict=True):
        part = entry.found.graph if good else entry.region.graph
        current.update(entry.region.transplanted(part, current))
    return graph.with_outputs(became(output, current) for output in graph.outputs)


def _applied_at(application: Application, region: int) -> AppliedAt:
    root = application.roots[0]
    return AppliedAt(application.rule.name, root.op.name, str(root.type), region, root.digest.hex())


def _stop_of(entries: Sequence[_Entry]) -> StopReason:
    """The strongest reason for which a region's search ended."""
    reasons = {entry.found.stop for entry in entries}
    for reason in (StopReason.SECONDS, StopReason.GRAPHS):
        if reason in reasons:
            return reason
    return StopReason.EXHAUSTED

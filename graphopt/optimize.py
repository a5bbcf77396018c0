"""Optimization of a graph: the shipped rules applied to a fixed point, constants folded.

fold → rewrite with the default rules → fold, and so on until nothing changes. `prepare` then takes
operators apart for code generation; its result is for the compiler, not for people.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

from graphopt.data_files import data_path
from graphopt.fold import fold_constants
from graphopt.graph import Graph, Node, Value, rebuild
from graphopt.phases import in_phases
from graphopt.proofs import load_proved_rules
from graphopt.rewrite import StopReason, rewrite
from graphopt.rule import Rule
from tensorgen.target import Target


@dataclass(frozen=True, slots=True)
class Optimized:
    """The optimized graph, how often each rule was applied, why it stopped, and the seconds."""

    graph: Graph
    applied: tuple[tuple[str, int], ...]
    stop: StopReason
    seconds: float


@cache
def default_rules() -> tuple[Rule, ...]:
    """The rewrites that the product applies."""
    return load_proved_rules(data_path("rules", "default.rules"))


@cache
def lowering_rules() -> tuple[Rule, ...]:
    """The rewrites that prepare a graph for code generation."""
    return load_proved_rules(data_path("rules", "lowering.rules"))


def optimize(graph: Graph, rules: Sequence[Rule] | None = None) -> Optimized:
    """Rewrite and fold until nothing changes. The same graph object if there was nothing to do."""
    started = time.perf_counter()
    chosen = default_rules() if rules is None else tuple(rules)
    counts: Counter[str] = Counter()
    current = fold_constants(graph)
    while True:
        result = rewrite(current, chosen)
        counts.update(dict(result.counts))
        folded = fold_constants(result.graph)
        if folded is current or result.stop is StopReason.STEP_LIMIT:
            seconds = time.perf_counter() - started
            return Optimized(folded, tuple(sorted(counts.items())), result.stop, seconds)
        current = folded


def prepare(graph: Graph, target: Target | None = None) -> Graph:
    """The graph with operators that have no kernel of their own taken apart; for a target, so that
    they are fast there. That may add in another order than for others, or than without one."""
    apart = partial(taken_apart, target=target)
    if any(apart(node) is not node for node in graph.nodes):
        graph = rebuild(graph, apart)
    return fold_constants(rewrite(graph, lowering_rules()).graph)


def taken_apart(node: Node, target: Target | None = None) -> Value:
    """A node by operators that have kernels, where rules cannot say it; else the node itself."""
    return in_phases(node, target) if node.op.name == "conv_transpose" else node

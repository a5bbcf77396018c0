"""The rewrite engine: rules applied to a graph until none applies, or a limit is reached.

What it does: passes over the graph, producers first. Each node is rebuilt on its rewritten
operands; the first rule in order that applies there replaces it, the nodes of the replacement are
rewritten in the same way as they are built, and so on until no rule applies to them. Equal terms
are one value throughout, so common subexpressions meet by themselves and what nothing reads is
gone (a graph is what its outputs reach). Rules with several results are applied after those with
one. Passes repeat until one changes nothing.

What it does not: weigh costs (see `search`) or prevent rules from undoing each other: then the
step limit ends the run, and the outcome says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from graphopt.graph import Graph, Node, Param, Value, inputs_of, rebuild, walk_back
from graphopt.matching import Bindings, match, match_term
from graphopt.ops.spec import OpSpec
from graphopt.pattern import Application
from graphopt.rule import Rule, replacement
from graphopt.rule_functions import Uses
from tensorgen.types import TensorType

DEFAULT_STEPS = 100_000
"""How many rule applications one run may make."""

_DEPTH = 40
"""How deeply replacements are rewritten inside one another; the next pass does what is left."""


class StopReason(Enum):
    """Why rewriting ended."""

    FIXED_POINT = "no rule applies any more"
    STEP_LIMIT = "the limit of steps was reached"


@dataclass(frozen=True, slots=True)
class Applied:
    """One application of a rule: its name, and the operator and type it was applied to."""

    rule: str
    op: str
    type: TensorType

    def __str__(self) -> str:
        return f"{self.rule} at {self.op} {self.type}"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The outcome of a run: the graph (the same object if unchanged), and what was done."""

    graph: Graph
    applied: tuple[Applied, ...]
    stop: StopReason

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """How often each rule was applied, by name."""
        return tuple(sorted(Counter(item.rule for item in self.applied).items()))


@dataclass(frozen=True, slots=True)
class Match:
    """A place where a rule applies: the values matched and what would replace them."""

    rule: Rule
    roots: tuple[Node, ...]
    bindings: Bindings
    replacements: tuple[Value, ...]


def rewrite(graph: Graph, rules: Sequence[Rule], steps: int = DEFAULT_STEPS) -> Rewritten:
    """Apply rules to a fixed point, in the order given, at most `steps` times."""
    run = _Run(tuple(rules), steps)
    while True:
        changed = run.one_pass(graph)
        if changed is graph and run.steps > 0:
            changed = run.apply_joint(graph)
        if run.steps <= 0:
            return Rewritten(changed, tuple(run.applied), StopReason.STEP_LIMIT)
        if changed is graph:
            return Rewritten(graph, tuple(run.applied), StopReason.FIXED_POINT)
        graph = changed


def uses_of(graph: Graph) -> Uses:
    """How many operands and outputs of a graph read a value; 0 for values it does not have."""
    counts = _use_counts(graph)
    return lambda value: counts[value.digest]


def _use_counts(graph: Graph) -> Counter[bytes]:
    counts = Counter(output.digest for output in graph.outputs)
    for value in graph.values:
        counts.update(operand.digest for operand in inputs_of(value))
    return counts


# Places


def find_matches(graph: Graph, rules: Sequence[Rule]) -> Iterator[Match]:
    """Every place in a graph where a rule applies, rule by rule, producers first.

    Rules with several results are matched at distinct nodes none of which the others are computed
    from.
    """
    nodes = graph.nodes
    by_op: dict[str, list[Node]] = {}
    for node in nodes:
        by_op.setdefault(node.op.name, []).append(node)
    uses = uses_of(graph)
    for rule in rules:
        for roots, bindings in _fits(rule, by_op):
            values = replacement(rule, roots, bindings, uses)
            if values is not None:
                yield Match(rule, roots, bindings, values)


def apply_match(graph: Graph, found: Match) -> Graph:
    """The graph with the matched values replaced."""
    swap = {
        root.digest: value for root, value in zip(found.roots, found.replacements, strict=True)
    }
    if len(found.roots) == 1:
        # A replacement may contain what it replaces, so the old value must be met only once.
        return rebuild(graph, lambda node: swap.get(node.digest, node))
    return rebuild(graph, lambda node: swap.get(node.digest, node))


def _fits(
    rule: Rule, by_op: Mapping[str, Sequence[Node]]
) -> Iterator[tuple[tuple[Node, ...], Bindings]]:
    """Every tuple of nodes that the source of a rule fits, with the bindings."""

    def extend(
        roots: tuple[Node, ...], bindings: Bindings | None
    ) -> Iterator[tuple[tuple[Node, ...], Bindings]]:
        if len(roots) == len(rule.source.terms):
            assert bindings is not None
            yield roots, bindings
            return
        term = rule.source.terms[len(roots)]
        assert isinstance(term, Application)
        for node in by_op.get(term.op.name, ()):
            if node in roots:
                continue
            for extended in match_term(term, node, bindings or Bindings()):
                yield from extend((*roots, node), extended)

    for roots, bindings in extend((), None):
        if len(roots) == 1 or not _depend(roots, bindings):
            yield roots, bindings


def _depend(roots: tuple[Node, ...], bindings: Bindings) -> bool:
    """Whether a root is computed from another through what the names stand for."""
    digests = {root.digest for root in roots}
    return any(
        below.digest in digests for value in bindings.values for below in walk_back(value)
    )

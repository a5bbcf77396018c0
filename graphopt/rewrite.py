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
from dataclasses import dataclass
from enum import Enum

from graphopt.fold import DEFAULT_LIMITS, FoldLimits, fold_constants
from graphopt.graph import Constant, Graph, Node, Value, inputs_of, rebuild, topological_order
from graphopt.matching import NO_BINDINGS, Bindings, match, match_term
from graphopt.pattern import Application, Literal
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


def simplify(
    graph: Graph,
    rules: Sequence[Rule],
    steps: int = DEFAULT_STEPS,
    limits: FoldLimits = DEFAULT_LIMITS,
) -> Rewritten:
    """Fold constants and apply rules in turn until neither changes anything."""
    applied: tuple[Applied, ...] = ()
    while True:
        folded = fold_constants(graph, limits)
        run = rewrite(folded, rules, steps - len(applied))
        applied += run.applied
        if run.graph is folded or run.stop is StopReason.STEP_LIMIT:
            return Rewritten(run.graph, applied, run.stop)
        graph = run.graph


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
    swap = {root.digest: value for root, value in zip(found.roots, found.replacements, strict=True)}
    return rebuild(graph, lambda node: swap.get(node.digest, node))


def _fits(
    rule: Rule, by_op: Mapping[str, Sequence[Node]]
) -> Iterator[tuple[tuple[Node, ...], Bindings]]:
    """Every tuple of nodes that the source of a rule fits, with the bindings."""

    def extend(
        roots: tuple[Node, ...], bindings: Bindings
    ) -> Iterator[tuple[tuple[Node, ...], Bindings]]:
        if len(roots) == len(rule.source.terms):
            yield roots, bindings
            return
        term = rule.source.terms[len(roots)]
        assert isinstance(term, Application)
        for node in by_op.get(term.op.name, ()):
            if node in roots:
                continue
            for extended in match_term(term, node, bindings):
                yield from extend((*roots, node), extended)

    for roots, bindings in extend((), NO_BINDINGS):
        if len(roots) == 1 or not _depend(roots):
            yield roots, bindings


def _depend(roots: tuple[Node, ...]) -> bool:
    """Whether a root is computed from another."""
    digests = {root.digest for root in roots}
    return any(
        below.digest in digests for root in roots for below in topological_order(root.inputs)
    )


# One run


@dataclass(frozen=True, slots=True)
class _Indexed:
    """A rule, and the kinds of operands without which it fits no node."""

    rule: Rule
    needed: frozenset[str]

    @staticmethod
    def of(rule: Rule, root: Application) -> _Indexed:
        operators = {arg.op.name for arg in root.args if isinstance(arg, Application)}
        constants = {_CONSTANT for arg in root.args if isinstance(arg, Literal)}
        return _Indexed(rule, frozenset(operators | constants))


_CONSTANT = "(constant)"
"""The kind of a constant operand; that of a node is the name of its operator."""


def _kind(value: Value) -> str:
    if isinstance(value, Node):
        return value.op.name
    return _CONSTANT if isinstance(value, Constant) else ""


class _Run:
    """The state of one run: rules by root operator, steps left, and what is known in a pass."""

    def __init__(self, rules: tuple[Rule, ...], steps: int) -> None:
        self.steps = steps
        self.applied: list[Applied] = []
        self.joint = tuple(rule for rule in rules if len(rule.source.terms) > 1)
        self.by_op: dict[str, list[_Indexed]] = {}
        for rule in rules:
            root = rule.source.terms[0]
            if len(rule.source.terms) == 1 and isinstance(root, Application):
                self.by_op.setdefault(root.op.name, []).append(_Indexed.of(rule, root))

    def one_pass(self, graph: Graph) -> Graph:
        """The graph after one pass; the same object if nothing changed."""
        counts = _use_counts(graph)
        self.normal: dict[bytes, Value] = {}
        self.uses: Counter[bytes] = Counter()
        self.new_uses: Counter[bytes] = Counter()
        replaced: dict[bytes, Value] = {}
        for value in graph.values:
            result = self.rewritten(_on(value, replaced), 0)
            replaced[value.digest] = result
            self.uses[result.digest] += counts[value.digest]
        outputs = [replaced[output.digest] for output in graph.outputs]
        if all(a.digest == b.digest for a, b in zip(outputs, graph.outputs, strict=True)):
            return graph
        return graph.with_outputs(outputs)

    def apply_joint(self, graph: Graph) -> Graph:
        """The graph after one application of a rule with several results; itself if none fits."""
        for found in find_matches(graph, self.joint):
            self.record(found.rule, found.roots[0])
            return apply_match(graph, found)
        return graph

    def record(self, rule: Rule, node: Node) -> None:
        self.steps -= 1
        self.applied.append(Applied(rule.name, node.op.name, node.type))

    def rewritten(self, value: Value, depth: int) -> Value:
        """What a value becomes whose operands are rewritten already."""
        chain: list[bytes] = []
        current = value
        while current.digest not in self.normal:
            chain.append(current.digest)
            found = self.replacement(current) if isinstance(current, Node) else None
            if found is None:
                break
            current = self.settled(found, depth + 1)
        result = self.normal.get(current.digest, current)
        if self.steps > 0 and depth < _DEPTH:
            self.normal[result.digest] = result
            self.normal.update((digest, result) for digest in chain)
        return result

    def replacement(self, node: Node) -> Value | None:
        """What the first rule that applies to a node puts in its place."""
        if self.steps <= 0:
            return None
        present = {_kind(operand) for operand in node.inputs}
        for indexed in self.by_op.get(node.op.name, ()):
            if not indexed.needed <= present:
                continue
            rule = indexed.rule
            for bindings in match(rule.source, (node,)):
                values = replacement(rule, (node,), bindings, self.count)
                if values is not None:
                    self.record(rule, node)
                    return values[0]
        return None

    def settled(self, value: Value, depth: int) -> Value:
        """A replacement with each of its new inner nodes rewritten, operands first."""
        fresh = self.fresh_nodes(value)
        for node in fresh:
            self.new_uses.update(operand.digest for operand in node.inputs)
        if depth >= _DEPTH:
            return value
        replaced: dict[bytes, Value] = {}
        for node in fresh:
            current = _on(node, replaced)
            if node is not value:
                current = self.rewritten(current, depth)
            replaced[node.digest] = current
        return replaced.get(value.digest, value)

    def fresh_nodes(self, value: Value) -> tuple[Node, ...]:
        """The nodes under a value that this pass has not met, operands first."""
        order: dict[bytes, Node] = {}
        stack: list[tuple[Value, bool]] = [(value, False)]
        while stack:
            current, expanded = stack.pop()
            if not isinstance(current, Node) or current.digest in self.normal:
                continue
            if expanded:
                order.setdefault(current.digest, current)
            elif current.digest not in order:
                stack.append((current, True))
                stack.extend((operand, False) for operand in reversed(current.inputs))
        return tuple(order.values())

    def count(self, value: Value) -> int:
        """How often a value is read: in the graph, or by new nodes if it is new itself."""
        return self.uses[value.digest] or self.new_uses[value.digest]


def _on(value: Value, replaced: Mapping[bytes, Value]) -> Value:
    """A value with its operands replaced; itself if none changes."""
    if not isinstance(value, Node):
        return value
    operands = tuple(replaced.get(operand.digest, operand) for operand in value.inputs)
    if all(a is b for a, b in zip(operands, value.inputs, strict=True)):
        return value
    return value.op(*operands, **value.keywords)

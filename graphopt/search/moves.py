"""Moves of the search: graphs with the places where rules fit, and what applying a rule makes of
them.

What it does: builds the graph that follows from a rule at a place, with the places of the new graph
derived from those of the old. `apply_everywhere` uses one rule at every place that does not undo
another, as one move: what improves one of many equal parts of a graph improves them all.

What it does not: weigh costs (`backtracking`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from graphopt.graph import Constant, Graph, Node, Value
from graphopt.matching import Bindings, match_term
from graphopt.pattern import COMMUTATIVE, Term, Variable, subterms
from graphopt.pattern import Application as ApplicationTerm
from graphopt.pattern import Sequence as SequenceTerm
from graphopt.rewrite import uses_of
from graphopt.rule import Rule, replacement
from graphopt.search.places import Ground, Place, RuleIndex
from graphopt.search.promised import is_promisable
from tensorgen.types import TensorType


@dataclass(frozen=True, slots=True)
class Application:
    """A rule used at a place: what was matched, what was put there, and the names bound."""

    rule: Rule
    roots: tuple[Node, ...]
    replacements: tuple[Value, ...]
    bindings: Bindings = field(repr=False)

    @property
    def op(self) -> str:
        """The operator at the first root."""
        return self.roots[0].op.name

    @property
    def type(self) -> TensorType:
        """The type of the first root."""
        return self.roots[0].type

    @property
    def leaves(self) -> tuple[Value, ...]:
        """The distinct values that the variables of the rule stand for.

        One that the rule matched as an operator elsewhere is computed from the others, and left
        out: (x @ y) @ z, where z is x @ y itself, has the leaves x and y.
        """
        inner: set[Value] = set()
        found: dict[Value, None] = {}
        for term, root in zip(self.rule.source.terms, self.roots, strict=True):
            inner.update(_matched(term, root, self.bindings))
            for part in subterms(term):
                match part:
                    case Variable():
                        found[self.bindings.tensors[part.name]] = None
                    case SequenceTerm():
                        found.update(dict.fromkeys(self.bindings.sequences[part.name]))
                    case _:
                        pass
        return tuple(value for value in found if value not in inner)

    @property
    def claim(self) -> bytes:
        """Identifies what is claimed: the rule, on leaves of these types. What the leaves are
        computed from does not matter, except that literals are what they are."""
        numbers = {leaf.digest: n for n, leaf in enumerate(self.leaves)}
        bindings = self.bindings
        parts: list[object] = [self.rule.digest]
        for name, value in sorted(bindings.tensors.items()):
            parts.append((name, numbers.get(value.digest), value.type, _literal(value)))
        for name, values in sorted(bindings.sequences.items()):
            parts.append((name, [(numbers.get(v.digest), v.type, _literal(v)) for v in values]))
        parts += [sorted(bindings.params.items()), sorted(bindings.captured.items())]
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()

    def __str__(self) -> str:
        return f"{self.rule.name} at {self.op} {self.type}"


@dataclass(frozen=True, slots=True)
class Successor:
    """A graph that a rule made of another, and what became of each of that graph's values."""

    graph: Graph
    image: Mapping[bytes, Value] = field(repr=False)
    application: Application
    rule: int = 0
    """Its number in the index of the search."""


class Position:
    """A graph of the search with its places, known when first asked for."""

    def __init__(
        self,
        graph: Graph,
        index: RuleIndex,
        before: Position | None = None,
        by: Successor | None = None,
    ) -> None:
        self.graph = graph
        self.index = index
        self._before = before
        self._by = by
        self._ground: Ground | None = None
        self._known: tuple[Place, ...] | None = None

    @property
    def ground(self) -> Ground:
        """The graph as the matcher sees it."""
        if self._ground is None:
            self._ground = Ground(self.graph)
        return self._ground

    @property
    def size(self) -> int:
        """How many nodes there are that do not depend on weights alone."""
        return sum(not self.index.is_weight(node) for node in self.graph.nodes)

    @property
    def places(self) -> tuple[Place, ...]:
        """Where rules fit, rule by rule, producers first."""
        return tuple(
            place
            for place in self._candidates
            if len(place.roots) == 1 or self.ground.independent(place.roots)
        )

    @property
    def _candidates(self) -> tuple[Place, ...]:
        """The places, and those whose roots depend on each other here."""
        if self._known is None:
            number = self.ground.number
            self._known = tuple(
                sorted(
                    self._found().values(),
                    key=lambda place: (place.rule, [number[r.digest] for r in place.roots]),
                )
            )
            self._before = self._by = None
        return self._known

    def _found(self) -> dict[object, Place]:
        if self._before is None or self._by is None:
            return self.index.places(self.ground, self.ground.nodes)
        image = self._by.image
        ground = self.ground
        around = ground.above(self._changed(), self.index.depth - 1)
        found = self.index.places(ground, around)
        again = {node.digest for node in around}
        for place in self._before._candidates:
            roots = tuple(image.get(root.digest, root) for root in place.roots)
            kept = tuple(
                root
                for root in roots
                if isinstance(root, Node)
                and root.digest in ground.number
                and root.digest not in again
            )
            if len(set(kept)) == len(roots):
                moved = Place(place.rule, kept)
                found.setdefault(moved.key, moved)
        return found

    def _changed(self) -> list[Node]:
        """Nodes that are new, that took another's place, or that several became."""
        assert self._before is not None
        assert self._by is not None
        image = self._by.image
        kept = Counter(image.get(node.digest, node).digest for node in self._before.graph.nodes)
        put = {value.digest for value in self._by.application.replacements}
        return [node for node in self.ground.nodes if kept[node.digest] != 1 or node.digest in put]

    def successors(self) -> Iterator[Successor]:
        """The graphs that one rule at one place makes of this one."""
        uses = uses_of(self.graph)
        for place in self.places:
            rule = self.index.rules[place.rule]
            for bindings in self.index.bindings(place):
                values = replacement(rule, place.roots, bindings, uses)
                if values is not None:
                    application = Application(rule, place.roots, values, bindings)
                    yield applied(self.graph, application, place.rule)

    def apply_everywhere(self, rule: int, limit: int) -> tuple[Position, tuple[Application, ...]]:
        """The position after one rule at place after place, until none is left or `limit` uses."""
        position = Position(self.graph, self.index.only(rule))
        applications: list[Application] = []
        seen = {self.graph.digest}
        while len(applications) < limit:
            step = next((s for s in position.successors() if s.graph.digest not in seen), None)
            if step is None:
                break
            seen.add(step.graph.digest)
            applications.append(step.application)
            position = Position(step.graph, position.index, position, step)
        return Position(position.graph, self.index), tuple(applications)


def _matched(term: Term, value: Value, bindings: Bindings) -> Iterator[Value]:
    """The values that the applications of a term matched, given all its bindings."""
    if not isinstance(term, ApplicationTerm) or not isinstance(value, Node):
        return
    yield value
    orders = [term.args, term.args[::-1]] if term.op.name in COMMUTATIVE else [term.args]
    for args in orders:
        pairs: list[tuple[Term, Value]] = []
        position = 0
        for arg in args:
            if isinstance(arg, SequenceTerm):
                position += len(bindings.sequences[arg.name])
            else:
                pairs.append((arg, value.inputs[position]))
                position += 1
        if all(next(match_term(arg, v, bindings), None) is not None for arg, v in pairs):
            for arg, operand in pairs:
                yield from _matched(arg, operand, bindings)
            return


def _literal(value: Value) -> bytes | None:
    """The digest of a constant whose elements matter."""
    return value.digest if isinstance(value, Constant) and not is_promisable(value) else None


def applied(graph: Graph, application: Application, rule: int = 0) -> Successor:
    """The graph with the roots of an application replaced. Equal values become one."""
    swap = {
        root.digest: value
        for root, value in zip(application.roots, application.replacements, strict=True)
    }
    image: dict[bytes, Value] = {}
    for node in graph.nodes:
        put = swap.get(node.digest)
        if put is not None:
            image[node.digest] = put
        elif any(operand.digest in image for operand in node.inputs):
            operands = tuple(image.get(operand.digest, operand) for operand in node.inputs)
            # Operands keep their types, so the node keeps its own.
            image[node.digest] = Node(node.op, operands, node.params, node.type)
    outputs = [image.get(output.digest, output) for output in graph.outputs]
    return Successor(graph.with_outputs(outputs), image, application, rule)


def rules_with_places(places: Sequence[Place]) -> dict[int, int]:
    """How many places each rule has."""
    return dict(sorted(Counter(place.rule for place in places).items()))

"""Places where rules fit a graph, found anew only around what changed.

What it does: indexes rules by the operators of their sources, finds every tuple of nodes that the
source of a rule fits, and carries what it found over to a rewritten graph: a place away from the
rewrite is the same place there, so only nodes that are new, and those that read them within the
depth of the deepest pattern, are matched again. The results of a rule with several are found by way
of an operand that they share.

What it does not: evaluate conditions or build what a rule puts there (`moves`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphopt.graph import Graph, Node, Value, consumers
from graphopt.matching import NO_BINDINGS, Bindings, match_term
from graphopt.pattern import Application, Term, Variable
from graphopt.rule import Rule
from graphopt.search.promised import WeightOnly

Path = tuple[str, ...]
"""Operators from a root down to the application that reads a variable."""


@dataclass(frozen=True, slots=True)
class Place:
    """The nodes that the source of a rule fits; `rule` is its number in the index."""

    rule: int
    roots: tuple[Node, ...]

    @property
    def key(self) -> tuple[int, tuple[bytes, ...]]:
        """Equal for equal places."""
        return self.rule, tuple(root.digest for root in self.roots)


class Ground:
    """A graph as the matcher sees it: who reads what, and what depends on what."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self.number = {node.digest: n for n, node in enumerate(self.nodes)}
        self._readers: dict[bytes, tuple[Node, ...]] = {
            value.digest: nodes for value, nodes in consumers(graph.values).items()
        }
        self._behind: list[int] = []
        for node in self.nodes:
            mask = 0
            for operand in node.inputs:
                position = self.number.get(operand.digest)
                if position is not None:
                    mask |= self._behind[position] | 1 << position
            self._behind.append(mask)

    def readers(self, value: Value) -> tuple[Node, ...]:
        """The nodes that read a value, in the order of the graph."""
        return self._readers.get(value.digest, ())

    def independent(self, roots: Sequence[Node]) -> bool:
        """Whether no root is computed from another."""
        positions = [self.number[root.digest] for root in roots]
        mask = sum(1 << position for position in positions)
        return all(not self._behind[position] & mask for position in positions)

    def above(self, seeds: Iterable[Node], levels: int) -> tuple[Node, ...]:
        """The seeds and what reads them in up to so many steps, in the order of the graph."""
        found = {seed.digest: seed for seed in seeds}
        level = list(found.values())
        for _ in range(levels):
            level = [
                reader
                for node in level
                for reader in self.readers(node)
                if found.setdefault(reader.digest, reader) is reader
            ]
        return tuple(sorted(found.values(), key=lambda node: self.number[node.digest]))


@dataclass(frozen=True, slots=True)
class _Entry:
    """One root of a rule."""

    rule: int
    position: int
    term: Application
    needed: frozenset[str]


class RuleIndex:
    """Rules by the operators at their roots."""

    def __init__(self, rules: Sequence[Rule], is_weight: WeightOnly | None = None) -> None:
        self.rules = tuple(rules)
        self.is_weight = WeightOnly() if is_weight is None else is_weight
        self._alone: dict[int, RuleIndex] = {}
        self.depth = max((_depth(t) for r in self.rules for t in r.source.terms), default=1)
        self._by_op: dict[str, list[_Entry]] = {}
        self._shared: list[tuple[str, tuple[tuple[Path, ...], ...]] | None] = []
        for number, rule in enumerate(self.rules):
            for position, term in enumerate(rule.source.terms):
                assert isinstance(term, Application)
                needed = frozenset(a.op.name for a in term.args if isinstance(a, Application))
                entry = _Entry(number, position, term, needed)
                self._by_op.setdefault(term.op.name, []).append(entry)
            self._shared.append(_shared(rule))

    def places(self, ground: Ground, nodes: Iterable[Node]) -> dict[object, Place]:
        """Every place with one of these nodes among its roots, by key.

        Roots may depend on each other: that changes with rewrites far away, and is asked when a
        place is used (`Ground.independent`). What depends on weights alone costs nothing, so no
        rule is tried there.
        """
        found: dict[object, Place] = {}
        for node in nodes:
            if self.is_weight(node):
                continue
            present = {v.op.name for v in node.inputs if isinstance(v, Node)}
            for entry in self._by_op.get(node.op.name, ()):
                if entry.needed <= present:
                    for place in self._fits(ground, entry, node):
                        found.setdefault(place.key, place)
        return found

    def bindings(self, place: Place) -> Iterator[Bindings]:
        """Every way in which a place's rule fits it."""
        terms = self.rules[place.rule].source.terms

        def extend(position: int, bindings: Bindings) -> Iterator[Bindings]:
            if position == len(terms):
                yield bindings
                return
            for extended in match_term(terms[position], place.roots[position], bindings):
                yield from extend(position + 1, extended)

        return extend(0, NO_BINDINGS)

    def only(self, rule: int) -> RuleIndex:
        """The index of one rule alone, as its number 0."""
        if rule not in self._alone:
            self._alone[rule] = RuleIndex((self.rules[rule],), self.is_weight)
        return self._alone[rule]

    def _fits(self, ground: Ground, entry: _Entry, node: Node) -> Iterator[Place]:
        count = len(self.rules[entry.rule].source.terms)
        for bindings in match_term(entry.term, node, NO_BINDINGS):
            if count == 1:
                yield Place(entry.rule, (node,))
                return
            yield from self._joined(ground, entry.rule, {entry.position: node}, bindings)

    def _joined(
        self, ground: Ground, number: int, chosen: Mapping[int, Node], bindings: Bindings
    ) -> Iterator[Place]:
        """Places that extend the roots chosen so far by one for each remaining term."""
        terms = self.rules[number].source.terms
        position = next((n for n in range(len(terms)) if n not in chosen), None)
        if position is None:
            yield Place(number, tuple(chosen[n] for n in range(len(terms))))
            return
        for candidate in self._candidates(ground, number, position, bindings):
            if candidate in chosen.values() or self.is_weight(candidate):
                continue
            for extended in match_term(terms[position], candidate, bindings):
                yield from self._joined(ground, number, {**chosen, position: candidate}, extended)

    def _candidates(
        self, ground: Ground, number: int, position: int, bindings: Bindings
    ) -> tuple[Node, ...]:
        """The nodes that may be another root, found by way of the shared operand."""
        term = self.rules[number].source.terms[position]
        assert isinstance(term, Application)
        shared = self._shared[number]
        if shared is None:
            return tuple(node for node in ground.nodes if node.op is term.op)
        name, paths = shared
        found: dict[bytes, Node] = {}
        for path in paths[position]:
            level: list[Value] = [bindings.tensors[name]]
            for op in reversed(path):
                level = [r for value in level for r in ground.readers(value) if r.op.name == op]
            found.update((node.digest, node) for node in level if isinstance(node, Node))
        return tuple(sorted(found.values(), key=lambda node: ground.number[node.digest]))


def _depth(term: Term) -> int:
    if not isinstance(term, Application):
        return 0
    return 1 + max((_depth(arg) for arg in term.args), default=0)


def shared_variables(rule: Rule) -> tuple[str, ...]:
    """The variables that all terms of a rule's source have in common."""
    first, *others = (_paths(term, ()) for term in rule.source.terms)
    return tuple(sorted(name for name in first if all(name in other for other in others)))


def _shared(rule: Rule) -> tuple[str, tuple[tuple[Path, ...], ...]] | None:
    """A variable that all terms of a rule have in common, with the paths to it in each."""
    common = shared_variables(rule)
    if not common:
        return None
    paths = [_paths(term, ()) for term in rule.source.terms]
    name = min(common, key=lambda name: (sum(len(p) for each in paths for p in each[name]), name))
    return name, tuple(tuple(each[name]) for each in paths)


def _paths(term: Term, above: Path) -> dict[str, list[Path]]:
    """For each variable of a term, the operators above each of its occurrences."""
    found: dict[str, list[Path]] = {}
    match term:
        case Variable():
            found[term.name] = [above]
        case Application():
            for arg in term.args:
                for name, paths in _paths(arg, (*above, term.op.name)).items():
                    found.setdefault(name, []).extend(paths)
    return found

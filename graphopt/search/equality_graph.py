"""An e-graph over graph values: classes of values that rules have shown equal.

What it does: adds values, merges classes, keeps congruence (equal operators on equal operands are
equal), and finds the classes that a rule's source fits. A class is known by its representative, an
ordinary value, so that conditions and parameter functions of rules see types and constants as they
do elsewhere, and targets are built by the ordinary builder.

Sources: Willsey et al., "egg" (POPL 2021), for rebuilding in rounds; Yang et al., "Equality
saturation for tensor graph superoptimization" (Tensat, MLSys 2021), for rules of several results.

What it does not: choose what to merge (`saturation`) or which term to take (`extraction`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphopt.graph import Graph, Node, Params, Value, topological_order
from graphopt.matching import NO_BINDINGS, Bindings, match_term
from graphopt.ops.spec import OpSpec
from graphopt.pattern import Application, Term, Variable
from graphopt.rule import Rule

ClassId = int


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator over classes."""

    op: OpSpec
    params: Params
    operands: tuple[ClassId, ...]

    @property
    def key(self) -> tuple[str, Params, tuple[ClassId, ...]]:
        """Equal for operators that congruence makes equal."""
        return self.op.name, self.params, self.operands


class EqualityGraph:
    """Classes of equal values. Grows only."""

    def __init__(self) -> None:
        self._parent: list[ClassId] = []
        self._representative: list[Value] = []
        self._members: list[dict[object, Operator]] = []
        self._class_of: dict[bytes, ClassId] = {}
        self._known: dict[object, ClassId] = {}

    # Growing

    def add_graph(self, graph: Graph) -> tuple[ClassId, ...]:
        """The classes of a graph's outputs."""
        return tuple(self.add(output) for output in graph.outputs)

    def add(self, value: Value) -> ClassId:
        """The class of a value; of what it is computed from, too."""
        for part in topological_order((value,)):
            if part.digest in self._class_of:
                continue
            if isinstance(part, Node):
                operands = tuple(self.find(self._class_of[v.digest]) for v in part.inputs)
                self._class_of[part.digest] = self._class(Operator(part.op, part.params, operands))
            else:
                self._class_of[part.digest] = self._new(part)
        return self.find(self._class_of[value.digest])

    def _class(self, operator: Operator) -> ClassId:
        found = self._known.get(operator.key)
        if found is None:
            operands = (self._representative[operand] for operand in operator.operands)
            found = self._new(operator.op(*operands, **dict(operator.params)))
            self._members[found][operator.key] = operator
            self._known[operator.key] = found
        return self.find(found)

    def _new(self, representative: Value) -> ClassId:
        number = len(self._parent)
        self._parent.append(number)
        self._representative.append(representative)
        self._members.append({})
        self._class_of.setdefault(representative.digest, number)
        return number

    def merge(self, a: ClassId, b: ClassId) -> bool:
        """Make two classes one; whether they were two. `rebuild` afterwards."""
        a, b = sorted((self.find(a), self.find(b)))
        if a == b:
            return False
        assert self._representative[a].type == self._representative[b].type
        self._parent[b] = a
        self._members[a].update(self._members[b])
        # A leaf costs nothing, so a class that holds one is known by it.
        pair = (self._representative[a], self._representative[b])
        self._representative[a] = min(pair, key=lambda value: isinstance(value, Node))
        return True

    def rebuild(self) -> None:
        """Restore congruence: operators over merged operands are one."""
        changed = True
        while changed:
            changed = False
            known: dict[object, ClassId] = {}
            for number in self.classes:
                members: dict[object, Operator] = {}
                for operator in self._members[number].values():
                    operands = tuple(self.find(operand) for operand in operator.operands)
                    current = replace(operator, operands=operands)
                    members[current.key] = current
                self._members[number] = members
            for number in self.classes:
                for key in list(self._members[number]):
                    other = known.setdefault(key, number)
                    changed |= self.merge(other, number)
            self._known = {key: self.find(number) for key, number in known.items()}

    # Looking

    def find(self, number: ClassId) -> ClassId:
        """The class that a class has become part of."""
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    @property
    def classes(self) -> tuple[ClassId, ...]:
        """All classes, oldest first."""
        return tuple(n for n, parent in enumerate(self._parent) if n == parent)

    def operators(self, number: ClassId) -> tuple[Operator, ...]:
        """The operators whose results a class holds."""
        return tuple(self._members[self.find(number)].values())

    def is_leaf(self, number: ClassId) -> bool:
        """Whether a class holds an input or a constant."""
        return not isinstance(self.representative(number), Node)

    def representative(self, number: ClassId) -> Value:
        """A value of a class."""
        return self._representative[self.find(number)]

    @property
    def size(self) -> int:
        """How many operators there are."""
        return sum(len(self._members[number]) for number in self.classes)

    def node(self, operator: Operator) -> Node:
        """An operator on the representatives of its operands."""
        operands = (self.representative(operand) for operand in operator.operands)
        return operator.op(*operands, **dict(operator.params))


class Matcher:
    """Finds where rules fit the classes of an e-graph as it is now."""

    def __init__(self, graph: EqualityGraph) -> None:
        self._graph = graph
        self._nodes: dict[ClassId, tuple[Node, ...]] = {}
        self._class: dict[bytes, ClassId] = {}
        self._by_op: dict[str, list[ClassId]] = {}
        for number in graph.classes:
            nodes = tuple(graph.node(operator) for operator in graph.operators(number))
            self._nodes[number] = nodes
            self._class[graph.representative(number).digest] = number
            for name in dict.fromkeys(node.op.name for node in nodes):
                self._by_op.setdefault(name, []).append(number)

    def fits(self, rule: Rule) -> Iterator[tuple[tuple[ClassId, ...], Bindings]]:
        """Every tuple of classes that the source of a rule fits, with the bindings."""
        terms = rule.source.terms

        def extend(
            roots: tuple[ClassId, ...], bindings: Bindings
        ) -> Iterator[tuple[tuple[ClassId, ...], Bindings]]:
            if len(roots) == len(terms):
                yield roots, bindings
                return
            term = terms[len(roots)]
            assert isinstance(term, Application)
            for number in self._by_op.get(term.op.name, ()):
                if number not in roots:
                    for extended in self._fits(term, number, bindings):
                        yield from extend((*roots, number), extended)

        return extend((), NO_BINDINGS)

    def _fits(self, term: Term, number: ClassId, bindings: Bindings) -> Iterator[Bindings]:
        """Every extension of the bindings under which some value of a class fits a term."""
        if not isinstance(term, Application):
            yield from match_term(term, self._graph.representative(number), bindings)
            return
        outer, inner = _shallow(term, len(bindings.tensors))
        for node in self._nodes[number]:
            if node.op is term.op:
                for found in match_term(outer, node, bindings):
                    for extended in self._operands(inner, found):
                        if term.label is not None:
                            here = self._graph.representative(number)
                            extended = extended.with_tensor(term.label, here)
                        yield extended

    def _operands(
        self, inner: Sequence[tuple[str, Application]], bindings: Bindings
    ) -> Iterator[Bindings]:
        if not inner:
            yield bindings
            return
        name, term = inner[0]
        number = self._class[bindings.tensors[name].digest]
        for extended in self._fits(term, number, bindings):
            yield from self._operands(inner[1:], extended)


def _shallow(term: Application, level: int) -> tuple[Application, list[tuple[str, Application]]]:
    """A term with names in place of its applications, and these by name."""
    args: list[Term] = []
    inner: list[tuple[str, Application]] = []
    for position, arg in enumerate(term.args):
        if isinstance(arg, Application):
            name = f"#{level}.{position}"
            inner.append((name, arg))
            args.append(Variable(name))
        else:
            args.append(arg)
    return replace(term, args=tuple(args), label=None), inner

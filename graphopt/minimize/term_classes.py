"""Classes of equal terms whose leaves are known by type alone: an e-graph without values.

What it does: adds terms, merges classes and keeps congruence (equal operators on equal operands are
equal). A class is stood for by an input of its type; a literal stays the constant that it is.
Operands of commutative operators are kept in one order. Grows only.

Source: Willsey et al., "egg" (POPL 2021), for rebuilding in rounds.

What it does not: hold values, or choose what to merge (`derivation`).
"""

from __future__ import annotations

from dataclasses import dataclass

from graphopt.graph import Constant, Input, Node, Params, Value, topological_order
from graphopt.ops.spec import OpSpec
from graphopt.pattern import COMMUTATIVE
from tensorgen.types import TensorType

ClassId = int


@dataclass(frozen=True, slots=True)
class Applied:
    """One operator over classes."""

    op: OpSpec
    params: Params
    operands: tuple[ClassId, ...]

    @property
    def key(self) -> tuple[str, Params, tuple[ClassId, ...]]:
        """Equal for operators that congruence and commutativity make equal."""
        operands = self.operands
        if self.op.name in COMMUTATIVE:
            operands = tuple(sorted(operands))
        return self.op.name, self.params, operands


class Classes:
    """Classes of terms."""

    def __init__(self) -> None:
        self._parent: list[ClassId] = []
        self._stand_in: list[Value] = []
        self._members: list[dict[object, Applied]] = []
        self._known: dict[object, ClassId] = {}
        self._leaves: dict[bytes, ClassId] = {}
        self._terms: dict[bytes, ClassId] = {}
        self.size = 0

    def add(self, value: Value) -> ClassId:
        """The class of a term, over stand-ins or over leaves of its own."""
        for part in topological_order((value,)):
            if part.digest in self._terms:
                continue
            if isinstance(part, Node):
                number = self._operator(self._over_classes(part), part.type)
            else:
                number = self._leaf(part)
            self._terms[part.digest] = number
        return self.find(self._terms[value.digest])

    def lookup(self, value: Value) -> ClassId | None:
        """The class of a term if it is there."""
        found: dict[bytes, ClassId] = {}
        for part in topological_order((value,)):
            number: ClassId | None
            if isinstance(part, Node):
                operands = tuple(found[operand.digest] for operand in part.inputs)
                number = self._known.get(Applied(part.op, part.params, operands).key)
            else:
                number = self._leaves.get(part.digest)
            if number is None:
                return None
            found[part.digest] = self.find(number)
        return found[value.digest]

    def _over_classes(self, node: Node) -> Applied:
        operands = tuple(self.find(self._terms[operand.digest]) for operand in node.inputs)
        return Applied(node.op, node.params, operands)

    def _leaf(self, value: Value) -> ClassId:
        if value.digest not in self._leaves:
            kept = value if isinstance(value, Constant) else None
            self._leaves[value.digest] = self._new(value.type, kept)
        return self._leaves[value.digest]

    def _operator(self, applied: Applied, type: TensorType) -> ClassId:
        found = self._known.get(applied.key)
        if found is None:
            found = self._new(type, None)
            self._members[found][applied.key] = applied
            self._known[applied.key] = found
            self.size += 1
        return found

    def _new(self, type: TensorType, constant: Constant | None) -> ClassId:
        number = len(self._parent)
        self._parent.append(number)
        # Positions below 0 are those of stand-ins, the others those of a term's own inputs.
        stand_in = Input(-1 - number, type) if constant is None else constant
        self._stand_in.append(stand_in)
        self._members.append({})
        self._terms[stand_in.digest] = number
        return number

    def find(self, number: ClassId) -> ClassId:
        """The class that a class has become part of."""
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    def merge(self, a: ClassId, b: ClassId) -> bool:
        """Make two classes one; whether they were two. `rebuild` afterwards."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        a, b = sorted((a, b))
        assert self._stand_in[a].type == self._stand_in[b].type
        self._parent[b] = a
        self._members[a].update(self._members[b])
        self._members[b] = {}
        if isinstance(self._stand_in[b], Constant):
            self._stand_in[a] = self._stand_in[b]
        return True

    def rebuild(self) -> None:
        """Restore congruence: operators over merged operands are one."""
        changed = True
        while changed:
            changed = False
            known: dict[object, ClassId] = {}
            for number in self.classes:
                members: dict[object, Applied] = {}
                for applied in self._members[number].values():
                    operands = tuple(map(self.find, applied.operands))
                    if operands != applied.operands:
                        applied = Applied(applied.op, applied.params, operands)
                    members[applied.key] = applied
                self._members[number] = members
            for number in self.classes:
                for key in list(self._members[number]):
                    changed |= self.merge(known.setdefault(key, number), number)
            self._known = {key: self.find(number) for key, number in known.items()}
        self.size = len(self._known)

    @property
    def classes(self) -> list[ClassId]:
        """All classes, oldest first."""
        return [number for number, parent in enumerate(self._parent) if number == parent]

    def operators(self, number: ClassId) -> list[Applied]:
        """The operators whose results a class holds."""
        return list(self._members[number].values())

    def stand_in(self, number: ClassId) -> Value:
        """What stands for a class."""
        return self._stand_in[self.find(number)]

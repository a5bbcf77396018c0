"""Ground terms over uninterpreted functions, and what is known to be equal of them.

What it does: gives every value a term — a symbol, which is the operator with its parameters, over
terms — and keeps classes of equal terms closed under congruence: equal symbols on equal operands
are equal. Parameters that hold symbolic sizes are compared as polynomials under assumptions. What
it does not: know any operator, or why terms are equal (see `axiom_instances`).

Source: Nelson and Oppen, "Fast decision procedures based on congruence closure" (J. ACM 27, 1980).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from graphopt.graph import Constant, Input, Node, Param, Value, topological_order
from graphopt.ops.spec import OpSpec
from graphopt.pattern import literal_text, spelling
from tensorgen.sizes import Size
from verify.assumptions import Assumptions
from verify.exploration import Path
from verify.feasibility import possible

T = TypeVar("T")

TermId = int


class LeftOpen(Exception):
    """What is assumed of sizes does not decide a comparison."""


class Entailed(Path):
    """A judge of sizes that takes no decisions: what does not follow raises LeftOpen."""

    @staticmethod
    def of(path: Path, excluded: list[str]) -> Entailed:
        """The judge that knows what a path has assumed; `excluded` gains the questions that
        settled comparisons."""
        return Entailed((), path.assumptions, [], dict(path.counts), dict(path.quotients), excluded)

    def _decide(self, options: Callable[[], Sequence[T]]) -> T:
        found = options()
        if len(found) != 1:
            raise LeftOpen
        return found[0]


class Terms:
    """Terms, each once, in classes of equal ones. A class is known by its oldest term."""

    def __init__(self, judge: Entailed, names: Mapping[int, str]) -> None:
        """`names` has the names of inputs by position; the judge must be in force."""
        self._judge = judge
        self._assumptions = judge.assumptions
        self._sizes: dict[str, Size] = {}
        # Integers that fit the assumptions: where sizes differ at one, they are not equal.
        self._points = [judge.assumptions.hint]
        self.values: list[Value] = []
        self.symbols: list[str] = []
        self.operands: list[tuple[TermId, ...]] = []
        self.parameters: list[Mapping[str, str]] = []
        self._names = names
        self._parent: list[TermId] = []
        self._members: dict[TermId, dict[str, list[TermId]]] = {}
        self._users: dict[TermId, list[TermId]] = {}
        self._of_value: dict[bytes, TermId] = {}
        self._of_parts: dict[tuple[str, tuple[TermId, ...]], TermId] = {}
        self._of_classes: dict[tuple[str, tuple[TermId, ...]], TermId] = {}

    def __len__(self) -> int:
        return len(self.values)

    # Growing

    def add(self, value: Value) -> TermId:
        """The term of a value."""
        for part in topological_order((value,)) if value.digest not in self._of_value else ():
            if part.digest not in self._of_value:
                self._of_value[part.digest] = self._term(part)
        return self._of_value[value.digest]

    def _term(self, value: Value) -> TermId:
        if not isinstance(value, Node):
            return self._new(value, _leaf_symbol(value, self._names), (), {})
        texts = self._parameter_texts(value.keywords)
        symbol = _symbol(value.op, texts)
        operands = tuple(self._of_value[operand.digest] for operand in value.inputs)
        known = self._of_parts.get((symbol, operands))
        return self._new(value, symbol, operands, texts) if known is None else known

    def parameter(self, value: Param | Size) -> str:
        """A parameter as text: equal texts are equal values wherever the assumptions hold."""
        match value:
            case Size():
                return self._size(value)
            case tuple():
                items = [self.parameter(item) for item in value]
                return f"({', '.join(items)}{',' * (len(items) == 1)})"
            case _:
                return literal_text(value)

    def _size(self, size: Size) -> str:
        normal = self._assumptions.normal(size)
        text = str(normal)
        if normal.constant is not None or text in self._sizes:
            return text
        # Sizes can be equal that are not one polynomial, as quotients are.
        for other, known in self._sizes.items():
            if self._must_equal(known, normal):
                return other
        self._sizes[text] = normal
        return text

    def _must_equal(self, one: Size, other: Size) -> bool:
        if any(one.at(point) != other.at(point) for point in self._points):
            return False
        match possible(self._judge.assumptions.with_nonzero(one - other)):
            case Assumptions(hint=point):
                self._points.append(point)
                return False
            case str(question):
                self._judge.excluded.append(question)
                return True

    def _parameter_texts(self, params: Mapping[str, Param]) -> Mapping[str, str]:
        return {name: self.parameter(params[name]) for name in sorted(params)}

    def _new(
        self,
        value: Value,
        symbol: str,
        operands: tuple[TermId, ...],
        parameters: Mapping[str, str],
    ) -> TermId:
        number = len(self.values)
        self.values.append(value)
        self.symbols.append(symbol)
        self.operands.append(operands)
        self.parameters.append(parameters)
        self._parent.append(number)
        self._members[number] = {value.op.name: [number]} if isinstance(value, Node) else {}
        self._users[number] = []
        for operand in {self.find(operand) for operand in operands}:
            self._users[operand].append(number)
        self._of_parts[symbol, operands] = number
        twin = self._of_classes.setdefault(self._signature(number), number)
        if twin != number:
            self.merge(twin, number)
        return number

    def made(self, op: OpSpec, inputs: tuple[Value, ...], params: Mapping[str, Param]) -> Value:
        """An operator on values; its type is that of an equal term where there is one.

        Raises what the operator's type rule raises.
        """
        symbol = _symbol(op, self._parameter_texts(params))
        operands = tuple(self.add(value) for value in inputs)
        known = self._of_parts.get((symbol, operands))
        if known is not None:
            return self.values[known]
        twin = self._of_classes.get((symbol, tuple(map(self.find, operands))))
        if twin is None:
            return op(*inputs, **params)
        return Node(op, inputs, tuple(sorted(params.items())), self.values[twin].type)

    def merge(self, one: TermId, other: TermId) -> None:
        """Make two terms equal, and what follows from that by congruence."""
        pending = [(one, other)]
        while pending:
            a, b = sorted(map(self.find, pending.pop()))
            if a == b:
                continue
            self._parent[b] = a
            for name, members in self._members.pop(b).items():
                self._members[a].setdefault(name, []).extend(members)
            users = self._users.pop(b)
            for user in users:
                twin = self._of_classes.setdefault(self._signature(user), user)
                if self.find(twin) != self.find(user):
                    pending.append((twin, user))
            self._users[a].extend(users)

    def _signature(self, term: TermId) -> tuple[str, tuple[TermId, ...]]:
        return self.symbols[term], tuple(map(self.find, self.operands[term]))

    # Looking

    def find(self, term: TermId) -> TermId:
        """The oldest term that equals a term."""
        parent = self._parent
        while parent[term] != term:
            parent[term] = parent[parent[term]]
            term = parent[term]
        return term

    def equal(self, one: TermId, other: TermId) -> bool:
        """Whether two terms are known to be equal."""
        return self.find(one) == self.find(other)

    def classes(self, operator: str) -> Iterator[TermId]:
        """The classes with a term of an operator, oldest first."""
        found = [number for number, members in self._members.items() if operator in members]
        return iter(sorted(found))

    def members(self, term: TermId, operator: str) -> Sequence[TermId]:
        """The terms of an operator that equal a term."""
        return self._members[self.find(term)].get(operator, ())

    def of(self, value: Value) -> TermId | None:
        """The term of a value if there is one."""
        return self._of_value.get(value.digest)

    def text(self, term: TermId) -> str:
        """A term in the syntax of rules."""
        value = self.values[term]
        if not isinstance(value, Node):
            return self.symbols[term]
        parts = [self.text(operand) for operand in self.operands[term]]
        parts += [f"{name}={text}" for name, text in self.parameters[term].items()]
        return f"{spelling(value.op)}({', '.join(parts)})"


def _leaf_symbol(value: Input | Constant, names: Mapping[int, str]) -> str:
    match value:
        case Input(position=position):
            return names[position]
        case Constant(array=array, type=type):
            # Constants that differ may have one symbol only if they are equal.
            if type.rank == 0:
                return f"{array.item()!r} {type}"
            return f"constant {value.digest.hex()} {type}"


def _symbol(op: OpSpec, parameters: Mapping[str, str]) -> str:
    """An operator with its parameters. The bracket keeps it apart from names."""
    return f"{op.name}({', '.join(f'{name}={text}' for name, text in parameters.items())})"

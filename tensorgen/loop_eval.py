"""Interpreter of Loop IR: runs a kernel one statement at a time on numpy arrays.

Literal: the oracle that tells a wrong lowering from a wrong printer. Every access is checked
against the buffer's bounds, and reads of what was never written are refused.

Every statement and term is read once and made a Python function, because loops come to it again
and again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, assert_never

import numpy as np

from tensorgen.expr import Apply, Axis, Cast, Const, Expr, Load, Reduce, Select
from tensorgen.loop import (
    Allocate,
    Alternate,
    Buffer,
    Call,
    Declare,
    Fill,
    FilterTile,
    FoldLanes,
    For,
    If,
    LoopKernel,
    MultiplyAdd,
    Prefetch,
    Register,
    SoftmaxRows,
    Stmt,
    Store,
    TransposeBlock,
    TransposeSums,
    VectorApply,
    VectorLoad,
    VectorStore,
)
from tensorgen.scalar_ops import SCALAR_OP
from tensorgen.types import Array, DType, boolean, int64


class LoopError(AssertionError):
    """A kernel does what no kernel may: reads outside a buffer, or what nobody wrote."""


@dataclass(slots=True)
class _Memory:
    """The contents of one buffer and which elements have been written: 1, others 0."""

    buffer: Buffer
    data: Array
    written: bytearray

    def clear(self) -> None:
        """Nothing is written."""
        self.data = np.zeros(self.buffer.size, self.buffer.dtype.numpy)
        self.written = bytearray(self.buffer.size)

    def check(self, index: int, reading: bool) -> None:
        if not 0 <= index < self.buffer.size:
            raise LoopError(
                f"{self.buffer.name}: expected an index in 0..{self.buffer.size - 1}, got {index}"
            )
        if reading and not self.written[index]:
            raise LoopError(f"{self.buffer.name}: element {index} is read before it is written")

    def check_all(self, start: int, stop: int, reading: bool) -> None:
        """As `check` for each of these indices."""
        inside = start >= 0 and stop <= self.buffer.size
        if not inside or (reading and self.written.find(0, start, stop) >= 0):
            for index in range(start, stop):
                self.check(index, reading)


def _combination(weights: Sequence[int], elements: Mapping[int, Array]) -> Array:
    """The sum of the elements that have a weight, in the type that they have."""
    terms = [
        elements[number] * elements[number].dtype.type(weight)
        for number, weight in enumerate(weights)
        if weight
    ]
    total: Array = reduce(operator.add, terms)
    return total


Step = Callable[[], None]
"""Runs a statement."""

Value = Callable[[], Any]
"""Computes a term: a numpy scalar of its computed type."""

Place = Callable[[], int]
"""Computes an index or a condition in Python's integers."""

_SCALAR: dict[Any, Callable[[Any, Any], Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
}
"""The same on two numpy scalars of one type, sooner."""

_PLACES: dict[str, Callable[..., Any]] = {
    "neg": operator.neg,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.not_,
}
"""Operators on Python's integers. Those never wrap: an index that would lies outside its buffer."""


def run_kernel(kernel: LoopKernel, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The kernel's results, flat, on flat or shaped inputs of the right types."""
    machine = _Machine()
    for buffer, array in zip(kernel.inputs, inputs, strict=True):
        flat = np.ascontiguousarray(array).reshape(-1)
        assert flat.size == buffer.size, f"{buffer.name}: {flat.size} elements for {buffer.size}"
        machine.memory[buffer.number] = _Memory(buffer, flat, bytearray(b"\1") * flat.size)
    for buffer in (*kernel.outputs, *kernel.scratch):
        machine.allocated(buffer)
    run = machine.block(kernel.body)
    with np.errstate(all="ignore"):
        run()
    results = [machine.memory[buffer.number] for buffer in kernel.outputs]
    for memory in results:
        if 0 in memory.written:
            raise LoopError(f"{memory.buffer.name}: some elements of the result are never written")
    return tuple(memory.data for memory in results)


@dataclass(slots=True)
class _Machine:
    """What statements work on, and the functions made of them.

    Loop variables are known by their positions, registers by numbers of their own.
    """

    memory: dict[int, _Memory] = field(default_factory=dict)
    axes: dict[int, int] = field(default_factory=dict)
    registers: list[Any] = field(default_factory=list)
    numbers: dict[Register, int] = field(default_factory=dict)
    values: dict[bytes, Value] = field(default_factory=dict)
    places: dict[bytes, Place | None] = field(default_factory=dict)

    def allocated(self, buffer: Buffer) -> _Memory:
        """A buffer's memory, empty. Several statements may allocate one buffer in turn."""
        if buffer.number not in self.memory:
            self.memory[buffer.number] = _Memory(buffer, np.empty(0), bytearray())
        memory = self.memory[buffer.number]
        memory.clear()
        return memory

    def number(self, register: Register) -> int:
        """A register's number."""
        if register not in self.numbers:
            self.numbers[register] = len(self.registers)
            self.registers.append(None)
        return self.numbers[register]

    def block(self, body: Sequence[Stmt]) -> Step:
        steps = [self.step(statement) for statement in body]
        if len(steps) == 1:
            return steps[0]

        def run() -> None:
            for step in steps:
                step()

        return run

    def step(self, statement: Stmt) -> Step:
        match statement:
            case For():
                return self._loop(statement)
            case Store():
                return self._store(statement)
            case Allocate():
                return self._allocate(statement)
            case If():
                return self._choice(statement)
            case (
                FoldLanes()
                | TransposeBlock()
                | TransposeSums()
                | SoftmaxRows()
                | Call()
                | Declare()
            ):
                return self.block(statement.body)
            case FilterTile():
                return self._filter(statement)
            case Prefetch():
                return lambda: None
            case Fill():
                return self._fill(statement)
            case VectorLoad():
                return self._vector_load(statement)
            case VectorStore():
                return self._vector_store(statement)
            case MultiplyAdd():
                return self._multiply_add(statement)
            case VectorApply():
                return self._vector_apply(statement)
            case Alternate():
                return self._alternate(statement)
            case _:
                assert_never(statement)

    def _loop(self, loop: For) -> Step:
        axes, position, count = self.axes, loop.axis.position, loop.axis.extent
        body = self.block(loop.body)

        def run() -> None:
            for value in range(count):
                axes[position] = value
                body()

        return run

    def _store(self, store: Store) -> Step:
        memory = self.memory[store.buffer.number]
        place, value = self.place(store.index), self.value(store.value)

        def run() -> None:
            position = place()
            memory.check(position, reading=False)
            memory.data[position] = value()
            memory.written[position] = 1

        return run

    def _allocate(self, statement: Allocate) -> Step:
        memory = self.allocated(statement.buffer)
        body = self.block(statement.body)

        def run() -> None:
            memory.clear()
            body()

        return run

    def _choice(self, statement: If) -> Step:
        condition = self.place(statement.condition)
        body, otherwise = self.block(statement.body), self.block(statement.otherwise)
        return lambda: body() if condition() else otherwise()

    def _filter(self, tile: FilterTile) -> Step:
        source, target = self.memory[tile.source.number], self.memory[tile.target.number]
        place, target_place = self.place(tile.index), self.place(tile.target_index)
        lanes, ones = tile.lanes, b"\1" * tile.lanes
        needed = [k for k in range(len(tile.down[0])) if any(row[k] for row in tile.down)]

        def run() -> None:
            start, first = place(), target_place()
            columns = []
            for m in range(len(tile.across[0])):
                elements: dict[int, Array] = {}
                for k in needed:
                    index = start + k * tile.line + m * tile.column
                    source.check_all(index, index + lanes, reading=True)
                    elements[k] = source.data[index : index + lanes]
                columns.append([_combination(row, elements) for row in tile.down])
            for i in range(len(tile.down)):
                line = dict(enumerate(column[i] for column in columns))
                for j, row in enumerate(tile.across):
                    index = first + i * tile.target_line + j * tile.target_column
                    target.check_all(index, index + lanes, reading=False)
                    target.data[index : index + lanes] = _combination(row, line)
                    target.written[index : index + lanes] = ones

        return run

    def _fill(self, fill: Fill) -> Step:
        registers, target = self.registers, self.number(fill.register)
        lanes, dtype = fill.register.lanes, fill.register.dtype.numpy
        value = self.value(fill.value)

        def run() -> None:
            registers[target] = np.full(lanes, value(), dtype)

        return run

    def _vector_load(self, load: VectorLoad) -> Step:
        registers, target = self.registers, self.number(load.register)
        memory, place = self.memory[load.buffer.number], self.place(load.index)
        first, last = load.first, load.first + load.count
        outside = np.full(load.register.lanes, load.outside, load.register.dtype.numpy)

        def run() -> None:
            start = place()
            memory.check_all(start + first, start + last, reading=True)
            lanes = outside.copy()
            lanes[first:last] = memory.data[start + first : start + last]
            registers[target] = lanes

        return run

    def _vector_store(self, store: VectorStore) -> Step:
        registers, source = self.registers, self.number(store.register)
        memory, place = self.memory[store.buffer.number], self.place(store.index)
        count, ones = store.count, b"\1" * store.count

        def run() -> None:
            start = place()
            memory.check_all(start, start + count, reading=False)
            memory.data[start : start + count] = registers[source][:count]
            memory.written[start : start + count] = ones

        return run

    def _multiply_add(self, statement: MultiplyAdd) -> Step:
        registers, target = self.registers, self.number(statement.target)
        left, right = self.number(statement.left), self.number(statement.right)

        def run() -> None:
            registers[target] = registers[target] + registers[left] * registers[right]

        return run

    def _vector_apply(self, statement: VectorApply) -> Step:
        registers, target = self.registers, self.number(statement.target)
        left, right = self.number(statement.left), self.number(statement.right)
        operation = SCALAR_OP[statement.operation.removesuffix("_number")].numpy

        def run() -> None:
            registers[target] = np.asarray(operation(registers[left], registers[right]))

        return run

    def _alternate(self, statement: Alternate) -> Step:
        registers, target = self.registers, self.number(statement.target)
        low, high, odd = self.number(statement.low), self.number(statement.high), int(statement.odd)

        def run() -> None:
            registers[target] = np.concatenate([registers[low], registers[high]])[odd::2]

        return run

    def place(self, term: Expr) -> Place:
        """An index or a condition."""
        if (found := self._place(term)) is not None:
            return found
        value = self.value(term)
        return lambda: int(value())

    def _place(self, term: Expr) -> Place | None:
        """A term of loop variables and constants alone in Python's integers; None for others."""
        if term.digest not in self.places:
            self.places[term.digest] = self._new_place(term)
        return self.places[term.digest]

    def _new_place(self, term: Expr) -> Place | None:
        match term:
            case Const(value=constant, dtype=dtype) if dtype in (int64, boolean):
                whole = int(constant)
                return lambda: whole
            case Axis(position=position):
                return partial(self.axes.__getitem__, position)
            case Apply(op=op, args=(arg,)) if op.name in _PLACES:
                only, function = self._place(arg), _PLACES[op.name]
                return None if only is None else lambda: function(only())
            case Apply(op=op, args=(arg, Const(value=constant))) if op.name in _PLACES:
                left, right, function = self._place(arg), int(constant), _PLACES[op.name]
                return None if left is None else lambda: function(left(), right)
            case Apply(op=op, args=(arg, other)) if op.name in _PLACES:
                return _pair(_PLACES[op.name], self._place(arg), self._place(other))
            case _:
                return None

    def value(self, term: Expr) -> Value:
        """A term in the arithmetic of its type."""
        if term.digest not in self.values:
            self.values[term.digest] = self._new_value(term)
        return self.values[term.digest]

    def _new_value(self, term: Expr) -> Value:
        match term:
            case Const(value=constant, dtype=dtype):
                scalar = dtype.computed.numpy.type(constant)
                return lambda: scalar
            case Axis(position=position):
                axes = self.axes
                return lambda: np.int64(axes[position])
            case Load(operand=operand, indices=(index,)):
                return self._load(self.memory[operand], self.place(index), term.dtype)
            case Apply(op=op, args=args):
                return _applied(op.numpy, [self.value(arg) for arg in args])
            case Cast(arg=arg, dtype=dtype, bits=bits):
                value, source = self.value(arg), arg.dtype
                return lambda: _converted(value(), source, dtype, bits)
            case Select(condition=condition):
                chosen = self.place(condition)
                then, otherwise = self.value(term.then), self.value(term.otherwise)
                return lambda: then() if chosen() else otherwise()
            case Load() | Reduce():
                raise AssertionError("loops hold flat loads and no reductions")
            case _:
                assert_never(term)

    @staticmethod
    def _load(memory: _Memory, place: Place, dtype: DType) -> Value:
        def load() -> Any:
            position = place()
            memory.check(position, reading=True)
            return memory.data[position]

        if dtype.computed == dtype:
            return load
        computed = dtype.computed.numpy.type
        return lambda: computed(load())


def _pair(
    function: Callable[[int, int], int], left: Place | None, right: Place | None
) -> Place | None:
    if left is None or right is None:
        return None
    return lambda: function(left(), right())


def _applied(meaning: Callable[..., Any], args: Sequence[Value]) -> Value:
    """An operator's numpy meaning on scalars."""
    if meaning in _SCALAR:
        function, (left, right) = _SCALAR[meaning], args
        return lambda: function(left(), right())
    if isinstance(meaning, np.ufunc):
        return lambda: meaning(*[arg() for arg in args])
    return lambda: np.asarray(meaning(*[arg() for arg in args]))[()]


def _converted(value: Any, source: DType, target: DType, bits: bool) -> Any:
    if bits:
        return np.asarray(value).astype(source.numpy).view(target.numpy)[()]
    if target.is_integer and source.is_float:
        limits = np.iinfo(target.name)
        if np.isnan(value):
            return target.numpy.type(0)
        clipped = min(max(float(np.trunc(value)), float(limits.min)), float(limits.max))
        return target.numpy.type(min(max(int(clipped), int(limits.min)), int(limits.max)))
    rounded = np.asarray(value).astype(target.numpy)
    return rounded.astype(target.computed.numpy)[()]

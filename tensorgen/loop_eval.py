"""Interpreter of Loop IR: runs a kernel one statement at a time on numpy arrays.

Slow and literal: the oracle that tells a wrong lowering from a wrong printer. Every access is
checked against the buffer's bounds, and reads of what was never written are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np

from tensorgen.expr import Apply, Axis, Cast, Const, Expr, Load, Reduce, Select
from tensorgen.loop import (
    Allocate,
    Alternate,
    Buffer,
    Declare,
    Fill,
    FoldLanes,
    For,
    If,
    LoopKernel,
    MultiplyAdd,
    Prefetch,
    Register,
    Stmt,
    Store,
    TransposeBlock,
    VectorApply,
    VectorLoad,
    VectorStore,
)
from tensorgen.scalar_ops import SCALAR_OP
from tensorgen.types import Array, DType


class LoopError(AssertionError):
    """A kernel does what no kernel may: reads outside a buffer, or what nobody wrote."""


@dataclass(slots=True)
class _Memory:
    """The contents of one buffer and which elements have been written."""

    buffer: Buffer
    data: Array
    written: Array

    def check(self, index: int, reading: bool) -> None:
        if not 0 <= index < self.buffer.size:
            raise LoopError(
                f"{self.buffer.name}: expected an index in 0..{self.buffer.size - 1}, got {index}"
            )
        if reading and not self.written[index]:
            raise LoopError(f"{self.buffer.name}: element {index} is read before it is written")


@dataclass(slots=True)
class _State:
    memory: dict[int, _Memory] = field(default_factory=dict)
    axes: dict[int, int] = field(default_factory=dict)
    registers: dict[Register, Any] = field(default_factory=dict)


def run_kernel(kernel: LoopKernel, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The kernel's results, flat, on flat or shaped inputs of the right types."""
    state = _State()
    for buffer, array in zip(kernel.inputs, inputs, strict=True):
        flat = np.ascontiguousarray(array).reshape(-1)
        assert flat.size == buffer.size, f"{buffer.name}: {flat.size} elements for {buffer.size}"
        state.memory[buffer.number] = _Memory(buffer, flat, np.ones(flat.size, bool))
    for buffer in (*kernel.outputs, *kernel.scratch):
        _allocate(state, buffer)
    with np.errstate(all="ignore"):
        _run_block(kernel.body, state)
    for buffer in kernel.outputs:
        if not state.memory[buffer.number].written.all():
            raise LoopError(f"{buffer.name}: some elements of the result are never written")
    return tuple(state.memory[buffer.number].data for buffer in kernel.outputs)


def _allocate(state: _State, buffer: Buffer) -> None:
    data = np.zeros(buffer.size, buffer.dtype.numpy)
    state.memory[buffer.number] = _Memory(buffer, data, np.zeros(buffer.size, bool))


def _run_block(body: Sequence[Stmt], state: _State) -> None:
    for statement in body:
        _run(statement, state)


def _run(statement: Stmt, state: _State) -> None:
    match statement:
        case For(axis=axis):
            for value in range(axis.extent):
                state.axes[axis.position] = value
                _run_block(statement.body, state)
        case Store(buffer=buffer, index=index, value=value):
            memory = state.memory[buffer.number]
            position = int(_value(index, state))
            memory.check(position, reading=False)
            memory.data[position] = _value(value, state)
            memory.written[position] = True
        case Allocate(buffer=buffer):
            _allocate(state, buffer)
            _run_block(statement.body, state)
        case If(condition=condition):
            chosen = statement.body if bool(_value(condition, state)) else statement.otherwise
            _run_block(chosen, state)
        case FoldLanes() | TransposeBlock() | Declare():
            _run_block(statement.body, state)
        case Fill(register=register, value=value):
            state.registers[register] = np.full(
                register.lanes, _value(value, state), register.dtype.numpy
            )
        case VectorLoad():
            _vector_load(statement, state)
        case Prefetch():
            pass
        case VectorStore(buffer=buffer, index=index, register=register, count=count):
            memory, start = state.memory[buffer.number], int(_value(index, state))
            for lane in range(count):
                memory.check(start + lane, reading=False)
            memory.data[start : start + count] = state.registers[register][:count]
            memory.written[start : start + count] = True
        case MultiplyAdd(target=target, left=left, right=right):
            product = np.multiply(state.registers[left], state.registers[right])
            state.registers[target] = np.add(state.registers[target], product)
        case VectorApply(operation=operation, target=target, left=left, right=right):
            operands = state.registers[left], state.registers[right]
            operator = SCALAR_OP[operation.removesuffix("_number")]
            state.registers[target] = np.asarray(operator.numpy(*operands))
        case Alternate(target=target, low=low, high=high, odd=odd):
            both = np.concatenate([state.registers[low], state.registers[high]])
            state.registers[target] = both[int(odd) :: 2]
        case _:
            assert_never(statement)


def _vector_load(load: VectorLoad, state: _State) -> None:
    memory, start = state.memory[load.buffer.number], int(_value(load.index, state))
    lanes = np.full(load.register.lanes, load.outside, load.register.dtype.numpy)
    for lane in range(load.first, load.first + load.count):
        position = start + lane
        memory.check(position, reading=True)
        lanes[lane] = memory.data[position]
    state.registers[load.register] = lanes


def _computed(dtype: DType) -> Any:
    return dtype.computed.numpy.type


def _value(term: Expr, state: _State) -> Any:
    match term:
        case Const(value=value, dtype=dtype):
            return _computed(dtype)(value)
        case Axis(position=position):
            return np.int64(state.axes[position])
        case Load(operand=operand, indices=(index,)):
            memory, position = state.memory[operand], int(_value(index, state))
            memory.check(position, reading=True)
            return _computed(term.dtype)(memory.data[position])
        case Apply(op=op, args=args):
            return np.asarray(op.numpy(*(_value(arg, state) for arg in args)))[()]
        case Cast(arg=arg, dtype=dtype, bits=bits):
            return _converted(_value(arg, state), arg.dtype, dtype, bits)
        case Select(condition=condition):
            chosen = term.then if bool(_value(condition, state)) else term.otherwise
            return _value(chosen, state)
        case Load() | Reduce():
            raise AssertionError("loops hold flat loads and no reductions")
        case _:
            assert_never(term)


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

"""Importers of RNN, GRU and LSTM: recurrences unrolled over their static sequence length.

The input projections are matrix products over many steps, outside of the recurrence; a step is then
one product with the previous state and a few elementwise operators. Sequences of unequal
length freeze their state, and give zeros, at the steps that they do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphopt.graph import Constant, Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import Importer, OnnxNode, same_type
from graphopt.onnx_import.recurrent_activations import Activation, activations
from graphopt.ops import OP
from graphopt.terms import (
    apply,
    cast,
    concat,
    reshape,
    scalar,
    slice_axis,
    transpose,
)
from tensorgen.types import Shape, int64

MAX_STEPS = 4096
"""Longer sequences are refused: the graph grows with the number of steps."""


PROJECTED_ROWS = 128
"""Rows (steps times batch) of one product with the input weights: enough to use them well, few
enough that the steps find the result in the second cache, not behind the whole sequence's."""


@dataclass(frozen=True, slots=True)
class _Direction:
    """One direction of a recurrence.

    `inputs` holds what does not depend on the state, with biases: for each step the parts of the
    cell's `groups`, (batch, gates of the group * hidden).
    `recurrent` is (hidden, gates * hidden), `late_bias` the recurrence bias kept apart (GRU), or
    None, `peepholes` (3 * hidden) or None. `h` and `c` are the state, (batch, hidden).
    """

    inputs: tuple[tuple[Value, ...], ...]
    recurrent: Value
    late_bias: Value | None
    peepholes: Value | None
    h: Value
    c: Value
    activations: tuple[Activation, ...]
    hidden: int

    def projected(self, h: Value, first: int = 0, last: int | None = None) -> Value:
        """The state times the recurrence weights of gates first … last-1."""
        gates = self.recurrent.type.shape[1] // self.hidden
        end = gates if last is None else last
        weights = slice_axis(self.recurrent, 1, first * self.hidden, (end - first) * self.hidden)
        return OP["matmul"](h, weights)

    def gate(self, x: Value, position: int, count: int = 1) -> Value:
        """The columns of a gate, or of `count` neighbouring ones."""
        return slice_axis(x, x.type.rank - 1, position * self.hidden, count * self.hidden)


Step = Callable[[OnnxNode, _Direction, tuple[Value, ...]], tuple[Value, Value]]
"""(node, direction with its current state, input projections of the step) -> new h and c."""


def _rnn_step(
    node: OnnxNode, direction: _Direction, inputs: tuple[Value, ...]
) -> tuple[Value, Value]:
    (x,) = inputs
    h = direction.activations[0](apply("add", x, direction.projected(direction.h)))
    return h, h


def _gru_step(
    node: OnnxNode, direction: _Direction, inputs: tuple[Value, ...]
) -> tuple[Value, Value]:
    """Gates z (update), r (reset) and the candidate, in this order."""
    of_gates, of_candidate = inputs
    f, g = direction.activations
    h = direction.h
    recurrence = direction.projected(h, 0, 2)
    gates = f(apply("add", of_gates, recurrence))
    z, r = direction.gate(gates, 0), direction.gate(gates, 1)
    if direction.late_bias is not None:
        inner = apply("add", direction.projected(h, 2, 3), direction.late_bias)
        reset = apply("mul", r, inner)
    else:
        reset = direction.projected(apply("mul", r, h), 2, 3)
    candidate = g(apply("add", of_candidate, reset))
    kept = apply("mul", z, h)
    fresh = apply("mul", apply("sub", scalar(1, z.type.dtype), z), candidate)
    new = apply("add", fresh, kept)
    return new, new


def _lstm_step(
    node: OnnxNode, direction: _Direction, inputs: tuple[Value, ...]
) -> tuple[Value, Value]:
    """Gates i (input), o (output), f (forget) and the cell candidate, in this order."""
    (x,) = inputs
    f, g, h = direction.activations
    c = direction.c
    sums = apply("add", x, direction.projected(direction.h))

    def gate(position: int, cell: Value) -> Value:
        total = direction.gate(sums, position)
        if direction.peepholes is not None:
            weight = direction.gate(direction.peepholes, position)
            total = apply("add", total, apply("mul", weight, cell))
        return f(total)

    take = gate(0, c)
    if node.integer("input_forget", 0):
        forget = apply("sub", scalar(1, c.type.dtype), take)
    else:
        forget = gate(2, c)
    candidate = g(direction.gate(sums, 3))
    cell = apply("add", apply("mul", forget, c), apply("mul", take, candidate))
    return apply("mul", gate(1, cell), h(cell)), cell


@dataclass(frozen=True, slots=True)
class _Result:
    """What each step gives, in order of time, (batch, hidden), and the state after the last."""

    steps: tuple[Value, ...]
    h: Value
    c: Value


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Lengths of the sequences of a batch, (batch,); None if all have every step."""

    value: Value | None

    def has_step(self, step: int) -> Value | None:
        """Which sequences have the step, (batch, 1); None if all."""
        if self.value is None:
            return None
        reached = apply("lt", scalar(step, int64), self.value)
        return reshape(reached, (self.value.type.size, 1))


def _unrolled(
    node: OnnxNode, direction: _Direction, lengths: _Lengths, step: Step, backwards: bool
) -> _Result:
    """All steps of one direction."""
    steps = len(direction.inputs)
    results: list[Value] = []
    for time in reversed(range(steps)) if backwards else range(steps):
        h, c = step(node, direction, direction.inputs[time])
        result = h
        alive = lengths.has_step(time)
        if alive is not None:
            result = OP["where"](alive, h, scalar(0, h.type.dtype))
            h = OP["where"](alive, h, direction.h)
            c = OP["where"](alive, c, direction.c)
        direction = replace(direction, h=h, c=c)
        results.append(result)
    if backwards:
        results.reverse()
    return _Result(tuple(results), direction.h, direction.c)


@dataclass(frozen=True, slots=True)
class _Cell:
    """What tells RNN, GRU and LSTM apart.

    `groups` gives the gates, in their order, whose sums are made together. Each group has its own
    input projection: a step then takes whole rows of it, whatever the batch.
    """

    groups: tuple[int, ...]
    activations: tuple[str, ...]
    step: Step
    has_cell_state: bool = False

    @property
    def gates(self) -> int:
        return sum(self.groups)


def _recurrent(cell: _Cell) -> Importer:
    def importer(node: OnnxNode) -> tuple[Value, ...]:
        return _import(node, cell)

    return importer


def _import(node: OnnxNode, cell: _Cell) -> tuple[Value, ...]:
    batch_first = node.integer("layout", 0) == 1
    x, w, r = node.input(0), node.input(1), node.input(2)
    if x.type.rank != 3 or w.type.rank != 3 or r.type.rank != 3:
        raise node.error("x, w and r of rank 3", f"{x.type}, {w.type} and {r.type}")
    same_type(node, x, w, r)
    x = transpose(x, (1, 0, 2)) if batch_first else x
    steps, batch, features = x.type.shape
    directions, hidden = r.type.shape[0], r.type.shape[2]
    ways = _ways(node, directions)
    if steps > MAX_STEPS:
        raise node.unsupported(f"sequences of at most {MAX_STEPS} steps", steps)
    if w.type.shape != (directions, cell.gates * hidden, features) or r.type.shape != (
        directions, cell.gates * hidden, hidden,
    ):  # fmt: skip
        raise node.error(
            f"w of shape {[directions, cell.gates * hidden, features]} and r of shape "
            f"{[directions, cell.gates * hidden, hidden]}",
            f"{w.type} and {r.type}",
        )
    if node.has("hidden_size") and node.integer("hidden_size") != hidden:
        raise node.error(f"hidden_size {hidden}", node.integer("hidden_size"))
    lengths = _lengths(node, steps, batch)
    states = (
        _initial_state(node, 5, (directions, batch, hidden), batch_first),
        _initial_state(node, 6, (directions, batch, hidden), batch_first)
        if cell.has_cell_state
        else None,
    )
    functions = activations(node, cell.activations, directions)
    results = []
    for number, backwards in enumerate(ways):
        count = len(cell.activations)
        own = tuple(functions[number * count : (number + 1) * count])
        direction = _direction(node, cell, x, number, states, own)
        results.append(_unrolled(node, direction, lengths, cell.step, backwards))
    return _outputs(results, (steps, batch, hidden), cell, batch_first, x)


def _ways(node: OnnxNode, directions: int) -> tuple[bool, ...]:
    """For each direction whether it runs backwards in time."""
    known = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    name = node.text("direction", "forward")
    if name not in known:
        raise node.error("direction forward, reverse or bidirectional", quoted(name))
    if len(known[name]) != directions:
        raise node.error(f"weights of {len(known[name])} directions", directions)
    return known[name]


def _lengths(node: OnnxNode, steps: int, batch: int) -> _Lengths:
    value = node.optional(4)
    if value is None:
        return _Lengths(None)
    if value.type.shape != (batch,) or not value.type.dtype.is_integer:
        raise node.error(f"sequence lengths as {batch} integers", value.type)
    if isinstance(value, Constant) and bool(np.all(value.array == steps)):
        return _Lengths(None)
    return _Lengths(cast(value, int64))


def _initial_state(node: OnnxNode, position: int, shape: Shape, batch_first: bool) -> Value:
    """The state before the first step, (directions, batch, hidden)."""
    value = node.optional(position)
    if value is None:
        return Constant(np.zeros(shape, node.input(0).type.dtype.numpy))
    if batch_first and value.type.rank == 3:
        value = transpose(value, (1, 0, 2))
    if value.type.shape != shape:
        raise node.error(f"an initial state of {list(shape)}", value.type)
    same_type(node, node.input(0), value)
    return value


def _direction(
    node: OnnxNode,
    cell: _Cell,
    x: Value,
    number: int,
    states: tuple[Value, Value | None],
    functions: tuple[Activation, ...],
) -> _Direction:
    hidden = node.input(2).type.shape[2]
    width = cell.gates * hidden

    def part(value: Value) -> Value:
        """The part of a per-direction operand that belongs to this direction."""
        return reshape(slice_axis(value, 0, number, 1), value.type.shape[1:])

    steps, batch = x.type.shape[:2]
    # Weights that are not known yet would be relaid for each product: then one does them all.
    known = isinstance(node.input(1), Constant)
    length = max(1, PROJECTED_ROWS // max(1, batch)) if known else max(1, steps)
    input_bias: Value | None = None
    late_bias = None
    late = cell.gates == 3 and node.integer("linear_before_reset", 0) != 0
    bias = node.optional(3)
    if bias is not None:
        if bias.type.shape != (node.input(2).type.shape[0], 2 * width):
            raise node.error(f"biases of {2 * width} numbers per direction", bias.type)
        of_input = slice_axis(part(bias), 0, 0, width)
        of_state = slice_axis(part(bias), 0, width, width)
        if late:
            late_bias = slice_axis(of_state, 0, 2 * hidden, hidden)
            zeros = Constant(np.zeros((hidden,), x.type.dtype.numpy))
            of_state = concat([slice_axis(of_state, 0, 0, 2 * hidden), zeros], 0)
        input_bias = apply("add", of_input, of_state)
    elif late:
        late_bias = scalar(0, x.type.dtype)
    projections: list[tuple[Value, ...]] = []
    done = 0
    for count in cell.groups:
        weights = slice_axis(part(node.input(1)), 0, done, count * hidden)
        bias_part = None if input_bias is None else slice_axis(input_bias, 0, done, count * hidden)
        projections.append(_projected(x, weights, bias_part, length))
        done += count * hidden
    peepholes = node.optional(7) if cell.has_cell_state else None
    if peepholes is not None and peepholes.type.shape[1:] != (3 * hidden,):
        raise node.error(f"peephole weights of {3 * hidden} numbers per direction", peepholes.type)
    h = part(states[0])
    return _Direction(
        inputs=tuple(zip(*projections, strict=True)),
        recurrent=transpose(part(node.input(2)), (1, 0)),
        late_bias=late_bias,
        peepholes=None if peepholes is None else part(peepholes),
        h=h,
        c=h if states[1] is None else part(states[1]),
        activations=functions,
        hidden=hidden,
    )


def _projected(x: Value, weights: Value, bias: Value | None, length: int) -> tuple[Value, ...]:
    """x, (steps, batch, features), times weights, (width, features), plus bias: a value for each
    step, `length` steps at once."""
    steps, batch, features = x.type.shape
    columns = transpose(weights, (1, 0))
    result: list[Value] = []
    for start in range(0, steps, length):
        count = min(length, steps - start)
        rows = reshape(slice_axis(x, 0, start, count), (count * batch, features))
        product: Value = OP["matmul"](rows, columns)
        product = product if bias is None else apply("add", product, bias)
        result += (slice_axis(product, 0, number * batch, batch) for number in range(count))
    return tuple(result)


def _outputs(
    results: Sequence[_Result],
    extents: tuple[int, int, int],
    cell: _Cell,
    batch_first: bool,
    x: Value,
) -> tuple[Value, ...]:
    """All steps, (steps, directions, batch, hidden), and the last states."""
    steps, batch, hidden = extents
    directions = len(results)
    if steps == 0:
        every: Value = Constant(np.zeros((0, directions, batch, hidden), x.type.dtype.numpy))
    else:
        shape = (steps, 1, batch, hidden)
        every = concat([reshape(concat(result.steps, 0), shape) for result in results], 1)
    states = [concat([reshape(result.h, (1, batch, hidden)) for result in results], 0)]
    if cell.has_cell_state:
        states.append(concat([reshape(result.c, (1, batch, hidden)) for result in results], 0))
    if batch_first:
        every = transpose(every, (2, 0, 1, 3))
        states = [transpose(state, (1, 0, 2)) for state in states]
    return (every, *states)


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "GRU"): _recurrent(_Cell((2, 1), ("Sigmoid", "Tanh"), _gru_step)),
    ("", "LSTM"): _recurrent(_Cell((4,), ("Sigmoid", "Tanh", "Tanh"), _lstm_step, True)),
    ("", "RNN"): _recurrent(_Cell((1,), ("Tanh",), _rnn_step)),
}

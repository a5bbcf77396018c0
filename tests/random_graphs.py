"""Small random graphs, seeded: operators of every kind, values used more than once, several
outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from graphopt.graph import Constant, Graph, Input, Value
from graphopt.ops import OP
from tensorgen.types import Array, Shape, TensorType, float32

Rng = np.random.Generator


def whole(rng: Rng, shape: Shape) -> Array:
    """Small whole numbers: sums and products of a few are exact in float32."""
    return rng.integers(-2, 3, shape).astype(np.float32)


def random_graph(seed: int, size: int = 8) -> Graph:
    """A graph of about `size` operators over two inputs, with one to three outputs."""
    rng = np.random.default_rng(seed)
    shapes: list[Shape] = [(1, 4, 6), (2, 3, 4), (6, 4), (1, 2, 5, 5), (12,)]
    chosen = shapes[int(rng.integers(len(shapes)))]
    inputs = (Input(0, TensorType(float32, chosen)), Input(1, TensorType(float32, chosen)))
    values: list[Value] = list(inputs)
    while len(values) < size + 2:
        # Recent values more often, so that chains grow.
        position = len(values) - 1 - int(rng.integers(min(len(values), 4)))
        made = _apply(rng, values[position], values)
        if made is not None and made.type.size <= 400:
            values.append(made)
    count = int(rng.integers(1, 4))
    nodes = values[2:]
    outputs = [nodes[-1], *(nodes[int(rng.integers(len(nodes)))] for _ in range(count - 1))]
    if rng.random() < 0.15:
        outputs.append(inputs[0])
    if rng.random() < 0.15:
        outputs.append(Constant(whole(rng, (3,))))
    names = tuple(f"out{n}" for n in range(len(outputs)))
    return Graph(inputs, tuple(outputs), ("a", "b"), names)


def inputs_for(graph: Graph, seed: int) -> dict[str, Array]:
    """Arrays for the inputs of a random graph."""
    rng = np.random.default_rng(seed)
    return {
        name: whole(rng, value.type.shape)
        for name, value in zip(graph.input_names, graph.inputs, strict=True)
    }


def _apply(rng: Rng, x: Value, values: Sequence[Value]) -> Value | None:
    choices: list[Callable[[Rng, Value, Sequence[Value]], Value | None]] = [
        _unary, _binary, _binary, _with_constant, _layout, _layout, _slice, _concat, _reduce,
        _normalise, _matmul, _conv, _clip, _pad, _pool, _gather,
    ]  # fmt: skip
    return choices[int(rng.integers(len(choices)))](rng, x, values)


def _unary(rng: Rng, x: Value, values: Sequence[Value]) -> Value:
    return OP[str(rng.choice(["neg", "abs", "floor", "sign"]))](x)


def _binary(rng: Rng, x: Value, values: Sequence[Value]) -> Value | None:
    fitting = [v for v in values if v.type == x.type]
    other = fitting[int(rng.integers(len(fitting)))]
    return OP[str(rng.choice(["add", "sub", "max", "min"]))](x, other)


def _with_constant(rng: Rng, x: Value, values: Sequence[Value]) -> Value:
    shape = tuple(int(s) if rng.random() < 0.6 else 1 for s in x.type.shape)
    drop = int(rng.integers(len(shape) + 1))
    name = str(rng.choice(["add", "mul", "max"]))
    return OP[name](x, Constant(whole(rng, shape[drop:])))


def _clip(rng: Rng, x: Value, values: Sequence[Value]) -> Value:
    low, high = Constant(np.asarray(-3, np.float32)), Constant(np.asarray(3, np.float32))
    return OP["min"](OP["max"](x, low), high)


def _layout(rng: Rng, x: Value, values: Sequence[Value]) -> Value:
    shape = x.type.shape
    if rng.random() < 0.5 and len(shape) > 1:
        order = tuple(int(n) for n in rng.permutation(len(shape)))
        return OP["transpose"](x, perm=order)
    size = prod(shape)
    targets = [(size,), (1, size), (size, 1)]
    targets += [(d, size // d) for d in (2, 3, 4) if size % d == 0]
    targets += [(1, d, size // d) for d in (2, 3) if size % d == 0]
    return OP["reshape"](x, shape=targets[int(rng.integers(len(targets)))])


def _slice(rng: Rng, x: Value, values: Sequence[Value]) -> Value:
    starts, steps, sizes = [], [], []
    for extent in x.type.shape:
        step = int(rng.choice([1, 1, 1, 2, -1]))
        start = int(rng.integers(extent)) if rng.random() < 0.5 else (0 if step > 0 else extent - 1)
        room = (extent - 1 - start if step > 0 else start) // abs(step) + 1
        starts.append(start)
        steps.append(step)
        sizes.append(max(1, room - int(rng.integers(2))))
    return OP["slice"](x, starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes))


def _concat(rng: Rng, x: Value, values: Sequence[Value]) -> Value | None:
    if x.type.rank == 0:
        return None
    axis = int(rng.integers(x.type.rank))
    fitting = [
        v
        for v in values
        if v.type.rank == x.type.rank
        and all(a == b for n, (a, b) in enumerate(zip(v.type.shape, x.type.shape, strict=True))
                if n != axis)
    ]  # fmt: skip
    others = [fitting[int(rng.integers(len(fitting)))] for _ in range(int(rng.integers(1, 3)))]
    if rng.random() < 0.2:
        others.append(Constant(whole(rng, x.type.shape)))
    return OP["concat"](x, *others, axis=axis)


def _reduce(rng: Rng, x: Value, values: Sequence[Value]) -> Value | None:
    if x.type.rank == 0:
        return None
    axis = int(rng.integers(x.type.rank))
    name = str(rng.choice(["reduce_sum", "reduce_max", "reduce_min"]))
    return OP[name](x, axes=(axis,), keepdims=bool(rng.integers(2)))


def _normalise(rng: Rng, x: Value, values: Sequence[Value]) -> Value | None:
    """What softmax and normalisations do to a row, in exact arithmetic."""
    if x.type.rank == 0:
        return None
    axes = (x.type.rank - 1,) if rng.random() < 0.7 else (0,)
    top = OP["reduce_max"](x, axes=axes, keepdims=True)
    shifted = OP["sub"](x, top)
    total = OP["reduce_sum"](shifted, axes=axes, keepdims=True)
    return OP["add"](shifted, total)


def _matmul(rng: Rng, x: Value, values: Sequence[Value]) -> Value | None:
    if x.type.rank < 2:
        return None
    columns = int(rng.integers(1, 6))
    return _small(OP["matmul"](x, Constant(whole(rng, (x.type.shape[-1], columns)))))


def _conv(rng: Rng, x: Value, values: Sequence[Value]) -> Value | None:
    rank = x.type.rank - 2
    if rank < 1:
        return None
    kernel = tuple(int(rng.integers(1, min(3, s) + 1)) for s in x.type.shape[2:])
    weight = Constant(whole(rng, (int(rng.integers(1, 5)), x.type.shape[1], *kernel)))
    pads = tuple(int(rng.integers(2)) if k > 1 else 0 for k in (*kernel, *kernel))
    return _small(
        OP["conv"](
            x, weight, strides=tuple(int(rng.integers(1, 3)) for _ in kernel), pads=pads,
            dilations=(1,) * rank, groups=1,
        )
    )  # fmt: skip


def _pad(rng: Rng, x: Value, values: Sequence[Value]) -> Value:
    before, after = (tuple(int(n) for n in rng.integers(0, 2, x.type.rank)) for _ in "ab")
    fill = Constant(np.asarray(rng.integers(-1, 2), np.float32))
    return OP["pad"](
        x, fill, before=before, after=after, mode=str(rng.choice(["constant", "edge"]))
    )


def _pool(rng: Rng, x: Value, values: Sequence[Value]) -> Value | None:
    rank = x.type.rank - 2
    if rank < 1:
        return None
    kernel = tuple(int(rng.integers(1, min(3, s) + 1)) for s in x.type.shape[2:])
    ones = (1,) * rank
    name = str(rng.choice(["max_pool", "sum_pool"]))
    return OP[name](x, kernel=kernel, strides=ones, pads=(0,) * 2 * rank, dilations=ones)


def _gather(rng: Rng, x: Value, values: Sequence[Value]) -> Value | None:
    if x.type.rank == 0:
        return None
    axis = int(rng.integers(x.type.rank))
    extent = x.type.shape[axis]
    indices = Constant(rng.integers(-extent, extent, (int(rng.integers(1, 4)),)))
    return OP["gather"](x, indices, axis=axis)


def _small(x: Value) -> Value:
    """Back to small whole numbers, so that chains of products stay exact."""
    limit = Constant(np.asarray(3, np.float32))
    return OP["fmod"](x, limit)

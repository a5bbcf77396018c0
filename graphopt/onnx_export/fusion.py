"""Groups of nodes that ONNX has one operator for, so that other tools read the model well.

Each group is the same function of the reals as its operator; floats may be rounded differently.
It is written as one node only if nobody else reads what lies inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Constant, Graph, Node, Value, consumers
from graphopt.matching import Bindings, match
from graphopt.onnx_export.contraction import (
    convolution,
    has_transposed_form,
    transposed_convolution,
)
from graphopt.onnx_export.parameters import integers
from graphopt.onnx_export.pooling import pooled_natively, pooling
from graphopt.onnx_export.term import Term, call, elementwise, reduced
from graphopt.onnx_export.windows import counts, windows_of
from graphopt.pattern import Pattern, applications
from graphopt.pattern_reader import read_pattern
from tensorgen.types import float16, float32, float64

_FLOATS = frozenset({float16, float32, float64})


@dataclass(frozen=True, slots=True)
class Fused:
    """One ONNX operator: its name in labels, its operands, and its term made from theirs."""

    name: str
    operands: tuple[Value, ...]
    build: Callable[..., Term]


@dataclass(frozen=True, slots=True)
class _Group:
    """A pattern, and the operator for what matches it; None if it does not stand for one."""

    pattern: Pattern
    fuse: Callable[[Node, Bindings], Fused | None]


def fusions(graph: Graph) -> tuple[Mapping[Node, Fused], frozenset[Node]]:
    """The operator for the last node of each group, and the nodes that groups make superfluous."""
    readers = consumers(graph.values)
    outputs = set(graph.outputs)
    found: dict[Node, Fused] = {}
    absorbed: set[Node] = set()
    for root in reversed(graph.nodes):
        if root in absorbed or root.type.dtype not in _FLOATS:
            continue
        for fused, inner in _candidates(root):
            group = inner | {root}
            if all(node not in outputs and group.issuperset(readers[node]) for node in inner):
                found[root] = fused
                absorbed |= inner
                break
    return found, frozenset(absorbed)


def _candidates(root: Node) -> Iterator[tuple[Fused, set[Node]]]:
    """The operators that the root could end, each with the other nodes of its group."""
    for group in _GROUPS.get(root.op.name, ()):
        for bindings in match(group.pattern, (root,)):
            fused = group.fuse(root, bindings)
            if fused is not None:
                yield fused, _between(root, group.pattern, bindings)


def _between(root: Node, pattern: Pattern, bindings: Bindings) -> set[Node]:
    """The nodes that a pattern matched, but for the root: those before its variables."""
    labels = {term.label for term in applications(pattern)}
    ends = {value for name, value in bindings.tensors.items() if name not in labels}
    inner: set[Node] = set()
    pending = list(root.inputs)
    while pending:
        value = pending.pop()
        if isinstance(value, Node) and value not in ends:
            inner.add(value)
            pending.extend(value.inputs)
    return inner


def _node(bindings: Bindings, name: str) -> Node:
    """A node that a pattern names."""
    value = bindings.tensors[name]
    assert isinstance(value, Node)
    return value


def _constant(bindings: Bindings, name: str) -> Constant | None:
    value = bindings.tensors[name]
    return value if isinstance(value, Constant) else None


def _scalar(bindings: Bindings, name: str) -> Constant | None:
    """A constant of one element, as one of rank 0; None if it is no such."""
    value = _constant(bindings, name)
    return Constant(value.array.reshape(())) if value is not None and value.type.size == 1 else None


# Activations


def _relu(root: Node, bindings: Bindings) -> Fused | None:
    x = bindings.tensors["x"]
    if x.type != root.type:
        return None
    return Fused("relu", (x,), lambda x: elementwise("Relu", x))


def _clip(root: Node, bindings: Bindings) -> Fused | None:
    """In which order the bounds are applied makes no difference if they are in order."""
    x = bindings.tensors["x"]
    low, high = _scalar(bindings, "low"), _scalar(bindings, "high")
    if low is None or high is None or x.type != root.type:
        return None
    if not low.array <= high.array:
        return None
    return Fused("clip", (x, low, high), lambda *operands: call("Clip", *operands, type=root.type))


def _softmax(op_type: str, name: str) -> Callable[[Node, Bindings], Fused | None]:
    def fuse(root: Node, bindings: Bindings) -> Fused | None:
        axes = bindings.params["a"]
        x = bindings.tensors["x"]
        if not (isinstance(axes, tuple) and len(axes) == 1 and isinstance(axes[0], int)):
            return None
        axis = axes[0]
        return Fused(name, (x,), lambda x: call(op_type, x, type=root.type, axis=axis))

    return fuse


# Contractions with a bias


def _biased_convolution(root: Node, bindings: Bindings) -> Fused | None:
    """The bias is one number per channel, or one for all."""
    conv, bias = _node(bindings, "y"), _constant(bindings, "b")
    if conv.op.name == "conv_transpose" and not has_transposed_form(conv):
        return None
    if bias is None or conv.type != root.type:
        return None
    channels = conv.type.shape[1]
    column = (channels, *(1,) * (conv.type.rank - 2))
    if bias.type.size != 1 and (
        bias.type.size != channels
        or np.broadcast_shapes(bias.type.shape, column)[-len(column) :] != column
    ):
        return None
    vector = Constant(np.broadcast_to(bias.array.reshape(-1), (channels,)))
    export = transposed_convolution if conv.op.name == "conv_transpose" else convolution
    return Fused(conv.op.name, (*conv.inputs, vector), lambda *terms: export(conv, *terms))


def _gemm(root: Node, bindings: Bindings) -> Fused | None:
    matmul, bias = _node(bindings, "y"), _constant(bindings, "b")
    matrices = all(value.type.rank == 2 and value.type.size for value in matmul.inputs)
    if bias is None or not matrices or matmul.type != root.type:
        return None
    operands = (*matmul.inputs, bias)
    return Fused("gemm", operands, lambda *terms: call("Gemm", *terms, type=root.type))


# Means


def _divides(root: Node, constant: Constant, count: NDArray[np.int64]) -> bool:
    """Whether the root divides by `count`: itself, or times a reciprocal that is not rounded.

    Both broadcast to the root's shape; `count` is nowhere zero.
    """
    factors = constant.array.astype(np.float64)
    whole = factors * count if root.op.name == "mul" else factors / count
    return bool(np.all(whole == 1))


def _average_pool(root: Node, bindings: Bindings) -> Fused | None:
    """Divided by the size of each window, with or without its padding."""
    pool, divisor = _node(bindings, "y"), _constant(bindings, "c")
    windows = windows_of(pool, integers(pool, "kernel"))
    if divisor is None or pool.type != root.type or root.type.dtype == float64:
        return None
    if set(windows.dilations) != {1} or not pooled_natively(windows):
        return None
    total = np.asarray(prod(windows.kernel))
    for with_padding, count in enumerate((counts(windows), total)):
        if _divides(root, divisor, count):
            return Fused(
                "average_pool",
                pool.inputs,
                lambda x, include=with_padding: pooling(
                    "AveragePool", x, windows, count_include_pad=include
                ),
            )
    return None


def _mean(root: Node, bindings: Bindings) -> Fused | None:
    total, divisor = _node(bindings, "y"), _scalar(bindings, "c")
    axes, keepdims = integers(total, "axes"), bool(total.param("keepdims"))
    (x,) = total.inputs
    count = prod(x.type.shape[axis] for axis in axes)
    if divisor is None or not axes or not count or total.type != root.type:
        return None
    if not _divides(root, divisor, np.asarray(count)):
        return None
    return Fused("mean", (x,), lambda x: reduced("ReduceMean", x, axes, keepdims))


_SHIFTED = "sub(x, reduce_max(x, axes=a, keepdims=True))"

_GROUPS: Mapping[str, tuple[_Group, ...]] = {
    "max": (
        _Group(read_pattern("max(min(x, high), low)"), _clip),
        _Group(read_pattern("max(x, 0)"), _relu),
    ),
    "min": (_Group(read_pattern("min(max(x, low), high)"), _clip),),
    "add": (
        _Group(read_pattern("add(y := conv(x, w, **q), b)"), _biased_convolution),
        _Group(read_pattern("add(y := conv_transpose(x, w, **q), b)"), _biased_convolution),
        _Group(read_pattern("add(y := matmul(x, w), b)"), _gemm),
    ),
    "div": (
        _Group(read_pattern("div(y := sum_pool(x, **q), c)"), _average_pool),
        _Group(read_pattern("div(y := reduce_sum(x, **q), c)"), _mean),
        _Group(
            read_pattern(
                f"div(exp({_SHIFTED}), reduce_sum(exp({_SHIFTED}), axes=a, keepdims=True))"
            ),
            _softmax("Softmax", "softmax"),
        ),
    ),
    "mul": (
        _Group(read_pattern("mul(y := sum_pool(x, **q), c)"), _average_pool),
        _Group(read_pattern("mul(y := reduce_sum(x, **q), c)"), _mean),
    ),
    "sub": (
        _Group(
            read_pattern(
                f"sub({_SHIFTED}, log(reduce_sum(exp({_SHIFTED}), axes=a, keepdims=True)))"
            ),
            _softmax("LogSoftmax", "log_softmax"),
        ),
    ),
}
"""The groups by the operator of their last node."""

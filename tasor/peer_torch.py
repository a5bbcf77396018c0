"""An ONNX model as calls of PyTorch's functions: what the peer `torch` runs.

PyTorch reads no ONNX. What it does: translates a model node by node, weights included, into calls
of `torch` and `torch.nn.functional`, as one who writes it by hand would, and runs them eagerly; it
knows the operators of the suites, in float32. What it does not: fuse, fold or compile, or import
PyTorch: that is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import helper, numpy_helper

from tensorgen.types import Array

Torch = Any
"""The module, and what its functions take and give: it ships no types that are worth their load."""

Call = Callable[..., Torch]
"""Takes the operands of a node as tensors, gives its result."""


class UntranslatedError(ValueError):
    """A model does what this translation does not know. One line."""


@dataclass(frozen=True, slots=True)
class _Node:
    """An operator with its attributes; `constants` are those operands that are known now."""

    operator: str
    attributes: Mapping[str, Any]
    constants: tuple[Array | None, ...]

    def get(self, name: str, default: Any) -> Any:
        return self.attributes.get(name, default)

    def numbers(self, name: str, position: int) -> list[int] | None:
        """Whole numbers that are an attribute in old operator sets, an operand in new ones."""
        if name in self.attributes:
            return list(self.attributes[name])
        array = self.constants[position] if position < len(self.constants) else None
        return None if array is None else [int(value) for value in array.reshape(-1)]

    def refuse(self, what: str) -> UntranslatedError:
        return UntranslatedError(
            f"torch: expected {what}, got an operator {self.operator} that is other; leave torch "
            "out for this model"
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """A call: places of its operands, of its result, and of values that nobody reads after it."""

    call: Call
    operands: tuple[int, ...]
    result: int
    freed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A model to run. `values` holds constants at their places, and None where a run fills in."""

    values: tuple[Torch | None, ...]
    inputs: Mapping[str, int]
    outputs: tuple[int, ...]
    steps: tuple[_Step, ...]

    def run(self, inputs: Mapping[str, Torch]) -> tuple[Torch, ...]:
        """The outputs in the model's order."""
        values = list(self.values)
        for name, place in self.inputs.items():
            values[place] = inputs[name]
        for step in self.steps:
            values[step.result] = step.call(*[values[place] for place in step.operands])
            for place in step.freed:
                values[place] = None
        return tuple(values[place] for place in self.outputs)


def torch_program(model: onnx.ModelProto, torch: Torch, folder: Path) -> Program:
    """The model as calls; external weights lie in `folder`. UntranslatedError if it holds what is
    not known here."""
    graph = model.graph
    known = {item.name: numpy_helper.to_array(item, str(folder)) for item in graph.initializer}
    places: dict[str, int] = {}
    for name in (*known, *(value.name for value in graph.input)):
        places.setdefault(name, len(places))
    tensors: list[Torch | None] = [torch.from_numpy(array.copy()) for array in known.values()]
    last_read = {
        name: number for number, node in enumerate(graph.node) for name in node.input if name
    }
    kept = {*known, *(value.name for value in graph.output)}
    steps = []
    for number, node in enumerate(graph.node):
        if len(node.output) != 1 or node.domain not in ("", "ai.onnx"):
            raise UntranslatedError(
                f"torch: expected operators of ONNX with one result, got {node.op_type!r}; leave "
                "torch out for this model"
            )
        attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        constants = tuple(known.get(name) for name in node.input)
        call = _call(torch, _Node(node.op_type, attributes, constants))
        operands = tuple(places[name] for name in node.input if name)
        result = places.setdefault(node.output[0], len(places))
        ended = dict.fromkeys(name for name in node.input if last_read.get(name) == number)
        freed = tuple(places[name] for name in ended if name not in kept)
        steps.append(_Step(call, operands, result, freed))
    return Program(
        (*tensors, *[None] * (len(places) - len(tensors))),
        {value.name: places[value.name] for value in graph.input if value.name not in known},
        tuple(places[value.name] for value in graph.output),
        tuple(steps),
    )


def _call(torch: Torch, node: _Node) -> Call:
    if node.operator in _SAME:
        found: Call = getattr(torch, _SAME[node.operator])
        return found
    if node.operator not in _TRANSLATED:
        raise UntranslatedError(
            f"torch: expected an operator among {', '.join(sorted({*_SAME, *_TRANSLATED}))}, got "
            f"{node.operator!r}; leave torch out for this model"
        )
    return _TRANSLATED[node.operator](torch, node)


def _windows(node: _Node) -> tuple[list[int], list[int], list[int], list[int]]:
    """Strides, dilations, padding before and after, of each spatial axis."""
    if node.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise node.refuse("explicit padding")
    weights = node.constants[1] if len(node.constants) > 1 else None
    kernel = node.get("kernel_shape", None if weights is None else weights.shape[2:])
    if kernel is None:
        raise node.refuse("a kernel of known shape")
    rank = len(kernel)
    pads = list(node.get("pads", [0] * 2 * rank))
    ones = [1] * rank
    strides, dilations = list(node.get("strides", ones)), list(node.get("dilations", ones))
    return strides, dilations, pads[:rank], pads[rank:]


def _padded(torch: Torch, before: Sequence[int], after: Sequence[int], value: float) -> Call:
    """Padding of the innermost axes, which PyTorch names from the last to the first."""
    amounts = [n for pair in zip(reversed(before), reversed(after), strict=True) for n in pair]
    return lambda x: torch.nn.functional.pad(x, amounts, value=value)


def _conv(torch: Torch, node: _Node) -> Call:
    strides, dilations, before, after = _windows(node)
    convolve = getattr(torch.nn.functional, f"conv{len(strides)}d")
    options = {"stride": strides, "dilation": dilations, "groups": node.get("group", 1)}
    if before == after:
        return lambda x, *weights: convolve(x, *weights, padding=before, **options)
    pad = _padded(torch, before, after, 0.0)
    return lambda x, *weights: convolve(pad(x), *weights, **options)


def _conv_transpose(torch: Torch, node: _Node) -> Call:
    strides, dilations, before, after = _windows(node)
    if before != after or "output_shape" in node.attributes:
        raise node.refuse("equal padding on both sides")
    convolve = getattr(torch.nn.functional, f"conv_transpose{len(strides)}d")
    options = {
        "stride": strides,
        "padding": before,
        "output_padding": list(node.get("output_padding", [0] * len(strides))),
        "groups": node.get("group", 1),
        "dilation": dilations,
    }
    return lambda x, *weights: convolve(x, *weights, **options)


def _max_pool(torch: Torch, node: _Node) -> Call:
    strides, dilations, before, after = _windows(node)
    pool = getattr(torch.nn.functional, f"max_pool{len(strides)}d")
    kernel, ceil = list(node.get("kernel_shape", ())), bool(node.get("ceil_mode", 0))
    pad = _padded(torch, before, after, float("-inf"))
    if before == after and all(2 * n <= size for n, size in zip(before, kernel, strict=True)):
        return lambda x: pool(x, kernel, strides, before, dilations, ceil)
    return lambda x: pool(pad(x), kernel, strides, 0, dilations, ceil)


def _average_pool(torch: Torch, node: _Node) -> Call:
    strides, dilations, before, after = _windows(node)
    counted, ceil = bool(node.get("count_include_pad", 0)), bool(node.get("ceil_mode", 0))
    if before != after or any(n != 1 for n in dilations):
        raise node.refuse("equal padding on both sides and no dilation")
    pool = getattr(torch.nn.functional, f"avg_pool{len(strides)}d")
    kernel = list(node.get("kernel_shape", ()))
    return lambda x: pool(x, kernel, strides, before, ceil, counted)


def _batch_norm(torch: Torch, node: _Node) -> Call:
    epsilon = node.get("epsilon", 1e-5)
    normalize = torch.nn.functional.batch_norm
    return lambda x, scale, bias, mean, variance: normalize(
        x, mean, variance, scale, bias, False, 0.0, epsilon
    )


def _gemm(torch: Torch, node: _Node) -> Call:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    turn_a, turn_b = node.get("transA", 0), node.get("transB", 0)

    def call(a: Torch, b: Torch, c: Torch = None) -> Torch:
        a, b = a.t() if turn_a else a, b.t() if turn_b else b
        if c is None:
            return torch.matmul(a, b) * alpha
        return torch.addmm(c, a, b, beta=beta, alpha=alpha)

    return call


def _clip(torch: Torch, node: _Node) -> Call:
    low, high = (
        node.get(name, None if array is None else float(array))
        for name, array in zip(("min", "max"), (*node.constants[1:], None, None), strict=False)
    )
    return lambda x, *bounds: torch.clamp(x, low, high)


def _softmax(torch: Torch, node: _Node) -> Call:
    axis = node.get("axis", -1)
    return lambda x: torch.softmax(x, axis)


def _reduction(reduce: Callable[[Torch], Callable[..., Torch]]) -> Callable[[Torch, _Node], Call]:
    def translate(torch: Torch, node: _Node) -> Call:
        axes, keep = node.numbers("axes", 1), bool(node.get("keepdims", 1))
        if axes is None:
            raise node.refuse("axes that are known")
        function = reduce(torch)
        return lambda x, *_: function(x, dim=axes, keepdim=keep)

    return translate


def _flatten(torch: Torch, node: _Node) -> Call:
    axis = node.get("axis", 1)

    def call(x: Torch) -> Torch:
        rows = 1
        for size in x.shape[: axis if axis >= 0 else x.dim() + axis]:
            rows *= size
        return x.reshape(rows, -1)

    return call


def _reshape(torch: Torch, node: _Node) -> Call:
    shape = node.numbers("shape", 1)
    if shape is None or node.get("allowzero", 0):
        raise node.refuse("a shape that is known")
    return lambda x, *_: x.reshape([size or x.shape[n] for n, size in enumerate(shape)])


def _transpose(torch: Torch, node: _Node) -> Call:
    order = node.get("perm", None)
    return lambda x: x.permute(order if order is not None else list(range(x.dim()))[::-1])


def _concat(torch: Torch, node: _Node) -> Call:
    axis = node.get("axis", 0)
    return lambda *parts: torch.cat(parts, axis)


def _pad(torch: Torch, node: _Node) -> Call:
    pads = node.numbers("pads", 1)
    mode = node.get("mode", b"constant")
    if pads is None or mode != b"constant" or len(node.constants) > 3:
        raise node.refuse("constant padding that is known")
    value = node.constants[2] if len(node.constants) > 2 else None
    half = len(pads) // 2
    pad = _padded(torch, pads[:half], pads[half:], 0.0 if value is None else float(value))
    return lambda x, *_: pad(x)


def _slice(torch: Torch, node: _Node) -> Call:
    starts, ends, axes, steps = (
        node.numbers(name, position)
        for position, name in enumerate(("starts", "ends", "axes", "steps"), start=1)
    )
    if starts is None or ends is None or (steps is not None and min(steps) < 1):
        raise node.refuse("bounds that are known and steps forward")
    places = list(range(len(starts))) if axes is None else axes
    strides = [1] * len(starts) if steps is None else steps

    def call(x: Torch, *_: Torch) -> Torch:
        kept = [slice(None)] * x.dim()
        for place, start, end, stride in zip(places, starts, ends, strides, strict=True):
            kept[place] = slice(start, end, stride)
        return x[tuple(kept)]

    return call


def _gather(torch: Torch, node: _Node) -> Call:
    axis = node.get("axis", 0)

    def call(x: Torch, indices: Torch) -> Torch:
        place = axis % x.dim()
        wrapped = torch.where(indices < 0, indices + x.shape[place], indices)
        found = torch.index_select(x, place, wrapped.reshape(-1))
        return found.reshape(*x.shape[:place], *indices.shape, *x.shape[place + 1 :])

    return call


_SAME: Mapping[str, str] = {
    "Add": "add",
    "Div": "div",
    "Erf": "erf",
    "Exp": "exp",
    "MatMul": "matmul",
    "Mul": "mul",
    "Pow": "pow",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Sqrt": "sqrt",
    "Sub": "sub",
    "Tanh": "tanh",
}
"""Operators that a function of `torch` does, operand by operand."""

_TRANSLATED: Mapping[str, Callable[[Torch, _Node], Call]] = {
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda torch, node: (
        lambda x: x.mean(dim=tuple(range(2, x.dim())), keepdim=True)
    ),
    "MaxPool": _max_pool,
    "Pad": _pad,
    "ReduceL2": _reduction(lambda torch: torch.linalg.vector_norm),
    "ReduceMax": _reduction(lambda torch: torch.amax),
    "ReduceMean": _reduction(lambda torch: torch.mean),
    "ReduceSum": _reduction(lambda torch: torch.sum),
    "Reshape": _reshape,
    "Slice": _slice,
    "Softmax": _softmax,
    "Transpose": _transpose,
}

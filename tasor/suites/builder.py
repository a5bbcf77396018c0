"""Builds ONNX graphs node by node, with seeded random weights.

What it does: unique names, static shapes, and weights scaled so that activations stay of order 1
through any depth (He et al., "Delving deep into rectifiers", section 2.2): every tensor carries an
estimate of its mean and variance, and each linear layer divides by the mean square.
What it does not: optimize, check or run anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import erf, exp, pi, prod, sqrt
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8

Array = NDArray[np.generic]
Shape = tuple[int, ...]
Size = int | Shape
"""One number for every spatial axis, or one number for each."""

Attribute = Any
"""What onnx.helper.make_node takes as an attribute: numbers, strings, tuples of them."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the graph under construction.

    `mean` and `variance` estimate those of its elements, taken as normally distributed.
    """

    name: str
    shape: Shape
    mean: float = 0.0
    variance: float = 1.0

    @property
    def power(self) -> float:
        """Mean square of the elements."""
        return self.mean**2 + self.variance

    @property
    def channels(self) -> int:
        return self.shape[1]

    @property
    def spatial(self) -> Shape:
        return self.shape[2:]


_ABSENT = Tensor("", ())
"""An optional input that is left out."""


def per_axis(size: Size, rank: int) -> Shape:
    """`size` spelled out for each of `rank` spatial axes."""
    return (size,) * rank if isinstance(size, int) else size


def window_shape(
    spatial: Shape, kernel: Shape, stride: Shape, pad: Shape, dilation: Shape
) -> Shape:
    """Output sizes of a sliding window, rounded down as ONNX does by default."""
    axes = zip(spatial, kernel, stride, pad, dilation, strict=True)
    return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in axes)


def _rectified(x: Tensor) -> tuple[float, float]:
    """Mean and variance of max(x, 0)."""
    deviation = sqrt(x.variance)
    ratio = x.mean / deviation
    below = (1 + erf(ratio / sqrt(2))) / 2
    density = exp(-(ratio**2) / 2) / sqrt(2 * pi)
    mean = x.mean * below + deviation * density
    return mean, x.power * below + x.mean * deviation * density - mean**2


class GraphBuilder:
    """Collects nodes and initializers; `finish` makes the model.

    The same name and seed give the same model, bit for bit.
    """

    def __init__(self, name: str, seed: int = 0) -> None:
        self._name = name
        self._rng = np.random.default_rng(seed)
        self._counts: dict[str, int] = {}
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def _unique(self, stem: str) -> str:
        count = self._counts.get(stem, 0)
        self._counts[stem] = count + 1
        return f"{stem}_{count}"

    def input(self, name: str, shape: Shape, element: int = TensorProto.FLOAT) -> Tensor:
        """A graph input."""
        self._inputs.append(helper.make_tensor_value_info(name, element, list(shape)))
        return Tensor(name, shape)

    def constant(self, array: Array, stem: str, mean: float = 0.0, variance: float = 1.0) -> Tensor:
        """An initializer holding `array`."""
        name = self._unique(stem)
        self._initializers.append(numpy_helper.from_array(array, name))
        return Tensor(name, array.shape, mean, variance)

    def scalar(self, value: float, stem: str = "scalar") -> Tensor:
        """A float32 initializer of rank 0."""
        return self.constant(np.array(value, dtype=np.float32), stem, value, 0.0)

    def scalar_index(self, value: int) -> Tensor:
        """An int64 initializer of rank 0."""
        return self.constant(np.array(value, dtype=np.int64), "index")

    def integers(self, values: Sequence[int], stem: str) -> Tensor:
        """An int64 vector initializer: axes, pads, target shapes."""
        return self.constant(np.array(values, dtype=np.int64), stem)

    def normal(self, shape: Shape, deviation: float, stem: str) -> Tensor:
        """A float32 initializer of independent normal numbers with mean 0."""
        values = self._rng.standard_normal(shape, dtype=np.float32)
        values *= np.float32(deviation)
        return self.constant(values, stem, variance=deviation * deviation)

    def uniform(self, shape: Shape, low: float, high: float, stem: str) -> Tensor:
        """A float32 initializer of independent uniform numbers."""
        values = self._rng.uniform(low, high, shape).astype(np.float32)
        return self.constant(values, stem, (low + high) / 2, (high - low) ** 2 / 12)

    def node(
        self,
        operator: str,
        inputs: Sequence[Tensor],
        shape: Shape,
        mean: float = 0.0,
        variance: float = 1.0,
        **attributes: Attribute,
    ) -> Tensor:
        """Append one node with one output of the given shape."""
        name = self._unique(operator.lower())
        names = [tensor.name for tensor in inputs]
        self._nodes.append(helper.make_node(operator, names, [name], name=name, **attributes))
        return Tensor(name, shape, mean, variance)

    def conv(
        self,
        x: Tensor,
        out_channels: int,
        kernel: Size,
        *,
        stride: Size = 1,
        pad: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> Tensor:
        """Conv over (batch, channels, *spatial) with weights that give an output of power 1."""
        rank = len(x.spatial)
        sizes, strides, pads, dilations = (
            per_axis(size, rank) for size in (kernel, stride, pad, dilation)
        )
        fan_in = x.channels // groups * prod(sizes)
        weight_shape = (out_channels, x.channels // groups, *sizes)
        operands = [x, self.normal(weight_shape, 1 / sqrt(fan_in * x.power), "conv.weight")]
        if bias:
            operands.append(self.normal((out_channels,), 0.1, "conv.bias"))
        return self.node(
            "Conv",
            operands,
            (x.shape[0], out_channels, *window_shape(x.spatial, sizes, strides, pads, dilations)),
            kernel_shape=sizes,
            strides=strides,
            pads=(*pads, *pads),
            dilations=dilations,
            group=groups,
        )

    def conv_transpose(
        self, x: Tensor, out_channels: int, kernel: int, *, stride: int, pad: int
    ) -> Tensor:
        """ConvTranspose over (batch, channels, height, width); each output has power 1."""
        fan_in = x.channels * kernel * kernel / (stride * stride)
        weight = self.normal(
            (x.channels, out_channels, kernel, kernel),
            1 / sqrt(fan_in * x.power),
            "conv_transpose.weight",
        )
        spatial = tuple((size - 1) * stride - 2 * pad + kernel for size in x.spatial)
        return self.node(
            "ConvTranspose",
            [x, weight],
            (x.shape[0], out_channels, *spatial),
            kernel_shape=(kernel, kernel),
            strides=(stride, stride),
            pads=(pad,) * 4,
        )

    def batch_norm(self, x: Tensor, epsilon: float = 1e-5) -> Tensor:
        """BatchNormalization whose statistics fit `x`, as training would have left them."""
        channels = (x.channels,)
        scale = self.uniform(channels, 0.75, 1.25, "batch_norm.scale")
        bias = self.normal(channels, 0.1, "batch_norm.bias")
        mean = self.normal(channels, 0.1 * sqrt(x.power), "batch_norm.mean")
        variance = self.uniform(channels, 0.75 * x.power, 1.25 * x.power, "batch_norm.variance")
        return self.node(
            "BatchNormalization", [x, scale, bias, mean, variance], x.shape, epsilon=epsilon
        )

    def conv_bn(
        self, x: Tensor, channels: int, kernel: int, *, stride: int = 1, groups: int = 1
    ) -> Tensor:
        """Conv, padded by half its kernel, and BatchNormalization."""
        pad = kernel // 2
        return self.batch_norm(
            self.conv(x, channels, kernel, stride=stride, pad=pad, groups=groups)
        )

    def layer_norm(self, x: Tensor) -> Tensor:
        """LayerNormalization over the last axis."""
        scale = self.uniform(x.shape[-1:], 0.75, 1.25, "layer_norm.scale")
        bias = self.normal(x.shape[-1:], 0.1, "layer_norm.bias")
        return self.node("LayerNormalization", [x, scale, bias], x.shape, axis=-1)

    def instance_norm(self, x: Tensor) -> Tensor:
        """InstanceNormalization: each channel by itself."""
        scale = self.uniform((x.channels,), 0.75, 1.25, "instance_norm.scale")
        bias = self.normal((x.channels,), 0.1, "instance_norm.bias")
        return self.node("InstanceNormalization", [x, scale, bias], x.shape)

    def relu(self, x: Tensor) -> Tensor:
        return self.node("Relu", [x], x.shape, *_rectified(x))

    def silu(self, x: Tensor) -> Tensor:
        """x times its sigmoid, about what a rectifier lets through."""
        gate = self.elementwise("Sigmoid", x, mean=0.5, variance=0.05)
        return self.node("Mul", [x, gate], x.shape, *_rectified(x))

    def hard_swish(self, x: Tensor) -> Tensor:
        return self.node("HardSwish", [x], x.shape, *_rectified(x))

    def gelu(self, x: Tensor) -> Tensor:
        """The Gaussian unit by Erf, as exporters emit it at this opset."""
        erf = self.elementwise("Erf", self.elementwise("Div", x, self.scalar(sqrt(2))))
        product = self.multiply(x, self.add(erf, self.scalar(1.0)))
        # Halved, it lets through about what a rectifier does.
        return self.elementwise("Mul", product, self.scalar(0.5), variance=x.power / 2)

    def relu6(self, x: Tensor) -> Tensor:
        """Clip to [0, 6]."""
        low, high = self.scalar(0.0, "clip.min"), self.scalar(6.0, "clip.max")
        return self.node("Clip", [x, low, high], x.shape, *_rectified(x))

    def elementwise(
        self, operator: str, *operands: Tensor, mean: float = 0.0, variance: float = 1.0
    ) -> Tensor:
        """An elementwise function; the first operand has the shape of the result."""
        return self.node(operator, operands, operands[0].shape, mean, variance)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Sum of two tensors, of which `y` may broadcast."""
        mean, variance = x.mean + y.mean, x.variance + y.variance
        return self.elementwise("Add", x, y, mean=mean, variance=variance)

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """Product of two tensors, of which `y` may broadcast."""
        mean = x.mean * y.mean
        return self.elementwise("Mul", x, y, mean=mean, variance=x.power * y.power - mean**2)

    def concat(self, parts: Sequence[Tensor], axis: int = 1) -> Tensor:
        """Concat along an axis, that of the channels unless another is named."""
        sizes = [part.shape[axis] for part in parts]
        mean = sum(p.mean * n for p, n in zip(parts, sizes, strict=True)) / sum(sizes)
        power = sum(p.power * n for p, n in zip(parts, sizes, strict=True)) / sum(sizes)
        shape = (*parts[0].shape[:axis], sum(sizes), *parts[0].shape[axis + 1 :])
        return self.node("Concat", parts, shape, mean, power - mean**2, axis=axis)

    def slice(self, x: Tensor, axis: int, start: int, end: int) -> Tensor:
        """The elements from `start` to before `end` of an axis."""
        bounds = [self.integers((n,), "slice.bound") for n in (start, end, axis)]
        shape = (*x.shape[:axis], end - start, *x.shape[axis + 1 :])
        return self.node("Slice", [x, *bounds], shape, x.mean, x.variance)

    def front_pad(self, x: Tensor, pad: int) -> Tensor:
        """Zeros in front of (batch, channels, length)."""
        batch, channels, length = x.shape
        pads = self.integers((0, 0, pad, 0, 0, 0), "pad.pads")
        return self.node("Pad", [x, pads], (batch, channels, length + pad), x.mean, x.variance)

    def reflect_pad(self, x: Tensor, pad: int) -> Tensor:
        """Mirrors (batch, channels, height, width) about its borders."""
        batch, channels, height, width = x.shape
        pads = self.integers((0, 0, pad, pad) * 2, "pad.pads")
        shape = (batch, channels, height + 2 * pad, width + 2 * pad)
        return self.node("Pad", [x, pads], shape, x.mean, x.variance, mode="reflect")

    def upsample(self, x: Tensor, factor: int, mode: str = "nearest") -> Tensor:
        """Resize of (batch, channels, height, width) by "nearest" or "linear" interpolation."""
        scales = self.constant(np.array((1, 1, factor, factor), np.float32), "resize.scales")
        batch, channels, height, width = x.shape
        attributes = {
            "nearest": {
                "coordinate_transformation_mode": "asymmetric",
                "nearest_mode": "floor",
            },
            "linear": {"coordinate_transformation_mode": "half_pixel"},
        }[mode]
        return self.node(
            "Resize",
            [x, _ABSENT, scales],
            (batch, channels, height * factor, width * factor),
            x.mean,
            x.variance,
            mode=mode,
            **attributes,
        )

    def max_pool(self, x: Tensor, kernel: int, *, stride: int, pad: int = 0) -> Tensor:
        return self._pool("MaxPool", x, kernel, stride, pad)

    def average_pool(
        self, x: Tensor, kernel: int, *, stride: int, pad: int = 0, count_padding: bool = False
    ) -> Tensor:
        """AveragePool; padded zeros enter the average only with `count_padding`."""
        return self._pool(
            "AveragePool", x, kernel, stride, pad, count_include_pad=int(count_padding)
        )

    def _pool(
        self, operator: str, x: Tensor, kernel: int, stride: int, pad: int, **attributes: Attribute
    ) -> Tensor:
        rank = len(x.spatial)
        sizes, strides, pads = (per_axis(size, rank) for size in (kernel, stride, pad))
        return self.node(
            operator,
            [x],
            (*x.shape[:2], *window_shape(x.spatial, sizes, strides, pads, (1,) * rank)),
            x.mean,
            x.variance,
            kernel_shape=sizes,
            strides=strides,
            pads=(*pads, *pads),
            **attributes,
        )

    def mean_of_planes(self, x: Tensor) -> Tensor:
        """Mean over the spatial axes, which are kept: (batch, channels, 1, ...)."""
        shape = (*x.shape[:2], *(1,) * len(x.spatial))
        return self.node("GlobalAveragePool", [x], shape, x.mean, x.variance / 2)

    def global_average_pool(self, x: Tensor) -> Tensor:
        """Mean over the spatial axes, flattened to (batch, channels)."""
        pooled = self.mean_of_planes(x)
        return self.node("Flatten", [pooled], x.shape[:2], pooled.mean, pooled.variance, axis=1)

    def gemm(self, x: Tensor, out_features: int) -> Tensor:
        """Fully connected layer over (batch, features), as Gemm with a transposed weight."""
        features = x.shape[1]
        weight = self.normal((out_features, features), 1 / sqrt(features * x.power), "gemm.weight")
        bias = self.normal((out_features,), 0.1, "gemm.bias")
        return self.node("Gemm", [x, weight, bias], (x.shape[0], out_features), transB=1)

    def matmul_weight(self, x: Tensor, out_features: int) -> Tensor:
        """A weight (features, out_features) that MatMul maps `x` with to power 1."""
        features = x.shape[-1]
        deviation = 1 / sqrt(features * x.power)
        return self.normal((features, out_features), deviation, "matmul.weight")

    def linear(self, x: Tensor, features: int) -> Tensor:
        """Fully connected layer over the last axis, as MatMul and Add."""
        product = self.matmul(x, self.matmul_weight(x, features))
        return self.add(product, self.normal((features,), 0.1, "linear.bias"))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """MatMul of (..., m, k) and (..., k, n)."""
        variance = x.shape[-1] * x.power * y.power
        return self.node("MatMul", [x, y], (*x.shape[:-1], y.shape[-1]), 0.0, variance)

    def transpose(self, x: Tensor, permutation: Shape) -> Tensor:
        shape = tuple(x.shape[axis] for axis in permutation)
        return self.node("Transpose", [x], shape, x.mean, x.variance, perm=permutation)

    def reshape(self, x: Tensor, shape: Shape) -> Tensor:
        target = self.integers(shape, "reshape.shape")
        return self.node("Reshape", [x, target], shape, x.mean, x.variance)

    def softmax(self, x: Tensor) -> Tensor:
        """Softmax over the last axis, its arguments of order 1."""
        mean = 1 / x.shape[-1]
        return self.node("Softmax", [x], x.shape, mean, mean**2, axis=-1)

    def finish(self, output: Tensor) -> onnx.ModelProto:
        """The model that computes `output`, named y."""
        final = replace(output, name="y")
        for node in self._nodes:
            node.output[:] = [final.name if name == output.name else name for name in node.output]
            node.input[:] = [final.name if name == output.name else name for name in node.input]
        graph = helper.make_graph(
            self._nodes,
            self._name,
            self._inputs,
            [helper.make_tensor_value_info(final.name, TensorProto.FLOAT, list(final.shape))],
            self._initializers,
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="tasor-benchmarks",
        )

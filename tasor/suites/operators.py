"""The operator suite: single operators and small subgraphs at the shapes of `workloads.json`.

What it does: reads the list, and builds one ONNX model per workload (opset 17, constant weights,
input `x`, or `q` and `k` for TBS) with the number of floating-point operations it asks for.
What it does not: run them. Shapes: Zheng et al., "Ansor" (OSDI 2020), section 7.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

import onnx

from tasor.suites.builder import GraphBuilder, Shape, Tensor, per_axis, window_shape

_LIST = Path(__file__).with_name("workloads.json")
_SPATIAL_AXES = ("length", "depth", "height", "width")
_SOFTMAX_FLOPS = 5
"""Per element: maximum, difference, exponential, sum, quotient."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One operator at one shape. `parameters` are the sizes by name, sorted."""

    id: str
    operator: str
    batch: int
    parameters: tuple[tuple[str, int], ...]

    def __getitem__(self, name: str) -> int:
        """The size of that name; KeyError if the operator has no such size."""
        return dict(self.parameters)[name]

    def get(self, name: str, default: int) -> int:
        return dict(self.parameters).get(name, default)


@dataclass(frozen=True, slots=True)
class _Convolution:
    x_shape: Shape
    out_channels: int
    kernel: int
    stride: int
    pad: int
    dilation: int
    groups: int

    @property
    def flops(self) -> int:
        """Two per tap and output, taps in the padding included."""
        spatial = self.x_shape[2:]
        rank = len(spatial)
        sizes = (self.kernel, self.stride, self.pad, self.dilation)
        outputs = window_shape(spatial, *(per_axis(size, rank) for size in sizes))
        taps = self.x_shape[1] // self.groups * prod((self.kernel,) * rank)
        return 2 * self.x_shape[0] * self.out_channels * prod(outputs) * taps


def _convolution(workload: Workload) -> _Convolution:
    names = dict(workload.parameters)
    spatial = tuple(names[axis] for axis in _SPATIAL_AXES if axis in names)
    match workload.operator:
        case "CAP":
            # Each capsule is a 4x4 matrix: its rows join the batch, its columns the channels.
            batch, in_channels = 4 * workload.batch, 4 * workload["in_capsules"]
            out_channels, groups = 4 * workload["out_capsules"], 1
        case "DEP":
            batch, in_channels = workload.batch, workload["channels"]
            out_channels = groups = in_channels
        case _:
            batch, in_channels = workload.batch, workload["in_channels"]
            out_channels, groups = workload["out_channels"], workload.get("groups", 1)
    return _Convolution(
        x_shape=(batch, in_channels, *spatial),
        out_channels=out_channels,
        kernel=workload["kernel"],
        stride=workload["stride"],
        pad=workload["pad"],
        dilation=workload.get("dilation", 1),
        groups=groups,
    )


def _build_convolution(graph: GraphBuilder, workload: Workload) -> Tensor:
    conv = _convolution(workload)
    return graph.conv(
        graph.input("x", conv.x_shape),
        conv.out_channels,
        conv.kernel,
        stride=conv.stride,
        pad=conv.pad,
        dilation=conv.dilation,
        groups=conv.groups,
    )


def _convolution_flops(workload: Workload) -> int:
    return _convolution(workload).flops


def _build_conv_bn_relu(graph: GraphBuilder, workload: Workload) -> Tensor:
    return graph.relu(graph.batch_norm(_build_convolution(graph, workload)))


def _build_transposed(graph: GraphBuilder, workload: Workload) -> Tensor:
    x = graph.input(
        "x",
        (workload.batch, workload["in_channels"], workload["height"], workload["width"]),
    )
    return graph.conv_transpose(
        x,
        workload["out_channels"],
        workload["kernel"],
        stride=workload["stride"],
        pad=workload["pad"],
    )


def _transposed_flops(workload: Workload) -> int:
    inputs = workload.batch * workload["in_channels"] * workload["height"] * workload["width"]
    return 2 * inputs * workload["out_channels"] * workload["kernel"] ** 2


def _build_matmul(graph: GraphBuilder, workload: Workload) -> Tensor:
    batch, m, n, k = workload.batch, workload["m"], workload["n"], workload["k"]
    x = graph.input("x", (batch, m, k))
    return graph.matmul(x, graph.normal((batch, k, n), k**-0.5, "weight"))


def _matmul_flops(workload: Workload) -> int:
    return 2 * workload.batch * workload["m"] * workload["n"] * workload["k"]


def _matrix(graph: GraphBuilder, workload: Workload) -> Tensor:
    return graph.input("x", (workload.batch, workload["rows"], workload["columns"]))


def _build_norm(graph: GraphBuilder, workload: Workload) -> Tensor:
    x = _matrix(graph, workload)
    return graph.node("ReduceL2", [x], (workload.batch,), axes=(1, 2), keepdims=0)


def _norm_flops(workload: Workload) -> int:
    return 2 * workload.batch * workload["rows"] * workload["columns"]


def _build_softmax(graph: GraphBuilder, workload: Workload) -> Tensor:
    return graph.softmax(_matrix(graph, workload))


def _softmax_flops(workload: Workload) -> int:
    return _SOFTMAX_FLOPS * workload.batch * workload["rows"] * workload["columns"]


def _build_attention(graph: GraphBuilder, workload: Workload) -> Tensor:
    batch, sequence = workload.batch, workload["sequence"]
    shape = (batch, sequence, workload["heads"], workload["head_size"])
    q = graph.transpose(graph.input("q", shape), (0, 2, 1, 3))
    k = graph.transpose(graph.input("k", shape), (0, 2, 3, 1))
    return graph.softmax(graph.matmul(q, k))


def _attention_flops(workload: Workload) -> int:
    scores = workload.batch * workload["heads"] * workload["sequence"] ** 2
    return scores * (2 * workload["head_size"] + _SOFTMAX_FLOPS)


_BUILDERS: Mapping[str, Callable[[GraphBuilder, Workload], Tensor]] = {
    "C1D": _build_convolution,
    "C2D": _build_convolution,
    "C3D": _build_convolution,
    "GMM": _build_matmul,
    "GRP": _build_convolution,
    "DIL": _build_convolution,
    "DEP": _build_convolution,
    "T2D": _build_transposed,
    "CAP": _build_convolution,
    "NRM": _build_norm,
    "SFM": _build_softmax,
    "CBR": _build_conv_bn_relu,
    "TBS": _build_attention,
}

_FLOPS: Mapping[str, Callable[[Workload], int]] = {
    "T2D": _transposed_flops,
    "GMM": _matmul_flops,
    "NRM": _norm_flops,
    "SFM": _softmax_flops,
    "TBS": _attention_flops,
}


@cache
def workloads() -> tuple[Workload, ...]:
    """Every workload of the list, in its order."""
    entries = json.loads(_LIST.read_text(encoding="utf-8"))["workloads"]
    return tuple(
        Workload(
            id=entry["id"],
            operator=entry["operator"],
            batch=entry["batch"],
            parameters=tuple(
                sorted((k, v) for k, v in entry.items() if k not in ("id", "operator", "batch"))
            ),
        )
        for entry in entries
    )


def build(workload: Workload) -> onnx.ModelProto:
    """The ONNX model of one workload; weights depend on nothing but the workload."""
    graph = GraphBuilder(workload.id)
    return graph.finish(_BUILDERS[workload.operator](graph, workload))


def flops(workload: Workload) -> int:
    """Floating-point operations of the operator by its definition; a multiply-add counts as two.

    Batch normalization and ReLU of CBR are left out: they fold into the convolution.
    """
    return _FLOPS.get(workload.operator, _convolution_flops)(workload)

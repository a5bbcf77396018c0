"""Operators as TVM is given them: their expressions compute what the suite's models compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from benchmarks.tvm_operators import (
    Convolution,
    Layout,
    Product,
    operator_of,
    output_shape,
    packed_input,
    packed_weight,
    primitive_function,
    unpacked_output,
)
from tasor.suites.operators import Workload, build
from tensorgen.types import Array


def workload(operator: str, batch: int = 1, **sizes: int) -> Workload:
    return Workload("case", operator, batch, tuple(sorted(sizes.items())))


def convolution(kernel: int, stride: int, pad: int, batch: int = 1) -> Workload:
    return workload(
        "C2D", batch, height=6, width=5, in_channels=3, out_channels=4,
        kernel=kernel, stride=stride, pad=pad,
    )  # fmt: skip


class Evaluated:
    """What is asked of TVM, evaluated at once: placeholders are the arrays of their names, and axes
    that are summed over lie along dimensions of their own."""

    def __init__(self, **arrays: Array) -> None:
        self._arrays = arrays
        self._axes = 0
        self.te = SimpleNamespace(
            placeholder=self._placeholder, reduce_axis=self._axis, compute=self._compute,
            sum=lambda values, axis: values.sum(), create_prim_func=lambda tensors: tensors,
        )  # fmt: skip
        self.topi = SimpleNamespace(nn=SimpleNamespace(pad=self._pad))

    def _placeholder(self, shape: Sequence[int], name: str, dtype: str) -> Array:
        array = self._arrays[name]
        assert (array.shape, array.dtype) == (tuple(shape), np.dtype(dtype))
        return array

    def _axis(self, extent: tuple[int, int], name: str) -> Array:
        self._axes += 1
        return np.arange(*extent).reshape(-1, *[1] * (self._axes - 1))

    @staticmethod
    def _compute(
        shape: Sequence[int], body: Callable[..., Any], name: str, attrs: dict[str, Any]
    ) -> Array:
        assert len(attrs["layout_free_placeholders"]) == 1
        places = product(*map(range, shape))
        return np.array([body(*place) for place in places], np.float32).reshape(shape)

    @staticmethod
    def _pad(array: Array, around: Sequence[int], name: str) -> Array:
        return np.pad(array, [(size, size) for size in around])


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize(
    "case",
    [
        workload("GMM", m=3, n=5, k=7), convolution(1, 1, 0), convolution(3, 1, 1),
        convolution(3, 2, 1, batch=2),
    ],
)  # fmt: skip
def test_the_expression_computes_what_the_model_does(case: Workload, layout: Layout) -> None:
    operator = operator_of(case, layout)
    model = build(case)
    (constant,) = model.graph.initializer
    shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (wanted,) = session.run(None, {"x": x})
    weight = packed_weight(operator, onnx.numpy_helper.to_array(constant))
    tvm = Evaluated(x=packed_input(operator, x), weight=weight)
    *_, y = primitive_function(tvm, operator)
    assert y.shape == output_shape(operator)
    np.testing.assert_allclose(unpacked_output(operator, y), wanted, rtol=1e-4, atol=1e-5)


def test_operators_have_the_sizes_of_their_workloads() -> None:
    assert operator_of(workload("GMM", m=3, n=5, k=7), "nchw") == Product(3, 5, 7)
    assert operator_of(convolution(3, 2, 1), "nhwc") == Convolution(
        (1, 3, 6, 5), 4, 3, 2, 1, "nhwc"
    )


@pytest.mark.parametrize(
    ("other", "got"),
    [
        (workload("GMM", 16, m=3, n=5, k=7), "GMM of batch 16"),
        (workload("SFM", rows=3, columns=4), "SFM of batch 1"),
    ],
)
def test_other_operators_are_refused(other: Workload, got: str) -> None:
    with pytest.raises(ValueError, match=f"^case: expected a matrix product .* got {got}; choose"):
        operator_of(other, "nhwc")

"""The operator suite: every workload builds the operator that the list names."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from tasor.suites.operators import Workload, build, flops, workloads

SMALL = [workload for workload in workloads() if workload.batch == 1 and flops(workload) < 2e8]


def workload_named(name: str) -> Workload:
    return next(workload for workload in workloads() if workload.id == name)


def run(model: onnx.ModelProto, *inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in session.get_inputs()]
    (output,) = session.run(None, dict(zip(names, inputs, strict=True)))
    return np.asarray(output)


def weight(model: onnx.ModelProto) -> np.ndarray:
    return numpy_helper.to_array(model.graph.initializer[0])


def test_ids_are_unique_and_name_operator_and_batch() -> None:
    names = [workload.id for workload in workloads()]
    assert len(set(names)) == len(names) == 100
    for workload in workloads():
        assert workload.id.startswith(workload.operator)
        assert workload.id.endswith(f"-b{workload.batch}")


@pytest.mark.parametrize("workload", workloads(), ids=lambda workload: workload.id)
def test_checker_accepts_and_infers_the_declared_shape(workload: Workload) -> None:
    onnx.checker.check_model(build(workload), full_check=True)


@pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.id)
def test_small_workloads_run(workload: Workload) -> None:
    model = build(workload)
    rng = np.random.default_rng(1)
    inputs = [
        rng.standard_normal([size.dim_value for size in value.type.tensor_type.shape.dim])
        for value in model.graph.input
    ]
    output = run(model, *(array.astype(np.float32) for array in inputs))
    assert np.isfinite(output).all()
    assert output.any()


def test_builds_are_reproducible() -> None:
    workload = workload_named("CBR1-b1")
    assert build(workload).SerializeToString() == build(workload).SerializeToString()


def test_batched_matmul_has_one_weight_per_batch() -> None:
    model = build(workload_named("GMM0-b16"))
    x = np.random.default_rng(0).standard_normal((16, 128, 128)).astype(np.float32)
    np.testing.assert_allclose(run(model, x), x @ weight(model), rtol=1e-4, atol=1e-4)


def test_norm_is_frobenius() -> None:
    x = np.random.default_rng(0).standard_normal((16, 256, 256)).astype(np.float32)
    expected = np.sqrt((x.astype(np.float64) ** 2).sum(axis=(1, 2)))
    np.testing.assert_allclose(run(build(workload_named("NRM0-b16")), x), expected, rtol=1e-5)


def test_attention_scores_are_rows_of_probabilities() -> None:
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((1, 128, 12, 64)).astype(np.float32) for _ in range(2))
    scores = np.einsum("bshd,bthd->bhst", q, k)
    expected = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected /= expected.sum(axis=-1, keepdims=True)
    output = run(build(workload_named("TBS0-b1")), q, k)
    np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-6)


def test_capsules_fold_rows_into_the_batch_and_columns_into_the_channels() -> None:
    model = build(workload_named("CAP2-b16"))
    shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    assert shape == [64, 32, 16, 16]
    assert weight(model).shape == (64, 32, 3, 3)


@pytest.mark.parametrize("name", ["C1D1-b1", "C2D2-b1", "C3D3-b1", "GRP0-b1", "DEP3-b1", "DIL2-b1"])
def test_convolution_flops_count_the_weights_once_per_output_position(name: str) -> None:
    workload = workload_named(name)
    model = build(workload)
    output = [size.dim_value for size in model.graph.output[0].type.tensor_type.shape.dim]
    assert flops(workload) == 2 * weight(model).size * output[0] * prod(output[2:])


def test_transposed_convolution_flops_count_the_weights_once_per_input_position() -> None:
    workload = workload_named("T2D1-b16")
    assert flops(workload) == 2 * weight(build(workload)).size * 16 * 8 * 8


def test_matmul_flops() -> None:
    assert flops(workload_named("GMM3-b16")) == 16 * 2 * 1024**3


def test_unknown_size_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="height"):
        workload_named("GMM0-b1")["height"]

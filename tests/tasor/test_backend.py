"""Tasor behind the interface of the onnx library."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tasor
from tasor import backend
from tasor.backend import TasorModel
from tests.tasor.small_models import assert_close, expected_output, reshaping_model, small_model

RNG = np.random.default_rng(2)


def sample(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def test_shapes_come_from_the_inputs() -> None:
    model = backend.prepare(small_model())
    for size in (1, 3, 1, 4):
        x = sample(size, 6)
        (y,) = model.run([x])
        assert_close(y, expected_output(x))
    assert len(model._compiled) == 3


def test_inputs_may_be_named_listed_or_alone() -> None:
    model = backend.prepare(small_model())
    x = sample(2, 6)
    results = [model.run(given)[0] for given in ({"x": x}, [x], (x,), x, np.asfortranarray(x))]
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_values_that_decide_about_shapes_are_fixed_and_remembered() -> None:
    model = backend.prepare(reshaping_model())
    x = sample(2, 6)
    for sizes in ((3, 4), (12,), (3, 4), (2, 3, 2)):
        if len(sizes) == 2:
            (y,) = model.run([x, np.array(sizes)])
            np.testing.assert_array_equal(y, x.reshape(sizes))
        (y,) = model.run({"x": x, "sizes": np.array(sizes)})
        np.testing.assert_array_equal(y, x.reshape(sizes))
    assert len(model._compiled) == 3


def test_values_that_decide_nothing_are_not_compiled_in() -> None:
    model = backend.prepare(small_model())
    model.run([sample(2, 6)])
    model.run([sample(2, 6)])
    assert len(model._compiled) == 1


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "expected 1 arrays, got 0"),
        ([sample(1, 6)] * 2, "expected 1 arrays, got 2"),
        ({"z": sample(1, 6)}, "expected arrays for 'x', got others"),
        ([sample(1, 6).astype(np.float64)], "expected float32"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: Any, message: str) -> None:
    with pytest.raises(tasor.InputError, match=message):
        backend.run_model(small_model(), inputs)


def test_an_input_that_must_be_fixed_but_has_a_wrong_type_is_refused() -> None:
    with pytest.raises(tasor.ModelError):
        backend.run_model(reshaping_model(), [sample(2, 6), np.array([3.0, 4.0])])


def test_nodes_run_alone() -> None:
    a = sample(2, 3)
    (total,) = backend.run_node(helper.make_node("Add", ["a", "a"], ["s"]), [a])
    np.testing.assert_array_equal(total, a + a)
    reshape = helper.make_node("Reshape", ["a", "sizes"], ["r"])
    (reshaped,) = backend.run_node(reshape, [a, np.array([3, 2])])
    np.testing.assert_array_equal(reshaped, a.reshape(3, 2))
    clip = helper.make_node("Clip", ["a", "", "most"], ["c"])
    (clipped,) = backend.run_node(clip, [a, np.float32(0)], opset_version=13)
    np.testing.assert_array_equal(clipped, np.minimum(a, 0))


@pytest.mark.parametrize(
    ("node", "inputs", "kind", "message"),
    [
        (helper.make_node("Nothing", ["a"], ["b"]), 1, tasor.ModelError, "node 'Nothing'"),
        (helper.make_node("Add", ["a", "b"], ["c"]), 1, tasor.InputError, "expected 2 arrays"),
        (helper.make_node("Add", ["a"], ["c"]), 1, tasor.ModelError, "node 'Add'"),
    ],
)
def test_nodes_that_are_refused(
    node: onnx.NodeProto, inputs: int, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as raised:
        backend.run_node(node, [sample(2, 3)] * inputs)
    assert "\n" not in str(raised.value)


def test_only_the_cpu_is_supported() -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    assert backend.is_compatible(small_model())
    with pytest.raises(tasor.UsageError, match="expected CPU, got CUDA"):
        backend.prepare(small_model(), "CUDA")


def test_prepare_compiles_nothing_yet() -> None:
    assert isinstance(backend.prepare(onnx.ModelProto()), TasorModel)

"""Real models, imported, optimized and exported: ONNX Runtime gives what the originals give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from graphopt.graph import Graph
from graphopt.onnx_export import export_model
from graphopt.onnx_import import import_model
from graphopt.optimize import optimize
from graphopt.reference import evaluate_graph
from tasor.suites.networks import NETWORKS, network
from tasor.suites.real_models import REAL_MODELS, RealModel
from tensorgen.types import Array, Shape, int64


def checked(graph: Graph) -> onnx.ModelProto:
    model = export_model(graph)
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model: onnx.ModelProto, feed: Mapping[str, Array]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return list(session.run(None, dict(feed)))


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def names(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.output]


def there_and_back(
    model: onnx.ModelProto, shapes: Mapping[str, Shape], feed: Mapping[str, Array] | None
) -> None:
    """The model gives in ONNX Runtime what it gives after a round trip, optimized or not."""
    graph = import_model(model, shapes=shapes)
    rng = np.random.default_rng(0)
    given = feed or {
        name: rng.integers(0, 100, value.type.shape).astype(np.int64)
        if value.type.dtype == int64
        else rng.standard_normal(value.type.shape).astype(np.float32)
        for name, value in zip(graph.input_names, graph.inputs, strict=True)
    }
    expected = run(model, given)
    for variant in (graph, optimize(graph).graph):
        exported = checked(variant)
        assert names(exported) == names(model)
        for actual, want in zip(run(exported, given), expected, strict=True):
            scale = max(float(np.abs(want).max(initial=0)), 1e-2)
            np.testing.assert_allclose(actual, want, rtol=1e-3, atol=1e-3 * scale)
        again = export_model(import_model(exported))
        assert operators(again) == operators(exported)


@pytest.mark.parametrize(
    "real",
    [
        real if real.name == "ppocr-angle" else pytest.param(real, marks=pytest.mark.slow)
        for real in REAL_MODELS
    ],
    ids=lambda real: real.name,
)
def test_trained_models_mean_the_same(real: RealModel) -> None:
    feed = dict(real.inputs())
    there_and_back(onnx.load(real.path()), real.shapes_by_name, feed)


def test_a_trained_model_evaluates_the_same_after_a_round_trip() -> None:
    (real,) = (real for real in REAL_MODELS if real.name == "ppocr-angle")
    graph = import_model(str(real.path()), shapes={"x": (1, 3, 48, 64)})
    returned = import_model(export_model(graph))
    feed = {"x": np.random.default_rng(1).random((1, 3, 48, 64)).astype(np.float32)}
    (actual,), (expected,) = evaluate_graph(returned, feed), evaluate_graph(graph, feed)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


LIGHT = sorted(
    (Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("light_*.onnx")
)


@pytest.mark.parametrize(
    "path",
    [
        path if "squeezenet" in path.name else pytest.param(path, marks=pytest.mark.slow)
        for path in LIGHT
    ],
    ids=lambda path: path.stem,
)
def test_light_models_mean_the_same(path: Path) -> None:
    there_and_back(without_last_softmax(onnx.load(path)), {}, None)


def without_last_softmax(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with what it takes the softmax of. Its weights are constants: all scores are alike,
    thousands of millions, and a softmax of such has 1/1000 everywhere, or what rounding makes of
    it."""
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        scores = onnx.helper.make_tensor_value_info(last.input[0], onnx.TensorProto.FLOAT, None)
        del model.graph.node[-1], model.graph.output[:]
        model.graph.output.append(scores)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_the_suite_mean_the_same(name: str) -> None:
    there_and_back(network(name), {}, None)

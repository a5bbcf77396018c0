"""Expected outputs come from something that shares no code with what is tested."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from graphopt.graph import Graph
from tasor.pipeline import ModelSource, Question, import_stage
from tasor.self_test_vectors import REFERENCE_FLOPS, NoSelfTest, self_test_of
from tensorgen.module_spec import SelfTest
from tensorgen.ports import Port
from tests.tasor.small_models import assert_close, expected_output, reshaping_model, small_model

QUESTION = Question(small_model(), "small", {"x": (3, 6)})


def vectors(question: Question, graph: Graph, flops: int) -> SelfTest | NoSelfTest:
    ports = [
        Port(name, value.type) for name, value in zip(graph.input_names, graph.inputs, strict=True)
    ]
    return self_test_of(question, graph, ports, flops)


def test_small_models_are_evaluated_operator_by_operator() -> None:
    test = vectors(QUESTION, import_stage(QUESTION), 0)
    assert isinstance(test, SelfTest)
    assert_close(test.outputs[0], expected_output(test.inputs[0]))
    assert 0 < test.absolute <= 1e-4 * np.abs(test.outputs[0]).max() * 1.001


@pytest.mark.parametrize("form", ["proto", "path", "bytes"])
def test_large_models_are_given_to_onnx_runtime(tmp_path: Path, form: str) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    onnx.save_model(small_model(), path)
    source: ModelSource = path if form == "path" else path.read_bytes()
    if form == "proto":
        source = small_model()
    question = Question(source, "small", {"x": (3, 6)})
    test = vectors(question, import_stage(question), REFERENCE_FLOPS + 1)
    assert isinstance(test, SelfTest)
    assert_close(test.outputs[0], expected_output(test.inputs[0]))


def test_fixed_inputs_are_given_to_onnx_runtime_too() -> None:
    pytest.importorskip("onnxruntime")
    question = Question(reshaping_model(), "r", {}, {"sizes": np.array([3, 4])})
    test = vectors(question, import_stage(question), REFERENCE_FLOPS + 1)
    assert isinstance(test, SelfTest)
    np.testing.assert_array_equal(test.outputs[0], test.inputs[0].reshape(3, 4))


def test_without_onnx_runtime_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    test = vectors(QUESTION, import_stage(QUESTION), REFERENCE_FLOPS + 1)
    assert isinstance(test, NoSelfTest)
    assert "pip install onnxruntime" in test.reason


def test_what_onnx_runtime_refuses_is_a_reason() -> None:
    pytest.importorskip("onnxruntime")
    graph = import_stage(QUESTION)
    wrong = Question(reshaping_model(), "r", {"x": (2, 6)})
    test = vectors(wrong, graph, REFERENCE_FLOPS + 1)
    assert isinstance(test, NoSelfTest)
    assert "ONNX Runtime" in test.reason
    assert test.reason.isprintable()


def test_tensors_that_fill_the_memory_are_not_tested() -> None:
    node = onnx.helper.make_node("Neg", ["x"], ["y"])
    ports = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2**31]) for name in "xy"
    ]
    proto = onnx.helper.make_model(onnx.helper.make_graph([node], "g", ports[:1], ports[1:]))
    question = Question(proto, "large")
    test = vectors(question, import_stage(question), 0)
    assert isinstance(test, NoSelfTest)
    assert f"take {2**34} bytes" in test.reason


def test_doubles_come_without_their_last_bits() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "g (double[3, 64] x) => (double[3] y) {"
        " y = ReduceLogSumExp <axes = [1], keepdims = 0> (x) }"
    )
    question = Question(proto, "doubles")
    test = vectors(question, import_stage(question), 0)
    assert isinstance(test, SelfTest)
    (output,) = test.outputs
    np.testing.assert_allclose(
        output, np.log(np.sum(np.exp(test.inputs[0]), axis=1)), rtol=2.0**-29
    )
    scaled = np.frexp(output)[0] * 2.0**30
    np.testing.assert_array_equal(scaled, np.rint(scaled))

"""The graph stage alone: its result runs elsewhere, its report tells what was done."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tasor
from graphopt.onnx_export.errors import ExportError
from tasor.optimize_report import report_page
from tests.tasor.small_models import assert_close, expected_output, small_model


def scaled_model() -> onnx.ModelProto:
    """A convolution with a batch normalisation behind it."""
    rng = np.random.default_rng(0)
    shapes = {"w": (4, 3, 1, 1), "scale": (4,), "shift": (4,), "mean": (4,), "variance": (4,)}
    weights = [
        numpy_helper.from_array(rng.uniform(0.5, 1.0, shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node(
                "BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["y"]
            ),
        ],
        "scaled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_is_saved_computes_the_same_in_onnx_itself(tmp_path: Path) -> None:
    reference = pytest.importorskip("onnx.reference")
    path = tmp_path / "deep" / "optimized.onnx"
    model = scaled_model()
    tasor.optimize(model).save(path)
    x = np.random.default_rng(1).standard_normal((1, 3, 4, 4)).astype(np.float32)
    before, after = (
        reference.ReferenceEvaluator(onnx.load(source) if isinstance(source, Path) else source).run(
            None, {"x": x}
        )[0]
        for source in (model, path)
    )
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)
    assert [item.name for item in path.parent.iterdir()] == ["optimized.onnx"]


def test_it_can_be_compiled_again(tmp_path: Path) -> None:
    path = tmp_path / "optimized.onnx"
    tasor.optimize(small_model(), shapes={"x": (3, 6)}).save(path)
    x = np.ones((3, 6), np.float32)
    assert_close(tasor.compile(path)(x), expected_output(x))


def test_the_report_counts_operators_and_rules() -> None:
    result = tasor.optimize(scaled_model())
    report = result.report
    assert report.nodes_after < report.nodes_before
    assert sum(count for _, count in report.applied) > 0
    assert report.nodes_after == len(result.graph.nodes)
    text = str(report)
    assert f"{report.nodes_before} -> {report.nodes_after} operators" in text
    assert "rules applied:" in text


def test_the_page_holds_names_as_text_only() -> None:
    page = report_page(tasor.optimize(scaled_model()))
    assert page.startswith("<!DOCTYPE html>")
    assert "conv" in page
    assert "<script" not in page


def test_saving_refuses_a_folder(tmp_path: Path) -> None:
    with pytest.raises(tasor.OutputError, match="expected a file, got a folder"):
        tasor.optimize(small_model(), shapes={"x": (3, 6)}).save(tmp_path)


def test_a_failed_export_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise ExportError("model: expected names that ONNX allows, got ''; name them")

    monkeypatch.setattr("tasor.optimized_model.save_model", refused)
    with pytest.raises(ExportError):
        tasor.optimize(small_model(), shapes={"x": (3, 6)}).save(tmp_path / "new" / "o.onnx")
    assert list(tmp_path.iterdir()) == []

"""What the tests of the front door share: a small model, and a cache of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tasor.command_line import main


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the tests away from the user's cache of built libraries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TASOR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def small_model(x: str = "x", y: str = "y") -> onnx.ModelProto:
    """y = relu(x @ w + b) for x of shape [n, 6], with those names of input and output."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (6, 5)), ("b", (5,)))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [x, "w"], ["product"]),
            helper.make_node("Add", ["product", "b"], ["sum"]),
            helper.make_node("Relu", ["sum"], [y]),
        ],
        "small",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["n", 6])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["n", 5])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def reshaping_model() -> onnx.ModelProto:
    """y = x reshaped to the sizes in the input `sizes`."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "sizes"], ["y"])],
        "reshaping",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 6]),
            helper.make_tensor_value_info("sizes", TensorProto.INT64, ["rank"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected_output(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """What the small model gives for x."""
    rng = np.random.default_rng(0)
    w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((6, 5), (5,)))
    return np.maximum(x @ w + b, 0)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The small model as a file."""
    path = tmp_path / "small.onnx"
    onnx.save_model(small_model(), path)
    return path


@pytest.fixture
def tasor_command(
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: (exit code, stdout, stderr)."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run

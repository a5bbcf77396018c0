"""Cases of a comparison: static shapes and seeded inputs."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tasor.peer_cases import (
    CaseError,
    sample_inputs,
    with_constants,
    with_static_shapes,
    write_case,
)
from tensorgen.types import Array


def model(
    *sizes: int | str | None, element: int = TensorProto.FLOAT, name: str = "x"
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Identity", [name], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, element, list(sizes))],
        [helper.make_tensor_value_info("y", element, list(sizes))],
        [helper.make_tensor("w", TensorProto.FLOAT, [1], [0.0])],
    )
    # Old files list their weights among the inputs.
    graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_symbolic_sizes_take_the_given_shape() -> None:
    fixed = with_static_shapes(model("n", 3, None), {"x": (2, 3, 5)})
    onnx.checker.check_model(fixed, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(fixed, strict_mode=True)
    dims = inferred.graph.output[0].type.tensor_type.shape.dim
    assert [size.dim_value for size in dims] == [2, 3, 5]


def test_static_sizes_need_no_shape_and_the_original_stays(tmp_path: Path) -> None:
    original = model(2, 3)
    before = original.SerializeToString()
    case = write_case(tmp_path / "m.onnx", original, name="case", group="group")
    assert case.shapes == {"x": (2, 3)}
    assert case.outputs == ("y",)
    assert original.SerializeToString() == before


@pytest.mark.parametrize(
    ("sizes", "shapes", "message"),
    [
        (("n", 3), {}, r"input 'x': expected a static shape, got \(None, 3\); give its shape"),
        ((-1, 3), {}, "expected a static shape"),
        ((2, 3), {"x": (2, 4)}, r"expected a shape that fits \(2, 3\), got \(2, 4\)"),
        (("n", 3), {"x": (3,)}, "expected a shape that fits"),
        ((2, 3), {"z": (2, 3)}, "shapes: expected names among 'x', got 'z'"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    sizes: tuple[int | str, ...], shapes: dict[str, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(CaseError, match=message):
        with_static_shapes(model(*sizes), shapes)


def test_bound_inputs_are_constants_for_everyone(tmp_path: Path) -> None:
    original = model("n", 3)
    before = original.SerializeToString()
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    case = write_case(
        tmp_path / "m.onnx", original, name="case", group="group", bindings={"x": value}
    )
    assert case.shapes == {}
    written = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(written, full_check=True)
    constants = {tensor.name: tensor for tensor in written.graph.initializer}
    np.testing.assert_array_equal(numpy_helper.to_array(constants["x"]), value)
    assert original.SerializeToString() == before


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("z", np.zeros((2, 3), np.float32), "bindings: expected names among 'x', got 'z'"),
        ("x", np.zeros((2, 3)), "input 'x': expected a value of float32, got float64; convert it"),
        (
            "x",
            np.zeros((2, 4), np.float32),
            r"expected a shape that fits \(None, 3\), got \(2, 4\)",
        ),
        ("w", np.zeros(1, np.float32), "bindings: expected names among 'x', got 'w'"),
    ],
)
def test_values_that_do_not_fit_are_refused(name: str, value: Array, message: str) -> None:
    with pytest.raises(CaseError, match=message):
        with_constants(model("n", 3), {name: value})


def test_names_with_newlines_stay_on_one_line() -> None:
    with pytest.raises(CaseError) as refused:
        with_static_shapes(model("n", name="a\nb"), {})
    assert "\n" not in str(refused.value)


def test_inputs_depend_on_the_seed_alone() -> None:
    ((_, first),) = sample_inputs(model(4, 4), seed=3)
    ((_, again),) = sample_inputs(model(4, 4), seed=3)
    ((_, other),) = sample_inputs(model(4, 4), seed=4)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("shape", [(3, 5), (0, 4), ()])
def test_placed_inputs_begin_at_a_line(tmp_path: Path, shape: tuple[int, ...]) -> None:
    given = np.arange(prod(shape) + 1, dtype=np.float32)[1:].reshape(shape)
    case = write_case(
        tmp_path / "m.onnx", model(*shape), name="m", group="g", inputs=(("x", given),)
    )
    ((name, array),) = case.placed().inputs
    assert name == "x"
    assert array.ctypes.data % 64 == 0
    assert array.shape == shape
    assert array.flags.c_contiguous
    assert np.array_equal(array, given)


@pytest.mark.parametrize(
    ("element", "dtype"),
    [(TensorProto.INT64, np.int64), (TensorProto.UINT8, np.uint8), (TensorProto.INT32, np.int32)],
)
def test_integers_stay_below_their_limit(element: int, dtype: type[np.generic]) -> None:
    ((_, drawn),) = sample_inputs(model(1000, element=element), domains={"x": 7})
    assert drawn.dtype == dtype
    assert drawn.min() == 0
    assert drawn.max() == 6


def test_other_element_types_are_refused() -> None:
    with pytest.raises(CaseError, match="expected floats, integers or booleans, got object"):
        sample_inputs(model(2, element=TensorProto.STRING))

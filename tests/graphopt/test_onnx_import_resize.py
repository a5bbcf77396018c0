"""Resize and Upsample against ONNX Runtime, the graphs they become, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphopt.graph import Graph
from graphopt.onnx_import import ModelError, NeedsConstant
from graphopt.onnx_import.interpolation import (
    LINEAR,
    Coordinates,
    cubic_kernel,
    weighted_taps,
)

MODES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


def image(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).uniform(0, 90, shape).astype(dtype)


def sized(*sizes: int) -> dict[str, Any]:
    return {"sizes": np.array(sizes, np.int64)}


OPERANDS = ["x", "", "", "sizes"]


@pytest.mark.parametrize("coordinates", MODES)
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("size", [(4, 10), (3, 3), (9, 7)])
def test_nearest(
    agree: Callable[..., Graph], coordinates: str, nearest: str, size: tuple[int, int]
) -> None:
    agree(
        "Resize", {"x": image(1, 2, 6, 5)}, OPERANDS, sized(1, 2, *size),
        mode="nearest", nearest_mode=nearest, coordinate_transformation_mode=coordinates,
    )  # fmt: skip


@pytest.mark.parametrize("coordinates", MODES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("size", [(4, 10), (12, 3), (1, 7)])
def test_smooth(
    agree: Callable[..., Graph], coordinates: str, mode: str, size: tuple[int, int]
) -> None:
    agree(
        "Resize", {"x": image(1, 2, 6, 5)}, OPERANDS, sized(1, 2, *size),
        mode=mode, coordinate_transformation_mode=coordinates, rtol=1e-3,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("size", [(7, 4), (2, 30), (20, 3)])
def test_antialias(agree: Callable[..., Graph], mode: str, size: tuple[int, int]) -> None:
    agree(
        "Resize", {"x": image(1, 2, 24, 17)}, OPERANDS, sized(1, 2, *size), mode=mode,
        antialias=1, rtol=1e-3, atol=1e-2,
    )  # fmt: skip


def test_a_sparse_antialias_is_a_reduction(agree: Callable[..., Graph]) -> None:
    graph = agree(
        "Resize", {"x": image(1, 1, 400, 3)}, OPERANDS, sized(1, 1, 100, 3), mode="linear",
        antialias=1, rtol=1e-3, atol=1e-2,
    )  # fmt: skip
    assert "reduce_sum" in {node.op.name for node in graph.nodes}


def test_older_opsets(agree: Callable[..., Graph]) -> None:
    x = {"x": image(1, 2, 4, 5)}
    scales = {"scales": np.array([1, 1, 2, 3], np.float32)}
    for mode in ("nearest", "linear"):
        agree("Upsample", x, constants=scales, opset=9, mode=mode)
        agree("Upsample", x, opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 3.0])
        agree("Resize", x, constants=scales, opset=10, mode=mode)
    smaller = {"scales": np.array([1, 1, 0.6, 0.5], np.float32)}
    agree("Resize", x, constants=smaller, opset=10, mode="nearest")


def test_integers_and_half_floats(agree: Callable[..., Graph]) -> None:
    for dtype in (np.uint8, np.int32, np.int8):
        agree(
            "Resize", {"x": image(1, 1, 4, 5, dtype=dtype)}, OPERANDS, sized(1, 1, 7, 9),
            mode="linear", atol=1,
        )  # fmt: skip
    x = {"x": image(1, 1, 4, 5, dtype=np.float16)}
    agree("Resize", x, OPERANDS, sized(1, 1, 7, 9), mode="linear", rtol=2e-3)


def test_integer_factors_repeat_instead_of_gathering(one_node: Callable[..., Any]) -> None:
    graph = one_node(
        "Resize", {"x": image(1, 2, 3, 4)}, ["x", "", "scales"],
        {"scales": np.array([1, 1, 2, 3], np.float32)},
        mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    ).imported()  # fmt: skip
    assert {node.op.name for node in graph.nodes} == {"reshape", "broadcast_to"}


def test_the_same_size_is_nothing(one_node: Callable[..., Any]) -> None:
    graph = one_node("Resize", {"x": image(1, 2, 3)}, OPERANDS, sized(1, 2, 3)).imported()
    assert graph.nodes == ()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 30), st.integers(1, 30), st.booleans(), st.booleans(), st.booleans(),
    st.sampled_from([*MODES, "half_pixel_symmetric"]),
)  # fmt: skip
def test_weights_sum_to_one_at_positions_inside(
    size: int, out: int, cubic: bool, antialias: bool, exclude: bool, mode: str
) -> None:
    kernel = cubic_kernel(-0.75) if cubic else LINEAR
    coordinates = Coordinates(mode, size, out, out / size, (0.0, 1.0))
    taps = weighted_taps(coordinates, kernel, antialias=antialias, exclude=exclude)
    np.testing.assert_allclose(taps.weights.sum(axis=1), 1, rtol=1e-9)
    assert taps.positions.min() >= 0
    assert taps.positions.max() < size
    np.testing.assert_allclose(taps.matrix(size).sum(axis=1), 1, rtol=1e-9)


@pytest.mark.parametrize(
    ("constants", "attributes", "message"),
    [
        (sized(1, 1, 2, 2), {"mode": "quadratic"}, "mode nearest, linear or cubic"),
        (sized(1, 1, 2), {}, "4 sizes of at most 16777216, got"),
        (sized(1, 1, 2, 2), {"coordinate_transformation_mode": "none"}, "half_pixel"),
        (sized(1, 1, 2, 2), {"nearest_mode": "none"}, "nearest_mode round_prefer_floor"),
        (sized(1, 1, 2, 2), {"keep_aspect_ratio_policy": "none"}, "keep_aspect_ratio_policy"),
        (sized(1, 1, 2, 2), {"axes": [0, 0, 1, 2]}, "axes without repetition"),
    ],
)
def test_refused(
    one_node: Callable[..., Any],
    constants: dict[str, Any],
    attributes: dict[str, Any],
    message: str,
) -> None:
    case = one_node("Resize", {"x": image(1, 1, 3, 3)}, OPERANDS, constants, **attributes)
    with pytest.raises(ModelError, match=message):
        case.imported()


def test_refused_scales(one_node: Callable[..., Any]) -> None:
    for scale in (0, -1, np.inf, np.nan):
        constants = {"scales": np.array([1, scale], np.float32)}
        case = one_node("Resize", {"x": image(3, 3)}, ["x", "", "scales"], constants)
        with pytest.raises(ModelError, match="2 scales above 0"):
            case.imported()
    case = one_node(
        "Resize", {"x": image(3, 3), "sizes": np.array([2, 2], np.int64)}, ["x", "", "", "sizes"]
    )
    with pytest.raises(NeedsConstant, match="the sizes known at compile time"):
        case.imported()


def test_results_without_elements(one_node: Callable[..., Any]) -> None:
    scales = {"scales": np.array([1, 0.3], np.float32)}
    for mode in ("nearest", "linear"):
        case = one_node("Resize", {"x": image(3, 3)}, ["x", "", "scales"], scales, mode=mode)
        assert case.evaluated()[0].shape == (3, 0)

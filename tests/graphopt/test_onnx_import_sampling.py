"""GridSample, DeformConv, RoiAlign and MaxRoiPool against ONNX Runtime, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt.graph import Graph
from graphopt.onnx_import import ModelError, NeedsConstant, UnsupportedOperator


def uniform(*shape: int, low: float = -1, high: float = 1) -> Any:
    return np.random.default_rng(sum(shape)).uniform(low, high, shape).astype(np.float32)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_sample(agree: Callable[..., Graph], mode: str, padding: str, corners: int) -> None:
    arrays = {"x": uniform(2, 3, 5, 4), "grid": uniform(2, 6, 3, 2, low=-1.8, high=1.8)}
    agree("GridSample", arrays, opset=20, mode=mode, padding_mode=padding, align_corners=corners)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_grid_sample_of_volumes(agree: Callable[..., Graph], mode: str) -> None:
    arrays = {"x": uniform(1, 2, 3, 4, 5), "grid": uniform(1, 2, 3, 2, 3, low=-1.3, high=1.3)}
    agree("GridSample", arrays, opset=20, mode=mode, padding_mode="border")


def test_grid_sample_before_opset_20(agree: Callable[..., Graph]) -> None:
    arrays = {"x": uniform(1, 2, 5, 4), "grid": uniform(1, 6, 3, 2)}
    for mode in ("bilinear", "bicubic", "nearest"):
        agree("GridSample", arrays, opset=16, mode=mode)


@pytest.mark.parametrize(
    ("grid", "attributes", "message"),
    [
        (uniform(1, 2, 2, 3), {}, "a grid of shape"),
        (uniform(2, 2, 2, 2), {}, "a grid for each of 1 images"),
        (uniform(1, 2, 2, 2), {"mode": "quartic"}, "mode nearest, linear or cubic"),
        (uniform(1, 2, 2, 2), {"padding_mode": "wrap"}, "padding_mode zeros, border"),
    ],
)
def test_refused_grids(
    one_node: Callable[..., Any], grid: Any, attributes: dict[str, Any], message: str
) -> None:
    case = one_node("GridSample", {"x": uniform(1, 1, 3, 3), "grid": grid}, opset=20, **attributes)
    with pytest.raises(ModelError, match=message):
        case.imported()


def test_deform_conv_without_offsets_is_a_convolution(one_node: Callable[..., Any]) -> None:
    x, w = uniform(2, 4, 6, 5), uniform(6, 2, 3, 2)
    attributes = {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2], "group": 2}
    convolution = one_node("Conv", {"x": x, "w": w}, **attributes)
    (expected,) = convolution.evaluated()
    offsets = np.zeros((2, 2 * 6 * 2, *expected.shape[2:]), np.float32)
    deformed = one_node(
        "DeformConv", {"x": x, "w": w, "offset": offsets}, offset_group=2, **attributes
    )
    np.testing.assert_allclose(deformed.evaluated()[0], expected, rtol=1e-4, atol=1e-5)


def test_deform_conv_refuses_offsets_that_do_not_fit(one_node: Callable[..., Any]) -> None:
    arrays = {"x": uniform(1, 4, 5, 5), "w": uniform(2, 4, 3, 3), "o": uniform(1, 17, 3, 3)}
    with pytest.raises(ModelError, match="operands whose channels fit the groups"):
        one_node("DeformConv", arrays).imported()


REGIONS = np.array(
    [[0, 0, 4, 4], [1.3, 0.2, 7.9, 5.5], [-3, 2, 2, 9], [3, 3, 3.2, 3.1]], np.float32
)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_roi_align(agree: Callable[..., Graph], mode: str, coordinates: str) -> None:
    arrays = {"x": uniform(2, 3, 6, 7, low=0), "rois": REGIONS}
    agree(
        "RoiAlign", arrays, constants={"batch": np.array([0, 1, 1, 0], np.int64)}, mode=mode,
        coordinate_transformation_mode=coordinates, output_height=3, output_width=2,
        sampling_ratio=2, spatial_scale=0.8,
    )  # fmt: skip


def test_roi_align_chooses_samples_by_the_size_of_constant_regions(
    agree: Callable[..., Graph], one_node: Callable[..., Any]
) -> None:
    attributes = {"output_height": 2, "output_width": 2, "spatial_scale": 1.0}
    batch = {"batch": np.zeros(4, np.int64)}
    agree("RoiAlign", {"x": uniform(1, 2, 8, 8)}, ["x", "rois", "batch"],
          {"rois": REGIONS, **batch}, opset=16, **attributes)  # fmt: skip
    case = one_node("RoiAlign", {"x": uniform(1, 2, 8, 8), "rois": REGIONS}, constants=batch,
                    **attributes)  # fmt: skip
    with pytest.raises(NeedsConstant, match="regions of interest"):
        case.imported()


def test_roi_align_before_opset_16_has_no_half_pixel(agree: Callable[..., Graph]) -> None:
    arrays = {"x": uniform(1, 2, 8, 8), "rois": REGIONS}
    agree("RoiAlign", arrays, constants={"batch": np.zeros(4, np.int64)}, opset=10,
          sampling_ratio=3, output_height=2, output_width=2)  # fmt: skip


def test_refused_regions(one_node: Callable[..., Any]) -> None:
    batch = {"batch": np.zeros(4, np.int64)}
    huge = {"rois": REGIONS * np.float32(1e9), **batch}
    case = one_node("RoiAlign", {"x": uniform(1, 1, 4, 4)}, ["x", "rois", "batch"], huge)
    with pytest.raises(UnsupportedOperator, match="at most 4096 samples"):
        case.imported()
    case = one_node(
        "RoiAlign", {"x": uniform(1, 1, 4, 4), "r": REGIONS}, constants=batch, mode="min"
    )
    with pytest.raises(ModelError, match="mode avg or max"):
        case.imported()


def test_max_roi_pool(agree: Callable[..., Graph]) -> None:
    regions = np.array(
        [[0, 0, 0, 4, 4], [1, 1, 2, 7, 5], [1, 3, 3, 3, 3], [0, 5, 1, 9, 9]], np.float32
    )
    arrays = {"x": uniform(2, 3, 6, 7), "rois": regions}
    agree("MaxRoiPool", arrays, pooled_shape=[3, 2], spatial_scale=0.7)

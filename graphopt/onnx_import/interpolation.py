"""Interpolation along one axis, in numbers: where a result lies, and the weights around it.

Computed in float64 when a model is compiled. Coordinates and kernels are those of ONNX's Resize;
the cubic kernel is Keys, "Cubic convolution interpolation for digital image processing", 1981.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorgen.types import Array

COORDINATE_MODES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True, slots=True)
class Kernel:
    """The weight of an element at a distance from a position; zero from `reach` elements on."""

    weight: Callable[[Any], Any]
    reach: int


@dataclass(frozen=True, slots=True)
class Coordinates:
    """How `out` results lie over `size` elements. `region` is the crop, as parts of the size."""

    mode: str
    size: int
    out: int
    scale: float
    region: tuple[float, float]

    @property
    def is_identity(self) -> bool:
        """Whether every result is the element at its own position."""
        if self.size != self.out:
            return False
        return self.size == 0 or np.array_equal(self.positions, np.arange(self.size))

    @property
    def positions(self) -> Any:
        """The position of every result among the elements, float64."""
        x = np.arange(self.out, dtype=np.float64)
        stretched = self.scale * self.size
        match self.mode:
            case "asymmetric":
                return x / self.scale
            case "align_corners":
                return x * 0 if stretched == 1 else x * (self.size - 1) / (stretched - 1)
            case "tf_crop_and_resize":
                start, end = (edge * (self.size - 1) for edge in self.region)
                if stretched == 1:
                    return x * 0 + (start + end) / 2
                return x * (end - start) / (stretched - 1) + start
            case "tf_half_pixel_for_nn":
                return (x + 0.5) / self.scale
            case "pytorch_half_pixel" if self.out <= 1:
                return x * 0
            case "half_pixel_symmetric":
                shift = self.size / 2 * (1 - self.out / stretched)
                return shift + (x + 0.5) / self.scale - 0.5
            case _:
                return (x + 0.5) / self.scale - 0.5

    @property
    def outside(self) -> Any:
        """Which results are not interpolated but given the extrapolation value."""
        if self.mode != "tf_crop_and_resize":
            return np.zeros(self.out, dtype=np.bool_)
        positions = self.positions
        return (positions < 0) | (positions > self.size - 1)


@dataclass(frozen=True, slots=True)
class Taps:
    """For each result the positions it reads and their weights, both (results, taps)."""

    positions: NDArray[np.int64]
    weights: NDArray[np.float64]

    def matrix(self, size: int) -> Array:
        """The weights as a dense matrix (results, elements)."""
        count = self.positions.shape[0]
        result = np.zeros(count * size)
        cells = np.arange(count)[:, None] * size + self.positions
        np.add.at(result, cells.reshape(-1), self.weights.reshape(-1))
        return result.reshape(count, size)


def nearest_positions(coordinates: Coordinates, mode: str) -> Array:
    """The element that each result takes."""
    positions = coordinates.positions
    match mode:
        case "floor":
            rounded = np.floor(positions)
        case "ceil":
            rounded = np.ceil(positions)
        case "round_prefer_floor":
            rounded = np.ceil(positions - 0.5)
        case _:
            rounded = np.floor(positions + 0.5)
    result: Array = np.clip(rounded, 0, coordinates.size - 1).astype(np.int64)
    return result


LINEAR = Kernel(lambda distance: np.maximum(1 - np.abs(distance), 0), reach=1)
"""A triangle."""


def cubic_kernel(a: float) -> Kernel:
    """Keys' cubic with parameter a."""

    def weight(distance: Any) -> Any:
        d = np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    return Kernel(weight, reach=2)


def weighted_taps(
    coordinates: Coordinates, kernel: Kernel, *, antialias: bool, exclude: bool
) -> Taps:
    """The elements that weigh in at each result; beyond the ends the last element is repeated.

    With `antialias` the kernel is stretched where the axis shrinks, so that no element is skipped.
    With `exclude` elements beyond the ends have no weight and the others share it.
    """
    stretch = min(coordinates.scale, 1.0) if antialias else 1.0
    start = int(np.floor(-kernel.reach / stretch)) + 1
    positions = coordinates.positions[:, None]
    elements = np.floor(positions) + np.arange(start, 2 - start)
    weights = kernel.weight((elements - positions) * stretch)
    if antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    if exclude:
        inside = (elements >= 0) & (elements < coordinates.size)
        weights = np.where(inside, weights, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    used = np.any(weights != 0, axis=0)
    used[0] |= not np.any(used)
    clamped = np.clip(elements, 0, coordinates.size - 1).astype(np.int64)
    return Taps(clamped[:, used], weights[:, used])

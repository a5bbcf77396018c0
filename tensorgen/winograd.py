"""Contractions whose windows minimal filtering can compute: which axes are filtered, and by what.

A window is a pair of a result axis and a summed axis by which the data is read at
`result + dilation * tap`, and the weights by the tap alone. One or two windows are filtered; a
third one (the depth of a volume) stays in the sum. The form is found in the indices, whatever
operator they came from.

What it does not: choose how many results a filter makes at once (`sketch_winograd`) or print loops
(`lower_winograd`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorgen.contraction import Contraction
from tensorgen.expr import Axis, Expr, const
from tensorgen.minimal_filtering import MinimalFilter, minimal_filter
from tensorgen.simplify import Affine, simplify
from tensorgen.types import int64, row_major_strides

MOST_TAPS = 5
"""Filters of more taps round too much, or save too little."""


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """The data is read at `output + dilation * tap`."""

    output: Axis
    tap: Axis
    dilation: int

    @property
    def positions(self) -> int:
        """How many elements of the data the window slides over."""
        return self.output.extent + self.dilation * (self.tap.extent - 1)


@dataclass(frozen=True, slots=True)
class FilteredContraction:
    """The axes of a contraction by what they are to minimal filtering.

    `data` is the number of the factor that is filtered, the other factor holds the weights.
    `filtered` are one or two windows, outer first, `window` one that stays in the sum. `batch` axes
    occur in both factors, `images` in the data alone, `features` in the weights alone, and
    `channels` are summed without a window.
    """

    contraction: Contraction
    data: int
    filtered: tuple[WindowAxis, ...]
    window: WindowAxis | None
    batch: tuple[Axis, ...]
    images: tuple[Axis, ...]
    features: tuple[Axis, ...]
    channels: tuple[Axis, ...]

    @property
    def weights(self) -> int:
        """The number of the factor that holds the weights."""
        return 1 - self.data


def filtered_contraction(
    contraction: Contraction, constant: Sequence[bool]
) -> FilteredContraction | None:
    """The contraction as one that can be filtered; None if it has no windows for it.

    `constant` tells for each factor whether it is known at compile time: the weights must be, since
    they are filtered there.
    """
    for data in (0, 1):
        if constant[1 - data]:
            found = _with_data(contraction, data)
            if found is not None:
                return found
    return None


def _with_data(contraction: Contraction, data: int) -> FilteredContraction | None:
    read, weights = contraction.factors[data], contraction.factors[1 - data]
    if contraction.operands[0] == contraction.operands[1]:
        return None
    if not all(read.coefficient(k) and weights.coefficient(k) for k in contraction.reduction):
        return None
    windows = _windows(contraction, read, weights)
    filtered = [w for w in windows if 1 < w.tap.extent <= MOST_TAPS][:2]
    left = [w for w in windows if w not in filtered]
    if not filtered or len(left) > 1:
        return None
    outputs = {w.output for w in windows}
    taps = {w.tap for w in windows}
    groups: dict[str, list[Axis]] = {"batch": [], "images": [], "features": []}
    for axis in contraction.axes:
        if axis in outputs:
            continue
        in_data, in_weights = read.coefficient(axis) != 0, weights.coefficient(axis) != 0
        role = "batch" if in_data == in_weights else "images" if in_data else "features"
        groups[role].append(axis)
    channels = tuple(axis for axis in contraction.reduction if axis not in taps)
    if not channels or not groups["features"]:
        return None
    return FilteredContraction(
        contraction,
        data,
        tuple(reversed(filtered)),
        left[0] if left else None,
        tuple(groups["batch"]),
        tuple(groups["images"]),
        tuple(groups["features"]),
        channels,
    )


def _windows(contraction: Contraction, read: Affine, weights: Affine) -> list[WindowAxis]:
    """The windows, innermost first.

    Any summed axis reads at a multiple of some result axis's step; it is a window only if
    neighbouring results share elements, which they do not across channels.
    """
    found: list[WindowAxis] = []
    free = [a for a in contraction.axes if read.coefficient(a) > 0 and not weights.coefficient(a)]
    for output in sorted(free, key=read.coefficient):
        step = read.coefficient(output)
        for tap in contraction.reduction:
            dilation, rest = divmod(read.coefficient(tap), step)
            taken = any(window.tap == tap for window in found)
            if not rest and not taken and 0 < dilation < output.extent and tap.extent > 1:
                found.append(WindowAxis(output, tap, dilation))
                break
    return found


@dataclass(frozen=True, slots=True)
class FilterGrid:
    """The tiles of one filtered axis: `tiles` of `results` each, in `dilation` phases.

    Tile t of phase p has the results at (t * m + 0 … m - 1) * dilation + p.
    """

    window: WindowAxis | None
    filter: MinimalFilter

    @staticmethod
    def of(window: WindowAxis, results: int) -> FilterGrid:
        """The grid of an axis, `results` at once."""
        return FilterGrid(window, minimal_filter(results, window.tap.extent))

    @property
    def results(self) -> int:
        return len(self.filter.outputs)

    @property
    def points(self) -> int:
        return len(self.filter.inputs)

    @property
    def taps(self) -> int:
        return 1 if self.window is None else self.window.tap.extent

    @property
    def phases(self) -> int:
        return 1 if self.window is None else self.window.dilation

    @property
    def extent(self) -> int:
        """The number of results of the whole axis."""
        return 1 if self.window is None else self.window.output.extent

    @property
    def positions(self) -> int:
        """The number of elements of the data along the axis."""
        return 1 if self.window is None else self.window.positions

    @property
    def tiles(self) -> int:
        """Tiles of one phase."""
        longest = -(-self.extent // self.phases)
        return -(-longest // self.results)

    @property
    def count(self) -> int:
        """Tiles of all phases."""
        return self.tiles * self.phases

    def position(self, tile: Expr, element: Expr | int) -> Expr:
        """Where element 0, 1, … of a tile is; `tile` counts the phases of each tile first."""
        first, phase = coordinates(tile, (self.tiles, self.phases))
        return simplify((first * self.results + element) * self.phases + phase)


TRIVIAL = FilterGrid(None, minimal_filter(1, 1))
"""The outer axis where only one is filtered."""


def coordinates(flat: Expr, extents: Sequence[int]) -> tuple[Expr, ...]:
    """The row-major coordinates of a flat number."""
    result = []
    for extent, stride in zip(extents, row_major_strides(tuple(extents)), strict=True):
        result.append(simplify(flat // stride % extent) if extent != 1 else const(0, int64))
    return tuple(result)

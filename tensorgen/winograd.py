"""Contractions whose windows minimal filtering can compute: which axes are filtered, and by what.

A window is a pair of a result axis and a summed axis by which the data is read at
`stride * result + dilation * tap`, and the weights by the tap alone. One or two windows are
filtered; a third one (the depth of a volume) stays in the sum. The form is found in the indices,
whatever operator they came from.

A window with a stride s is a sum of s windows without: its taps `s * q + p` with the same residue p
are those of a window over every s-th element of the data, from element `dilation * p` on.

    y[i] = sum(p, q) w[s * q + p] x[s * (i + dilation * q) + dilation * p]

A long window is a sum of two as well, each a run of its taps. All parts of a window go by one
filter, that of the longest, so that their products are added up at each point: to the products,
parts are more channels. Those that are a tap shorter have no weight at the filter's last point,
infinity, and no product there: F(4, 2) makes four results of three taps with stride 2 by 5 + 4
products instead of 12, F(3, 4) three results of seven taps by 6 + 5 instead of 21.

What it does not: choose how many results a filter makes at once (`sketch_winograd`) or print loops
(`lower_winograd`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from tensorgen.contraction import Contraction
from tensorgen.expr import Axis, Expr, const
from tensorgen.minimal_filtering import MinimalFilter, Row, minimal_filter
from tensorgen.simplify import Affine, simplify
from tensorgen.types import int64, row_major_strides

MOST_TAPS = 5
"""Filters of more taps, those of one part, round too much, or save too little."""


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """The data is read at `stride * output + dilation * tap`; the two have no common divisor."""

    output: Axis
    tap: Axis
    stride: int
    dilation: int

    @property
    def positions(self) -> int:
        """How many elements of the data the window slides over."""
        last = self.stride * (self.output.extent - 1) + self.dilation * (self.tap.extent - 1)
        return last + 1

    @property
    def parts(self) -> int:
        """The windows without a stride whose sum it is: one for each residue of the taps by the
        stride; without a stride runs of taps, if these are many."""
        if self.stride > 1:
            return self.stride
        return 2 if MOST_TAPS < self.tap.extent <= 2 * MOST_TAPS else 1

    @property
    def taps(self) -> int:
        """Taps of the longest part, the first one."""
        return -(-self.tap.extent // self.parts)

    def in_part(self, part: Expr, number: Expr | int) -> Expr:
        """Which tap is tap 0, 1, … of a part; which element of a tile is element 0, 1, …"""
        return part + number * self.stride if self.stride > 1 else part * self.taps + number

    def at(self, position: Expr) -> dict[Axis, Expr]:
        """Values of both axes by which an index that is affine in them is that of a position."""
        tap = pow(self.dilation, -1, self.stride)
        output = (1 - self.dilation * tap) // self.stride
        return {self.output: simplify(position * output), self.tap: simplify(position * tap)}

    @property
    def slots(self) -> int:
        """Places for the positions, by residue: see `slot`."""
        return -(-self.positions // self.stride) * self.stride

    def slot(self, position: Expr | int) -> Expr:
        """Where a position is if those that consecutive results read with one tap are neighbours:
        one step of the output is one place."""
        whole = const(position, int64) if isinstance(position, int) else position
        return simplify(whole % self.stride * (self.slots // self.stride) + whole // self.stride)


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
    filtered = [w for w in windows if w.taps <= MOST_TAPS][:2]
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

    Any summed axis reads in whole steps of something that is a step of some result axis; it is a
    window only if results share elements, which they do not across channels.
    """
    found: list[WindowAxis] = []
    free = [a for a in contraction.axes if read.coefficient(a) > 0 and not weights.coefficient(a)]
    for output in sorted(free, key=read.coefficient):
        for tap in contraction.reduction:
            step = gcd(read.coefficient(output), read.coefficient(tap))
            stride, dilation = read.coefficient(output) // step, read.coefficient(tap) // step
            taken = any(window.tap == tap for window in found)
            if not taken and 0 < dilation < output.extent and stride < tap.extent:
                found.append(WindowAxis(output, tap, stride, dilation))
                break
    return found


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a window, `count` of them from `first` on, for which the first `points` points of
    the filter have products."""

    first: int
    count: int
    points: int

    def inputs(self, filter: MinimalFilter) -> tuple[Row, ...]:
        """The matrix B^T for these points alone, without the elements that they do not need."""
        rows = filter.inputs[: self.points]
        assert not any(any(row[self.points :]) for row in rows), "only infinity needs the last one"
        return tuple(row[: self.points] for row in rows)


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
        return FilterGrid(window, minimal_filter(results, window.taps))

    @property
    def results(self) -> int:
        return len(self.filter.outputs)

    @property
    def points(self) -> int:
        return len(self.filter.inputs)

    @property
    def taps(self) -> int:
        """Taps of the filter, those of the longest part."""
        return 1 if self.window is None else self.window.taps

    @property
    def stride(self) -> int:
        return 1 if self.window is None else self.window.stride

    @property
    def part_count(self) -> int:
        return 1 if self.window is None else self.window.parts

    @property
    def long_parts(self) -> int:
        """How many parts have all taps of the filter, and a product at its last point; they are
        the first ones."""
        if self.window is None:
            return 1
        return self.window.tap.extent - (self.taps - 1) * self.part_count

    @property
    def parts(self) -> tuple[Parts, ...]:
        """All parts, those with as many points together."""
        long = self.long_parts
        found = (Parts(0, long, self.points), Parts(long, self.part_count - long, self.points - 1))
        return tuple(parts for parts in found if parts.count)

    @property
    def products(self) -> int:
        """Products of a tile, those of all parts."""
        return sum(parts.count * parts.points for parts in self.parts)

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

    def elements(self, folded: bool) -> int:
        """Elements of the data that a tile reads; where parts are `folded`, all have as many."""
        short = 0 if folded else self.part_count - self.long_parts
        if self.stride > 1:
            return self.stride * self.points - short
        return (self.part_count - 1) * self.taps + self.points - short

    def in_part(self, part: Expr, number: Expr | int) -> Expr:
        """Which element of a tile is element 0, 1, … of a part."""
        return part + number if self.window is None else self.window.in_part(part, number)

    def width(self, folded: bool) -> int:
        """Elements of the data from the first that a tile reads to the last, of all tiles."""
        between = self.stride * ((self.tiles - 1) * self.results * self.phases + self.phases - 1)
        return between + self.phases * (self.elements(folded) - 1) + 1

    def element(self, tile: Expr, number: Expr | int) -> Expr:
        """Where element 0, 1, … that a tile reads is. `tile` counts all phases of one tile, then
        those of the next."""
        first, phase = coordinates(tile, (self.tiles, self.phases), exists=True)
        start = (first * (self.results * self.stride) + number) * self.phases
        return simplify(start + phase * self.stride)

    def result(self, tile: Expr, number: Expr | int) -> Expr:
        """Where result 0, 1, … of a tile is."""
        first, phase = coordinates(tile, (self.tiles, self.phases), exists=True)
        return simplify((first * self.results + number) * self.phases + phase)


TRIVIAL = FilterGrid(None, minimal_filter(1, 1))
"""The outer axis where only one is filtered."""


def coordinates(flat: Expr, extents: Sequence[int], *, exists: bool = False) -> tuple[Expr, ...]:
    """The row-major coordinates of a flat number; of one that `exists`, which is one of them
    whatever its range says, the first that is not always 0 needs no remainder."""
    result: list[Expr] = []
    whole = exists
    for extent, stride in zip(extents, row_major_strides(tuple(extents)), strict=True):
        if extent == 1:
            result.append(const(0, int64))
            continue
        place = flat // stride if whole else flat // stride % extent
        result.append(simplify(place))
        whole = False
    return tuple(result)

"""Transposed convolutions taken apart for the compiler, so that no zero is multiplied.

Results whose positions leave the same remainder by the stride form a phase. Those of one phase read
the same taps, from fixed distances: a convolution of stride 1 over the elements of x.

Where every phase has equally many taps and reads an affine place, all of them are one sum of
products with the phases as axes of its result. What interleaves them is the layout of that result,
which costs nothing; the taps are sorted at compile time. Otherwise each phase is a convolution of
its own, and a pass interleaves them.

With few output channels a tile of such sums has few accumulators, and each multiply-add waits for
the one before. Then all products of elements with taps come first, in which the taps are further
output channels, and a pass adds up those that meet.

What it does not: choose loops or tiles (`tensorgen.sketch`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase

from graphopt.graph import Node, Value
from graphopt.ops import OP
from graphopt.terms import (
    broadcast_to,
    concat,
    pad,
    reshape,
    scalar,
    slice_all,
    transpose,
)
from tensorgen.dialects import vector_dialect
from tensorgen.target import Target
from tensorgen.tile_costs import MULTIPLY_ADD_LATENCY
from tensorgen.types import Shape

ADDED = 0.4
"""Cycles for a product that a pass of its own adds up: it is stored, padded and read again. Fitted
on Sapphire Rapids to layers of 4 to 64 input and 1 to 16 output channels, and 3 to 64 taps."""


@dataclass(frozen=True, slots=True)
class _Spatial:
    """One spatial axis of a transposed convolution. Position o of the result receives
    `x[i] * w[k]` where `i * stride + k * dilation == o + before`."""

    size: int
    taps: int
    stride: int
    dilation: int
    before: int
    result: int

    @property
    def rows(self) -> int:
        """Results of a phase; the last row may be cut."""
        return -(-self.result // self.stride)

    @property
    def halves(self) -> int | None:
        """Into how many parts the phases fall, in each of which all read from the same place.

        The second reads one element further. None unless each phase has equally many taps and the
        parts are equally long.
        """
        if self.dilation != 1 or self.taps % self.stride:
            return None
        beyond = self.before % self.stride
        return 1 if beyond == 0 else 2 if 2 * beyond == self.stride else None

    @property
    def first(self) -> int:
        """The element of x that the last tap of the first half reads for row 0."""
        return self.before // self.stride - (self.taps // self.stride - 1)

    @property
    def reach(self) -> int:
        """Elements from there to the last that is read."""
        assert self.halves is not None
        return self.rows + (self.taps // self.stride - 1) + (self.halves - 1)


def in_phases(node: Node, target: Target | None = None) -> Value:
    """A transposed convolution by operators that have kernels.

    Which of them are faster on a target may decide the order in which products are added; without
    one it is always the same.
    """
    assert node.op.name == "conv_transpose", node
    x, w = node.inputs
    axes = tuple(_spatial_axes(node))
    if all(axis.halves is not None for axis in axes):
        taps_first = target is not None and _taps_first(node, axes, target)
        sums = (_by_taps if taps_first else _together)(*_in_groups(node), axes)
        (n, *_), (channels, *_) = x.type.shape, w.type.shape
        whole = reshape(sums, (n, channels, *(axis.rows * axis.stride for axis in axes)))
    else:
        whole = _apart(x, w, axes, _groups(node))
    return slice_all(whole, (0,) * whole.type.rank, (1,) * whole.type.rank, node.type.shape)


def _groups(node: Node) -> int:
    groups = node.param("groups")
    assert isinstance(groups, int)
    return groups


def _in_groups(node: Node) -> tuple[Value, Value]:
    """x as (n, groups, channels, size, …) and w as (groups, outputs, channels, taps, …)."""
    x, w = node.inputs
    groups = _groups(node)
    n, channels, *sizes = x.type.shape
    outputs, _, *taps = w.type.shape
    return (
        reshape(x, (n, groups, channels // groups, *sizes)),
        reshape(w, (groups, outputs // groups, channels // groups, *taps)),
    )


def _spatial_axes(node: Node) -> Iterator[_Spatial]:
    x, w = node.inputs
    for axis in range(x.type.rank - 2):
        stride, dilation, before = (
            _entry(node, name, axis) for name in ("strides", "dilations", "pads")
        )
        size, taps, result = (value.type.shape[2 + axis] for value in (x, w, node))
        yield _Spatial(size, taps, stride, dilation, before, result)


def _entry(node: Node, name: str, axis: int) -> int:
    values = node.param(name)
    assert isinstance(values, tuple)
    number = values[axis]
    assert isinstance(number, int)
    return number


# All phases together


def _together(windows: Value, taps: Value, axes: Sequence[_Spatial]) -> Value:
    """out[n, g, o, i, h, r, …] = sum(c, a, …) x[n, g, c, i + h + a, …] * w[g, o, c, a, h, r, …].

    Position `i * stride + h * (stride / halves) + r` of the result; a numbers the taps of a phase
    from the last to the first.
    """
    names = iter(ascii_lowercase)
    batch, group, output, channel = (next(names) for _ in range(4))
    read, weighed, made = batch + group + channel, group + output + channel, batch + group + output
    windows = _window(windows, [axis.first for axis in axes], [axis.reach for axis in axes])
    for axis in axes:
        place, element, half, phase = (next(names) for _ in range(4))
        windows = _read_places(windows, axis, len(read))
        taps = _by_phase(taps, axis, len(weighed))
        read += place + element + half
        weighed += element + half + phase
        made += place + half + phase
    return OP["einsum"](windows, taps, equation=f"{read},{weighed}->{made}")


def _taps_first(node: Node, axes: Sequence[_Spatial], target: Target) -> bool:
    """Whether tiles of one phase idle for longer than it takes to add up products afterwards.

    A tile spans the output channels of a group and a row of one phase. In one step of its sum every
    accumulator adds a product, which takes as long as the latency of that at least, and as long as
    loading what it reads: vectors that lie across lines of the cache, and an element for each row.
    """
    x, w = node.inputs
    dialect = vector_dialect(target.isa, x.type.dtype)
    if dialect is None or all(axis.taps == axis.stride for axis in axes):
        return False
    groups = _groups(node)
    rows, channels = w.type.shape[0] // groups, x.type.shape[1] // groups
    vectors = -(-axes[-1].rows // dialect.lanes)
    computing = rows * vectors / dialect.multiply_adds_per_cycle
    loading = (2 * vectors + rows) / dialect.loads_per_cycle
    idle = max(MULTIPLY_ADD_LATENCY, loading, computing) - computing
    return channels * idle > ADDED * rows * vectors * dialect.lanes


def _by_taps(x: Value, taps: Value, axes: Sequence[_Spatial]) -> Value:
    """The same sums in another order, all products of an element with all taps first:

    made[n, g, o, a, h, r, …, i, …] = sum(c) x[n, g, c, i, …] * w[g, o, c, a, h, r, …]
    out[n, g, o, i, h, r, …] = sum(a, …) made[n, g, o, a, h, r, …, i + h + a, …]
    """
    names = iter(ascii_lowercase)
    batch, group, output, channel = (next(names) for _ in range(4))
    parts: list[str] = []
    for axis in axes:
        taps = _by_phase(taps, axis, 3 + 3 * len(parts))
        parts.append("".join(next(names) for _ in ("element", "half", "phase")))
    places = [next(names) for _ in axes]
    results, each, where = batch + group + output, "".join(parts), "".join(places)
    read, weighed = batch + group + channel + where, group + output + channel + each
    made: Value = OP["einsum"](x, taps, equation=f"{read},{weighed}->{results}{each}{where}")
    made = _window(made, [axis.first for axis in axes], [axis.reach for axis in axes])
    for number, axis in enumerate(axes):
        made = _read_places(made, axis, len(results + each) + 3 * number)
    met = "".join(place + part[:2] for place, part in zip(places, parts, strict=True))
    kept = "".join(place + part[1:] for place, part in zip(places, parts, strict=True))
    return OP["einsum"](made, equation=f"{results}{each}{met}->{results}{kept}")


def _read_places(x: Value, axis: _Spatial, position: int) -> Value:
    """x with an axis at `position` as (rows, taps of a phase, halves): element (i, a, h) is the
    one that tap a from the last reads for row i in half h."""
    assert axis.halves is not None
    x = OP["unfold"](x, axis=position, size=axis.halves)
    return OP["unfold"](x, axis=position, size=axis.taps // axis.stride)


def _window(x: Value, starts: Sequence[int], lengths: Sequence[int]) -> Value:
    """Elements start … start + length - 1 along each of the last axes, zero beyond its ends."""
    leading = x.type.shape[: x.type.rank - len(starts)]
    sizes = x.type.shape[len(leading) :]
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    low = [max(start, 0) for start in starts]
    high = [min(end, size) for end, size in zip(ends, sizes, strict=True)]
    kept = tuple(last - first for first, last in zip(low, high, strict=True))
    if any(size <= 0 for size in kept):
        return broadcast_to(scalar(0, x.type.dtype), (*leading, *lengths))
    none = (0,) * len(leading)
    inside = slice_all(x, (*none, *low), (1,) * x.type.rank, (*leading, *kept))
    before = tuple(first - start for first, start in zip(low, starts, strict=True))
    after = tuple(end - last for end, last in zip(ends, high, strict=True))
    return pad(inside, (*none, *before), (*none, *after))


def _by_phase(w: Value, axis: _Spatial, position: int) -> Value:
    """w with the axis of taps at `position` as (taps of a phase, halves, phases of a half).

    Tap k of phase p is `w[p + k * stride]`; the phase of the results in half h is
    `(h * stride / halves + r + before) % stride`, so that two halves have changed places.
    """
    assert axis.halves is not None
    before, after = w.type.shape[:position], w.type.shape[position + 1 :]
    shape = (axis.taps // axis.stride, axis.halves, axis.stride // axis.halves)
    split = reshape(w, (*before, *shape, *after))
    starts, steps = [0] * split.type.rank, [1] * split.type.rank
    for place in (position, position + 1):
        starts[place], steps[place] = split.type.shape[place] - 1, -1
    return slice_all(split, starts, steps, split.type.shape)


# Each phase on its own


def _apart(x: Value, w: Value, axes: tuple[_Spatial, ...], groups: int) -> Value:
    """A convolution for each phase, interleaved: results (n, oc, rows * stride, …)."""
    rank = len(axes)
    strides = tuple(axis.stride for axis in axes)
    phases = [
        _phase(x, w, axes, remainders, groups)
        for remainders in product(*(range(stride) for stride in strides))
    ]
    n, channels, *rows = phases[0].type.shape
    stacked = concat([reshape(part, (1, *part.type.shape)) for part in phases], 0)
    split = reshape(stacked, (*strides, n, channels, *rows))
    order = [rank, rank + 1]
    for axis in range(rank):
        order += [rank + 2 + axis, axis]
    merged = tuple(axis.rows * axis.stride for axis in axes)
    return reshape(transpose(split, order), (n, channels, *merged))


def _phase(x: Value, w: Value, axes: tuple[_Spatial, ...], remainders: Shape, groups: int) -> Value:
    """The results at positions remainder + row * stride: (n, oc, rows…).

    Tap k is read at row + shift - (k * dilation - phase) / stride, where that divides.
    """
    starts, steps, counts, apart, first, reach = [], [], [], [], [], []
    for axis, remainder in zip(axes, remainders, strict=True):
        shift, phase = divmod(remainder + axis.before, axis.stride)
        used = [k for k in range(axis.taps) if (k * axis.dilation - phase) % axis.stride == 0]
        if not used:
            shape = (x.type.shape[0], w.type.shape[0], *(axis.rows for axis in axes))
            return broadcast_to(scalar(0, x.type.dtype), shape)
        places = [shift - (k * axis.dilation - phase) // axis.stride for k in used]
        starts.append(used[-1])
        steps.append(used[0] - used[1] if len(used) > 1 else -1)
        counts.append(len(used))
        apart.append(places[0] - places[1] if len(used) > 1 else 1)
        first.append(places[-1])
        reach.append(places[0] - places[-1] + axis.rows)
    taken = slice_all(w, (0, 0, *starts), (1, 1, *steps), (*w.type.shape[:2], *counts))
    return OP["conv"](
        _window(x, first, reach),
        taken,
        strides=(1,) * len(axes),
        pads=(0,) * (2 * len(axes)),
        dilations=tuple(apart),
        groups=groups,
    )

"""Gathering from an array by one broadcastable index array for each axis, with few copies.

`gather(x, (i, j))` is `x[i, j]` of numpy's advanced indexing. Axes whose indices vary along
disjoint dimensions of the grid are independent: each becomes a slice where its indices are an
arithmetic progression (a view, no copy), else a `take` along that axis alone. Only axes that share
a dimension are merged and indexed together. What it does not: check bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorgen.types import Array, row_major_strides


@dataclass(frozen=True, slots=True)
class _Group:
    """Axes of the array whose indices vary along the same dimensions of the grid."""

    axes: tuple[int, ...]
    dimensions: tuple[int, ...]


def gather(array: Array, indices: Sequence[Any], rank: int) -> Array:
    """The elements of a nonempty `array` at `indices`, as a grid of `rank` dimensions.

    Each index array has `rank` dimensions, is within bounds, and has size one where it does not
    vary; so does the result.
    """
    groups = _independent_groups(indices)
    extents = np.broadcast_shapes(*(index.shape for index in indices)) if indices else ()
    keys: list[Any] = [slice(None)] * array.ndim
    for axis, index in enumerate(indices):
        if index.size == 1:
            keys[axis] = int(index.flat[0])
    sliced: set[_Group] = set()
    for group in groups:
        if len(group.axes) == 1:
            (axis,) = group.axes
            section = _progression(indices[axis].reshape(-1))
            if section is not None:
                keys[axis] = section
                sliced.add(group)
    kept = [axis for axis in range(array.ndim) if not isinstance(keys[axis], int)]
    part = np.asarray(array[tuple(keys)])
    order = [kept.index(axis) for group in groups for axis in group.axes]
    merged = [
        part.shape[kept.index(group.axes[0])]
        if group in sliced
        else int(np.prod([array.shape[axis] for axis in group.axes]))
        for group in groups
    ]
    part = part.transpose(order).reshape(merged)
    for position, group in enumerate(groups):
        if group not in sliced:
            part = _take(part, position, _merged_index(array, indices, group))
    return _as_grid(part, groups, extents, rank)


def _varying(index: Any) -> frozenset[int]:
    return frozenset(d for d, extent in enumerate(index.shape) if extent > 1)


def _independent_groups(indices: Sequence[Any]) -> list[_Group]:
    """The finest partition of the varying axes in which no two parts share a dimension."""
    groups: list[_Group] = []
    for axis, index in enumerate(indices):
        dimensions = _varying(index)
        if not dimensions:
            continue
        related = [group for group in groups if dimensions & set(group.dimensions)]
        groups = [group for group in groups if group not in related]
        axes = sorted({axis, *(a for group in related for a in group.axes)})
        union = sorted(dimensions.union(*(group.dimensions for group in related)))
        groups.append(_Group(tuple(axes), tuple(union)))
    return groups


def _merged_index(array: Array, indices: Sequence[Any], group: _Group) -> Any:
    """One flat index into the merged axes of a group, over all its dimensions."""
    strides = row_major_strides(tuple(array.shape[axis] for axis in group.axes))
    total: Any = 0
    for axis, stride in zip(group.axes, strides, strict=True):
        index = indices[axis]
        own = index.reshape([index.shape[d] for d in group.dimensions])
        total = total + (own if stride == 1 else own * stride)
    return total.reshape(-1)


def _progression(index: Any) -> slice | None:
    """The slice that selects these indices, if they are evenly spaced and distinct."""
    first, last = int(index[0]), int(index[-1])
    step = int(index[1]) - first
    if step == 0 or last - first != step * (index.size - 1) or not (np.diff(index) == step).all():
        return None
    stop = last + (1 if step > 0 else -1)
    return slice(first, None if stop < 0 else stop, step)


def _take(array: Array, axis: int, index: Any) -> Array:
    section = _progression(index)
    if section is None:
        return np.asarray(np.take(array, index, axis=axis, mode="clip"))
    return np.asarray(array[(slice(None),) * axis + (section,)])


def _as_grid(array: Array, groups: Sequence[_Group], extents: Sequence[int], rank: int) -> Array:
    """Split each merged axis into its dimensions and put them where the grid has them."""
    dimensions = [d for group in groups for d in group.dimensions]
    split = array.reshape([extents[d] for d in dimensions])
    ordered = split.transpose(np.argsort(dimensions)) if dimensions else split
    view: Array = ordered[tuple(slice(None) if d in dimensions else None for d in range(rank))]
    return view

"""Index arithmetic of a reshape: the indices of one shape from those of another of equal size.

Groups of axes whose products agree are independent. Within a group the strides of both shapes cut
the linear index into digits; where each stride divides the next, every index is a sum of digits of
single axes (`i // 4`, `i % 4`, `i * 4 + j`), which simplifies well. Only groups without that chain
of divisors, and sizes that are not known, are flattened and taken apart again: the same index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

from tensorgen.expr import Expr, const
from tensorgen.types import Shape, int64, row_major_strides


def reshaped_indices(source: Shape, target: Shape, axes: Sequence[Expr]) -> tuple[Expr, ...]:
    """The indices into `source` of the element at `axes` of `target`, both row-major."""
    assert prod(source) == prod(target)
    if not all(isinstance(size, int) for size in (*source, *target)):
        linear = _sum_of([(const(0, int64), 1), *zip(axes, row_major_strides(target), strict=True)])
        return tuple(_by_linear_index(source, row_major_strides(source), linear))
    result: list[Expr] = [const(0, int64)] * len(source)
    if prod(source) == 0:
        return tuple(result)
    for source_axes, target_axes in _aligned_groups(source, target):
        sizes = tuple(source[axis] for axis in source_axes)
        extents = tuple(target[axis] for axis in target_axes)
        indices = _group_indices(sizes, extents, [axes[axis] for axis in target_axes])
        for axis, index in zip(source_axes, indices, strict=True):
            result[axis] = index
    return tuple(result)


def _aligned_groups(source: Shape, target: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """The smallest runs of axes, outermost first, of equal size in both; axes of one left out."""
    sources = [axis for axis, size in enumerate(source) if size != 1]
    targets = [axis for axis, size in enumerate(target) if size != 1]
    while sources:
        left, right = [sources.pop(0)], [targets.pop(0)]
        while (size := prod(source[a] for a in left)) != (other := prod(target[a] for a in right)):
            if size < other:
                left.append(sources.pop(0))
            else:
                right.append(targets.pop(0))
        yield left, right


def _group_indices(sizes: Shape, extents: Shape, axes: Sequence[Expr]) -> list[Expr]:
    strides, target_strides = row_major_strides(sizes), row_major_strides(extents)
    bounds = sorted({*strides, *target_strides, prod(sizes)})
    if any(high % low for low, high in pairwise(bounds)):
        return _by_linear_index(sizes, strides, _sum_of(zip(axes, target_strides, strict=True)))
    terms: list[list[tuple[Expr, int]]] = [[] for _ in sizes]
    for low, high in reversed(list(pairwise(bounds))):
        owner = next(n for n, stride in enumerate(target_strides) if stride <= low)
        digit = axes[owner]
        if low > target_strides[owner]:
            digit = digit // (low // target_strides[owner])
        if high < target_strides[owner] * extents[owner]:
            digit = digit % (high // low)
        receiver = next(n for n, stride in enumerate(strides) if stride <= low)
        terms[receiver].append((digit, low // strides[receiver]))
    return [_sum_of(parts) for parts in terms]


def _by_linear_index(sizes: Shape, strides: Shape, linear: Expr) -> list[Expr]:
    result = []
    for position, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        quotient = linear if position == len(sizes) - 1 else linear // stride
        result.append(quotient if position == 0 else quotient % size)
    return result


def _sum_of(terms: Iterator[tuple[Expr, int]] | Sequence[tuple[Expr, int]]) -> Expr:
    products = [term if weight == 1 else term * weight for term, weight in terms]
    total = products[0]
    for product in products[1:]:
        total = total + product
    return total

"""The numpy interpreter of tensor expressions: the meaning of index notation, run directly.

What it does: evaluates every element of a tensor expression at once over the grid of its axes.
Each axis position is one dimension of the grid; a value is an array that broadcasts against it,
of size one wherever it does not vary, so index arithmetic stays small. A mask follows each branch
of a `Select`: a load must be in bounds where its mask holds, and is clamped elsewhere.
What it does not: schedule, or promise an order of summation.

Memory: outputs are cut into boxes for which no array that is made on the way holds more than about
`GRID_ELEMENTS`, or `PLAIN_ELEMENTS` without reductions. Sums of products never make the product.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np

from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Const,
    Expr,
    Fold,
    Load,
    Reduce,
    Select,
    TensorExpr,
    canonical,
    children,
    loads,
    neutral_element,
    operand_name,
    walk,
)
from tensorgen.gather import gather
from tensorgen.types import Array, DType, type_of

GRID_ELEMENTS = 2**22
"""A box of outputs is cut in half while an array has more elements than this."""

PLAIN_ELEMENTS = 2**20
"""The same without reductions: every step writes a whole box, which should stay in the caches."""

_FOLDS: dict[Fold, np.ufunc] = {
    Fold.SUM: np.add,
    Fold.PRODUCT: np.multiply,
    Fold.MAX: np.maximum,
    Fold.MIN: np.minimum,
}

Box = tuple[tuple[int, int], ...]
"""Half-open ranges of the output axes."""


def evaluate(expr: TensorExpr, operands: Sequence[Array]) -> Array:
    """The tensor that `expr` defines, over operands 0, 1, … of exactly the types it loads.

    float16 and bfloat16 are computed in float32; explicit casts and the stored result round.
    Raises IndexError if a load is out of bounds where its value is asked for.
    """
    expr = canonical(expr.axes, expr.body)
    for load in loads(expr.body):
        found = type_of(operands[load.operand])
        assert found == load.type, (
            f"operand {operand_name(load.operand)}: expected {load.type}, got {found}"
        )
    result = np.empty(expr.type.shape, expr.type.dtype.numpy)
    if expr.type.size == 0:
        return result
    facts = _Facts.of(expr)
    whole = tuple((0, axis.extent) for axis in expr.axes)
    with np.errstate(all="ignore"):
        for box in _boxes(whole, facts):
            value = _Grid(box, len(box) + len(facts.reduced), facts, operands).value(
                expr.body, _EVERYWHERE
            )
            inner = value.reshape(value.shape[: len(box)])
            result[tuple(slice(low, high) for low, high in box)] = inner
    return result


def _boxes(box: Box, facts: _Facts) -> Iterator[Box]:
    """Cut a box in half, along the outermost divisible axis of its largest array, until that is
    small enough."""
    sizes = [*(high - low for low, high in box), *facts.reduced]
    largest = max(facts.made, key=lambda axes: _product(sizes, axes))
    most = GRID_ELEMENTS if facts.reduced else PLAIN_ELEMENTS
    divisible = [axis for axis in sorted(largest) if axis < len(box) and sizes[axis] > 1]
    if _product(sizes, largest) <= most or not divisible:
        yield box
        return
    axis = divisible[0]
    low, high = box[axis]
    middle = (low + high) // 2
    for half in ((low, middle), (middle, high)):
        yield from _boxes((*box[:axis], half, *box[axis + 1 :]), facts)


def _product(sizes: Sequence[int], axes: Iterable[int]) -> int:
    return math.prod(sizes[axis] for axis in axes)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What one pass over the distinct subterms of an expression tells."""

    reduced: tuple[int, ...]
    """Extents of the dimensions of the grid behind the output axes: for the deepest nest of
    reductions, each as long as the longest axis of its position."""
    made: frozenset[frozenset[int]]
    """The dimensions that arrays vary along which are made on the way."""
    shared: frozenset[bytes]
    """Terms with more than one parent: the only ones worth remembering."""
    loading: frozenset[bytes]
    """Terms that contain a load: the only ones that a mask matters to."""

    @staticmethod
    def of(expr: TensorExpr) -> _Facts:
        outputs = len(expr.axes)
        parents: Counter[bytes] = Counter()
        varying: dict[bytes, frozenset[int]] = {}
        extents: dict[int, int] = {}
        made: dict[bytes, frozenset[int]] = {}
        loading: set[bytes] = set()
        for term in walk(expr.body):
            parts = children(term)
            parents.update(part.digest for part in parts)
            axes = frozenset[int]().union(*(varying[part.digest] for part in parts))
            if isinstance(term, Axis):
                axes = frozenset({term.position})
            if isinstance(term, Reduce):
                own = {axis.position: axis.extent for axis in term.axes}
                extents |= {p: max(n, extents.get(p, 1)) for p, n in own.items()}
                summed = frozenset(own)
                if _factors(term) and summed <= axes:
                    made.pop(term.body.digest, None)
                else:
                    made[term.body.digest] = axes | summed
                axes -= summed
            varying[term.digest] = made[term.digest] = axes
            if isinstance(term, Load) or any(part.digest in loading for part in parts):
                loading.add(term.digest)
        shared = frozenset(digest for digest, count in parents.items() if count > 1)
        made |= {digest: varying[digest] for digest in shared - made.keys()}
        reduced = tuple(extents.get(p, 1) for p in range(outputs, max(extents, default=-1) + 1))
        return _Facts(reduced, frozenset(made.values()), shared, frozenset(loading))


def _factors(term: Reduce) -> tuple[Expr, ...]:
    """The two terms whose products it sums; none if it is no sum of products."""
    match term:
        case Reduce(fold=Fold.SUM, body=Apply(op=op, args=args)) if op.name == "mul":
            return args
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class _Mask:
    """Where a value is asked for: a conjunction of conditions, named by digest and polarity."""

    conditions: frozenset[tuple[bytes, bool]]
    array: Any

    def restricted(self, condition: Expr, value: Any, taken: bool) -> _Mask:
        """This mask where `condition`, of that value, is `taken`."""
        where = value if taken else np.logical_not(value)
        array = where if self.array is None else np.logical_and(self.array, where)
        return _Mask(self.conditions | {(condition.digest, taken)}, array)


_EVERYWHERE = _Mask(frozenset(), None)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The evaluation of one box of outputs. Values are arrays of `rank` dimensions."""

    box: Box
    rank: int
    facts: _Facts
    operands: Sequence[Array]
    known: dict[tuple[bytes, frozenset[tuple[bytes, bool]]], Any] = field(default_factory=dict)

    def value(self, term: Expr, mask: _Mask) -> Any:
        """The value of a term, right wherever `mask` holds."""
        if term.digest not in self.facts.loading:
            mask = _EVERYWHERE
        if term.digest not in self.facts.shared:
            return self._value(term, mask)
        key = (term.digest, mask.conditions)
        if key not in self.known:
            self.known[key] = self._value(term, mask)
        return self.known[key]

    def _value(self, term: Expr, mask: _Mask) -> Any:
        match term:
            case Const():
                return self._constant(term)
            case Axis():
                return self._axis(term)
            case Load():
                return self._load(term, mask)
            case Apply():
                result = term.op.numpy(*(self.value(arg, mask) for arg in term.args))
                return np.asarray(result, dtype=term.dtype.computed.numpy)
            case Cast():
                value = self.value(term.arg, mask)
                if term.bits:
                    return reinterpret(value, term.arg.dtype, term.dtype)
                return convert(value, term.dtype)
            case Select():
                return self._select(term, mask)
            case Reduce():
                return self._reduce(term, mask)
            case _:
                assert_never(term)

    def _constant(self, term: Const) -> Any:
        value = np.full((1,) * self.rank, term.value, term.dtype.numpy)
        return value.astype(term.dtype.computed.numpy)

    def _axis(self, axis: Axis) -> Any:
        output = axis.position < len(self.box)
        low, high = self.box[axis.position] if output else (0, axis.extent)
        after = self.rank - axis.position - 1
        return np.arange(low, high).reshape((1,) * axis.position + (-1,) + (1,) * after)

    def _load(self, load: Load, mask: _Mask) -> Any:
        operand = self.operands[load.operand]
        indices = [
            self._checked(load, axis, self.value(index, mask), mask)
            for axis, index in enumerate(load.indices)
        ]
        computed = load.dtype.computed.numpy
        if operand.size == 0:
            return np.zeros((1,) * self.rank, computed)
        return gather(operand, indices, self.rank).astype(computed, copy=False)

    def _checked(self, load: Load, axis: int, index: Any, mask: _Mask) -> Any:
        """The index, clamped; IndexError if it is out of bounds where the mask holds."""
        size = load.type.shape[axis]
        if index.min() >= 0 and index.max() < size:
            return index
        outside = (index < 0) | (index >= size)
        wrong = outside if mask.array is None else outside & mask.array
        if wrong.any():
            found = np.broadcast_to(index, wrong.shape)[wrong].flat[0]
            raise IndexError(
                f"load of {operand_name(load.operand)}: expected an index of axis {axis} "
                f"below {size}, got {found}"
            )
        return np.clip(index, 0, max(size - 1, 0))

    def _select(self, term: Select, mask: _Mask) -> Any:
        condition = self.value(term.condition, mask)
        if condition.all():
            return self.value(term.then, mask)
        if not condition.any():
            return self.value(term.otherwise, mask)
        then, otherwise = (
            self.value(branch, mask.restricted(term.condition, condition, taken))
            if branch.digest in self.facts.loading
            else self.value(branch, mask)
            for branch, taken in ((term.then, True), (term.otherwise, False))
        )
        return np.where(condition, then, otherwise)

    def _reduce(self, term: Reduce, mask: _Mask) -> Any:
        if math.prod(axis.extent for axis in term.axes) == 0:
            return self._constant(neutral_element(term.fold, term.dtype))
        positions = tuple(axis.position for axis in term.axes)
        body = term.body
        factors = [self.value(factor, mask) for factor in _factors(term)]
        if factors:
            varying = [extent > 1 for extent in np.broadcast_shapes(*(f.shape for f in factors))]
            if all(axis.extent == 1 or varying[axis.position] for axis in term.axes):
                return _sum_of_product(factors, positions)
            value = factors[0] * factors[1]
        else:
            value = self.value(body, mask)
        shape = list(value.shape)
        for axis in term.axes:
            shape[axis.position] = axis.extent
        spread = np.broadcast_to(value, shape)
        computed = term.dtype.computed.numpy
        if term.fold in (Fold.SUM, Fold.PRODUCT):
            return _FOLDS[term.fold].reduce(spread, axis=positions, dtype=computed, keepdims=True)
        return _FOLDS[term.fold].reduce(spread, axis=positions, keepdims=True)


def _sum_of_product(factors: Sequence[Any], positions: tuple[int, ...]) -> Any:
    """`sum(positions) x * y` as a contraction, which never spreads the product over the grid."""
    x, y = factors
    varying = [[d for d, extent in enumerate(value.shape) if extent > 1] for value in factors]
    kept = sorted({*varying[0], *varying[1]} - set(positions))
    extents = np.broadcast_shapes(x.shape, y.shape)
    contracted = np.einsum(
        x.reshape([x.shape[d] for d in varying[0]]),
        varying[0],
        y.reshape([y.shape[d] for d in varying[1]]),
        varying[1],
        kept,
        optimize=True,
    )
    shape = [extent if d in kept else 1 for d, extent in enumerate(extents)]
    return np.asarray(contracted).reshape(shape)


def convert(value: Any, to: DType) -> Any:
    """The values as `to`, in its computed type: see `expr.Cast` for rounding and saturation."""
    if to.is_integer and np.issubdtype(value.dtype, np.floating):
        limits = np.iinfo(to.name)
        whole = np.trunc(np.nan_to_num(value.astype(np.float64), nan=0.0))
        # The largest value of a 64-bit type is no float64: stop below and set it afterwards.
        highest = float(limits.max)
        highest = highest if int(highest) == limits.max else math.nextafter(highest, 0.0)
        result = np.asarray(np.clip(whole, float(limits.min), highest).astype(to.numpy))
        result[whole > highest] = limits.max
        return result
    return np.asarray(value.astype(to.numpy).astype(to.computed.numpy, copy=False))


def reinterpret(value: Any, source: DType, to: DType) -> Any:
    """The bits of the values as `to`, both in their computed types."""
    stored = np.asarray(value.astype(source.numpy))
    return stored.view(to.numpy).astype(to.computed.numpy, copy=False)

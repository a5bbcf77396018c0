"""Guesses at operand types and parameters that an operator accepts.

What it does: given what is settled of one application (some operand types, some parameters, the
result type wanted), guesses the rest, so that random terms type-check often. A guess may be wrong:
the operator's type rule has the last word. Operators without a rule of their own here are guessed
from their samples.

What it does not: draw elements or build terms (see `instances`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np

from graphopt.graph import Param
from graphopt.ops.spec import OpSpec
from tensorgen.scalar_ops import SCALAR_OP
from tensorgen.types import (
    DType,
    Shape,
    ShapeError,
    TensorType,
    boolean,
    dtype_named,
    float64,
    int64,
)

_T = TypeVar("_T")

SIZES = ((1, 1, 2, 3, 3, 5), (1, 2, 3, 5), (2,), (3,))
"""Sizes that the axes of one draw have: coprime and often 1, to tell axes apart by their sizes; or
all alike, so that no permutation of axes is caught by its shape alone."""

_CAST_TYPES = ("float64", "float32", "int64", "int32", "int8", "uint8", "bool")


class Misfit(Exception):
    """What is settled already admits no guess."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A guess at all operand types and parameters of one application."""

    types: tuple[TensorType, ...]
    params: Mapping[str, Param]


@dataclass(frozen=True, slots=True)
class Known:
    """What is settled of one application; None where nothing is. `dtype` is the preferred type."""

    op: OpSpec
    types: tuple[TensorType | None, ...]
    params: Mapping[str, Param]
    result: TensorType | None
    dtype: DType

    @property
    def element(self) -> DType:
        """The element type of some settled operand, or else of the result, or else preferred."""
        for type in self.types:
            if type is not None:
                return type.dtype
        return self.dtype if self.result is None else self.result.dtype


@dataclass(frozen=True, slots=True)
class Random:
    """Random parts of tensors. `rank` is that of most tensors, if it is known."""

    rng: np.random.Generator
    sizes: tuple[int, ...]
    rank: int | None = None

    @staticmethod
    def of(rng: np.random.Generator, rank: int | None = None) -> Random:
        """Random parts from a source; their sizes are mixed or all alike."""
        return Random(rng, SIZES[int(rng.integers(len(SIZES)))], rank)

    def choice(self, options: tuple[_T, ...]) -> _T:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def below(self, limit: int) -> int:
        return int(self.rng.integers(limit))

    def shape(self, least: int = 0, most: int = 4) -> Shape:
        rank = least + self.below(most - least + 1)
        if self.rank is not None and least <= self.rank and most >= 3 and self.chance(0.95):
            rank = self.rank
        return tuple(self.choice(self.sizes) for _ in range(rank))

    def permutation(self, rank: int) -> Shape:
        if self.chance(0.3):
            return tuple(range(rank))
        return tuple(int(axis) for axis in self.rng.permutation(rank))

    def shrunk(self, shape: Shape) -> Shape:
        """A shape that broadcasts to the given one."""
        if self.rank is not None and self.chance(0.8):
            return shape
        match self.below(5):
            case 0 | 1:
                return shape
            case 2:
                return ()
            case 3:
                return tuple(1 if self.chance(0.5) else size for size in shape)
            case _:
                kept = shape[self.below(len(shape) + 1) :]
                return tuple(1 if self.chance(0.5) else size for size in kept)

    def grown(self, shape: Shape) -> Shape:
        """A shape that the given one broadcasts to."""
        if self.chance(0.3):
            return shape
        sizes = tuple(self.choice(self.sizes) if size == 1 else size for size in shape)
        return self.shape(0, 1) + sizes

    def factors(self, size: int) -> Shape:
        """A shape of that many elements."""
        rank = self.below(4) if size == 1 else 1 + self.below(4)
        result = [1] * rank
        remaining, factor = size, 2
        while remaining > 1:
            while remaining % factor:
                factor += 1
            result[self.below(rank)] *= factor
            remaining //= factor
        return tuple(result) if size else (0,) * rank

    def subset(self, count: int) -> Shape:
        return tuple(axis for axis in range(count) if self.chance(0.5))


def propose(known: Known, random: Random) -> Proposal:
    """A guess at the rest of an application. Raises Misfit if there is none."""
    proposer = _PROPOSERS.get(known.op.name) or _PROPOSERS.get(known.op.family, _by_sample)
    try:
        return proposer(known, random)
    except (IndexError, TypeError, ValueError) as error:
        # A pattern may settle parameters of any kind and length.
        raise Misfit from error


def _by_sample(known: Known, random: Random) -> Proposal:
    sample = random.choice(known.op.samples)
    if len(sample.types) != len(known.types):
        raise Misfit
    types = tuple(
        guess if type is None else type
        for type, guess in zip(known.types, sample.types, strict=True)
    )
    params = sample.keywords
    if "axis" in params and types[0].rank:
        params["axis"] = random.below(types[0].rank)
    return Proposal(types, params)


def _elementwise(known: Known, random: Random) -> Proposal:
    op = SCALAR_OP[known.op.name]
    dtype = known.element
    if op.predicate and all(type is None for type in known.types):
        dtype = known.dtype
    if dtype.kind not in op.kinds:
        dtype = next(t for t in (float64, int64, boolean) if t.kind in op.kinds)
    return _broadcasting(known, random, (dtype,) * len(known.types))


def _where(known: Known, random: Random) -> Proposal:
    branches = [type.dtype for type in known.types[1:] if type is not None]
    dtype = known.dtype if known.result is None else known.result.dtype
    dtype = branches[0] if branches else dtype
    return _broadcasting(known, random, (boolean, dtype, dtype))


def _broadcasting(known: Known, random: Random, dtypes: tuple[DType, ...]) -> Proposal:
    shapes = [type.shape for type in known.types if type is not None]
    if known.result is not None:
        base = known.result.shape
    elif shapes:
        try:
            together = tuple(int(size) for size in np.broadcast_shapes(*shapes))
        except ValueError:
            raise Misfit from None
        base = random.grown(together) if random.chance(0.3) else together
    else:
        base = random.shape()
    first = next((n for n, type in enumerate(known.types) if type is None), None)
    types: list[TensorType] = []
    for position, (type, dtype) in enumerate(zip(known.types, dtypes, strict=True)):
        # Without a settled operand, one must have the whole shape that is wanted.
        whole = position == first and not shapes and random.chance(0.8)
        shape = base if whole else random.shrunk(base)
        types.append(TensorType(dtype, shape) if type is None else type)
    return Proposal(tuple(types), {})


def _cast(known: Known, random: Random) -> Proposal:
    [x] = known.types
    wanted = known.result
    to = random.choice(_CAST_TYPES) if wanted is None else wanted.dtype.name
    if x is None:
        source = dtype_named(random.choice(_CAST_TYPES))
        x = TensorType(source, random.shape() if wanted is None else wanted.shape)
    if random.chance(0.2):
        to = x.dtype.name
    return Proposal((x,), {"to": to})


def _transpose(known: Known, random: Random) -> Proposal:
    [x] = known.types
    perm: Any = known.params.get("perm")
    if x is not None:
        return Proposal((x,), {"perm": random.permutation(x.rank)})
    rank = random.below(5) if perm is None else len(perm)
    if known.result is not None:
        rank = known.result.rank
    order = random.permutation(rank) if perm is None else perm
    shape = random.shape(rank, rank)
    if known.result is not None:
        if len(order) != rank:
            raise Misfit
        shape = tuple(known.result.shape[order.index(axis)] for axis in range(rank))
    return Proposal((TensorType(known.element, shape),), {"perm": order})


def _reshape(known: Known, random: Random) -> Proposal:
    [x] = known.types
    shape: Any = known.params.get("shape")
    if shape is None and known.result is not None:
        shape = known.result.shape
    if x is None:
        given = random.shape() if shape is None else random.factors(prod(shape))
        x = TensorType(known.element, given)
    if shape is None:
        shape = x.shape if random.chance(0.2) else random.factors(x.size)
    return Proposal((x,), {"shape": shape})


def _broadcast_to(known: Known, random: Random) -> Proposal:
    [x] = known.types
    shape: Any = known.params.get("shape")
    if shape is None and known.result is not None:
        shape = known.result.shape
    if x is None:
        x = TensorType(known.element, random.shape() if shape is None else random.shrunk(shape))
    return Proposal((x,), {"shape": random.grown(x.shape) if shape is None else shape})


def _concat(known: Known, random: Random) -> Proposal:
    settled = next((type for type in known.types if type is not None), None)
    base = TensorType(known.element, random.shape(1, 3)) if settled is None else settled
    base = base if known.result is None else known.result
    if base.rank == 0:
        raise Misfit
    axis: Any = known.params.get("axis", random.below(base.rank))
    if axis >= base.rank:
        raise Misfit

    def other() -> TensorType:
        size = random.choice(random.sizes)
        return TensorType(base.dtype, (*base.shape[:axis], size, *base.shape[axis + 1 :]))

    types = tuple(other() if type is None else type for type in known.types)
    open_count = known.types.count(None)
    if known.result is not None and open_count:
        taken = sum(type.shape[axis] for type in known.types if type is not None)
        if taken <= base.shape[axis]:
            rest = (*base.shape[:axis], base.shape[axis] - taken, *base.shape[axis + 1 :])
            parts = iter(_parts(TensorType(base.dtype, rest), axis, open_count, random))
            types = tuple(next(parts) if type is None else type for type in known.types)
    return Proposal(types, {"axis": axis})


def _parts(whole: TensorType, axis: int, count: int, random: Random) -> tuple[TensorType, ...]:
    """Types of `count` operands whose concatenation has the given type."""
    size = whole.shape[axis]
    cuts = sorted(random.below(size + 1) for _ in range(count - 1))
    if size % count == 0 and random.chance(0.5):
        cuts = [position * size // count for position in range(1, count)]
    ends = zip([0, *cuts], [*cuts, size], strict=True)
    before, after = whole.shape[:axis], whole.shape[axis + 1 :]
    return tuple(TensorType(whole.dtype, (*before, b - a, *after)) for a, b in ends)


def _slice(known: Known, random: Random) -> Proposal:
    [x] = known.types
    if x is None:
        grow: Shape = (0, 0, 2)
        if len(random.sizes) == 1:
            # Sizes that are all alike stay so: permutations are not caught by the shape then.
            grow = (random.choice(grow),)
        least = random.shape() if known.result is None else known.result.shape
        x = TensorType(known.element, tuple(size + random.choice(grow) for size in least))
    starts, steps, sizes = [], [], []
    whole = random.chance(0.2)
    for extent in x.shape:
        step = random.choice((1, 1, 2, -1))
        start = random.below(extent) if extent else 0
        room = (extent - 1 - start) // step if step > 0 else start
        size = 1 + random.below(room + 1) if extent else 0
        if extent and random.chance(0.1):
            start, step, size = extent - 1, -1, extent
        untouched = whole or random.chance(0.3)
        starts.append(0 if untouched else start)
        steps.append(1 if untouched else step)
        sizes.append(extent if untouched else size)
    return Proposal((x,), {"starts": tuple(starts), "steps": tuple(steps), "sizes": tuple(sizes)})


def _pad(known: Known, random: Random) -> Proposal:
    x = known.types[0]
    if x is None:
        x = TensorType(known.element, random.shape(0, 4))
    windows = random.chance(0.5)
    none = random.chance(0.2)

    def amounts() -> Shape:
        return tuple(
            0 if none or (windows and axis < 2) else random.choice((0, 1, 2))
            for axis in range(x.rank)
        )

    mode = random.choice(("constant", "constant", "edge"))
    fill = TensorType(x.dtype, ())
    return Proposal((x, fill), {"before": amounts(), "after": amounts(), "mode": mode})


def _matmul(known: Known, random: Random) -> Proposal:
    x, y = known.types
    wanted = known.result
    m, n = random.choice(random.sizes), random.choice(random.sizes)
    batch = random.shape(0, 2) if random.chance(0.5) else ()
    k = random.choice((2, 3, 5))
    if wanted is not None:
        if wanted.rank < 2:
            raise Misfit
        *leading, m, n = wanted.shape
        batch = tuple(leading)
    if (x is not None and x.rank < 2) or (y is not None and y.rank < 2):
        raise Misfit
    if x is not None:
        k = x.shape[-1]
    elif y is not None:
        k = y.shape[-2]
    if wanted is None:
        batch = batch if x is None else x.shape[:-2]
        batch = batch if y is None else y.shape[:-2]
    dtype = float64 if known.element == boolean else known.element
    if x is None:
        x = TensorType(dtype, (*batch, m, k))
    if y is None:
        y = TensorType(dtype, (*(random.shrunk(batch)), k, n))
    return Proposal((x, y), {})


def _windows(known: Known, random: Random, kernel: Shape) -> dict[str, Any]:
    """Strides, pads and dilations for a kernel, as far as they are not settled."""
    rank = len(kernel)
    match random.below(4):
        case 0 | 1:
            pads = (0,) * (2 * rank)
        case 2:
            pads = tuple(random.choice((0, 1)) for _ in range(2 * rank))
        case _:
            # What keeps the sizes of axes.
            pads = (*((size - 1) // 2 for size in kernel), *(size // 2 for size in kernel))
    guess: dict[str, Any] = {
        "strides": tuple(random.choice((1, 1, 2)) for _ in range(rank)),
        "pads": pads,
        "dilations": tuple(random.choice((1, 1, 2)) for _ in range(rank)),
    }
    return {name: known.params.get(name, value) for name, value in guess.items()}


def _kernel(random: Random, rank: int) -> Shape:
    """Sizes of a kernel: as all other sizes, where those are all alike."""
    options = random.sizes if len(random.sizes) == 1 else (1, 2, 3)
    return tuple(random.choice(options) for _ in range(rank))


def _spatial(known: Known, random: Random, kernel: Shape, windows: Mapping[str, Any]) -> Shape:
    """Sizes of the axes that windows slide over, such that the result is as wanted."""
    rank = len(kernel)
    wanted = known.result
    sizes = []
    for axis, size in enumerate(kernel):
        if wanted is None or wanted.rank != rank + 2:
            sizes.append(4 if len(random.sizes) == 1 else random.choice((3, 4, 5)))
            continue
        pads = windows["pads"][axis] + windows["pads"][rank + axis]
        span = (size - 1) * windows["dilations"][axis] + 1
        sizes.append(max((wanted.shape[2 + axis] - 1) * windows["strides"][axis] + span - pads, 1))
    return tuple(sizes)


def _spread(known: Known, random: Random, kernel: Shape, windows: Mapping[str, Any]) -> Shape:
    """Sizes of the axes whose elements a transposed convolution spreads over the wanted result."""
    rank = len(kernel)
    wanted = known.result
    if wanted is None or wanted.rank != rank + 2:
        return tuple(random.choice((1, 2, 3)) for _ in kernel)
    sizes = []
    for axis, size in enumerate(kernel):
        pads = windows["pads"][axis] + windows["pads"][rank + axis]
        span = (size - 1) * windows["dilations"][axis] + 1
        sizes.append((wanted.shape[2 + axis] + pads - span) // windows["strides"][axis] + 1)
    return tuple(max(size, 1) for size in sizes)


def _window_rank(known: Known, random: Random) -> int:
    """How many axes windows slide over."""
    for type in (*known.types, known.result):
        if type is not None:
            if type.rank < 3:
                raise Misfit
            return type.rank - 2
    strides: Any = known.params.get("strides")
    return 1 + random.below(2) if strides is None else len(strides)


def _window_dtype(known: Known) -> DType:
    return float64 if known.element == boolean else known.element


def _conv(known: Known, random: Random) -> Proposal:
    x, w = known.types
    rank = _window_rank(known, random)
    batch, outputs = random.choice((1, 2)), random.choice((1, 2, 3))
    groups: Any = known.params.get("groups", random.choice((1, 1, 2, 3)))
    outputs *= groups
    if known.result is not None:
        batch, outputs = known.result.shape[:2]
    if w is not None:
        outputs = w.shape[0]
    if x is not None and w is not None:
        if w.rank != x.rank or w.shape[1] == 0 or x.shape[1] % w.shape[1]:
            raise Misfit
        groups = x.shape[1] // w.shape[1]
    elif outputs % groups or (x is not None and x.shape[1] % groups):
        groups = 1
    if w is None:
        depth = random.choice((1, 2, 3)) if x is None else x.shape[1] // groups
        kernel = _kernel(random, rank)
        w = TensorType(_window_dtype(known), (outputs, depth, *kernel))
    windows = _windows(known, random, w.shape[2:])
    if x is None:
        spread = _spread if known.op.name == "conv_transpose" else _spatial
        spatial = spread(known, random, w.shape[2:], windows)
        x = TensorType(_window_dtype(known), (batch, groups * w.shape[1], *spatial))
    return Proposal((x, w), {**windows, "groups": groups})


def _pooling(known: Known, random: Random) -> Proposal:
    [x] = known.types
    kernel: Any = known.params.get("kernel")
    if kernel is None:
        kernel = _kernel(random, _window_rank(known, random))
    windows = _windows(known, random, kernel)
    if x is None:
        outer = (random.choice((1, 2)), random.choice((1, 2, 3)))
        outer = outer if known.result is None else (known.result.shape[0], known.result.shape[1])
        spatial = _spatial(known, random, kernel, windows)
        x = TensorType(_window_dtype(known), (*outer, *spatial))
    return Proposal((x,), {"kernel": kernel, **windows})


def _reduce(known: Known, random: Random) -> Proposal:
    [x] = known.types
    keepdims: Any = known.params.get("keepdims", random.chance(0.5))
    axes: Any = known.params.get("axes")
    if x is None:
        dtype = float64 if known.element == boolean else known.element
        least = 0 if axes is None else max(axes, default=0) + 1
        x = TensorType(dtype, random.shape(least, max(least, 4)))
    chosen = random.subset(x.rank) if axes is None else axes
    return Proposal((x,), {"axes": chosen, "keepdims": keepdims})


_PROPOSERS: Mapping[str, Callable[[Known, Random], Proposal]] = {
    "elementwise": _elementwise,
    "where": _where,
    "cast": _cast,
    "bitcast": _by_sample,
    "transpose": _transpose,
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "slice": _slice,
    "pad": _pad,
    "matmul": _matmul,
    "conv": _conv,
    "conv_transpose": _conv,
    "max_pool": _pooling,
    "sum_pool": _pooling,
    "max_pool_index": _pooling,
    "reduce_sum": _reduce,
    "reduce_prod": _reduce,
    "reduce_max": _reduce,
    "reduce_min": _reduce,
}  # fmt: skip
"""Proposers by operator, or by family where a whole family is alike."""

UNFIT = (Misfit, ShapeError, TypeError)
"""What a draw that leads nowhere raises; see `rule_functions.UNDEFINED` for TypeError."""

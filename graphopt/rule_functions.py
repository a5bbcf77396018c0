"""The closed vocabulary of rules: functions that compute parameters, and conditions.

What it does: gives each function and condition its name, the roles of its arguments and its
meaning. Both see static information only: parameters, types, and the elements of constants. A
function without a value raises Undefined and a condition without an answer is false, so the rule
does not apply: unknown is never yes.

Conditions are of two kinds. *Truth* conditions belong to what a rule claims: where they fail its
two sides may differ. *Profit* conditions only say when to use it: a proof may ignore them.

What it does not: read rules (`pattern_reader`), bind names (`matching`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphopt.graph import Constant, Param, Params, Value, inputs_of
from graphopt.ops.contraction import conv, matmul
from graphopt.ops.pooling import sum_pool
from graphopt.pattern import Role
from tensorgen.types import DType, Kind, Shape, ShapeError, dtype_named, integer_range


class Undefined(ValueError):
    """A function of a rule has no value for these arguments; the rule does not apply."""


Uses = Callable[[Value], int]
"""How many operands and outputs of the graph read a value."""


@dataclass(frozen=True, slots=True)
class Function:
    """A named function or condition.

    `roles` are those of its arguments; with `repeats` the last role may occur any number of times
    more. `profit` marks conditions that a rule's truth does not depend on, and `takes_uses` those
    whose first argument is the `Uses` of the graph.
    """

    name: str
    roles: tuple[Role, ...]
    apply: Callable[..., Any]
    doc: str
    repeats: bool = False
    profit: bool = False
    takes_uses: bool = False

    def value(self, *arguments: Any) -> Any:
        """Its value. Raises Undefined if it has none, as for parameters of another kind."""
        try:
            return self.apply(*arguments)
        except (IndexError, TypeError) as error:
            raise Undefined(f"{self.name}: {error}") from None

    def admits(self, count: int) -> bool:
        """Whether it takes that many arguments."""
        return count == len(self.roles) or (self.repeats and count > len(self.roles))

    def roles_for(self, count: int) -> tuple[Role, ...]:
        """The role of each of `count` arguments."""
        return self.roles + (self.roles[-1],) * (count - len(self.roles))


_T, _TS, _P, _Q = Role.TENSOR, Role.TENSORS, Role.PARAMETER, Role.PARAMETERS


# Functions


def _reordered(s: Shape, p: Shape) -> Shape:
    if len(s) != len(p):
        raise Undefined("a permutation of another rank")
    return tuple(s[axis] for axis in p)


def _inverse(p: Shape) -> Shape:
    return tuple(sorted(range(len(p)), key=lambda axis: p[axis]))


def _aligned_shape(c: Value, x: Value) -> Shape:
    missing = x.type.rank - c.type.rank
    if missing < 0:
        raise Undefined("an operand of lower rank than what broadcasts to it")
    return (1,) * missing + c.type.shape


def _size_on_axis(c: Value, axis: int, w: Value) -> Shape:
    """The shape of w's rank that is 1 but on `axis`, where it has all elements of c."""
    position = _counted(axis, w)
    return tuple(c.type.size if n == position else 1 for n in range(w.type.rank))


def _counted(axis: int, x: Value) -> int:
    """An axis of x counted from the front; negative ones are given from the end."""
    position = axis + x.type.rank if axis < 0 else axis
    if not 0 <= position < x.type.rank:
        raise Undefined("no such axis")
    return position


def _reduced_shape(x: Value, axes: Shape, keepdims: bool) -> Shape:
    kept = ((1 if n in axes else size) for n, size in enumerate(x.type.shape))
    return tuple(size for n, size in enumerate(kept) if keepdims or n not in axes)


def _union(a: Shape, b: Shape) -> Shape:
    return tuple(sorted({*a, *b}))


def _images(axes: Shape, p: Shape) -> Shape:
    return tuple(sorted(p[axis] for axis in axes))


def _without(p: Shape, axes: Shape) -> Shape:
    """The order of the axes that remain when `axes` of a permuted tensor go."""
    kept = [p[axis] for axis in range(len(p)) if axis not in axes]
    return tuple(sorted(kept).index(axis) for axis in kept)


def _extent(tensors: tuple[Value, ...], axis: int) -> int:
    return sum(tensor.type.shape[axis] for tensor in tensors)


def _shifted(starts: Shape, axis: int, tensors: tuple[Value, ...]) -> Shape:
    offset = _extent(tensors, axis)
    return tuple(start - offset if n == axis else start for n, start in enumerate(starts))


def _plus(s: Shape, t: Shape) -> Shape:
    if len(s) != len(t):
        raise Undefined("tuples of different lengths")
    return tuple(a + b for a, b in zip(s, t, strict=True))


def _times(s: Shape, t: Shape) -> Shape:
    if len(s) != len(t):
        raise Undefined("tuples of different lengths")
    return tuple(a * b for a, b in zip(s, t, strict=True))


def _pads_before(pads: Shape) -> Shape:
    return (0, 0, *pads[: len(pads) // 2])


def _pads_after(pads: Shape) -> Shape:
    return (0, 0, *pads[len(pads) // 2 :])


def _joined_pads(before: Shape, after: Shape, pads: Shape) -> Shape:
    return _plus(before[2:] + after[2:], pads)


def _all_but(s: Shape, axis: int, filler: int) -> Shape:
    """s with every element replaced but that on `axis`."""
    if not 0 <= axis < len(s):
        raise Undefined("no such axis")
    return tuple(size if n == axis else filler for n, size in enumerate(s))


def _lengthened(s: Shape, t: Shape, axis: int) -> Shape:
    """s with t's element on `axis` added to its own."""
    return _plus(s, _all_but(t, axis, 0))


def _broadcast_axis(axis: int, w: Value, x: Value) -> int:
    return _counted(axis, w) + max(0, x.type.rank - w.type.rank)


def _conv_shape(x: Value, w: Value, captured: Params) -> Shape:
    return conv.infer(x.type, w.type, **{"groups": 1, **dict(captured)}).shape


def _exact_quotient(dividend: int, divisor: int) -> int:
    if divisor == 0 or dividend % divisor != 0:
        raise Undefined("no whole quotient")
    return dividend // divisor


def _same_pads(*kernel: int) -> Shape:
    return (*((size - 1) // 2 for size in kernel), *(size // 2 for size in kernel))


def _strided_same_pads(sizes: Shape, kernel: Shape, strides: Shape) -> Shape:
    if not len(sizes) == len(kernel) == len(strides) or 0 in strides:
        raise Undefined("windows of different ranks, or that never move")
    together = zip(sizes, kernel, strides, strict=True)
    amounts = [
        max((-(-size // stride) - 1) * stride + span - size, 0) for size, span, stride in together
    ]
    return (*(amount // 2 for amount in amounts), *(amount - amount // 2 for amount in amounts))


def _centring_before(s: Shape, t: Shape) -> Shape:
    if len(s) != len(t) or any(b < a for a, b in zip(s, t, strict=True)):
        raise Undefined("sizes that do not fit into the others")
    return tuple((b - a) // 2 for a, b in zip(s, t, strict=True))


def _centring_after(s: Shape, t: Shape) -> Shape:
    before = _centring_before(s, t)
    return tuple(b - a - c for a, b, c in zip(s, t, before, strict=True))


def _pool_shape(x: Value, captured: Params) -> Shape:
    return sum_pool.infer(x.type, **dict(captured)).shape


def _kernel_sizes(w: Value) -> Shape:
    if w.type.rank < 3:
        raise Undefined("a kernel has spatial axes")
    return w.type.shape[2:]


FUNCTIONS: Mapping[str, Function] = {
    function.name: function
    for function in (
        Function("shape_of", (_T,), lambda x: x.type.shape,
                 "the sizes of x"),
        Function("reordered", (_P, _P), _reordered,
                 "the elements of s in the order p; of a permutation: first s, then p"),
        Function("inverse", (_P,), _inverse,
                 "the permutation that undoes p"),
        Function("image", (_P, _P), lambda axis, p: p[axis],
                 "the axis of the operand that axis a of its transpose by p is"),
        Function("images", (_P, _P), _images,
                 "the axes of the operand that axes of its transpose by p are"),
        Function("without", (_P, _P), _without,
                 "what is left of the permutation p when some axes of its result go"),
        Function("aligned_shape", (_T, _T), _aligned_shape,
                 "the sizes of c, filled up with leading ones to the rank of x"),
        Function("on_axis", (_T, _P, _T), _size_on_axis,
                 "sizes 1 with the rank of w, and all elements of c on one axis"),
        Function("reduced_shape", (_T, _P, _P), _reduced_shape,
                 "the sizes of x with some axes reduced, to 1 or away"),
        Function("union", (_P, _P), _union,
                 "the axes in either of two tuples"),
        Function("shifted", (_P, _P, _TS), _shifted,
                 "starts minus the extent of the tensors on an axis"),
        Function("plus", (_P, _P), _plus,
                 "the elementwise sum of two tuples"),
        Function("times", (_P, _P), _times,
                 "the elementwise product of two tuples"),
        Function("zeros_like", (_P,), lambda s: (0,) * len(s),
                 "as many zeros as s has elements"),
        Function("pads_before", (_P,), _pads_before,
                 "what pads of windows add before each axis of (n, c, spatial…)"),
        Function("pads_after", (_P,), _pads_after,
                 "what pads of windows add after each axis of (n, c, spatial…)"),
        Function("joined_pads", (_P, _P, _P), _joined_pads,
                 "pads of windows together with those of a pad before them"),
        Function("counted", (_P, _T), _counted,
                 "an axis of x counted from the front; negative ones are given from the end"),
        Function("ones_like", (_P,), lambda s: (1,) * len(s),
                 "as many ones as s has elements"),
        Function("offset_on", (_P, _P), lambda s, axis: _all_but(s, axis, 0),
                 "s with zeros but on one axis"),
        Function("spread_on", (_P, _P), lambda s, axis: _all_but(s, axis, 1),
                 "s with ones but on one axis"),
        Function("lengthened", (_P, _P, _P), _lengthened,
                 "s with t's element on an axis added to its own"),
        Function("broadcast_axis", (_P, _T, _T), _broadcast_axis,
                 "the axis that axis a of w is where w and x meet, their last axes aligned"),
        Function("matmul_shape", (_T, _T), lambda x, y: matmul.infer(x.type, y.type).shape,
                 "the sizes of a matrix product"),
        Function("conv_shape", (_T, _T, _Q), _conv_shape,
                 "the sizes of a convolution in one group, under captured parameters"),
        Function("size", (_T, _P), lambda x, axis: x.type.shape[_counted(axis, x)],
                 "the size of an axis of x"),
        Function("sizes", (_P,), lambda *sizes: sizes,
                 "the tuple of sizes given one by one", repeats=True),
        Function("total", (_P,), lambda *sizes: sum(sizes),
                 "the sum of sizes given one by one", repeats=True),
        Function("quotient", (_P, _P), _exact_quotient,
                 "the quotient of sizes, without remainder"),
        Function("same_pads", (_P,), _same_pads,
                 "pads of windows of these kernel sizes and stride 1 that keep the sizes of axes; "
                 "an odd one comes after (SAME_UPPER)", repeats=True),
        Function("strided_same_pads", (_P, _P, _P), _strided_same_pads,
                 "pads of windows (sizes of axes, kernel, strides) that leave sizes / strides, "
                 "rounded up, of each axis; an odd one comes after (SAME_UPPER)"),
        Function("centring_before", (_P, _P), _centring_before,
                 "what centring sizes s in sizes t adds before each axis, rounded down"),
        Function("centring_after", (_P, _P), _centring_after,
                 "what centring sizes s in sizes t adds after each axis"),
        Function("kernel_sizes", (_T,), _kernel_sizes,
                 "the sizes of the spatial axes of a kernel (o, i, spatial…)"),
        Function("pool_shape", (_T, _Q), _pool_shape,
                 "the sizes of a sum or maximum over windows, under captured parameters"),
    )
}  # fmt: skip


# Conditions


_CONSTANT_SEARCH = 64
"""How many values `constant` looks at before it gives up and says no."""


def is_constant(value: Value) -> bool:
    """Whether a value is known at compile time: computed from constants by a few operators."""
    pending, seen = [value], 0
    while pending:
        current = pending.pop()
        operands = inputs_of(current)
        seen += 1
        if seen > _CONSTANT_SEARCH or not (operands or isinstance(current, Constant)):
            return False
        pending.extend(operands)
    return True


def _is_identity(p: Shape) -> bool:
    return p == tuple(range(len(p)))


def _lies_on_axis(c: Value, axis: int, x: Value) -> bool:
    """Whether c broadcasts to x and varies along that axis alone."""
    position = _counted(axis, x)
    shift = x.type.rank - c.type.rank
    return shift >= 0 and all(
        size == 1 or (shift + n == position and size == x.type.shape[axis])
        for n, size in enumerate(c.type.shape)
    )


def _are_nested(c: Value, d: Value) -> bool:
    try:
        together = np.broadcast_shapes(c.type.shape, d.type.shape)
    except ValueError:
        return False
    return together in (c.type.shape, d.type.shape)


def _has_exact_reciprocal(c: Value) -> bool:
    """Whether every element is a power of two whose reciprocal the type holds."""
    if not isinstance(c, Constant) or not c.type.dtype.is_float:
        return False
    wide = c.array.astype(np.float64)
    mantissas, exponents = np.frexp(wide)
    # All float types hold 2**±14 as normal numbers.
    return bool(np.all((np.abs(mantissas) == 0.5) & (np.abs(exponents - 1) <= 14)))


def _adjoins(s: Shape, n: Shape, u: Shape, m: Shape, axis: int) -> bool:
    """Whether sizes m from u continue sizes n from s along one axis, in steps of one."""
    if not 0 <= axis < len(s):
        return False
    aligned = all(
        (a, b) == (c, d) for position, (a, b, c, d) in enumerate(zip(s, n, u, m, strict=True))
        if position != axis
    )  # fmt: skip
    return aligned and u[axis] == s[axis] + n[axis]


def _moves_only_units(x: Value, p: Shape) -> bool:
    kept = [axis for axis in p if x.type.shape[axis] != 1]
    return kept == sorted(kept)


_MANTISSA_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_EXPONENT_BITS = {"float64": 11, "float32": 8, "float16": 5, "bfloat16": 8}


def _holds_exactly(source: DType, target: DType) -> bool:
    """Whether every value of one type is a value of another."""
    if source == target or source.name == "bool":
        return True
    if target.name == "bool":
        return False
    if source.is_float:
        return (
            target.is_float
            and _MANTISSA_BITS[source.name] <= _MANTISSA_BITS[target.name]
            and _EXPONENT_BITS[source.name] <= _EXPONENT_BITS[target.name]
        )
    low, high = integer_range(source)
    if target.is_float:
        return high < 1 << _MANTISSA_BITS[target.name]
    least, most = integer_range(target)
    return least <= low and high <= most


def _is_lossless(x: Value, to: str) -> bool:
    try:
        return _holds_exactly(x.type.dtype, dtype_named(to))
    except KeyError:
        return False


def _converts_alike(x: Value, via: str, to: str) -> bool:
    try:
        between, target = dtype_named(via), dtype_named(to)
    except KeyError:
        return False
    own = x.type.dtype
    if own.is_float or not between.is_float or not target.is_integer:
        return True
    return _holds_exactly(own, target)


def _are_odd(*values: int | Shape) -> bool:
    sizes = (size for item in values for size in (item if isinstance(item, tuple) else (item,)))
    return all(size % 2 == 1 for size in sizes)


def _has(captured: Params, name: str, value: Param) -> bool:
    return any(key == name and held == value for key, held in captured)


CONDITIONS: Mapping[str, Function] = {
    condition.name: condition
    for condition in (
        # truth
        Function("identity", (_P,), _is_identity,
                 "the permutation changes nothing"),
        Function("along", (_T, _P, _T), _lies_on_axis,
                 "c broadcasts to x and varies along one axis alone"),
        Function("floating", (_T,), lambda x: x.type.dtype.is_float,
                 "the elements are floating-point numbers"),
        Function("signed", (_T,), lambda x: x.type.dtype.kind in (Kind.FLOAT, Kind.SIGNED),
                 "the elements have a sign"),
        Function("moves_only_units", (_T, _P), _moves_only_units,
                 "permuting x keeps the order of its elements"),
        Function("lossless", (_T, _P), _is_lossless,
                 "every value of x's type is a value of that type"),
        Function("converts_alike", (_T, _P, _P), _converts_alike,
                 "from x's type and from t a conversion to u is the same: a float saturates where "
                 "an integer wraps"),
        Function("ones", (_P,), lambda s: all(item == 1 for item in s),
                 "all elements of a tuple are 1"),
        Function("adjoins", (_P, _P, _P, _P, _P), _adjoins,
                 "a box of sizes m from u continues one of sizes n from s along an axis"),
        Function("same_shape", (_T, _T), lambda *values: len({v.type.shape for v in values}) == 1,
                 "the tensors have the same sizes", repeats=True),
        Function("equal", (_P, _P), lambda a, b: a == b,
                 "two parameters are the same"),
        Function("rank", (_P, _T), lambda rank, *values: all(v.type.rank == rank for v in values),
                 "every tensor has that many axes", repeats=True),
        Function("odd", (_P,), _are_odd,
                 "sizes, also those in tuples, are odd", repeats=True),
        Function("has", (_Q, _P, _P), _has,
                 "a captured parameter, given by its name, has that value"),
        Function("alike", (_Q, _Q), lambda q, r: dict(q) == dict(r),
                 "two groups of captured parameters are the same"),
        # profit
        Function("constant", (_T,), lambda *values: all(map(is_constant, values)),
                 "known at compile time", repeats=True, profit=True),
        Function("varying", (_T,), lambda *values: not any(map(is_constant, values)),
                 "not known at compile time", repeats=True, profit=True),
        Function("nested", (_T, _T), _are_nested,
                 "one shape broadcasts to the other, so combining them grows neither",
                 profit=True),
        Function("exact_reciprocal", (_T,), _has_exact_reciprocal,
                 "a constant of powers of two: multiplying by its reciprocal rounds alike",
                 profit=True),
        Function("nonzero", (_P,), lambda s: any(s),
                 "some element of a tuple is not 0", profit=True),
        Function("single_use", (_T,), lambda uses, x: uses(x) <= 1,
                 "nothing else reads x", profit=True, takes_uses=True),
    )
}  # fmt: skip


UNDEFINED = (Undefined, ShapeError, TypeError)
"""What building the target of a rule raises where the rule has no meaning: TypeError is what type
rules say of a parameter of a kind that they do not take."""

"""Tensor expressions in index notation: `out[i,j] = sum(k) x[i,k] * y[k,j]`.

The one language in which Tasor says what an operator means. Everything else is an interpretation:
`evaluate` (numpy), `lower` (loops, then C) and the prover. It knows no schedule and no graph.

Terms are immutable and compare by content digest. An axis is identified by its position; its
display name stays out of the digest. Output axes of a tensor expression come first, each reduction
binds the next free positions, so equal expressions are equal terms without renaming.

Meaning of the nodes:
- integers wrap modulo 2**bits, division by zero is undefined and must be guarded by `Select`;
- `Select` evaluates only the branch taken, so a load in the other branch may be out of bounds;
- an index out of bounds outside such a branch is an error of whoever built the expression;
- `Reduce` folds in any order (float sums may be reassociated); over no elements it gives the
  neutral element: 0, 1, the lowest value, the highest value;
- float16 and bfloat16 are computed in float32 and rounded when stored.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Union, assert_never

import numpy as np

from tensorgen.digest import Identified, content_digest, digest_of_digests, remembered_digest
from tensorgen.scalar_ops import SCALAR_OP, ScalarOp
from tensorgen.sizes import Size
from tensorgen.types import (
    DType,
    Shape,
    TensorType,
    boolean,
    int64,
)

Scalar = int | float | bool


class _Term(Identified):
    """Python operators that build terms. The slot is for what `free_axes` finds."""

    __slots__ = ("_free",)
    dtype: DType
    _free: frozenset[Axis]

    def __add__(self, other: Operand) -> Expr:
        return apply("add", self._expr, lift(other, self.dtype))

    def __radd__(self, other: Operand) -> Expr:
        return apply("add", lift(other, self.dtype), self._expr)

    def __sub__(self, other: Operand) -> Expr:
        return apply("sub", self._expr, lift(other, self.dtype))

    def __rsub__(self, other: Operand) -> Expr:
        return apply("sub", lift(other, self.dtype), self._expr)

    def __mul__(self, other: Operand) -> Expr:
        return apply("mul", self._expr, lift(other, self.dtype))

    def __rmul__(self, other: Operand) -> Expr:
        return apply("mul", lift(other, self.dtype), self._expr)

    def __truediv__(self, other: Operand) -> Expr:
        return apply("div", self._expr, lift(other, self.dtype))

    def __floordiv__(self, other: Operand) -> Expr:
        return apply("floordiv", self._expr, lift(other, self.dtype))

    def __mod__(self, other: Operand) -> Expr:
        return apply("mod", self._expr, lift(other, self.dtype))

    def __neg__(self) -> Expr:
        return apply("neg", self._expr)

    def __lt__(self, other: Operand) -> Expr:
        return apply("lt", self._expr, lift(other, self.dtype))

    def __le__(self, other: Operand) -> Expr:
        return apply("le", self._expr, lift(other, self.dtype))

    def __gt__(self, other: Operand) -> Expr:
        return apply("lt", lift(other, self.dtype), self._expr)

    def __ge__(self, other: Operand) -> Expr:
        return apply("le", lift(other, self.dtype), self._expr)

    def __and__(self, other: Operand) -> Expr:
        return apply("and", self._expr, lift(other, self.dtype))

    def __or__(self, other: Operand) -> Expr:
        return apply("or", self._expr, lift(other, self.dtype))

    def equals(self, other: Operand) -> Expr:
        """The term `self == other` (the Python operator compares terms)."""
        return apply("eq", self._expr, lift(other, self.dtype))

    @property
    def _expr(self) -> Expr:
        assert isinstance(self, Const | Axis | Load | Apply | Cast | Select | Reduce)
        return self

    def __str__(self) -> str:
        return expression_text(self._expr)


@dataclass(frozen=True, slots=True, eq=False)
class Const(_Term):
    """A literal of a given type. Floats are held as Python floats (NaN and infinities included)."""

    value: Scalar
    dtype: DType
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        value = self.value
        if isinstance(value, float):
            bits = struct.pack("<d", value)
        else:
            bits = str(value if isinstance(value, Size) else int(value)).encode()
        object.__setattr__(self, "digest", remembered_digest("const", self.dtype.name, bits))


@dataclass(frozen=True, slots=True, eq=False)
class Axis(_Term):
    """An index that runs over 0 … extent-1. Identified by `position`; `name` is for display."""

    position: int
    extent: int
    name: str
    dtype: DType = field(init=False, repr=False, default=int64)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "digest", remembered_digest("axis", str(self.position), str(self.extent))
        )


@dataclass(frozen=True, slots=True, eq=False)
class Load(_Term):
    """One element of an operand: `operand` counts the task's inputs, then its earlier stages."""

    operand: int
    type: TensorType
    indices: tuple[Expr, ...]
    dtype: DType = field(init=False, repr=False)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        assert len(self.indices) == self.type.rank, "load: one index for each axis"
        object.__setattr__(self, "dtype", self.type.dtype)
        object.__setattr__(
            self,
            "digest",
            digest_of_digests(
                ("load", str(self.operand), str(self.type)), [i.digest for i in self.indices]
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Apply(_Term):
    """A scalar operator applied to terms of one type."""

    op: ScalarOp
    args: tuple[Expr, ...]
    dtype: DType = field(init=False, repr=False)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        op, args = self.op, self.args
        assert len(args) == op.arity, f"{op.name}: arity"
        first = args[0].dtype
        for arg in args:
            # The same object nearly always, and an index has many terms.
            assert arg.dtype is first or arg.dtype == first, (
                f"{op.name}: operands of types {[arg.dtype for arg in args]}"
            )
        assert first.kind in op.kinds, f"{op.name}: not defined on {first.name}"
        object.__setattr__(self, "dtype", boolean if op.predicate else first)
        digest = digest_of_digests(("apply", op.name), [arg.digest for arg in args])
        object.__setattr__(self, "digest", digest)


@dataclass(frozen=True, slots=True, eq=False)
class Cast(_Term):
    """Conversion to another type: truncation toward zero from float to integer (saturating,
    NaN to 0), rounding to nearest-even to a float, `!= 0` to bool; `bits` reinterprets instead."""

    arg: Expr
    dtype: DType
    bits: bool = False
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "digest",
            digest_of_digests(("cast", self.dtype.name, str(int(self.bits))), (self.arg.digest,)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Select(_Term):
    """`condition ? then : otherwise`; only the branch taken is evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr
    dtype: DType = field(init=False, repr=False)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        assert self.condition.dtype == boolean
        assert self.then.dtype == self.otherwise.dtype
        object.__setattr__(self, "dtype", self.then.dtype)
        object.__setattr__(
            self,
            "digest",
            digest_of_digests(
                ("select",), (self.condition.digest, self.then.digest, self.otherwise.digest)
            ),
        )


class Fold(Enum):
    """How a reduction combines values; the name is the scalar operator that does it."""

    SUM = "add"
    PRODUCT = "mul"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True, eq=False)
class Reduce(_Term):
    """Fold of `body` over all values of `axes`; an empty range gives the neutral element."""

    fold: Fold
    axes: tuple[Axis, ...]
    body: Expr
    dtype: DType = field(init=False, repr=False)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.body.dtype)
        object.__setattr__(
            self,
            "digest",
            content_digest(
                "reduce", self.fold.value, *(a.digest for a in self.axes), self.body.digest
            ),
        )


Expr = Const | Axis | Load | Apply | Cast | Select | Reduce
Operand = Union[Const, Axis, Load, Apply, Cast, Select, Reduce, int, float, bool, "_Term"]


def neutral_element(fold: Fold, dtype: DType) -> Const:
    """The value of a reduction over nothing."""
    match fold:
        case Fold.SUM:
            return const(0, dtype)
        case Fold.PRODUCT:
            return const(1, dtype)
        case Fold.MAX | Fold.MIN:
            lowest = fold is Fold.MAX
            if dtype.is_float:
                return const(-math.inf if lowest else math.inf, dtype)
            if dtype == boolean:
                return const(not lowest, dtype)
            limits = np.iinfo(dtype.name)
            return const(int(limits.min if lowest else limits.max), dtype)
        case _:
            assert_never(fold)


# Construction


def const(value: Scalar, dtype: DType) -> Const:
    """A literal, normalised to the Python type that stands for `dtype`."""
    if isinstance(value, Size):
        assert dtype == int64, "a symbolic size is an index"
        return Const(value, dtype)
    if dtype is int64:
        return _index(int(value))
    if dtype.is_float:
        return Const(float(value), dtype)
    return Const(bool(value) if dtype == boolean else int(value), dtype)


@lru_cache(maxsize=1 << 14)
def _index(value: int) -> Const:
    """An index; the same few are asked for again and again."""
    return Const(value, int64)


def lift(value: Operand, dtype: DType) -> Expr:
    """A Python number as a literal of `dtype`; a term as itself."""
    if isinstance(value, int | float | bool | Size):
        return const(value, dtype)
    return value._expr


def apply(name: str, *args: Expr) -> Apply:
    """The scalar operator of that name applied to terms."""
    return Apply(SCALAR_OP[name], args)


def cast(arg: Expr, dtype: DType) -> Expr:
    """Conversion of a term to `dtype`; the term itself if it has that type already."""
    return arg if arg.dtype == dtype else Cast(arg, dtype)


def select(condition: Expr, then: Expr, otherwise: Operand) -> Select:
    """`condition ? then : otherwise`."""
    return Select(condition, then, lift(otherwise, then.dtype))


def all_of(conditions: Sequence[Expr]) -> Expr:
    """Conjunction of conditions; true for none."""
    result: Expr = const(True, boolean)
    for position, condition in enumerate(conditions):
        result = condition if position == 0 else apply("and", result, condition)
    return result


def maximum(x: Expr, y: Operand) -> Expr:
    return apply("max", x, lift(y, x.dtype))


def minimum(x: Expr, y: Operand) -> Expr:
    return apply("min", x, lift(y, x.dtype))


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand of an expression under construction: `tensor[i, j]` builds a load."""

    operand: int
    type: TensorType

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    def __getitem__(self, indices: Operand | tuple[Operand, ...]) -> Load:
        items = indices if isinstance(indices, tuple) else (indices,)
        return Load(self.operand, self.type, tuple(lift(item, int64) for item in items))


_provisional = itertools.count(-1, -1)


def provisional_axis(extent: int, name: str) -> Axis:
    """An axis at a position that no other has, until `canonical` numbers it."""
    return Axis(next(_provisional), extent, name)


AXIS_NAMES = "ijlmpq"
REDUCTION_NAMES = "krstuv"


def reduce(
    fold: Fold,
    extents: int | Sequence[int],
    body: Callable[..., Expr],
    names: Sequence[str] | None = None,
) -> Reduce:
    """A reduction over fresh axes of those extents, inside `compute`."""
    sizes = (extents,) if isinstance(extents, int | Size) else tuple(extents)
    labels = names if names is not None else _default_names(REDUCTION_NAMES, len(sizes))
    axes = tuple(provisional_axis(size, label) for size, label in zip(sizes, labels, strict=True))
    return Reduce(fold, axes, body(*axes))


def reduce_sum(
    extents: int | Sequence[int], body: Callable[..., Expr], names: Sequence[str] | None = None
) -> Reduce:
    """`sum(k…) body(k…)`."""
    return reduce(Fold.SUM, extents, body, names)


@dataclass(frozen=True, slots=True, eq=False)
class TensorExpr(Identified):
    """A tensor defined element by element: `out[axes] = body`."""

    axes: tuple[Axis, ...]
    body: Expr
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "digest",
            content_digest("tensor", *(a.digest for a in self.axes), self.body.digest),
        )

    @property
    def type(self) -> TensorType:
        return TensorType(self.body.dtype, tuple(axis.extent for axis in self.axes))

    def __str__(self) -> str:
        return f"out[{','.join(a.name for a in self.axes)}] = {expression_text(self.body)}"


def compute(
    shape: Shape, body: Callable[..., Expr], names: Sequence[str] | None = None
) -> TensorExpr:
    """The tensor of that shape whose element at (i, j, …) is `body(i, j, …)`."""
    labels = names if names is not None else _default_names(AXIS_NAMES, len(shape))
    axes = tuple(provisional_axis(size, label) for size, label in zip(shape, labels, strict=True))
    return canonical(axes, body(*axes))


def canonical(axes: Sequence[Axis], body: Expr) -> TensorExpr:
    """Number output axes 0, 1, …, and each reduction's axes from the next free position."""
    outputs = tuple(Axis(n, axis.extent, axis.name) for n, axis in enumerate(axes))
    renamed: dict[int, Expr] = {
        axis.position: output for axis, output in zip(axes, outputs, strict=True)
    }
    return TensorExpr(outputs, _renumber(body, renamed, len(outputs)))


def _renumber(expr: Expr, renamed: dict[int, Expr], depth: int) -> Expr:
    memo: dict[bytes, Expr] = {}

    def walk(term: Expr) -> Expr:
        known = memo.get(term.digest)
        if known is not None:
            return known
        match term:
            case Axis():
                result = renamed[term.position]
            case Reduce():
                axes = tuple(
                    Axis(depth + n, axis.extent, axis.name) for n, axis in enumerate(term.axes)
                )
                inner = {**renamed, **{a.position: b for a, b in zip(term.axes, axes, strict=True)}}
                result = Reduce(term.fold, axes, _renumber(term.body, inner, depth + len(axes)))
            case _:
                result = map_children(term, walk)
        memo[term.digest] = result
        return result

    return walk(expr)


def _default_names(alphabet: str, count: int) -> list[str]:
    return [alphabet[n] if n < len(alphabet) else f"{alphabet[0]}{n}" for n in range(count)]


# Traversal


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subterms, in order."""
    match expr:
        case Apply():
            return expr.args
        case Const() | Axis():
            return ()
        case Load():
            return expr.indices
        case Cast():
            return (expr.arg,)
        case Select():
            return (expr.condition, expr.then, expr.otherwise)
        case Reduce():
            return (expr.body,)
        case _:
            assert_never(expr)


def map_children(expr: Expr, function: Callable[[Expr], Expr]) -> Expr:
    """The term with `function` applied to each direct subterm; itself if nothing changed."""
    before = children(expr)
    after = tuple([function(child) for child in before])
    for a, b in zip(before, after, strict=True):
        if a is not b:
            break
    else:
        return expr
    match expr:
        case Apply():
            return Apply(expr.op, after)
        case Const() | Axis():
            return expr
        case Load():
            return Load(expr.operand, expr.type, after)
        case Cast():
            return Cast(after[0], expr.dtype, expr.bits)
        case Select():
            return Select(*after)
        case Reduce():
            return Reduce(expr.fold, expr.axes, after[0])
        case _:
            assert_never(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every distinct subterm, children before parents."""
    seen: set[bytes] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        term, expanded = stack.pop()
        if expanded:
            yield term
        elif term.digest not in seen:
            seen.add(term.digest)
            inside = children(term)
            if not inside:
                yield term
                continue
            stack.append((term, True))
            stack.extend([(child, False) for child in reversed(inside)])


def loads(expr: Expr) -> tuple[Load, ...]:
    """The distinct loads in a term, innermost first."""
    return tuple(term for term in walk(expr) if isinstance(term, Load))


def free_axes(expr: Expr) -> frozenset[Axis]:
    """The axes that occur in a term and are not bound by a reduction inside it."""
    if isinstance(expr, Axis):
        # It does not keep itself: a term that does is a cycle, for the collector to find.
        return frozenset((expr,))
    found: frozenset[Axis] | None = getattr(expr, "_free", None)
    if found is None:
        found = _free_axes(expr)
        object.__setattr__(expr, "_free", found)
    return found


def _free_axes(expr: Expr) -> frozenset[Axis]:
    if isinstance(expr, Reduce):
        return free_axes(expr.body) - frozenset(expr.axes)
    found: frozenset[Axis] = frozenset()
    for child in children(expr):
        inside = free_axes(child)
        # Nearly all terms have the axes of one of their subterms.
        if not inside <= found:
            found = inside if found <= inside else found | inside
    return found


def substitute(expr: Expr, replacement: Callable[[Expr], Expr | None]) -> Expr:
    """Replace, top down, each subterm for which `replacement` gives a term.

    Positions bound by reductions are not adjusted: pass the result through `canonical`.
    """
    return _Substitution(replacement, {}).visit(expr)


@dataclass(frozen=True, slots=True)
class _Substitution:
    """What takes the place of terms, and what has been replaced so far, by digest."""

    replacement: Callable[[Expr], Expr | None]
    memo: dict[bytes, Expr]

    def visit(self, term: Expr) -> Expr:
        known = self.memo.get(term.digest)
        if known is None:
            replaced = self.replacement(term)
            known = map_children(term, self.visit) if replaced is None else replaced
            self.memo[term.digest] = known
        return known


# Text


_FOLD_TEXT = {Fold.SUM: "sum", Fold.PRODUCT: "product", Fold.MAX: "max", Fold.MIN: "min"}
OPERAND_NAMES = "xyzwabcdefgh"


def operand_name(operand: int) -> str:
    """Display name of an operand: x, y, z, …"""
    return OPERAND_NAMES[operand] if operand < len(OPERAND_NAMES) else f"x{operand}"


def expression_text(expr: Expr, outer: int = 0) -> str:
    """The term in index notation, with only the parentheses that precedence asks for."""
    match expr:
        case Const():
            return repr(expr.value) if expr.dtype.is_float else str(expr.value)
        case Axis():
            return expr.name
        case Load():
            inside = ",".join(expression_text(index) for index in expr.indices)
            return f"{operand_name(expr.operand)}[{inside}]"
        case Apply():
            if expr.op.symbol and expr.op.arity == 2:
                rank = expr.op.precedence
                left = expression_text(expr.args[0], rank)
                right = expression_text(expr.args[1], rank + 1)
                text = f"{left} {expr.op.symbol} {right}"
                return f"({text})" if rank < outer else text
            inside = ", ".join(expression_text(arg) for arg in expr.args)
            return f"{expr.op.name}({inside})"
        case Cast():
            return f"{'bits_' if expr.bits else ''}{expr.dtype.name}({expression_text(expr.arg)})"
        case Select():
            parts = (expr.condition, expr.then, expr.otherwise)
            return f"select({', '.join(expression_text(part) for part in parts)})"
        case Reduce():
            axes = ",".join(axis.name for axis in expr.axes)
            text = f"{_FOLD_TEXT[expr.fold]}({axes}) {expression_text(expr.body, 13)}"
            return f"({text})" if outer else text
        case _:
            assert_never(expr)

"""Each application of a rule held against the meaning of its operators, over a finite field.

What it does: takes what a rule matched and what it put there, with everything that its variables
stood for as leaves, fills the leaves at random in their true shapes, and compares both sides at a
few elements of each result: the composed tensor expressions of `OpSpec.compute`, restricted to
these elements. Sums, products and quotients are compared over a finite field. Where the order of
numbers matters, which a field does not have, the leaves are small whole numbers, whose sums and
products are exact, too; only where an operator rounds is a relative difference allowed.

What it does not: prove anything, or follow a result whose elements need too many terms: such an
application is skipped, and said to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from math import prod

import numpy as np

from graphopt.graph import Constant, Node, Value
from graphopt.ops.spec import expression_of
from graphopt.search.finite_field import PRIME, over_field, residues
from graphopt.search.moves import Application
from graphopt.search.promised import Promise
from tensorgen.composition import inline, renumber_operands
from tensorgen.evaluate import evaluate
from tensorgen.expr import (
    Axis,
    Expr,
    Load,
    Reduce,
    TensorExpr,
    canonical,
    children,
    const,
    loads,
    substitute,
)
from tensorgen.types import Array, TensorType, boolean, int64

MOST_TERMS = 2**21
"""Elements whose composed sums have more terms than this, together, are not computed."""

MOST_BYTES = 2**27
"""Leaves of more bytes than this, together, are not filled."""

_EXACT = frozenset(
    {"add", "sub", "mul", "max", "min", "neg", "abs", "matmul", "conv", "conv_transpose", "einsum",
     "reduce_sum", "reduce_max", "reduce_min", "sum_pool", "max_pool", "where"}
)  # fmt: skip
"""Operators, beside layout, that do not round on small integers."""


class Checked(Enum):
    """What a spot check found."""

    AGREED = "both sides were equal"
    DIFFERS = "both sides differ"
    SKIPPED = "too large to compute"


Check = Callable[[Application], Checked]
"""Judges one application of a rule."""

_Fill = Callable[[Value, np.random.Generator], Array]

_NOTHING = np.empty(0)


def spot_check(application: Application, seed: int = 0) -> Checked:
    """Compare both sides of an application at a few elements of each result."""
    rng = np.random.default_rng(seed)
    leaves = {value: n for n, value in enumerate(application.leaves)}
    pairs = list(zip(application.roots, application.replacements, strict=True))
    sides = [(_composed(old, leaves), _composed(new, leaves)) for old, new in pairs]
    values = list(leaves)
    used = {load.operand for side in sides for expr in side for load in loads(expr.body)}
    if sum(8 * values[number].type.size for number in used) > MOST_BYTES:
        return Checked.SKIPPED

    def drawn(fill: _Fill) -> list[Array]:
        return [fill(v, rng) if n in used else _NOTHING for n, v in enumerate(values)]

    for side, (old, new) in zip(sides, pairs, strict=True):
        widest = max(_terms(expr.body) for expr in side)
        if widest > MOST_TERMS:
            return Checked.SKIPPED
        boxes = list(_boxes(old.type, max(1, MOST_TERMS // (widest * 4)), rng))
        rational = [over_field(expr) for expr in side]
        as_meant = not any(_is_rounded(values[n]) for n in used)
        if None not in rational and as_meant:
            in_field = [expr for expr in rational if expr is not None]
            # A quotient by 0 has no meaning: of two draws, only one is that unlucky.
            agree = any(_agree(in_field, boxes, drawn(_residues), exact=True) for _ in range(2))
        else:
            exact = as_meant and _is_exact((old, new), leaves)
            agree = _agree(side, boxes, drawn(_whole_numbers), exact)
        if not agree:
            return Checked.DIFFERS
    return Checked.AGREED


def _composed(value: Value, leaves: dict[Value, int]) -> TensorExpr:
    """The meaning of a value over the leaves, which are its operands; constants become leaves."""
    if not isinstance(value, Node) or value in leaves:
        number = leaves.setdefault(value, len(leaves))
        axes = tuple(Axis(n, size, f"i{n}") for n, size in enumerate(value.type.shape))
        return TensorExpr(axes, Load(number, value.type, axes))
    inner = [_composed(operand, leaves) for operand in value.inputs]
    spare = len(leaves) + len(inner)
    expr = renumber_operands(expression_of(value), {n: spare + n for n in range(len(value.inputs))})
    for position, operand in enumerate(inner):
        expr = inline(expr, spare + position, operand)
    return expr


def _terms(expr: Expr) -> int:
    """How many scalar terms one element takes, sums of sums multiplied out."""
    known: dict[bytes, int] = {}

    def visit(term: Expr) -> int:
        if term.digest not in known:
            inner = 1 + sum(visit(part) for part in children(term))
            if isinstance(term, Reduce):
                inner *= max(1, prod(axis.extent for axis in term.axes))
            known[term.digest] = inner
        return known[term.digest]

    return visit(expr)


def _boxes(
    type: TensorType, most: int, rng: np.random.Generator
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Starts and sizes of some boxes of at most `most` elements: both ends, and between."""
    if type.size == 0:
        return
    widths = [min(2, size) for size in type.shape]
    for axis in range(len(widths)):
        if prod(widths) > most:
            widths[axis] = 1
    room = [size - width for size, width in zip(type.shape, widths, strict=True)]
    between = ([int(rng.integers(0, n + 1)) for n in room] for _ in range(4))
    for starts in ([0] * len(room), room, *between):
        yield tuple(starts), tuple(widths)


def _restricted(expr: TensorExpr, starts: tuple[int, ...], widths: tuple[int, ...]) -> TensorExpr:
    """The elements of an expression in a box."""
    axes = tuple(
        Axis(n, width, axis.name)
        for n, (axis, width) in enumerate(zip(expr.axes, widths, strict=True))
    )
    shifted = {
        axis.position: const(start, int64) + new if start else new
        for axis, start, new in zip(expr.axes, starts, axes, strict=True)
    }

    def moved(term: Expr) -> Expr | None:
        return shifted.get(term.position) if isinstance(term, Axis) else None

    return canonical(axes, substitute(expr.body, moved))


def _literal(value: Value) -> Array | None:
    """What a literal, or an index known at compile time, is; None for what a leaf stands for."""
    if not isinstance(value, Constant) or isinstance(value, Promise):
        return None
    return value.array if value.type.size == 1 or not value.type.dtype.is_float else None


def _whole_numbers(value: Value, rng: np.random.Generator) -> Array:
    """Small integers in the type of a value; a literal as it is."""
    literal = _literal(value)
    if literal is not None:
        return literal
    if value.type.dtype == boolean:
        return np.asarray(rng.integers(0, 2, size=value.type.shape), dtype=np.bool_)
    low = -4 if value.type.dtype.is_float else 0
    drawn = rng.integers(low, 5, size=value.type.shape, dtype=np.int8)
    return np.asarray(drawn).astype(value.type.dtype.numpy)


def _is_rounded(value: Value) -> bool:
    """Whether a literal may be another number than was meant, as a third is in floating point; one
    with a few bits behind the point is not. An infinity is none."""
    literal = _literal(value)
    if literal is None or not value.type.dtype.is_float:
        return False
    scaled = literal.astype(np.float64) * 2**10
    return not bool((np.isfinite(scaled) & (np.trunc(scaled) == scaled)).all())


def _residues(value: Value, rng: np.random.Generator) -> Array:
    """Elements of the field other than 0 for a value of floats; a literal as what it is there."""
    if not value.type.dtype.is_float:
        return _whole_numbers(value, rng)
    literal = _literal(value)
    if literal is None:
        return np.asarray(rng.integers(1, PRIME, size=value.type.shape))
    return residues(literal)


def _is_exact(roots: tuple[Value, ...], leaves: Mapping[Value, int]) -> bool:
    """Whether no operator between the roots and the leaves rounds small integers."""
    pending: list[Value] = list(roots)
    while pending:
        value = pending.pop()
        if isinstance(value, Node) and value not in leaves:
            wide = not value.type.dtype.is_float or value.type.dtype.bits >= 32
            if not wide or (value.op.family != "layout" and value.op.name not in _EXACT):
                return False
            pending.extend(value.inputs)
    return True


def _agree(
    side: Sequence[TensorExpr],
    boxes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    arrays: Sequence[Array],
    exact: bool,
) -> bool:
    """Whether both expressions of a pair have equal elements in all boxes."""
    for starts, widths in boxes:
        found, expected = (evaluate(_restricted(expr, starts, widths), arrays) for expr in side)
        if not _equal(found, expected, exact):
            return False
    return True


def _equal(found: Array, expected: Array, exact: bool) -> bool:
    if exact or found.dtype.kind != "f":
        return bool(((found == expected) | ((found != found) & (expected != expected))).all())
    a, b = found.astype(np.float64), expected.astype(np.float64)
    relative = 1e-4 if found.dtype.itemsize >= 4 else 5e-2
    return bool(np.isclose(a, b, rtol=relative, atol=relative, equal_nan=True).all())

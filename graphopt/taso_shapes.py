"""Sizes of tensors in TASO's substitutions, as parameter expressions of rules.

What it does: follows the axes of each tensor through operators: how long they are, in sizes of
variables, and of which parts they were concatenated, for that is where TASO splits them again
("split tree"). What it does not: compute with numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphopt.pattern import Expression, FunctionCall, Literal, Term, expression_text


@dataclass(frozen=True, slots=True)
class Leaf:
    """An axis, or part of one, that was not concatenated; the size is None if no name says it."""

    size: Expression | None


@dataclass(frozen=True, slots=True)
class Fork:
    """An axis of two parts, one after the other."""

    left: Axis
    right: Axis


Axis = Leaf | Fork


@dataclass(frozen=True, slots=True)
class Tensor:
    """A term and its axes; None where their number is open."""

    term: Term
    axes: tuple[Axis, ...] | None


def leaves(axis: Axis) -> tuple[Leaf, ...]:
    """The parts of an axis that were not concatenated, in order."""
    if isinstance(axis, Leaf):
        return (axis,)
    return leaves(axis.left) + leaves(axis.right)


def size_of(axis: Axis) -> Expression | None:
    """The size of an axis; None if no name says it."""
    sizes = [leaf.size for leaf in leaves(axis)]
    known = [size for size in sizes if size is not None]
    return total(known) if len(known) == len(sizes) else None


def total(sizes: Sequence[Expression]) -> Expression:
    """The sum of sizes, in an order that does not depend on theirs."""
    if len(sizes) == 1:
        return sizes[0]
    ordered = sorted(sizes, key=expression_text)
    return FunctionCall("total", tuple(ordered)) if sizes else Literal(0)


def tuple_of(sizes: Sequence[Expression]) -> Expression:
    """The tuple of sizes: a literal if all of them are."""
    known = [size.value for size in sizes if isinstance(size, Literal)]
    if len(known) == len(sizes):
        return Literal(tuple(known))
    return FunctionCall("sizes", tuple(sizes))


def combined(x: Axis, y: Axis) -> Axis:
    """An axis of an elementwise result: it keeps the parts that both operands have."""
    if x == y or isinstance(x, Leaf):
        return x
    return Leaf(size_of(x))


def cut(axis: Axis, count: int) -> tuple[Axis, ...] | None:
    """An axis in `count` parts, cut where it was concatenated last; None if it was not."""
    if count == 1:
        return (axis,)
    if isinstance(axis, Leaf):
        return None
    before = cut(axis.left, count - 1)
    return None if before is None else (*before, axis.right)

"""Testing an equation again: fresh data, a fresh prime, other shapes, another way of computing.

What it does: evaluates both sides with the operators' own numpy references on shapes drawn by
`sizes`, which keep nothing of the enumeration's: coprime sizes and ones, unequal parts of concats,
kernels of even and odd size, one group or several. Polynomials are compared exactly modulo a
prime, whatever has a maximum in it on small whole numbers (exactly too), and transcendental
functions and quotients in float64 up to rounding.

What it does not: prove anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import assert_never

import numpy as np

from graphopt.enumerate.fields import Floats
from graphopt.enumerate.sizes import Drawn, Grouping, Unsolvable, draw, parameters
from graphopt.enumerate.trees import Applied, Equation, Fixed, Tree, Variable, subtrees
from tensorgen.types import ShapeError, TensorType, float64

DRAWS = 2
MORE_DRAWS = 8
"""Shapes and data that an equation is tested on; more where the sizes of a polynomial with distinct
sizes do not settle it: where signs matter, and where constants or groups tie sizes together."""

PRIMES = (1048573, 1048571)
"""Primes below 2**20 that the enumeration does not use: 2**13 products add up exactly."""

_ORDERED = frozenset({"max", "max_pool", "reduce_max"})
_ROUNDED = frozenset({"div", "exp", "sigmoid", "tanh"})
_TOLERANCE = 1e-8


@dataclass(frozen=True, slots=True)
class Holds:
    """Both sides agreed on all draws, for these numbers of groups."""

    grouping: Grouping


@dataclass(frozen=True, slots=True)
class Fails:
    """Both sides differ on some shapes."""


@dataclass(frozen=True, slots=True)
class Untested:
    """No shapes were found under which both sides have a meaning."""


Outcome = Holds | Fails | Untested


def retest(equation: Equation, seed: int) -> Outcome:
    """Test an equation; the most general grouping under which it holds is found."""
    outcome: Outcome = Untested()
    for grouping in _groupings(equation):
        outcome = _tested(equation, grouping, seed)
        if isinstance(outcome, Holds):
            return outcome
    return outcome


def _groupings(equation: Equation) -> tuple[Grouping, ...]:
    """What to claim about groups, from general to special."""
    groups = {
        dict(tree.params)["groups"]
        for side in (equation.left, equation.right)
        for tree in subtrees(side)
        if isinstance(tree, Applied) and tree.instance.op.name == "conv"
    }
    if not groups:
        return (Grouping.ANY,)
    if groups == {1}:
        return (Grouping.ANY, Grouping.AS_FOUND)
    return tuple(Grouping)


def _tested(equation: Equation, grouping: Grouping, seed: int) -> Outcome:
    names = {
        tree.instance.op.name
        for side in (equation.left, equation.right)
        for tree in subtrees(side)
        if isinstance(tree, Applied)
    }
    random = Random(f"{seed} {equation}")
    for number in range(_draws(equation, names)):
        try:
            drawn = draw(equation, grouping, random, number)
        except Unsolvable:
            return Untested()
        domain = _Domain(names, number, random.getrandbits(32))
        evaluation = _Evaluation(drawn, domain)
        try:
            left, right = (evaluation.value(side) for side in (equation.left, equation.right))
        except ShapeError:
            return Untested()
        if left.shape != right.shape or not domain.equal(left, right):
            return Fails()
    return Holds(grouping)


def _draws(equation: Equation, names: set[str]) -> int:
    delicate = bool(names & _ORDERED) or any(
        isinstance(tree, Fixed)
        or (isinstance(tree, Applied) and dict(tree.params).get("groups", 1) != 1)
        for side in (equation.left, equation.right)
        for tree in subtrees(side)
    )
    return MORE_DRAWS if delicate else DRAWS


class _Domain:
    """The numbers that one draw computes with.

    Tensors of one element go through all combinations of signs with the number of the draw, and
    the elements of others are mostly negative in some draws and mostly positive in others, so that
    what holds for numbers of one sign only is not taken for true.
    """

    def __init__(self, names: set[str], number: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.signs = number
        self.negative = (0.5, 0.9, 0.5, 1.0, 0.1)[number % 5]
        self.rounded = bool(names & _ROUNDED)
        exact = not names & (_ORDERED | _ROUNDED)
        self.prime = PRIMES[number % len(PRIMES)] if exact else None

    def drawn(self, shape: tuple[int, ...]) -> Floats:
        """Random data. Not 0, so that quotients have a meaning."""
        if self.prime is not None:
            return self.rng.integers(0, self.prime, shape).astype(np.float64)
        if self.rounded:
            size = self.rng.uniform(0.25, 1.5, shape)
        else:
            size = self.rng.integers(1, 10, shape).astype(np.float64)
        if math.prod(shape) != 1:
            return np.where(self.rng.random(shape) < self.negative, -size, size)
        sign = 1.0 if self.signs & 1 else -1.0
        self.signs >>= 1
        return np.asarray(size * sign)

    def kept(self, array: Floats) -> Floats:
        """A result as the domain holds it."""
        return array if self.prime is None else np.mod(array, self.prime)

    def equal(self, left: Floats, right: Floats) -> bool:
        """Whether both sides are the same."""
        if not self.rounded:
            return bool(np.array_equal(left, right))
        return bool(np.allclose(left, right, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=False))


class _Evaluation:
    """The values of terms under one draw."""

    def __init__(self, drawn: Drawn, domain: _Domain) -> None:
        self.drawn = drawn
        self.domain = domain
        self.fixed: Iterator[tuple[int, ...]] = iter(drawn.fixed)
        self.data = {v: domain.drawn(shape) for v, shape in drawn.variables.items()}

    def value(self, tree: Tree) -> Floats:
        """The value of a term; its constants are those that come next. Raises ShapeError."""
        match tree:
            case Variable():
                return self.data[tree]
            case Fixed():
                return tree.constant.like(next(self.fixed)).astype(np.float64)
            case Applied():
                operands = [self.value(operand) for operand in tree.operands]
                return self.applied(tree, operands)
            case _:
                assert_never(tree)

    def applied(self, tree: Applied, operands: list[Floats]) -> Floats:
        op = tree.instance.op
        params = parameters(tree, [operand.shape for operand in operands], self.drawn)
        arrays = [*operands, *(np.asarray(float(value)) for value in tree.instance.literals)]
        op.infer(*(TensorType(float64, array.shape) for array in arrays), **params)
        with np.errstate(all="ignore"):
            return self.domain.kept(np.asarray(op.reference(*arrays, **params)))

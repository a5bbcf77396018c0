"""Most general sizes under which both sides of an equation have a meaning and equal shapes.

What it does: gives every axis of every variable an unknown size, adds the linear equations that
operators and the equality of both sides ask for, solves them, and draws numbers for what remains
free. Convolutions are drawn in one of three ways (`Grouping`). The numbers only propose shapes:
whether operators accept them is for `OpSpec.infer` to say.

What it does not: find shapes for what is not linear beyond products by a drawn number; the equation
is then untested. Evaluate anything (`retest`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from math import gcd
from random import Random
from typing import assert_never

from graphopt.enumerate.trees import Applied, Equation, Fixed, Tree, Variable
from graphopt.graph import Param
from tensorgen.types import Shape

_DISTINCT = (2, 3, 5, 7, 4, 6)
_SIZES = (1, 2, 3, 5)
"""Sizes of axes: distinct as far as they go in every other draw, else any, one included."""

_GROUPS = (2, 3)
"""Numbers of groups, in turn."""

_KERNELS = (1, 2, 3, 4)
_ATTEMPTS = 40


class Unsolvable(Exception):
    """No sizes were found."""


class Grouping(Enum):
    """For which numbers of groups an equation with convolutions is claimed."""

    ANY = "any number of groups, the same everywhere"
    AS_FOUND = "one group, or more than one where the convolution was found grouped"
    DEPTHWISE = "one group, or one input channel in each group where it was found grouped"


@dataclass(frozen=True, slots=True)
class Linear:
    """A size: a whole number plus multiples of unknowns, sorted by unknown, none of them 0."""

    constant: int = 0
    terms: tuple[tuple[int, int], ...] = ()

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """self + factor * other."""
        constant = self.constant + factor * other.constant
        if not other.terms:
            return Linear(constant, self.terms)
        if not self.terms:
            terms = other.terms if factor == 1 else tuple((u, m * factor) for u, m in other.terms)
            return Linear(constant, terms if factor else ())
        total = dict(self.terms)
        for unknown, multiple in other.terms:
            total[unknown] = total.get(unknown, 0) + factor * multiple
        return Linear(constant, tuple(sorted(item for item in total.items() if item[1])))

    def times(self, factor: int) -> Linear:
        """self * factor."""
        return self if factor == 1 else Linear().plus(self, factor)


Sizes = tuple[Linear, ...]


@dataclass(slots=True)
class _System:
    """Linear equations between sizes, solved as they come."""

    count: int = 0
    solved: dict[int, Linear] = field(default_factory=dict)

    def unknown(self) -> Linear:
        self.count += 1
        return Linear(0, ((self.count - 1, 1),))

    def resolved(self, size: Linear) -> Linear:
        """The size with all solved unknowns replaced."""
        solved = self.solved
        while True:
            for unknown, _ in size.terms:
                if unknown in solved:
                    break
            else:
                return size
            result = Linear(size.constant)
            for unknown, multiple in size.terms:
                value = solved.get(unknown)
                result = result.plus(
                    Linear(0, ((unknown, 1),)) if value is None else value, multiple
                )
            size = result

    def equate(self, left: Linear, right: Linear) -> None:
        if left == right:
            return
        difference = self.resolved(left.plus(right, -1))
        if not difference.terms:
            if difference.constant:
                raise Unsolvable
            return
        divisor = gcd(*(multiple for _, multiple in difference.terms))
        if difference.constant % divisor:
            raise Unsolvable
        terms = tuple((unknown, multiple // divisor) for unknown, multiple in difference.terms)
        difference = Linear(difference.constant // divisor, terms)
        for unknown, multiple in reversed(terms):
            if abs(multiple) == 1:
                rest = difference.plus(Linear(0, ((unknown, multiple),)), -1)
                self.solved[unknown] = rest.times(-multiple)
                return
        raise Unsolvable

    def equate_all(self, left: Sizes, right: Sizes) -> None:
        if len(left) != len(right):
            raise Unsolvable
        for a, b in zip(left, right, strict=True):
            self.equate(a, b)

    def number(self, size: Linear, draw: Callable[[], int]) -> int:
        """The size as a number: drawn, and from then on fixed, if it is one unknown."""
        size = self.resolved(size)
        if size.terms:
            if len(size.terms) > 1 or size.constant or size.terms[0][1] != 1:
                raise Unsolvable
            drawn = draw()
            self.solved[size.terms[0][0]] = Linear(drawn)
            return drawn
        return size.constant


@dataclass(frozen=True, slots=True)
class Drawn:
    """Shapes of the variables and constants, and where splits cut, in one draw.

    `fixed` follows the order in which constants occur, left side first. `cuts` are keyed by the
    operand of the split and its axis.
    """

    variables: Mapping[Variable, Shape]
    fixed: tuple[Shape, ...]
    cuts: Mapping[tuple[Tree, int], int]


def draw(equation: Equation, grouping: Grouping, random: Random, number: int = 0) -> Drawn:
    """Shapes under which both sides have a meaning; the number of the draw settles their kind.

    Raises Unsolvable.
    """
    for attempt in range(_ATTEMPTS):
        groups = _GROUPS[(number + attempt) % len(_GROUPS)]
        distinct = random.sample(_DISTINCT, len(_DISTINCT)) if number % 2 == 0 else []
        draft = _Draft(_System(), grouping, groups, random, distinct)
        try:
            left, right = draft.sizes(equation.left), draft.sizes(equation.right)
            draft.system.equate_all(left, right)
            drawn = draft.numbers()
        except Unsolvable:
            continue
        if drawn is not None:
            return drawn
    raise Unsolvable


_GENERIC = (101, 108, 122, 150, 185, 279, 349, 485, 541, 754, 988, 1208, 1498, 1805)
"""Sizes such that no two sums of one or two of them differ by less than 7."""


def generic(equation: Equation, grouping: Grouping) -> Drawn:
    """Shapes whose sizes have no more in common than the equation asks for. Raises Unsolvable."""
    orders = (_GENERIC[::-1], _GENERIC[:8])
    for groups, sizes in product(_GROUPS, orders):
        draft = _Draft(_System(), grouping, groups, Random(0), list(sizes))
        try:
            left, right = draft.sizes(equation.left), draft.sizes(equation.right)
            draft.system.equate_all(left, right)
            drawn = draft.numbers()
        except Unsolvable:
            continue
        if drawn is not None:
            return drawn
    raise Unsolvable


def parameters(tree: Applied, shapes: Sequence[Shape], drawn: Drawn) -> dict[str, Param]:
    """The parameters that drawn shapes of its operands ask of a term."""
    params = dict(tree.params)
    shape = shapes[0]
    match tree.instance.op.name:
        case "conv":
            params["groups"] = shape[1] // shapes[1][1]
        case "slice":
            axis = tree.instance.axis
            cut = drawn.cuts[tree.operands[0], axis]
            start, size = (0, cut) if tree.instance.part == 0 else (cut, shape[axis] - cut)
            params["starts"] = tuple(start if n == axis else 0 for n in range(len(shape)))
            params["sizes"] = tuple(size if n == axis else whole for n, whole in enumerate(shape))
        case "reshape":
            params["shape"] = (shape[0] * shape[1], *shape[2:])
        case _:
            pass
    return params


def general_sizes(equation: Equation, grouping: Grouping) -> dict[Tree, Sizes]:
    """The sizes of every subterm in unknowns that nothing ties together. Raises Unsolvable."""
    # Numbers that sizes are multiplied with are so large that they are equal to no others.
    draft = _Draft(_System(), grouping, 2, Random(0), [89, 83, 79, 73])
    draft.system.equate_all(draft.sizes(equation.left), draft.sizes(equation.right))
    return {tree: tuple(map(draft.system.resolved, sizes)) for tree, sizes in draft.terms.items()}


@dataclass(slots=True)
class _Draft:
    """The unknown sizes of an equation."""

    system: _System
    grouping: Grouping
    groups: int
    random: Random
    distinct: list[int]
    variables: dict[Variable, Sizes] = field(default_factory=dict)
    fixed: list[Sizes] = field(default_factory=list)
    cuts: dict[tuple[Tree, int], Linear] = field(default_factory=dict)
    kernels: list[Linear] = field(default_factory=list)
    all: list[Linear] = field(default_factory=list)
    terms: dict[Tree, Sizes] = field(default_factory=dict)

    def sizes(self, tree: Tree) -> Sizes:
        """The sizes of a term."""
        match tree:
            case Variable():
                if tree not in self.variables:
                    self.variables[tree] = tuple(self.system.unknown() for _ in range(tree.rank))
                result = self.variables[tree]
            case Fixed():
                result = self.constant(tree)
                self.fixed.append(result)
            case Applied():
                result = self.applied(tree, [self.sizes(operand) for operand in tree.operands])
            case _:
                assert_never(tree)
        self.all += result
        self.terms[tree] = result
        return result

    def drawn(self) -> int:
        """The size of an axis that is free."""
        return self.distinct.pop() if self.distinct else self.random.choice(_SIZES)

    def constant(self, tree: Fixed) -> Sizes:
        """Sizes of a named constant: those that its kind leaves open are unknown."""
        unknown = self.system.unknown
        match tree.constant.name:
            case "identity_matrix":
                size = unknown()
                return (size, size)
            case "identity_kernel":
                size = unknown()
                return (size, size, Linear(3), Linear(3))
            case "pooling_kernel":
                return (unknown(), Linear(1), Linear(3), Linear(3))
            case _:
                return tuple(unknown() for _ in tree.constant.shape)

    def applied(self, tree: Applied, operands: list[Sizes]) -> Sizes:
        """Sizes of an operator's result; what it asks of its operands becomes equations."""
        params = dict(tree.params)
        x = operands[0]
        match tree.instance.op.name:
            case "add" | "sub" | "mul" | "div":
                y = operands[1]
                self.system.equate_all(x[len(x) - len(y) :], y)
                return x
            case "max" | "neg" | "exp" | "sigmoid" | "tanh":
                return x
            case "matmul":
                y = operands[1]
                self.system.equate(x[-1], y[-2])
                if len(y) > 2:
                    self.system.equate_all(x[:-2], y[:-2])
                return (*x[:-1], y[-1])
            case "transpose":
                perm = params["perm"]
                assert isinstance(perm, tuple)
                return tuple(x[int(str(axis))] for axis in perm)
            case "concat":
                return self.joined(x, operands[1], params["axis"])
            case "slice":
                return self.part(tree, x)
            case "pad":
                margins = zip(_whole(params["before"]), _whole(params["after"]), strict=True)
                amounts = [Linear(low + high) for low, high in margins]
                return tuple(size.plus(more) for size, more in zip(x, amounts, strict=True))
            case "conv":
                return self.convolution(tree, x, operands[1])
            case "sum_pool" | "max_pool":
                kernel = tuple(Linear(size) for size in _whole(params["kernel"]))
                return (*x[:2], *self.windows(x[2:], kernel, params))
            case "reduce_sum" | "reduce_max":
                axes = _whole(params["axes"])
                one = Linear(1)
                kept = (one if axis in axes else size for axis, size in enumerate(x))
                if params["keepdims"]:
                    return tuple(kept)
                return tuple(size for axis, size in enumerate(x) if axis not in axes)
            case "reshape":
                merged = x[1].times(self.system.number(x[0], self.drawn))
                return (merged, *x[2:])
            case _:
                raise AssertionError(f"{tree.instance.op.name}: no sizes")

    def joined(self, x: Sizes, y: Sizes, axis: Param) -> Sizes:
        assert isinstance(axis, int)
        for n, (a, b) in enumerate(zip(x, y, strict=True)):
            if n != axis:
                self.system.equate(a, b)
        return (*x[:axis], x[axis].plus(y[axis]), *x[axis + 1 :])

    def part(self, tree: Applied, x: Sizes) -> Sizes:
        axis = tree.instance.axis
        key = tree.operands[0], axis
        if key not in self.cuts:
            self.cuts[key] = self.system.unknown()
        cut = self.cuts[key]
        size = cut if tree.instance.part == 0 else x[axis].plus(cut, -1)
        self.all += (cut, x[axis].plus(cut, -1))
        return (*x[:axis], size, *x[axis + 1 :])

    def convolution(self, tree: Applied, x: Sizes, w: Sizes) -> Sizes:
        grouped = dict(tree.params)["groups"] != 1
        self.kernels += w[2:]
        if grouped and self.grouping is Grouping.DEPTHWISE:
            self.system.equate(w[1], Linear(1))
            self.system.equate(w[0], x[1].times(self.groups))
        else:
            if self.grouping is Grouping.ANY:
                groups = self.groups
            else:
                groups = max(self.groups, 2) if grouped else 1
            self.system.equate(x[1], w[1].times(groups))
            if groups > 1:
                self.system.equate(w[0], self.system.unknown().times(groups))
        return (x[0], w[0], *self.windows(x[2:], w[2:], dict(tree.params)))

    def windows(self, x: Sizes, kernel: Sizes, params: Mapping[str, Param]) -> Sizes:
        strides, pads = _whole(params["strides"]), _whole(params["pads"])
        result = []
        for axis, (size, span) in enumerate(zip(x, kernel, strict=True)):
            room = size.plus(Linear(pads[axis] + pads[axis + len(x)])).plus(span, -1)
            if strides[axis] == 1:
                result.append(room.plus(Linear(1)))
                continue
            steps = self.system.unknown()
            remainder = Linear(self.random.randrange(strides[axis]))
            self.system.equate(room, steps.times(strides[axis]).plus(remainder))
            result.append(steps.plus(Linear(1)))
        return tuple(result)

    def numbers(self) -> Drawn | None:
        """Numbers for all sizes, at least 1; None if this draw gave others."""
        for size in self.kernels:
            resolved = self.system.resolved(size)
            if len(resolved.terms) == 1 and not resolved.constant and resolved.terms[0][1] == 1:
                self.system.number(resolved, lambda: self.random.choice(_KERNELS))
        values: dict[int, int] = {}

        def value(unknown: int) -> int:
            if unknown not in values:
                solved = self.system.solved.get(unknown)
                drawn = self.drawn() if solved is None else number(solved)
                values[unknown] = drawn
            return values[unknown]

        def number(size: Linear) -> int:
            return size.constant + sum(value(unknown) * m for unknown, m in size.terms)

        variables = {v: tuple(map(number, sizes)) for v, sizes in self.variables.items()}
        fixed = tuple(tuple(map(number, sizes)) for sizes in self.fixed)
        cuts = {key: number(cut) for key, cut in self.cuts.items()}
        if any(number(size) < 1 for size in set(self.all)):
            return None
        return Drawn(variables, fixed, cuts)


def _whole(param: Param) -> tuple[int, ...]:
    """A parameter known to be a tuple of whole numbers."""
    assert isinstance(param, tuple)
    return tuple(int(str(item)) for item in param)

"""Both sides of an equation as graph values over inputs of generic sizes.

What it does: gives the variables of an equation sizes that have no more in common than the equation
asks for, so that whatever follows about these values follows for all such sizes. What it does not:
hold data, or find sizes for every equation.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np

from graphopt.enumerate.sizes import Drawn, Grouping, Unsolvable, generic, parameters
from graphopt.enumerate.trees import Applied, Equation, Fixed, Tree, Variable
from graphopt.graph import Constant, Input, Value
from tensorgen.types import ShapeError, TensorType, float32

NAMED = 1000
"""Positions of inputs from here on stand for named constants, one for each name and shape."""


def generic_sides(equation: Equation, grouping: Grouping) -> tuple[Value, Value] | None:
    """Both sides; None if no sizes were found.

    Named constants are inputs like others, but ones are the literal 1 of the rule language where
    that leaves both sides of one type.
    """
    try:
        drawn = generic(equation, grouping)
    except Unsolvable:
        return None
    for literal in (True, False):
        builder = _Builder(drawn, literal)
        try:
            left, right = builder.value(equation.left), builder.value(equation.right)
        except (ShapeError, IndexError):  # IndexError: windows over the literal, which has no axes
            continue
        if left.type == right.type:
            return left, right
    return None


class _Builder:
    """Values of terms under one draw of shapes."""

    def __init__(self, drawn: Drawn, literal: bool) -> None:
        self.drawn = drawn
        self.literal = literal
        self.fixed = iter(drawn.fixed)
        self.positions: dict[object, int] = {}

    def value(self, tree: Tree) -> Value:
        """The value of a term; its constants have the shapes that come next."""
        match tree:
            case Variable():
                return Input(tree.number, TensorType(float32, self.drawn.variables[tree]))
            case Fixed():
                return self.constant(tree)
            case Applied():
                operands = self.operands(tree)
                shapes = [operand.type.shape for operand in operands]
                literals = [_literal(value) for value in tree.instance.literals]
                params = parameters(tree, shapes, self.drawn)
                return tree.instance.op(*operands, *literals, **params)
            case _:
                assert_never(tree)

    def operands(self, tree: Applied) -> list[Value]:
        """The operands of a term; beside another tensor, ones may be the literal 1."""
        values = [self.value(operand) for operand in tree.operands]
        if not self.literal or tree.instance.op.name not in ("add", "sub", "mul", "div"):
            return values
        ones = [
            isinstance(operand, Fixed) and operand.constant.name == "ones"
            for operand in tree.operands
        ]
        if all(ones):
            return values
        return [_literal(1) if one else value for one, value in zip(ones, values, strict=True)]

    def constant(self, tree: Fixed) -> Value:
        shape = next(self.fixed)
        key = tree.constant.name, shape
        position = NAMED + self.positions.setdefault(key, len(self.positions))
        return Input(position, TensorType(float32, shape))


def _literal(value: int) -> Constant:
    return Constant(np.asarray(value, np.float32))

"""Candidates of an enumeration as claims, from simple to involved.

What it does: gives every candidate its sides on inputs of generic sizes, and orders claims so that
rules which derive others come before them: first all with up to three operators on a side, then
those with more; among them by the number of different operators, for what two operators have to do
with each other is what longer equations are made of; then those with a variable twice on both
sides, special cases of others as a rule, after those without; then by size.
What it does not: judge claims.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphopt.enumerate.generic_sides import generic_sides
from graphopt.enumerate.run import Candidate
from graphopt.enumerate.trees import (
    Applied,
    Equation,
    operator_count,
    subtrees,
    variables_in_order,
)
from graphopt.graph import Node, Value
from graphopt.minimize.minimization import Claim
from graphopt.ops import OP

_BASIC = 3
_Order = tuple[int, int, bool, int, int, str]


def claims_of(candidates: Iterable[Candidate]) -> tuple[list[Claim], int]:
    """Claims in the order in which to judge them, and how many candidates have no generic sizes."""
    found: list[tuple[_Order, Claim]] = []
    missing = 0
    for candidate in candidates:
        sides = _sides(candidate)
        if sides is None:
            missing += 1
            continue
        claim = Claim(candidate.equation, *sides, candidate.rules)
        found.append((_order(candidate), claim))
    found.sort(key=lambda item: (item[1].is_joint, item[0]))
    return [claim for _, claim in found], missing


def _sides(candidate: Candidate) -> tuple[tuple[Value, ...], tuple[Value, ...]] | None:
    statement = candidate.statement
    sides = generic_sides(statement, candidate.grouping)
    if sides is None:
        return None
    if candidate.level:
        return (sides[0],), (sides[1],)
    joined = statement.left
    assert isinstance(joined, Applied), "rules of two results are found as a concatenation"
    return _parts(sides[0], sides[1], joined.instance.axis)


def _parts(joined: Value, whole: Value, axis: int) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """The operands of a concatenation, and the slices of what equals it."""
    assert isinstance(joined, Node)
    targets: list[Value] = []
    start = 0
    for operand in joined.inputs:
        shape = operand.type.shape
        starts = tuple(start if n == axis else 0 for n in range(len(shape)))
        targets.append(OP["slice"](whole, starts=starts, steps=(1,) * len(shape), sizes=shape))
        start += shape[axis]
    return joined.inputs, tuple(targets)


def _order(candidate: Candidate) -> _Order:
    statement = candidate.statement
    sides = (statement.left, statement.right)
    kinds = {
        tree.instance.name if tree.instance.name == "scale" else tree.instance.op.name
        for side in sides
        for tree in subtrees(side)
        if isinstance(tree, Applied)
    }
    sizes = [operator_count(side) for side in sides]
    variables = len(set(variables_in_order(statement.left)))
    return (
        max(_BASIC, *sizes), len(kinds), _repeats(statement), sum(sizes), -variables,
        candidate.equation,
    )  # fmt: skip


def _repeats(statement: Equation) -> bool:
    """Whether both sides have some variable twice."""
    places = [variables_in_order(side) for side in (statement.left, statement.right)]
    return all(len(set(numbers)) < len(numbers) for numbers in places)

"""The cheapest term of an e-graph, exactly: an integer program over operators and classes.

What it does: chooses operators so that every root, and every operand of a chosen operator, has a
chosen operator or is a leaf; what is chosen is ordered, so that it has no cycles. A value that is
used twice is paid once. Solved by HiGHS to a gap of zero.

What it does not: know costs that depend on neighbours, such as those of fused kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix

from graphopt.graph import Node, Value
from graphopt.search.equality_graph import ClassId, EqualityGraph, Operator


def cheapest_term(
    classes: EqualityGraph, roots: Sequence[ClassId], cost: Callable[[Node], float]
) -> tuple[Value, ...]:
    """A value for each root class, of the least cost together."""
    reached = _reached(classes, roots)
    position = {number: n for n, number in enumerate(reached)}
    choices = [
        (number, operator)
        for number in reached
        if not classes.is_leaf(number)
        for operator in classes.operators(number)
    ]
    chosen = _solved(classes, roots, position, choices, [cost(classes.node(o)) for _, o in choices])
    values: dict[ClassId, Value] = {}

    def value_of(number: ClassId) -> Value:
        number = classes.find(number)
        if number not in values:
            operator = chosen.get(number)
            if operator is None:
                values[number] = classes.representative(number)
            else:
                operands = (value_of(operand) for operand in operator.operands)
                values[number] = operator.op(*operands, **dict(operator.params))
        return values[number]

    return tuple(value_of(root) for root in roots)


def _reached(classes: EqualityGraph, roots: Sequence[ClassId]) -> tuple[ClassId, ...]:
    found: dict[ClassId, None] = {}
    pending = [classes.find(root) for root in roots]
    while pending:
        number = pending.pop()
        if number in found:
            continue
        found[number] = None
        if not classes.is_leaf(number):
            for operator in classes.operators(number):
                pending.extend(classes.find(operand) for operand in operator.operands)
    return tuple(sorted(found))


def _solved(
    classes: EqualityGraph,
    roots: Sequence[ClassId],
    position: dict[ClassId, int],
    choices: Sequence[tuple[ClassId, Operator]],
    costs: Sequence[float],
) -> dict[ClassId, Operator]:
    """The operator chosen for each class that is needed and no leaf.

    Variables: for each choice, whether it is made; for each class, whether it is needed, and its
    place in the order.
    """
    operators, count = len(choices), len(position)
    needed, order = operators, operators + count
    rows: list[tuple[dict[int, float], float]] = []
    of_class: dict[ClassId, list[int]] = {}
    for n, (number, operator) in enumerate(choices):
        of_class.setdefault(number, []).append(n)
        for operand in dict.fromkeys(map(classes.find, operator.operands)):
            place = position[operand]
            rows.append(({needed + place: 1.0, n: -1.0}, 0.0))
            # If chosen, the operand comes before: order[operand] + 1 <= order[class].
            rows.append((
                {order + position[number]: 1.0, order + place: -1.0, n: -float(count + 1)},
                1.0 - (count + 1),
            ))  # fmt: skip
    for number, members in of_class.items():
        rows.append(({**dict.fromkeys(members, 1.0), needed + position[number]: -1.0}, 0.0))
    matrix = lil_matrix((len(rows), order + count))
    lower = np.empty(len(rows))
    for row, (terms, bound) in enumerate(rows):
        lower[row] = bound
        for column, factor in terms.items():
            matrix[row, column] += factor
    low = np.zeros(order + count)
    high = np.concatenate([np.ones(operators + count), np.full(count, float(count))])
    for root in roots:
        low[needed + position[classes.find(root)]] = 1.0
    scale = max([*costs, 1e-30])
    objective = np.zeros(order + count)
    objective[:operators] = np.asarray(costs) / scale
    whole = np.concatenate([np.ones(operators + count), np.zeros(count)])
    solution = milp(
        objective,
        constraints=LinearConstraint(matrix.tocsr(), lower, np.inf) if rows else (),
        integrality=whole,
        bounds=Bounds(low, high),
        options={"mip_rel_gap": 0.0},
    )
    assert solution.x is not None, "the graph that was added is a solution"
    return {
        number: operator
        for n, (number, operator) in enumerate(choices)
        if solution.x[n] > 0.5 and solution.x[needed + position[number]] > 0.5
    }

"""The smallest arena for a few buffers, as a mixed-integer linear program.

What it does: asks HiGHS for offsets below a given arena size, or for a proof that there are none.
Of the solver's answer only the *order* of the offsets is used; the offsets are computed again in
integers, so that rounding inside the solver cannot make two buffers overlap.

What it does not: scale. The constraints hold either one way or the other, which makes the
relaxation weak; a hundred conflicts is what the solver decides in about a second.

Source: Sekiyama, Imai, Negishi & Raymond, "Profile-guided memory optimization for deep neural
networks", section 3.1; buffers that share an offset are added here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from tensorgen.memory_bound import Pair

Row = tuple[Mapping[int, int], int]

DUAL_TOLERANCE = 1e-3
"""Units by which the solver's lower bound may be too high."""


@dataclass(frozen=True, slots=True)
class Improvement:
    """What the exact search found.

    `offsets`, in units, make an arena of `arena` units; None if no smaller arena was found.
    `optimal` is true if no arena is smaller than this one or, without offsets, than the one to
    beat.
    """

    offsets: tuple[int, ...] | None
    arena: int
    optimal: bool


def improve_exactly(
    sizes: Sequence[int],
    conflicts: Sequence[Pair],
    takeovers: Sequence[Pair],
    *,
    at_least: int,
    beat: int,
    node_limit: int,
) -> Improvement:
    """The smallest arena of at least `at_least` and less than `beat` units, if there is one.

    `conflicts` are the pairs of buffers that must not overlap. Those of `takeovers`, pairs
    (old, new) that are conflicts too, may share one offset instead. There is at least one conflict,
    as without any the largest buffer is the arena. The search gives up after `node_limit`
    branch-and-bound nodes.
    """
    assert conflicts, "nothing conflicts, so there is nothing to search"
    rows = _rows(sizes, conflicts, frozenset(takeovers), beat - 1)
    arena = len(sizes)
    columns = arena + 1 + 2 * len(conflicts)
    objective = np.zeros(columns)
    objective[arena] = 1
    lower, upper = np.zeros(columns), np.ones(columns)
    upper[:arena] = [beat - 1 - size for size in sizes]
    lower[arena], upper[arena] = at_least, beat - 1
    if np.any(upper < lower):
        return Improvement(None, beat, optimal=True)
    result = milp(
        objective,
        bounds=Bounds(lower, upper),
        constraints=LinearConstraint(_matrix(rows, columns), ub=[bound for _, bound in rows]),
        integrality=(np.arange(columns) > arena).astype(np.int64),
        options={"node_limit": node_limit, "mip_rel_gap": 0.0},
    )
    infeasible = result.status == 2
    if result.x is None:
        return Improvement(None, beat, optimal=infeasible)
    offsets = _exact_offsets(sizes, conflicts, frozenset(takeovers), result.x)
    found = max(offset + size for offset, size in zip(offsets, sizes, strict=True))
    proved = at_least
    if isfinite(result.mip_dual_bound):
        proved = max(proved, ceil(result.mip_dual_bound - DUAL_TOLERANCE))
    if found >= beat:
        return Improvement(None, beat, optimal=proved >= beat)
    return Improvement(offsets, found, optimal=found <= proved)


def _rows(
    sizes: Sequence[int], conflicts: Sequence[Pair], shareable: frozenset[Pair], limit: int
) -> list[Row]:
    """Constraints `sum(coefficient * column) <= bound`.

    Columns: an offset for each buffer, the arena, then two binaries for each conflict, which say
    that the first buffer lies below the second, and the second below the first. Where neither
    holds the two share an offset.
    """
    arena = len(sizes)
    rows: list[Row] = [({each: 1, arena: -1}, -size) for each, size in enumerate(sizes)]
    for number, (one, other) in enumerate(conflicts):
        up, down = arena + 1 + 2 * number, arena + 2 + 2 * number
        rows.append(({one: 1, other: -1, up: limit}, limit - sizes[one]))
        rows.append(({other: 1, one: -1, down: limit}, limit - sizes[other]))
        if (one, other) in shareable or (other, one) in shareable:
            rows.append(({up: 1, down: 1}, 1))
            rows.append(({one: 1, other: -1, up: -limit, down: -limit}, 0))
            rows.append(({other: 1, one: -1, up: -limit, down: -limit}, 0))
        else:
            rows.append(({up: -1, down: -1}, -1))
    return rows


def _matrix(rows: Sequence[Row], columns: int) -> coo_array[np.float64]:
    entries = [
        (number, column, coefficient)
        for number, (row, _) in enumerate(rows)
        for column, coefficient in row.items()
    ]
    numbers, places, coefficients = zip(*entries, strict=True)
    return coo_array(
        (np.array(coefficients, dtype=np.float64), (numbers, places)),
        shape=(len(rows), columns),
    )


def _exact_offsets(
    sizes: Sequence[int],
    conflicts: Sequence[Pair],
    shareable: frozenset[Pair],
    solution: NDArray[np.float64],
) -> tuple[int, ...]:
    """The lowest integer offsets in the order of the solution, with what shares kept together."""
    count = len(sizes)
    group = list(range(count))
    neighbours: list[list[int]] = [[] for _ in sizes]
    for number, (one, other) in enumerate(conflicts):
        up, down = solution[count + 1 + 2 * number : count + 3 + 2 * number]
        may_share = (one, other) in shareable or (other, one) in shareable
        if may_share and up < 0.5 and down < 0.5:
            old, new = group[one], group[other]
            group = [old if each == new else each for each in group]
        else:
            neighbours[one].append(other)
            neighbours[other].append(one)
    offsets = [-1] * count
    for leader in sorted(set(group), key=lambda each: (solution[each], each)):
        members = [each for each in range(count) if group[each] == leader]
        placed = {other for each in members for other in neighbours[each] if offsets[other] >= 0}
        offset = max((offsets[other] + sizes[other] for other in placed), default=0)
        for each in members:
            offsets[each] = offset
    return tuple(offsets)

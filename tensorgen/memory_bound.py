"""What any arena plan needs: the largest live set, with storage taken over where that saves most.

What it does: states a planning problem in integers, sums what is alive in each step, and chooses
the takeovers that lower these sums the most. What it does not: place anything.

Source: Edmonds & Fulkerson, "Transversals and matroid partition": the sets that a matching can
serve form a matroid, so that a greedy choice among them is optimal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Problem:
    """Buffers by index: sizes in units, first and last step alive, both included.

    `takeovers` holds pairs (old, new) of buffers that are not empty: new is born in the step where
    old dies, is no larger and may lie at its offset.
    """

    sizes: tuple[int, ...]
    firsts: tuple[int, ...]
    lasts: tuple[int, ...]
    takeovers: tuple[Pair, ...]


def lower_bound(problem: Problem) -> int:
    """Units that no arena can do without."""
    return max(loads(problem, best_takeovers(problem)).values(), default=0)


def loads(problem: Problem, taking_over: Collection[int]) -> dict[int, int]:
    """Units alive in each step where a buffer is born; no other step has more than these.

    The buffers in `taking_over` add nothing in the step where they are born.
    """
    by_first = sorted(range(len(problem.sizes)), key=lambda each: problem.firsts[each])
    by_last = deque(sorted(by_first, key=lambda each: problem.lasts[each]))
    result: dict[int, int] = {}
    alive = saved = 0
    for each in by_first:
        step = problem.firsts[each]
        if step not in result:
            saved = 0
            while problem.lasts[by_last[0]] < step:
                alive -= problem.sizes[by_last.popleft()]
        alive += problem.sizes[each]
        saved += problem.sizes[each] if each in taking_over else 0
        result[step] = alive - saved
    return result


def best_takeovers(problem: Problem) -> dict[int, int]:
    """A map from new to old buffer that saves the most units in every step.

    A takeover saves the size of the new buffer in the one step that it shares with the old, so
    steps do not interact. Within a step it is optimal to serve the largest new buffer first, and
    to reassign along an augmenting path when what it may take over is taken.
    """
    candidates: dict[int, list[int]] = {}
    for old, new in problem.takeovers:
        candidates.setdefault(new, []).append(old)
    for olds in candidates.values():
        # The tightest old buffer leaves the least of its storage idle.
        olds.sort(key=lambda old: problem.sizes[old])
    old_of: dict[int, int] = {}
    new_of: dict[int, int] = {}
    for root in sorted(candidates, key=lambda new: -problem.sizes[new]):
        reached_from: dict[int, int] = {}
        queue = deque([root])
        while queue:
            new = queue.popleft()
            reached = [old for old in candidates[new] if old not in reached_from]
            reached_from.update((old, new) for old in reached)
            free = next((old for old in reached if old not in new_of), None)
            if free is not None:
                _augment(free, reached_from, old_of, new_of)
                break
            queue.extend(new_of[old] for old in reached)
    return old_of


def _augment(
    free: int, reached_from: Mapping[int, int], old_of: dict[int, int], new_of: dict[int, int]
) -> None:
    """Give each buffer on the path to `free` the storage through which the path reached on."""
    old: int | None = free
    while old is not None:
        new = reached_from[old]
        released = old_of.get(new)
        old_of[new], new_of[old] = old, new
        old = released


def conflicting_pairs(problem: Problem) -> tuple[Pair, ...]:
    """Pairs of buffers that are not empty and are alive in a common step."""
    pairs: list[Pair] = []
    alive: list[int] = []
    for later in sorted(range(len(problem.sizes)), key=lambda each: problem.firsts[each]):
        if problem.sizes[later] > 0:
            alive = [each for each in alive if problem.lasts[each] >= problem.firsts[later]]
            pairs.extend((earlier, later) for earlier in alive)
            alive.append(later)
    return tuple(pairs)

"""Heuristic arena placement: greedy orders, then a local search over the order of placement.

What it does: puts chains of buffers that share an offset one after the other at the lowest offset
that is free, in several orders and for several sets of takeovers, and then moves what does not fit
to the front. What it does not: prove anything beyond meeting the bound it is given. Randomness has
a fixed seed and effort is counted in work, so equal input gives equal offsets everywhere.

Sources: placement by decreasing size, Pisarchyk & Lee, "Efficient Memory Management for Deep Neural
Net Inference", section 5; the local search, Joslin & Clements, "Squeaky Wheel Optimization".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from tensorgen.memory_bound import Problem, best_takeovers, loads

MOVES = 4_000
"""Reorderings that the local search tries for one set of takeovers."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """Buffers that hand on one offset, in the order of their lives; sizes never grow."""

    members: tuple[int, ...]
    size: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """Chains and their conflicts.

    `conflicts[i]` holds (j, own, height): chain i lies at least `own` units below chain j, or at
    least `height` units above it.
    """

    chains: tuple[_Chain, ...]
    conflicts: tuple[tuple[tuple[int, int, int], ...], ...]


@dataclass(frozen=True, slots=True)
class _Placement:
    """Offsets and arena of a layout, in units, the order that gave them and the work it took."""

    layout: _Layout
    order: tuple[int, ...]
    offsets: tuple[int, ...]
    arena: int
    work: int = 0


def search(problem: Problem, bound: int, work: int) -> tuple[tuple[int, ...], int]:
    """The best offsets found and the arena they need, in units.

    `bound` is a size that no arena is below, and meeting it ends the search; so does looking at
    more conflicts than `work`, give or take one placement.
    """
    greedy: list[_Placement] = []
    for takeovers in _takeover_choices(problem, bound):
        if greedy and (work < 0 or greedy[-1].arena == bound):
            break
        greedy.append(_best_greedy(_layout(problem, takeovers), bound, work))
        work -= greedy[-1].work
    greedy.sort(key=lambda each: each.arena)
    best = greedy[0]
    for start in greedy:
        if best.arena > bound:
            squeezed = _squeeze(start, best.arena, bound, work // len(greedy))
            best = best if squeezed is None else squeezed
    offsets = [0] * len(problem.sizes)
    for chain, offset in zip(best.layout.chains, best.offsets, strict=True):
        for member in chain.members:
            offsets[member] = offset
    return tuple(offsets), best.arena


def _takeover_choices(problem: Problem, bound: int) -> Iterator[dict[int, int]]:
    """Sets of takeovers worth placing: a takeover saves bytes but ties two offsets together.

    All that save; without those that no step needs and that leave a part idle; only those that some
    step needs to stay within the bound.
    """
    every = best_takeovers(problem)
    plain = loads(problem, ())
    needed = {new: old for new, old in every.items() if plain[problem.firsts[new]] > bound}
    tight = {
        new: old
        for new, old in every.items()
        if new in needed or problem.sizes[new] == problem.sizes[old]
    }
    yield every
    # Each choice is a part of the one before, so those of equal size are equal.
    if len(tight) < len(every):
        yield tight
    if len(needed) < len(tight):
        yield needed


def _layout(problem: Problem, takeovers: Mapping[int, int]) -> _Layout:
    next_of = {old: new for new, old in takeovers.items()}
    chains = []
    for head, size in enumerate(problem.sizes):
        if size == 0 or head in takeovers:
            continue
        members = [head]
        while members[-1] in next_of:
            members.append(next_of[members[-1]])
        chains.append(
            _Chain(tuple(members), size, problem.firsts[head], problem.lasts[members[-1]])
        )
    chains.sort(key=lambda chain: chain.first)
    conflicts: list[list[tuple[int, int, int]]] = [[] for _ in chains]
    alive: list[int] = []
    for later, chain in enumerate(chains):
        alive = [each for each in alive if chains[each].last >= chain.first]
        for earlier in alive:
            # A chain never grows, so its height here is the most that it keeps from the later one.
            held_by = chains[earlier].members
            now = bisect_left(held_by, chain.first, key=problem.lasts.__getitem__)
            height = problem.sizes[held_by[now]]
            conflicts[later].append((earlier, chain.size, height))
            conflicts[earlier].append((later, height, chain.size))
        alive.append(later)
    return _Layout(tuple(chains), tuple(map(tuple, conflicts)))


def _best_greedy(layout: _Layout, bound: int, work: int) -> _Placement:
    """The best of the greedy placements, which stop at the bound or when the work is used up."""
    each_costs = len(layout.chains) + sum(map(len, layout.conflicts))
    best: _Placement | None = None
    spent = 0
    for order in _orders(layout):
        offsets = [-1] * len(order)
        for chain in order:
            offsets[chain] = _lowest_free(layout, offsets, chain)
        arena = _arena(layout, offsets)
        spent += each_costs
        if best is None or arena < best.arena:
            best = _Placement(layout, tuple(order), tuple(offsets), arena)
        if best.arena == bound or spent > work:
            break
    assert best is not None
    return replace(best, work=spent)


def _orders(layout: _Layout) -> Iterator[list[int]]:
    """Orders of placement that tend to pack well, the one that suits networks first."""
    chains = layout.chains
    spans = [chain.last - chain.first + 1 for chain in chains]
    crowds = [
        chain.size + sum(height for _, _, height in conflicts)
        for chain, conflicts in zip(chains, layout.conflicts, strict=True)
    ]
    # Chains are sorted by birth: those with a lower number are what is alive when one is born.
    loads_at_birth = [
        chain.size + sum(height for other, _, height in layout.conflicts[each] if other < each)
        for each, chain in enumerate(chains)
    ]
    born_later = (
        [loads_at_birth[other] for other, _, _ in conflicts if other > each]
        for each, conflicts in enumerate(layout.conflicts)
    )
    peaks = [max([load, *later]) for load, later in zip(loads_at_birth, born_later, strict=True)]
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda each: (-chains[each].size, chains[each].first),
        lambda each: (-chains[each].size * peaks[each],),
        lambda each: (-peaks[each], -chains[each].size * spans[each]),
        lambda each: (-crowds[each], -chains[each].size),
        lambda each: (-(chains[each].size ** 2) * spans[each],),
        lambda each: (-peaks[each], -spans[each], -chains[each].size),
    )
    for key in keys:
        yield sorted(range(len(chains)), key=key)


def _lowest_free(layout: _Layout, offsets: Sequence[int], each: int) -> int:
    """The lowest offset for a chain that the chains placed so far, those at 0 or more, leave."""
    taken = sorted(
        (offsets[other] - own, offsets[other] + height)
        for other, own, height in layout.conflicts[each]
        if offsets[other] >= 0
    )
    lowest = 0
    for start, end in taken:
        if start >= lowest:
            break
        lowest = max(lowest, end)
    return lowest


def _arena(layout: _Layout, offsets: Sequence[int]) -> int:
    return max(
        (offset + chain.size for offset, chain in zip(offsets, layout.chains, strict=True)),
        default=0,
    )


def _squeeze(start: _Placement, beat: int, bound: int, work: int) -> _Placement | None:
    """A placement with an arena below `beat`, found by placing sooner what does not fit.

    Each move asks for less than the best arena so far. The chain that first fails to fit goes to
    an earlier place in the order, so that chains that are hard to place come to the front.
    """
    layout = start.layout
    random = Random(0)
    order = list(start.order)
    offsets = list(start.offsets)
    best: _Placement | None = None
    kept = 0
    for _ in range(MOVES):
        if beat == bound or work < 0:
            break
        work -= len(order) - kept
        for chain in order[kept:]:
            offsets[chain] = -1
        for position in range(kept, len(order)):
            chain = order[position]
            work -= len(layout.conflicts[chain])
            offsets[chain] = _lowest_free(layout, offsets, chain)
            if offsets[chain] + layout.chains[chain].size >= beat:
                kept = int(random.random() * position)
                order.insert(kept, order.pop(position))
                break
        else:
            beat = _arena(layout, offsets)
            best = _Placement(layout, tuple(order), tuple(offsets), beat)
            kept = 0
    return best

"""Arena planning: an offset for each buffer, so that buffers alive in the same step never overlap.

What it does: plans one arena for values whose sizes and lifetimes are known. A value may take over
the storage of one that dies in the step that writes it. Heuristics come first (`memory_search`);
where they leave a gap to the lower bound (`memory_bound`) and few buffers conflict, an exact search
follows (`memory_exact`). `check_plan` replays a plan and trusts none of them. Effort is counted in
work done, never in seconds: equal input gives an equal plan on every run and every machine.

What it does not: order the steps, recompute values, split buffers or know what they hold.

Source: dynamic storage allocation, Garey & Johnson, "Computers and Intractability", problem SR2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from tensorgen.memory_bound import Problem, conflicting_pairs, lower_bound
from tensorgen.memory_exact import improve_exactly
from tensorgen.memory_search import search

SEARCH_WORK = 2_000_000
"""Conflicts that the heuristics may look at, which takes less than a second."""
EXACT_CONFLICTS = 150
"""The exact search runs on at most so many pairs of conflicting buffers."""
EXACT_UNITS = 2**20
"""And on arenas of at most so many units, which double precision holds with room to spare."""


class ArenaError(ValueError):
    """The buffers to plan make no sense. The message is one line: place, expected, got."""


class PlanError(AssertionError):
    """A plan is wrong, which is a bug of the planner. The message names the buffers at fault."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Storage that one value needs: `bytes` bytes, live from step `first` to `last`, both included.

    `in_place_of` names the buffers whose storage this one may take over at the same offset. Each is
    at least as large and dies in the step where this one is born; the plan uses at most one.
    """

    name: str
    bytes: int
    first: int
    last: int
    in_place_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each buffer lies. All sizes and offsets are bytes and multiples of the alignment.

    `offsets` holds (name, offset) in the order the buffers were given. `lower_bound` is the largest
    live set. `optimal` is true when no plan is smaller than `arena_bytes`, either because that
    meets the lower bound or because the exact search says so.
    """

    offsets: tuple[tuple[str, int], ...]
    arena_bytes: int
    lower_bound: int
    optimal: bool


def plan_arena(buffers: Sequence[Buffer], *, alignment: int = 64, exact_nodes: int = 2_000) -> Plan:
    """A small arena for these buffers, the smallest where `Plan.optimal` says so.

    `alignment`, a power of two, divides every offset and rounds up every size. `exact_nodes` limits
    the branch-and-bound nodes of the exact search; 0 leaves it out. Raises ArenaError if the
    buffers contradict themselves.
    """
    problem, unit = _problem(buffers, alignment)
    bound = lower_bound(problem)
    offsets, arena = search(problem, bound, SEARCH_WORK)
    optimal = arena == bound
    conflicts = () if optimal else conflicting_pairs(problem)
    small = len(conflicts) <= EXACT_CONFLICTS and arena <= EXACT_UNITS
    if not optimal and small and exact_nodes > 0:
        improvement = improve_exactly(
            problem.sizes,
            conflicts,
            problem.takeovers,
            at_least=bound,
            beat=arena,
            node_limit=exact_nodes,
        )
        optimal = improvement.optimal
        if improvement.offsets is not None:
            offsets, arena = improvement.offsets, improvement.arena
    plan = Plan(
        tuple(
            (buffer.name, offset * unit) for buffer, offset in zip(buffers, offsets, strict=True)
        ),
        arena * unit,
        bound * unit,
        optimal,
    )
    check_plan(buffers, plan, alignment)
    return plan


def largest_live_set(buffers: Sequence[Buffer], alignment: int = 64) -> int:
    """Bytes that any plan needs: the most that is live in one step, sizes rounded up.

    Counts a buffer that takes over another's storage only once in the step they share, with the
    takeovers chosen to save the most. Raises ArenaError like `plan_arena`.
    """
    problem, unit = _problem(buffers, alignment)
    return lower_bound(problem) * unit


def check_plan(buffers: Sequence[Buffer], plan: Plan, alignment: int = 64) -> None:
    """Raise PlanError unless the plan is sound: nothing of how it was found is trusted.

    Two buffers may share bytes when no step has both alive, or when one takes over the other's
    storage as it declared: at the same offset, born in the step where the other dies.
    """
    offsets = dict(plan.offsets)
    if len(offsets) != len(plan.offsets) or offsets.keys() != {each.name for each in buffers}:
        raise PlanError("plan: expected one offset for each buffer, got other names")
    if not plan.lower_bound <= plan.arena_bytes:
        raise PlanError(f"plan: expected at least {plan.lower_bound} bytes, got {plan.arena_bytes}")
    for buffer in buffers:
        offset = offsets[buffer.name]
        if offset < 0 or offset % alignment != 0:
            raise PlanError(
                f"plan: buffer '{buffer.name}': expected a multiple of {alignment}, got {offset}"
            )
        if offset + buffer.bytes > plan.arena_bytes:
            raise PlanError(
                f"plan: buffer '{buffer.name}': expected an end within {plan.arena_bytes} bytes, "
                f"got {offset + buffer.bytes}"
            )
    alive: list[Buffer] = []
    for later in sorted(buffers, key=lambda each: each.first):
        alive = [each for each in alive if each.last >= later.first]
        for earlier in alive:
            low, high = offsets[earlier.name], offsets[later.name]
            apart = low + earlier.bytes <= high or high + later.bytes <= low
            empty = earlier.bytes == 0 or later.bytes == 0
            if not (apart or empty or (low == high and _may_share(earlier, later))):
                raise PlanError(
                    f"plan: expected '{earlier.name}' and '{later.name}' apart, as both are alive "
                    f"in step {later.first}; got offsets {low} and {high}"
                )
        alive.append(later)


def _may_share(one: Buffer, other: Buffer) -> bool:
    """True if either buffer may take over the storage of the other."""
    return any(
        old.name in new.in_place_of and old.last == new.first and old.bytes >= new.bytes
        for old, new in ((one, other), (other, one))
    )


def _problem(buffers: Sequence[Buffer], alignment: int) -> tuple[Problem, int]:
    """The buffers in units, and the bytes of a unit: the greatest common divisor of the sizes.

    Offsets that are multiples of the unit lose nothing: when each buffer of a plan is pushed down
    as far as it goes, it lies at a sum of sizes.
    """
    if alignment < 1 or alignment & (alignment - 1):
        raise ArenaError(f"alignment: expected a power of two, got {alignment}")
    index: dict[str, int] = {}
    for position, buffer in enumerate(buffers):
        if buffer.name in index:
            raise ArenaError(f"buffer '{buffer.name}': expected a unique name, got it twice")
        if buffer.bytes < 0:
            raise ArenaError(
                f"buffer '{buffer.name}': expected at least 0 bytes, got {buffer.bytes}"
            )
        if buffer.last < buffer.first:
            raise ArenaError(
                f"buffer '{buffer.name}': expected a last step of at least {buffer.first}, "
                f"its first, got {buffer.last}"
            )
        index[buffer.name] = position
    rounded = [-(-buffer.bytes // alignment) * alignment for buffer in buffers]
    unit = gcd(*rounded) or alignment
    takeovers = []
    for new, buffer in enumerate(buffers):
        for name in dict.fromkeys(buffer.in_place_of):
            if name not in index:
                raise ArenaError(
                    f"buffer '{buffer.name}': expected in_place_of to name a buffer, got '{name}'"
                )
            if name == buffer.name:
                raise ArenaError(
                    f"buffer '{name}': expected in_place_of to name others, got itself"
                )
            _check_takeover(buffers[index[name]], buffer)
            if buffer.bytes > 0:
                takeovers.append((index[name], new))
    problem = Problem(
        tuple(size // unit for size in rounded),
        tuple(buffer.first for buffer in buffers),
        tuple(buffer.last for buffer in buffers),
        tuple(takeovers),
    )
    return problem, unit


def _check_takeover(old: Buffer, new: Buffer) -> None:
    place = f"buffer '{new.name}' in place of '{old.name}'"
    if old.last != new.first:
        raise ArenaError(
            f"{place}: expected '{old.name}' to die in step {new.first}, got {old.last}"
        )
    if old.bytes < new.bytes:
        raise ArenaError(
            f"{place}: expected '{old.name}' to have at least {new.bytes} bytes, got {old.bytes}"
        )
    # A storage handed on twice within one step would have to hold three values in it.
    if old.first == old.last and old.in_place_of:
        raise ArenaError(
            f"{place}: expected '{old.name}', itself in place of another, to be born before step "
            f"{new.first}, got {old.first}"
        )

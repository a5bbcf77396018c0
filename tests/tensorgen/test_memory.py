"""The arena planner: sound plans, near the bound on networks, optimal on small instances."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from pathlib import Path
from random import Random
from time import process_time

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tensorgen.memory import (
    ArenaError,
    Buffer,
    Plan,
    PlanError,
    check_plan,
    largest_live_set,
    plan_arena,
)
from tensorgen.memory_bound import Problem, best_takeovers, conflicting_pairs, lower_bound
from tensorgen.memory_exact import improve_exactly

ROOT = Path(__file__).parents[2]


@st.composite
def buffer_sets(
    draw: st.DrawFn, most: int = 24, steps: int = 20, largest: int = 400
) -> tuple[Buffer, ...]:
    """Random lifetimes; every takeover that the sizes and lifetimes allow may be declared."""
    buffers: list[Buffer] = []
    for number in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, steps))
        last = first + draw(st.integers(0, steps // 2))
        buffers.append(Buffer(f"b{number}", draw(st.integers(0, largest)), first, last))
    wanted = draw(st.integers(0, 2))
    return tuple(declare_takeovers(buffers, wanted))


def declare_takeovers(buffers: Sequence[Buffer], most: int) -> list[Buffer]:
    """The buffers, each declared in place of up to `most` others that it can take over."""
    return [
        replace(
            new,
            in_place_of=tuple(
                old.name
                for old in buffers
                if old.first < old.last == new.first and old.bytes >= new.bytes
            )[:most],
        )
        for new in buffers
    ]


def random_buffers(
    count: int, seed: int, steps: int, *, largest: int, longest: int, takeovers: int = 2
) -> list[Buffer]:
    random = Random(seed)
    buffers = []
    for number in range(count):
        first = random.randrange(steps)
        last = min(steps, first + random.randrange(longest))
        buffers.append(Buffer(f"b{number}", random.randrange(1, largest) * 64, first, last))
    return declare_takeovers(buffers, takeovers)


@dataclass
class Trace:
    """Records the values that a network computes, one step after the other."""

    sizes: dict[str, int] = field(default_factory=dict)
    born: dict[str, int] = field(default_factory=dict)
    died: dict[str, int] = field(default_factory=dict)
    elementwise: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def run(self, size: int, *inputs: str, elementwise: bool = False) -> str:
        """One step that reads the inputs and writes a new value of `size` float32 numbers."""
        name, step = f"v{len(self.sizes)}", len(self.sizes)
        self.sizes[name], self.born[name], self.died[name] = size * 4, step, step
        self.elementwise[name] = inputs if elementwise else ()
        for each in inputs:
            self.died[each] = step
        return name

    def buffers(self) -> list[Buffer]:
        return [
            Buffer(
                name,
                size,
                self.born[name],
                self.died[name],
                tuple(
                    old
                    for old in self.elementwise[name]
                    if self.died[old] == self.born[name] and self.sizes[old] >= size
                ),
            )
            for name, size in self.sizes.items()
        ]


def residual_network(trace: Trace) -> None:
    x = trace.run(64 * 56 * 56)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        side, width = 56 >> stage, 64 << stage
        for block in range(blocks):
            side_in = side * 2 if block == 0 and stage > 0 else side
            a = trace.run(width * side_in**2, x)
            a = trace.run(width * side_in**2, a, elementwise=True)
            b = trace.run(width * side**2, a)
            c = trace.run(4 * width * side**2, b)
            skip = trace.run(4 * width * side**2, x) if block == 0 else x
            x = trace.run(4 * width * side**2, c, skip, elementwise=True)
            x = trace.run(4 * width * side**2, x, elementwise=True)
    trace.run(1000, trace.run(2048, x))


def branches(trace: Trace) -> None:
    random = Random(1)
    x = trace.run(192 * 28 * 28)
    for module in range(20):
        area = (28 >> module // 7) ** 2
        ends, widths = [], []
        for branch in range(4):
            end = x
            for _ in range(1 + branch):
                width = random.choice((32, 48, 64, 96, 128, 160, 192))
                end = trace.run(width * area, end)
            ends.append(end)
            widths.append(width)
        x = trace.run(sum(widths) * area, *ends)


def cells(trace: Trace) -> None:
    previous = trace.run(44 * 56 * 56)
    current = trace.run(44 * 56 * 56, previous)
    for cell in range(18):
        level = cell // 6
        size = (44 << level) * (56 >> level) ** 2
        states = [trace.run(size, previous), trace.run(size, current)]
        for block in range(5):
            left = trace.run(size, states[2 * block % len(states)])
            right = trace.run(size, states[(3 * block + 1) % len(states)])
            left = trace.run(size, left, elementwise=True)
            states.append(trace.run(size, left, right, elementwise=True))
        previous, current = current, trace.run(6 * size, *states[1:])


def long_skips(trace: Trace) -> None:
    x = trace.run(3 * 200 * 200)
    skips: list[tuple[str, int]] = []
    for level in range(4):
        size = (24 << level) * (200 >> level) ** 2
        for _ in range(2):
            x = trace.run(size, trace.run(size, x), elementwise=True)
        skips.append((x, size))
        x = trace.run(size // 4, x)
    for skip, size in reversed(skips):
        x = trace.run(2 * size, trace.run(size, x), skip)
        x = trace.run(size, trace.run(size, x), elementwise=True)
    trace.run(200 * 200, x)


def dense_blocks(trace: Trace) -> None:
    x, width = trace.run(64 * 56 * 56), 64
    for block, layers in enumerate((6, 12, 24, 16)):
        area = (56 >> block) ** 2
        parts = [x]
        for _ in range(layers):
            everything = trace.run(width * area, *parts)
            normal = trace.run(width * area, everything, elementwise=True)
            parts.append(trace.run(32 * area, trace.run(128 * area, normal)))
            width += 32
        x = trace.run(width * area // 8, trace.run(width * area, *parts))
        width //= 2


def attention(trace: Trace) -> None:
    length, width, heads = 128, 768, 12
    mask = trace.run(length * length)
    x = trace.run(length * width)
    for _ in range(12):
        q, k, v = (trace.run(length * width, trace.run(length * width, x)) for _ in range(3))
        scores = trace.run(heads * length**2, q, k)
        scores = trace.run(heads * length**2, scores, mask, elementwise=True)
        weights = trace.run(heads * length**2, scores, elementwise=True)
        mixed = trace.run(length * width, trace.run(length * width, weights, v))
        x = trace.run(length * width, mixed, x, elementwise=True)
        wide = trace.run(4 * length * width, x)
        wide = trace.run(4 * length * width, wide, elementwise=True)
        x = trace.run(length * width, trace.run(length * width, wide), x, elementwise=True)


NETWORKS: tuple[Callable[[Trace], None], ...] = (
    residual_network,
    branches,
    cells,
    long_skips,
    dense_blocks,
    attention,
)


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_stay_within_a_tenth_of_the_bound(network: Callable[[Trace], None]) -> None:
    trace = Trace()
    network(trace)
    buffers = trace.buffers()
    plan = plan_arena(buffers)
    check_plan(buffers, plan)
    assert plan.lower_bound == largest_live_set(buffers)
    assert plan.arena_bytes <= 1.1 * plan.lower_bound


def smallest_arena(buffers: Sequence[Buffer]) -> int:
    """The optimum by exhaustion, in the unit of the sizes: every set of takeovers, every order.

    Sorting an optimal plan by offset and pushing every group of sharing buffers down onto the ones
    before it gives a plan that is no larger, so that trying all orders finds the optimum.
    """
    full = [each for each in buffers if each.bytes > 0]
    options = [(None, *each.in_place_of) for each in full]
    best = sum(each.bytes for each in full)
    for choice in product(*options):
        taken = [old for old in choice if old is not None]
        if len(set(taken)) == len(taken):
            old_of = {each.name: old for each, old in zip(full, choice, strict=True)}
            best = min(best, smallest_stack(full, old_of))
    return best


def smallest_stack(full: Sequence[Buffer], old_of: dict[str, str | None]) -> int:
    groups: dict[str, list[Buffer]] = {}
    for each in full:
        head = each.name
        while (old := old_of[head]) is not None:
            head = old
        groups.setdefault(head, []).append(each)

    def arena(order: Sequence[str]) -> int:
        tops: dict[str, int] = {}
        placed: list[Buffer] = []
        for head in order:
            offset = max(
                (
                    tops[low.name]
                    for high in groups[head]
                    for low in placed
                    if low.first <= high.last and high.first <= low.last
                ),
                default=0,
            )
            tops.update((each.name, offset + each.bytes) for each in groups[head])
            placed.extend(groups[head])
        return max(tops.values(), default=0)

    return min(map(arena, permutations(groups)), default=0)


@settings(deadline=None)
@given(buffer_sets(), st.sampled_from((1, 16, 64)))
def test_plans_are_sound_and_reproducible(buffers: tuple[Buffer, ...], alignment: int) -> None:
    plan = plan_arena(buffers, alignment=alignment)
    check_plan(buffers, plan, alignment)
    assert [name for name, _ in plan.offsets] == [each.name for each in buffers]
    assert plan.lower_bound == largest_live_set(buffers, alignment) <= plan.arena_bytes
    assert plan.arena_bytes % alignment == 0
    assert plan.optimal or plan.arena_bytes > plan.lower_bound
    assert plan_arena(buffers, alignment=alignment) == plan


@given(buffer_sets(most=6, steps=6, largest=12))
@settings(deadline=None)
def test_small_plans_are_optimal(buffers: tuple[Buffer, ...]) -> None:
    plan = plan_arena(buffers, alignment=1)
    assert plan.optimal
    assert plan.arena_bytes == smallest_arena(buffers)


@given(buffer_sets(most=5, steps=5, largest=12))
@settings(deadline=None, max_examples=40)
@example(
    # Two that hand on one storage, below one that outlives both.
    (
        Buffer("a", 4, 0, 1),
        Buffer("b", 3, 1, 2, ("a",)),
        Buffer("c", 2, 2, 4, ("b",)),
        Buffer("d", 5, 1, 4),
    )
)
def test_exact_search_alone_finds_the_optimum(buffers: tuple[Buffer, ...]) -> None:
    problem = problem_of(buffers)
    assume(conflicting_pairs(problem))
    everything = sum(problem.sizes) + 1
    found = improve_exactly(
        problem.sizes,
        conflicting_pairs(problem),
        problem.takeovers,
        at_least=lower_bound(problem),
        beat=everything,
        node_limit=10_000,
    )
    optimum = smallest_arena(buffers)
    assert found.optimal
    assert found.arena == optimum
    assert found.offsets is not None
    offsets = zip((each.name for each in buffers), found.offsets, strict=True)
    check_plan(buffers, Plan(tuple(offsets), optimum, 0, optimal=True), alignment=1)
    nothing = improve_exactly(
        problem.sizes,
        conflicting_pairs(problem),
        problem.takeovers,
        at_least=lower_bound(problem),
        beat=optimum,
        node_limit=10_000,
    )
    assert nothing.offsets is None
    assert nothing.optimal


def problem_of(buffers: Sequence[Buffer]) -> Problem:
    index = {each.name: position for position, each in enumerate(buffers)}
    return Problem(
        tuple(each.bytes for each in buffers),
        tuple(each.first for each in buffers),
        tuple(each.last for each in buffers),
        tuple(
            (index[old], index[each.name])
            for each in buffers
            for old in each.in_place_of
            if each.bytes > 0
        ),
    )


@settings(deadline=None)
@given(buffer_sets(most=12, steps=4))
def test_bound_takes_the_takeovers_that_save_the_most(buffers: tuple[Buffer, ...]) -> None:
    problem = problem_of(buffers)

    def most_saved(news: Sequence[int], taken: frozenset[int]) -> int:
        if not news:
            return 0
        new, *others = news
        return max(
            most_saved(others, taken),
            *(
                problem.sizes[new] + most_saved(others, taken | {old})
                for old, taking in problem.takeovers
                if taking == new and old not in taken
            ),
            0,
        )

    chosen = best_takeovers(problem)
    assert len(set(chosen.values())) == len(chosen)
    for step in range(5):
        born = [new for new in range(len(buffers)) if problem.firsts[new] == step]
        saved = sum(problem.sizes[new] for new in born if new in chosen)
        assert saved == most_saved(born, frozenset())


def test_heuristics_stay_near_the_bound_and_takeovers_pay() -> None:
    with_takeovers = without_takeovers = 0
    for seed in range(8):
        buffers = random_buffers(150, seed, 150, largest=1000, longest=30)
        plan = plan_arena(buffers, exact_nodes=0)
        assert plan.arena_bytes <= 1.1 * plan.lower_bound
        with_takeovers += plan.arena_bytes
        alone = [replace(each, in_place_of=()) for each in buffers]
        without_takeovers += plan_arena(alone, exact_nodes=0).arena_bytes
    assert with_takeovers < without_takeovers


@pytest.mark.parametrize(("seed", "improves"), [(16, False), (131, True), (288, True)])
def test_exact_search_settles_what_the_heuristics_leave(seed: int, improves: bool) -> None:
    buffers = random_buffers(16, seed, 20, largest=30, longest=8)
    heuristic = plan_arena(buffers, exact_nodes=0)
    assert not heuristic.optimal
    exact = plan_arena(buffers)
    assert exact.optimal
    assert (exact.arena_bytes < heuristic.arena_bytes) == improves
    assert plan_arena(buffers) == exact


@pytest.mark.parametrize("longest", [10, 100, 1000])
def test_a_thousand_buffers_take_about_a_second(longest: int) -> None:
    buffers = random_buffers(1000, 3, 1000, largest=1000, longest=longest)
    start = process_time()
    plan = plan_arena(buffers)
    # Twice and more of what it takes on a slow core: this catches a wrong complexity, not noise.
    assert process_time() - start < 4
    assert plan.arena_bytes <= 1.1 * plan.lower_bound


def test_chain_of_takeovers_stays_at_one_offset() -> None:
    buffers = [Buffer("v0", 1024, 0, 1)]
    buffers += [Buffer(f"v{i}", 1024, i, i + 1, (f"v{i - 1}",)) for i in range(1, 500)]
    plan = plan_arena(buffers)
    assert plan == Plan(tuple((each.name, 0) for each in buffers), 1024, 1024, optimal=True)


def test_smaller_value_takes_over_larger_storage_and_frees_the_rest() -> None:
    buffers = [
        Buffer("wide", 256, 0, 1),
        Buffer("narrow", 64, 1, 3, ("wide",)),
        Buffer("next", 192, 2, 3),
    ]
    plan = plan_arena(buffers)
    assert plan.arena_bytes == 256
    assert dict(plan.offsets)["next"] >= 64


def test_only_one_of_two_takes_over_one_storage() -> None:
    buffers = [
        Buffer("x", 64, 0, 1),
        Buffer("left", 64, 1, 2, ("x",)),
        Buffer("right", 64, 1, 2, ("x",)),
    ]
    assert plan_arena(buffers).arena_bytes == largest_live_set(buffers) == 128


def test_takeover_is_left_out_where_it_would_cost() -> None:
    # Taking over "a" would hold the middle of the arena, where "wide" has to go.
    buffers = [
        Buffer("low", 64, 0, 2),
        Buffer("a", 64, 0, 1),
        Buffer("high", 64, 0, 0),
        Buffer("b", 64, 1, 4, ("a",)),
        Buffer("wide", 128, 3, 4),
    ]
    plan = plan_arena(buffers)
    assert plan.arena_bytes == plan.lower_bound == 192


def test_empty_buffers_need_nothing() -> None:
    assert plan_arena([]) == Plan((), 0, 0, optimal=True)
    only_empty = plan_arena([Buffer("e", 0, 0, 5), Buffer("f", 0, 5, 6, ("e",))])
    assert only_empty == Plan((("e", 0), ("f", 0)), 0, 0, optimal=True)
    mixed = plan_arena([Buffer("e", 0, 0, 5), Buffer("x", 1, 2, 3), Buffer("y", 65, 3, 3)])
    assert mixed.arena_bytes == 192


def test_huge_sizes_stay_exact() -> None:
    odd = 2**60 + 1
    plan = plan_arena([Buffer("x", odd, 0, 1), Buffer("y", 3, 1, 1)], alignment=1)
    assert plan.arena_bytes == odd + 3


def test_plan_depends_on_no_hash_seed() -> None:
    program = (
        "from tensorgen.memory import *\n"
        "print(plan_arena([Buffer(f'b{i}', i * 37 % 101 * 64, i // 3, i // 3 + i % 7)"
        " for i in range(60)]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        (
            [Buffer("x", 4, 3, 2)],
            "buffer 'x': expected a last step of at least 3, its first, got 2",
        ),
        (
            [Buffer("x", 4, 0, 0), Buffer("x", 4, 1, 1)],
            "buffer 'x': expected a unique name, got it twice",
        ),
        ([Buffer("x", -1, 0, 0)], "buffer 'x': expected at least 0 bytes, got -1"),
        (
            [Buffer("x", 4, 0, 0, ("y",))],
            "buffer 'x': expected in_place_of to name a buffer, got 'y'",
        ),
        (
            [Buffer("x", 4, 0, 0, ("x",))],
            "buffer 'x': expected in_place_of to name others, got itself",
        ),
        (
            [Buffer("x", 4, 0, 2), Buffer("y", 4, 1, 3, ("x",))],
            "buffer 'y' in place of 'x': expected 'x' to die in step 1, got 2",
        ),
        (
            [Buffer("x", 4, 0, 1), Buffer("y", 5, 1, 3, ("x",))],
            "buffer 'y' in place of 'x': expected 'x' to have at least 5 bytes, got 4",
        ),
        (
            [Buffer("x", 4, 0, 1), Buffer("y", 4, 1, 1, ("x",)), Buffer("z", 4, 1, 2, ("y",))],
            "buffer 'z' in place of 'y': expected 'y', itself in place of another, to be born "
            "before step 1, got 1",
        ),
    ],
)
def test_contradictions_are_refused(buffers: list[Buffer], message: str) -> None:
    for ask in (plan_arena, largest_live_set):
        with pytest.raises(ArenaError) as refusal:
            ask(buffers)
        assert str(refusal.value) == message


@pytest.mark.parametrize("alignment", [0, -8, 48])
def test_alignment_is_a_power_of_two(alignment: int) -> None:
    with pytest.raises(ArenaError) as refusal:
        plan_arena([], alignment=alignment)
    assert str(refusal.value) == f"alignment: expected a power of two, got {alignment}"


X, Y, OVER = Buffer("x", 64, 0, 1), Buffer("y", 64, 1, 2), Buffer("y", 64, 1, 2, ("x",))


def test_checker_accepts_what_is_sound() -> None:
    check_plan([X, Y], Plan((("x", 64), ("y", 0)), 128, 128, optimal=True))
    check_plan([X, OVER], Plan((("x", 64), ("y", 64)), 128, 64, optimal=False))
    check_plan([X, Buffer("z", 64, 2, 2)], Plan((("x", 0), ("z", 0)), 64, 64, optimal=True))


@pytest.mark.parametrize(
    ("buffers", "offsets", "arena", "message"),
    [
        (
            [X, Y],
            (("x", 0), ("y", 0)),
            128,
            "plan: expected 'x' and 'y' apart, as both are alive in step 1; got offsets 0 and 0",
        ),
        (
            [Buffer("x", 128, 0, 1), OVER],
            (("x", 0), ("y", 64)),
            128,
            "plan: expected 'x' and 'y' apart, as both are alive in step 1; got offsets 0 and 64",
        ),
        (
            [replace(X, last=2), OVER],
            (("x", 0), ("y", 0)),
            128,
            "plan: expected 'x' and 'y' apart, as both are alive in step 1; got offsets 0 and 0",
        ),
        (
            [X, OVER, Buffer("z", 64, 1, 1, ("x",))],
            (("x", 0), ("y", 0), ("z", 0)),
            128,
            "plan: expected 'y' and 'z' apart, as both are alive in step 1; got offsets 0 and 0",
        ),
        ([X], (("x", 32),), 128, "plan: buffer 'x': expected a multiple of 64, got 32"),
        ([X], (("x", -64),), 128, "plan: buffer 'x': expected a multiple of 64, got -64"),
        ([X], (("x", 64),), 64, "plan: buffer 'x': expected an end within 64 bytes, got 128"),
        ([X], (), 64, "plan: expected one offset for each buffer, got other names"),
        (
            [X],
            (("x", 0), ("x", 0)),
            64,
            "plan: expected one offset for each buffer, got other names",
        ),
        ([X], (("x", 0),), 63, "plan: expected at least 64 bytes, got 63"),
    ],
)
def test_checker_names_what_is_wrong(
    buffers: list[Buffer], offsets: tuple[tuple[str, int], ...], arena: int, message: str
) -> None:
    with pytest.raises(PlanError) as refusal:
        check_plan(buffers, Plan(offsets, arena, 64, optimal=False))
    assert str(refusal.value) == message

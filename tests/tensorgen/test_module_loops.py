"""Loops found in calls are those calls."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tensorgen.module_loops import LEAST_REPETITIONS, MOST_CALLS, Moving, rolled
from tensorgen.module_spec import Arena, Call, Constant, Input, Output, Place

places = st.one_of(
    st.builds(Input, st.integers(0, 1), st.integers(0, 9)),
    st.builds(Output, st.integers(0, 1), st.integers(0, 9)),
    st.builds(Arena, st.integers(0, 9)),
    st.builds(Constant, st.integers(0, 1)),
)
calls = st.builds(
    Call,
    st.sampled_from(["f", "g"]),
    st.tuples(places, places),
    st.sampled_from(["a", "a", "a", "b"]),
)


def moved(place: Place, by: int) -> Place:
    return place if isinstance(place, Constant) else replace(place, offset=place.offset + by)


def steps_of(body: list[Call], count: int, stride: int) -> tuple[Call, ...]:
    """A body `count` times, its places further on each time."""
    return tuple(
        replace(call, arguments=tuple(moved(place, turn * stride) for place in call.arguments))
        for turn in range(count)
        for call in body
    )


@given(st.lists(calls, max_size=12))
def test_loops_are_the_calls(before: list[Call]) -> None:
    assert tuple(call for loop in rolled(before) for call in loop.unrolled()) == tuple(before)


@given(
    st.lists(calls, max_size=4),
    st.lists(calls, min_size=1, max_size=4),
    st.integers(LEAST_REPETITIONS, 9),
    st.integers(-3, 3),
    st.lists(calls, max_size=4),
)
def test_what_repeats_is_a_loop(
    before: list[Call], body: list[Call], count: int, stride: int, behind: list[Call]
) -> None:
    run = [*before, *steps_of(body, count, 64 * stride), *behind]
    loops = rolled(run)
    assert [call for loop in loops for call in loop.unrolled()] == run
    assert sum(len(loop.calls) for loop in loops) < len(run)
    starts = [loop.start for loop in loops]
    assert starts == sorted(set(starts))


def test_places_move_on() -> None:
    body = [Call("f", (Constant(0), Input(0, 7), Arena(64)), ""), Call("g", (Arena(64),), "")]
    run = steps_of(body, 5, 8)
    (loop,) = rolled(run)
    assert (loop.start, loop.count, len(loop.calls)) == (0, 5, 2)
    assert loop.calls[0].arguments == (
        Constant(0), Moving(Input(0, 7), 8), Moving(Arena(64), 8),
    )  # fmt: skip


def test_backwards_in_time() -> None:
    run = steps_of([Call("f", (Output(0, 96), Arena(0)), "")], 4, -32)
    run = tuple(replace(call, arguments=(call.arguments[0], Arena(0))) for call in run)
    (loop,) = rolled(run)
    assert loop.calls[0].arguments == (Moving(Output(0, 96), -32), Arena(0))


def test_other_ports_kernels_labels_and_weights_end_a_loop() -> None:
    same = [Call("f", (Input(0, 0), Constant(0)), "step")] * 3
    for other in (
        Call("g", (Input(0, 0), Constant(0)), "step"),
        Call("f", (Input(1, 0), Constant(0)), "step"),
        Call("f", (Input(0, 0), Constant(1)), "step"),
        Call("f", (Arena(0), Constant(0)), "step"),
        Call("f", (Input(0, 4), Constant(0)), "step"),
        Call("f", (Input(0, 0), Constant(0)), "other"),
    ):
        assert [loop.count for loop in rolled([*same, other])] == [3, 1]


def test_an_uneven_place_ends_a_loop() -> None:
    run = [Call("f", (Arena(offset),), "") for offset in (0, 64, 128, 192, 320)]
    assert [loop.count for loop in rolled(run)] == [4, 1]


def test_two_repetitions_are_written_out() -> None:
    run = [Call("f", (Arena(0),), ""), Call("g", (Arena(0),), "")] * 2
    assert [loop.count for loop in rolled(run)] == [1] * 4


def test_long_bodies_are_not_looked_for() -> None:
    body = [Call("f", (Arena(8 * n * n),), str(n)) for n in range(MOST_CALLS + 1)]
    assert all(loop.count == 1 for loop in rolled(body * 3))

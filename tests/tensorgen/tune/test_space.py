"""Spaces whatever their sketches: knobs, points, neighbours, mutation and crossover."""

from __future__ import annotations

from itertools import islice
from math import inf
from random import Random

import pytest

from tensorgen.schedule import Lanes, Loops
from tensorgen.tune.space import Candidate, Knob
from tests.valley_space import valleys


def test_the_nearest_value_of_a_knob() -> None:
    sizes = Knob("tile", (16, 32, 64, 128))
    assert [sizes.nearest(value) for value in (32, 40, 50, 1000, 1, 0)] == [1, 1, 2, 3, 0, 0]
    assert Knob("lanes", ("output", "none")).nearest("none") == 1
    assert Knob("lanes", ("output", "none")).nearest("reduction") == 0
    assert Knob("depth", (0, 32)).nearest(0) == 0
    assert sizes.position(48) is None


def test_knobs_have_values_that_differ() -> None:
    with pytest.raises(AssertionError, match="no values"):
        Knob("tile", ())
    with pytest.raises(AssertionError, match="repeats"):
        Knob("tile", (1, 1))


def test_points_are_listed_once_and_only_legal_ones() -> None:
    space = valleys(extent=5)
    points = list(space.points())
    assert len(points) == len(set(points))
    assert len(points) < 2 * 5**3
    for point in points:
        assert sum(int(value) for value in space.settings(point).values()) % 7 != 3


def test_illegal_points_cost_infinitely_much() -> None:
    space = valleys()
    illegal = Candidate(0, (3, 0, 0))
    assert space.schedule(illegal) is None
    assert space.estimate(illegal) == inf


def test_neighbours_skip_what_is_illegal() -> None:
    space = valleys()
    near = list(space.neighbours(Candidate(0, (2, 0, 0))))
    assert near == [
        Candidate(0, (4, 0, 0)), Candidate(0, (1, 0, 0)), Candidate(0, (2, 2, 0)),
        Candidate(0, (2, 0, 2)),
    ]  # fmt: skip
    line = list(islice(space.along(Candidate(0, (9, 0, 0)), 0, -1), 3))
    assert line == [Candidate(0, (8, 0, 0)), Candidate(0, (7, 0, 0)), Candidate(0, (6, 0, 0))]


def test_mutations_are_near_and_rarely_of_another_sketch() -> None:
    space, rng = valleys(), Random(0)
    point = Candidate(0, (10, 10, 12))
    found = [space.mutate(point, rng) for _ in range(400)]
    assert point not in found
    others = [other for other in found if other.sketch != 0]
    assert 5 < len(others) < 50
    changed = [
        sum(a != b for a, b in zip(point.choices, other.choices, strict=True))
        for other in found
        if other.sketch == 0
    ]
    assert max(changed) <= 2
    assert changed.count(1) > 200
    # Another sketch begins where the knobs that it shares are.
    assert all(other.choices == point.choices for other in others)


def test_crossover_takes_each_knob_from_one_of_both() -> None:
    space, rng = valleys(), Random(0)
    first, second = Candidate(0, (1, 1, 2)), Candidate(1, (20, 21, 26))
    for _ in range(50):
        child = space.cross(first, second, rng)
        assert child.sketch == 0
        if child.choices != first.choices:
            pairs = zip(child.choices, first.choices, second.choices, strict=True)
            near = [value in (a, b) for value, a, b in pairs]
            assert sum(near) >= 1


def test_what_the_space_lacks_is_not_located() -> None:
    space = valleys()
    assert space.locate(Loops(Lanes.OUTPUT, 40, 0, 0)) is None
    assert space.locate(Loops(Lanes.NONE, 1, 1, 2)) is None
    assert space.adapted(Loops(Lanes.NONE, 1, 1, 2)) is None


def test_a_schedule_out_of_reach_is_adapted_to_the_nearest() -> None:
    space = valleys()
    found = space.adapted(Loops(Lanes.REDUCTION, 100, 2, 3))
    assert found == Candidate(1, (31, 2, 3))

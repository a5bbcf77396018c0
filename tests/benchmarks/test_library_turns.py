"""Libraries in turns: ratios within turns, the order of turns, and processors for a while."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tasor
from benchmarks.library_turns import in_turns, pinned, ratio, turns_of
from tasor.peer_cases import write_case
from tasor.peers import pinned_cpus
from tensorgen.build import ToolMissing, find_compiler
from tensorgen.target import host_target
from tests.tasor.small_models import small_model


def test_a_gain_is_the_median_of_ratios_within_turns() -> None:
    turns = [(2.0, 1.0), (8.0, 2.0), (3.0, 3.0)]
    assert ratio(turns, 0, 1) == 2.0
    assert ratio(turns, 1, 0) == 0.5


def test_each_turn_begins_with_another_library() -> None:
    calls: list[int] = []

    def loop(number: int) -> Callable[[int], None]:
        return lambda count: calls.append(number)

    turns = in_turns([loop(0), loop(1), loop(2)], 4, 1e-9)
    assert len(turns) == 4
    assert all(len(turn) == 3 and min(turn) >= 0 for turn in turns)
    order = [n for place, n in enumerate(calls) if not place or calls[place - 1] != n]
    # 0 1 2, 1 2 0, 2 0 1, 0 1 2, of which equal neighbours are told once.
    assert order == [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system cannot pin")
def test_this_process_is_pinned_for_a_while() -> None:
    before = os.sched_getaffinity(0)
    with pinned(1):
        assert os.sched_getaffinity(0) == set(pinned_cpus(1))
    assert os.sched_getaffinity(0) == before
    with pytest.raises(KeyError), pinned(1):
        raise KeyError
    assert os.sched_getaffinity(0) == before


def test_libraries_are_built_and_take_turns(tmp_path: Path) -> None:
    try:
        find_compiler(host_target())
    except ToolMissing as missing:
        pytest.skip(str(missing))
    path = tmp_path / "m.onnx"
    case = write_case(path, small_model(), name="m", group="g", shapes={"x": (4, 6)})
    model = tasor.compile(path, shapes=case.shapes, threads=1)
    turns = turns_of(case, [model, model], 1, 3, 1e-4)
    assert len(turns) == 3
    assert all(0 < seconds < 1 for turn in turns for seconds in turn)

"""A case in both tuners: which of our states is as fast as TVM's winner, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from benchmarks.time_to_reach import Point
from benchmarks.tuning_states import State, StatedTuning
from benchmarks.tvm_duel import OURS, THEIRS, Duel, DuelError, Timer, Turns, settled, turns_of
from benchmarks.tvm_operators import Product
from benchmarks.tvm_tables import NEVER, markdown, row_of, summary, table
from benchmarks.tvm_tuning import ORDER_NAME, TvmKernel, TvmTuning
from tasor.peer_cases import Case
from tasor.peers import Timing

CASE = Case("product", "group", Path("m.onnx"), (), ("y",), 128)
KERNEL = TvmKernel(Product(2, 3, 4), Path("kernel"))
THEIRS_TUNED = TvmTuning(
    (Point(1, 20.0, inf), Point(2, 30.0, 3e-3), Point(3, 80.0, 2.02e-3), Point(4, 90.0, 2e-3)),
    100.0,
    KERNEL,
)
OURS_TUNED = StatedTuning(
    (Point(0, 1.0, 5e-3), Point(16, 2.0, 3e-3), Point(32, 3.0, 1e-3)),
    (State(0, 0.0, {}), State(16, 2.0, {}), State(32, 3.0, {}), State(32, 4.0, {})),
)


def timer(*milliseconds: float) -> tuple[Timer, list[int]]:
    """Both in turns, ours by the place of the state; and the places in the order asked for."""
    asked: list[int] = []

    def timed(case: Case, kernel: TvmKernel, state: State) -> Turns:
        assert (case, kernel) == (CASE, KERNEL)
        # States are told apart by what they are, not by what they hold.
        (place,) = (n for n, known in enumerate(OURS_TUNED.states) if known is state)
        asked.append(place)
        return Turns(milliseconds[place] / 1e3, 2e-3, 1e-6, 1.0)

    return timed, asked


def settled_with(*milliseconds: float) -> Duel:
    return settled(CASE, THEIRS_TUNED, OURS_TUNED, timer(*milliseconds)[0])


def test_the_first_state_as_fast_as_their_winner_counts() -> None:
    timed, asked = timer(4.0, 2.0, 1.0, 1.0)
    found = settled(CASE, THEIRS_TUNED, OURS_TUNED, timed)
    assert asked == [3, 0, 1]
    assert found.turns.ratio == 2.0
    assert found.reached is not None
    assert (found.reached.trials, found.reached.seconds) == (16, 3.0)
    assert (found.their_best_after, found.like_their_best_after) == (90.0, 80.0)
    assert found.shorter == 30.0
    assert (found.our_seconds, found.their_seconds) == (4.0, 100.0)
    assert [point.trials for point in found.their_curve] == [2, 3, 4]


def test_without_trials_it_takes_no_longer_than_compiling() -> None:
    found = settled_with(1.0, 1.0, 1.0, 1.0)
    assert found.reached is not None
    assert (found.reached.trials, found.reached.seconds, found.shorter) == (0, 1.0, 90.0)


def test_the_last_race_may_be_what_reaches_it_and_is_timed_once() -> None:
    timed, asked = timer(9.0, 9.0, 9.0, 1.0)
    found = settled(CASE, THEIRS_TUNED, OURS_TUNED, timed)
    assert asked == [3, 0, 1, 2]
    assert found.reached is not None
    assert found.reached.seconds == 5.0


def test_who_is_never_as_fast_took_no_time() -> None:
    found = settled_with(4.0, 4.0, 4.0, 3.0)
    assert (found.reached, found.shorter) == (None, None)
    assert row_of(found)[-3:] == (NEVER,) * 3
    assert summary([found]).endswith(f"as fast as they are: {NEVER}")


def test_a_tuning_without_a_kernel_is_refused() -> None:
    failed = TvmTuning((Point(1, 9.0, inf),), 9.0, None)
    with pytest.raises(DuelError, match=r"^product: expected a kernel of TVM's, got none"):
        settled(CASE, failed, OURS_TUNED, timer()[0])


def timing(engine: str, in_c: float, difference: float | None) -> Timing:
    return Timing(engine, 9.0, 9.0, 9.0, 1, 1.5, difference, quiet=True, in_c=in_c)


def test_turns_are_those_of_the_loops_in_c() -> None:
    timings = {OURS: timing(OURS, 1.0, None), THEIRS: timing(THEIRS, 3.0, 1e-5)}
    assert turns_of("c", timings) == Turns(1e-3, 3e-3, 1e-5, 1.5)


@pytest.mark.parametrize("difference", [0.5, inf, float("nan")])
def test_outputs_that_differ_are_refused(difference: float) -> None:
    timings = {OURS: timing(OURS, 1.0, None), THEIRS: timing(THEIRS, 3.0, difference)}
    with pytest.raises(DuelError, match=r"^c: expected outputs within 0\.001 of their range, got"):
        turns_of("c", timings)


def test_weights_are_laid_out_as_the_kernel_takes_them(tmp_path: Path) -> None:
    kernel = replace(KERNEL, folder=tmp_path)
    np.save(tmp_path / ORDER_NAME, np.arange(12).reshape(4, 3).T.reshape(3, 2, 2))
    weight = np.arange(100, 112, dtype=np.float32).reshape(1, 4, 3)
    assert kernel.weight(weight).shape == (3, 2, 2)
    np.testing.assert_array_equal(kernel.weight(weight).reshape(3, 4), weight[0].T)


def test_the_page_has_every_figure_and_both_curves() -> None:
    duels = [settled_with(4.0, 2.0, 1.0, 1.0), settled_with(9.0, 9.0, 9.0, 4.0)]
    page = markdown(duels, "Made by this.", "a machine, threads: 1")
    assert "\n\nMade by this.\na machine, threads: 1.\n\n" in page
    assert (
        "| product | 1.0000 | 2.0000 | 2.00 | 1.0e-06 | 4.0 | 100.0 | 90.0 | 80.0 | 3.0 | 16 | "
        "30.0 |" in page
    )
    assert "| TVM | 2 | 30.0 | 3.0000 |" in page
    assert "| TVM | 4 | 90.0 | 2.0000 |" in page
    assert "| Tasor | 32 | 3.0 | 1.0000 |" in page
    assert "2 cases: 1.00 times as fast" in page
    assert "least 0.50" in page
    lines = [line for line in page.splitlines() if re.match(r"\|", line)]
    assert sorted({line.count("|") for line in lines}) == [5, 13]
    assert [column.header for column in table(duels).columns] == ["case", "product", "product"]
    assert table(duels).row_count == 11


def test_the_least_time_saved_is_told() -> None:
    duels = [settled_with(4.0, 2.0, 1.0, 1.0), settled_with(1.0, 1.0, 1.0, 1.0)]
    assert summary(duels).endswith("as fast as they are: at least 30.0 times shorter")

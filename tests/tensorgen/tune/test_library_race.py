"""Which schedule is taken by races, and which have to race before that is settled."""

from __future__ import annotations

from math import inf

from tensorgen.tune.library_race import RACES, Choice, Rivals, choice, unsettled
from tests.tensorgen.tune.test_schedule_text import LOOPS, ROWS, TILE

USUAL, SLOW, FAST = LOOPS, TILE, ROWS


def lucky(slow: float = 0.5) -> list[Rivals]:
    return [Rivals(SLOW, slow, USUAL, 1.0), Rivals(FAST, 0.9, USUAL, 1.0)]


LATER = [Rivals(SLOW, 2.2, USUAL, 2.0), Rivals(FAST, 1.8, USUAL, 2.0)]


def test_a_schedule_is_taken_by_the_median_of_its_races() -> None:
    assert choice(USUAL, lucky()) == Choice(SLOW, 0.5, 1.0, True)
    assert choice(USUAL, [*lucky(), LATER[0]]) == Choice(SLOW, 0.5, 1.0, True)
    assert choice(USUAL, [*lucky(), *LATER, *LATER]) == Choice(FAST, 0.9, 1.0, True)
    assert choice(USUAL, [lucky()[0], LATER[0], LATER[0]]) == Choice(USUAL, 2.0, 2.0, False)


def test_the_schedule_with_zero_trials_stays_where_nothing_is_faster() -> None:
    assert choice(USUAL, []) == Choice(USUAL, inf, inf, False)
    assert choice(USUAL, LATER[:1]) == Choice(USUAL, 2.0, 2.0, False)
    assert choice(USUAL, [Rivals(SLOW, 0.995, USUAL, 1.0)]) == Choice(USUAL, 1.0, 1.0, False)
    assert choice(USUAL, [Rivals(SLOW, inf, USUAL, 1.0)]) == Choice(USUAL, 1.0, 1.0, False)


def test_what_works_is_taken_where_the_one_with_zero_trials_does_not() -> None:
    assert choice(USUAL, [Rivals(SLOW, 1.0, USUAL, inf)]) == Choice(SLOW, 1.0, inf, True)
    assert choice(USUAL, [Rivals(SLOW, inf, USUAL, inf)]) == Choice(USUAL, inf, inf, False)


def test_who_never_raced_comes_first_and_who_leads_has_to_win_again() -> None:
    finalists = (SLOW, FAST)
    assert unsettled(USUAL, finalists, []) == finalists
    assert unsettled(USUAL, finalists, lucky()[:1]) == (FAST,)
    assert unsettled(USUAL, finalists, lucky()) == (SLOW,)
    assert unsettled(USUAL, finalists, lucky()[:1] * RACES + lucky()[1:]) == ()


def test_the_next_best_has_to_win_where_the_leader_was_lucky() -> None:
    races = [*lucky(), LATER[0], LATER[0]]
    assert unsettled(USUAL, (SLOW, FAST), races) == (FAST,)
    assert unsettled(USUAL, (SLOW, FAST), [*races, LATER[1], LATER[1]]) == ()


def test_nobody_races_again_where_nobody_is_faster() -> None:
    assert unsettled(USUAL, (SLOW,), LATER[:1]) == ()
    assert unsettled(USUAL, (), []) == ()


def test_a_schedule_that_won_races_counts_though_it_is_no_finalist_any_more() -> None:
    assert unsettled(USUAL, (), lucky()[:1]) == (SLOW,)

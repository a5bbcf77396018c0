"""One case tuned by TVM's MetaSchedule and by us, and both winners timed in turns.

What it does: has both tune one after the other, lets each winner run in a pinned process of its
own, in turns and warm, and finds the first of our states that is as fast as TVM's winner there: a
tuner's own figures are its own business. What it does not: draw tables (`tvm_tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.time_to_reach import (
    LIKE_THE_BEST,
    Point,
    best_so_far,
    seconds_until_best,
)
from benchmarks.tuning_states import State, StatedTuning, tuned_in_states
from benchmarks.tvm_engine import open_afresh, open_tvm
from benchmarks.tvm_operators import Operator
from benchmarks.tvm_tuning import TvmKernel, TvmTuning, tuned_by_tvm
from tasor.peer_cases import Case
from tasor.peer_report import AGREEMENT
from tasor.peers import Comparison, Failure, Timing
from tasor.pipeline import Settings
from tasor.suites.sources import Source

OURS, THEIRS = "tasor", "tvm"


class DuelError(RuntimeError):
    """A case cannot be compared. The message is one line."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much each tunes, with which seed, and for how many seconds and rounds winners run."""

    trials: int
    tvm_trials: int
    seed: int
    seconds: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Turns:
    """Both winners in turns: seconds of a call in a loop in C, medians over the turns, the largest
    difference of their outputs relative to their range, and the seconds that our library took from
    the model to its first call, compiled from nothing."""

    ours: float
    theirs: float
    difference: float
    compile_seconds: float

    @property
    def ratio(self) -> float:
        """How many times as fast as TVM's we are."""
        return self.theirs / self.ours


@dataclass(frozen=True, slots=True)
class Reached:
    """Our first state that was as fast as TVM's winner: its trials, the seconds of tuning until
    then and of compiling it, and both in turns."""

    trials: int
    seconds: float
    turns: Turns


@dataclass(frozen=True, slots=True)
class Duel:
    """One case. `flops` are those of the operator by its definition. Curves have the best so far in
    their own tuner's figures, seconds those of the whole tunings; `reached` is None if we never
    were as fast."""

    case: str
    flops: int | None
    turns: Turns
    our_curve: tuple[Point, ...]
    their_curve: tuple[Point, ...]
    our_seconds: float
    their_seconds: float
    reached: Reached | None

    @property
    def their_best_after(self) -> float:
        """Seconds until TVM measured its best kernel."""
        return self._their_seconds_until(1.0)

    @property
    def like_their_best_after(self) -> float:
        """Seconds until TVM measured a kernel that is as good to within the clock's noise."""
        return self._their_seconds_until(LIKE_THE_BEST)

    def _their_seconds_until(self, slack: float) -> float:
        seconds = seconds_until_best(self.their_curve, slack)
        assert seconds is not None, "something of TVM's ran"
        return seconds

    @property
    def shorter(self) -> float | None:
        """How many times as long as we TVM took to its best; None if we never were as fast."""
        return None if self.reached is None else self.their_best_after / self.reached.seconds


Timer = Callable[[Case, TvmKernel, State], Turns]


def duel(
    source: Source,
    operator: Operator,
    folder: Path,
    settings: Settings,
    effort: Effort,
    tvm_process: Executor,
    tell: Callable[[str], None],
) -> Duel:
    """Tune a case in both and compare. `folder` is an empty one, and TVM runs in `tvm_process`.

    Raises DuelError if either has no kernel or they disagree, MeasureError, BrokenExecutor.
    """
    threads = settings.threads
    tell(f"{source.name}: TVM tunes")
    theirs = tvm_process.submit(
        tuned_by_tvm, operator, folder, effort.tvm_trials, threads, effort.seed
    ).result()
    tell(f"{source.name}: TVM took {theirs.seconds:.1f} s, we tune")
    ours = tuned_in_states(source, settings, effort.trials, effort.seed)
    tell(f"{source.name}: we took {ours.seconds:.1f} s, winners take turns")
    case = source.write(folder / "model.onnx")
    return settled(case, theirs, ours, partial(in_turns, threads=threads, effort=effort))


def settled(case: Case, theirs: TvmTuning, ours: StatedTuning, timed: Timer) -> Duel:
    """The comparison of two tunings, whose winners `timed` times. Raises DuelError."""
    if theirs.kernel is None:
        raise DuelError(
            f"{case.name}: expected a kernel of TVM's, got none that was built and run in time; "
            "give it more trials"
        )
    kernel, final = theirs.kernel, ours.states[-1]
    turns = timed(case, kernel, final)
    known: dict[int, Turns] = {len(ours.states) - 1: turns}
    reached = None
    for place, state in enumerate(ours.states):
        found = known[place] if place in known else timed(case, kernel, state)
        if found.ours <= found.theirs:
            reached = Reached(state.trials, state.seconds + found.compile_seconds, found)
            break
    return Duel(
        case.name, case.flops, turns, best_so_far(ours.curve), best_so_far(theirs.points),
        ours.seconds, theirs.seconds, reached,
    )  # fmt: skip


def in_turns(case: Case, kernel: TvmKernel, state: State, *, threads: int, effort: Effort) -> Turns:
    """Our library with the schedules of a state and TVM's kernel, in turns. Raises DuelError."""
    guests = {OURS: partial(open_afresh, state.schedules), THEIRS: partial(open_tvm, kernel)}
    with Comparison((), threads, guests=guests) as comparison:
        row = comparison.measure(case, seconds=effort.seconds, rounds=effort.rounds)
    timings: dict[str, Timing] = {}
    for result in row.results:
        if isinstance(result, Failure):
            raise DuelError(f"{case.name}: expected {result.engine} to run, got {result.message}")
        timings[result.engine] = result
    return turns_of(case.name, timings)


def turns_of(case: str, timings: Mapping[str, Timing]) -> Turns:
    """The figures of both. Raises DuelError if they do not compute the same."""
    ours, theirs = timings[OURS], timings[THEIRS]
    difference = theirs.deviation
    assert difference is not None, "the first engine is the reference"
    if not difference <= AGREEMENT:
        raise DuelError(
            f"{case}: expected outputs within {AGREEMENT:g} of their range, got {difference:.2g}"
        )
    assert ours.in_c is not None, "we have a loop in C"
    assert theirs.in_c is not None, "TVM has one"
    return Turns(ours.in_c / 1e3, theirs.in_c / 1e3, difference, ours.load_seconds)

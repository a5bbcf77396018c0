"""Racing: timed runs for the candidates that may win, and no more for those that lost.

What it does: decides which candidate of a batch runs next, how often it is called in that run, and
when it is out. What it does not: run anything, or look at a clock. It needs the standard library
alone, since the process that measures has nothing else.

Every candidate has one timed run. Who is much slower than the best is out. The others take turns,
the incumbent among them, so that a machine that becomes slower does so for all; after some rounds
only those near the best go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class RaceRules:
    """When a candidate is out, and how long it runs.

    One that takes more than `lost` times the best is out at once; after `rounds` runs, one that
    takes more than `near` times the best has its figure; the others get `more_rounds`. A run calls
    a kernel for about `run_seconds`, and at least once; the first one, which only tells who is out,
    for half as long.
    """

    lost: float = 1.5
    near: float = 1.1
    rounds: int = 2
    more_rounds: int = 3
    run_seconds: float = 2e-3


EVERY_RUN = RaceRules(lost=inf, near=inf)
"""Nobody is out: for figures of kernels that are not rivals."""


@dataclass(slots=True)
class Runner:
    """A candidate in a race: seconds of a call in each of its timed runs so far."""

    number: int
    calls: int = 1
    runs: list[float] = field(default_factory=list)
    lost: bool = False
    failed: bool = False

    @property
    def seconds(self) -> float:
        """Seconds of a call by the runs so far; infinite without any."""
        return middle(self.runs) if self.runs and not self.failed else inf


def middle(values: Sequence[float]) -> float:
    """The median."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


Run = Callable[[int, int], float | None]
"""Calls a candidate so many times: seconds of all calls, or None if it failed."""


def race(runners: Sequence[Runner], incumbent: Runner | None, rules: RaceRules, run: Run) -> None:
    """Runs the candidates, and with them the incumbent, until each is out or has all its runs.

    What came of each is in its `runs`, `lost` and `failed`.
    """
    everyone = [*([] if incumbent is None else [incumbent]), *runners]
    best = inf
    for runner in everyone:
        _first_run(runner, rules, run, best)
        runner.lost = runner is not incumbent and runner.seconds > rules.lost * best
        best = min(best, runner.seconds)
    # The first ones ran when less was known of the best.
    for runner in runners:
        runner.lost = runner.lost or runner.seconds > rules.lost * best
    for limit, rounds in ((inf, rules.rounds - 1), (rules.near, rules.more_rounds)):
        best = min((runner.seconds for runner in everyone), default=inf)
        going = [
            runner
            for runner in everyone
            if runner is incumbent or (not runner.lost and runner.seconds <= limit * best)
        ]
        if going == [incumbent]:
            continue
        for _ in range(rounds):
            for runner in going:
                if not runner.failed:
                    _timed(runner, run)


def _first_run(runner: Runner, rules: RaceRules, run: Run, best: float) -> None:
    """Finds how many calls a run takes, and makes the first one."""
    while True:
        seconds = run(runner.number, runner.calls)
        if seconds is None:
            runner.failed = True
            return
        # Twice what would put it out, although caches and clocks were cold: no need to see it warm.
        hopeless = seconds / runner.calls > 2 * rules.lost * best
        if seconds >= rules.run_seconds / 4 or hopeless:
            runner.runs.append(seconds / runner.calls)
            runner.calls = _calls(rules.run_seconds, runner.calls, seconds)
            return
        wanted = _calls(rules.run_seconds / 2, runner.calls, seconds)
        runner.calls = max(2 * runner.calls, wanted)


def _calls(run_seconds: float, calls: int, seconds: float) -> int:
    """How many calls a run takes, if so many took so long."""
    return round(calls * run_seconds / max(seconds, 1e-7)) or 1


def _timed(runner: Runner, run: Run) -> None:
    seconds = run(runner.number, runner.calls)
    if seconds is None:
        runner.failed = True
    else:
        runner.runs.append(seconds / runner.calls)

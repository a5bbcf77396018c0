"""Racing: timed runs for the candidates that may win, and no more for those that lost.

What it does: decides which candidate of a batch runs next, how often it is called in that run, and
when it is out. What it does not: run anything, or look at a clock. It needs the standard library
alone, since the process that measures has nothing else.

Every candidate has one timed run. Who is much slower than the best is out. The others take turns,
the incumbent among them, so that a machine that becomes slower does so for all; the more runs there
were, the nearer to the best is who goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class RaceRules:
    """When a candidate is out, and how long it runs.

    One that takes more than `lost` times the best is out at once. The others go on by `laps`: those
    that take at most so many times the best run so many times more, and who does not has its
    figure. A run calls a kernel for about `run_seconds`, and at least once; the first one, which
    only tells who is out, for half as long. A run whose calls take more than `given_up` times the
    best is not waited for.
    """

    lost: float = 1.5
    given_up: float = 20.0
    laps: Sequence[tuple[float, int]] = ((1.25, 1), (1.1, 1), (1.05, 2))
    run_seconds: float = 2e-3


EVERY_RUN = RaceRules(lost=inf, given_up=inf, laps=((inf, 4),))
"""Nobody is out: for figures of kernels that are not rivals."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A timed run of a candidate, called so many times; without a number, as many as its first run
    takes."""

    number: int
    calls: int | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of a call in a run, and how many calls its next run takes."""

    seconds: float
    calls: int


Run = Callable[[Sequence[Turn]], Sequence[Timing | None]]
"""Has candidates take turns: what came of each turn, or None where the candidate failed, then or in
a turn before."""


@dataclass(slots=True)
class Runner:
    """A candidate in a race: seconds of a call in each of its timed runs so far."""

    number: int
    calls: int | None = None
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


def race(runners: Sequence[Runner], incumbent: Runner | None, rules: RaceRules, run: Run) -> None:
    """Runs the candidates, and with them the incumbent, until each is out or has all its runs.

    What came of each is in its `runs`, `lost` and `failed`.
    """
    everyone = [*([] if incumbent is None else [incumbent]), *runners]
    _take_turns(everyone, run)
    best = min((runner.seconds for runner in everyone), default=inf)
    for runner in runners:
        runner.lost = runner.seconds > rules.lost * best
    for limit, rounds in rules.laps:
        best = min((runner.seconds for runner in everyone), default=inf)
        going = [
            runner
            for runner in everyone
            if runner is incumbent or (not runner.lost and runner.seconds <= limit * best)
        ]
        if going != [incumbent]:
            _take_turns([runner for runner in going if not runner.failed] * rounds, run)


def _take_turns(runners: Sequence[Runner], run: Run) -> None:
    """All at once: to be told of each turn takes as long as many a kernel, and a core."""
    found = run([Turn(runner.number, runner.calls) for runner in runners])
    for runner, timing in zip(runners, found, strict=True):
        if timing is None:
            runner.failed = True
        else:
            runner.runs.append(timing.seconds)
            runner.calls = timing.calls


def timed(call: Callable[[int], float], turn: Turn, rules: RaceRules, best: float) -> Timing:
    """What comes of a turn, if `call` takes so many seconds for so many calls and the best
    candidate takes `best` for one."""
    if turn.calls is not None:
        return Timing(call(turn.calls) / turn.calls, turn.calls)
    calls = 1
    while True:
        seconds = call(calls)
        # Twice what would put it out, although caches and clocks were cold: no need to see it warm.
        hopeless = seconds / calls > 2 * rules.lost * best
        if seconds >= rules.run_seconds / 4 or hopeless:
            return Timing(seconds / calls, _calls(rules.run_seconds, calls, seconds))
        calls = max(2 * calls, _calls(rules.run_seconds / 2, calls, seconds))


def _calls(run_seconds: float, calls: int, seconds: float) -> int:
    """How many calls a run takes, if so many took so long."""
    return round(calls * run_seconds / max(seconds, 1e-7)) or 1

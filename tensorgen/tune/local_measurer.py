"""Measures on this machine: candidates compiled on all cores, then raced on those they are for.

What it does: lowers and prints the candidates of a batch while the first of them are compiled,
checks each one's first result against the meaning of the task, and races those that are right. A
candidate that does not fit its task, does not compile, crashes, hangs or computes something else
costs only itself. What it does not: choose candidates, or keep what it found.

Activations are warm, as the kernel before has left them; weights come from behind the second-level
cache, since the weights of other kernels are read between two calls: all but in a run that this
cache holds as a whole. Where the third-level cache holds it, they come from there: calls that are
not timed bring them back, after other candidates have had their turns. Otherwise nothing does.

Everything that it starts (threads, a process, a folder) is gone when it is closed, and nothing of
the caller's process is changed: see the test of that.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, assert_never

from tensorgen.build import BuildError, build_library, working_folder
from tensorgen.lower import Lowered
from tensorgen.schedule import (
    AttentionTile,
    Loops,
    RegisterTile,
    RowStages,
    Schedule,
    ScheduleError,
    WindowTile,
    WinogradTile,
)
from tensorgen.simplify import Memory, remembering
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.tune.candidate_build import Built, CandidateBuilder
from tensorgen.tune.candidate_source import PrintedKernel, printed_kernel
from tensorgen.tune.fields import one_line
from tensorgen.tune.measurer import Measured, MeasureError, Measurer
from tensorgen.tune.measuring_worker import MeasuringWorker
from tensorgen.tune.outcome import (
    Crashed,
    NotBuilt,
    Outcome,
    Slower,
    Timed,
    TookTooLong,
    Wrong,
)
from tensorgen.tune.race import EVERY_RUN, RaceRules, middle
from tensorgen.tune.result_check import check_source
from tensorgen.tune.task_operands import TaskOperands
from tensorgen.tune.weights_place import WeightsPlace, weights_place

FILE_CANDIDATES = 8
"""Candidates in one file for the compiler."""

MOST_SETS = 32
"""A kernel takes turns with at most so many copies of its weights."""

WEIGHTS_BEYOND = 4
"""Weights come from so many times the second-level cache."""

LIMIT_SECONDS = 5.0
"""Processor time of one run of a candidate. A run is one call if that is long."""

MOST_BYTES = 4 << 30
"""Candidates that write to more memory are not run."""

SPARE_BYTES = 2 << 30
"""What the process of a candidate may take for itself: stacks of threads, code."""

_MOST_REMEMBERED = 1 << 17
"""Terms of which is remembered how they simplify."""

_KEPT_BUILT = 128
"""Kernels that are not built again if they are asked for soon."""

_KEPT_TASKS = 4
"""Tasks whose operands are kept beside those of the batch."""


def check_runs_here(target: Target) -> None:
    """MeasureError if this machine cannot run code for the target."""
    if not target.hosted or not target.runs_on(platform.machine()):
        raise MeasureError(
            f"measuring: expected a target whose code this {platform.machine()} runs, got "
            f"{target.name}; measure on such a machine"
        )


class LocalMeasurer(Measurer):
    """Measures schedules for one target and number of threads. Close it, or use it in `with`.

    With `drafts`, tiles are compiled with fewer passes than a library is: enough to choose between
    them. Without, as the kernels of a library are.

    Raises MeasureError if this machine cannot run code for the target, and ToolMissing without a C
    compiler.
    """

    ahead = 2

    def __init__(
        self,
        target: Target,
        threads: int,
        *,
        strict: bool = False,
        drafts: bool = True,
        cache: Path | None = None,
        rules: RaceRules | None = None,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        check_runs_here(target)
        self._target = target
        self._threads = threads
        self._strict = strict
        self._drafts = drafts
        self._rules = RaceRules() if rules is None else rules
        self._limit_seconds = limit_seconds
        cores = _usable_cores()
        self._cores = cores[-threads:]
        self._checker = build_library(
            {"check.c": check_source()}, target=host_target(), cache=cache
        )
        self._folder = working_folder(cache)
        self._place = Path(self._folder.name)
        self._builder = CandidateBuilder(target, threads, self._place, strict=strict, cores=cores)
        self._worker = MeasuringWorker()
        self._operands: dict[bytes, TaskOperands] = {}
        self._memory = Memory()
        self._built: dict[tuple[bytes, Schedule], tuple[_Candidate, Built]] = {}

    def __enter__(self) -> LocalMeasurer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads and the process, and removes the folder."""
        self._builder.close()
        self._worker.close()
        self._folder.cleanup()

    def measure(
        self,
        task: Task,
        schedules: Sequence[Schedule],
        incumbent: Schedule,
        *,
        traffic: float = inf,
    ) -> Measured:
        """Time the schedules against the incumbent, each once if there are equal ones. Raises
        MeasureError."""
        return self.begin(task, schedules, incumbent, traffic=traffic)()

    def begin(
        self,
        task: Task,
        schedules: Sequence[Schedule],
        incumbent: Schedule,
        *,
        traffic: float = inf,
    ) -> Callable[[], Measured]:
        """As `measure`, in two parts: the compilers are at work in between. Whoever makes one batch
        while the one before is measured keeps all cores busy."""
        batch = self._printed([(task, schedule) for schedule in (incumbent, *schedules)])
        self._operands_of(task).prepare_expected()

        def measured() -> Measured:
            first, *others = self._outcomes(batch, self._rules, True, traffic)
            return Measured(tuple(others), first)

        return measured

    def seconds(self, chosen: Sequence[tuple[Task, Schedule]]) -> tuple[float, ...]:
        """Seconds of a call of each task under its schedule, which are no rivals; their results are
        not looked at. Raises BuildError if one of them cannot be built, MeasureError if one does
        not run."""
        outcomes = self._outcomes(self._printed(chosen), EVERY_RUN, False, inf)
        return tuple(
            _figure(task, outcome) for (task, _), outcome in zip(chosen, outcomes, strict=True)
        )

    def _outcomes(
        self, batch: _Batch, rules: RaceRules, rivals: bool, traffic: float
    ) -> list[Outcome]:
        """What came of each; among rivals the first one is the incumbent, and results count."""
        try:
            built = batch.built()
        except BuildError as error:
            raise MeasureError(one_line(error)) from error
        self._remember(batch, built)
        found: list[Outcome] = [e if isinstance(e, NotBuilt) else NotBuilt("") for e in built]
        ready = [n for n, entry in enumerate(built) if isinstance(entry, Built)]
        if ready:
            entries = [
                self._entry(batch.candidates[n], entry, rivals, traffic)
                for n, entry in enumerate(built)
                if isinstance(entry, Built)
            ]
            has_incumbent = rivals and batch.places[0] == ready[0]
            self._forget_operands({candidate.task.digest for candidate in batch.candidates})
            with self._builder.quiet(self._cores):
                results = self._worker.ask(self._request(entries, rules, has_incumbent))
            for n, result in zip(ready, results, strict=True):
                found[n] = self._outcome(result)
        return [found[place] if isinstance(place, int) else place for place in batch.places]

    def _remember(self, batch: _Batch, built: Sequence[Built | NotBuilt]) -> None:
        """Keeps what was built last: the next incumbents are among it."""
        for key, place in zip(batch.chosen, batch.places, strict=True):
            if isinstance(place, int):
                entry = built[place]
                self._built.pop(key, None)
                if isinstance(entry, Built):
                    self._built[key] = batch.candidates[place], entry
        while len(self._built) > _KEPT_BUILT:
            self._built.pop(next(iter(self._built)))

    def _printed(self, chosen: Sequence[tuple[Task, Schedule]]) -> _Batch:
        """The distinct kernels, which the compilers begin with as soon as there are some."""
        batch = _Batch([(task.digest, schedule) for task, schedule in chosen], [], [], {}, [])
        known: dict[tuple[bytes, str], int] = {}
        waiting: dict[bool, list[tuple[int, PrintedKernel]]] = {True: [], False: []}
        for task, schedule in chosen:
            if (task.digest, schedule) in self._built:
                candidate, built = self._built[task.digest, schedule]
                number = known.setdefault((task.digest, candidate.text), len(batch.candidates))
                if number == len(batch.candidates):
                    batch.candidates.append(candidate)
                    batch.done[number] = built
                batch.places.append(number)
                continue
            printed = self._print(task, schedule)
            if isinstance(printed, NotBuilt):
                batch.places.append(printed)
                continue
            key = (task.digest, printed.text)
            draft = self._drafts and _may_be_draft(schedule)
            if key not in known:
                known[key] = len(batch.candidates)
                waiting[draft].append((known[key], printed))
                batch.candidates.append(_Candidate(task, printed.lowered, printed.text))
            batch.places.append(known[key])
            if len(waiting[draft]) == FILE_CANDIDATES:
                self._compile(batch, waiting[draft], draft)
        for draft, rest in waiting.items():
            if rest:
                self._compile(batch, rest, draft)
        return batch

    def _compile(
        self, batch: _Batch, waiting: list[tuple[int, PrintedKernel]], draft: bool
    ) -> None:
        """Begins with a file of those that wait."""
        numbers = tuple(number for number, _ in waiting)
        future = self._builder.start([printed for _, printed in waiting], draft=draft)
        batch.files.append((numbers, future))
        waiting.clear()

    def _print(self, task: Task, schedule: Schedule) -> PrintedKernel | NotBuilt:
        self._memory.keep_below(_MOST_REMEMBERED)
        try:
            with remembering(self._memory):
                printed = printed_kernel(task, schedule, self._target, strict=self._strict)
        except ScheduleError as error:
            return NotBuilt(one_line(error))
        except (AssertionError, LookupError, ArithmeticError) as error:
            # A bug of ours, but one that must not end the tuning of everything else.
            return NotBuilt(f"lowering: {type(error).__name__}: {one_line(error)}")
        kernel = printed.lowered.kernel
        written = sum(
            buffer.size * buffer.dtype.bytes * buffer.copies(self._threads)
            for buffer in (*kernel.outputs, *kernel.scratch)
        )
        if written > MOST_BYTES:
            return NotBuilt(f"memory: expected at most {MOST_BYTES} bytes to write, got {written}")
        return printed

    def _operands_of(self, task: Task) -> TaskOperands:
        """The operands of a task, written once as long as it is among the latest."""
        found = self._operands.pop(task.digest, None)
        self._operands[task.digest] = TaskOperands(task, self._place) if found is None else found
        return self._operands[task.digest]

    def _forget_operands(self, needed: AbstractSet[bytes]) -> None:
        """Lets go of the operands of tasks that were not asked for lately."""
        past = [digest for digest in self._operands if digest not in needed]
        for digest in past[: max(0, len(past) - _KEPT_TASKS)]:
            self._operands.pop(digest).remove()

    def _entry(
        self, candidate: _Candidate, built: Built, checked: bool, traffic: float
    ) -> dict[str, Any]:
        """A candidate as the process that measures is told of it."""
        task, lowered = candidate.task, candidate.lowered
        operands = self._operands_of(task)
        weights = 0
        buffers: list[dict[str, Any]] = []
        for position, buffer in enumerate(lowered.kernel.inputs):
            file = (
                operands.input_file(position, lowered.packing[position])
                if checked
                else operands.filled_file(position, buffer.size)
            )
            size = buffer.size * buffer.dtype.bytes
            fixed = task.constant[position]
            weights += size if fixed else 0
            buffers.append({"bytes": size, "file": str(file), "copies": fixed})
        for position, buffer in enumerate(lowered.kernel.outputs):
            entry: dict[str, Any] = {"bytes": buffer.size * buffer.dtype.bytes}
            buffers.append(entry | (operands.check_entry(position) if checked else {}))
        for buffer in lowered.kernel.scratch:
            size = buffer.size * buffer.dtype.bytes * buffer.copies(self._threads)
            buffers.append({"bytes": size})
        beyond = WEIGHTS_BEYOND * self._target.l2_bytes
        place = weights_place(traffic, self._target) if weights else WeightsPlace.NEAR
        near = place is WeightsPlace.NEAR
        sets = 1 if near else max(1, min(MOST_SETS, -(-beyond // weights)))
        return {
            "library": str(built.library),
            "function": built.function,
            "sets": sets,
            "lead": 0 if place is WeightsPlace.FAR else sets,
            "buffers": buffers,
        }

    def _request(
        self, entries: Sequence[dict[str, Any]], rules: RaceRules, has_incumbent: bool
    ) -> dict[str, Any]:
        return {
            "threads": self._threads,
            "cores": self._cores,
            "spare_bytes": SPARE_BYTES,
            "limit_seconds": self._limit_seconds,
            "checker": str(self._checker),
            "rules": asdict(rules),
            "incumbent": has_incumbent,
            "candidates": entries,
        }

    def _outcome(self, result: dict[str, Any]) -> Outcome:
        match result["status"]:
            case "":
                seconds = middle(result["runs"])
                return Slower(seconds) if result["lost"] else Timed(seconds)
            case "wrong":
                return Wrong(result["text"])
            case "crashed":
                return Crashed(result["text"])
            case "took too long":
                return TookTooLong(self._limit_seconds)
            case status:
                assert status == "not built", status
                return NotBuilt(result["text"])


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """A task, lowered and printed."""

    task: Task
    lowered: Lowered
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """What was chosen; the distinct candidates; for each schedule its candidate's number or why it
    has none; what was built earlier, by number; and the files that are being compiled with the
    numbers of their candidates."""

    chosen: list[tuple[bytes, Schedule]]
    candidates: list[_Candidate]
    places: list[int | NotBuilt]
    done: dict[int, Built]
    files: list[tuple[tuple[int, ...], Future[list[Built | NotBuilt]]]]

    def built(self) -> list[Built | NotBuilt]:
        """What became of each candidate, once the compilers are done. Raises BuildError."""
        found: dict[int, Built | NotBuilt] = dict(self.done)
        for numbers, future in self.files:
            found |= zip(numbers, future.result(), strict=True)
        return [found[number] for number in range(len(self.candidates))]


def _may_be_draft(schedule: Schedule) -> bool:
    """Whether a kernel is written in intrinsics, so that it runs as fast with fewer passes of the
    compiler: loops over lanes are made vectors by those passes."""
    match schedule:
        case RegisterTile() | WinogradTile() | WindowTile():
            return True
        case Loops() | RowStages() | AttentionTile():
            return False
        case _:
            assert_never(schedule)


def _figure(task: Task, outcome: Outcome) -> float:
    """The seconds of a kernel that must give some."""
    match outcome:
        case Timed(seconds) | Slower(seconds):
            return seconds
        case NotBuilt(reason):
            raise BuildError(f"kernel of {_short(task)}: expected to build it, got {reason}")
        case Wrong(reason) | Crashed(reason):
            raise MeasureError(f"kernel of {_short(task)}: expected figures, got {reason}")
        case TookTooLong(limit):
            raise MeasureError(
                f"kernel of {_short(task)}: expected an end within {limit:g} s, got none"
            )
        case _:
            assert_never(outcome)


def _short(task: Task) -> str:
    return one_line(task, 80)


def _usable_cores() -> list[int]:
    """The cores that this process may use; none if the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

"""Measures on this machine: candidates compiled on all cores, then raced on those they are for.

What it does: has the candidates of a batch built (`candidate_batch`) and their operands made,
checks each one's first result against the meaning of the task, and races those that are right. A
candidate that does not fit its task, does not compile, crashes, hangs or computes something else
costs only itself. What it does not: choose candidates, or keep what it found.

Activations are warm, as the kernel before has left them; weights come from behind the second-level
cache, since the weights of other kernels are read between two calls: all but in a run that this
cache holds as a whole. Where the third-level cache holds it, they come from there: they are read
before a run, since other candidates have had their turns. Where it does not, they are put out of
all caches (`cache_lines`). A call that is not timed brings back what the kernel before has left.

Everything that it starts (threads, a process, a folder) is gone when it is closed, and nothing of
the caller's process is changed: see the test of that.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, assert_never

from tensorgen.build import BuildError, build_library, working_folder
from tensorgen.schedule import Schedule
from tensorgen.scratch import copies_bytes
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.tune.cache_lines import drop_lines_source
from tensorgen.tune.candidate_batch import BatchBuilder, BuiltBatch, Candidate, Chosen
from tensorgen.tune.candidate_build import Built
from tensorgen.tune.compiler_cores import CompilerCores
from tensorgen.tune.fields import one_line
from tensorgen.tune.measurer import Measured, MeasureError, Measurer
from tensorgen.tune.measuring_memory import LARGE_FROM
from tensorgen.tune.measuring_worker import MeasuringWorker
from tensorgen.tune.operand_memory import OperandMemory
from tensorgen.tune.outcome import (
    Crashed,
    NotBuilt,
    Outcome,
    Refused,
    Slower,
    Timed,
    TookTooLong,
    Wrong,
)
from tensorgen.tune.race import EVERY_RUN, RaceRules, middle
from tensorgen.tune.result_check import check_source
from tensorgen.tune.task_operands import TaskOperands
from tensorgen.tune.weights_place import WeightsPlace, weights_place

LARGE_ARRAYS_FROM = 4 << 20
"""Bytes from which on numpy asks for large pages for arrays, which callers then have."""

MOST_SETS = 32
"""A kernel takes turns with at most so many copies of its weights."""

WEIGHTS_BEYOND = 4
"""Weights come from so many times the second-level cache."""

LIMIT_SECONDS = 5.0
"""Processor time of one run of a candidate. A run is one call if that is long."""

SPARE_BYTES = 2 << 30
"""What the process of a candidate may take for itself: stacks of threads, code."""

_KEPT_BYTES = 1 << 30
"""Inputs of tasks that are not being measured are kept up to this size, with those that are."""


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
    them. Without, as the kernels of a library are. With `prints_apart` another Python lowers and
    prints, which takes as long to start as some fifty kernels.

    Raises MeasureError if this machine cannot run code for the target, and ToolMissing without a C
    compiler.
    """

    ahead = 8

    def __init__(
        self,
        target: Target,
        threads: int,
        *,
        strict: bool = False,
        drafts: bool = True,
        prints_apart: bool = False,
        cache: Path | None = None,
        rules: RaceRules | None = None,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        check_runs_here(target)
        self._target = target
        self._threads = threads
        self._rules = RaceRules() if rules is None else rules
        self._limit_seconds = limit_seconds
        cores = _usable_cores()
        self._cores = cores[-threads:]
        self._compilers = CompilerCores(cores)
        self._checker = build_library(
            {"check.c": check_source(), "lines.c": drop_lines_source()},
            target=host_target(),
            cache=cache,
        )
        self._folder = working_folder(cache)
        self._place = Path(self._folder.name)
        self._builder = BatchBuilder(
            target, threads, self._place, strict=strict, drafts=drafts, cores=self._compilers,
            cache=cache, prints_apart=prints_apart,
        )  # fmt: skip
        self._memory = OperandMemory(self._place)
        self._worker = MeasuringWorker(self._memory.file)
        self._operands: dict[bytes, TaskOperands] = {}
        self._under_way: Counter[bytes] = Counter()

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
        self._memory.close()
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
        """As `measure`, in two parts: between them candidates are printed and compiled. Whoever
        begins some before the one in front of them is measured keeps all cores busy."""
        operands = self._operands_of(task)
        outcomes = self._begun(
            [(task, schedule) for schedule in (incumbent, *schedules)],
            self._rules,
            traffic,
            lambda candidate: operands.prepare(candidate.lowered.packing),
        )

        def measured() -> Measured:
            first, *others = outcomes()
            return Measured(tuple(others), first)

        return measured

    def seconds(
        self, chosen: Sequence[tuple[Task, Schedule]], *, traffic: float = inf
    ) -> tuple[float, ...]:
        """Seconds of a call of each task under its schedule, in a run that moves `traffic` bytes.
        They are no rivals; their results are not looked at. Raises BuildError if one of them cannot
        be built, MeasureError if one does not run."""
        outcomes = self._begun(chosen, EVERY_RUN, traffic, None)()
        return tuple(
            _figure(task, outcome) for (task, _), outcome in zip(chosen, outcomes, strict=True)
        )

    def _begun(
        self,
        chosen: Sequence[Chosen],
        rules: RaceRules,
        traffic: float,
        prepare: Callable[[Candidate], None] | None,
    ) -> Callable[[], list[Outcome]]:
        """Has candidates built: rivals, whose operands somebody is to `prepare`, or any. What is
        given races them; until then the inputs of their tasks stay."""
        batch = self._builder.begin(chosen, prepare)
        tasks = [task.digest for task, _ in chosen]
        self._under_way.update(tasks)

        def outcomes() -> list[Outcome]:
            try:
                return self._outcomes(batch, rules, prepare is not None, traffic)
            finally:
                self._under_way.subtract(tasks)

        return outcomes

    def _outcomes(
        self, begun: Callable[[], BuiltBatch], rules: RaceRules, rivals: bool, traffic: float
    ) -> list[Outcome]:
        """What came of each; among rivals the first one is the incumbent, and results count."""
        try:
            batch = begun()
            entries = [
                self._entry(candidate, entry, rivals, traffic)
                for candidate, entry in zip(batch.candidates, batch.built, strict=True)
                if isinstance(entry, Built)
            ]
        except BuildError as error:
            raise MeasureError(one_line(error)) from error
        except OSError as error:
            raise MeasureError(
                f"measuring: expected room for operands in {self._place}, got {one_line(error)}; "
                "make some, or set TASOR_CACHE to another folder"
            ) from error
        found: list[Outcome] = [e if isinstance(e, Refused) else Refused("") for e in batch.built]
        ready = [n for n, entry in enumerate(batch.built) if isinstance(entry, Built)]
        if ready:
            has_incumbent = rivals and batch.places[0] == ready[0]
            self._forget_inputs()
            request = self._request(entries, rules, has_incumbent)
            results = self._worker.ask(request, partial(self._compilers.quiet, self._cores))
            for n, result in zip(ready, results, strict=True):
                found[n] = self._outcome(result)
        return [found[place] if isinstance(place, int) else place for place in batch.places]

    def _operands_of(self, task: Task) -> TaskOperands:
        """The operands of a task, as those that were asked for last."""
        found = self._operands.pop(task.digest, None)
        self._operands[task.digest] = (
            TaskOperands(task, self._memory, self._place) if found is None else found
        )
        return self._operands[task.digest]

    def _forget_inputs(self) -> None:
        """Lets go of inputs that nobody waits for and that were not asked for lately, if there are
        too many."""
        kept = sum(operands.input_bytes for operands in self._operands.values())
        for digest, operands in self._operands.items():
            if kept > _KEPT_BYTES and not self._under_way[digest]:
                kept -= operands.input_bytes
                operands.remove_inputs()

    def _entry(
        self, candidate: Candidate, built: Built, checked: bool, traffic: float
    ) -> dict[str, Any]:
        """A candidate as the process that measures is told of it."""
        task, lowered = candidate.task, candidate.lowered
        operands = self._operands_of(task)
        weights = 0
        buffers: list[dict[str, Any]] = []
        for position, buffer in enumerate(lowered.kernel.inputs):
            place = (
                operands.input_place(position, lowered.packing[position])
                if checked
                else operands.filled_place(position, buffer.size)
            )
            fixed = task.constant[position]
            weights += place.size if fixed else 0
            least = LARGE_ARRAYS_FROM if position in task.given else LARGE_FROM
            buffers.append(
                {
                    "bytes": place.size,
                    "name": place.name,
                    "offset": place.offset,
                    "copies": fixed,
                    # Those of a file are not.
                    "large": not fixed and place.size >= least,
                }
            )
        for position, buffer in enumerate(lowered.kernel.outputs):
            entry: dict[str, Any] = {"bytes": buffer.size * buffer.dtype.bytes}
            buffers.append(entry | (operands.check_entry(position) if checked else {}))
        for buffer in lowered.kernel.scratch:
            buffers.append({"bytes": copies_bytes(lowered.kernel, buffer, self._threads)})
        beyond = WEIGHTS_BEYOND * self._target.l2_bytes
        come_from = weights_place(traffic, self._target) if weights else WeightsPlace.NEAR
        near = come_from is WeightsPlace.NEAR
        sets = 1 if near else max(1, min(MOST_SETS, -(-beyond // weights)))
        return {
            "library": str(built.library),
            "needed": [str(library) for library in built.needed],
            "function": built.function,
            "number": built.number,
            "sets": sets,
            "fetch": come_from is not WeightsPlace.FAR,
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
            "operand_bytes": self._memory.size,
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
            case "slower":
                return Slower(float(result["text"]))
            case "refused":
                return Refused(result["text"])
            case status:
                assert status == "not built", status
                return NotBuilt(result["text"])


def _figure(task: Task, outcome: Outcome) -> float:
    """The seconds of a kernel that must give some."""
    match outcome:
        case Timed(seconds) | Slower(seconds):
            return seconds
        case NotBuilt(reason) | Refused(reason):
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

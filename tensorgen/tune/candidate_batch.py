"""Schedules of a batch to kernels in shared libraries, behind the back of who chose them.

What it does: one thread lowers and prints, or has another process do that, and hands kernels as
files to the compilers (`candidate_build`). It takes a core as they do, and keeps away from those
where something is timed: who begins one batch before the one in front of it is measured has lost no
time when its turn comes. Kernels with equal text are one candidate; what was built lately, the
incumbent above all, is not built again. What it does not: choose schedules, or run what it built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import TypeVar

from tensorgen.lower import Lowered
from tensorgen.schedule import Schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune.candidate_build import Built, CandidateBuilder
from tensorgen.tune.candidate_source import PrintedKernel
from tensorgen.tune.compiler_cores import CompilerCores
from tensorgen.tune.draft_flags import ASSEMBLY, FRAME, LANES, LOOPS, draft_flags
from tensorgen.tune.kernel_printer import KernelPrinter, PrintingHere, PrintSettings
from tensorgen.tune.outcome import NotBuilt, Refused
from tensorgen.tune.printing_worker import PrintingWorker

FILE_CANDIDATES = 24
"""So many are printed before they go to compilers, and so many frames are in one file, at most: to
start a compiler takes as long as some frames."""

FILE_KERNELS = 8
"""Those that are more than frames, at most: their compilers share the work of a batch."""

_KEPT_BUILT = 128
"""Kernels that are not built again if they are asked for soon."""

Chosen = tuple[Task, Schedule]
"""What is to be built."""

_Text = tuple[bytes, str]
"""The digest of a task, and the C of a kernel for it."""

_Unbuilt = NotBuilt | Refused
"""Why a schedule has no candidate."""

_Entry = TypeVar("_Entry")

_Started = tuple[tuple[_Text, ...], Callable[[], list[Built | Refused]]]
"""Kernels that are compiled together, and what becomes of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A task, lowered and printed."""

    task: Task
    lowered: Lowered
    text: str

    @property
    def key(self) -> _Text:
        """What two candidates have in common that are one."""
        return self.task.digest, self.text


@dataclass(frozen=True, slots=True, eq=False)
class BuiltBatch:
    """The distinct candidates of a batch, what became of each, and for each schedule that was
    chosen its candidate's number, or why it has none."""

    candidates: tuple[Candidate, ...]
    built: tuple[Built | Refused, ...]
    places: tuple[int | _Unbuilt, ...]


class BatchBuilder:
    """Builds candidates for a target; libraries go to `folder`, which the caller removes.

    With `drafts`, kernels are compiled with fewer passes than a library is, and call functions in
    other libraries. With `prints_apart` another process prints. Not to be used by several threads
    at once.
    """

    def __init__(
        self,
        target: Target,
        threads: int,
        folder: Path,
        *,
        strict: bool,
        drafts: bool,
        cores: CompilerCores,
        cache: Path | None = None,
        prints_apart: bool = False,
    ) -> None:
        self._drafts = drafts
        self._builder = CandidateBuilder(
            target, threads, folder, strict=strict, drafts=drafts, cores=cores, cache=cache
        )
        self._cores = cores
        self._printer = ThreadPoolExecutor(max_workers=1)
        printing = PrintSettings(target, threads, strict, self._builder.frames)
        self._kernels: KernelPrinter = (
            PrintingWorker(printing) if prints_apart else PrintingHere(printing)
        )
        self._kept: dict[tuple[bytes, Schedule], tuple[Candidate, Built]] = {}
        self._closes = Event()

    def close(self) -> None:
        """Waits for the kernel and the files that are under way, and ends the threads."""
        self._closes.set()
        self._printer.shutdown(cancel_futures=True)
        self._kernels.close()
        self._builder.close()

    def begin(
        self, chosen: Sequence[Chosen], prepare: Callable[[Candidate], None] | None = None
    ) -> Callable[[], BuiltBatch]:
        """Begin to print and compile; what is given waits for the result. That raises BuildError if
        there is no room for libraries, whatever they are of. While files are compiled, the thread
        that printed them does with each candidate what else there is to `prepare`."""
        kept = {
            place: found
            for place, (task, schedule) in enumerate(chosen)
            if (found := self._kept.get((task.digest, schedule))) is not None
        }
        seen = {candidate.key for candidate, _ in kept.values()}
        waiting: dict[tuple[str, ...], list[int]] = {}
        for place, (_, schedule) in enumerate(chosen):
            if place not in kept:
                flags = draft_flags(schedule) if self._drafts else ()
                waiting.setdefault(flags, []).append(place)
        printing = self._printer.submit(
            self._print,
            [
                (flags, [(place, *chosen[place]) for place in places])
                for flags, group in waiting.items()
                for places in _in_files(group, FILE_CANDIDATES)
            ],
            seen,
        )
        prepared = None
        if prepare is not None:
            # Behind the last file: to compute what results should be takes as long as a compiler.
            prepared = self._printer.submit(self._prepare, printing, prepare)

        def gathered() -> BuiltBatch:
            if prepared is not None:
                prepared.result()
            return self._gathered(chosen, kept, printing.result())

        return gathered

    def _print(
        self,
        groups: Sequence[tuple[tuple[str, ...], Sequence[tuple[int, Task, Schedule]]]],
        seen: set[_Text],
    ) -> _Printed:
        """Print schedules, those with the same flags together, and begin to compile the kernels
        that are not among those seen: frames when all are known, since few fill no file."""
        entries: dict[int, Candidate | _Unbuilt] = {}
        started: list[_Started] = []
        frames: dict[tuple[str, ...], dict[_Text, PrintedKernel]] = {}
        for flags, group in groups:
            apart = self._builder.apart and flags is not LOOPS
            kernels: dict[tuple[str, ...], dict[_Text, PrintedKernel]] = {}
            for place, task, schedule in group:
                if self._closes.is_set():
                    return _Printed(entries, started)
                # Who is to time something waits for one kernel at most.
                with self._cores.taken() as around:
                    printed = self._kernels.printed(task, schedule, apart=apart, around=around)
                if isinstance(printed, _Unbuilt):
                    entries[place] = printed
                    continue
                candidate = Candidate(task, printed.lowered, printed.text)
                entries[place] = candidate
                if candidate.key in seen:
                    continue
                seen.add(candidate.key)
                if printed.frame:
                    passes = ASSEMBLY if printed.assembly else FRAME
                    frames.setdefault(passes, {})[candidate.key] = printed
                else:
                    passes = LANES if flags is LOOPS and printed.in_vectors else flags
                    kernels.setdefault(passes, {})[candidate.key] = printed
            for passes, some in kernels.items():
                started += self._started(some, passes, FILE_KERNELS)
        for passes, some in frames.items():
            started += self._started(some, passes, FILE_CANDIDATES)
        return _Printed(entries, started)

    def _started(
        self, kernels: Mapping[_Text, PrintedKernel], flags: tuple[str, ...], most: int
    ) -> list[_Started]:
        """Begins to compile kernels in files of so many at most."""
        return [
            (texts, self._builder.start([kernels[text] for text in texts], flags))
            for texts in _in_files(list(kernels), most)
        ]

    def _prepare(self, printing: Future[_Printed], prepare: Callable[[Candidate], None]) -> None:
        """For all candidates that have been printed."""
        for entry in printing.result().entries.values():
            if isinstance(entry, Candidate) and not self._closes.is_set():
                with self._cores.taken():
                    prepare(entry)

    def _gathered(
        self,
        chosen: Sequence[Chosen],
        kept: Mapping[int, tuple[Candidate, Built]],
        printed: _Printed,
    ) -> BuiltBatch:
        """What became of each schedule, in their order, once the compilers are done."""
        entries: dict[int, Candidate | _Unbuilt] = {n: found for n, (found, _) in kept.items()}
        built: dict[_Text, Built | Refused] = {found.key: b for found, b in kept.values()}
        entries |= printed.entries
        for texts, outcomes in printed.started:
            built |= zip(texts, outcomes(), strict=True)
        numbers: dict[_Text, int] = {}
        candidates: list[Candidate] = []
        places: list[int | _Unbuilt] = []
        for place, (task, schedule) in enumerate(chosen):
            entry = entries[place]
            if isinstance(entry, _Unbuilt):
                places.append(entry)
                continue
            if entry.key not in numbers:
                numbers[entry.key] = len(candidates)
                candidates.append(entry)
            places.append(numbers[entry.key])
            self._keep((task.digest, schedule), entry, built[entry.key])
        return BuiltBatch(
            tuple(candidates), tuple(built[entry.key] for entry in candidates), tuple(places)
        )

    def _keep(
        self, key: tuple[bytes, Schedule], candidate: Candidate, built: Built | Refused
    ) -> None:
        """Keeps what was built last: the next incumbents are among it."""
        self._kept.pop(key, None)
        if isinstance(built, Built):
            self._kept[key] = candidate, built
        while len(self._kept) > _KEPT_BUILT:
            self._kept.pop(next(iter(self._kept)))


@dataclass(frozen=True, slots=True, eq=False)
class _Printed:
    """Schedules by their places in a batch, as printed, and what becomes of the texts that nobody
    had printed before, by what is compiled together."""

    entries: Mapping[int, Candidate | _Unbuilt]
    started: Sequence[_Started]


def _in_files(entries: Sequence[_Entry], most: int) -> list[tuple[_Entry, ...]]:
    """Entries in files of about the same size, so many at most."""
    count = -(-len(entries) // most)
    bounds = [len(entries) * n // max(count, 1) for n in range(count + 1)]
    return [tuple(entries[begin:end]) for begin, end in pairwise(bounds)]

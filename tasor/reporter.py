"""What is seen of a command while it runs: progress, the steps it takes, and dumps of each stage.

What it does: shows a line of progress on stderr, more of it for each -v (summary, steps,
schedules, emitted C), and writes what each stage made to numbered files. What it does not: print
results, which go to stdout.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from graphopt.compiler import Compilation
from graphopt.graph import Graph
from graphopt.optimize import Optimized
from graphopt.search import SearchResult
from tasor.graph_text import graph_text, operator_counts
from tasor.output_file import write_files
from tasor.pipeline import Observer
from tasor.tables import kernels_table, memory_table
from tensorgen.module import module_files

SUMMARY, STEPS, SCHEDULES, CODE = 1, 2, 3, 4
"""How often -v has to be given to see each."""

_SUMMARIZED = 6

_STEP_TEXTS: Mapping[str, str] = {
    "import": "reading the model",
    "optimize": "rewriting the graph",
    "search": "looking for a cheaper graph",
    "time": "timing the graphs",
    "compare": "comparing what they compute",
    "compile": "choosing kernels and memory",
    "tune": "measuring schedules",
    "race the best": "racing the best schedules",
    "race the model": "racing the whole model",
    "save": "computing the self-test and writing files",
    "build": "compiling the C",
    "run": "running",
}


@dataclass(frozen=True, slots=True)
class Verbosity:
    """How much is to be seen. `dump` is the folder for the stages' files."""

    level: int = 0
    progress: bool = True
    dump: Path | None = None


class Reporter(Observer):
    """An observer that shows what it is told; a context manager."""

    def __init__(self, verbosity: Verbosity) -> None:
        self._verbosity = verbosity
        self._console = Console(stderr=True, highlight=False, markup=False)
        self._status: Status | None = None
        self._step = ""
        self._started = 0.0

    def __enter__(self) -> Self:
        if self._verbosity.progress and self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self._end_step()
        if self._status is not None:
            self._status.stop()

    def say(self, line: str) -> None:
        """One line for people who want to know."""
        if self._verbosity.progress:
            self._console.print(line, soft_wrap=True)

    def remarks(self, line: str) -> None:
        self.say(f"note: {line}")

    def begins(self, step: str) -> None:
        self._end_step()
        self._step, self._started = step, time.perf_counter()
        if self._status is not None:
            self._status.update(_STEP_TEXTS[step])

    def _end_step(self) -> None:
        if self._step and self._shows(STEPS):
            seconds = time.perf_counter() - self._started
            self._console.print(f"{_STEP_TEXTS[self._step]}: {seconds:.2f} s")
        self._step = ""

    def imported(self, graph: Graph) -> None:
        if self._shows(SUMMARY):
            self._console.print(f"model: {_summary(graph)}", soft_wrap=True)
        self._dump({"1-imported.txt": graph_text(graph)})

    def optimized(self, optimized: Optimized) -> None:
        if self._shows(SUMMARY):
            self._console.print(f"optimized: {_summary(optimized.graph)}", soft_wrap=True)
        if self._shows(STEPS):
            for rule, count in optimized.applied:
                self._console.print(f"  {count} x {rule}", soft_wrap=True)
        rules = "".join(f"{count} x {rule}\n" for rule, count in optimized.applied)
        self._dump({"2-rules.txt": rules, "3-optimized.txt": graph_text(optimized.graph)})

    def searched(self, result: SearchResult) -> None:
        if self._shows(SUMMARY):
            self._console.print(
                f"searched: {result.explored} graphs in {len(result.regions)} regions, "
                f"{result.stop.value}; predicted {result.cost_before * 1e3:.4g} -> "
                f"{result.cost_after * 1e3:.4g} ms",
                soft_wrap=True,
            )
        if self._shows(STEPS):
            for item in result.applied:
                self._console.print(f"  {item}", soft_wrap=True)
        places = "".join(f"{item}\n" for item in result.applied)
        self._dump({"3-searched.txt": places + graph_text(result.graph)})

    def compiled(self, compilation: Compilation) -> None:
        module = compilation.module
        if self._shows(SUMMARY):
            self._console.print(
                f"library: {len(module.kernels)} kernels, {len(module.calls)} calls, arena "
                f"{module.arena_bytes} bytes, weights {compilation.weight_bytes} bytes"
            )
        if self._shows(SCHEDULES):
            self._console.print(kernels_table(compilation.kernels, with_expressions=True))
            self._console.print(memory_table(compilation))
        if self._shows(CODE):
            for kernel in module.kernels:
                self._console.print(kernel.text, soft_wrap=True)
        if self._verbosity.dump is not None:
            self._dump_compilation(compilation)

    def _dump_compilation(self, compilation: Compilation) -> None:
        records = compilation.kernels
        tasks = "".join(
            f"{kernel.name}: {kernel.calls} calls of {kernel.flops} flops, {kernel.bytes} bytes\n"
            f"    {kernel.expression}\n"
            for kernel in records
        )
        schedules = "".join(f"{kernel.name}: {kernel.schedule}\n" for kernel in records)
        arena = compilation.arena
        plan = "".join(f"{offset:>12} {name}\n" for name, offset in arena.offsets)
        bounds = f"{arena.arena_bytes} bytes, at least {arena.lower_bound}\n"
        code = {
            f"7-{name}": content.decode("ascii")
            for name, content in module_files(compilation.module).items()
            if name.endswith((".c", ".h")) and not name.endswith("_weights.c")
        }
        self._dump(
            {
                "4-tasks.txt": tasks,
                "5-schedules.txt": schedules,
                "6-arena.txt": bounds + plan,
                **code,
            }
        )

    def _shows(self, level: int) -> bool:
        return self._verbosity.level >= level

    def _dump(self, texts: Mapping[str, str]) -> None:
        if self._verbosity.dump is not None:
            files = {name: text.encode("utf-8", "replace") for name, text in texts.items()}
            write_files(self._verbosity.dump, files)


def _summary(graph: Graph) -> str:
    counts = operator_counts(graph)
    total = sum(count for _, count in counts)
    most = ", ".join(f"{count} {name}" for name, count in counts[:_SUMMARIZED])
    return f"{total} operators ({most}{', …' if len(counts) > _SUMMARIZED else ''})"

"""Measured kernel seconds: the missing kernels of tasks compiled together and timed.

What it does: schedules, lowers and prints each task as the compiler does, builds the kernels into
one library per batch, calls each on random operands until enough time has passed, and keeps the
median of several runs. Activations are warm, as the kernel before has left them; weights come from
the third-level cache, since the weights of other kernels are read between two runs. Results are put
on file batch by batch, so that a killed process loses one batch at most.

What it does not: measure whole graphs, or decide what is worth measuring.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import cffi
import numpy as np

from graphopt.search.records import RecordedCost
from tensorgen.build import build_library
from tensorgen.emit import Spelling, emit_kernel
from tensorgen.loop import Buffer
from tensorgen.lower import Lowered, lower
from tensorgen.module import module_files, source_flags
from tensorgen.module_spec import Arena, Call, Kernel, Module
from tensorgen.ports import Port
from tensorgen.schedule import Schedule
from tensorgen.sketch import default_schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import Array, TensorType, float32

BATCH = 16
"""Kernels compiled and timed together."""

RUNS = 5
"""The median of so many timed runs counts."""

RUN_SECONDS = 2e-3
"""A timed run repeats its kernel for about so long."""

ALIGNMENT = 64

MOST_SETS = 32
"""A kernel takes turns with at most so many copies of its weights."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How many kernels were timed, how many were on file already, and how many were left for want
    of seconds."""

    timed: int
    known: int
    left: int


def measure(
    tasks: Sequence[Task],
    costs: RecordedCost,
    seconds: float = 60.0,
    cache: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Measured:
    """Time the kernels of tasks that are not on file, and put their seconds there.

    Raises ToolMissing without a C compiler and BuildError for a target whose libraries this machine
    cannot load. No batch is begun after `seconds`.
    """
    deadline = clock() + seconds
    distinct = {task.digest: task for task in tasks}
    missing = [task for task in distinct.values() if not costs.is_measured(task)]
    timed = 0
    while timed < len(missing) and clock() < deadline:
        batch = missing[timed : timed + BATCH]
        target, threads = costs.records.target, costs.records.threads
        chosen = [(task, default_schedule(task, target, threads)) for task in batch]
        figures = kernel_seconds(chosen, target, threads, cache)
        costs.add(dict(zip(batch, figures, strict=True)))
        timed += len(batch)
    return Measured(timed, len(distinct) - len(missing), len(missing) - timed)


def kernel_seconds(
    chosen: Sequence[tuple[Task, Schedule]],
    target: Target,
    threads: int,
    cache: Path | None = None,
) -> list[float]:
    """Seconds of one run of each task's kernel under its schedule, built together.

    Raises ToolMissing and BuildError.
    """
    tasks = [task for task, _ in chosen]
    lowered = [lower(task, schedule) for task, schedule in chosen]
    module = _module(tasks, lowered, target, threads)
    path = build_library(
        _sources(module),
        target=target,
        source_flags={"timed_kernels.c": source_flags(module)["timed_kernels.c"]},
        threads=threads,
        cache=cache,
    )
    ffi: Any = cffi.FFI()
    ffi.cdef("".join(f"void repeat_{n}(void **, long, long);" for n in range(len(tasks))))
    library: Any = ffi.dlopen(str(path))
    result = []
    for number, (task, entry) in enumerate(zip(tasks, lowered, strict=True)):
        sets = _operand_sets(task, entry, target, threads)
        memory = [array for arrays in sets for array in arrays]
        pointers = ffi.new("void *[]", [ffi.cast("void *", array.ctypes.data) for array in memory])
        result.append(_seconds(getattr(library, f"repeat_{number}"), pointers, len(sets)))
    return result


def _seconds(repeat: Callable[[object, int, int], None], pointers: object, sets: int) -> float:
    """Seconds of one call, by the median of runs that each take long enough to be timed."""
    repeats = sets
    while True:
        started = time.perf_counter()
        repeat(pointers, sets, repeats)
        taken = time.perf_counter() - started
        if taken >= RUN_SECONDS / 2:
            break
        repeats = max(2 * repeats, int(repeats * RUN_SECONDS / max(taken, 1e-7)))
    runs = []
    for _ in range(RUNS):
        started = time.perf_counter()
        repeat(pointers, sets, repeats)
        runs.append((time.perf_counter() - started) / repeats)
    return median(runs)


def _operand_sets(task: Task, entry: Lowered, target: Target, threads: int) -> list[list[Array]]:
    """Memory for the parameters of a kernel, several times with other weights: inputs of small
    random numbers, results, scratch."""
    rng = np.random.default_rng(0)
    kernel = entry.kernel
    inputs = [_memory(buffer, 1, rng) for buffer in kernel.inputs]
    others = [_memory(buffer, 1, None) for buffer in kernel.outputs]
    others += [_memory(buffer, buffer.copies(threads), None) for buffer in kernel.scratch]
    weights = sum(a.nbytes for a, fixed in zip(inputs, task.constant, strict=True) if fixed)
    beyond = max(4 * target.l2_bytes, target.l3_bytes // 2)
    count = min(MOST_SETS, -(-beyond // weights)) if weights else 1
    sets = [[*inputs, *others]]
    for _ in range(count - 1):
        copies = [
            _memory(buffer, 1, rng) if fixed else array
            for buffer, array, fixed in zip(kernel.inputs, inputs, task.constant, strict=True)
        ]
        sets.append([*copies, *others])
    return sets


def _memory(buffer: Buffer, copies: int, rng: np.random.Generator | None) -> Array:
    """Aligned memory of a buffer. Indices are 0 or 1, so that gathers stay within bounds."""
    size = buffer.size * copies
    dtype = np.dtype(buffer.dtype.numpy)
    raw = np.zeros(size * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    array: Array = raw[start : start + size * dtype.itemsize].view(dtype)
    if rng is not None:
        array[:] = rng.integers(0, 2, size).astype(dtype)
    return array


def _module(
    tasks: Sequence[Task], lowered: Sequence[Lowered], target: Target, threads: int
) -> Module:
    """A library of the kernels. Its own steps call them on nothing and are never run."""
    spelling = Spelling(target.isa, False)
    kernels = tuple(
        emit_kernel(entry.kernel, f"kernel_{n}", spelling, str(task), "")
        for n, (task, entry) in enumerate(zip(tasks, lowered, strict=True))
    )
    most = max(len(kernel.parameters) for kernel in kernels)
    return Module(
        name="timed",
        inputs=(),
        outputs=(Port("out", TensorType(float32, (1,))),),
        constants=(),
        kernels=kernels,
        calls=tuple(_call(kernel) for kernel in kernels),
        arena_bytes=ALIGNMENT * most,
        target=target,
        threads=threads,
        strict=False,
        weights="c",
        self_test=None,
        metadata={},
    )


def _call(kernel: Kernel) -> Call:
    places = tuple(Arena(ALIGNMENT * n) for n in range(len(kernel.parameters)))
    return Call(kernel.name, places, "")


def _sources(module: Module) -> dict[str, str | bytes]:
    """The kernels' file with a function for each that calls it again and again."""
    files = module_files(module)
    repeats = "\n".join(
        _repeat(number, kernel, module.threads) for number, kernel in enumerate(module.kernels)
    )
    kernels = files["timed_kernels.c"]
    text = kernels if isinstance(kernels, bytes) else kernels.encode()
    return {
        "timed_kernels.c": text + repeats.encode() + b"\n",
        "timed_internal.h": files["timed_internal.h"],
        "timed.h": files["timed.h"],
    }


def _repeat(number: int, kernel: Kernel, threads: int) -> str:
    """The function that calls a kernel again and again, on one set of operands after the other."""
    name = f"void repeat_{number}(void **sets, long count, long times)"
    team = (f"    TASOR_TEAM({threads})",) if kernel.parallel else ()
    # The next call reads and writes the same memory.
    wait = ("        TASOR_WAIT_FOR_TEAM;",) if kernel.open_end else ()
    arguments = ", ".join(
        f"({'' if parameter.writes else 'const '}{parameter.dtype.c_name} *)p[{position}]"
        for position, parameter in enumerate(kernel.parameters)
    )
    lines = (
        f"{name};",
        name,
        "{",
        *team,
        "    for (long n = 0; n < times; n++) {",
        f"        void **p = sets + n % count * {len(kernel.parameters)};",
        f"        {kernel.name}({arguments});",
        *wait,
        "    }",
        "}",
    )
    return "\n".join(lines)

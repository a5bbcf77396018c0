"""MetaSchedule's search for the kernel of one operator, with a clock beside it.

What it does: tunes an operator as TVM does by default (its rules, its evolution, its cost model,
its builder and runner on this machine), notes when each candidate was measured, and builds the best
one as a library. What it does not: start a process; TVM's threads and environment stay in the one
that this is called in.

Nothing counts against TVM but its tuning: it is imported before the clock starts, and builds its
best after it stopped.
"""

from __future__ import annotations

import importlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.time_to_reach import Point
from benchmarks.tvm_build import built
from benchmarks.tvm_operators import Operator, packed_weight, primitive_function, weight_shape
from tensorgen.types import Array

LIBRARY_NAME = "kernel.so"
ORDER_NAME = "order.npy"


@dataclass(frozen=True, slots=True)
class TvmKernel:
    """The best kernel of an operator, in a folder: its library, and the places of the operator's
    weights in the order in which it takes them."""

    operator: Operator
    folder: Path

    def weight(self, weight: Array) -> Array:
        """The model's weights as the kernel takes them."""
        order = np.load(self.folder / ORDER_NAME)
        return np.ascontiguousarray(packed_weight(self.operator, weight).ravel()[order])


@dataclass(frozen=True, slots=True)
class TvmTuning:
    """One tuning: a point for each candidate, in order, those that failed with infinite seconds;
    how long it took; and its best kernel, None if no candidate ran."""

    points: tuple[Point, ...]
    seconds: float
    kernel: TvmKernel | None


def tuned_by_tvm(
    operator: Operator, folder: Path, trials: int, threads: int, seed: int
) -> TvmTuning:
    """Tune an operator by so many trials, and put the best kernel into the folder."""
    os.environ["TVM_NUM_THREADS"] = str(threads)
    # Its log goes to files of the folder.
    logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)
    tvm = importlib.import_module("tvm")
    importlib.import_module("tvm.s_tir.tensor_intrin")
    meta = importlib.import_module("tvm.s_tir.meta_schedule")
    target = host(threads)
    function = primitive_function(tvm, operator)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    points: list[Point] = []
    started = time.monotonic()

    def note(seconds: float) -> None:
        points.append(Point(len(points) + 1, time.monotonic() - started, seconds))

    database = meta.tune_tir(
        function,
        target,
        work_dir=str(folder / "work"),
        max_trials_global=trials,
        num_trials_per_iter=min(trials, 64),
        builder=meta.builder.LocalBuilder(max_workers=cores, f_build=built),
        runner=_clocked(meta, note),
        num_tuning_cores=cores,
        seed=seed,
    )
    seconds = time.monotonic() - started
    # Candidates that were not built never come to the runner.
    missing = trials - len(points)
    points += [Point(len(points) + n + 1, seconds, inf) for n in range(missing)]
    if all(point.best == inf for point in points):
        return TvmTuning(tuple(points), seconds, None)
    schedule = meta.tir_integration.compile_tir(database, function, target)
    assert schedule is not None, "a candidate that ran is on file"
    kernel = TvmKernel(operator, folder)
    _save(tvm, schedule, target, kernel)
    return TvmTuning(tuple(points), seconds, kernel)


def host(threads: int) -> Any:
    """This machine as a target, by the name that LLVM knows it by."""
    codegen = importlib.import_module("tvm.target.codegen")
    words = {"kind": "llvm", "mcpu": str(codegen.llvm_get_system_cpu()), "num-cores": threads}
    return importlib.import_module("tvm.target").Target(words)


def _clocked(meta: Any, note: Callable[[float], None]) -> Any:
    """TVM's runner on this machine, one candidate after the other, each noted as it ends."""
    local = meta.runner.LocalRunner()

    def run(self: Any, inputs: Sequence[Any]) -> list[Any]:
        futures: list[Any] = []
        for given in inputs:
            (future,) = local.run([given])
            times = future.result().run_secs
            figures = [float(each) for each in times] if times else []
            note(sum(figures) / len(figures) if figures else inf)
            futures.append(future)
        return futures

    derived = importlib.import_module("tvm.ir.utils").derived_object
    return derived(type("ClockedRunner", (meta.runner.PyRunner,), {"run": run}))()


def _save(tvm: Any, schedule: Any, target: Any, kernel: TvmKernel) -> None:
    """The kernel as a library, and where each of its weights comes from."""
    shape = weight_shape(kernel.operator)
    order = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    root = schedule.get_sblock("root", "main")
    for child in schedule.get_child_blocks(root):
        block = schedule.get(child)
        if "meta_schedule.layout_rewrite_preproc" in block.annotations:
            axes = [axis.var for axis in block.iter_vars]
            laid_out = tvm.tirx.IndexMap(axes, list(block.body.indices), None)
            order = laid_out.map_tensor(tvm.runtime.tensor(order)).numpy()
    np.save(kernel.folder / ORDER_NAME, order)
    built(schedule.mod, target, None).export_library(str(kernel.folder / LIBRARY_NAME))

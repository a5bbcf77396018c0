"""TVM's best kernel and Tasor's library as engines that take turns.

What it does: opens either for `tasor.peers`: TVM's with its weights laid out beforehand, Tasor's
compiled from nothing, so that the seconds of loading are those of compiling. Both keep their
operands. What it does not: time anything.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import onnx

from benchmarks.tvm_operators import output_shape, packed_input, unpacked_output
from benchmarks.tvm_tuning import LIBRARY_NAME, TvmKernel
from tasor.peer_cases import Case
from tasor.peer_engines import TUNED, Opened, open_model
from tensorgen.schedule import Schedule
from tensorgen.task import Task

NO_OPTIONS: Mapping[str, object] = MappingProxyType({})


def open_tvm(
    kernel: TvmKernel, case: Case, threads: int, options: Mapping[str, object] = NO_OPTIONS
) -> Opened:
    """TVM's kernel on the input and the weights of the case."""
    assert not options
    os.environ["TVM_NUM_THREADS"] = str(threads)
    tvm = importlib.import_module("tvm")
    module = tvm.runtime.load_module(str(kernel.folder / LIBRARY_NAME))
    function = module["main"]
    (weight,) = onnx.load(case.model).graph.initializer
    ((_, x),) = case.inputs
    arrays = packed_input(kernel.operator, x), kernel.weight(onnx.numpy_helper.to_array(weight))
    y = tvm.runtime.empty(output_shape(kernel.operator), "float32")
    operands = [*(tvm.runtime.tensor(array) for array in arrays), y]

    def repeat(calls: int) -> None:
        # The loop makes a call before those that it counts.
        if calls == 1:
            function(*operands)
        else:
            module.time_evaluator("main", tvm.cpu(), number=calls - 1, repeat=1)(*operands)

    return Opened(
        lambda: function(*operands),
        lambda: (unpacked_output(kernel.operator, np.array(y.numpy())),),
        lambda: repeat,
    )


def open_afresh(
    schedules: Mapping[Task, Schedule],
    case: Case,
    threads: int,
    options: Mapping[str, object] = NO_OPTIONS,
) -> Opened:
    """The case compiled with these schedules by a compiler that finds nothing in its cache."""
    assert not options
    usual = os.environ.get("TASOR_CACHE")
    with tempfile.TemporaryDirectory(prefix="tasor-afresh-") as folder:
        os.environ["TASOR_CACHE"] = folder
        opened = open_model(TUNED, case, threads, {"schedules": schedules})
        opened.run()
    if usual is None:
        del os.environ["TASOR_CACHE"]
    else:
        os.environ["TASOR_CACHE"] = usual
    return opened

"""Kernels and functions that are assembly, built and called; in tests alone."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from tensorgen.build import build_library, find_compiler, supports_openmp
from tensorgen.loop import LoopFunction, LoopKernel
from tensorgen.scratch import copies_bytes
from tensorgen.target import Isa, Target, host_target
from tensorgen.tune.candidate_source import (
    PrintedKernel,
    frame_calls_file,
    frames_file,
    function_name,
    functions_file,
)
from tensorgen.tune.frame_assembly import FrameTarget
from tensorgen.tune.functions_apart import apart_source, functions_apart
from tensorgen.tune.part_assembly import assembled_part, parts_text
from tensorgen.types import Array

HOST = host_target()


def frame_target(threads: int, target: Target = HOST) -> FrameTarget:
    """For whom frames are written that so many threads call."""
    team = threads > 1 and supports_openmp(find_compiler(target))
    return FrameTarget(target.isa, False, team, frozenset(functions_apart(target.isa)))


class Frames:
    """Kernels in assembly in one library, with whatever they call in others."""

    def __init__(self, printed: Sequence[PrintedKernel], threads: int, cache: Path) -> None:
        self._printed = tuple(printed)
        self._threads = threads
        build = partial(build_library, target=HOST, threads=threads, cache=cache)
        team = frame_target(threads).team
        made = {function.name: function for entry in printed for function in entry.functions}
        libraries = [build({"functions.c": apart_source(HOST.isa)})]
        if made:
            file = functions_file(tuple(made.values()), HOST, strict=False)
            libraries.append(build(file.sources, source_flags=file.source_flags))
        for library in libraries:
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
        # Beside frames, and found there first: teams of another size may be in this process, too.
        calls = frame_calls_file(HOST, threads, strict=False, team=team)
        sources = {**frames_file(printed).sources, **calls.sources}
        frames = build(sources, source_flags=calls.source_flags)
        self._library = ctypes.CDLL(str(frames), os.RTLD_NOW | os.RTLD_DEEPBIND)

    def run(
        self, number: int, kernel: LoopKernel, inputs: Sequence[Array], calls: int = 1
    ) -> list[Array]:
        """What so many calls of a kernel leave in its results, which are 0 at first."""
        results = [np.zeros(b.size, b.dtype.numpy) for b in kernel.outputs]
        scratch = [
            np.zeros(copies_bytes(kernel, buffer, self._threads), np.uint8)
            for buffer in kernel.scratch
        ]
        arrays = [*(np.ascontiguousarray(array) for array in inputs), *results, *scratch]
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        function = getattr(self._library, function_name(self._printed[number].kernel))
        function(ctypes.c_long(number), pointers, ctypes.c_long(1), ctypes.c_long(calls))
        return results


def run_function(
    function: LoopFunction, isa: Isa, arrays: Sequence[Array], numbers: Sequence[int], cache: Path
) -> None:
    """Calls a function in assembly on arrays, some of which it writes to."""
    assembled = assembled_part(function, isa)
    assert assembled is not None
    library = build_library({"part.s": parts_text([assembled])}, target=HOST, cache=cache)
    pointers = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
    getattr(ctypes.CDLL(str(library)), assembled.name)(*pointers, *map(ctypes.c_long, numbers))

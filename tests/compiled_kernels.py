"""Kernels for tests: many tasks lowered, printed into one C file, compiled at once and called.

Every result lies between guard bytes, so that a store outside it is noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from tensorgen.build import build_library
from tensorgen.emit import Spelling, emit_kernel
from tensorgen.evaluate import evaluate
from tensorgen.loop_eval import run_kernel
from tensorgen.lower import Lowered, lower
from tensorgen.module import module_files, source_flags
from tensorgen.module_spec import Arena, Call, Kernel, Module
from tensorgen.openmp_runtime import brief_spinning, keep_loaded
from tensorgen.ports import Port
from tensorgen.schedule import Schedule
from tensorgen.scratch import copies_bytes
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.types import Array, TensorType, float32

GUARD_BYTES = 64
GUARD = 0xA5

ISA_TARGETS = {"c99": "c99", "sse42": "x86-64-v2", "avx2": "x86-64-v3", "avx512": "x86-64-v4"}
"""A target for each instruction set that some host may run."""


def runnable_isas() -> tuple[str, ...]:
    """The instruction sets that this machine executes, c99 first."""
    order = tuple(ISA_TARGETS)
    best = host_target().isa
    return order[: order.index(best) + 1] if best in order else ("c99",)


@dataclass(frozen=True, slots=True)
class Case:
    """A task under a schedule, lowered."""

    task: Task
    schedule: Schedule
    lowered: Lowered

    @staticmethod
    def of(task: Task, schedule: Schedule) -> Case:
        return Case(task, schedule, lower(task, schedule))

    def kernel_inputs(self, arrays: Sequence[Array]) -> list[Array]:
        """The inputs as the kernel reads them: some relaid."""
        return [
            np.ascontiguousarray(array)
            if packing is None
            else evaluate(packing, [np.ascontiguousarray(array).reshape(-1)])
            for array, packing in zip(arrays, self.lowered.packing, strict=True)
        ]

    def interpret(self, arrays: Sequence[Array]) -> list[Array]:
        """The results by the interpreter of loops."""
        found = run_kernel(self.lowered.kernel, self.kernel_inputs(arrays))
        types = self.task.output_types
        return [array.reshape(type.shape) for array, type in zip(found, types, strict=True)]


def evaluate_task(task: Task, arrays: Sequence[Array]) -> list[Array]:
    """The task's results by the interpreter of tensor expressions, stage by stage."""
    operands = list(arrays)
    for stage in task.stages:
        operands.append(evaluate(stage, operands))
    return [operands[len(task.inputs) + position] for position in task.outputs]


def print_kernel(case: Case, name: str, spelling: Spelling) -> Kernel:
    """The C function of a case."""
    return emit_kernel(case.lowered.kernel, name, spelling, str(case.task), str(case.schedule))


def kernels_module(
    cases: Sequence[Case],
    target: Target,
    *,
    strict: bool = False,
    threads: int = 1,
    in_place: bool = False,
) -> Module:
    """A library with one kernel for each case. Its steps call them on nothing: never run them.
    Results may be `in_place` of operands if it says so."""
    spelling = Spelling(target.isa, strict, in_place=in_place)
    kernels = tuple(
        print_kernel(case, f"kernel_{number}", spelling) for number, case in enumerate(cases)
    )
    return Module(
        name="cases",
        inputs=(),
        outputs=(Port("out", TensorType(float32, (1,))),),
        constants=(),
        kernels=kernels,
        calls=tuple(
            Call(k.name, tuple(Arena(64 * n) for n in range(len(k.parameters))), "")
            for k in kernels
        ),
        arena_bytes=64 * max(len(k.parameters) for k in kernels),
        target=target,
        threads=threads,
        strict=strict,
        weights="c",
        self_test=None,
        metadata={},
    )


def kernels_source(module: Module) -> dict[str, str | bytes]:
    """The kernels' file and its headers, with an exported function for each kernel:
    `call_N(void **parameters)`."""
    files = module_files(module)
    calls = "\n".join(
        f"void call_{number}(void **p);\n"
        f"void call_{number}(void **p)\n{{\n"
        + (f"    TASOR_TEAM({module.threads})\n" if kernel.parallel else "")
        + f"    {kernel.name}("
        + ", ".join(
            f"({'' if parameter.writes else 'const '}{parameter.dtype.c_name} *)p[{position}]"
            for position, parameter in enumerate(kernel.parameters)
        )
        + ");\n}"
        for number, kernel in enumerate(module.kernels)
    )
    return {
        "cases_kernels.c": files["cases_kernels.c"] + calls.encode() + b"\n",
        "cases_internal.h": files["cases_internal.h"],
        "cases.h": files["cases.h"],
    }


class CompiledKernels:
    """The compiled kernels of some cases; number `n` belongs to case `n`."""

    def __init__(
        self,
        cases: Sequence[Case],
        cache: Path,
        *,
        target: Target | None = None,
        strict: bool = False,
        threads: int = 1,
        flags: tuple[str, ...] = ("-O1",),
    ) -> None:
        chosen = target if target is not None else host_target()
        module = kernels_module(cases, chosen, strict=strict, threads=threads)
        path = build_library(
            kernels_source(module),
            target=chosen,
            flags=flags,
            source_flags={"cases_kernels.c": source_flags(module)["cases_kernels.c"]},
            strict=strict,
            threads=threads,
            cache=cache,
        )
        self.cases = tuple(cases)
        self.threads = threads
        self._ffi: Any = cffi.FFI()
        self._ffi.cdef("".join(f"void call_{n}(void **);" for n in range(len(cases))))
        with brief_spinning():
            self._library: Any = self._ffi.dlopen(str(path))
        # Threads that wait outlive this library, and with it would lose their runtime's code.
        keep_loaded()

    def run(self, number: int, arrays: Sequence[Array]) -> list[Array]:
        """The results of a case on these inputs."""
        case = self.cases[number]
        kernel = case.lowered.kernel
        outputs = [_Guarded(b.size * b.dtype.bytes) for b in kernel.outputs]
        scratch = [_Guarded(copies_bytes(kernel, b, self.threads)) for b in kernel.scratch]
        inputs = [_Guarded.holding(array) for array in case.kernel_inputs(arrays)]
        everything = [*inputs, *outputs, *scratch]
        before = [memory.data.tobytes() for memory in inputs]
        pointers = [self._ffi.from_buffer(memory.data) for memory in everything]
        getattr(self._library, f"call_{number}")(
            self._ffi.new("void *[]", [self._ffi.cast("void *", p) for p in pointers])
        )
        for memory in everything:
            memory.check()
        assert before == [memory.data.tobytes() for memory in inputs], "a kernel wrote its input"
        return [
            memory.data.copy().view(type.dtype.numpy)[: type.size].reshape(type.shape)
            for memory, type in zip(outputs, case.task.output_types, strict=True)
        ]


class _Guarded:
    """Aligned bytes between guards."""

    def __init__(self, size: int) -> None:
        self._memory = np.full(size + 3 * GUARD_BYTES, GUARD, np.uint8)
        start = -self._memory.ctypes.data % GUARD_BYTES + GUARD_BYTES
        self.data = self._memory[start : start + size]
        self._guards = (self._memory[:start], self._memory[start + size :])

    @staticmethod
    def holding(array: Array) -> _Guarded:
        memory = _Guarded(array.nbytes)
        memory.data[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return memory

    def check(self) -> None:
        assert all((guard == GUARD).all() for guard in self._guards), "a store outside a buffer"


def assert_same(found: Array, expected: Array, tolerance: float, label: str = "") -> None:
    """Equal types and values; NaN equals NaN. `tolerance` is relative and absolute, in units of
    the type's last place; 0 asks for equal values."""
    assert found.dtype == expected.dtype, label
    assert found.shape == expected.shape, label
    if found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected, err_msg=label)
        return
    digits = {8: 52, 4: 23}.get(found.dtype.itemsize, 10 if found.dtype == np.float16 else 7)
    limit = tolerance * 2.0**-digits
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=limit, atol=limit,
        err_msg=label,
    )  # fmt: skip

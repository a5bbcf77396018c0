"""What compilers make of a register tile: an inner loop of loads and multiply-adds, no spills."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tensorgen.dialects import vector_dialect
from tensorgen.schedule import RegisterTile
from tensorgen.sketch import default_schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import DType, float32, float64
from tests.compiled_kernels import Case
from tests.contraction_tasks import convolution, matmul
from tests.inner_loops import assemblies_of, inner_loops, instruction
from tests.required_tools import require


@dataclass(frozen=True, slots=True)
class Assembly:
    """How a target's assembly spells what an inner loop may hold.

    `loads` fill registers, vectors or with one element in all lanes, or ask for a line to be
    brought near; `control` counts, branches and moves pointers; `stack` is what an address on the
    stack looks like.
    """

    target: str
    compiler: str
    multiply_add: str
    loads: str
    control: str
    stack: str


X86 = [
    Assembly(
        target, compiler,
        multiply_add=r"vfn?madd\d+p[sd]\s.*",
        loads=r"(?:vmov[au]p[sd]|vbroadcasts[sd])\s+.*\), %[xyz]mm\d+|prefetcht0\s.*",
        control=r"(?:add|sub|lea|cmp|inc|dec|test|mov)[lq]?\s.*%\w+|(?:inc|dec)q\s%\w+|j\w+\s.*",
        stack=r"\(%rsp",
    )
    for target in ("x86-64-v3", "x86-64-v4")
    for compiler in ("gcc", "clang")
]  # fmt: skip
ARM = [
    Assembly(
        "aarch64", "aarch64-linux-gnu-gcc",
        multiply_add=r"fmla\s.*",
        loads=r"(?:ldr|ldp|ld1r?|prfm)\s.*",
        control=r"(?:add|sub|cmp|mov)s?\s+[xw]\d+,.*|b\.?\w+\s.*|cbn?z\s.*",
        stack=r"\[sp",
    ),
    Assembly(
        "armv7", "arm-linux-gnueabihf-gcc",
        multiply_add=r"vfma\.f(?:32|64)\s.*",
        loads=r"(?:vld1\.\d+|vldr(?:\.\d+)?|vldmia(?:\.\d+)?|vdup\.\d+|ldr|pld)\s.*",
        control=r"(?:add|sub|cmp|mov)s?\s+(?:r\d+|ip|lr|fp|sl),.*|b\w+\s.*",
        stack=r"\[sp",
    ),
]  # fmt: skip


def check_inner_loops(
    task: Task,
    dtype: DType,
    assembly: Assembly,
    folder: Path,
    shape: tuple[int, int] | None = None,
) -> None:
    """The schedule without trials, or that of another shape, has inner loops of nothing else."""
    require(assembly.compiler)
    target = Target.named(assembly.target)
    schedule = default_schedule(task, target, 1)
    assert isinstance(schedule, RegisterTile)
    if shape is not None:
        schedule = replace(schedule, rows=shape[0], vectors=shape[1])
    case = Case.of(task, schedule)
    (text,) = assemblies_of([case], target, assembly.compiler, folder)
    dialect = vector_dialect(target.isa, dtype)
    assert dialect is not None
    counts = []
    for lines in inner_loops(text):
        body = [instruction(line) for line in lines]
        sums = [line for line in body if re.fullmatch(assembly.multiply_add, line)]
        if not sums:
            continue
        counts.append(len(sums))
        others = [line for line in body if line not in sums]
        loads = [line for line in others if re.fullmatch(assembly.loads, line)]
        unexpected = [
            line for line in others
            if line not in loads and not re.fullmatch(assembly.control, line)
        ]  # fmt: skip
        assert not unexpected
        assert not [line for line in body if re.search(assembly.stack, line)]
        assert len(others) - len(loads) <= schedule.rows + schedule.vectors + 3
    assert max(counts) == schedule.rows * schedule.vectors
    assert schedule.lanes == dialect.lanes


each_assembly = pytest.mark.parametrize(
    "assembly", [*X86, *ARM], ids=lambda assembly: f"{assembly.target}-{assembly.compiler}"
)


@each_assembly
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "activations"])
def test_matrix_products(assembly: Assembly, constant: bool, tmp_path: Path) -> None:
    task = matmul((), 504, 512, 512, constant=(False, constant))
    check_inner_loops(task, float32, assembly, tmp_path)


@each_assembly
def test_matrix_products_of_doubles(assembly: Assembly, tmp_path: Path) -> None:
    task = matmul((), 96, 128, 64, constant=(False, True), dtype=float64)
    check_inner_loops(task, float64, assembly, tmp_path)


@each_assembly
def test_pointwise_convolutions(assembly: Assembly, tmp_path: Path) -> None:
    task = convolution((24, 32), (1, 1), channels=(96, 144))
    check_inner_loops(task, float32, assembly, tmp_path)


@pytest.mark.parametrize("shape", [(2, 6), (3, 4), (1, 8)], ids=str)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_tiles_of_few_rows(compiler: str, shape: tuple[int, int], tmp_path: Path) -> None:
    """As many sums as there are registers beside the elements of all rows."""
    assembly = next(a for a in X86 if (a.target, a.compiler) == ("x86-64-v3", compiler))
    task = convolution((24, 32), (1, 1), channels=(96, shape[0]))
    check_inner_loops(task, float32, assembly, tmp_path, shape)

"""Contractions of every form, and the register tiles for them."""

from __future__ import annotations

from functools import cache

from tensorgen.contraction import contraction_of
from tensorgen.machine import Core
from tensorgen.schedule import RegisterTile
from tensorgen.sketch_tiles import register_tiles
from tensorgen.task import Task
from tensorgen.types import float64
from tests.contraction_tasks import (
    EPILOGUES,
    convolution,
    matmul,
    padded,
    typical_core,
    with_epilogue,
)

TASKS: dict[str, Task] = {
    "matmul": matmul((), 7, 37, 3),
    "matmul by a constant": matmul((), 5, 19, 3, constant=(False, True)),
    "constant by matmul": matmul((), 13, 5, 3, constant=(True, False)),
    "row": matmul((), 1, 33, 5, constant=(False, True)),
    "three rows": matmul((), 3, 36, 4),
    "two rows by a constant": matmul((), 2, 53, 3, constant=(False, True)),
    "column": matmul((), 17, 1, 5),
    "outer product": matmul((), 5, 18, 1),
    "transposed x": matmul((), 6, 17, 4, transposed=(True, False)),
    "transposed y": matmul((), 6, 17, 4, transposed=(False, True)),
    "transposed y, blocks": matmul((), 5, 21, 19, transposed=(False, True)),
    "both transposed": matmul((), 6, 5, 4, transposed=(True, True)),
    "transposed constant": matmul((), 6, 20, 4, transposed=(False, True), constant=(False, True)),
    "batched": matmul((2, 2), 5, 17, 3),
    "batched, shared y": matmul((3,), 4, 9, 3, shared=True, constant=(False, True)),
    "batched constant": matmul((2,), 4, 9, 3, constant=(False, True)),
    "double": matmul((), 5, 11, 3, dtype=float64),
    "double constant": matmul((), 5, 11, 3, constant=(False, True), dtype=float64),
    "convolution 1D": convolution((11,), (3,), channels=(2, 5)),
    "convolution 2D": convolution((4, 5), (3, 2), channels=(2, 7), strides=(2, 1)),
    "convolution 3D": convolution((2, 2, 3), (2, 1, 2), channels=(2, 3), dilations=(1, 2, 2)),
    "two channels": convolution((7, 13), (2, 2), channels=(3, 2)),
    "pointwise": convolution((3, 7), (1, 1), channels=(3, 6), batch=2),
    "grouped": convolution((5, 4), (2, 2), channels=(2, 3), groups=2),
    "depthwise": convolution((4, 6), (3, 3), channels=(1, 1), groups=5),
    "variable weights": convolution((3, 5), (2, 2), channels=(2, 5), constant=(False, False)),
    **{f"{kind} after matmul": with_epilogue(matmul((), 5, 19, 3), kind) for kind in EPILOGUES},
    **{
        f"{kind} after convolution": with_epilogue(
            convolution((3, 5), (2, 2), channels=(2, 5)), kind
        )
        for kind in EPILOGUES
    },
    "flatten after batched": with_epilogue(matmul((2,), 3, 5, 2), "flatten"),
    "padded line": padded(convolution((11,), (3,), channels=(2, 5)), (1,), (2,)),
    "padded images": padded(
        convolution((4, 5), (3, 2), channels=(2, 7), strides=(2, 1), batch=2), (1, 0), (0, 1)
    ),
    "padded groups": padded(
        convolution((3, 17), (2, 3), channels=(2, 3), groups=3, batch=2), (1, 1), (1, 1)
    ),
    "padded, with a stride": padded(
        convolution((2, 9), (3, 3), channels=(9, 5), strides=(2, 2)), (1, 1), (1, 1)
    ),
    "padded, far from even": padded(
        convolution((2, 3), (2, 4), channels=(17, 3), strides=(1, 3)), (1, 2), (0, 1)
    ),
    "pointwise with a stride": convolution(
        (3, 5), (1, 1), channels=(16, 6), strides=(2, 2), batch=2
    ),
    "line with a stride": convolution((11,), (3,), channels=(5, 6), strides=(2,)),
    "groups with a stride": with_epilogue(
        convolution((3, 3), (1, 1), channels=(3, 2), strides=(2, 3), groups=2), "bias"
    ),
    "padded volume": padded(
        convolution((2, 2, 3), (2, 1, 2), channels=(2, 3), dilations=(1, 2, 2)),
        (0, 0, 1),
        (1, 0, 2),
    ),
    "padded, variable weights": padded(
        convolution((3, 5), (2, 2), channels=(2, 5), constant=(False, False)), (1, 2), (2, 1)
    ),
    "bias after padded": padded(
        with_epilogue(convolution((3, 5), (3, 3), channels=(2, 5)), "bias"), (1, 1), (1, 1)
    ),
    "residual after padded": padded(
        with_epilogue(convolution((3, 5), (3, 3), channels=(2, 5)), "residual"), (1, 1), (1, 1)
    ),
}


@cache
def estimates_of(task: Task, core: Core, threads: int) -> dict[RegisterTile, float]:
    """Every register tile of a task with the cycles that it is estimated to take."""
    contraction = contraction_of(task)
    assert contraction is not None
    return {e.schedule: e.cycles for e in register_tiles(task, contraction, core, threads)}


def candidates(task: Task, isa: str, parallel: bool = False) -> tuple[RegisterTile, ...]:
    """Every register tile for the task, each once."""
    contraction = contraction_of(task)
    assert contraction is not None, str(task)
    core = typical_core(isa, contraction.dtype)
    tiles = register_tiles(task, contraction, core, 2 if parallel else 1)
    return tuple(dict.fromkeys(estimate.schedule for estimate in tiles))

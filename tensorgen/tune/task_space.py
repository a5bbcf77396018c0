"""The space of a task: the sketches of every algorithm that can compute it.

Direct tiles, minimal filtering, attention, windows and loops are sibling sketches of one space. If
`strict`, there are only those of the algorithm that has no trials, as others add up in another
order, and of that none that reassociates.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorgen.attention import attention_of
from tensorgen.contraction import contraction_of, has_tiles
from tensorgen.loop_cycles import StageCycles
from tensorgen.machine import Machine
from tensorgen.schedule import (
    AttentionTile,
    Loops,
    RegisterTile,
    RowStages,
    WindowTile,
    WinogradTile,
)
from tensorgen.sketch import attention_stages, core_of, default_schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune.space import Sketch, Space
from tensorgen.tune.space_attention import attention_space
from tensorgen.tune.space_loops import loop_space
from tensorgen.tune.space_tiles import tile_space
from tensorgen.tune.space_window import window_space
from tensorgen.tune.space_winograd import winograd_space
from tensorgen.typical_machine import typical_machine
from tensorgen.window import window_of


def space_of(
    task: Task,
    target: Target,
    threads: int,
    machine: Machine | None = None,
    *,
    strict: bool = False,
    winograd: bool = True,
) -> Space:
    """The schedules of a task on a target, with at most so many threads.

    `machine` has the constants to estimate with; None means those that are typical for the target.
    `strict` keeps the order of every sum, `winograd` allows minimal filtering of convolutions.
    """
    if strict:
        target, winograd = target.exact(), False
    constants = typical_machine(target, threads) if machine is None else machine
    zero_trial = default_schedule(task, target, threads, machine=machine, filtering=winograd)
    maker = _SpaceMaker(task, target, threads, constants, strict)
    match zero_trial:
        case _ if not strict:
            sketches = maker.all(winograd=winograd)
        case RegisterTile() | WinogradTile():
            sketches = maker.contractions(winograd=False)
        case WindowTile():
            sketches = maker.windows()
        case AttentionTile():
            sketches = maker.attention()
        case Loops() | RowStages():
            sketches = maker.loops()
    return Space(task, target, threads, constants, tuple(sketches), zero_trial)


class _SpaceMaker:
    """The sketches of a task, one algorithm at a time."""

    def __init__(
        self, task: Task, target: Target, threads: int, machine: Machine, strict: bool
    ) -> None:
        self.task, self.target, self.threads = task, target, threads
        self.machine, self.strict = machine, strict
        self.costs = StageCycles(target, machine)

    def all(self, *, winograd: bool) -> Iterator[Sketch]:
        """Those of every algorithm."""
        yield from self.contractions(winograd=winograd)
        yield from self.attention()
        yield from self.windows()
        yield from self.loops()

    def contractions(self, *, winograd: bool) -> Iterator[Sketch]:
        """Tiles of a sum of products, and filters of a convolution."""
        contraction = contraction_of(self.task)
        if contraction is None or not has_tiles(contraction):
            return
        core = core_of(self.target, contraction.dtype, self.threads, self.machine)
        if core is None:
            return
        yield from tile_space(self.task, contraction, core, self.threads, strict=self.strict)
        if winograd:
            yield from winograd_space(self.task, contraction, core, self.threads)

    def attention(self) -> Iterator[Sketch]:
        """Attention in one pass."""
        attention = attention_of(self.task)
        if attention is None:
            return
        dtype = attention.scores.contraction.dtype
        core = core_of(self.target, dtype, self.threads, self.machine)
        assert core is not None, "sums of products that have tiles are of types that have vectors"
        fused = self.target.has_fma
        stages = attention_stages(self.task, attention, core.dialect, fused=fused)
        cycles = sum(self.costs.along_result(self.task.stages[n]) for n in attention.row_stages)
        rest = cycles / self.costs.frequency
        yield from attention_space(self.task, attention, stages, core, self.threads, rest)

    def windows(self) -> Iterator[Sketch]:
        """Windows over planes."""
        window = window_of(self.task)
        if window is None:
            return
        core = core_of(self.target, window.dtype, self.threads, self.machine)
        assert core is not None, "windows are of types that have vectors"
        yield from window_space(self.task, window, core, self.machine, self.threads)

    def loops(self) -> Iterator[Sketch]:
        """Loop nests, which compute everything."""
        yield from loop_space(self.task, self.costs, self.threads, strict=self.strict)

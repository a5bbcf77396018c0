"""The schedule of a task with zero trials: candidates, an estimate for each, the cheapest wins.

Contractions are tiled (`sketch_tiles`) or filtered (`sketch_winograd`); everything else is loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import prod

from tensorgen.attention import Attention, attention_of
from tensorgen.contraction import WINDOW, contraction_of, has_tiles
from tensorgen.crossing import crossing
from tensorgen.dialects import VectorDialect, vector_dialect
from tensorgen.expr import (
    Apply,
    Axis,
    Const,
    Expr,
    Load,
    Reduce,
    TensorExpr,
    free_axes,
    loads,
    walk,
)
from tensorgen.flat import FlatStage, flat_index, flat_loads, merge_axes, merge_reduction_axes
from tensorgen.machine import Core, Machine
from tensorgen.ranking import ranking
from tensorgen.running import running_fold
from tensorgen.scatter import scatter
from tensorgen.schedule import (
    AttentionTile,
    Lanes,
    Loops,
    Method,
    RegisterTile,
    RowStages,
    Schedule,
    WinogradTile,
)
from tensorgen.simplify import affine, simplify
from tensorgen.sketch_attention import attention_estimates
from tensorgen.sketch_tiles import Estimate, cheapest, cheapest_tile
from tensorgen.sketch_winograd import winograd_tiles
from tensorgen.softmax import SOFTMAX_STAGES, ends_in_softmax, softmax_stages
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import DType
from tensorgen.typical_machine import typical_machine
from tensorgen.window import Window, window_of
from tensorgen.window_sketch import window_schedule

REDUCTION_LANES = (32, 16)
"""Lane accumulators of a reduction, most first: the same on every target, so that sums are too."""

_TOTALS = 64
"""Sums side by side, and totals that a running fold carries at a time, as elements of a result."""

CHUNK = 2048
"""Length of the pieces that a one-dimensional loop is cut into for the threads, in elements."""

BLOCK = 16
"""Elements on each side of what is transposed at once: a line of the cache of float32."""

PARALLEL_WORK = 1 << 12
"""A kernel of fewer scalar operations is left to one thread; the others of its team wait."""

STACK_BYTES = 16 << 10
"""Rows up to this size live on the stack."""

ESTIMATES = 2048
"""Estimates that are remembered: a search, the choice of memory orders and the compiler ask for the
same ones, one after the other."""

LONG_LOOP = 64
"""Iterations from which on it pays to compute a reciprocal once instead of a quotient each."""


def default_schedule(
    task: Task,
    target: Target,
    threads: int,
    *,
    machine: Machine | None = None,
    filtering: bool = True,
) -> Schedule:
    """The best schedule by the analytical estimate. Deterministic.

    `machine` has the constants to estimate with; None means those that are typical for the target.
    `filtering` allows minimal filtering of convolutions, which rounds more.
    """
    workers = threads if is_shared(task, threads) else 1
    window = tiled_window_of(task)
    if window is not None:
        dialect = target_vectors(target, window.dtype)
        assert dialect is not None, "windows are of types that have vectors"
        return window_schedule(window, dialect, workers)
    best = contraction_estimate(task, target, workers, machine=machine, filtering=filtering)
    if best is not None:
        return best.schedule
    fused = attention_estimate(task, target, workers, machine=machine)
    if fused is not None:
        return fused.schedule
    constants = typical_machine(target, workers) if machine is None else machine
    return _streamed(task, loop_schedule(task, threads, fused=target.has_fma), constants, workers)


def _streamed(task: Task, schedule: Schedule, machine: Machine, threads: int) -> Schedule:
    """The same, but results go past the caches if these do not hold them beside the operands."""
    types = (*task.inputs, *task.output_types)
    amount = sum(type.size * type.dtype.bytes for type in types)
    caches = machine.levels[:-1]
    if not isinstance(schedule, RowStages) or not caches:
        return schedule
    if amount <= caches[-1].usable_bytes(threads):
        return schedule
    return streaming(task, schedule)


def streaming(task: Task, schedule: RowStages) -> RowStages:
    """The same, but results that no stage reads go past the caches."""
    read = {load.operand - len(task.inputs) for stage in task.stages for load in loads(stage.body)}
    last = set(task.outputs) - read
    stages = tuple(
        replace(stage, streamed=position in last and stage.lanes is Lanes.OUTPUT)
        for position, stage in enumerate(schedule.stages)
    )
    return replace(schedule, stages=stages)


def target_vectors(target: Target, dtype: DType) -> VectorDialect | None:
    """The vectors of a target, without fused multiply-adds if it may not use them."""
    dialect = vector_dialect(target.isa, dtype)
    return dialect if dialect is None or target.has_fma else dialect.unfused()


@lru_cache(maxsize=ESTIMATES)
def contraction_estimate(
    task: Task,
    target: Target,
    threads: int,
    *,
    machine: Machine | None = None,
    filtering: bool = True,
) -> Estimate[RegisterTile | WinogradTile] | None:
    """The best way to compute a contraction in tiles; None if it is none that they serve."""
    contraction = contraction_of(task)
    if contraction is None or not has_tiles(contraction):
        return None
    core = core_of(target, contraction.dtype, threads, machine)
    if core is None:
        return None
    estimates: list[Estimate[RegisterTile | WinogradTile]] = []
    tile = cheapest_tile(task, contraction, core, threads)
    if tile is not None:
        estimates.append(tile)
    if filtering:
        estimates += winograd_tiles(task, contraction, core, threads)
    return cheapest(estimates) if estimates else None


def core_of(target: Target, dtype: DType, threads: int, machine: Machine | None) -> Core | None:
    """A core of the target, without fused multiply-adds if it may not use them; None if it has no
    vectors of such elements."""
    constants = typical_machine(target, threads) if machine is None else machine
    core = Core.of(target.isa, dtype, constants)
    if core is None or target.has_fma:
        return core
    return replace(core, dialect=core.dialect.unfused())


@lru_cache(maxsize=ESTIMATES)
def attention_estimate(
    task: Task, target: Target, threads: int, *, machine: Machine | None = None
) -> Estimate[AttentionTile] | None:
    """The best way to compute attention in one pass; None if it is none."""
    attention = attention_of(task)
    if attention is None:
        return None
    core = core_of(target, attention.scores.contraction.dtype, threads, machine)
    assert core is not None, "sums of products that have tiles are of types that have vectors"
    stages = attention_stages(task, attention, core.dialect, fused=target.has_fma)
    return cheapest(attention_estimates(task, attention, stages, core, threads))


def attention_stages(
    task: Task, attention: Attention, dialect: VectorDialect, *, fused: bool
) -> RowStages:
    """The stages on the rows of scores. Where registers can hold a row, they do during its softmax,
    and what comes before has loops of its own."""
    positions = attention.row_stages
    inner = len(task.stages[attention.scored].axes) - 1
    stages = row_stages(task, positions, inner, False, fused)
    columns = task.stages[positions[-1]].axes[-1].extent
    if columns > dialect.held_vectors * dialect.lanes or not ends_in_softmax(task, positions):
        return stages
    before = len(positions) - SOFTMAX_STAGES - 1
    return replace(stages, joined=stages.joined - {before}, softmax_held=True)


def tiled_window_of(task: Task) -> Window | None:
    """The task as a window that is computed in tiles of its own; None if it is not one.

    Many planes to one sum are a contraction, if its tiles pay.
    """
    window = window_of(task)
    if window is not None and window.depth:
        contraction = contraction_of(task)
        return None if contraction is not None and has_tiles(contraction) else window
    return window


def loop_schedule(task: Task, threads: int, *, fused: bool) -> Schedule:
    """Loop nests for each stage, fused at the outer axes that all stages share.

    `fused` tells whether a fused multiply-add may be used and is one instruction.
    """
    rows = shared_rows(task)
    parallel = is_shared(task, threads)
    if len(task.stages) == 1:
        return stage_loops(task.stages[0], 0, parallel, fused)
    return looking_ahead(task, row_stages(task, range(len(task.stages)), rows, parallel, fused))


def looking_ahead(task: Task, schedule: RowStages) -> RowStages:
    """The same, but what is computed and reduced in one loop asks for the next row meanwhile: it is
    busy with arithmetic, and the loop that reads the next row first is not."""
    if all(axis.extent == 1 for axis in task.stages[0].axes[: schedule.rows]):
        return schedule
    stages = tuple(
        replace(stage, ahead=number - 1 in schedule.joined)
        for number, stage in enumerate(schedule.stages)
    )
    return replace(schedule, stages=stages)


def row_stages(task: Task, positions: range, rows: int, parallel: bool, fused: bool) -> RowStages:
    """Loop nests for the stages at some positions, inside so many outer axes."""
    softmax = softmax_stages(task, positions)
    stages = tuple(
        replace(
            stage_loops(task.stages[n], rows, parallel and rows == 0, fused),
            softmax=n in softmax,
        )
        for n in positions
    )
    joined = joined_stages(task, positions, rows, stages)
    return RowStages(rows, stages, rows if parallel else 0, STACK_BYTES, joined)


def joined_stages(
    task: Task, positions: range, rows: int, stages: Sequence[Loops]
) -> frozenset[int]:
    """Those of the stages at some positions that the next one alone reduces, along the lanes and
    in the same order, counted from the first.

    One loop then makes and reduces their elements: loads less, and sums in the shadow of what the
    elements cost.
    """
    found: set[int] = set()
    for number, (position, following) in enumerate(pairwise(positions)):
        stage, reduction = task.stages[position], task.stages[following]
        alike = stages[number].lanes is Lanes.OUTPUT and stages[number + 1].lanes is Lanes.REDUCTION
        elementwise = not any(isinstance(term, Reduce) for term in walk(stage.body))
        operand = len(task.inputs) + position
        # Shorter sums have no lanes, which would take them from the elements, too.
        long = prod(_inner_extents(stage, rows)) >= 2 * stages[number + 1].tile
        if (
            alike
            and elementwise
            and long
            and position not in task.outputs
            and number - 1 not in found
            and prod(axis.extent for axis in reduction.axes[rows:]) == 1
            and _read_once(reduction, operand, stage.axes[:rows], prod(_inner_extents(stage, rows)))
        ):
            found.add(number)
    return frozenset(found)


def _inner_extents(stage: TensorExpr, rows: int) -> tuple[int, ...]:
    return tuple(axis.extent for axis in stage.axes[rows:])


def _read_once(stage: TensorExpr, operand: int, rows: Sequence[Axis], size: int) -> bool:
    """True if a stage's one reduction, over one axis, reads the `size` elements of an operand's row
    in order, and nothing else of the stage reads the operand."""
    body = merge_reduction_axes(simplify(flat_loads(stage.body)))
    reductions = [term for term in walk(body) if isinstance(term, Reduce)]
    reads = [term for term in walk(body) if isinstance(term, Load) and term.operand == operand]
    if len(reductions) != 1 or len(reads) != 1 or len(reductions[0].axes) != 1:
        return False
    (axis,) = reductions[0].axes
    offset = affine(reads[0].indices[0]).plus(affine(axis).scaled(-1))
    return (
        axis.extent == size
        and not offset.constant
        and all(term in rows for term, _ in offset.terms)
    )


def shared_rows(task: Task) -> int:
    """How many outer axes all stages have in common, each reading earlier stages only in its own
    row. An axis along which a stage goes over its operand once is none of them."""
    count = len(task.inputs)
    depth = min(len(stage.axes) for stage in task.stages)
    for position, stage in enumerate(task.stages):
        first = task.stages[0]
        swept = swept_axis(stage)
        if swept is not None:
            depth = min(depth, stage.axes.index(swept))
        while depth and [a.extent for a in stage.axes[:depth]] != [
            a.extent for a in first.axes[:depth]
        ]:
            depth -= 1
        for term in walk(stage.body):
            if isinstance(term, Load) and term.operand >= count:
                while depth and term.indices[:depth] != stage.axes[:depth]:
                    # Axes of extent one may be read at the constant 0.
                    same = all(
                        simplify(index) == simplify(axis)
                        for index, axis in zip(term.indices[:depth], stage.axes, strict=False)
                    )
                    if same:
                        break
                    depth -= 1
        assert position >= 0
    return depth


def swept_axis(stage: TensorExpr) -> Axis | None:
    """The axis of the result along which the stage goes over its operand once; None if each element
    is computed by itself."""
    axes, body = stage.axes, stage.body
    swept = running_fold(axes, body) or ranking(axes, body) or scatter(axes, body)
    return None if swept is None else swept.axis


def is_shared(task: Task, threads: int) -> bool:
    """Whether the kernel of a task is worth waking the other threads for."""
    return threads > 1 and sum(map(_stage_work, task.stages)) >= PARALLEL_WORK


def _stage_work(stage: TensorExpr) -> int:
    """Scalar operations of a stage, roughly."""
    size = max(stage.type.size, 1)
    swept = swept_axis(stage)
    if swept is not None:
        size //= max(swept.extent, 1)
    inner = 1
    operations = 1
    for term in walk(stage.body):
        if isinstance(term, Reduce):
            inner = max(inner, prod(axis.extent for axis in term.axes))
        else:
            operations += 1
    return size * inner * max(1, operations // 4)


def stage_loops(stage: TensorExpr, rows: int, parallel: bool, fused: bool) -> Loops:
    """The loops of a stage inside so many outer axes: lanes along the result or along the
    reduction, whichever reads memory in order."""
    merged = merged_stage(stage, rows)
    reductions = [term for term in walk(merged.body) if isinstance(term, Reduce)]
    shared = max(len(merged.axes) - 1, 0)
    if not reductions:
        if crossing(merged.axes, merged.body) is not None:
            return Loops(Lanes.OUTPUT, BLOCK, 0, shared if parallel else 0, method=Method.BLOCKS)
        one_loop = len(merged.axes) == 1
        loops = Loops(Lanes.OUTPUT, CHUNK, 0, (1 if one_loop else shared) if parallel else 0)
        return replace(loops, reciprocals=fused and divides_long(merged))
    running = running_fold(merged.axes, merged.body)
    if running is not None:
        outer = merged.axes.index(running.axis) if parallel else 0
        return Loops(Lanes.OUTPUT, _TOTALS, 0, outer, method=Method.RUNNING)
    if ranking(merged.axes, merged.body) is not None:
        return Loops(Lanes.NONE, 1, 0, shared if parallel else 0, method=Method.RANKING)
    scattered = scatter(merged.axes, merged.body)
    if scattered is not None:
        outer = merged.axes.index(scattered.axis) if parallel else 0
        return Loops(Lanes.NONE, 1, 0, outer, method=Method.SCATTER)
    small = all(prod(axis.extent for axis in r.axes) <= WINDOW for r in reductions)
    output = _in_step(merged.body, merged.axes[-1] if merged.axes else None)
    along = max((_in_step(r.body, r.axes[-1] if r.axes else None) for r in reductions), default=0.0)
    if merged.axes and (small or output >= along) and (merged.axes[-1].extent >= 4 or along == 0):
        outer = shared if shared else 1
        return Loops(Lanes.OUTPUT, _TOTALS, WINDOW if small else 0, outer if parallel else 0)
    lanes = _reduction_lanes(min(r.axes[-1].extent if r.axes else 1 for r in reductions))
    return Loops(Lanes.REDUCTION, lanes, 0, len(merged.axes) if parallel else 0)


def _reduction_lanes(extent: int) -> int:
    """Lanes for sums of so many values: the most that these fill twice, as fewer have none."""
    filled = (lanes for lanes in REDUCTION_LANES if extent >= 2 * lanes)
    return next(filled, REDUCTION_LANES[0])


def merged_stage(stage: TensorExpr, rows: int) -> FlatStage:
    """A stage inside so many outer axes, over as few loops as its accesses allow."""
    inner_axes = tuple(axis for axis in stage.axes[rows:] if axis.extent != 1)
    body = merge_reduction_axes(simplify(flat_loads(stage.body)))
    index = flat_index(stage.axes, stage.type.shape)
    return merge_axes(FlatStage(inner_axes, index, body))


def divides_long(stage: FlatStage) -> bool:
    """True if a long innermost loop divides floats by what does not change in it."""
    return any(
        isinstance(term, Apply)
        and term.op.name == "div"
        and term.dtype.is_float
        and not isinstance(term.args[1], Const)
        and stage.axes[-1] not in free_axes(term.args[1])
        for term in walk(stage.body)
        if stage.axes and stage.axes[-1].extent >= LONG_LOOP
    )


def _in_step(body: Expr, axis: Axis | None) -> float:
    """The share of loads that move by one element, or not at all, along an axis; 0 if none moves
    by one."""
    if axis is None:
        return 0.0
    steps = [
        affine(term.indices[0]).coefficient(axis) for term in walk(body) if isinstance(term, Load)
    ]
    if 1 not in steps:
        return 0.0
    return sum(step in (0, 1) for step in steps) / len(steps)

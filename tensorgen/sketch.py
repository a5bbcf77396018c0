"""The schedule of a task with zero trials: candidates, an estimate for each, the cheapest wins.

The estimate counts cycles of the inner loops from the instruction set's table: multiply-adds,
loads, the store of the tile, packing, and lanes left idle by tails. It ranks schedules; it does not
predict time. (Research: `tuning`, section c; the tile model is that of oneDNN's brgemm blocking.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, inf, prod

from tensorgen.contraction import (
    WINDOW,
    Contraction,
    Roles,
    assign_roles,
    contraction_of,
    has_tiles,
)
from tensorgen.dialects import VectorDialect, vector_dialect
from tensorgen.expr import Axis, Expr, Load, Reduce, TensorExpr, walk
from tensorgen.flat import FlatStage, flat_index, flat_loads, merge_axes, merge_reduction_axes
from tensorgen.schedule import (
    Lanes,
    Loops,
    RegisterTile,
    RowStages,
    Schedule,
    VectorSource,
)
from tensorgen.simplify import affine, simplify
from tensorgen.target import Target
from tensorgen.task import Task

REDUCTION_LANES = 32
"""Lane accumulators of a reduction: the same on every target, so that sums are too."""

CHUNK = 2048
"""Length of the pieces that a one-dimensional loop is cut into for the threads, in elements."""

PARALLEL_WORK = 1 << 15
"""A kernel of fewer scalar operations is not worth waking the threads for."""

STACK_BYTES = 16 << 10
"""Rows up to this size live on the stack."""

MULTIPLY_ADD_LATENCY = 4.0
TILE_OVERHEAD = 24.0
"""Cycles to set up a tile: pointers, zeroing, loop control."""

PACKED_BROADCAST, IN_PLACE_BROADCAST, CONFLICTING_BROADCAST = 0.5, 2.1, 6.0
"""Load cycles for one broadcast element: from a panel, in place, and in place with rows that
collide in the first-level cache."""

VECTOR_LOAD = ((24 << 10, 1.0), (900 << 10, 2.0), (inf, 4.0))
"""Load cycles for one vector of a panel of at most so many bytes: from the first cache, the second,
and beyond."""

CACHE_PERIOD, CACHE_WAYS = 4096, 8
"""Addresses this many bytes apart share a set of the first-level cache, which has so many ways."""

MOST_VECTORS = 8
"""Vectors side by side in a tile."""

TRANSPOSED_STORE = 1.5
"""Cycles for each element stored one by one."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A schedule and the cycles that the busiest thread is expected to take."""

    schedule: RegisterTile
    cycles: float


def default_schedule(task: Task, target: Target, threads: int) -> Schedule:
    """The best schedule by the analytical estimate. Deterministic."""
    contraction = contraction_of(task)
    if contraction is not None and has_tiles(contraction):
        dialect = vector_dialect(target.isa, contraction.dtype)
        if dialect is not None:
            parallel = threads > 1 and _work(task) >= PARALLEL_WORK
            workers = threads if parallel else 1
            estimates = list(register_tiles(task, contraction, dialect, workers))
            if estimates:
                return min(estimates, key=lambda e: (e.cycles, str(e.schedule))).schedule
    return loop_schedule(task, threads)


def loop_schedule(task: Task, threads: int) -> Schedule:
    """Loop nests for each stage, fused at the outer axes that all stages share."""
    rows = shared_rows(task)
    parallel = threads > 1 and _work(task) >= PARALLEL_WORK
    if len(task.stages) == 1:
        return _stage_loops(task.stages[0], 0, parallel)
    stages = tuple(_stage_loops(stage, rows, parallel and rows == 0) for stage in task.stages)
    return RowStages(rows, stages, rows if parallel else 0, STACK_BYTES)


def shared_rows(task: Task) -> int:
    """How many outer axes all stages have in common, each reading earlier stages only in its own
    row."""
    count = len(task.inputs)
    depth = min(len(stage.axes) for stage in task.stages)
    for position, stage in enumerate(task.stages):
        first = task.stages[0]
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


def _work(task: Task) -> float:
    """Scalar operations of a task, roughly."""
    return float(sum(_stage_work(stage) for stage in task.stages))


def _stage_work(stage: TensorExpr) -> int:
    size = max(stage.type.size, 1)
    inner = 1
    operations = 1
    for term in walk(stage.body):
        if isinstance(term, Reduce):
            inner = max(inner, prod(axis.extent for axis in term.axes))
        else:
            operations += 1
    return size * inner * max(1, operations // 4)


def _stage_loops(stage: TensorExpr, rows: int, parallel: bool) -> Loops:
    """Lanes along the result or along the reduction, whichever reads memory in order."""
    inner_axes = tuple(axis for axis in stage.axes[rows:] if axis.extent != 1)
    body = merge_reduction_axes(simplify(flat_loads(stage.body)))
    index = flat_index(stage.axes, stage.type.shape)
    merged = merge_axes(FlatStage(inner_axes, index, body))
    reductions = [term for term in walk(merged.body) if isinstance(term, Reduce)]
    shared = max(len(merged.axes) - 1, 0)
    if not reductions:
        one_loop = len(merged.axes) == 1
        return Loops(Lanes.OUTPUT, CHUNK, 0, (1 if one_loop else shared) if parallel else 0)
    small = all(prod(axis.extent for axis in r.axes) <= WINDOW for r in reductions)
    output = _in_step(merged.body, merged.axes[-1] if merged.axes else None)
    along = max((_in_step(r.body, r.axes[-1] if r.axes else None) for r in reductions), default=0.0)
    if merged.axes and (small or output >= along) and (merged.axes[-1].extent >= 4 or along == 0):
        outer = shared if shared else 1
        return Loops(
            Lanes.OUTPUT, 2 * REDUCTION_LANES, WINDOW if small else 0, outer if parallel else 0
        )
    return Loops(Lanes.REDUCTION, REDUCTION_LANES, 0, len(merged.axes) if parallel else 0)


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


# Register tiles


def register_tiles(
    task: Task, contraction: Contraction, dialect: VectorDialect, threads: int
) -> Iterator[Estimate]:
    """Every register tile worth considering, with its estimate."""
    for vector in (0, 1):
        roles = assign_roles(contraction, vector)
        if not roles.vectors or roles.contraction.operands[0] == roles.contraction.operands[1]:
            continue
        yield from _tiles_for(task, roles, vector, dialect, threads)


def _tiles_for(
    task: Task, roles: Roles, vector: int, dialect: VectorDialect, threads: int
) -> Iterator[Estimate]:
    contraction = roles.contraction
    constant = [task.constant[operand] for operand in contraction.operands]
    unit_stride = contraction.factors[vector].coefficient(roles.vectors[-1]) == 1
    row_extent = roles.rows[-1].extent if roles.rows else 1
    work = _tiled_work(roles, vector, dialect.lanes)
    vectors_outer = _vectors_outer(roles, vector)
    for source in VectorSource:
        if source is VectorSource.PACKED and not constant[vector]:
            continue
        if source is VectorSource.RUNTIME and (constant[vector] or row_extent < 4):
            continue
        if source is VectorSource.DIRECT and (constant[vector] or not unit_stride):
            continue  # relaying a constant costs nothing at run time
        row_packed = constant[1 - vector] and bool(roles.rows)
        for rows, vectors in _tile_shapes(row_extent, roles.vectors[-1].extent, dialect):
            outer = source is VectorSource.RUNTIME or vectors_outer
            schedule = RegisterTile(
                vector, source, row_packed, rows, vectors, dialect.lanes, outer, threads > 1
            )
            cycles = _cycles(work, schedule, dialect) * _share(roles, schedule, threads)
            yield Estimate(schedule, cycles)


def _tile_shapes(rows: int, columns: int, dialect: VectorDialect) -> Iterator[tuple[int, int]]:
    """Tiles whose accumulators, vectors and broadcasts fit the registers."""
    needed = -(-columns // dialect.lanes)
    for vectors in range(1, min(max(needed, 1), MOST_VECTORS) + 1):
        if dialect.loads_ahead:
            most = (dialect.registers - vectors) // (vectors + 1)
        else:
            most = (dialect.registers - 1 - vectors) // vectors
        for length in range(1, min(rows, most) + 1):
            yield length, vectors


def _vectors_outer(roles: Roles, vector: int) -> bool:
    """Put the loop over the larger operand's tiles outside, so that the smaller one is reread."""
    factors = roles.contraction.factors
    size = [
        prod(
            axis.extent
            for axis in (*roles.contraction.axes, *roles.reduction)
            if factor.coefficient(axis)
        )
        for factor in factors
    ]
    return size[vector] >= size[1 - vector]


@dataclass(frozen=True, slots=True)
class _TiledWork:
    """What the estimates of all tiles of a contraction share: `depth` multiply-adds an element,
    `outer` repetitions of rows x columns. Runtime packing costs `pack` cycles an element, shared by
    `repeated` rows of tiles. Rows lie `row_distance` bytes apart; None without rows."""

    depth: int
    outer: int
    rows: int
    columns: int
    contiguous: bool
    element_bytes: int
    pack: float
    repeated: int
    row_distance: int | None


def _tiled_work(roles: Roles, vector: int, lanes: int) -> _TiledWork:
    factors, column = roles.contraction.factors, roles.vectors[-1]
    element_bytes = roles.contraction.dtype.bytes
    distance = None
    if roles.rows:
        distance = abs(factors[1 - vector].coefficient(roles.rows[-1])) * element_bytes
    return _TiledWork(
        depth=prod(axis.extent for axis in roles.reduction),
        outer=prod(a.extent for a in (*roles.batch, *roles.rows[:-1], *roles.vectors[:-1])),
        rows=roles.rows[-1].extent if roles.rows else 1,
        columns=column.extent,
        contiguous=affine(roles.contraction.result).coefficient(column) == 1,
        element_bytes=element_bytes,
        pack=1.0 / lanes * 2 if factors[vector].coefficient(column) == 1 else 1.2,
        repeated=max(prod(axis.extent for axis in roles.rows[:-1]), 1),
        row_distance=distance,
    )


def _cycles(work: _TiledWork, schedule: RegisterTile, dialect: VectorDialect) -> float:
    """Cycles of all tiles on one core."""
    width = schedule.vectors * dialect.lanes
    panel = work.depth * width * work.element_bytes
    load = next(cost for size, cost in VECTOR_LOAD if panel <= size)
    broadcast = PACKED_BROADCAST if schedule.row_packed else _broadcast_cost(work, schedule)
    total = 0.0
    for columns, column_tiles in _parts(work.columns, width):
        vectors = -(-columns // dialect.lanes)
        if schedule.source is not VectorSource.DIRECT:
            vectors = schedule.vectors if columns == width else vectors
        for rows, row_tiles in _parts(work.rows, schedule.rows):
            step = max(
                rows * vectors / dialect.multiply_adds_per_cycle,
                (rows * broadcast + vectors * load) / dialect.loads_per_cycle,
                MULTIPLY_ADD_LATENCY,
            )
            if work.contiguous:
                store = rows * vectors * 2.0
            else:
                store = rows * min(columns, vectors * dialect.lanes) * TRANSPOSED_STORE
            total += column_tiles * row_tiles * (work.depth * step + store + TILE_OVERHEAD)
        if schedule.source is VectorSource.RUNTIME:
            total += column_tiles * work.depth * columns * work.pack / work.repeated
    return total * work.outer


def _share(roles: Roles, schedule: RegisterTile, threads: int) -> float:
    """The part of the work that the busiest thread has."""
    axes = (*roles.batch, *roles.vectors[:-1])
    units = prod(axis.extent for axis in axes)
    units *= -(-roles.vectors[-1].extent // (schedule.vectors * schedule.lanes))
    if schedule.source is not VectorSource.RUNTIME:
        units *= prod(axis.extent for axis in roles.rows[:-1])
        units *= -(-roles.rows[-1].extent // schedule.rows) if roles.rows else 1
    return -(-units // threads) / units


def _broadcast_cost(work: _TiledWork, schedule: RegisterTile) -> float:
    """Load cycles for one broadcast element read in place.

    Rows whose distance is a multiple of a large power of two share a few sets of the first-level
    cache and drive each other out of it.
    """
    if work.row_distance is None:
        return PACKED_BROADCAST
    lines = CACHE_WAYS * (CACHE_PERIOD // gcd(max(work.row_distance, 64), CACHE_PERIOD))
    return IN_PLACE_BROADCAST if schedule.rows <= lines * 3 // 4 else CONFLICTING_BROADCAST


def _parts(extent: int, tile: int) -> Iterator[tuple[int, int]]:
    """(length, count) of the full tiles and of the tail."""
    full, rest = divmod(extent, tile)
    if full:
        yield tile, full
    if rest:
        yield rest, 1

"""Register tiles with zero trials: candidates for a contraction, and an estimate for each.

The estimate counts cycles of the inner loops from the instruction set's table: multiply-adds,
loads, the store of the tile, packing, and lanes left idle by tails. It ranks schedules; it does not
predict time. (Research: `tuning`, section c; the tile model is that of oneDNN's brgemm blocking.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, inf, prod
from typing import Generic, TypeVar

from tensorgen.contraction import Contraction, Roles, assign_roles
from tensorgen.dialects import VectorDialect
from tensorgen.schedule import RegisterTile, VectorSource
from tensorgen.simplify import affine
from tensorgen.task import Task

MULTIPLY_ADD_LATENCY = 4.0
TILE_OVERHEAD = 24.0
"""Cycles to set up a tile: pointers, zeroing, loop control."""

PACKED_BROADCAST, IN_PLACE_BROADCAST, CONFLICTING_BROADCAST = 0.5, 0.9, 6.0
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


Chosen = TypeVar("Chosen", covariant=True)


@dataclass(frozen=True, slots=True)
class Estimate(Generic[Chosen]):
    """A schedule and the cycles that the busiest thread is expected to take."""

    schedule: Chosen
    cycles: float


def register_tiles(
    task: Task, contraction: Contraction, dialect: VectorDialect, threads: int
) -> Iterator[Estimate[RegisterTile]]:
    """Every register tile worth considering, with its estimate."""
    for vector in (0, 1):
        roles = assign_roles(contraction, vector)
        if not roles.vectors or roles.contraction.operands[0] == roles.contraction.operands[1]:
            continue
        first, second = roles.contraction.operands
        constant = (task.constant[first], task.constant[second])
        yield from tiles_for_roles(roles, vector, constant, dialect, threads)


def tiles_for_roles(
    roles: Roles, vector: int, constant: tuple[bool, bool], dialect: VectorDialect, threads: int
) -> Iterator[Estimate[RegisterTile]]:
    """The tiles of a contraction with factor `vector` along the lanes; `constant` tells which of
    the factors are known at compile time."""
    contraction = roles.contraction
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
        for rows, vectors in tile_shapes(row_extent, roles.vectors[-1].extent, dialect):
            outer = source is VectorSource.RUNTIME or vectors_outer
            schedule = RegisterTile(
                vector, source, row_packed, rows, vectors, dialect.lanes, outer, threads > 1
            )
            cycles = _cycles(work, schedule, dialect) * _share(roles, schedule, threads)
            yield Estimate(schedule, cycles)


def tile_shapes(rows: int, columns: int, dialect: VectorDialect) -> Iterator[tuple[int, int]]:
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
    load = vector_load(panel)
    broadcast = PACKED_BROADCAST if schedule.row_packed else _broadcast_cost(work, schedule)
    total = 0.0
    for columns, column_tiles in parts(work.columns, width):
        vectors = -(-columns // dialect.lanes)
        if schedule.source is not VectorSource.DIRECT:
            vectors = schedule.vectors if columns == width else vectors
        for rows, row_tiles in parts(work.rows, schedule.rows):
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


def vector_load(panel: int) -> float:
    """Load cycles for one vector of a panel of so many bytes."""
    return next(cost for size, cost in VECTOR_LOAD if panel <= size)


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


def parts(extent: int, tile: int) -> Iterator[tuple[int, int]]:
    """(length, count) of the full tiles and of the tail."""
    full, rest = divmod(extent, tile)
    if full:
        yield tile, full
    if rest:
        yield rest, 1

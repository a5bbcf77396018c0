"""Register tiles with zero trials: candidates for a contraction, and an estimate for each.

The estimate counts cycles of the inner loops from the instruction set's table: multiply-adds,
loads, the store of the tile, packing, and lanes left idle by tails. It ranks schedules; it does not
predict time. (Research: `tuning`, section c; the tile model is that of oneDNN's brgemm blocking.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Generic, TypeVar

from tensorgen.contraction import Contraction, Roles, assign_roles
from tensorgen.dense_copy import is_strided, with_copy
from tensorgen.dialects import VectorDialect
from tensorgen.expr import Axis
from tensorgen.line_reads import LINE_BYTES, LineReads
from tensorgen.machine import Core
from tensorgen.prologue import Slab
from tensorgen.prologue_costs import factor_bytes, prologue_costs
from tensorgen.schedule import RegisterTile, VectorSource
from tensorgen.shares import Repeated, Work, busiest, cycles_of
from tensorgen.simplify import affine
from tensorgen.task import Task

MULTIPLY_ADD_LATENCY = 4.25
TILE_OVERHEAD = 24.0
"""Cycles to set up a tile: pointers, zeroing, loop control."""

IN_PLACE_BROADCAST, CONFLICTING_BROADCAST = 0.4, 5.5
"""Loads by which one broadcast element costs more than from a panel: in place, and in place with
rows that collide in the first-level cache."""

CONFLICTING_VECTOR = 5.0
"""Load cycles for one vector in place that collides with those of other steps."""

CACHE_PERIOD, CACHE_WAYS = 4096, 8
"""Addresses this many bytes apart share a set of the first-level cache, which has so many ways."""

SECOND_SHARE = 0.7
"""The part of the second-level cache's bandwidth that tiles get: their lines are not one stream."""

REREAD_SHARE = 2 / 3
"""The part of the first-level cache in which lines of rows stay until another step of the window
reads them, while a panel streams through."""

LEAST_DEPTH = 32
"""Products of a block, at least: partial sums are read and written once a block."""

PARTIAL_SUM = 4.0
"""Cycles to read and write a vector of partial sums."""

MOST_VECTORS = 8
"""Vectors side by side in a tile."""

TRANSPOSED_STORE, TURNED_STORE = 1.5, 0.4
"""Cycles for each element stored one by one, and in blocks transposed in registers."""


Chosen = TypeVar("Chosen", covariant=True)


@dataclass(frozen=True, slots=True)
class Estimate(Generic[Chosen]):
    """A schedule and the cycles that the busiest thread is expected to take."""

    schedule: Chosen
    cycles: float


def register_tiles(
    task: Task, contraction: Contraction, core: Core, threads: int
) -> Iterator[Estimate[RegisterTile]]:
    """Every register tile worth considering, with its estimate."""
    for sketch in tile_sketches(task, contraction, core, threads):
        yield from sketch.by_rules()


def tile_sketches(
    task: Task, contraction: Contraction, core: Core, threads: int
) -> Iterator[TileSketch]:
    """The ways to read the factors of a contraction: which one lies along the lanes, and whether
    one of them is copied in front of the tiles."""
    for vector in (0, 1):
        roles = assign_roles(contraction, vector)
        if not roles.vectors or roles.contraction.operands[0] == roles.contraction.operands[1]:
            continue
        yield from sketches_for_roles(roles, vector, contraction.constant(task), core, threads)
    for factor in (0, 1):
        if not is_strided(contraction, factor) or not contraction.constant(task)[1 - factor]:
            continue
        copied = with_copy(task, contraction, factor)
        if copied is None:
            continue
        for vector in (0, 1):
            roles = assign_roles(copied, vector)
            if roles.vectors:
                constant = copied.constant(task)
                yield from sketches_for_roles(roles, vector, constant, core, threads, factor)


def tiles_for_roles(
    roles: Roles, vector: int, constant: tuple[bool, bool], core: Core, threads: int
) -> Iterator[Estimate[RegisterTile]]:
    """The tiles of a contraction with factor `vector` along the lanes; `constant` tells which of
    the factors are known at compile time."""
    for sketch in sketches_for_roles(roles, vector, constant, core, threads):
        yield from sketch.by_rules()


def sketches_for_roles(
    roles: Roles,
    vector: int,
    constant: tuple[bool, bool],
    core: Core,
    threads: int,
    copied: int | None = None,
) -> Iterator[TileSketch]:
    """The same for factor `vector` along the lanes: a prologue lies as its stage does or, where
    that serves several steps of a sum with a line, with other elements together."""
    yield TileSketch.of(roles, None, vector, constant, core, threads, copied)
    together = _together(roles, vector)
    if together is not None:
        yield TileSketch.of(roles, together, vector, constant, core, threads, copied)


def _together(roles: Roles, vector: int) -> int | None:
    """The axis of a prologue that is the broadcast factor, by position, whose elements must lie
    together for lines to serve several steps of a sum; None if there is none."""
    prologue = roles.contraction.prologue
    if prologue is None or prologue.factor == vector or not roles.rows or not roles.reduction:
        return None
    axis = prologue.stepped_by(roles.reduction[-1])
    turned = axis is not None and Slab.of(prologue, (), axis).turned is not None
    return axis if turned else None


@dataclass(frozen=True, slots=True)
class TileSketch:
    """The tiles of a contraction with factor `vector` along the lanes: which there are, what rules
    choose for each beside its size, and what it costs.

    With `together`, the elements of its prologue that a sum steps over are neighbours; with
    `copied`, the prologue is a dense copy of that factor. `prologues` are the ways to make it.
    """

    roles: Roles
    vector: int
    constant: tuple[bool, bool]
    together: bool
    copied: int | None
    core: Core
    threads: int
    work: TiledWork
    prologues: tuple[tuple[int, float, float], ...]

    @staticmethod
    def of(
        roles: Roles,
        together: int | None,
        vector: int,
        constant: tuple[bool, bool],
        core: Core,
        threads: int,
        copied: int | None,
    ) -> TileSketch:
        """The tiles if the elements along that axis of the prologue lie together."""
        if together is not None:
            roles = _read_together(roles, together)
        turned = together is not None
        work = _tiled_work(roles, vector, core.dialect)
        outer = _vectors_outer(roles, vector)
        prologues = tuple(prologue_costs(roles, outer, core, threads, turned))
        return TileSketch(
            roles, vector, constant, together is not None, copied, core, threads, work, prologues
        )

    def sources(self, fewest_rows: int = 4) -> tuple[VectorSource, ...]:
        """How the vector factor may reach the registers. A factor known at compile time is relaid
        there, which costs nothing at run time; any other one is packed for so many rows."""
        if self.constant[self.vector]:
            return (VectorSource.PACKED,)
        factor = self.roles.contraction.factors[self.vector]
        in_order = factor.coefficient(self.roles.vectors[-1]) == 1
        direct = (VectorSource.DIRECT,) if in_order else ()
        packed = (VectorSource.RUNTIME,) if self.work.rows >= fewest_rows else ()
        return (*direct, *packed)

    def shapes(self) -> Iterator[tuple[int, int]]:
        """Rows and vectors of the tiles that fit the registers."""
        return tile_shapes(self.work.rows, self.work.columns, self.core.dialect)

    def may_ask_ahead(self, source: VectorSource) -> bool:
        """Whether some factor is read in place, and neighbouring tiles of it are neighbours in
        memory."""
        factor, tiled = self._in_place(source)
        if self.constant[factor] or not tiled:
            return False
        return self.roles.contraction.factors[factor].coefficient(tiled[-1]) == 1

    def _in_place(self, source: VectorSource) -> tuple[int, tuple[Axis, ...]]:
        """The factor that tiles would read in place, and its axes."""
        if source is VectorSource.DIRECT:
            return self.vector, self.roles.vectors
        return 1 - self.vector, self.roles.rows

    def may_ask_for_panels(self, schedule: RegisterTile) -> bool:
        """Whether panels of the outer loop are packed, and several inner tiles read each."""
        packed = schedule.row_packed
        if schedule.vectors_outer:
            packed = schedule.source is VectorSource.PACKED
        columns, rows = _tile_counts(self.roles, schedule)
        return packed and (rows if schedule.vectors_outer else columns) > 1

    def sums_bytes(self, schedule: RegisterTile) -> int:
        """Bytes of the partial sums of all rows where sums are taken in blocks."""
        rows = prod(axis.extent for axis in self.roles.rows)
        return rows * schedule.vectors * schedule.lanes * self.work.element_bytes

    def by_rule(self, source: VectorSource, rows: int, vectors: int) -> RegisterTile:
        """A tile of that size, all else chosen by rules. Threads share the outer loop."""
        factor, _ = self._in_place(source)
        # No cache can foresee which line is read next, and the second one does not hold all.
        ahead = (
            self.may_ask_ahead(source)
            and factor_bytes(self.roles, factor) > self.core.second_cache // 2
        )
        schedule = RegisterTile(
            self.vector,
            source,
            row_packed=self.constant[1 - self.vector] and bool(self.roles.rows),
            rows=rows,
            vectors=vectors,
            lanes=self.core.dialect.lanes,
            vectors_outer=source is VectorSource.RUNTIME or _vectors_outer(self.roles, self.vector),
            parallel=self.threads > 1,
            ahead=ahead,
            turned=self.work.turned,
            together=self.together,
            copied=self.copied,
        )
        return replace(
            schedule,
            panels_ahead=_panels_pay(self.roles, schedule, self.core),
            depth=_block_depth(self.roles, self.work, schedule, self.core),
        )

    def by_rules(self) -> Iterator[Estimate[RegisterTile]]:
        """Every tile that fits the registers, in each way to make a prologue and to share it."""
        for source in self.sources():
            for rows, vectors in self.shapes():
                schedule = self.by_rule(source, rows, vectors)
                lines = _lines(self.work, schedule, self.core)
                for made in self.prologues:
                    if made[0]:
                        placed = replace(schedule, prologue=made[0])
                        yield Estimate(placed, self._cycles(lines, made))
                        continue
                    yield Estimate(schedule, self._cycles(lines, made))
                    if self.threads > 1 and source is not VectorSource.RUNTIME:
                        yield from self._grids(schedule, lines, made)

    def _grids(
        self, schedule: RegisterTile, lines: Repeated, made: tuple[int, float, float]
    ) -> Iterator[Estimate[RegisterTile]]:
        """The same tile where threads share tiles and not lines of them, if that is better."""
        if schedule.depth:
            return
        grid = replace(schedule, grid=True)
        tiles = _lines(self.work, grid, self.core)
        if busiest(tiles, self.threads) < busiest(lines, self.threads):
            yield Estimate(grid, self._cycles(tiles, made))

    def cycles(self, schedule: RegisterTile) -> float:
        """The cycles that the busiest thread is expected to take for one of these tiles."""
        made = next(made for made in self.prologues if made[0] == schedule.prologue)
        return self._cycles(_lines(self.work, schedule, self.core), made)

    def _cycles(self, lines: Repeated, made: tuple[int, float, float]) -> float:
        """The cycles of the busiest thread for the tiles and a prologue."""
        inside, copied, share = made
        met = self.core.barrier if self.threads > 1 else 0.0
        tiles = cycles_of(lines) * share if inside else busiest(lines, self.threads)
        return tiles + copied + met


def _read_together(roles: Roles, together: int) -> Roles:
    """The same with the prologue read where it lies together."""
    contraction = roles.contraction
    prologue = contraction.prologue
    assert prologue is not None
    read = Slab.of(prologue, (), together).read
    first, second = contraction.factors
    factors = (read, second) if prologue.factor == 0 else (first, read)
    return replace(roles, contraction=replace(contraction, factors=factors))


def _panels_pay(roles: Roles, schedule: RegisterTile, core: Core) -> bool:
    """True if the panels of the outer loop come from beyond the second-level cache while the first
    of several inner tiles would wait for them. With more inner tiles than a step of a panel has
    elements, that is a small part of the time."""
    outer = schedule.vector_operand if schedule.vectors_outer else 1 - schedule.vector_operand
    packed = (
        schedule.source is VectorSource.PACKED if schedule.vectors_outer else schedule.row_packed
    )
    if not packed or factor_bytes(roles, outer) <= core.second_cache // 2:
        return False
    columns, rows = _tile_counts(roles, schedule)
    if schedule.vectors_outer:
        return 1 < rows <= schedule.vectors * schedule.lanes
    return 1 < columns <= schedule.rows


def _block_depth(roles: Roles, work: TiledWork, schedule: RegisterTile, core: Core) -> int:
    """How many products a block of the sums has; 0 if they are not taken in blocks.

    Blocks pay where a panel and the rows do not stay in the first cache together, and tiles would
    read more of both than half of what the second one gives in that time. It must hold all rows,
    which go by again for each vector tile.
    """
    if schedule.source is not VectorSource.PACKED or not schedule.vectors_outer:
        return 0
    if schedule.row_packed or not roles.rows or not core.second_cache >= work.row_span > 0:
        return 0
    first, _ = core.loads[0]
    step = work.step_bytes(schedule, schedule.rows, core)
    cycles = schedule.rows * schedule.vectors / core.dialect.multiply_adds_per_cycle
    if work.depth * step <= first or step <= _second_bytes(core, work.element_bytes) * cycles:
        return 0
    depth = 1
    for axis in reversed(roles.reduction):
        inside = min(axis.extent, max(int(first / step) // depth, 1))
        while axis.extent % inside:
            inside -= 1
        depth *= inside
        if inside < axis.extent:
            break
    return depth if depth >= LEAST_DEPTH else 0


def _second_bytes(core: Core, element_bytes: int) -> float:
    """Bytes that a cycle gets from the second-level cache while tiles are computed."""
    _, load = core.loads[1]
    vector = core.dialect.lanes * element_bytes
    return SECOND_SHARE * vector * core.dialect.loads_per_cycle / load


def _tile_counts(roles: Roles, schedule: RegisterTile) -> tuple[int, int]:
    """The number of tiles along the vector axes and along the row axes."""
    columns = prod(axis.extent for axis in roles.vectors[:-1])
    columns *= -(-roles.vectors[-1].extent // (schedule.vectors * schedule.lanes))
    rows = prod(axis.extent for axis in roles.rows[:-1])
    rows *= -(-roles.rows[-1].extent // schedule.rows) if roles.rows else 1
    return columns, rows


def tile_shapes(rows: int, columns: int, dialect: VectorDialect) -> Iterator[tuple[int, int]]:
    """Tiles whose accumulators, vectors and broadcasts fit the registers."""
    needed = -(-columns // dialect.lanes)
    for vectors in range(1, min(max(needed, 1), MOST_VECTORS) + 1):
        free = dialect.registers - dialect.temporaries - vectors
        # Where all rows load ahead, each has a register for its element: one is counted already.
        most = (free + 1) // (vectors + 1) if dialect.loads_ahead else free // vectors
        for length in range(1, min(rows, most) + 1):
            yield length, vectors


def _vectors_outer(roles: Roles, vector: int) -> bool:
    """Put the loop over the larger operand's tiles outside, so that the smaller one is reread."""
    return factor_bytes(roles, vector) >= factor_bytes(roles, 1 - vector)


@dataclass(frozen=True, slots=True)
class TiledWork:
    """What the estimates of all tiles of a contraction share: `depth` multiply-adds an element,
    rows x columns for each point of the axes of `batch`, `outer_rows` and `outer_columns`. Runtime
    packing costs `pack` cycles an element. Rows lie `row_distance` bytes apart; None without rows.
    The outermost loop of a sum over the vector factor makes `steps` of `step_distance` bytes. All
    rows span `row_span` bytes."""

    depth: int
    batch: int
    outer_rows: int
    outer_columns: int
    rows: int
    columns: int
    contiguous: bool
    turned: bool
    element_bytes: int
    pack: float
    row_distance: int | None
    row_reads: LineReads | None
    vector_reads: LineReads
    step_distance: int
    steps: int
    row_span: int

    def step_bytes(self, schedule: RegisterTile, rows: int, core: Core) -> float:
        """Bytes of the lines that one step of a tile reads, and which no step before it has left in
        the first-level cache."""
        first, _ = core.loads[0]
        remembered = REREAD_SHARE * first / self._read_bytes(schedule, rows, 1.0)
        if schedule.depth:
            remembered = min(remembered, schedule.depth - 1)
        return self._read_bytes(schedule, rows, remembered)

    def _read_bytes(self, schedule: RegisterTile, rows: int, remembered: float) -> float:
        """Bytes of the lines that one step reads, and none of so many before it."""
        width = schedule.vectors * schedule.lanes
        panel = float(width * self.element_bytes)
        if schedule.source is VectorSource.DIRECT:
            panel = LINE_BYTES * self.vector_reads.lines(width, remembered)
        if self.row_reads is None or schedule.row_packed:
            return panel + rows * self.element_bytes
        return panel + LINE_BYTES * self.row_reads.lines(rows, remembered)


def _tiled_work(roles: Roles, vector: int, dialect: VectorDialect) -> TiledWork:
    factors, column = roles.contraction.factors, roles.vectors[-1]
    element_bytes = roles.contraction.dtype.bytes
    distance = None
    turned = False
    if roles.rows:
        turned = (
            dialect.transposes and affine(roles.contraction.result).coefficient(roles.rows[-1]) == 1
        )
        distance = abs(factors[1 - vector].coefficient(roles.rows[-1])) * element_bytes
    strides = [
        (abs(factors[vector].coefficient(axis)) * element_bytes, axis.extent)
        for axis in roles.reduction
    ]
    step_distance, steps = max(strides, default=(0, 1))
    return TiledWork(
        depth=prod(axis.extent for axis in roles.reduction),
        batch=prod(axis.extent for axis in roles.batch),
        outer_rows=prod(axis.extent for axis in roles.rows[:-1]),
        outer_columns=prod(axis.extent for axis in roles.vectors[:-1]),
        rows=roles.rows[-1].extent if roles.rows else 1,
        columns=column.extent,
        contiguous=affine(roles.contraction.result).coefficient(column) == 1,
        turned=turned,
        element_bytes=element_bytes,
        pack=1.0 / dialect.lanes * 2 if factors[vector].coefficient(column) == 1 else 1.2,
        row_distance=distance,
        row_reads=LineReads.of(roles, 1 - vector, roles.rows[-1]) if roles.rows else None,
        vector_reads=LineReads.of(roles, vector, column),
        step_distance=step_distance,
        steps=steps,
        row_span=element_bytes
        * sum(
            abs(factors[1 - vector].coefficient(axis)) * (axis.extent - 1)
            for axis in (*roles.rows, *roles.reduction)
        ),
    )


def _lines(work: TiledWork, schedule: RegisterTile, core: Core) -> Repeated:
    """The tiles in the order of their loops. The pieces are what threads share: tiles of a grid,
    else lines of them."""
    width = schedule.vectors * core.dialect.lanes
    columns = tuple(parts(work.columns, width))
    rows = tuple(parts(work.rows, schedule.rows))
    outer, inner, across = (columns, rows, work.outer_rows)
    times = work.batch * work.outer_columns
    if not schedule.vectors_outer:
        outer, inner, across = (rows, columns, work.outer_columns)
        times = work.batch * work.outer_rows
    lines: list[Work] = []
    for length, count in outer:
        tiles = []
        for other, number in inner:
            size = (other, length) if schedule.vectors_outer else (length, other)
            tiles.append(Repeated(number, (_tile_cycles(work, schedule, core, *size),)))
        line = Repeated(across, tuple(tiles))
        packed = 0.0
        if schedule.source is VectorSource.RUNTIME:
            packed = work.depth * length * work.pack
        lines.append(Repeated(count, (line if schedule.grid else cycles_of(line) + packed,)))
    return Repeated(times, tuple(lines))


def _tile_cycles(
    work: TiledWork, schedule: RegisterTile, core: Core, rows: int, columns: int
) -> float:
    """Cycles of one tile of so many rows and columns."""
    dialect = core.dialect
    width = schedule.vectors * dialect.lanes
    depth = schedule.depth or work.depth
    load = core.vector_load(depth * width * work.element_bytes)
    if schedule.source is VectorSource.DIRECT and _collide(work.steps, work.step_distance):
        load = max(load, CONFLICTING_VECTOR)
    broadcast = dialect.broadcast_loads + _in_place_cost(work, schedule)
    vectors = -(-columns // dialect.lanes)
    step = max(
        rows * vectors / dialect.multiply_adds_per_cycle,
        (rows * broadcast + vectors * load) / dialect.loads_per_cycle,
        MULTIPLY_ADD_LATENCY,
    )
    moved = work.step_bytes(schedule, rows, core)
    first, *others = core.loads
    if others and depth * moved > first[0]:
        step = max(step, moved / _second_bytes(core, work.element_bytes))
    if work.contiguous:
        store = rows * vectors * 2.0
    else:
        each = TURNED_STORE * core.shuffle if work.turned else TRANSPOSED_STORE
        store = rows * min(columns, vectors * dialect.lanes) * each
    if schedule.depth:
        store += work.depth // depth * (PARTIAL_SUM * rows * vectors + TILE_OVERHEAD)
    return work.depth * step + store + TILE_OVERHEAD


def _in_place_cost(work: TiledWork, schedule: RegisterTile) -> float:
    """Loads by which one broadcast element costs more where it is not read from a panel."""
    if schedule.row_packed or work.row_distance is None:
        return 0.0
    collide = _collide(schedule.rows, work.row_distance)
    return CONFLICTING_BROADCAST if collide else IN_PLACE_BROADCAST


def _collide(count: int, distance: int) -> bool:
    """Whether `count` places, `distance` bytes apart, drive each other out of the first-level
    cache: those a multiple of a large power of two apart share a few of its sets."""
    lines = CACHE_WAYS * (CACHE_PERIOD // gcd(max(distance, 64), CACHE_PERIOD))
    return count > lines * 3 // 4


def parts(extent: int, tile: int) -> Iterator[tuple[int, int]]:
    """(length, count) of the full tiles and of the tail."""
    full, rest = divmod(extent, tile)
    if full:
        yield tile, full
    if rest:
        yield rest, 1

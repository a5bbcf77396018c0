"""What register tiles cost: cycles of the inner loops, from the instruction set's table and from
what a core reads where.

Counted are multiply-adds, loads, the store of the tile, packing, and lanes left idle by tails.
(Research: `tuning`, section c; the tile model is that of oneDNN's brgemm blocking.)
What it does not: know which tiles there are, or choose among them (`sketch_tiles`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd, prod

from tensorgen.contraction import Roles
from tensorgen.dialects import VectorDialect
from tensorgen.epilogue_lines import epilogue_operands
from tensorgen.expr import Axis
from tensorgen.line_reads import SPLIT_LOAD, LineReads, lying_across
from tensorgen.machine import Core
from tensorgen.prologue_costs import factor_bytes
from tensorgen.schedule import RegisterTile, VectorSource
from tensorgen.shares import Work, cycles_of, merged, repeated
from tensorgen.simplify import Affine, affine
from tensorgen.target import LINE_BYTES, PAGE_BYTES

MULTIPLY_ADD_LATENCY = 4.25
TILE_OVERHEAD = 24.0
"""Cycles to set up a tile: pointers, zeroing, loop control."""

CONFLICTING_BROADCAST = 5.5
"""Loads by which one broadcast element costs more than from a panel, in place with rows that
collide in the first-level cache."""

CONFLICTING_LINE, LOST_LINE = 4.0, 9.0
"""Loads that the first vector of a line in place costs where it collides with those of other steps
in the first-level cache, and in the second one, too."""

SECOND_WAYS = 8
"""Lines that share a set of the second-level cache, at least."""

MISSED_LOAD = 1.0
"""Loads that a vector in place, or a line of rows, costs more where the first-level cache has lost
it since the tile before: it is asked for again when its line is there."""

LATE_STEP, LATE_LINE = 0.25, 0.5
"""Cycles that a step waits for what the first-level cache has lost, where broadcasts are
instructions of their own: for panels, and for each line of vectors in place. (Measured for these:
none to two and a half, as the pages of the data lie in the caches.)"""

ALL_COLUMNS, ALL_FAR_COLUMNS = 4.0, 16.0
"""A line of results takes so many times as long where tiles side by side store in the pages of all
columns: there are more than a core has translations of at hand, or a prefetcher follows. The second
is for results that go to main memory."""

UNFORESEEN_LINE = 0.5
"""Lines that one step waits for, of vectors in place that begin with one. (Fitted to networks.)"""

SECOND_SHARE = 0.7
"""The part of the second-level cache's bandwidth that tiles get: their lines are not one stream."""

NEAR_LINE = 1 / 3
"""The part of the time that a line across the steps takes which surely comes from the second-level
cache."""

REREAD_SHARE = 2 / 3
"""The part of the first-level cache in which lines of rows stay until another step of the window
reads them, while a panel streams through."""

VECTOR_STORE = 2.0
"""Cycles to store a vector of results."""

TRANSPOSED_STORE, TURNED_STORE = 1.5, 0.2
"""Cycles for each element stored one by one, and in blocks transposed in registers: these once for
the tile's own, and once for all that their blocks have room for."""


@dataclass(frozen=True, slots=True)
class TiledWork:
    """What the estimates of all tiles of a contraction share: `depth` multiply-adds an element,
    rows x columns for each point of the axes of `batch`, `outer_rows` and `outer_columns`. Runtime
    packing costs `pack` cycles an element. Rows lie `row_distance` bytes apart; None without rows.
    With `row_streams`, each is read in the order of memory, and no two share lines. The outermost
    loop of a sum makes steps of so many bytes in the vector factor, so many of them
    (`vector_steps`), and in the other one (`row_steps`). Of the vectors, read in place, the part
    `across` lies across two lines: all of them, unless they are shorter, if the factor is `given`,
    an array of callers, which begins inside a line. All rows span `row_span` bytes, all columns
    `vector_span`. All elements of the factors have `row_bytes` and `vector_bytes`. In the result
    rows lie `result_distance` bytes apart and columns `column_distance`, and all of it has
    `result_bytes`, of which each thread makes `own_results`; the epilogue reads `residuals`
    operands as large as that."""

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
    vector_steps: tuple[int, int]
    row_steps: tuple[int, int]
    across: float
    given: bool
    row_span: int
    vector_span: int
    row_streams: bool
    row_bytes: int
    vector_bytes: int
    result_distance: int
    column_distance: int
    result_bytes: int
    own_results: float
    residuals: int

    def where_needed(self, share: float) -> TiledWork:
        """The same if only that part of the steps is taken, which do not read the lines around the
        rows: a step of a window reads that part of them."""
        depth = max(round(self.depth * share), 1)
        span = min(self.row_span, self.row_bytes)
        return replace(self, depth=depth, row_span=round(share * span))

    def jumps(self, vectors_outer: bool) -> bool:
        """Whether a tile stores a line for each of several rows, or columns, which may lie far from
        those of the tile before it."""
        if self.contiguous:
            return vectors_outer
        return self.result_distance == self.element_bytes

    def step_bytes(self, schedule: RegisterTile, rows: int, core: Core) -> float:
        """Bytes of the lines that one step of a tile reads, and which no step before it has left in
        the first-level cache."""
        return self._read_bytes(schedule, rows, self._remembered(schedule, rows, core))

    def reads_rows_in_place(self, schedule: RegisterTile) -> bool:
        """Whether the broadcast factor has rows and is not packed."""
        packed = schedule.row_packed or (schedule.row_block > 0 and not schedule.block_in_place)
        return self.row_reads is not None and not packed

    def packs_all_rows(self, schedule: RegisterTile) -> bool:
        """Whether all rows are packed at run time before the first tile."""
        once = self.batch * self.outer_rows == 1 and schedule.row_block >= self.rows
        return once and not schedule.block_in_place

    def row_lines(self, schedule: RegisterTile, rows: int, core: Core) -> float:
        """Lines that one step reads of the broadcast factor in place, and no step before it."""
        if self.row_reads is None:
            return 0.0
        return self.row_reads.lines(rows, self._remembered(schedule, rows, core))

    def vector_lines(self, schedule: RegisterTile, rows: int, core: Core) -> float:
        """Lines that one step reads of vectors in place, and no step before it."""
        width = schedule.vectors * schedule.lanes
        return self.vector_reads.lines(width, self._remembered(schedule, rows, core))

    def panel_step_bytes(self, schedule: RegisterTile, rows: int, core: Core) -> float:
        """Bytes that one step reads of the vector factor, and no step before it."""
        panel = schedule.vectors * schedule.lanes * self.element_bytes
        if schedule.source is not VectorSource.DIRECT:
            return panel
        return min(panel, LINE_BYTES * self.vector_lines(schedule, rows, core))

    def scattered_lines(self, schedule: RegisterTile, rows: int, core: Core) -> float:
        """Those of them that the next steps do not go on with."""
        distance, _ = self.vector_steps
        if schedule.source is not VectorSource.DIRECT or distance < LINE_BYTES:
            return 0.0
        return self.vector_lines(schedule, rows, core)

    def awaited_lines(self, schedule: RegisterTile, rows: int, core: Core) -> float:
        """Lines in place that one step waits for where the first-level cache has lost them, and no
        prefetcher foresees them: those of rows, and of vectors that go by again for each row tile.
        Vectors that stay while row tiles go by take a line more where they begin inside one."""
        lines = self._awaited_row_lines(schedule, rows, core)
        scattered = self.scattered_lines(schedule, rows, core)
        if not schedule.vectors_outer:
            lines += scattered
        elif scattered and not schedule.depth:
            lines += 1.0 if self.given else UNFORESEEN_LINE * (1.0 - self.across)
        return lines

    def _awaited_row_lines(self, schedule: RegisterTile, rows: int, core: Core) -> float:
        """Those of the broadcast factor. Rows of the inner loop go by again for each vector tile,
        as streams or across the steps. Across, fewer are waited for where the second-level cache
        keeps them all; and with sums in blocks, the tile before has left the lines that it shares.
        Rows of the outer loop that lie across the steps come anew with the first of the vector
        tiles that go over them, or with each where the first-level cache does not hold them beside
        a panel."""
        if not self.reads_rows_in_place(schedule):
            return 0.0
        distance, _ = self.row_steps
        lines = self.row_lines(schedule, rows, core)
        if not schedule.vectors_outer:
            if self.row_streams:
                return 0.0
            again = self.depth * lines * LINE_BYTES > REREAD_SHARE * core.first_bytes
            width = schedule.vectors * schedule.lanes
            return lines if again else lines / (self.outer_columns * -(-self.columns // width))
        if self.row_streams:
            return lines
        if distance < LINE_BYTES:
            return 0.0
        if schedule.depth and self.row_distance is not None:
            lines = min(lines, rows * self.row_distance / LINE_BYTES)
        return lines if panels_are_lost(self, schedule, core) else NEAR_LINE * lines

    def far_cycles(self, schedule: RegisterTile, rows: int, core: Core) -> float:
        """Cycles that one step waits for lines of the factor of the inner loop where these lie
        across the steps: no prefetcher follows them, and a second cache that does not hold them all
        has lost them when the next panel of the outer loop needs them again."""
        width = schedule.vectors * schedule.lanes
        if schedule.vectors_outer:
            packed = not self.reads_rows_in_place(schedule) or self.row_streams
            again, span = self.columns > width, self.row_span
            lines = self.row_lines(schedule, rows, core)
        else:
            packed = schedule.source is not VectorSource.DIRECT
            again, span = self.rows > schedule.rows, self.vector_span
            lines = self.vector_lines(schedule, rows, core)
        if packed or not again or span <= core.near_bytes:
            return 0.0
        return core.far_cycles(LINE_BYTES * lines, of=span)

    def _remembered(self, schedule: RegisterTile, rows: int, core: Core) -> float:
        """Steps whose lines stay in the first-level cache."""
        remembered = REREAD_SHARE * core.first_bytes / self._read_bytes(schedule, rows, 1.0)
        return min(remembered, schedule.depth - 1) if schedule.depth else remembered

    def _read_bytes(self, schedule: RegisterTile, rows: int, remembered: float) -> float:
        """Bytes of the lines that one step reads, and none of so many before it."""
        width = schedule.vectors * schedule.lanes
        panel = float(width * self.element_bytes)
        if schedule.source is VectorSource.DIRECT:
            lines = self.vector_reads.lines(width, remembered)
            panel = LINE_BYTES * (lines if self.across else ceil(panel / LINE_BYTES))
        if self.row_reads is None or not self.reads_rows_in_place(schedule):
            return panel + rows * self.element_bytes
        return panel + LINE_BYTES * self.row_reads.lines(rows, remembered)


def tiled_work(roles: Roles, vector: int, dialect: VectorDialect, threads: int) -> TiledWork:
    """That of a contraction with factor `vector` along the lanes, for so many threads."""
    factors, column = roles.contraction.factors, roles.vectors[-1]
    element_bytes, given = roles.contraction.dtype.bytes, roles.contraction.reads_given(vector)
    distance = None
    turned = False
    apart = 0
    result = affine(roles.contraction.result)
    result_bytes = prod(axis.extent for axis in roles.contraction.axes) * element_bytes
    if roles.rows:
        apart = abs(result.coefficient(roles.rows[-1]))
        turned = dialect.transposes and apart == 1
        distance = abs(factors[1 - vector].coefficient(roles.rows[-1])) * element_bytes
    return TiledWork(
        depth=prod(axis.extent for axis in roles.reduction),
        batch=prod(axis.extent for axis in roles.batch),
        outer_rows=prod(axis.extent for axis in roles.rows[:-1]),
        outer_columns=prod(axis.extent for axis in roles.vectors[:-1]),
        rows=roles.rows[-1].extent if roles.rows else 1,
        columns=column.extent,
        contiguous=result.coefficient(column) == 1,
        turned=turned,
        element_bytes=element_bytes,
        pack=1.0 / dialect.lanes * 2 if factors[vector].coefficient(column) == 1 else 1.2,
        row_distance=distance,
        row_reads=LineReads.of(roles, 1 - vector, roles.rows[-1]) if roles.rows else None,
        vector_reads=LineReads.of(roles, vector, column),
        vector_steps=_longest_steps(factors[vector], roles.reduction, element_bytes),
        row_steps=_longest_steps(factors[1 - vector], roles.reduction, element_bytes),
        across=dialect.lanes * element_bytes / LINE_BYTES
        if given
        else lying_across(
            factors[vector],
            (*roles.batch, *roles.vectors[:-1], *roles.reduction),
            dialect.lanes,
            element_bytes,
        ),
        given=given,
        row_streams=distance is not None
        and distance >= LINE_BYTES
        and bool(roles.reduction)
        and factors[1 - vector].coefficient(roles.reduction[-1]) == 1,
        row_span=element_bytes * _span(factors[1 - vector], (*roles.rows, *roles.reduction)),
        vector_span=element_bytes * _span(factors[vector], (*roles.vectors, *roles.reduction)),
        row_bytes=factor_bytes(roles, 1 - vector),
        vector_bytes=factor_bytes(roles, vector),
        result_distance=apart * element_bytes,
        column_distance=abs(result.coefficient(column)) * element_bytes,
        result_bytes=result_bytes,
        own_results=result_bytes / threads,
        residuals=len(epilogue_operands(roles.contraction)),
    )


def _longest_steps(index: Affine, axes: Sequence[Axis], element_bytes: int) -> tuple[int, int]:
    """The longest steps of a loop along one of these axes, in bytes, and how many it makes."""
    steps = [(abs(index.coefficient(axis)) * element_bytes, axis.extent) for axis in axes]
    return max(steps, default=(0, 1))


def _span(index: Affine, axes: Sequence[Axis]) -> int:
    """Elements from the first to the last that are read along these axes."""
    return sum(abs(index.coefficient(axis)) * (axis.extent - 1) for axis in axes)


def panels_are_lost(work: TiledWork, schedule: RegisterTile, core: Core) -> bool:
    """True if the second-level cache does not keep the next panel, if that is asked for, while it
    holds this one and the rows, which go over all of it before the next."""
    panel = work.depth * schedule.vectors * schedule.lanes * work.element_bytes
    return 2 * panel + work.row_span > core.costs.kept * core.near_bytes


def tiles_of(work: TiledWork, schedule: RegisterTile, core: Core) -> Work:
    """The tiles in the order of their loops, line by line. Lines whose columns are packed at run
    time are one piece."""
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
            tiles.append(repeated(number, (tile_cycles(work, schedule, core, *size),)))
        line: Work = repeated(across, tuple(tiles))
        if schedule.source is VectorSource.RUNTIME:
            line = cycles_of(line) + work.depth * length * (work.pack + core.costs.packed)
        lines.append(repeated(count, (line,)))
    return repeated(times, tuple(lines))


def lines_of(tiles: Work) -> Work:
    """The same where a line of tiles is one piece: what threads share without a grid."""
    return merged(tiles, 2)


def tile_cycles(
    work: TiledWork, schedule: RegisterTile, core: Core, rows: int, columns: int
) -> float:
    """Cycles of one tile of so many rows and columns."""
    dialect = core.dialect
    width = schedule.vectors * dialect.lanes
    depth = schedule.depth or work.depth
    load = core.vector_load(depth * work.panel_step_bytes(schedule, rows, core))
    broadcast = core.broadcast + _in_place_cost(work, schedule, core)
    vectors = -(-columns // dialect.lanes)
    loads = rows * broadcast + vectors * load
    moved = work.step_bytes(schedule, rows, core)
    first, *others = core.loads
    lost = bool(others) and depth * moved > first[0]
    late = LATE_STEP if dialect.broadcasts_apart and lost else 0.0
    torn = 0.0
    if schedule.source is VectorSource.DIRECT:
        lines = ceil(vectors * dialect.lanes * work.element_bytes / LINE_BYTES)
        collided = _line_cost(work.vector_steps, core)
        loads += lines * max(collided - load, 0.0) + vectors * work.across * (SPLIT_LOAD - 1.0)
        loads += MISSED_LOAD * vectors if lost else 0.0
        if work.given:
            meet = collided and work.vector_bytes <= core.near_bytes
            torn = core.costs.torn_step * work.across * (2.0 if meet else 1.0)
        late = LATE_LINE * lines if dialect.broadcasts_apart and (lost or collided) else late
    if work.reads_rows_in_place(schedule) and work.row_steps[0] >= LINE_BYTES:
        line = MISSED_LOAD if lost and dialect.broadcasts_apart else 0.0
        line += _line_cost(work.row_steps, core)
        loads += work.row_lines(schedule, rows, core) * line
    step = max(least_step(core, rows, vectors), loads / dialect.loads_per_cycle)
    if lost:
        step = max(step, moved / second_bytes(core, work.element_bytes))
        if core.costs.second_line:
            step = max(step, core.costs.second_line * work.scattered_lines(schedule, rows, core))
    # Blocks of sums are such that their panels stay in the first cache.
    again = lost and not schedule.depth
    if not schedule.vectors_outer:
        again = work.vector_span > core.first_bytes
    if others and again:
        step += core.costs.second_vector * vectors
    if others and (schedule.depth or lost):
        step += core.costs.row_line * work.awaited_lines(schedule, rows, core)
    step += torn + late
    step += work.far_cycles(schedule, rows, core)
    cycles = work.depth * step + _end_cycles(work, core, rows, columns)
    if core.costs.cut_line:
        cut = _cut_lines(work, schedule, rows, width, core) + _torn_lines(work, columns, core)
        cycles += core.costs.cut_line * cut
    cycles += core.costs.result_line * _jumped_lines(work, schedule, rows, columns, core)
    if schedule.depth:
        partial = rows * vectors * _partial_cycles(work, schedule, core)
        cycles += work.depth // depth * (partial + TILE_OVERHEAD)
    return cycles


def _partial_cycles(work: TiledWork, schedule: RegisterTile, core: Core) -> float:
    """Cycles to read and write a vector of partial sums: those of all rows wait for the next block,
    in the first-level cache or beyond it."""
    vectors = work.outer_rows * work.rows * schedule.vectors
    near = vectors * schedule.lanes * work.element_bytes <= core.first_bytes
    return core.costs.partial_sum if near else core.costs.far_partial_sum


def _jumped_lines(
    work: TiledWork, schedule: RegisterTile, rows: int, columns: int, core: Core
) -> float:
    """Lines beyond the second-level cache that one tile stores in pages in which the one before it
    has not stored, or has if columns are far from each other: half of them where it has asked for
    them."""
    if work.own_results <= core.near_bytes or not work.jumps(schedule.vectors_outer):
        return 0.0
    lines = rows * columns * work.element_bytes / LINE_BYTES
    distance = work.result_distance
    if not work.contiguous:
        distance = work.column_distance
        if not schedule.vectors_outer and work.columns > schedule.vectors * core.dialect.lanes:
            far = work.result_bytes > core.shared_bytes
            lines *= ALL_FAR_COLUMNS if far else ALL_COLUMNS
    lines *= min(distance / PAGE_BYTES, 1.0)
    return lines / 2 if schedule.epilogue_ahead else lines


def _cut_lines(work: TiledWork, schedule: RegisterTile, rows: int, width: int, core: Core) -> float:
    """Lines to which one tile of so many rows comes back: of results, and its share of those that
    the tiles of a panel read in place, or that it is packed from. Panels of whole lines begin
    inside one, too, where the factor does: that costs where lines so far apart have one place in
    the first-level cache, and come from beyond the second."""
    if not schedule.vectors_outer:
        return 0.0
    inside = width * work.element_bytes % LINE_BYTES != 0
    cut = 0.0
    results = work.outer_rows * work.rows
    if inside and work.contiguous and _collide(core, results, work.result_distance):
        cut += rows
    distance, steps = work.vector_steps
    in_lines = schedule.source is not VectorSource.PACKED and distance >= LINE_BYTES
    if in_lines and _collide(core, steps, distance):
        far_pages = distance % PAGE_BYTES == 0 and work.vector_bytes > core.near_bytes
        if inside or (work.given and far_pages):
            cut += work.depth / (work.outer_rows * -(-work.rows // schedule.rows))
    return cut


def _torn_lines(work: TiledWork, columns: int, core: Core) -> float:
    """Lines of results of which one tile of so many columns stores a few neighbours, and tiles of
    other batches (groups of channels) the others, when the first cache has lost them."""
    run = work.rows * work.element_bytes
    torn = work.batch > 1 and work.result_distance == work.element_bytes and run < LINE_BYTES
    return columns if torn and work.result_bytes > core.first_bytes else 0.0


def least_tile_cycles(work: TiledWork, core: Core, rows: int, columns: int) -> float:
    """Cycles that no tile of so many rows and columns takes less than: its store, and steps as if
    all that they load came from the first cache."""
    step = least_step(core, rows, -(-columns // core.dialect.lanes))
    return work.depth * step + _end_cycles(work, core, rows, columns)


def _end_cycles(work: TiledWork, core: Core, rows: int, columns: int) -> float:
    """Cycles of a tile beside its sums: to begin them, and to store vectors where its columns are
    neighbours, else elements."""
    lanes = core.dialect.lanes
    sums = rows * -(-columns // lanes)
    if work.contiguous:
        stored = VECTOR_STORE * sums
    elif work.turned:
        stored = TURNED_STORE * core.costs.shuffle * (rows + -(-rows // lanes) * lanes) * columns
    else:
        stored = TRANSPOSED_STORE * rows * columns
    return stored + overhead_cycles(core, sums)


def overhead_cycles(core: Core, sums: int) -> float:
    """Cycles of a tile of so many vectors of sums beside its steps and stores."""
    return TILE_OVERHEAD + core.tile_wait(sums)


def least_step(core: Core, rows: int, vectors: int) -> float:
    """Cycles that one step of a tile takes at least: its multiply-adds, and loads that hit."""
    dialect = core.dialect
    return max(
        sums_step(core, rows, vectors),
        (rows * core.broadcast + vectors) / dialect.loads_per_cycle,
    )


def sums_step(core: Core, rows: int, vectors: int) -> float:
    """Cycles that one multiply-add for each of rows x vectors sums takes, step after step."""
    dialect, costs, clock = core.dialect, core.costs, core.costs.clock
    cycles = rows * (vectors + dialect.broadcast_sums) / dialect.multiply_adds_per_cycle
    close = max(costs.close_chains - cycles / clock, 0.0)
    lost = min(costs.lost_slot * close, costs.most_lost)
    return max(cycles + lost * clock, MULTIPLY_ADD_LATENCY * clock)


def _line_cost(steps: tuple[int, int], core: Core) -> float:
    """Loads that the first element of a line costs which is read in place by steps of so many
    bytes, so many of them; 0 if no lines collide."""
    distance, count = steps
    if distance < LINE_BYTES or not _collide(core, count, distance):
        return 0.0
    period = core.second_cache // SECOND_WAYS
    lost = period and _share_sets(count, distance, period, SECOND_WAYS)
    return LOST_LINE if lost else CONFLICTING_LINE


def _in_place_cost(work: TiledWork, schedule: RegisterTile, core: Core) -> float:
    """Loads by which one broadcast element costs more where it is not read from a panel."""
    if not work.reads_rows_in_place(schedule) or work.row_distance is None:
        return 0.0
    collide = _collide(core, schedule.rows, work.row_distance)
    return CONFLICTING_BROADCAST if collide else core.costs.in_place


def _collide(core: Core, count: int, distance: int) -> bool:
    """Whether `count` places, `distance` bytes apart, drive each other out of the first-level
    cache."""
    return _share_sets(count, distance, PAGE_BYTES, core.first_ways)


def _share_sets(count: int, distance: int, period: int, ways: int) -> bool:
    """Whether so many places drive each other out of a cache in which addresses a `period` apart
    share a set of so many `ways`: those a multiple of a large power of two apart share a few of its
    sets."""
    lines = ways * (period // gcd(max(distance, LINE_BYTES), period))
    return count > lines * 3 // 4


def parts(extent: int, tile: int) -> Iterator[tuple[int, int]]:
    """(length, count) of the full tiles and of the tail."""
    full, rest = divmod(extent, tile)
    if full:
        yield tile, full
    if rest:
        yield rest, 1


def second_bytes(core: Core, element_bytes: int) -> float:
    """Bytes that a cycle gets from the second-level cache while tiles are computed."""
    _, load = core.loads[1]
    vector = core.dialect.lanes * element_bytes
    return SECOND_SHARE * vector * core.dialect.loads_per_cycle / load


def tile_counts(roles: Roles, schedule: RegisterTile) -> tuple[int, int]:
    """The number of tiles along the vector axes and along the row axes."""
    columns = prod(axis.extent for axis in roles.vectors[:-1])
    columns *= -(-roles.vectors[-1].extent // (schedule.vectors * schedule.lanes))
    rows = prod(axis.extent for axis in roles.rows[:-1])
    rows *= -(-roles.rows[-1].extent // schedule.rows) if roles.rows else 1
    return columns, rows

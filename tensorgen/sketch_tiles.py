"""Register tiles with zero trials: candidates for a contraction, and an estimate for each.

The estimates (`tile_costs`) rank schedules; they do not predict time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Generic, TypeVar

from tensorgen.contraction import Contraction, Roles, assign_roles
from tensorgen.crossing_lines import ALIKE, READ_ELSEWHERE, Team
from tensorgen.dense_copy import is_strided, with_copy
from tensorgen.dialects import VectorDialect
from tensorgen.epilogue_lines import chunk_lengths
from tensorgen.expr import Axis
from tensorgen.machine import Core
from tensorgen.padded_steps import needed_share, roles_without_padding
from tensorgen.prologue import Slab
from tensorgen.prologue_costs import EXPOSED, prologue_costs
from tensorgen.row_blocks import (
    block_cycles,
    blocks_in_place,
    far_again_cycles,
    panels_in_groups,
    row_blocks,
)
from tensorgen.schedule import RegisterTile, VectorSource
from tensorgen.shares import Work, busiest, cycles_of
from tensorgen.simplify import affine
from tensorgen.sketch_ahead import (
    MOST_ASKING,
    arrival_cycles,
    asked_in_vain,
    lines_asked,
    panels_pay,
)
from tensorgen.sketch_depth import block_depth, long_block_depth, taken_in
from tensorgen.target import PAGE_BYTES
from tensorgen.task import Task
from tensorgen.tile_costs import (
    TiledWork,
    least_tile_cycles,
    lines_of,
    parts,
    second_bytes,
    tile_counts,
    tiled_work,
    tiles_of,
)

MOST_VECTORS = 8
"""Vectors side by side in a tile."""

Chosen = TypeVar("Chosen", covariant=True)


@dataclass(frozen=True, slots=True)
class Estimate(Generic[Chosen]):
    """A schedule and the cycles that the busiest thread is expected to take."""

    schedule: Chosen
    cycles: float


def cheapest(estimates: Iterable[Estimate[Chosen]]) -> Estimate[Chosen]:
    """The one of fewest cycles; of several such, the first by name."""
    candidates = list(estimates)
    least = min(estimate.cycles for estimate in candidates)
    best = [estimate for estimate in candidates if estimate.cycles == least]
    return min(best, key=lambda estimate: str(estimate.schedule))


def register_tiles(
    task: Task, contraction: Contraction, core: Core, threads: int
) -> Iterator[Estimate[RegisterTile]]:
    """Every register tile worth considering, with its estimate."""
    for sketch in tile_sketches(task, contraction, core, threads):
        yield from sketch.by_rules()


def cheapest_tile(
    task: Task, contraction: Contraction, core: Core, threads: int
) -> Estimate[RegisterTile] | None:
    """The cheapest of `register_tiles`, of which few are estimated whole; None if there is none."""
    found: list[Estimate[RegisterTile]] = []
    within = inf
    for sketch in tile_sketches(task, contraction, core, threads):
        for estimate in sketch.promising(within):
            within = min(within, estimate.cycles)
            found.append(estimate)
    return cheapest(found) if found else None


def tile_sketches(
    task: Task, contraction: Contraction, core: Core, threads: int
) -> Iterator[TileSketch]:
    """The ways to read the factors of a contraction: which one lies along the lanes, and whether
    one of them is copied in front of the tiles, or its padding skipped. Those that skip steps come
    first: few of the others may take as little time, so that few are estimated whole."""
    for vector in (0, 1):
        bare = roles_without_padding(task, contraction, vector)
        if bare is not None and bare.vectors:
            constant = bare.contraction.constant(task)
            yield from sketches_for_roles(bare, vector, constant, core, threads)
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
        work = tiled_work(roles, vector, core.dialect, threads)
        if roles.contraction.guards:
            work = work.where_needed(needed_share(roles.contraction))
        outer = _vectors_outer(work)
        prologues = tuple(prologue_costs(roles, outer, core, threads, turned))
        return TileSketch(
            roles, vector, constant, together is not None, copied, core, threads, work, prologues
        )

    @property
    def skips_padding(self) -> bool:
        """Whether steps that would read padding are left out."""
        return bool(self.roles.contraction.guards)

    def sources(self, fewest_rows: int = 4) -> tuple[VectorSource, ...]:
        """How the vector factor may reach the registers. A factor known at compile time is relaid
        there, which costs nothing at run time; any other one is packed for so many rows."""
        if self.constant[self.vector]:
            return (VectorSource.PACKED,)
        factor = self.roles.contraction.factors[self.vector]
        in_order = factor.coefficient(self.roles.vectors[-1]) == 1
        direct = (VectorSource.DIRECT,) if in_order else ()
        # Panels would be packed from where steps that are skipped read.
        packs = self.work.rows >= fewest_rows and not self.skips_padding
        packed = (VectorSource.RUNTIME,) if packs else ()
        return (*direct, *packed)

    def shapes(self) -> Iterator[tuple[int, int]]:
        """Rows and vectors of the tiles that fit the registers."""
        asked = (self.work.rows, self.work.columns, self.core.dialect)
        yield from dict.fromkeys((*tile_shapes(*asked), *wide_shapes(*asked)))

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
        columns, rows = tile_counts(self.roles, schedule)
        if not schedule.vectors_outer:
            return schedule.row_packed and columns > 1
        if schedule.source is VectorSource.RUNTIME:
            return rows > 1 and lines_asked(self.roles, schedule) is not None
        return schedule.source is VectorSource.PACKED and rows > 1

    def sums_bytes(self, schedule: RegisterTile) -> int:
        """Bytes of the partial sums of all rows where sums are taken in blocks."""
        rows = prod(axis.extent for axis in self.roles.rows)
        return rows * schedule.vectors * schedule.lanes * self.work.element_bytes

    def by_rule(
        self, source: VectorSource, rows: int, vectors: int, turned_order: bool = False
    ) -> RegisterTile:
        """A tile of that size, all else chosen by rules. Threads share the outer loop, which is the
        other one in `turned_order`."""
        vectors_outer = _vectors_outer(self.work) != turned_order
        schedule = RegisterTile(
            self.vector,
            source,
            row_packed=self.constant[1 - self.vector] and bool(self.roles.rows),
            rows=rows,
            vectors=vectors,
            lanes=self.core.dialect.lanes,
            vectors_outer=source is VectorSource.RUNTIME or vectors_outer,
            parallel=self.threads > 1,
            turned=self.work.turned,
            together=self.together,
            copied=self.copied,
            skips_padding=self.skips_padding,
        )
        panels_ahead = panels_pay(self.roles, self.work, schedule, self.core)
        schedule = replace(
            schedule,
            ahead=self._ahead_pays(schedule),
            panels_ahead=panels_ahead,
            epilogue_ahead=self._epilogue_pays(schedule),
        )
        served = self._second_serves(schedule)
        return schedule if served else self._in_blocks(schedule)

    def _ahead_pays(self, schedule: RegisterTile) -> bool:
        """Whether tiles ask for the next one of the factor in place: no cache can foresee which
        line is read next, and the second one does not hold all."""
        factor, _ = self._in_place(schedule.source)
        along = factor == self.vector
        columns, rows = tile_counts(self.roles, schedule)
        inner = rows if along else columns
        if schedule.vectors_outer == along and inner > MOST_ASKING:
            return False
        read = self.work.vector_bytes if along else self.work.row_bytes
        return self.core.passes_by(read) and self.may_ask_ahead(schedule.source)

    def _epilogue_pays(self, schedule: RegisterTile) -> bool:
        """Whether the second-level cache does not hold the result with what the epilogue reads
        beside the sums, and that is something, or each row of a tile is stored in a page of its
        own."""
        work = self.work
        far = (work.residuals + 1) * work.result_bytes > self.core.near_bytes
        pages = work.contiguous and schedule.vectors_outer and work.result_distance >= PAGE_BYTES
        return far and (work.residuals > 0 or pages) and self.may_ask_for_epilogue

    @property
    def may_ask_for_epilogue(self) -> bool:
        """Whether results have neighbours in a tile, and the sums are long enough to ask for their
        lines meanwhile."""
        work = self.work
        beside = work.contiguous or work.result_distance == work.element_bytes
        return beside and bool(chunk_lengths(self.roles.reduction))

    def _second_serves(self, schedule: RegisterTile) -> bool:
        """Whether tiles read at most half of what the second-level cache gives in that time."""
        step = self.work.step_bytes(schedule, schedule.rows, self.core)
        cycles = schedule.rows * schedule.vectors / self.core.dialect.multiply_adds_per_cycle
        return step <= second_bytes(self.core, self.work.element_bytes) * cycles

    def _in_blocks(self, schedule: RegisterTile) -> RegisterTile:
        """The same with sums taken in blocks that the first-level cache holds, if they may be."""
        return taken_in(schedule, block_depth(self.roles, self.work, schedule, self.core))

    def _in_long_blocks(self, schedule: RegisterTile) -> RegisterTile:
        """The same with blocks that the second-level cache holds."""
        return taken_in(schedule, long_block_depth(self.roles, self.work, schedule, self.core))

    def by_rules(self) -> Iterator[Estimate[RegisterTile]]:
        """Every tile that fits the registers, in each way to make a prologue and to share it."""
        for source in self.sources():
            for rows, vectors in self.shapes():
                yield from self._of_shape(source, rows, vectors)

    def promising(self, within: float) -> Iterator[Estimate[RegisterTile]]:
        """Those of them that may take at most so many cycles, and as many as those before them."""
        shapes = sorted((self._least_cycles(*shape), shape) for shape in self.shapes())
        for source in self.sources():
            for least, shape in shapes:
                if least > within:
                    break
                for estimate in self._of_shape(source, *shape):
                    within = min(within, estimate.cycles)
                    yield estimate

    def _least_cycles(self, rows: int, vectors: int) -> float:
        """Cycles that tiles of that size take at least, all together, if threads have equal shares
        of them."""
        work, core = self.work, self.core
        tiles = sum(
            count * number * least_tile_cycles(work, core, length, width)
            for length, count in parts(work.rows, rows)
            for width, number in parts(work.columns, vectors * core.dialect.lanes)
        )
        return work.batch * work.outer_rows * work.outer_columns * tiles / self.threads

    def _of_shape(
        self, source: VectorSource, rows: int, vectors: int
    ) -> Iterator[Estimate[RegisterTile]]:
        """The tiles of one size, in each way to make a prologue and to share them."""
        schedule = self.by_rule(source, rows, vectors)
        yield from self._shared(schedule)
        if self._order_matters(schedule):
            yield from self._shared(self.by_rule(source, rows, vectors, turned_order=True))
        in_vain = asked_in_vain(self.work, schedule, self.core)
        blocked = [self._in_blocks(schedule)] if self.skips_padding or in_vain else []
        blocked += [self._in_long_blocks(schedule)] if in_vain else []
        for tile in blocked:
            if tile.depth:
                yield from self._shared(tile)

    def _shared(self, schedule: RegisterTile) -> Iterator[Estimate[RegisterTile]]:
        """The same tiles in each way to make a prologue, to pack rows and to share them out."""
        source = schedule.source
        tiles = tiles_of(self.work, schedule, self.core)
        lines = lines_of(tiles)
        for made in self.prologues:
            if made[0]:
                placed = replace(schedule, prologue=made[0])
                yield Estimate(placed, self._cycles(placed, lines, made))
                continue
            yield Estimate(schedule, self._cycles(schedule, lines, made))
            if self.may_pack_rows(source):
                yield from self._row_blocks(schedule)
            yield from self._blocks_in_place(schedule)
            yield from self._panels_in_groups(schedule)
            if self.threads > 1 and source is not VectorSource.RUNTIME:
                yield from self._grids(schedule, tiles, lines, made)

    def _order_matters(self, schedule: RegisterTile) -> bool:
        """Whether the other order of the loops over tiles is worth an estimate: results go on from
        tile to tile in it, where the core stores in new pages at a price."""
        plain = schedule.source is not VectorSource.RUNTIME and not schedule.prologue
        outer = schedule.vectors_outer
        jumps = self.work.jumps(outer) and outer == self.work.contiguous and bool(self.roles.rows)
        far = self.work.own_results > self.core.near_bytes
        return plain and jumps and far and self.core.costs.result_line > 0.0

    def may_pack_rows(self, source: VectorSource) -> bool:
        """Whether the broadcast factor may be packed at run time: each of its rows is a stream, the
        other factor is not packed then, too, and no prologue stands between it and the tiles."""
        known = self.constant[1 - self.vector] or not self.work.row_streams
        plain = self.roles.contraction.prologue is None and not self.skips_padding
        return plain and not known and source is not VectorSource.RUNTIME

    def _row_blocks(self, schedule: RegisterTile) -> Iterator[Estimate[RegisterTile]]:
        """The same tile with its rows packed in blocks."""
        for blocked in row_blocks(self.work, schedule, self.core, self.threads):
            ahead = panels_pay(self.roles, self.work, blocked, self.core)
            found = replace(
                blocked, panels_ahead=ahead, epilogue_ahead=self._epilogue_pays(blocked)
            )
            yield Estimate(found, self.cycles(found))

    def may_share_rows(self, source: VectorSource) -> bool:
        """Whether threads may have blocks of rows that stay in place: these are read so, panels of
        vector tiles are not packed for each, and no prologue is made for all."""
        plain = self.roles.contraction.prologue is None and source is VectorSource.PACKED
        return plain and bool(self.roles.rows) and not self.constant[1 - self.vector]

    def _blocks_in_place(self, schedule: RegisterTile) -> Iterator[Estimate[RegisterTile]]:
        """The same tile where threads share the rows and not the vector tiles."""
        if not schedule.vectors_outer or not self.may_share_rows(schedule.source):
            return
        blocked = blocks_in_place(self.work, schedule, self.threads)
        if blocked is not None:
            ahead = panels_pay(self.roles, self.work, blocked, self.core)
            found = replace(blocked, panels_ahead=ahead)
            yield Estimate(found, self.cycles(found))

    def _panels_in_groups(self, schedule: RegisterTile) -> Iterator[Estimate[RegisterTile]]:
        """The same tile where blocks of rows go over panels that the shared cache holds."""
        if not self.may_share_rows(schedule.source):
            return
        grouped = panels_in_groups(self.work, schedule, self.core, self.threads)
        if grouped is not None:
            ahead = panels_pay(self.roles, self.work, grouped, self.core)
            epilogue = self._epilogue_pays(grouped)
            found = replace(grouped, panels_ahead=ahead, epilogue_ahead=epilogue)
            yield Estimate(found, self.cycles(found))

    def _grids(
        self,
        schedule: RegisterTile,
        tiles: Work,
        lines: Work,
        made: tuple[int, float, float],
    ) -> Iterator[Estimate[RegisterTile]]:
        """The same tile where threads share tiles and not lines of them, if that is better."""
        if schedule.depth or busiest(tiles, self.threads) >= busiest(lines, self.threads):
            return
        grid = replace(schedule, grid=True)
        yield Estimate(grid, self._cycles(grid, tiles, made))

    def cycles(self, schedule: RegisterTile) -> float:
        """The cycles that the busiest thread is expected to take for one of these tiles."""
        if schedule.row_block:
            blocks = block_cycles(self.work, schedule, self.core, self.threads)
            met = self.core.barrier if self.threads > 1 else 0.0
            waited = EXPOSED * self._panel_cycles(schedule)
            return blocks + met + waited + self._crossing_cycles(schedule)
        made = next(made for made in self.prologues if made[0] == schedule.prologue)
        tiles = tiles_of(self.work, schedule, self.core)
        return self._cycles(schedule, tiles if schedule.grid else lines_of(tiles), made)

    def _cycles(self, schedule: RegisterTile, lines: Work, made: tuple[int, float, float]) -> float:
        """The cycles of the busiest thread for the tiles and a prologue."""
        inside, copied, share = made
        met = self.core.barrier if self.threads > 1 else 0.0
        tiles = cycles_of(lines) * share if inside else busiest(lines, self.threads)
        late = self._late_cycles(schedule) + self._panel_cycles(schedule) / self.threads
        again = 0.0
        if self.roles.contraction.prologue is None:
            again = far_again_cycles(self.work, schedule, self.core, self.threads)
        streamed = self._stream_cycles(schedule)
        waits = max(streamed - tiles, 0.0) + self.core.costs.stream * min(streamed, tiles)
        crossing = 0.0 if inside else self._crossing_cycles(schedule)
        return tiles + copied + met + EXPOSED * late + again + waits + crossing

    def _crossing_cycles(self, schedule: RegisterTile) -> float:
        """Cycles in which lines come to one thread that others have made or read, in front of the
        kernel and behind it."""
        roles, work, threads = self.roles, self.work, self.threads
        contraction = roles.contraction
        all_packed = work.packs_all_rows(schedule)
        rows_shared = not schedule.vectors_outer or (schedule.row_block > 0 and not all_packed)
        loops = (*roles.batch, *(roles.rows if rows_shared else roles.vectors))
        shared = next((axis for axis in loops if axis.extent > 1), None)
        if threads == 1 or shared is None:
            return 0.0
        team, result = Team.of(self.core, threads), affine(contraction.result)
        moved = team.made_elsewhere(work.result_bytes, result, contraction.axes, shared)
        if any(self.constant[f] and not contraction.factors[f].coefficient(shared) for f in (0, 1)):
            moved *= ALIKE
        axes = (*contraction.axes, *roles.reduction)
        for factor in (0, 1):
            made = contraction.prologue is not None and contraction.prologue.factor == factor
            packed = all_packed and factor != self.vector
            amount = work.vector_bytes if factor == self.vector else work.row_bytes
            if not (self.constant[factor] or made or packed):
                index = contraction.factors[factor]
                moved += READ_ELSEWHERE * team.read_elsewhere(amount, index, axes, shared)
        return self.core.crossing_cycles(moved, threads)

    def _panel_cycles(self, schedule: RegisterTile) -> float:
        """Cycles in which panels of the outer loop arrive from beyond the second-level cache, if
        nobody has asked for them in time."""
        packed = schedule.source is not VectorSource.DIRECT and schedule.vectors_outer
        if not packed:
            return 0.0
        if schedule.panels_ahead and not asked_in_vain(self.work, schedule, self.core):
            return 0.0
        runtime = schedule.source is VectorSource.RUNTIME
        waited = self.core.costs.packed_wait if runtime else 1.0
        return waited * arrival_cycles(schedule, self.work.vector_bytes, self.core)

    def _stream_cycles(self, schedule: RegisterTile) -> float:
        """Cycles in which packed elements of the inner loop arrive from beyond the second-level
        cache of the busiest thread, anew for each tile of the outer one."""
        columns, rows = tile_counts(self.roles, schedule)
        packed, read, turns = schedule.source is VectorSource.PACKED, self.work.vector_bytes, rows
        if schedule.vectors_outer:
            packed, read, turns = schedule.row_packed, self.work.row_bytes, columns
        if not packed or not self.core.costs.stream or read <= self.core.near_bytes:
            return 0.0
        return self.core.far_cycles(read) * turns / self.threads

    def _late_cycles(self, schedule: RegisterTile) -> float:
        """Cycles in which constants of the inner loop arrive for the first time in a run: they are
        not asked for ahead, as panels of the outer one are."""
        inner, known = self.work.vector_bytes, schedule.source is VectorSource.PACKED
        if schedule.vectors_outer:
            inner, known = self.work.row_bytes, schedule.row_packed
        return self.core.first_cycles(inner) if known else 0.0


def _read_together(roles: Roles, together: int) -> Roles:
    """The same with the prologue read where it lies together."""
    contraction = roles.contraction
    prologue = contraction.prologue
    assert prologue is not None
    read = Slab.of(prologue, (), together).read
    first, second = contraction.factors
    factors = (read, second) if prologue.factor == 0 else (first, read)
    return replace(roles, contraction=replace(contraction, factors=factors))


def tile_shapes(rows: int, columns: int, dialect: VectorDialect) -> Iterator[tuple[int, int]]:
    """Tiles whose accumulators, vectors and broadcasts fit the registers."""
    needed = -(-columns // dialect.lanes)
    for vectors in range(1, min(max(needed, 1), MOST_VECTORS) + 1):
        free = dialect.registers - dialect.temporaries - vectors
        # Where all rows load ahead, each has a register for its element: one is counted already.
        most = (free + 1) // (vectors + 1) if dialect.loads_ahead else free // vectors
        for length in range(1, min(rows, most) + 1):
            yield length, vectors


def wide_shapes(rows: int, columns: int, dialect: VectorDialect) -> Iterator[tuple[int, int]]:
    """Tiles of all rows and more vectors than these: elements are held in registers, and vectors
    loaded one by one, beside the mask of a last one that is cut. None where all loads are moved
    ahead."""
    if dialect.loads_ahead:
        return
    needed, cut = -(-columns // dialect.lanes), columns % dialect.lanes > 0
    room = (dialect.registers - dialect.temporaries - rows - cut) // rows
    for vectors in range(rows + 1, min(needed, room, MOST_VECTORS) + 1):
        yield rows, vectors


def _vectors_outer(work: TiledWork) -> bool:
    """Put the loop over the larger operand's tiles outside, so that the smaller one is reread."""
    return work.vector_bytes >= work.row_bytes

"""Register tiles as a space: one sketch for each way to read the factors, knobs for all else.

What rules decide with zero trials (the order of loops, what is asked for ahead, blocks of sums, who
makes a prologue, what threads share) are knobs here. Legal is what `lower_contraction` can make and
whose partial sums fit the second-level cache, or those of the rule; the order of every sum is the
same throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tensorgen.contraction import Contraction, Roles
from tensorgen.machine import Core
from tensorgen.packing import cut_lengths, length_of
from tensorgen.row_blocks import MOST_AT_ONCE, blocks_in_place, panels_in_groups, row_blocks
from tensorgen.schedule import RegisterTile, Schedule, VectorSource
from tensorgen.sketch_depth import LEAST_DEPTH
from tensorgen.sketch_tiles import TileSketch, tile_sketches
from tensorgen.task import Task
from tensorgen.tune.space import Knob, Settings, Sketch

FEWEST_ROWS_TO_PACK = 2
"""Rows for which the vector factor may be packed at run time; the rule asks for more."""

DEPARTURE = 1.01
"""Factor of the estimate for each decision against the rules, of which it knows little."""

FLAGS = (False, True)


def tile_space(
    task: Task, contraction: Contraction, core: Core, threads: int, *, strict: bool
) -> Iterator[Sketch]:
    """The sketches of a contraction in register tiles. If `strict`, only those that add up in the
    order that the contraction as it is written has."""
    ways: dict[tuple[int | None, bool, int], list[TileSketch]] = {}
    for count in sorted({1, threads}):
        for tiles in tile_sketches(task, contraction, core, count):
            way = (tiles.copied, tiles.skips_padding, tiles.vector)
            ways.setdefault(way, []).append(tiles)
    plain = {
        _order(tiles.roles)
        for (copied, skips_padding, _), found in ways.items()
        for tiles in found
        if copied is None and not skips_padding
    }
    for (copied, skips_padding, vector), found in ways.items():
        moved = copied is not None or skips_padding
        if strict and moved and {_order(tiles.roles) for tiles in found} - plain:
            continue
        for source in found[0].sources(FEWEST_ROWS_TO_PACK):
            name = f"tile {source.value} {vector}" + ("" if copied is None else " copied")
            name += " bare" if skips_padding else ""
            variants = {(tiles.together, tiles.threads > 1): tiles for tiles in found}
            yield TileSpace(variants, source, core).sketch(name)


def _order(roles: Roles) -> tuple[int, ...]:
    """What tells in which order products are added: the extents of the loops over them."""
    return tuple(axis.extent for axis in roles.reduction)


@dataclass(frozen=True)
class TileSpace:
    """The tiles whose vector factor comes from one source; `variants` by whether a prologue lies
    together, and whether threads share the tiles."""

    variants: Mapping[tuple[bool, bool], TileSketch]
    source: VectorSource
    core: Core

    @property
    def any(self) -> TileSketch:
        """One of the variants, for what they have in common."""
        return next(iter(self.variants.values()))

    @cached_property
    def shapes(self) -> frozenset[tuple[int, int]]:
        """Rows and vectors that fit the registers."""
        return frozenset(self.any.shapes())

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Lengths of blocks of the sums that go round; 0 for sums as a whole."""
        if not self.any.roles.rows:
            return (0,)
        return (0, *block_depths(self.any.roles))

    @cached_property
    def row_blocks(self) -> tuple[int, ...]:
        """How many blocks of rows there may be: of packed ones the numbers of the rule, twice and
        four times as many, and a block for each thread; 0 for rows that are no blocks."""
        found = {0}
        for variant, tiles in self.variants.items():
            packs, stays = tiles.may_pack_rows(self.source), tiles.may_share_rows(self.source)
            for rows, vectors in self.shapes if packs or stays else ():
                rule = self._rule(variant, rows, vectors)
                if packs:
                    for blocked in row_blocks(tiles.work, rule, self.core, tiles.threads):
                        count = _blocks(tiles.work.rows, blocked)
                        found |= {count, 2 * count, 4 * count}
                in_place = blocks_in_place(tiles.work, rule, tiles.threads) if stays else None
                grouped = _grouped(tiles, rule) if stays else None
                found |= {_blocks(tiles.work.rows, b) for b in (in_place, grouped) if b is not None}
        return tuple(sorted(found))

    @cached_property
    def panel_groups(self) -> tuple[int, ...]:
        """How many groups of panels blocks of rows may go over one after the other: the number of
        the rule, half and twice as many; 0 for panels that are no groups."""
        found = {0}
        for variant, tiles in self.variants.items():
            for rows, vectors in self.shapes if tiles.may_share_rows(self.source) else ():
                rule = self._rule(variant, rows, vectors)
                grouped = _grouped(tiles, rule)
                if grouped is not None and grouped.panel_group:
                    groups = -(-_panels(tiles, grouped) // grouped.panel_group)
                    found |= {max(groups // 2, 2), groups, 2 * groups}
        return tuple(sorted(found))

    @property
    def may_share_rows(self) -> bool:
        """Whether threads may have blocks of rows that stay in place."""
        return any(tiles.may_share_rows(self.source) for tiles in self.variants.values())

    def sketch(self, name: str) -> Sketch:
        """The sketch of these tiles."""
        return Sketch(
            name,
            "register_tile",
            self.knobs,
            self.build,
            self.read,
            self.seconds,
            self.facts(),
        )

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        """The decisions, those that never matter for this contraction with one value."""
        tiles, source = self.any, self.source
        may_turn = tiles.work.turned
        packs_rows = tiles.constant[1 - tiles.vector] and bool(tiles.roles.rows)
        inside = sorted({made[0] for found in self.variants.values() for made in found.prologues})
        parallel = tuple(sorted({parallel for _, parallel in self.variants}))
        ahead = any(found.may_ask_ahead(source) for found in self.variants.values())
        packs = source is not VectorSource.DIRECT or packs_rows
        grids = parallel[-1] and source is not VectorSource.RUNTIME
        orders = (True,) if source is VectorSource.RUNTIME else FLAGS
        return (
            Knob("rows", tuple(range(1, max(rows for rows, _ in self.shapes) + 1))),
            Knob("vectors", tuple(range(1, max(vectors for _, vectors in self.shapes) + 1))),
            Knob("vectors_outer", orders),
            Knob("row_packed", FLAGS if packs_rows else (False,)),
            Knob("ahead", FLAGS if ahead else (False,)),
            Knob("panels_ahead", FLAGS if packs else (False,)),
            Knob("epilogue_ahead", FLAGS if tiles.may_ask_for_epilogue else (False,)),
            Knob("depth", self.depths),
            Knob("row_blocks", self.row_blocks),
            Knob("block_in_place", FLAGS if self.may_share_rows else (False,)),
            Knob("panel_groups", self.panel_groups),
            Knob("turned", FLAGS if may_turn else (False,)),
            Knob("together", tuple(sorted({together for together, _ in self.variants}))),
            Knob("prologue", tuple(inside)),
            Knob("grid", FLAGS if grids else (False,)),
            Knob("parallel", parallel),
        )

    def build(self, settings: Settings) -> RegisterTile | None:
        """The tile of these settings; None if it is none."""
        tiles = self.variants.get((bool(settings["together"]), bool(settings["parallel"])))
        shape = int(settings["rows"]), int(settings["vectors"])
        # Most points at random end here: nothing is made of them.
        if tiles is None or shape not in self.shapes:
            return None
        rows, vectors = shape
        schedule = RegisterTile(
            tiles.vector,
            self.source,
            row_packed=bool(settings["row_packed"]),
            rows=rows,
            vectors=vectors,
            lanes=self.core.dialect.lanes,
            vectors_outer=bool(settings["vectors_outer"]),
            parallel=bool(settings["parallel"]),
            grid=bool(settings["grid"]),
            ahead=bool(settings["ahead"]),
            panels_ahead=bool(settings["panels_ahead"]),
            epilogue_ahead=bool(settings["epilogue_ahead"]),
            turned=bool(settings["turned"]),
            prologue=int(settings["prologue"]),
            together=bool(settings["together"]),
            copied=tiles.copied,
            skips_padding=tiles.skips_padding,
            depth=int(settings["depth"]),
            row_block=_rows_of_block(tiles.work.rows, rows, int(settings["row_blocks"])),
            block_in_place=bool(settings["block_in_place"]),
        )
        groups = int(settings["panel_groups"])
        if groups:
            schedule = replace(schedule, panel_group=-(-_panels(tiles, schedule) // groups))
        return schedule if self._is_legal(tiles, schedule) else None

    def _is_legal(self, tiles: TileSketch, schedule: RegisterTile) -> bool:
        """Whether the parts of a tile that fits the registers fit each other."""
        if schedule.prologue not in {made[0] for made in tiles.prologues}:
            return False
        if schedule.ahead and not tiles.may_ask_ahead(self.source):
            return False
        if schedule.panels_ahead and not tiles.may_ask_for_panels(schedule):
            return False
        if schedule.epilogue_ahead and schedule.depth:
            return False
        if schedule.row_block and not self._may_block(tiles, schedule):
            return False
        if schedule.block_in_place and not schedule.row_block:
            return False
        if schedule.panel_group and not self._may_group(tiles, schedule):
            return False
        if schedule.grid and (schedule.depth or schedule.prologue or not schedule.parallel):
            return False
        if not schedule.depth:
            return True
        if not schedule.vectors_outer:
            return False
        if tiles.sums_bytes(schedule) <= self.core.second_cache:
            return True
        variant = (schedule.together, schedule.parallel)
        return schedule.depth == self._rule(variant, schedule.rows, schedule.vectors).depth

    def _may_block(self, tiles: TileSketch, schedule: RegisterTile) -> bool:
        """Whether rows may come in such blocks: all else is as they need it, and packed ones fit in
        the caches near a core."""
        other = (schedule.row_packed, schedule.depth, schedule.grid, schedule.prologue)
        if any(other) or not schedule.vectors_outer:
            return False
        if schedule.block_in_place:
            return tiles.may_share_rows(self.source)
        if not tiles.may_pack_rows(self.source):
            return False
        # What would be asked for ahead is packed by then.
        if schedule.ahead and self.source is not VectorSource.DIRECT:
            return False
        work = tiles.work
        size = schedule.row_block * work.depth * work.element_bytes
        return size <= MOST_AT_ONCE * self.core.second_cache

    def _may_group(self, tiles: TileSketch, schedule: RegisterTile) -> bool:
        """Whether several blocks of rows may go over several groups of panels."""
        blocks = 0 < schedule.row_block < tiles.work.rows
        return blocks and 1 < schedule.panel_group < _panels(tiles, schedule)

    def _rule(self, variant: tuple[bool, bool], rows: int, vectors: int) -> RegisterTile:
        """The tile of a size that rules choose."""
        size = (variant, rows, vectors)
        known = self._rules.get(size)
        if known is None:
            known = self.variants[variant].by_rule(self.source, rows, vectors)
            self._rules[size] = known
        return known

    @cached_property
    def _rules(self) -> dict[tuple[tuple[bool, bool], int, int], RegisterTile]:
        return {}

    def read(self, schedule: Schedule) -> Settings | None:
        """The settings of a schedule; None if it reads its factors in another way."""
        if not isinstance(schedule, RegisterTile):
            return None
        tiles = self.any
        way = (schedule.vector_operand, schedule.source, schedule.copied, schedule.skips_padding)
        if way != (tiles.vector, self.source, tiles.copied, tiles.skips_padding):
            return None
        if schedule.backwards:
            return None
        settings = {
            knob.name: getattr(schedule, knob.name)
            for knob in self.knobs
            if knob.name not in ("row_blocks", "panel_groups")
        }
        blocks, groups = self._blocks_of(schedule), self._groups_of(schedule)
        return {**settings, "row_blocks": blocks, "panel_groups": groups}

    def _blocks_of(self, schedule: RegisterTile) -> int:
        """The fewest blocks that are as long as those of a schedule, of about as many."""
        if not schedule.row_block:
            return 0
        rows = self.any.work.rows
        known = [blocks for blocks in self.row_blocks if blocks]
        return min(
            known,
            key=lambda blocks: (
                abs(_rows_of_block(rows, schedule.rows, blocks) - schedule.row_block), blocks
            ),
            default=_blocks(rows, schedule),
        )  # fmt: skip

    def _groups_of(self, schedule: RegisterTile) -> int:
        """The number of groups that are as large as those of a schedule, of about as many."""
        if not schedule.panel_group:
            return 0
        panels = _panels(self.any, schedule)
        known = [groups for groups in self.panel_groups if groups]
        return min(
            known,
            key=lambda groups: (abs(-(-panels // groups) - schedule.panel_group), groups),
            default=-(-panels // schedule.panel_group),
        )

    def seconds(self, schedule: Schedule) -> float:
        """The estimate, a little more for each decision against the rules."""
        assert isinstance(schedule, RegisterTile)
        variant = (schedule.together, schedule.parallel)
        tiles = self.variants[variant]
        rule = self._rule(variant, schedule.rows, schedule.vectors)
        decided = (
            "vectors_outer", "row_packed", "ahead", "panels_ahead", "epilogue_ahead", "turned",
            "depth",
        )  # fmt: skip
        against = sum(getattr(schedule, name) != getattr(rule, name) for name in decided)
        seconds = tiles.cycles(schedule) / self.core.frequency
        return seconds * float(DEPARTURE**against)

    def facts(self) -> dict[str, float]:
        """Sizes of the contraction as these tiles see it."""
        tiles = self.any
        work = tiles.work
        return {
            "extent": work.rows,
            "columns": work.columns,
            "sum": work.depth,
            "repeated": work.batch * work.outer_rows * work.outer_columns,
            "lanes": self.core.dialect.lanes,
            "element_bytes": work.element_bytes,
            "vector_packed": self.source is not VectorSource.DIRECT,
            "row_distance": work.row_distance or 0,
            "contiguous": work.contiguous,
            "copied": tiles.copied is not None,
        }


def _grouped(tiles: TileSketch, rule: RegisterTile) -> RegisterTile | None:
    """The tile with its panels in groups, if that may pay."""
    return panels_in_groups(tiles.work, rule, tiles.core, tiles.threads)


def _panels(tiles: TileSketch, schedule: RegisterTile) -> int:
    """The number of vector tiles along the axis that they lie on."""
    return -(-tiles.work.columns // (schedule.vectors * schedule.lanes))


def _blocks(rows: int, schedule: RegisterTile) -> int:
    """The number of blocks of packed rows."""
    return -(-rows // schedule.row_block)


def _rows_of_block(rows: int, height: int, blocks: int) -> int:
    """The length of so many blocks of whole tiles, about equal; 0 of none."""
    tiles = -(-rows // height)
    return -(-tiles // blocks) * height if blocks else 0


def block_depths(roles: Roles) -> tuple[int, ...]:
    """The lengths of blocks in which a sum can be taken, shortest first: whole loops of the inner
    axes, a divisor of the next."""
    total = length_of(roles.reduction)
    return tuple(depth for depth in cut_lengths(roles.reduction) if LEAST_DEPTH <= depth < total)

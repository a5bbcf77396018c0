"""Rows in blocks: all vector tiles go over one block of rows before the next.

A block is packed in front of them, or stays where it lies; threads share the blocks, or all of them
pack the only one and share the vector tiles. Vector tiles may come in groups, so that all blocks go
over the panels of one group before those of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tensorgen.contraction import Roles
from tensorgen.expr import Axis
from tensorgen.loop import Allocate, Buffer, LoopKind, Numbers, Space, Stmt, nested
from tensorgen.packing import length_of
from tensorgen.schedule import RegisterTile, ScheduleError, VectorSource
from tensorgen.simplify import simplify
from tensorgen.tile_runs import Block, Turns, turns_of

LoopsOf = Callable[[Turns], tuple[Axis, ...]]
"""The loops that go over some tiles, and around them over the outer axes of their factor."""


def check_row_block(schedule: RegisterTile, roles: Roles) -> None:
    """Raises ScheduleError where the broadcast factor cannot come in blocks of rows."""
    packs = schedule.row_packed or schedule.depth or schedule.source is VectorSource.RUNTIME
    if packs or schedule.grid or not schedule.vectors_outer or not roles.rows:
        raise ScheduleError(
            "register_tile: expected rows inside the loop over vector tiles, a broadcast factor "
            f"not packed yet and whole sums, for rows packed in blocks, got {schedule}"
        )
    if schedule.row_block % schedule.rows:
        raise ScheduleError(
            f"register_tile: expected blocks of a multiple of {schedule.rows} rows, "
            f"got {schedule.row_block}"
        )
    every = schedule.row_block >= roles.rows[-1].extent and not schedule.block_in_place
    if schedule.panel_group and (every or len(roles.vectors) > 1):
        raise ScheduleError(
            "register_tile: expected several blocks of rows and one axis of vectors, for vector "
            f"tiles in groups, got {schedule}"
        )


def row_panel(
    schedule: RegisterTile, roles: Roles, fixed: Sequence[Axis], numbers: Numbers
) -> Buffer | None:
    """The buffer for a packed block of rows while the `fixed` axes stand still: each thread has
    one, or all together if there is one block for everything. None where no rows are packed."""
    if not schedule.row_block or schedule.block_in_place:
        return None
    *outer, last = roles.rows
    one = not (roles.batch or outer or fixed) and last.extent <= schedule.row_block
    rows = min(schedule.row_block, -(-last.extent // schedule.rows) * schedule.rows)
    size = length_of(roles.reduction) * rows
    space = Space.SHARED if one and schedule.parallel else Space.SCRATCH
    return numbers.buffer("rows", roles.contraction.dtype, size, space)


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """The blocks of rows of a contraction, packed into `panel` unless that is None."""

    schedule: RegisterTile
    roles: Roles
    panel: Buffer | None

    def loops(
        self,
        batch: tuple[Axis, ...],
        across: LoopsOf,
        along: LoopsOf,
        kind: LoopKind,
        numbers: Numbers,
        tile: Callable[[Block, Block], tuple[Stmt, ...]],
        packed: Callable[[Buffer, Block], tuple[Stmt, ...]],
    ) -> Iterator[Stmt]:
        """The loops over all of them: `across` rows and `along` vectors, `tile` computes a tile of
        these, and `packed` copies the rows of one into the panel. Threads share what is of that
        `kind`: the blocks, or what each of them does."""
        schedule, panel = self.schedule, self.panel
        last, vectors = self.roles.rows[-1], self.roles.vectors[-1]
        width = schedule.vectors * schedule.lanes
        outside, inside = kind, LoopKind.SERIAL
        if panel is not None and panel.space is Space.SHARED:
            outside, inside = inside, outside

        def tiles_of(group: Block | None) -> tuple[Turns, ...]:
            if group is None:
                shared = inside is LoopKind.PARALLEL
                return turns_of(
                    numbers, vectors.name, vectors.extent, width, shared, schedule.backwards
                )
            first = simplify(group.tile * schedule.panel_group)
            runs = turns_of(numbers, vectors.name, group.length, width, False, schedule.backwards)
            return tuple(run.moved(group.start, first) for run in runs)

        def block(group: Block | None, rows: Block) -> tuple[Stmt, ...]:
            runs = tuple(
                run.moved(rows.start)
                for run in turns_of(numbers, last.name, rows.length, schedule.rows, False)
            )

            def line(column: Block) -> tuple[Stmt, ...]:
                tiles: tuple[Stmt, ...] = ()
                for run in runs:
                    tiles += nested(run.loop, tile(run.block, column), LoopKind.SERIAL)
                return tiles

            body: list[Stmt] = []
            if panel is not None:
                for run in runs:
                    body.extend(nested(run.loop, packed(panel, run.block), inside))
            for turns in tiles_of(group):
                body.extend(nested(along(turns), turns.chosen(line), inside))
            return tuple(body) if panel is None else (Allocate(panel, tuple(body)),)

        name, whole = f"{last.name}_block", outside is LoopKind.PARALLEL

        def blocks(group: Block | None) -> tuple[Stmt, ...]:
            made: tuple[Stmt, ...] = ()
            for turns in turns_of(numbers, name, last.extent, schedule.row_block, whole):
                made += nested(
                    (*batch, *across(turns)), turns.chosen(partial(block, group)), outside
                )
            return made

        if not schedule.panel_group:
            yield from blocks(None)
            return
        for groups in turns_of(
            numbers, f"{vectors.name}_group", vectors.extent, schedule.panel_group * width, False,
            schedule.backwards,
        ):  # fmt: skip
            yield from nested(groups.loop, blocks(groups.block), LoopKind.SERIAL)

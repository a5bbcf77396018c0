"""Attention with zero trials: the tiles of its contractions, by the estimate of their cycles.

The tiles of both contractions have the same rows: lower ones would read all keys, or all values,
again for each. A block is one row of such tiles, or a few where a softmax is held in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from tensorgen.attention import Attention
from tensorgen.machine import Core
from tensorgen.packing import meets_rows_in_blocks
from tensorgen.schedule import AttentionTile, RegisterTile, RowStages, VectorSource
from tensorgen.sketch_tiles import Estimate, cheapest, tiles_for_roles
from tensorgen.target import LINE_BYTES
from tensorgen.task import Task

RUNTIME = (False, False)
"""No factor is known at compile time."""


def attention_estimates(
    task: Task, attention: Attention, stages: RowStages, core: Core, threads: int
) -> Iterator[Estimate[AttentionTile]]:
    """The schedules worth considering where the rows are worked on by `stages`, with the cycles of
    their contractions."""
    dtype = attention.scores.contraction.dtype
    stride = row_lines(task, attention) * LINE_BYTES // dtype.bytes
    best = _by_rows(tiles_for_roles(attention.scores, attention.scores_vector, RUNTIME, core, 1))
    weighted = None
    if attention.weighted is not None:
        weighted = _by_rows(
            tiles_for_roles(attention.weighted, attention.weighted_vector, RUNTIME, core, 1)
        )
    for length, scores in best.items():
        second = None if weighted is None else weighted[length]
        rows = length * block_tiles(attention, stages, length)
        parts, share = _parts(attention, rows, threads)
        schedule = AttentionTile(
            rows,
            stride,
            scores.schedule,
            stages,
            None if second is None else second.schedule,
            parts,
            threads > 1,
            summed_rows(attention, core) if packs_in_blocks(scores.schedule, core) else 0,
        )
        cycles = scores.cycles + (0.0 if second is None else second.cycles)
        yield Estimate(schedule, cycles * share + (core.barrier if threads > 1 else 0.0))


def summed_rows(attention: Attention, core: Core) -> int:
    """The rows that can be computed while keys are packed; 0 if these are not transposed for it."""
    rows = core.dialect.summed_rows
    blocks = meets_rows_in_blocks(attention.scores, attention.scores_vector, core.dialect.lanes)
    return rows if blocks and rows < attention.row.extent else 0


def packs_in_blocks(scores: RegisterTile, core: Core) -> bool:
    """Whether the tiles of scores have their keys packed, in blocks that rows can meet."""
    return scores.source is VectorSource.RUNTIME and scores.lanes == core.dialect.lanes


HELD_ROWS = 8
"""Of a softmax that is held in registers, the rows that keep it busy: its first row waits for its
greatest element, and nobody works behind its last one."""


def block_tiles(attention: Attention, stages: RowStages, rows: int) -> int:
    """Of tiles of so many rows, those below one another in a block."""
    if not stages.softmax_held:
        return 1
    return max(1, min(-(-HELD_ROWS // rows), attention.row.extent // rows))


def row_lines(task: Task, attention: Attention) -> int:
    """Lines of the cache from one row of scores to the next. An odd number of them spreads rows
    over the sets of the first-level cache."""
    longest = max(task.stages[p].axes[-1].extent for p in (attention.scored, *attention.row_stages))
    lines: int = -(-longest * attention.scores.contraction.dtype.bytes // LINE_BYTES)
    return lines | 1


PACKING_ROWS = 16
"""To pack the vector factors takes about as long as so many rows take."""


def _by_rows(tiles: Iterator[Estimate[RegisterTile]]) -> dict[int, Estimate[RegisterTile]]:
    """The cheapest of the tiles of each number of rows."""
    groups: dict[int, list[Estimate[RegisterTile]]] = {}
    for estimate in tiles:
        schedule = inside_attention(estimate.schedule)
        groups.setdefault(schedule.rows, []).append(replace(estimate, schedule=schedule))
    return {rows: cheapest(group) for rows, group in groups.items()}


def inside_attention(tile: RegisterTile) -> RegisterTile:
    """The same tile in a block of attention: all panels are packed at once, so that none asks for
    the next one, and scores stay near."""
    return replace(tile, panels_ahead=False, epilogue_ahead=False)


def _parts(attention: Attention, rows: int, threads: int) -> tuple[int, float]:
    """In how many parts the rows that share their keys are computed, and the part of all work that
    the busiest thread has then."""
    if threads == 1:
        return 1, 1.0
    shares = {parts: part_share(attention, rows, parts, threads) for parts in range(1, threads + 1)}
    parts = min(shares, key=lambda parts: (shares[parts], parts))
    return parts, shares[parts]


def part_share(attention: Attention, rows: int, parts: int, threads: int) -> float:
    """The part of all work that the busiest of some threads has, if rows that share their keys are
    computed in so many parts of blocks of `rows` rows."""
    extent = attention.row.extent
    outer = prod(axis.extent for axis in attention.outer)
    length = rows * -(-extent // (rows * parts))
    units = outer * -(-extent // length)
    return -(-units // threads) * (length + PACKING_ROWS) / (outer * (extent + PACKING_ROWS))

"""Attention with zero trials: the tiles of its contractions, by the estimate of their cycles.

A block has as many rows as the tiles of both contractions: lower ones would read all keys, or all
values, again for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tensorgen.attention import Attention
from tensorgen.machine import Core
from tensorgen.schedule import AttentionTile, RegisterTile, RowStages
from tensorgen.sketch_tiles import Estimate, tiles_for_roles
from tensorgen.task import Task

RUNTIME = (False, False)
"""No factor is known at compile time."""

LINE = 64
"""Bytes of a line of the cache."""


def attention_estimates(
    task: Task, attention: Attention, stages: RowStages, core: Core, threads: int
) -> Iterator[Estimate[AttentionTile]]:
    """The schedules worth considering where the rows are worked on by `stages`, with the cycles of
    their contractions."""
    dtype = attention.scores.contraction.dtype
    longest = max(task.stages[p].axes[-1].extent for p in (attention.scored, *attention.row_stages))
    # An odd number of lines between rows spreads them over the sets of the first-level cache.
    lines = -(-longest * dtype.bytes // LINE) | 1
    best: dict[int, Estimate[RegisterTile]] = {}
    for estimate in tiles_for_roles(attention.scores, attention.scores_vector, RUNTIME, core, 1):
        known = best.get(estimate.schedule.rows)
        if known is None or _rank(estimate) < _rank(known):
            best[estimate.schedule.rows] = estimate
    weighted = None
    if attention.weighted is not None:
        weighted = list(
            tiles_for_roles(attention.weighted, attention.weighted_vector, RUNTIME, core, 1)
        )
    for length, scores in best.items():
        second: Estimate[RegisterTile] | None = None
        if weighted is not None:
            second = min((e for e in weighted if e.schedule.rows == length), key=_rank)
        parts, share = _parts(attention, length, threads)
        schedule = AttentionTile(
            length,
            lines * LINE // dtype.bytes,
            scores.schedule,
            stages,
            None if second is None else second.schedule,
            parts,
            threads > 1,
        )
        cycles = scores.cycles + (0.0 if second is None else second.cycles)
        yield Estimate(schedule, cycles * share + (core.barrier if threads > 1 else 0.0))


PACKING_ROWS = 16
"""To pack the vector factors takes about as long as so many rows take."""


def _rank(estimate: Estimate[RegisterTile]) -> tuple[float, str]:
    return estimate.cycles, str(estimate.schedule)


def _parts(attention: Attention, rows: int, threads: int) -> tuple[int, float]:
    """In how many parts the rows that share their keys are computed, and the part of all work that
    the busiest thread has then."""
    extent = attention.row.extent
    outer = prod(axis.extent for axis in attention.outer)

    def share(parts: int) -> float:
        length = rows * -(-extent // (rows * parts))
        units = outer * -(-extent // length)
        return -(-units // threads) * (length + PACKING_ROWS) / (outer * (extent + PACKING_ROWS))

    if threads == 1:
        return 1, 1.0
    parts = min(range(1, threads + 1), key=lambda parts: (share(parts), parts))
    return parts, share(parts)

"""The loop nests of one stage: what its knobs may be, and what each setting costs.

With `strict` nothing changes that orders a sum: where the lanes of a reduction run, how many
accumulators it has, and whether it is written out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import assert_never

from tensorgen.contraction import WINDOW
from tensorgen.expr import Reduce, TensorExpr, walk
from tensorgen.loop_cycles import FOLDED_LANES_CYCLES, StageCycles
from tensorgen.schedule import Lanes, Loops, Method
from tensorgen.sketch import divides_long, merged_stage, stage_loops
from tensorgen.tile_costs import MULTIPLY_ADD_LATENCY

ACCUMULATORS = (16, 32, 64, 128, 256)
"""Lanes of a reduction that are held at once."""

CHUNKS = (256, 512, 1024, 2048, 4096, 8192, 16384)
"""Elements of the pieces that a one-dimensional loop is cut into."""

CHUNK_CYCLES = 8.0
"""Cycles to begin another piece of a loop."""

BUSY_LANES = 2.0
"""Cycles of a vector of a fold, about: so much of its latency is hidden by each vector."""


@dataclass(frozen=True)
class StageLoops:
    """The loop nests of one stage inside some outer axes: for each place of the lanes, how long
    their tiles may be, how many loops threads may share and how many cycles it takes.

    `rule` are the loops with zero trials. `extents` are those of the loops over its results.
    """

    rule: Loops
    extents: tuple[int, ...]
    reduces: bool
    vector: int
    tiles: Mapping[Lanes, tuple[int, ...]]
    shared: Mapping[Lanes, int]
    unrolls: tuple[int, ...]
    reciprocals: tuple[bool, ...]
    cycles: Mapping[Lanes, float]

    @staticmethod
    def of(stage: TensorExpr, rows: int, costs: StageCycles, *, strict: bool) -> StageLoops:
        """The loops of a stage inside so many outer axes."""
        merged = merged_stage(stage, rows)
        fused = costs.target.has_fma
        rule = stage_loops(stage, rows, True, fused)
        folds = [term for term in walk(merged.body) if isinstance(term, Reduce)]
        extents = tuple(axis.extent for axis in merged.axes)
        lanes = [rule.lanes]
        if rule.method is Method.EACH and folds and not strict:
            wanted = ((Lanes.OUTPUT, bool(extents)), (Lanes.REDUCTION, any(f.axes for f in folds)))
            lanes += [lane for lane, legal in wanted if legal and lane is not rule.lanes]
        unrolls = {rule.unroll}
        if folds and rule.method is Method.EACH and not strict:
            least = min(prod(axis.extent for axis in fold.axes) for fold in folds)
            unrolls |= {0, WINDOW} if least <= WINDOW else set()
        return StageLoops(
            rule,
            extents,
            bool(folds),
            costs.lanes(stage),
            {lane: _tiles(rule, lane, extents, folds, strict) for lane in lanes},
            {lane: _shared(rule, lane, extents) for lane in lanes},
            tuple(sorted(unrolls)),
            (False, True) if rule.reciprocals or (fused and divides_long(merged)) else (False,),
            {lane: costs.along(lane, stage) for lane in lanes},
        )

    def made(
        self, lanes: Lanes, tile: int, unroll: int, parallel: int, reciprocals: bool
    ) -> Loops | None:
        """The loops of these settings; None if there are none."""
        if lanes not in self.tiles or tile not in self.tiles[lanes]:
            return None
        if unroll not in self.unrolls or reciprocals not in self.reciprocals:
            return None
        if parallel > self.shared[lanes]:
            return None
        return replace(
            self.rule, lanes=lanes, tile=tile, unroll=unroll, parallel=parallel,
            reciprocals=reciprocals,
        )  # fmt: skip

    def busiest_cycles(self, loops: Loops, threads: int) -> float:
        """Cycles of the busiest of some threads that share these loops."""
        cycles = self.cycles[loops.lanes]
        last = self.extents[-1] if self.extents else 1
        results = prod(self.extents)
        units = prod(self.extents[: loops.parallel])
        if self.rule.method is Method.EACH:
            match loops.lanes:
                case Lanes.OUTPUT if self.reduces or len(self.extents) == 1:
                    length = min(loops.tile, last)
                    if self.reduces:
                        cycles *= self._exposed(length)
                    cycles += results / max(length, 1) * CHUNK_CYCLES
                    if len(self.extents) == 1 and loops.parallel:
                        units = -(-last // max(length, 1))
                case Lanes.REDUCTION:
                    cycles *= self._exposed(loops.tile)
                    cycles += results * loops.tile / ACCUMULATORS[0] * FOLDED_LANES_CYCLES / 8
                case Lanes.OUTPUT | Lanes.NONE:
                    pass
                case _:
                    assert_never(loops.lanes)
        if not loops.parallel or not units:
            return cycles
        return cycles * -(-units // threads) / units

    def _exposed(self, lanes: int) -> float:
        """By what a fold into so many lanes takes longer because its steps wait for each other."""
        vectors = max(lanes / self.vector, 1.0)
        return max(1.0, MULTIPLY_ADD_LATENCY / (vectors * BUSY_LANES))


def _tiles(
    rule: Loops, lanes: Lanes, extents: tuple[int, ...], folds: list[Reduce], strict: bool
) -> tuple[int, ...]:
    """Lengths of the tiles of lanes, where they make a difference."""
    own = {rule.tile} if lanes is rule.lanes else set()
    if rule.method is Method.RUNNING:
        return _useful(ACCUMULATORS, extents[-1] if len(extents) > 1 else 0, own)
    if rule.method is not Method.EACH:
        return tuple(own)
    match lanes:
        case Lanes.OUTPUT if folds:
            return _useful(ACCUMULATORS, extents[-1], own)
        case Lanes.OUTPUT:
            return _useful(CHUNKS, extents[0], own) if len(extents) == 1 else tuple(own)
        case Lanes.REDUCTION:
            if strict:
                return tuple(own)
            longest = max(fold.axes[-1].extent for fold in folds if fold.axes)
            # Shorter reductions have no lanes, whatever the tile.
            return _useful(ACCUMULATORS, longest // 2, own)
        case Lanes.NONE:
            return tuple(own) or (1,)
        case _:
            assert_never(lanes)


def _useful(values: tuple[int, ...], extent: int, own: set[int]) -> tuple[int, ...]:
    """Those of some lengths that cut an extent differently; one at least."""
    useful = {value for value in values if value <= extent} | own
    return tuple(sorted(useful)) or values[:1]


def _shared(rule: Loops, lanes: Lanes, extents: tuple[int, ...]) -> int:
    """How many of the outermost loops threads may share, at most."""
    if lanes is rule.lanes:
        return rule.parallel
    if lanes is Lanes.OUTPUT:
        return max(len(extents) - 1, 1)
    return len(extents)

"""Attention as a space: the tiles of both contractions, how many make a block, how they are shared.

Sums are those of the kernels one by one, in the same order at every point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tensorgen.attention import Attention
from tensorgen.machine import Core
from tensorgen.schedule import AttentionTile, RegisterTile, RowStages, Schedule, VectorSource
from tensorgen.sketch_attention import (
    RUNTIME,
    block_tiles,
    inside_attention,
    packs_in_blocks,
    part_share,
    row_lines,
    summed_rows,
)
from tensorgen.sketch_tiles import TileSketch, sketches_for_roles
from tensorgen.target import LINE_BYTES
from tensorgen.task import Task
from tensorgen.tune.space import Knob, Setting, Settings, Sketch
from tensorgen.tune.space_tiles import DEPARTURE, FLAGS

MORE_LINES = (0, 1, 2)
"""Lines of the cache by which rows of scores lie further apart than the rule says."""

MOST_PARTS = 4
"""Parts that the rows of one batch are computed in, for each thread."""

MOST_TILES = 4
"""Tiles below one another in a block."""

TILE_KNOBS = ("source", "vectors", "vectors_outer", "ahead", "turned")
"""What each of the contractions decides."""


def attention_space(
    task: Task,
    attention: Attention,
    stages: RowStages,
    core: Core,
    threads: int,
    rest_seconds: float,
) -> Iterator[Sketch]:
    """The one sketch of attention whose rows are worked on by `stages`, which take one thread
    `rest_seconds`."""
    yield AttentionSpace(task, attention, stages, core, threads, rest_seconds).sketch()


@dataclass(frozen=True)
class AttentionSpace:
    """The schedules of attention in one pass."""

    task: Task
    attention: Attention
    stages: RowStages
    core: Core
    threads: int
    rest_seconds: float

    @cached_property
    def tiles(self) -> dict[str, TileSketch]:
        """The contractions, by the prefix of their knobs. None of their factors is constant, and
        one thread computes each block."""
        attention, core = self.attention, self.core
        (scores,) = sketches_for_roles(attention.scores, attention.scores_vector, RUNTIME, core, 1)
        found = {"scores ": scores}
        if attention.weighted is not None:
            (weighted,) = sketches_for_roles(
                attention.weighted, attention.weighted_vector, RUNTIME, core, 1
            )
            found["weighted "] = weighted
        return found

    @cached_property
    def shapes(self) -> dict[str, frozenset[tuple[int, int]]]:
        """Rows and vectors of the tiles that fit the registers."""
        return {prefix: frozenset(tiles.shapes()) for prefix, tiles in self.tiles.items()}

    def sketch(self) -> Sketch:
        """The sketch of these schedules."""
        most = min(max(rows for rows, _ in shapes) for shapes in self.shapes.values())
        knobs = [Knob("rows", tuple(range(1, most + 1)))]
        for prefix, tiles in self.tiles.items():
            sources = tiles.sources()
            ahead = any(tiles.may_ask_ahead(source) for source in sources)
            width = max(vectors for _, vectors in self.shapes[prefix])
            knobs += [
                Knob(prefix + "source", tuple(source.value for source in sources)),
                Knob(prefix + "vectors", tuple(range(1, width + 1))),
                Knob(prefix + "vectors_outer", FLAGS),
                Knob(prefix + "ahead", FLAGS if ahead else (False,)),
                Knob(prefix + "turned", FLAGS if tiles.work.turned else (False,)),
            ]
        extent = self.attention.row.extent
        summed = summed_rows(self.attention, self.core)
        parts = range(1, min(MOST_PARTS * self.threads, extent) + 1)
        knobs += [
            Knob("tiles", tuple(range(1, self._most_tiles + 1))),
            Knob("first_rows", (0, summed) if summed else (0,)),
            Knob("more_lines", MORE_LINES),
            Knob("parts", tuple(parts) if self.threads > 1 else (1,)),
            Knob("parallel", FLAGS if self.threads > 1 else (False,)),
        ]
        return Sketch(
            "attention", "attention", tuple(knobs), self.build, self.read, self.seconds,
            self.facts(),
        )  # fmt: skip

    @property
    def _most_tiles(self) -> int:
        """The most tiles below one another: those of the rule are among them."""
        return max(MOST_TILES, block_tiles(self.attention, self.stages, 1))

    def build(self, settings: Settings) -> AttentionTile | None:
        """The schedule of these settings; None if there is none."""
        rows, parts = int(settings["rows"]), int(settings["parts"])
        made: list[RegisterTile] = []
        for prefix, tiles in self.tiles.items():
            source = VectorSource(settings[prefix + "source"])
            if (rows, settings[prefix + "vectors"]) not in self.shapes[prefix]:
                return None
            tile = replace(
                inside_attention(tiles.by_rule(source, rows, int(settings[prefix + "vectors"]))),
                vectors_outer=bool(settings[prefix + "vectors_outer"]),
                ahead=bool(settings[prefix + "ahead"]),
                turned=bool(settings[prefix + "turned"]),
            )
            if tile.ahead and not tiles.may_ask_ahead(source):
                return None
            made.append(tile)
        # Without threads that share them, parts would pack again for nothing.
        if parts > 1 and not settings["parallel"]:
            return None
        scores, *others = made
        lines = row_lines(self.task, self.attention) + int(settings["more_lines"])
        element = self.attention.scores.contraction.dtype.bytes
        block = rows * int(settings["tiles"])
        first = int(settings["first_rows"])
        if first and not packs_in_blocks(scores, self.core):
            return None
        return AttentionTile(
            block,
            lines * LINE_BYTES // element,
            scores,
            self.stages,
            others[0] if others else None,
            self._fewest(block, parts),
            bool(settings["parallel"]),
            first,
        )

    def _fewest(self, rows: int, parts: int) -> int:
        """The fewest parts that are as long as if there were so many."""
        extent = self.attention.row.extent
        length = -(-extent // (rows * parts))
        return next(
            fewer for fewer in range(1, parts + 1) if -(-extent // (rows * fewer)) == length
        )

    def read(self, schedule: Schedule) -> Settings | None:
        """The settings of a schedule; None if it is not of this kind."""
        if not isinstance(schedule, AttentionTile):
            return None
        if (schedule.weighted is None) != (self.attention.weighted is None):
            return None
        if schedule.rows % schedule.scores.rows:
            return None
        element = self.attention.scores.contraction.dtype.bytes
        lines = schedule.row_stride * element // LINE_BYTES
        settings: dict[str, Setting] = {
            "rows": schedule.scores.rows,
            "tiles": schedule.rows // schedule.scores.rows,
            "more_lines": lines - row_lines(self.task, self.attention),
            "parts": schedule.parts,
            "parallel": schedule.parallel,
            "first_rows": schedule.first_rows,
        }
        made = (schedule.scores, schedule.weighted)
        for prefix, tile in zip(self.tiles, made, strict=False):
            assert tile is not None, "there are as many tiles as contractions"
            settings |= {prefix + name: getattr(tile, name) for name in TILE_KNOBS[1:]}
            settings[prefix + "source"] = tile.source.value
        return settings

    def seconds(self, schedule: Schedule) -> float:
        """The estimate, a little more for each decision against the rules."""
        assert isinstance(schedule, AttentionTile)
        lines = schedule.row_stride * self.tiles["scores "].work.element_bytes // LINE_BYTES
        cycles, against = 0.0, int(lines % 2 == 0)
        made = (schedule.scores, schedule.weighted)
        for tiles, tile in zip(self.tiles.values(), made, strict=False):
            assert tile is not None, "there are as many tiles as contractions"
            rule = tiles.by_rule(tile.source, tile.rows, tile.vectors)
            against += sum(getattr(tile, n) != getattr(rule, n) for n in TILE_KNOBS[2:])
            cycles += tiles.cycles(tile)
        seconds = cycles / self.core.frequency + self.rest_seconds
        if schedule.parallel:
            seconds *= part_share(self.attention, schedule.rows, schedule.parts, self.threads)
            seconds += self.core.barrier / self.core.frequency
        return seconds * DEPARTURE**against

    def facts(self) -> dict[str, float]:
        """Sizes of the attention."""
        attention, scores = self.attention, self.tiles["scores "].work
        return {
            "extent": attention.row.extent,
            "keys": scores.columns,
            "sum": scores.depth,
            "repeated": scores.batch * scores.outer_rows,
            "width": self.tiles["weighted "].work.columns if "weighted " in self.tiles else 0,
            "lanes": self.core.dialect.lanes,
            "element_bytes": scores.element_bytes,
            "stages": len(self.stages.stages),
        }

"""Minimal filtering as a space: one sketch for each number of results at once.

Blocks of strips and chunks of rows are given by the part of the second-level cache that they may
fill: what that is in strips and rows follows from the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tensorgen.contraction import Contraction
from tensorgen.machine import Core
from tensorgen.schedule import Schedule, WinogradTile
from tensorgen.sketch_tiles import MOST_VECTORS, tile_shapes
from tensorgen.sketch_winograd import WinogradSketch, largest_divisor, winograd_sketches
from tensorgen.task import Task
from tensorgen.tune.space import Knob, Settings, Sketch
from tensorgen.tune.space_tiles import DEPARTURE, FLAGS

BLOCK_SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0, 2.0)
"""Parts of the second-level cache that the transformed data of a block may fill, beside those of
the rules."""

PRODUCTS_SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Parts of it that the products of a chunk may fill, beside what they fill by rule."""

ROUNDINGS = ("fit", "divide", "go round")
"""How many strips a block has: as many as fit; a divisor of all; so many that threads with blocks
of their own all have as many."""


def winograd_space(
    task: Task, contraction: Contraction, core: Core, threads: int
) -> Iterator[Sketch]:
    """The sketches of a convolution by minimal filtering; none if it has no windows for it."""
    for work in winograd_sketches(task, contraction, core):
        results = " x ".join(map(str, work.results))
        name = f"winograd {results}" + (" folded" if work.folded else "")
        yield WinogradSpace(work, core, threads).sketch(name)


@dataclass(frozen=True, eq=False)
class WinogradSpace:
    """The schedules that filter so many results at once."""

    work: WinogradSketch
    core: Core
    threads: int

    def sketch(self, name: str) -> Sketch:
        """The sketch of these schedules."""
        dialect = self.core.dialect
        # The narrowest tiles may have the most rows.
        height = max(
            rows for rows, _ in tile_shapes(self.work.rows_of(self.work.strips), 1, dialect)
        )
        width = min(-(-self.work.features // dialect.lanes), MOST_VECTORS)
        knobs = (
            Knob("block_share", self._block_shares),
            Knob("rounding", ROUNDINGS),
            Knob("products_bytes", self._products_bytes),
            Knob("rows", tuple(range(1, height + 1))),
            Knob("vectors", tuple(range(1, width + 1))),
            Knob("turned", FLAGS if self.work.turned else (False,)),
            Knob("apart", FLAGS if self.threads > 1 else (False,)),
            Knob("parallel", FLAGS if self.threads > 1 else (False,)),
            Knob("panels_ahead", FLAGS),
            Knob("shares", tuple(sorted({1, self.threads}))),
        )
        return Sketch(name, "winograd", knobs, self.build, self.read, self.seconds, self.facts())

    @cached_property
    def _block_shares(self) -> tuple[float, ...]:
        return tuple(sorted({*BLOCK_SHARES, *self.work.block_shares(self.core)}))

    @cached_property
    def _products_bytes(self) -> tuple[int, ...]:
        shares = {int(self.core.second_cache * share) for share in PRODUCTS_SHARES}
        return tuple(sorted(shares | {self.work.products_bytes(self.core)}))

    @cached_property
    def blocks(self) -> dict[int, tuple[float, str]]:
        """How long blocks can be, in strips, and the share of the cache and the rounding that make
        them so."""
        found: dict[int, tuple[float, str]] = {}
        for rounding in ROUNDINGS:
            for share in self._block_shares:
                strips = self._strips(share, rounding)
                if strips is not None:
                    found.setdefault(strips, (share, rounding))
        return found

    def _strips(self, share: float, rounding: str) -> int | None:
        work = self.work
        most = work.most_strips(int(self.core.second_cache * share))
        if rounding == "fit":
            return most
        if rounding == "divide":
            return largest_divisor(work.strips, most)
        return next(work.lengths_apart(most, self.threads), None)

    def build(self, settings: Settings) -> WinogradTile | None:
        """The schedule of these settings; None if it is none."""
        work, dialect = self.work, self.core.dialect
        strips = self._strips(float(settings["block_share"]), str(settings["rounding"]))
        if strips is None or (settings["apart"] and not settings["parallel"]):
            return None
        rows, vectors = int(settings["rows"]), int(settings["vectors"])
        shares = int(settings["shares"])
        if shares > 1 and not (settings["apart"] and work.has_shares(shares, vectors)):
            return None
        if (rows, vectors) not in self._shapes(strips):
            return None
        chunk = work.chunk(strips, rows, vectors, int(settings["products_bytes"]))
        schedule = WinogradTile(
            work.results, strips, chunk, rows, vectors, dialect.lanes, bool(settings["parallel"]),
            bool(settings["turned"]), bool(settings["apart"]), work.folded,
            bool(settings["panels_ahead"]), shares,
        )  # fmt: skip
        if schedule.panels_ahead and not work.may_ask_for_panels(schedule):
            return None
        return schedule

    def _shapes(self, strips: int) -> frozenset[tuple[int, int]]:
        known = self._known_shapes.get(strips)
        if known is None:
            rows, features = self.work.rows_of(strips), self.work.features
            known = frozenset(tile_shapes(rows, features, self.core.dialect))
            self._known_shapes[strips] = known
        return known

    @cached_property
    def _known_shapes(self) -> dict[int, frozenset[tuple[int, int]]]:
        return {}

    def read(self, schedule: Schedule) -> Settings | None:
        """The settings of a schedule; None if it is no such filter, or its blocks are none of
        these."""
        if not isinstance(schedule, WinogradTile):
            return None
        if (schedule.results, schedule.folded) != (self.work.results, self.work.folded):
            return None
        strips, rows, vectors = schedule.strips, schedule.rows, schedule.vectors
        nearest = min(self.blocks, key=lambda length: (abs(length - strips), length))
        share, rounding = self.blocks[nearest]
        products = min(
            self._products_bytes,
            key=lambda p: (abs(self.work.chunk(nearest, rows, vectors, p) - schedule.chunk), p),
        )
        return {
            "block_share": share,
            "rounding": rounding,
            "products_bytes": products,
            "rows": rows,
            "vectors": vectors,
            "turned": schedule.turned,
            "apart": schedule.apart,
            "parallel": schedule.parallel,
            "panels_ahead": schedule.panels_ahead,
            "shares": schedule.shares,
        }

    def seconds(self, schedule: Schedule) -> float:
        """The estimate, a little more against the rule of what is transposed in registers."""
        assert isinstance(schedule, WinogradTile)
        threads = self.threads if schedule.parallel else 1
        against = schedule.turned != self.work.turned
        cycles = self.work.cycles(schedule, self.core, threads)
        return cycles * DEPARTURE**against / self.core.frequency

    def facts(self) -> dict[str, float]:
        """Sizes of the convolution as this filter sees it."""
        work = self.work
        return {
            "points": work.points,
            "results": work.outer.results * work.inner.results,
            "parts": work.parts,
            "channels": work.channels,
            "columns": work.features,
            "sum": work.depth,
            "strips": work.strips,
            "strip_rows": work.rows_of(1),
            "repeated": work.repeated,
            "strip_bytes": work.block_bytes(1),
            "lanes": work.lanes,
            "element_bytes": work.element_bytes,
            "folded": work.folded,
        }

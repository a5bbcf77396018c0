"""Windows over planes as a space: rows of a tile, vectors that cover a row, loops that are shared.

The order of a window's sum does not depend on its tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tensorgen.dialects import VectorDialect
from tensorgen.loop_cycles import bytes_moved
from tensorgen.machine import Core, Machine
from tensorgen.schedule import ColumnRun, Schedule, WindowTile
from tensorgen.task import Task
from tensorgen.tune.space import Knob, Settings, Sketch
from tensorgen.window import Window
from tensorgen.window_sketch import (
    MOST_TAPS_OF_A_TILE,
    column_runs,
    vector_widths,
    window_cycles,
    window_schedule,
    window_share,
)

MOST_ROWS_TRIED = 8
"""Rows of a tile, at most, whether they fit the registers or not. Higher tiles were at most
two percent faster, and the compiler's time is that of their text."""


def window_space(
    task: Task, window: Window, core: Core, machine: Machine, threads: int
) -> Iterator[Sketch]:
    """The one sketch of a window in tiles of its own."""
    yield WindowSpace(task, window, core, machine, threads).sketch()


@dataclass(frozen=True)
class WindowSpace:
    """The tiles of a window."""

    task: Task
    window: Window
    core: Core
    machine: Machine
    threads: int

    @property
    def dialect(self) -> VectorDialect:
        """The widest vectors."""
        return self.core.dialect

    @cached_property
    def rule(self) -> WindowTile:
        """The tile with zero trials."""
        return window_schedule(self.window, self.dialect, self.threads)

    @cached_property
    def heights(self) -> tuple[int, ...]:
        """Rows that a tile may have: of those that make as many tiles, the least, which make them
        about equally high. A low last tile is more code for nothing: on seven planes of 14 x 14,
        8 + 6 rows took 0.88 to 1.12 of the time of 7 + 7, 1.01 on average."""
        extent, taps = self.window.rows.output.extent, self.window.taps
        most = max(min(extent, MOST_ROWS_TRIED, MOST_TAPS_OF_A_TILE // taps), 1)
        tiles = (-(-extent // rows) for rows in range(1, most + 1))
        return tuple(sorted({*(-(-extent // count) for count in tiles), self.rule.rows}))

    @cached_property
    def covers(self) -> dict[int, tuple[ColumnRun, ...]]:
        """Vectors that cover a row, by the length of the longest that are allowed, longest first;
        only those that differ. Behind those that are stored whole, shorter ones would be more for
        the same work: on nine windows the best of 4 lanes took 1.25 to 1.82 times as long as the
        best of 8."""
        extent = self.window.columns.output.extent
        widths = vector_widths(self.dialect)
        found: dict[int, tuple[ColumnRun, ...]] = {}
        for number, (lanes, _) in enumerate(widths):
            columns = tuple(column_runs(extent, widths[number:]))
            if columns not in found.values():
                found[lanes] = columns
            if all(run.count == run.lanes for run in columns):
                break
        return found

    def sketch(self) -> Sketch:
        """The sketch of these tiles."""
        shared = len(self.window.outer) + 1 if self.threads > 1 else 0
        knobs = (
            Knob("rows", self.heights),
            Knob("lanes", tuple(self.covers)),
            Knob("parallel", tuple(range(shared + 1))),
        )
        return Sketch("window", "window", knobs, self.build, self.read, self.seconds, self.facts())

    def build(self, settings: Settings) -> WindowTile | None:
        """The tile of these settings."""
        columns = self.covers[int(settings["lanes"])]
        return WindowTile(int(settings["rows"]), columns, int(settings["parallel"]))

    def read(self, schedule: Schedule) -> Settings | None:
        """The settings of a schedule; None if it is no window's."""
        if not isinstance(schedule, WindowTile):
            return None
        longest = max(run.lanes for run in schedule.columns)
        fitting = (lanes for lanes, columns in self.covers.items() if columns == schedule.columns)
        lanes = next(fitting, longest)
        return {"rows": schedule.rows, "lanes": lanes, "parallel": schedule.parallel}

    def seconds(self, schedule: Schedule) -> float:
        """The estimate: computing and moving, of which the longer one hides the other."""
        assert isinstance(schedule, WindowTile)
        threads = self.threads if schedule.parallel else 1
        share = window_share(self.window, schedule, threads)
        cycles = window_cycles(self.window, schedule, self.core) * share
        # The estimate counts lanes; shorter vectors take as long as whole ones.
        lanes = sum(run.vectors * run.lanes for run in schedule.columns)
        cycles *= sum(run.vectors for run in schedule.columns) * self.dialect.lanes / lanes
        moving = sum(self.machine.read_seconds(bytes_moved(self.task), threads))
        met = self.machine.barrier_seconds if threads > 1 else 0.0
        return max(cycles / self.core.frequency, moving) + met

    def facts(self) -> dict[str, float]:
        """Sizes of the window."""
        window = self.window
        return {
            "bytes": bytes_moved(self.task),
            "extent": window.rows.output.extent,
            "columns": window.columns.output.extent,
            "taps": window.taps,
            "kernel_rows": window.rows.kernel.extent,
            "row_step": window.rows.step,
            "column_step": window.columns.step,
            "planes": prod(axis.extent for axis in (*window.outer, *window.depth)),
            "weighted": window.weight is not None,
            "width": self.dialect.lanes,
            "element_bytes": window.dtype.bytes,
        }

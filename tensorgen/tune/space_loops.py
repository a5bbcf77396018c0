"""Loops as a space: the stages of a task as loop nests, by themselves or fused at outer axes.

Every task has such a sketch. Knobs are how many outer axes the stages share, what threads share,
where rows between stages live, and for each stage where its lanes run, how many there are, and what
is written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from tensorgen.loop_cycles import StageCycles, bytes_moved
from tensorgen.schedule import Lanes, Loops, RowStages, Schedule
from tensorgen.sketch import (
    STACK_BYTES,
    joined_stages,
    looking_ahead,
    row_stages,
    shared_rows,
    streaming,
)
from tensorgen.task import Task
from tensorgen.tune.space import Knob, Setting, Settings, Sketch
from tensorgen.tune.space_tiles import DEPARTURE, FLAGS
from tensorgen.tune.stage_loops import StageLoops

STACK_SIZES = (STACK_BYTES // 4, STACK_BYTES, 4 * STACK_BYTES)
"""Bytes up to which a row may live on the stack."""

STAGE_KNOBS = ("lanes", "tile", "unroll", "reciprocals")
"""What each stage decides."""


def loop_space(task: Task, costs: StageCycles, threads: int, *, strict: bool) -> Iterator[Sketch]:
    """The one sketch of a task as loop nests. If `strict`, those that add up as the rule does."""
    if len(task.stages) == 1:
        form = StageLoops.of(task.stages[0], 0, costs, strict=strict)
        yield SingleLoops(task, form, costs, threads).sketch()
    else:
        yield FusedLoops(task, costs, threads, strict).sketch()


def _moving_seconds(task: Task, costs: StageCycles, threads: int) -> float:
    """How long what the task reads and writes takes to come from where it lies."""
    return sum(costs.machine.read_seconds(bytes_moved(task), threads))


def _facts(task: Task, costs: StageCycles) -> dict[str, float]:
    """Sizes of a task, whatever its stages."""
    return {
        "bytes": bytes_moved(task),
        "results": sum(type.size for type in task.output_types),
        "stages": len(task.stages),
        "lanes count": costs.lanes(task.stages[-1]),
        "shared rows": prod(axis.extent for axis in task.stages[0].axes[: shared_rows(task)]),
        "inner": task.stages[-1].axes[-1].extent if task.stages[-1].axes else 1,
    }


@dataclass(frozen=True)
class SingleLoops:
    """One stage as a loop nest."""

    task: Task
    form: StageLoops
    costs: StageCycles
    threads: int

    def sketch(self) -> Sketch:
        """The sketch of these loops."""
        shared = max(self.form.shared.values()) if self.threads > 1 else 0
        knobs = (
            *_stage_knobs("", [self.form]),
            Knob("parallel", tuple(range(shared + 1))),
            Knob("streamed", FLAGS if Lanes.OUTPUT in self.form.tiles else (False,)),
        )
        facts = _facts(self.task, self.costs)
        return Sketch("loops", "loops", knobs, self.build, self.read, self.seconds, facts)

    def build(self, settings: Settings) -> Loops | None:
        """The loops of these settings; None if there are none."""
        made = _made(self.form, settings, "", int(settings["parallel"]))
        if made is None or (settings["streamed"] and made.lanes is not Lanes.OUTPUT):
            return None
        return replace(made, streamed=bool(settings["streamed"]))

    def read(self, schedule: Schedule) -> Settings | None:
        """The settings of a schedule; None if it has several stages."""
        if not isinstance(schedule, Loops):
            return None
        own = {"parallel": schedule.parallel, "streamed": schedule.streamed}
        return {**_read_stage(schedule, ""), **own}

    def seconds(self, schedule: Schedule) -> float:
        """The estimate: computing and moving, of which the longer one hides the other."""
        assert isinstance(schedule, Loops)
        threads = self.threads if schedule.parallel else 1
        computing = self.form.busiest_cycles(schedule, threads) / self.costs.frequency
        met = self.costs.machine.barrier_seconds if threads > 1 else 0.0
        against = schedule.streamed + (schedule.reciprocals != self.form.rule.reciprocals)
        moving = _moving_seconds(self.task, self.costs, threads)
        return (max(computing, moving) + met) * DEPARTURE**against


@dataclass(frozen=True)
class FusedLoops:
    """Several stages as loop nests, one after the other inside outer axes that they share."""

    task: Task
    costs: StageCycles
    threads: int
    strict: bool

    def sketch(self) -> Sketch:
        """The sketch of these loops."""
        knobs = [
            Knob("rows", self.row_counts),
            Knob("parallel", tuple(range(max(self.most_rows, 1) + 1)) if self.shares else (0,)),
            Knob("stack_bytes", STACK_SIZES),
            Knob("joined", FLAGS),
            Knob("ahead", FLAGS),
            Knob("streamed", FLAGS),
        ]
        for position in range(len(self.task.stages)):
            forms = [self.forms[rows][position] for rows in self.row_counts]
            knobs += _stage_knobs(f"stage {position} ", forms)
        facts = _facts(self.task, self.costs)
        return Sketch("rows", "rows", tuple(knobs), self.build, self.read, self.seconds, facts)

    @property
    def shares(self) -> bool:
        """Whether there are threads to share anything with."""
        return self.threads > 1

    @cached_property
    def most_rows(self) -> int:
        """Outer axes that all stages have in common."""
        return shared_rows(self.task)

    @property
    def row_counts(self) -> tuple[int, ...]:
        """The numbers of outer axes that may be shared. Lanes go by the axes that are left, and
        with them the order of sums."""
        return (self.most_rows,) if self.strict else tuple(range(self.most_rows + 1))

    @cached_property
    def forms(self) -> dict[int, tuple[StageLoops, ...]]:
        """The loops of each stage, for each number of outer axes around them."""
        return {
            rows: tuple(
                StageLoops.of(stage, rows, self.costs, strict=self.strict)
                for stage in self.task.stages
            )
            for rows in self.row_counts
        }

    @cached_property
    def _rules(self) -> dict[tuple[int, bool], RowStages]:
        """The schedule by rule inside so many outer axes, shared by threads or not."""
        return {
            (rows, parallel): row_stages(
                self.task, range(len(self.task.stages)), rows, parallel, self.costs.target.has_fma
            )
            for rows in self.row_counts
            for parallel in FLAGS
        }

    def build(self, settings: Settings) -> RowStages | None:
        """The schedule of these settings; None if there is none, or one by other settings."""
        rows, parallel = int(settings["rows"]), int(settings["parallel"])
        if parallel > max(rows, 1):
            return None
        rule = self._rules[rows, bool(parallel)]
        stages: list[Loops] = []
        for position, by_rule in enumerate(rule.stages):
            made = _made(self.forms[rows][position], settings, f"stage {position} ", 0)
            if made is None:
                return None
            stages.append(replace(made, parallel=by_rule.parallel, softmax=by_rule.softmax))
        joined = self._joined(rows, stages) if settings["joined"] else frozenset()
        if any(stages[position] != rule.stages[position] for position in joined):
            return None  # they have no loops of their own
        on_stack = self._stack_bytes(rows, int(settings["stack_bytes"]))
        schedule = RowStages(rows, tuple(stages), parallel if rows else 0, on_stack, joined)
        if settings["ahead"]:
            schedule = looking_ahead(self.task, schedule)
        if settings["streamed"]:
            schedule = streaming(self.task, schedule)
        return schedule

    def _joined(self, rows: int, stages: list[Loops]) -> frozenset[int]:
        """The stages that may be computed in the loop of the next one, which lanes decide."""
        key = rows, tuple(stage.lanes for stage in stages)
        known = self._known_joined.get(key)
        if known is None:
            known = joined_stages(self.task, range(len(stages)), rows, stages)
            self._known_joined[key] = known
        return known

    @cached_property
    def _known_joined(self) -> dict[tuple[int, tuple[Lanes, ...]], frozenset[int]]:
        return {}

    def read(self, schedule: Schedule) -> Settings | None:
        """The settings of a schedule; None if it has other stages."""
        if not isinstance(schedule, RowStages) or len(schedule.stages) != len(self.task.stages):
            return None
        settings: dict[str, Setting] = {
            "rows": schedule.rows,
            "parallel": schedule.parallel or int(any(s.parallel for s in schedule.stages)),
            "stack_bytes": schedule.stack_bytes,
            "joined": bool(schedule.joined),
            "ahead": any(stage.ahead for stage in schedule.stages),
            "streamed": any(stage.streamed for stage in schedule.stages),
        }
        for position, stage in enumerate(schedule.stages):
            settings |= _read_stage(stage, f"stage {position} ")
        return settings

    def seconds(self, schedule: Schedule) -> float:
        """The estimate: computing and moving, of which the longer one hides the other."""
        assert isinstance(schedule, RowStages)
        threads = self.threads if schedule.parallel else 1
        axes = self.task.stages[0].axes
        units = prod(axis.extent for axis in axes[: schedule.parallel])
        share = -(-units // threads) / units if units else 1.0
        cycles, loops = 0.0, int(threads > 1)
        for form, stage in zip(self.forms[schedule.rows], schedule.stages, strict=True):
            together = self.threads if stage.parallel else 1
            cycles += form.busiest_cycles(stage, together) * share
            loops += together > 1
        computing = cycles / self.costs.frequency
        met = loops * self.costs.machine.barrier_seconds
        moving = _moving_seconds(self.task, self.costs, max(threads, 1))
        against = schedule.stack_bytes != STACK_BYTES
        between = self._row_seconds(schedule)
        return (max(computing, moving) + between + met) * DEPARTURE**against

    def _row_seconds(self, schedule: RowStages) -> float:
        """How long rows between stages take to be written and read again, from where they fit."""
        total = 0.0
        around = prod(axis.extent for axis in self.task.stages[0].axes[: schedule.rows])
        for position, stage in enumerate(self.task.stages):
            if position in self.task.outputs or position in schedule.joined or not around:
                continue
            row = stage.type.bytes / around
            level = next(v for v in self.costs.machine.levels if v.usable_bytes(1) >= row)
            if level is not self.costs.machine.levels[0]:
                total += 2 * stage.type.bytes / level.bandwidth.alone
        return total

    def _stack_bytes(self, rows: int, most: int) -> int:
        """The size up to which rows live on the stack; the rule's where both say the same."""

        def places(most: int) -> tuple[bool, ...]:
            return tuple(
                prod(stage.type.shape[rows:]) * stage.type.dtype.bytes <= most
                for stage in self.task.stages
            )

        return STACK_BYTES if places(most) == places(STACK_BYTES) else most


def _stage_knobs(prefix: str, forms: list[StageLoops]) -> tuple[Knob, ...]:
    """The knobs of a stage, whatever number of outer axes it is inside."""
    lanes = dict.fromkeys(lane.value for form in forms for lane in form.tiles)
    tiles = sorted({tile for form in forms for tiles in form.tiles.values() for tile in tiles})
    unrolls = sorted({unroll for form in forms for unroll in form.unrolls})
    divides = sorted({divides for form in forms for divides in form.reciprocals})
    return (
        Knob(prefix + "lanes", tuple(lanes)),
        Knob(prefix + "tile", tuple(tiles)),
        Knob(prefix + "unroll", tuple(unrolls)),
        Knob(prefix + "reciprocals", tuple(divides)),
    )


def _made(form: StageLoops, settings: Settings, prefix: str, parallel: int) -> Loops | None:
    """The loops of a stage by its settings; None if there are none."""
    lanes, tile, unroll, reciprocals = (settings[prefix + name] for name in STAGE_KNOBS)
    return form.made(Lanes(str(lanes)), int(tile), int(unroll), parallel, bool(reciprocals))


def _read_stage(loops: Loops, prefix: str) -> dict[str, Setting]:
    """The settings of the loops of a stage."""
    return {
        prefix + "lanes": loops.lanes.value,
        prefix + "tile": loops.tile,
        prefix + "unroll": loops.unroll,
        prefix + "reciprocals": loops.reciprocals,
    }

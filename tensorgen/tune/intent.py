"""What a schedule of one task says to tasks of other sizes.

What it does: says which tasks are alike but for their sizes (`kind_of`, `sizes_of`), and makes of a
schedule that was good for one of them schedules to try for another: the register tile, the order
and the packing stay, blocks that are there for a cache keep their bytes, not their lengths. What it
does not: measure them, or find trials (`records`).

Source: Gibson and Cano, "Transfer-Tuning", PACT 2022: the best schedules of tasks of the same class
give about half of what tuning each one gives, for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, log2, prod
from typing import Protocol, TypeVar, assert_never

from tensorgen.attention import attention_of
from tensorgen.contraction import Contraction, contraction_of, has_tiles
from tensorgen.digest import content_digest
from tensorgen.expr import Apply, Axis, Cast, Reduce, TensorExpr, loads, walk
from tensorgen.schedule import (
    AttentionTile,
    Loops,
    RegisterTile,
    RowStages,
    Schedule,
    WindowTile,
    WinogradTile,
)
from tensorgen.task import Task
from tensorgen.tune.trial import Trial
from tensorgen.window import window_of

_LARGEST_STEP = 4
"""Neighbours of a result that read farther apart read rows of their own."""

C = TypeVar("C")


class AdaptingSpace(Protocol[C]):
    """What is asked of a space (`space.Space`)."""

    def adapted(self, schedule: Schedule) -> C | None:
        """The point most like a schedule of another task."""
        ...

    def schedule(self, candidate: C) -> Schedule | None:
        """The schedule of a point."""
        ...


@dataclass(frozen=True, slots=True)
class Intent:
    """A schedule and the sizes of the task that it was for."""

    schedule: Schedule
    sizes: tuple[int, ...]

    @staticmethod
    def of(trial: Trial) -> Intent:
        """What a trial has to say."""
        return Intent(trial.schedule, trial.sizes)


def kind_of(task: Task) -> str:
    """The class of a task: equal for tasks that the same structure of schedule suits, whatever
    their sizes and what is done to each element of a sum afterwards."""
    attention = attention_of(task)
    if attention is not None:
        element = attention.scores.contraction.dtype.name
        return f"attention {element}{'' if attention.weighted is None else ' weighted'}"
    contraction = contraction_of(task)
    if contraction is not None and has_tiles(contraction):
        return _kind_of_contraction(task, contraction)
    window = window_of(task)
    if window is not None:
        weighted = "" if window.weight is None else " weighted"
        taps = f"{window.rows.kernel.extent}x{window.columns.kernel.extent}"
        return f"window {window.dtype.name} {window.fold.value}{weighted} {taps}"
    return f"loops {content_digest(*map(_structure, task.stages)).hex()[:12]}"


def _kind_of_contraction(task: Task, contraction: Contraction) -> str:
    stage = next(stage for stage in task.stages if isinstance(stage.body, Reduce))
    assert isinstance(stage.body, Reduce)
    _, *window = [axis.extent for axis in stage.body.axes if axis.extent != 1] or [1]
    words = ["contraction", contraction.dtype.name]
    if window:
        words.append("x".join(map(str, window)))
    batched = any(
        all(f.coefficient(axis) for f in contraction.factors) for axis in contraction.axes
    )
    step = max((_step(contraction, factor) for factor in (0, 1)), default=1)
    words += [
        word
        for word, holds in (
            (f"step {step}", step > 1),
            ("batched", batched),
            ("padded", contraction.prologue is not None),
            ("of constants", any(contraction.constant(task))),
        )
        if holds
    ]
    return " ".join(words)


def _step(contraction: Contraction, factor: int) -> int:
    """How far apart neighbours of the result read in a factor: the step of a convolution."""
    steps = [abs(contraction.factors[factor].coefficient(axis)) for axis in contraction.axes]
    least = min((step for step in steps if step), default=1)
    return least if least <= _LARGEST_STEP else 1


def _structure(stage: TensorExpr) -> str:
    """A stage without its sizes: the operators in it, and how many axes they are inside."""
    words = [str(len(stage.axes)), stage.type.dtype.name]
    for term in walk(stage.body):
        match term:
            case Apply(op=op) if term.dtype.is_float or op.predicate:
                words.append(op.name)
            case Cast(dtype=dtype):
                words.append(dtype.name)
            case Reduce(fold=fold):
                words.append(fold.name)
            case _:
                pass
    return f"{' '.join(words)} of {len(loads(stage.body))}"


def sizes_of(task: Task) -> tuple[int, ...]:
    """What tasks of a kind differ in, outermost first. Of a contraction: batches, what only the
    first factor has, what only the second has, and the length of its sums."""
    attention = attention_of(task)
    if attention is not None:
        (keys,) = attention.scores.vectors
        outer = prod(axis.extent for axis in attention.outer)
        return outer, attention.row.extent, keys.extent, _extent(attention.scores.reduction)
    contraction = contraction_of(task)
    if contraction is not None and has_tiles(contraction):
        groups: dict[tuple[bool, bool], int] = {}
        for axis in contraction.axes:
            inside = [factor.coefficient(axis) != 0 for factor in contraction.factors]
            key = (inside[0], inside[1])
            groups[key] = groups.get(key, 1) * axis.extent
        both = groups.get((True, True), 1) * groups.get((False, False), 1)
        first, second = groups.get((True, False), 1), groups.get((False, True), 1)
        return both, first, second, _extent(contraction.reduction)
    window = window_of(task)
    if window is not None:
        rows, columns = window.rows.output.extent, window.columns.output.extent
        return _extent(window.outer), rows, columns, _extent(window.depth)
    first_stage = task.stages[0]
    reductions = [t for stage in task.stages for t in walk(stage.body) if isinstance(t, Reduce)]
    inner = max((_extent(term.axes) for term in reductions), default=1)
    return _extent(first_stage.axes[:-1]), _extent(first_stage.axes[-1:]), inner


def _extent(axes: Sequence[Axis]) -> int:
    return prod(axis.extent for axis in axes)


def most_alike(trials: Iterable[Trial], sizes: tuple[int, ...]) -> tuple[Trial, ...]:
    """Trials of a kind, those of tasks with nearly these sizes first."""
    return tuple(sorted(trials, key=lambda trial: (_distance(trial.sizes, sizes), trial.task)))


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """How unlike sizes are, by their ratios."""
    if len(one) != len(other):
        return inf
    return sum(abs(log2((a + 1) / (b + 1))) for a, b in zip(one, other, strict=True))


def adapt(intent: Intent, space: AdaptingSpace[C], sizes: tuple[int, ...]) -> tuple[Schedule, ...]:
    """Schedules of a space, for a task of these sizes, that do what was intended; none if no sketch
    is of that structure. The one with blocks of the same bytes comes first, the one with blocks of
    the same length second, where they differ."""
    found: dict[Schedule, None] = {}
    for wanted in (_same_bytes(intent, sizes), intent.schedule):
        candidate = space.adapted(wanted)
        schedule = None if candidate is None else space.schedule(candidate)
        if schedule is not None:
            found[schedule] = None
    return tuple(found)


def _same_bytes(intent: Intent, sizes: tuple[int, ...]) -> Schedule:
    """The schedule with its blocks as long as they must be to take as many bytes as before."""
    schedule = intent.schedule
    if len(intent.sizes) != len(sizes):
        return schedule
    match schedule:
        case WinogradTile():
            # A strip is as long as there are channels, the sums.
            ratio = intent.sizes[-1] / max(sizes[-1], 1)
            chunk = max(1, round(schedule.chunk * ratio))
            return replace(
                schedule,
                strips=max(1, round(schedule.strips * ratio)),
                chunk=chunk,
                panels_ahead=schedule.panels_ahead and chunk > schedule.rows,
            )
        case AttentionTile():
            # A row of scores is as long as there are keys.
            ratio = intent.sizes[2] / max(sizes[2], 1)
            rows = schedule.scores.rows
            return replace(schedule, rows=rows * max(1, round(schedule.rows / rows * ratio)))
        case RegisterTile(panel_group=group, row_block=block, rows=rows) if group:
            # Rows and panels are as long as the sums.
            ratio = intent.sizes[-1] / max(sizes[-1], 1)
            return replace(
                schedule,
                row_block=rows * max(1, round(block / rows * ratio)),
                panel_group=max(1, round(group * ratio)),
            )
        case RegisterTile(
            block_in_place=True, row_block=block, rows=rows, vector_operand=operand
        ) if block:
            # As many blocks as before: one for each thread.
            own = 2 - operand
            ratio = sizes[own] / max(intent.sizes[own], 1)
            return replace(schedule, row_block=rows * max(1, ceil(block / rows * ratio)))
        case RegisterTile(row_block=block, rows=rows) if block:
            # A row that is packed is as long as the sums.
            ratio = intent.sizes[-1] / max(sizes[-1], 1)
            return replace(schedule, row_block=rows * max(1, round(block / rows * ratio)))
        case Loops() | RowStages() | RegisterTile() | WindowTile():
            return schedule
        case _:
            assert_never(schedule)

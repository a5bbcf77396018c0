"""Kinds of tasks, and schedules of one shape for another."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tensorgen.lower import lower
from tensorgen.schedule import RegisterTile, WinogradTile
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tune.intent import Intent, adapt, kind_of, most_alike, sizes_of
from tensorgen.tune.outcome import Timed
from tensorgen.tune.task_space import space_of
from tensorgen.tune.trial import Setting, trial_in
from tests.attention_tasks import AttentionShape
from tests.contraction_tasks import convolution, matmul, padded, with_epilogue
from tests.tensorgen.test_softmax import softmax
from tests.window_tasks import Spatial, window_task

TARGET = Target.named("x86-64-v4")


def conv(size: int, channels: int, features: int, kernel: int = 3, step: int = 1) -> Task:
    edge = kernel // 2
    task = convolution(
        (size, size), (kernel, kernel), channels=(channels, features), strides=(step, step)
    )
    return padded(task, (edge, edge), (edge, edge)) if edge else task


def pool(size: int, planes: int) -> Task:
    return window_task((Spatial(size, 3), Spatial(size, 3)), planes=(1, planes))


def by_constant(rows: int, columns: int, depth: int) -> Task:
    return matmul((), rows, columns, depth, constant=(False, True))


KINDS: dict[str, tuple[Task, ...]] = {
    "contraction float32": (matmul((), 8, 64, 32), matmul((), 100, 70, 5)),
    "contraction float32 batched": (matmul((2,), 8, 64, 32), matmul((3,), 9, 32, 7)),
    "contraction float32 of constants": (
        by_constant(8, 64, 32),
        with_epilogue(by_constant(9, 32, 7), "bias"),
        conv(14, 32, 48, kernel=1),
    ),
    "contraction float32 3x3 padded of constants": (conv(14, 32, 48), conv(28, 16, 64)),
    "contraction float32 3x3 step 2 padded of constants": (
        conv(14, 32, 48, step=2),
        conv(28, 16, 64, step=2),
    ),
    "window float32 add 3x3": (pool(20, 8), pool(40, 16)),
    "attention float32 weighted": (
        AttentionShape((2,), 32, 32, 16, 16).task(),
        AttentionShape((4,), 64, 48, 32, 32).task(),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_of_a_kind_differ_in_their_sizes(kind: str) -> None:
    tasks = KINDS[kind]
    assert {kind_of(task) for task in tasks} == {kind}
    assert len({len(sizes_of(task)) for task in tasks}) == 1
    for one, other in itertools.combinations(tasks, 2):
        assert sizes_of(one) != sizes_of(other)


def test_loops_are_of_a_kind_by_their_operators() -> None:
    assert kind_of(softmax(4, 100)) == kind_of(softmax(32, 640))
    assert kind_of(softmax(4, 100)).startswith("loops ")
    rest = softmax(4, 100)
    first = Task(rest.inputs, rest.stages[:1], (0,), rest.constant)
    assert kind_of(first) != kind_of(rest)
    assert sizes_of(softmax(4, 100)) != sizes_of(softmax(32, 640))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_good_for_one_is_tried_for_the_other(kind: str) -> None:
    one, other = KINDS[kind][:2]
    mine, space = space_of(one, TARGET, 1), space_of(other, TARGET, 1)
    intent = Intent(mine.zero_trial, sizes_of(one))
    assert adapt(intent, mine, sizes_of(one))[0] == mine.zero_trial
    found = adapt(intent, space, sizes_of(other))
    assert 1 <= len(found) <= 2
    for schedule in found:
        assert type(schedule) is type(mine.zero_trial)
        assert space.locate(schedule) is not None
        lower(other, schedule)


def test_blocks_keep_their_bytes() -> None:
    """Four times the channels: a quarter of the strips are as many bytes."""
    one, other = conv(56, 64, 64), conv(56, 256, 64)
    mine, space = space_of(one, TARGET, 1), space_of(other, TARGET, 1)
    start = mine.zero_trial
    assert isinstance(start, WinogradTile)
    bytes_first, *_ = adapt(Intent(start, sizes_of(one)), space, sizes_of(other))
    assert isinstance(bytes_first, WinogradTile)
    assert bytes_first.results == start.results
    assert start.strips / 8 <= bytes_first.strips <= start.strips / 2


def test_groups_of_panels_keep_their_bytes() -> None:
    """Sums twice as long: half the rows and panels are as many bytes."""
    one = matmul((), 4096, 4096, 2048, constant=(False, True))
    other = matmul((), 4096, 4096, 4096, constant=(False, True))
    mine, space = space_of(one, TARGET, 1), space_of(other, TARGET, 1)
    start = mine.zero_trial
    assert isinstance(start, RegisterTile)
    assert start.panel_group
    bytes_first, *_ = adapt(Intent(start, sizes_of(one)), space, sizes_of(other))
    assert isinstance(bytes_first, RegisterTile)
    assert abs(2 * bytes_first.panel_group - start.panel_group) <= 2
    assert abs(2 * bytes_first.row_block - start.row_block) <= 2 * start.rows


def test_another_structure_gives_nothing() -> None:
    space = space_of(softmax(4, 100), TARGET, 1)
    tile = space_of(matmul((), 8, 64, 32), TARGET, 1).zero_trial
    assert adapt(Intent(tile, (1, 8, 64, 32)), space, (4, 100, 100)) == ()


def test_trials_of_like_sizes_come_first() -> None:
    setting = Setting("x86-64-v4", 1, "cpu", "gcc", "0.1")
    schedule = space_of(matmul((), 8, 64, 32), TARGET, 1).zero_trial
    trial = trial_in(setting, "0" * 32, schedule, Timed(1.0), sizes=(1, 8, 64, 32))
    near, far = replace(trial, sizes=(1, 16, 64, 32)), replace(trial, sizes=(1, 8, 640, 32))
    strange = replace(trial, sizes=(1,))
    found = most_alike([strange, far, near, trial], (1, 8, 64, 32))
    assert found == (trial, near, far, strange)

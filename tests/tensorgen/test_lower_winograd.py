"""Minimal filtering: every form of convolution against the meaning of the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.contraction import contraction_of
from tensorgen.loop import For, LoopKind, Space, statements
from tensorgen.loop_eval import run_kernel
from tensorgen.lower import lower
from tensorgen.memory_order import Together, reordered
from tensorgen.schedule import ScheduleError, WinogradTile
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import Array, float32, float64
from tensorgen.winograd import (
    FilteredContraction,
    FilterGrid,
    Parts,
    filtered_contraction,
)
from tests.asked_places import asked_places
from tests.compiled_kernels import (
    ISA_TARGETS,
    Case,
    CompiledKernels,
    assert_same,
    evaluate_task,
    runnable_isas,
)
from tests.contraction_tasks import (
    convolution,
    matmul,
    padded,
    phases,
    whole_inputs,
    with_epilogue,
)


def form_of(task: Task) -> FilteredContraction | None:
    contraction = contraction_of(task)
    assert contraction is not None
    return filtered_contraction(contraction, contraction.constant(task))


def together(task: Task, channels: int, features: int) -> Task:
    """A convolution whose channels and whose features are neighbours in memory; 0: are not."""
    [data] = [n for n, constant in enumerate(task.constant) if not constant]
    blocks = {data: channels, len(task.inputs) + len(task.stages) - 1: features}
    return reordered(task, {n: Together(1, block) for n, block in blocks.items() if block})


def tile(
    task: Task,
    results: int,
    lanes: int,
    *,
    strips: int = 2,
    chunk: int = 5,
    parallel: bool = False,
    apart: bool = False,
) -> WinogradTile:
    """A schedule with small blocks, so that all of them have tails."""
    form = form_of(task)
    assert form is not None, str(task)
    turned = lanes in (4, 16)
    return WinogradTile(
        (results,) * len(form.filtered), strips, chunk, 3, 2, lanes, parallel, turned, apart
    )


def in_shares(task: Task, schedule: WinogradTile) -> WinogradTile:
    """The same where each thread transforms the data for a share of the features: narrow blocks of
    them, each of which is a share."""
    form = form_of(task)
    assert form is not None, str(task)
    blocks = -(-prod(axis.extent for axis in form.features) // schedule.lanes)
    return replace(schedule, vectors=1, parallel=True, apart=True, shares=blocks)


TASKS: dict[str, tuple[Task, int]] = {
    "one tile": (convolution((4, 4), (3, 3), channels=(2, 3)), 4),
    "ragged": (convolution((7, 5), (3, 3), channels=(3, 5)), 4),
    "two by two": (convolution((5, 6), (3, 3), channels=(5, 9)), 2),
    "two taps": (convolution((5, 7), (2, 2), channels=(3, 4)), 3),
    "five taps": (convolution((3, 6), (5, 5), channels=(2, 3)), 2),
    "unequal taps": (convolution((5, 6), (2, 3), channels=(2, 3)), 2),
    "several images": (convolution((3, 5), (3, 3), channels=(2, 3), batch=3), 2),
    "groups": (convolution((4, 5), (3, 3), channels=(2, 3), groups=2), 2),
    "dilated": (convolution((7, 9), (3, 3), channels=(2, 3), dilations=(2, 3)), 2),
    "seven taps": (convolution((4, 7), (1, 7), channels=(5, 3)), 3),
    "six by nine": (convolution((3, 5), (6, 9), channels=(2, 3)), 2),
    "seven dilated": (convolution((9,), (7,), channels=(3, 4), dilations=(2,)), 3),
    "seven padded": (padded(convolution((7, 5), (7, 1), channels=(2, 3)), (3, 0), (3, 0)), 3),
    "strided": (convolution((7, 5), (3, 3), channels=(3, 5), strides=(2, 2)), 4),
    "strided by three": (convolution((5, 4), (5, 5), channels=(5, 3), strides=(3, 3)), 2),
    "strided rows": (convolution((5, 6), (3, 3), channels=(2, 3), strides=(2, 1)), 3),
    "strided columns": (convolution((4, 7), (3, 3), channels=(2, 3), strides=(1, 2)), 2),
    "strided, even taps": (convolution((4, 5), (4, 4), channels=(5, 3), strides=(2, 2)), 3),
    "strided, seven taps": (convolution((4, 7), (7, 7), channels=(3, 5), strides=(2, 2)), 3),
    "strided groups": (
        convolution((4, 5), (3, 3), channels=(2, 3), groups=2, strides=(2, 2), batch=2),
        2,
    ),
    "strided, dilated": (
        convolution((7, 9), (3, 5), channels=(2, 3), strides=(2, 3), dilations=(3, 2)),
        2,
    ),
    "strided line": (convolution((11,), (3,), channels=(5, 3), strides=(2,)), 4),
    "strided volume": (
        convolution((3, 4, 5), (3, 3, 3), channels=(2, 3), strides=(2, 2, 2)),
        2,
    ),
    "strided, dilated volume": (
        convolution((5, 4, 5), (3, 2, 3), channels=(2, 3), strides=(2, 1, 2), dilations=(3, 1, 1)),
        2,
    ),
    "line": (convolution((11,), (3,), channels=(5, 3)), 4),
    "dilated line": (convolution((9,), (3,), channels=(2, 3), dilations=(2,), batch=2), 2),
    "rows only": (convolution((6, 5), (3, 1), channels=(2, 3)), 2),
    "columns only": (convolution((4, 7), (1, 3), channels=(2, 3)), 4),
    "volume": (convolution((3, 4, 5), (3, 3, 3), channels=(2, 3)), 2),
    "several volumes": (convolution((2, 3, 4), (2, 3, 3), channels=(2, 3), batch=2), 2),
    "double": (convolution((4, 5), (3, 3), channels=(2, 3), dtype=float64), 4),
    "bias": (with_epilogue(convolution((4, 5), (3, 3), channels=(2, 3)), "bias"), 2),
    "residual": (with_epilogue(convolution((4, 6), (3, 3), channels=(2, 3)), "residual"), 4),
    "transposed": (with_epilogue(convolution((4, 6), (3, 3), channels=(2, 3)), "transpose"), 4),
    "flattened": (with_epilogue(convolution((4, 6), (3, 3), channels=(2, 3)), "flatten"), 2),
    "padded": (padded(convolution((7, 5), (3, 3), channels=(3, 5)), (1, 1), (1, 1)), 4),
    "padded unevenly": (padded(convolution((4, 6), (3, 3), channels=(2, 3)), (0, 2), (1, 0)), 2),
    "padded groups": (
        padded(convolution((4, 5), (3, 3), channels=(2, 3), groups=2, batch=2), (1, 1), (1, 1)),
        2,
    ),
    "padded, dilated": (
        padded(convolution((7, 9), (3, 3), channels=(2, 3), dilations=(2, 3)), (2, 3), (2, 3)),
        2,
    ),
    "padded volume": (
        padded(convolution((3, 4, 5), (3, 3, 3), channels=(2, 3)), (1, 1, 1), (1, 1, 1)),
        2,
    ),
    "together": (together(convolution((5, 7), (3, 3), channels=(16, 32)), 16, 32), 4),
    "together, in part": (together(convolution((5, 7), (3, 3), channels=(18, 21)), 18, 21), 2),
    "together, padded": (
        together(padded(convolution((4, 6), (3, 3), channels=(20, 5)), (1, 1), (1, 1)), 20, 5),
        4,
    ),
    "together, in row-major order": (
        together(padded(convolution((6, 7), (3, 3), channels=(16, 24)), (1, 1), (1, 1)), 16, 0),
        4,
    ),
    "together from row-major order": (
        together(convolution((5, 9), (3, 3), channels=(5, 32)), 0, 32),
        4,
    ),
    "features and more": (convolution((5, 9), (3, 3), channels=(5, 27)), 4),
    "padded line": (padded(convolution((11,), (3,), channels=(5, 3)), (2,), (1,)), 4),
    "strided, padded": (
        padded(convolution((7, 5), (3, 3), channels=(18, 5), strides=(2, 2)), (1, 0), (1, 1)),
        4,
    ),
    "strided, padded line": (
        padded(convolution((8,), (4,), channels=(3, 5), strides=(3,)), (2,), (1,)),
        3,
    ),
    "strided, padded, dilated": (
        padded(
            convolution((5, 7), (3, 3), channels=(2, 3), strides=(2, 2), dilations=(3, 1)),
            (2, 1),
            (3, 0),
        ),
        2,
    ),
    "strided, padded volume": (
        padded(
            convolution((2, 4, 5), (3, 3, 3), channels=(2, 3), strides=(2, 2, 2), batch=2),
            (1, 1, 1),
            (1, 0, 1),
        ),
        3,
    ),
    "residual after padded": (
        padded(
            with_epilogue(convolution((4, 6), (3, 3), channels=(2, 3)), "residual"), (1, 1), (1, 1)
        ),
        4,
    ),
    "phases": (padded(phases((4, 6), (5, 3)), (1, 1), (1, 1)), 2),
    "phases of a line": (padded(phases((9,), (18, 3)), (1,), (1,)), 4),
    "phases that leave padding out": (padded(phases((4, 6), (5, 3), 3), (2, 2), (0, 0)), 2),
    "phases without padding": (phases((4, 5), (2, 3)), 2),
    "narrow": (with_epilogue(convolution((4, 6), (3, 3), channels=(2, 3)), "narrow"), 2),
}


FOLDED = [name for name in TASKS if "strided" in name and name != "strided, dilated"]
"""Those whose residues are neighbours along the inner axis."""


LANES = (pytest.param(1, marks=pytest.mark.slow), 4)
"""One lane takes the interpreter longest; compiled, it is among the others."""


def inputs(task: Task) -> list[Array]:
    """Small whole numbers; weights are multiples of 24 * 24, so that filtering rounds nothing."""
    arrays = whole_inputs(task)
    return [
        array * np.asarray(576 if fixed else 1, array.dtype)
        for array, fixed in zip(arrays, task.constant, strict=True)
    ]


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", FOLDED)
def test_folded_it_is_exact(name: str, lanes: int) -> None:
    task, results = TASKS[name]
    arrays = inputs(task)
    schedule = replace(tile(task, results, lanes), folded=True)
    found = Case.of(task, schedule).interpret(arrays)[0]
    assert_same(found, evaluate_task(task, arrays)[0], 0.0, name)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("name", TASKS)
def test_filtering_is_exact_on_whole_numbers(name: str, lanes: int) -> None:
    task, results = TASKS[name]
    arrays = inputs(task)
    expected = evaluate_task(task, arrays)[0]
    plain = tile(task, results, lanes)
    for schedule in (plain, in_shares(task, plain)):
        assert_same(Case.of(task, schedule).interpret(arrays)[0], expected, 0.0, name)


def check_compiled(names: Sequence[str], isa: str, threads: int, apart: bool, cache: Path) -> None:
    """The tasks of these names, compiled, are exact, folded where they can be, too."""
    if isa not in runnable_isas():
        pytest.skip(f"this machine has no {isa}")
    lanes = {"c99": 1, "sse42": 4, "avx2": 8, "avx512": 16}[isa]
    cases = [
        Case.of(task, replace(schedule, folded=folded, panels_ahead=threads > 1))
        for name in names
        for task, results in (TASKS[name],)
        if task.stages[0].type.dtype == float32
        for blocks in (tile(task, results, lanes, parallel=threads > 1, apart=apart),)
        for schedule in ((blocks, in_shares(task, blocks)) if apart else (blocks,))
        for folded in (False, True)
        if not folded or name in FOLDED
    ]
    compiled = CompiledKernels(cases, cache, target=Target.named(ISA_TARGETS[isa]), threads=threads)
    for number, case in enumerate(cases):
        arrays = inputs(case.task)
        expected = evaluate_task(case.task, arrays)[0]
        assert_same(compiled.run(number, arrays)[0], expected, 0.0, str(case.task))


@pytest.mark.parametrize(
    ("turn", "isa", "threads", "apart"),
    [(0, "c99", 1, False), (1, "avx2", 2, False), (2, "avx512", 2, True)],
)
def test_compiled_it_is_exact_too(
    turn: int, isa: str, threads: int, apart: bool, tmp_path: Path
) -> None:
    """Each way to share the work once, with other vectors each; the builds take turns at the tasks,
    of which the interpreter has run every one."""
    check_compiled(tuple(TASKS)[turn::3], isa, threads, apart, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "apart"), [(1, False), (2, False), (2, True)])
@pytest.mark.parametrize("isa", ISA_TARGETS)
def test_every_task_compiled_is_exact_too(
    isa: str, threads: int, apart: bool, tmp_path: Path
) -> None:
    check_compiled(tuple(TASKS), isa, threads, apart, tmp_path)


@st.composite
def convolutions(draw: st.DrawFn) -> Task:
    """A random convolution with at least one window that can be filtered."""
    rank = draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    kernel[draw(st.integers(0, rank - 1))] = draw(st.integers(2, 5))
    outputs = tuple(draw(st.integers(4, 7 if rank < 3 else 4)) for _ in range(rank))
    dilations = tuple(draw(st.integers(1, 2)) for _ in range(rank))
    strides = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    return convolution(
        outputs, tuple(kernel), channels=(draw(st.integers(1, 3)), draw(st.integers(1, 5))),
        groups=draw(st.integers(1, 2)), strides=strides, dilations=dilations,
        batch=draw(st.integers(1, 2)),
    )  # fmt: skip


@given(
    convolutions(),
    st.integers(2, 4),
    st.integers(1, 9),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None, max_examples=20)
def test_random_convolutions(
    task: Task, results: int, strips: int, chunk: int, apart: bool, folded: bool
) -> None:
    contraction = contraction_of(task)
    form = (
        None
        if contraction is None
        else filtered_contraction(contraction, contraction.constant(task))
    )
    if form is None:
        return
    if any(window.taps + results - 1 > 6 for window in form.filtered):
        return
    inner = form.filtered[-1]
    schedule = WinogradTile(
        (results,) * len(form.filtered), strips, chunk, 2, 1, 4, apart, apart=apart,
        folded=folded
        and (inner.stride == 1 or inner.dilation == 1)
        and all(window.parts == window.stride for window in form.filtered),
    )  # fmt: skip
    arrays = inputs(task)
    found = Case.of(task, schedule).interpret(arrays)[0]
    assert_same(found, evaluate_task(task, arrays)[0], 0.0, str(schedule))


@pytest.mark.parametrize("chunk", [6, 7])
def test_every_line_of_the_next_point_is_asked_for(chunk: int) -> None:
    """The tiles that read the weights of one point ask for all of those of the next."""
    task = convolution((7, 9), (3, 3), channels=(5, 70))
    schedule = tile(task, 2, 16, chunk=chunk)
    plain, ahead = lower(task, schedule), lower(task, replace(schedule, panels_ahead=True))
    weights = ahead.kernel.inputs[1]
    asked: dict[int, set[int]] = {}
    asked_places(plain.kernel.body, {}, asked)
    assert not asked
    asked_places(ahead.kernel.body, {}, asked)
    panel = 5 * 32
    assert weights.size == 3 * 16 * panel
    lines = {place // 16 for place in asked[weights.number]}
    assert lines >= {place // 16 for place in range(panel, weights.size)}


@pytest.mark.parametrize("name", TASKS)
def test_threads_apart_share_blocks_and_nothing_else(name: str) -> None:
    task, results = TASKS[name]
    kernel = Case.of(
        task, tile(task, results, 4, strips=1, parallel=True, apart=True)
    ).lowered.kernel
    assert all(buffer.space is Space.SCRATCH for buffer in kernel.scratch)
    parallel = [
        s for s in statements(kernel.body) if isinstance(s, For) and s.kind is LoopKind.PARALLEL
    ]
    assert list(kernel.body) == parallel or not parallel


@pytest.mark.parametrize(
    ("taps", "stride", "results", "growth"),
    [(3, 1, 4, 29.4), (3, 2, 4, 14.4), (3, 2, 5, 29.4), (7, 2, 3, 29.4), (5, 3, 4, 14.4)],
)
def test_rounding_stays_within_the_bound(
    taps: int, stride: int, results: int, growth: float
) -> None:
    """On normal numbers, by as many points as `growth` belongs to: errors some times those of plain
    sums."""
    kernel, steps = (taps, taps), (stride, stride)
    task = convolution((6, 6), kernel, channels=(6, 4), strides=steps)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(type.shape).astype(np.float32) for type in task.inputs]
    found = Case.of(task, tile(task, results, 4)).interpret(arrays)[0]
    wide = convolution((6, 6), kernel, channels=(6, 4), strides=steps, dtype=float64)
    exact = evaluate_task(wide, [array.astype(np.float64) for array in arrays])[0]
    largest = np.abs(arrays[0]).max() * taps * taps * 6
    assert np.abs(found - exact).max() < 2.0**-24 * growth * growth * largest


def test_a_stride_is_a_sum_of_windows() -> None:
    """Residues of three taps by two: two taps and one, four results by 5 + 4 products."""
    form = form_of(convolution((8, 8), (3, 7), channels=(2, 3), strides=(2, 3)))
    assert form is not None
    outer, inner = (FilterGrid.of(window, 4) for window in form.filtered)
    assert outer.parts == (Parts(0, 1, 5), Parts(1, 1, 4))
    assert outer.products == 9
    assert outer.elements(False) == 9
    assert inner.parts == (Parts(0, 1, 6), Parts(1, 2, 5))
    assert inner.elements(False) == 3 * 3 + 7


def test_a_long_window_is_a_sum_of_runs() -> None:
    """Seven taps are four and three, and results of both the same filter's."""
    form = form_of(convolution((8, 8), (6, 7), channels=(2, 3)))
    assert form is not None
    outer, inner = (FilterGrid.of(window, 3) for window in form.filtered)
    assert outer.parts == (Parts(0, 2, 5),)
    assert outer.elements(False) == 2 + 6
    assert inner.parts == (Parts(0, 1, 6), Parts(1, 1, 5))
    assert inner.elements(False) == 2 + 7


def test_parts_that_are_a_tap_shorter_have_no_product_at_infinity() -> None:
    """Whatever their weights there are, they are not read."""
    task = convolution((7, 5), (3, 5), channels=(3, 4), strides=(2, 3))
    case = Case.of(task, tile(task, 3, 4))
    arrays = inputs(task)
    expected = case.interpret(arrays)[0]
    data, weights = case.kernel_inputs(arrays)
    # Feature block, points, residues of columns and of lines, channel, feature.
    places = weights.reshape(1, 4, 4, 3, 2, 3, 8).copy()
    assert not places[:, 3, :, :, 1].any()
    assert not places[:, :, 3, 2].any()
    places[:, 3, :, :, 1] = np.nan
    places[:, :, 3, 2] = np.nan
    found = run_kernel(case.lowered.kernel, [data, places.reshape(-1)])[0]
    assert_same(found.reshape(expected.shape), expected, 0.0, str(case.schedule))


def test_neighbours_can_be_folded_only() -> None:
    task = convolution((7, 9), (3, 5), channels=(2, 3), strides=(2, 3), dilations=(3, 2))
    with pytest.raises(ScheduleError, match="to fold, got stride 3, dilation 2 and 3 parts"):
        Case.of(task, replace(tile(task, 2, 4), folded=True))
    task = convolution((4, 5), (1, 7), channels=(2, 3))
    with pytest.raises(ScheduleError, match="to fold, got stride 1, dilation 1 and 2 parts"):
        Case.of(task, replace(tile(task, 2, 4), folded=True))


def test_what_cannot_be_filtered_is_refused() -> None:
    for task in (
        matmul((), 5, 6, 7, constant=(False, True)),
        convolution((4, 5), (1, 1), channels=(2, 3)),
        convolution((4, 5), (3, 3), channels=(2, 3), strides=(3, 4)),
        convolution((4, 5), (2, 3), channels=(2, 3), strides=(2, 3)),
        convolution((4, 5), (1, 11), channels=(2, 3)),
        convolution((4, 5), (3, 3), channels=(2, 3), constant=(False, False)),
        convolution((4, 5), (3, 3), channels=(1, 1), groups=3),
    ):
        assert form_of(task) is None
        with pytest.raises(ScheduleError, match="expected a convolution by constants"):
            Case.of(task, WinogradTile((2, 2), 1, 4, 2, 1, 4, False))


def test_one_number_of_results_for_each_filtered_axis() -> None:
    task = convolution((4, 5), (3, 3), channels=(2, 3))
    with pytest.raises(ScheduleError, match="expected results along 2 axes, got 1"):
        Case.of(task, WinogradTile((2,), 1, 4, 2, 1, 4, False))


def test_threads_with_shares_of_the_features_have_data_of_their_own() -> None:
    task = convolution((7, 5), (3, 3), channels=(3, 12))
    schedule = in_shares(task, tile(task, 2, 4))
    assert schedule.shares == 3
    kernel = lower(task, schedule).kernel
    loops = [loop for loop in statements(kernel.body) if isinstance(loop, For)]
    shared = [loop for loop in loops if loop.kind is LoopKind.PARALLEL]
    assert {loop.axis.extent for loop in shared} == {3}
    assert all(buffer.space is Space.SCRATCH for buffer in kernel.scratch)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"shares": 2},
            "expected a divisor of 3 blocks of features as .*, got 2",
        ),
        (
            {"shares": 0},
            "expected a divisor of 3 blocks of features as .*, got 0",
        ),
        ({"apart": False}, "expected transformed data of its own for each share of the features"),
    ],
)
def test_shares_that_do_not_go_round_are_refused(change: dict[str, object], message: str) -> None:
    task = convolution((7, 5), (3, 3), channels=(3, 12))
    schedule = in_shares(task, tile(task, 2, 4))
    with pytest.raises(ScheduleError, match=message):
        lower(task, replace(schedule, **change))  # type: ignore[arg-type]

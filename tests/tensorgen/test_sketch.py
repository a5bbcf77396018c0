"""The schedules with zero trials: they fit the registers, they are stable, the right kind wins."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from tensorgen.contraction import assign_roles, contraction_of
from tensorgen.dialects import vector_dialect
from tensorgen.expr import (
    Expr,
    Fold,
    Tensor,
    TensorExpr,
    apply,
    compute,
    const,
    reduce,
    reduce_sum,
)
from tensorgen.lower import lower
from tensorgen.row_blocks import BLOCK_SHARE, GROUP_SHARE, MOST_AT_ONCE
from tensorgen.schedule import (
    Lanes,
    Loops,
    RegisterTile,
    RowStages,
    ScheduleError,
    VectorSource,
    WinogradTile,
)
from tensorgen.sketch import (
    PARALLEL_WORK,
    default_schedule,
    loop_schedule,
    shared_rows,
)
from tensorgen.sketch_tiles import cheapest, cheapest_tile, register_tiles, tile_sketches
from tensorgen.sketch_winograd import RELAY, winograd_sketches, winograd_tiles
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.tile_costs import MULTIPLY_ADD_LATENCY, TRANSPOSED_STORE, least_step
from tensorgen.types import Shape, TensorType, float32, int64
from tests.contraction_tasks import (
    convolution,
    matmul,
    padded,
    phases,
    stage_of,
    task_of,
    typical_core,
)
from tests.contraction_tiles import TASKS

AVX512 = Target.named("x86-64-v4")


def tiles(task: Task, isa: str = "avx512", parallel: bool = False) -> list[RegisterTile]:
    contraction = contraction_of(task)
    assert contraction is not None
    core = typical_core(isa, contraction.dtype)
    estimates = list(register_tiles(task, contraction, core, 2 if parallel else 1))
    assert all(estimate.cycles > 0 for estimate in estimates)
    return [estimate.schedule for estimate in estimates]


@pytest.mark.parametrize("isa", ["c99", "sse42", "avx2", "avx512", "neon", "neon32"])
@pytest.mark.parametrize("shape", [(64, 64, 64), (1, 1000, 9), (7, 5, 3), (1000, 1, 8)])
def test_tiles_fit_the_registers(isa: str, shape: tuple[int, int, int]) -> None:
    rows, columns, depth = shape
    dialect = vector_dialect(isa, float32)
    assert dialect is not None
    for tile in tiles(matmul((), rows, columns, depth), isa):
        assert tile.lanes == dialect.lanes
        # Of the fewer of both, all are held, and one of the others at a time.
        operands = min(tile.rows, tile.vectors) + dialect.temporaries
        if dialect.loads_ahead:
            operands = tile.rows + tile.vectors
        assert tile.rows * tile.vectors + operands <= dialect.registers
        assert tile.rows >= 1


@pytest.mark.parametrize(("rows", "wide"), [(1, (1, 8)), (2, (2, 6)), (3, (3, 4))])
def test_tiles_of_all_of_few_rows_fill_the_registers(rows: int, wide: tuple[int, int]) -> None:
    """With their elements held and not their vectors: the latter alone left half of them empty."""
    shapes = {(t.rows, t.vectors) for t in tiles(matmul((), rows, 512, 64), "avx2")}
    assert wide in shapes
    assert max(shape for shape in shapes if shape[0] == rows) == wide
    cut = {(t.rows, t.vectors) for t in tiles(matmul((), rows, 509, 64), "avx2")}
    assert (wide in cut) == (rows < 3), "3 x 4 leaves no register for a mask"
    more = {(t.rows, t.vectors) for t in tiles(matmul((), rows + 6, 512, 64), "avx2")}
    assert (1, 8) not in more
    assert (2, 6) not in more
    assert (3, 4) not in more


def test_only_constants_are_relaid_ahead() -> None:
    for constant in ((False, False), (False, True), (True, False), (True, True)):
        for tile in tiles(matmul((), 33, 40, 8, constant=constant)):
            if tile.source is VectorSource.PACKED:
                assert constant[tile.vector_operand]
            if tile.row_packed:
                assert constant[1 - tile.vector_operand]


def test_reading_in_place_needs_neighbours_in_order() -> None:
    task = matmul((), 33, 40, 8, transposed=(False, True))
    assert not [t for t in tiles(task) if t.source is VectorSource.DIRECT and t.vector_operand == 1]


def test_broadcasts_by_instructions_of_their_own_do_not_outnumber_what_they_serve() -> None:
    for task in (
        matmul((), 512, 512, 512, constant=(False, True)),
        convolution((28, 28), (1, 1), channels=(256, 256)),
    ):
        tile = default_schedule(task, Target.named("x86-64-v3"), 1)
        assert isinstance(tile, RegisterTile)
        assert tile.rows + tile.vectors <= 0.7 * tile.rows * tile.vectors


@pytest.mark.parametrize(
    ("width", "source"), [(64, VectorSource.RUNTIME), (65, VectorSource.DIRECT)]
)
def test_vectors_that_collide_in_both_caches_are_packed(width: int, source: VectorSource) -> None:
    # Planes of 64 * 64 floats lie 16 KiB apart: their lines share a set or two.
    task = convolution((width, width), (1, 1), channels=(112, 128))
    tile = default_schedule(task, Target.named("x86-64-v3"), 1)
    assert isinstance(tile, RegisterTile)
    assert tile.source is source


@pytest.mark.parametrize("channels", [112, 256])
def test_vectors_that_collide_are_packed_in_whole_lines(channels: int) -> None:
    # 56 x 56 floats are 49 times 256 bytes: 16 sets of the first cache have all lines of a tile.
    task = convolution((56, 56), (1, 1), channels=(channels, 128))
    tile = default_schedule(task, Target.named("x86-64-v3"), 1)
    assert isinstance(tile, RegisterTile)
    assert tile.source is VectorSource.RUNTIME
    assert tile.vectors * tile.lanes == 16, "a line of float32"
    assert tile.panels_ahead


def test_multiply_adds_that_broadcast_from_memory_do_not_wait_for_lines() -> None:
    task = convolution((56, 56), (1, 1), channels=(256, 128))
    tile = default_schedule(task, Target.named("x86-64-v4"), 1)
    assert isinstance(tile, RegisterTile)
    assert tile.source is VectorSource.DIRECT


def test_sums_that_are_only_just_ready_cost_a_part_of_a_cycle() -> None:
    """A tile of 5 x 2 vectors is slower for each row than one of 6 x 2: as measured."""
    core = typical_core("avx2", float32)
    assert least_step(core, 6, 2) == 6.0
    assert least_step(core, 5, 2) == 5.25
    assert least_step(core, 3, 2) == MULTIPLY_ADD_LATENCY
    task = matmul((), 30, 512, 512, constant=(False, True))
    tile = default_schedule(task, Target.named("x86-64-v3"), 1)
    assert isinstance(tile, RegisterTile)
    assert tile.rows * tile.vectors == 12


def test_vectors_that_the_first_cache_loses_are_not_read_in_place() -> None:
    # 16 columns of 64 channels are 3 lines of each: they do not stay beside a panel of weights.
    task = padded(convolution((56, 56), (3, 3), channels=(64, 64)), (1, 1), (1, 1))
    tile = default_schedule(task, Target.named("x86-64-v3"), 1, filtering=False)
    assert isinstance(tile, RegisterTile)
    assert tile.source is VectorSource.PACKED
    assert tile.turned


@pytest.mark.parametrize(("channels", "ahead"), [((64, 64), True), ((64, 512), False)])
def test_few_tiles_ask_for_the_next_vectors(channels: tuple[int, int], ahead: bool) -> None:
    task = convolution((56, 56), (1, 1), channels=channels)
    tile = default_schedule(task, Target.named("x86-64-v3"), 1)
    assert isinstance(tile, RegisterTile)
    assert tile.source is VectorSource.DIRECT
    assert tile.ahead is ahead


@pytest.mark.parametrize(
    ("plane", "channels", "outer", "asked"),
    [(224, 32, True, True), (224, 32, False, False), (56, 32, True, False), (28, 512, True, False)],
)
def test_results_far_away_are_asked_for_where_each_row_has_a_page(
    plane: int, channels: int, outer: bool, asked: bool
) -> None:
    """One vector tile after the other stores in the pages of all rows; along a row, where the
    second cache holds the result, or where rows share pages, nobody asks."""
    task = convolution((plane, plane), (1, 1), channels=(16, channels))
    contraction, core = contraction_of(task), typical_core("avx512")
    assert contraction is not None
    sketch = next(tile_sketches(task, contraction, core, 1))
    tile = sketch.by_rule(VectorSource.DIRECT, 13, 1, turned_order=not outer)
    assert (tile.vectors_outer, tile.epilogue_ahead) == (outer, asked)


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_results_of_phases_are_not_transposed_where_they_are_apart(
    isa: str, interleaved: bool
) -> None:

    def body(x: Tensor, w: Tensor) -> TensorExpr:
        def element(*axes: Expr) -> Expr:
            oc, i, j, k = (*axes[:3], axes[3] if interleaved else const(0, int64))
            return reduce_sum(
                (32, 2, 2), lambda c, a, b: x[(c, i + a, j + b + k)] * w[(k, oc, c, a, b)]
            )

        return compute((32, 8, 8, *((2,) if interleaved else ())), element)

    inputs = ((32, 9, 10), (2, 32, 32, 2, 2))
    task = task_of(inputs, stage_of(inputs, float32, body), (False, True), float32)
    contraction = contraction_of(task)
    assert contraction is not None
    found = list(winograd_sketches(task, contraction, typical_core(isa)))
    assert found
    assert {sketch.store < TRANSPOSED_STORE for sketch in found} == {not interleaved}


@pytest.mark.parametrize(
    ("task", "turned"),
    [
        (padded(phases((8, 8), (16, 16)), (1, 1), (1, 1)), True),
        (phases((8, 8), (16, 16)), True),
        (padded(phases((8, 8), (16, 16), 3), (2, 2), (0, 0)), False),
    ],
)
def test_data_is_transposed_in_registers_if_all_phases_see_a_whole_image(
    task: Task, turned: bool
) -> None:
    contraction = contraction_of(task)
    assert contraction is not None
    core = typical_core("avx512")
    reshaped = [s for s in winograd_sketches(task, contraction, core) if s.results == (2, 2)]
    assert [sketch.relay < RELAY for sketch in reshaped] == [turned]


def test_weights_read_once_in_order_arrive_during_arithmetic() -> None:
    task = padded(convolution((16, 16), (3, 3), channels=(256, 256)), (1, 1), (1, 1))
    contraction = contraction_of(task)
    assert contraction is not None
    core = replace(typical_core("avx512"), far=((inf, inf),), traffic=1e12)
    found = list(winograd_tiles(task, contraction, core, 1))
    late = replace(core, far=((inf, 10.0),))
    slower = [
        later.cycles / estimate.cycles
        for estimate, later in zip(found, winograd_tiles(task, contraction, late, 1), strict=True)
        if estimate.schedule.chunk <= estimate.schedule.rows
    ]
    assert slower
    assert all(1.0 < share <= 1.2 for share in slower), slower


def test_the_choice_is_the_same_every_time() -> None:
    for task in (matmul((), 128, 128, 128), convolution((14, 14), (3, 3), channels=(64, 64))):
        chosen = default_schedule(task, AVX512, 8)
        assert isinstance(chosen, RegisterTile | WinogradTile)
        assert chosen.parallel
        assert default_schedule(task, AVX512, 8) == chosen


def test_threads_filter_groups_apart() -> None:
    """Groups have nothing in common; of one plane of one strip, threads share the features."""
    groups = convolution((14, 14), (3, 3), channels=(64, 64), groups=4)
    line = convolution((64,), (5,), channels=(256, 256))
    for task, shares in ((groups, 1), (line, 2)):
        schedule = default_schedule(task, AVX512, 2)
        assert isinstance(schedule, WinogradTile)
        assert schedule.parallel
        assert schedule.apart
        assert schedule.shares == shares
        alone = default_schedule(task, AVX512, 1)
        assert isinstance(alone, WinogradTile)
        assert not alone.apart


def test_strided_windows_are_filtered_where_weights_are_not_too_many() -> None:
    wide = convolution((28, 28), (3, 3), channels=(64, 128), strides=(2, 2))
    schedule = default_schedule(wide, AVX512, 1)
    assert isinstance(schedule, WinogradTile)
    assert not schedule.folded
    deep = convolution((7, 7), (3, 3), channels=(512, 512), strides=(2, 2))
    assert isinstance(default_schedule(deep, AVX512, 1), RegisterTile)


def test_few_channels_are_folded() -> None:
    """Three colours, at four pairs of residues, in one vector."""
    task = convolution((112, 112), (7, 7), channels=(3, 64), strides=(2, 2))
    schedule = default_schedule(task, AVX512, 1)
    assert isinstance(schedule, WinogradTile)
    assert schedule.folded
    assert schedule.results == (3, 3)
    # Seven taps in runs, which are no neighbours.
    apart = convolution((112, 112), (7, 7), channels=(3, 64), strides=(2, 2), dilations=(2, 2))
    assert isinstance(default_schedule(apart, AVX512, 1), RegisterTile)


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_blocks_apart_go_round(threads: int) -> None:
    """Equal blocks, and as many for each thread."""
    task = convolution((24, 24), (3, 3), channels=(16, 16), groups=3, batch=2)
    contraction = contraction_of(task)
    assert contraction is not None
    core = typical_core("avx512", contraction.dtype)
    found = False
    for estimate in winograd_tiles(task, contraction, core, threads):
        schedule = estimate.schedule
        if schedule.apart:
            strips = 2 * -(-24 // schedule.results[0])
            assert strips % schedule.strips == 0
            assert 3 * strips // schedule.strips % threads == 0
            found = True
    assert found


def test_padding_that_each_thread_reads_whole_is_not_shared() -> None:
    """Where the outermost loop is over images, threads read what they have padded; where it is over
    features, half of it comes from the other core."""
    task = padded(convolution((31, 31), (3, 3), channels=(16, 16), batch=2), (1, 1), (1, 1))
    contraction = contraction_of(task)
    assert contraction is not None
    assert contraction.prologue is not None
    roles = assign_roles(contraction, 1 - contraction.prologue.factor)
    images, features = roles.rows[0], roles.vectors[-1]
    assert images.extent == 2
    assert contraction.prologue.parted_by(images)
    assert not contraction.prologue.parted_by(features)
    assert not contraction.prologue.parted_by(roles.rows[1])


def test_small_kernels_do_not_wake_the_threads() -> None:
    small = default_schedule(matmul((), 4, 16, 4), AVX512, 8)
    assert isinstance(small, RegisterTile)
    assert not small.parallel
    large = default_schedule(matmul((), 64, 64, PARALLEL_WORK // 64), AVX512, 1)
    assert isinstance(large, RegisterTile)
    assert not large.parallel


def test_squares_are_not_tiles() -> None:
    type = TensorType(float32, (8, 8))
    x = Tensor(0, type)
    stage = compute((8, 8), lambda i, j: reduce_sum(8, lambda k: x[i, k] * x[k, j]))
    task = Task((type,), (stage,), (0,), (False,))
    schedule = default_schedule(task, AVX512, 1)
    assert lower(task, schedule).kernel.outputs


# Loops


def elementwise(shape: Shape) -> Task:
    x = Tensor(0, TensorType(float32, shape))
    stage = compute(shape, lambda *axes: apply("exp", x[axes]))
    return Task((x.type,), (stage,), (0,), (False,))


def reduction(rows: int, columns: int, along: int) -> Task:
    x = Tensor(0, TensorType(float32, (rows, columns)))
    stage = (
        compute((rows,), lambda i: reduce_sum(columns, lambda k: x[i, k]))
        if along == 1
        else compute((columns,), lambda j: reduce_sum(rows, lambda k: x[k, j]))
    )
    return Task((x.type,), (stage,), (0,), (False,))


def test_lanes_follow_memory() -> None:
    for task, lanes in (
        (elementwise((64, 64)), Lanes.OUTPUT),
        (reduction(64, 256, 1), Lanes.REDUCTION),
        (reduction(256, 64, 0), Lanes.OUTPUT),
    ):
        schedule = loop_schedule(task, 1, fused=True)
        assert isinstance(schedule, Loops)
        assert schedule.lanes is lanes, str(task)


def test_large_loops_are_shared() -> None:
    schedule = loop_schedule(elementwise((512, 512)), 4, fused=True)
    assert isinstance(schedule, Loops)
    assert schedule.parallel >= 1
    alone = loop_schedule(elementwise((512, 512)), 1, fused=True)
    assert isinstance(alone, Loops)
    assert alone.parallel == 0


def softmax(output: tuple[int, ...] = (3,), extent: int = 256) -> Task:
    x = Tensor(0, TensorType(float32, (8, extent)))
    rows = TensorType(float32, (8,))
    top, power, total = Tensor(1, rows), Tensor(2, x.type), Tensor(3, rows)
    stages = (
        compute((8,), lambda i: reduce(Fold.MAX, extent, lambda k: x[i, k])),
        compute((8, extent), lambda i, j: apply("exp", x[i, j] - top[i])),
        compute((8,), lambda i: reduce_sum(extent, lambda k: power[i, k])),
        compute((8, extent), lambda i, j: power[i, j] / total[i]),
    )
    return Task((x.type,), stages, output, (False,))


def test_what_is_reduced_next_is_computed_there() -> None:
    schedule = loop_schedule(softmax(), 1, fused=True)
    assert isinstance(schedule, RowStages)
    assert schedule.joined == {1}
    result = loop_schedule(softmax((1, 3)), 1, fused=True)
    assert isinstance(result, RowStages)
    assert result.joined == frozenset()


def test_a_short_sum_leaves_the_lanes_to_what_it_adds_up() -> None:
    for extent, joined in ((31, frozenset()), (32, {1})):
        schedule = loop_schedule(softmax(extent=extent), 1, fused=True)
        assert isinstance(schedule, RowStages)
        assert schedule.joined == joined


def test_a_sum_has_as_many_lanes_as_it_fills_twice() -> None:
    for extent, lanes in ((32, 16), (63, 16), (64, 32), (1000, 32)):
        schedule = loop_schedule(softmax(extent=extent), 1, fused=True)
        assert isinstance(schedule, RowStages)
        assert {s.tile for s in schedule.stages if s.lanes is Lanes.REDUCTION} == {lanes}


def test_what_is_reduced_in_another_order_is_stored_first() -> None:
    x = Tensor(0, TensorType(float32, (8, 256)))
    shifted = Tensor(1, x.type)
    for reduction in (
        compute((8,), lambda i: reduce_sum(256, lambda k: shifted[i, 255 - k])),
        compute((8,), lambda i: reduce_sum(256, lambda k: shifted[i, k] * shifted[i, 0])),
        compute((8, 2), lambda i, j: reduce_sum(128, lambda k: shifted[i, j * 128 + k])),
    ):
        stages = (compute((8, 256), lambda i, j: x[i, j] + 1.0), reduction)
        schedule = loop_schedule(Task((x.type,), stages, (1,), (False,)), 1, fused=True)
        assert isinstance(schedule, RowStages)
        assert schedule.joined == frozenset()


def test_reciprocals_need_fused_multiply_adds_and_a_long_loop() -> None:
    def last(extent: int, *, fused: bool) -> Loops:
        schedule = loop_schedule(softmax(extent=extent), 1, fused=fused)
        assert isinstance(schedule, RowStages)
        return schedule.stages[-1]

    assert last(256, fused=True).reciprocals
    assert not last(256, fused=False).reciprocals
    assert not last(16, fused=True).reciprocals
    strict = default_schedule(softmax(), AVX512.exact(), 1)
    assert isinstance(strict, RowStages)
    assert not strict.stages[-1].reciprocals


def rows_task(reader: str) -> Task:
    x = Tensor(0, TensorType(float32, (6, 8)))
    first = compute((6,), lambda i: reduce(Fold.MAX, 8, lambda k: x[i, k]))
    top = Tensor(1, first.type)
    second = {
        "own": compute((6, 8), lambda i, j: x[i, j] - top[i]),
        "other": compute((6, 8), lambda i, j: x[i, j] - top[5 - i]),
        "columns": compute((8, 6), lambda i, j: x[j, i] - top[j]),
    }[reader]
    return Task((x.type,), (first, second), (1,), (False,))


@pytest.mark.parametrize(("reader", "depth"), [("own", 1), ("other", 0), ("columns", 0)])
def test_shared_rows(reader: str, depth: int) -> None:
    assert shared_rows(rows_task(reader)) == depth
    schedule = loop_schedule(rows_task(reader), 1, fused=True)
    assert isinstance(schedule, RowStages)
    assert schedule.rows == depth


def test_axes_of_one_element_are_read_at_zero() -> None:
    x = Tensor(0, TensorType(float32, (1, 6, 8)))
    first = compute((1, 6), lambda n, i: reduce_sum(8, lambda k: x[n, i, k]))
    total = Tensor(1, first.type)
    second = compute((1, 6, 8), lambda n, i, j: x[n, i, j] / total[0, i])
    assert shared_rows(Task((x.type,), (first, second), (1,), (False,))) == 2


# Refused


def test_stages_must_match_the_schedule() -> None:
    one, two = elementwise((8,)), rows_task("own")
    loops = Loops(Lanes.OUTPUT, 8, 0, 0)
    with pytest.raises(ScheduleError, match="loops: expected one stage, got 2"):
        lower(two, loops)
    with pytest.raises(ScheduleError, match="rows: expected 1 stages, got 2"):
        lower(one, RowStages(0, (loops, loops), 0, 0))


def test_schedules_have_a_text() -> None:
    assert str(Loops(Lanes.REDUCTION, 32, 8, 1)) == "lanes(reduction, 32); unroll(8); parallel(1)"
    tile = RegisterTile(1, VectorSource.PACKED, True, 6, 4, 16, False, True)
    assert str(tile) == (
        "register_tile(6 x 4*16); vectors(packed); rows(packed); order(rows, vector tiles); "
        "parallel(rows)"
    )
    grid = replace(tile, grid=True, ahead=True)
    assert str(grid).endswith("; ahead; parallel(grid)")
    inside = replace(tile, prologue=2)
    assert str(inside).endswith("; prologue(inside 2); parallel(prologue)")


BIG_TASKS = {
    "square": matmul((), 384, 512, 640, constant=(False, True)),
    "packed rows": matmul((), 1000, 512, 512, constant=(False, True)),
    "nothing known": matmul((2,), 130, 200, 70),
    "one row": matmul((), 1, 1000, 2048, constant=(False, True)),
    "3x3": padded(convolution((58, 58), (3, 3), channels=(64, 64)), (1, 1), (1, 1)),
    "far apart": convolution((29, 29), (1, 1), channels=(256, 512), strides=(2, 2)),
}


@pytest.mark.parametrize("task", [*TASKS.values(), *BIG_TASKS.values()], ids=[*TASKS, *BIG_TASKS])
def test_what_is_not_estimated_whole_is_dearer(task: Task) -> None:
    contraction = contraction_of(task)
    assert contraction is not None
    for isa in ("c99", "avx512"):
        core = typical_core(isa, contraction.dtype)
        for threads in (1, 3):
            every = list(register_tiles(task, contraction, core, threads))
            found = cheapest_tile(task, contraction, core, threads)
            assert found == (cheapest(every) if every else None), f"{isa} {threads}"


def test_blocks_of_packed_rows_fit_the_second_cache_and_go_round() -> None:
    task = matmul((), 1000, 512, 512, constant=(False, True))
    contraction = contraction_of(task)
    assert contraction is not None
    core = typical_core("avx512")
    for threads in (1, 2):
        blocked = [
            estimate.schedule
            for estimate in register_tiles(task, contraction, core, threads)
            if estimate.schedule.row_block and not estimate.schedule.block_in_place
        ]
        assert blocked
        for tile in blocked:
            blocks = -(-1000 // tile.row_block)
            most = MOST_AT_ONCE if blocks == 1 else BLOCK_SHARE
            assert tile.row_block * 512 * 4 <= most * core.second_cache
            assert blocks % threads == 0 or blocks == 1


def test_panels_come_in_groups_where_the_shared_cache_does_not_hold_the_rows() -> None:
    core = typical_core("avx512")
    held, _ = core.far[0]
    for rows, threads, groups in ((512, 1, False), (4096, 1, True), (4096, 2, True)):
        task = matmul((), rows, 2048, 2048, constant=(False, True))
        contraction = contraction_of(task)
        assert contraction is not None
        every = list(register_tiles(task, contraction, core, threads))
        grouped = [e.schedule for e in every if e.schedule.panel_group]
        assert bool(grouped) == groups
        for tile in grouped:
            panel = tile.vectors * tile.lanes * 2048 * 4
            assert tile.panel_group * panel <= GROUP_SHARE * held + panel
            assert tile.row_block * 2048 * 4 <= BLOCK_SHARE * core.second_cache
        best = cheapest(every).schedule
        assert (best.panel_group > 0) == groups
        assert not groups or -(-rows // best.row_block) % threads == 0

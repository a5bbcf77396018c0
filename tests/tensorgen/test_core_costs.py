"""What single things cost a core, and what estimates make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tensorgen.contraction import assign_roles, contraction_of
from tensorgen.machine import READY_SUMS, Core
from tensorgen.memory_order import Together, reordered
from tensorgen.schedule import RegisterTile, VectorSource, WinogradTile
from tensorgen.sketch_tiles import Estimate, cheapest, cheapest_tile, register_tiles
from tensorgen.sketch_winograd import AGAIN, WinogradSketch, winograd_sketches, winograd_tiles
from tensorgen.task import Task
from tensorgen.tile_costs import (
    ALL_COLUMNS,
    MULTIPLY_ADD_LATENCY,
    least_step,
    tile_cycles,
    tiled_work,
)
from tests.contraction_tasks import (
    convolution,
    costing,
    matmul,
    padded,
    with_epilogue,
)
from tests.contraction_tiles import estimates_of


def test_rows_are_packed_at_run_time_where_a_core_waits_for_each_of_their_lines() -> None:
    """Many vector tiles go over rows that lie apart; a few do not pay for the packing, and rows of
    constants are packed at compile time."""
    square = matmul((), 512, 512, 512, constant=(False, True))
    narrow = matmul((), 512, 32, 512, constant=(False, True))
    weights = matmul((), 512, 512, 512, constant=(True, False))
    for task, waits, expected in (
        (square, 6.0, True),
        (square, 0.0, False),
        (narrow, 6.0, False),
        (weights, 6.0, False),
    ):
        contraction = contraction_of(task)
        assert contraction is not None
        core = costing(row_line=waits)
        for threads in (1, 2):
            estimates = register_tiles(task, contraction, core, threads)
            best = min(estimates, key=lambda estimate: estimate.cycles).schedule
            packed = best.row_block > 0 and not best.block_in_place
            assert packed == expected, f"{task} {waits} {threads} {best}"
            assert best.row_block % best.rows == 0


def test_results_far_apart_turn_the_order_of_loops_where_new_pages_cost() -> None:
    """Channels lie 12 KiB apart: along a plane, tiles go on where the last one has stored."""
    task = convolution((56, 56), (1, 1), channels=(64, 256))
    contraction = contraction_of(task)
    assert contraction is not None
    for cost, expected in ((0.0, True), (9.0, False)):
        best = cheapest_tile(task, contraction, costing(result_line=cost), 1)
        assert best is not None
        assert best.schedule.vectors_outer == expected
    small = convolution((14, 14), (1, 1), channels=(64, 256))
    contraction = contraction_of(small)
    assert contraction is not None
    tiles = list(register_tiles(small, contraction, costing(result_line=9.0), 1))
    assert tiles == list(register_tiles(small, contraction, costing(), 1))


FIRST_BYTES = costing().first_bytes


def waiting_bytes(tile: RegisterTile, rows: int) -> int:
    """Bytes of the partial sums of so many rows."""
    return rows * tile.vectors * tile.lanes * 4


LARGE_PRODUCT = matmul((), 784, 2048, 1152, constant=(False, True))


@pytest.mark.parametrize(
    ("cost", "task", "happens"),
    [
        (
            {"partial_sum": 4.5},
            convolution((14, 14), (3, 3), channels=(256, 256)),
            lambda tile: tile.depth > 0 and waiting_bytes(tile, 14 * 14) <= FIRST_BYTES,
        ),
        (
            {"far_partial_sum": 4.5},
            convolution((14, 14), (3, 3), channels=(256, 256)),
            lambda tile: tile.depth > 0 and waiting_bytes(tile, 14 * 14) > FIRST_BYTES,
        ),
        ({"packed": 0.5}, LARGE_PRODUCT, lambda tile: tile.source is VectorSource.RUNTIME),
        ({"stream": 0.5}, LARGE_PRODUCT, lambda tile: tile.row_packed),
    ],
    ids=["partial sums", "partial sums beyond the first cache", "packing", "streams"],
)
def test_a_cost_counts_where_its_thing_happens(
    cost: dict[str, float], task: Task, happens: Callable[[RegisterTile], bool]
) -> None:
    plain, found = estimates_of(task, costing(), 1), estimates_of(task, costing(**cost), 1)
    dearer = {tile for tile, cycles in found.items() if cycles > plain[tile]}
    assert dearer
    assert dearer == {tile for tile in plain if happens(tile)}


def filtered(channels: int, size: int, core: Core) -> list[Estimate[WinogradTile]]:
    """The ways to filter a 3x3 convolution of so many channels."""
    task = padded(convolution((size, size), (3, 3), channels=(channels, channels)), (1, 1), (1, 1))
    contraction = contraction_of(task)
    assert contraction is not None
    return list(winograd_tiles(task, contraction, core, 1))


def test_filtered_weights_are_asked_for_from_near_where_a_core_waits_for_them_there() -> None:
    for core, expected in ((costing(), False), (costing(second_vector=0.5), True)):
        # 36 points of 48 channels and features are 0.3 MB.
        tiles = [e.schedule for e in filtered(48, 56, core) if e.schedule.results == (4, 4)]
        assert any(tile.panels_ahead for tile in tiles) == expected
        assert all(tile.chunk > tile.rows for tile in tiles if tile.panels_ahead)


ONE_BLOCK = WinogradTile((4, 4), 7, 49, 7, 2, 16, False, panels_ahead=True)
"""All strips of 28 x 28 results."""


def many_channels(core: Core) -> WinogradSketch:
    """512 channels and features of 28 x 28 pixels, filtered for 4 x 4 results at once."""
    task = padded(convolution((28, 28), (3, 3), channels=(512, 512)), (1, 1), (1, 1))
    contraction = contraction_of(task)
    assert contraction is not None
    return next(
        found
        for found in winograd_sketches(task, contraction, core)
        if found.results == (4, 4) and not found.folded
    )


def test_every_chunk_of_a_block_reads_the_weights_of_its_features_again() -> None:
    """Where the second cache does not hold them: by weights that take forever to come."""
    core = costing()
    slow = replace(core, far=tuple((size, rate / 1e4) for size, rate in core.far))
    sketch = many_channels(slow)
    whole = sketch.cycles(ONE_BLOCK, slow, 1)
    four = sketch.cycles(replace(ONE_BLOCK, chunk=14), slow, 1)
    assert four == pytest.approx(4 * whole, rel=0.1)


def test_data_that_the_second_cache_loses_comes_again_for_each_block_of_features() -> None:
    """Blocks may be larger than that cache where it does not hold the weights, if data is cheap."""
    core = costing()
    few, many = (
        {e.schedule.strips for e in filtered(channels, 28, core) if e.schedule.results == (4, 4)}
        for channels in (48, 512)
    )
    sketch = many_channels(core)
    assert few == {1, 2, 5, 7}
    assert any(sketch.block_bytes(strips) > core.second_cache for strips in many)
    data, weights = 49 * 36 * 512 * 4, 36 * 512 * 512 * 4
    again = AGAIN * core.far_cycles(15 * data, of=data)
    wide = replace(core, second_cache=weights)
    lost, held = (sketch.cycles(ONE_BLOCK, found, 1) for found in (core, wide))
    assert lost - held == pytest.approx(again)


def test_weights_from_main_memory_are_waited_for_though_they_were_asked_for() -> None:
    """Where a run moves more than the shared cache holds, and on cores that wait for them."""
    sketch, weights = many_channels(costing()), 36 * 512 * 512 * 4
    for traffic, share in ((1e5, 0.0), (1e9, 0.5)):
        plain, asked = (replace(core, traffic=traffic) for core in (costing(), costing(asked=0.5)))
        waited = share * plain.first_cycles(weights)
        found = sketch.cycles(ONE_BLOCK, asked, 1) - sketch.cycles(ONE_BLOCK, plain, 1)
        assert found == pytest.approx(waited)


def test_a_core_that_loses_blocks_gets_smaller_ones() -> None:
    """The second cache holds the weights, so that more blocks cost nothing else."""
    strips = []
    for cost in (0.0, 2.0):
        core = replace(costing(lost_block=cost, kept=0.5), second_cache=1 << 20)
        tiles = [e for e in filtered(48, 56, core) if e.schedule.results == (4, 4)]
        strips.append(min(tiles, key=lambda e: e.cycles).schedule.strips)
    free, dear = strips
    assert dear < free


def test_folded_blocks_beyond_the_second_cache_are_as_small_as_can_be() -> None:
    """Windows of 7 x 7 x 7 at stride 2: one strip is 1.8 MB, which goes and comes back."""
    task = padded(
        convolution((8, 112, 112), (7, 7, 7), channels=(3, 64), strides=(2, 2, 2)),
        (3, 3, 3), (3, 3, 3),
    )  # fmt: skip
    core = replace(costing(), second_cache=1 << 20)
    contraction = contraction_of(task)
    assert contraction is not None
    tiles = [e for e in winograd_tiles(task, contraction, core, 1) if e.schedule.folded]
    assert min(tiles, key=lambda e: e.cycles).schedule.strips == 1


def test_all_data_is_one_block_where_the_second_cache_holds_it() -> None:
    """Another block would read the weights once more, also those of windows in parts."""
    task = padded(convolution((17, 17), (1, 7), channels=(192, 192)), (0, 3), (0, 3))
    contraction = contraction_of(task)
    assert contraction is not None
    for size, whole in ((5 << 18, True), (3 << 18, False)):
        core = replace(costing(), second_cache=size)
        for sketch in winograd_sketches(task, contraction, core):
            held = sketch.block_bytes(sketch.strips) <= core.near_bytes
            lengths = {sketch.most_strips(int(size * s)) for s in sketch.block_shares(core)}
            assert held == whole == (sketch.strips in lengths), sketch.results


def test_a_clock_of_several_cycles_asks_for_more_sums() -> None:
    core = costing(clock=2.0)
    assert least_step(core, 4, 2) == 2 * MULTIPLY_ADD_LATENCY
    assert least_step(core, 6, 2) == least_step(costing(), 6, 2) == 12.0


def test_a_machine_whose_broadcasts_take_whole_loads_gets_tiles_with_fewer() -> None:
    task = matmul((), 512, 512, 512, constant=(False, True))
    contraction = contraction_of(task)
    assert contraction is not None
    for broadcast, most in ((1.0, 1.1), (2.0, 0.7)):
        core = costing(broadcast=broadcast)
        best = min(register_tiles(task, contraction, core, 1), key=lambda e: e.cycles).schedule
        assert (best.rows + best.vectors) / (best.rows * best.vectors) <= most


def test_short_sums_have_small_tiles_where_many_sums_wait() -> None:
    short, long = (matmul((), 512, 512, depth, constant=(False, True)) for depth in (12, 4096))

    def sums(task: Task, wait: float) -> int:
        contraction = contraction_of(task)
        assert contraction is not None
        core = costing(sum_wait=wait)
        best = cheapest_tile(task, contraction, core, 1)
        assert best is not None
        return best.schedule.rows * best.schedule.vectors

    assert sums(short, 0.0) >= 24
    assert sums(short, 3.5) <= READY_SUMS + 1
    assert sums(long, 0.0) >= sums(long, 3.5) > 4


def image(channels: tuple[int, int], size: int, together: bool) -> Task:
    """A 1x1 convolution of a plane whose channels are together in memory, or apart."""
    task = convolution((size, size), (1, 1), channels=channels)
    if not together:
        return task
    [data] = [n for n, constant in enumerate(task.constant) if not constant]
    result = len(task.inputs) + len(task.stages) - 1
    orders = {data: Together(1, channels[0]), result: Together(1, channels[1])}
    return reordered(task, orders)


def test_lines_cross_where_threads_share_other_axes_than_memory_is_in() -> None:
    """With channels together, rows of the plane are pieces: who shares vector tiles of features
    reads all, and leaves parts of all. With channels apart, pieces are features."""
    for together in (True, False):
        task = image((64, 256), 14, together)
        free, dear = (estimates_of(task, costing(crossing_line=c), 2) for c in (0.0, 100.0))
        dearer = {tile for tile, cycles in dear.items() if cycles > free[tile]}
        assert dearer

        def shares_pixels(tile: RegisterTile) -> bool:
            features = tile.vectors_outer == (tile.source is VectorSource.PACKED)
            blocked = tile.row_block > 0 and (tile.block_in_place or tile.row_block < 196)
            return blocked or not features

        packs = {tile for tile in dear if tile.row_block >= 196}
        own = {tile for tile in dear if together and shares_pixels(tile)}
        assert dearer - packs == set(dear) - own - packs, together


def test_threads_have_rows_of_their_own_where_lines_cross_at_a_price() -> None:
    task = image((1024, 256), 14, together=True)
    for cost, blocks in ((0.0, False), (100.0, True)):
        tiles = estimates_of(task, costing(crossing_line=cost), 2)
        best = min(tiles, key=lambda tile: tiles[tile])
        assert (best.row_block > 0 or not best.vectors_outer) == blocks, str(best)


def test_one_thread_pays_for_no_crossing() -> None:
    task = image((64, 64), 14, together=False)
    assert estimates_of(task, costing(crossing_line=0.0), 1) == estimates_of(
        task, costing(crossing_line=100.0), 1
    )


def test_threads_transform_data_for_themselves_where_lines_cross_at_a_price() -> None:
    """Data at 25 points is larger than what it is transformed from: to make it twice is cheaper
    than to read half of it from the other core."""
    task = padded(convolution((14, 14), (3, 3), channels=(256, 256)), (1, 1), (1, 1))
    contraction = contraction_of(task)
    assert contraction is not None
    for cost, shares in ((0.0, 1), (100.0, 2)):
        found = winograd_tiles(task, contraction, costing(crossing_line=cost), 2)
        best = cheapest(e for e in found if e.schedule.results == (3, 3)).schedule
        assert best.shares == shares, str(best)


def test_groups_that_share_lines_of_results_come_back_to_them() -> None:
    """Four features of a group, together with those of others in each line: tiles of rows store a
    quarter of each line, and the next group finds it where the first cache has lost it."""
    task = convolution((56, 56), (3, 3), channels=(4, 4), groups=32)
    result = len(task.inputs) + len(task.stages) - 1
    together = reordered(task, {result: Together(1, 128)})
    contraction, core = contraction_of(together), costing()
    assert contraction is not None
    tile = next(t for t in estimates_of(together, core, 1) if t.rows == 4 and not t.copied)
    roles = assign_roles(contraction, tile.vector_operand)
    work = tiled_work(roles, tile.vector_operand, core.dialect, 1)
    assert (work.rows, work.batch) == (4, 32)
    torn = tile_cycles(work, tile, core, 4, 56)
    for other in (
        replace(work, batch=1),
        replace(work, result_bytes=4096),
        replace(work, result_distance=12544),
    ):
        assert torn - tile_cycles(other, tile, core, 4, 56) == core.costs.cut_line * 56


def test_panels_of_whole_lines_are_cut_where_arrays_begin_inside_one() -> None:
    """Channels lie 49 pages apart, and no cache of a core holds them. Arrays of callers begin
    inside a line, others do not."""
    task = convolution((224, 224), (1, 1), channels=(64, 64))
    task = replace(task, given=frozenset({0}))
    contraction, core = contraction_of(task), costing()
    assert contraction is not None
    tile = next(
        t for t in estimates_of(task, core, 1)
        if (t.rows, t.vectors, t.source) == (13, 1, VectorSource.DIRECT) and t.vectors_outer
    )  # fmt: skip
    roles = assign_roles(contraction, tile.vector_operand)
    far = tiled_work(roles, tile.vector_operand, core.dialect, 1)
    near = replace(far, vector_bytes=1 << 18)
    difference = tile_cycles(far, tile, core, 13, 16) - tile_cycles(near, tile, core, 13, 16)
    assert difference == pytest.approx(core.costs.cut_line * 64 / 5)
    own = replace(far, given=False)
    assert tile_cycles(own, tile, core, 13, 16) == tile_cycles(near, tile, core, 13, 16)
    free = costing(cut_line=0.0)
    assert tile_cycles(far, tile, free, 13, 16) == tile_cycles(near, tile, free, 13, 16)
    inside = replace(tile, vectors_outer=False)
    assert tile_cycles(far, inside, core, 13, 16) == tile_cycles(near, inside, core, 13, 16)
    best = cheapest_tile(task, contraction, core, 1)
    assert best is not None
    assert best.schedule.vectors > 1, "tiles of one vector read each line twice"


def test_results_turned_into_planes_store_in_the_pages_of_all_columns() -> None:
    """A line in each plane, for each tile, where the second cache does not hold the thread's own
    results; several times as dear where tiles go over all columns before the next rows."""
    core = costing(result_line=9.0)
    task = with_epilogue(matmul((), 12544, 96, 16, constant=(False, True)), "transpose")
    contraction = contraction_of(task)
    assert contraction is not None
    roles = assign_roles(contraction, 1)
    planes = tiled_work(roles, 1, core.dialect, 1)
    assert (planes.result_distance, planes.column_distance) == (4, 4 * 12544)
    shared = tiled_work(roles, 1, core.dialect, 8)
    outside = next(
        t for t in estimates_of(task, core, 1)
        if (t.rows, t.vectors, t.vector_operand) == (14, 2, 1) and t.vectors_outer
    )  # fmt: skip
    inside = replace(outside, vectors_outer=False)
    lines = 14 * 32 * 4 / 64
    for tile, times in ((outside, 1.0), (inside, ALL_COLUMNS)):
        near, far = (tile_cycles(work, tile, core, 14, 32) for work in (shared, planes))
        assert far - near == pytest.approx(9.0 * times * lines)
    asked = replace(outside, epilogue_ahead=True)
    near, far = (tile_cycles(work, asked, core, 14, 32) for work in (shared, planes))
    assert far - near == pytest.approx(9.0 * lines / 2)

"""What cores pay for lines of the second-level cache: rows across the steps, vectors in place,
panels that are lost, and what is packed at run time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensorgen.contraction import assign_roles, contraction_of
from tensorgen.dense_copy import with_copy
from tensorgen.machine import Core
from tensorgen.row_blocks import block_cycles
from tensorgen.schedule import RegisterTile, VectorSource
from tensorgen.sketch_tiles import cheapest_tile, tile_sketches
from tensorgen.task import Task
from tensorgen.tile_costs import (
    ALL_COLUMNS,
    ALL_FAR_COLUMNS,
    NEAR_LINE,
    UNFORESEEN_LINE,
    TiledWork,
    panels_are_lost,
    sums_step,
    tile_cycles,
    tiled_work,
)
from tests.contraction_tasks import convolution, costing, matmul, typical_core
from tests.contraction_tiles import estimates_of


def work_of(task: Task, vector: int, core: Core, given: bool = False) -> TiledWork:
    contraction = contraction_of(replace(task, given=frozenset({vector} if given else ())))
    assert contraction is not None
    return tiled_work(assign_roles(contraction, vector), vector, core.dialect, 1)


def pointwise(channels: tuple[int, int], size: int) -> Task:
    """A 1x1 convolution: its pixels are neighbours, its channels planes."""
    return convolution((size, size), (1, 1), channels=channels)


PIXELS_AS_ROWS = RegisterTile(1, VectorSource.PACKED, False, 14, 2, 16, True, False)
PIXELS_IN_LANES = RegisterTile(0, VectorSource.DIRECT, True, 14, 2, 16, True, False)


@pytest.mark.parametrize(
    ("clocks", "expected"), [((4, 2), 4 + 0.88), ((6, 2), 6 + 0.44), ((8, 2), 8.0), ((5, 3), 7.61)]
)
def test_a_step_of_few_sums_loses_a_part_of_each_clock_that_it_is_short_of(
    clocks: tuple[int, int], expected: float
) -> None:
    core = costing(clock=2.0, close_chains=8.0, lost_slot=0.22, most_lost=0.88)
    assert sums_step(core, *clocks) == pytest.approx(2 * expected)
    assert sums_step(costing(clock=2.0), 6, 2) == 12.0


def waited(work: TiledWork, tile: RegisterTile, core: Core) -> float:
    """Lines that each step of a tile waits for."""
    free = replace(core, costs=replace(core.costs, row_line=0.0))
    whole, rest = (
        tile_cycles(work, tile, found, tile.rows, tile.vectors * 16) for found in (core, free)
    )
    return (whole - rest) / (work.depth * core.costs.row_line)


def test_rows_across_the_steps_are_waited_for_where_the_second_cache_loses_them() -> None:
    """14 pixels of 4 bytes are on two lines of most channels; sums in blocks find the line that
    the tile before has read to its middle."""
    core = costing(row_line=3.0)
    near, far = (work_of(pointwise((depth, 512), 14), 1, core) for depth in (384, 1024))
    assert not panels_are_lost(near, PIXELS_AS_ROWS, core)
    assert panels_are_lost(far, PIXELS_AS_ROWS, core)
    lines = 1 + 13 * 4 / 64
    assert waited(near, PIXELS_AS_ROWS, core) == pytest.approx(NEAR_LINE * lines)
    assert waited(far, PIXELS_AS_ROWS, core) == pytest.approx(lines)
    blocks = replace(PIXELS_AS_ROWS, depth=128)
    assert waited(far, blocks, core) == pytest.approx(14 * 4 / 64)


def test_rows_of_the_outer_loop_come_again_where_the_first_cache_does_not_hold_them() -> None:
    core = costing(row_line=3.0)
    outer = replace(PIXELS_AS_ROWS, vectors_outer=False)
    short, long = (work_of(pointwise((depth, 512), 14), 1, core) for depth in (128, 1024))
    lines = 1 + 13 * 4 / 64
    assert waited(short, outer, core) == pytest.approx(lines / 16)
    assert waited(long, outer, core) == pytest.approx(lines)


def test_vectors_in_place_take_a_line_more_and_all_their_lines_where_they_go_by_again() -> None:
    """A whole one for arrays of callers, which begin inside a line."""
    core = costing(row_line=3.0)
    work, given = (
        work_of(pointwise((512, 256), 32), 0, core, given=given) for given in (False, True)
    )
    assert (work.across, given.across) == (0.0, 1.0)
    assert waited(work, PIXELS_IN_LANES, core) == pytest.approx(UNFORESEEN_LINE)
    assert waited(given, PIXELS_IN_LANES, core) == pytest.approx(1.0)
    again = replace(PIXELS_IN_LANES, vectors_outer=False)
    assert waited(work, again, core) == pytest.approx(work.vector_lines(again, 14, core))
    assert waited(work, replace(PIXELS_IN_LANES, source=VectorSource.RUNTIME), core) == 0.0


@pytest.mark.parametrize(
    ("taps", "source", "expected"),
    [(1, VectorSource.DIRECT, 128), (2, VectorSource.DIRECT, 96), (2, VectorSource.PACKED, 128)],
)
def test_taps_of_vectors_in_place_share_lines(
    taps: int, source: VectorSource, expected: int
) -> None:
    """32 pixels and their neighbours are 3 lines in two steps; a panel has them once for each."""
    core = typical_core("avx2")
    work = work_of(convolution((32, 32), (1, taps), channels=(64, 3)), 0, core)
    tile = RegisterTile(0, source, True, 3, 4, 8, True, False)
    assert work.panel_step_bytes(tile, 3, core) == expected


def test_copies_of_callers_arrays_begin_with_a_line() -> None:
    task = replace(
        convolution((28, 28), (1, 1), channels=(64, 64), strides=(2, 2)), given=frozenset({0})
    )
    contraction = contraction_of(task)
    assert contraction is not None
    copied = with_copy(task, contraction, 0)
    assert copied is not None
    assert (contraction.reads_given(0), copied.reads_given(0)) == (True, False)


def test_steps_of_vectors_across_two_lines_take_longer() -> None:
    """All vectors of an array of callers lie so, and none of one that begins with a line. Channels
    of 32 x 32 pixels are pages, whose lines collide; those of 128 x 128 come from far away."""
    core, free = costing(torn_step=3.5), costing()
    for size, given, step in ((28, False, 0.0), (28, True, 3.5), (32, True, 7.0), (128, True, 3.5)):
        work = work_of(pointwise((64, 64), size), 0, core, given=given)
        for tile, share in (
            (PIXELS_IN_LANES, 1.0),
            (replace(PIXELS_IN_LANES, source=VectorSource.RUNTIME), 0.0),
        ):
            torn, whole = (tile_cycles(work, tile, found, 14, 32) for found in (core, free))
            assert torn - whole == pytest.approx(share * step * 64)


def test_arrays_of_callers_are_packed_where_steps_across_lines_are_dear() -> None:
    """32 rows of pixels are few to pack panels for; vectors in place are torn if they are given."""
    task = pointwise((64, 64), 32)
    core = costing(torn_step=3.5)
    for given, source in ((frozenset(), VectorSource.DIRECT), ({0}, VectorSource.RUNTIME)):
        found = replace(task, given=frozenset(given))
        contraction = contraction_of(found)
        assert contraction is not None
        best = cheapest_tile(found, contraction, core, 1)
        assert best is not None
        assert best.schedule.source is source


def test_panels_are_lost_sooner_where_a_core_keeps_less_of_them() -> None:
    """Sums in blocks are compared then: they ask for the next block alone."""
    task = pointwise((512, 512), 14)
    for kept, expected in ((1.0, False), (0.3, True)):
        core = costing(kept=kept)
        tiles = estimates_of(task, core, 1)
        large = [tile for tile in tiles if (tile.rows, tile.vectors) == (14, 2)]
        assert any(tile.depth for tile in large) == expected


def test_blocks_of_sums_may_be_long_where_rows_are_streams() -> None:
    """A third of the second cache has room for two panels of 768 products by 48 columns. Rows
    across the steps, whose lines the tile before has left in the first cache, are in short ones."""
    core = costing(kept=0.67, long_block=1 / 3)
    streams = matmul((), 128, 768, 3072, constant=(False, True))
    across = convolution((16, 16), (1, 1), channels=(3072, 768))
    for task, costs, expected in (
        (streams, core, {768}),
        (streams, costing(kept=0.67), set()),
        (across, core, set()),
    ):
        tiles = estimates_of(task, costs, 1)
        wide = [t.depth for t in tiles if (t.rows, t.vectors, t.vector_operand) == (8, 3, 1)]
        assert {depth for depth in wide if depth > 512} == expected


def test_nobody_asks_for_what_is_packed_at_run_time_where_it_comes_in_time() -> None:
    task = pointwise((512, 256), 28)
    for wait in (1.0, 0.0):
        tiles = estimates_of(task, costing(packed_wait=wait), 1)
        packed = [tile for tile in tiles if tile.source is VectorSource.RUNTIME]
        assert packed
        assert any(tile.panels_ahead for tile in packed) == (wait > 0)
    contraction = contraction_of(task)
    assert contraction is not None
    slow, quick = costing(), costing(packed_wait=0.0)
    silent = replace(PIXELS_IN_LANES, source=VectorSource.RUNTIME)
    dear, cheap = (
        next(s for s in tile_sketches(task, contraction, core, 1) if s.vector == 0).cycles(silent)
        for core in (slow, quick)
    )
    assert dear > cheap


@pytest.mark.parametrize("row_block", [0, 98])
def test_constants_that_come_once_a_run_are_asked_for(row_block: int) -> None:
    """Those of a network have left the second cache, though it would hold them; those of a model
    that it holds as a whole have not."""
    task = pointwise((96, 576), 14)
    small = costing()
    large = replace(small, traffic=16e6)
    assert not large.passes_by(96 * 576 * 4)
    for core, expected in ((large, True), (small, False)):
        tiles = [t for t in estimates_of(task, core, 2) if t.source is VectorSource.PACKED]
        some = [t for t in tiles if (t.rows, t.row_block) == (14, row_block) and t.vectors_outer]
        assert some
        assert {tile.panels_ahead for tile in some} == {expected}
    contraction = contraction_of(task)
    assert contraction is not None
    asking = replace(PIXELS_AS_ROWS, row_block=row_block, panels_ahead=True)
    for core, costs in ((large, True), (small, False)):
        sketch = next(s for s in tile_sketches(task, contraction, core, 1) if s.vector == 1)
        silent = sketch.cycles(replace(asking, panels_ahead=False))
        assert (silent > sketch.cycles(asking)) == costs


def test_results_in_all_columns_take_longer_where_they_go_to_main_memory() -> None:
    core = costing(result_line=9.0)
    outer = replace(PIXELS_AS_ROWS, vectors_outer=False)
    stores = []
    for size in (112, 448):
        work = work_of(pointwise((64, 64), size), 1, core)
        free = costing(result_line=0.0)
        stores.append(
            tile_cycles(work, outer, core, 14, 32) - tile_cycles(work, outer, free, 14, 32)
        )
    lines = 14 * 32 * 4 / 64
    assert stores == pytest.approx([9.0 * lines * ALL_COLUMNS, 9.0 * lines * ALL_FAR_COLUMNS])


def test_a_block_of_rows_goes_over_the_panels_of_its_own_batch_alone() -> None:
    """16 products of a batch take 16 times as long as one whose panels come from as far."""
    core = typical_core("avx512")
    tile = RegisterTile(1, VectorSource.PACKED, False, 8, 3, 16, True, False, row_block=64)
    one, many = (
        work_of(matmul(batch, 512, 512, 512, constant=(False, True)), 1, core)
        for batch in ((), (16,))
    )
    far = replace(core, far=((core.far[-1][0], core.far[0][1]),), traffic=0.0)
    passing = replace(far, second_cache=one.row_bytes // 4, loads=far.loads)
    single, all_of_them = (block_cycles(work, tile, passing, 1) for work in (one, many))
    assert all_of_them == pytest.approx(16 * single, rel=0.05)


def test_rows_packed_at_once_come_back_where_the_second_cache_loses_them() -> None:
    """All 512 rows of 512 elements are a MiB; blocks of 256 stay."""
    work = work_of(matmul((), 512, 512, 512, constant=(False, True)), 1, costing())
    tile = RegisterTile(1, VectorSource.PACKED, False, 8, 3, 16, True, False)
    plain, waiting = costing(kept=0.67), costing(kept=0.67, stream=0.4)
    for rows, lost in ((512, True), (256, False)):
        blocked = replace(tile, row_block=rows)
        dearer = block_cycles(work, blocked, waiting, 1) - block_cycles(work, blocked, plain, 1)
        expected = 2 * 0.4 * waiting.far_cycles(512 * 512 * 4) if lost else 0.0
        assert dearer == pytest.approx(expected)
        in_place = replace(blocked, block_in_place=True)
        assert block_cycles(work, in_place, waiting, 1) == block_cycles(work, in_place, plain, 1)

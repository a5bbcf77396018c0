"""Attention in one pass: recognised from indices, the same values on every target and schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.attention import attention_of
from tensorgen.emit import Spelling
from tensorgen.expr import Fold, Tensor, compute, reduce, reduce_sum
from tensorgen.loop import (
    Allocate,
    For,
    LoopKind,
    SoftmaxRows,
    Space,
    TransposeBlock,
    TransposeSums,
    statements,
)
from tensorgen.lower import lower
from tensorgen.schedule import AttentionTile, RegisterTile, ScheduleError, VectorSource
from tensorgen.sketch import attention_estimate, default_schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import Array, TensorType, float32, float64
from tests.attention_tasks import AttentionShape
from tests.compiled_kernels import (
    ISA_TARGETS,
    Case,
    CompiledKernels,
    assert_same,
    print_kernel,
    runnable_isas,
)
from tests.contraction_tasks import matmul

TARGETS = ("c99", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
PLAIN = AttentionShape((2, 3), 7, 19, 5, 6)


def schedule_of(task: Task, target: str = "x86-64-v4", threads: int = 1) -> AttentionTile:
    """The schedule with zero trials."""
    found = attention_estimate(task, Target.named(target), threads)
    assert found is not None, str(task)
    return found.schedule


def assert_close(found: Array, expected: Array, label: str = "") -> None:
    """Equal but for the rounding of a few dozen operations; NaN where NaN is expected."""
    limit = 3e-6 if found.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(found, expected, rtol=limit, atol=limit, err_msg=label)


# Recognition


SHAPES = {
    "plain": PLAIN,
    "without values": replace(PLAIN, width=0),
    "no batch": replace(PLAIN, batch=()),
    "five axes": replace(PLAIN, batch=(2, 1, 3)),
    "batch of one": replace(PLAIN, batch=(1, 4)),
    "heads between": replace(PLAIN, interleaved=True),
    "heads between, merged": replace(PLAIN, interleaved=True, merged=True),
    "keys as columns": replace(PLAIN, key_columns=True),
    "shared mask": replace(PLAIN, mask="shared"),
    "own mask": replace(PLAIN, mask="own", interleaved=True),
    "no scale": replace(PLAIN, divided=False),
    "double": replace(PLAIN, dtype=float64),
    "whole vectors": AttentionShape((2,), 20, 48, 32, 16, interleaved=True, mask="shared"),
    "whole vectors, without values": AttentionShape((1, 2), 9, 80, 16, 0),
    "whole vectors, long": AttentionShape((), 6, 144, 16, 16),
    "wide": AttentionShape((2,), 37, 53, 33, 41, mask="shared"),
    "wide, without values": AttentionShape((2,), 29, 131, 17, 0, interleaved=True),
    "pages apart": AttentionShape((16,), 9, 48, 64, 0, interleaved=True),
    "pages apart, keys in part": AttentionShape((32,), 5, 21, 32, 0, interleaved=True),
}


@pytest.mark.parametrize("name", SHAPES)
def test_is_recognised(name: str) -> None:
    task = SHAPES[name].task()
    found = attention_of(task)
    assert found is not None
    assert (found.weighted is None) == (SHAPES[name].width == 0)
    assert found.row.extent == SHAPES[name].rows
    # A scale after the sum is a stage on the rows.
    assert found.scored == 0


def over_the_other_axis() -> Task:
    """A softmax-like stage that reduces the rows instead of the keys."""
    scores = matmul((), 7, 19, 5).stages[0]
    top = compute((1, 19), lambda i, j: reduce(Fold.MAX, 7, lambda k: Tensor(2, scores.type)[k, j]))
    last = compute((7, 19), lambda i, j: Tensor(2, scores.type)[i, j] - Tensor(3, top.type)[0, j])
    return Task(matmul((), 7, 19, 5).inputs, (scores, top, last), (2,), (False, False))


def to_one_number() -> Task:
    """A sum of products without rows, and a sum beside it."""
    inputs = (TensorType(float32, (19,)),) * 2
    x, y = (Tensor(n, type) for n, type in enumerate(inputs))
    dot = compute((), lambda: reduce_sum(19, lambda k: x[k] * y[k]))
    last = compute((), lambda: Tensor(2, dot.type)[()] + reduce_sum(19, lambda k: x[k]))
    return Task(inputs, (dot, last), (1,), (False, False))


def with_constants(task: Task, *constant: int) -> Task:
    return replace(task, constant=tuple(n in constant for n in range(len(task.inputs))))


NOT_ATTENTION = {
    "a contraction": matmul((2,), 7, 19, 5),
    "the other axis": over_the_other_axis(),
    "no rows": to_one_number(),
    "constant keys": with_constants(PLAIN.task(), 1),
    "constant values": with_constants(PLAIN.task(), 2),
    "one query": replace(PLAIN, rows=1).task(),
    "few queries": replace(PLAIN, rows=3).task(),
    "one key": replace(PLAIN, keys=1).task(),
    "two results": replace(PLAIN.task(), outputs=(1, 6)),
}


@pytest.mark.parametrize("name", NOT_ATTENTION)
def test_is_not_mistaken(name: str) -> None:
    task = NOT_ATTENTION[name]
    assert attention_of(task) is None
    assert not isinstance(default_schedule(task, Target.named("x86-64-v4"), 1), AttentionTile)


def test_rows_too_long_for_the_cache_are_stored() -> None:
    assert attention_of(replace(PLAIN, keys=16384, batch=()).task()) is not None
    assert attention_of(replace(PLAIN, keys=16385, batch=()).task()) is None


# Values


SMALL = [name for name, shape in SHAPES.items() if shape.rows * shape.keys <= 1000]
"""Those that the interpreter gets through soon; the others are compiled below."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SMALL)
def test_is_right_by_the_interpreter(name: str, target: str) -> None:
    shape = SHAPES[name]
    task, arrays = shape.task(), shape.arrays()
    (found,) = Case.of(task, schedule_of(task, target)).interpret(arrays)
    assert_close(found, shape.expected(arrays), f"{name} {target}")


sizes = st.sampled_from([2, 3, 5, 7, 13, 17, 19])


@st.composite
def shapes(draw: st.DrawFn) -> AttentionShape:
    """Attention of odd sizes, in any layout."""
    return AttentionShape(
        tuple(draw(st.lists(st.integers(1, 2), max_size=2))),
        draw(sizes),
        draw(sizes),
        draw(st.integers(1, 5)),
        draw(st.integers(0, 5)),
        interleaved=draw(st.booleans()),
        key_columns=draw(st.booleans()),
        mask=draw(st.sampled_from(["", "shared", "own"])),
        divided=draw(st.booleans()),
        merged=draw(st.booleans()),
    )


@given(shapes(), st.sampled_from(TARGETS), st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_any_shape_by_the_interpreter(shape: AttentionShape, target: str, parts: int) -> None:
    task, arrays = shape.task(), shape.arrays()
    if attention_of(task) is None:
        assert shape.rows < 4 or shape.width == 1 or shape.depth == 1
        return
    schedule = replace(schedule_of(task, target), parts=parts)
    (found,) = Case.of(task, schedule).interpret(arrays)
    assert_close(found, shape.expected(arrays), str(schedule))


def variants(schedule: AttentionTile) -> list[AttentionTile]:
    """Schedules near one: other blocks, other tiles in them, other parts."""

    def cut(tile: RegisterTile | None, rows: int, vectors: int) -> RegisterTile | None:
        return None if tile is None else replace(tile, rows=rows, vectors=vectors)

    def packed(tile: RegisterTile | None) -> RegisterTile | None:
        return None if tile is None else replace(tile, source=VectorSource.RUNTIME)

    smaller, weighted = cut(schedule.scores, 2, 1), cut(schedule.weighted, 1, 1)
    assert smaller is not None
    return [
        schedule,
        replace(schedule, parts=2, first_rows=0),
        replace(schedule, rows=3, scores=smaller, weighted=weighted, parts=3),
        replace(schedule, rows=5, scores=smaller, weighted=cut(schedule.weighted, 3, 2)),
        replace(schedule, weighted=packed(schedule.weighted)),
    ]


@pytest.mark.parametrize(
    "strict", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["fused", "strict"]
)
@pytest.mark.parametrize(
    "isa", ["c99", pytest.param("sse42", marks=pytest.mark.slow), "avx2", "avx512"]
)
def test_is_right_compiled(isa: str, strict: bool, tmp_path: Path) -> None:
    if isa not in runnable_isas():
        pytest.skip(f"this machine has no {isa}")
    target = Target.named(ISA_TARGETS[isa])
    pairs: list[tuple[AttentionShape, AttentionTile]] = []
    for number, shape in enumerate(SHAPES.values()):
        first, *others = variants(schedule_of(shape.task(), ISA_TARGETS[isa]))
        chosen = (first,) if strict else (first, others[number % len(others)])
        pairs.extend((shape, schedule) for schedule in chosen)
    cases = [Case.of(shape.task(), schedule) for shape, schedule in pairs]
    compiled = CompiledKernels(cases, tmp_path, target=target, strict=strict)
    for number, (shape, schedule) in enumerate(pairs):
        arrays = shape.arrays()
        (found,) = compiled.run(number, arrays)
        assert_close(found, shape.expected(arrays), f"{shape} {schedule}")


def test_special_values_reach_their_rows_only(tmp_path: Path) -> None:
    shape = AttentionShape((), 29, 67, 9, 21, mask="own")
    task = shape.task()
    for isa in runnable_isas():
        target = Target.named(ISA_TARGETS[isa])
        case = Case.of(task, schedule_of(task, ISA_TARGETS[isa]))
        compiled = CompiledKernels([case], tmp_path, target=target)
        for value in (np.nan, np.inf, -np.inf):
            arrays = shape.arrays(1)
            arrays[3][:] = 0
            arrays[3][11, 5] = value
            arrays[3][12, :] = -np.inf
            arrays[3][13, 1:] = -np.inf
            arrays[0][17] *= 1e4
            (found,) = compiled.run(0, arrays)
            assert_close(found, shape.expected(arrays), f"{isa} {value}")
            assert np.isnan(found[12]).all()
            assert np.isnan(found[11]).all() == (value != -np.inf)
            assert np.isfinite(np.delete(found, (11, 12), axis=0)).all()


def test_threads_share_the_parts(tmp_path: Path) -> None:
    pairs: list[tuple[AttentionShape, AttentionTile]] = []
    for shape in (SHAPES["wide"], SHAPES["heads between"], replace(SHAPES["wide"], batch=())):
        for parts in (1, 2, 3):
            schedule = schedule_of(shape.task(), "x86-64-v2", 2)
            assert schedule.parallel
            pairs.append((shape, replace(schedule, parts=parts)))
    cases = [Case.of(shape.task(), schedule) for shape, schedule in pairs]
    target = Target.named("x86-64-v2" if "sse42" in runnable_isas() else "c99")
    compiled = CompiledKernels(cases, tmp_path, target=target, threads=2)
    for number, (shape, schedule) in enumerate(pairs):
        arrays = shape.arrays()
        (found,) = compiled.run(number, arrays)
        assert_close(found, shape.expected(arrays), f"{shape} {schedule}")


def test_strict_sums_are_the_same_in_every_block(tmp_path: Path) -> None:
    """The order of a sum does not depend on the rows in a block, on parts or on packing."""
    shape = SHAPES["wide"]
    cases = [Case.of(shape.task(), s) for s in variants(schedule_of(shape.task(), "c99"))]
    compiled = CompiledKernels(cases, tmp_path, target=Target.named("c99"), strict=True)
    arrays = shape.arrays()
    first, *others = (compiled.run(number, arrays)[0] for number in range(len(cases)))
    for other in others:
        assert_same(other, first, 0.0)


# Schedules


def test_one_head_is_cut_into_parts_for_the_threads() -> None:
    alone = AttentionShape((), 256, 256, 64, 64).task()
    assert schedule_of(alone, threads=2).parts == 2
    assert schedule_of(alone, threads=1).parts == 1
    heads = AttentionShape((12,), 128, 128, 64, 64).task()
    assert schedule_of(heads, threads=2).parts == 1
    three = AttentionShape((3,), 256, 256, 64, 64).task()
    assert schedule_of(three, threads=2).parts == 2


def test_tiles_and_blocks_fit_each_other() -> None:
    for target in TARGETS:
        schedule = schedule_of(AttentionShape((12,), 128, 128, 64, 64).task(), target)
        assert schedule.weighted is not None
        assert schedule.rows % schedule.scores.rows == 0
        assert schedule.scores.rows == schedule.weighted.rows
        assert schedule.row_stride >= 128
        assert schedule.row_stride * 4 % 128 == 64, "rows spread over the sets of the cache"


def softmaxes(task: Task, schedule: AttentionTile) -> list[SoftmaxRows]:
    body = lower(task, schedule).kernel.body
    return [s for s in statements(body) if isinstance(s, SoftmaxRows)]


def test_short_rows_are_held_in_registers() -> None:
    """With a few tiles to a block, and a last block of the rest."""
    task = AttentionShape((12,), 128, 128, 64, 64, divided=False).task()
    schedule = schedule_of(task)
    assert schedule.stages.softmax_held
    assert schedule.rows >= 8
    assert schedule.rows % schedule.scores.rows == 0
    blocks = softmaxes(task, schedule)
    rest = (128 - schedule.first_rows) % schedule.rows
    lengths = [schedule.first_rows, schedule.rows, *([rest] if rest else [])]
    assert [block.rows for block in blocks] == lengths
    assert all(block.columns == 128 for block in blocks)
    assert all(block.step == block.target_step == schedule.row_stride for block in blocks)


def test_what_comes_before_a_held_softmax_has_loops_of_its_own() -> None:
    joined = schedule_of(PLAIN.task(), "x86-64-v3").stages.joined
    held = schedule_of(PLAIN.task()).stages
    assert held.softmax_held
    assert held.joined == joined - {0}


def test_the_softmax_goes_where_the_result_is() -> None:
    task = replace(PLAIN, width=0).task()
    (first, *_) = softmaxes(task, schedule_of(task))
    assert first.target.space is Space.OUTPUT
    assert first.target_step == 19


def test_first_rows_are_computed_while_keys_are_transposed() -> None:
    """Once for each vector of keys and block of the depth, in place of packing by itself."""
    shape = AttentionShape((12,), 128, 128, 64, 0)
    schedule = schedule_of(shape.task())
    assert schedule.first_rows == 4
    kernel = lower(shape.task(), schedule).kernel
    sums = [s for s in statements(kernel.body) if isinstance(s, TransposeSums)]
    assert [(len(s.sums), s.block.rows, s.block.columns) for s in sums] == [(4, 16, 16)] * len(sums)
    inside = [s for each in sums for s in statements(each.body) if isinstance(s, TransposeBlock)]
    assert inside == [s for s in statements(kernel.body) if isinstance(s, TransposeBlock)]
    first, *others = softmaxes(shape.task(), schedule)
    assert first.rows == 4
    assert sum(block.rows for block in others[1:]) == (128 - 4) % schedule.rows
    keep = replace(schedule, first_rows=0)
    assert "first(4 rows)" in str(schedule)
    assert "first(" not in str(keep)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(
    ("heads", "depth", "copied"),
    [
        pytest.param(16, 64, True, id="a page apart"),
        pytest.param(16, 128, True, id="two pages"),
        pytest.param(12, 64, False, id="not whole pages"),
        pytest.param(64, 16, False, id="one line each"),
        pytest.param(2, 1024, False, id="more than the cache has room for"),
    ],
)
def test_keys_a_page_apart_are_copied_side_by_side(
    target: str, heads: int, depth: int, copied: bool
) -> None:
    """Each vector of keys in front of its blocks, which read the copy alone."""
    task = AttentionShape((heads,), 128, 128, depth, 0, interleaved=True).task()
    kernel = lower(task, schedule_of(task, target)).kernel
    copies = [
        s
        for s in statements(kernel.body)
        if isinstance(s, Allocate) and s.buffer.name == "side_by_side"
    ]
    blocks = [s for s in statements(kernel.body) if isinstance(s, TransposeBlock)]
    assert bool(copies) == copied
    assert all(copy.buffer.size % depth == 0 for copy in copies)
    sources = {block.source for block in blocks}
    assert sources == ({copy.buffer for copy in copies} if copied else {kernel.inputs[1]})


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        (AttentionShape((2,), 16, 40, 32, 16), "x86-64-v4"),
        (AttentionShape((2,), 16, 48, 24, 16), "x86-64-v4"),
        (AttentionShape((2,), 16, 48, 32, 16, key_columns=True), "x86-64-v4"),
        (AttentionShape((2,), 4, 48, 32, 16), "x86-64-v4"),
        (AttentionShape((2,), 16, 48, 32, 16), "x86-64-v3"),
    ],
    ids=["keys in part", "depth in part", "keys in order", "no other rows", "avx2"],
)
def test_other_keys_are_packed_first(shape: AttentionShape, target: str) -> None:
    assert schedule_of(shape.task(), target).first_rows == 0


def test_first_rows_need_whole_blocks() -> None:
    task = AttentionShape((2,), 16, 40, 32, 16).task()
    with pytest.raises(ScheduleError, match="expected keys that are transposed in whole blocks"):
        lower(task, replace(schedule_of(task), first_rows=4))


@pytest.mark.parametrize("other", ["long", "double", "avx2", "strict", "not the last"])
def test_other_rows_are_not_held(other: str) -> None:
    shape, target = PLAIN, Target.named("x86-64-v4")
    task = shape.task()
    match other:
        case "long":
            task = replace(shape, keys=129).task()
        case "double":
            task = replace(shape, dtype=float64).task()
        case "avx2":
            target = Target.named("x86-64-v3")
        case "strict":
            target = target.exact()
        case "not the last":
            task = doubled(replace(shape, width=0).task())
    found = attention_estimate(task, target, 1)
    assert found is not None
    assert not found.schedule.stages.softmax_held
    assert not softmaxes(task, found.schedule)


def doubled(task: Task) -> Task:
    """A stage behind the last one that doubles it."""
    last = Tensor(len(task.inputs) + len(task.stages) - 1, task.stages[-1].type)
    stage = compute(last.type.shape, lambda *axes: last[axes] * 2)
    return replace(task, stages=(*task.stages, stage), outputs=(len(task.stages),))


def test_in_strict_code_a_held_softmax_is_written_out() -> None:
    """Its function rounds otherwise than the loops do on every target."""
    case = Case.of(PLAIN.task(), schedule_of(PLAIN.task()))
    fused, strict = (
        print_kernel(case, "k", Spelling("avx512", strict=strict)).text for strict in (False, True)
    )
    assert "tasor_softmax_rows_2_f32x16(" in fused
    assert "tasor_softmax_rows" not in strict


def test_scores_are_never_stored_whole() -> None:
    shape = AttentionShape((12,), 128, 128, 64, 64)
    kernel = lower(shape.task(), schedule_of(shape.task())).kernel
    assert all(buffer.space is Space.SCRATCH for buffer in kernel.scratch)
    assert sum(buffer.size for buffer in kernel.scratch) * 8 < 12 * 128 * 128


def test_keys_are_transposed_in_blocks() -> None:
    shape = AttentionShape((2,), 16, 40, 24, 16)
    kernel = lower(shape.task(), schedule_of(shape.task(), "x86-64-v3")).kernel
    found = [s for s in statements(kernel.body) if isinstance(s, TransposeBlock)]
    assert found, "the depth of keys is contiguous, their lanes are not"
    assert {(block.rows, block.columns) for block in found} == {(8, 8)}


def test_parallel_loops_are_outermost() -> None:
    task = SHAPES["wide"].task()
    kernel = lower(task, replace(schedule_of(task, threads=2), parts=2)).kernel
    (outer,) = kernel.body
    assert isinstance(outer, For)
    assert outer.kind is LoopKind.PARALLEL
    assert outer.collapse == 2


def test_a_schedule_of_another_task_is_refused() -> None:
    schedule = schedule_of(PLAIN.task())
    with pytest.raises(ScheduleError, match="attention_tile: expected attention"):
        lower(matmul((), 3, 5, 7), schedule)
    with pytest.raises(ScheduleError, match="attention_tile: expected attention"):
        lower(SHAPES["without values"].task(), schedule)
    with pytest.raises(ScheduleError, match="expected 5 stages on rows, got 4"):
        lower(PLAIN.task(), schedule_of(replace(PLAIN, divided=False).task()))


def test_golden(golden: Callable[[str, str], None]) -> None:
    shape = AttentionShape((2,), 5, 40, 16, 16, mask="shared", interleaved=True, merged=True)
    task = shape.task()
    schedule = replace(schedule_of(task), rows=2)
    tile = replace(schedule.scores, rows=2, vectors=2)
    schedule = replace(schedule, scores=tile, weighted=replace(tile, vectors=1))
    kernel = print_kernel(Case.of(task, schedule), "attention", Spelling("avx512", strict=False))
    golden("kernels/attention.c", kernel.text)


def test_inputs_need_no_alignment_beyond_their_elements() -> None:
    """What is read in place is read with unaligned loads."""
    shape = replace(PLAIN, key_columns=True)
    kernel = print_kernel(
        Case.of(shape.task(), schedule_of(shape.task())), "k", Spelling("avx512", strict=False)
    )
    assert "_mm512_load_ps" not in kernel.text
    assert "loadu" in kernel.text

"""Lines of an epilogue, asked for while sums are taken: all of them, and results stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tensorgen.contraction import contraction_of
from tensorgen.epilogue_lines import EpilogueLines, chunk_lengths, epilogue_operands
from tensorgen.expr import Axis, const
from tensorgen.loop import (
    Buffer,
    For,
    LoopKernel,
    Numbers,
    Prefetch,
    Space,
    statements,
)
from tensorgen.lower import lower
from tensorgen.schedule import RegisterTile
from tensorgen.sketch import default_schedule
from tensorgen.target import LINE_BYTES, Target
from tensorgen.task import Task
from tensorgen.types import float32, int64
from tests.asked_places import asked_places
from tests.compiled_kernels import (
    ISA_TARGETS,
    Case,
    CompiledKernels,
    assert_same,
    evaluate_task,
    runnable_isas,
)
from tests.contraction_tasks import convolution, matmul, whole_inputs, with_epilogue
from tests.contraction_tiles import candidates

TASKS = {
    "product": with_epilogue(matmul((), 21, 67, 24, constant=(False, True)), "residual"),
    "several": with_epilogue(matmul((2,), 9, 32, 8, constant=(False, True)), "residual"),
    "images": with_epilogue(convolution((5, 7), (1, 1), channels=(12, 19)), "residual"),
    "windows": with_epilogue(convolution((6, 6), (3, 2), channels=(2, 19)), "residual"),
    "transposed": with_epilogue(matmul((), 21, 35, 16), "transposed residual"),
    "no operand": matmul((), 21, 67, 24, constant=(False, True)),
}


def asking(task: Task, isa: str) -> Iterator[RegisterTile]:
    """Tiles that ask for the lines of their epilogue."""
    for tile in candidates(task, isa):
        if not tile.depth:
            yield replace(tile, epilogue_ahead=True)


def asked_lines(kernel: LoopKernel, buffer: Buffer) -> set[int]:
    """The lines of a buffer that a kernel asks for."""
    asked: dict[int, set[int]] = {}
    asked_places(kernel.body, {}, asked)
    return {place // (LINE_BYTES // buffer.dtype.bytes) for place in asked[buffer.number]}


@pytest.mark.parametrize("isa", ["avx512", "avx2", "c99"])
@pytest.mark.parametrize("name", TASKS)
def test_every_line_is_asked_for(name: str, isa: str) -> None:
    task = TASKS[name]
    tried = 0
    tiles = list(asking(task, isa))
    for tile in tiles[:: max(1, len(tiles) // 12)]:
        kernel = lower(task, tile).kernel
        read = [] if name == "no operand" else [kernel.inputs[2]]
        if name == "transposed":
            # What lies across the result is read with the lanes across lines: not asked for where
            # the tile has no neighbours of it.
            read = []
        for buffer in (*read, *kernel.outputs):
            every = set(range(-(-buffer.size // (LINE_BYTES // buffer.dtype.bytes))))
            assert asked_lines(kernel, buffer) >= every, f"{tile} {buffer.name}"
        tried += 1
    assert tried


@pytest.mark.parametrize("isa", ["avx512", "neon", "c99"])
@pytest.mark.parametrize("name", TASKS)
def test_results_are_the_same_by_the_interpreter(name: str, isa: str) -> None:
    task = TASKS[name]
    arrays = whole_inputs(task)
    expected = evaluate_task(task, arrays)[0]
    tiles = list(asking(task, isa))
    for tile in tiles[:: max(1, len(tiles) // 3)]:
        assert_same(Case.of(task, tile).interpret(arrays)[0], expected, 0.0, str(tile))


@pytest.mark.parametrize("isa", ["c99", "avx2", "avx512"])
def test_results_are_the_same_compiled(isa: str, tmp_path: Path) -> None:
    if isa not in runnable_isas():
        pytest.skip(f"this machine has no {isa}")
    cases = [
        Case.of(task, tile) for task in TASKS.values() for tile in list(asking(task, isa))[::17]
    ]
    compiled = CompiledKernels(cases, tmp_path, target=Target.named(ISA_TARGETS[isa]))
    for number, case in enumerate(cases):
        arrays = whole_inputs(case.task)
        expected = evaluate_task(case.task, arrays)[0]
        assert_same(compiled.run(number, arrays)[0], expected, 0.0, str(case.schedule))


def test_lines_are_asked_for_in_parts_between_the_steps() -> None:
    """A strip or two of both buffers each time: never all of a tile before its sums."""
    task = TASKS["product"]
    for tile in asking(task, "avx512"):
        kernel = lower(task, tile).kernel
        groups = [
            sum(isinstance(inner, Prefetch) for inner in loop.body)
            for loop in statements(kernel.body)
            if isinstance(loop, For) and any(isinstance(inner, For) for inner in loop.body)
        ]
        strips = max(tile.rows, tile.vectors * tile.lanes if tile.turned else 1)
        chunks = max(24 // length for length in (4, 6, 8, 12))
        lines = (tile.vectors if not tile.turned else 1) + 2
        assert 0 < max(groups) <= 2 * lines * -(-strips // chunks) * 2, str(tile)


def test_short_sums_leave_no_time_to_ask() -> None:
    task = with_epilogue(matmul((), 21, 67, 5, constant=(False, True)), "residual")
    for tile in asking(task, "avx512"):
        kernel = lower(task, tile).kernel
        assert not any(isinstance(s, Prefetch) for s in statements(kernel.body))
    assert chunk_lengths((Axis(0, 5, "k"),)) == ()
    assert chunk_lengths((Axis(0, 6, "c"), Axis(1, 3, "k"))) == (6, 9)


def test_operands_are_those_as_large_as_the_result() -> None:
    product = matmul((), 21, 67, 24)
    for kind, count in (("residual", 1), ("bias", 0), ("row bias", 0)):
        contraction = contraction_of(with_epilogue(product, kind))
        assert contraction is not None
        assert len(epilogue_operands(contraction)) == count, kind


def test_a_strip_that_begins_amid_a_line_has_one_more() -> None:
    numbers = Numbers()
    buffer = numbers.buffer("out", float32, 4096, Space.OUTPUT)
    across, along = numbers.axis("i", 4), numbers.axis("lane", 32)
    whole = EpilogueLines.of(buffer, across * 64 + along, across, along)
    cut = EpilogueLines.of(buffer, across * 65 + along, across, along)
    turned = EpilogueLines.of(buffer, along * 70 + across, across, along)
    assert whole is not None
    assert cut is not None
    assert turned is not None
    assert [len(lines.places(const(0, int64))) for lines in (whole, cut, turned)] == [2, 3, 2]
    assert (whole.strips, turned.strips) == (4, 32)
    assert EpilogueLines.of(buffer, across * 70 + along * 2, across, along) is None


@pytest.mark.parametrize(("rows", "expected"), [(3136, True), (49, False)])
def test_what_a_residual_adds_from_afar_is_asked_for(rows: int, expected: bool) -> None:
    task = with_epilogue(matmul((), rows, 256, 64, constant=(False, True)), "residual")
    for target in ("x86-64-v4", "x86-64-v3"):
        tile = default_schedule(task, Target.named(target), 1)
        assert isinstance(tile, RegisterTile)
        assert tile.epilogue_ahead == expected, target

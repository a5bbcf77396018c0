"""Operands as the process that measures has them."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tensorgen.large_pages import LARGE_PAGE
from tensorgen.target import PAGE_BYTES
from tensorgen.tune.measuring_memory import LARGE_FROM
from tensorgen.tune.measuring_process import Operands
from tensorgen.tune.operand_memory import OperandMemory, Place


def _request(
    memory: OperandMemory, places: list[tuple[Place, bool]], sets: int
) -> dict[str, object]:
    buffers = [
        {
            "bytes": place.size,
            "name": place.name,
            "offset": place.offset,
            "copies": fixed,
            "large": not fixed and place.size >= LARGE_FROM,
        }
        for place, fixed in places
    ]
    candidate = {"sets": sets, "buffers": buffers}
    return {"operand_bytes": memory.size, "candidates": [candidate]}


def test_activations_lie_on_large_pages_as_those_of_a_run_do(tmp_path: Path) -> None:
    """A softmax of 2048 x 2048 that reads a file on small pages has another best schedule."""
    memory = OperandMemory(tmp_path)
    content = bytes(range(256)) * (LARGE_FROM // 256)
    large = memory.put(memoryview(content), 0, 16)
    small = memory.put(memoryview(content[:256]), 1)
    weights = memory.put(memoryview(content), 2)
    operands = Operands(memory.file)
    operands.prepare(_request(memory, [(large, False), (small, False), (weights, True)], 2))
    mapped = operands.at(small.name, 0).address - small.offset
    addresses = {
        place.name: operands.at(place.name, 0).address for place in (large, small, weights)
    }
    assert addresses[large.name] % LARGE_PAGE == large.offset % PAGE_BYTES, "in its first page"
    assert addresses[large.name] % 64 == 16, "it begins as far inside a line as before"
    assert addresses[weights.name] == mapped + weights.offset, "weights are on pages of a file"
    assert operands.at(weights.name, 1).address != addresses[weights.name]
    assert ctypes.string_at(addresses[large.name], large.size) == content
    memory.close()

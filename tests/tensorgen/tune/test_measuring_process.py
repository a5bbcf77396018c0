"""Operands as the process that measures has them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorgen.large_pages import LARGE_PAGE
from tensorgen.target import PAGE_BYTES
from tensorgen.tune import measuring_child
from tensorgen.tune.measuring_memory import LARGE_FROM
from tensorgen.tune.measuring_process import Operands
from tensorgen.tune.operand_memory import OperandMemory, Place


@dataclass(frozen=True)
class Piece:
    """Memory of weights that is not there: its address is the number of the copy."""

    address: int
    size: int


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


def test_every_timed_call_has_weights_that_are_out_of_the_caches() -> None:
    """More calls than there are copies: each is dropped anew before its next turn."""
    sets, calls = 3, 7
    done: list[tuple[str, int]] = []

    class Watched(measuring_child._Candidate):
        def __init__(self) -> None:
            self._entry = {
                "sets": sets, "fetch": False, "number": 0,
                "buffers": [{"name": "w", "copies": True}, {"name": "x", "copies": False}],
            }  # fmt: skip
            self._turn, self._checked, self._unfit = 0, True, None

        def _call(self, calls: int) -> None:
            done.extend(("call", (self._turn + step) % sets) for step in range(calls))
            self._turn = (self._turn + calls) % sets

    class Room:
        def operand(self, name: str, number: int) -> Any:
            assert name == "w", "activations stay where they are"
            return Piece(number, 64)

    class Checker:
        @staticmethod
        def drop_lines(address: ctypes.c_void_p, size: ctypes.c_long) -> None:
            assert size.value == 64
            done.append(("drop", address.value or 0))

    given: Any = (calls, Room(), Checker())
    assert Watched().run(*given) > 0.0
    untimed, *rest = done
    assert untimed == ("call", 0)
    dropped: set[int] = set()
    for what, number in rest:
        if what == "call":
            assert number in dropped, "it has been called since"
            dropped.remove(number)
        else:
            dropped.add(number)
    assert sum(what == "call" for what, _ in rest) == calls
    assert sum(what == "drop" for what, _ in rest) == calls, "none is dropped for nothing"

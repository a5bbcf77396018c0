"""The operands of tasks, for the process that measures.

What it does: writes inputs and relaid inputs of a task to memory that this process maps, and
expected results to a folder, each once. What it does not: remove the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from tensorgen.expr import TensorExpr
from tensorgen.task import Task
from tensorgen.tune.operand_memory import OperandMemory, Place
from tensorgen.tune.operands import expected_results, packed, seeded_inputs, tolerance
from tensorgen.tune.result_check import check_name
from tensorgen.types import Array, dtype_of

INSIDE_LINE = 16
"""Bytes into a line that arrays of callers begin, as numpy's do."""


class TaskOperands:
    """Those of one task. One thread may make them while another one asks."""

    def __init__(self, task: Task, memory: OperandMemory, folder: Path) -> None:
        self._task = task
        self._memory = memory
        self._folder = folder
        self._inputs: tuple[Array, ...] | None = None
        self._places: dict[tuple[int, bytes], Place] = {}
        self._expected: tuple[dict[str, Any], ...] | None = None
        self._lock = Lock()
        self.input_bytes = 0
        """Of all inputs in memory."""

    def prepare(self, packings: Sequence[TensorExpr | None]) -> None:
        """Makes what there is to read and compare for a kernel that reads its inputs relaid like
        this. Raises OSError, as all that follow."""
        self.check_entry(0)
        for position, packing in enumerate(packings):
            self.input_place(position, packing)

    def input_place(self, position: int, packing: TensorExpr | None) -> Place:
        """Where an input is as a kernel reads it."""
        key = (position, b"" if packing is None else packing.digest)
        return self._place(key, lambda array: packed(packing, array))

    def filled_place(self, position: int, size: int) -> Place:
        """Where an input of so many elements is, to time a kernel whose result does not count:
        relaying large weights takes long."""
        key = (position, size.to_bytes(8, "little"))
        return self._place(key, lambda array: np.resize(array, size))

    def _place(self, key: tuple[int, bytes], content: Callable[[Array], Array]) -> Place:
        """Where what becomes of an input is, written if it is nowhere."""
        with self._lock:
            if key not in self._places:
                position, _ = key
                array = np.ascontiguousarray(content(self._seeded()[position]))
                # Types that a buffer does not know are bytes, too.
                inside = INSIDE_LINE if position in self._task.given else 0
                self._places[key] = self._memory.put(
                    array.reshape(-1).view(np.uint8).data, position, inside
                )
                self.input_bytes += array.nbytes
            return self._places[key]

    def _seeded(self) -> tuple[Array, ...]:
        if self._inputs is None:
            self._inputs = seeded_inputs(self._task)
        return self._inputs

    def check_entry(self, position: int) -> dict[str, Any]:
        """What the process that measures is told of a result: see `measuring_process`. Computes
        what the results should be if that is not known yet."""
        with self._lock:
            if self._expected is None:
                results = expected_results(self._task, self._seeded())
                self._expected = tuple(
                    {
                        "expected": str(self._written(f"result-{position}", result)),
                        "check": check_name(dtype_of(result)),
                        "count": result.size,
                        **asdict(tolerance(self._task, result)),
                    }
                    for position, result in enumerate(results)
                )
            return self._expected[position]

    def remove_inputs(self) -> None:
        """Removes inputs: many, and made faster than expected results."""
        with self._lock:
            for place in self._places.values():
                self._memory.remove(place)
            self._places.clear()
            self._inputs, self.input_bytes = None, 0

    def _written(self, name: str, array: Array) -> Path:
        path = self._folder / f"{self._task.digest.hex()}-{name}"
        np.ascontiguousarray(array).tofile(path)
        return path

"""The operands of tasks as files, for the process that measures.

What it does: writes inputs, relaid inputs and expected results of a task to a folder, each once.
What it does not: remove the folder.
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
from tensorgen.tune.operands import expected_results, packed, seeded_inputs, tolerance
from tensorgen.tune.result_check import check_name
from tensorgen.types import Array, dtype_of


class TaskOperands:
    """The files of one task in a folder. One thread may make them while another one asks."""

    def __init__(self, task: Task, folder: Path) -> None:
        self._task = task
        self._folder = folder
        self._inputs: tuple[Array, ...] | None = None
        self._files: dict[tuple[int, bytes], Path] = {}
        self._expected: tuple[dict[str, Any], ...] | None = None
        self._lock = Lock()
        self.input_bytes = 0
        """Of all files of inputs."""

    def prepare(self, packings: Sequence[TensorExpr | None]) -> None:
        """Makes the files for a kernel that reads its inputs relaid like this. Raises OSError, as
        all that follow."""
        self.check_entry(0)
        for position, packing in enumerate(packings):
            self.input_file(position, packing)

    def input_file(self, position: int, packing: TensorExpr | None) -> Path:
        """The file of an input as a kernel reads it."""
        key = (position, b"" if packing is None else packing.digest)
        name = f"input-{position}-{key[1].hex()[:16]}"
        return self._file(key, name, lambda array: packed(packing, array))

    def filled_file(self, position: int, size: int) -> Path:
        """The file of an input of so many elements, to time a kernel whose result does not count:
        relaying large weights takes long."""
        key = (position, size.to_bytes(8, "little"))
        return self._file(key, f"filled-{position}-{size}", lambda array: np.resize(array, size))

    def _file(self, key: tuple[int, bytes], name: str, content: Callable[[Array], Array]) -> Path:
        """The file of what becomes of an input, written if there is none."""
        with self._lock:
            if key not in self._files:
                array = content(self._seeded()[key[0]])
                self._files[key] = self._written(name, array)
                self.input_bytes += array.nbytes
            return self._files[key]

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
        """Removes the files of inputs: many, and made faster than expected results."""
        with self._lock:
            for path in self._files.values():
                path.unlink(missing_ok=True)
            self._files.clear()
            self._inputs, self.input_bytes = None, 0

    def _written(self, name: str, array: Array) -> Path:
        path = self._folder / f"{self._task.digest.hex()}-{name}"
        np.ascontiguousarray(array).tofile(path)
        return path

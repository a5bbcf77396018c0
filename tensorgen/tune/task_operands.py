"""The operands of tasks as files, for the process that measures.

What it does: writes inputs, relaid inputs and expected results of a task to a folder, each once.
What it does not: remove the folder.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tensorgen.expr import TensorExpr
from tensorgen.task import Task
from tensorgen.tune.operands import expected_results, packed, seeded_inputs, tolerance
from tensorgen.tune.result_check import check_name
from tensorgen.types import Array, dtype_of


class TaskOperands:
    """The files of one task in a folder."""

    def __init__(self, task: Task, folder: Path) -> None:
        self._task = task
        self._folder = folder
        self._inputs = seeded_inputs(task)
        self._files: dict[tuple[int, bytes], Path] = {}
        self._expected: tuple[dict[str, Any], ...] | None = None
        self._paths: list[Path] = []

    def input_file(self, position: int, packing: TensorExpr | None) -> Path:
        """The file of an input as a kernel reads it."""
        key = (position, b"" if packing is None else packing.digest)
        if key not in self._files:
            array = packed(packing, self._inputs[position])
            self._files[key] = self._written(f"input-{position}-{key[1].hex()[:16]}", array)
        return self._files[key]

    def filled_file(self, position: int, size: int) -> Path:
        """The file of an input of so many elements, to time a kernel whose result does not count:
        relaying large weights takes long."""
        key = (position, size.to_bytes(8, "little"))
        if key not in self._files:
            array = np.resize(self._inputs[position], size)
            self._files[key] = self._written(f"filled-{position}-{size}", array)
        return self._files[key]

    def prepare_expected(self) -> None:
        """Computes what the results should be, if that is not known yet."""
        if self._expected is None:
            results = expected_results(self._task, self._inputs)
            self._expected = tuple(
                {
                    "expected": str(self._written(f"result-{position}", result)),
                    "check": check_name(dtype_of(result)),
                    "count": result.size,
                    **asdict(tolerance(self._task, result)),
                }
                for position, result in enumerate(results)
            )

    def check_entry(self, position: int) -> dict[str, Any]:
        """What the process that measures is told of a result: see `measuring_process`."""
        self.prepare_expected()
        assert self._expected is not None
        return self._expected[position]

    def remove(self) -> None:
        """Removes the files."""
        for path in self._paths:
            path.unlink(missing_ok=True)

    def _written(self, name: str, array: Array) -> Path:
        path = self._folder / f"{self._task.digest.hex()}-{name}"
        np.ascontiguousarray(array).tofile(path)
        self._paths.append(path)
        return path

"""Kernel seconds on file: what was measured, and what was estimated, by task, target and threads.

What it does: keeps seconds in an SQLite file, each write a transaction, so that a killed process
loses at most what it was writing. A figure belongs to the digest of a task, the name of a target
and a number of threads; what was measured stands above what was estimated.

What it does not: measure (`measure`) or estimate (`cost`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from statistics import median

from graphopt.search.cost import AnalyticCost, CostModel
from graphopt.search.weight_copies import WeightBytes
from tensorgen.expr import Reduce, walk
from tensorgen.sqlite_file import SqliteFile
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.version import tasor_version

_TABLE = """
CREATE TABLE IF NOT EXISTS kernel_seconds (
    task TEXT NOT NULL, target TEXT NOT NULL, threads INTEGER NOT NULL, origin TEXT NOT NULL,
    seconds REAL NOT NULL, PRIMARY KEY (task, target, threads, origin))
"""
_INSERT = "INSERT OR REPLACE INTO kernel_seconds VALUES (?, ?, ?, ?, ?)"
MEASURED = "measured"


class RecordsError(ValueError):
    """A file of kernel seconds cannot be used. The message is one line."""


class KernelRecords:
    """Kernel seconds in a file, for one target and one number of threads.

    Raises RecordsError for a file that is no such record or cannot be read or written.
    """

    def __init__(self, path: Path | str, target: Target, threads: int) -> None:
        self.path = Path(path)
        self.target = target
        self.threads = threads
        self._file = SqliteFile(self.path, "a file of kernel seconds", RecordsError)
        with self._file.writing() as connection:
            connection.execute(_TABLE)

    def load(self, origin: str) -> dict[bytes, float]:
        """The seconds of one origin by task digest."""
        query = "SELECT task, seconds FROM kernel_seconds WHERE target=? AND threads=? AND origin=?"
        with self._file.reading() as connection:
            rows = connection.execute(query, (self.target.name, self.threads, origin)).fetchall()
        try:
            return {bytes.fromhex(task): float(seconds) for task, seconds in rows}
        except (ValueError, TypeError) as error:
            raise self._file.unusable(error) from None

    def store(self, origin: str, seconds: Mapping[bytes, float]) -> None:
        """Add figures, or put them in place of older ones, all or none."""
        rows = [
            (task.hex(), self.target.name, self.threads, origin, value)
            for task, value in sorted(seconds.items())
        ]
        with self._file.writing() as connection:
            connection.executemany(_INSERT, rows)


class RecordedCost:
    """Measured seconds where a record has them, otherwise those of another model, made comparable.

    An estimate is multiplied by the median ratio of what was measured to what was estimated, for
    tasks of its kind: a search that finds new kernels dearer than measured ones only because they
    are new would never choose them. Estimates are remembered, and put on file by `save`; figures
    of other constants are kept apart.
    """

    def __init__(self, records: KernelRecords, fallback: CostModel | None = None) -> None:
        self.records = records
        self.fallback = (
            AnalyticCost(records.target, records.threads) if fallback is None else fallback
        )
        # Another version counts differently.
        self._origin = f"estimated by {self.fallback!r} of {tasor_version()}"
        self._measured = records.load(MEASURED)
        self._estimated = records.load(self._origin)
        self._new: dict[bytes, float] = {}
        self._ratios = {kind: records.load(self._ratios_of(kind)) for kind in _Kind}
        self._factors = {kind: _median(ratios) for kind, ratios in self._ratios.items()}

    def cost(self, task: Task) -> float:
        """Seconds on record, else an estimate."""
        measured = self._measured.get(task.digest)
        if measured is not None:
            return measured
        return self._estimate(task) * self._factors[_kind_of(task)]

    def copying(self, weights: WeightBytes) -> float:
        """An estimate: kernels are measured one by one."""
        return self.fallback.copying(weights)

    def is_measured(self, task: Task) -> bool:
        """Whether the seconds of a task come from a measurement."""
        return task.digest in self._measured

    def add(self, seconds: Mapping[Task, float]) -> None:
        """Put measured seconds on file and use them from now on."""
        self.records.store(MEASURED, {task.digest: value for task, value in seconds.items()})
        for kind in _Kind:
            ratios = {
                task.digest: value / self._estimate(task)
                for task, value in seconds.items()
                if _kind_of(task) is kind
            }
            self.records.store(self._ratios_of(kind), ratios)
            self._ratios[kind].update(ratios)
            self._factors[kind] = _median(self._ratios[kind])
        self._measured.update((task.digest, value) for task, value in seconds.items())

    def save(self) -> None:
        """Put the estimates made since the last call on file."""
        if self._new:
            self.records.store(self._origin, self._new)
            self._new = {}

    def _estimate(self, task: Task) -> float:
        found = self._estimated.get(task.digest)
        if found is None:
            found = self.fallback.cost(task)
            self._estimated[task.digest] = found
            self._new[task.digest] = found
        return found

    def _ratios_of(self, kind: _Kind) -> str:
        return f"{self._origin}, measured through it: {kind.value}"


class _Kind(Enum):
    """Tasks whose estimates err alike."""

    SUMS = "sums"
    ELEMENTWISE = "elementwise"


def _kind_of(task: Task) -> _Kind:
    sums = any(isinstance(term, Reduce) for stage in task.stages for term in walk(stage.body))
    return _Kind.SUMS if sums else _Kind.ELEMENTWISE


def _median(ratios: Mapping[bytes, float]) -> float:
    return median(ratios.values()) if ratios else 1.0

"""Trials on file: an SQLite file with one row a trial, for many tasks and machines.

What it does: keeps trials, each batch a transaction, and finds the best schedule of a task for a
setting, or says why there is none; keeps the races that settled what was taken, too, those of
kernels and those of whole models. What it does not: decide what a figure of another machine is
worth, or read and write lines of JSON (`records_file`).

What is on file already is not added again, so that merging files is a union.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from tensorgen.sqlite_file import PATIENCE_SECONDS, SqliteFile
from tensorgen.task import Task
from tensorgen.tune.fields import Document, FieldError, document_in, one_line, shown, whole
from tensorgen.tune.model_race_record import ModelRaceRecord, model_race_of, model_race_text
from tensorgen.tune.outcome import Timed, outcome_of, parts_of
from tensorgen.tune.race_record import RaceRecord, race_of, race_text
from tensorgen.tune.schedule_text import schedule_of, schedule_text
from tensorgen.tune.trial import Setting, Trial, weights_of
from tensorgen.tune.weights_place import WeightsPlace

R = TypeVar("R")

APPLICATION = 0x7A54_0001
"""What a file of trials says it is (`PRAGMA application_id`)."""

SCHEMA = 4
"""The version of the tables (`PRAGMA user_version`). That of 1 did not say where weights were."""

_RACES_SINCE, _MODEL_RACES_SINCE = 3, 4
"""The versions that brought the tables of races."""

READ_FROM = 2
"""Files of this version are read as they are, and brought up when they are written to."""

_TABLE = """
CREATE TABLE trials (
    digest TEXT PRIMARY KEY, task TEXT NOT NULL, kind TEXT NOT NULL, sizes TEXT NOT NULL,
    target TEXT NOT NULL, threads INTEGER NOT NULL, processor TEXT NOT NULL,
    compiler TEXT NOT NULL, version TEXT NOT NULL, schedule TEXT NOT NULL, status TEXT NOT NULL,
    seconds REAL, note TEXT NOT NULL, at TEXT NOT NULL)
"""
_WEIGHTS = "ALTER TABLE trials ADD COLUMN weights TEXT NOT NULL DEFAULT 'far'"
_RACES = "CREATE TABLE races (digest TEXT PRIMARY KEY, task TEXT NOT NULL, race TEXT NOT NULL)"
_MODEL_RACES = (
    "CREATE TABLE model_races (digest TEXT PRIMARY KEY, model TEXT NOT NULL, race TEXT NOT NULL)"
)
_INDICES = (
    "CREATE INDEX trials_of_task ON trials (task)",
    "CREATE INDEX trials_of_kind ON trials (kind, status)",
)
_RACES_INDEX = "CREATE INDEX races_of_task ON races (task)"
_MODEL_RACES_INDEX = "CREATE INDEX races_of_model ON model_races (model)"
_COLUMNS = (
    "task, target, threads, processor, compiler, version, schedule, status, seconds, note, at, "
    "kind, sizes, weights"
)
_INSERT = f"INSERT OR IGNORE INTO trials (digest, {_COLUMNS}) VALUES ({', '.join('?' * 15)})"
_INSERT_RACE = "INSERT OR IGNORE INTO races (digest, task, race) VALUES (?, ?, ?)"
_INSERT_MODEL_RACE = "INSERT OR IGNORE INTO model_races (digest, model, race) VALUES (?, ?, ?)"
_HERE = "target = ? AND threads = ? AND processor = ? AND compiler = ? AND version = ?"


class RecordsError(ValueError):
    """A file of trials cannot be used. The message is one line."""


class Reason(Enum):
    """Why there is no schedule on file for a task in a setting, the farthest first."""

    NONE = "no record of this task"
    TARGET = "records of this task for another target or number of threads only"
    MACHINE = "records of this task from another machine only"
    COMPILER = "records of this task with another compiler only"
    VERSION = "records of this task by another version only"
    WEIGHTS = "records of this task in runs of another size only"
    FAILED = "no trial of this task gave a right result"


@dataclass(frozen=True, slots=True)
class Miss:
    """No schedule on file for a task in a setting. `nearest` is the best trial of the setting most
    like it, if there is one: another machine's, say."""

    reason: Reason
    nearest: Trial | None

    def __str__(self) -> str:
        if self.nearest is None:
            return self.reason.value
        found = self.nearest
        detail = {
            Reason.TARGET: f"{found.target}, {found.threads} threads",
            Reason.MACHINE: found.processor,
            Reason.COMPILER: found.compiler,
            Reason.VERSION: found.version,
            Reason.WEIGHTS: f"weights {found.weights.value}",
        }.get(self.reason, "")
        return f"{self.reason.value}{f' ({one_line(detail, 80)})' if detail else ''}"


class TrialRecords:
    """The trials in a file.

    `tell` is given one line for each row that cannot be read, which is then passed over. Raises
    RecordsError for a file that holds something else, was written by a newer Tasor, or cannot be
    read or written.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        tell: Callable[[str], None] = lambda line: None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Opens a file; makes it if it is not there."""
        self.path = Path(path)
        self._tell = tell
        self._file = SqliteFile(self.path, "a file of trials", RecordsError, patience_seconds)
        if self._version() < READ_FROM:
            with self._file.writing() as connection:
                self._bring_up(connection)

    def _bring_up(self, connection: sqlite3.Connection) -> None:
        """Has a file the tables of this version. Others may have been here in between."""
        version = self._version_in(connection)
        if version < 1:
            for statement in (_TABLE, *_INDICES):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
        if version < 2:
            connection.execute(_WEIGHTS)
        if version < _RACES_SINCE:
            for statement in (_RACES, _RACES_INDEX):
                connection.execute(statement)
        if version < _MODEL_RACES_SINCE:
            for statement in (_MODEL_RACES, _MODEL_RACES_INDEX):
                connection.execute(statement)
        if version < SCHEMA:
            connection.execute(f"PRAGMA user_version = {SCHEMA}")

    def _version(self) -> int:
        """The version of the file's table; 0 without one. A file that may only be read is good for
        reading."""
        if not self.path.exists():
            return 0
        with self._file.reading() as connection:
            return self._version_in(connection)

    def _version_in(self, connection: sqlite3.Connection) -> int:
        """The version of the table in a file of trials, 0 for an empty one. Raises RecordsError."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not (application or version or tables):
            return 0
        if application != APPLICATION:
            raise self._file.unusable("a database of another program", "name another file")
        if version > SCHEMA:
            raise self._file.unusable(
                f"one of version {version}, where this Tasor reads {SCHEMA}", "use a newer Tasor"
            )
        return int(version)

    def add(self, trials: Iterable[Trial]) -> int:
        """Put trials on file, all or none; how many of them were not there. Raises RecordsError."""
        return self._added(_INSERT, [_row(trial) for trial in trials])

    def add_races(self, races: Iterable[RaceRecord]) -> int:
        """Put races on file, all or none; how many of them were not there. Raises RecordsError."""
        return self._added(_INSERT_RACE, [(r.digest, r.task, race_text(r)) for r in races])

    def add_model_races(self, races: Iterable[ModelRaceRecord]) -> int:
        """Put races of models on file, all or none; how many of them were not there. Raises
        RecordsError."""
        rows = [(r.digest, r.model, model_race_text(r)) for r in races]
        return self._added(_INSERT_MODEL_RACE, rows)

    def _added(self, statement: str, rows: Sequence[tuple[object, ...]]) -> int:
        if not rows:
            return 0
        with self._file.writing() as connection:
            self._bring_up(connection)
            before = connection.total_changes
            connection.executemany(statement, rows)
            return connection.total_changes - before

    def count(self) -> int:
        """How many trials are on file."""
        with self._file.reading() as connection:
            (count,) = connection.execute("SELECT count(*) FROM trials").fetchone()
        return int(count)

    def all(self) -> tuple[Trial, ...]:
        """Every trial, in the order of digests, which does not depend on who added it when."""
        return self._trials("ORDER BY digest")

    def of_task(
        self, task: Task | str, setting: Setting, weights: WeightsPlace
    ) -> tuple[Trial, ...]:
        """The trials of a task in a setting, its weights in that place, oldest first."""
        where = f"WHERE task = ? AND {_HERE} AND weights = ? ORDER BY at, digest"
        return self._trials(where, _name(task), *_values(setting), weights.value)

    def all_races(self) -> tuple[RaceRecord, ...]:
        """Every race, in the order of digests."""
        return self._races("ORDER BY digest")

    def races_of(
        self, task: Task | str, setting: Setting, weights: WeightsPlace
    ) -> tuple[RaceRecord, ...]:
        """The races of schedules of a task in a setting, its weights in that place, in the order of
        digests."""
        races = self._races("WHERE task = ? ORDER BY digest", _name(task))
        return tuple(r for r in races if (r.setting, r.weights) == (setting, weights))

    def all_model_races(self) -> tuple[ModelRaceRecord, ...]:
        """Every race of a model, in the order of digests."""
        return self._model_races("ORDER BY digest")

    def model_races_of(self, model: str, setting: Setting) -> tuple[ModelRaceRecord, ...]:
        """The races of two libraries of a model, by their digest, in a setting, in the order of
        digests."""
        races = self._model_races("WHERE model = ? ORDER BY digest", model)
        return tuple(race for race in races if race.setting == setting)

    def best(self, task: Task | str, setting: Setting, weights: WeightsPlace) -> Trial | Miss:
        """The trial of the fastest schedule of a task in a setting, its weights in that place; a
        miss says why there is none.

        A schedule that was timed several times counts by the median, so that a single lucky run
        does not win.
        """
        found = self._fastest(self.of_task(task, setting, weights))
        return self._miss(_name(task), setting, weights) if found is None else found

    def best_of_kind(self, kind: str, setting: Setting) -> tuple[Trial, ...]:
        """The best trial of each task of a kind in a setting, in the order of their digests."""
        where = f"WHERE kind = ? AND status = 'timed' AND {_HERE} ORDER BY task, digest"
        by_task: dict[str, list[Trial]] = {}
        for trial in self._trials(where, kind, *_values(setting)):
            by_task.setdefault(trial.task, []).append(trial)
        best = (self._fastest(trials) for trials in by_task.values())
        return tuple(trial for trial in best if trial is not None)

    def _miss(self, task: str, setting: Setting, weights: WeightsPlace) -> Miss:
        trials = self._trials("WHERE task = ?", task)
        if any(trial.setting == setting and trial.weights is weights for trial in trials):
            return Miss(Reason.FAILED, None)
        for reason, alike in (
            (Reason.WEIGHTS, _same(setting, "target threads processor compiler version")),
            (Reason.VERSION, _same(setting, "target threads processor compiler")),
            (Reason.COMPILER, _same(setting, "target threads processor")),
            (Reason.MACHINE, _same(setting, "target threads")),
            (Reason.TARGET, _same(setting, "")),
        ):
            near = [trial for trial in trials if alike(trial.setting)]
            if near:
                return Miss(reason, self._fastest(near))
        return Miss(Reason.NONE, None)

    def _fastest(self, trials: Sequence[Trial]) -> Trial | None:
        """The latest trial of the schedule with the least median of seconds."""
        timed: dict[str, list[tuple[str, str, float, Trial]]] = {}
        for trial in trials:
            if isinstance(trial.outcome, Timed):
                entry = (trial.at, trial.digest, trial.outcome.seconds, trial)
                timed.setdefault(schedule_text(trial.schedule), []).append(entry)
        if not timed:
            return None
        least = min(timed, key=lambda text: (median(e[2] for e in timed[text]), text))
        return max(timed[least], key=lambda entry: entry[:2])[3]

    def _trials(self, where: str, *values: object) -> tuple[Trial, ...]:
        with self._file.reading() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM trials {where}", values).fetchall()
        return self._read(rows, "trial of task", _trial)

    def _races(self, where: str, *values: object) -> tuple[RaceRecord, ...]:
        return self._races_in("races", _RACES_SINCE, "task", race_of, where, values)

    def _model_races(self, where: str, *values: object) -> tuple[ModelRaceRecord, ...]:
        return self._races_in(
            "model_races", _MODEL_RACES_SINCE, "model", model_race_of, where, values
        )

    def _races_in(
        self, table: str, since: int, of: str, read: Callable[[Document], R], where: str,
        values: Sequence[object],
    ) -> tuple[R, ...]:  # fmt: skip
        """Races `of` a task or a model in a table that there is since a version; none in a file
        that is older."""
        with self._file.reading() as connection:
            if self._version_in(connection) < since:
                return ()
            rows = connection.execute(f"SELECT {of}, race FROM {table} {where}", values).fetchall()
        return self._read(rows, f"race of {of}", lambda row: _race(row, of, read))

    def _read(
        self, rows: Iterable[Sequence[Any]], what: str, read: Callable[[Sequence[Any]], R]
    ) -> tuple[R, ...]:
        """What rows say, each of which begins with what it is of; those that say nothing are told
        of."""
        found = []
        for row in rows:
            try:
                found.append(read(row))
            except FieldError as error:
                self._tell(
                    f"{self.path}: expected a {what} {shown(row[0])}, got a row with "
                    f"{one_line(error)}; passed over"
                )
        return tuple(found)


def _name(task: Task | str) -> str:
    return task if isinstance(task, str) else task.digest.hex()


def _values(setting: Setting) -> tuple[object, ...]:
    return (
        setting.target, setting.threads, setting.processor, setting.compiler, setting.version,
    )  # fmt: skip


def _same(setting: Setting, names: str) -> Callable[[Setting], bool]:
    """Whether another setting agrees in those fields."""
    return lambda other: all(getattr(other, n) == getattr(setting, n) for n in names.split())


def _row(trial: Trial) -> tuple[object, ...]:
    status, seconds, note = parts_of(trial.outcome)
    return (
        trial.digest, trial.task, *_values(trial.setting), schedule_text(trial.schedule), status,
        seconds, note, trial.at, trial.kind, " ".join(map(str, trial.sizes)), trial.weights.value,
    )  # fmt: skip


def _trial(row: Sequence[Any]) -> Trial:
    """The trial of a row. Raises FieldError."""
    (
        task, target, threads, processor, compiler, version, schedule, status, seconds, note, at,
        kind, sizes, weights,
    ) = row  # fmt: skip
    texts = (task, target, processor, compiler, version, schedule, at, kind, sizes)
    if not all(isinstance(text, str) for text in texts):
        raise FieldError("columns: expected text, got something else")
    if not all(size.isascii() and size.isdecimal() for size in sizes.split()):
        raise FieldError(f"sizes: expected whole numbers, got {shown(sizes)}")
    return Trial(
        task, target, whole(threads, "threads", 1), processor, compiler, version,
        schedule_of(document_in(schedule)), outcome_of(status, seconds, note), at, kind,
        tuple(map(int, sizes.split())), weights_of(weights),
    )  # fmt: skip


def _race(row: Sequence[Any], of: str, read: Callable[[Document], R]) -> R:
    """The race of a row, which begins with the digest of what it is `of`. Raises FieldError."""
    digest, text = row
    if not isinstance(text, str):
        raise FieldError("race: expected text, got something else")
    document = document_in(text)
    race = read(document)
    if document[of] != digest:
        raise FieldError(f"race: expected one of that {of}, got one of {shown(document[of])}")
    return race

"""Trials as files that are handed around: lines of JSON, and several files as one.

What it does: writes all trials of a record as lines of JSON, in an order that does not depend on
when they were made, and adds those of other files, lines of JSON or SQLite, to a record. A line
that says no trial is named and skipped. What it does not: judge what is in them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tensorgen.tune.records import RecordsError, TrialRecords
from tensorgen.tune.trial import Trial, TrialError, read_trial, trial_text

LONGEST_LINE = 1 << 20
"""Bytes of a line; longer ones are no trials."""

_AT_ONCE = 1024
"""Trials added in one transaction."""

_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Imported:
    """How many trials were added, how many were on file already, and a line for each that was
    skipped: where, and why."""

    added: int
    known: int
    skipped: tuple[str, ...]


def export_trials(records: TrialRecords, path: Path | str) -> int:
    """Write every trial as a line of JSON; how many there are.

    The file is there as a whole or as it was before. Raises RecordsError.
    """
    place = Path(path)
    trials = records.all()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="ascii", dir=place.parent, prefix=".", delete=False
        ) as file:
            try:
                file.writelines(f"{trial_text(trial)}\n" for trial in trials)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, place)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise RecordsError(
            f"{place}: expected room for {len(trials)} trials, got {' '.join(str(error).split())}; "
            "name a file in a folder that has room and that you may write to"
        ) from None
    return len(trials)


def import_trials(records: TrialRecords, path: Path | str) -> Imported:
    """Add the trials of a file, lines of JSON or a file of trials, to a record.

    Raises RecordsError for a file that cannot be read at all, and for a record that cannot be
    written; what was added before that stays.
    """
    place = Path(path)
    skipped: list[str] = []
    added = seen = 0
    batch: list[Trial] = []
    for trial in _trials_of(place, skipped.append):
        batch.append(trial)
        seen += 1
        if len(batch) == _AT_ONCE:
            added += records.add(batch)
            batch = []
    added += records.add(batch)
    return Imported(added, seen - added, tuple(skipped))


def _trials_of(path: Path, skip: Callable[[str], None]) -> Iterator[Trial]:
    try:
        with path.open("rb") as file:
            is_database = file.read(len(_SQLITE)) == _SQLITE
            if not is_database:
                file.seek(0)
                yield from _lines(path, file, skip)
    except OSError as error:
        raise RecordsError(
            f"{path}: expected a file of trials, got {' '.join(str(error).split())}; name one that "
            "can be read"
        ) from None
    if is_database:
        yield from TrialRecords(path, tell=skip).all()


def _lines(path: Path, file: Iterator[bytes], skip: Callable[[str], None]) -> Iterator[Trial]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        if len(line) > LONGEST_LINE:
            skip(f"{path}:{number}: expected a trial, got {len(line)} bytes in a line; skipped")
            continue
        try:
            yield read_trial(line.decode("utf-8"))
        except (TrialError, UnicodeDecodeError) as error:
            skip(f"{path}:{number}: {' '.join(str(error).split())}; skipped")

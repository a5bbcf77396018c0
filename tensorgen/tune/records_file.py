"""Trials as files that are handed around: lines of JSON, and several files as one.

What it does: writes all trials and races of a record as lines of JSON, in an order that does not
depend on when they were made, and adds those of other files, lines of JSON or SQLite, to a record.
A line that says neither is named and skipped. What it does not: judge what is in them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tensorgen.tune.fields import Document, FieldError, document_in, one_line
from tensorgen.tune.model_race_record import (
    ModelRaceRecord,
    is_model_race,
    model_race_of,
    model_race_text,
)
from tensorgen.tune.race_record import RaceRecord, is_race, race_of, race_text
from tensorgen.tune.records import RecordsError, TrialRecords
from tensorgen.tune.trial import Trial, trial_of, trial_text

LONGEST_LINE = 1 << 20
"""Bytes of a line; longer ones are no trials."""

_AT_ONCE = 1024
"""Lines added in one transaction."""

_SQLITE = b"SQLite format 3\0"


_Entry = Trial | RaceRecord | ModelRaceRecord


@dataclass(frozen=True, slots=True)
class Imported:
    """How many trials and races were added, how many were on file already, and a line for each that
    was skipped: where, and why."""

    added: int
    known: int
    skipped: tuple[str, ...]


def export_trials(records: TrialRecords, path: Path | str) -> int:
    """Write every trial and every race as a line of JSON; how many there are.

    The file is there as a whole or as it was before. Raises RecordsError.
    """
    place = Path(path)
    lines = [
        *map(trial_text, records.all()),
        *map(race_text, records.all_races()),
        *map(model_race_text, records.all_model_races()),
    ]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="ascii", dir=place.parent, prefix=".", delete=False
        ) as file:
            try:
                file.writelines(f"{line}\n" for line in lines)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, place)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise RecordsError(
            f"{place}: expected room for {len(lines)} trials and races, got "
            f"{' '.join(str(error).split())}; name a file in a folder that has room and that you "
            "may write to"
        ) from None
    return len(lines)


def import_trials(records: TrialRecords, path: Path | str) -> Imported:
    """Add the trials and races of a file, lines of JSON or a file of trials, to a record.

    Raises RecordsError for a file that cannot be read at all, and for a record that cannot be
    written; what was added before that stays.
    """
    place = Path(path)
    skipped: list[str] = []
    added = seen = 0
    entries = _entries_of(place, skipped.append)
    while batch := tuple(islice(entries, _AT_ONCE)):
        seen += len(batch)
        added += records.add(entry for entry in batch if isinstance(entry, Trial))
        added += records.add_races(entry for entry in batch if isinstance(entry, RaceRecord))
        added += records.add_model_races(e for e in batch if isinstance(e, ModelRaceRecord))
    return Imported(added, seen - added, tuple(skipped))


def _entries_of(path: Path, skip: Callable[[str], None]) -> Iterator[_Entry]:
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
        other = TrialRecords(path, tell=skip)
        yield from other.all()
        yield from other.all_races()
        yield from other.all_model_races()


def _lines(path: Path, file: Iterator[bytes], skip: Callable[[str], None]) -> Iterator[_Entry]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        if len(line) > LONGEST_LINE:
            skip(f"{path}:{number}: expected a trial, got {len(line)} bytes in a line; skipped")
            continue
        try:
            yield _entry_of(document_in(line.decode("utf-8")))
        except (FieldError, UnicodeDecodeError) as error:
            skip(f"{path}:{number}: {one_line(error)}; skipped")


def _entry_of(document: Document) -> _Entry:
    """What a line says. Raises FieldError."""
    if is_model_race(document):
        return model_race_of(document)
    return race_of(document) if is_race(document) else trial_of(document)

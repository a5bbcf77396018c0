"""Many rules judged: which are proved, which refuted, and which neither.

What it does: judges rules in processes (`workers`), each rule within a limit on its time; one whose
judgement takes longer, or whose process dies, is tried once more by the oracle alone, and is
unknown if that does not refute it. With a folder, what is finished is kept there, and found there
by the next run (`records`). All but the times is the same in every run. What it does not: judge
(`judging`), or write the report (`audit_json`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from graphopt.rule import Rule
from graphopt.taso_rules import Unsupported
from verify.judging import Judged, Settings, judged, refuted
from verify.records import Corrupt, Folder, Record, record_json, record_of
from verify.solver import seconds_spent
from verify.verdict import Proved, Unknown, Verdict
from verify.workers import Done, Ended, in_processes

SECONDS = 60.0
"""The time for one rule, unless another is given."""


Entry = Rule | Unsupported
"""A rule, or an entry of a file that the rule language does not say."""


@dataclass(frozen=True, slots=True)
class Audited:
    """The verdict on one entry. `proved_rule` has the inferred conditions; it is None for what is
    not proved. `kept` says that the verdict was found in the folder.
    """

    index: int
    name: str
    rule: Rule | None
    proved_rule: Rule | None
    inferred: tuple[str, ...]
    verdict: Verdict
    seconds: float
    solver_seconds: float
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Audit:
    """All verdicts in the order of the entries, and the seconds that the whole took."""

    file: str
    digest: str
    settings: Settings
    entries: tuple[Audited, ...]
    seconds: float


Report = Callable[[Audited], None]
"""Told of each verdict as it is found, in any order."""


def audit(
    entries: Sequence[Entry],
    settings: Settings | None = None,
    folder: Path | None = None,
    report: Report | None = None,
    *,
    file: str = "",
    digest: str = "",
    jobs: int = 1,
    seconds: float = SECONDS,
) -> Audit:
    """Judge rules in `jobs` processes, each within so many seconds.

    `file` and `digest` say where the entries are from. Raises OSError if the folder cannot be used.
    """
    begun = time.monotonic()
    chosen = Settings() if settings is None else settings
    found: dict[int, Audited] = {}
    with closing(_verdicts(entries, chosen, folder, jobs, seconds)) as verdicts_found:
        for index, audited in verdicts_found:
            found[index] = audited
            if report is not None:
                report(audited)
    verdicts = tuple(found[index] for index in range(len(entries)))
    return Audit(file, digest, chosen, verdicts, time.monotonic() - begun)


def _verdicts(
    entries: Sequence[Entry], settings: Settings, folder: Path | None, jobs: int, seconds: float
) -> Generator[tuple[int, Audited], None, None]:
    keeper = None if folder is None else Folder.at(folder, settings, seconds)
    pending: list[tuple[int, Rule]] = []
    for index, entry in enumerate(entries):
        if isinstance(entry, Unsupported):
            yield index, Audited(index, entry.name, None, None, (), Unknown(entry.reason), 0.0, 0.0)
            continue
        record = None if keeper is None else keeper.read(entry)
        if record is None:
            pending.append((index, entry))
        else:
            yield index, _audited(index, entry, record, kept=True)
    for index, rule, record in _judged(pending, settings, jobs, seconds):
        if keeper is not None:
            keeper.write(rule, record)
        yield index, _audited(index, rule, record)


def _judged(
    pending: Sequence[tuple[int, Rule]], settings: Settings, jobs: int, seconds: float
) -> Iterator[tuple[int, Rule, Record]]:
    """Records of rules as they are found."""

    late: list[tuple[int, Rule, str, float]] = []
    for position, outcome in in_processes(_whole(settings), pending, jobs, seconds):
        index, rule = pending[position]
        match outcome:
            case Done(value=value, seconds=taken):
                yield index, rule, _received(rule, value, taken)
            case Ended(reason=reason, seconds=taken):
                late.append((index, rule, reason, taken))
    for position, again in in_processes(_oracle_alone(settings), late, jobs, seconds):
        index, rule, reason, before = late[position]
        match again:
            case Done(value=value, seconds=taken):
                yield index, rule, _received(rule, value, before + taken)
            case Ended(seconds=taken):
                yield index, rule, Record(Judged(rule, (), Unknown(reason)), before + taken, 0.0)


def _whole(settings: Settings) -> Callable[[tuple[int, Rule]], str]:
    def work(task: tuple[int, Rule]) -> str:
        _, rule = task
        before = seconds_spent()
        found = judged(rule, settings)
        return json.dumps(record_json(Record(found, 0.0, seconds_spent() - before)))

    return work


def _oracle_alone(settings: Settings) -> Callable[[tuple[int, Rule, str, float]], str]:
    def work(task: tuple[int, Rule, str, float]) -> str:
        _, rule, reason, _ = task
        found = Judged(rule, (), refuted(rule, settings, reason))
        return json.dumps(record_json(Record(found, 0.0, 0.0)))

    return work


def _received(rule: Rule, text: str, seconds: float) -> Record:
    try:
        return record_of(rule, {**json.loads(text), "seconds": seconds})
    except Corrupt as error:
        raise AssertionError(f"a record of our own: {error}") from error


def _audited(index: int, rule: Rule, record: Record, kept: bool = False) -> Audited:
    found = record.judged
    proved = found.rule if isinstance(found.verdict, Proved) else None
    return Audited(
        index, rule.name, rule, proved, found.inferred, found.verdict, record.seconds,
        record.solver_seconds, kept,
    )  # fmt: skip

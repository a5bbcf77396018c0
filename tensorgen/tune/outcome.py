"""What came of measuring one schedule: a closed union.

Only `Timed` and `Slower` are figures. The others say that the schedule gave no right result within
its limits; they cost this schedule and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import assert_never

from tensorgen.tune.fields import positive_seconds, unexpected


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of one call, the median of its timed runs; the result was right."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Slower:
    """Racing stopped it: about so many seconds a call or, where it was ended while it ran, at least
    so many; too many to be worth another run. A result that there was is right."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Wrong:
    """Another result than the reference. `difference` is one line."""

    difference: str


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """It does not fit its task, or there is no room for what it writes to; nothing is at fault. One
    line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It fits, and yet there is no kernel: lowering failed, or the compiler or the loader refused
    what came of it. One line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Crashed:
    """Its process ended while it ran. `reason` is one line."""

    reason: str


@dataclass(frozen=True, slots=True)
class TookTooLong:
    """It did not finish within so many seconds."""

    limit: float


Outcome = Timed | Slower | Wrong | NotBuilt | Refused | Crashed | TookTooLong

STATUSES = ("timed", "slower", "wrong", "not built", "refused", "crashed", "took too long")
"""A word for each kind of outcome, in the order of the union."""

FAULTS = ("wrong", "refused", "crashed", "took too long")
"""Statuses of candidates that fit and gave no right result: each is a bug, of ours or of the
compiler."""


def seconds_of(outcome: Outcome) -> float:
    """Seconds of one call as a search compares them; infinite for what gave no figure."""
    match outcome:
        case Timed(seconds) | Slower(seconds):
            return seconds
        case Wrong() | NotBuilt() | Refused() | Crashed() | TookTooLong():
            return inf
        case _:
            assert_never(outcome)


def scaled(outcome: Outcome, factor: float) -> Outcome:
    """The outcome of a machine on which everything takes `factor` times as long."""
    match outcome:
        case Timed(seconds):
            return Timed(seconds * factor)
        case Slower(seconds):
            return Slower(seconds * factor)
        case Wrong() | NotBuilt() | Refused() | Crashed() | TookTooLong():
            return outcome
        case _:
            assert_never(outcome)


def parts_of(outcome: Outcome) -> tuple[str, float | None, str]:
    """An outcome as status, seconds (a figure, or the limit) and a line of text."""
    match outcome:
        case Timed(seconds):
            return "timed", seconds, ""
        case Slower(seconds):
            return "slower", seconds, ""
        case Wrong(difference):
            return "wrong", None, difference
        case NotBuilt(reason):
            return "not built", None, reason
        case Refused(reason):
            return "refused", None, reason
        case Crashed(reason):
            return "crashed", None, reason
        case TookTooLong(limit):
            return "took too long", limit, ""
        case _:
            assert_never(outcome)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many outcomes were of one status, and the first line of text that one of them has."""

    status: str
    count: int
    note: str


def tallied(outcomes: Iterable[Outcome]) -> tuple[Tally, ...]:
    """Outcomes counted by status, in the order of STATUSES, those that there are."""
    notes: dict[str, list[str]] = {}
    for status, _, note in map(parts_of, outcomes):
        notes.setdefault(status, []).append(note)
    return tuple(
        Tally(status, len(notes[status]), next(filter(None, notes[status]), ""))
        for status in STATUSES
        if status in notes
    )


def outcome_of(status: object, seconds: object, note: object) -> Outcome:
    """The outcome that `parts_of` took apart. Raises FieldError for anything else."""
    if not isinstance(note, str):
        raise unexpected("note", "text", note)
    match status:
        case "timed":
            return Timed(positive_seconds(seconds, "seconds"))
        case "slower":
            return Slower(positive_seconds(seconds, "seconds"))
        case "took too long":
            return TookTooLong(positive_seconds(seconds, "seconds"))
        case "wrong" | "not built" | "refused" | "crashed" if seconds is not None:
            raise unexpected("seconds", f"none of what was {status}", seconds)
        case "wrong":
            return Wrong(note)
        case "not built":
            return NotBuilt(note)
        case "refused":
            return Refused(note)
        case "crashed":
            return Crashed(note)
        case _:
            raise unexpected("status", f"one of {', '.join(STATUSES)}", status)

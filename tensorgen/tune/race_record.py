"""A race on file: two schedules of a task, built as a library builds them and timed in turns.

What it does: names what the figures depend on, and writes a race as a line of JSON. What it does
not: keep races (`records`) or hold them (`task_search`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

from tensorgen.digest import content_digest
from tensorgen.tune.fields import (
    Document,
    document_text,
    known_only,
    object_in,
    seconds_in,
    text_in,
)
from tensorgen.tune.library_race import Rivals
from tensorgen.tune.schedule_text import schedule_document, schedule_of
from tensorgen.tune.trial import Setting, setting_in, task_in, weights_of
from tensorgen.tune.weights_place import WeightsPlace

_NAMES = (
    "at", "compiler", "processor", "schedule", "seconds", "target", "task", "threads", "version",
    "weights", "zero_trial", "zero_trial_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class RaceRecord:
    """Rivals, the task by the digits of its digest, where they raced and where the weights came
    from, and the time in UTC (ISO 8601, to the second). Both have figures."""

    task: str
    setting: Setting
    weights: WeightsPlace
    rivals: Rivals
    at: str

    @cached_property
    def digest(self) -> str:
        """A name for this very race: two that say all the same are one."""
        return content_digest(race_text(self)).hex()


def is_race(document: Document) -> bool:
    """Whether a line on file, of trials and races, is one of a race."""
    return "zero_trial" in document


def race_text(race: RaceRecord) -> str:
    """A race as one line of JSON; equal races give equal text."""
    rivals = race.rivals
    return document_text(
        {
            "task": race.task,
            **asdict(race.setting),
            "weights": race.weights.value,
            "schedule": schedule_document(rivals.schedule),
            "seconds": rivals.seconds,
            "zero_trial": schedule_document(rivals.zero_trial),
            "zero_trial_seconds": rivals.zero_trial_seconds,
            "at": race.at,
        }
    )


def race_of(document: Document) -> RaceRecord:
    """The race that `race_text` wrote. Raises FieldError."""
    known_only(document, _NAMES, "race")
    rivals = Rivals(
        schedule_of(object_in(document.get("schedule"), "schedule")),
        seconds_in(document, "seconds"),
        schedule_of(object_in(document.get("zero_trial"), "zero_trial")),
        seconds_in(document, "zero_trial_seconds"),
    )
    return RaceRecord(
        task_in(document), setting_in(document), weights_of(document.get("weights")), rivals,
        text_in(document, "at"),
    )  # fmt: skip

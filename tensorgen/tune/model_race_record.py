"""A race of a whole model on file: runs of it as tuned and as scheduled without trials, in turns.

What it does: names what the figures depend on, and writes a race as a line of JSON. What it does
not: keep races (`records`), hold them, or say which libraries raced.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

from tensorgen.digest import content_digest
from tensorgen.tune.fields import (
    Document,
    digest_in,
    document_text,
    known_only,
    seconds_in,
    text_in,
)
from tensorgen.tune.trial import Setting, setting_in

_NAMES = (
    "at", "compiler", "model", "processor", "seconds", "target", "threads", "version",
    "zero_trial_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class ModelRaceRecord:
    """Both libraries of a model by the digits of a digest of what they are made of, where they
    raced, the seconds of a run of each, and the time in UTC (ISO 8601, to the second)."""

    model: str
    setting: Setting
    zero_trial_seconds: float
    seconds: float
    at: str

    @property
    def times_as_fast(self) -> float:
        """How many times as fast as without trials the model is as tuned."""
        return self.zero_trial_seconds / self.seconds

    @cached_property
    def digest(self) -> str:
        """A name for this very race: two that say all the same are one."""
        return content_digest(model_race_text(self)).hex()


def is_model_race(document: Document) -> bool:
    """Whether a line on file is one of a race of a model."""
    return "model" in document


def model_race_text(race: ModelRaceRecord) -> str:
    """A race as one line of JSON; equal races give equal text."""
    return document_text(
        {
            "model": race.model,
            **asdict(race.setting),
            "zero_trial_seconds": race.zero_trial_seconds,
            "seconds": race.seconds,
            "at": race.at,
        }
    )


def model_race_of(document: Document) -> ModelRaceRecord:
    """The race that `model_race_text` wrote. Raises FieldError."""
    known_only(document, _NAMES, "race of a model")
    return ModelRaceRecord(
        digest_in(document, "model", "a model's libraries"),
        setting_in(document),
        seconds_in(document, "zero_trial_seconds"),
        seconds_in(document, "seconds"),
        text_in(document, "at"),
    )

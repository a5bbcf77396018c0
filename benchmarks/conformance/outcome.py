"""How a test case can end, and the record of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from benchmarks.conformance.cases import Group

LONGEST_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class Passed:
    """Every output is right. The inputs in `fixed` had to be constants when it was compiled."""

    fixed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The model was refused with that message; `reason` is a phrase that many cases share."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Rounded:
    """The outputs differ from the expected ones by rounding alone, yet more than is allowed."""

    message: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Anything else: wrong outputs, an error on the way, a crash, no end in time."""

    message: str


Outcome = Passed | Unsupported | Rounded | Failed


@dataclass(frozen=True, slots=True)
class Record:
    """A case and how it ended; `operator` is empty for whole models."""

    name: str
    group: Group
    operator: str
    outcome: Outcome

    @property
    def passed(self) -> bool:
        return isinstance(self.outcome, Passed)

    def document(self) -> Mapping[str, object]:
        """The record for JSON."""
        case = {"name": self.name, "group": self.group, "operator": self.operator}
        match self.outcome:
            case Passed(fixed):
                return case | {"outcome": "passed", "fixed_inputs": list(fixed)}
            case Unsupported(reason, message):
                return case | {"outcome": "unsupported", "reason": reason, "message": message}
            case Rounded(message):
                return case | {"outcome": "rounded", "message": message}
            case Failed(message):
                return case | {"outcome": "failed", "message": message}
            case _:
                assert_never(self.outcome)


def one_line(text: object) -> str:
    """A message on one line of bounded length."""
    line = " ".join(str(text).split())
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 1] + "…"

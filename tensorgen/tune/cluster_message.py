"""What the tuner and a worker of a cluster say to each other: lines of JSON, read strictly.

What it does: writes and reads requests (a worker's setting, its constants, a race) and the answers
to them. Whatever comes from the other side is checked, types and ranges, before it is used. What it
does not: send anything, or measure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import assert_never

from tensorgen.machine import Machine, MachineError, machine_document, machine_of
from tensorgen.schedule import Schedule
from tensorgen.target import Target, TargetError
from tensorgen.task import Task
from tensorgen.tune.fields import (
    Document,
    FieldError,
    document_in,
    document_text,
    known_only,
    object_in,
    one_line,
    text_in,
    unexpected,
    whole,
    whole_in,
)
from tensorgen.tune.measurer import Measured, NotMeasured
from tensorgen.tune.outcome import Outcome, outcome_of, parts_of
from tensorgen.tune.schedule_text import schedule_document, schedule_of
from tensorgen.tune.task_text import task_document, task_of
from tensorgen.tune.trial import Setting

MOST_TEXT = 400
"""A text in an answer, the name of a processor, say, has no more characters."""

MOST_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Work:
    """What is measured for: code of a target on so many threads, and how strictly it rounds."""

    target: Target
    threads: int
    strict: bool


@dataclass(frozen=True, slots=True)
class SettingRequest:
    """Where the worker measures: `Setting`."""

    work: Work


@dataclass(frozen=True, slots=True)
class MachineRequest:
    """The constants of the worker's machine, as it is calibrated."""

    work: Work


@dataclass(frozen=True, slots=True)
class RaceRequest:
    """A race of schedules of a task with the incumbent, as a measurer makes it, of `drafts` or of
    kernels that are compiled as a library is, in a run that moves `traffic` bytes."""

    work: Work
    drafts: bool
    traffic: float
    task: Task
    incumbent: Schedule
    schedules: tuple[Schedule, ...]


Request = SettingRequest | MachineRequest | RaceRequest


class WorkerFailed(RuntimeError):
    """A worker answers that it cannot do what it was asked for. The message is one line."""


# Requests


def request_text(request: Request) -> str:
    """A request as one line."""
    match request:
        case SettingRequest(work):
            return document_text({"ask": "setting", "work": _work_document(work)})
        case MachineRequest(work):
            return document_text({"ask": "machine", "work": _work_document(work)})
        case RaceRequest(work, drafts, traffic, task, incumbent, schedules):
            return document_text(
                {
                    "ask": "race",
                    "work": _work_document(work),
                    "drafts": drafts,
                    # JSON has no infinity.
                    "traffic": int(traffic) if traffic < inf else None,
                    "task": task_document(task),
                    "incumbent": schedule_document(incumbent),
                    "schedules": [schedule_document(schedule) for schedule in schedules],
                }
            )
        case _:
            assert_never(request)


def read_request(text: str) -> Request:
    """The request that `request_text` wrote. Raises FieldError."""
    document = document_in(text)
    work = _work_of(object_in(document.get("work"), "work"))
    match document.get("ask"):
        case "setting":
            known_only(document, ("ask", "work"), "request")
            return SettingRequest(work)
        case "machine":
            known_only(document, ("ask", "work"), "request")
            return MachineRequest(work)
        case "race":
            names = ("ask", "work", "drafts", "traffic", "task", "incumbent", "schedules")
            known_only(document, names, "request")
            return RaceRequest(
                work,
                _truth(document.get("drafts"), "drafts"),
                _traffic(document.get("traffic")),
                task_of(object_in(document.get("task"), "task")),
                schedule_of(object_in(document.get("incumbent"), "incumbent")),
                tuple(
                    schedule_of(object_in(item, f"schedules[{place}]"))
                    for place, item in enumerate(_list(document.get("schedules"), "schedules"))
                ),
            )
        case other:
            raise unexpected("ask", "setting, machine or race", other)


def _work_document(work: Work) -> Document:
    target = work.target
    return {
        "target": target.name,
        "maker": target.maker,
        "family": target.family,
        "sizes": [target.cores, target.l1_bytes, target.l2_bytes, target.l3_bytes],
        "threads": work.threads,
        "strict": work.strict,
    }


def _work_of(document: Document) -> Work:
    """Only the sizes, maker and family of a target may be another machine's: instructions and flags
    of the compiler are those that its name stands for here."""
    known_only(document, ("target", "maker", "family", "sizes", "threads", "strict"), "work")
    name, sizes = text_in(document, "target"), _list(document.get("sizes"), "sizes")
    if len(sizes) != 4:
        raise unexpected("sizes", "cores and three sizes of caches", sizes)
    numbers = {str(place): size for place, size in enumerate(sizes)}
    cores, first, second, third = (whole_in(numbers, str(place)) for place in range(4))
    if name == "host":
        raise unexpected("target", "a target that is the same everywhere", name)
    try:
        named = Target.named(name)
    except TargetError as error:
        raise FieldError(one_line(error)) from None
    target = replace(
        named, maker=_short(document, "maker", 0), family=whole_in(document, "family"), cores=cores,
        l1_bytes=first, l2_bytes=second, l3_bytes=third,
    )  # fmt: skip
    threads = whole_in(document, "threads", 1)
    if threads > MOST_THREADS:
        raise unexpected("threads", f"at most {MOST_THREADS}", threads)
    return Work(target, threads, _truth(document.get("strict"), "strict"))


# Answers


def failure_answer(reason: str) -> str:
    """The answer of a worker that cannot do what it was asked for."""
    return document_text({"failed": one_line(reason, MOST_TEXT)})


def setting_answer(setting: Setting) -> str:
    """A setting as one line."""
    return document_text(
        {
            "target": setting.target,
            "threads": setting.threads,
            "processor": setting.processor[:MOST_TEXT],
            "compiler": setting.compiler[:MOST_TEXT],
            "version": setting.version,
        }
    )


def read_setting(text: str) -> Setting:
    """The setting in an answer. Raises FieldError, and WorkerFailed."""
    document = _answer_in(text)
    known_only(document, ("target", "threads", "processor", "compiler", "version"), "setting")
    return Setting(
        _short(document, "target"),
        whole_in(document, "threads", 1),
        _short(document, "processor"),
        _short(document, "compiler"),
        _short(document, "version"),
    )


def machine_answer(machine: Machine) -> str:
    """A machine's constants as one line."""
    return document_text({"machine": machine_document(machine)})


def read_machine(text: str) -> Machine:
    """The constants in an answer. Raises FieldError, and WorkerFailed."""
    document = _answer_in(text)
    known_only(document, ("machine",), "machine")
    try:
        return machine_of(document.get("machine"))
    except MachineError as error:
        raise FieldError(one_line(error)) from None


def race_answer(measured: Measured) -> str:
    """What came of a race as one line."""
    return document_text(
        {
            "incumbent": _outcome_document(measured.incumbent),
            "outcomes": [_outcome_document(outcome) for outcome in measured.outcomes],
        }
    )


def read_race(text: str, count: int) -> Measured:
    """What came of a race of so many schedules. Raises FieldError, and WorkerFailed."""
    document = _answer_in(text)
    known_only(document, ("incumbent", "outcomes"), "race")
    outcomes = _list(document.get("outcomes"), "outcomes")
    if len(outcomes) != count:
        raise unexpected("outcomes", f"those of {count} schedules", len(outcomes))
    return Measured(
        tuple(_outcome_of(item, f"outcomes[{place}]") for place, item in enumerate(outcomes)),
        _outcome_of(document.get("incumbent"), "incumbent"),
    )


def _answer_in(text: str) -> Document:
    document = document_in(text)
    if "failed" in document:
        raise WorkerFailed(one_line(text_in(document, "failed")))
    return document


def _outcome_document(outcome: Outcome | NotMeasured) -> Document:
    assert not isinstance(outcome, NotMeasured), "a worker that answers has measured"
    status, seconds, note = parts_of(outcome)
    return {"status": status, "seconds": seconds, "note": one_line(note, MOST_TEXT) if note else ""}


def _outcome_of(item: object, place: str) -> Outcome:
    document = object_in(item, place)
    known_only(document, ("status", "seconds", "note"), place)
    note = _short(document, "note", 0)
    return outcome_of(document.get("status"), document.get("seconds"), note)


def _short(document: Document, name: str, least: int = 1) -> str:
    """A field that is one short line. Raises FieldError."""
    text = text_in(document, name)
    if not least <= len(text) <= MOST_TEXT or not text.isprintable():
        raise unexpected(name, f"a line of at most {MOST_TEXT} characters", text)
    return text


def _truth(item: object, place: str) -> bool:
    if not isinstance(item, bool):
        raise unexpected(place, "true or false", item)
    return item


def _traffic(item: object) -> float:
    return inf if item is None else float(whole(item, "traffic"))


def _list(item: object, place: str) -> list[object]:
    if not isinstance(item, list):
        raise unexpected(place, "a list", item)
    return item

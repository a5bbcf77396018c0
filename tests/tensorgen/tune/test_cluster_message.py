"""What tuner and workers say to each other: read strictly, on both sides."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from tensorgen.sketch import default_schedule
from tensorgen.target import Target
from tensorgen.tune.cluster_message import (
    MachineRequest,
    RaceRequest,
    Request,
    SettingRequest,
    Work,
    WorkerFailed,
    failure_answer,
    machine_answer,
    race_answer,
    read_machine,
    read_race,
    read_request,
    read_setting,
    request_text,
    setting_answer,
)
from tensorgen.tune.fields import FieldError
from tensorgen.tune.measurer import Measured
from tensorgen.tune.outcome import Crashed, NotBuilt, Refused, Slower, Timed, TookTooLong, Wrong
from tensorgen.tune.trial import Setting
from tensorgen.typical_machine import typical_machine
from tests.contraction_tasks import matmul

TARGET = replace(Target.named("x86-64-v3"), l2_bytes=3 << 20, cores=6, maker="SomeMaker", family=26)
WORK = Work(TARGET, 2, True)
TASK = matmul((), 9, 35, 40, constant=(False, True))
SCHEDULE = default_schedule(TASK, TARGET, 2)
RACE = RaceRequest(WORK, False, inf, TASK, SCHEDULE, (SCHEDULE, SCHEDULE))
WARM_RACE = replace(RACE, traffic=4096.0)
SETTING = Setting("x86-64-v3 strict", 2, "a processor", "gcc 12", "0.1")
OUTCOMES = (
    Timed(1e-6), Slower(2e-5), Wrong("3 of 4"), NotBuilt("no"), Refused("cc"),
    Crashed("signal"), TookTooLong(5.0),
)  # fmt: skip


@pytest.mark.parametrize("request_", [SettingRequest(WORK), MachineRequest(WORK), RACE, WARM_RACE])
def test_a_request_comes_back(request_: Request) -> None:
    text = request_text(request_)
    assert read_request(text) == request_
    assert "\n" not in text


def test_answers_come_back() -> None:
    assert read_setting(setting_answer(SETTING)) == SETTING
    machine = typical_machine(TARGET, 2)
    assert read_machine(machine_answer(machine)) == machine
    measured = Measured(OUTCOMES, Timed(3e-6))
    assert read_race(race_answer(measured), len(OUTCOMES)) == measured


def changed(text: str, **fields: Any) -> str:
    return json.dumps({**json.loads(text), **fields})


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"target": "host"}, "target: expected a target that is the same everywhere, got 'host'"),
        ({"target": "pdp-11"}, "target: expected one of host, .*, got 'pdp-11'"),
        ({"flags": ["-o", "x"]}, "work: expected fields among .*, got 'flags'"),
        ({"threads": 0}, "threads: expected a whole number from 1, got 0"),
        ({"threads": 10**6}, "threads: expected at most 1024"),
        ({"sizes": [1, 2, 3]}, "sizes: expected cores and three sizes"),
        ({"sizes": [1, 2, 3, -4]}, "3: expected a whole number from 0, got -4"),
        ({"maker": "a\nb"}, "maker: expected a line"),
        ({"family": "26"}, "family: expected a whole number from 0, got '26'"),
        ({"strict": 1}, "strict: expected true or false, got 1"),
    ],
)
def test_other_work_is_refused(fields: dict[str, Any], match: str) -> None:
    work = json.loads(request_text(RACE))["work"]
    with pytest.raises(FieldError, match=match):
        read_request(changed(request_text(RACE), work={**work, **fields}))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"ask": "dance"}, "ask: expected setting, machine or race, got 'dance'"),
        ({"drafts": None}, "drafts: expected true or false"),
        ({"more": 1}, "request: expected fields among"),
        ({"incumbent": {}}, "version: expected 1"),
        ({"schedules": [[]]}, r"schedules\[0\]: expected a JSON object"),
    ],
)
def test_other_requests_are_refused(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(FieldError, match=match):
        read_request(changed(request_text(RACE), **fields))


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", '{"outcomes":[],"incumbent":null}', '"' + "x" * 10**5 + '"']
)
def test_what_is_no_answer_is_refused(text: str) -> None:
    for read in (read_setting, read_machine, lambda t: read_race(t, 0)):
        with pytest.raises(FieldError):
            read(text)


@pytest.mark.parametrize(
    ("outcome", "match"),
    [
        ({"status": "timed", "seconds": -1.0, "note": ""}, "seconds: expected a positive number"),
        ({"status": "timed", "seconds": float("nan"), "note": ""}, "seconds: expected a positive"),
        ({"status": "timed", "seconds": True, "note": ""}, "seconds: expected a positive"),
        ({"status": "won", "seconds": None, "note": ""}, "status: expected one of"),
        ({"status": "wrong", "seconds": None, "note": "a\x1b[2J"}, "note: expected a line"),
        ({"status": "wrong", "seconds": None, "note": "a" * 999}, "note: expected a line"),
        ({"status": "timed", "seconds": 1.0, "note": "", "x": 1}, "expected fields among"),
    ],
)
def test_outcomes_that_cannot_be_are_refused(outcome: dict[str, Any], match: str) -> None:
    text = json.dumps({"incumbent": outcome, "outcomes": []})
    with pytest.raises(FieldError, match=match):
        read_race(text, 0)


def test_a_race_has_an_outcome_for_each_schedule() -> None:
    with pytest.raises(FieldError, match="outcomes: expected those of 3 schedules, got 7"):
        read_race(race_answer(Measured(OUTCOMES, Timed(1.0))), 3)


def test_a_worker_that_failed_says_why_in_one_line() -> None:
    with pytest.raises(WorkerFailed, match=r"^disk: full of things$"):
        read_setting(failure_answer("disk:\nfull\tof things"))
    with pytest.raises(FieldError, match="failed: expected text"):
        read_setting('{"failed": 3}')

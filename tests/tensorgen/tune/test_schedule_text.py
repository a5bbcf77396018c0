"""Schedules as text: every one comes back, and what is no schedule is refused in one line."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings

from tensorgen.schedule import (
    AttentionTile,
    ColumnRun,
    Lanes,
    Loops,
    RegisterTile,
    RowStages,
    Schedule,
    VectorSource,
    WindowTile,
)
from tensorgen.tune.schedule_text import (
    ScheduleTextError,
    read_schedule,
    schedule_digest,
    schedule_document,
    schedule_text,
)
from tests.schedules import SCHEDULES

TILE = RegisterTile(1, VectorSource.PACKED, False, 12, 2, 16, True, False, copied=0)
LOOPS = Loops(Lanes.OUTPUT, 2048, 0, 1)
WINDOW = WindowTile(4, (ColumnRun(0, 2, 16, 16), ColumnRun(32, 1, 8, 5)), 2)
ROWS = RowStages(1, (LOOPS, LOOPS), 1, 16384, frozenset({1, 0}))
ATTENTION = AttentionTile(8, 128, TILE, ROWS, None, 2, True)


@settings(deadline=None)
@given(SCHEDULES)
def test_every_schedule_comes_back(schedule: Schedule) -> None:
    text = schedule_text(schedule)
    assert text.isascii()
    assert "\n" not in text
    again = read_schedule(text)
    assert again == schedule
    assert str(again) == str(schedule)
    assert schedule_text(again) == text


@settings(deadline=None)
@given(SCHEDULES, SCHEDULES)
def test_equal_schedules_have_equal_names(first: Schedule, second: Schedule) -> None:
    assert (first == second) == (schedule_digest(first) == schedule_digest(second))


def test_the_text_is_what_it_was() -> None:
    """Files of trials outlive versions: who changes this text has to read the old one, too."""
    assert schedule_text(TILE) == (
        '{"copied":0,"kind":"RegisterTile","lanes":16,"parallel":false,"row_packed":false,'
        '"rows":12,"source":"packed","vector_operand":1,"vectors":2,"vectors_outer":true,'
        '"version":1}'
    )
    assert schedule_text(WINDOW) == (
        '{"columns":[{"count":16,"lanes":16,"start":0,"vectors":2},{"count":5,"lanes":8,'
        '"start":32,"vectors":1}],"kind":"WindowTile","parallel":2,"rows":4,"version":1}'
    )
    assert schedule_text(ROWS) == (
        '{"joined":[0,1],"kind":"RowStages","parallel":1,"rows":1,"stack_bytes":16384,"stages":'
        '[{"lanes":"output","parallel":1,"tile":2048,"unroll":0},{"lanes":"output","parallel":1,'
        '"tile":2048,"unroll":0}],"version":1}'
    )


def test_a_field_with_a_default_need_not_be_there() -> None:
    document: dict[str, Any] = dict(schedule_document(TILE))
    del document["copied"]
    read = read_schedule(json.dumps(document))
    assert isinstance(read, RegisterTile)
    assert read.copied is None


def changed(schedule: Schedule, **fields: object) -> str:
    return json.dumps({**schedule_document(schedule), **fields})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a JSON object"),
        ("[1]", "expected a JSON object, got [1]"),
        ("[" * 100_000, "expected a JSON object"),
        (changed(TILE, version=2), "version: expected 1, which this Tasor reads, got 2"),
        (changed(TILE, kind="Tensorize"), "kind: expected one of Loops, RowStages"),
        (changed(TILE, kind=[]), "kind: expected one of"),
        (changed(TILE, speed=9), "RegisterTile: expected fields among ahead, backwards"),
        (changed(TILE, rows=-1), "RegisterTile.rows: expected a whole number from 0, got -1"),
        (changed(TILE, rows=2.0), "RegisterTile.rows: expected a whole number from 0, got 2.0"),
        (changed(TILE, rows=True), "RegisterTile.rows: expected a whole number from 0, got True"),
        (changed(TILE, rows=2**80), "RegisterTile.rows: expected a whole number from 0"),
        (changed(TILE, grid=1), "RegisterTile.grid: expected true or false, got 1"),
        (changed(TILE, source="air"), "RegisterTile.source: expected one of packed, direct"),
        (changed(TILE, source=[]), "RegisterTile.source: expected one of packed, direct"),
        (changed(TILE, copied="no"), "RegisterTile.copied: expected a whole number from 0"),
        (changed(WINDOW, columns=[1]), "WindowTile.columns[0]: expected a JSON object, got 1"),
        (changed(WINDOW, columns=3), "WindowTile.columns: expected a list of at most"),
        (changed(WINDOW, columns=[{}]), "WindowTile.columns[0]: expected start, vectors, lanes"),
        (changed(ATTENTION, scores=None), "AttentionTile.scores: expected a JSON object"),
        ('{"version":1,"kind":"Loops"}', "Loops: expected lanes, tile, unroll, parallel, got none"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, message: str) -> None:
    with pytest.raises(ScheduleTextError) as caught:
        read_schedule(text)
    assert str(caught.value).startswith("schedule: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_kind_is_drawn_by_these_tests() -> None:
    kinds = {type(schedule) for schedule in (TILE, LOOPS, WINDOW, ROWS, ATTENTION)}
    assert len(set(get_args(Schedule)) - kinds) == 1

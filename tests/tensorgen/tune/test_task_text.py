"""Tasks as text: the same task comes back, and nothing else is taken for one."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.expr import Reduce, Tensor, apply, cast, compute, const, select, walk
from tensorgen.task import Task
from tensorgen.tune.fields import FieldError, document_text
from tensorgen.tune.task_text import task_document, task_of
from tensorgen.types import TensorType, boolean, float16, float32, uint64
from tests.tuned_tasks import CONVOLUTIONS, EXACT, ROUNDED

TASKS = {**EXACT, **ROUNDED, **CONVOLUTIONS}


def through_json(task: Task) -> Any:
    return json.loads(document_text(task_document(task)))


@pytest.mark.parametrize("name", TASKS)
def test_a_task_comes_back(name: str) -> None:
    task = TASKS[name]
    found = task_of(through_json(task))
    assert found == task
    assert str(found) == str(task)
    assert found.output_types == task.output_types


def test_a_task_of_callers_arrays_comes_back_as_another() -> None:
    task = next(task for task in TASKS.values() if not task.constant[0])
    given = replace(task, given=frozenset({0}))
    assert given.digest != task.digest
    found = task_of(through_json(given))
    assert (found, found.given) == (given, frozenset({0}))


def test_every_kind_of_term_comes_back() -> None:
    x = Tensor(0, TensorType(float16, (3,)))
    most = const(2**64 - 1, uint64)

    def body(i: Any) -> Any:
        wide = cast(x[i], float32)
        test = wide < const(float("-inf"), float32)
        number = select(test, wide, const(float("nan"), float32)) * const(0.1, float32)
        both = select(const(True, boolean), number, const(-0.0, float32))
        return select(apply("eq", cast(both, uint64), most), both, wide)

    task = Task((x.type,), (compute((3,), body),), (0,), (False,))
    assert task_of(through_json(task)) == task


def test_terms_are_written_once() -> None:
    task = CONVOLUTIONS["3 x 3"]
    distinct = {term for stage in task.stages for term in walk(stage.body)}
    axes = {axis for term in distinct if isinstance(term, Reduce) for axis in term.axes}
    axes |= {axis for stage in task.stages for axis in stage.axes}
    assert len(through_json(task)["terms"]) == len(distinct | axes)


def refused(change: Any, match: str) -> None:
    document = through_json(EXACT["product"])
    change(document)
    with pytest.raises(FieldError, match=match):
        task_of(document)


def test_what_is_no_task_is_refused() -> None:
    refused(lambda d: d.update(more=1), "task: expected fields among .* got 'more'")
    refused(lambda d: d.pop("digest"), "digest: expected text, got None")
    refused(lambda d: d.update(digest="00" * 16), "digest: expected [0-9a-f]{32}, that of this")
    refused(lambda d: d.update(inputs=[["float99", 3]]), "inputs: expected an element type")
    refused(lambda d: d.update(inputs=[["float32", -3]]), "inputs: expected a whole number from 0")
    refused(lambda d: d.update(inputs=[["float32", 2**30, 2**11]]), "inputs: .* at most 2")
    refused(lambda d: d["constant"].pop(), "expected terms that fit together")
    refused(lambda d: d.update(outputs=[7]), "outputs: expected a position below 1, got 7")
    refused(lambda d: d["terms"].insert(0, ["axis", 0]), r"terms\[0\]: expected a term of a kind")
    refused(lambda d: d["terms"].insert(0, ["apply", "add", [5]]), r"terms\[0\]: expected a pos")
    refused(lambda d: d["terms"].insert(0, ["const", "int8", 128]), "whole number from -128 to 127")
    refused(lambda d: d["terms"].insert(0, ["const", "float32", 1.5]), "in hexadecimal, got 1.5")
    refused(lambda d: d["terms"].insert(0, ["axis", 0, 3, "a; b"]), "a term of a kind")
    refused(lambda d: d["stages"][0].append(1), "stages: expected 2 parts")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_changed_text_is_refused_or_the_same(data: st.DataObject) -> None:
    document = through_json(EXACT["bias"])
    task = task_of(copy.deepcopy(document))
    place: Any = document
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(
        st.none() | st.booleans() | st.integers(-3, 2**41) | st.text(max_size=3)
        | st.floats() | st.lists(st.integers(0, 3), max_size=3)
    )  # fmt: skip
    try:
        found = task_of(document)
    except FieldError:
        return
    assert found == task

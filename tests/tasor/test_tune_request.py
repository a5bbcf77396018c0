"""What may be asked of tuning: goals by models' names, and what is refused."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from tasor.errors import UsageError
from tasor.pipeline import Question
from tasor.tune_request import TuneRequest, check_request, objective_of
from tensorgen.tune.task_scheduler import (
    EqualTrials,
    LatencyTargets,
    MeanSpeed,
    Objective,
    TotalLatency,
    WeightedLatency,
)

QUESTIONS = [
    Question("in/bert-base.onnx", "bert_base"),
    Question(Path("in/resnet.onnx"), "resnet"),
    Question("other/resnet.onnx", "resnet"),
    Question(b"", "model"),
]


@pytest.mark.parametrize(
    ("asked", "objective"),
    [
        ({}, TotalLatency()),
        ({"mean_speed": True}, MeanSpeed()),
        ({"gradient": False}, EqualTrials()),
        ({"weights": {"bert-base": 2, "model": 0.5}}, WeightedLatency({"0": 2.0, "3": 0.5})),
        ({"latencies": {"other/resnet.onnx": 5}}, LatencyTargets({"2": 0.005})),
        (
            {"weights": {"in/resnet.onnx": 3}, "latencies": {"bert_base": 1.0}},
            LatencyTargets({"0": 0.001}, {"1": 3.0}),
        ),
    ],
)
def test_goals_by_name_or_file(asked: dict[str, Any], objective: Objective) -> None:
    assert objective_of(TuneRequest(8, **asked), QUESTIONS) == objective


@pytest.mark.parametrize("name", ["bert_base", "bert-base", "bert-base.onnx", "in/bert-base.onnx"])
def test_a_model_goes_by_its_library_or_its_file(name: str) -> None:
    found = objective_of(TuneRequest(8, weights={name: 2.0}), QUESTIONS)
    assert found == WeightedLatency({"0": 2.0})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"weights": {"vgg": 1.0}}, "weight: expected a model among 'bert_base', .* got 'vgg'"),
        ({"latencies": {"": 1.0}}, "latency: expected a model among"),
        ({"weights": {"resnet": 1.0}}, "expected the name of one model, got 'resnet', which 2"),
        (
            {"weights": {"bert-base": 1.0, "bert_base": 1.0}},
            "weight: expected each model once, got 'bert_base' twice",
        ),
        ({"weights": {"model": 0}}, "weight: expected a number above 0 for 'model', got 0"),
        ({"weights": {"model": -1.5}}, "weight: expected a number above 0 .* got -1.5"),
        ({"weights": {"model": nan}}, "weight: expected a number above 0"),
        ({"latencies": {"model": inf}}, "latency: expected a number above 0"),
        ({"latencies": {"model": True}}, "latency: expected a number above 0"),
        ({"latencies": {"model": "5"}}, "latency: expected a number above 0"),
        (
            {"mean_speed": True, "weights": {"model": 2.0}},
            "expected one goal, got mean_speed and weight or latency",
        ),
        ({"mean_speed": True, "gradient": False}, "got mean_speed and equal trials"),
        ({"strategy": "annealing"}, "strategy: expected one of random, .*, got 'annealing'"),
        ({"patience": 0}, "patience: expected a whole number of trials from 1, got 0"),
        ({"patience": 2.5}, "patience: expected a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused_on_one_line(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        check_request(TuneRequest(8, **asked), QUESTIONS)
    assert "\n" not in str(refused.value)

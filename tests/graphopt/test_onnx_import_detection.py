"""NonMaxSuppression on constants against ONNX Runtime; operators that draw random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt.graph import Graph
from graphopt.onnx_import import ModelError, NeedsConstant, UnsupportedOperator


def constants(seed: int, most: int = 4) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    corners = generator.uniform(0, 10, (2, 20, 4)).astype(np.float32)
    return {
        "boxes": corners,
        "scores": generator.uniform(0, 1, (2, 3, 20)).astype(np.float32),
        "most": np.array([most], np.int64),
        "overlap": np.array([0.2], np.float32),
        "least": np.array([0.3], np.float32),
    }


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("centred", [0, 1])
def test_agrees(agree: Callable[..., Graph], seed: int, centred: int) -> None:
    given = constants(seed)
    unused = {"unused": np.zeros(1, np.int64)}
    graph = agree("NonMaxSuppression", unused, list(given), given, center_point_box=centred)
    assert graph.nodes == ()


def test_without_a_limit_nothing_is_kept(agree: Callable[..., Graph]) -> None:
    given = constants(1)
    graph = agree("NonMaxSuppression", {"u": np.zeros(1, np.int64)}, ["boxes", "scores"], given)
    assert graph.outputs[0].type.shape == (0, 3)


def test_scores_that_are_an_input_must_be_fixed(one_node: Callable[..., Any]) -> None:
    given = constants(1)
    scores = {"scores": given.pop("scores")}
    case = one_node("NonMaxSuppression", scores, ["boxes", "scores"], given)
    with pytest.raises(NeedsConstant, match="on which the number of results depends") as caught:
        case.imported()
    assert caught.value.inputs == ("scores",)


def test_refused_shapes(one_node: Callable[..., Any]) -> None:
    given = {**constants(1), "boxes": np.zeros((2, 19, 4), np.float32)}
    case = one_node("NonMaxSuppression", {"u": np.zeros(1, np.int64)}, list(given), given)
    with pytest.raises(ModelError, match=r"boxes \(n, count, 4\) and scores"):
        case.imported()


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Bernoulli", {}),
        ("RandomNormalLike", {}),
        ("RandomUniformLike", {"dtype": 1}),
        ("Multinomial", {"sample_size": 3}),
    ],
)
def test_random_numbers_are_refused(
    one_node: Callable[..., Any], operator: str, attributes: dict[str, Any]
) -> None:
    case = one_node(operator, {"x": np.zeros((2, 3), np.float32)}, **attributes)
    with pytest.raises(UnsupportedOperator, match="give the random numbers to the model"):
        case.imported()

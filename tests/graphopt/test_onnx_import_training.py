"""Optimizer steps against numpy, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt.onnx_import import ModelError

DOMAIN = {"domain": "ai.onnx.preview.training", "domain_opset": 1}


def operands(count: int, updates: int, *, positive: tuple[int, ...] = ()) -> dict[str, Any]:
    """Rate, number of updates, and tensors, of which some are squares."""
    generator = np.random.default_rng(count)
    arrays: dict[str, Any] = {"rate": np.float64(0.1), "updates": np.int64(updates)}
    for number in range(count):
        tensor = generator.standard_normal(3)
        arrays[f"t{number}"] = np.abs(tensor) if number in positive else tensor
    return arrays


@pytest.mark.parametrize("updates", [0, 1, 5])
def test_momentum_takes_the_whole_gradient_first(
    one_node: Callable[..., Any], updates: int
) -> None:
    arrays = operands(3, updates)
    x, g, v = (arrays[f"t{n}"] for n in range(3))
    for mode in ("standard", "nesterov"):
        case = one_node(
            "Momentum", arrays, outputs=("x", "v"), alpha=0.9, beta=0.2, mode=mode,
            norm_coefficient=0.01, **DOMAIN,
        )  # fmt: skip
        regular = 0.01 * x + g
        velocity = 0.9 * v + (0.2 if updates else 1.0) * regular
        move = velocity if mode == "standard" else regular + 0.9 * velocity
        got = case.evaluated()
        np.testing.assert_allclose(got, (x - 0.1 * move, velocity), rtol=1e-6)


@pytest.mark.parametrize("updates", [0, 1, 5])
def test_adam_corrects_its_bias_after_the_first_update(
    one_node: Callable[..., Any], updates: int
) -> None:
    arrays = operands(4, updates, positive=(3,))
    x, g, v, h = (arrays[f"t{n}"] for n in range(4))
    case = one_node(
        "Adam", arrays, outputs=("x", "v", "h"), alpha=0.9, beta=0.99, epsilon=1e-3,
        norm_coefficient_post=0.1, **DOMAIN,
    )  # fmt: skip
    mean, square = 0.9 * v + 0.1 * g, 0.99 * h + 0.01 * g * g
    rate = 0.1 * np.sqrt(1 - 0.99**updates) / (1 - 0.9**updates) if updates else 0.1
    new = 0.9 * (x - rate * mean / (np.sqrt(square) + 1e-3))
    np.testing.assert_allclose(case.evaluated(), (new, mean, square), rtol=1e-5)


def test_adagrad_updates_several_tensors(one_node: Callable[..., Any]) -> None:
    arrays = operands(6, 3, positive=(4, 5))
    case = one_node(
        "Adagrad", arrays, outputs=("x1", "x2", "h1", "h2"), decay_factor=0.1, epsilon=1e-3,
        **DOMAIN,
    )  # fmt: skip
    got = case.evaluated()
    for number in range(2):
        x, g, h = (arrays[f"t{2 * group + number}"] for group in range(3))
        squares = h + g * g
        new = x - 0.1 / 1.3 * g / (np.sqrt(squares) + 1e-3)
        np.testing.assert_allclose(got[number], new, rtol=1e-6)
        np.testing.assert_allclose(got[2 + number], squares, rtol=1e-6)


def test_refused(one_node: Callable[..., Any]) -> None:
    attributes = {"alpha": 0.9, "beta": 0.1, "norm_coefficient": 0.0, **DOMAIN}
    case = one_node("Momentum", operands(4, 1), outputs=("x",), mode="standard", **attributes)
    with pytest.raises(ModelError, match="2 operands and then groups of 3, got 6"):
        case.imported()
    case = one_node("Momentum", operands(3, 1), outputs=("x",), mode="heavy", **attributes)
    with pytest.raises(ModelError, match="mode standard or nesterov"):
        case.imported()

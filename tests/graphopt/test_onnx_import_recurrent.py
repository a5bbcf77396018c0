"""RNN, GRU and LSTM against ONNX Runtime, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt.graph import Graph
from graphopt.onnx_import import ModelError, UnsupportedOperator

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STATES = {"RNN": ("y", "h"), "GRU": ("y", "h"), "LSTM": ("y", "h", "c")}
STEPS, BATCH, FEATURES, HIDDEN = 4, 3, 2, 5


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def operands(operator: str, directions: int) -> dict[str, Any]:
    width = GATES[operator] * HIDDEN
    return {
        "w": random(directions, width, FEATURES),
        "r": random(directions, width, HIDDEN),
        "b": random(directions, 2 * width),
    }


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_directions_lengths_and_states(
    agree: Callable[..., Graph], operator: str, direction: str
) -> None:
    directions = 2 if direction == "bidirectional" else 1
    x = {"x": random(STEPS, BATCH, FEATURES)}
    state = random(directions, BATCH, HIDDEN)
    constants = {
        **operands(operator, directions),
        "n": np.array([4, 1, 3], np.int32),
        "h0": state,
        **({"c0": state * 2} if operator == "LSTM" else {}),
    }
    agree(
        operator,
        x,
        constants=constants,
        outputs=STATES[operator],
        hidden_size=HIDDEN,
        direction=direction,
    )


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_gru_reset_before_or_after_the_product(
    agree: Callable[..., Graph], late: int, bias: bool
) -> None:
    constants = operands("GRU", 1)
    names = ["x", "w", "r", *(["b"] if bias else [])]
    if not bias:
        del constants["b"]
    agree(
        "GRU",
        {"x": random(STEPS, BATCH, FEATURES)},
        names,
        constants,
        outputs=("y", "h"),
        hidden_size=HIDDEN,
        linear_before_reset=late,
        clip=0.7,
    )


def test_lstm_with_peepholes_and_coupled_gates(agree: Callable[..., Graph]) -> None:
    for coupled in (0, 1):
        agree(
            "LSTM",
            {"x": random(STEPS, BATCH, FEATURES)},
            ["x", "w", "r", "b", "", "", "", "p"],
            {**operands("LSTM", 1), "p": random(1, 3 * HIDDEN)},
            outputs=("y", "h", "c"),
            hidden_size=HIDDEN,
            input_forget=coupled,
        )


@pytest.mark.parametrize(
    ("name", "alpha", "beta"),
    [
        ("Affine", [0.5], [0.1]),
        ("Elu", [0.7], []),
        ("HardSigmoid", [0.3], [0.4]),
        ("LeakyRelu", [0.2], []),
        ("Relu", [], []),
        ("ScaledTanh", [0.5], [0.8]),
        ("Sigmoid", [], []),
        ("Softplus", [], []),
        ("Softsign", [], []),
        ("ThresholdedRelu", [0.2], []),
    ],
)
def test_activations(
    agree: Callable[..., Graph], name: str, alpha: list[float], beta: list[float]
) -> None:
    scales = {**({"activation_alpha": alpha} if alpha else {}),
              **({"activation_beta": beta} if beta else {})}  # fmt: skip
    agree(
        "RNN",
        {"x": random(STEPS, BATCH, FEATURES)},
        constants=operands("RNN", 1),
        hidden_size=HIDDEN,
        activations=[name],
        **scales,
    )


def test_the_input_projection_is_one_product(one_node: Callable[..., Any]) -> None:
    case = one_node(
        "RNN", {"x": random(STEPS, BATCH, FEATURES)}, constants=operands("RNN", 1),
        hidden_size=HIDDEN,
    )  # fmt: skip
    products = [node for node in case.imported().nodes if node.op.name == "matmul"]
    rows = sorted(node.inputs[0].type.shape[0] for node in products)
    # The first product with the state is on constants, so it is folded.
    assert rows == [BATCH] * (STEPS - 1) + [STEPS * BATCH]


def test_lengths_that_are_an_input_mask_the_steps(one_node: Callable[..., Any]) -> None:
    x = random(STEPS, BATCH, FEATURES)
    lengths = np.array([2, 4, 0], np.int32)
    case = one_node(
        "GRU", {"x": x, "n": lengths}, ["x", "w", "r", "b", "n"], operands("GRU", 1),
        hidden_size=HIDDEN,
    )  # fmt: skip
    (y,) = case.evaluated()
    np.testing.assert_allclose(y, case.runtime()[0], rtol=1e-4, atol=1e-5)
    assert not np.any(y[2:, :, 0])
    assert not np.any(y[:, :, 2])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"activations": ["Sine"]}, "activations among affine"),
        ({"direction": "sideways"}, "direction forward, reverse or bidirectional"),
        ({"direction": "bidirectional"}, "weights of 2 directions, got 1"),
        ({"hidden_size": 7}, "hidden_size 5, got 7"),
    ],
)
def test_refused_attributes(
    one_node: Callable[..., Any], attributes: dict[str, Any], message: str
) -> None:
    case = one_node(
        "RNN", {"x": random(STEPS, BATCH, FEATURES)}, constants=operands("RNN", 1), **attributes
    )
    with pytest.raises(ModelError, match=message):
        case.imported()


def test_refused_operands(one_node: Callable[..., Any]) -> None:
    wrong = {**operands("LSTM", 1), "b": random(1, 3)}
    case = one_node("LSTM", {"x": random(STEPS, BATCH, FEATURES)}, constants=wrong)
    with pytest.raises(ModelError, match="biases of 40 numbers per direction"):
        case.imported()
    long = one_node("RNN", {"x": random(5000, 1, FEATURES)}, constants=operands("RNN", 1))
    with pytest.raises(UnsupportedOperator, match="at most 4096 steps, got 5000"):
        long.imported()

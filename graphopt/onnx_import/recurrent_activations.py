"""Activations of recurrent operators: named by attributes, scaled by lists of alpha and beta."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from graphopt.graph import Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import OnnxNode
from graphopt.ops import OP
from graphopt.terms import apply, scalar, with_scalar

Activation = Callable[[Value], Value]


@dataclass(frozen=True, slots=True)
class _ActivationKind:
    """An activation by its alpha and beta, and their defaults; None if it has no such number."""

    build: Callable[[Value, float, float], Value]
    alpha: float | None = None
    beta: float | None = None


def _leaky_relu(x: Value, alpha: float, beta: float) -> Value:
    return OP["where"](with_scalar("lt", x, 0), with_scalar("mul", x, alpha), x)


def _hard_sigmoid(x: Value, alpha: float, beta: float) -> Value:
    line = with_scalar("add", with_scalar("mul", x, alpha), beta)
    return with_scalar("min", with_scalar("max", line, 0), 1)


def _elu(x: Value, alpha: float, beta: float) -> Value:
    negative = with_scalar("mul", with_scalar("sub", apply("exp", x), 1), alpha)
    return OP["where"](with_scalar("lt", x, 0), negative, x)


def _soft_sign(x: Value, alpha: float, beta: float) -> Value:
    return apply("div", x, with_scalar("add", apply("abs", x), 1))


def _soft_plus(x: Value, alpha: float, beta: float) -> Value:
    """max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    tail = apply("exp", apply("neg", apply("abs", x)))
    return apply("add", with_scalar("max", x, 0), apply("log", with_scalar("add", tail, 1)))


_ACTIVATIONS: Mapping[str, _ActivationKind] = {
    "affine": _ActivationKind(
        lambda x, a, b: with_scalar("add", with_scalar("mul", x, a), b), 1.0, 0.0
    ),
    "elu": _ActivationKind(_elu, 1.0),
    "hardsigmoid": _ActivationKind(_hard_sigmoid, 0.2, 0.5),
    "leakyrelu": _ActivationKind(_leaky_relu, 0.01),
    "relu": _ActivationKind(lambda x, a, b: with_scalar("max", x, 0)),
    "scaledtanh": _ActivationKind(
        lambda x, a, b: with_scalar("mul", apply("tanh", with_scalar("mul", x, b)), a), 1.0, 1.0
    ),
    "sigmoid": _ActivationKind(lambda x, a, b: apply("sigmoid", x)),
    "softplus": _ActivationKind(_soft_plus),
    "softsign": _ActivationKind(_soft_sign),
    "tanh": _ActivationKind(lambda x, a, b: apply("tanh", x)),
    "thresholdedrelu": _ActivationKind(
        lambda x, a, b: OP["where"](with_scalar("le", x, a), scalar(0, x.type.dtype), x), 1.0
    ),
}


def activations(node: OnnxNode, default: tuple[str, ...], directions: int) -> list[Activation]:
    """The activations of all directions, each taking its alpha and beta from the lists in turn."""
    names = node.texts("activations", default * directions)
    if len(names) < len(default) * directions:
        raise node.error(f"{len(default) * directions} activations", list(names))
    alphas = iter(node.numbers("activation_alpha", ()))
    betas = iter(node.numbers("activation_beta", ()))
    result = []
    for name in names[: len(default) * directions]:
        kind = _ACTIVATIONS.get(name.lower())
        if kind is None:
            raise node.error(f"activations among {', '.join(sorted(_ACTIVATIONS))}", quoted(name))
        alpha, beta = _next_number(alphas, kind.alpha), _next_number(betas, kind.beta)
        result.append(_bound(node, kind, alpha, beta))
    return result


def _next_number(given: Iterator[float], default: float | None) -> float:
    return 0.0 if default is None else next(given, default)


def _bound(node: OnnxNode, kind: _ActivationKind, alpha: float, beta: float) -> Activation:
    """The activation, its operand clipped first if the node says so."""
    limit = node.number("clip") if node.has("clip") else None

    def activation(x: Value) -> Value:
        if limit is not None:
            x = with_scalar("min", with_scalar("max", x, -limit), limit)
        return kind.build(x, alpha, beta)

    return activation

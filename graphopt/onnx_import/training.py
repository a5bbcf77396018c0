"""Importers of the optimizer steps of ai.onnx.preview.training: Adagrad, Adam, Momentum.

Operands are the rate, the number of updates so far, then the tensors to update, their gradients
and their states, in groups of equal length. Results are the new tensors and states, likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphopt.graph import Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import Importer, OnnxNode, same_type
from graphopt.ops import OP
from graphopt.terms import apply, cast, reshape, scalar, with_scalar

DOMAIN = "ai.onnx.preview.training"

Update = Callable[[OnnxNode, Value, Value, tuple[Value, ...]], tuple[Value, ...]]
"""(node, rate, count, (tensor, gradient, states…)) -> (new tensor, new states…)."""


def _optimizer(update: Update, groups: int) -> Importer:
    """`groups` is the number of tensors that belong together: the tensor, its gradient, states."""

    def importer(node: OnnxNode) -> tuple[Value, ...]:
        operands = node.operands
        count, rest = divmod(len(operands) - 2, groups)
        if count < 1 or rest:
            raise node.error(f"2 operands and then groups of {groups}", len(operands))
        rate, updates = (_number(node, value) for value in operands[:2])
        results = []
        for number in range(count):
            own = tuple(operands[2 + group * count + number] for group in range(groups))
            dtype = same_type(node, *own)
            results.append(update(node, cast(rate, dtype), updates, own))
        return tuple(result[position] for position in range(groups - 1) for result in results)

    return importer


def _number(node: OnnxNode, value: Value) -> Value:
    if value.type.size != 1:
        raise node.error("the rate and the number of updates as one number each", value.type)
    return reshape(value, ())


def _scaled(x: Value, factor: float) -> Value:
    return with_scalar("mul", x, factor)


def _regularized(node: OnnxNode, x: Value, gradient: Value) -> Value:
    """The gradient with that of the penalty on the tensor's own size."""
    factor = node.number("norm_coefficient", 0.0)
    return gradient if factor == 0 else apply("add", _scaled(x, factor), gradient)


def _adagrad(
    node: OnnxNode, rate: Value, count: Value, own: tuple[Value, ...]
) -> tuple[Value, ...]:
    x, gradient, squares = own
    dtype = x.type.dtype
    decay = with_scalar("add", _scaled(cast(count, dtype), node.number("decay_factor", 0.0)), 1)
    step = apply("div", rate, decay)
    gradient = _regularized(node, x, gradient)
    new_squares = apply("add", squares, apply("mul", gradient, gradient))
    root = with_scalar("add", apply("sqrt", new_squares), node.number("epsilon", 1e-6))
    move = apply("div", apply("mul", step, gradient), root)
    return apply("sub", x, move), new_squares


def _adam(node: OnnxNode, rate: Value, count: Value, own: tuple[Value, ...]) -> tuple[Value, ...]:
    x, gradient, mean, squares = own
    dtype = x.type.dtype
    alpha, beta = node.number("alpha", 0.9), node.number("beta", 0.999)
    gradient = _regularized(node, x, gradient)
    square = apply("mul", gradient, gradient)
    new_mean = apply("add", _scaled(mean, alpha), _scaled(gradient, 1 - alpha))
    new_squares = apply("add", _scaled(squares, beta), _scaled(square, 1 - beta))
    root = with_scalar("add", apply("sqrt", new_squares), node.number("epsilon", 1e-6))
    times = cast(count, dtype)
    one = scalar(1, dtype)
    remaining = apply("sub", one, apply("pow", scalar(beta, dtype), times))
    unbiased = apply("sub", one, apply("pow", scalar(alpha, dtype), times))
    first = apply("le", count, scalar(0, count.type.dtype))
    corrected = apply(
        "div",
        apply("mul", rate, apply("sqrt", remaining)),
        OP["where"](first, one, unbiased),
    )
    step = OP["where"](first, rate, corrected)
    new = apply("sub", x, apply("mul", step, apply("div", new_mean, root)))
    shrink = node.number("norm_coefficient_post", 0.0)
    return (new if shrink == 0 else _scaled(new, 1 - shrink)), new_mean, new_squares


def _momentum(
    node: OnnxNode, rate: Value, count: Value, own: tuple[Value, ...]
) -> tuple[Value, ...]:
    x, gradient, velocity = own
    dtype = x.type.dtype
    mode = node.text("mode")
    if mode not in ("standard", "nesterov"):
        raise node.error("mode standard or nesterov", quoted(mode))
    alpha = node.number("alpha")
    gradient = _regularized(node, x, gradient)
    # The first update takes the whole gradient.
    first = apply("le", count, scalar(0, count.type.dtype))
    share = OP["where"](first, scalar(1, dtype), scalar(node.number("beta"), dtype))
    new_velocity = apply("add", _scaled(velocity, alpha), apply("mul", share, gradient))
    move = new_velocity
    if mode == "nesterov":
        move = apply("add", gradient, _scaled(new_velocity, alpha))
    return apply("sub", x, apply("mul", rate, move)), new_velocity


TABLE: Mapping[tuple[str, str], Importer] = {
    (DOMAIN, "Adagrad"): _optimizer(_adagrad, 3),
    (DOMAIN, "Adam"): _optimizer(_adam, 4),
    (DOMAIN, "Momentum"): _optimizer(_momentum, 3),
}

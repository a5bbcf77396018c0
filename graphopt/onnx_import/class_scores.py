"""What the classifiers and regressors of ai.onnx.ml make of their scores: transforms and labels."""

from __future__ import annotations

from math import pi

import numpy as np

from graphopt.graph import Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import OnnxNode
from graphopt.ops import OP
from graphopt.terms import apply, concat, reduced, scalar, tensor, with_scalar
from tensorgen.types import int64

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

NEARLY_ZERO = 1e-7
"""SOFTMAX_ZERO leaves scores up to this size out of its sum."""


def transformed(node: OnnxNode, scores: Value, transform: str) -> Value:
    """Scores (samples, targets) after the transform of that name."""
    match transform:
        case "NONE":
            return scores
        case "LOGISTIC":
            return apply("sigmoid", scores)
        case "SOFTMAX":
            return _softmax(scores)
        case "SOFTMAX_ZERO":
            return _softmax_zero(scores)
        case "PROBIT":
            return _probit(scores)
        case _:
            raise node.error(f"post_transform {', '.join(TRANSFORMS)}", quoted(transform))


def _softmax(x: Value) -> Value:
    largest = reduced("reduce_max", x, (x.type.rank - 1,), True)
    exponentials = apply("exp", apply("sub", x, largest))
    return apply("div", exponentials, reduced("reduce_sum", exponentials, (x.type.rank - 1,), True))


def _softmax_zero(x: Value) -> Value:
    """A softmax over the scores that are not zero; the others stay as good as zero."""
    last = (x.type.rank - 1,)
    largest = reduced("reduce_max", x, last, True)
    counts = apply("lt", scalar(NEARLY_ZERO, x.type.dtype), apply("abs", x))
    exponentials = apply("exp", apply("sub", x, largest))
    shrunk = apply("mul", x, apply("exp", apply("neg", largest)))
    parts = OP["where"](counts, exponentials, shrunk)
    total = reduced("reduce_sum", parts, last, True)
    empty = with_scalar("eq", total, 0)
    safe = OP["where"](empty, scalar(1, x.type.dtype), total)
    return OP["where"](empty, scalar(0.5, x.type.dtype), apply("div", parts, safe))


def _probit(x: Value) -> Value:
    """The normal quantile, by Winitzki's approximation of the inverse error function (2008)."""
    a = 0.147
    centred = with_scalar("sub", with_scalar("mul", x, 2), 1)
    one = scalar(1, x.type.dtype)
    product = apply("mul", apply("sub", one, centred), apply("add", one, centred))
    logarithm = apply("log", product)
    v = with_scalar("add", with_scalar("mul", logarithm, 0.5), 2 / (pi * a))
    inner = apply("sub", apply("mul", v, v), with_scalar("div", logarithm, a))
    root = apply("sqrt", apply("sub", apply("sqrt", inner), v))
    return with_scalar("mul", apply("mul", apply("sign", centred), root), float(np.sqrt(2)))


def both_classes(node: OnnxNode, score: Value, transform: str, *, probability: bool) -> Value:
    """The scores (samples, 2) of two classes from that of the second, (samples, 1)."""
    if transform not in TRANSFORMS:
        raise node.error(f"post_transform {', '.join(TRANSFORMS)}", quoted(transform))
    if transform == "PROBIT":
        raise node.unsupported("two scores for two classes with PROBIT", "one score")
    if transform == "LOGISTIC":
        return apply("sigmoid", concat([apply("neg", score), score], 1))
    whole = scalar(1 if probability else 0, score.type.dtype)
    return concat([apply("sub", whole, score), score], 1)


def labelled(scores: Value, labels: tuple[int, ...]) -> Value:
    """The label of the class with the highest score, the first of equals, for each sample."""
    best = OP["argmax"](scores, axis=1, last=False)
    return OP["gather"](tensor(np.array(labels, dtype=np.int64), int64), best, axis=0)

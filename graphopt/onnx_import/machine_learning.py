"""Importers of the simpler operators of ai.onnx.ml, on numbers; text is refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphopt.graph import Constant, Value
from graphopt.onnx_import.class_scores import both_classes, labelled, transformed
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import Importer, OnnxNode
from graphopt.ops import OP
from graphopt.terms import (
    apply,
    cast,
    concat,
    reduced,
    reshape,
    scalar,
    slice_axis,
    tensor,
    with_scalar,
)
from tensorgen.types import Array, float32, int64

DOMAIN = "ai.onnx.ml"


def _as_float(x: Value) -> Value:
    return cast(x, float32)


def _array_feature_extractor(node: OnnxNode) -> tuple[Value, ...]:
    """Elements of the last axis at given indices; one axis becomes a row of two."""
    x, indices = node.input(0), node.input(1)
    if x.type.rank == 0 or not indices.type.dtype.is_integer:
        raise node.error("a tensor with axes and integer indices", f"{x.type} and {indices.type}")
    flat = reshape(cast(indices, int64), (indices.type.size,))
    result = OP["gather"](x, flat, axis=x.type.rank - 1)
    return (reshape(result, (1, *result.type.shape)) if x.type.rank == 1 else result,)


def _binarizer(node: OnnxNode) -> tuple[Value, ...]:
    x = node.input(0)
    above = apply("lt", scalar(node.number("threshold", 0.0), x.type.dtype), x)
    return (cast(above, x.type.dtype),)


# Labels and categories


def _label_encoder(node: OnnxNode) -> tuple[Value, ...]:
    """Keys replaced by values; the last of equal keys counts, and NaN is a key like others."""
    x = node.input(0)
    keys, values = _listed(node, "keys"), _listed(node, "values")
    if len(keys) != len(values) or len(keys) == 0:
        raise node.error("as many keys as values, and at least one", f"{len(keys)}, {len(values)}")
    expanded = reshape(x, (*x.type.shape, 1))
    own = tensor(keys, x.type.dtype)
    equal = apply("eq", expanded, own)
    if x.type.dtype.is_float and np.any(np.isnan(keys.astype(np.float64))):
        equal = apply("or", equal, apply("and", apply("isnan", expanded), apply("isnan", own)))
    # Position 0 stands for the default.
    numbers = tensor(np.arange(1, len(keys) + 1), int64)
    found = OP["where"](equal, numbers, scalar(0, int64))
    position = OP["reduce_max"](found, axes=(x.type.rank,), keepdims=False)
    table = np.concatenate([_default(node, values), values])
    return (OP["gather"](Constant(table), position, axis=0),)


def _listed(node: OnnxNode, name: str) -> Array:
    """The keys or values, from whichever attribute holds them."""
    if node.has(f"{name}_tensor"):
        return node.tensor(f"{name}_tensor").reshape(-1)
    if node.has(f"{name}_floats"):
        return np.array(node.numbers(f"{name}_floats"), dtype=np.float32)
    if node.has(f"{name}_int64s"):
        return np.array(node.integers(f"{name}_int64s"), dtype=np.int64)
    raise node.unsupported(f"{name} that are numbers", "text or none")


def _default(node: OnnxNode, values: Array) -> Array:
    if node.has("default_tensor"):
        default = node.tensor("default_tensor").reshape(-1)
        if default.size != 1 or default.dtype != values.dtype:
            raise node.error(f"one default of type {values.dtype}", default.dtype)
        return default
    if np.issubdtype(values.dtype, np.floating):
        return np.array([node.number("default_float", 0.0)], dtype=values.dtype)
    return np.array([node.integer("default_int64", -1)], dtype=values.dtype)


def _one_hot_encoder(node: OnnxNode) -> tuple[Value, ...]:
    """A new last axis with a one at the position of the category, or zeros for unknown ones."""
    x = node.input(0)
    if not node.has("cats_int64s"):
        raise node.unsupported("categories that are integers", "text or none")
    if node.integer("zeros", 1) == 0:
        raise node.unsupported("zeros for unknown categories", "an error when the model runs")
    categories = np.array(node.integers("cats_int64s"), dtype=np.int64)
    whole = reshape(cast(x, int64), (*x.type.shape, 1))
    return (cast(apply("eq", whole, tensor(categories, int64)), float32),)


def _imputer(node: OnnxNode) -> tuple[Value, ...]:
    """Elements equal to a given value, or NaN, replaced by one value or one per feature."""
    x = node.input(0)
    dtype = x.type.dtype
    if dtype.is_float:
        missing = node.number("replaced_value_float", 0.0)
        values = np.array(node.numbers("imputed_value_floats", ()))
        absent = apply("isnan", x) if np.isnan(missing) else apply("eq", x, scalar(missing, dtype))
    else:
        values = np.array(node.integers("imputed_value_int64s", ()))
        absent = apply("eq", x, scalar(node.integer("replaced_value_int64", 0), dtype))
    features = x.type.shape[-1] if x.type.rank else 1
    if len(values) not in (1, features):
        raise node.error(f"1 or {features} imputed values", len(values))
    return (OP["where"](absent, tensor(values, dtype), x),)


# Features


def _scaler(node: OnnxNode) -> tuple[Value, ...]:
    x = _as_float(node.input(0))
    features = x.type.shape[-1] if x.type.rank else 1
    for name, operator, default in (("offset", "sub", 0.0), ("scale", "mul", 1.0)):
        values = np.array(node.numbers(name, (default,)))
        if len(values) not in (1, features):
            raise node.error(f"1 or {features} numbers as {name}", len(values))
        x = apply(operator, x, tensor(values, float32))
    return (x,)


def _normalizer(node: OnnxNode) -> tuple[Value, ...]:
    """Rows divided by their largest element, sum of sizes, or length; rows of zeros stay."""
    x = _as_float(node.input(0))
    if x.type.rank not in (1, 2):
        raise node.error("an operand of one or two axes", x.type)
    last = (x.type.rank - 1,)
    match node.text("norm", "MAX"):
        case "MAX":
            norm = reduced("reduce_max", x, last, True)
        case "L1":
            norm = reduced("reduce_sum", apply("abs", x), last, True)
        case "L2":
            norm = apply("sqrt", reduced("reduce_sum", apply("mul", x, x), last, True))
        case other:
            raise node.error("norm MAX, L1 or L2", quoted(other))
    one = scalar(1, float32)
    return (apply("div", x, OP["where"](with_scalar("eq", norm, 0), one, norm)),)


def _feature_vectorizer(node: OnnxNode) -> tuple[Value, ...]:
    """Operands side by side, each cut or filled with zeros to its number of features."""
    operands = node.operands
    sizes = node.integers("inputdimensions", ())
    if len(sizes) != len(operands):
        raise node.error(f"{len(operands)} inputdimensions", len(sizes))
    parts = []
    for value, size in zip(operands, sizes, strict=True):
        rows = value if value.type.rank == 2 else reshape(value, (1, value.type.size))
        have = rows.type.shape[1]
        if size < 0 or value.type.rank not in (1, 2):
            raise node.error("operands of one or two axes and sizes of at least 0", value.type)
        part = slice_axis(_as_float(rows), 1, 0, min(size, have))
        if size > have:
            zeros = np.zeros((rows.type.shape[0], size - have))
            part = concat([part, tensor(zeros, float32)], 1)
        parts.append(part)
    return (concat(parts, 1),)


# Linear models


def _linear_scores(node: OnnxNode, targets: int | None) -> Value:
    x = _as_float(node.input(0))
    x = reshape(x, (1, x.type.size)) if x.type.rank == 1 else x
    coefficients = np.array(node.numbers("coefficients"))
    features = x.type.shape[-1]
    if x.type.rank != 2 or features == 0 or len(coefficients) % features:
        raise node.error(f"coefficients for each of {features} features", len(coefficients))
    rows = len(coefficients) // features
    intercepts = np.array(node.numbers("intercepts", ()))
    if rows < 1 or targets not in (None, rows) or len(intercepts) not in (0, rows):
        raise node.error(f"coefficients and intercepts of {targets or rows} targets", rows)
    weights = tensor(coefficients.reshape(rows, features).T, float32)
    result: Value = OP["matmul"](x, weights)
    return apply("add", result, tensor(intercepts, float32)) if len(intercepts) else result


def _linear_regressor(node: OnnxNode) -> tuple[Value, ...]:
    scores = _linear_scores(node, node.integer("targets", 1))
    return (transformed(node, scores, node.text("post_transform", "NONE")),)


def _linear_classifier(node: OnnxNode) -> tuple[Value, ...]:
    """Labels and scores. One score for two classes speaks for the second."""
    labels = node.integers("classlabels_ints", ())
    if not labels:
        raise node.unsupported("integer class labels", "text or no labels")
    scores = _linear_scores(node, None)
    transform = node.text("post_transform", "NONE")
    count = scores.type.shape[1]
    if count == 1 and len(labels) == 2:
        second = apply("lt", scalar(0, float32), reshape(scores, (scores.type.size,)))
        label = OP["where"](second, scalar(labels[1], int64), scalar(labels[0], int64))
        return label, both_classes(node, scores, transform, probability=True)
    if count != len(labels):
        raise node.error(f"{count} class labels", len(labels))
    return labelled(scores, labels), transformed(node, scores, transform)


TABLE: Mapping[tuple[str, str], Importer] = {
    (DOMAIN, "ArrayFeatureExtractor"): _array_feature_extractor,
    (DOMAIN, "Binarizer"): _binarizer,
    (DOMAIN, "FeatureVectorizer"): _feature_vectorizer,
    (DOMAIN, "Imputer"): _imputer,
    (DOMAIN, "LabelEncoder"): _label_encoder,
    (DOMAIN, "LinearClassifier"): _linear_classifier,
    (DOMAIN, "LinearRegressor"): _linear_regressor,
    (DOMAIN, "Normalizer"): _normalizer,
    (DOMAIN, "OneHotEncoder"): _one_hot_encoder,
    (DOMAIN, "Scaler"): _scaler,
}

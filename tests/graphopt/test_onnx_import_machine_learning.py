"""The operators of ai.onnx.ml against ONNX Runtime, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt.graph import Graph
from graphopt.onnx_import import ModelError, UnsupportedOperator

ML = "ai.onnx.ml"


def samples(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(0, 2, shape).astype(np.float32)


# Encoders and features


def test_label_encoder(agree: Callable[..., Graph]) -> None:
    x = np.array([[1, 2, 5], [7, -3, 1]], np.int64)
    agree("LabelEncoder", {"x": x}, domain=ML, types={"y": np.float32}, keys_int64s=[1, 5, 7],
          values_floats=[0.5, 1.5, 2.5], default_float=-9.0)  # fmt: skip
    agree("LabelEncoder", {"x": x}, domain=ML, keys_int64s=[1, 2], values_int64s=[10, 20])
    real = np.array([1.0, np.nan, 2.5, np.inf], np.float32)
    agree("LabelEncoder", {"x": real}, domain=ML, domain_opset=4, types={"y": np.int64},
          keys_floats=[np.nan, 2.5], values_int64s=[3, 4], default_int64=8)  # fmt: skip


def test_label_encoder_refuses_text(one_node: Callable[..., Any]) -> None:
    x = {"x": np.zeros(2, np.int64)}
    text = one_node("LabelEncoder", x, domain=ML, keys_int64s=[1], values_strings=["a"])
    with pytest.raises(UnsupportedOperator, match="values that are numbers, got text or none"):
        text.imported()
    uneven = one_node("LabelEncoder", x, domain=ML, keys_int64s=[1, 2], values_int64s=[1])
    with pytest.raises(ModelError, match="as many keys as values"):
        uneven.imported()


def test_features(agree: Callable[..., Graph]) -> None:
    x = samples(4, 3)
    x[1, 2] = np.nan
    agree("Imputer", {"x": x}, domain=ML, imputed_value_floats=[1.0, 2, 3],
          replaced_value_float=float("nan"))  # fmt: skip
    whole = np.array([[1, 0], [0, 4]], np.int64)
    agree("Imputer", {"x": whole}, domain=ML, imputed_value_int64s=[7], replaced_value_int64=0)
    agree("Scaler", {"x": samples(4, 3)}, domain=ML, offset=[1.0, 2, 3], scale=[0.5, 1, 2])
    agree("Scaler", {"x": whole}, domain=ML, types={"y": np.float32}, offset=[1.0], scale=[2.0])
    agree("Binarizer", {"x": samples(4, 3)}, domain=ML, threshold=0.3)
    agree("OneHotEncoder", {"x": np.array([[1, 5], [2, 9]], np.int64)}, domain=ML,
          types={"y": np.float32}, cats_int64s=[5, 1, 2])  # fmt: skip
    agree("FeatureVectorizer", {"a": samples(3, 2), "b": samples(3, 4)}, domain=ML,
          inputdimensions=[2, 4])  # fmt: skip
    indices = {"i": np.array([2, 0, 2], np.int64)}
    agree("ArrayFeatureExtractor", {"x": samples(4, 3), **indices}, domain=ML)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(agree: Callable[..., Graph], norm: str) -> None:
    x = samples(4, 3)
    x[2] = 0
    agree("Normalizer", {"x": np.abs(x)}, domain=ML, norm=norm)


# Linear models

TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(("labels", "rows"), [([5, 7], 1), ([5, 7], 2), ([1, 2, 9], 3)])
def test_linear_classifier(
    agree: Callable[..., Graph], transform: str, labels: list[int], rows: int
) -> None:
    agree("LinearClassifier", {"x": samples(6, 4)}, domain=ML, outputs=("y", "z"),
          types={"y": np.int64}, classlabels_ints=labels, post_transform=transform,
          coefficients=samples(rows, 4).reshape(-1).tolist(),
          intercepts=samples(rows).tolist())  # fmt: skip


def test_linear_regressor(agree: Callable[..., Graph]) -> None:
    agree("LinearRegressor", {"x": samples(6, 4)}, domain=ML, targets=2,
          coefficients=samples(8).tolist(), intercepts=[0.5, -1])  # fmt: skip


def test_linear_models_refuse_what_does_not_fit(one_node: Callable[..., Any]) -> None:
    x = {"x": samples(6, 4)}
    case = one_node("LinearRegressor", x, domain=ML, targets=2, coefficients=[1.0] * 7)
    with pytest.raises(ModelError, match="coefficients for each of 4 features, got 7"):
        case.imported()
    case = one_node("LinearClassifier", x, domain=ML, outputs=("y", "z"),
                    classlabels_strings=["a", "b"], coefficients=[1.0] * 4)  # fmt: skip
    with pytest.raises(UnsupportedOperator, match="integer class labels"):
        case.imported()


# Trees


def listed_trees(trees: int, depth: int, features: int, seed: int, mode: str) -> dict[str, Any]:
    """Full trees as TreeEnsembleRegressor lists them, without votes."""
    generator = np.random.default_rng(seed)
    size, inner = 2 ** (depth + 1) - 1, 2**depth - 1
    nodes: dict[str, list[Any]] = {
        name: []
        for name in (
            "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
            "missing_value_tracks_true",
        )
    }  # fmt: skip
    for tree in range(trees):
        for node in range(size):
            leaf = node >= inner
            nodes["treeids"].append(tree)
            nodes["nodeids"].append(node)
            nodes["featureids"].append(0 if leaf else int(generator.integers(features)))
            nodes["values"].append(0.0 if leaf else float(np.round(generator.normal())))
            nodes["modes"].append("LEAF" if leaf else f"BRANCH_{mode}")
            nodes["truenodeids"].append(0 if leaf else 2 * node + 1)
            nodes["falsenodeids"].append(0 if leaf else 2 * node + 2)
            nodes["missing_value_tracks_true"].append(0 if leaf else int(generator.integers(2)))
    return {f"nodes_{name}": items for name, items in nodes.items()}


def votes(
    prefix: str, trees: int, depth: int, targets: int, seed: int, least: float = -1
) -> dict[str, Any]:
    """One vote of every leaf for every target."""
    generator = np.random.default_rng(seed)
    leaves = [(t, n) for t in range(trees) for n in range(2**depth - 1, 2 ** (depth + 1) - 1)]
    rows = [(tree, node, target) for tree, node in leaves for target in range(targets)]
    return {
        f"{prefix}_treeids": [row[0] for row in rows],
        f"{prefix}_nodeids": [row[1] for row in rows],
        f"{prefix}_ids": [row[2] for row in rows],
        f"{prefix}_weights": generator.uniform(least, 1, len(rows)).astype(np.float32).tolist(),
    }


def rounded(*shape: int) -> Any:
    """Samples that often equal a threshold, and some that are missing."""
    x = np.round(samples(*shape))
    x[0, 0] = np.nan
    return x


@pytest.mark.parametrize("mode", ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"])
def test_tree_modes(agree: Callable[..., Graph], mode: str) -> None:
    agree("TreeEnsembleRegressor", {"x": rounded(40, 3)}, domain=ML, n_targets=1,
          **listed_trees(3, 3, 3, 1, mode), **votes("target", 3, 3, 1, 2))  # fmt: skip


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_aggregates(agree: Callable[..., Graph], aggregate: str) -> None:
    agree("TreeEnsembleRegressor", {"x": samples(20, 4)}, domain=ML, n_targets=2,
          aggregate_function=aggregate, base_values=[0.5, -0.25],
          **listed_trees(4, 2, 4, 3, "LEQ"), **votes("target", 4, 2, 2, 4))  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_trees_that_classify(agree: Callable[..., Graph], transform: str) -> None:
    agree("TreeEnsembleClassifier", {"x": samples(20, 4)}, domain=ML, outputs=("y", "z"),
          types={"y": np.int64}, classlabels_int64s=[4, 8, 2], post_transform=transform,
          **listed_trees(4, 2, 4, 3, "LEQ"), **votes("class", 4, 2, 3, 4))  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("least", [0, -1])
@pytest.mark.parametrize("base", [{}, {"base_values": [0.125]}])
def test_trees_that_vote_for_one_of_two_classes(
    agree: Callable[..., Graph], transform: str, least: float, base: dict[str, Any]
) -> None:
    agree("TreeEnsembleClassifier", {"x": samples(20, 4)}, domain=ML, outputs=("y", "z"),
          types={"y": np.int64}, classlabels_int64s=[4, 8], post_transform=transform, **base,
          **listed_trees(2, 2, 4, 3, "LEQ"), **votes("class", 2, 2, 1, 4, least))  # fmt: skip


def test_refused_trees(one_node: Callable[..., Any]) -> None:
    trees = listed_trees(1, 2, 3, 1, "LEQ")
    scored = votes("target", 1, 2, 1, 2)
    for change, message in (
        ({"nodes_falsenodeids": [0] * 7}, "trees at most 1024 deep, got deeper ones or a cycle"),
        ({"nodes_truenodeids": [9] * 7}, "child and root nodes below 7"),
        ({"nodes_featureids": [3] * 7}, "features below 3"),
        ({"nodes_modes": ["BRANCH_NEAR"] * 7}, "distinct nodes with modes among"),
        ({"nodes_values": [1.0] * 6}, "7 nodes_values, got 6"),
        ({"target_ids": [1] * 4}, "votes of known nodes for targets below 1"),
        ({"aggregate_function": "MEDIAN"}, "aggregate_function AVERAGE"),
        ({"post_transform": "SQUARE"}, "post_transform NONE"),
    ):
        attributes = {**trees, **scored, **change}
        case = one_node("TreeEnsembleRegressor", {"x": samples(4, 3)}, domain=ML, n_targets=1,
                        **attributes)  # fmt: skip
        with pytest.raises(ModelError, match=message):
            case.imported()


def test_refused_votes_for_the_second_class_only(one_node: Callable[..., Any]) -> None:
    only_second = {**votes("class", 1, 2, 1, 2), "class_ids": [1] * 4}
    case = one_node("TreeEnsembleClassifier", {"x": samples(4, 3)}, domain=ML,
                    outputs=("y", "z"), types={"y": np.int64}, classlabels_int64s=[0, 1],
                    **listed_trees(1, 2, 3, 1, "LEQ"), **only_second)  # fmt: skip
    with pytest.raises(UnsupportedOperator, match="votes for both classes or the first"):
        case.imported()

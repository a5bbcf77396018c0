"""Importers of TreeEnsemble and the TreeEnsembleRegressor and -Classifier that it replaced.

They differ in how attributes describe the trees (`forest` evaluates them) and in what becomes of
the scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Value
from graphopt.onnx_import.class_scores import TRANSFORMS, both_classes, labelled, transformed
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.forest import (
    COMPARISONS,
    Floats,
    Forest,
    ForestError,
    Integers,
    scores,
)
from graphopt.onnx_import.node import Importer, OnnxNode
from graphopt.ops import OP
from graphopt.terms import apply, cast, reshape, slice_axis, tensor, with_scalar
from tensorgen.types import float32, int64

DOMAIN = "ai.onnx.ml"
MEMBER = 6
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
MAX_NODES = 2**24


def _samples(node: OnnxNode) -> Value:
    """The operand (samples, features) in a float type."""
    x = node.input(0)
    if x.type.rank != 2:
        raise node.error("samples of shape (count, features)", x.type)
    return x if x.type.dtype.is_float else cast(x, float32)


def _scored(node: OnnxNode, forest: Forest, x: Value, aggregate: str) -> Value:
    try:
        return scores(forest.checked(x.type.shape[1]), x, aggregate)
    except ForestError as error:
        raise node.error("trees that are well formed", error) from None


def _numbers(node: OnnxNode, name: str) -> Floats:
    """A list of numbers, given as floats or, with a longer name, as a tensor."""
    if node.has(f"{name}_as_tensor"):
        return node.tensor(f"{name}_as_tensor").astype(np.float64).reshape(-1)
    return np.array(node.numbers(name, ()), dtype=np.float64)


def _table(node: OnnxNode, name: str, count: int | None = None) -> Integers:
    values = np.array(node.integers(name, ()), dtype=np.int64)
    if count is not None and len(values) != count:
        raise node.error(f"{count} {name}", len(values))
    return values


# TreeEnsemble


def _tree_ensemble(node: OnnxNode) -> tuple[Value, ...]:
    x = _samples(node)
    aggregate = _choice(node, "aggregate_function", AGGREGATES, 1)
    transform = _choice(node, "post_transform", TRANSFORMS, 0)
    return (transformed(node, _scored(node, _ensemble(node), x, aggregate), transform),)


def _choice(node: OnnxNode, name: str, names: Sequence[str], default: int) -> str:
    number = node.integer(name, default)
    if not 0 <= number < len(names):
        raise node.error(f"{name} between 0 and {len(names) - 1}", number)
    return names[number]


def _ensemble(node: OnnxNode) -> Forest:
    """Inner nodes first, then leaves, then the further tests of nodes with several members."""
    splits = node.tensor("nodes_splits").astype(np.float64).reshape(-1)
    modes = node.tensor("nodes_modes").astype(np.int64).reshape(-1)
    inner = len(splits)
    weights = node.tensor("leaf_weights").astype(np.float64).reshape(-1)
    targets = _table(node, "leaf_targetids", len(weights))
    wanted = node.integer("n_targets")
    if wanted < 1 or np.any((targets < 0) | (targets >= wanted)):
        raise node.error("leaf targets below n_targets", wanted)
    if len(modes) != inner or np.any((modes < 0) | (modes > MEMBER)):
        raise node.error(f"{inner} nodes_modes between 0 and {MEMBER}", len(modes))
    if (inner + len(weights)) * wanted > MAX_NODES:
        raise node.unsupported(f"at most {MAX_NODES} votes", (inner + len(weights)) * wanted)
    yes = _children(node, "true", inner)
    no = _children(node, "false", inner)
    total = inner + len(weights)
    missing = np.zeros(total, dtype=np.bool_)
    if node.has("nodes_missing_value_tracks_true"):
        missing[:inner] = _table(node, "nodes_missing_value_tracks_true", inner) != 0
    votes = np.zeros((total, wanted))
    votes[np.arange(inner, total), targets] = weights
    voted = np.zeros((total, wanted), dtype=np.bool_)
    voted[np.arange(inner, total), targets] = True
    own = np.arange(inner, total)
    forest = Forest(
        features=np.concatenate([_table(node, "nodes_featureids", inner), np.zeros_like(own)]),
        thresholds=np.concatenate([splits, np.zeros(len(own))]),
        modes=np.concatenate([modes, np.zeros_like(own)]),
        yes=np.concatenate([yes, own]),
        no=np.concatenate([no, own]),
        missing=missing,
        votes=votes,
        voted=voted,
        roots=_table(node, "tree_roots"),
    )
    return _with_members(node, forest)


def _children(node: OnnxNode, branch: str, inner: int) -> Integers:
    """Child nodes in the common list, where leaves come after the inner nodes."""
    children = _table(node, f"nodes_{branch}nodeids", inner)
    at_leaf = _table(node, f"nodes_{branch}leafs", inner) != 0
    return np.where(at_leaf, children + inner, children)


def _with_members(node: OnnxNode, forest: Forest) -> Forest:
    """Each test for membership in a set as a chain of tests for equality with its members."""
    places = np.flatnonzero(forest.modes == MEMBER)
    if len(places) == 0:
        return forest
    members = node.tensor("membership_values").astype(np.float64).reshape(-1)
    ends = np.flatnonzero(np.isnan(members))
    starts = np.concatenate([[0], ends + 1])
    sets = [members[a:b] for a, b in zip(starts, [*ends, len(members)], strict=True)]
    if len(sets) < len(places) or any(len(values) == 0 for values in sets[: len(places)]):
        raise node.error(f"{len(places)} sets of members", len(sets))
    order, thresholds = np.arange(len(forest.modes)), forest.thresholds.copy()
    no = forest.no.copy()
    extra_no: list[int] = []
    extra_of: list[int] = []
    extra_thresholds: list[float] = []
    for place, values in zip(places, sets, strict=False):
        thresholds[place] = values[0]
        last, current = int(no[place]), int(place)
        for value in values[1:]:
            new = len(order) + len(extra_of)
            extra_of.append(int(place))
            extra_thresholds.append(float(value))
            extra_no.append(last)
            if current < len(order):
                no[current] = new
            else:
                extra_no[current - len(order)] = new
            current = new
    source = np.concatenate([order, np.array(extra_of, dtype=np.int64)])
    modes = forest.modes[source]
    return Forest(
        features=forest.features[source],
        thresholds=np.concatenate([thresholds, extra_thresholds]),
        modes=np.where(modes == MEMBER, COMPARISONS.index("EQ"), modes),
        yes=forest.yes[source],
        no=np.concatenate([no, np.array(extra_no, dtype=np.int64)]),
        missing=forest.missing[source],
        votes=forest.votes[source],
        voted=forest.voted[source],
        roots=forest.roots,
    )


# TreeEnsembleRegressor and TreeEnsembleClassifier


def _listed_forest(node: OnnxNode, prefix: str, targets: int) -> Forest:
    """Trees whose nodes are named by tree and node id, and votes by `prefix`."""
    trees = _table(node, "nodes_treeids")
    count = len(trees)
    names = list(zip(trees.tolist(), _table(node, "nodes_nodeids", count).tolist(), strict=True))
    place = {name: position for position, name in enumerate(names)}
    modes = [mode.removeprefix("BRANCH_") for mode in node.texts("nodes_modes", ())]
    known = {*COMPARISONS, "LEAF"}
    if len(place) != count or len(modes) != count or not set(modes) <= known:
        raise node.error(f"distinct nodes with modes among {', '.join(sorted(known))}", count)
    leaf = np.array([mode == "LEAF" for mode in modes], dtype=np.bool_)
    own = np.arange(count)

    def children(name: str) -> Integers:
        ids = _table(node, name, count).tolist()
        found = [place.get((tree, id), -1) for tree, id in zip(trees.tolist(), ids, strict=True)]
        return np.where(leaf, own, np.array(found, dtype=np.int64))

    if count * targets > MAX_NODES:
        raise node.unsupported(f"at most {MAX_NODES} votes", count * targets)
    thresholds = _numbers(node, "nodes_values")
    missing = np.zeros(count, dtype=np.bool_)
    if node.has("nodes_missing_value_tracks_true"):
        missing = _table(node, "nodes_missing_value_tracks_true", count) != 0
    votes, voted = _votes(node, prefix, place, (count, targets))
    if len(thresholds) != count:
        raise node.error(f"{count} nodes_values", len(thresholds))
    first: dict[int, int] = {}
    for position, tree in enumerate(trees.tolist()):
        first.setdefault(tree, position)
    return Forest(
        features=_table(node, "nodes_featureids", count),
        thresholds=thresholds,
        modes=np.array([0 if m == "LEAF" else COMPARISONS.index(m) for m in modes], dtype=np.int64),
        yes=children("nodes_truenodeids"),
        no=children("nodes_falsenodeids"),
        missing=missing,
        votes=votes,
        voted=voted,
        roots=np.array(list(first.values()), dtype=np.int64),
    )


def _votes(
    node: OnnxNode, prefix: str, place: Mapping[tuple[int, int], int], shape: tuple[int, int]
) -> tuple[Floats, NDArray[np.bool_]]:
    weights = _numbers(node, f"{prefix}_weights")
    targets = _table(node, f"{prefix}_ids", len(weights))
    trees = _table(node, f"{prefix}_treeids", len(weights)).tolist()
    ids = _table(node, f"{prefix}_nodeids", len(weights)).tolist()
    rows = np.array([place.get(name, -1) for name in zip(trees, ids, strict=True)], dtype=np.int64)
    if np.any(rows < 0) or np.any((targets < 0) | (targets >= shape[1])):
        raise node.error(f"votes of known nodes for targets below {shape[1]}", "others")
    votes, voted = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    np.add.at(votes, (rows, targets), weights)
    voted[rows, targets] = True
    return votes, voted


def _with_base(node: OnnxNode, x: Value) -> Value:
    base = _numbers(node, "base_values")
    if len(base) == 0:
        return x
    if len(base) not in (1, x.type.shape[1]):
        raise node.error(f"{x.type.shape[1]} base_values", len(base))
    return apply("add", x, tensor(base, x.type.dtype))


def _regressor(node: OnnxNode) -> tuple[Value, ...]:
    x = _samples(node)
    aggregate = node.text("aggregate_function", "SUM")
    if aggregate not in AGGREGATES:
        raise node.error(f"aggregate_function {', '.join(AGGREGATES)}", quoted(aggregate))
    targets = node.integer("n_targets", 1)
    if targets < 1:
        raise node.error("n_targets of at least 1", targets)
    result = _with_base(node, _scored(node, _listed_forest(node, "target", targets), x, aggregate))
    return (cast(transformed(node, result, node.text("post_transform", "NONE")), float32),)


def _classifier(node: OnnxNode) -> tuple[Value, ...]:
    """Labels and scores; where all votes are for one of two classes, the other is its opposite."""
    x = _samples(node)
    labels = node.integers("classlabels_int64s", ())
    if len(labels) < 1:
        raise node.unsupported("integer class labels", "text or no labels")
    forest = _listed_forest(node, "class", len(labels))
    summed = _scored(node, forest, x, "SUM")
    voted = np.flatnonzero(forest.voted.any(axis=0))
    transform = node.text("post_transform", "NONE")
    if len(labels) == 2 and len(voted) == 1:
        if voted[0] != 0:
            raise node.unsupported("votes for both classes or the first", "for the second only")
        return _binary(node, forest, summed, labels, transform)
    total = _with_base(node, summed)
    return labelled(total, labels), cast(transformed(node, total, transform), float32)


def _binary(
    node: OnnxNode, forest: Forest, x: Value, labels: tuple[int, ...], transform: str
) -> tuple[Value, ...]:
    """Two classes with votes for the first only: they speak for the second class.

    Votes that are all positive are its probability, with a limit of one half; others are a score
    around zero. So ONNX Runtime reads what the standard leaves open.
    """
    base = _numbers(node, "base_values")
    if len(base) > 1:
        raise node.unsupported("one base value where votes are for one class", len(base))
    score = slice_axis(x, 1, 0, 1)
    if len(base) == 1:
        score = with_scalar("add", score, float(base[0]))
    probability = bool(np.all(forest.votes >= 0))
    second = with_scalar("lt", apply("neg", score), -0.5 if probability else 0.0)
    label = OP["where"](
        reshape(second, (score.type.shape[0],)),
        tensor(np.array(labels[1]), int64),
        tensor(np.array(labels[0]), int64),
    )
    return label, cast(both_classes(node, score, transform, probability=probability), float32)


TABLE: Mapping[tuple[str, str], Importer] = {
    (DOMAIN, "TreeEnsemble"): _tree_ensemble,
    (DOMAIN, "TreeEnsembleClassifier"): _classifier,
    (DOMAIN, "TreeEnsembleRegressor"): _regressor,
}

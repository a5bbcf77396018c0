"""Decision trees as tables, and their evaluation for many samples at once.

All trees advance together, a level per step: each sample keeps one node per tree, and gathers
feature, threshold and children of that node. Leaves lead to themselves, so trees may differ in
depth. What it does not: read ONNX attributes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Value
from graphopt.ops import OP
from graphopt.terms import apply, broadcast_to, tensor, with_scalar
from tensorgen.types import boolean, int64

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

COMPARISONS = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
"""How a feature relates to a threshold for the first child to be taken; a mode is its position."""

MAX_DEPTH = 1024
"""Deeper trees are refused: every level is a step of the graph."""


class ForestError(ValueError):
    """The tables do not describe trees. The message says what is expected and what was found."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Nodes of all trees in one list; leaves have themselves as children.

    Per node: `features` and `thresholds` to compare, `modes` (positions in COMPARISONS), children
    `yes` and `no`, and `missing`: whether NaN leads to `yes`. `votes` (nodes, targets) is what a
    leaf contributes and `voted` whether it does. `roots` has a node per tree.
    """

    features: Integers
    thresholds: Floats
    modes: Integers
    yes: Integers
    no: Integers
    missing: NDArray[np.bool_]
    votes: Floats
    voted: NDArray[np.bool_]
    roots: Integers

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        nodes = np.arange(len(self.yes))
        return np.equal(self.yes, nodes) & np.equal(self.no, nodes)

    def checked(self, features: int) -> Forest:
        """The forest; ForestError if it points outside of its tables or of the sample."""
        count = len(self.features)
        for children in (self.yes, self.no, self.roots):
            if np.any((children < 0) | (children >= count)):
                raise ForestError(f"expected child and root nodes below {count}, got others")
        used = self.features[~self.is_leaf]
        if np.any((used < 0) | (used >= features)):
            raise ForestError(f"expected features below {features}, got others")
        if len(self.roots) == 0:
            raise ForestError("expected at least one tree, got none")
        return self

    @property
    def depth(self) -> int:
        """Steps from the roots until every tree is at a leaf. ForestError if there is no end."""
        leaf = self.is_leaf
        level = np.unique(self.roots)
        for depth in range(MAX_DEPTH + 1):
            inner = level[~leaf[level]]
            if len(inner) == 0:
                return depth
            level = np.unique(np.concatenate([self.yes[inner], self.no[inner]]))
        raise ForestError(f"expected trees at most {MAX_DEPTH} deep, got deeper ones or a cycle")


def leaves(forest: Forest, x: Value) -> Value:
    """The leaf that each sample of x (samples, features) reaches in each tree, int64."""
    shape = (x.type.shape[0], len(forest.roots))
    state: Value = broadcast_to(tensor(forest.roots, int64), shape)
    for _ in range(forest.depth):
        value = OP["gather_elements"](x, _looked_up(forest.features, state), axis=1)
        threshold = OP["gather"](tensor(forest.thresholds, x.type.dtype), state, axis=0)
        taken = _comparison(forest, state, value, threshold)
        state = OP["where"](taken, _looked_up(forest.yes, state), _looked_up(forest.no, state))
    return state


def _looked_up(table: Integers, state: Value) -> Value:
    return OP["gather"](tensor(table, int64), state, axis=0)


def _flag(table: NDArray[np.bool_], state: Value) -> Value:
    return OP["gather"](tensor(table, boolean), state, axis=0)


def _comparison(forest: Forest, state: Value, value: Value, threshold: Value) -> Value:
    """Whether each node's first child is taken."""
    inner = ~forest.is_leaf
    modes = sorted({int(mode) for mode in forest.modes[inner]})
    result: Value | None = None
    for mode in modes:
        holds = _holds(COMPARISONS[mode], value, threshold)
        if result is None:
            result = holds
        else:
            result = OP["where"](_flag(forest.modes == mode, state), holds, result)
    assert result is not None, "a step is taken from inner nodes only"
    if np.any(forest.missing[inner]):
        absent = apply("and", apply("isnan", value), _flag(forest.missing, state))
        result = apply("or", result, absent)
    return result


def _holds(comparison: str, value: Value, threshold: Value) -> Value:
    match comparison:
        case "LEQ":
            return apply("le", value, threshold)
        case "LT":
            return apply("lt", value, threshold)
        case "GTE":
            return apply("le", threshold, value)
        case "GT":
            return apply("lt", threshold, value)
        case "EQ":
            return apply("eq", value, threshold)
        case _:
            return apply("ne", value, threshold)


def scores(forest: Forest, x: Value, aggregate: str) -> Value:
    """The votes of all trees for each sample, (samples, targets): SUM, AVERAGE, MIN or MAX.

    A target that no tree votes for has the score 0.
    """
    state = leaves(forest, x)
    dtype = x.type.dtype
    if aggregate in ("MIN", "MAX"):
        neutral = np.inf if aggregate == "MIN" else -np.inf
        votes = np.where(forest.voted, forest.votes, neutral)
        per_tree = OP["gather"](tensor(votes, dtype), state, axis=0)
        fold = "reduce_min" if aggregate == "MIN" else "reduce_max"
        extreme = OP[fold](per_tree, axes=(1,), keepdims=False)
        return OP["where"](with_scalar("eq", extreme, neutral), tensor(np.array(0), dtype), extreme)
    per_tree = OP["gather"](tensor(forest.votes, dtype), state, axis=0)
    total: Value = OP["reduce_sum"](per_tree, axes=(1,), keepdims=False)
    return with_scalar("div", total, len(forest.roots)) if aggregate == "AVERAGE" else total

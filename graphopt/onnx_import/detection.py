"""Importer of NonMaxSuppression, where boxes and scores are constants.

How many boxes it selects depends on them, and Tasor's shapes are static.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Constant, Value
from graphopt.onnx_import.node import Importer, OnnxNode

Boxes = NDArray[np.float64]


def _non_max_suppression(node: OnnxNode) -> tuple[Value, ...]:
    """Triples (batch, class, box) of the boxes kept, best first within each class."""
    boxes = node.constant(0, "the boxes, on which the number of results depends,")
    scores = node.constant(1, "the scores, on which the number of results depends,")
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or (
        (scores.shape[0], scores.shape[2]) != boxes.shape[:2]
    ):  # fmt: skip
        raise node.error(
            "boxes (n, count, 4) and scores (n, classes, count)",
            f"{boxes.shape} and {scores.shape}",
        )
    most = 0 if node.optional(2) is None else node.integer_of(2, "the number of boxes to keep")
    overlap = _threshold(node, 3, 0.0)
    least = _threshold(node, 4, None)
    centred = node.integer("center_point_box", 0) != 0
    kept = []
    for batch in range(scores.shape[0]):
        corners = _corners(boxes[batch].astype(np.float64), centred)
        for label in range(scores.shape[1]):
            chosen = _selected(corners, scores[batch, label].astype(np.float64), overlap, least)
            kept += [(batch, label, box) for box in chosen[: max(most, 0)]]
    return (Constant(np.array(kept, dtype=np.int64).reshape(-1, 3)),)


def _threshold(node: OnnxNode, position: int, default: float | None) -> float | None:
    if node.optional(position) is None:
        return default
    value = node.constant(position, "a threshold")
    if value.size != 1:
        raise node.error("a threshold as one number", value.shape)
    return float(value.reshape(-1)[0])


def _corners(boxes: Boxes, centred: bool) -> Boxes:
    """Boxes as (low, low, high, high), from two opposite corners or from centres and sizes."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if centred:
        return np.concatenate([first - second / 2, first + second / 2], axis=1)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)


def _selected(boxes: Boxes, scores: Boxes, overlap: float | None, least: float | None) -> list[int]:
    """Boxes in order of score, without those that overlap a better one by too much."""
    order = np.argsort(-scores, kind="stable")
    if least is not None:
        order = order[scores[order] > least]
    chosen: list[int] = []
    for candidate in order:
        shares = _intersection_over_union(boxes[candidate], boxes[chosen])
        if overlap is None or not np.any(shares > overlap):
            chosen.append(int(candidate))
    return chosen


def _intersection_over_union(box: Boxes, others: Boxes) -> Boxes:
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1) + np.prod(box[2:] - box[:2])
    union = areas - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1), 0.0)


TABLE: Mapping[tuple[str, str], Importer] = {("", "NonMaxSuppression"): _non_max_suppression}

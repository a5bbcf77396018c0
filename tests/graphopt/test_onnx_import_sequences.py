"""ReverseSequence, TensorScatter, Col2Im and TfIdfVectorizer, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt.graph import Graph
from graphopt.onnx_import import ModelError


def values(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("batch", "time"), [(0, 1), (1, 0)])
def test_reverse_sequence(agree: Callable[..., Graph], batch: int, time: int) -> None:
    x = values(4, 4, 2)
    lengths = {"n": np.array([1, 4, 2, 3], np.int64)}
    agree("ReverseSequence", {"x": x, **lengths}, batch_axis=batch, time_axis=time)


def test_reverse_sequence_along_later_axes(one_node: Callable[..., Any]) -> None:
    # ONNX Runtime takes the first two axes only.
    x, lengths = values(2, 3, 4, 5), np.array([2, 5, 1, 3], np.int64)
    case = one_node("ReverseSequence", {"x": x, "n": lengths}, batch_axis=2, time_axis=3)
    expected = x.copy()
    for sample, length in enumerate(lengths):
        expected[:, :, sample, :length] = x[:, :, sample, :length][..., ::-1]
    np.testing.assert_array_equal(case.evaluated()[0], expected)


def test_reverse_sequence_refuses_one_axis_twice(one_node: Callable[..., Any]) -> None:
    arrays = {"x": values(3, 3), "n": np.array([1, 2, 3], np.int64)}
    with pytest.raises(ModelError, match="a batch_axis other than the time_axis"):
        one_node("ReverseSequence", arrays, batch_axis=1, time_axis=1).imported()
    with pytest.raises(ModelError, match="sequence lengths as 3 integers"):
        one_node("ReverseSequence", {"x": values(3, 3), "n": np.array([1, 2])}).imported()


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_tensor_scatter(one_node: Callable[..., Any], mode: str, axis: int) -> None:
    cache = values(3, 6, 6, 6)
    shape = list(cache.shape)
    shape[axis] = 2
    update = values(*shape)
    starts = np.array([0, 4, 5 if mode == "circular" else 3], np.int64)
    case = one_node(
        "TensorScatter", {"c": cache, "u": update, "n": starts}, opset=24, mode=mode, axis=axis
    )
    expected = np.moveaxis(cache.copy(), axis, 1)
    fresh = np.moveaxis(update, axis, 1)
    for sample, start in enumerate(starts):
        for step in range(2):
            expected[sample, (start + step) % 6] = fresh[sample, step]
    np.testing.assert_array_equal(case.evaluated()[0], np.moveaxis(expected, 1, axis))


def test_tensor_scatter_refuses_updates_that_do_not_fit(one_node: Callable[..., Any]) -> None:
    for shape in ((2, 5, 2), (3, 2, 2)):
        case = one_node("TensorScatter", {"c": values(2, 4, 2), "u": values(*shape)}, opset=24)
        with pytest.raises(ModelError, match="an update that fits"):
            case.imported()


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 1]},
        {"pads": [1, 0, 1, 2], "dilations": [2, 1]},
        {"strides": [3, 2], "pads": [0, 1, 1, 0]},
    ],
)
def test_col2im(agree: Callable[..., Graph], attributes: dict[str, Any]) -> None:
    sizes, kernel = (7, 6), (2, 3)
    strides = attributes.get("strides", [1, 1])
    dilations = attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0] * 4)
    counts = [
        (sizes[n] + pads[n] + pads[n + 2] - (kernel[n] - 1) * dilations[n] - 1) // strides[n] + 1
        for n in range(2)
    ]
    constants = {"image": np.array(sizes, np.int64), "block": np.array(kernel, np.int64)}
    x = values(2, 3 * 6, counts[0] * counts[1])
    agree("Col2Im", {"x": x}, constants=constants, **attributes)


def test_col2im_refuses_columns_that_do_not_fit(one_node: Callable[..., Any]) -> None:
    constants = {"image": np.array([4, 4], np.int64), "block": np.array([2, 2], np.int64)}
    for shape in ((1, 4, 8), (1, 5, 9)):
        case = one_node("Col2Im", {"x": values(*shape)}, constants=constants)
        with pytest.raises(ModelError, match="columns of shape"):
            case.imported()


POOL = {
    "ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7], "weights": [1.0, 2, 3, 4, 5, 6, 7],
    "min_gram_length": 1, "max_gram_length": 2,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skips", [0, 5])
def test_tf_idf(agree: Callable[..., Graph], mode: str, skips: int) -> None:
    x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int64)
    agree(
        "TfIdfVectorizer", {"x": x}, types={"y": np.float32}, mode=mode, max_skip_count=skips,
        **POOL,
    )  # fmt: skip


def test_tf_idf_refuses_pools_that_do_not_fit(one_node: Callable[..., Any]) -> None:
    wrong = {**POOL, "ngram_counts": [0, 5]}
    case = one_node(
        "TfIdfVectorizer", {"x": np.array([1, 2], np.int64)}, types={"y": np.float32}, mode="TF",
        max_skip_count=0, **wrong,
    )  # fmt: skip
    with pytest.raises(ModelError, match="ngram_counts that divide the pool"):
        case.imported()

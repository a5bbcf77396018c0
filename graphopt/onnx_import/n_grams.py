"""Importer of TfIdfVectorizer on integers: how often each n-gram of a pool occurs in a sequence.

Every place of a sequence is compared with every n-gram of one length at once, for every number of
elements that may be skipped between neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Value
from graphopt.onnx_import.errors import quoted
from graphopt.onnx_import.node import Importer, OnnxNode
from graphopt.ops import OP
from graphopt.terms import apply, cast, integers, reshape, tensor, with_scalar
from tensorgen.types import float32, int64

MAX_COMPARISONS = 2**26
"""Refused: pools and sequences with more pairs of elements to compare."""


def _tf_idf_vectorizer(node: OnnxNode) -> tuple[Value, ...]:
    x = node.input(0)
    if x.type.rank not in (1, 2) or not x.type.dtype.is_integer or not node.has("pool_int64s"):
        raise node.unsupported("one or two axes of integers and a pool of integers", x.type)
    rows = reshape(cast(x, int64), (x.type.size // max(x.type.shape[-1], 1), x.type.shape[-1]))
    coordinates = np.array(node.integers("ngram_indexes"), dtype=np.int64)
    if len(coordinates) == 0 or coordinates.min() < 0 or coordinates.max() > len(coordinates) * 64:
        raise node.error("ngram_indexes of at least 0, nearly as many as there are", "others")
    counts = _counts(node, rows, _pools(node, len(coordinates)))
    mode = node.text("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise node.error("mode TF, IDF or TFIDF", quoted(mode))
    if mode == "IDF":
        counts = with_scalar("min", counts, 1)
    weights = np.ones(len(coordinates))
    if mode != "TF" and node.has("weights"):
        weights = np.array(node.numbers("weights"))
        if len(weights) != len(coordinates):
            raise node.error(f"{len(coordinates)} weights", len(weights))
    # One column per coordinate of the result, a row per n-gram.
    placed = np.zeros((len(coordinates), int(coordinates.max()) + 1))
    placed[np.arange(len(coordinates)), coordinates] = weights
    result = OP["matmul"](counts, tensor(placed, float32))
    return (reshape(result, (*x.type.shape[:-1], placed.shape[1])),)


def _pools(node: OnnxNode, total: int) -> list[NDArray[np.int64]]:
    """The n-grams of length 1, 2, …, (count, length) each."""
    pool = np.array(node.integers("pool_int64s"), dtype=np.int64)
    starts = node.integers("ngram_counts")
    pools = []
    for number, (start, end) in enumerate(pairwise((*starts, len(pool))), start=1):
        if not 0 <= start <= end <= len(pool) or (end - start) % number:
            raise node.error("ngram_counts that divide the pool into n-grams", list(starts))
        pools.append(pool[start:end].reshape(-1, number))
    if sum(len(part) for part in pools) != total:
        raise node.error(f"a pool of {total} n-grams", sum(len(part) for part in pools))
    return pools


def _counts(node: OnnxNode, rows: Value, pools: list[NDArray[np.int64]]) -> Value:
    """How often each n-gram occurs, (sequences, n-grams) in float32."""
    shortest, longest = node.integer("min_gram_length"), node.integer("max_gram_length")
    skips = node.integer("max_skip_count")
    sequences, length = rows.type.shape
    parts: list[Value] = []
    for pool in pools:
        total: Value = tensor(np.zeros((sequences, len(pool))), float32)
        size = pool.shape[1]
        if shortest <= size <= longest and len(pool):
            # An n-gram of one element has nothing to skip, and a longer skip finds no place.
            for skip in range(min(skips, length) + 1 if size > 1 else 1):
                places = length - (size - 1) * (skip + 1)
                if places < 1:
                    break
                if sequences * places * pool.size > MAX_COMPARISONS:
                    raise node.unsupported(f"at most {MAX_COMPARISONS} comparisons", pool.size)
                total = apply("add", total, _occurrences(rows, pool, skip, places))
        parts.append(total)
    return OP["concat"](*parts, axis=1)


def _occurrences(rows: Value, pool: NDArray[np.int64], skip: int, places: int) -> Value:
    """How often n-grams occur with that many elements skipped between neighbours."""
    size = pool.shape[1]
    sequences = rows.type.shape[0]
    positions = [place + n * (skip + 1) for place in range(places) for n in range(size)]
    read = OP["gather"](rows, integers(positions), axis=1)
    windows = reshape(read, (sequences, places, 1, size))
    equal = cast(apply("eq", windows, tensor(pool, int64)), float32)
    whole = OP["reduce_min"](equal, axes=(3,), keepdims=False)
    return OP["reduce_sum"](whole, axes=(1,), keepdims=False)


TABLE: Mapping[tuple[str, str], Importer] = {("", "TfIdfVectorizer"): _tf_idf_vectorizer}

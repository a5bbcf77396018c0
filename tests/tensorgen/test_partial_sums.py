"""Long sums in blocks: the same elements once each, and far fewer roundings in a row."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.evaluate import evaluate
from tensorgen.expr import Fold, Load, Reduce, children, compute, reduce, walk
from tensorgen.loop import Numbers
from tensorgen.loop_eval import run_kernel
from tensorgen.lower import lower
from tensorgen.partial_sums import BLOCK, partial_sums
from tensorgen.schedule import Lanes, Loops
from tensorgen.task import Task
from tensorgen.types import DType, TensorType, float32, int32

EXTENTS = st.lists(st.integers(1, 150), min_size=1, max_size=3).map(tuple)


def total(extents: tuple[int, ...], dtype: DType = float32, fold: Fold = Fold.SUM) -> Reduce:
    tensor = TensorType(dtype, extents)
    return reduce(fold, extents, lambda *axes: Load(0, tensor, axes))


@given(EXTENTS)
def test_every_element_counts_once(extents: tuple[int, ...]) -> None:
    nested = partial_sums(total(extents), Numbers())
    values = np.random.default_rng(0).integers(-50, 50, extents).astype(np.float32)
    (found,) = evaluate(compute((1,), lambda _: nested), (values,)).tolist()
    assert found == values.sum(dtype=np.float64)


@given(EXTENTS, st.sampled_from([1, 32]))
def test_no_sum_is_long(extents: tuple[int, ...], lanes: int) -> None:
    shared = lanes if extents[-1] >= 2 * lanes else 1
    for term in walk(partial_sums(total(extents), Numbers(), lanes)):
        if isinstance(term, Reduce):
            assert prod(axis.extent for axis in term.axes) <= 2 * BLOCK * shared


@pytest.mark.parametrize(
    "term", [total((1000,), int32), total((1000,), fold=Fold.MAX), total((2 * BLOCK,))], ids=str
)
def test_exact_folds_and_short_sums_stay(term: Reduce) -> None:
    assert partial_sums(term, Numbers()) == term
    assert not any(isinstance(child, Reduce) for child in children(term))


@pytest.mark.parametrize("lanes", list(Lanes))
@pytest.mark.parametrize("shape", [(2048, 2), (2, 20000)], ids=str)
def test_rounding_stays_small(lanes: Lanes, shape: tuple[int, int]) -> None:
    """One after the other, this sum is off by thousands of half units in the last place."""
    axis = 0 if shape[0] > shape[1] else 1
    tensor = TensorType(float32, shape)
    stage = compute(
        (shape[1 - axis],),
        lambda i: reduce(
            Fold.SUM, (shape[axis],), lambda k: Load(0, tensor, (k, i) if axis == 0 else (i, k))
        ),
    )
    task = Task((tensor,), (stage,), (0,), (False,))
    kernel = lower(task, Loops(lanes, 32, 0, 0)).kernel
    x = (np.random.default_rng(1).random(shape) + 1).astype(np.float32)
    (found,) = run_kernel(kernel, (x,))
    exact = x.sum(axis=axis, dtype=np.float64)
    assert np.abs(found / exact - 1).max() < 30 * 2.0**-24

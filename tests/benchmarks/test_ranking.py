"""Arithmetic of rankings: what a top finds, rank correlations, and what has no figure."""

from __future__ import annotations

from math import inf, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from benchmarks.ranking import (
    geometric_mean,
    leading,
    rank_correlation,
    share_of_best,
)

seconds = st.floats(1e-6, 1e3)
whole = st.integers(1, 6).map(float)


def test_the_least_lead_and_equals_keep_their_order() -> None:
    assert leading([3.0, 1.0, inf, 1.0, 2.0], 3) == (1, 3, 4)
    assert leading([2.0], 8) == (0,)
    assert leading([], 8) == ()


def test_a_top_finds_a_share_of_the_best_speed() -> None:
    assert share_of_best([4.0, 2.0], [4.0, 2.0, 1.0]) == 0.5
    assert share_of_best([1.0, inf], [4.0, 1.0]) == 1.0


def test_a_top_of_failures_finds_nothing_but_where_nothing_works() -> None:
    assert share_of_best([inf], [inf, 1.0]) == 0.0
    assert share_of_best([], [1.0]) == 0.0
    assert share_of_best([inf], [inf, inf]) == 1.0
    assert share_of_best([], []) == 1.0


@given(st.lists(st.tuples(whole, whole), min_size=2, max_size=20))
def test_correlation_is_spearmans_with_ties(pairs: list[tuple[float, float]]) -> None:
    predicted, measured = zip(*pairs, strict=True)
    found = rank_correlation(predicted, measured)
    if len(set(predicted)) == 1 or len(set(measured)) == 1:
        assert found == 0.0
    else:
        assert found == pytest.approx(spearmanr(predicted, measured).statistic)


@given(st.lists(seconds, min_size=2, max_size=20, unique=True))
def test_correlation_asks_for_the_order_alone(measured: list[float]) -> None:
    assert rank_correlation([s**3 for s in measured], measured) == pytest.approx(1.0)
    assert rank_correlation([-s for s in measured], measured) == pytest.approx(-1.0)


def test_what_gave_no_figure_has_no_rank() -> None:
    assert rank_correlation([1.0, 2.0, 3.0, 0.5], [1.0, 2.0, 3.0, inf]) == pytest.approx(1.0)
    assert rank_correlation([1.0, inf], [1.0, 2.0]) == 0.0
    assert rank_correlation([], []) == 0.0


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8))
def test_a_geometric_mean_is_the_root_of_the_product(values: list[float]) -> None:
    assert geometric_mean(values) == pytest.approx(prod(values) ** (1 / len(values)))
    assert geometric_mean([*values, 0.0]) == 0.0

"""Dense copies: what of a strided factor is copied, how it lies, and where it pays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.contraction import Contraction, assign_roles, contraction_of
from tensorgen.dense_copy import is_strided, with_copy
from tensorgen.evaluate import evaluate
from tensorgen.expr import Axis
from tensorgen.lower import lower
from tensorgen.schedule import RegisterTile, ScheduleError
from tensorgen.sketch import contraction_estimate
from tensorgen.target import Target
from tensorgen.task import Task
from tests.contraction_tasks import convolution, matmul, padded


def form_of(task: Task) -> Contraction:
    contraction = contraction_of(task)
    assert contraction is not None
    return contraction


def chosen(task: Task, target: str) -> RegisterTile:
    best = contraction_estimate(task, Target.named(target), 1, filtering=False)
    assert best is not None
    assert isinstance(best.schedule, RegisterTile)
    return best.schedule


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (convolution((4, 5), (1, 1), channels=(3, 4), strides=(2, 2)), True),
        (convolution((4, 5), (3, 3), channels=(3, 4), strides=(2, 2)), True),
        (convolution((9,), (3,), channels=(3, 4), strides=(3,)), False),
        (convolution((4, 5), (1, 1), channels=(3, 4), strides=(2, 1)), False),
        (convolution((4, 5), (3, 3), channels=(3, 4), dilations=(2, 2)), False),
        (matmul((), 5, 7, 3, constant=(False, True)), False),
        (matmul((), 5, 7, 3, transposed=(True, False), constant=(False, True)), False),
    ],
    ids=str,
)
def test_results_with_gaps_between_what_they_read(task: Task, expected: bool) -> None:
    assert is_strided(form_of(task), 0) == expected
    assert not is_strided(form_of(task), 1)


@st.composite
def strided(draw: st.DrawFn) -> Task:
    rank = draw(st.integers(1, 3))

    def values(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    return convolution(
        values(1, 4), values(1, 3), channels=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        groups=draw(st.integers(1, 2)), strides=values(1, 3), dilations=values(1, 2),
        batch=draw(st.integers(1, 2)),
    )  # fmt: skip


@given(strided())
@settings(deadline=None)
def test_the_copy_has_what_the_factor_reads(task: Task) -> None:
    """At every point of the contraction's axes the copy holds the element that the factor reads
    there, and it is not larger than the original."""
    contraction = form_of(task)
    copied = with_copy(task, contraction, 0)
    if copied is None:
        return
    assert copied.prologue is not None
    flat = np.arange(task.inputs[0].size, dtype=np.float32)
    places = evaluate(copied.prologue.stage, [flat]).reshape(-1)
    assert places.size <= flat.size

    def reads(form: Contraction, held: np.ndarray) -> list[float]:
        """What each result reads, sum by sum, in the order of the results."""
        axes = (*form.axes, *form.reduction)
        found = []
        for point in np.ndindex(*(axis.extent for axis in axes)):
            values = dict(zip(axes, point, strict=True))
            index = form.factors[0].constant + sum(
                step * values[axis]
                for axis, step in form.factors[0].terms
                if isinstance(axis, Axis)
            )
            found.append(float(held[index]))
        return found

    assert reads(copied, places) == reads(contraction, flat)


def test_rows_of_a_plane_continue_each_other_in_the_copy() -> None:
    """Read with a stride, the rows of an image are apart; in the copy one axis goes over all."""
    task = convolution((6, 5), (1, 1), channels=(8, 16), strides=(2, 2))
    contraction = form_of(task)
    copied = with_copy(task, contraction, 0)
    assert copied is not None
    assert [axis.extent for axis in assign_roles(contraction, 1).rows] == [6, 5]
    assert [axis.extent for axis in assign_roles(copied, 1).rows] == [30]


def test_what_has_a_prologue_or_is_constant_is_not_copied() -> None:
    plain = convolution((6, 5), (3, 3), channels=(8, 16), strides=(2, 2))
    assert with_copy(plain, form_of(plain), 0) is not None
    assert with_copy(plain, form_of(plain), 1) is None
    around = padded(plain, (1, 1), (1, 1))
    assert with_copy(around, form_of(around), 0) is None


def test_a_stride_without_padding_is_copied() -> None:
    """Few registers: tiles that go over the ends of rows, from lines that are read whole."""
    for extent, channels in ((28, 256), (14, 512), (7, 1024)):
        pixels = convolution((extent,) * 2, (1, 1), channels=(channels, 512), strides=(2, 2))
        assert chosen(pixels, "x86-64-v3").copied == 0
        dense = convolution((extent,) * 2, (1, 1), channels=(channels, 512))
        assert chosen(dense, "x86-64-v3").copied is None


@pytest.mark.parametrize("extent", [14, 28])
def test_padding_lies_with_its_channels_together_where_lines_are_short_of_use(extent: int) -> None:
    """Tiles of few rows ask for a new line at almost each step; those of AVX-512 compute longer."""
    task = padded(
        convolution((extent,) * 2, (3, 3), channels=(256, 256), strides=(2, 2)), (1, 1), (0, 0)
    )
    assert chosen(task, "x86-64-v3").together
    assert not chosen(task, "x86-64-v4").together


def test_schedules_need_what_they_copy() -> None:
    """Weights are not copied, and without a prologue nothing lies together."""
    task = convolution((6, 5), (1, 1), channels=(8, 16), strides=(2, 2))
    plain = replace(chosen(task, "x86-64-v3"), copied=None, together=False, prologue=0)
    with pytest.raises(ScheduleError, match="expected a factor 1 that can be copied"):
        lower(task, replace(plain, copied=1))
    with pytest.raises(ScheduleError, match="expected a prologue in which a sum steps"):
        lower(task, replace(plain, together=True))

"""The least seconds of a task: below every estimate, near what is known."""

from __future__ import annotations

import pytest

from tensorgen.target import Target
from tensorgen.tune.bound import bound_of
from tensorgen.tune.task_space import space_of
from tensorgen.types import float64
from tensorgen.typical_machine import typical_machine
from tests.contraction_tasks import convolution, matmul
from tests.tuned_tasks import CONVOLUTIONS, EXACT, ROUNDED, scaled

TARGET = Target.named("x86-64-v4")
MACHINE = typical_machine(TARGET, 2)


def test_products_are_bound_by_the_peak() -> None:
    bound = bound_of(matmul((), 512, 512, 512), MACHINE, 1)
    assert bound.seconds == bound.arithmetic == pytest.approx(2 * 512**3 / MACHINE.peak_flops(1))
    assert bound_of(matmul((), 512, 512, 512), MACHINE, 2).seconds == bound.seconds / 2
    double = bound_of(matmul((), 512, 512, 512, dtype=float64), MACHINE, 1)
    assert double.arithmetic == 2 * bound.arithmetic
    assert bound.share(2 * bound.seconds) == 0.5


def test_elementwise_stages_are_bound_by_memory() -> None:
    bound = bound_of(scaled(1 << 24), MACHINE, 1)
    assert bound.arithmetic == 0
    assert bound.seconds >= 0.8 * 2 * 4 * (1 << 24) / MACHINE.memory_bandwidth(1)


def test_filters_with_fewer_products_lower_the_bound() -> None:
    task = convolution((28, 28), (3, 3), channels=(64, 64))
    direct = bound_of(task, MACHINE, 1, winograd=False)
    assert bound_of(task, MACHINE, 1).arithmetic == pytest.approx(direct.arithmetic / 4)
    strided = convolution((28, 28), (3, 3), channels=(64, 64), strides=(2, 2))
    plain = bound_of(strided, MACHINE, 1, winograd=False).arithmetic
    assert plain / 2 < bound_of(strided, MACHINE, 1).arithmetic < plain
    pointwise = convolution((28, 28), (1, 1), channels=(64, 64))
    assert bound_of(pointwise, MACHINE, 1) == bound_of(pointwise, MACHINE, 1, winograd=False)


@pytest.mark.parametrize("name", [*EXACT, *ROUNDED, *CONVOLUTIONS])
def test_no_estimate_is_below_the_bound(name: str) -> None:
    task = {**EXACT, **ROUNDED, **CONVOLUTIONS}[name]
    space = space_of(task, TARGET, 2, MACHINE)
    bound = bound_of(task, MACHINE, 2)
    assert bound.arithmetic + bound.moving > 0
    assert bound.arithmetic <= space.estimate(space.start)

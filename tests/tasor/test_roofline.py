"""Rates, intensities and shares of the peak."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasor.peers import Failure, Row
from tasor.roofline import (
    Bandwidth,
    Ceiling,
    ceiling,
    ceiling_of,
    flops_per_second,
    intensity,
    percent,
    share_of_peak,
)
from tensorgen.target import Target
from tensorgen.typical_machine import typical_machine
from tests.tasor.measured_rows import CEILINGS, row


def test_rate_intensity_and_share() -> None:
    measured = row("x", 2.0, 3.0, flops=50_000_000, traffic=1_000_000)
    assert flops_per_second(measured) == pytest.approx(25e9)
    assert intensity(measured) == 50
    assert share_of_peak(measured, CEILINGS) == pytest.approx(0.25)


def test_rates_are_those_of_calls_from_c() -> None:
    measured = row("x", 2.0, 3.0, flops=50_000_000)
    own = measured.timing("tasor")
    assert own is not None
    quick = replace(measured, results=(replace(own, in_c=1.0), *measured.results[1:]))
    assert flops_per_second(quick) == pytest.approx(50e9)
    assert quick.ratio == measured.ratio


def test_more_threads_have_a_higher_peak() -> None:
    measured = row("x", 2.0, 3.0, threads=2, flops=50_000_000)
    assert share_of_peak(measured, CEILINGS) == pytest.approx(0.125)


def test_what_is_not_known_is_none() -> None:
    assert flops_per_second(row("x", 1.0)) is None
    assert intensity(row("x", 1.0, flops=8)) is None
    assert intensity(row("x", 1.0, flops=8, traffic=0)) is None
    assert share_of_peak(row("x", 1.0, flops=8, threads=3), CEILINGS) is None
    failed = Row("x", "g", 1, 8, (Failure("tasor", "no"),), 8)
    assert flops_per_second(failed) is None
    assert intensity(failed) == 1


def test_a_machine_gives_its_ceilings() -> None:
    machine = typical_machine(Target.named("x86-64-v3"), threads=4)
    for threads in (1, 2, 4):
        found = ceiling(machine, threads)
        assert found.peak == machine.peak_flops(threads)
        assert found.bandwidths[-1] == Bandwidth("memory", machine.memory_bandwidth(threads))
        assert [item.level for item in found.bandwidths] == ["L1", "L2", "L3", "memory"]
        assert ceiling_of(threads, [Ceiling(9, 1.0), found]) is found


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, ""),
        (0.0, "0.0 %"),
        (0.004, "0.4 %"),
        (0.0994, "9.9 %"),
        (0.0996, "10 %"),
        (2.5, "250 %"),
    ],
)
def test_percentages_have_two_figures(share: float | None, text: str) -> None:
    assert percent(share) == text

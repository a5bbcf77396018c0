"""The peak as a guest of a comparison: it takes turns, and is nobody's time."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tasor.peak_guest import FED_PEAK, PEAK, open_fed_peak, open_peak, with_peak
from tasor.peer_cases import write_case
from tasor.peers import Failure, Row, Timing
from tasor.roofline import Ceiling, share_of_fed_peak, share_of_peak
from tensorgen.calibration import calibrate
from tensorgen.peak_loop import peak_loop, peak_loop_flops, tile_loop, tile_loop_flops
from tensorgen.target import Target, host_target
from tests.tasor.small_models import small_model


def timing(engine: str, milliseconds: float) -> Timing:
    return Timing(engine, milliseconds, milliseconds, milliseconds, 3, 0.1, None, True)


def test_the_rate_is_taken_from_its_time_and_the_engines_stay() -> None:
    engines = (timing("tasor", 2.0), Failure("openvino", "no"))
    row = Row("case", "group", 2, 10**9, (*engines, timing(PEAK, 0.5)))
    found = with_peak(row, "x86-64-v4")
    assert found.results == engines
    # 24 sums of 16 elements, two operations each, on two threads.
    assert found.peak is not None
    assert found.peak == pytest.approx(65536 * 24 * 16 * 2 * 2 / 0.5e-3)
    # Its own turns come before what was found at another time.
    ceiling = Ceiling(2, 1e15)
    assert share_of_peak(found, [ceiling]) == pytest.approx(10**9 / 2e-3 / found.peak)
    assert share_of_peak(with_peak(row, "x86-64-v4"), []) is not None


def test_the_fed_peak_is_another_guest_with_a_share_of_its_own() -> None:
    row = Row("case", "group", 2, 10**9, (timing("tasor", 2.0), timing(FED_PEAK, 0.25)))
    found = with_peak(row, "x86-64-v4")
    assert found.results == row.results[:1]
    assert found.peak is None
    # 5 x 5 sums of 16 elements, 64 steps, two operations each, on two threads.
    assert found.fed_peak is not None
    assert found.fed_peak == pytest.approx(512 * 64 * 25 * 16 * 2 * 2 / 0.25e-3)
    assert share_of_fed_peak(found) == pytest.approx(10**9 / 2e-3 / found.fed_peak)
    assert share_of_fed_peak(replace(found, fed_peak=None)) is None


def test_a_fed_tile_reaches_no_more_than_registers_alone(tmp_path: Path) -> None:
    target = host_target()
    loops = (
        (peak_loop(target, 1, tmp_path), peak_loop_flops(target, 1)),
        (tile_loop(target, 1, tmp_path), tile_loop_flops(target, 1)),
    )
    best = [0.0, 0.0]
    for _ in range(40):
        for number, (run, flops) in enumerate(loops):
            begin = time.perf_counter()
            run()
            best[number] = max(best[number], flops / (time.perf_counter() - begin))
    plain, fed = best
    assert plain / 4 < fed < plain * 1.2


def test_without_a_time_there_is_no_peak() -> None:
    row = Row("case", "group", 1, 10**9, (timing("tasor", 2.0), Failure(PEAK, "no compiler")))
    found = with_peak(row, "c99")
    assert found.peak is None
    assert found.results == row.results[:1]
    assert share_of_peak(found, []) is None
    assert share_of_peak(found, [Ceiling(1, 1e12)]) == pytest.approx(0.5)


def test_it_reaches_what_calibration_finds(tmp_path: Path) -> None:
    target = host_target()
    run = peak_loop(target, 1, tmp_path)
    rates = []
    for _ in range(40):
        begin = time.perf_counter()
        run()
        rates.append(peak_loop_flops(target, 1) / (time.perf_counter() - begin))
    expected = calibrate(target, 1, cache=tmp_path).machine.peak_flops(1)
    # A machine with other work does now this and now that: the order of magnitude is the point.
    assert expected / 4 < max(rates) < expected * 4


def test_it_is_open_to_any_case(tmp_path: Path) -> None:
    case = write_case(
        tmp_path / "m.onnx", small_model(), name="small", group="models", shapes={"x": (3, 6)}
    )
    for peak in (open_peak, open_fed_peak):
        opened = peak(Target.named("c99").name, case, 1, {})
        opened.run()
        assert opened.outputs() == ()
    assert all(isinstance(array, np.ndarray) for _, array in case.inputs)

"""TVM's tuner itself, where it is installed: its winners compute what the models compute."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import inf
from pathlib import Path

import pytest

from benchmarks.against_tvm import missing_packages
from benchmarks.tvm_engine import open_afresh, open_tvm
from benchmarks.tvm_operators import LAYOUTS, operator_of
from benchmarks.tvm_tuning import tuned_by_tvm
from tasor.peer_cases import write_case
from tasor.peers import Comparison
from tasor.suites.operators import Workload, build

TRIALS = 4

PRODUCT = Workload("product", "GMM", 1, (("k", 16), ("m", 24), ("n", 32)))
CONVOLUTION = Workload(
    "convolution",
    "C2D",
    1,
    (
        ("height", 8), ("in_channels", 16), ("kernel", 3), ("out_channels", 32), ("pad", 1),
        ("stride", 2), ("width", 8),
    ),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_packages()), reason="TVM is not installed")
def test_winners_compute_what_the_models_do(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as tvm_process:
        for number, workload in enumerate((PRODUCT, CONVOLUTION, CONVOLUTION)):
            folder = tmp_path / str(number)
            folder.mkdir()
            operator = operator_of(workload, LAYOUTS[number % 2])
            tuning = tvm_process.submit(tuned_by_tvm, operator, folder, TRIALS, 1, 0).result()
            assert tuning.kernel is not None
            assert [point.trials for point in tuning.points] == list(range(1, TRIALS + 1))
            assert min(point.best for point in tuning.points) < inf
            assert tuning.points[-1].seconds <= tuning.seconds
            case = write_case(folder / "m.onnx", build(workload), name="m", group="g")
            guests = {"tvm": partial(open_tvm, tuning.kernel), "ours": partial(open_afresh, {})}
            with Comparison(("onnxruntime",), 1, guests=guests) as comparison:
                row = comparison.measure(case, seconds=0.2, rounds=1)
            for engine in guests:
                timing = row.timing(engine)
                assert timing is not None, row.results
                assert timing.deviation is not None
                assert timing.deviation < 1e-5
                assert timing.in_c is not None

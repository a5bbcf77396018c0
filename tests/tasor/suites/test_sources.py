"""The suites: which cases they list, and what a case is when it is written."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from tasor.suites.sources import SUITES, sources

EVERY = re.compile("")


def test_suites_list_their_cases() -> None:
    assert len(sources("operators", (1,), EVERY)) == 52
    assert len(sources("operators", (1, 16), EVERY)) == 100
    assert len(sources("networks", (1,), EVERY)) == 10
    assert [source.name for source in sources("real", (1,), re.compile("^magika$"))] == ["magika"]


def test_an_unknown_suite_is_refused() -> None:
    with pytest.raises(ValueError, match=f"suite: expected one of {', '.join(SUITES)}, got 'vgg'"):
        sources("vgg", (1,), EVERY)


def test_a_source_writes_a_model_with_static_shapes(tmp_path: Path) -> None:
    (source,) = sources("operators", (1,), re.compile("^TBS0"))
    case = source.write(tmp_path / "m.onnx")
    assert case.shapes == {"q": (1, 128, 12, 64), "k": (1, 128, 12, 64)}
    assert case.group == "TBS batch 1"
    assert case.flops == 12 * 128 * 128 * (2 * 64 + 5)
    assert case.traffic == 4 * (2 * 128 * 12 * 64 + 12 * 128 * 128)
    onnx.checker.check_model(onnx.load(case.model), full_check=True)


def test_a_network_has_the_work_of_its_contractions(tmp_path: Path) -> None:
    (source,) = sources("networks", (1,), re.compile("^squeezenet$"))
    case = source.write(tmp_path / "m.onnx")
    assert case.group == "networks"
    assert case.flops == 698_303_872
    weights = sum(tensor.ByteSize() for tensor in onnx.load(case.model).graph.initializer)
    assert case.traffic == pytest.approx(weights + 4 * (3 * 224 * 224 + 1000), rel=0.01)

"""The cost of a call from Python: measured against C, and small."""

from __future__ import annotations

import pytest

from benchmarks.call_overhead import main, overhead, sums
from tensorgen.build import ToolMissing, find_compiler
from tensorgen.target import host_target

LIMIT = 4 * 10
"""Microseconds: the promise is 10 on a machine of its own, and tests share theirs."""


@pytest.fixture(autouse=True)
def _compiler() -> None:
    try:
        find_compiler(host_target())
    except ToolMissing as missing:
        pytest.skip(str(missing))


def test_a_call_from_python_costs_little_more_than_from_c() -> None:
    found = overhead(1)
    assert 0 < found.c < min(microseconds for _, microseconds in found.python)
    assert found.most < LIMIT


def test_models_have_the_ports_asked_for() -> None:
    graph = sums(3).graph
    assert (len(graph.input), len(graph.output)) == (6, 3)


def test_every_way_to_call_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--repeats", "1"]) == 0
    told = capsys.readouterr().out
    assert told.count(" us a call from C\n") == 2
    assert told.count("model.run_into(...)") == 2
    assert told.count("model.bind(...)()") == 2


def test_wrong_usage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--repeats", "0"])
    assert stopped.value.code == 64
    assert "call_overhead: " in capsys.readouterr().err

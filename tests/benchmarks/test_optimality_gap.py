"""The search against all graphs that its rules reach: no gap."""

from __future__ import annotations

import pytest

from benchmarks.optimality_gap import MOST_OPERATORS, Gap, gaps, main, random_network


def found(count: int, most_graphs: int) -> list[Gap]:
    return [item for item in gaps(count, most_graphs) if isinstance(item, Gap)]


def test_networks_are_small_and_drawn_from_their_seed() -> None:
    operators: set[str] = set()
    for seed in range(40):
        graph = random_network(seed)
        assert 4 <= len(graph.nodes) <= MOST_OPERATORS
        assert graph.digest == random_network(seed).digest
        operators.update(node.op.name for node in graph.nodes)
    assert {"matmul", "conv", "concat", "add", "mul", "max", "transpose", "slice"} <= operators


def test_no_gap_on_a_few_graphs() -> None:
    rows = found(4, 60)
    assert len(rows) == 4
    assert all(row.gap == 0.0 for row in rows), rows
    assert any(row.least < row.before for row in rows)
    assert all(row.reached >= 10 for row in rows)


@pytest.mark.slow
def test_no_gap_on_two_hundred_graphs() -> None:
    rows = found(200, 400)
    assert [row for row in rows if row.gap > 1e-9] == []


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--graphs", "0"])
    assert stopped.value.code == 64
    assert "expected a whole number of at least 1" in capsys.readouterr().err

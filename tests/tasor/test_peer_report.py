"""What a comparison reports: means, tables, JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from tasor.peer_markdown import markdown
from tasor.peer_report import (
    document,
    failure_lines,
    geometric_mean,
    group_means,
    summary,
    table,
)
from tasor.peers import Failure, Row, Timing
from tasor.roofline import Bandwidth, Ceiling

positive = st.floats(1e-3, 1e3)
CEILINGS = (Ceiling(1, 8e9, (Bandwidth("L1", 4e9), Bandwidth("memory", 1e9))),)


def timing(engine: str, milliseconds: float, deviation: float | None = None) -> Timing:
    return Timing(engine, milliseconds, milliseconds, milliseconds, 1, 0.0, deviation, quiet=True)


def row(group: str, ratio: float, threads: int = 1) -> Row:
    results = (timing("tasor", 1.0), timing("onnxruntime", ratio))
    return Row(f"case of {group}", group, threads, None, results)


def drawn(drawing: Table) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(drawing)
    return captured.get()


@given(st.lists(positive, min_size=1))
def test_geometric_mean_lies_between_and_inverts(values: list[float]) -> None:
    mean = geometric_mean(values)
    assert min(values) * (1 - 1e-9) <= mean <= max(values) * (1 + 1e-9)
    assert geometric_mean([1 / value for value in values]) == pytest.approx(1 / mean)


@pytest.mark.parametrize("values", [[], [0.0], [1.0, -1.0]])
def test_geometric_mean_of_nothing_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="geometric mean: expected positive numbers"):
        geometric_mean(values)


def test_means_per_group_and_thread_count() -> None:
    failed = Row("c", "b", 1, None, (Failure("tasor", "no"), timing("onnxruntime", 1.0)))
    means = group_means([row("b", 2.0), row("a", 1.0), row("a", 4.0), row("a", 3.0, 2), failed])
    assert means == pytest.approx(
        {("a", 1): 2.0, ("a", 2): 3.0, ("b", 1): 2.0, ("all", 1): 2.0, ("all", 2): 3.0}
    )
    assert list(means)[-2:] == [("all", 1), ("all", 2)]


def test_table_marks_wrong_and_unsteady_figures() -> None:
    unsteady = Timing("onnxruntime", 1.0, 0.9, 1.3, 9, 0.0, None, quiet=True)
    results = (timing("tasor", 0.5, 0.25), unsteady, Failure("openvino", "no"))
    text = drawn(table([Row("[red]case", "g", 1, None, results)], [r.engine for r in results]))
    assert "0.5 off by 0.2" in text
    assert "1 ~" in text
    assert "failed" in text
    assert "[red]case" in text
    assert "2.00" in text


def test_failures_say_who_where_and_why() -> None:
    failed = Row("c", "g", 2, None, (timing("tasor", 1.0), Failure("openvino", "no such op")))
    assert failure_lines([row("a", 1.0), failed]) == (
        "openvino failed on 'c' with 2 threads: no such op",
    )


@pytest.mark.parametrize("odd", [inf, nan])
def test_table_marks_a_deviation_that_is_no_number(odd: float) -> None:
    text = drawn(table([Row("c", "g", 1, None, (timing("tasor", 1.0, odd),))], ["tasor"]))
    assert "off by" in text


def test_summary_ends_with_all_groups() -> None:
    assert "1.414" in drawn(summary([row("a", 1.0), row("b", 2.0)]))


def test_document_is_json_and_complete() -> None:
    results = (timing("tasor", 1.0, inf), Failure("openvino", "no"))
    known = Row("c", "g", 1, 7_000, results, 14)
    content = document([row("a", 2.0), known], ["tasor"], {"rounds": 5}, CEILINGS)
    read = json.loads(json.dumps(content, allow_nan=False))
    assert read.keys() == {
        "machine",
        "versions",
        "settings",
        "ceilings",
        "rows",
        "geometric_means",
    }
    first, second = read["rows"]
    assert second["engines"]["openvino"] == {"failure": "no"}
    assert second["engines"]["tasor"]["deviation"] == "inf"
    assert (second["flops"], second["traffic_bytes"]) == (7_000, 14)
    assert second["flops_per_second"] == pytest.approx(7e6)
    assert second["share_of_peak"] == pytest.approx(7e6 / 8e9)
    assert (first["flops_per_second"], first["share_of_peak"]) == (None, None)
    assert read["ceilings"] == [
        {"threads": 1, "peak_flops": 8e9, "bandwidths": {"L1": 4e9, "memory": 1e9}}
    ]
    assert {"group": "a", "threads": 1, "ratio": 2.0} in read["geometric_means"]
    assert read["machine"]["cpus"] >= 1
    assert datetime.fromisoformat(read["machine"]["time"]).tzinfo is not None


def test_shares_of_the_peak_stand_in_the_table() -> None:
    results = (timing("tasor", 1.0), timing("onnxruntime", 2.0))
    rows = [
        Row("one", "g", 1, 6_000_000, results),
        Row("filtered", "g", 1, 10_000_000, results),
        Row("little", "g", 1, 100_000, results),
        Row("other threads", "g", 2, 6_000_000, results),
    ]
    text = drawn(table(rows, ["tasor", "onnxruntime"], CEILINGS))
    assert all(share in text for share in ("of peak", "75 %", "125 %", "1.2 %"))
    assert text.count("%") == 3
    assert "of peak" not in drawn(table(rows, ["tasor", "onnxruntime"]))
    assert "of fed peak" not in text


def test_shares_of_the_fed_peak_have_a_column_where_it_was_measured() -> None:
    engines = ["tasor", "onnxruntime"]
    row = Row("one", "g", 1, 6_000_000, (timing("tasor", 1.0), timing("onnxruntime", 2.0)))
    rows = [replace(row, peak=8e9, fed_peak=7.5e9), replace(row, case="two")]
    text = drawn(table(rows, engines))
    assert all(share in text for share in ("of peak", "of fed peak", "75 %", "80 %"))
    page = markdown(rows, engines, {})
    assert "| of peak | of fed peak |" in page
    assert "| 75 % | 80 % |" in page
    assert "|  |  |" in page
    content = document(rows, engines, {})
    [first, second] = json.loads(json.dumps(content))["rows"]
    assert (first["fed_peak_flops"], first["share_of_fed_peak"]) == (7.5e9, pytest.approx(0.8))
    assert (second["fed_peak_flops"], second["share_of_fed_peak"]) == (None, None)


def test_the_page_has_every_case_and_mean() -> None:
    engines = ["tasor", "onnxruntime"]
    failed = Row("a|b", "g", 2, None, (Failure("tasor", "no"), timing("onnxruntime", 1.5)))
    own = replace(timing("tasor", 2.5), in_c=2.0)
    fast = Row("fast", "g", 1, 8_000_000, (own, timing("onnxruntime", 5.0)))
    settings = {"suites": ["operators"], "seconds": 0.5}
    page = markdown([failed, fast], engines, settings, CEILINGS)
    assert "Settings: suites operators; seconds 0.5." in page
    assert "multiply-adds: 8 Gflop/s with 1 thread." in page
    assert "| g | 1 | 2.00 |" in page
    assert "| fast | 1 | 2.5 | 5 | 2.00 | 2 | 4 | 50 % |" in page
    assert "| a\\|b | 2 | failed | 1.5 |  |  |  |  |" in page
    assert "Measured peak" not in markdown([fast], engines, settings)


def tuned_row(group: str, ratio: float, gain: float) -> Row:
    results = (timing("tasor", 1.0), timing("tasor tuned", 1 / gain), timing("openvino", ratio))
    return Row(f"case of {group}", group, 1, None, results)


def test_a_tuned_engine_has_ratios_of_its_own() -> None:
    rows = [tuned_row("a", 2.0, 1.5), tuned_row("b", 0.5, 1.5)]
    engines = ("tasor", "tasor tuned", "openvino")
    text = drawn(table(rows, engines))
    assert "gain = tasor / tasor tuned" in text
    assert " ".join(text.split()).count("2.00 │ 3.00 │ 1.50") == 1
    assert "1.000 │       1.500 │ 1.500" in drawn(summary(rows))
    found = document(rows, engines, {})
    first = found["rows"][0]  # type: ignore[index]
    assert (first["ratio"], first["tuned_ratio"], first["gain"]) == (2.0, 3.0, 1.5)
    means = found["geometric_means"][-1]  # type: ignore[index]
    assert means["group"] == "all"
    assert [means[name] for name in ("ratio", "tuned_ratio", "gain")] == pytest.approx(
        [1.0, 1.5, 1.5]
    )
    page = markdown(rows, engines, {"trials": 8})
    assert "| all | 1 | 1.00 | 1.50 | 1.50 |" in page
    assert "| case of a | 1 | 1 | 0.6667 | 2 | 2.00 | 3.00 | 1.50 |" in page
    lines = [line for line in page.splitlines() if line.startswith("| case")]
    assert len({line.count("|") for line in lines}) == 1
    assert "gain" not in drawn(table([row("a", 2.0)], engines))

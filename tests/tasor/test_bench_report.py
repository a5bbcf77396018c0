"""The page on a comparison: whole, escaped, self-contained."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from xml.etree import ElementTree

from tasor.bench_report import bench_page
from tasor.peers import Failure, Row
from tests.tasor.measured_rows import CEILINGS, ENGINES, row, sample_rows, timing

HOSTILE = "</title><script>document.title='owned'</script>\"'&\u202e\x1b[31m"
SETTINGS = {"suites": ["operators", "x.onnx"], "seconds": 0.5}


def page_of(*rows: Row) -> str:
    return bench_page(rows, ENGINES, SETTINGS, CEILINGS)


def text_of(page: str) -> str:
    """What a reader sees, one space between words."""
    body = page[page.index("<body>") : page.index("<script>")]
    return " ".join(unescape(re.sub(r"<title>.*?</title>|<[^>]+>", " ", body)).split())


def test_it_says_what_was_measured_and_how() -> None:
    text = text_of(page_of(*sample_rows()))
    for said in (
        "Tasor beside ONNX Runtime and OpenVINO",
        "Suites operators, x.onnx",
        "Seconds 0.5",
        "Threads 1, 2 of",
        "Processor",
        "What is not claimed",
    ):
        assert said in text, said
    assert re.search(r"Measured \d{4}-\d\d-\d\d \d\d:\d\d UTC", text)


def test_figures_at_the_top() -> None:
    text = text_of(page_of(*sample_rows()))
    # Of 2, 1.01, 0.5, 2.4, 1.5 and 2.
    assert "1.39 x as fast as the best peer, geometric mean, 1 thread" in text
    assert "5 of 6 cases at least as fast" in text
    assert "2.40 x best case, filtered" in text
    assert "0.50 x worst case, slow" in text
    assert "250 % of the measured peak, filtered, with fewer operations than are counted" in text
    assert "1 failed, 1 thread" in text
    assert "1.83 x as fast as the best peer, geometric mean, 2 threads" in text


def test_every_case_has_its_figures() -> None:
    text = text_of(page_of(*sample_rows()))
    assert "fast convolution 1 2.00 3.8 x 1 2 7.5 90 90 % 90" in text
    assert "slow softmax 1 0.50 2 1 1.5 5 5.0 % 0.625" in text
    assert "filtered convolution 1 2.40 1 2.5 2.4 250 250 % 278" in text
    assert "fast convolution 2 1.83 0.6 1.1 1.2 150 75 % 90" in text
    assert "wrong models 1 1.50 1 off by inf 1.5 failed" in text
    assert "shaky models 1 2.00 1 2 3 ~" in text
    assert "openvino failed on 'wrong' with 1 thread: no such operator" in text


def test_groups_come_with_their_means_and_all_of_them_last() -> None:
    page = page_of(*sample_rows())
    table = page[page.index('<table class="groups">') :]
    names = re.findall(r'<th scope="row">([^<]*)</th>', table[: table.index("</table>")])
    assert names == ["convolution", "models", "softmax", "all groups"]
    assert 'aria-label="geometric means, 1 thread: 1.69, 2 threads: 1.83"' in table


def test_one_plot_for_each_number_of_threads_with_the_cases_whose_work_is_known() -> None:
    page = page_of(*sample_rows())
    labels = re.findall(r'class="roofline" viewBox="[^"]*" role="img" aria-label="([^"]*)"', page)
    assert labels == [
        "Roofline, 1 thread; cases: 4; peak: 100 Gflop/s",
        "Roofline, 2 threads; cases: 1; peak: 200 Gflop/s",
    ]
    assert "slow, 1 thread: 5 Gflop/s, 5.0 % of the peak, at 0.625 flop/byte, 0.50 x" in page


def test_every_drawing_is_well_formed() -> None:
    drawings = re.findall(r"<svg.*?</svg>", page_of(*sample_rows()), re.DOTALL)
    assert len(drawings) > 15
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_a_fed_peak_has_a_column_of_shares() -> None:
    plain = row("plain", 2.0, 3.0, flops=90_000_000)
    fed = replace(row("fed", 1.0, 2.0, flops=90_000_000), fed_peak=120e9)
    assert "fed peak" not in text_of(page_of(plain))
    text = text_of(page_of(fed, plain))
    assert "of peak of fed peak" in text
    assert "The fed peak is that of a tile" in text
    # Gflop/s, of 100, of 120; nothing is known of the other case.
    assert "90 90 % 75 %" in text
    assert "45 45 %" in text


def test_it_is_made_without_ceilings_and_without_peers() -> None:
    page = bench_page((row("alone", 2.0, flops=8),), ("tasor",), {})
    assert "Tasor, measured" in page
    assert "Roofline" not in page
    assert "of peak" not in page
    assert "Ratios by group" not in page


def test_it_is_made_where_everything_failed() -> None:
    failed = tuple(Failure(engine, "no") for engine in ENGINES)
    page = page_of(Row("x", "g", 1, None, failed, None))
    assert "3</b><span>failed, 1 thread" in page
    assert page.count("<li>") == 3 + 6


def test_a_fourth_engine_is_named_and_said_to_be_eager() -> None:
    results = (timing("tasor", 1.0), timing("torch", 3.0))
    page = bench_page((Row("x", "g", 1, None, results, None),), ("tasor", "torch"), {})
    assert "Tasor beside PyTorch" in page
    assert "eagerly, call by call" in page
    assert "eagerly, call by call" not in page_of(*sample_rows())


def test_tasor_as_tuned_is_another_engine_and_no_peer() -> None:
    results = (timing("tasor", 1.0), timing("tasor tuned", 0.5), timing("onnxruntime", 2.0))
    engines = ("tasor", "tasor tuned", "onnxruntime")
    page = bench_page((Row("x", "g", 1, None, results, None),), engines, {"trials": 64})
    assert "<title>Tasor beside ONNX Runtime</title>" in page
    assert "4.00 x</b><span>as fast as the best peer as tuned, geometric mean, 1 thread" in page
    assert "2.00 x</b><span>as fast tuned as with zero trials" in page
    assert 'aria-label="Tasor 0.50, Tasor tuned 0.25, ONNX Runtime 1.00 times' in page
    assert 'class="engine-tuned"' in page
    assert 'data-value="4">4.00</td><td class="number" data-value="2">2.00</td>' in page
    assert "tuned" not in page_of(*sample_rows()).replace("--tuned", "").replace("-tuned", "")


def test_text_from_outside_is_text_only() -> None:
    hostile = Row(
        HOSTILE, HOSTILE, 1, 8_000_000,
        (timing("tasor", 1.0), timing("onnxruntime", 2.0), Failure("openvino", HOSTILE)), 1_000,
    )  # fmt: skip
    page = bench_page((hostile,), ENGINES, {"suites": [HOSTILE]}, CEILINGS)
    assert page.count("<script") == 1
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;/title&gt;" in page


def test_it_loads_nothing() -> None:
    page = page_of(*sample_rows())
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=|url\(|@import|https?://", page)
    assert not re.search(r'\sstyle="', page)

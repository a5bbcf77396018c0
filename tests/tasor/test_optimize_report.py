"""The report page on an optimization: whole, escaped, self-contained, and opened in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

import tasor
from tasor.optimize_report import report_page
from tests.browser import Browser
from tests.tasor.small_models import small_model
from tests.tasor.test_optimize_search import pretend, two_products_model

HOSTILE = "</title><script>document.title='owned'</script>\"'&\u202e\x1b[31m"


def page_of(monkeypatch: pytest.MonkeyPatch, slower: bool = False, name: str = "x") -> str:
    pretend(monkeypatch, 1.0, 2.0 if slower else 0.5)
    model = tasor.optimize(two_products_model(32, name, f"{name} out"), threads=1)
    return report_page(model, name)


def test_it_says_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    page = page_of(monkeypatch)
    for text in (
        "matmul-factor-right[add]",
        "What the search changed",
        "2.000 x",
        "as fast by the search, predicted",
        "as fast by the search, measured",
        "largest difference to the model",
        "largest difference in float64",
        "Kernels that came and went",
        "every graph within reach of alpha was tried",
        "1 application passed the spot check",
        "What is not claimed",
    ):
        assert text in page, text
    assert page.count("<svg") == 4


def test_it_says_that_a_slower_graph_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    page = page_of(monkeypatch, slower=True)
    assert "dropped: the graph measures slower than without it" in page
    assert "What the search tried, and dropped" in page


def test_it_is_made_without_a_search() -> None:
    page = report_page(tasor.optimize(small_model(), shapes={"x": (2, 6)}, search=False))
    assert "The search was left out." in page
    assert "<script" not in page


def test_names_are_text_only(monkeypatch: pytest.MonkeyPatch) -> None:
    page = page_of(monkeypatch, name=HOSTILE)
    assert "<script" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;/title&gt;" in page


def test_it_opens_in_a_browser(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of(monkeypatch, name=HOSTILE), encoding="utf-8")
    for width, dark in ((400, False), (1280, True)):
        page = browser.open(path, width=width, dark=dark)
        assert page.errors == []
        assert page.requests == []
        assert page.evaluate("document.title").startswith("Optimization of </title>")
        assert page.evaluate("document.querySelectorAll('svg.graph').length") == 4
        assert page.evaluate("document.querySelectorAll('svg .marked').length") >= 2
        # Nothing but the framed drawings and tables may be wider than the page.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

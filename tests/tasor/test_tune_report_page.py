"""The page on tuning in a real browser: runs clean, fits the screen, sorts and filters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasor.tune_report import tune_page
from tasor.tune_request import TuneRequest
from tests.browser import Browser
from tests.tasor.tuned_results import SETTINGS, sample_result

ROWS = """
[...document.querySelectorAll('table.rows tbody tr')].filter((e) => e.checkVisibility())
  .map((e) => e.cells[0].firstChild.textContent.trim())
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(tune_page(sample_result(), SETTINGS, TuneRequest(16)), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_runs_clean_and_fits_the_screen(
    browser: Browser, report: Path, width: int, dark: bool
) -> None:
    page = browser.open(report, width=width, dark=dark)
    assert page.errors == []
    assert page.requests == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(ROWS) == ["first", "second", "unmeasured"]
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg.latency')].map((e) => {"
        "const r = e.getBoundingClientRect(); return [r.width, r.height]; })"
    )
    assert len(sizes) == 4
    assert all(w > 150 and h > 90 for w, h in sizes)


def test_buttons_choose_kernels_and_columns_sort_them(browser: Browser, report: Path) -> None:
    page = browser.open(report)
    for kind, names in (
        ("tuned", ["first"]),
        ("usual", ["second", "unmeasured"]),
        ("failing", ["first"]),
        ("all", ["first", "second", "unmeasured"]),
    ):
        page.evaluate(f"document.querySelector('button[data-kind={kind}]').click()")
        assert page.evaluate(ROWS) == names
        told = f"{len(names)} of 3 kernels"
        assert page.evaluate("document.querySelector('output').value") == told
    page.evaluate("document.querySelectorAll('table.rows thead button')[4].click()")
    # What is not known stays at the end.
    assert page.evaluate(ROWS) == ["second", "first", "unmeasured"]

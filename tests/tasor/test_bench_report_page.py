"""The page on a comparison in a real browser: runs clean, fits the screen, sorts and filters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasor.bench_report import bench_page
from tests.browser import Browser, Page
from tests.tasor.measured_rows import CEILINGS, ENGINES, sample_rows

ROWS = """
[...document.querySelectorAll('table.cases tbody tr')].filter((e) => e.checkVisibility())
  .map((e) => `${e.cells[0].firstChild.textContent}-${e.cells[1].textContent}`)
"""
NAMES = ["fast-1", "even-1", "slow-1", "filtered-1", "fast-2", "wrong-1", "shaky-1"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    page = bench_page(sample_rows(), ENGINES, {"suites": ["operators"]}, CEILINGS)
    path.write_text(page, encoding="utf-8")
    return path


def press(page: Page, selector: str) -> None:
    page.evaluate(f"document.querySelector({selector!r}).click()")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_runs_clean_and_fits_the_screen(
    browser: Browser, report: Path, width: int, dark: bool
) -> None:
    page = browser.open(report, width=width, dark=dark)
    assert page.errors == []
    assert page.requests == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(ROWS) == NAMES


def test_drawings_have_a_size(browser: Browser, report: Path) -> None:
    page = browser.open(report)
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg:not(.key):not(.roofline-key)')].map((e) => {"
        "const r = e.getBoundingClientRect(); return [r.width, r.height]; })"
    )
    assert len(sizes) == 2 + 2 + 4 + 7
    assert all(width > 100 and height >= 14 for width, height in sizes)


def test_bars_end_where_their_times_say(browser: Browser, report: Path) -> None:
    page = browser.open(report)
    shares = page.evaluate(
        "(() => { const s = document.querySelector('tbody svg.bars');"
        "const one = s.querySelector('.one').getBoundingClientRect().left;"
        "const from = s.getBoundingClientRect().left;"
        "return [...s.querySelectorAll('rect')].map("
        "(r) => r.getBoundingClientRect().width / (one - from)); })()"
    )
    assert shares == pytest.approx([0.5, 1.0, 2.0], rel=0.03)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("all", NAMES),
        ("threads-2", ["fast-2"]),
        ("slower", ["slow-1"]),
        ("even", ["even-1"]),
        ("faster", ["fast-1", "filtered-1", "fast-2", "wrong-1", "shaky-1"]),
    ],
)
def test_buttons_choose_cases(
    browser: Browser, report: Path, kind: str, expected: list[str]
) -> None:
    page = browser.open(report)
    press(page, f"button[data-kind={kind}]")
    assert page.evaluate(ROWS) == expected
    assert page.evaluate("document.querySelector('output').value") == f"{len(expected)} of 7 cases"


def test_the_search_reads_cases_and_groups(browser: Browser, report: Path) -> None:
    page = browser.open(report)
    page.evaluate(
        "(() => { const e = document.querySelector('input[type=search]'); e.value = 'CONV fa';"
        "e.dispatchEvent(new Event('input')); })()"
    )
    assert page.evaluate(ROWS) == ["fast-1", "fast-2"]


@pytest.mark.parametrize(
    ("column", "rising", "falling"),
    [
        # Equal ones keep the order of the page.
        (
            "case",
            ["even-1", "fast-1", "fast-2", "filtered-1", "shaky-1", "slow-1", "wrong-1"],
            ["wrong-1", "slow-1", "shaky-1", "filtered-1", "fast-1", "fast-2", "even-1"],
        ),
        (
            "ratio",
            ["slow-1", "even-1", "wrong-1", "fast-2", "fast-1", "shaky-1", "filtered-1"],
            ["filtered-1", "fast-1", "shaky-1", "fast-2", "wrong-1", "even-1", "slow-1"],
        ),
        # What is not known stays at the end.
        (
            "of peak",
            ["slow-1", "fast-2", "even-1", "fast-1", "filtered-1", "wrong-1", "shaky-1"],
            ["filtered-1", "fast-1", "even-1", "fast-2", "slow-1", "wrong-1", "shaky-1"],
        ),
    ],
)
def test_columns_sort_both_ways(
    browser: Browser, report: Path, column: str, rising: list[str], falling: list[str]
) -> None:
    page = browser.open(report)
    header = (
        "[...document.querySelectorAll('table.cases thead th')]"
        f".find((e) => e.textContent === {column!r})"
    )
    for direction, expected in (("ascending", rising), ("descending", falling)):
        page.evaluate(f"{header}.querySelector('button').click()")
        assert page.evaluate(ROWS) == expected
        assert page.evaluate(f"{header}.ariaSort") == direction
        assert page.evaluate("document.querySelectorAll('[aria-sort]').length") == 1


def test_is_complete_without_scripts_and_on_paper(browser: Browser, report: Path) -> None:
    for page in (browser.open(report, scripts=False), browser.open(report, media="print")):
        assert page.errors == []
        assert page.evaluate(ROWS) == NAMES
        assert page.evaluate("document.querySelector('.filters').checkVisibility()") is False

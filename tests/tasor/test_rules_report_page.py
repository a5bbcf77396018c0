"""The report on an audit in a real browser: runs clean, shows everything, filters work."""

from __future__ import annotations

import copy
import time
from pathlib import Path

import pytest

from tasor.rules_report import report_html
from tests.browser import Browser, Page
from tests.tasor.audit_sample import GUARDED, JOIN, OPEN, WRONG, sample_audit

VISIBLE = """
[...document.querySelectorAll('{selector}')]
  .filter((e) => e.checkVisibility({{contentVisibilityAuto: false}}))
  .map((e) => e.querySelector('a').textContent)
"""
ROWS = VISIBLE.format(selector="table.rules tbody tr")
SECTIONS = VISIBLE.format(selector="section.rule")
NAMES = ["matmul-join", "conv-split", "sub-commutes", "softmax-shift"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report_html(sample_audit()), encoding="utf-8")
    return path


def press(page: Page, kind: str) -> None:
    page.evaluate(f"document.querySelector('button[data-kind={kind}]').click()")


def sections(page: Page) -> list[str]:
    found: list[str] = page.evaluate(SECTIONS)
    return [name.split(". ", 1)[1] for name in found]


def test_runs_clean_and_asks_the_network_for_nothing(browser: Browser, report: Path) -> None:
    page = browser.open(report)
    assert page.errors == []
    assert page.requests == []


def test_every_rule_and_drawing_is_visible(browser: Browser, report: Path) -> None:
    page = browser.open(report)
    assert page.evaluate(ROWS) == NAMES
    assert sections(page) == NAMES
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg')].map((e) => {"
        "e.scrollIntoView(); const r = e.getBoundingClientRect(); return [r.width, r.height]; })"
    )
    assert len(sizes) == 8
    assert all(width > 50 and height > 50 for width, height in sizes)


def test_labels_lie_inside_their_boxes(browser: Browser, report: Path) -> None:
    page = browser.open(report)
    outside = page.evaluate(
        "[...document.querySelectorAll('svg g')].filter((g) => {"
        "g.scrollIntoView(); const r = g.querySelector('rect').getBoundingClientRect();"
        "return [...g.querySelectorAll('text')].some((t) => {"
        "const b = t.getBoundingClientRect(); return b.left < r.left || b.right > r.right; });"
        "}).length"
    )
    assert outside == 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("all", NAMES),
        ("proved", ["matmul-join", "conv-split"]),
        ("guarded", ["conv-split"]),
        ("refuted", ["sub-commutes"]),
        ("unknown", ["softmax-shift"]),
    ],
)
def test_filters_show_one_verdict(
    browser: Browser, report: Path, kind: str, expected: list[str]
) -> None:
    page = browser.open(report)
    press(page, kind)
    assert page.evaluate(ROWS) == expected
    assert sections(page) == expected
    assert page.evaluate("document.querySelector('output').value") == f"{len(expected)} of 4 rules"
    pressed = (
        "[...document.querySelectorAll('button[aria-pressed=true]')].map((b) => b.dataset.kind)"
    )
    assert page.evaluate(pressed) == [kind]


def test_the_search_narrows_what_is_shown(browser: Browser, report: Path) -> None:
    page = browser.open(report)

    def search(words: str) -> None:
        page.evaluate(
            "(() => { const e = document.querySelector('input[type=search]'); "
            f"e.value = {words!r}; e.dispatchEvent(new Event('input')); }})()"
        )

    search("MATMUL  concat")
    assert sections(page) == ["matmul-join", "conv-split", "softmax-shift"]
    press(page, "unknown")
    assert sections(page) == ["softmax-shift"]
    search("no such rule")
    assert sections(page) == []
    press(page, "all")
    search("")
    assert sections(page) == NAMES


def test_is_complete_without_scripts(browser: Browser, report: Path) -> None:
    page = browser.open(report, scripts=False)
    assert page.errors == []
    assert page.evaluate(ROWS) == NAMES
    assert sections(page) == NAMES
    assert page.evaluate("document.querySelector('.filters').checkVisibility()") is False


def test_proofs_open(browser: Browser, report: Path) -> None:
    page = browser.open(report)
    assert page.evaluate("document.querySelector('.case').checkVisibility()") is False
    page.evaluate("document.querySelector('summary').click()")
    assert page.evaluate("document.querySelector('.case').checkVisibility()") is True


@pytest.mark.parametrize("width", [360, 820, 1600])
def test_nothing_but_tables_and_drawings_is_wider_than_the_window(
    browser: Browser, report: Path, width: int
) -> None:
    page = browser.open(report, width=width)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


CONTRAST = """
(() => {
  const channel = (v) => (v /= 255, v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => {
    const [r, g, b] = rgb.match(/[\\d.]+/g).map(Number).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (e) => {
    const c = getComputedStyle(e).backgroundColor;
    return c === 'rgba(0, 0, 0, 0)' && e.parentElement ? ground(e.parentElement) : c;
  };
  const low = [];
  const kinds = 'h1, h2, p, li, b, span, a, td, th, code, button, summary';
  for (const e of document.querySelectorAll(kinds)) {
    const pair = [light(getComputedStyle(e).color), light(ground(e))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) low.push([e.tagName, e.className, ratio]);
  }
  return low;
})()
"""


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable_in_light_and_dark(browser: Browser, report: Path, dark: bool) -> None:
    page = browser.open(report, dark=dark)
    assert page.evaluate(CONTRAST) == []


def test_prints_without_controls_and_within_the_page(browser: Browser, report: Path) -> None:
    page = browser.open(report, width=700, media="print")
    assert page.evaluate("document.querySelector('.filters').checkVisibility()") is False
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert page.evaluate(
        "getComputedStyle(document.querySelector('section')).contentVisibility"
    ) == ("visible")


def test_a_page_of_six_hundred_rules_opens_in_seconds(browser: Browser, tmp_path: Path) -> None:
    rules = []
    for number in range(600):
        rule = copy.deepcopy((JOIN, GUARDED, WRONG, OPEN)[number % 4])
        if rule["certificate"] is not None:
            rule["certificate"]["cases"] *= 20
        rule["name"] = f"rule-{number}"
        rules.append(rule)
    path = tmp_path / "report.html"
    path.write_text(report_html(sample_audit(*rules)), encoding="utf-8")
    start = time.perf_counter()
    page = browser.open(path)
    press(page, "refuted")
    assert len(page.evaluate(ROWS)) == 150
    assert time.perf_counter() - start < 20, "two seconds where nothing else runs"
    assert page.errors == []

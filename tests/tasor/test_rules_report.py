"""The report on an audit as text: complete, escaped, cut where proofs are long."""

from __future__ import annotations

import copy
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from tasor.audit_views import rule_view
from tasor.certificate_text import case_texts, form_text
from tasor.rules_report import report_files, report_html, report_markdown, summary_line
from tests.tasor.audit_sample import GUARDED, HOSTILE, JOIN, OPEN, QUESTION, WRONG, sample_audit

VOID = {"meta", "input", "br", "hr", "link", "img"}


class Tree(HTMLParser):
    """Checks that tags nest; collects tags, attributes and text outside script and style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.stack):
            self.text.append(data)

    def count(self, tag: str, **attributes: str) -> int:
        return sum(
            name == tag and all(found.get(key) == value for key, value in attributes.items())
            for name, found in self.tags
        )


@pytest.fixture(scope="module")
def page() -> str:
    return report_html(sample_audit())


def test_every_rule_has_a_row_a_section_and_two_drawings(page: str) -> None:
    tree = Tree(page)
    assert tree.count("section", **{"class": "rule"}) == 4
    assert tree.count("svg") == 8
    for number, name in enumerate(("matmul-join", "conv-split", "sub-commutes", "softmax-shift")):
        assert tree.count("section", id=f"rule-{number}") == 1
        assert tree.count("a", href=f"#rule-{number}") == 2
        assert name in page


def test_the_page_is_made_of_nothing_but_its_own_tags(page: str) -> None:
    tree = Tree(page)
    assert tree.count("script") == 1
    text = "".join(tree.text)
    assert HOSTILE.replace("\x1b", "?") in text
    assert "<script>alert" not in page
    assert "\x1b" not in page


def test_the_page_loads_nothing(page: str) -> None:
    tree = Tree(page)
    for tag, attributes in tree.tags:
        assert "src" not in attributes
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        if "href" in attributes:
            assert (attributes["href"] or "").startswith("#"), tag
    assert not re.search(r"url\(|@import", page)
    policy = next(a["content"] for t, a in tree.tags if a.get("http-equiv") is not None)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_says_what_a_stranger_has_to_know(page: str) -> None:
    text = " ".join("".join(Tree(page).text).split())
    for part in (
        "Which rewrite rules are true?",
        "What is trusted the meanings of operators",
        "What is not claimed floating-point rounding, overflow and NaN",
        "2 proved for all sizes",
        "1 refuted",
        "same_shape(x, y) inferred",
        "rank(2, x) written in the rule",
        "Assumed: n4 = n1, -1+n0 >= 0, n2 != 0",
        "sum over k1 where n1-1-k1 >= 0, n2-1-i1 >= 0 of x[i0, k1] * y[k1, i1]",
        "-1/2 * exp(z[0, i1]^2)^-1",
        "max{all over k2 where n1-1-k2 >= 0 of (n0); 0}",
        "Element [i0, i1] of [n0, n2+n3]; relies on question 2",
        "In 2 ways to apply the source the target is undefined",
        "Ranks: plain 1, 2, spatial 1, longest sequence 2.",
        "Solver time 4.0 ms",
        "The source gives 2, the target -2 at [1, 0, 2].",
        "by equations alone, instances of concat-associates, matmul-over-concat.",
        "1 derivation, one for each kind of case",
        "(matmul x (concat y z)) = (concat (matmul x y) (matmul x z))",
        "Why no verdict: the solver gave no answer",
        "Audited in 0.5 s with tasor 0.1.0, z3 4.13.0.",
    ):
        assert part in text, part


def test_the_first_difference_is_marked_on_both_sides(page: str) -> None:
    tree = Tree(page)
    assert tree.count("td", **{"class": "differs first"}) == 2
    assert tree.count("td", **{"class": "differs"}) == 2


def test_the_json_is_the_audit() -> None:
    audit = sample_audit()
    assert json.loads(report_files(audit)["report.json"]) == audit


def test_the_same_audit_gives_the_same_files() -> None:
    assert report_files(sample_audit()) == report_files(sample_audit())


def many_cases(count: int) -> dict[str, Any]:
    rule = copy.deepcopy(JOIN)
    (case,) = rule["certificate"]["cases"]
    rule["certificate"]["cases"] = [copy.deepcopy(case) for _ in range(count)]
    for number, case in enumerate(rule["certificate"]["cases"]):
        case["results"][0]["obligations"] = [f"; {number}\n{QUESTION}"]
    rule["cases"] = rule["obligations"] = count
    return rule


def test_long_proofs_are_cut_and_say_so() -> None:
    view = rule_view(many_cases(500), 0, 20_000)
    assert view.proof is not None
    assert 1 <= len(view.proof.cases) < 100
    left = 500 - len(view.proof.cases)
    assert view.proof.cases_left_out == f"{left} more cases in report.json."
    assert view.proof.cases_heading.startswith("500 cases")
    assert view.proof.obligations_heading.startswith("501 questions")
    assert len(view.proof.obligations) < 501
    page = report_html(sample_audit(many_cases(3000)))
    assert "more cases in report.json." in page
    assert "more questions in report.json." in page


def test_many_rules_make_a_page_of_bounded_size() -> None:
    audit = sample_audit(many_cases(60))
    audit["rules"] *= 600
    assert len(report_html(audit)) < 20_000_000


def test_long_derivations_from_axioms_are_cut_and_say_so() -> None:
    rule = copy.deepcopy(JOIN)
    rule["axioms"]["proofs"] *= 400
    view = rule_view(rule, 0, 5_000).axioms
    assert view is not None
    assert 1 <= len(view.derivations) < 400
    assert view.left_out == f"{400 - len(view.derivations)} more derivations in report.json."
    rule["axioms"] = {"axioms": [], "proofs": [], "excluded": []}
    same = rule_view(rule, 0, 5_000).axioms
    assert same is not None
    assert same.summary == "Both sides are the same term."


def test_one_case_is_shown_however_long_it_is() -> None:
    view = rule_view(JOIN, 0, 1)
    assert view.proof is not None
    assert len(view.proof.cases) == 1
    assert view.proof.cases_left_out == ""


def test_a_question_asked_twice_has_one_number() -> None:
    rule = many_cases(3)
    for case in rule["certificate"]["cases"]:
        case["results"][0]["obligations"] = [QUESTION, QUESTION]
    proof = rule_view(rule, 0, 100_000).proof
    assert proof is not None
    assert [comparison.obligations for case in proof.cases for comparison in case.comparisons] == [
        (2, 2)
    ] * 3
    assert proof.obligations == ((1, "(check-sat)"), (2, QUESTION))


def test_a_rule_without_graphs_certificate_or_numbers_is_shown() -> None:
    rule = {
        "name": "taso-001", "text": "taso-001", "verdict": "unknown", "reason": "a depthwise one",
        "graphs": None, "certificate": None, "counterexample": None, "guards": None,
        "inferred": None, "axioms": None, "cases": None, "obligations": None,
    }  # fmt: skip
    audit = sample_audit()
    audit["rules"] = [rule]
    tree = Tree(report_html(audit))
    assert "Why no verdict: a depthwise one" in "".join(tree.text)


def test_a_counterexample_of_text_alone_is_shown() -> None:
    rule = {**WRONG, "counterexample": {"text": "x = 1 gives\n  2   3"}}
    assert "x = 1 gives\n  2   3" in "".join(Tree(report_html(sample_audit(rule))).text)


def test_large_counterexamples_show_the_place_of_the_difference() -> None:
    rows, columns = 40, 50
    elements = [str(n) for n in range(rows * columns)]
    changed = [*elements]
    changed[33 * columns + 44] = "-1"
    kind = {"type": "int64", "shape": [rows, columns]}
    rule = copy.deepcopy(WRONG)
    rule["counterexample"] = {
        "text": "",
        "tensors": {"x": {**kind, "elements": elements}},
        "parameters": {f"p{n}": n for n in range(60)},
        "results": [
            {"source": {**kind, "elements": elements}, "target": {**kind, "elements": changed}}
        ],
        "difference": {"result": 0, "index": [33, 44], "source": "1694", "target": "-1"},
    }
    shown = rule_view(rule, 0, 1000).counterexample
    assert shown is not None
    source, target = shown.sides
    assert len(source.rows) == len(source.rows[0]) == 12
    assert [c.text for row in source.rows for c in row if c.kind == "differs first"] == ["1694"]
    assert [c.text for row in target.rows for c in row if c.kind] == ["-1"]
    assert shown.names[0] == ("x", "int64[40, 50] of 2000 elements")
    assert shown.names[-1] == ("…", "and 22 more")


@pytest.mark.parametrize(("shape", "index"), [([], []), ([3], [2]), ([1, 1], [0, 0])])
def test_counterexamples_of_any_rank(shape: list[int], index: list[int]) -> None:
    count = max([1, *shape])
    kind = {"type": "float32", "shape": shape}
    rule = copy.deepcopy(WRONG)
    rule["counterexample"]["results"] = [
        {
            "source": {**kind, "elements": ["0"] * (count - 1) + ["1"]},
            "target": {**kind, "elements": ["0"] * (count - 1) + ["2"]},
        }
    ]
    rule["counterexample"]["difference"] |= {"index": index}
    shown = rule_view(rule, 0, 1000).counterexample
    assert shown is not None
    assert shown.sides[1].rows[-1][-1].text == "2"
    assert shown.sides[1].rows[-1][-1].kind == "differs first"


# Markdown


def test_markdown_has_a_row_for_each_rule_and_the_counterexamples() -> None:
    text = report_markdown(sample_audit())
    rows = [line for line in text.splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(rows) == 4
    assert rows[1] == "| 1 | conv-split | proved | same\\_shape(x, y) | 1 | 1 | 12.3 |"
    assert "4 rules: 2 proved (1 of them with inferred guards), 1 refuted, 1 unknown" in text
    assert "sub-commutes is false for" in text
    assert "## Not claimed\n\n- floating-point rounding" in text
    assert "\x1b" not in text


def test_markdown_escapes_what_is_not_ours() -> None:
    audit = sample_audit(OPEN)
    audit["rules"][0]["name"] = "a | b <img> [c](d) `e`"
    text = report_markdown(audit)
    row = next(line for line in text.splitlines() if line.startswith("| 0 |"))
    assert row.startswith("| 0 | a \\| b \\<img\\> \\[c\\](d) \\`e\\` | unknown |")


def test_no_line_of_a_text_ends_its_fence() -> None:
    text = report_markdown(sample_audit(WRONG))
    (fence,) = {line for line in text.splitlines() if re.fullmatch("`{5,}", line)}
    assert text.count(f"\n{fence}\n") == 2


def test_summary() -> None:
    assert summary_line(sample_audit(JOIN, GUARDED)["summary"]) == (
        "2 rules: 2 proved (1 of them with inferred guards), 0 refuted, 0 unknown"
    )


# Certificates as text


def test_forms_read_like_mathematics() -> None:
    assert form_text([]) == "0"
    assert form_text([{}]) == "1"
    assert form_text([{"times": "-1"}]) == "-1"
    assert form_text([{"times": "3", "of": [[{"x": 0, "at": ["i0"]}, 1]]}], ["x"]) == "3 * x[i0]"
    assert form_text([{"where": ["i0 == 0"], "of": [[{"x": 7}, 1]]}]) == "[i0 == 0] operand 7[]"
    two: list[dict[str, Any]] = [
        {"times": "-1", "of": [[{"x": 0, "at": ["_0_"]}, 1]], "over": ["_0_"]},
        {"times": "2"},
    ]
    assert form_text(two, ["x"]) == "sum over k1 of -x[k1] + 2"
    least: dict[str, Any] = {
        "min": [{"value": [{}]}, {"over": ["b"], "value": [{"of": [[{"number": "b"}, 1]]}]}]
    }
    assert form_text([{"of": [[least, 1]]}]) == "min{1; all over k1 of (k1)}"


def test_operands_without_names_are_numbered() -> None:
    certificate = copy.deepcopy(JOIN["certificate"])
    certificate["cases"][0]["inputs"].append("float32[n9]")
    (case,) = case_texts(certificate)
    assert "operand 0[i0, k1] * operand 1[k1, i1]" in case.comparisons[0].rows[0].source


def test_equal_forms_of_nothing_are_shown_as_zero() -> None:
    certificate = copy.deepcopy(JOIN["certificate"])
    certificate["cases"][0]["results"] = [{"axes": [], "source": [], "target": []}]
    (case,) = case_texts(certificate)
    (row,) = case.comparisons[0].rows
    assert (row.source, row.target, row.paired) == ("0", "0", True)

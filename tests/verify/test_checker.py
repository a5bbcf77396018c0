"""The checker accepts what was proved and refuses every edit of it."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import verify
from graphopt.rules import read_rules
from tests.verify.certificates import OBLIGATION, RULES, by_hand, edited, proved
from verify.checker import Accepted, Effort, Rejected, check

Json = Any
Edit = Callable[[Json], object]

QUICK = Effort(points=2, elements=4, instances=10)
THOROUGH = Effort(points=4, elements=12, instances=10)


def rejected(text: str, effort: Effort = QUICK) -> Rejected:
    found = check(text, effort)
    assert isinstance(found, Rejected), found
    assert "\n" not in found.reason
    return found


# What is accepted


def test_a_certificate_by_hand_is_accepted() -> None:
    found = check(json.dumps(by_hand()))
    assert isinstance(found, Accepted), found
    assert (found.cases, found.sampled) == (2, 2)
    assert found.elements >= 4
    assert found.instances > 10


@pytest.mark.parametrize("name", [*RULES, "matmul-join-columns"])
def test_what_the_prover_writes_is_accepted(name: str) -> None:
    found = check(proved(name))
    assert isinstance(found, Accepted), found
    assert found.sampled == found.cases
    assert found.elements > 0
    assert found.instances > 0


def test_the_same_text_has_the_same_outcome() -> None:
    assert check(proved("reduce")) == check(proved("reduce"))


def test_bound_variables_may_have_other_names() -> None:
    def rename(certificate: Json) -> None:
        for result in _results(certificate):
            text = json.dumps(result["target"]).replace("_0_0_", "_0_9_")
            result["target"] = json.loads(text.replace("_0_1_", "_0_0_"))

    assert isinstance(check(edited(proved("reduce"), rename), QUICK), Accepted)


def test_elements_may_be_told_apart_by_their_remainders() -> None:
    def split(certificate: Json) -> None:
        result = certificate["cases"][1]["results"].pop()
        form = [{"times": "2", "of": [[{"x": 0, "at": ["AXIS"]}, 1]]}]
        result.update(source=form, target=form, pairs=[[0, 0]], obligations=[])
        for axis in ("3*i0", "1+3*i0", "2+3*i0"):
            part = json.dumps({**result, "axes": ["AXIS"]}).replace("AXIS", axis)
            certificate["cases"][1]["results"].append(json.loads(part))

    text = edited(json.dumps(by_hand()), split)
    assert isinstance(check(text), Accepted)
    lost = edited(text, lambda c: c["cases"][1]["results"].pop(1))
    assert "all elements of result 0" in rejected(lost).reason


def test_it_imports_nothing_of_the_prover() -> None:
    own = {
        "checker", "case_parts", "integer_points", "sampled_cases", "sampled_instances",
        "sampled_values",
    }  # fmt: skip
    found = set()
    for name in own:
        path = Path(verify.__path__[0]) / f"{name}.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module or "")
    foreign = {name for name in found if name.split(".")[0] in ("verify", "z3", "cvc5")}
    assert foreign <= {f"verify.{name}" for name in own}
    assert "tensorgen.sizes" not in found


def test_the_checker_can_be_read_in_one_sitting() -> None:
    path = Path(verify.__path__[0]) / "checker.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300


# Edits by name


def _results(certificate: Json) -> Iterator[Json]:
    for case in certificate["cases"]:
        yield from case["results"]


def _last(certificate: Json) -> Json:
    return certificate["cases"][-1]["results"][0]


def _forms(certificate: Json) -> Iterator[list[Json]]:
    """Both forms of the last result: an edit of both leaves them equal."""
    yield _last(certificate)["source"]
    yield _last(certificate)["target"]


def _false(certificate: Json) -> None:
    (rule,) = read_rules("double: add(x, x) => mul(x, 3)")
    certificate.update(rule=str(rule), digest=rule.digest)


EDITS: dict[str, tuple[Edit, str]] = {
    "another rule": (
        lambda c: c.update(rule="double: add(x, x) => mul(x, 3)"), "the rule's digest"),
    "a rule that does not print so": (
        lambda c: c.update(rule="double: add(x,x) => mul(x, 2)"), "as it prints"),
    "two rules": (lambda c: c.update(rule=f"{c['rule']}\nb: add(x, 0) => x"), "malformed"),
    "no rule": (lambda c: c.update(rule="nothing"), "lower-case name"),
    "a false rule": (_false, "expected one value"),
    "ranks that no case has": (
        lambda c: c["ranks"].update(plain=[0, 1, 2]), "expected a case for"),
    "another digest": (lambda c: c.update(digest="0" * 32), "the rule's digest"),
    "a guard that the rule lacks": (
        lambda c: c.update(guards=["ones(s)"]), "all guards"),
    "no cases": (lambda c: c.update(cases=[]), "at least one case"),
    "a lost case": (lambda c: c["cases"].pop(), "expected a case for"),
    "a lost first case": (lambda c: c["cases"].pop(0), "expected a case for"),
    "a lost result": (lambda c: c["cases"][0]["results"].clear(), "all elements of result 0"),
    "a result twice": (
        lambda c: c["cases"][1]["results"].append(_last(c)), "all elements of result 0"),
    "another result": (lambda c: _last(c).update(result=1), "malformed"),
    "half the elements": (lambda c: _last(c).update(axes=["2*i0"]), "all elements of result 0"),
    "one element": (lambda c: _last(c).update(axes=["0"]), "an index for the extent n0"),
    "an axis that is none": (lambda c: _last(c).update(axes=["3+2*i0"]), "the index of an axis"),
    "a lost obligation": (lambda c: _last(c)["obligations"].clear(), "the obligations"),
    "one obligation more": (
        lambda c: _last(c)["obligations"].append(OBLIGATION), "the obligations"),
    "a weight in an obligation": (
        lambda c: _last(c).update(obligations=[OBLIGATION.replace("(- 2)", "(- 1)")]),
        "the obligations"),
    "an assumption in an obligation": (
        lambda c: _last(c).update(obligations=[OBLIGATION.replace(
            "(check-sat)", "(assert (>= (- 1) 0))\n(check-sat)")]), "the obligations"),
    "a lost term": (lambda c: _last(c)["target"].pop(), "the obligations"),
    "a lost condition": (lambda c: _last(c)["target"][0].pop("where"), "the obligations"),
    "a wrong pair": (lambda c: _last(c).update(pairs=[[0, 0]]), "equal terms"),
    "a pair out of range": (lambda c: _last(c).update(pairs=[[0, 7]]), "each term once"),
    "a negative pair": (lambda c: _last(c).update(pairs=[[-1, 0]]), "each term once"),
    "the same pair twice": (
        lambda c: c["cases"][0]["results"][0].update(pairs=[[0, 0], [0, 0]]), "each term once"),
    "a lost pair": (lambda c: c["cases"][0]["results"][0].update(pairs=[]), "the obligations"),
    "a term on one side": (
        lambda c: c["cases"][0]["results"][0]["source"].append({"of": [[{"x": 0}, 2]]}),
        "the obligations"),
    "an assumption more": (
        lambda c: c["cases"][1].update(nonnegative=["-4+n0"]), "the obligations"),
    "an equation more": (
        lambda c: c["cases"][1].update(equations={"n0": "2"}), "the obligations"),
    "another type": (
        lambda c: c["cases"][0].update(operands={"x": "bool[]"}), "of type float32[]"),
    "another rank": (
        lambda c: c["cases"][0].update(inputs=["float32[n0]"]), "expected x of type"),
    "another extent": (lambda c: _last(c).update(extents=["1+n0"]), "the obligations"),
    "no question": (lambda c: c.update(excluded=["(check-sat) (exit)"]), "a question"),
    "text instead of a list": (lambda c: c.update(cases="abc"), "malformed"),
    "a lost key": (lambda c: c.pop("excluded"), "malformed"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_refused(name: str) -> None:
    edit, reason = EDITS[name]
    assert reason in rejected(edited(json.dumps(by_hand()), edit)).reason


def test_what_is_wrong_on_both_sides_shows_at_samples() -> None:
    def thrice(certificate: Json) -> None:
        for form in _forms(certificate):
            form[0]["times"] = "3"

    found = rejected(edited(proved("double"), thrice))
    assert found.place.startswith("case")
    assert "expected one value" in found.reason


def test_a_quotient_is_what_it_says() -> None:
    def halve(certificate: Json) -> None:
        for result in _results(certificate):
            for quotient in result["quotients"]:
                quotient[2] += "+1"

    assert "expected" in rejected(edited(proved("reshape"), halve)).reason


def test_an_assumption_that_excludes_instances_is_missed_in_coverage() -> None:
    def assume(certificate: Json) -> None:
        for case in certificate["cases"]:
            case["nonnegative"].append("-5+n0")

    found = rejected(edited(proved("functions"), assume))
    assert found.place == "coverage"
    assert "expected a case for" in found.reason


def test_an_assumption_that_is_weakened_shows_at_samples() -> None:
    def weaken(certificate: Json) -> None:
        # Cases tell an extent of 1 from others.
        for case in certificate["cases"]:
            case["equations"], case["nonzero"] = {}, []

    assert rejected(edited(proved("matmul-join-columns"), weaken)).place.startswith("case")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{}", '{"rule": 1}', "[" * 100_000, '{"rule": "a: b"', "\ud800", "NaN"],
)
def test_what_is_no_certificate_is_refused(text: str) -> None:
    assert rejected(text).place == "certificate"


# Edits by chance


def _parts(part: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths to all that a form consists of."""
    yield path
    if isinstance(part, dict | list):
        keys = list(part) if isinstance(part, dict) else range(len(part))
        for key in keys:
            yield from _parts(part[key], (*path, key))


def _changed(part: Json, rng: random.Random) -> Json:
    """Something else in the place of a part."""
    match part:
        case bool() | int():
            return part + rng.choice((-1, 1, 2))
        case str() if part.lstrip("-").replace("/", "").isdecimal():
            return str(int(part.split("/")[0]) + rng.choice((1, 5)))
        case str() if part in ("exp", "log"):
            return "tanh"
        case str():
            return rng.choice((part + "+1", "n7", part.replace("n0", "n1") + "+i0"))
        case list():
            return part[1:] if part else [["n0"]]
        case dict():
            return dict(list(part.items())[1:])
        case _:
            raise AssertionError(part)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(RULES)), seed=st.integers(0, 2**32), both=st.booleans())
@example(name="reduce", seed=58, both=True)  # an index that shows where an axis is longer than 1
def test_a_change_of_a_form_is_refused(name: str, seed: int, both: bool) -> None:
    """Whatever is changed in one form, or in both alike, where the result has elements."""
    certificate = json.loads(proved(name))
    rng = random.Random(seed)
    case = rng.choice(certificate["cases"])
    result = rng.choice(case["results"])
    if not result["source"]:
        return
    path = rng.choice([path for path in _parts(result["source"]) if path])
    before = json.dumps(certificate)
    for side in ("source", "target") if both else ("source",):
        part = result[side]
        try:
            for key in path[:-1]:
                part = part[key]
            part[path[-1]] = _changed(part[path[-1]], random.Random(seed))
        except (KeyError, IndexError, TypeError):
            return
    if json.dumps(certificate) != before:
        assert isinstance(check(json.dumps(certificate), THOROUGH), Rejected)


def _counts(path: tuple[str | int, ...]) -> bool:
    """Without an assumption a case may be as true; and 1 is as good as True."""
    return path[0] not in ("nonnegative", "nonzero") and path[:2] != ("parameters", "k")


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(RULES)), seed=st.integers(0, 2**32))
def test_a_change_anywhere_in_a_case_is_refused(name: str, seed: int) -> None:
    certificate = json.loads(proved(name))
    rng = random.Random(seed)
    case = rng.choice(certificate["cases"])
    path = rng.choice([path for path in _parts(case) if len(path) > 1 and _counts(path)])
    part = case
    for key in path[:-1]:
        part = part[key]
    before = json.dumps(certificate)
    part[path[-1]] = _changed(part[path[-1]], rng)
    if json.dumps(certificate) != before:
        assert isinstance(check(json.dumps(certificate), THOROUGH), Rejected)

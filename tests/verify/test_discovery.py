"""Discovery: enumerate, prove, minimize, write; what is shipped, and what it derives."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from graphopt.data_files import data_path
from graphopt.enumerate import EnumerationError, Vocabulary, enumerate_rules, taso
from graphopt.minimize import FATES, Bounds, RuleBook, claims_of, derivable, sides_of
from graphopt.pattern import COMMUTATIVE
from graphopt.rule import Rule, rule_text
from graphopt.rules import load_rules, read_rules
from graphopt.taso_rules import Groups, Translated, load_taso_rules
from tests.taso_file import FALSE_FOR_ORDINARY, taso_file
from verify.certificate import Certificate
from verify.discovery import Discovery, Settings, Step, discover, ranks_of
from verify.prover import prove

MOST_RULES = 200
SMALL = Settings(parts=(("tiny", 3),))
OPERATORS = ("relu", "transpose", "add", "concat[0]2d", "concat[1]2d")


def tiny() -> Vocabulary:
    """A few of TASO's operators, on matrices."""
    whole = taso()
    inputs = tuple(tensor for tensor in whole.inputs if len(tensor.shape) == 2)
    instances = tuple(one for one in whole.instances if one.name in OPERATORS)
    assert len(instances) == len(OPERATORS)
    return replace(whole, name="tiny", inputs=inputs, constants=(), instances=instances)


@pytest.fixture(autouse=True)
def _tiny_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verify.discovery.VOCABULARIES", {"taso": taso, "tiny": tiny})


@cache
def small() -> Discovery:
    return discover(SMALL)


# The way to a rule file


def test_the_rules_of_the_file_are_those_found() -> None:
    found = small()
    assert [rule_text(r) for r in read_rules(found.text)] == [rule_text(r) for r in found.rules]
    assert len({rule.name for rule in found.rules}) == len(found.rules)


def test_every_rule_is_proved() -> None:
    for rule in small().rules:
        assert isinstance(prove(rule, ranks_of(rule)), Certificate), str(rule)


def test_what_was_found_is_derived_or_accounted_for() -> None:
    found = small()
    claims, missing = claims_of(enumerate_rules(tiny(), 3).candidates)
    fates = found.fates
    assert sum(fates.get(name, 0) for name in FATES) == len(claims)
    assert missing == fates["without sizes"]
    assert len(found.unproved) == fates.get("unproved", 0)
    book = RuleBook.of([rule for rule in found.rules if len(rule.source.terms) == 1])
    derived = [
        claim
        for claim in claims
        if not claim.is_joint and derivable(claim.sources, claim.targets, book)
    ]
    assert len(derived) >= fates["derivable"] - sum(claim.is_joint for claim in claims)
    assert {claim.text for claim in derived}.isdisjoint(found.unproved)


def test_no_equation_follows_from_the_others() -> None:
    equations = [rules for rules in small().equations if len(rules[0].source.terms) == 1]
    assert len(equations) > 5
    for equation in equations:
        others = RuleBook.of([rule for rules in equations if rules != equation for rule in rules])
        found = sides_of(equation[0])
        assert found, equation[0].name
        follows = all(derivable(sides.sources, sides.targets, others) for sides in found)
        assert not follows, equation[0].name


def test_a_killed_run_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    steps: list[Step] = []

    class Killed(Exception):
        pass

    def kill(step: Step) -> None:
        if step.name == "prove and derive" and step.done == 9:
            raise Killed

    with pytest.raises(Killed):
        discover(SMALL, tmp_path, kill)
    kept = tmp_path / "judgements.jsonl"
    before = kept.read_text(encoding="utf-8")
    assert before
    kept.write_text(before + '7\n["half a li', encoding="utf-8")
    again = discover(SMALL, tmp_path, steps.append)
    assert again.text == small().text
    lines = kept.read_text(encoding="utf-8").removeprefix(before).splitlines()
    assert lines[:2] == ["7", '["half a li']
    assert all(len(json.loads(line)) == 3 for line in lines[2:])
    assert {"prove and derive", "derive again"} < {step.name for step in steps}
    assert discover(SMALL, tmp_path).text == small().text


def test_judgements_of_other_code_are_not_believed(tmp_path: Path) -> None:
    [first, *_] = small().rules
    line = f'["other code", "{first.digest}", "refuted"]\n'
    (tmp_path / "judgements.jsonl").write_text(line, encoding="utf-8")
    assert discover(SMALL, tmp_path).text == small().text


def test_a_place_that_cannot_be_written_to_is_refused_by_name(tmp_path: Path) -> None:
    place = tmp_path / "judgements.jsonl"
    place.mkdir()
    with pytest.raises(EnumerationError, match=re.escape(f"{place}: expected a file")):
        discover(SMALL, tmp_path)


def test_the_table_has_every_step() -> None:
    table = small().table()
    for word in ("generated", "candidates", "derivable", "unproved", "kept", "rules in the file"):
        assert word in table


# What is shipped


@cache
def shipped() -> tuple[Rule, ...]:
    return load_rules(data_path("rules", "discovered.rules"))


def derives(rules: Sequence[Rule], rule: Rule, forward: bool = False) -> bool:
    """Whether rules derive all instances of another; of several results, from its source."""
    joint = len(rule.source.terms) > 1
    book = RuleBook.of([r for r in rules if joint or len(r.source.terms) == 1])
    found = sides_of(rule)
    assert found, rule.name
    return all(
        derivable(s.sources, s.targets, book, Bounds(6, 500), joint or forward) for s in found
    )


def test_few_rules_are_shipped() -> None:
    assert 0 < len(shipped()) <= MOST_RULES


@pytest.mark.parametrize("name", sorted(COMMUTATIVE & {"add", "mul", "max"}))
def test_what_matching_takes_for_granted_is_true(name: str) -> None:
    [rule] = read_rules(f"commutes: {name}(x, y) => {name}(y, x)")
    assert isinstance(prove(rule), Certificate)


LIKE_TASO = """
a: matmul(matmul(x, y), matmul(z, w)) => matmul(matmul(x, matmul(y, z)), w)
b: matmul(concat(y, matmul(x, y), axis=0), z)
    => concat(matmul(y, z), matmul(x, matmul(y, z)), axis=0) where rank(2, x, y, z)
c: add(matmul(x, y), matmul(matmul(x, y), z)) => matmul(x, add(y, matmul(y, z)))
    where rank(2, x, y, z)
d: mul(z, add(y, mul(x, y))) => mul(y, add(z, mul(x, z))) where same_shape(x, y, z)
e: add(z, add(z, add(x, y))) => add(add(x, z), add(y, z)) where same_shape(x, y, z)
f: concat(add(x, y), add(z, w), axis=0) => add(concat(x, w, axis=0), concat(y, z, axis=0))
    where same_shape(x, y), same_shape(z, w)
g: mul(t := concat(x, y, axis=1), u := concat(z, w, axis=1))
    => mul(concat(z, y, axis=1), concat(x, w, axis=1)) where same_shape(t, u), rank(4, x, y)
h: concat(concat(x, y, axis=1), concat(z, w, axis=1), axis=0)
    => concat(concat(x, z, axis=0), concat(y, w, axis=0), axis=1)
i: add(matmul(x, y), matmul(z, w)) => matmul(concat(x, z, axis=1), concat(y, w, axis=0))
    where rank(2, x, y, z, w)
j: conv(z, add(x, y), **o) => add(conv(z, y, **o), conv(z, x, **o)) where same_shape(x, y)
k: concat(max(0, conv(x, y, **o)), max(0, conv(z, y, **o)), axis=0)
    => max(conv(concat(x, z, axis=0), y, **o), 0)
l: max(concat(z, conv(x, y, **o), axis=1), 0)
    => concat(max(z, 0), max(0, conv(x, y, **o)), axis=1)
m: max(x, 0), max(y, 0)
    => slice(max(concat(x, y, axis=1), 0), starts=(0, 0), steps=(1, 1), sizes=shape_of(x)),
       slice(max(concat(x, y, axis=1), 0), starts=offset_on(shape_of(x), 1), steps=(1, 1),
             sizes=shape_of(y))
n: matmul(x, y), matmul(x, z)
    => slice(matmul(x, concat(y, z, axis=1)), starts=(0, 0), steps=(1, 1),
             sizes=matmul_shape(x, y)),
       slice(matmul(x, concat(y, z, axis=1)), starts=offset_on(matmul_shape(x, y), 1),
             steps=(1, 1), sizes=matmul_shape(x, z))
"""


@pytest.mark.parametrize("rule", read_rules(LIKE_TASO), ids=lambda rule: rule.name)
def test_rules_like_those_of_taso_are_derivable(rule: Rule) -> None:
    assert derives(shipped(), rule)


@pytest.mark.parametrize(
    "text",
    [
        "matmul(x, y) => matmul(y, x) where rank(2, x, y)",
        "matmul(matmul(x, y), z) => matmul(x, matmul(z, y)) where rank(2, x, y, z)",
        "concat(x, y, axis=0) => concat(y, x, axis=0)",
        "max(add(x, y), 0) => add(max(x, 0), max(y, 0)) where same_shape(x, y)",
    ],
)
def test_false_rules_are_not_derivable(text: str) -> None:
    [rule] = read_rules(f"false: {text}")
    assert not derives(shipped(), rule)


@pytest.mark.slow
def test_every_true_rule_of_taso_is_derivable() -> None:
    missing = []
    for number, found in enumerate(load_taso_rules(taso_file(), Groups.ONE)):
        assert isinstance(found, Translated)
        if number not in FALSE_FOR_ORDINARY and not derives(shipped(), found.rule):
            missing.append(found.rule.name)
    assert missing == []


@pytest.mark.slow
def test_the_shipped_rules_are_regenerated_byte_for_byte() -> None:
    shipped_text = data_path("rules", "discovered.rules").read_text(encoding="utf-8")
    assert discover(Settings()).text == shipped_text

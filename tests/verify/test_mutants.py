"""Mutants of rules: distinct, well-typed, with what was changed; and how the oracle judges them."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from graphopt.data_files import data_path
from graphopt.rule import Rule, rule_text, statement_text
from graphopt.rules import load_rules, read_rules
from graphopt.taso_rules import Translated, load_taso_rules
from tests.taso_file import FALSE_FOR_GROUPED, taso_file
from verify.mutants import Mutant, mutants
from verify.oracle import Agreed, Refuted, judge

SHIPPED = [
    rule
    for file in ("default.rules", "lowering.rules")
    for rule in load_rules(data_path("rules", file))
]


def rules_of(text: str) -> tuple[Rule, ...]:
    return read_rules(text)


def substitutions() -> list[Rule]:
    """The true ones of TASO."""
    return [
        entry.rule
        for entry in load_taso_rules(taso_file())
        if isinstance(entry, Translated) and entry.index not in FALSE_FOR_GROUPED
    ]


def changes_of(text: str) -> dict[str, str]:
    """What is said of each mutant of one rule, by its target and conditions."""
    return {
        statement_text(mutant.rule).split(" => ")[1]: mutant.change
        for mutant in mutants(rules_of(f"rule: {text}"))
    }


def test_operators_operands_and_subterms_change() -> None:
    changes = changes_of("sub(x, neg(y)) => add(x, y)")
    assert changes["mul(x, y)"] == "add replaced by mul"
    assert changes["add(y, y)"] == "x replaced by y"
    assert changes["x"] == "add dropped, operand 0 kept"
    assert "add(y, x)" not in changes  # the same by commutativity


def test_operands_are_exchanged() -> None:
    changes = changes_of("neg(sub(x, y)) => sub(y, x)")
    assert changes["sub(x, y)"] == "operands 0 and 1 of sub exchanged"


def test_parameters_change() -> None:
    changes = changes_of(
        "transpose(transpose(x, perm=p), perm=q) => transpose(x, perm=reordered(p, q))"
    )
    key = "transpose(x, perm=reordered(q, p))"
    assert changes[key] == "perm of transpose: reordered(p, q) replaced by reordered(q, p)"
    assert "transpose(x, perm=p)" in changes


def test_literals_change() -> None:
    changes = changes_of("relu: max(max(x, 0), 0) => max(x, 0)".removeprefix("relu: "))
    assert changes["max(x, 1)"] == "0 replaced by 1"
    changes = changes_of("neg(transpose(x, perm=(1, 0, 2))) => transpose(neg(x), perm=(1, 0, 2))")
    said = "perm of transpose: (1, 0, 2) replaced by (1, 2, 0)"
    assert changes["transpose(neg(x), perm=(1, 2, 0))"] == said
    assert not any("perm=(2, 0, 2)" in target for target in changes)  # no permutation


def test_conditions_are_dropped_unless_they_speak_of_profit() -> None:
    changes = changes_of("abs(neg(x)) => abs(x) where signed(x), varying(x)")
    assert changes["abs(x) where varying(x)"] == "without signed(x)"
    assert "abs(x) where signed(x)" not in changes


def test_results_are_exchanged() -> None:
    changes = changes_of("add(x, y), sub(x, y) => add(y, x), neg(sub(y, x))")
    assert changes["neg(sub(y, x)), add(y, x)"] == "results 0 and 1 exchanged"


def test_operands_of_any_number_are_dropped() -> None:
    changes = changes_of("concat(x, concat(y, z, axis=0), axis=0) => concat(x, y, z, axis=0)")
    assert any(change.endswith("of concat dropped") for change in changes.values())


def test_known_rules_are_no_mutants() -> None:
    rules = rules_of(
        "one: sub(x, neg(y)) => add(x, y)\ntwo: sub(x, neg(y)) => sub(x, neg(neg(neg(y))))"
    )
    [one, two] = rules
    true = rules_of("true: sub(x, neg(y)) => mul(x, y)")
    said = {statement_text(mutant.rule) for mutant in mutants([one], true)}
    assert "sub(x, neg(y)) => sub(x, y)" in said
    assert "sub(x, neg(y)) => mul(x, y)" not in said
    assert all(statement_text(mutant.rule) != statement_text(two) for mutant in mutants(rules))


def test_mutants_of_different_rules_alternate() -> None:
    rules = rules_of("one: sub(x, neg(y)) => add(x, y)\ntwo: mul(neg(x), neg(y)) => mul(x, y)")
    origins = [mutant.origin for mutant in islice(mutants(rules), 8)]
    assert origins == ["one", "two"] * 4
    assert Counter(mutant.origin for mutant in mutants(rules, each=3)) == {"one": 3, "two": 3}


def _sample(count: int) -> list[Mutant]:
    return list(islice(mutants(SHIPPED[::7], each=12), count))


def test_mutants_are_distinct_rules_that_read_as_they_print() -> None:
    found = _sample(300)
    assert len(found) == 300
    assert len({statement_text(mutant.rule) for mutant in found}) == 300
    assert len({mutant.rule.name for mutant in found}) == 300
    assert _sample(300) == found
    for mutant in found[::9]:
        assert read_rules(rule_text(mutant.rule)) == (mutant.rule,)


def test_the_oracle_refutes_most_mutants() -> None:
    outcomes = Counter(type(judge(mutant.rule, 12)) for mutant in _sample(120))
    assert outcomes[Refuted] > 80
    assert outcomes[Refuted] + outcomes[Agreed] >= 118


@pytest.mark.slow
def test_there_are_ten_thousand() -> None:
    found = list(mutants(SHIPPED + substitutions()))
    assert len(found) >= 10_000
    assert len({statement_text(mutant.rule) for mutant in found}) == len(found)
    known = {statement_text(rule) for rule in SHIPPED + substitutions()}
    assert known.isdisjoint(statement_text(mutant.rule) for mutant in found)


@pytest.mark.slow
def test_the_oracle_judges_a_thousand() -> None:
    """Every mutant of this sample can be tested; those that agree are true as far as anyone sees:
    types leave both sides no choice."""
    found = list(islice(mutants(SHIPPED + substitutions()), 0, None, 12))
    outcomes = Counter(type(judge(mutant.rule, 30)) for mutant in found)
    assert outcomes[Refuted] >= 0.8 * len(found)
    assert outcomes[Refuted] + outcomes[Agreed] >= 0.99 * len(found)

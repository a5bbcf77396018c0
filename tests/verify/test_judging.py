"""Verdicts on single rules: proofs, guards that are inferred, counterexamples, and neither."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphopt.instances import find_instance
from graphopt.pattern import FunctionCall, Literal, Name
from graphopt.rule import Rule, rule_text
from graphopt.rules import read_rules
from graphopt.taso_rules import Translated, load_taso_rules
from tests.taso_file import FALSE_FOR_GROUPED, FALSE_FOR_ORDINARY, taso_file
from verify import judging
from verify.directed import directed
from verify.judging import Judged, Settings, judged, refuted
from verify.prover import Failed, Undecided, prove
from verify.symbolic_rule import Ranks
from verify.verdict import Proved, Refuted, Unknown

SMALL = Settings(Ranks((1, 2)))


def rule_of(text: str) -> Rule:
    [rule] = read_rules(f"rule: {text}")
    return rule


def verdict_on(text: str, settings: Settings = SMALL) -> Judged:
    return judged(rule_of(text), settings)


def test_a_true_rule_has_a_certificate() -> None:
    found = verdict_on("matmul(matmul(x, y), z) => matmul(x, matmul(y, z))")
    assert isinstance(found.verdict, Proved)
    assert found.inferred == ()
    assert found.verdict.certificate["digest"] == found.rule.digest
    assert found.verdict.certificate["guards"] == []


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        ("div(x, y) => mul(x, div(1, y))", "floating(x)"),
        ("abs(neg(x)) => abs(x)", "signed(x)"),
        ("transpose(x, perm=p) => x", "identity(p)"),
        (
            "conv(x, add(w, v), **q) => add(conv(x, w, **q), conv(x, v, **q))",
            "same_shape(w, v)",
        ),
    ],
)
def test_an_inferred_guard_is_part_of_the_rule_and_of_its_proof(text: str, guard: str) -> None:
    found = verdict_on(text)
    assert isinstance(found.verdict, Proved), found.verdict
    assert found.inferred == (guard,)
    assert rule_text(found.rule) == f"rule: {text} where {guard}"
    certificate = found.verdict.certificate
    assert certificate["rule"] == rule_text(found.rule)
    assert certificate["digest"] == found.rule.digest
    assert certificate["guards"] == [guard]


def test_without_inference_a_rule_is_judged_as_it_stands() -> None:
    found = verdict_on("div(x, y) => mul(x, div(1, y))", Settings(Ranks((1, 2)), infer=False))
    assert isinstance(found.verdict, Refuted)
    assert found.inferred == ()


def test_a_false_rule_has_a_small_counterexample() -> None:
    found = verdict_on("matmul(x, y) => matmul(y, x)")
    assert isinstance(found.verdict, Refuted)
    tensors = dict(found.verdict.counterexample.assignment.named())
    assert {array.shape for array in tensors.values()} == {(2, 2)}
    assert sum(abs(array).sum() for array in tensors.values()) == 2


def test_where_random_draws_find_nothing_the_open_case_leads_to_a_counterexample() -> None:
    """A window of seven is never drawn, so all that is drawn agrees."""
    rule = rule_of(
        "max_pool(x, kernel=k, strides=(1,), pads=(0, 0), dilations=(1,)) => "
        "sum_pool(x, kernel=k, strides=(1,), pads=(0, 0), dilations=(1,))"
    )
    rule = replace(rule, where=(FunctionCall("equal", (Name("k"), Literal((7,)))),))
    assert find_instance(rule) is None
    failed = prove(rule, Ranks((1, 2)))
    assert isinstance(failed, Failed)
    found = judged(rule, SMALL)
    assert isinstance(found.verdict, Refuted)
    assert found.verdict.counterexample.assignment.params == (("k", (7,)),)


def test_directed_instances_are_those_of_the_case() -> None:
    rule = rule_of("concat(*xs, y, axis=a) => concat(y, *xs, axis=a)")
    failed = prove(rule, Ranks((1, 2)))
    assert isinstance(failed, Failed)
    for open_case in failed.open:
        operands = dict(open_case.case.operands)
        drawn = list(directed(rule, open_case.case))
        assert drawn
        for instance in drawn:
            bindings = instance.bindings
            length = sum(name.startswith("xs[") for name in operands)
            assert len(bindings.sequences["xs"]) == length
            assert str(bindings.params["a"]) == dict(open_case.case.parameters)["a"]
            rank = operands["y"].count(",") + 1
            assert bindings.tensors["y"].type.rank == rank


def test_what_the_prover_cannot_say_is_still_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "prove", lambda *_: Undecided("beyond the prover"))
    assert isinstance(verdict_on("matmul(x, neg(y)) => matmul(x, y)").verdict, Refuted)


def test_a_proof_that_stays_open_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the prover had failed on a rule that is true."""
    failed = prove(rule_of("sub(x, y) => sub(y, x)"), Ranks((1, 2)))
    monkeypatch.setattr(judging, "prove", lambda *_: failed)
    found = verdict_on("sub(x, y) => neg(sub(y, x))")
    assert isinstance(found.verdict, Unknown)
    assert found.verdict.reason.startswith("no proof in ")
    assert "x: float32" in found.verdict.reason
    assert "\n" not in found.verdict.reason


def test_what_nobody_can_say_is_unknown_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "prove", lambda *_: Undecided("beyond the prover"))
    found = verdict_on("matmul(x, neg(y)) => neg(matmul(x, y))")
    assert found.verdict == Unknown("beyond the prover")


def test_the_oracle_alone_knows_false_rules_and_says_why_it_was_asked() -> None:
    assert isinstance(refuted(rule_of("sub(x, y) => sub(y, x)"), SMALL, "late"), Refuted)
    assert refuted(rule_of("add(x, y) => sub(x, neg(y))"), SMALL, "late") == Unknown("late")


def test_verdicts_repeat() -> None:
    for text in ("matmul(x, y) => matmul(y, x)", "div(x, y) => mul(x, div(1, y))"):
        first, second = verdict_on(text), verdict_on(text)
        assert first.inferred == second.inferred
        match first.verdict, second.verdict:
            case Proved(certificate=one), Proved(certificate=other):
                assert one == other
            case Refuted(counterexample=one), Refuted(counterexample=other):
                assert one.as_json() == other.as_json()
            case _:
                raise AssertionError(text)


@pytest.mark.slow
def test_substitutions_of_taso() -> None:
    """Of the eleven that are false of grouped convolutions, seven are true of one group."""
    settings = Settings(Ranks((2, 4), (2,)))
    rules = {
        entry.index: entry.rule
        for entry in load_taso_rules(taso_file())
        if isinstance(entry, Translated)
    }
    for index in FALSE_FOR_GROUPED:
        found = judged(rules[index], settings)
        if index in FALSE_FOR_ORDINARY:
            assert isinstance(found.verdict, Refuted), index
        else:
            assert isinstance(found.verdict, Proved), index
            assert found.inferred in (("equal(g0, 1)",), ("equal(g0, 1)", "equal(g1, 1)")), index


def test_a_counterexample_outweighs_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the prover were wrong."""
    proof = prove(rule_of("sub(x, y) => neg(sub(y, x))"), Ranks((1, 2)))
    monkeypatch.setattr(judging, "prove", lambda *_: proof)
    assert isinstance(verdict_on("sub(x, y) => sub(y, x)").verdict, Refuted)

"""Rules follow from axioms, false ones do not; the axioms are proved themselves."""

from __future__ import annotations

import json
from statistics import median
from time import perf_counter

import pytest

from graphopt.rule import Rule
from graphopt.rules import read_rules
from graphopt.taso_rules import Groups, Translated, load_taso_rules
from tests.taso_file import FALSE_FOR_ORDINARY, taso_file
from verify.axioms import FromAxioms, NotFound, axioms_json, proved_from_axioms, shipped_axioms
from verify.certificate import Certificate
from verify.oracle import Agreed, judge
from verify.prover import Undecided, prove
from verify.symbolic_rule import Ranks

LINE = Ranks((0, 1, 2), (1,))
"""Scalars for the axioms that have them, and one spatial axis."""

PLANE = Ranks((0, 2), (2,))
"""The same with two spatial axes."""

BATCHES = Ranks((3,))
"""For axioms about three axes alone."""


def rule(text: str) -> Rule:
    (found,) = read_rules(f"r: {text}")
    return found


def derived(text: str) -> FromAxioms:
    found = proved_from_axioms(rule(text), shipped_axioms(), Ranks((1, 2)))
    assert isinstance(found, FromAxioms), found
    return found


# What follows


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("matmul(matmul(x, y), z) => matmul(x, matmul(y, z))", ["matmul-associates"]),
        ("sub(x, 0) => x", ["add-zeros", "mul-commutes", "neg-is-mul", "sub-is-add"]),
        (
            "max(0, concat(x, y, axis=0)) => concat(max(x, 0), max(y, 0), axis=0)",
            ["max-commutes", "relu-concat-inverse"],
        ),
        (
            "matmul(x, y), matmul(x, z) => slice(matmul(x, concat(y, z, axis=1)),"
            " starts=(0, 0), steps=(1, 1), sizes=sizes(size(x, 0), size(y, 1))),"
            " slice(matmul(x, concat(y, z, axis=1)), starts=sizes(0, size(y, 1)),"
            " steps=(1, 1), sizes=sizes(size(x, 0), size(z, 1))) where rank(2, x, y, z)",
            ["matmul-columns-join-inverse", "slice-first-part", "slice-second-part"],
        ),
    ],
)
def test_a_rule_follows_from_few_axioms(text: str, used: list[str]) -> None:
    assert list(derived(text).axioms) == used


@pytest.mark.parametrize(
    "text",
    [
        "div(div(x, y), z) => div(x, mul(y, z)) where floating(x)",
        "transpose(matmul(x, transpose(y, perm=(1, 0))), perm=(1, 0))"
        " => matmul(y, transpose(x, perm=(1, 0)))",
        "add(z, add(z, add(x, y))) => add(y, add(z, add(x, z))) where same_shape(x, y, z)",
        "conv(x, neg(w), **q) => neg(conv(x, w, **q))",
        "reduce_sum(add(x, mul(x, y)), axes=a, keepdims=k) => add(reduce_sum(mul(y, x), axes=a,"
        " keepdims=k), reduce_sum(x, axes=a, keepdims=k)) where same_shape(x, y)",
    ],
)
def test_a_rule_follows(text: str) -> None:
    assert derived(text).proofs


def test_steps_say_which_axiom_with_what() -> None:
    ((proof, cases),) = derived("mul(z, add(x, y)) => add(mul(x, z), mul(z, y))").proofs
    assert cases > 1
    assert [(step.axiom, step.left, step.right) for step in proof.steps] == [
        ("mul-commutes", "mul(z, add(x, y))", "mul(add(x, y), z)"),
        ("mul-commutes", "mul(z, y)", "mul(y, z)"),
        ("mul-over-add", "mul(add(x, y), z)", "add(mul(x, z), mul(y, z))"),
    ]
    assert dict(proof.steps[-1].bindings) == {"x": "x", "y": "y", "z": "z"}


def test_a_proof_is_json() -> None:
    found = derived("mul(x, add(y, z)) => mul(x, add(z, y))")
    again = json.loads(json.dumps(axioms_json(found)))
    (proof,) = again["proofs"]
    (step,) = proof["steps"]
    assert step["axiom"] == "add-commutes"
    assert step["bindings"] == {"x": "y", "y": "z"}
    assert (step["left"], step["right"]) == ("add(y, z)", "add(z, y)")
    assert proof["smtlib"].startswith("(set-logic QF_UF)")


def test_no_step_is_idle() -> None:
    """Without any one of its equations, a proof is none."""
    cvc5 = pytest.importorskip("cvc5")
    ((proof, _),) = derived("div(mul(x, y), y) => x where floating(x)").proofs
    lines = proof.smtlib.splitlines()
    asserted = [n for n, line in enumerate(lines) if line.startswith("(assert (= ")]
    assert len(asserted) == len(proof.steps) > 1
    assert _answer(cvc5, proof.smtlib) == "unsat"
    for number in asserted:
        rest = "\n".join([*lines[:number], *lines[number + 1 :]])
        assert _answer(cvc5, rest) == "sat"


def _answer(cvc5: object, text: str) -> str:
    """What cvc5 says to a question in SMT-LIB."""
    solver = cvc5.Solver(cvc5.TermManager())  # type: ignore[attr-defined]
    parser = cvc5.InputParser(solver)  # type: ignore[attr-defined]
    parser.setStringInput(
        cvc5.InputLanguage.SMT_LIB_2_6,  # type: ignore[attr-defined]
        text,
        "question",
    )
    answer = ""
    while not (command := parser.nextCommand()).isNull():
        answer += command.invoke(solver, parser.getSymbolManager())
    return answer.strip()


# What does not


@pytest.mark.parametrize(
    "text",
    [
        "sub(x, y) => sub(y, x)",
        "matmul(x, y) => matmul(y, x)",
        "max(add(x, y), 0) => add(max(x, 0), max(y, 0))",
        # Channels in groups; with one group it follows.
        "concat(conv(x, w, **q), conv(x, v, **q), axis=1) => conv(x, concat(w, v, axis=0), **q)",
        # The kernels that TASO's axioms join wrongly.
        "concat(conv(x, w, groups=1, **q), conv(y, v, groups=1, **q), axis=1)"
        " => conv(concat(x, y, axis=1), concat(w, v, axis=0), groups=2, **q)",
        # An axiom's condition (starts at 0) is open here, so it says nothing.
        "slice(concat(x, y, axis=0), starts=s, steps=t, sizes=n) => x",
    ],
)
def test_what_is_false_does_not_follow(text: str) -> None:
    found = proved_from_axioms(rule(text), shipped_axioms(), Ranks((1, 2)))
    assert isinstance(found, NotFound)
    assert found.reason.startswith("the axioms do not derive it for ")


def test_a_rule_without_instances_has_no_proof() -> None:
    """Nobody looks at operands of five axes."""
    perm = "perm=(1, 0, 2, 4, 3)"
    five = rule(f"transpose(neg(x), {perm}) => neg(transpose(x, {perm}))")
    found = proved_from_axioms(five, shipped_axioms())
    assert found == NotFound("no sizes were found for which both sides are defined")


def test_without_axioms_only_what_is_said_twice_follows() -> None:
    assert isinstance(proved_from_axioms(rule("add(x, y) => add(y, x)"), ()), NotFound)


# The axioms


def _is_proved(axiom: Rule) -> bool:
    """Whether an axiom is proved for every choice of ranks that it fits, and fits one."""
    windows = any(name in str(axiom) for name in ("conv(", "pool("))
    fitting = [
        verdict
        for ranks in ((LINE, PLANE) if windows else (LINE,))
        if not _fits_nothing(verdict := prove(axiom, ranks))
    ]
    verdicts = fitting if fitting else [prove(axiom, BATCHES)]
    return all(isinstance(verdict, Certificate) for verdict in verdicts)


def _fits_nothing(verdict: object) -> bool:
    return isinstance(verdict, Undecided) and verdict.reason.startswith("no sizes were found")


QUICK = (
    "add-associates", "mul-over-add", "relu-concat", "matmul-sum-join", "concat-exchange",
    "conv-over-add", "slice-second-part", "sub-is-add", "div-is-mul",
)  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_axioms_are_proved(name: str) -> None:
    (axiom,) = (axiom for axiom in shipped_axioms() if axiom.name == name)
    assert _is_proved(axiom)


@pytest.mark.slow
def test_every_axiom_is_proved() -> None:
    assert [axiom.name for axiom in shipped_axioms() if not _is_proved(axiom)] == []


@pytest.mark.slow
def test_every_axiom_agrees_with_the_oracle() -> None:
    """Integers among the elements, which the proofs leave out."""
    refuted = [axiom.name for axiom in shipped_axioms() if not isinstance(judge(axiom, 12), Agreed)]
    assert refuted == []


# TASO's substitutions


TASO_RANKS = Ranks((2, 4), (2,))


@pytest.mark.slow
def test_the_true_substitutions_of_taso_follow_and_no_others() -> None:
    """Convolutions have one group. TASO's own way, Z3 with quantified axioms, gives 119.

    The axioms that are used are proved for the ranks of these rules, too.
    """
    cvc5 = pytest.importorskip("cvc5")
    underived, seconds = [], []
    used: set[str] = set()
    for entry in load_taso_rules(taso_file(), Groups.ONE):
        assert isinstance(entry, Translated)
        start = perf_counter()
        found = proved_from_axioms(entry.rule, shipped_axioms(), TASO_RANKS)
        seconds.append(perf_counter() - start)
        if isinstance(found, NotFound):
            underived.append(entry.index)
        else:
            used |= set(found.axioms)
            assert {_answer(cvc5, proof.smtlib) for proof, _ in found.proofs} == {"unsat"}
    assert underived == list(FALSE_FOR_ORDINARY)
    assert median(seconds) < 0.2
    for axiom in shipped_axioms():
        if axiom.name in used:
            assert isinstance(prove(axiom, TASO_RANKS), Certificate), axiom.name

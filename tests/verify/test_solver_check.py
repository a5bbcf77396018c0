"""The second solver: its answers, and what is no question."""

from __future__ import annotations

import json
import sys

import pytest

from tests.verify.certificates import OBLIGATION, proved
from verify.solver_check import Answer, NoSolver, Rechecked, recheck

HEAD = "(set-logic QF_NIA)\n(declare-const a Int)\n(declare-const b Int)\n"


def answers(*questions: str, milliseconds: int = 5000) -> Rechecked:
    pytest.importorskip("cvc5", reason="cvc5 is not installed")
    found = recheck(questions, milliseconds)
    assert isinstance(found, Rechecked)
    return found


def test_obligations_of_a_proof_are_unsatisfiable() -> None:
    certificate = json.loads(proved("matmul-join-columns"))
    questions = [
        question
        for case in certificate["cases"]
        for result in case["results"]
        for question in result["obligations"]
    ]
    found = answers(OBLIGATION, *certificate["excluded"], *questions)
    assert found.others == ()
    assert found.unsatisfiable == len({OBLIGATION, *certificate["excluded"], *questions})
    assert 0 < found.longest <= found.seconds
    assert found.solver.startswith("cvc5 ")


def test_what_can_be_is_told() -> None:
    question = f"{HEAD}(assert (>= a 0))\n(check-sat)"
    found = answers(question, question)
    assert found.others == ((question, Answer.SATISFIABLE),)
    assert found.unsatisfiable == 0


def test_a_question_that_takes_too_long_stays_open() -> None:
    prime = "340282366920938463463374607431768211507"
    question = (
        f"{HEAD}(assert (>= a 2))\n(assert (>= b 2))\n(assert (= (* a b) {prime}))\n(check-sat)"
    )
    assert answers(question, milliseconds=200).others == ((question, Answer.SILENT),)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "unsat",
        "(check-sat)",
        "(assert false)\n(check-sat)",
        f"{HEAD}(assert false)",
        f"{HEAD}(assert (> a c))\n(check-sat)",
        f"{HEAD}(assert false)\n(check-sat)\n(check-sat)",
        f"{HEAD}(assert false)\n(set-option :tlimit 0)\n(check-sat)",
        f'{HEAD}(echo "unsat")\n(check-sat)',
        f"{HEAD}(assert false)\n(check-sat",
    ],
)
def test_what_is_no_question_is_refused(question: str) -> None:
    assert answers(question).others == ((question, Answer.REFUSED),)


def test_a_missing_solver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvc5", None)
    found = recheck([OBLIGATION])
    assert isinstance(found, NoSolver)
    assert "pip install cvc5" in found.reason

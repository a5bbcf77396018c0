"""The obligations of certificates, asked of a second solver: cvc5.

What it does: gives every question to cvc5, one by one and within a time limit, and counts the
answers. What it does not: compare its work with Z3's, or trust the text: a question consists of
declarations, assertions and one `check-sat`, anything else is refused. cvc5 is needed for nothing
else; where it is not installed, that is the outcome.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

MILLISECONDS = 10_000
"""The time for one question."""

_OPENINGS = ("(set-logic QF_NIA)\n", "(set-logic QF_UF)\n")

_COMMANDS = frozenset({"set-logic", "declare-sort", "declare-const", "declare-fun", "assert"})


class Answer(Enum):
    """What the solver says of a question."""

    UNSATISFIABLE = "unsat"
    SATISFIABLE = "sat"
    SILENT = "unknown"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Rechecked:
    """The answers to distinct questions: how many are unsatisfiable, and those that are not with
    what was said of each. `seconds` is the time for all, `longest` that for one."""

    solver: str
    unsatisfiable: int
    others: tuple[tuple[str, Answer], ...]
    seconds: float
    longest: float


@dataclass(frozen=True, slots=True)
class NoSolver:
    """cvc5 is not installed. The reason is one line with what to do."""

    reason: str


def recheck(questions: Iterable[str], milliseconds: int = MILLISECONDS) -> Rechecked | NoSolver:
    """Ask cvc5 each distinct question once."""
    try:
        import cvc5
    except ImportError:
        return NoSolver("second solver: expected cvc5, got none; install it: pip install cvc5")
    unsatisfiable, longest, total = 0, 0.0, 0.0
    others: list[tuple[str, Answer]] = []
    for question in dict.fromkeys(questions):
        begun = time.perf_counter()
        answer = _answer(cvc5, question, milliseconds)
        spent = time.perf_counter() - begun
        total, longest = total + spent, max(longest, spent)
        if answer is Answer.UNSATISFIABLE:
            unsatisfiable += 1
        else:
            others.append((question, answer))
    return Rechecked(f"cvc5 {cvc5.__version__}", unsatisfiable, tuple(others), total, longest)


def _answer(cvc5: Any, question: str, milliseconds: int) -> Answer:
    if not question.startswith(_OPENINGS):
        return Answer.REFUSED
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(milliseconds))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, question, "question")
    symbols = parser.getSymbolManager()
    try:
        command = parser.nextCommand()
        while not command.isNull() and command.getCommandName() in _COMMANDS:
            command.invoke(solver, symbols)
            command = parser.nextCommand()
        if command.isNull() or command.getCommandName() != "check-sat":
            return Answer.REFUSED
        if not parser.nextCommand().isNull():
            return Answer.REFUSED
        result = solver.checkSat()
    except RuntimeError:
        # What cvc5 raises for text that it cannot read and for its own failures.
        return Answer.REFUSED
    if result.isUnsat():
        return Answer.UNSATISFIABLE
    return Answer.SATISFIABLE if result.isSat() else Answer.SILENT

"""Z3 on questions in SMT-LIB 2.

What it does: says whether a question can have an answer, within limits, and remembers. A solver
that fails in any way has said nothing. What it does not: write questions (`obligation`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import z3

STEPS = 2_000_000
"""The work for one question, in Z3's own count: the same on every machine, as a time is not."""

MILLISECONDS = 10_000
"""The most time for one question, for a solver that hangs without counting."""


@dataclass(frozen=True, slots=True)
class Fits:
    """Integers that fit, those other than 0."""

    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Nothing:
    """No integers fit."""


@dataclass(frozen=True, slots=True)
class Silent:
    """The solver did not say."""


_spent = 0.0


def seconds_spent() -> float:
    """How long Z3 has worked in this process."""
    return _spent


@lru_cache(maxsize=100_000)
def answer(question: str) -> Fits | Nothing | Silent:
    """Z3's answer to a question."""
    global _spent
    begun = time.perf_counter()
    try:
        return _answer(question)
    finally:
        _spent += time.perf_counter() - begun


def _answer(question: str) -> Fits | Nothing | Silent:
    # Numbers that a context has given to terms steer the search, so each question has its own: what
    # was asked before must not decide what is found.
    solver = z3.Solver(ctx=z3.Context())
    solver.set("timeout", MILLISECONDS)
    solver.set("rlimit", STEPS)
    try:
        solver.from_string(question)
        found = solver.check()
        if found == z3.unsat:
            return Nothing()
        if found == z3.sat:
            model = solver.model()
            return Fits({str(name): model[name].as_long() for name in model.decls()})
    except z3.Z3Exception:
        pass
    return Silent()


def is_unsatisfiable(question: str) -> bool:
    """Whether Z3 says that nothing fits; False if something does, or if that stays open."""
    return isinstance(answer(question), Nothing)

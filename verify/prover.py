"""Proves a rewrite rule for all sizes, or says where no proof was found.

What it does: explores every way to apply the rule (`symbolic_rule`) and compares the elements of
both sides in each (`meaning`, `equality`). What it does not: trust anything but `OpSpec.compute`,
the algebra of `normal_form` and Z3's answers to quantifier-free questions. Floating-point rounding,
overflow and NaN are not modelled: floats are real numbers, and a division is by numbers other than
0.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from graphopt.graph import Node, topological_order
from graphopt.ops.spec import expression_of
from graphopt.rule import Rule
from tensorgen.sizes import Size
from verify.equality import Equal, Open, compared
from verify.exploration import Path, TooManyPaths, explore
from verify.meaning import Meaning, Unsupported
from verify.symbolic_rule import (
    Inexpressible,
    NoSource,
    NoTarget,
    Ranks,
    Sides,
    instance,
    ranks_for,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One way to apply a rule: operand types, what is assumed of sizes, and how it came out."""

    operands: tuple[str, ...]
    assumed: tuple[str, ...]
    outcome: Equal | Open


@dataclass(frozen=True, slots=True)
class Proved:
    """Both sides are equal in every case; `unclaimed` counts those without a target."""

    cases: tuple[Case, ...]
    unclaimed: int


@dataclass(frozen=True, slots=True)
class Failed:
    """In some cases no proof was found."""

    proved: tuple[Case, ...]
    failed: tuple[Case, ...]
    unclaimed: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """The prover cannot say. `reason` is one line."""

    reason: str


Verdict = Proved | Failed | Unknown


def prove(rule: Rule, ranks: Ranks | None = None) -> Verdict:
    """The verdict on a rule, for operands of those ranks."""
    chosen = ranks_for(rule, Ranks() if ranks is None else ranks)
    cases: list[Case] = []
    ends: Counter[str] = Counter()

    def run(path: Path) -> Case | None:
        sides = instance(rule, path, chosen)
        match sides:
            case NoSource() | NoTarget():
                ends[type(sides).__name__] += 1
                return None
            case Sides():
                return _case(sides, path)

    try:
        for _, case in explore(run):
            if case is not None:
                cases.append(case)
    except (Inexpressible, Unsupported, TooManyPaths) as error:
        return Unknown(str(error))
    failed = tuple(case for case in cases if isinstance(case.outcome, Open))
    proved = tuple(case for case in cases if isinstance(case.outcome, Equal))
    if failed:
        return Failed(proved, failed, ends["NoTarget"])
    if not proved:
        return Unknown("no sizes were found for which both sides are defined")
    return Proved(proved, ends["NoTarget"])


def _case(sides: Sides, path: Path) -> Case:
    # The meanings of operators compare sizes, too: what they assume belongs to the path.
    expressions = {
        value.digest: expression_of(value)
        for value in topological_order((*sides.source, *sides.target))
        if isinstance(value, Node)
    }
    outcome: Equal | Open = Equal(0, 0)
    for source, target in zip(sides.source, sides.target, strict=True):
        inside = path.assumptions
        axes: list[Size] = []
        for number, extent in enumerate(source.type.shape):
            single = inside.normal(extent).constant == 1
            axes.append(Size.of(0) if single else Size.variable(f"i{number}"))
            inside = inside.with_nonnegative(extent - 1 - axes[-1])
        if not inside.is_possible:
            continue  # no element
        meaning = Meaning(inside, expressions)
        left, right = meaning.element(source, tuple(axes)), meaning.element(target, tuple(axes))
        found = compared(left, right, inside)
        match found:
            case Open():
                outcome = found
                break
            case Equal(terms=terms, obligations=obligations):
                assert isinstance(outcome, Equal)
                outcome = Equal(outcome.terms + terms, outcome.obligations + obligations)
    operands = tuple(
        f"{name}: {value.type}" for name, value in sorted(sides.bindings.tensors.items())
    )
    return Case(operands, tuple(path.assumptions.lines()), outcome)

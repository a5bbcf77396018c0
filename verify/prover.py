"""Proves a rewrite rule for all sizes, or says where no proof was found.

What it does: explores every way to apply the rule (`symbolic_rule`) and compares the elements of
both sides in each (`meaning`, `equality`). What it does not: trust anything but `OpSpec.compute`,
the algebra of `normal_form` and Z3's answers to quantifier-free questions. Floating-point rounding,
overflow and NaN are not modelled: floats are real numbers, and a division is by numbers other than
0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from graphopt.graph import Node, topological_order
from graphopt.ops.spec import expression_of
from graphopt.rule import Rule, rule_text
from tensorgen.sizes import Size
from tensorgen.types import DType, ShapeError
from verify.assumptions import Assumptions
from verify.certificate import Case, Certificate, Comparison
from verify.equality import Open, compared
from verify.exploration import Path, TooManyPaths, explore
from verify.feasibility import possible
from verify.meaning import Meaning, Unsupported
from verify.obligation import bounds, impossible
from verify.symbolic_rule import (
    ELEMENTS,
    Inexpressible,
    NoSource,
    NoTarget,
    Ranks,
    Sides,
    instance,
    ranks_for,
)

MOST_OPEN = 8
"""A proof with so many open cases is given up: there is a reason that concerns them all."""


@dataclass(frozen=True, slots=True)
class OpenCase:
    """A way to apply the rule for which no proof was found: the first result that stays open."""

    case: Case
    result: int
    rest: Open


@dataclass(frozen=True, slots=True)
class Failed:
    """In some cases no proof was found."""

    proved: tuple[Case, ...]
    open: tuple[OpenCase, ...]
    unclaimed: int


@dataclass(frozen=True, slots=True)
class Undecided:
    """The prover cannot say. `reason` is one line."""

    reason: str


def prove(
    rule: Rule, ranks: Ranks | None = None, guards: tuple[str, ...] = ()
) -> Certificate | Failed | Undecided:
    """A proof of a rule for operands of those ranks; `guards` names conditions that were inferred,
    for the certificate."""
    wanted = ranks_for(rule, Ranks() if ranks is None else ranks)
    for chosen, elements in product(wanted, ELEMENTS):
        try:
            explored = _explored(rule, chosen, elements)
        except (Inexpressible, Unsupported, TooManyPaths) as error:
            return Undecided(str(error))
        proved = tuple(case for case in explored.cases if isinstance(case, Case))
        rest = tuple(case for case in explored.cases if isinstance(case, OpenCase))
        if rest:
            return Failed(proved, rest, explored.unclaimed)
        if proved:
            text, excluded = rule_text(rule), explored.excluded
            return Certificate(
                text, rule.digest, chosen, guards, proved, excluded, explored.unclaimed
            )
    return Undecided("no sizes were found for which both sides are defined")


@dataclass(frozen=True, slots=True)
class _Explored:
    cases: tuple[Case | OpenCase, ...]
    excluded: tuple[str, ...]
    unclaimed: int


def _explored(rule: Rule, ranks: Ranks, elements: DType) -> _Explored:
    """Every way to apply a rule to elements of one type."""
    excluded: list[str] = []

    def run(path: Path) -> Case | OpenCase | NoTarget | NoSource:
        sides = instance(rule, path, ranks, elements)
        return _case(sides, path) if isinstance(sides, Sides) else sides

    found: list[Case | OpenCase | NoTarget | NoSource] = []
    is_open = 0
    for _, outcome in explore(run, excluded):
        found.append(outcome)
        is_open += isinstance(outcome, OpenCase)
        if is_open == MOST_OPEN:
            break
    return _Explored(
        tuple(case for case in found if isinstance(case, Case | OpenCase)),
        tuple(dict.fromkeys(excluded)),
        sum(isinstance(outcome, NoTarget) for outcome in found),
    )


def _case(sides: Sides, path: Path) -> Case | OpenCase | NoTarget:
    # The meanings of operators compare sizes, too: what they assume belongs to the path.
    try:
        expressions = {
            value.digest: expression_of(value)
            for value in topological_order((*sides.source, *sides.target))
            if isinstance(value, Node)
        }
    except ShapeError:
        # What was assumed since says that there are no such types.
        return NoTarget()
    known = path.assumptions
    comparisons: list[Comparison] = []
    for number, (source, target) in enumerate(zip(sides.source, sides.target, strict=True)):
        extents = [Size.of(extent) for extent in source.type.shape]
        for axes in _places(sides, [known.normal(extent) for extent in extents], known):
            inside = known
            for size in bounds(axes, extents):
                inside = inside.with_nonnegative(size)
            if isinstance(possible(inside), str):
                # No element: nothing to compare.
                question = impossible(known, bounds(axes, extents))
                comparisons.append(
                    Comparison(number, axes, tuple(extents), (), (), (), (), (question,))
                )
                continue
            meaning = Meaning(inside, expressions)
            left, right = (meaning.element(side, axes) for side in (source, target))
            quotients = tuple(meaning.quotients.values())
            found = compared(left, right, known, axes, extents, quotients, number)
            match found:
                case Open():
                    case = Case.of(sides.bindings, known, tuple(comparisons))
                    return OpenCase(case, number, found)
                case Comparison():
                    comparisons.append(found)
    return Case.of(sides.bindings, known, tuple(comparisons))


MOST_PHASES = 8
"""Indices are told apart by their remainder for divisors up to this one."""


def _places(
    sides: Sides, extents: Sequence[Size], known: Assumptions
) -> Iterator[tuple[Size, ...]]:
    """Indices that together are all of a result.

    Where a value has an axis of known size d, elements may be interleaved: an axis of the result
    whose extent is a multiple of d is d*i+p, for each p below d.
    """
    lengths = {
        known.normal(extent).constant
        for value in topological_order((*sides.source, *sides.target))
        for extent in value.type.shape
    }
    divisors = sorted((n for n in lengths if n is not None and 1 < n <= MOST_PHASES), reverse=True)
    options: list[list[Size]] = []
    for number, extent in enumerate(extents):
        index = Size.variable(f"i{number}")
        divisor = next(
            (d for d in divisors if extent.variables and extent.divided(Size.of(d)) is not None), 1
        )
        if extent.constant == 1:
            options.append([Size.of(0)])
        else:
            options.append([index * divisor + phase for phase in range(divisor)])
    return product(*options)

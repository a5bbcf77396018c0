"""Inferred guards: conditions under which a rule that is false as it stands is true.

What it does: makes candidates from what the source of a rule names, drops those that some refuting
instance meets or that no other instance meets, and asks the prover about the rest, the weakest
first. The condition found becomes part of the rule. What it does not: find every condition there
is, or promise that a weaker one would not do.

A guard says how operators are applied: what a parameter is (a number, equal to another, odd), that
operands do not broadcast, what their elements are. It never says that the sizes of independent
operands are equal, or what they are: most false rules are true of small enough tensors, and such a
guard would turn a mistake into another rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeVar

from graphopt.instances import ELEMENT_TYPES, Instance, instances
from graphopt.pattern import (
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Variable,
    applications,
    expression_text,
)
from graphopt.rule import Rule, holds
from tensorgen.types import DType
from verify.difference import compare

DRAWS = 64
"""So many instances are drawn at most."""

ATTEMPTS = 120
"""So many draws in a row may lead nowhere."""

ENOUGH = 12
"""So many refuting and so many other instances are enough."""

MOST_TOGETHER = 3
"""So many conditions stand in a guard at most."""

MOST_PROOFS = 12
"""So many guards are tried."""


Guard = tuple[FunctionCall, ...]
"""Conditions that hold together."""

P = TypeVar("P")


@dataclass(slots=True)
class Sample:
    """Instances of a rule, told apart by whether they refute it."""

    refuting: list[Instance] = field(default_factory=list)
    other: list[Instance] = field(default_factory=list)


def sampled(
    rule: Rule, seed: int, draws: int = DRAWS, dtypes: tuple[DType, ...] = ELEMENT_TYPES
) -> Sample:
    """Instances of a rule, tried by the oracle; the same seed gives the same ones."""
    sample = Sample()
    for drawn, instance in enumerate(instances(rule, seed, ATTEMPTS, dtypes), start=1):
        comparison = compare(instance)
        if comparison.difference is not None:
            sample.refuting.append(instance)
        elif comparison.elements:
            sample.other.append(instance)
        enough = len(sample.refuting) >= ENOUGH and len(sample.other) >= ENOUGH
        if enough or drawn == draws:
            break
    return sample


def with_guard(rule: Rule, guard: Guard) -> Rule:
    """The rule under further conditions."""
    return replace(rule, where=(*rule.where, *guard))


@dataclass(frozen=True, slots=True)
class NoProof:
    """No proof under a guard, and instances that meet the guard and refute the rule, if any."""

    refuting: Sequence[Instance]


def guarded(
    rule: Rule, sample: Sample, proof: Callable[[Guard], P | NoProof]
) -> tuple[Guard, P] | None:
    """The weakest guard under which there is a `proof`, with that proof; None if none was found.

    Guards that more of the sample meets come before others, and among these those of fewer
    conditions. What refutes a guarded rule counts for the next guards.
    """
    candidates = tuple(dict.fromkeys(_candidates(rule)))
    known = {_text(condition) for condition in rule.where}
    candidates = tuple(c for c in candidates if _text(c) not in known)
    refuting, other = list(sample.refuting), list(sample.other)
    tried: set[Guard] = set()
    for _ in range(MOST_PROOFS):
        guard = _weakest(candidates, refuting, other, tried)
        if guard is None:
            return None
        tried.add(guard)
        found = proof(guard)
        if not isinstance(found, NoProof):
            return guard, found
        refuting += found.refuting
    return None


def _text(condition: FunctionCall) -> str:
    return expression_text(condition)


def _weakest(
    candidates: Sequence[FunctionCall],
    refuting: Sequence[Instance],
    other: Sequence[Instance],
    tried: set[Guard],
) -> Guard | None:
    """The best guard that was not tried yet: no refuting instance meets it, and some other does.

    Where nothing refutes, a guard must hold of everything: it restricts nothing that was seen.
    """
    met = {c: _met(c, refuting) for c in candidates}
    kept = {c: _met(c, other) for c in candidates}
    everything = (1 << len(other)) - 1
    useful = [c for c in candidates if kept[c] and (refuting or kept[c] == everything)]
    best: tuple[int, Guard] | None = None
    for count in range(1, MOST_TOGETHER + 1):
        for guard in combinations(useful, count):
            left, keeps = (1 << len(refuting)) - 1, everything
            for condition in guard:
                left &= met[condition]
                keeps &= kept[condition]
            number = keeps.bit_count()
            if left == 0 < number and guard not in tried and (best is None or number > best[0]):
                best = (number, guard)
    return None if best is None else best[1]


def _met(condition: FunctionCall, drawn: Sequence[Instance]) -> int:
    """Which instances meet a condition, as bits."""
    return sum(
        1 << n for n, instance in enumerate(drawn) if holds(condition, instance.bindings, None)
    )


# Candidates


_Bound = tuple[str, str, str]
"""An operator, one of its parameters, and the name that is bound to it."""


def _candidates(rule: Rule) -> Iterator[FunctionCall]:
    """Conditions on what the source names, parameters first."""
    found = list(applications(rule.source))
    bound = [
        (term.op.name, parameter, value.name)
        for term in found
        for parameter, value in term.params
        if isinstance(value, Name)
    ]
    for place in bound:
        yield from _about_parameter(place)
    for term in found:
        if term.rest is not None:
            yield from _about_captured(term.rest, term.captured)
    for (_, one, name), (_, other, another) in combinations(bound, 2):
        if one == other and name != another:
            yield _call("equal", Name(name), Name(another))
    groups = {term.rest: set(term.captured) for term in found if term.rest is not None}
    for (name, captured), (another, others) in combinations(sorted(groups.items()), 2):
        if captured == others:
            yield _call("alike", Name(name), Name(another))
    for term in (*found, *applications(rule.target)):
        yield from _about_operands(term)


def _about_parameter(place: _Bound) -> Iterator[FunctionCall]:
    operator, parameter, name = place
    match operator, parameter:
        case _, "groups":
            yield _call("equal", Name(name), Literal(1))
        case _, "strides" | "dilations" | "steps":
            yield _call("ones", Name(name))
        case _, "kernel":
            yield _call("odd", Name(name))
            yield _call("ones", Name(name))
        case _, "pads" | "before" | "after" | "starts":
            yield _call("equal", Name(name), FunctionCall("zeros_like", (Name(name),)))
        case "transpose", "perm":
            yield _call("identity", Name(name))
        case _, "keepdims":
            yield _call("equal", Name(name), Literal(True))
            yield _call("equal", Name(name), Literal(False))
        case _, "axis":
            yield _call("equal", Name(name), Literal(0))
            yield _call("equal", Name(name), Literal(1))
        case _:
            return


def _about_captured(name: str, captured: Sequence[str]) -> Iterator[FunctionCall]:
    if "groups" in captured:
        yield _call("has", Name(name), Literal("groups"), Literal(1))
    if "keepdims" in captured:
        yield _call("has", Name(name), Literal("keepdims"), Literal(True))
        yield _call("has", Name(name), Literal("keepdims"), Literal(False))


def _about_operands(term: Application) -> Iterator[FunctionCall]:
    names = list(dict.fromkeys(filter(None, map(_name, term.args))))
    if term.op.name == "conv":
        kernel = _name(term.args[1])
        if kernel is not None:
            yield _call("odd", FunctionCall("kernel_sizes", (Name(kernel),)))
    if term.op.family != "elementwise":
        return
    for name, other in combinations(names, 2):
        yield _call("same_shape", Name(name), Name(other))
    for name in names:
        yield _call("floating", Name(name))
        yield _call("signed", Name(name))


def _name(term: object) -> str | None:
    match term:
        case Variable(name=name):
            return name
        case Application(label=label):
            return label
        case _:
            return None


def _call(condition: str, *args: Expression) -> FunctionCall:
    return FunctionCall(condition, args)

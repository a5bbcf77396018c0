"""Cases of a certificate at samples: whether both forms are the elements of both sides.

What it does: chooses sizes that fit a case, builds both sides of the rule there, and compares
elements of both with both forms. What it does not: conclude more than that from samples, or use
any part of the prover.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence

from graphopt.graph import Input, Param, Params, Value
from graphopt.matching import Bindings, build, build_term, make_node
from graphopt.pattern import Sequence as Operands
from graphopt.pattern import Variable, applications, subterms
from graphopt.rule import Rule, replacement, rule_text
from graphopt.rule_functions import UNDEFINED
from verify.case_parts import assumed, axis_of, named_types, names_in, parameter_at, type_at
from verify.integer_points import (
    Condition,
    Fault,
    Order,
    Point,
    demand,
    points,
    polynomial,
    value_at,
)
from verify.sampled_values import BROKEN, WHOLE, Json, NoValue, Values

LARGEST = (4, 9, 40)
"""Sizes up to the first are tried, then up to the next."""

TRIES = 300
"""So many choices of a value are made in search of sizes that fit."""

_ROUNDING = re.compile(r"\b(floor|ceil|trunc|round|mod|fmod|cast)\(")


def compared(rule: Rule, case: Json, most: int, rng: random.Random) -> int | None:
    """How many elements were compared at sizes that fit; None if no such sizes were found.

    Raises Fault if anything differs.
    """
    point = sizes_for(case, shuffled(rng))
    if point is None:
        return None
    try:
        bindings = with_labels(rule, operands_at(rule, case, point))
        _check_types(case, bindings, point)
        source = build(rule.source, bindings)
        target = replacement(rule, source, bindings)
    except UNDEFINED as error:
        raise Fault(
            f"expected sizes for which the source is defined, got {point}: {error}"
        ) from None
    if target is None:
        raise Fault(f"expected sizes for which the rule applies, got {point}")
    values = values_at(rule, case, point, rng)
    count = 0
    for result in case["results"]:
        sides = source[result["result"]], target[result["result"]]
        extents = tuple(value_at(polynomial(text), point) for text in result["extents"])
        demand(extents == sides[0].type.shape, f"expected extents {sides[0].type}, got {extents}")
        axes = [axis_of(text) for text in result["axes"]]
        indices = [
            range(axis.phase, extent, axis.step) for axis, extent in zip(axes, extents, strict=True)
        ]
        for _ in range(most if all(indices) else 0):
            values.forget()
            index = tuple(map(rng.choice, indices))
            count += _agrees(values, sides, result, index, point)
    return count


def _agrees(
    values: Values, sides: tuple[Value, Value], result: Json, index: tuple[int, ...], point: Point
) -> bool:
    """Whether an element has a value; raises Fault if it has several."""
    inside = dict(point)
    for axis, n in zip(map(axis_of, result["axes"]), index, strict=True):
        if axis.name:
            demand(axis.name not in inside, f"expected one index for each axis, got {axis.name}")
            inside[axis.name] = n // axis.step
    for name, *parts in result["quotients"]:
        dividend, divisor = (value_at(polynomial(text), inside) for text in parts)
        demand(name not in inside, f"expected a name of its own for each quotient, got {name}")
        demand(dividend >= 0 < divisor, f"expected a quotient, got {dividend} by {divisor}")
        inside[name] = dividend // divisor
    try:
        found = [values.element(side, index) for side in sides]
        found += [values.form(result[side], inside) for side in ("source", "target")]
    except NoValue:
        return False
    if len(set(found)) > 1:
        told = ", ".join(map(str, found))
        raise Fault(
            f"expected one value of source, target and their forms at {list(index)}, got {told} "
            f"for {point}"
        )
    return True


def values_at(rule: Rule, case: Json, point: Point, rng: random.Random) -> Values:
    """Random elements of a case's inputs at a point."""
    numbers = BROKEN if _ROUNDING.search(rule_text(rule)) else WHOLE
    return Values(rng, [type_at(text, point) for text in case["inputs"]], numbers)


def sizes_for(case: Json, order: Callable[[], Order]) -> Point | None:
    """Sizes that fit a case, if some are found: small, and such that results have elements."""
    required, names = assumed(case), names_in(case)
    some: list[Condition] = [
        (polynomial(f"{extent}-1"), ">=")
        for result in case["results"]
        if result["source"] or not result["obligations"]
        for extent in result["extents"]
    ]
    for also, largest in itertools.product((some, []), LARGEST):
        spans = dict.fromkeys(names, (0, largest))
        found = next(points([*required, *also], {}, spans, order()), None)
        if found is not None:
            return found
    return None


def shuffled(rng: random.Random) -> Callable[[], Order]:
    """Values in random order, 1 and 0 last as a rule; none after many tries.

    An axis of 1 hides what an index is: only its first element is ever looked at.
    """

    def fresh() -> Order:
        tries = itertools.count()

        def order(low: int, high: int) -> Sequence[int]:
            if next(tries) > TRIES:
                return ()
            values = list(range(low, high + 1))
            rng.shuffle(values)
            if rng.random() < 0.8:
                values.sort(key=lambda value: -min(value, 2))
            return values

        return order

    return fresh


def operands_at(rule: Rule, case: Json, point: Point) -> Bindings:
    """What the names of a rule stand for in a case, with inputs in place of operands."""
    tensors: dict[str, Value] = {}
    sequences: dict[str, tuple[Value, ...]] = {}
    params: dict[str, Param] = {}
    captured: dict[str, list[tuple[str, Param]]] = {
        term.rest: [] for term in applications(rule.source) if term.rest is not None
    }
    for name, text in sorted(case["parameters"].items()):
        holder, dot, own = name.partition(".")
        value = parameter_at(text, point)
        if dot:
            captured[holder].append((own, value))
        else:
            params[name] = value
    lengths = {
        name: sum(key.startswith(f"{name}[") for key in case["operands"]) if is_sequence else 1
        for name, is_sequence in _operands(rule)
    }
    types = [type_at(text, point) for text in case["inputs"]]
    demand(len(types) == sum(lengths.values()), "expected as many inputs as operands")
    inputs: Iterator[Value] = iter([Input(n, type) for n, type in enumerate(types)])
    for name, is_sequence in _operands(rule):
        if is_sequence:
            sequences[name] = tuple(itertools.islice(inputs, lengths[name]))
        else:
            tensors[name] = next(inputs)
    held: dict[str, Params] = {name: tuple(pairs) for name, pairs in captured.items()}
    return Bindings(tensors, sequences, params, held)


def with_labels(rule: Rule, bindings: Bindings) -> Bindings:
    """The same with what the labels of a source stand for."""
    for term in applications(rule.source):
        if term.label is not None:
            bindings = bindings.with_tensor(term.label, build_term(term, bindings, make_node))
    return bindings


def _check_types(case: Json, bindings: Bindings, point: Point) -> None:
    for name, type in named_types(bindings).items():
        wanted = type_at(case["operands"][name], point)
        demand(type == wanted, f"expected {name} of type {type}, got {wanted} for {point}")


def _operands(rule: Rule) -> list[tuple[str, bool]]:
    """The names of operands in the order in which the source first has them; True: a sequence."""
    labels = {term.label for term in applications(rule.source)}
    found: dict[str, bool] = {}
    for root in rule.source.terms:
        for term in subterms(root):
            if isinstance(term, Variable | Operands) and term.name not in labels:
                found.setdefault(term.name, isinstance(term, Operands))
    return list(found.items())

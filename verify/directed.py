"""Instances of a rule where a proof stayed open.

What it does: takes a case that the prover did not close, looks for small sizes that fit what it
assumes, and builds the rule on operands of these sizes. So a counterexample in a corner that random
draws do not reach (a kernel wider than its padding, say) is found. What it does not: judge.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from graphopt.graph import Constant, Param, Value
from graphopt.instances import MAX_ELEMENTS, Instance
from graphopt.matching import Bindings, build, build_term
from graphopt.pattern import Sequence, applications
from graphopt.rule import Rule, replacement
from graphopt.rule_functions import UNDEFINED
from verify.assumptions import Assumptions
from verify.certificate import Case
from verify.feasibility import fitting

STARTS = 16
"""Sizes are looked for from so many places."""

Point = Mapping[str, int]


def directed(rule: Rule, case: Case, seed: int = 0) -> Iterator[Instance]:
    """Instances of a rule that a case is about; the same seed gives the same ones."""
    rng = np.random.default_rng(seed)
    seen: set[tuple[tuple[str, int], ...]] = set()
    names = sorted(_names(case))
    for attempt in range(STARTS):
        start = dict(case.assumptions.hint) if attempt == 0 else {}
        if attempt:
            start = {name: int(rng.integers(0, 4)) for name in names}
        point = _point(case.assumptions, start, names)
        if point is None or tuple(sorted(point.items())) in seen:
            continue
        seen.add(tuple(sorted(point.items())))
        instance = _instance(rule, case, point, rng)
        if instance is not None:
            yield instance


def _names(case: Case) -> set[str]:
    known = case.assumptions
    trees = [_shape(text) for _, text in case.operands]
    trees += [_tree(text) for _, text in case.parameters]
    mentioned = {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}
    sizes = (*known.nonnegative, *known.nonzero, *known.solved.values())
    return mentioned.union(*(size.variables for size in sizes)) - set(known.solved)


def _point(known: Assumptions, start: Point, names: list[str]) -> Point | None:
    """Integers near the start that fit, with the values of variables that are solved for."""
    found = fitting(known.nonnegative, known.nonzero, start)
    if found is None:
        return None
    point = {name: found.get(name, 0) for name in (*names, *found)}
    return point | {name: value.at(point) for name, value in known.solved.items()}


def _instance(rule: Rule, case: Case, point: Point, rng: np.random.Generator) -> Instance | None:
    bindings = _bindings(rule, case, point, rng)
    if bindings is None:
        return None
    try:
        for term in applications(rule.source):
            if term.label is not None:
                bindings = bindings.with_tensor(term.label, build_term(term, bindings))
        roots = build(rule.source, bindings)
    except (*UNDEFINED, KeyError):
        return None
    target = replacement(rule, roots, bindings)
    return None if target is None else Instance(bindings, roots, target)


def _bindings(rule: Rule, case: Case, point: Point, rng: np.random.Generator) -> Bindings | None:
    labels = {term.label for term in applications(rule.source)}
    tensors: dict[str, Value] = {}
    sequences: dict[str, list[Value]] = {
        arg.name: []
        for term in applications(rule.source)
        for arg in term.args
        if isinstance(arg, Sequence)
    }
    for name, text in case.operands:
        if name in labels:
            continue
        drawn = _tensor(text, point, rng)
        if drawn is None:
            return None
        base, bracket, _ = name.partition("[")
        if bracket:
            sequences[base].append(drawn)
        else:
            tensors[name] = drawn
    params: dict[str, Param] = {}
    captured: dict[str, list[tuple[str, Param]]] = {}
    for name, text in case.parameters:
        group, dot, key = name.partition(".")
        value = _value(_tree(text), point)
        if dot:
            captured.setdefault(group, []).append((key, value))
        else:
            params[name] = value
    return Bindings(
        tensors,
        {name: tuple(members) for name, members in sequences.items()},
        params,
        {name: tuple(sorted(values)) for name, values in captured.items()},
    )


def _tensor(text: str, point: Point, rng: np.random.Generator) -> Constant | None:
    """A tensor of small integers of a type such as float32[n0,1+n1]; None if it would be large."""
    sizes = _value(_shape(text), point)
    assert isinstance(sizes, tuple)
    shape = [size for size in sizes if isinstance(size, int)]
    if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS:
        return None
    if text.startswith("bool"):
        return Constant(np.asarray(rng.integers(0, 2, size=shape), np.bool_))
    # Wider floats than those of the case: their sums and products do not round.
    return Constant(np.asarray(rng.integers(-4, 5, size=shape), np.float64))


def _tree(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _shape(type: str) -> ast.expr:
    """The sizes that a type such as float32[n0,1+n1] has."""
    inside = type.removesuffix("]").partition("[")[2]
    return _tree(f"({inside},)" if inside else "()")


def _value(node: ast.expr, point: Point) -> Param:
    """A parameter, or a polynomial of sizes, at a point."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=name):
            return point.get(name, 0)
        case ast.Tuple(elts=items):
            return tuple(_value(item, point) for item in items)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            negated = _value(operand, point)
            assert isinstance(negated, int | float)
            return -negated
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _value(left, point), _value(right, point)
            assert isinstance(a, int)
            assert isinstance(b, int)
            match operator:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case _:
                    return a * b
        case _:
            raise AssertionError(f"no text of a case: {ast.unparse(node)}")

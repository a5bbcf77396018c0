"""The parts of a certificate's case, read from JSON: assumptions, types and parameters.

What it does: reads them as conditions on integers, and as types and values at a point; tells which
conditions make a parameter a given value. What it does not: look at forms (see `sampled_values`),
or use any part of the prover.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import NamedTuple

from graphopt.graph import Param
from graphopt.matching import Bindings
from tensorgen.types import DTYPES, DType, TensorType
from verify.integer_points import (
    Condition,
    Fault,
    Point,
    Polynomial,
    demand,
    polynomial,
    value_at,
    variables,
)
from verify.sampled_values import Json

_TYPES = {dtype.name: dtype for dtype in DTYPES}


def assumed(case: Json) -> list[Condition]:
    """What a case assumes of sizes."""
    return [
        *((polynomial(text), ">=") for text in case["nonnegative"]),
        *((polynomial(text), "!=") for text in case["nonzero"]),
        *((polynomial(f"{text}-{name}"), "==") for name, text in case["equations"].items()),
    ]


def named_types(bindings: Bindings) -> dict[str, TensorType]:
    """The type of each tensor; members of a sequence are xs[0], xs[1]."""
    types = {name: value.type for name, value in bindings.tensors.items()}
    for name, members in bindings.sequences.items():
        types |= {f"{name}[{n}]": member.type for n, member in enumerate(members)}
    return types


@lru_cache(maxsize=10_000)
def sizes_of(text: str) -> tuple[DType, tuple[Polynomial, ...]]:
    """The element type and the sizes of a type such as float32[n0,2*n1]."""
    name, _, inside = text.removesuffix("]").partition("[")
    demand(name in _TYPES, f"expected a type, got {text!r}")
    return _TYPES[name], tuple(polynomial(size) for size in inside.split(",") if inside)


def type_at(text: str, point: Point) -> TensorType:
    """A type at a point."""
    dtype, sizes = sizes_of(text)
    return TensorType(dtype, tuple(value_at(size, point) for size in sizes))


def kind(dtype: DType) -> str:
    """Floats stand for the reals, and one type of integers for all."""
    return "float" if dtype.is_float else "integer" if dtype.is_integer else dtype.name


def names_in(case: Json) -> list[str]:
    """All variables of a case, sorted."""
    sizes = [size for size, _ in assumed(case)]
    for text in (*case["inputs"], *case["operands"].values()):
        sizes += sizes_of(text)[1]
    names = {name for size in sizes for name in variables(size)}
    for text in case["parameters"].values():
        names |= {node.id for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name)}
    return sorted(names)


class Axis(NamedTuple):
    """The indices step * i + phase for all i of at least 0; without a name, the index 0 alone."""

    name: str
    step: int
    phase: int


@lru_cache(maxsize=10_000)
def axis_of(text: str) -> Axis:
    """An axis of a result such as 1+2*i0, or 0. Raises Fault."""
    match polynomial(text):
        case ():
            return Axis("", 1, 0)
        case (((name,), step),) if step > 0:
            return Axis(name, step, 0)
        case (((), phase), ((name,), step)) if 0 < phase < step:
            return Axis(name, step, phase)
        case _:
            raise Fault(f"expected the index of an axis, got {text!r}")


# Parameters


@lru_cache(maxsize=10_000)
def _parsed(text: str) -> ast.expr:
    """A parameter, which is written as Python writes it, with sizes as polynomials."""
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        raise Fault(f"expected a parameter, got {text!r}") from None


def parameter_at(text: str, point: Point) -> Param:
    """A parameter at a point."""
    return _value(_parsed(text), point)


def numbers_in(text: str) -> int:
    """How many items a parameter has, 1 if it is no tuple."""
    node = _parsed(text)
    return len(node.elts) if isinstance(node, ast.Tuple) else 1


def equations(text: str, value: Param) -> list[tuple[Polynomial, int]] | None:
    """Which sizes must be which numbers so that a parameter has a value; None if it never has."""
    return _equations(_parsed(text), value)


def _value(node: ast.expr, point: Point) -> Param:
    match node:
        case ast.Tuple(elts=items):
            return tuple(_value(item, point) for item in items)
        case ast.Constant(value=value):
            return _literal(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float(value))):
            return -value
        case _:
            return value_at(_size(node), point)


def _literal(value: object) -> Param:
    if not isinstance(value, int | float | str):
        raise Fault(f"expected a parameter, got {value!r}")
    return value


def _size(node: ast.expr) -> Polynomial:
    return polynomial(ast.unparse(node).replace(" ", ""))


def _equations(node: ast.expr, value: Param) -> list[tuple[Polynomial, int]] | None:
    """What makes a parameter that value; None if nothing does."""
    match node:
        case ast.Tuple(elts=items):
            if not isinstance(value, tuple) or len(value) != len(items):
                return None
            parts = [_equations(item, own) for item, own in zip(items, value, strict=True)]
            return None if None in parts else [one for part in parts if part for one in part]
        case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            own = _value(node, {})
            same = type(own) is type(value) and own == value
            return [] if same or _are_types_of_akind(own, value) else None
        case _:
            return [(_size(node), value)] if type(value) is int else None


def _are_types_of_akind(own: Param, value: Param) -> bool:
    if not isinstance(own, str) or not isinstance(value, str):
        return False
    known = [_TYPES.get(name) for name in (own, value)]
    return None not in known and len({kind(dtype) for dtype in known if dtype is not None}) == 1

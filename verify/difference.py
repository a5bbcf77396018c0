"""The first difference between both sides of an instance of a rule, found exactly.

What it does: evaluates both sides with the operators' numpy references, and computes what seems to
differ again from `OpSpec.compute`, over the rationals (`exact`). On small integers sums and
products are exact; whether they were is checked, so that equal means equal. Elements without a
value over the reals (a quotient by zero) do not count as different. What it does not: decide on
transcendental functions exactly: there a difference must be far above rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from graphopt.evaluation import NodeValue, by_reference, evaluated
from graphopt.graph import Node, Value, topological_order
from graphopt.instances import Instance
from tensorgen.types import Array, DType
from verify.exact import Elements, Index, Inexact, Number, Undefined, number

CANDIDATES = 24
"""So many elements that seem to differ are computed exactly."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where both sides first differ: result (from 0), index, and the elements there."""

    result: int
    index: Index
    source: Number
    target: Number


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides of an instance, evaluated.

    `elements` counts those that have a value on both sides; `exact` says that no arithmetic
    rounded, so that equal means equal.
    """

    sources: tuple[Array, ...]
    targets: tuple[Array, ...]
    difference: Difference | None
    elements: int
    exact: bool


def compare(instance: Instance, value_of: NodeValue = by_reference) -> Comparison:
    """Both sides of an instance, and their first difference in row-major order.

    `value_of` evaluates operators; differences are such by their meanings.
    """
    values = (*instance.source, *instance.target)
    arrays = evaluated(values, value_of)
    count = len(instance.source)
    sources = tuple(arrays[value.digest] for value in instance.source)
    targets = tuple(arrays[value.digest] for value in instance.target)
    exact = _is_exact(values, arrays)
    elements = sum(
        int(np.count_nonzero(_defined(source) & _defined(target)))
        for source, target in zip(sources, targets, strict=True)
    )
    exactly = Elements()
    difference: Difference | None = None
    for result in range(count):
        pair = (instance.source[result], instance.target[result])
        difference = _first(exactly, pair, (sources[result], targets[result]), result, exact)
        if difference is not None:
            break
    return Comparison(sources, targets, difference, elements, exact)


def _defined(array: Array) -> Array:
    return np.isfinite(array) if array.dtype.kind == "f" else np.ones(array.shape, np.bool_)


def _first(
    exactly: Elements,
    pair: tuple[Value, Value],
    arrays: tuple[Array, Array],
    result: int,
    exact: bool,
) -> Difference | None:
    source, target = arrays
    unequal = (source != target) & ~((source != source) & (target != target))
    dtype = pair[0].type.dtype
    if not exact and dtype.is_float:
        unequal &= ~np.isclose(source, target, rtol=_rounding(dtype), atol=_rounding(dtype))
    for position in np.argwhere(unequal)[:CANDIDATES]:
        index = tuple(int(n) for n in position)
        try:
            left, right = (exactly.element(value, index) for value in pair)
        except Undefined:
            continue
        except Inexact:
            if not _far_apart(source[index], target[index], dtype):
                continue
            left, right = number(source[index], dtype), number(target[index], dtype)
        if left != right:
            return Difference(result, index, left, right)
    return None


# Rounding


_EXACT_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}

_ROUNDING = frozenset(
    {
        "div", "pow", "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "mod", "fmod", "cast",
        "bitcast", "reduce_prod", "cumulative_product",
    }
)  # fmt: skip
"""Operators on floats that round, or grow beyond what a bound on their operands tells."""


def _rounding(dtype: DType) -> float:
    """The relative difference that a few roundings may cause."""
    return 2.0 ** -(_EXACT_BITS[dtype.name] * 2 // 3)


def _far_apart(source: Any, target: Any, dtype: DType) -> bool:
    """Whether two numbers differ by far more than rounding explains.

    Integers that are made of floats which may have rounded say nothing.
    """
    if not dtype.is_float or not np.isfinite(source) or not np.isfinite(target):
        return False
    one, other = float(source), float(target)
    allowed = 2.0 ** -(_EXACT_BITS[dtype.name] // 2)
    return abs(one - other) > allowed * max(1.0, abs(one), abs(other))


def _is_exact(values: Sequence[Value], arrays: Mapping[bytes, Array]) -> bool:
    """Whether no floating-point operation rounded.

    A sum of n products of the operands needs no more bits than their largest elements together,
    their fractional bits together, and those of n, which is at most the product of their sizes.
    """
    for value in topological_order(values):
        if not isinstance(value, Node) or not value.type.dtype.is_float:
            continue
        if value.op.name in _ROUNDING:
            return False
        operands = [
            arrays[operand.digest] for operand in value.inputs if operand.type.dtype.is_float
        ]
        needed = 1
        for operand in operands:
            bits = _bits(operand)
            if bits is None:
                return False
            needed += bits + operand.size.bit_length()
        if needed > _EXACT_BITS[value.type.dtype.name]:
            return False
    return True


def _bits(array: Array) -> int | None:
    """How many bits before and after the point the elements need; None for NaN or very many."""
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if np.isnan(wide).any():
        return None
    if finite.size == 0:
        return 0
    whole = max(int(math.frexp(float(np.max(np.abs(finite))))[1]), 0)
    for fraction in range(0, 54):
        scaled = finite * 2.0**fraction
        if np.all(scaled == np.rint(scaled)):
            return whole + fraction
    return None


def text(value: Number) -> str:
    """A number as people write it: 3, -1/2, inf, true."""
    match value:
        case bool():
            return "true" if value else "false"
        case Fraction() if value.denominator.bit_length() > 20:
            return repr(float(value))
        case _:
            return str(value)

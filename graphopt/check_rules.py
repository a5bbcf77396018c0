"""Testing what rules claim: both sides evaluated on random instances.

What it does: evaluates the source and the target of a rule on small integer-valued tensors, where
sums, products and movements are exact, and compares them element by element: exactly, or to
rounding where a rule divides or applies a transcendental function. Two evaluations are available:
the operators' meanings (`compute`) and their independent numpy references.

What it does not: prove anything. Agreement on instances refutes no rule; `Untested` says that no
instance was found, and is never agreement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Constant, Input, Node, Value, topological_order
from graphopt.instances import Instance, instances
from graphopt.ops.spec import expression_of
from graphopt.pattern import literal_text
from graphopt.rule import Rule
from tensorgen.evaluate import evaluate as evaluate_expression
from tensorgen.types import Array

NodeValue = Callable[[Node, Sequence[Array]], Array]
"""The value of a node for given operands."""


def by_meaning(node: Node, operands: Sequence[Array]) -> Array:
    """The value of a node by its tensor expression."""
    return evaluate_expression(expression_of(node), operands)


def by_reference(node: Node, operands: Sequence[Array]) -> Array:
    """The value of a node by its numpy reference."""
    return node.op.reference(*operands, **node.keywords)


@dataclass(frozen=True, slots=True)
class Agreed:
    """Both sides were equal on that many instances."""

    instances: int


@dataclass(frozen=True, slots=True)
class Refuted:
    """Both sides differ: the instance, the values, and the first index where they do."""

    instance: Instance
    source: Array
    target: Array
    index: tuple[int, ...]

    def __str__(self) -> str:
        bindings = self.instance.bindings
        parts = [f"{name}: {value.type}" for name, value in sorted(bindings.tensors.items())]
        for name, values in sorted(bindings.sequences.items()):
            parts.append(f"{name}: ({', '.join(str(value.type) for value in values)})")
        parts += [
            f"{name} = {literal_text(value)}" for name, value in sorted(bindings.params.items())
        ]
        for _, params in sorted(bindings.captured.items()):
            parts += [f"{name} = {literal_text(value)}" for name, value in params]
        return (
            f"differ at {list(self.index)}: {self.source[self.index]} and "
            f"{self.target[self.index]} for {', '.join(parts)}"
        )


@dataclass(frozen=True, slots=True)
class Untested:
    """No instance was found on which both sides are defined."""


Outcome = Agreed | Refuted | Untested


def check_rule(
    rule: Rule, count: int = 20, seed: int = 0, value_of: NodeValue = by_reference
) -> Outcome:
    """Compare both sides of a rule on up to `count` instances; the same seed, the same outcome."""
    tested = 0
    for instance in instances(rule, seed):
        refutation = compare(instance, value_of)
        if refutation is not None:
            return refutation
        tested += 1
        if tested == count:
            break
    return Agreed(tested) if tested else Untested()


def compare(instance: Instance, value_of: NodeValue = by_reference) -> Refuted | None:
    """The first difference between both sides of an instance; None if they are equal."""
    values = evaluate((*instance.source, *instance.target), value_of)
    count = len(instance.source)
    relative = _tolerance((*instance.source, *instance.target))
    for source, target in zip(values[:count], values[count:], strict=True):
        differs = _differing(source, target, relative)
        if differs.any():
            index = tuple(int(n) for n in np.argwhere(differs)[0])
            return Refuted(instance, source, target, index)
    return None


def evaluate(values: Sequence[Value], value_of: NodeValue = by_reference) -> tuple[Array, ...]:
    """The arrays of values that depend on constants only."""
    known: dict[bytes, Array] = {}
    with np.errstate(all="ignore"):
        for value in topological_order(values):
            match value:
                case Constant():
                    known[value.digest] = value.array
                case Node():
                    operands = [known[operand.digest] for operand in value.inputs]
                    known[value.digest] = np.asarray(value_of(value, operands))
                case Input():
                    raise AssertionError("an input has no value")
    return tuple(known[value.digest] for value in values)


_ROUNDING = frozenset(
    {
        "div", "pow", "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "mod", "fmod",
        "reduce_prod", "cumulative_product",
    }
)  # fmt: skip
"""Operators whose results round, or grow beyond what is exact, even on small integers."""


def _tolerance(values: Sequence[Value]) -> float:
    """The relative difference that rounding may cause: 0 where all arithmetic is exact."""
    nodes = [value for value in topological_order(values) if isinstance(value, Node)]
    if not any(node.op.name in _ROUNDING for node in nodes):
        return 0.0
    narrow = any(node.type.dtype.is_float and node.type.dtype.bits < 64 for node in nodes)
    return 1e-4 if narrow else 1e-11


def _differing(source: Array, target: Array, relative: float) -> NDArray[np.bool_]:
    if source.dtype.kind != "f" or relative == 0.0:
        return np.asarray((source != target) & ~((source != source) & (target != target)))
    close = np.isclose(source, target, rtol=relative, atol=relative, equal_nan=True)
    return np.asarray(~close)

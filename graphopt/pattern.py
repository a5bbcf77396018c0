"""Patterns over tensor terms: their parts, and their one text form.

What it does: says what a pattern is, prints it, and reads it back (`pattern_reader`). The text is
Python call syntax: tensors positional, parameters by keyword.

    matmul(x, concat(y, z, axis=1))     variables, an operator, a literal parameter
    transpose(x, perm=p)                a parameter variable
    conv(x, w, pads=p, **q)             all other parameters, captured together
    mul(x, 2)                           a constant whose elements all equal 2, of any shape
    concat(x, *ys, axis=a)              a variable for any number of operands, none included
    mul(y := conv(x, w, **q), c)        a name for an inner node
    reshape(x, shape=shape_of(y))       targets only: a parameter computed by a named function
    matmul(x, y), matmul(x, z)          several results

Operators whose names are Python keywords are spelled with an underscore: `and_(x, y)`.

What it does not: match, evaluate or judge patterns.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from graphopt.graph import Param
from graphopt.ops.spec import OpSpec


class RuleError(ValueError):
    """A rule or pattern that cannot be used. One line: file:line:column, expected, got."""


class Role(Enum):
    """What a name in a pattern stands for."""

    TENSOR = "tensor"
    TENSORS = "tensor sequence"
    PARAMETER = "parameter"
    PARAMETERS = "captured parameters"


@dataclass(frozen=True, slots=True)
class Name:
    """A name inside a parameter expression or condition."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A value written out. As a tensor: a constant whose elements all equal it.

    Two literals are equal if they print the same, so 1, 1.0 and True differ.
    """

    value: Param

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and literal_text(self.value) == literal_text(other.value)

    def __hash__(self) -> int:
        return hash(literal_text(self.value))


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A parameter computed from bound names by a function of `rule_functions.FUNCTIONS`."""

    function: str
    args: tuple[Expression, ...]


Expression = Name | Literal | FunctionCall


@dataclass(frozen=True, slots=True)
class Variable:
    """Any tensor; the same tensor wherever the name stands."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Any number of operands of an operator that takes any number."""

    name: str


@dataclass(frozen=True, slots=True)
class Application:
    """An operator applied to terms.

    `params` follow the order of the operator's own list; `rest` names the parameters that are
    captured (source) or passed on (target) together; `label` names the node itself.
    """

    op: OpSpec
    args: tuple[Term, ...]
    params: tuple[tuple[str, Expression], ...] = ()
    rest: str | None = None
    label: str | None = None

    @property
    def captured(self) -> tuple[str, ...]:
        """The names of the parameters that `rest` stands for."""
        named = {name for name, _ in self.params}
        return tuple(name for name in self.op.params if name not in named)


Term = Variable | Literal | Sequence | Application


@dataclass(frozen=True, slots=True)
class Pattern:
    """One term for each result."""

    terms: tuple[Term, ...]


COMMUTATIVE = frozenset(
    {"add", "mul", "max", "min", "eq", "ne", "and", "or", "bitand", "bitor", "bitxor"}
)
"""Operators whose two operands may be exchanged; patterns match them in both orders."""


def subterms(term: Term) -> Iterator[Term]:
    """Every subterm, operands before the term itself."""
    if isinstance(term, Application):
        for arg in term.args:
            yield from subterms(arg)
    yield term


def applications(pattern: Pattern) -> Iterator[Application]:
    """Every operator application of a pattern, operands first."""
    for root in pattern.terms:
        for term in subterms(root):
            if isinstance(term, Application):
                yield term


# Text


def spelling(op: OpSpec) -> str:
    """An operator's name in patterns."""
    return f"{op.name}_" if keyword.iskeyword(op.name) else op.name


def literal_text(value: Param) -> str:
    """A literal as Python reads it back, infinities included."""
    match value:
        case bool() | str():
            return repr(value)
        case float():
            if math.isinf(value):
                return "1e999" if value > 0 else "-1e999"
            return repr(value)
        case int():
            return repr(value)
        case tuple():
            inside = ", ".join(literal_text(item) for item in value)
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        case _:
            assert_never(value)


def expression_text(expression: Expression) -> str:
    """A parameter expression as the reader takes it."""
    match expression:
        case Name():
            return expression.name
        case Literal():
            return literal_text(expression.value)
        case FunctionCall():
            inside = ", ".join(expression_text(arg) for arg in expression.args)
            return f"{expression.function}({inside})"
        case _:
            assert_never(expression)


def term_text(term: Term) -> str:
    """A term as the reader takes it."""
    match term:
        case Variable():
            return term.name
        case Literal():
            return literal_text(term.value)
        case Sequence():
            return f"*{term.name}"
        case Application():
            parts = [term_text(arg) for arg in term.args]
            parts += [f"{name}={expression_text(value)}" for name, value in term.params]
            parts += [f"**{term.rest}"] if term.rest is not None else []
            text = f"{spelling(term.op)}({', '.join(parts)})"
            return text if term.label is None else f"{term.label} := {text}"
        case _:
            assert_never(term)


def pattern_text(pattern: Pattern) -> str:
    """A pattern as the reader takes it."""
    return ", ".join(map(term_text, pattern.terms))

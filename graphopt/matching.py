"""Matching patterns against graph values, and building values from patterns.

What it does: finds every way in which a pattern fits given values, as immutable bindings, and
builds the values that a pattern says under given bindings. Commutative operators are matched in
both orders. A tensor literal fits a constant whose elements all equal it once rounded to the
constant's type, of any shape.
What it does not: decide whether a rule applies (see `rules`) or search a graph (see `rewrite`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from graphopt.graph import Constant, Node, Param, Params, Value
from graphopt.ops.spec import OpSpec
from graphopt.pattern import (
    COMMUTATIVE,
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Pattern,
    Sequence,
    Term,
    Variable,
)
from graphopt.rule_functions import FUNCTIONS, Undefined
from tensorgen.types import DType, integer_range

Bound = Value | tuple[Value, ...] | Param | Params
"""What a name can stand for: a tensor, several, a parameter, captured parameters."""


@dataclass(frozen=True, slots=True)
class Bindings:
    """What each name of a pattern stands for. Immutable: `with_…` gives new bindings."""

    tensors: Mapping[str, Value] = field(default_factory=dict)
    sequences: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    params: Mapping[str, Param] = field(default_factory=dict)
    captured: Mapping[str, Params] = field(default_factory=dict)

    def with_tensor(self, name: str, value: Value) -> Bindings:
        tensors = {**self.tensors, name: value}
        return Bindings(tensors, self.sequences, self.params, self.captured)

    def with_sequence(self, name: str, values: tuple[Value, ...]) -> Bindings:
        sequences = {**self.sequences, name: values}
        return Bindings(self.tensors, sequences, self.params, self.captured)

    def with_param(self, name: str, value: Param) -> Bindings:
        params = {**self.params, name: value}
        return Bindings(self.tensors, self.sequences, params, self.captured)

    def with_captured(self, name: str, params: Params) -> Bindings:
        captured = {**self.captured, name: params}
        return Bindings(self.tensors, self.sequences, self.params, captured)

    def lookup(self, name: str) -> Bound:
        """What a name stands for, whatever its role."""
        if name in self.tensors:
            return self.tensors[name]
        if name in self.sequences:
            return self.sequences[name]
        if name in self.params:
            return self.params[name]
        return self.captured[name]


NO_BINDINGS = Bindings()


# Matching


def match(pattern: Pattern, values: tuple[Value, ...]) -> Iterator[Bindings]:
    """Every way in which the terms of a pattern fit the values, one term for each value."""

    def fits(position: int, bindings: Bindings) -> Iterator[Bindings]:
        if position == len(values):
            yield bindings
            return
        for extended in match_term(pattern.terms[position], values[position], bindings):
            yield from fits(position + 1, extended)

    assert len(values) == len(pattern.terms)
    return fits(0, NO_BINDINGS)


def match_term(term: Term, value: Value, bindings: Bindings) -> Iterator[Bindings]:
    """Every extension of the bindings under which a term fits a value."""
    match term:
        case Variable():
            bound = bindings.tensors.get(term.name)
            if bound is None:
                yield bindings.with_tensor(term.name, value)
            elif bound.digest == value.digest:
                yield bindings
        case Literal():
            if equals_literal(value, term):
                yield bindings
        case Application():
            if isinstance(value, Node) and value.op is term.op:
                yield from _match_node(term, value, bindings)
        case Sequence():
            raise AssertionError("a sequence stands only among operands")
        case _:
            assert_never(term)


def _match_node(term: Application, node: Node, bindings: Bindings) -> Iterator[Bindings]:
    extended = _match_params(term, node, bindings)
    if extended is None:
        return
    orders = [term.args]
    if term.op.name in COMMUTATIVE:
        orders.append(term.args[::-1])
    for args in orders:
        if not literals_fit(args, node):
            continue
        for found in _match_operands(args, node.inputs, extended):
            yield found if term.label is None else found.with_tensor(term.label, node)


def literals_fit(args: tuple[Term, ...], node: Node) -> bool:
    """Whether the constants where literals stand make no other operand larger, as scalars do not:
    rules speak of scalars."""
    others = [
        value.type.shape
        for arg, value in zip(args, node.inputs, strict=False)
        if not isinstance(arg, Literal)
    ]
    if node.op.family != "elementwise" or len(others) in (0, len(args)):
        return True
    return np.broadcast_shapes(*others) == node.type.shape


def _match_params(term: Application, node: Node, bindings: Bindings) -> Bindings | None:
    given = node.keywords
    for name, expression in term.params:
        match expression:
            case Literal():
                if given[name] != expression.value:
                    return None
            case Name():
                bound = bindings.params.get(expression.name)
                if bound is None:
                    bindings = bindings.with_param(expression.name, given[name])
                elif bound != given[name]:
                    return None
            case FunctionCall():
                raise AssertionError("a source computes no parameters")
            case _:
                assert_never(expression)
    if term.rest is None:
        return bindings
    captured = tuple((name, given[name]) for name in sorted(term.captured))
    known = bindings.captured.get(term.rest)
    if known is None:
        return bindings.with_captured(term.rest, captured)
    return bindings if known == captured else None


def _match_operands(
    args: tuple[Term, ...], values: tuple[Value, ...], bindings: Bindings
) -> Iterator[Bindings]:
    if not args:
        if not values:
            yield bindings
        return
    first, others = args[0], args[1:]
    if not isinstance(first, Sequence):
        if values:
            for extended in match_term(first, values[0], bindings):
                yield from _match_operands(others, values[1:], extended)
        return
    known = bindings.sequences.get(first.name)
    if known is not None:
        if values[: len(known)] == known:
            yield from _match_operands(others, values[len(known) :], bindings)
        return
    needed = sum(not isinstance(arg, Sequence) for arg in others)
    for length in range(len(values) - needed + 1):
        extended = bindings.with_sequence(first.name, values[:length])
        yield from _match_operands(others, values[length:], extended)


def equals_literal(value: Value, literal: Literal) -> bool:
    """Whether a value is a constant whose elements all equal a literal. -0.0 equals 0."""
    if not isinstance(value, Constant) or value.type.size == 0:
        return False
    wanted = literal_array(literal, value.type.dtype)
    if wanted is None:
        return False
    flat = value.array.reshape(-1)
    # Nearly every large constant differs in its first element.
    return bool(flat[0] == wanted) and bool(np.all(flat == wanted))


def literal_array(literal: Literal, dtype: DType) -> np.ndarray[tuple[()], np.dtype] | None:
    """A literal as a scalar array of a type; None if the type has no such value.

    A literal float is rounded to the type; a literal integer must be held exactly.
    """
    value = literal.value
    if isinstance(value, bool) != (dtype.name == "bool") or isinstance(value, str | tuple):
        return None
    if isinstance(value, float) and not dtype.is_float:
        return None
    if isinstance(value, int) and dtype.is_integer:
        least, most = integer_range(dtype)
        if not least <= value <= most:
            return None
    if not dtype.is_float:
        return np.asarray(value).astype(dtype.numpy)
    try:
        wide = float(value)
    except OverflowError:
        return None
    with np.errstate(over="ignore"):
        array = np.asarray(wide).astype(dtype.numpy)
    held = float(array.astype(np.float64))
    return array if isinstance(value, float) or held == value else None


# Building


Make = Callable[[OpSpec, tuple[Value, ...], Mapping[str, Param]], Value]
"""How a node is made: (operator, operands, parameters) -> value."""


def make_node(op: OpSpec, inputs: tuple[Value, ...], params: Mapping[str, Param]) -> Value:
    """The plain node."""
    return op(*inputs, **params)


def build(pattern: Pattern, bindings: Bindings, make: Make = make_node) -> tuple[Value, ...]:
    """The values that a pattern says under bindings of all its names.

    A tensor literal becomes a scalar constant of the element type of the last operand beside it
    that is no literal. Raises Undefined if a parameter function has no value or a literal no
    type, and ShapeError if operands do not fit.
    """
    return tuple(build_term(term, bindings, make) for term in pattern.terms)


def build_term(term: Term, bindings: Bindings, make: Make = make_node) -> Value:
    """The value that one term says; see `build`."""
    match term:
        case Variable():
            return bindings.tensors[term.name]
        case Application():
            operands: list[Value | Literal] = []
            for arg in term.args:
                match arg:
                    case Sequence():
                        operands.extend(bindings.sequences[arg.name])
                    case Literal():
                        operands.append(arg)
                    case _:
                        operands.append(build_term(arg, bindings, make))
            params = {name: evaluate(value, bindings) for name, value in term.params}
            if term.rest is not None:
                params.update(bindings.captured[term.rest])
            return make(term.op, typed(operands), params)
        case Literal() | Sequence():
            raise AssertionError("literals and sequences stand only among operands")
        case _:
            assert_never(term)


def typed(operands: list[Value | Literal]) -> tuple[Value, ...]:
    """The operands with literals as constants of the type of those beside them."""
    if not operands:
        raise Undefined("an operator without operands")
    dtype: DType | None = None
    for operand in operands:
        if not isinstance(operand, Literal):
            dtype = operand.type.dtype
    result: list[Value] = []
    for operand in operands:
        if isinstance(operand, Literal):
            array = None if dtype is None else literal_array(operand, dtype)
            if array is None:
                raise Undefined("a literal that the element type does not have")
            result.append(Constant(array))
        else:
            result.append(operand)
    return tuple(result)


def evaluate(expression: Expression, bindings: Bindings) -> Param:
    """The value of a parameter expression. Raises Undefined if a function has none."""
    match expression:
        case Literal():
            return expression.value
        case Name():
            return bindings.params[expression.name]
        case FunctionCall():
            arguments = (argument(arg, bindings) for arg in expression.args)
            result: Param = FUNCTIONS[expression.function].value(*arguments)
            return result
        case _:
            assert_never(expression)


def argument(expression: Expression, bindings: Bindings) -> Bound:
    """The value of an argument of a function or condition: a name may stand for anything."""
    if isinstance(expression, Name):
        return bindings.lookup(expression.name)
    return evaluate(expression, bindings)

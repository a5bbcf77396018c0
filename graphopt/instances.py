"""Concrete instances of a rule: small tensors and parameters under which both sides have meaning.

What it does: draws random types, elements and parameters for the names of a source pattern so that
every operator in it accepts its operands. Proposals for each operator come from its operands as far
as they are known, from the type that the term around it wants, and else from the operator's own
samples. Sizes include 1 and are mostly coprime, ranks run from 0 to 4; elements are small integers
or quarters, so that sums and products are exact in every type.

What it does not: cover all shapes (that is what proofs are for), or compare the two sides (see
`verify.oracle`). A failure to find an instance is not a proof that there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from graphopt.graph import Constant, Node, Param, Value
from graphopt.matching import NO_BINDINGS, Bindings, evaluate, literal_array, literals_fit
from graphopt.pattern import (
    Application,
    FunctionCall,
    Literal,
    Name,
    Sequence,
    Term,
    Variable,
    applications,
)
from graphopt.proposals import UNFIT, Known, Misfit, Proposal, Random, propose
from graphopt.rule import Rule, replacement
from graphopt.rule_functions import Undefined
from tensorgen.types import (
    Array,
    DType,
    Kind,
    Shape,
    TensorType,
    boolean,
    float32,
    float64,
    int8,
    int64,
    integer_range,
    uint8,
)

ATTEMPTS = 400
"""How many draws in a row may fail."""

MAX_ELEMENTS = 4096
"""No operand drawn has more elements than this."""

FLOATS: tuple[DType, ...] = (float64, float64, float64, float32)
OTHERS: tuple[DType, ...] = (int64, int8, uint8, boolean)
ELEMENT_TYPES: tuple[DType, ...] = (*FLOATS, *OTHERS)
"""Element types of tensors, as far as a rule leaves them open; equally often."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Bindings of a rule's names, and both sides built from them. All leaves are constants."""

    bindings: Bindings
    source: tuple[Value, ...]
    target: tuple[Value, ...]


def find_instance(rule: Rule, seed: int = 0, attempts: int = ATTEMPTS) -> Instance | None:
    """An instance of a rule; None if none was found. The same seed gives the same instance."""
    return next(instances(rule, seed, attempts), None)


def instances(
    rule: Rule,
    seed: int = 0,
    attempts: int = ATTEMPTS,
    dtypes: tuple[DType, ...] = ELEMENT_TYPES,
) -> Iterator[Instance]:
    """Instances of a rule, drawn independently; ends after `attempts` draws in a row fail.

    Tensors have one of the element types `dtypes` where the rule leaves that open.
    """
    rng = np.random.default_rng(seed)
    failures = 0
    while failures < attempts:
        instance = _drawn(rule, rng, dtypes)
        if instance is None:
            failures += 1
        else:
            failures = 0
            yield instance


def _drawn(rule: Rule, rng: np.random.Generator, dtypes: tuple[DType, ...]) -> Instance | None:
    draw = _Draw(rng, rule, dtypes)
    try:
        roots = tuple(draw.value(term, None) for term in rule.source.terms)
    except UNFIT:
        return None
    target = replacement(rule, roots, draw.bindings)
    return None if target is None else Instance(draw.bindings, roots, target)


# Elements: exact in every type, and never 0 so that division has a meaning.


def _signed(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    if dtype.kind is Kind.UNSIGNED:
        return _positive(rng, dtype, shape)
    signs = rng.choice([-1, 1], size=shape)
    return np.asarray(signs * rng.integers(1, 5, size=shape)).astype(dtype.numpy)


def _positive(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    return np.asarray(rng.integers(1, 10, size=shape)).astype(dtype.numpy)


def _powers_of_two(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    least = -2 if dtype.is_float else 0
    return np.asarray(2.0 ** rng.integers(least, 3, size=shape)).astype(dtype.numpy)


def _any_integers(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    """Integers of the whole range, whose sums and products wrap."""
    if not dtype.is_integer:
        return _signed(rng, dtype, shape)
    least, most = integer_range(dtype)
    drawn = np.asarray(rng.integers(least, most, size=shape, endpoint=True, dtype=dtype.numpy))
    return np.where(drawn == 0, np.ones_like(drawn), drawn)


def _quarters(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    """Fractions, among them such as lie below 1 and beside the middle of two integers."""
    if not dtype.is_float:
        return _signed(rng, dtype, shape)
    signs = rng.choice([-1, 1], size=shape)
    return np.asarray(signs * rng.integers(1, 12, size=shape) / 4).astype(dtype.numpy)


Elements = Callable[[np.random.Generator, DType, Shape], Array]
_ELEMENTS: tuple[Elements, ...] = (
    _signed,
    _any_integers,
    _positive,
    _powers_of_two,
    _quarters,
)


@dataclass(frozen=True, slots=True)
class _Operand:
    """One operand to draw: what the pattern says there, or the value that is settled already.

    Neither is given for a member of a sequence that is not bound yet.
    """

    term: Term | None = None
    value: Value | None = None


class _Draw:
    """One draw of a source: the random parts, and the bindings so far.

    Conditions `equal(p, …)`, `same_shape(x, …)` and `rank(n, …)` are seldom met by chance: they
    guide the draw. They are judged like all others afterwards.
    """

    def __init__(self, rng: np.random.Generator, rule: Rule, dtypes: tuple[DType, ...]) -> None:
        self.where = rule.where
        self.random = Random.of(rng, _stated_rank(rule))
        self.dtype = self.random.choice(dtypes)
        self.elements = self.random.choice(_ELEMENTS)
        self.bindings = NO_BINDINGS

    def tensor(self, type: TensorType) -> Constant:
        if type.size > MAX_ELEMENTS:
            raise Misfit
        rng = self.random.rng
        if type.dtype == boolean:
            return Constant(np.asarray(rng.integers(0, 2, size=type.shape), dtype=np.bool_))
        return Constant(self.elements(rng, type.dtype, type.shape))

    def value(self, term: Term, wanted: TensorType | None) -> Value:
        """A value that fits a term, of the wanted type where the term leaves that open."""
        match term:
            case Variable():
                bound = self.bindings.tensors.get(term.name)
                if bound is None:
                    type = TensorType(self.dtype, self.random.shape()) if wanted is None else wanted
                    shape = self.shape_asked(term.name)
                    if shape is None and self.rank_asked(term.name) not in (None, type.rank):
                        shape = self.random.shape()
                    bound = self.tensor(type if shape is None else TensorType(type.dtype, shape))
                    self.bindings = self.bindings.with_tensor(term.name, bound)
                return bound
            case Literal():
                array = None if wanted is None else literal_array(term, wanted.dtype)
                if wanted is None or array is None:
                    raise Misfit
                return Constant(np.full(wanted.shape, array))
            case Application():
                shape = None if term.label is None else self.shape_asked(term.label)
                if wanted is not None and shape is not None:
                    wanted = TensorType(wanted.dtype, shape)
                node = self.node(term, wanted)
                if term.label is not None:
                    self.bindings = self.bindings.with_tensor(term.label, node)
                return node
            case Sequence():
                raise AssertionError("a sequence stands only among operands")
            case _:
                assert_never(term)

    def node(self, term: Application, wanted: TensorType | None) -> Node:
        operands, lengths = self.operands(term.args)
        settled = tuple(None if item.value is None else item.value.type for item in operands)
        known = Known(term.op, settled, self.params(term), wanted, self.dtype)
        proposal: Proposal | None = None
        for position in sorted(range(len(operands)), key=lambda n: _freedom(operands[n])):
            operand = operands[position]
            if operand.value is not None:
                continue
            if proposal is None:
                proposal = propose(known, self.random)
            type = proposal.types[position]
            value = self.tensor(type) if operand.term is None else self.value(operand.term, type)
            operands[position] = _Operand(operand.term, value)
            types = (*known.types[:position], value.type, *known.types[position + 1 :])
            known = replace(known, types=types, params=self.params(term))
            if value.type != type:
                proposal = None
        if proposal is None:
            proposal = propose(known, self.random)
        params = {**proposal.params, **known.params}
        values = tuple(item.value for item in operands if item.value is not None)
        self.bind(term, params, values, lengths)
        node = term.op(*values, **params)
        if not literals_fit(term.args, node):
            raise Misfit
        return node

    def operands(self, args: tuple[Term, ...]) -> tuple[list[_Operand], tuple[int, ...]]:
        """The operands to draw, and how many of them each argument stands for."""
        result: list[_Operand] = []
        lengths = []
        for arg in args:
            known: tuple[Value, ...] | None = None
            if isinstance(arg, Variable) and arg.name in self.bindings.tensors:
                known = (self.bindings.tensors[arg.name],)
            elif isinstance(arg, Sequence):
                known = self.bindings.sequences.get(arg.name)
            if known is not None:
                result += [_Operand(value=value) for value in known]
                lengths.append(len(known))
            elif isinstance(arg, Sequence):
                lengths.append(self.random.below(3))
                result += [_Operand()] * lengths[-1]
            else:
                result.append(_Operand(arg))
                lengths.append(1)
        if not result:
            raise Misfit
        return result, tuple(lengths)

    def params(self, term: Application) -> Mapping[str, Param]:
        """The parameters that literals and bound names settle."""
        result: dict[str, Param] = {}
        for name, expression in term.params:
            match expression:
                case Literal():
                    result[name] = expression.value
                case Name():
                    settled = self.parameter_asked(expression.name)
                    if settled is not None:
                        result[name] = settled
                case FunctionCall():
                    raise AssertionError("a source computes no parameters")
                case _:
                    assert_never(expression)
        if term.rest is not None:
            result.update(self.bindings.captured.get(term.rest, ()))
        return result

    def parameter_asked(self, name: str) -> Param | None:
        """The value of a parameter that is bound, or that a condition `equal` settles."""
        if name in self.bindings.params:
            return self.bindings.params[name]
        for condition in self.where:
            if condition.function == "equal" and condition.args[0] == Name(name):
                try:
                    return evaluate(condition.args[1], self.bindings)
                except (Undefined, KeyError):  # KeyError: what it is computed from is not drawn yet
                    continue
        return None

    def rank_asked(self, name: str) -> Param | None:
        """The rank that a condition states of a tensor."""
        for condition in self.where:
            if condition.function == "rank" and Name(name) in condition.args:
                stated = condition.args[0]
                return stated.value if isinstance(stated, Literal) else None
        return None

    def shape_asked(self, name: str) -> Shape | None:
        """The shape that a condition settles: `rank(0, …)`, or `same_shape` with a bound tensor."""
        for condition in self.where:
            if condition.function == "rank" and condition.args[0] == Literal(0):
                if Name(name) in condition.args:
                    return ()
                continue
            if condition.function == "same_shape" and Name(name) in condition.args:
                for other in condition.args:
                    if isinstance(other, Name) and other.name in self.bindings.tensors:
                        return self.bindings.tensors[other.name].type.shape
        return None

    def bind(
        self,
        term: Application,
        params: Mapping[str, Param],
        values: tuple[Value, ...],
        lengths: tuple[int, ...],
    ) -> None:
        """Bind the names of parameters and sequences of an application to what was drawn."""
        for name, expression in term.params:
            if isinstance(expression, Name):
                self.bindings = self.bindings.with_param(expression.name, params[name])
        if term.rest is not None:
            captured = tuple((name, params[name]) for name in sorted(term.captured))
            self.bindings = self.bindings.with_captured(term.rest, captured)
        start = 0
        for arg, length in zip(term.args, lengths, strict=True):
            if isinstance(arg, Sequence):
                members = values[start : start + length]
                self.bindings = self.bindings.with_sequence(arg.name, members)
            start += length


def _stated_rank(rule: Rule) -> int | None:
    """How many axes tensors have, if a condition or the strides of windows say so."""
    for condition in rule.where:
        if condition.function == "rank" and isinstance(condition.args[0], Literal):
            stated = condition.args[0].value
            if isinstance(stated, int) and stated:  # scalars have their rank, others any
                return stated
    for application in applications(rule.source):
        for name, value in application.params:
            if name == "strides" and isinstance(value, Literal) and isinstance(value.value, tuple):
                return 2 + len(value.value)
    return None


def _freedom(operand: _Operand) -> int:
    """What is settled comes first, then operators, then what adapts to any type."""
    match operand.term:
        case None:
            return 0 if operand.value is not None else 2
        case Application():
            return 1
        case Literal():
            return 3
        case _:
            return 2

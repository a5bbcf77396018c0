"""Both sides of a rule on symbolic operands: every rank, order of axes and split that it allows.

What it does: gives each name of a rule's source a value whose sizes are unknown, builds the source
and the target with the operators' own type rules, and so finds by exploration under which
conditions on sizes both sides are defined and of one type. What it does not: compare the sides (see
`prover`).

Ranks are bounded by `Ranks`: operators treat leading and pointwise axes alike and one by one, so
that a rule which holds with two axes of a kind holds with more (the argument of TensorRight,
POPL 2025, section 5, for aggregated axes); of axes that are permuted there are three, of which
there are orders that are not their own inverse. `ranks_for` counts the kinds. Windows have one
spatial axis for the same reason, or as many as `Ranks` says. It is an argument about the operators
and the functions that rules are made of, not a proof: a certificate says what ranks it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

from graphopt.graph import Input, Param, Params, Value
from graphopt.matching import NO_BINDINGS, Bindings, build, make_node, typed
from graphopt.ops.layout import PAD_MODES
from graphopt.ops.spec import OpSpec
from graphopt.pattern import (
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Pattern,
    Term,
    Variable,
    applications,
)
from graphopt.pattern import Sequence as Operands
from graphopt.rule import Rule, holds
from graphopt.rule_functions import UNDEFINED, Undefined
from tensorgen.sizes import NotConcrete, sizes
from tensorgen.types import DType, TensorType, boolean, float32, int64
from verify.exploration import Path


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks that operands may have, and the number of spatial axes of windows."""

    plain: tuple[int, ...] = (1, 2, 3)
    spatial: tuple[int, ...] = (1,)
    longest_sequence: int = 2


@dataclass(frozen=True, slots=True)
class Sides:
    """One way to apply a rule: the values of both sides, of one type each."""

    bindings: Bindings
    source: tuple[Value, ...]
    target: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class NoTarget:
    """The source is defined and the target is not, or has other types: nothing is claimed."""


@dataclass(frozen=True, slots=True)
class NoSource:
    """The source is not defined, or a condition of the rule does not hold."""


Instance = Sides | NoTarget | NoSource


class Inexpressible(Exception):
    """A rule has a part that this prover gives no symbolic value. The message says which."""


_AXIS_BY_AXIS = frozenset({"slice", "pad", "concat", "broadcast_to"})
_CONDITIONS = frozenset({"and", "or", "not"})
_WINDOWS = frozenset({"conv", "conv_transpose", "sum_pool", "max_pool", "max_pool_index"})


ELEMENTS = (float32, int64, boolean)
"""Types of elements, of which those of a rule are the first that its operators take."""


def instance(rule: Rule, path: Path, ranks: Ranks, elements: DType) -> Instance:
    """One instance of a rule; other paths give the others. Raises Inexpressible."""
    try:
        return _instance(rule, _Builder(path, ranks, rule, elements))
    except NotConcrete as error:
        raise Inexpressible(str(error)) from None


def _instance(rule: Rule, builder: _Builder) -> Instance:
    try:
        values = tuple(builder.built(term) for term in rule.source.terms)
        bindings = builder.bindings
        builder.check_conditions()
        assert not builder.conditions, "a condition names what the source does not"
    except (*UNDEFINED, ZeroDivisionError):
        return NoSource()
    try:
        target = build(rule.target, bindings, make_node)
    except (*UNDEFINED, ZeroDivisionError):
        return NoTarget()
    if any(old.type != new.type for old, new in zip(values, target, strict=True)):
        return NoTarget()
    return Sides(bindings, values, target)


def _names(expression: Expression) -> set[str]:
    match expression:
        case Name(name=name):
            return {name}
        case Literal():
            return set()
        case FunctionCall(args=args):
            return {name for arg in args for name in _names(arg)}


def _kinds(pattern: Pattern) -> Mapping[str, DType]:
    """The variables that are conditions."""
    kinds: dict[str, DType] = {}
    for application in applications(pattern):
        for position, arg in enumerate(application.args):
            if isinstance(arg, Variable) and (
                application.op.name in _CONDITIONS
                or (application.op.name == "where" and position == 0)
            ):
                kinds[arg.name] = boolean
    return kinds


def _has_windows(pattern: Pattern) -> bool:
    return any(application.op.name in _WINDOWS for application in applications(pattern))


class _Builder:
    """Builds a source, giving its names values as it meets them."""

    def __init__(self, path: Path, ranks: Ranks, rule: Rule, elements: DType) -> None:
        self.path = path
        self.ranks = ranks
        self.kinds = _kinds(rule.source)
        self.elements = elements
        self.conditions = list(rule.where)
        self.bindings = NO_BINDINGS
        self.inputs = 0

    def check_conditions(self) -> None:
        """Undefined if a condition does not hold whose names all have values by now."""
        bound = self.bindings
        known = {*bound.tensors, *bound.sequences, *bound.params, *bound.captured}
        for condition in list(self.conditions):
            if _names(condition) <= known:
                self.conditions.remove(condition)
                if not holds(condition, bound, None):
                    raise Undefined(str(condition))

    def built(self, term: Term, ranks: Sequence[int] | None = None) -> Value:
        """The value of a term; a variable met for the first time has one of the given ranks."""
        match term:
            case Variable(name=name):
                if name not in self.bindings.tensors:
                    value = self._input(name, self.ranks.plain if ranks is None else ranks)
                    self.bindings = self.bindings.with_tensor(name, value)
                    self.check_conditions()
                return self.bindings.tensors[name]
            case Application():
                return self._applied(term)
            case Literal() | Operands():
                raise Inexpressible("a literal or a sequence that is a whole side")

    def _input(self, name: str, ranks: Sequence[int]) -> Input:
        shape = self._required_shape(name)
        if shape is None:
            rank = self.path.choose(self._required_ranks(name) or tuple(ranks))
            shape = sizes(self.path.fresh("n") for _ in range(rank))
        self.inputs += 1
        return Input(self.inputs - 1, TensorType(self.kinds.get(name, self.elements), shape))

    # Conditions on one name would be looked at once its operator is built. What they say of a shape
    # is used before, so that no operator is built on shapes that they exclude.

    def _required_shape(self, name: str) -> tuple[int, ...] | None:
        """The shape that a condition on equal shapes gives a name, through one that has a value."""
        for names in self._conditions_on(name, "same_shape"):
            for other in names:
                if other in self.bindings.tensors:
                    return self.bindings.tensors[other].type.shape
        return None

    def _required_ranks(self, name: str) -> tuple[int, ...]:
        """The rank that a condition gives a name; none if none does."""
        for condition in self.conditions:
            match condition:
                case FunctionCall("rank", (Literal(value=int() as rank), *names)) if (
                    Name(name) in names
                ):
                    return (rank,)
                case _:
                    pass
        return ()

    def _conditions_on(self, name: str, function: str) -> Iterable[list[str]]:
        for condition in self.conditions:
            names = [arg.name for arg in condition.args if isinstance(arg, Name)]
            if condition.function == function and name in names:
                yield names

    def _applied(self, term: Application) -> Value:
        ranks = self._operand_ranks(term)
        operands: list[Value | Literal] = []
        for arg, wanted in zip(term.args, ranks, strict=True):
            match arg:
                case Literal():
                    operands.append(arg)
                case Operands(name=name):
                    operands.extend(self._sequence(name))
                case _:
                    operands.append(self.built(arg, wanted))
        inputs = typed(operands)
        first = next(value for value in operands if not isinstance(value, Literal))
        value = make_node(term.op, inputs, self._params(term, first))
        if term.label is not None:
            self.bindings = self.bindings.with_tensor(term.label, value)
            self.check_conditions()
        return value

    def _operand_ranks(self, term: Application) -> list[Sequence[int] | None]:
        windows = tuple(2 + spatial for spatial in self.ranks.spatial)
        match term.op.name:
            case "conv" | "conv_transpose" | "sum_pool" | "max_pool":
                return [windows] * len(term.args)
            case "pad":
                return [None, (0,)]
            case _:
                return [None] * len(term.args)

    def _sequence(self, name: str) -> tuple[Value, ...]:
        if name not in self.bindings.sequences:
            length = self.path.choose(range(self.ranks.longest_sequence + 1))
            values = tuple(self._input(name, self.ranks.plain) for _ in range(length))
            self.bindings = self.bindings.with_sequence(name, values)
        return self.bindings.sequences[name]

    # Parameters

    def _params(self, term: Application, first: Value) -> dict[str, Param]:
        """Parameters for an application whose first operand that is no literal is `first`."""
        params: dict[str, Param] = {}
        for name, expression in term.params:
            match expression:
                case Literal(value=value):
                    params[name] = value
                case Name(name=variable):
                    if variable not in self.bindings.params:
                        proposed = self._proposed(term.op, name, first, params)
                        self.bindings = self.bindings.with_param(variable, proposed)
                    params[name] = self.bindings.params[variable]
                case FunctionCall():
                    raise AssertionError("a source computes no parameters")
        if term.rest is not None:
            params.update(self._captured(term, first, params))
        return params

    def _captured(self, term: Application, first: Value, params: Mapping[str, Param]) -> Params:
        assert term.rest is not None
        if term.rest not in self.bindings.captured:
            found = tuple(
                (name, self._proposed(term.op, name, first, params))
                for name in sorted(term.captured)
            )
            self.bindings = self.bindings.with_captured(term.rest, found)
        return self.bindings.captured[term.rest]

    def _one_of(self, options: Iterable[Param]) -> Param:
        found = tuple(options)
        if not found:
            raise Undefined("an operand without axes")
        return self.path.choose(found)

    def _proposed(self, op: OpSpec, name: str, first: Value, params: Mapping[str, Param]) -> Param:
        """A symbolic value for a parameter, or one of all that there are."""
        rank = first.type.rank
        path = self.path

        def fresh(prefix: str, length: int, least: int = 0) -> Param:
            return sizes(path.fresh(prefix, least) for _ in range(length))

        def one_of(axes: Sequence[Param]) -> Param:
            if not axes:
                raise Undefined("an axis of a scalar")
            return path.choose(axes)

        match op.name, name:
            case "transpose", "perm":
                return path.choose(tuple(permutations(range(rank))))
            case (("concat" | "insert_axis" | "gather" | "argmax" | "argmin"), "axis"):
                return one_of(tuple(range(rank + (op.name == "insert_axis"))))
            case _, "axes":
                return one_of(tuple(_subsets(range(rank))))
            case _, "keepdims":
                return path.choose((True, False))
            case (
                ("conv" | "conv_transpose" | "sum_pool" | "max_pool"),
                ("strides" | "dilations" | "kernel"),
            ):
                return fresh(name[0], rank - 2, 1)
            case (("conv" | "conv_transpose" | "sum_pool" | "max_pool"), "pads"):
                return fresh("p", 2 * (rank - 2))
            case (("conv" | "conv_transpose"), "groups"):
                (groups,) = sizes([path.fresh("g", 1)])
                return groups
            case "pad", ("before" | "after"):
                return fresh(name[0], rank)
            case "pad", "mode":
                return path.choose(PAD_MODES)
            case "slice", ("starts" | "sizes"):
                return fresh(name[:2], rank)
            case "slice", "steps":
                # Forward or backward, along all axes alike.
                steps = [path.fresh("st", 1) for _ in range(rank)]
                return path.choose((sizes(steps), sizes(-step for step in steps)))
            case (("reshape" | "broadcast_to"), "shape"):
                return fresh("m", path.choose(tuple(range(max(self.ranks.plain) + 1))))
            case "cast", "to":
                return path.choose(("float64", "float32", "int64", "bool"))
            case _:
                raise Inexpressible(f"the parameter {name} of {op.name}")


def _subsets(axes: Iterable[int]) -> Iterable[tuple[int, ...]]:
    items = tuple(axes)
    for length in range(len(items) + 1):
        yield from combinations(items, length)


def ranks_for(rule: Rule, ranks: Ranks) -> Iterator[Ranks]:
    """The ranks that matter to a rule, of those that are wanted; then others, for a rule that no
    operands of such ranks fit."""
    operators = [*applications(rule.source), *applications(rule.target)]
    if all(application.op.family == "elementwise" for application in operators):
        # Broadcasting goes axis by axis: scalars and one axis are all there is to tell apart.
        yield replace(ranks, plain=(0, 1))
    elif all(
        application.op.name in _AXIS_BY_AXIS or application.op.family == "elementwise"
        for application in operators
    ):
        # Each axis has its own sizes and parameters, and none moves.
        yield replace(ranks, plain=(1, 2))
    elif not _has_windows(rule.source):
        # An axis that is written out must be met as any of the last three, which matrices tell
        # apart, and as one before them.
        axes = {axis + 2 + more for axis in _written_axes(operators) for more in (0, 1)}
        if _tells_axes_apart(rule.source):
            axes.add(4)
        yield replace(ranks, plain=tuple(sorted({*ranks.plain, *axes})))
    else:
        yield replace(ranks, plain=tuple(sorted({*ranks.plain, 2 + max(ranks.spatial)})))
    yield replace(ranks, plain=(0, 1, 2))
    yield Ranks((0, 1, 4), (2,), ranks.longest_sequence)


def _tells_axes_apart(source: Pattern) -> bool:
    """Whether a rule speaks of two kinds of axes, any two of which it may take for each other:
    those that a sum runs over and those that stay; those of matrices and those before them, which
    are then permuted."""
    operators = tuple(applications(source))
    named = {
        name
        for application in operators
        for name, expression in application.params
        if isinstance(expression, Name)
    }
    has_matrices = any(application.op.name == "matmul" for application in operators)
    return "axes" in named or ("perm" in named and has_matrices)


def _written_axes(operators: Iterable[Application]) -> Iterator[int]:
    """Axes, counted from the front, that are literals."""
    for application in operators:
        for name, expression in application.params:
            if name in ("axis", "axes") and isinstance(expression, Literal):
                value = expression.value
                for axis in value if isinstance(value, tuple) else (value,):
                    assert isinstance(axis, int)
                    yield axis

"""TASO's operators as terms of Tasor's patterns, with the shapes of their results.

What it does: says one operator at a time. What a parameter depends on in a source stands in a
condition (`equal(p, same_pads(…))`), since sources compute nothing; a target uses the name that
the source gave such a parameter, or computes it. What it does not: see whole substitutions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from graphopt.ops import OP
from graphopt.pattern import (
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Term,
    subterms,
)
from graphopt.rule_functions import FUNCTIONS
from graphopt.taso_schema import Activation, Operator, OpType, Padding, Parameter
from graphopt.taso_shapes import Axis, Fork, Leaf, Tensor, combined, cut, size_of, total, tuple_of

MAX_RANK = 8
"""TASO's own bound on axes."""

MAX_EXTENT = 1 << 20
"""Kernels and strides beyond this are refused: no tensor is as large."""


class Unsayable(Exception):
    """An operator that the rule language does not say; the message is the reason."""


@dataclass(slots=True)
class Parameters:
    """The names of parameters of one rule, and what they must equal.

    `defined` maps what a parameter equals to how the source says it; `implied` are the names whose
    values the type rules force anyway, so that no condition says them. With `ordinary`, the
    convolutions of the source have one group.
    """

    ordinary: bool
    defined: dict[Expression, Expression] = field(default_factory=dict)
    implied: set[Name] = field(default_factory=set)
    names: dict[Term, Name] = field(default_factory=dict)
    is_source: bool = True

    def parameter(self, letter: str, value: Expression, implied: bool = False) -> Expression:
        """A parameter of that value: a literal, a name of the source, or in a target computed."""
        if isinstance(value, Literal):
            return value
        known = self.defined.get(value)
        if known is not None or not self.is_source:
            return value if known is None else known
        taken = [other.name for other in self.defined.values() if isinstance(other, Name)]
        name = Name(f"{letter}{sum(other[0] == letter for other in taken)}")
        self.defined[value] = name
        if implied:
            self.implied.add(name)
        return name

    def name_of(self, term: Term) -> Name:
        """The name of a tensor of the source: its own, or a label to be put on it."""
        if isinstance(term, Application):
            return self.names.setdefault(term, Name(f"t{len(self.names)}"))
        assert not isinstance(term, Literal)
        return Name(term.name)

    def close(self, source: Sequence[Term]) -> None:
        """End the source: what follows are terms of the target, and know what the source names."""
        bound = {
            value
            for root in source
            for term in subterms(root)
            if isinstance(term, Application)
            for _, value in term.params
        }
        self.defined = {
            value: known
            for value, known in self.defined.items()
            if isinstance(known, Literal) or known in bound
        }
        self.is_source = False

    def unknown(self, term: Term, axis: int) -> Leaf:
        """An axis whose size only the tensor itself says, which a target cannot name."""
        if not self.is_source:
            return Leaf(None)
        return Leaf(FunctionCall("size", (self.name_of(term), Literal(axis))))


def apply_operator(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    """The results of an operator. Raises Unsayable."""
    known = _OPERATORS.get(operator.type)
    if known is None:
        raise Unsayable(f"operator {operator.name}")
    counts, meaning = known
    if len(inputs) not in counts:
        raise Unsayable(f"{operator.name} of {len(inputs)} operands")
    return meaning(operator, inputs, parameters)


# Parameters of the file


def _required(operator: Operator, key: Parameter, least: int, most: int) -> int:
    value = operator.param(key)
    if value is None:
        raise Unsayable(f"{operator.name} without parameter {key.name}")
    if not least <= value <= most:
        raise Unsayable(f"{operator.name} with {key.name} {value}")
    return value


def rank_of(operator: Operator) -> int:
    """The number of axes that an operator states. Raises Unsayable."""
    return _required(operator, Parameter.NUMDIM, 1, MAX_RANK)


def _axis(operator: Operator, rank: int) -> int:
    return _required(operator, Parameter.AXIS, 0, rank - 1)


def _pair(operator: Operator, first: Parameter, second: Parameter) -> tuple[int, int]:
    return (
        _required(operator, first, 1, MAX_EXTENT),
        _required(operator, second, 1, MAX_EXTENT),
    )


def _axes(operator: Operator, tensor: Tensor, rank: int) -> tuple[Axis, ...]:
    if tensor.axes is None or len(tensor.axes) != rank:
        raise Unsayable(f"{operator.name} of an operand that has not {rank} axes")
    return tensor.axes


def _size(operator: Operator, axis: Axis) -> Expression:
    size = size_of(axis)
    if size is None:
        raise Unsayable(f"{operator.name} with a size that depends on windows in the target")
    return size


# Terms


def _term(name: str, *args: Term, **params: Expression) -> Application:
    op = OP[name]
    return Application(op, args, tuple((key, params[key]) for key in op.params))


def _activated(operator: Operator, term: Application, activation: int | None) -> Application:
    """The result with the activation that is part of the operator."""
    match activation:
        case None | Activation.NONE:
            return term
        case Activation.RELU:
            # Not max(term, 0), which an operator of its own is: fusing it is a substitution, too.
            return _term("max", Literal(0), term)
        case Activation.SIGMOID:
            return _term("sigmoid", term)
        case Activation.TANH:
            return _term("tanh", term)
        case _:
            raise Unsayable(f"{operator.name} with activation {activation}")


def _activation(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    term = inputs[0].term
    match operator.type:
        case OpType.RELU:
            return (Tensor(_term("max", term, Literal(0)), inputs[0].axes),)
        case OpType.SIGMOID:
            return (Tensor(_term("sigmoid", term), inputs[0].axes),)
        case _:
            return (Tensor(_term("tanh", term), inputs[0].axes),)


def _elementwise(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    x, y = inputs
    term = _term("add" if operator.type == OpType.EW_ADD else "mul", x.term, y.term)
    axes = x.axes if y.axes is None else y.axes
    if x.axes is not None and y.axes is not None:
        if len(x.axes) != len(y.axes):
            raise Unsayable(f"{operator.name} of operands with different numbers of axes")
        axes = tuple(combined(a, b) for a, b in zip(x.axes, y.axes, strict=True))
    return (Tensor(term, axes),)


def _scaled(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    x, scalar = inputs
    _axes(operator, scalar, 0)
    return (Tensor(_term("mul", x.term, scalar.term), x.axes),)


def _matmul(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    rows, _ = _axes(operator, inputs[0], 2)
    _, columns = _axes(operator, inputs[1], 2)
    product = _term("matmul", inputs[0].term, inputs[1].term)
    term = _activated(operator, product, operator.param(Parameter.ACTI))
    return (Tensor(term, (rows, columns)),)


def _concat(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    rank = rank_of(operator)
    axis = _axis(operator, rank)
    if operator.param(Parameter.NUM_INPUTS) not in (None, len(inputs)):
        raise Unsayable(f"{operator.name} that states another number of operands than it has")
    result = _axes(operator, inputs[0], rank)
    for tensor in inputs[1:]:
        both = zip(result, _axes(operator, tensor, rank), strict=True)
        result = tuple(
            Fork(a, b) if position == axis else combined(a, b)
            for position, (a, b) in enumerate(both)
        )
    term = _term("concat", *(tensor.term for tensor in inputs), axis=Literal(axis))
    return (Tensor(term, result),)


def _split(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    [whole] = inputs
    if whole.axes is None:
        raise Unsayable(f"{operator.name} of an operand whose axes are not known")
    rank = len(whole.axes)
    axis = _axis(operator, rank)
    count = _required(operator, Parameter.NUM_OUTPUTS, 2, 64)
    parts = cut(whole.axes[axis], count)
    if parts is None:
        raise Unsayable(f"{operator.name} of an axis that was not concatenated")
    kept = [_size(operator, other) for other in whole.axes]
    zeros: list[Expression] = [Literal(0)] * rank
    results = []
    for position, part in enumerate(parts):
        before = total([_size(operator, other) for other in parts[:position]])
        starts = [*zeros[:axis], before, *zeros[axis + 1 :]]
        sizes = [*kept[:axis], _size(operator, part), *kept[axis + 1 :]]
        term = _term(
            "slice",
            whole.term,
            starts=parameters.parameter("s", tuple_of(starts)),
            steps=Literal((1,) * rank),
            sizes=parameters.parameter("n", tuple_of(sizes)),
        )
        results.append(Tensor(term, (*whole.axes[:axis], part, *whole.axes[axis + 1 :])))
    return tuple(results)


def _transpose(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    rank = rank_of(operator)
    axes = _axes(operator, inputs[0], rank)
    code = _required(operator, Parameter.PERM, 0, rank**rank - 1)
    # A permutation is a number with as many digits, to the base of the rank.
    perm = tuple(code // rank ** (rank - 1 - position) % rank for position in range(rank))
    if len(set(perm)) < rank:
        raise Unsayable(f"{operator.name} with PERM {code}, which is no permutation")
    term = _term("transpose", inputs[0].term, perm=Literal(perm))
    return (Tensor(term, tuple(axes[axis] for axis in perm)),)


# Windows


def _windows(
    operator: Operator,
    spatial: tuple[Axis, ...],
    kernel: tuple[Expression, ...],
    parameters: Parameters,
) -> tuple[dict[str, Expression], bool]:
    """Strides, pads and dilations; and whether the result keeps the sizes."""
    strides = _pair(operator, Parameter.STRIDE_H, Parameter.STRIDE_W)
    padding = _required(operator, Parameter.PAD, 0, 1)
    keeps = padding == Padding.SAME and strides == (1, 1)
    pads: Expression
    if padding == Padding.VALID:
        pads = Literal((0, 0, 0, 0))
    elif not keeps:
        sizes = tuple_of([_size(operator, axis) for axis in spatial])
        args = (sizes, tuple_of(kernel), Literal(strides))
        pads = parameters.parameter("p", FunctionCall("strided_same_pads", args))
    elif isinstance(known := tuple_of(kernel), Literal) and isinstance(known.value, tuple):
        pads = Literal(FUNCTIONS["same_pads"].value(*known.value))
    else:
        pads = parameters.parameter("p", FunctionCall("same_pads", kernel))
    shared: dict[str, Expression] = {
        "strides": Literal(strides), "pads": pads, "dilations": Literal((1, 1)),
    }  # fmt: skip
    return shared, keeps


def _slid(
    outer: tuple[Axis, Axis],
    spatial: tuple[Axis, ...],
    keeps: bool,
    term: Application,
    parameters: Parameters,
) -> Tensor:
    """The result of windows, whose spatial axes are those of the operand or have other sizes."""
    slid = spatial if keeps else tuple(parameters.unknown(term, 2 + n) for n in range(2))
    return Tensor(term, (*outer, *slid))


def _conv(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    x, w = inputs
    batch, channels, *spatial = _axes(operator, x, 4)
    outputs, depth, *kernel = _axes(operator, w, 4)
    sizes = tuple(_size(operator, axis) for axis in kernel)
    shared, keeps = _windows(operator, tuple(spatial), sizes, parameters)
    groups: Expression = Literal(1)
    dividend, divisor = _size(operator, channels), _size(operator, depth)
    if dividend != divisor:
        value = FunctionCall("quotient", (dividend, divisor))
        if parameters.ordinary and parameters.is_source:
            parameters.defined[value] = Literal(1)
        groups = parameters.parameter("g", value, implied=True)
    product = _term("conv", x.term, w.term, **shared, groups=groups)
    term = _activated(operator, product, operator.param(Parameter.ACTI))
    return (_slid((batch, outputs), tuple(spatial), keeps, term, parameters),)


def _pool(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    [x] = inputs
    batch, channels, *spatial = _axes(operator, x, 4)
    kernel = _pair(operator, Parameter.KERNEL_H, Parameter.KERNEL_W)
    extents = (Literal(kernel[0]), Literal(kernel[1]))
    shared, keeps = _windows(operator, tuple(spatial), extents, parameters)
    shared["kernel"] = Literal(kernel)
    if operator.type == OpType.POOL2D_MAX:
        term = _term("max_pool", x.term, **shared)
    else:
        term = _term("div", _term("sum_pool", x.term, **shared), Literal(prod(kernel)))
    term = _activated(operator, term, operator.param(Parameter.ACTI))
    return (_slid((batch, channels), tuple(spatial), keeps, term, parameters),)


def _enlarge(
    operator: Operator, inputs: tuple[Tensor, ...], parameters: Parameters
) -> tuple[Tensor, ...]:
    """A kernel centred in a larger one: of stated sizes, or of those of a second operand."""
    own = _axes(operator, inputs[0], 4)
    wanted: tuple[Axis, ...]
    if len(inputs) == 2:
        wanted = _axes(operator, inputs[1], 4)[2:]
    else:
        kernel = _pair(operator, Parameter.KERNEL_H, Parameter.KERNEL_W)
        wanted = tuple(Leaf(Literal(size)) for size in kernel)
    small = tuple_of([_size(operator, axis) for axis in own])
    large = tuple_of([_size(operator, axis) for axis in (*own[:2], *wanted)])
    term = _term(
        "pad",
        inputs[0].term,
        Literal(0),
        before=parameters.parameter("b", FunctionCall("centring_before", (small, large))),
        after=parameters.parameter("a", FunctionCall("centring_after", (small, large))),
        mode=Literal("constant"),
    )
    return (Tensor(term, (*own[:2], *wanted)),)


_Meaning = Callable[[Operator, tuple[Tensor, ...], Parameters], tuple[Tensor, ...]]

_OPERATORS: Mapping[int, tuple[range, _Meaning]] = {
    OpType.CONV2D: (range(2, 3), _conv),
    OpType.POOL2D_MAX: (range(1, 2), _pool),
    OpType.POOL2D_AVG: (range(1, 2), _pool),
    OpType.RELU: (range(1, 2), _activation),
    OpType.SIGMOID: (range(1, 2), _activation),
    OpType.TANH: (range(1, 2), _activation),
    OpType.CONCAT: (range(1, 65), _concat),
    OpType.SPLIT: (range(1, 2), _split),
    OpType.TRANSPOSE: (range(1, 2), _transpose),
    OpType.EW_ADD: (range(2, 3), _elementwise),
    OpType.EW_MUL: (range(2, 3), _elementwise),
    OpType.MATMUL: (range(2, 3), _matmul),
    OpType.MUL: (range(2, 3), _scaled),
    OpType.ENLARGE: (range(1, 3), _enlarge),
}
"""How many operands each operator takes, and what it says."""

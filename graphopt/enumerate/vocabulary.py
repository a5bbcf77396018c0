"""What is enumerated: input tensors, named constants, and operator instances over them.

What it does: says which operators, with which parameters, may be applied to operands of which
shapes; result shapes come from `OpSpec.infer`. `taso()` is the setting of TASO's generator (Jia et
al., SOSP 2019, section 2 and `src/generator`): its inputs and its operators. `extended()` adds what
real models need beyond them.

How TASO's operators are said in Tasor's: relu is max(x, 0); an average pool is a sum_pool (TASO's
generator leaves out the divisor too); enlarge is a pad of the weights with zeros; the scalar
product is mul with a tensor of rank 0; split is slice, into halves, of what only a concat can have
made. The activation of a convolution or matrix product is relu applied to it, so it counts as an
operator of its own: the rule "a relu may move into its convolution" says nothing here. The number
of groups of a convolution follows from its operands, as in TASO.

What it does not: hold values (`levels`), print rules (`terms`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from graphopt.graph import Param
from graphopt.ops import OP
from graphopt.ops.spec import OpSpec
from tensorgen.types import Shape, ShapeError, TensorType, float64

Parameters = Callable[..., Mapping[str, Param] | None]
"""(operand shapes…) -> the parameters, or None where the instance is not applied."""


@dataclass(frozen=True, slots=True)
class InputTensor:
    """An input; inputs of one shape are interchangeable."""

    name: str
    shape: Shape


@dataclass(frozen=True, slots=True, eq=False)
class NamedConstant:
    """A constant of the enumeration, which counts as an operator without operands.

    `like` gives it for any shape, for tests on other shapes: `array == like(array.shape)`.
    """

    name: str
    shape: Shape
    like: Callable[[Shape], NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """An operator with its parameters, as a function of the shapes of its operands.

    `literals` follow the tensors as operands. `axis` and `rank` are set for concats and splits,
    `part` for splits alone.
    """

    name: str
    op: OpSpec
    arity: int
    parameters: Parameters
    literals: tuple[int, ...] = ()
    axis: int = -1
    rank: int = -1
    part: int = -1

    @property
    def commutative(self) -> bool:
        """Whether the operands may be exchanged; not where they have different ranks."""
        return self.op.name in ("add", "mul") and self.name == self.op.name


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Inputs, constants, instances, and the largest number of elements of a tensor."""

    name: str
    inputs: tuple[InputTensor, ...]
    constants: tuple[NamedConstant, ...]
    instances: tuple[Instance, ...]
    most_elements: int

    def __post_init__(self) -> None:
        assert len(self.inputs) < 63, "sets of inputs are held as bits of an int64"

    @property
    def digest(self) -> str:
        """What finished levels are kept under: they fit no other vocabulary."""
        parts = [self.name, str(self.most_elements)]
        parts += [f"{tensor.name}{list(tensor.shape)}" for tensor in self.inputs]
        parts += [f"{constant.name}{list(constant.shape)}" for constant in self.constants]
        parts += [instance.name for instance in self.instances]
        return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()

    @property
    def interchangeable(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the inputs of each shape, in order."""
        groups: dict[Shape, list[int]] = {}
        for number, tensor in enumerate(self.inputs):
            groups.setdefault(tensor.shape, []).append(number)
        return tuple(map(tuple, groups.values()))

    @property
    def uses_exponentials(self) -> bool:
        """Whether values are needed modulo the orders too."""
        return any(instance.op.name == "exp" for instance in self.instances)

    def parameters(self, instance: Instance, *shapes: Shape) -> Mapping[str, Param] | None:
        """The parameters of an instance on operands of these shapes; None if it does not apply."""
        params = instance.parameters(*shapes)
        if params is None or result_shape(instance, params, shapes, self.most_elements) is None:
            return None
        return params


def result_shape(
    instance: Instance, params: Mapping[str, Param], shapes: tuple[Shape, ...], most_elements: int
) -> Shape | None:
    """The result's shape; None if the operands do not fit or the result is too large."""
    types = [TensorType(float64, shape) for shape in shapes]
    types += [TensorType(float64, ()) for _ in instance.literals]
    try:
        result = instance.op.infer(*types, **params)
    except ShapeError:
        return None
    return result.shape if result.size <= most_elements else None


# Instances


def _fixed(**params: Param) -> Parameters:
    return lambda *shapes: params


def _equal(*shapes: Shape) -> Mapping[str, Param] | None:
    return {} if shapes[0] == shapes[1] else None


def _scalar_right(x: Shape, s: Shape) -> Mapping[str, Param] | None:
    return {} if s == () and x != () else None


def _vector_right(x: Shape, b: Shape) -> Mapping[str, Param] | None:
    return {} if len(b) == 1 and len(x) >= 2 and x[-1] == b[0] else None


def _matrix_product(x: Shape, y: Shape) -> Mapping[str, Param] | None:
    """Matrices, stacks of equally many, or a stack times one matrix."""
    fits = len(x) == len(y) == 2 or (len(x) == 3 and len(y) in (2, 3))
    return {} if fits and x[:-2][: len(y) - 2] == y[:-2] else None


def _flattened(x: Shape) -> Mapping[str, Param] | None:
    """A stack of matrices as one matrix."""
    return {"shape": (x[0] * x[1], x[2])} if len(x) == 3 else None


def _last_axis(x: Shape) -> Mapping[str, Param] | None:
    """Reduction of the last axis, which becomes 1; not of what has been reduced."""
    return {"axes": (len(x) - 1,), "keepdims": True} if len(x) in (2, 3) and x[-1] > 1 else None


def _of_rank(rank: int, **params: Param) -> Parameters:
    return lambda *shapes: params if all(len(shape) == rank for shape in shapes) else None


def _of_ranks(ranks: tuple[int, ...], **params: Param) -> Parameters:
    return lambda *shapes: params if all(len(shape) in ranks for shape in shapes) else None


WEIGHT_SPAN = 3
"""Tensors of rank 4 with more rows and columns than this are images, the others weights."""


def _is_image(shape: Shape) -> bool:
    return len(shape) == 4 and min(shape[2:]) > WEIGHT_SPAN


def _is_weight(shape: Shape) -> bool:
    return len(shape) == 4 and max(shape[2:]) <= WEIGHT_SPAN


_MATRIX_SIZES = ((2, 4), (4,))
_IMAGE_SIZES = ((2,), (4,))
_WEIGHT_SIZES = ((4,), (1, 4))
"""Sizes of the first two axes of inputs: an axis of twice such a size may be split."""


def _halves(axis: int, part: int, rank: int) -> Parameters:
    """Slices of the first or second half of an axis that concatenation has doubled."""

    def parameters(x: Shape) -> Mapping[str, Param] | None:
        if len(x) != rank:
            return None
        half = x[axis] // 2
        bases = _MATRIX_SIZES if rank == 2 else _IMAGE_SIZES if _is_image(x) else _WEIGHT_SIZES
        if x[axis] % 2 or half not in bases[axis]:
            return None
        starts = tuple(part * half if n == axis else 0 for n in range(rank))
        sizes = tuple(half if n == axis else size for n, size in enumerate(x))
        return {"starts": starts, "steps": (1,) * rank, "sizes": sizes}

    return parameters


def _convolution(kernel: Shape, stride: int, same: bool) -> Parameters:
    pads = tuple((size - 1) // 2 if same else 0 for size in kernel) * 2

    def parameters(x: Shape, w: Shape) -> Mapping[str, Param] | None:
        if not _is_image(x) or not _is_weight(w) or w[2:] != kernel or x[1] % w[1]:
            return None
        groups = x[1] // w[1]
        return {"strides": (stride, stride), "pads": pads, "dilations": (1, 1), "groups": groups}

    return parameters


def _pool(x: Shape) -> Mapping[str, Param] | None:
    if not _is_image(x):
        return None
    return {"kernel": (3, 3), "strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1)}


def _enlarged(w: Shape) -> Mapping[str, Param] | None:
    """Weights padded with zeros to a kernel of 3 by 3."""
    if not _is_weight(w) or w[2:] == (3, 3):
        return None
    margins = (0, 0, *((3 - size) // 2 for size in w[2:]))
    return {"before": margins, "after": margins, "mode": "constant"}


def _instance(name: str, op: str, arity: int, parameters: Parameters, *literals: int) -> Instance:
    return Instance(name, OP[op], arity, parameters, literals)


def _split(axis: int, part: int, rank: int) -> Instance:
    parameters = _halves(axis, part, rank)
    name = f"split{part}[{axis}]{rank}d"
    return Instance(name, OP["slice"], 1, parameters, (), axis, rank, part)


def _concat(axis: int, rank: int) -> Instance:
    parameters = _of_rank(rank, axis=axis)
    return Instance(f"concat[{axis}]{rank}d", OP["concat"], 2, parameters, (), axis, rank)


# Constants


def _identity_matrix(shape: Shape) -> NDArray[np.int64]:
    return np.eye(*shape, dtype=np.int64)


def _identity_kernel(shape: Shape) -> NDArray[np.int64]:
    result = np.zeros(shape, np.int64)
    centre = tuple(size // 2 for size in shape[2:])
    for channel in range(min(shape[:2])):
        result[(channel, channel, *centre)] = 1
    return result


def _ones(shape: Shape) -> NDArray[np.int64]:
    return np.ones(shape, np.int64)


_CONSTANTS = (
    NamedConstant("pooling_kernel", (4, 1, 3, 3), _ones),
    NamedConstant("identity_kernel", (4, 4, 3, 3), _identity_kernel),
    NamedConstant("identity_matrix", (4, 4), _identity_matrix),
    NamedConstant("ones", (2, 4, 5, 5), _ones),
)


# Vocabularies


def _named(prefix: str, first: int, shape: Shape, count: int = 3) -> tuple[InputTensor, ...]:
    return tuple(InputTensor(f"{prefix}{first + n}", shape) for n in range(count))


_TASO_INPUTS = (
    *_named("x", 1, (2, 4)),
    *_named("w", 1, (4, 4)),
    *_named("i", 1, (2, 4, 5, 5)),
    *_named("w", 4, (4, 4, 3, 3)),
    *_named("w", 7, (4, 4, 1, 3)),
    *_named("w", 10, (4, 4, 3, 1)),
    *_named("w", 13, (4, 1, 3, 3), 1),
    *_named("s", 0, (), 1),
)

_TASO_INSTANCES = (
    _instance("matmul", "matmul", 2, _of_rank(2)),
    _instance("add", "add", 2, _equal),
    _instance("mul", "mul", 2, _equal),
    _instance("scale", "mul", 2, _scalar_right),
    *(
        _instance(f"conv{kernel[0]}x{kernel[1]}", "conv", 2, _convolution(kernel, 1, same=True))
        for kernel in ((3, 3), (1, 3), (3, 1))
    ),
    _instance("sum_pool", "sum_pool", 1, _pool),
    _instance("max_pool", "max_pool", 1, _pool),
    _instance("relu", "max", 1, lambda x: {} if x else None, 0),
    _instance("transpose", "transpose", 1, _of_rank(2, perm=(1, 0))),
    _instance("enlarge", "pad", 1, _enlarged, 0),
    *(_concat(axis, rank) for rank, axis in product((2, 4), (0, 1))),
    *(_split(axis, part, rank) for rank, axis, part in product((2, 4), (0, 1), (0, 1))),
)


def taso() -> Vocabulary:
    """TASO's sixteen operators over the inputs of its generator."""
    return Vocabulary("taso", _TASO_INPUTS, _CONSTANTS, _TASO_INSTANCES, 512)


_EXTENDED_INPUTS = (
    *_named("x", 1, (2, 4)),
    *_named("w", 1, (4, 4), 2),
    *_named("b", 1, (4,), 2),
    *_named("y", 1, (3, 2, 4), 2),
    *_named("v", 1, (3, 4, 4), 2),
    *_named("i", 1, (2, 4, 5, 5), 2),
    *_named("w", 4, (4, 4, 3, 3), 2),
    *_named("s", 0, (), 1),
)

_EXTENDED_INSTANCES = (
    _instance("matmul", "matmul", 2, _matrix_product),
    _instance("add", "add", 2, _equal),
    _instance("mul", "mul", 2, _equal),
    _instance("sub", "sub", 2, _equal),
    _instance("div", "div", 2, _equal),
    _instance("scale", "mul", 2, _scalar_right),
    _instance("add_vector", "add", 2, _vector_right),
    _instance("mul_vector", "mul", 2, _vector_right),
    _instance("conv3x3", "conv", 2, _convolution((3, 3), 1, same=True)),
    _instance("conv3x3 valid", "conv", 2, _convolution((3, 3), 1, same=False)),
    _instance("conv3x3 stride 2", "conv", 2, _convolution((3, 3), 2, same=True)),
    _instance("neg", "neg", 1, _fixed()),
    _instance("relu", "max", 1, _fixed(), 0),
    _instance("exp", "exp", 1, _fixed()),
    _instance("sigmoid", "sigmoid", 1, _fixed()),
    _instance("tanh", "tanh", 1, _fixed()),
    _instance("transpose", "transpose", 1, _of_ranks((2,), perm=(1, 0))),
    _instance("transpose batch", "transpose", 1, _of_ranks((3,), perm=(0, 2, 1))),
    _instance("flatten", "reshape", 1, _flattened),
    _instance("reduce_sum", "reduce_sum", 1, _last_axis),
    _instance("reduce_max", "reduce_max", 1, _last_axis),
    *(_concat(axis, rank) for axis, rank in ((0, 2), (1, 2), (1, 3), (2, 3), (1, 4))),
    *(_split(axis, part, 2) for axis, part in product((0, 1), (0, 1))),
)


def extended() -> Vocabulary:
    """What real models need beyond TASO's operators: differences, quotients, vectors that are
    broadcast, batched products, reductions, a reshape, exponentials; a mean is a scaled sum."""
    return Vocabulary("extended", _EXTENDED_INPUTS, (), _EXTENDED_INSTANCES, 512)

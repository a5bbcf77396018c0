"""Evaluation of a graph with each operator's numpy reference, and constant folding with it.

The oracle that generated code is compared with, and what makes shape arithmetic disappear. It is
not fast.

What is written into generated files must be the same everywhere, and numpy's float32 sums and
functions are not: their last bits depend on the processor, and on how many threads the library
below takes. So constants and expected outputs are computed in float64 and rounded once, which hides
such differences but for one value in some hundred million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from graphopt.graph import Constant, Graph, Input, Node, Value, inputs_of
from graphopt.ops.spec import expression_of
from tensorgen.expr import Reduce, walk
from tensorgen.types import Array, DType, ShapeError, float64, type_of

MAX_FOLDED_BYTES = 64 * 2**20
"""A larger result is left to be computed when the model runs."""

FREELY_FOLDED_BYTES = 2**20
"""Up to this size a constant may be larger than what it is computed from."""

MAX_FOLDED_TOTAL = 2**30
"""Bytes of results that one folder computes in all; what contractions multiply may have as many."""

MAX_FOLDED_TERMS = {"matmul": 2**33, "conv": 2**28, "einsum": 2**28}
"""Products that a contraction may add up when folded: a matrix product is fast, the others need
memory for each term."""

MAX_FOLDED_READS = 2**28
"""Elements that any other operator may read when folded."""

UPDATE_COST = 2**8
"""What one scattered update costs, in elements read: the reference takes them one by one."""


MOVING_FAMILIES = frozenset({"layout", "indexing"})
"""Operators whose results are elements of their operands."""

SUMMING_FAMILIES = frozenset({"contraction", "pooling", "reduction"})
"""Operators that round more than once, in an order that numpy chooses."""

APPROXIMATED = frozenset(
    {
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log",
        "pow", "sigmoid", "sin", "sinh", "tan", "tanh",
    }
)  # fmt: skip
"""Functions whose float32 results need not be the nearest ones."""

JUMPING = frozenset(
    {"bitcast", "cast", "ceil", "floor", "floordiv", "fmod", "mod", "round", "sign", "trunc"}
)
"""Operators on floats whose results jump, so that a difference in the last bits is a whole step;
so do all whose results are no floats."""


def evaluate_graph(graph: Graph, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """The graph's outputs on arrays given by input name.

    ShapeError if an input is missing or has another type than the graph declares.
    """
    return _evaluated(graph, _by_position(graph, inputs), _reference)


def evaluate_in_float64(graph: Graph, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """The same with all arithmetic on floats in float64; the outputs are rounded to their types.

    A value keeps the range of its declared type: beyond it stands an infinity, below it 0. What
    jumps (rounding, comparisons, positions) sees values of the declared type.
    """
    outputs = _evaluated(graph, _by_position(graph, inputs), _applied_in_float64)
    return tuple(
        _rounded(array, output.type.dtype)
        for array, output in zip(outputs, graph.outputs, strict=True)
    )


def _by_position(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    arrays = []
    for name, declared in zip(graph.input_names, graph.inputs, strict=True):
        if name not in inputs:
            raise ShapeError(f"evaluate: expected an array for input '{name}', got none")
        array = inputs[name]
        if type_of(array) != declared.type:
            raise ShapeError(
                f"evaluate: expected {declared.type} for input '{name}', got {type_of(array)}"
            )
        arrays.append(array)
    return arrays


def _evaluated(
    graph: Graph, inputs: Sequence[Array], applied: Callable[[Node, Sequence[Array]], Array]
) -> tuple[Array, ...]:
    """The outputs, each value kept until its last use."""
    uses = Counter(output.digest for output in graph.outputs)
    for value in graph.values:
        uses.update(operand.digest for operand in inputs_of(value))
    arrays = {value.digest: array for value, array in zip(graph.inputs, inputs, strict=True)}
    for value in graph.values:
        match value:
            case Node():
                operands = [_array_of(operand, arrays) for operand in value.inputs]
                arrays[value.digest] = applied(value, operands)
                for operand in value.inputs:
                    uses[operand.digest] -= 1
                    if not uses[operand.digest]:
                        arrays.pop(operand.digest, None)
            case Constant() | Input():
                pass
    return tuple(_array_of(output, arrays) for output in graph.outputs)


def _array_of(value: Value, arrays: Mapping[bytes, Array]) -> Array:
    return value.array if isinstance(value, Constant) else arrays[value.digest]


def _reference(node: Node, operands: Sequence[Array]) -> Array:
    return node.op.reference(*operands, **node.keywords)


def _applied_in_float64(node: Node, operands: Sequence[Array]) -> Array:
    """The node's result on floats in float64, of whatever width they are given."""
    if not node.type.dtype.is_float or node.op.name in JUMPING:
        given = [
            _rounded(array, operand.type.dtype)
            for array, operand in zip(operands, node.inputs, strict=True)
        ]
    else:
        given = [_widened(array) for array in operands]
    result = _widened(_reference(node, given))
    dtype = node.type.dtype
    if not dtype.is_float or dtype == float64 or node.op.family in MOVING_FAMILIES:
        return result
    narrow = _widened(_rounded(result, dtype))
    return np.where((narrow == 0) | np.isinf(narrow), narrow, result)


def _folded(node: Node, operands: Sequence[Array]) -> Array:
    """The node's result in its type, the same on every machine."""
    op = node.op
    if op.family in SUMMING_FAMILIES or op.name in APPROXIMATED:
        return _rounded(_applied_in_float64(node, operands), node.type.dtype)
    return _reference(node, operands)


def _widened(array: Array) -> Array:
    """Floats as float64; integers and booleans as they are."""
    return array.astype(np.float64, copy=False) if type_of(array).dtype.is_float else array


def _rounded(array: Array, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy, copy=False)


class ConstantFolder:
    """Replaces operators on constants by their result, bottom up, remembering what it has seen.

    Calling it gives an equal value; the same object if there was nothing to fold. A result is kept
    as a node if it exceeds `MAX_FOLDED_BYTES`, or if it is larger than its operands and exceeds
    `FREELY_FOLDED_BYTES`, so that folding never bloats a model; likewise if it is too much work.

    What a contraction multiplies is folded however much larger it is: each run would write it to
    memory first, and kernels could not lay it out ahead.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Value] = {}
        self._unfolded: set[bytes] = set()
        self._factors: dict[bytes, Value] = {}
        self._remaining = MAX_FOLDED_TOTAL

    def __call__(self, value: Value) -> Value:
        stack = [(value, False)]
        while stack:
            term, expanded = stack.pop()
            if term.digest in self._known:
                continue
            if not expanded:
                stack.append((term, True))
                stack.extend((operand, False) for operand in inputs_of(term))
                continue
            folded = self._folded(term)
            self._known[term.digest] = folded
            self._known.setdefault(folded.digest, folded)
        return self._known[value.digest]

    def _folded(self, value: Value) -> Value:
        if not isinstance(value, Node):
            return value
        operands = tuple(self._known[operand.digest] for operand in value.inputs)
        if value.op.family == "contraction":
            operands = tuple(map(self._factor, operands))
        arrays = [operand.array for operand in operands if isinstance(operand, Constant)]
        wanted = len(arrays) == len(operands) and value.type.bytes <= self._remaining
        if wanted and _worth_folding(value, operands):
            self._remaining -= value.type.bytes
            return Constant(_folded(value, arrays))
        same = all(a is b for a, b in zip(operands, value.inputs, strict=True))
        kept = value if same else value.op(*operands, **value.keywords)
        if operands and all(map(self._is_constant, operands)):
            self._unfolded.add(kept.digest)
        return kept

    def _is_constant(self, value: Value) -> bool:
        """Whether constants alone make the value."""
        return isinstance(value, Constant) or value.digest in self._unfolded

    def _factor(self, value: Value) -> Value:
        """The constant that a contraction multiplies, if constants alone make it; the value itself
        if not, or if it is too large or too much work."""
        if value.digest not in self._unfolded:
            return value
        if value.digest not in self._factors:
            self._factors[value.digest] = self._computed(value)
        return self._factors[value.digest]

    def _computed(self, value: Value) -> Value:
        graph = Graph((), (value,), (), ("factor",))
        nodes = [term for term in graph.values if isinstance(term, Node)]
        if sum(node.type.bytes for node in nodes) > self._remaining:
            return value
        if not all(_may_be_read(node) for node in nodes):
            return value
        self._remaining -= value.type.bytes
        return Constant(*_evaluated(graph, (), _folded))


def _worth_folding(node: Node, operands: tuple[Value, ...]) -> bool:
    size = node.type.bytes
    given = sum(operand.type.bytes for operand in operands)
    if size > MAX_FOLDED_BYTES or size > max(FREELY_FOLDED_BYTES, given):
        return False
    return _may_be_read(node)


def _may_be_read(node: Node) -> bool:
    """Whether the operator reads few enough elements."""
    return _elements_read(node) <= MAX_FOLDED_TERMS.get(node.op.name, MAX_FOLDED_READS)


def _elements_read(node: Node) -> int:
    """Elements that the operator's definition visits: those of its result times what each folds."""
    if node.op.family == "scatter":
        return node.type.size + UPDATE_COST * node.inputs[1].type.size
    if node.op.family not in ("contraction", "pooling"):
        return node.type.size
    folds = (term for term in walk(expression_of(node).body) if isinstance(term, Reduce))
    extents = prod(axis.extent for fold in folds for axis in fold.axes)
    return node.type.size * extents

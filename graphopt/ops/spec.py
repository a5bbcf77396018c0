"""OpSpec: one record that says all there is to know of an operator.

Tensors are positional, parameters are keywords, in every facet. `compute` is the meaning, a tensor
expression in index notation; interpreter, loops, C and proofs all come from it. `reference` is an
independent numpy formulation, the oracle that tests hold `compute` against.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from graphopt.graph import Node, Param, Value
from tensorgen.expr import Tensor, TensorExpr
from tensorgen.types import Array, DType, TensorType, float32

Infer = Callable[..., TensorType]
"""(TensorTypes…, *, params) -> TensorType; raises ShapeError."""
Compute = Callable[..., TensorExpr]
"""(Tensors…, *, params) -> TensorExpr over operands 0, 1, …"""
Reference = Callable[..., Array]
"""(arrays…, *, params) -> array."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One application to test an operator on: operand types and parameters."""

    types: tuple[TensorType, ...]
    params: tuple[tuple[str, Param], ...] = ()

    @property
    def keywords(self) -> dict[str, Param]:
        return dict(self.params)


def sample(*shapes: tuple[int, ...], dtype: DType = float32, **params: Param) -> Sample:
    """A sample whose operands all have one element type."""
    types = tuple(TensorType(dtype, shape) for shape in shapes)
    return Sample(types, tuple(sorted(params.items())))


@dataclass(frozen=True, slots=True, eq=False)
class OpSpec:
    """An operator: its name, parameters, type rule, meaning, oracle and samples.

    `arity` is None for operators over any positive number of tensors (concat). `params` lists the
    keyword parameters in the order in which rules print them. Calling a spec applies it:
    `matmul(x, y)` is a Node.
    """

    name: str
    arity: int | None
    params: tuple[str, ...]
    infer: Infer
    compute: Compute
    reference: Reference
    samples: tuple[Sample, ...]
    family: str
    doc: str

    def __post_init__(self) -> None:
        for facet in (self.infer, self.compute, self.reference):
            keywords = [
                parameter.name
                for parameter in inspect.signature(facet).parameters.values()
                if parameter.kind is inspect.Parameter.KEYWORD_ONLY
            ]
            assert tuple(keywords) == self.params, (
                f"{self.name}: {facet.__name__} takes parameters {keywords}, "
                f"the record says {self.params}"
            )
        assert self.samples, f"{self.name}: expected at least one sample"

    def __call__(self, *inputs: Value, **params: Param) -> Node:
        """Apply the operator. Raises ShapeError if the operands do not fit."""
        if self.arity is not None and len(inputs) != self.arity:
            raise TypeError(f"{self.name}: expected {self.arity} operands, got {len(inputs)}")
        if set(params) != set(self.params):
            raise TypeError(f"{self.name}: expected parameters {self.params}, got {tuple(params)}")
        result = self.infer(*(value.type for value in inputs), **params)
        return Node(self, inputs, tuple(sorted(params.items())), result)

    def expression(self, *types: TensorType, **params: Param) -> TensorExpr:
        """The meaning on operands of those types, as operands 0, 1, … of a tensor expression."""
        tensors = (Tensor(position, type) for position, type in enumerate(types))
        return self.compute(*tensors, **params)

    def __repr__(self) -> str:
        return self.name


def expression_of(node: Node) -> TensorExpr:
    """The meaning of a node over its inputs as operands 0, 1, …"""
    return node.op.expression(*(value.type for value in node.inputs), **node.keywords)

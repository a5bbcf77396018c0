"""What the tests of imported operators share: a model of one node, and what ONNX Runtime gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from graphopt.graph import Graph
from graphopt.onnx_import import import_model
from graphopt.reference import evaluate_graph


@dataclass(frozen=True)
class OneNode:
    """A model of one node: inputs by name, constants by name ("" omits an operand).

    `types` holds the element types of the outputs that have another than the first input.
    """

    operator: str
    arrays: Mapping[str, Any]
    operands: Sequence[str]
    constants: Mapping[str, Any]
    attributes: Mapping[str, Any]
    outputs: Sequence[str] = ("y",)
    types: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 21
    domain: str = ""
    domain_opset: int = 3

    @property
    def model(self) -> onnx.ModelProto:
        node = helper.make_node(
            self.operator,
            list(self.operands),
            list(self.outputs),
            domain=self.domain,
            **self.attributes,
        )
        first = next(iter(self.arrays.values())).dtype
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in self.arrays.items()
        ]
        graph = helper.make_graph(
            [node],
            "graph",
            inputs,
            [
                helper.make_tensor_value_info(
                    name,
                    helper.np_dtype_to_tensor_dtype(np.dtype(self.types.get(name, first))),
                    None,
                )
                for name in self.outputs
                if name
            ],
            [numpy_helper.from_array(np.asarray(a), name) for name, a in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        if self.domain:
            opsets.append(helper.make_opsetid(self.domain, self.domain_opset))
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def imported(self) -> Graph:
        return import_model(self.model)

    def evaluated(self) -> tuple[Any, ...]:
        return evaluate_graph(self.imported(), self.arrays)

    def runtime(self) -> list[Any]:
        """What ONNX Runtime gives, without its own optimizations."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(self.model.SerializeToString(), options)
        return list(session.run(None, dict(self.arrays)))


@pytest.fixture
def one_node() -> Callable[..., OneNode]:
    """Makes a model of one node; keywords that are no field of `OneNode` are attributes."""

    def make(
        operator: str,
        arrays: Mapping[str, Any],
        operands: Sequence[str] | None = None,
        constants: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> OneNode:
        fields = {
            name: attributes.pop(name)
            for name in ("outputs", "types", "opset", "domain", "domain_opset")
            if name in attributes
        }
        given = constants or {}
        names = [*arrays, *given] if operands is None else operands
        return OneNode(operator, arrays, names, given, attributes, **fields)

    return make


@pytest.fixture
def agree(one_node: Callable[..., OneNode]) -> Callable[..., Graph]:
    """Imports a model of one node and holds its evaluation against ONNX Runtime.

    Takes what `one_node` takes, and `rtol` and `atol`; gives the imported graph.
    """

    def check(*args: Any, rtol: float = 1e-4, atol: float = 1e-5, **keywords: Any) -> Graph:
        case = one_node(*args, **keywords)
        expected = case.runtime()
        graph = case.imported()
        actual: Any = evaluate_graph(graph, case.arrays)
        for want, got in zip(expected, actual, strict=True):
            assert want.dtype == got.dtype
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
        return graph

    return check

"""Sequences and optional values: their operators, their place at a model's border, refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphopt.graph import Graph
from graphopt.onnx_import import (
    ModelError,
    NeedsConstant,
    UnpinnedDimension,
    UnsupportedOperator,
    import_model,
)
from graphopt.reference import evaluate_graph

FLOAT = TensorProto.FLOAT


def f32(values: Any) -> Any:
    return np.array(values, np.float32)


def tensor_type(*sizes: int | str) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(FLOAT, sizes)


def sequence_type(*sizes: int | str) -> onnx.TypeProto:
    return helper.make_sequence_type_proto(tensor_type(*sizes))


OPEN_TENSOR = helper.make_tensor_type_proto(FLOAT, None)
OPEN_SEQUENCE = helper.make_sequence_type_proto(OPEN_TENSOR)
COUNT = helper.make_tensor_type_proto(TensorProto.INT64, ())


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, onnx.TypeProto],
    outputs: Mapping[str, onnx.TypeProto],
    constants: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_value_info(name, declared) for name, declared in inputs.items()],
        [helper.make_value_info(name, declared) for name, declared in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def outputs_of(graph: Graph, **arrays: Any) -> list[Any]:
    return [np.asarray(array) for array in evaluate_graph(graph, arrays)]


A, B, C = (f32([number, number + 0.5]) for number in (1, 2, 3))
ABC = {"a": tensor_type(2), "b": tensor_type(2), "c": tensor_type(2)}
CONSTRUCT = helper.make_node("SequenceConstruct", ["a", "b", "c"], ["s"])


@pytest.mark.parametrize(
    ("nodes", "position", "expected"),
    [
        ([helper.make_node("SequenceAt", ["s", "p"], ["y"])], 0, A),
        ([helper.make_node("SequenceAt", ["s", "p"], ["y"])], -1, C),
        (
            [
                helper.make_node("SequenceErase", ["s", "p"], ["t"]),
                helper.make_node("ConcatFromSequence", ["t"], ["y"], axis=0),
            ],
            -2,
            np.concatenate([A, C]),
        ),
        (
            [
                helper.make_node("SequenceErase", ["s"], ["t"]),
                helper.make_node("ConcatFromSequence", ["t"], ["y"], axis=-1, new_axis=1),
            ],
            0,
            np.stack([A, B], axis=-1),
        ),
        (
            [
                helper.make_node("SequenceInsert", ["s", "a", "p"], ["t"]),
                helper.make_node("ConcatFromSequence", ["t"], ["y"], axis=0, new_axis=1),
            ],
            -1,
            np.stack([A, B, A, C]),
        ),
        (
            [
                helper.make_node("SequenceEmpty", [], ["e"]),
                helper.make_node("SequenceInsert", ["e", "b"], ["f"]),
                helper.make_node("SequenceInsert", ["f", "a"], ["g"]),
                helper.make_node("ConcatFromSequence", ["g"], ["y"], axis=0),
            ],
            0,
            np.concatenate([B, A]),
        ),
    ],
    ids=["at", "at the end", "erase", "erase the last, stack", "insert", "from nothing"],
)
def test_sequences_are_gone_after_import(
    nodes: list[onnx.NodeProto], position: int, expected: Any
) -> None:
    model = model_of([CONSTRUCT, *nodes], ABC, {"y": OPEN_TENSOR}, {"p": np.int64(position)})
    (y,) = outputs_of(import_model(model), a=A, b=B, c=C)
    np.testing.assert_array_equal(y, expected)


def test_a_position_must_be_known() -> None:
    at = helper.make_node("SequenceAt", ["s", "p"], ["y"])
    model = model_of([CONSTRUCT, at], {**ABC, "p": COUNT}, {"y": OPEN_TENSOR})
    with pytest.raises(NeedsConstant, match="the position in the sequence") as caught:
        import_model(model)
    assert caught.value.inputs == ("p",)


@pytest.mark.parametrize(
    ("sizes", "attributes", "shapes"),
    [
        (None, {}, [(1, 2), (1, 2), (1, 2)]),
        (None, {"keepdims": 0}, [(2,), (2,), (2,)]),
        (None, {"axis": -1, "keepdims": 0}, [(3,), (3,)]),
        (np.int64(2), {}, [(2, 2), (1, 2)]),
        (np.array([0, 3]), {}, [(0, 2), (3, 2)]),
    ],
)
def test_tensors_are_split_into_sequences(
    sizes: Any, attributes: dict[str, Any], shapes: list[tuple[int, ...]]
) -> None:
    names = ["x"] if sizes is None else ["x", "sizes"]
    split = helper.make_node("SplitToSequence", names, ["y"], **attributes)
    length = helper.make_node("SequenceLength", ["y"], ["n"])
    constants = {} if sizes is None else {"sizes": sizes}
    model = model_of(
        [split, length], {"x": tensor_type(3, 2)}, {"y": OPEN_SEQUENCE, "n": COUNT}, constants
    )
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    graph = import_model(model)
    *items, count = outputs_of(graph, x=x)
    assert graph.output_names == (*(f"y[{n}]" for n in range(len(shapes))), "n")
    assert [item.shape for item in items] == shapes
    assert int(count) == len(shapes)
    joined = np.concatenate([item.reshape(-1) for item in items])
    back = x.T if attributes.get("axis") == -1 else x
    np.testing.assert_array_equal(joined, back.reshape(-1))


# At the border


JOIN = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)


@pytest.mark.parametrize("shapes", [{"s[0]": (2,), "s[1]": (3,)}, {"s": (2,)}])
def test_a_sequence_is_taken_item_by_item(shapes: dict[str, tuple[int, ...]]) -> None:
    given = {**shapes, "s[0]": (2,), "s[1]": (3,)}
    model = model_of([JOIN], {"s": sequence_type("n")}, {"y": OPEN_TENSOR})
    graph = import_model(model, shapes=given)
    assert graph.input_names == ("s[0]", "s[1]")
    arrays = {"s[0]": f32([1, 2]), "s[1]": f32([3, 4, 5])}
    (y,) = outputs_of(graph, **arrays)
    np.testing.assert_array_equal(y, f32([1, 2, 3, 4, 5]))
    fixed = import_model(model, shapes={"s[1]": (3,)}, bindings={"s[0]": arrays["s[0]"]})
    assert fixed.input_names == ("s[1]",)


@pytest.mark.parametrize(
    ("shapes", "kind", "message"),
    [
        ({}, UnpinnedDimension, "the sequence 's' of open length .--shape s=LENGTH"),
        ({"s": (-1,)}, ModelError, "input 's': expected a length of at most 4096 as the shape"),
        ({"s": (5000,)}, ModelError, "input 's': expected a length of at most 4096 as the shape"),
        ({"s": (1, 2)}, ModelError, "input 's': expected a length of at most 4096 as the shape"),
        ({"s": (1,), "s[1]": (2,)}, ModelError, "expected a name among its inputs"),
        ({"s": (1,)}, UnpinnedDimension, r"input 's\[0\]' has shape"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(
    shapes: dict[str, tuple[int, ...]], kind: type[Exception], message: str
) -> None:
    model = model_of([JOIN], {"s": sequence_type("n")}, {"y": OPEN_TENSOR})
    with pytest.raises(kind, match=message):
        import_model(model, shapes=shapes)


def test_an_input_named_as_an_item_is_refused() -> None:
    inputs = {"s": sequence_type("n"), "s[0]": tensor_type(2)}
    model = model_of([JOIN], inputs, {"y": OPEN_TENSOR})
    with pytest.raises(ModelError, match="expected inputs of different names, got one twice"):
        import_model(model, shapes={"s": (1,), "s[0]": (2,)})


def test_an_optional_input_is_one_that_is_given() -> None:
    nodes = [
        helper.make_node("OptionalHasElement", ["x"], ["h"]),
        helper.make_node("OptionalGetElement", ["x"], ["y"]),
    ]
    boolean = helper.make_tensor_type_proto(TensorProto.BOOL, ())
    optional = helper.make_optional_type_proto(tensor_type(2))
    graph = import_model(model_of(nodes, {"x": optional}, {"h": boolean, "y": OPEN_TENSOR}))
    there, y = outputs_of(graph, x=A)
    assert there.item() is True
    np.testing.assert_array_equal(y, A)


# Loops


def test_loops_carry_sequences() -> None:
    """Three iterations, each of which appends x."""
    body = helper.make_graph(
        [
            helper.make_node("SequenceInsert", ["carried", "x"], ["next"]),
            helper.make_node("Identity", ["going"], ["still"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("trip", TensorProto.INT64, ()),
            helper.make_tensor_value_info("going", TensorProto.BOOL, ()),
            helper.make_value_info("carried", OPEN_SEQUENCE),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, ()),
            helper.make_value_info("next", OPEN_SEQUENCE),
        ],
    )
    nodes = [
        helper.make_node("SequenceEmpty", [], ["e"]),
        helper.make_node("Loop", ["trips", "", "e"], ["s"], body=body),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0, new_axis=1),
    ]
    model = model_of(nodes, {"x": tensor_type(2)}, {"y": OPEN_TENSOR}, {"trips": np.int64(3)})
    (y,) = outputs_of(import_model(model), x=A)
    np.testing.assert_array_equal(y, np.stack([A, A, A]))


# Refusals


def one(operator: str, *names: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, list(names), ["y"], name="n", **attributes)


@pytest.mark.parametrize(
    ("node", "constants", "kind", "message"),
    [
        (one("SequenceAt", "s", "p"), {"p": np.int64(3)}, ModelError, r"within -3 … 2, got 3"),
        (one("SequenceAt", "s", "p"), {"p": np.int64(-4)}, ModelError, r"within -3 … 2, got -4"),
        (one("SequenceAt", "a", "p"), {"p": np.int64(0)}, ModelError, "a sequence as operand 0"),
        (one("SequenceErase", "e"), {}, ModelError, "a sequence with an item to erase"),
        (one("ConcatFromSequence", "e", axis=0), {}, ModelError, "a sequence with items to join"),
        (one("Relu", "s"), {}, ModelError, "expected a tensor, got a sequence of 3"),
        (one("SplitToSequence", "a", "p"), {"p": np.array([1, 2])}, ModelError, "add up to 2"),
        (one("SplitToSequence", "a", "p"), {"p": np.int64(0)}, ModelError, "at least one element"),
        (one("Optional", type=tensor_type(2)), {}, UnsupportedOperator, "that is there, got none"),
    ],
)
def test_refused(
    node: onnx.NodeProto, constants: dict[str, Any], kind: type[Exception], message: str
) -> None:
    empty = helper.make_node("SequenceEmpty", [], ["e"])
    model = model_of([CONSTRUCT, empty, node], ABC, {"y": OPEN_TENSOR}, constants)
    with pytest.raises(kind, match=message):
        import_model(model)

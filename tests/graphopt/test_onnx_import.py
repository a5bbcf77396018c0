"""Import as a whole: signatures, constants, functions, control flow, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphopt.graph import Constant, Graph, Input, Node
from graphopt.onnx_import import (
    ModelError,
    NeedsConstant,
    UnpinnedDimension,
    UnsupportedOperator,
    import_model,
    translation,
)
from graphopt.reference import evaluate_graph

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Sizes = Sequence[int | str | None] | None


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sizes]],
    outputs: Mapping[str, int],
    *,
    constants: Mapping[str, Any] | None = None,
    opset: int = 21,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    initializers = [
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in (constants or {}).items()
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *declared) for name, declared in inputs.items()],
        [helper.make_tensor_value_info(name, number, None) for name, number in outputs.items()],
        initializers,
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(name, number) for name, number in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def names_of(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def f32(values: Any) -> Any:
    return np.array(values, np.float32)


def i64(values: Any) -> Any:
    return np.array(values, np.int64)


def relu_model(sizes: Sizes = (2, 3)) -> onnx.ModelProto:
    return model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (FLOAT, sizes)}, {"y": FLOAT})


# Signature


def test_sources_of_a_model_are_equal(tmp_path: Path) -> None:
    model = relu_model()
    path = tmp_path / "relu.onnx"
    onnx.save(model, path)
    graphs = [
        import_model(source) for source in (model, path, str(path), model.SerializeToString())
    ]
    assert {graph.digest for graph in graphs} == {graphs[0].digest}
    assert (graphs[0].input_names, graphs[0].output_names) == (("x",), ("y",))


def test_proto_is_left_unchanged() -> None:
    model = relu_model((None, 3))
    before = model.SerializeToString(deterministic=True)
    import_model(model, shapes={"x": (2, 3)})
    assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("sizes", "pin"),
    [((None, 3), "x=N,3"), (("batch", 3), "x=N,3"), ((None, None), "x=N,N"), (None, "x=SIZE,…")],
)
def test_open_sizes_are_named_with_what_pins_them(sizes: Sizes, pin: str) -> None:
    with pytest.raises(UnpinnedDimension, match="--shape " + pin):
        import_model(relu_model(sizes))
    graph = import_model(relu_model(sizes), shapes={"x": (2, 3)})
    assert graph.inputs[0].type.shape == (2, 3)


def test_all_open_inputs_are_named_at_once() -> None:
    node = helper.make_node("Add", ["x", "z"], ["y"])
    model = model_of([node], {"x": (FLOAT, ["n"]), "z": (FLOAT, [None])}, {"y": FLOAT})
    with pytest.raises(UnpinnedDimension, match=r"'x'.*'z'"):
        import_model(model)


def test_one_pinned_name_pins_it_everywhere() -> None:
    node = helper.make_node("MatMul", ["x", "z"], ["y"])
    model = model_of([node], {"x": (FLOAT, ["m", "k"]), "z": (FLOAT, ["k", 4])}, {"y": FLOAT})
    graph = import_model(model, shapes={"x": (2, 3)})
    assert [value.type.shape for value in (*graph.inputs, *graph.outputs)] == [
        (2, 3), (3, 4), (2, 4),
    ]  # fmt: skip
    with pytest.raises(ModelError, match=r"input 'z': expected a shape that fits \[k,4\]"):
        import_model(model, shapes={"x": (2, 3), "z": (5, 4)})


@pytest.mark.parametrize("shape", [(3, 3), (2,), (2, 3, 1)])
def test_contradicting_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"input 'x': expected a shape that fits \[2,3\], got"):
        import_model(relu_model(), shapes={"x": shape})


def test_unknown_input_names_are_refused() -> None:
    with pytest.raises(ModelError, match="expected a name among its inputs 'x', got 'z'"):
        import_model(relu_model(), shapes={"z": (2, 3)})


def test_initializers_are_no_inputs_even_if_listed() -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = model_of(
        [node], {"x": (FLOAT, [2]), "w": (FLOAT, [2])}, {"y": FLOAT},
        constants={"w": f32([1, 2])},
    )  # fmt: skip
    assert import_model(model).input_names == ("x",)


# Constants


def reshape_by_input() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Add", ["shape", "one"], ["wanted"]),
        helper.make_node("Reshape", ["x", "wanted"], ["y"], name="resh"),
    ]
    return model_of(
        nodes, {"x": (FLOAT, [6]), "shape": (INT64, [2])}, {"y": FLOAT},
        constants={"one": i64([0, 1])},
    )  # fmt: skip


def test_value_needed_at_compile_time_names_the_inputs_to_bind() -> None:
    with pytest.raises(NeedsConstant, match=r"node 'resh' .*'shape'.*fix those inputs") as caught:
        import_model(reshape_by_input())
    assert caught.value.inputs == ("shape",)
    graph = import_model(reshape_by_input(), bindings={"shape": i64([2, 2])})
    assert graph.input_names == ("x",)
    assert graph.inputs[0].position == 0
    assert graph.outputs[0].type.shape == (2, 3)


def test_binding_of_another_type_is_refused() -> None:
    with pytest.raises(ModelError, match="fixed value of type int64, got float64"):
        import_model(reshape_by_input(), bindings={"shape": np.zeros(2)})


def test_shape_arithmetic_disappears() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "two"], ["head"]),
        helper.make_node("ReduceProd", ["head"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    constants = {"zero": i64([0]), "two": i64([2]), "rest": i64([-1])}
    model = model_of(nodes, {"x": (FLOAT, [2, 3, 4])}, {"y": FLOAT}, constants=constants)
    graph = import_model(model)
    assert names_of(graph) == ["reshape"]
    assert graph.outputs[0].type.shape == (6, 4)


def test_folding_neither_bloats_nor_runs_away() -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["big"], ["zeros"]),
        helper.make_node("ConstantOfShape", ["small"], ["ones"]),
        helper.make_node("Add", ["x", "zeros"], ["y"]),
    ]
    constants = {"big": i64([2**20, 2**10]), "small": i64([2])}
    model = model_of(nodes, {"x": (FLOAT, [])}, {"y": FLOAT, "ones": FLOAT}, constants=constants)
    graph = import_model(model)
    assert names_of(graph) == ["broadcast_to", "add"]
    assert isinstance(graph.outputs[1], Constant)


def test_index_outside_a_constant_is_a_model_error() -> None:
    node = helper.make_node("Gather", ["table", "rows"], ["y"], name="look")
    constants = {"table": np.zeros((2, 2), np.float32), "rows": i64([5])}
    with pytest.raises(
        ModelError, match=r"node 'look' \(Gather\): expected indices into \[2\], got index 5"
    ):
        import_model(model_of([node], {}, {"y": FLOAT}, constants=constants))


def test_equal_terms_are_one_term() -> None:
    nodes = [helper.make_node("Exp", ["x"], [name]) for name in ("a", "b")]
    nodes.append(helper.make_node("Add", ["a", "b"], ["y"]))
    assert names_of(import_model(model_of(nodes, {"x": (FLOAT, [2])}, {"y": FLOAT}))) == [
        "exp", "add",
    ]  # fmt: skip


# Functions


def scaled_function(nodes: Sequence[onnx.NodeProto], name: str = "Scaled") -> onnx.FunctionProto:
    return helper.make_function(
        "local", name, ["x", "bias"], ["y"], nodes, [helper.make_opsetid("", 21)],
        attributes=["factor"],
        attribute_protos=[helper.make_attribute("shift", 1.0)],
    )  # fmt: skip


def reference_to(name: str, kind: int, as_name: str) -> onnx.AttributeProto:
    attribute = onnx.AttributeProto(name=as_name, ref_attr_name=name)
    attribute.type = kind  # type: ignore[assignment]
    return attribute


def test_local_function_with_attributes_defaults_and_omitted_operand() -> None:
    factor = helper.make_node("Constant", [], ["f"])
    factor.attribute.append(reference_to("factor", onnx.AttributeProto.FLOAT, "value_float"))
    shift = helper.make_node("Constant", [], ["s"])
    shift.attribute.append(reference_to("shift", onnx.AttributeProto.FLOAT, "value_float"))
    body = [
        factor, shift,
        helper.make_node("Mul", ["x", "f"], ["scaled"]),
        helper.make_node("Add", ["scaled", "s"], ["moved"]),
        helper.make_node("Clip", ["moved", "bias"], ["y"]),
    ]  # fmt: skip
    call = helper.make_node("Scaled", ["x"], ["y"], domain="local", factor=2.0)
    model = model_of(
        [call], {"x": (FLOAT, [2])}, {"y": FLOAT},
        functions=[scaled_function(body)], domains={"local": 1},
    )  # fmt: skip
    graph = import_model(model)
    (result,) = evaluate_graph(graph, {"x": f32([1, -3])})
    np.testing.assert_array_equal(result, f32([3, -5]))
    assert names_of(graph) == ["mul", "add"]


def test_function_that_calls_itself_is_refused() -> None:
    body = [helper.make_node("Scaled", ["x"], ["y"], domain="local", factor=1.0)]
    function = scaled_function(body)
    function.opset_import.append(helper.make_opsetid("local", 1))
    model = model_of(
        [helper.make_node("Scaled", ["x"], ["y"], domain="local", factor=1.0)],
        {"x": (FLOAT, [2])}, {"y": FLOAT}, functions=[function], domains={"local": 1},
    )  # fmt: skip
    with pytest.raises(ModelError):
        import_model(model)


def test_functions_that_multiply_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "MAX_NODES", 1000)
    functions = []
    for level in range(24):
        inner = f"F{level + 1}"
        body = [
            helper.make_node(inner, ["x", ""], ["a"], domain="local", factor=1.0),
            helper.make_node(inner, ["a", ""], ["y"], domain="local", factor=1.0),
        ]
        function = scaled_function(body, f"F{level}")
        function.opset_import.append(helper.make_opsetid("local", 1))
        functions.append(function)
    functions.append(scaled_function([helper.make_node("Neg", ["x"], ["y"])], "F24"))
    model = model_of(
        [helper.make_node("F0", ["x", ""], ["y"], domain="local", factor=1.0)],
        {"x": (FLOAT, [2])}, {"y": FLOAT}, functions=functions, domains={"local": 1},
    )  # fmt: skip
    with pytest.raises(ModelError, match="at most 1000 nodes"):
        import_model(model)


@pytest.mark.parametrize("opset", [7, 11, 13, 18, 22])
def test_operators_defined_by_functions_in_every_opset(opset: int) -> None:
    operators = ("Elu", "HardSigmoid", "LeakyRelu", "Selu", "Softplus", "Softsign", "Softmax")
    for operator in operators:
        node = helper.make_node(operator, ["x"], ["y"])
        model = model_of([node], {"x": (FLOAT, [3, 4])}, {"y": FLOAT}, opset=opset)
        x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
        result: Any = evaluate_graph(import_model(model), {"x": x})[0]
        expected: Any = {
            "Elu": np.where(x < 0, np.expm1(x), x),
            "HardSigmoid": np.clip(0.2 * x + 0.5, 0, 1),
            "LeakyRelu": np.where(x < 0, 0.01 * x, x),
            "Selu": 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * np.expm1(x), x),
            "Softplus": np.log1p(np.exp(x)),
            "Softsign": x / (1 + np.abs(x)),
            "Softmax": np.exp(x) / np.exp(x).sum(axis=1, keepdims=True),
        }[operator]
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_softmax_before_opset_13_flattens() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    results = [
        evaluate_graph(
            import_model(model_of([node], {"x": (FLOAT, x.shape)}, {"y": FLOAT}, opset=opset)),
            {"x": x},
        )[0]
        for opset in (12, 13)
    ]
    np.testing.assert_allclose(results[0].sum(axis=(1, 2)), 1, rtol=1e-5)
    np.testing.assert_allclose(results[1].sum(axis=1), 1, rtol=1e-5)


def test_opset_before_7_is_converted() -> None:
    node = helper.make_node("Add", ["x", "b"], ["y"], broadcast=1, axis=0)
    model = model_of(
        [node], {"x": (FLOAT, [2, 3])}, {"y": FLOAT},
        constants={"b": f32([10, 20])}, opset=6,
    )  # fmt: skip
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 2
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 3
    (result,) = evaluate_graph(import_model(model), {"x": np.zeros((2, 3), np.float32)})
    np.testing.assert_array_equal(result, f32([[10] * 3, [20] * 3]))


def test_newer_opset_is_refused() -> None:
    model = relu_model()
    model.opset_import[0].version = 9999
    with pytest.raises(ModelError, match=r"opset .* or older, got opset 9999"):
        import_model(model)


# Control flow


def branch(name: str, operator: str) -> onnx.GraphProto:
    return helper.make_graph(
        [helper.make_node(operator, ["x"], [name])],
        name, [], [helper.make_tensor_value_info(name, FLOAT, None)],
    )  # fmt: skip


def if_model(condition: tuple[int, Sizes] | None) -> onnx.ModelProto:
    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("a", "Neg"), else_branch=branch("b", "Exp")
    )
    inputs: dict[str, tuple[int, Sizes]] = {"x": (FLOAT, [2])}
    if condition is not None:
        return model_of([node], {**inputs, "c": condition}, {"y": FLOAT})
    return model_of([node], inputs, {"y": FLOAT}, constants={"c": np.array(False)})


def test_branch_on_a_constant_is_chosen_and_on_a_value_selected() -> None:
    assert names_of(import_model(if_model(None))) == ["exp"]
    graph = import_model(if_model((BOOL, [])))
    for condition in (True, False):
        x = f32([1, 2])
        result: Any = evaluate_graph(graph, {"x": x, "c": np.array(condition)})[0]
        np.testing.assert_allclose(result, -x if condition else np.exp(x), rtol=1e-6)


def loop_model(trips: int | None, *, while_below: float | None = None) -> onnx.ModelProto:
    """total += x until the trip count, or until the total of a constant reaches a bound."""
    nodes = [helper.make_node("Add", ["t", "x"], ["t2"])]
    constants: dict[str, Any] = {"going": np.array(True), "zero": f32([0, 0])}
    if while_below is None:
        nodes.append(helper.make_node("Identity", ["c"], ["c2"]))
    else:
        nodes.append(helper.make_node("ReduceMax", ["t2"], ["m"], keepdims=0))
        nodes.append(helper.make_node("Less", ["m", "limit"], ["c2"]))
        constants["limit"] = f32(while_below)
    nodes.append(helper.make_node("Mul", ["t2", "t2"], ["s"]))
    body = helper.make_graph(
        nodes, "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("c", BOOL, []),
            helper.make_tensor_value_info("t", FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("c2", BOOL, []),
            helper.make_tensor_value_info("t2", FLOAT, [2]),
            helper.make_tensor_value_info("s", FLOAT, [2]),
        ],
    )  # fmt: skip
    if trips is not None:
        constants["trips"] = np.array(trips)
    node = helper.make_node(
        "Loop", ["" if trips is None else "trips", "going", "zero"], ["y", "all"], body=body
    )
    return model_of([node], {"x": (FLOAT, [2])}, {"y": FLOAT, "all": FLOAT}, constants=constants)


def test_loop_is_unrolled() -> None:
    graph = import_model(loop_model(3))
    x = f32([1, 2])
    total, squares = evaluate_graph(graph, {"x": x})
    np.testing.assert_array_equal(total, 3 * x)
    np.testing.assert_array_equal(squares, np.stack([x**2, (2 * x) ** 2, (3 * x) ** 2]))
    _, none = evaluate_graph(import_model(loop_model(0)), {"x": x})
    assert none.shape == (0, 2)


def test_loop_ends_where_its_condition_folds_to_false() -> None:
    model = loop_model(None, while_below=3.5)
    graph = import_model(model, bindings={"x": f32([1, 0])})
    total, _ = evaluate_graph(graph, {})
    np.testing.assert_array_equal(total, f32([4, 0]))
    with pytest.raises(NeedsConstant, match="whether the loop goes on") as caught:
        import_model(model)
    assert caught.value.inputs == ("x",)


def test_endless_loop_is_refused() -> None:
    with pytest.raises(UnsupportedOperator, match="at most 4096 iterations"):
        import_model(loop_model(None))


# Refusals


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            helper.make_node("Fancy", ["x"], ["y"], domain="com.acme", name="n"),
            r"node 'n' \(Fancy\): expected an operator that Tasor imports, "
            r"got com\.acme\.Fancy of opset 1",
        ),
        (
            helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING, name="n"),
            r"node 'n' \(Cast\): expected one of the element types .*, got string",
        ),
        (
            helper.make_node("ImageDecoder", ["x"], ["y"]),
            r"node 'y' \(ImageDecoder\): expected an operator",
        ),
    ],
)
def test_unsupported_operators_are_named(node: onnx.NodeProto, message: str) -> None:
    model = model_of([node], {"x": (FLOAT, [2])}, {"y": FLOAT}, domains={"com.acme": 1})
    with pytest.raises(UnsupportedOperator, match=message):
        import_model(model)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            helper.make_node("Transpose", ["x"], ["y"], perm=[0, 0]),
            r"node 'y' \(Transpose\): expected perm to be a permutation of 2 axes, got \[0, 0\]",
        ),
        (
            helper.make_node("Softmax", ["x"], ["y"], axis=4),
            r"node 'y/X_ReduceMax' \(ReduceMax\): ",
        ),
        (
            helper.make_node("Conv", ["x", "x"], ["y"]),
            r"node 'y' \(Conv\): expected an operand of at least 3 axes, got 2",
        ),
        (
            helper.make_node("And", ["x", "x"], ["y"]),
            r"node 'y' \(And\): and: expected bool operands, got float32",
        ),
        (
            helper.make_node("Split", ["x"], ["y", "z"], num_outputs=3),
            r"node 'y' \(Split\): expected num_outputs 2, got 3",
        ),
    ],
)
def test_bad_nodes_are_one_line(node: onnx.NodeProto, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        import_model(model_of([node], {"x": (FLOAT, [2, 3])}, {"y": FLOAT}))
    assert "\n" not in str(caught.value)


def test_declared_output_type_must_be_right() -> None:
    model = model_of([helper.make_node("Shape", ["x"], ["y"])], {"x": (FLOAT, [2])}, {"y": FLOAT})
    with pytest.raises(ModelError, match="output 'y': expected float32 as declared, got int64"):
        import_model(model)


def test_graph_values_are_inputs_constants_and_nodes_only() -> None:
    graph = import_model(if_model((BOOL, [])))
    assert all(isinstance(value, Input | Constant | Node) for value in graph.values)

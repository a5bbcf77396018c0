"""Models as a whole: names, outputs, fused operators, equal bytes, files."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphopt import onnx_export
from graphopt.graph import Constant, Graph, Input, Param, Value
from graphopt.onnx_export import ExportError, export_model, save_model
from graphopt.onnx_import import import_model
from graphopt.ops import OP
from graphopt.reference import evaluate_graph
from tensorgen.types import Array, TensorType, bfloat16, float32
from tests.random_graphs import inputs_for, random_graph


def checked(graph: Graph) -> onnx.ModelProto:
    model = export_model(graph)
    onnx.checker.check_model(model, full_check=True)
    return model


def session_of(model: onnx.ModelProto | Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options)


def run(model: onnx.ModelProto | Path, feed: Mapping[str, Array]) -> list[Any]:
    return list(session_of(model).run(None, dict(feed)))


def tensor(*shape: int, position: int = 0) -> Input:
    return Input(position, TensorType(float32, shape))


def whole(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def constant(*shape: int, value: float | None = None) -> Constant:
    return Constant(whole(*shape, seed=1) if value is None else np.full(shape, value, np.float32))


def graph_of(x: Input, *values: Value) -> Graph:
    return Graph((x,), values, ("x",), tuple(f"y{n}" for n in range(len(values))))


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def names(values: Sequence[onnx.ValueInfoProto]) -> list[str]:
    return [value.name for value in values]


# Names


def test_inputs_and_outputs_keep_their_names_and_order() -> None:
    first, second, unused = (tensor(2, position=n) for n in range(3))
    graph = Graph(
        (first, second, unused),
        (OP["sub"](second, first), OP["add"](first, second)),
        ("b", "a", "idle"),
        ("z", "y"),
    )
    model = checked(graph)
    assert names(model.graph.input) == ["b", "a", "idle"]
    assert names(model.graph.output) == ["z", "y"]
    assert [node.name for node in model.graph.node] == ["sub_0", "add_1"]
    feed = {"b": whole(2), "a": whole(2, seed=3), "idle": whole(2)}
    np.testing.assert_array_equal(run(model, feed)[0], feed["a"] - feed["b"])


@pytest.mark.parametrize(
    "outputs",
    [
        ("a", "b", "c"),
        ("exp_0", "exp_0_1", "constant_0"),
        ("identity", "identity_1", "sqrt_1"),
        ("a\0b", "line\nbreak", "名前/../«»'\"%s{}"),
        ("x ", " x", "X"),
    ],
)
def test_no_name_collides_with_generated_ones(outputs: tuple[str, ...]) -> None:
    x = tensor(3)
    value = OP["exp"](x)
    graph = Graph(
        (x,),
        (OP["add"](OP["sqrt"](value), constant(3)), value, value),
        ("shr_2",),
        outputs,
    )
    model = checked(graph)
    assert names(model.graph.output) == list(outputs)
    feed = {"shr_2": whole(3)}
    for actual, expected in zip(run(model, feed), evaluate_graph(graph, feed), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)
    produced = [name for node in model.graph.node for name in node.output]
    known = [*produced, *names(model.graph.input), *(t.name for t in model.graph.initializer)]
    assert len(set(known)) == len(known)
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


@settings(max_examples=30, deadline=None)
@given(st.lists(NAMES, min_size=3, max_size=3, unique=True))
def test_any_text_is_a_name(texts: list[str]) -> None:
    x = tensor(2)
    graph = Graph((x,), (OP["neg"](x), OP["abs"](x)), (texts[0],), (texts[1], texts[2]))
    restored = import_model(checked(graph).SerializeToString())
    assert (restored.input_names, restored.output_names) == (graph.input_names, graph.output_names)
    assert restored.digest == graph.digest


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (("",), ("y",), "input '': expected a name, got none; rename it"),
        (("x",), ("",), "output '': expected a name, got none; rename it"),
        (("x",), ("x",), "output 'x': expected one value of that name, got two; rename one"),
        (("\ud800",), ("y",), "input '?': expected Unicode text, got surrogates; rename it"),
    ],
)
def test_names_that_onnx_does_not_have(
    inputs: tuple[str, ...], outputs: tuple[str, ...], message: str
) -> None:
    x = tensor(2)
    with pytest.raises(ExportError) as caught:
        export_model(Graph((x,), (OP["neg"](x),), inputs, outputs))
    assert str(caught.value) == message


def test_one_name_for_two_values_is_refused() -> None:
    x = tensor(2)
    with pytest.raises(ExportError, match="output 'y': expected one value of that name, got two"):
        export_model(Graph((x,), (OP["neg"](x), OP["abs"](x)), ("x",), ("y", "y")))


# Outputs


def test_outputs_that_are_inputs_constants_or_one_value() -> None:
    x = tensor(2, 3)
    value = OP["neg"](x)
    fixed = constant(4)
    graph = Graph(
        (x,),
        (value, x, fixed, value, x, fixed, value),
        ("x",),
        ("a", "b", "c", "d", "x", "f", "a"),
    )
    model = checked(graph)
    assert names(model.graph.output) == ["a", "b", "c", "d", "x", "f", "a"]
    feed = {"x": whole(2, 3)}
    for actual, expected in zip(run(model, feed), evaluate_graph(graph, feed), strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert operators(model).count("Neg") == 1


def test_values_without_elements_need_no_operator() -> None:
    x = tensor(0, 3)
    y = OP["add"](OP["reduce_sum"](x, axes=(0,), keepdims=False), constant(3))
    graph = graph_of(x, OP["exp"](x), y)
    model = checked(graph)
    assert operators(model) == ["ReduceSum", "Add", "Identity"]
    for actual, expected in zip(
        run(model, {"x": whole(0, 3)}), evaluate_graph(graph, {"x": whole(0, 3)}), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)


def test_equal_constants_are_stored_once() -> None:
    x = tensor(2, 2)
    graph = graph_of(x, OP["add"](OP["mul"](x, constant(2, 2)), constant(2, 2)))
    model = checked(graph)
    assert len(model.graph.initializer) == 1
    (stored,) = model.graph.initializer
    assert stored.HasField("raw_data")


def test_sixteen_bit_constants_keep_their_bits() -> None:
    x = Input(0, TensorType(bfloat16, (4,)))
    values = np.array([1.5, -0.0, 3e38, np.inf], bfloat16.numpy)
    graph = graph_of(x, OP["concat"](x, Constant(values), axis=0))
    (restored,) = import_model(checked(graph)).outputs
    (output,) = graph.outputs
    assert restored == output


# Fused operators


def activation(x: Value, low: float, high: float) -> Value:
    return OP["min"](OP["max"](x, constant(value=low)), constant(value=high))


def pooled(x: Value, name: str, *pads: int) -> Value:
    params: dict[str, Param] = {
        "kernel": (2, 2), "strides": (2, 2), "pads": pads, "dilations": (1, 1)
    }  # fmt: skip
    return OP[name](x, **params)


def convolved(x: Value) -> Value:
    params: dict[str, Param] = {
        "strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": 1
    }  # fmt: skip
    return OP["conv"](x, constant(3, 2, 3, 3), **params)


def shifted(x: Value, axis: int) -> Value:
    return OP["sub"](x, OP["reduce_max"](x, axes=(axis,), keepdims=True))


def softmax(x: Value, axis: int) -> Value:
    powers = OP["exp"](shifted(x, axis))
    return OP["div"](powers, OP["reduce_sum"](powers, axes=(axis,), keepdims=True))


def log_softmax(x: Value, axis: int) -> Value:
    difference = shifted(x, axis)
    total = OP["reduce_sum"](OP["exp"](difference), axes=(axis,), keepdims=True)
    return OP["sub"](difference, OP["log"](total))


IMAGE = tensor(1, 2, 4, 6)
MATRIX = tensor(5, 4)

FUSED: Sequence[tuple[Value, str]] = (
    (OP["max"](IMAGE, constant(value=0)), "Relu"),
    (OP["max"](constant(1, 1, value=0), IMAGE), "Relu"),
    (activation(IMAGE, 0, 6), "Clip"),
    (OP["max"](OP["min"](IMAGE, constant(value=2)), constant(1, value=-1)), "Clip"),
    (OP["add"](convolved(IMAGE), constant(3, 1, 1)), "Conv"),
    (OP["add"](constant(1, 3, 1, 1), convolved(IMAGE)), "Conv"),
    (OP["add"](convolved(IMAGE), constant(value=2)), "Conv"),
    (OP["add"](OP["matmul"](MATRIX, constant(4, 3)), constant(3)), "Gemm"),
    (OP["add"](OP["matmul"](MATRIX, constant(4, 3)), constant(5, 1)), "Gemm"),
    (OP["div"](pooled(IMAGE, "sum_pool", 0, 0, 0, 0), constant(value=4)), "AveragePool"),
    (OP["mul"](pooled(IMAGE, "sum_pool", 1, 1, 1, 1), constant(value=0.25)), "AveragePool"),
    (OP["div"](OP["reduce_sum"](IMAGE, axes=(2, 3), keepdims=True), constant(value=24)),
     "ReduceMean"),
    (OP["mul"](OP["reduce_sum"](MATRIX, axes=(1,), keepdims=False), constant(1, value=0.25)),
     "ReduceMean"),
    (softmax(MATRIX, 1), "Softmax"),
    (softmax(IMAGE, 2), "Softmax"),
    (log_softmax(MATRIX, 0), "LogSoftmax"),
)  # fmt: skip


@pytest.mark.parametrize(("value", "op_type"), FUSED)
def test_groups_become_one_operator(value: Value, op_type: str) -> None:
    source = IMAGE if value.type.rank == 4 else MATRIX
    graph = graph_of(source, value)
    model = checked(graph)
    assert operators(model) == [op_type]
    feed = {"x": whole(*source.type.shape)}
    (expected,) = evaluate_graph(graph, feed)
    np.testing.assert_allclose(run(model, feed)[0], expected, rtol=1e-5, atol=1e-6)
    (returned,) = evaluate_graph(import_model(model), feed)
    np.testing.assert_allclose(returned, expected, rtol=1e-5, atol=1e-6)


def test_an_average_that_leaves_padding_out() -> None:
    total = pooled(IMAGE, "sum_pool", 1, 1, 1, 1)
    rows, columns = np.array([1, 2, 1]), np.array([1, 2, 2, 1])
    counts = np.multiply.outer(rows, columns).astype(np.float32)
    graph = graph_of(IMAGE, OP["div"](total, Constant(counts)))
    model = checked(graph)
    (node,) = model.graph.node
    assert node.op_type == "AveragePool"
    assert {a.name: a.i for a in node.attribute}["count_include_pad"] == 0
    feed = {"x": whole(1, 2, 4, 6)}
    np.testing.assert_allclose(run(model, feed)[0], evaluate_graph(graph, feed)[0], rtol=1e-6)


LOOKALIKES: Sequence[tuple[Input, Value]] = (
    (MATRIX, OP["max"](MATRIX, constant(value=1))),
    (tensor(1), OP["max"](tensor(1), constant(5, 4, value=0))),
    (MATRIX, activation(MATRIX, 3, 1)),
    (MATRIX, OP["min"](OP["max"](MATRIX, constant(4)), constant(value=1))),
    (MATRIX, OP["div"](OP["reduce_sum"](MATRIX, axes=(1,), keepdims=True), constant(value=3))),
    (MATRIX, OP["div"](constant(value=4), OP["reduce_sum"](MATRIX, axes=(1,), keepdims=True))),
    (MATRIX, OP["mul"](OP["reduce_sum"](MATRIX, axes=(0,), keepdims=True), constant(value=0.2))),
    (MATRIX, OP["add"](OP["matmul"](MATRIX, constant(4, 3)), constant(2, 5, 3))),
    (IMAGE, OP["add"](convolved(IMAGE), constant(4, 1))),
    (IMAGE, OP["div"](pooled(IMAGE, "sum_pool", 1, 1, 1, 1), constant(value=3))),
    (
        tensor(5, 0),
        OP["div"](OP["reduce_sum"](tensor(5, 0), axes=(1,), keepdims=False), constant(value=1)),
    ),
    (
        MATRIX,
        OP["div"](
            OP["exp"](shifted(MATRIX, 1)),
            OP["reduce_sum"](OP["exp"](shifted(MATRIX, 1)), axes=(0,), keepdims=True),
        ),
    ),
)


@pytest.mark.parametrize(("source", "value"), LOOKALIKES)
def test_what_only_looks_like_a_group_is_none(source: Input, value: Value) -> None:
    graph = graph_of(source, value)
    model = checked(graph)
    fused = {"Relu", "Clip", "Gemm", "ReduceMean", "Softmax", "AveragePool"}
    assert fused.isdisjoint(operators(model))
    assert all(len(node.input) == 2 for node in model.graph.node if node.op_type == "Conv")
    feed = {"x": whole(*source.type.shape)}
    (expected,) = evaluate_graph(graph, feed)
    np.testing.assert_allclose(run(model, feed)[0], expected, rtol=1e-5, atol=1e-6)


def test_a_group_that_others_look_into_stays_apart() -> None:
    product = OP["matmul"](MATRIX, constant(4, 3))
    total = OP["add"](product, constant(3))
    assert operators(checked(graph_of(MATRIX, total, product))) == ["MatMul", "Add"]
    assert operators(checked(graph_of(MATRIX, total, OP["neg"](product)))) == [
        "MatMul",
        "Add",
        "Neg",
    ]
    biased = OP["add"](convolved(IMAGE), constant(3, 1, 1))
    both = graph_of(IMAGE, activation(biased, 0, 6), OP["max"](biased, constant(value=0)))
    assert operators(checked(both)) == ["Conv", "Relu", "Min"]


# The same graph, the same bytes


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_mean_the_same_and_are_written_the_same(seed: int) -> None:
    graph = random_graph(seed, 12)
    model = checked(graph)
    assert model.SerializeToString() == export_model(random_graph(seed, 12)).SerializeToString()
    feed = inputs_for(graph, seed)
    expected: Any = evaluate_graph(graph, feed)
    for actual, want in zip(run(model, feed), expected, strict=True):
        np.testing.assert_allclose(actual, want, rtol=1e-4, atol=1e-4)
    returned: Any = evaluate_graph(import_model(model), feed)
    for actual, want in zip(returned, expected, strict=True):
        np.testing.assert_allclose(actual, want, rtol=1e-4, atol=1e-4)


def test_the_model_says_who_wrote_it() -> None:
    model = export_model(graph_of(MATRIX, OP["neg"](MATRIX)), producer_version="1.2")
    assert (model.producer_name, model.producer_version) == ("tasor", "1.2")
    assert (model.opset_import[0].version, model.ir_version) == (21, 10)


# Files


def weighty() -> Graph:
    return graph_of(MATRIX, OP["add"](OP["matmul"](MATRIX, constant(4, 300)), constant(5, 300)))


def test_a_saved_model_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    save_model(weighty(), path, producer_version="3")
    assert onnx.load(path) == export_model(weighty(), producer_version="3")
    assert os.listdir(tmp_path) == ["model.onnx"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o044 == 0o044 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_large_constants_lie_in_a_file_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    save_model(weighty(), path, max_inline_bytes=5000)
    data = [name for name in os.listdir(tmp_path) if name != "model.onnx"]
    assert data == [f"model.onnx.{weighty().digest[:16]}.data"]
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path, load_external_data=False)
    for stored in model.graph.initializer:
        entries = {entry.key: entry.value for entry in stored.external_data}
        assert entries["location"] == data[0]
        assert int(entries["offset"]) % 4096 == 0
    assert import_model(path).digest == import_model(export_model(weighty())).digest
    feed = {"x": whole(5, 4)}
    np.testing.assert_allclose(run(path, feed)[0], evaluate_graph(weighty(), feed)[0], rtol=1e-6)
    first = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    save_model(weighty(), path, max_inline_bytes=5000)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == first


def test_a_message_that_would_be_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_export, "MAX_INLINE_BYTES", 5000)
    with pytest.raises(ExportError, match="at most 5000 bytes of constants in one message"):
        export_model(weighty())


def test_a_place_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"expected a place that can be written, got No such"):
        save_model(weighty(), tmp_path / "nowhere" / "model.onnx")
    folder = tmp_path / "folder.onnx"
    folder.mkdir()
    with pytest.raises(ExportError, match="expected a place that can be written, got"):
        save_model(weighty(), folder)
    assert os.listdir(tmp_path) == ["folder.onnx"]
    with pytest.raises(ExportError, match="expected the name of a file, got none"):
        save_model(weighty(), "")


def test_a_failure_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")

    def fail(*args: object, **keywords: object) -> bytes:
        raise MemoryError

    for place in (
        "graphopt.onnx_export.storage.ExternalFile.tensor",
        "graphopt.onnx_export.model.Draft.model",
    ):
        monkeypatch.setattr(place, fail)
        with pytest.raises(MemoryError):
            save_model(weighty(), path, max_inline_bytes=0)
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["model.onnx"]

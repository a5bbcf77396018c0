"""Models that are wrong on purpose: every one ends as a one-line `ModelError`."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphopt.graph import Constant
from graphopt.onnx_import import ModelError, UnsupportedOperator, import_model

FLOAT = TensorProto.FLOAT


def info(
    name: str, number: int = FLOAT, shape: tuple[int, ...] | None = (2, 2)
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, number, shape)


def model_with(
    weights: onnx.TensorProto, nodes: list[onnx.NodeProto] | None = None
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes or [helper.make_node("Add", ["x", "w"], ["y"])],
        "graph", [info("x")], [info("y", shape=None)], [weights],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def weights() -> onnx.TensorProto:
    return numpy_helper.from_array(np.arange(4, dtype=np.float32).reshape(2, 2), "w")


def external(location: str, **entries: object) -> onnx.TensorProto:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[2, 2])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def refused(source: onnx.ModelProto | bytes | Path, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        import_model(source)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


# Files


@pytest.mark.parametrize("data", [b"", b"\x00", b"hello, world", b"\xff" * 100, b"\x08\x07"])
def test_what_is_no_model(data: bytes, tmp_path: Path) -> None:
    refused(data, "model: expected an ONNX model, got")
    path = tmp_path / "some.onnx"
    path.write_bytes(data)
    refused(path, r"model 'some\.onnx': expected an ONNX model, got")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    refused(tmp_path / "none.onnx", r"model 'none\.onnx': expected a readable file, got No such")
    refused(tmp_path, "expected a readable file, got Is a directory")


def test_every_truncation_is_refused() -> None:
    data = model_with(weights()).SerializeToString()
    for length in range(len(data)):
        with pytest.raises(ModelError):
            import_model(data[:length])


# External data


def saved(tmp_path: Path, tensor: onnx.TensorProto) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(model_with(tensor).SerializeToString())
    np.arange(6, dtype=np.float32).tofile(folder / "w.bin")
    np.arange(6, dtype=np.float32).tofile(tmp_path / "outside.bin")
    return folder / "model.onnx"


def test_external_data_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path, external("w.bin", offset=4, length=16))
    constants = [value for value in import_model(path).values if isinstance(value, Constant)]
    np.testing.assert_array_equal(constants[0].array, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("../outside.bin", {}, "expected a file inside the model's folder"),
        ("sub/../../outside.bin", {}, "expected a file inside the model's folder"),
        ("/etc/hostname", {}, "expected a relative location"),
        ("", {}, "expected a relative location"),
        ("w.bin\0", {}, "expected a relative location"),
        ("none.bin", {}, "expected a file inside the model's folder"),
        (".", {}, "expected a file inside the model's folder"),
        ("w.bin", {"offset": 12}, "expected bytes 12 … 28 of 'w.bin', got a file of 24 bytes"),
        ("w.bin", {"offset": -4}, "expected offset as a number of bytes, got '-4'"),
        ("w.bin", {"offset": 10**30}, "expected offset as a number of bytes"),
        ("w.bin", {"length": 8}, "expected 16 bytes of external data, got length 8"),
        ("w.bin", {"length": "many"}, "expected length as a number of bytes, got 'many'"),
    ],
)
def test_bad_external_data(
    tmp_path: Path, location: str, entries: dict[str, object], message: str
) -> None:
    refused(saved(tmp_path, external(location, **entries)), "tensor 'w': " + message)


def test_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, external("link.bin"))
    (path.parent / "link.bin").symlink_to(tmp_path / "outside.bin")
    refused(path, "expected a file inside the model's folder")


def test_external_data_without_a_folder_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, external("w.bin"))
    refused(path.read_bytes(), "got external data; give the model as a path")


# Tensors


def changed(change: Callable[[onnx.TensorProto], object]) -> onnx.ModelProto:
    tensor = weights()
    change(tensor)
    return model_with(tensor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.dims.append(3), "expected 48 bytes for 12 elements of float32, got 16"),
        (lambda t: t.dims.extend([2**40, 2**40]), r"expected at most 2\*\*40 elements"),
        (lambda t: t.dims.append(-1), "expected sizes of at least 0"),
        (lambda t: t.ClearField("raw_data"), "expected 4 elements in float_data, got 0"),
        (lambda t: t.segment.SetInParent(), "expected a whole tensor, got a segment"),
    ],
)
def test_tensors_that_contradict_themselves(
    change: Callable[[onnx.TensorProto], object], message: str
) -> None:
    refused(changed(change), "tensor 'w': " + message)


@pytest.mark.parametrize("number", [0, 8, 14, 17, 22, 99])
def test_other_element_types_are_named(number: int) -> None:
    with pytest.raises(ModelError, match=r"tensor 'w'|well-formed"):
        import_model(changed(lambda t: setattr(t, "data_type", number)))
    model = model_with(weights())
    model.graph.input[0].type.tensor_type.elem_type = number
    with pytest.raises(ModelError):
        import_model(model)


def test_text_is_refused_by_name() -> None:
    model = model_with(weights())
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    with pytest.raises(UnsupportedOperator, match=r"input 'x': expected one of .*, got string"):
        import_model(model)


# Graphs


def test_cycle_and_disorder_are_said() -> None:
    nodes = [
        helper.make_node("Add", ["x", "late"], ["y"]),
        helper.make_node("Neg", ["y"], ["late"]),
    ]
    refused(model_with(weights(), nodes), "topologically sorted")


def test_repeated_names_are_refused() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Exp", ["x"], ["y"])]
    refused(model_with(weights(), nodes), "'?y'?")
    model = model_with(weights())
    model.graph.initializer.append(weights())
    refused(model, "expected initializers with distinct names, got 'w'")
    model = model_with(weights())
    model.graph.input.append(model.graph.input[0])
    refused(model, "expected graph inputs with distinct names, got 'x'")


def test_deep_nesting_is_refused() -> None:
    leaf = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["o"])], "g", [], [info("o", shape=None)]
    )
    inner = leaf
    for _ in range(28):
        node = helper.make_node("If", ["c"], ["o"], then_branch=inner, else_branch=leaf)
        inner = onnx.GraphProto(name="g", node=[node], output=[info("o", shape=None)])
    model = model_with(weights())
    model.graph.node.extend(inner.node)
    refused(model, "expected subgraphs nested at most 24 deep")


def test_names_are_shown_safely() -> None:
    name = "a\nb\x1b[31m" + "x" * 1000
    model = model_with(weights(), [helper.make_node("RandomNormalLike", ["x"], ["y"], name=name)])
    with pytest.raises(ModelError) as caught:
        import_model(model)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 400


def test_names_that_are_no_text() -> None:
    data = model_with(weights()).SerializeToString().replace(b"graph", b"gr\xffph")
    refused(data, "names in UTF-8")


# Mutations


def nontrivial_model() -> bytes:
    body = helper.make_graph(
        [
            helper.make_node("Softmax", ["s"], ["t"], axis=-1),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "body", [info("i", 7, ()), info("c", 9, ()), info("s", shape=(2, 4))],
        [info("d", 9, ()), info("t", shape=(2, 4))],
    )  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2], name="conv"),
        helper.make_node("Clip", ["a", "low"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["p"], kernel_shape=[2, 2], ceil_mode=1),
        helper.make_node("Reshape", ["p", "shape"], ["r"]),
        helper.make_node("Loop", ["trips", "", "r"], ["l"], body=body),
        helper.make_node("Slice", ["l", "zero", "trips2", "zero"], ["y"]),
    ]
    constants: dict[str, Any] = {
        "w": np.ones((2, 3, 3, 3), np.float32),
        "low": np.array(0, np.float32),
        "shape": np.array([2, -1], np.int64),
        "trips": np.array(2, np.int64),
        "zero": np.array([0], np.int64),
        "trips2": np.array([2], np.int64),
    }
    graph = helper.make_graph(
        nodes, "graph", [info("x", shape=(1, 3, 5, 5))], [info("y", shape=None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    return bytes(model.SerializeToString())


def mutated(data: bytes, generator: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(generator.choice([1, 1, 1, 2, 4])):
        position = generator.randrange(len(result))
        match generator.randrange(4):
            case 0:
                result[position] ^= 1 << generator.randrange(8)
            case 1:
                result[position] = generator.choice([0, 1, 2, 127, 128, 255])
            case 2:
                del result[position : position + generator.choice([1, 2, 8])]
            case _:
                other = generator.randrange(len(result))
                result[position:position] = result[other : other + generator.randrange(20)]
    return bytes(result)


def test_the_model_to_mutate_is_good() -> None:
    graph = import_model(nontrivial_model())
    assert graph.outputs[0].type.shape == (2, 4)


@pytest.mark.parametrize("seed", range(4))
def test_mutations_import_or_are_refused(seed: int) -> None:
    generator = random.Random(seed)
    data = nontrivial_model()
    for _ in range(400):
        with contextlib.suppress(ModelError):
            import_model(mutated(data, generator))

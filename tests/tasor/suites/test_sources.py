"""The suites: which cases they list, and what a case is when it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from tasor.suites.sources import SUITES, sources

EVERY = re.compile("")


def test_suites_list_their_cases() -> None:
    assert len(sources("operators", (1,), EVERY)) == 52
    assert len(sources("operators", (1, 16), EVERY)) == 100
    assert len(sources("networks", (1,), EVERY)) == 10
    assert len(sources("modern", (1,), EVERY)) == 19
    assert len(sources("layers", (1,), EVERY)) == 5 + 22
    assert [source.name for source in sources("real", (1,), re.compile("^magika$"))] == ["magika"]


def test_layers_are_those_of_the_network(tmp_path: Path) -> None:
    """Every 1x1 and 3x3 convolution of ResNet-50, once."""

    def sizes(model: onnx.ModelProto) -> Iterator[tuple[object, ...]]:
        shapes = {
            value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
            for value in (*model.graph.value_info, *model.graph.input, *model.graph.output)
        } | {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Conv" and shapes[node.input[1]][-1] in (1, 3):
                named = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
                pads, strides = tuple(named.get("pads", ())), tuple(named["strides"])
                yield shapes[node.input[0]], shapes[node.input[1]], strides, any(pads)

    (whole,) = sources("networks", (1,), re.compile("^resnet50$"))
    network = whole.write(tmp_path / "network.onnx").model
    wanted = {*sizes(onnx.shape_inference.infer_shapes(onnx.load(network)))}
    found: list[tuple[object, ...]] = []
    for number, source in enumerate(sources("layers", (1,), re.compile("^conv"))):
        case = source.write(tmp_path / f"{number}.onnx")
        assert case.group == "layers"
        found += sizes(onnx.load(case.model))
    assert len(found) == len({*found})
    assert {*found} == wanted


def test_an_unknown_suite_is_refused() -> None:
    with pytest.raises(ValueError, match=f"suite: expected one of {', '.join(SUITES)}, got 'vgg'"):
        sources("vgg", (1,), EVERY)


def test_a_source_writes_a_model_with_static_shapes(tmp_path: Path) -> None:
    (source,) = sources("operators", (1,), re.compile("^TBS0"))
    case = source.write(tmp_path / "m.onnx")
    assert case.shapes == {"q": (1, 128, 12, 64), "k": (1, 128, 12, 64)}
    assert case.group == "TBS batch 1"
    assert case.flops == 12 * 128 * 128 * (2 * 64 + 5)
    assert case.traffic == 4 * (2 * 128 * 12 * 64 + 12 * 128 * 128)
    onnx.checker.check_model(onnx.load(case.model), full_check=True)


def test_a_network_has_the_work_of_its_contractions(tmp_path: Path) -> None:
    (source,) = sources("networks", (1,), re.compile("^squeezenet$"))
    case = source.write(tmp_path / "m.onnx")
    assert case.group == "networks"
    assert case.flops == 698_303_872
    weights = sum(tensor.ByteSize() for tensor in onnx.load(case.model).graph.initializer)
    assert case.traffic == pytest.approx(weights + 4 * (3 * 224 * 224 + 1000), rel=0.01)

"""Damaged models: thousands of random changes to a valid file, and never a traceback or a hang."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.tasor.small_models import reshaping_model, small_model

Command = Callable[..., tuple[int, str, str]]
SECONDS_EACH = 60
EXPECTED_CODES = (0, 65)


def branching_model() -> onnx.ModelProto:
    """A model with a subgraph, attributes of many kinds and several element types."""
    branches = [
        helper.make_graph(
            [helper.make_node(op_type, ["p"], ["q"])],
            op_type,
            [],
            [helper.make_tensor_value_info("q", TensorProto.FLOAT, [1, 2, 3, 3])],
        )
        for op_type in ("Relu", "Neg")
    ]
    weights = [
        numpy_helper.from_array(np.ones((2, 1, 3, 3), np.float32), "w"),
        numpy_helper.from_array(np.array([True]), "condition"),
        numpy_helper.from_array(np.array([0, -1], np.int64), "shape"),
    ]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["p"], kernel_shape=[3, 3], pads=[1, 0, 0, 1]),
            helper.make_node(
                "If", ["condition"], ["r"], then_branch=branches[0], else_branch=branches[1]
            ),
            helper.make_node("Reshape", ["r", "shape"], ["s"], allowzero=0),
            helper.make_node("Softmax", ["s"], ["y"], axis=-1),
        ],
        "branching",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def fixed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with 2 for every open size."""
    for value in model.graph.input:
        for size in value.type.tensor_type.shape.dim:
            if not size.HasField("dim_value"):
                size.dim_value = 2
    return model


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The bytes with a few of them changed, removed, repeated or moved."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        start = rng.randrange(len(content))
        length = rng.choice((1, 1, 2, 4, 16))
        match rng.randrange(6):
            case 0:
                content[start] ^= 1 << rng.randrange(8)
            case 1:
                content[start] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                del content[start : start + length]
            case 3:
                content[start:start] = content[start : start + length]
            case 4:
                content[start:start] = rng.randbytes(length)
            case _:
                other = rng.randrange(len(content))
                content[start], content[other] = content[other], content[start]
        if not content:
            content = bytearray(b"\0")
    return bytes(content)


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def too_long(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check_mutations(
    command: Command, folder: Path, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [
        fixed(model()).SerializeToString()
        for model in (small_model, branching_model, reshaping_model)
    ]
    monkeypatch.chdir(folder)
    path = Path("mutated.onnx")
    for seed in seeds:
        rng = random.Random(seed)
        path.write_bytes(mutated(sources[seed % len(sources)], rng))
        with time_limit(SECONDS_EACH):
            code, _, err = command("compile", path, "-o", "out", "--quiet", "--threads", 1)
        assert code in EXPECTED_CODES, f"seed {seed}: {err}"
        assert err.count("\n") == (code != 0), f"seed {seed}: {err}"
        assert "Traceback" not in err, f"seed {seed}: {err}"
        assert set(os.listdir()) <= {path.name, "out"}, f"seed {seed}"


def test_damaged_models_are_refused_or_compiled(
    tasor_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_mutations(tasor_command, tmp_path, range(200), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_damaged_models(
    tasor_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    first = 200 + 1000 * part
    check_mutations(tasor_command, tmp_path, range(first, first + 1000), monkeypatch)

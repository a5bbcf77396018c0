"""The engines: every one gives the same outputs under the same two calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import tasor
from tasor import peer_engines
from tasor.peer_cases import Case, write_case
from tasor.peer_engines import ENGINES, open_model
from tensorgen.ports import Port
from tensorgen.types import Array, Shape, type_of


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Two inputs, two outputs of different shapes, names that peers like to change."""
    graph = helper.make_graph(
        [
            helper.make_node("Sub", ["b:0", "a/x"], ["difference"]),
            helper.make_node("ReduceMax", ["difference"], ["largest"], axes=[1], keepdims=0),
        ],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("b:0", "a/x")],
        [
            helper.make_tensor_value_info("largest", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("difference", TensorProto.FLOAT, [2, 3]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return write_case(tmp_path / "m.onnx", model, name="two by two", group="group")


def expected(case: Case) -> tuple[Array, Array]:
    inputs: dict[str, np.ndarray] = dict(case.inputs)
    difference = np.subtract(inputs["b:0"], inputs["a/x"])
    return difference.max(axis=1), difference


@pytest.mark.parametrize(
    "engine",
    [pytest.param(e, marks=pytest.mark.slow) if e == "torch" else e for e in ENGINES],
)
def test_peers_give_outputs_in_the_order_of_the_graph(engine: str, case: Case) -> None:
    pytest.importorskip(engine)
    opened = open_model(engine, case, 1, {})
    opened.run()
    for got, wanted in zip(opened.outputs(), expected(case), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_tasor_is_compiled_with_the_shapes_threads_and_options(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = dict(zip(case.outputs, expected(case), strict=True))

    class Model:
        inputs = tuple(Port(name, type_of(array)) for name, array in reversed(case.inputs))
        outputs = tuple(Port(name, type_of(array)) for name, array in reversed(wanted.items()))
        library = "the library"

        def empty_outputs(self) -> tuple[Array, ...]:
            return tuple(np.empty_like(wanted[port.name]) for port in self.outputs)

        def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
            for (_, given), array in zip(reversed(case.inputs), inputs, strict=True):
                assert array is given

            def call() -> None:
                for port, array in zip(self.outputs, outputs, strict=True):
                    array[...] = wanted[port.name]

            return call

    def compiled(model: str, *, shapes: Mapping[str, Shape], threads: int, trials: int) -> Model:
        assert Path(model) == case.model
        assert shapes == {"b:0": (2, 3), "a/x": (2, 3)}
        assert (threads, trials) == (3, 7)
        return Model()

    def loop(library: str, inputs: Sequence[Array], outputs: Sequence[Array]) -> str:
        assert library == Model.library
        given = [array for _, array in reversed(case.inputs)]
        assert list(map(id, inputs)) == list(map(id, given))
        return f"a loop over {len(outputs)} outputs"

    monkeypatch.setattr(tasor, "compile", compiled, raising=False)
    monkeypatch.setattr(peer_engines, "repeated_calls", loop)
    opened = open_model("tasor", case, 3, {"trials": 7})
    assert opened.in_c is not None
    assert str(opened.in_c()) == "a loop over 2 outputs"
    opened.run()
    for got, name in zip(opened.outputs(), case.outputs, strict=True):
        np.testing.assert_array_equal(got, wanted[name])

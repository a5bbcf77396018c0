"""Recurrences become loops: few kernels however long the sequence, and the right numbers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from graphopt.compiler import Compilation, compile_graph
from graphopt.graph import Constant, Graph, Input, Value
from graphopt.onnx_import import import_model
from graphopt.onnx_import.recurrent import PROJECTED_ROWS
from graphopt.ops import OP
from graphopt.optimize import optimize, prepare
from graphopt.reference import evaluate_graph
from graphopt.sweeps import FIRST_CACHE, backward_schedule, backward_steps
from tensorgen.build import build_library
from tensorgen.library import Library
from tensorgen.module import library_sources, module_files, source_flags
from tensorgen.module_loops import rolled
from tensorgen.schedule import RegisterTile
from tensorgen.sketch import default_schedule
from tensorgen.target import Target, host_target
from tensorgen.types import Array, TensorType, float32
from tests.contraction_tasks import matmul

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
AVX512 = Target.named("x86-64-v4")


def recurrence(
    operator: str, steps: int, batch: int, features: int, hidden: int, direction: str = "forward"
) -> Graph:
    """A recurrence with constant weights, optimized and ready to compile."""
    directions = 2 if direction == "bidirectional" else 1
    random = np.random.default_rng(hidden)
    width = GATES[operator] * hidden
    weights = {
        "w": random.uniform(-1, 1, (directions, width, features)),
        "r": random.uniform(-1, 1, (directions, width, hidden)) / hidden,
        "b": random.uniform(-1, 1, (directions, 2 * width)),
    }
    outputs = ["y", "h", "c"] if operator == "LSTM" else ["y", "h"]
    node = helper.make_node(
        operator, ["x", "w", "r", "b"], outputs, hidden_size=hidden, direction=direction
    )
    model = helper.make_model(
        helper.make_graph(
            [node],
            "recurrence",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, batch, features))],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    return prepare(optimize(import_model(onnx.shape_inference.infer_shapes(model))).graph)


def compiled(
    graph: Graph, *, target: Target = AVX512, threads: int = 1, strict: bool = False
) -> Compilation:
    return compile_graph(
        graph, name="net", target=target, threads=threads, strict=strict, weights=None, metadata={}
    )


def check(graph: Graph, cache: Path, *, threads: int = 1, strict: bool = False) -> None:
    """The compiled library computes what the graph means."""
    module = compiled(graph, target=host_target(), threads=threads, strict=strict).module
    path = build_library(
        library_sources(module, module_files(module)), target=module.target, flags=("-O1",),
        source_flags=source_flags(module), strict=module.strict, threads=module.threads,
        cache=cache,
    )  # fmt: skip
    library = Library(path, module.name, module.inputs, module.outputs, module.arena_bytes)
    x = np.random.default_rng(0).uniform(-1, 1, graph.inputs[0].type.shape).astype(np.float32)
    expected = evaluate_graph(graph, {"x": x})
    for found, wanted in zip(library.run([x]), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


def written(compilation: Compilation) -> int:
    """How many calls the C has."""
    return sum(len(loop.calls) for loop in rolled(compilation.module.calls))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("operator", GATES)
def test_longer_sequences_have_no_more_kernels(operator: str, batch: int) -> None:
    """Up to the remainder of the steps that are projected together."""
    short, long = (compiled(recurrence(operator, steps, batch, 5, 40)) for steps in (20, 60))
    assert len(long.module.kernels) <= len(short.module.kernels) + 2
    assert len(long.module.calls) > 2 * len(short.module.calls) > 2 * written(short)
    assert written(long) < 40


def test_the_projection_of_a_long_sequence_is_not_kept_as_a_whole() -> None:
    steps = 6 * PROJECTED_ROWS
    arena = compiled(recurrence("RNN", steps, 1, 3, 40)).module.arena_bytes
    assert arena < 2 * PROJECTED_ROWS * 40 * 4


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_loops_run_in_either_direction(direction: str, tmp_path: Path) -> None:
    graph = recurrence("LSTM", 19, 2, 5, 37, direction=direction)
    assert written(compiled(graph)) < len(compiled(graph).module.calls) / 2
    check(graph, tmp_path)


@pytest.mark.parametrize(("threads", "strict"), [(1, True), (2, False)])
@pytest.mark.parametrize("operator", GATES)
def test_weights_in_turns(operator: str, threads: int, strict: bool, tmp_path: Path) -> None:
    check(recurrence(operator, 9, 1, 4, 97), tmp_path, threads=threads, strict=strict)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(sorted(GATES)),
    st.integers(1, 12),
    st.sampled_from([1, 2, 7, 130]),
    st.sampled_from([1, 3, 17]),
    st.sampled_from([1, 7, 33, 101]),
)
def test_sizes(
    tmp_path_factory: pytest.TempPathFactory,
    operator: str, steps: int, batch: int, features: int, hidden: int,
) -> None:  # fmt: skip
    check(recurrence(operator, steps, batch, features, hidden), tmp_path_factory.mktemp("sizes"))


# Sweeps


def test_every_second_run_on_the_same_weights_goes_backwards() -> None:
    compilation = compiled(recurrence("LSTM", 8, 1, 4, 96))
    names = [call.kernel for call in compilation.module.calls if "1x384" in call.kernel]
    backwards = [name.endswith("_backwards") for name in names]
    # The last step ends in another kernel only where the states are not needed.
    assert backwards == [bool(number % 2) for number in range(len(names))]
    assert len(names) == 7
    records = Counter({record.name: record.calls for record in compilation.kernels})
    assert records == Counter(call.kernel for call in compilation.module.calls)


def test_other_weights_begin_anew() -> None:
    x = Input(0, TensorType(float32, (1, 128)))

    def weights(seed: int) -> Constant:
        array: Array = np.random.default_rng(seed).uniform(-1, 1, (128, 128)).astype(np.float32)
        return Constant(array)

    value: Value = x
    one, other = weights(1), weights(2)
    for weight in (one, other, other, other, one):
        value = OP["max"](OP["matmul"](value, weight), Constant(np.zeros((), np.float32)))
    calls = compiled(Graph((x,), (value,), ("x",), ("y",))).module.calls
    assert ["backwards" in call.kernel for call in calls] == [False, False, True, False, False]


def test_what_stays_in_the_cache_or_is_shared_out_is_swept_forwards() -> None:
    def schedules(columns: int, threads: int) -> tuple[RegisterTile, RegisterTile | None]:
        task = matmul((), 1, columns, 512, constant=(False, True))
        chosen = default_schedule(task, AVX512, threads)
        assert isinstance(chosen, RegisterTile)
        return chosen, backward_schedule(task, chosen)

    small = FIRST_CACHE // (512 * 4)
    assert schedules(small, 1)[1] is None
    chosen, turned = schedules(8 * small, 1)
    assert turned is not None
    assert turned.backwards
    assert "backwards" in str(turned)
    assert "backwards" not in str(chosen)
    shared, turned = schedules(1024, 2)
    assert shared.parallel
    assert turned is None


def test_steps_without_a_backward_schedule_stay() -> None:
    assert backward_steps((), {}) == frozenset()

"""The public interface: compile, call, save."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tasor
from tests.tasor.small_models import assert_close, expected_output, reshaping_model, small_model

X = np.random.default_rng(1).standard_normal((3, 6)).astype(np.float32)


@pytest.mark.parametrize("weights", ["c", "object", "file", None])
@pytest.mark.parametrize("threads", [1, 2])
def test_computes_what_the_model_says(model: Path, weights: str, threads: int) -> None:
    compiled = tasor.compile(
        model,
        shapes={"x": (3, 6)},
        threads=threads,
        weights=weights,  # type: ignore[arg-type]
    )
    y = compiled(X)
    assert isinstance(y, np.ndarray)
    assert_close(y, expected_output(X))
    np.testing.assert_array_equal(compiled.run({"x": X})["y"], y)
    into = np.empty_like(y)
    compiled.run_into([X], [into])
    np.testing.assert_array_equal(into, y)
    (kept,), (again,) = compiled.empty_inputs(), compiled.empty_outputs()
    call = compiled.bind([kept], [again])
    kept[...] = X
    call()
    np.testing.assert_array_equal(again, y)


def test_takes_paths_bytes_and_protos_alike(model: Path) -> None:
    sources = (model, str(model), model.read_bytes(), small_model())
    results = [tasor.compile(source, shapes={"x": (3, 6)})(X) for source in sources]
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_strided_arrays_are_taken(model: Path) -> None:
    compiled = tasor.compile(model, shapes={"x": (3, 6)})
    np.testing.assert_array_equal(compiled(np.asfortranarray(X)), compiled(X))
    np.testing.assert_array_equal(compiled(X[::-1]), compiled(X[::-1].copy()))


def test_misaligned_arrays_are_copied_or_refused(model: Path) -> None:
    compiled = tasor.compile(model, shapes={"x": (3, 6)})
    moved = np.zeros(X.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(X.shape)
    moved[:] = X
    np.testing.assert_array_equal(compiled(moved), compiled(X))
    (into,) = compiled.empty_outputs()
    with pytest.raises(tasor.InputError, match=r"input 'x'.*in contiguous aligned memory"):
        compiled.run_into([moved], [into])
    with pytest.raises(tasor.InputError, match=r"output 'y'.*in contiguous aligned memory"):
        compiled.run_into(
            [X], [np.zeros(into.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(into.shape)]
        )


def test_several_outputs_are_a_tuple(tmp_path: Path) -> None:
    proto = small_model()
    proto.graph.output.append(
        onnx.helper.make_tensor_value_info("sum", onnx.TensorProto.FLOAT, None)
    )
    compiled = tasor.compile(proto, shapes={"x": (3, 6)})
    outputs = compiled(X)
    assert isinstance(outputs, tuple)
    assert [port.name for port in compiled.outputs] == ["y", "sum"]
    np.testing.assert_array_equal(outputs[0], np.maximum(outputs[1], 0))


def test_inputs_can_be_fixed() -> None:
    compiled = tasor.compile(reshaping_model(), bindings={"sizes": np.array([3, -1])})
    assert [port.name for port in compiled.inputs] == ["x"]
    assert compiled.outputs[0].type.shape == (3, 4)


def test_may_be_called_from_several_threads(model: Path) -> None:
    compiled = tasor.compile(model, shapes={"x": (3, 6)}, threads=1)
    results: list[object] = []

    def call() -> None:
        results.extend(np.array_equal(compiled(X), expected) for _ in range(50))

    expected = tasor.compile(model, shapes={"x": (3, 6)}, threads=1)(X)
    workers = [threading.Thread(target=call) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [True] * 200


def test_teams_of_several_callers_do_not_meet() -> None:
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((128, 96)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["a"]),
        onnx.helper.make_node("Softmax", ["a"], ["b"]),
        onnx.helper.make_node("Transpose", ["b"], ["y"], perm=[1, 0]),
    ]
    tensor = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "shared",
        [tensor("x", onnx.TensorProto.FLOAT, [64, 128])],
        [tensor("y", onnx.TensorProto.FLOAT, [96, 64])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    compiled = tasor.compile(onnx.helper.make_model(graph), threads=2)
    assert any(kernel.parallel for kernel in compiled.module.kernels)
    given = [rng.standard_normal((64, 128)).astype(np.float32) for _ in range(4)]
    alone = [compiled(x) for x in given]

    def right(number: int) -> bool:
        return all(np.array_equal(compiled(given[number]), alone[number]) for _ in range(100))

    with ThreadPoolExecutor(4) as callers:
        assert list(callers.map(right, range(4))) == [True] * 4


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((X, X), r"expected 1 input arrays \('x'\), got 2"),
        ((X.astype(np.float64),), r"expected float32\[3,6\], got float64\[3,6\]"),
        ((X[:2],), r"got float32\[2,6\]"),
        (([[1.0] * 6] * 3,), r"got float64\[3,6\]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    model: Path, arrays: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(tasor.InputError, match=message):
        tasor.compile(model, shapes={"x": (3, 6)})(*arrays)


@pytest.mark.parametrize("given", [{}, {"x": X, "z": X}, {"z": X}])
def test_names_that_do_not_fit_are_refused(model: Path, given: dict[str, Any]) -> None:
    with pytest.raises(tasor.InputError, match="expected arrays for 'x', got"):
        tasor.compile(model, shapes={"x": (3, 6)}).run(given)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"trials": 0.5}, tasor.UsageError, "trials: expected a whole number from 0, got 0.5"),
        ({"threads": 0}, tasor.UsageError, "threads: expected a whole number from 1"),
        ({"threads": True}, tasor.UsageError, "threads: expected a whole number from 1"),
        ({"threads": 10**9}, tasor.UsageError, "threads: expected a whole number from 1"),
        ({"weights": "cloud"}, tasor.UsageError, "weights: expected c, object or file"),
        ({"target": "pdp-11"}, tasor.TargetError, "target: expected one of"),
        ({"target": "cuda-sm80"}, tasor.TargetError, "not available yet"),
        ({"shapes": {"x": ("n", 6)}}, tasor.UsageError, "expected whole numbers"),
        ({"shapes": {"x": 7}}, tasor.UsageError, "expected whole numbers"),
        ({"shapes": {"q": (1, 6)}}, tasor.ModelError, "expected a name among its inputs 'x'"),
        ({"shapes": {"x": (1, 7)}}, tasor.ModelError, "expected a shape that fits"),
        ({"shapes": {}}, tasor.UnpinnedDimension, "--shape x=N,6"),
    ],
)
def test_arguments_that_make_no_sense(
    model: Path, options: dict[str, object], kind: type[Exception], message: str
) -> None:
    arguments = {"shapes": {"x": (3, 6)}} | options
    with pytest.raises(kind, match=message) as raised:
        tasor.compile(model, **arguments)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_a_foreign_target_compiles_but_does_not_run(model: Path, tmp_path: Path) -> None:
    compiled = tasor.compile(model, shapes={"x": (3, 6)}, target="cortex-m4")
    with pytest.raises(tasor.UsageError, match="expected one that this machine can run"):
        compiled(X)
    compiled.save(tmp_path / "out")
    assert (tmp_path / "out" / "small.c").is_file()


@pytest.mark.parametrize("weights", ["c", "object", "file"])
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_what_is_saved_builds_and_passes_its_own_test(
    model: Path, tmp_path: Path, weights: str
) -> None:
    folder = tmp_path / "out"
    saved = tasor.compile(
        model,
        shapes={"x": (3, 6)},
        threads=1,
        weights=weights,  # type: ignore[arg-type]
    ).save(folder)
    assert saved.no_self_test is None
    assert sorted(path.name for path in folder.iterdir()) == list(saved.files)
    done = subprocess.run(
        ["make", "-s", "test"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "OK" in done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_self_test_finds_a_wrong_weight(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    tasor.compile(model, shapes={"x": (3, 6)}, threads=1, weights="object").save(folder)
    weights = folder / "small.weights"
    content = np.frombuffer(weights.read_bytes(), np.float32).copy()
    content[content != 0] += 0.5
    weights.write_bytes(content.tobytes())
    done = subprocess.run(
        ["make", "-s", "test"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0


def test_the_same_model_gives_the_same_files(model: Path, tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        tasor.compile(model, shapes={"x": (3, 6)}).save(tmp_path / name)
        files = sorted((tmp_path / name).iterdir())
        contents.append({path.name: path.read_bytes() for path in files})
    assert contents[0] == contents[1]


def test_the_description_says_where_it_all_comes_from(model: Path, tmp_path: Path) -> None:
    compiled = tasor.compile(model, shapes={"x": (3, 6)}, name="my net")
    compiled.save(tmp_path / "out")
    content = json.loads((tmp_path / "out" / "my_net.json").read_bytes())
    assert {"model_sha256", "tasor_version", "compiler", "rules_applied"} <= content.keys()
    assert content["arena_bytes"] == compiled.arena_bytes
    assert content["inputs"][0]["name"] == "x"


def test_without_a_compiler_c_is_written_but_nothing_runs(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    compiled = tasor.compile(model, shapes={"x": (3, 6)})
    compiled.save(tmp_path / "out")
    with pytest.raises(tasor.ToolMissing, match="install one"):
        compiled(X)

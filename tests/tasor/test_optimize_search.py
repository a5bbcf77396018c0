"""The search in `tasor optimize` and `tasor compile`: kept, dropped, measured, compared, said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tasor
from graphopt.rule import statement_text
from graphopt.search import StopReason, search_rules
from tasor.graph_search import NotRun, Times
from tasor.running_graph import Running
from tasor.turns import Timings
from tests.tasor.small_models import small_model

Command = Callable[..., tuple[int, str, str]]


def two_products_model(size: int = 96, x: str = "x", y: str = "y") -> onnx.ModelProto:
    """x @ w + u @ w: two products that are better one, of the sum."""
    rng = np.random.default_rng(5)
    weight = rng.standard_normal((size, size)).astype(np.float32) / 10
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [x, "w"], ["a"]),
            helper.make_node("MatMul", ["u", "w"], ["b"]),
            helper.make_node("Add", ["a", "b"], [y]),
        ],
        "products",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, size]) for name in (x, "u")],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, [8, size])],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


RULE = "matmul-factor-right[add]"


def pretend(monkeypatch: pytest.MonkeyPatch, *milliseconds: float) -> None:
    """Makes every graph take so long, in the order in which they are timed."""

    def timed_graphs(graphs: list[Running], seconds: float) -> tuple[Timings, ...]:
        return tuple(Timings((each, each)) for each in milliseconds[: len(graphs)])

    monkeypatch.setattr("tasor.graph_search.timed_graphs", timed_graphs)


def test_what_measures_faster_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, 2.0, 1.0)
    model = two_products_model()
    result = tasor.optimize(model, threads=1)
    search = result.report.search
    assert search is not None
    assert search.kept
    assert {item.rule for item in search.result.applied} == {RULE}
    assert result.graph == search.result.graph != result.optimized
    assert search.result.cost_after < search.result.cost_before
    assert "2.000 times as fast, measured" in search.why
    assert isinstance(search.times, Times)
    assert search.times.threads == 1
    assert not isinstance(search.differences, NotRun)
    assert search.differences.own.ulps_of_largest < 64
    assert not isinstance(search.differences.double, NotRun)
    assert search.differences.double.ulps_of_largest < 64
    assert dict(result.report.searched) == {RULE: 1}
    text = str(result.report)
    assert "rules that the search applied:\n  1 x matmul-factor-right[add]" in text
    assert "largest difference to the model" in text
    reference = pytest.importorskip("onnx.reference")
    result.save(tmp_path / "o.onnx")
    x, u = np.random.default_rng(1).standard_normal((2, 8, 96)).astype(np.float32)
    before, after = (
        reference.ReferenceEvaluator(source).run(None, {"x": x, "u": u})[0]
        for source in (model, onnx.load(tmp_path / "o.onnx"))
    )
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_what_measures_slower_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 1.0, 1.25)
    result = tasor.optimize(two_products_model(), threads=1)
    search = result.report.search
    assert search is not None
    assert not search.kept
    assert result.graph == result.optimized
    assert search.why == (
        "dropped: the graph measures slower than without it (0.800 times as fast, measured)"
    )
    assert result.report.searched == ()
    assert search.result.applied


def test_graphs_are_really_run() -> None:
    search = tasor.optimize(two_products_model(), threads=1).report.search
    assert search is not None
    assert isinstance(search.times, Times)
    assert search.times.searched is not None
    faster = search.times.searched.times_as_fast_as(search.times.optimized) >= 1.0
    assert search.kept == faster
    assert all(turn > 0 for turn in search.times.imported.turns)


def test_without_running_the_prediction_counts() -> None:
    search = tasor.optimize(two_products_model(), run=False).report.search
    assert search is not None
    assert search.kept
    assert "predicted; not measured" in search.why
    assert isinstance(search.times, NotRun)
    assert isinstance(search.differences, NotRun)


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    search = tasor.optimize(two_products_model(80)).report.search
    assert search is not None
    assert search.kept
    assert isinstance(search.times, NotRun)
    assert "no-such-compiler" in search.times.reason
    assert isinstance(search.differences, NotRun)
    with pytest.raises(tasor.ToolMissing):
        tasor.optimize(two_products_model(80), measure=True)


def test_another_machines_target_is_searched_but_not_run() -> None:
    search = tasor.optimize(two_products_model(), target="cortex-m7").report.search
    assert search is not None
    assert isinstance(search.times, NotRun)
    assert "cortex-m7" in search.times.reason


def test_measured_kernels_decide() -> None:
    search = tasor.optimize(two_products_model(64), threads=1, measure=True).report.search
    assert search is not None
    assert search.measured_costs
    assert search.timed_kernels > 0
    assert "kept" in search.why or "dropped" in search.why or "nothing cheaper" in search.why


def test_a_model_with_nothing_to_rewrite() -> None:
    result = tasor.optimize(small_model(), shapes={"x": (2, 6)})
    search = result.report.search
    assert search is not None
    assert not search.kept
    assert search.why == "nothing cheaper is within reach of the rules"
    assert result.graph is result.optimized
    assert not isinstance(search.differences, NotRun)
    assert search.kernels == ()


@pytest.mark.parametrize(
    ("options", "stop"),
    [({"budget": 0}, StopReason.SECONDS), ({"graphs": 0}, StopReason.GRAPHS)],
    ids=["seconds", "graphs"],
)
def test_a_budget_of_nothing(options: dict[str, float], stop: StopReason) -> None:
    result = tasor.optimize(two_products_model(), run=False, **options)  # type: ignore[arg-type]
    search = result.report.search
    assert search is not None
    assert (search.result.explored, search.kept) == (0, False)
    assert search.result.stop is stop
    assert search.why == "nothing cheaper was found within the budget"


def test_no_search() -> None:
    result = tasor.optimize(two_products_model(), search=False)
    assert result.report.search is None
    assert result.graph is result.optimized
    assert "search" not in str(result.report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": -1.0}, "budget: expected seconds, at least 0, got -1.0"),
        ({"budget": float("nan")}, "budget: expected seconds"),
        ({"budget": "soon"}, "budget: expected seconds, at least 0, got soon"),
        ({"graphs": -1}, "graphs: expected a whole number from 0"),
        ({"graphs": 1.5}, "graphs: expected a whole number from 0"),
        ({"graphs": 10**9}, "graphs: expected a whole number from 0"),
        ({"alpha": 0.9}, "alpha: expected a number of at least 1, got 0.9"),
        ({"alpha": float("inf")}, "alpha: expected a number of at least 1"),
    ],
)
def test_senseless_settings_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(tasor.UsageError, match=message):
        tasor.optimize(two_products_model(), **options)  # type: ignore[arg-type]


# The command line


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    path = tmp_path / "shared.onnx"
    onnx.save_model(two_products_model(), path)
    return path


def test_the_command_answers_in_json(
    tasor_command: Command, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, 2.0, 1.0)
    output = tmp_path / "o.onnx"
    words = ("--budget", "20", "--graphs", "50", "--alpha", "1.1", "--threads", "1", "--json")
    code, out, err = tasor_command("optimize", shared, "-o", output, *words)
    assert (code, err) == (0, "")
    search = json.loads(out)["search"]
    assert search["kept"] is True
    assert (search["alpha"], search["budget_seconds"], search["budget_graphs"]) == (1.1, 20.0, 50)
    assert search["stopped"] == "every graph within reach of alpha was tried"
    assert search["predicted_ms"]["after"] < search["predicted_ms"]["before"]
    assert search["measured_ms"]["search"]["median"] == 1.0
    assert search["applied"] == [{"rule": RULE, "op": "add", "type": "float32[8,96]", "region": 0}]
    assert search["spot_checks"] == {"agreed": 1, "too_large": 0, "refuted": []}
    assert search["difference"]["own_types"]["ulps"] >= 0
    assert output.exists()
    code, out, _ = tasor_command("optimize", shared, "-o", output, "--no-search", "--json")
    assert code == 0
    assert json.loads(out)["search"] is None
    code, out, _ = tasor_command("optimize", shared, "-o", output, "--no-run")
    assert code == 0
    assert "not measured: it was not asked for" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--budget", "-1"), 64, "budget: expected seconds"),
        (("--alpha", "0"), 64, "alpha: expected a number of at least 1"),
        (("--graphs", "-3"), 64, "graphs: expected a whole number"),
        (("--threads", "0"), 64, "threads: expected a whole number"),
        (("--target", "z80"), 64, "target"),
        (("--report", "/proc/none/r.html"), 64, "output '/proc/none"),
    ],
)
def test_the_command_refuses(
    tasor_command: Command,
    shared: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    actual, out, err = tasor_command("optimize", shared, "-o", tmp_path / "o.onnx", *words)
    assert (actual, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"shared.onnx"}


def test_a_report_in_place_of_a_folder_is_refused_before_the_work(
    tasor_command: Command, shared: Path, tmp_path: Path
) -> None:
    words = ("-o", tmp_path / "o.onnx", "--report", tmp_path)
    code, _, err = tasor_command("optimize", shared, *words)
    assert code == 64
    assert "expected a file, got a folder" in err
    assert not (tmp_path / "o.onnx").exists()


# Compiling


def test_compiling_searches_and_gives_the_same_bytes(shared: Path, tmp_path: Path) -> None:
    first, second = (tasor.compile(shared, threads=1) for _ in range(2))
    assert dict(first.stages.rules_applied) == {RULE: 1}
    for number, model in enumerate((first, second)):
        model.save(tmp_path / str(number))
    for path in (tmp_path / "0").iterdir():
        assert path.read_bytes() == (tmp_path / "1" / path.name).read_bytes(), path.name
    assert (
        f'"rule": "{RULE}"'.encode()
        in next(path for path in (tmp_path / "0").glob("*.json")).read_bytes()
    )
    plain = tasor.compile(shared, threads=1, search=False)
    assert plain.stages.searched is None
    x, u = np.random.default_rng(2).standard_normal((2, 8, 96)).astype(np.float32)
    np.testing.assert_allclose(first(x, u), plain(x, u), rtol=1e-5, atol=1e-5)


def test_strict_compiling_does_not_search(shared: Path) -> None:
    assert tasor.compile(shared, strict=True).stages.searched is None


def test_the_command_compile_takes_no_search(
    tasor_command: Command, shared: Path, tmp_path: Path
) -> None:
    words = ("--threads", "1", "--json")
    code, out, _ = tasor_command("compile", shared, "-o", tmp_path / "a", *words)
    assert code == 0
    assert json.loads(out)["rules_applied"] == [{"rule": RULE, "count": 1}]
    code, out, _ = tasor_command("compile", shared, "-o", tmp_path / "b", *words, "--no-search")
    assert code == 0
    assert json.loads(out)["rules_applied"] == []


# Minimal filtering


def image_model(size: int = 16, channels: int = 64) -> onnx.ModelProto:
    """A 3 x 3 convolution."""
    rng = np.random.default_rng(6)
    kernel = rng.standard_normal((channels, channels, 3, 3)).astype(np.float32) / 24
    shape = [1, channels, size, size]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        "image",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(kernel, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_kernels_filter_unless_it_is_forbidden() -> None:
    plain = tasor.compile(image_model(), threads=1, winograd=False)
    faster = tasor.compile(image_model(), threads=1)
    strict = tasor.compile(image_model(), threads=1, strict=True)
    schedules = [
        " ".join(kernel.schedule for kernel in model.module.kernels)
        for model in (plain, faster, strict)
    ]
    assert ["winograd(" in schedule for schedule in schedules] == [False, True, False]
    x = np.random.default_rng(3).standard_normal((1, 64, 16, 16)).astype(np.float32)
    np.testing.assert_allclose(faster(x), plain(x), rtol=1e-3, atol=1e-4)


def test_its_difference_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 2.0, 1.0)
    # The filter is among the first graphs that are found; the search is not what is tested.
    search = tasor.optimize(image_model(), winograd=True, threads=1, graphs=50).report.search
    assert search is not None
    assert search.kept
    assert not isinstance(search.differences, NotRun)
    assert 0 < search.differences.own.ulps_of_largest < 100
    assert not isinstance(search.differences.double, NotRun)
    # What is left in double precision is the rounding of the weights, computed in float32.
    shares = (search.differences.own.ulps_of_largest * 2.0**-23,
              search.differences.double.ulps_of_largest * 2.0**-52)  # fmt: skip
    assert shares[1] < shares[0]


def test_the_commands_take_it(tasor_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "image.onnx"
    onnx.save_model(image_model(), path)
    words = (path, "--threads", "1", "--json")
    for options, filtered in (((), True), (("--no-winograd",), False)):
        folder = tmp_path / f"out{len(options)}"
        code, _, _ = tasor_command("compile", *words, *options, "-o", folder)
        assert code == 0
        source = next(folder.glob("*_kernels.c")).read_text()
        assert ("schedule: winograd(" in source) == filtered
    brief = ("--winograd", "--no-run", "--graphs", "50")
    code, out, _ = tasor_command("optimize", *words, *brief, "-o", tmp_path / "o.onnx")
    assert code == 0
    assert {item["rule"] for item in json.loads(out)["search"]["applied"]} >= {"winograd-4"}


def scaled_scores(size: int = 64) -> onnx.ModelProto:
    """A product of activations that is scaled, as in attention, where the operand is smaller."""
    types = [("q", [8, size]), ("k", [size, 512])]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["q", "k"], ["s"]),
            helper.make_node("Mul", ["s", "c"], ["y"]),
        ],
        "scores",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in types],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 512])],
        [numpy_helper.from_array(np.array(0.125, np.float32), "c")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_discovered_rules_are_weighed_when_asked_for(
    tasor_command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "scores.onnx"
    onnx.save_model(scaled_scores(), path)
    explored = []
    for flags in ((), ("--discovered",)):
        words = (path, "--threads", "1", "--json", "-o", tmp_path / "o.onnx", "--no-run", *flags)
        code, out, _ = tasor_command("optimize", *words)
        assert code == 0
        explored.append(json.loads(out)["search"]["graphs"])
    assert explored[0] < explored[1]


def test_discovered_rules_come_after_the_others_and_say_something_else() -> None:
    plain, more = search_rules(), search_rules(discovered=True)
    assert more[: len(plain)] == plain
    statements = [statement_text(rule) for rule in more]
    assert len(set(statements)) == len(statements) > len(plain) + 50

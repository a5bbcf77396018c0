"""The command line: every exit code, one line for every mistake, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import onnx
import pytest

from tasor.command_line_bench import with_repeated_options
from tensorgen.calibration import Calibration, CalibrationError
from tensorgen.target import Target, host_target
from tensorgen.typical_machine import typical_machine
from tests.tasor.small_models import assert_close, expected_output, reshaping_model, small_model

Command = Callable[..., tuple[int, str, str]]
X = np.random.default_rng(3).standard_normal((2, 6)).astype(np.float32)


def fake_compiler(folder: Path, script: str) -> Path:
    path = folder / "fakecc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def refused(result: tuple[int, str, str], code: int, message: str) -> None:
    """Asserts an exit code with one line on stderr, nothing on stdout and no traceback."""
    actual, out, err = result
    assert (actual, out) == (code, ""), err
    assert message in err
    assert err.count("\n") == 1, err
    assert err.startswith("tasor: ")
    assert "Traceback" not in err


def test_compile_run_and_show(tasor_command: Command, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    code, out, err = tasor_command("compile", model, "-o", folder, "--shape", "x=2,6")
    assert (code, err) == (0, "")
    assert out.startswith(f"{folder}: ")
    assert "arena" in out
    np.save(tmp_path / "x.npy", X)
    code, out, err = tasor_command(
        "run", folder, "--input", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "result"
    )
    assert (code, err) == (0, "")
    assert "ms, median of" in out
    assert "random" not in out
    y = np.load(tmp_path / "result" / "y.npy")
    assert_close(y, expected_output(X))
    for shown in (folder, model):
        words = ("--shape", "x=2,6") if shown == model else ()
        code, out, err = tasor_command("show", shown, *words)
        assert (code, err) == (0, "")
        assert "float32[2,6]" in out
        assert "register_tile" in out or "lanes" in out


def test_run_takes_sizes_from_the_inputs(
    tasor_command: Command, model: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", X)
    code, out, _ = tasor_command("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--json")
    assert code == 0
    content = json.loads(out)
    assert content["outputs"][0]["shape"] == [2, 5]
    assert content["random_inputs"] == []
    assert content["median_ms"] > 0


def test_run_fixes_inputs_that_decide_about_shapes(tasor_command: Command, tmp_path: Path) -> None:
    onnx.save_model(reshaping_model(), tmp_path / "r.onnx")
    np.save(tmp_path / "sizes.npy", np.array([4, 3]))
    words = ("--input", f"sizes={tmp_path / 'sizes.npy'}", "--json", "--seed", "7")
    code, out, _ = tasor_command("run", tmp_path / "r.onnx", *words)
    assert code == 0
    assert json.loads(out)["outputs"][0]["shape"] == [4, 3]
    assert json.loads(out)["random_inputs"] == ["x"]


def test_random_inputs_follow_the_seed(tasor_command: Command, model: Path) -> None:
    spans = []
    for seed in (1, 1, 2):
        _, out, _ = tasor_command(
            "run", model, "--shape", "x=2,6", "--seed", seed, "--json", "--threads", 1
        )
        spans.append(json.loads(out)["outputs"][0]["greatest"])
    assert spans[0] == spans[1] != spans[2]


def test_optimize_writes_a_model_and_a_report(
    tasor_command: Command, model: Path, tmp_path: Path
) -> None:
    target, report = tmp_path / "o.onnx", tmp_path / "r.html"
    words = ("--shape", "x=2,6", "-o", target, "--report", report)
    code, out, err = tasor_command("optimize", model, *words)
    assert (code, err) == (0, "")
    assert "operators" in out
    onnx.checker.check_model(onnx.load(target), full_check=True)
    assert report.read_text().startswith("<!DOCTYPE html>")


def test_json_is_all_there_is_on_stdout(
    tasor_command: Command, model: Path, tmp_path: Path
) -> None:
    shape = ("--shape", "x=2,6", "--json")
    for words in (
        ("compile", model, "-o", tmp_path / "out", *shape),
        ("show", model, *shape),
        ("show", tmp_path / "out", "--json"),
        ("optimize", model, "-o", tmp_path / "o.onnx", *shape),
    ):
        code, out, err = tasor_command(*words)
        assert (code, err) == (0, ""), words
        assert isinstance(json.loads(out), dict)


def test_quiet_prints_nothing(tasor_command: Command, model: Path, tmp_path: Path) -> None:
    shape = ("--shape", "x=2,6", "--quiet")
    for words in (
        ("compile", model, "-o", tmp_path / "out", *shape),
        ("run", tmp_path / "out", "--quiet"),
        ("show", model, *shape),
        ("optimize", model, "-o", tmp_path / "o.onnx", *shape),
    ):
        assert tasor_command(*words) == (0, "", ""), words


def test_each_v_shows_more(tasor_command: Command, model: Path, tmp_path: Path) -> None:
    sizes = []
    for verbosity in ((), ("-v",), ("-vv",), ("-vvv",), ("-vvvv",)):
        words = ("-o", tmp_path / "out", "--shape", "x=2,6", *verbosity)
        code, _, err = tasor_command("compile", model, *words)
        assert code == 0
        sizes.append(len(err))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 5
    assert "static void" in err


def test_dump_writes_each_stage(tasor_command: Command, model: Path, tmp_path: Path) -> None:
    words = ("-o", tmp_path / "out", "--shape", "x=2,6", "--dump", tmp_path / "stages")
    assert tasor_command("compile", model, *words)[0] == 0
    names = sorted(path.name for path in (tmp_path / "stages").iterdir())
    assert names[:7] == [
        "1-imported.txt",
        "2-rules.txt",
        "3-optimized.txt",
        "3-searched.txt",
        "4-tasks.txt",
        "5-schedules.txt",
        "6-arena.txt",
    ]
    assert "7-small_kernels.c" in names
    assert "input 'x'" in (tmp_path / "stages" / "1-imported.txt").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compile"], "Missing argument 'MODEL'"),
        (["compile", "m.onnx"], "Missing option"),
        (["fly"], "No such command 'fly'"),
        (["tune"], "Missing argument 'MODEL"),
        (["tune", "m.onnx", "--trials", "-1"], "--trials"),
        (["tune", "m.onnx", "m.onnx", "-o", "out"], "models of different names, got m twice"),
        (["compile", "m.onnx", "-o", "out", "--fast"], "No such option"),
        (["compile", "m.onnx", "-o", "out", "--threads", "two"], "--threads"),
        (["compile", "m.onnx", "-o", "out", "--threads", "0"], "threads: expected a whole number"),
        (["compile", "m.onnx", "-o", "out", "--trials", "-8"], "a whole number from 0, got -8"),
        (["compile", "m.onnx", "-o", "out", "--target", "vax"], "target: expected one of host"),
        (["compile", "m.onnx", "-o", "out", "--target", "cuda-sm80"], "not available yet"),
        (["compile", "m.onnx", "-o", "out", "--weights", "x"], "--weights: expected c, object"),
        (["compile", "m.onnx", "-o", "out", "--shape", "x"], "--shape: expected NAME=1,3,224,224"),
        (["compile", "m.onnx", "-o", "out", "--seed", "-1"], "--seed"),
        (["compile", "m.onnx", "-o", "m.onnx"], "expected a folder, got a file of that name"),
        (["compile", "m.onnx", "-o", "."], "expected a new or empty folder"),
        (["compile", "m.onnx", "-o", "m.onnx/out"], "expected a folder to put it in"),
        (["compile", "m.onnx", "-o", "y" * 300], "output"),
        (["run", "m.onnx", "--target", "cortex-m4"], "expected one that this machine can run"),
        (["run", "m.onnx", "--input", "x"], "--input: expected NAME=x.npy"),
        (["run", "m.onnx", "-o", "m.onnx"], "expected a folder to put it in"),
        (["optimize", "m.onnx", "-o", "."], "expected the name of a file"),
        (["optimize", "m.onnx", "-o", "o.onnx", "--report", "m.onnx/r"], "expected a folder"),
        (
            ["bench"],
            "--suite: expected one of operators, networks, modern, layers, real or the path of a",
        ),
        (["bench", "m.onnx", "--threads", "0"], "--threads: expected at least 1"),
        (["bench", "m.onnx", "--threads", "9999"], "--threads: expected at most"),
        (["bench", "m.onnx", "--against", "tvm"], "--against: expected names among onnxruntime"),
        (["bench", "m.onnx", "--against", "tasor"], "--against: expected names among"),
        (["bench", "m.onnx", "--seconds", "nan"], "--seconds: expected a number above 0"),
        (["bench", "m.onnx", "--target", "cortex-m4"], "expected one that this machine can run"),
        (["bench", "m.onnx", "--target", "vax"], "target: expected"),
        (["bench", "m.onnx", "--rounds", "0"], "--rounds: expected at least 1"),
        (["bench", "--suite", "operators", "--only", "("], "--only: expected a regular"),
        (["bench", "--suite", "operators", "--only", "QQQ"], "got none that matches 'QQQ'"),
        (
            ["bench", "m.onnx", "--trials", "0"],
            "--trials: expected at least 1, or a file of trials",
        ),
        (["bench", "m.onnx", "--trials", "-1"], "--trials"),
        (["bench", "m.onnx", "--against", "tasor tuned"], "--against: expected names among onnx"),
    ],
)
def test_wrong_usage_is_64(
    tasor_command: Command,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    if "bench" in words:
        pytest.importorskip("onnxruntime")
        words = [*words, *(() if "--against" in words else ("--against", "onnxruntime"))]
    monkeypatch.chdir(model.parent)
    model.rename(model.with_name("m.onnx"))
    refused(tasor_command(*words), 64, message)
    assert sorted(os.listdir()) == ["m.onnx"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compile", "absent.onnx", "-o", "out"], "expected a readable file"),
        (["compile", "text.onnx", "-o", "out"], "expected an ONNX model"),
        (["compile", "empty.onnx", "-o", "out"], "expected an ONNX model"),
        (["compile", "cut.onnx", "-o", "out"], "expected"),
        (["compile", ".", "-o", "out"], "expected a readable file"),
        (["compile", "z" * 5000, "-o", "out"], "expected a readable file"),
        (["compile", "m.onnx", "-o", "out"], "--shape x=N,6"),
        (["compile", "m.onnx", "-o", "out", "--shape", "x=2,7"], "expected a shape that fits"),
        (["compile", "m.onnx", "-o", "out", "--shape", "q=1"], "expected a name among its inputs"),
        (["compile", "m.onnx", "-o", "out", "--shape", "x=9999999999999,6"], "2**40"),
        (["compile", "r.onnx", "-o", "out", "--shape", "sizes=2"], "'sizes'"),
        (["compile", "r.onnx", "-o", "out", "--bind", "sizes=text.onnx"], "numpy.save"),
        (["run", "m.onnx", "--input", "x=absent.npy"], "expected a readable .npy file"),
        (["run", "folder"], "expected one NAME.json of Tasor"),
        (["show", "folder"], "expected one NAME.json of Tasor"),
        (["show", "absent"], "expected a readable file"),
        (["optimize", "text.onnx", "-o", "o.onnx"], "expected an ONNX model"),
        (["bench", "absent.onnx", "--against", "onnxruntime"], "expected a readable file"),
        (["bench", "text.onnx", "--against", "onnxruntime"], "expected an ONNX model"),
        (["bench", "m.onnx", "--against", "onnxruntime"], "expected a static shape"),
    ],
)
def test_bad_input_is_65(
    tasor_command: Command,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    if "bench" in words:
        pytest.importorskip("onnxruntime")
    monkeypatch.chdir(model.parent)
    model.rename(model.with_name("m.onnx"))
    onnx.save_model(reshaping_model(), "r.onnx")
    Path("text.onnx").write_text("hello")
    Path("empty.onnx").touch()
    Path("cut.onnx").write_bytes(Path("m.onnx").read_bytes()[:-20])
    Path("folder").mkdir()
    before = sorted(os.listdir())
    refused(tasor_command(*words), 65, message)
    assert sorted(os.listdir()) == before


def test_no_compiler_is_69(
    tasor_command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert tasor_command("compile", model, "--shape", "x=2,6", "-o", folder)[0] == 0
    refused(tasor_command("run", folder), 69, "install one (Debian and Ubuntu: apt-get install gcc")
    refused(tasor_command("run", model, "--shape", "x=2,6"), 69, "install one")
    monkeypatch.setenv("CC", "no-such-compiler")
    refused(tasor_command("run", folder), 69, "expected CC to name a C compiler")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'x.c:1: error: no luck' >&2; exit 1", "got x.c:1: error: no luck"),
        ("exit 1", "got exit status 1"),
        ("exit 0", "library.so"),
        ("kill -9 $$", "choose another compiler"),
    ],
)
def test_a_failing_compiler_is_69(
    tasor_command: Command,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    message: str,
) -> None:
    folder = tmp_path / "out"
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path, script)))
    monkeypatch.setenv("TASOR_CACHE", str(tmp_path / "cache"))
    assert tasor_command("compile", model, "--shape", "x=2,6", "-o", folder)[0] == 0
    refused(tasor_command("run", folder, "-o", tmp_path / "result"), 69, message)
    assert not (tmp_path / "result").exists()
    assert list((tmp_path / "cache" / "building").iterdir()) == []


def test_the_log_of_a_failing_compiler_is_shown_with_vv(
    tasor_command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "echo 'first error'; echo 'and the rest'; exit 1"
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path, script)))
    code, _, err = tasor_command("run", model, "--shape", "x=2,6", "-vv")
    assert code == 69
    assert "and the rest" in err


def test_a_missing_peer_is_69(
    tasor_command: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = tasor_command("bench", model, "--against", "openvino", "--shape", "x=2,6")
    refused(result, 69, "pip install openvino")


def test_a_bug_of_ours_is_70_with_a_traceback_on_demand(
    tasor_command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise AssertionError("kernel\nof\x1b no use")

    monkeypatch.setattr("tasor.pipeline.compile_graph", broken)
    words = ("compile", model, "--shape", "x=2,6", "-o", tmp_path / "out")
    result = tasor_command(*words)
    refused(result, 70, "this is a bug of Tasor: please report it")
    assert "AssertionError in test_command_line.py" in result[2]
    code, _, err = tasor_command(*words, "-vv")
    assert code == 70
    assert "Traceback" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left on device")])
def test_what_the_machine_lacks_is_no_bug(
    tasor_command: Command,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def exhausted(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("tasor.pipeline.compile_graph", exhausted)
    words = ("compile", model, "--shape", "x=2,6", "-o", tmp_path / "out")
    refused(tasor_command(*words), 65, "expected")


HOSTILE = [
    "a b",
    "/",
    "../../x",
    "int",
    '"; system("rm -rf /"); //',
    "*/ evil /*",
    "x\n#error\n",
    "[red]x[/red]",
    "ü∑\u202e\u2028",
    "\x1b[31m",
    "??/",
    "n" * 5000,
]


MORE_HOSTILE = ["a=b", "a:0", "..", "[/]", "%s%n", "{{x}}", "\\", "run", "arena"]
"""Those to which a name like them stands above."""


@pytest.mark.parametrize(
    "name", [*HOSTILE, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_HOSTILE)]
)
def test_names_from_models_do_no_harm(tasor_command: Command, tmp_path: Path, name: str) -> None:
    path, folder, result = tmp_path / "hostile.onnx", tmp_path / "out", tmp_path / "result"
    onnx.save_model(small_model(name, name + "'"), path)
    shape = ("--shape", f"{name}=2,6")
    for words in (
        ("compile", path, *shape, "-o", folder, "-vvvv", "--dump", tmp_path / "dump"),
        ("run", folder, "-o", result),
        ("show", path, *shape, "-v"),
        ("show", folder),
        ("optimize", path, *shape, "-o", tmp_path / "o.onnx", "--report", tmp_path / "r.html"),
    ):
        code, out, err = tasor_command(*words)
        assert code == 0, err
        assert "\x1b" not in out + err
        assert "\u202e" not in out + err
    assert [path.suffix for path in result.iterdir()] == [".npy"]
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"hostile.onnx", "out", "result", "dump", "o.onnx", "r.html"}
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert not set(page) & {"\x1b", "\u202e"}


@pytest.mark.parametrize("stem", ["int", "a b.c", "ü", "1", "-x", "n" * 200, "_", "'$(x)`"])
def test_file_names_of_models_do_no_harm(tasor_command: Command, tmp_path: Path, stem: str) -> None:
    path = tmp_path / f"{stem}.onnx"
    onnx.save_model(small_model(), path)
    assert tasor_command("compile", path, "--shape", "x=2,6", "-o", tmp_path / "out")[0] == 0
    assert tasor_command("run", tmp_path / "out")[0] == 0


def test_an_unwritten_note_for_a_changed_folder(
    tasor_command: Command, model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    tasor_command("compile", model, "--shape", "x=2,6", "-o", folder)
    with (folder / "small.c").open("a") as file:
        file.write("\n")
    code, _, err = tasor_command("run", folder)
    assert code == 0
    assert "note: small.c is not as Tasor wrote it" in err
    (folder / "small.h").unlink()
    refused(tasor_command("run", folder, "--quiet"), 65, "expected the file small.h")
    refused(tasor_command("run", folder, "--threads", 2), 64, "they are fixed when the folder")


def test_a_folder_that_cannot_be_built_is_69(
    tasor_command: Command, model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    tasor_command("compile", model, "--shape", "x=2,6", "-o", folder)
    (folder / "small_kernels.c").write_text("this is no C\n")
    refused(tasor_command("run", folder, "--quiet"), 69, "expected cc to accept")


def test_inputs_of_a_folder_are_checked(
    tasor_command: Command, model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    tasor_command("compile", model, "--shape", "x=2,6", "-o", folder)
    np.save(tmp_path / "x.npy", X.astype(np.float64))
    word = f"x={tmp_path / 'x.npy'}"
    refused(tasor_command("run", folder, "--input", word), 65, "expected float32[2,6], got float64")
    refused(tasor_command("run", folder, "--input", f"z{word}"), 64, "expected a name among 'x'")


def bench_words(model: Path) -> tuple[object, ...]:
    words = ("--shape", "x=2,6", "--threads", "1", "--seconds", "0.2", "--rounds", "2")
    return ("bench", "--suite", model, *words, "--against", "onnxruntime")


def test_bench_measures_a_model(
    tasor_command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    known = Calibration(typical_machine(host_target(), 1), {}, tmp_path, None)
    monkeypatch.setattr("tasor.command_bench.calibrate", lambda *_, **__: known)
    found, page, tables = (tmp_path / name for name in ("found.json", "page.html", "page.md"))
    code, out, err = tasor_command(
        *bench_words(model), "--json", found, "--report", page, "--markdown", tables
    )
    assert code == 0, out + err
    assert "ratio" in out
    assert "of peak" in out
    document = json.loads(found.read_bytes())
    assert document["ceilings"][0]["peak_flops"] == known.machine.peak_flops(1)
    (row,) = document["rows"]
    assert set(row["engines"]) == {"tasor", "onnxruntime"}
    assert row["ratio"] > 0
    assert row["traffic_bytes"] > 0
    assert "<title>Tasor beside ONNX Runtime</title>" in page.read_text(encoding="utf-8")
    assert "Measured peak" in tables.read_text(encoding="utf-8")


def test_bench_compiles_for_the_target_that_it_is_told(
    tasor_command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    peak, asked = typical_machine(Target.named("c99"), 1), []

    def calibrated(target: Target, threads: int, **_: object) -> Calibration:
        asked.append((target.name, threads))
        return Calibration(peak, {}, tmp_path, None)

    monkeypatch.setattr("tasor.command_bench.calibrate", calibrated)
    words = (*bench_words(model), "--target", "c99", "--no-winograd", "--json", tmp_path / "f.json")
    code, out, err = tasor_command(*words)
    assert code == 0, out + err
    assert asked == [("c99", 1)]
    document = json.loads((tmp_path / "f.json").read_bytes())
    assert document["settings"]["target"] == "c99"
    assert document["settings"]["winograd"] is False
    assert document["ceilings"][0]["peak_flops"] == peak.peak_flops(1)


def test_bench_does_without_a_calibration_where_there_can_be_none(
    tasor_command: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")

    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise CalibrationError("threads: expected 1 to 2, got 3; choose fewer")

    monkeypatch.setattr("tasor.command_bench.calibrate", refuse)
    code, out, err = tasor_command(*bench_words(model), "--html", tmp_path / "page.html")
    assert code == 0, out + err
    assert "without shares of the peak: threads: expected 1 to 2" in err
    assert "of peak" not in out
    assert "Roofline" not in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "expanded"),
    [
        ("bench --threads 1 2 --json f", "bench --threads 1 --threads 2 --json f"),
        ("bench m.onnx --threads 1 2", "bench m.onnx --threads 1 --threads 2"),
        ("bench --threads 1 m.onnx", "bench --threads 1 m.onnx"),
        ("bench --suite a b --threads 1", "bench --suite a --suite b --threads 1"),
        ("bench --suite a --quiet b", "bench --suite a --quiet b"),
        ("bench --threads", "bench --threads"),
        ("run --threads 1 2", "run --threads 1 2"),
        ("", ""),
    ],
)
def test_options_of_bench_take_several_values(words: str, expanded: str) -> None:
    assert with_repeated_options(words.split()) == expanded.split()


def test_help_and_version(tasor_command: Command) -> None:
    code, out, err = tasor_command("--help")
    assert (code, err) == (0, "")
    assert all(name in out for name in ("compile", "run", "show", "optimize", "bench"))
    assert tasor_command("compile", "--help")[0] == 0
    assert tasor_command("--version")[1].startswith("tasor ")
    code, out, err = tasor_command()
    assert (code, out) == (64, "")
    assert "Commands:" in err


def test_a_closed_pipe_is_no_error(model: Path) -> None:
    command = [sys.executable, "-m", "tasor", "show", str(model), "--shape", "x=2,6"]
    shell = f"{subprocess.list2cmdline(command)} | true"
    done = subprocess.run(
        ["/bin/sh", "-c", shell],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.stderr == ""

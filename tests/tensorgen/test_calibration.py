"""Calibration: its loops compile everywhere, its figures make sense, its files are not trusted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tensorgen.calibration as calibration_module
from tensorgen.build import default_flags
from tensorgen.calibration import Calibration, CalibrationError, calibrate, processor
from tensorgen.calibration_source import calibration_source, multiply_add_vectors
from tensorgen.dialects import vector_dialect
from tensorgen.target import TARGET_NAMES, Target, host_target
from tensorgen.types import float32
from tests.required_tools import require

HOST = host_target()
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Calibration]:
    """A cache with a calibration in it, whatever else the machine is doing."""
    folder = tmp_path_factory.mktemp("cache")
    patch = pytest.MonkeyPatch()
    patch.setattr(calibration_module, "STEADY", float("inf"))
    made = calibrate(HOST, 1, cache=folder)
    patch.undo()
    return folder, made


@needs_compiler
@pytest.mark.parametrize(
    ("name", "openmp"),
    [
        (name, openmp)
        for name in TARGET_NAMES
        for openmp in (False, True)
        # Firmware has no threads.
        if name != "host" and (Target.named(name).hosted or not openmp)
    ],
)
def test_the_loops_compile_without_warnings(name: str, openmp: bool, tmp_path: Path) -> None:
    target = Target.named(name)
    compiler = "cc" if target.runs_on(os.uname().machine) else f"{target.compiler_prefix}gcc"
    require(compiler)
    source = tmp_path / "calibration.c"
    source.write_text(calibration_source(target), encoding="utf-8")
    # Without OpenMP a compiler does not know its pragmas.
    flags = (*default_flags(strict=False, openmp=openmp), "-Wno-unknown-pragmas")
    command = (
        compiler,
        *flags,
        *WARNINGS,
        *target.compiler_flags,
        "-c",
        "-o",
        "/dev/null",
        str(source),
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_compiler
def test_the_loop_of_multiply_adds_does_nothing_else(tmp_path: Path) -> None:
    if HOST.isa not in ("avx512", "avx2") or shutil.which("gcc") is None:
        pytest.skip("reads the assembly of gcc for x86-64")
    source = tmp_path / "calibration.c"
    source.write_text(calibration_source(HOST), encoding="utf-8")
    flags = default_flags(strict=False, openmp=False)
    command = ("gcc", *flags, *HOST.compiler_flags, "-S", "-o", "-", str(source))
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    body = text.split("\nprobe_multiply_add:")[1].split(".cfi_endproc")[0]
    blocks = [block.split("\n\tj")[0] for block in body.split("\n.L")]
    dialect = vector_dialect(HOST.isa, float32)
    assert dialect is not None
    wanted = multiply_add_vectors(dialect)
    loop = next(block for block in blocks if block.count("vfmadd") == wanted)
    assert "mov" not in loop
    assert "(%" not in loop


@needs_compiler
def test_the_figures_make_sense(kept: tuple[Path, Calibration]) -> None:
    machine = kept[1].machine
    assert machine.threads == 1
    # Between a microcontroller and far more than any core does today.
    assert 1e8 < machine.peak_flops(1) < 1e12
    assert machine.divisions.alone < machine.peak_flops(1)
    nearest, *_, memory = machine.levels
    assert memory.bandwidth.alone < nearest.bandwidth.alone
    assert 1e8 < machine.memory_bandwidth(1) < 1e12
    assert machine.region_seconds == machine.barrier_seconds == 0.0


@needs_compiler
def test_what_was_found_is_kept(kept: tuple[Path, Calibration]) -> None:
    folder, made = kept
    assert made.seconds is not None
    known = calibrate(HOST, 1, cache=folder)
    assert known == replace(made, seconds=None)
    content = json.loads(made.path.read_text(encoding="utf-8"))
    assert content["processor"] == processor()
    assert content["target"] == HOST.name
    assert [path.name for path in made.path.parent.iterdir()] == [made.path.name]


@needs_compiler
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: "",
        lambda content: json.dumps(content)[:-7],
        lambda content: "[]",
        lambda content: "[" * 100_000,
        lambda content: "\udcff",
        lambda content: json.dumps(content | {"schema": 0}),
        lambda content: json.dumps(content | {"processor": "another"}),
        lambda content: json.dumps(content | {"threads": 64}),
        lambda content: json.dumps(content | {"machine": {"threads": 1}}),
    ],
)
def test_a_file_of_another_machine_is_named_and_replaced(
    kept: tuple[Path, Calibration],
    damage: Callable[[dict[str, Any]], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, made = kept
    monkeypatch.setattr(calibration_module, "_measured", lambda *ignored: (made.machine, True))
    whole = made.path.read_text(encoding="utf-8")
    made.path.write_bytes(damage(json.loads(whole)).encode("utf-8", "surrogateescape"))
    remarks: list[str] = []
    again = calibrate(HOST, 1, cache=folder, tell=remarks.append)
    assert again.seconds is not None
    [remark] = remarks
    assert str(made.path) in remark
    assert "\n" not in remark
    assert made.path.read_text(encoding="utf-8") == whole


@needs_compiler
def test_what_a_busy_machine_showed_is_told_and_not_kept(
    tmp_path: Path, kept: tuple[Path, Calibration], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = kept[1].machine
    monkeypatch.setattr(calibration_module, "_measured", lambda *ignored: (found, False))
    remarks: list[str] = []
    made = calibrate(HOST, 1, cache=tmp_path, tell=remarks.append)
    assert made.machine == found
    assert not made.path.exists()
    assert len(remarks) == 1
    assert "other work" in remarks[0]


@pytest.mark.parametrize("threads", [0, -1, HOST.cores + 1])
def test_threads_without_a_core_are_refused(threads: int) -> None:
    with pytest.raises(CalibrationError, match=r"^threads: expected 1 to \d+.*, got"):
        calibrate(HOST, threads)


def test_other_machines_are_measured_elsewhere() -> None:
    for name in ("cortex-m4", "riscv64", "armv7", "aarch64"):
        if not Target.named(name).runs_on(os.uname().machine):
            with pytest.raises(CalibrationError, match=rf"^target: expected .* got {name}"):
                calibrate(Target.named(name), 1)


@needs_compiler
def test_a_process_that_fails_is_an_error_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration_module, "build_library", lambda *a, **b: tmp_path / "none.so")
    with pytest.raises(CalibrationError, match=r"^calibration: expected loops .* to run, got") as e:
        calibrate(HOST, 1, cache=tmp_path)
    assert "\n" not in str(e.value)

"""`tasor tune --cluster`: on a real cluster, and what is said where there is none."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import onnx
import pytest

from tasor.measuring_place import MeasuringPlace
from tensorgen.target import host_target
from tensorgen.tune.measurer import NotMeasured
from tensorgen.tune.records import TrialRecords
from tensorgen.tune.trial import setting_of
from tensorgen.typical_machine import typical_machine
from tensorgen.version import tasor_version
from tests.dask_cluster import dask_cluster
from tests.measured_at_once import Leaving
from tests.tasor.small_models import small_model

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TASOR_CACHE", str(tmp_path / "cache"))


def refused(command: Command, folder: Path, address: str) -> tuple[int, str]:
    """Exit code and error of a command that gets no further than the cluster."""
    code, out, err = command(
        "tune", folder / "no.onnx", "--records", folder / "trials.sqlite", "-q",
        "--cluster", address,
    )  # fmt: skip
    assert out == ""
    assert err.startswith("tasor: cluster")
    assert err.count("\n") == 1
    return code, err


def test_an_address_that_is_none_is_wrong_usage(tasor_command: Command, tmp_path: Path) -> None:
    code, err = refused(tasor_command, tmp_path, "here")
    assert code == 64
    assert "expected the address of a dask scheduler, such as tcp://HOST:8786, got 'here'" in err


def test_without_the_package_it_is_named(
    tasor_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, err = refused(tasor_command, tmp_path, "127.0.0.1:8786")
    assert code == 69
    assert "pip install 'tasor[cluster]'" in err


def test_where_nobody_listens_there_is_no_scheduler(tasor_command: Command, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        started = time.monotonic()
        code, err = refused(tasor_command, tmp_path, address)
    assert code == 69
    assert f"cluster tcp://{address}: expected a dask scheduler, got" in err
    assert time.monotonic() - started < 60.0


def test_tls_that_is_not_set_up_is_one_line(tasor_command: Command, tmp_path: Path) -> None:
    code, err = refused(tasor_command, tmp_path, "tls://127.0.0.1:8786")
    assert code == 69
    assert "TLS" in err


def test_what_nobody_measured_is_told_everywhere(
    tasor_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = NotMeasured("cluster tcp://h:1: nobody is there")

    measurer, target = Leaving(0, gone, part=lambda schedules: 1), host_target()
    setting = setting_of(target, 1, tasor_version())
    place = MeasuringPlace(
        setting, typical_machine(target), lambda batch, trials: batch,
        lambda drafts: nullcontext(measurer),
    )  # fmt: skip
    monkeypatch.setattr("tasor.measuring_place.check_cluster", lambda cluster: None)
    monkeypatch.setattr("tasor.model_tuning.measuring_place", lambda *_, **__: nullcontext(place))
    onnx.save(small_model(), tmp_path / "small.onnx")
    code, out, err = tasor_command(
        "tune", tmp_path / "small.onnx", "--trials", 6, "--shape", "x=4,6", "--threads", "1",
        "--records", tmp_path / "trials.sqlite", "--cluster", "h:1",
        "--json", tmp_path / "tuned.json", "--report", tmp_path / "tuned.html",
    )  # fmt: skip
    assert code == 69
    assert f"{gone.reason}; tune again with the same records to go on" in err
    assert "nobody is left" in " ".join(out.split())
    document = json.loads((tmp_path / "tuned.json").read_text())
    assert document["stopped"] == gone.reason
    assert document["trials_made"] == 2
    assert document["models"][0]["ended"] == "nobody is left to measure its kernels"
    assert {t["ended"] for t in document["tasks"].values()} == {"nobody is left to measure it"}
    page = (tmp_path / "tuned.html").read_text()
    assert f"Tuning stopped early: {gone.reason}." in page
    assert "nobody is left to measure its kernels" in page
    assert TrialRecords(tmp_path / "trials.sqlite").count() == 2


@pytest.mark.slow
def test_a_model_is_tuned_on_a_cluster_until_it_is_gone(
    tasor_command: Command, tmp_path: Path
) -> None:
    onnx.save(small_model(), tmp_path / "small.onnx")
    label = host_target().name
    (tmp_path / "cluster").mkdir()

    def tune(trials: int, address: str) -> tuple[int, str, str]:
        return tasor_command(
            "tune", tmp_path / "small.onnx", "--trials", trials, "--shape", "x=4,6",
            "--threads", "1", "--records", tmp_path / "trials.sqlite", "--cluster", address,
            "--json", tmp_path / "tuned.json", "-o", tmp_path / "libraries",
        )  # fmt: skip

    with dask_cluster(tmp_path / "cluster", f"{label}=1", f"{label}=1") as cluster:
        code, out, err = tune(4, cluster.address)
        assert (code, err) == (0, "")
        assert "times as fast" in out
        for worker in cluster.workers:
            worker.kill()
            worker.wait()
        code, _, err = tune(6, cluster.address)
        assert code == 69
        assert f"expected a worker with the resource {label}, got none" in err
    records = TrialRecords(tmp_path / "trials.sqlite")
    assert records.count() > 0
    assert {t.setting for t in records.all()} == {setting_of(host_target(), 1, tasor_version())}
    document = json.loads((tmp_path / "tuned.json").read_text())
    assert document["stopped"] is None
    assert list((tmp_path / "libraries" / "small").glob("*.h"))

"""A real dask cluster on this machine, for tests: a scheduler and workers in processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from tensorgen.tune.cluster_connection import DaskConnection

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 60.0


class DaskCluster:
    """A scheduler on the loopback device; its workers and everything they write are in a folder,
    and all of them end with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._scheduler_file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0")
        self.address = str(self._found(self._scheduler_file)["address"])

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()

    def worker(
        self, resources: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A worker with those resources; it is there soon."""
        options = ("--no-nanny", "--nthreads", "2", "--resources", resources)
        return self._start(
            "worker", *options, "--local-directory", str(self._folder), environment=environment
        )

    def _start(
        self, *words: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *words]
        command += ["--host", "127.0.0.1", "--no-dashboard"]
        command += ["--scheduler-file", str(self._scheduler_file)]
        paths = os.pathsep.join(
            path for path in (str(ROOT), os.environ.get("PYTHONPATH", "")) if path
        )
        own = {
            "PYTHONPATH": paths,
            "TMPDIR": str(self._folder),
            "TASOR_CACHE": str(self._folder / "cache"),
        }
        process = subprocess.Popen(
            command,
            cwd=self._folder,
            env={**os.environ, **own, **({} if environment is None else environment)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._processes.append(process)
        return process

    def _found(self, path: Path) -> dict[str, object]:
        """What the scheduler writes about itself."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.scheduler.poll() is None, "the scheduler ended"
            try:
                found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
            except (FileNotFoundError, ValueError):
                time.sleep(0.05)
            else:
                return found
        raise AssertionError("the scheduler did not start")


@contextmanager
def dask_cluster(folder: Path, *resources: str) -> Iterator[DaskCluster]:
    """A cluster with a worker for each of those resources, all of them there."""
    with DaskCluster(folder) as cluster:
        for labels in resources:
            cluster.workers.append(cluster.worker(labels))
        with DaskConnection(cluster.address) as connection:
            wait_for(connection, len(resources))
        yield cluster


def wait_for(connection: DaskConnection, count: int) -> list[str]:
    """The addresses of the workers, as soon as there are so many."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        there = connection.workers()
        if there is not None and len(there) == count:
            return sorted(there)
        time.sleep(0.05)
    raise AssertionError(f"expected {count} workers, got {connection.workers()}")

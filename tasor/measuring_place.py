"""Where a tuner measures: on this machine, or on the workers of a cluster.

What it does: opens the one or the other, and says what figures of it depend on, what its machine
can do, and who measures there. What it does not: tune.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from tensorgen.calibration import calibrated
from tensorgen.machine import Machine
from tensorgen.target import Target
from tensorgen.tune.cluster_address import cluster_address
from tensorgen.tune.local_measurer import LocalMeasurer
from tensorgen.tune.measurer import Measurer
from tensorgen.tune.trial import Setting, setting_of
from tensorgen.version import tasor_version


@dataclass(frozen=True, slots=True)
class MeasuringPlace:
    """Somewhere to measure.

    `setting` is what its figures depend on, `machine` has its constants, `batch` says how many
    trials go together, of a usual number of them and of all of a task. `measurer` opens one, of
    drafts or of kernels that are compiled as a library is.
    """

    setting: Setting
    machine: Machine
    batch: Callable[[int, int], int]
    measurer: Callable[[bool], AbstractContextManager[Measurer]]


def check_cluster(cluster: str | None) -> None:
    """Raises as `measuring_place` for a cluster that is not there, before anything else is done."""
    if cluster is not None:
        from tensorgen.tune.cluster_connection import DaskConnection

        DaskConnection(cluster_address(cluster)).close()


@contextmanager
def measuring_place(
    cluster: str | None,
    target: Target,
    threads: int,
    *,
    strict: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[MeasuringPlace]:
    """This machine, or with its scheduler's address a cluster. `tell` is given a line for each
    worker that cannot be used.

    Raises what `LocalMeasurer` and `calibrated` do; for a cluster AddressError, ToolMissing without
    the package `distributed`, and MeasureError if no scheduler or no worker for the target answers.
    """
    if cluster is None:
        yield MeasuringPlace(
            setting_of(target, threads, tasor_version(), strict=strict),
            calibrated(target, threads),
            lambda batch, trials: batch,
            lambda drafts: LocalMeasurer(
                target, threads, strict=strict, drafts=drafts, prints_apart=drafts
            ),
        )
        return
    # Loaded when it is asked for: nobody else needs it.
    from tensorgen.tune.cluster_connection import DaskConnection
    from tensorgen.tune.cluster_measurer import ClusterMeasurer, batch_of, calibrated_worker
    from tensorgen.tune.cluster_message import Work
    from tensorgen.tune.cluster_pool import WorkerPool

    work = Work(target, threads, strict)
    with DaskConnection(cluster_address(cluster)) as connection:
        pool = WorkerPool(connection, work, tell=tell)
        yield MeasuringPlace(
            pool.setting,
            calibrated_worker(pool, work),
            lambda batch, trials: batch_of(batch, len(pool), trials),
            lambda drafts: nullcontext(ClusterMeasurer(pool, work, drafts=drafts)),
        )

"""The connection to a cluster of `dask.distributed`: who its workers are, and asking one of them.

What it does: finds out whether a scheduler answers there, lists workers with
their resources, and has a named worker answer a request, which is text, as the answer is. It is the
only module that knows `distributed`, and imports it when a connection is opened. What it does not:
choose workers, or know what is asked.

The scheduler and the workers need Tasor, too. There is no authentication but what dask has (TLS):
whoever reaches a scheduler may run what he likes on its workers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Protocol

from tensorgen.build import ToolMissing
from tensorgen.tune import cluster_worker
from tensorgen.tune.fields import one_line, shown
from tensorgen.tune.measurer import MeasureError

CONNECT_SECONDS = 5.0
"""A scheduler that is there answers within this time."""

FETCH_SECONDS = 10.0
"""An answer that is ready is here within this time."""

_LOGGERS = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")


@dataclass(frozen=True, slots=True)
class Answered:
    """What a worker answered, as yet unread."""

    text: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker or the connection was lost before there was an answer, or the request was given
    up."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The worker could not run the request at all, for a reason of one line."""

    reason: str


Answer = Answered | Lost | Failed


class Connection(Protocol):
    """Workers that answer requests. `Ticket`s stand for requests under way."""

    address: str

    def workers(self) -> Mapping[str, Mapping[str, float]] | None:
        """The amounts of each worker's resources by its address; None if the scheduler does not
        answer."""
        ...

    def ask(self, worker: str, request: str, resource: str | None) -> object:
        """Send a request to a worker, which begins with it when it has one unit of the resource to
        spare. A ticket for the answer."""
        ...

    def next_answer(self, seconds: float) -> tuple[object, Answer] | None:
        """A ticket with its answer, as soon as there is one; None if there is none for so long."""
        ...

    def give_up(self, ticket: object) -> None:
        """Want no answer any more; there may be one still."""
        ...


class DaskConnection:
    """A connection to a dask scheduler. Close it, or use it in `with`.

    Raises ToolMissing without the package, MeasureError if no scheduler answers at the address.
    """

    def __init__(self, address: str, *, seconds: float = CONNECT_SECONDS) -> None:
        self.address = address
        self._distributed = _distributed()
        self._levels = {name: logging.getLogger(name).level for name in _LOGGERS}
        # What it has to say about lost connections is said by us, in one line.
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._answers: SimpleQueue[Any] = SimpleQueue()
        try:
            self._check(seconds)
            self._client = self._distributed.Client(
                address, timeout=seconds, set_as_default=False, name="tasor"
            )
        except BaseException as error:
            self._restore_logging()
            if not isinstance(error, Exception):
                raise
            raise MeasureError(
                f"cluster {address}: expected a dask scheduler, got "
                f"{one_line(error, 120) or 'no answer'}; start one with `dask scheduler`"
            ) from None

    def _check(self, seconds: float) -> None:
        """Fails unless a scheduler answers in time: a client would wait for ever on a server that
        says nothing."""

        async def identity() -> Any:
            security = self._distributed.Security().get_connection_args("client")
            async with self._distributed.rpc(self.address, connection_args=security) as scheduler:
                return await scheduler.identity()

        async def in_time() -> Any:
            try:
                return await asyncio.wait_for(identity(), seconds)
            except TimeoutError:
                raise ConnectionError(f"no answer within {seconds:g} s") from None

        # In a thread: the caller's may have an event loop of its own.
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(asyncio.run, in_time()).result()
        if not isinstance(found, dict) or found.get("type") != "Scheduler":
            raise ConnectionError(f"something else, {shown(found)}")

    def __enter__(self) -> DaskConnection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the cluster; what workers have not begun with is dropped."""
        with suppress(Exception):
            self._client.close(timeout=FETCH_SECONDS)
        self._restore_logging()

    def _restore_logging(self) -> None:
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)

    def workers(self) -> Mapping[str, Mapping[str, float]] | None:
        """See `Connection`."""
        if self._client.status != "running":
            return None
        try:
            known = self._client.scheduler_info(n_workers=-1)["workers"]
            return {
                str(address): {str(name): float(n) for name, n in entry["resources"].items()}
                for address, entry in known.items()
                if entry["status"] == "running"
            }
        except Exception:
            # Lost meanwhile, or it says something that no scheduler says.
            return None

    def ask(self, worker: str, request: str, resource: str | None) -> object:
        """See `Connection`."""
        try:
            future = self._client.submit(
                cluster_worker.answer,
                request,
                workers=[worker],
                allow_other_workers=False,
                resources=None if resource is None else {resource: 1},
                pure=False,
                retries=0,
            )
        except Exception:
            # The connection is gone: as if the worker were.
            ticket = object()
            self._answers.put(ticket)
            return ticket
        future.add_done_callback(self._answers.put)
        return future

    def next_answer(self, seconds: float) -> tuple[object, Answer] | None:
        """See `Connection`."""
        try:
            ticket = self._answers.get(timeout=seconds)
        except Empty:
            return None
        return ticket, self._answer(ticket)

    def _answer(self, future: Any) -> Answer:
        match getattr(future, "status", "lost"):
            case "finished":
                try:
                    text = future.result(timeout=FETCH_SECONDS)
                except Exception:
                    # The worker ended between its answer and our fetching it.
                    return Lost()
                return Answered(text) if isinstance(text, str) else Failed("no text")
            case "error":
                error = future.exception(timeout=FETCH_SECONDS)
                killed = self._distributed.KilledWorker
                return Lost() if isinstance(error, killed) else Failed(one_line(error, 160))
            case _:
                return Lost()

    def give_up(self, ticket: object) -> None:
        """See `Connection`."""
        with suppress(Exception):
            self._client.cancel([ticket])


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ModuleNotFoundError:
        raise ToolMissing(
            "cluster: expected the package distributed, got none installed; "
            "pip install 'tasor[cluster]'"
        ) from None

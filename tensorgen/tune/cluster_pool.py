"""The workers of a cluster that measure alike, and requests that are answered by whoever is free.

What it does: takes the workers that have the resource named for the target, one unit of it, the
same version of Tasor as is here, and the same processor and compiler as the others; gives each one
request at a time; and gives a request of a worker that is lost to another one. Workers may come and
go at any time. What it does not: know what requests are about.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, assert_never

from tensorgen.tune.cluster_connection import Answer, Answered, Connection, Failed, Lost
from tensorgen.tune.cluster_message import (
    Request,
    SettingRequest,
    Work,
    WorkerFailed,
    read_setting,
    request_text,
)
from tensorgen.tune.fields import FieldError, one_line
from tensorgen.tune.measurer import MeasureError, NotMeasured
from tensorgen.tune.trial import Setting
from tensorgen.version import tasor_version

Read = TypeVar("Read")

PATIENCE_SECONDS = 30.0
"""Without a worker we wait so long for one: a nanny starts a lost one anew."""

MEETING_SECONDS = 60.0
"""In the beginning workers have so long to say who they are; the first time they load Tasor."""

MOST_LOSSES = 3
"""A request that so many workers were lost with is not given to another one."""

_LOOK_SECONDS = 0.5
"""How often we look who is there."""


@dataclass(frozen=True, slots=True)
class WorkersLost:
    """One worker after the other was lost with a request, for a reason of one line."""

    reason: str


class WorkerPool:
    """The workers for some work. `tell` is given one line for each worker that cannot be used.

    `setting` is where they measure: the processor and the compiler that most of those have that
    were there in the beginning. Raises MeasureError if there is none.
    """

    def __init__(
        self,
        connection: Connection,
        work: Work,
        *,
        tell: Callable[[str], None] = lambda line: None,
        patience: float = PATIENCE_SECONDS,
        meeting: float = MEETING_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.label = work.target.name
        self._connection = connection
        self._work = work
        self._tell = tell
        self._patience = patience
        self._clock = clock
        self._version = tasor_version()
        self._members: set[str] = set()
        self._refused: dict[str, str] = {}
        self._greeted: dict[object, str] = {}
        self.setting = self._met(meeting)

    def __len__(self) -> int:
        """How many workers there were when we last looked."""
        return len(self._members)

    def answers(
        self, requests: Sequence[Request], read: Callable[[int, str], Read]
    ) -> list[Read | WorkersLost | NotMeasured]:
        """The answers to requests, in order, as `read` makes them of number and text; it raises
        FieldError or WorkerFailed for what a worker should not have said."""
        found: dict[int, Read | WorkersLost | NotMeasured] = {}
        waiting = deque(range(len(requests)))
        running: dict[object, tuple[int, str]] = {}
        losses: Counter[int] = Counter()
        seen = self._clock()

        def again(number: int) -> None:
            """Gives a request to another worker, unless it was too many workers' last."""
            losses[number] += 1
            if losses[number] >= MOST_LOSSES:
                found[number] = WorkersLost(f"{MOST_LOSSES} workers were lost with it")
            else:
                waiting.appendleft(number)

        try:
            while len(found) < len(requests):
                self._look()
                for ticket, (number, worker) in list(running.items()):
                    if worker not in self._members:
                        del running[ticket]
                        self._connection.give_up(ticket)
                        again(number)
                if self._members or running:
                    seen = self._clock()
                elif self._clock() - seen >= self._patience:
                    self._patience = 0.0
                    left = NotMeasured(self._nobody())
                    return [found.get(number, left) for number in range(len(requests))]
                busy = {worker for _, worker in running.values()}
                for worker in sorted(self._members - busy)[: len(waiting)]:
                    number = waiting.popleft()
                    text = request_text(requests[number])
                    running[self._connection.ask(worker, text, self.label)] = (number, worker)
                arrived = self._connection.next_answer(_LOOK_SECONDS)
                if arrived is None or self._is_greeting(*arrived) or arrived[0] not in running:
                    continue
                number, worker = running.pop(arrived[0])
                match arrived[1]:
                    case Answered(text):
                        try:
                            found[number] = read(number, text)
                        except (FieldError, WorkerFailed) as error:
                            self._refuse(worker, one_line(error))
                            waiting.appendleft(number)
                    case Failed(reason):
                        self._refuse(worker, reason)
                        waiting.appendleft(number)
                    case Lost():
                        again(number)
                    case other:
                        assert_never(other)
        finally:
            for ticket in running:
                self._connection.give_up(ticket)
        return [found[number] for number in range(len(requests))]

    def _met(self, seconds: float) -> Setting:
        """Where most of the workers measure that are there. Raises MeasureError."""
        deadline = self._clock() + seconds
        settings: dict[str, Setting] = {}
        self.setting = Setting("", 0, "", "", "")
        self._greet(self._labelled())
        while self._greeted and self._clock() < deadline:
            arrived = self._connection.next_answer(_LOOK_SECONDS)
            self._forget_all_but(self._labelled())
            if arrived is not None and arrived[0] in self._greeted:
                worker = self._greeted.pop(arrived[0])
                setting = self._said(worker, arrived[1])
                if setting is not None:
                    settings[worker] = setting
        if not settings:
            raise MeasureError(self._nobody())
        counts = Counter(settings.values())
        chosen = min(counts, key=lambda s: (-counts[s], s.processor, s.compiler))
        for worker, setting in settings.items():
            self._join(worker, setting, chosen)
        return chosen

    def _labelled(self) -> Mapping[str, Mapping[str, float]]:
        """The workers with the resource."""
        there = self._connection.workers()
        return {} if there is None else {w: r for w, r in there.items() if self.label in r}

    def _look(self) -> None:
        """Notices who came and who is gone."""
        there = self._labelled()
        self._members &= there.keys()
        self._forget_all_but(there)
        self._greet({worker: there[worker] for worker in there if worker not in self._members})

    def _forget_all_but(self, there: Collection[str]) -> None:
        """Waits no more for what others were asked."""
        for ticket, worker in list(self._greeted.items()):
            if worker not in there:
                del self._greeted[ticket]
                self._connection.give_up(ticket)

    def _greet(self, workers: Mapping[str, Mapping[str, float]]) -> None:
        """Asks those who were not asked yet where they measure."""
        asked = {*self._greeted.values(), *self._refused}
        for worker in sorted(workers.keys() - asked):
            amount = workers[worker][self.label]
            if amount != 1:
                self._refuse(
                    worker, f"expected one unit of {self.label}, got {amount:g}: it would measure "
                    "several things at once",
                )  # fmt: skip
                continue
            ticket = self._connection.ask(worker, request_text(SettingRequest(self._work)), None)
            self._greeted[ticket] = worker

    def _is_greeting(self, ticket: object, answer: Answer) -> bool:
        """Whether that answers a greeting; who gave it joins us if he may."""
        if ticket not in self._greeted:
            return False
        worker = self._greeted.pop(ticket)
        setting = self._said(worker, answer)
        if setting is not None:
            self._join(worker, setting, self.setting)
        return True

    def _said(self, worker: str, answer: Answer) -> Setting | None:
        """The setting in an answer; None for one that cannot be used."""
        match answer:
            case Answered(text):
                try:
                    setting = read_setting(text)
                except (FieldError, WorkerFailed) as error:
                    self._refuse(worker, one_line(error))
                    return None
                if setting.version != self._version:
                    self._refuse(
                        worker, f"expected Tasor {self._version}, as here, got {setting.version}; "
                        "install the same"
                    )  # fmt: skip
                    return None
                return setting
            case Failed(reason):
                self._refuse(
                    worker,
                    f"expected Tasor {self._version} there and where the scheduler runs, got "
                    f"{reason}",
                )
                return None
            case Lost():
                return None
            case _:
                assert_never(answer)

    def _join(self, worker: str, setting: Setting, chosen: Setting) -> None:
        if setting == chosen:
            self._members.add(worker)
            return
        self._refuse(
            worker,
            f"expected {chosen.processor} with {chosen.compiler}, as most have, got "
            f"{setting.processor} with {setting.compiler}; give it a cluster of its own",
        )

    def _refuse(self, worker: str, reason: str) -> None:
        """Asks a worker no more."""
        self._members.discard(worker)
        self._refused[worker] = reason
        self._tell(f"cluster worker {worker}: {reason}; passed over")

    def _nobody(self) -> str:
        """Why there is no worker, in one line."""
        place, there = f"cluster {self._connection.address}", self._connection.workers()
        advice = f"dask worker {self._connection.address} --resources {self.label}=1"
        if there is None:
            return f"{place}: expected the dask scheduler there, got no answer any more; start it"
        refused = [worker for worker in self._refused if worker in there]
        if refused:
            found = f"{len(refused)} that cannot be used ({self._refused[refused[-1]]})"
            return one_line(f"{place}: expected a worker for {self.label}, got {found}", 400)
        labels = sorted({name for resources in there.values() for name in resources})
        found = f"{len(there)} workers" if there else "none"
        having = f" with {', '.join(labels)}" if labels else " without resources" if there else ""
        return one_line(
            f"{place}: expected a worker with the resource {self.label}, got {found}{having}; "
            f"start one with `{advice}`", 400,
        )  # fmt: skip

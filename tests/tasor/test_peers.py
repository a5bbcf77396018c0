"""The comparison: statistics, workers that answer, workers that fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from onnx import TensorProto, helper

from tasor.peer_cases import Case, write_case
from tasor.peer_engines import MissingPackage, Opened, engine_version, open_model, require_engines
from tasor.peer_worker import (
    Load,
    Loaded,
    Reply,
    Request,
    Timed,
    Turn,
    serve,
    time_loops,
    time_turn,
)
from tasor.peers import (
    Comparison,
    Failure,
    Row,
    Timing,
    _Worker,
    deviation,
    pinned_cpus,
    settle,
)


def timing(engine: str, milliseconds: float) -> Timing:
    return Timing(engine, milliseconds, milliseconds, milliseconds, 1, 0.0, None, quiet=True)


def row(*results: Timing | Failure) -> Row:
    return Row("case", "group", 1, None, results)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["positive"]), helper.make_node("Neg", ["x"], ["minus"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8])
            for name in ("positive", "minus")
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return write_case(tmp_path / "m.onnx", model, name="two outputs", group="group")


def test_ratio_is_best_peer_over_tasor() -> None:
    measured = row(timing("tasor", 2.0), timing("onnxruntime", 5.0), timing("openvino", 3.0))
    assert measured.ratio == 1.5


def test_ratio_ignores_a_peer_that_failed() -> None:
    measured = row(timing("tasor", 2.0), timing("onnxruntime", 5.0), Failure("openvino", "no"))
    assert measured.ratio == 2.5


def test_no_ratio_without_tasor_or_without_peers() -> None:
    assert row(timing("onnxruntime", 5.0), Failure("tasor", "no")).ratio is None
    assert row(timing("tasor", 5.0)).ratio is None


def test_the_tuned_engine_is_no_peer() -> None:
    measured = row(
        timing("tasor", 2.0), timing("tasor tuned", 1.0), timing("onnxruntime", 5.0),
        timing("openvino", 3.0),
    )  # fmt: skip
    assert (measured.ratio, measured.tuned_ratio, measured.gain) == (1.5, 3.0, 2.0)
    alone = row(timing("tasor", 2.0), timing("tasor tuned", 1.0))
    assert (alone.ratio, alone.tuned_ratio, alone.gain) == (None, None, 2.0)
    failed = row(timing("tasor", 2.0), Failure("tasor tuned", "no"), timing("openvino", 3.0))
    assert (failed.ratio, failed.tuned_ratio, failed.gain) == (1.5, None, None)


def test_the_tuned_engine_needs_and_tells_what_tasor_does() -> None:
    require_engines(("tasor", "tasor tuned"))
    assert engine_version("tasor tuned") == engine_version("tasor")


def test_deviation_is_relative_to_the_range_with_zero() -> None:
    reference = (np.array([100.0, 102.0]), np.array([0.0, -1.0]))
    assert deviation(reference, reference) == 0.0
    assert deviation(reference, (reference[0] + 1.02, reference[1])) == pytest.approx(0.01)
    assert deviation(reference, (reference[0], reference[1] + 0.5)) == pytest.approx(0.5)


def test_deviation_of_what_is_not_finite() -> None:
    odd = (np.array([np.nan, np.inf, -np.inf, 1.0]),)
    assert deviation(odd, odd) == 0.0
    assert deviation(odd, (np.array([0.0, np.inf, -np.inf, 1.0]),)) == float("inf")
    assert deviation(odd, (np.array([np.nan, -np.inf, -np.inf, 1.0]),)) == float("inf")
    assert deviation((np.ones(2),), (np.array([1.0, np.nan]),)) == float("inf")


def test_deviation_of_other_shapes_and_of_zeros() -> None:
    assert deviation((np.ones((2, 1)),), (np.ones((1, 2)),)) == float("inf")
    assert deviation((np.ones(2),), ()) == float("inf")
    assert deviation((np.zeros(2),), (np.full(2, 1e-9),)) == float("inf")
    assert deviation((np.zeros((0, 3)),), (np.zeros((0, 3)),)) == 0.0
    assert deviation((np.array([True, False]),), (np.array([True, True]),)) == 1.0


@dataclass
class Clock:
    """A clock that tells as much time as was spent with it, whatever else the machine does."""

    nanoseconds: int = 0

    def spend(self, seconds: float) -> None:
        self.nanoseconds += round(seconds * 1e9)

    def perf_counter(self) -> float:
        return self.nanoseconds / 1e9

    def perf_counter_ns(self) -> int:
        return self.nanoseconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which turns and loops are timed."""
    made = Clock()
    monkeypatch.setattr("tasor.peer_worker.time", made)
    return made


def test_a_turn_lasts_as_long_as_it_should(clock: Clock) -> None:
    timed = time_turn(lambda: clock.spend(0.002), 0.1)
    assert 0.1 <= clock.perf_counter() <= 0.102
    assert 1 < timed.calls < 50, "the warm-up is not among those timed"
    assert timed.milliseconds == 2.0


def test_a_turn_shorter_than_a_call_times_one_call(clock: Clock) -> None:
    assert time_turn(lambda: clock.spend(0.02), 0.001).calls == 1


def test_loops_in_c_are_timed_by_the_call(clock: Clock) -> None:
    made: list[int] = []

    def repeat(calls: int) -> None:
        made.append(calls)
        clock.spend(50e-6 * calls)

    assert time_loops(repeat, 0.05) == 0.05
    assert 0.05 <= clock.perf_counter() <= 0.051
    assert made[0] == 1
    assert set(made[1:]) == {10}, "a loop of half a millisecond"


def test_at_least_one_call_from_c_is_timed(clock: Clock) -> None:
    assert time_loops(lambda calls: clock.spend(0.01 * calls), 0.0) == 10


def test_pinned_cpus_are_allowed_and_distinct() -> None:
    allowed = os.sched_getaffinity(0)
    for threads in range(1, len(allowed) + 1):
        cpus = pinned_cpus(threads)
        assert len(set(cpus)) == threads
        assert set(cpus) <= allowed


def test_too_many_threads_are_refused() -> None:
    with pytest.raises(ValueError, match=r"threads: expected at most \d+ CPUs here, got 100000"):
        pinned_cpus(100_000)
    with pytest.raises(ValueError, match="threads: expected at least 1, got 0"):
        pinned_cpus(0)


def test_unknown_and_missing_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"engine: expected one of tasor, .*, got 'tvm'"):
        require_engines(("tvm",))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match="pip install openvino"):
        require_engines(("openvino",))


def test_version_of_what_is_not_installed() -> None:
    assert engine_version("no-such-engine") == "unpackaged"


def test_peers_agree_and_are_timed(case: Case) -> None:
    pytest.importorskip("openvino")
    with Comparison(("onnxruntime", "openvino"), 1) as comparison:
        measured = comparison.measure(case, seconds=0.2, rounds=2)
    reference, other = (measured.timing(engine) for engine in ("onnxruntime", "openvino"))
    assert reference is not None
    assert reference.deviation is None
    assert reference.fastest <= reference.milliseconds <= reference.slowest
    assert other is not None
    assert other.deviation == 0.0
    assert reference.quiet
    assert other.quiet


def test_a_failure_is_a_result_and_the_next_case_runs(case: Case, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    with Comparison(("onnxruntime",), 1) as comparison:
        refused = comparison.measure(replace(case, model=broken), seconds=0.1, rounds=1)
        measured = comparison.measure(case, seconds=0.1, rounds=1)
    (failure,) = refused.results
    assert isinstance(failure, Failure)
    assert "\n" not in failure.message
    assert measured.timing("onnxruntime") is not None


def test_silence_is_a_failure(case: Case) -> None:
    with Comparison(("onnxruntime",), 1, timeout=0.001) as comparison:
        (failure,) = comparison.measure(case, seconds=0.1, rounds=1).results
    assert failure == Failure("onnxruntime", "no answer within 0.001 s")


def test_guests_take_their_turns_after_the_others(case: Case) -> None:
    guests = {"a guest": partial(open_model, "tasor"), "nobody": partial(open_model, "nobody")}
    with Comparison(("onnxruntime",), 1, guests=guests) as comparison:
        row = comparison.measure(case, seconds=0.2, rounds=2)
    reference, guest, failure = row.results
    assert isinstance(reference, Timing)
    assert (reference.engine, reference.deviation) == ("onnxruntime", None)
    assert isinstance(guest, Timing)
    assert (guest.engine, guest.deviation) == ("a guest", 0.0)
    assert guest.in_c is not None
    assert failure == Failure("nobody", "KeyError: 'nobody'")


class _Asleep:
    """A worker between turns."""

    def settle(self, limit: float = 0.0) -> bool:
        return True

    def close(self) -> None:
        pass


class _Told(Comparison):
    """A comparison of engines of which it is told how long their turns take, from the last on."""

    def __init__(self, turns: Mapping[str, Sequence[float]]) -> None:
        super().__init__((), 1, guests=dict.fromkeys(turns, partial(open_model, "nobody")))
        self._turns = {engine: list(reversed(times)) for engine, times in turns.items()}
        self._workers = dict.fromkeys(turns, cast("_Worker", _Asleep()))

    def _ask(self, engine: str, request: Request) -> Reply:
        match request:
            case Load():
                return Loaded((), 0.0)
            case Turn():
                return Timed(self._turns[engine].pop(), 1)


@pytest.mark.parametrize(
    ("disturbed", "rounds", "found"),
    [
        ([1.2, 1.0, 1.1], 3, 1.1),
        ([2.0, 1.0, 2.0, 1.0, 1.0], 5, 1.0),
        ([2.0] + [1.0] * 11, 3, 1.0),
        ([2.0, 1.0] * 6, 12, 1.5),
    ],
    ids=["quiet", "two of three", "one of three", "half of all"],
)
def test_who_was_disturbed_has_more_turns_and_so_have_the_others(
    case: Case, disturbed: list[float], rounds: int, found: float
) -> None:
    with _Told({"disturbed": disturbed, "other": [3.0] * 12}) as comparison:
        row = comparison.measure(case, seconds=0.3, rounds=3)
    first, second = row.results
    assert isinstance(first, Timing)
    assert isinstance(second, Timing)
    assert (first.milliseconds, first.calls, second.calls) == (found, rounds, rounds)


class _Seen(BaseException):
    """Ends a worker that has opened its case."""


def test_inputs_begin_at_a_line_in_the_process_of_each_engine(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opener(case: Case, threads: int, options: Mapping[str, object]) -> Opened:
        raise _Seen([array.ctypes.data % 64 for _, array in case.inputs])

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    given = np.arange(33, dtype=np.float32)[1:].reshape(4, 8)
    ours, theirs = Pipe()
    with ours, theirs:
        ours.send(Load(replace(case, inputs=(("x", given),)), {}))
        with pytest.raises(_Seen) as seen:
            serve(theirs, opener, 1, ())
    assert seen.value.args == ([0],)


def test_who_has_started_something_is_quiet_when_that_is() -> None:
    """A model that an engine loads may have it start a process, which takes the core of whoever has
    the next turn: figures of the first case of a run were twice as long."""
    busy = "import sys\nsys.stdout.write('!')\nsys.stdout.flush()\nwhile True: pass"
    program = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {busy!r}])\n"
        "sys.stdin.read(1)\nchild.kill()\nchild.wait()\ntime.sleep(60)"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.read(1)
            assert not settle(process.pid, 0.3)
            process.stdin.write(b"!")
            process.stdin.flush()
            assert settle(process.pid, 10.0)
        finally:
            process.kill()

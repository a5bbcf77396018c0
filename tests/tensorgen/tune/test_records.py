"""Trials on file: what is found, why nothing is, and files that cannot be used."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorgen.schedule import Schedule
from tensorgen.tune.library_race import Rivals
from tensorgen.tune.model_race_record import ModelRaceRecord
from tensorgen.tune.outcome import Crashed, Outcome, Slower, Timed
from tensorgen.tune.race_record import RaceRecord
from tensorgen.tune.records import Miss, Reason, RecordsError, TrialRecords
from tensorgen.tune.records_file import export_trials, import_trials
from tensorgen.tune.trial import Setting, Trial, trial_in, trial_text
from tensorgen.tune.weights_place import WeightsPlace
from tests.tensorgen.tune.test_schedule_text import ATTENTION, LOOPS, ROWS, TILE, WINDOW
from tests.unprivileged import unprivileged

HERE = Setting("x86-64-v4", 1, "this processor", "gcc 12", "0.2")
FAR, NEAR = WeightsPlace.FAR, WeightsPlace.NEAR
TASK, OTHER = "0" * 32, "1" * 32
ROOT = Path(__file__).resolve().parents[3]


def trial(
    schedule: Schedule = TILE,
    outcome: Outcome = Timed(1.0),  # noqa: B008
    *,
    setting: Setting = HERE,
    task: str = TASK,
    at: str = "2026-01-01T00:00:00Z",
    kind: str = "sum",
    weights: WeightsPlace = FAR,
) -> Trial:
    return trial_in(
        setting, task, schedule, outcome, at=at, kind=kind, sizes=(4, 8), weights=weights
    )


def race(
    seconds: float = 0.5,
    *,
    task: str = TASK,
    setting: Setting = HERE,
    weights: WeightsPlace = FAR,
) -> RaceRecord:
    rivals = Rivals(TILE, seconds, LOOPS, 1.0)
    return RaceRecord(task, setting, weights, rivals, "2026-01-01T00:00:00Z")


def model_race(
    seconds: float = 0.5, *, model: str = TASK, setting: Setting = HERE
) -> ModelRaceRecord:
    return ModelRaceRecord(model, setting, 1.0, seconds, "2026-01-01T00:00:00Z")


@pytest.fixture
def records(tmp_path: Path) -> TrialRecords:
    return TrialRecords(tmp_path / "deep" / "trials.sqlite")


def test_trials_come_back_and_are_there_once(records: TrialRecords) -> None:
    schedules: tuple[Schedule, ...] = (TILE, LOOPS, WINDOW, ROWS, ATTENTION)
    trials = [trial(schedule, Timed(n + 1.0)) for n, schedule in enumerate(schedules)]
    assert records.add(trials) == 5
    assert records.add(trials[:2]) == 0
    again = TrialRecords(records.path)
    assert again.count() == 5
    assert sorted(map(trial_text, again.all())) == sorted(map(trial_text, trials))
    assert set(again.of_task(TASK, HERE, FAR)) == set(trials)
    assert again.of_task(OTHER, HERE, FAR) == ()


def test_the_best_schedule_has_the_least_median(records: TrialRecords) -> None:
    lucky = [trial(LOOPS, Timed(s), at=f"2026-01-0{n}") for n, s in enumerate((1.0, 3.0, 3.1), 1)]
    steady = [trial(TILE, Timed(s), at=f"2026-01-0{n}") for n, s in enumerate((2.0, 2.1), 1)]
    records.add([*lucky, *steady, trial(ROWS, Slower(0.1)), trial(WINDOW, Crashed("x"))])
    assert records.best(TASK, HERE, FAR) == steady[1]


@pytest.mark.parametrize(
    ("change", "reason", "said"),
    [
        ({"target": "x86-64-v3"}, Reason.TARGET, "x86-64-v3, 1 threads"),
        ({"threads": 2}, Reason.TARGET, "x86-64-v4, 2 threads"),
        ({"processor": "another"}, Reason.MACHINE, "another machine only (another)"),
        ({"compiler": "clang"}, Reason.COMPILER, "another compiler only (clang)"),
        ({"version": "0.1"}, Reason.VERSION, "another version only (0.1)"),
        ({"compiler": "clang", "version": "0.1"}, Reason.COMPILER, "(clang)"),
        ({"processor": "another", "version": "0.1"}, Reason.MACHINE, "(another)"),
    ],
)
def test_a_miss_says_why(
    records: TrialRecords, change: dict[str, object], reason: Reason, said: str
) -> None:
    elsewhere = replace(HERE, **change)  # type: ignore[arg-type]
    found = trial(LOOPS, Timed(2.0), setting=elsewhere)
    records.add([found, trial(task=OTHER)])
    miss = records.best(TASK, HERE, FAR)
    assert miss == Miss(reason, found)
    assert said in str(miss)


def test_a_miss_prefers_what_is_most_like_here(records: TrialRecords) -> None:
    older = trial(setting=replace(HERE, version="0.1"))
    records.add([older, trial(setting=replace(HERE, processor="another"))])
    assert records.best(TASK, HERE, FAR) == Miss(Reason.VERSION, older)


def test_failures_alone_are_a_miss(records: TrialRecords) -> None:
    assert records.best(TASK, HERE, FAR) == Miss(Reason.NONE, None)
    assert str(records.best(TASK, HERE, FAR)) == "no record of this task"
    records.add([trial(outcome=Crashed("signal 11"))])
    assert records.best(TASK, HERE, FAR) == Miss(Reason.FAILED, None)


def test_figures_are_of_weights_in_one_place(records: TrialRecords) -> None:
    """What is fastest where weights come from memory need not be where they are near."""
    far, near = trial(LOOPS, Timed(2.0)), trial(TILE, Timed(1.0), weights=NEAR)
    records.add([far, near])
    assert records.best(TASK, HERE, FAR) == far
    assert records.of_task(TASK, HERE, NEAR) == (near,)
    miss = records.best(TASK, HERE, WeightsPlace.SHARED)
    assert miss == Miss(Reason.WEIGHTS, near)
    assert str(miss) == "records of this task in runs of another size only (weights near)"


def test_a_file_of_the_first_version_is_read_on(tmp_path: Path) -> None:
    path, trials = tmp_path / "trials.sqlite", [trial(LOOPS), trial(TILE, weights=NEAR)]
    TrialRecords(path).add(trials[:1])
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE trials DROP COLUMN weights")
        connection.execute("PRAGMA user_version = 1")
        connection.execute("DROP TABLE races")
        connection.execute("DROP TABLE model_races")
    connection.close()
    records = TrialRecords(path)
    assert records.add(trials) == 1
    assert set(TrialRecords(path).all()) == set(trials)


def without_races(path: Path) -> None:
    """Makes a file one of the second version."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE races")
        connection.execute("DROP TABLE model_races")
        connection.execute("PRAGMA user_version = 2")
    connection.close()


def test_a_file_without_races_is_read_as_it_is_and_gets_them(records: TrialRecords) -> None:
    records.add([trial()])
    without_races(records.path)
    content = records.path.read_bytes()
    again = TrialRecords(records.path)
    assert again.all() == (trial(),)
    assert again.races_of(TASK, HERE, FAR) == ()
    assert records.path.read_bytes() == content
    assert again.add_races([race()]) == 1
    assert again.all_races() == (race(),)
    assert again.all() == (trial(),)


def test_a_file_without_races_of_models_is_read_as_it_is_and_gets_them(
    records: TrialRecords,
) -> None:
    records.add_races([race()])
    with sqlite3.connect(records.path) as connection:
        connection.execute("DROP TABLE model_races")
        connection.execute("PRAGMA user_version = 3")
    connection.close()
    content = records.path.read_bytes()
    again = TrialRecords(records.path)
    assert again.all_races() == (race(),)
    assert again.all_model_races() == again.model_races_of(TASK, HERE) == ()
    assert records.path.read_bytes() == content
    assert again.add_model_races([model_race()]) == 1
    assert again.all_model_races() == (model_race(),)
    assert again.all_races() == (race(),)


def test_races_of_models_come_back_and_are_there_once(records: TrialRecords) -> None:
    races = [model_race(0.5), model_race(0.6)]
    elsewhere = [model_race(setting=replace(HERE, compiler="clang")), model_race(model=OTHER)]
    assert records.add_model_races([*races, *elsewhere]) == 4
    assert records.add_model_races(races) == 0
    assert set(records.model_races_of(TASK, HERE)) == set(races)
    assert set(records.all_model_races()) == {*races, *elsewhere}
    assert records.all_races() == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("race = '{'", "expected a JSON object"),
        ("race = x'ff'", "race: expected text"),
        (f"model = '{OTHER}'", "race: expected one of that model"),
    ],
)
def test_a_row_that_says_no_race_of_a_model_is_told_of_and_passed_over(
    records: TrialRecords, change: str, said: str
) -> None:
    records.add_model_races([model_race()])
    with sqlite3.connect(records.path) as connection:
        connection.execute(f"UPDATE model_races SET {change}")
    connection.close()
    told: list[str] = []
    assert TrialRecords(records.path, tell=told.append).all_model_races() == ()
    (line,) = told
    assert line.startswith(f"{records.path}: expected a race of model ")
    assert said in line
    assert line.endswith("; passed over")


def test_races_come_back_and_are_there_once(records: TrialRecords) -> None:
    races = [race(0.5), race(0.6), race(0.7, weights=NEAR)]
    elsewhere = [race(setting=replace(HERE, compiler="clang")), race(task=OTHER)]
    assert records.add_races([*races, *elsewhere]) == 5
    assert records.add_races(races) == 0
    assert set(records.races_of(TASK, HERE, FAR)) == set(races[:2])
    assert records.races_of(TASK, HERE, NEAR) == (races[2],)
    assert set(records.all_races()) == {*races, *elsewhere}
    assert records.count() == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("race = '{'", "expected a JSON object"),
        ("race = x'ff'", "race: expected text"),
        (f"task = '{OTHER}'", "race: expected one of that task"),
    ],
)
def test_a_row_that_says_no_race_is_told_of_and_passed_over(
    records: TrialRecords, change: str, said: str
) -> None:
    records.add_races([race()])
    with sqlite3.connect(records.path) as connection:
        connection.execute(f"UPDATE races SET {change}")
    connection.close()
    told: list[str] = []
    assert TrialRecords(records.path, tell=told.append).all_races() == ()
    (line,) = told
    assert line.startswith(f"{records.path}: expected a race of task ")
    assert said in line
    assert line.endswith("; passed over")


def test_the_best_of_a_kind(records: TrialRecords) -> None:
    records.add(
        [
            trial(TILE, Timed(2.0)),
            trial(LOOPS, Timed(1.0)),
            trial(ROWS, Timed(3.0), task=OTHER),
            trial(WINDOW, Timed(0.1), task="2" * 32, kind="window"),
            trial(ATTENTION, Timed(0.1), setting=replace(HERE, threads=2)),
        ]
    )
    found = records.best_of_kind("sum", HERE)
    assert [(t.task, t.schedule) for t in found] == [(TASK, LOOPS), (OTHER, ROWS)]


# Files that are handed around


def test_lines_of_json_and_back(records: TrialRecords, tmp_path: Path) -> None:
    trials = [trial(LOOPS), trial(TILE, Crashed("it\nfell"))]
    records.add(trials)
    records.add_races([race()])
    records.add_model_races([model_race()])
    path = tmp_path / "sub" / "trials.jsonl"
    assert export_trials(records, path) == 4
    assert [entry.name for entry in path.parent.iterdir()] == ["trials.jsonl"]
    other = TrialRecords(tmp_path / "other.sqlite")
    found = import_trials(other, path)
    assert (found.added, found.known, found.skipped) == (4, 0, ())
    assert import_trials(other, path).known == 4
    assert set(other.all()) == set(trials)
    assert other.all_races() == (race(),)
    assert other.all_model_races() == (model_race(),)
    export_trials(other, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


def test_a_corrupt_line_is_named_and_skipped(records: TrialRecords, tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    good = trial_text(trial()).encode()
    path.write_bytes(
        b"\n".join((good, b"{]", b"", b"\xff\xfe", b'{"task":1}', b"x" * (1 << 21), good[:-9]))
    )
    found = import_trials(records, path)
    assert (found.added, found.known) == (1, 0)
    assert [line.split(":")[1] for line in found.skipped] == ["2", "4", "5", "6", "7"]
    assert all(line.startswith(f"{path}:") for line in found.skipped)
    assert all(line.endswith("; skipped") and "\n" not in line for line in found.skipped)


def test_files_of_trials_are_merged(records: TrialRecords, tmp_path: Path) -> None:
    records.add([trial(LOOPS), trial(TILE)])
    other = TrialRecords(tmp_path / "other.sqlite")
    other.add([trial(TILE), trial(ROWS)])
    other.add_races([race()])
    other.add_model_races([model_race()])
    found = import_trials(records, other.path)
    assert (found.added, found.known, found.skipped) == (3, 1, ())
    assert records.count() == 3
    assert records.all_races() == (race(),)
    assert records.all_model_races() == (model_race(),)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=3, max_size=3))
def test_merging_is_a_union(
    tmp_path_factory: pytest.TempPathFactory, parts: Sequence[Sequence[int]]
) -> None:
    """In any order, any number of times."""
    folder = tmp_path_factory.mktemp("merged")
    files = [TrialRecords(folder / f"{n}.sqlite") for n in range(3)]
    for file, numbers in zip(files, parts, strict=True):
        file.add(trial(outcome=Timed(1.0 + n)) for n in numbers)
    forward, backward = (TrialRecords(folder / f"{name}.sqlite") for name in ("f", "b"))
    for file in files:
        import_trials(forward, file.path)
    for file in (*reversed(files), *files):
        import_trials(backward, file.path)
    assert forward.all() == backward.all()
    assert forward.count() == len({n for numbers in parts for n in numbers})


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_what_cannot_be_read_is_refused(records: TrialRecords, tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordsError, match="expected a file of trials, got"):
        import_trials(records, tmp_path / name)


# Files that cannot be used


def refusal(path: Path) -> str:
    with pytest.raises(RecordsError) as caught:
        TrialRecords(path).all()
    message = str(caught.value)
    assert message.startswith(f"{path}: expected a file of trials, got ")
    assert "\n" not in message
    return message


def test_a_text_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "text.sqlite"
    path.write_text("no database, and long enough to be seen as such" * 50)
    content = path.read_bytes()
    assert "name another file, or remove it" in refusal(path)
    assert path.read_bytes() == content


def test_a_damaged_file_is_refused(records: TrialRecords) -> None:
    records.add(trial(outcome=Timed(n + 1.0)) for n in range(200))
    content = bytearray(records.path.read_bytes())
    content[4096:] = bytes(255 for _ in content[4096:])
    records.path.write_bytes(content)
    assert "name another file, or remove it" in refusal(records.path)


def test_files_of_others_and_of_the_future_are_refused(
    records: TrialRecords, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    assert "a database of another program; name another file" in refusal(tmp_path / "other.sqlite")
    with sqlite3.connect(records.path) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()
    assert "one of version 9, where this Tasor reads 4; use a newer Tasor" in refusal(records.path)


def test_a_row_that_says_no_trial_is_told_of_and_passed_over(records: TrialRecords) -> None:
    records.add([trial(TILE, Timed(2.0)), trial(LOOPS, Timed(1.0))])
    with sqlite3.connect(records.path) as connection:
        connection.execute("UPDATE trials SET schedule = '{' WHERE seconds = 1.0")
    connection.close()
    told: list[str] = []
    again = TrialRecords(records.path, tell=told.append)
    best = again.best(TASK, HERE, FAR)
    assert isinstance(best, Trial)
    assert best.schedule == TILE
    (line,) = told
    assert line.startswith(f"{records.path}: expected a trial of task ")
    assert line.endswith("; passed over")


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert "name a file in a folder that you may write to" in refusal(blocked / "below.sqlite")
    assert "name a file in a folder" in refusal(tmp_path)


def test_a_folder_that_may_only_be_read_is_read() -> None:
    # pytest's own folders are closed to other users.
    folder = Path(tempfile.mkdtemp())
    path = folder / "trials.sqlite"
    TrialRecords(path).add([trial()])
    path.chmod(0o444)
    folder.chmod(0o555)
    try:
        with unprivileged():
            again = TrialRecords(path)
            assert again.count() == 1
            with pytest.raises(RecordsError, match="in a folder that you may write to"):
                again.add([trial(LOOPS)])
    finally:
        shutil.rmtree(folder)


def test_a_locked_file_is_waited_for_and_then_refused(records: TrialRecords) -> None:
    records.add([trial()])
    holder = sqlite3.connect(records.path, isolation_level=None)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RecordsError, match="locked; end the process that keeps it locked"):
            TrialRecords(records.path, patience_seconds=0.05).count()
    finally:
        holder.close()
    assert records.count() == 1


PROGRAM = """
import itertools, resource, signal, sys
from tensorgen.tune.outcome import Timed
from tensorgen.tune.records import RecordsError, TrialRecords
from tensorgen.tune.fields import document_in
from tensorgen.tune.trial import trial_of
from dataclasses import replace

first = trial_of(document_in(sys.argv[2]))
def trial(seconds):
    return replace(first, outcome=Timed(seconds))
"""

FULL_DISK = """
records = TrialRecords(sys.argv[1])
records.add([first])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
try:
    records.add(trial(n + 1.0) for n in range(5000))
except RecordsError as error:
    print(error)
print(records.count())
"""

INTERRUPTED = """
records = TrialRecords(sys.argv[1])
for n in itertools.count():
    records.add(trial(n + 1.0 + k / 8) for k in range(4))
    print(n, flush=True)
"""

TOGETHER = """
for n in range(10):
    TrialRecords(sys.argv[1]).add([trial(float(sys.argv[3]) + n / 16)])
"""


def program(text: str, path: Path, *arguments: object) -> subprocess.Popen[str]:
    given = (path, trial_text(trial()), *arguments)
    return subprocess.Popen(
        (sys.executable, "-c", PROGRAM + text, *map(str, given)),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_full_disk_takes_nothing_away(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    with program(FULL_DISK, path) as process:
        said, count = process.communicate(timeout=300)[0].splitlines()
    assert said.startswith(f"{path}: expected a file of trials, got ")
    assert said.endswith("; make room on the disk; what the file held it still holds")
    assert count == "1"
    assert TrialRecords(path).all() == (trial(),)


def test_a_full_disk_leaves_the_exported_file_as_it_was(
    records: TrialRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.add([trial()])
    path = tmp_path / "trials.jsonl"
    export_trials(records, path)
    content = path.read_bytes()
    records.add([trial(LOOPS)])

    def no_room(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tensorgen.tune.records_file.os.fsync", no_room)
    with pytest.raises(
        RecordsError, match=r"expected room for 2 trials and races, got .*No space left"
    ):
        export_trials(records, path)
    assert path.read_bytes() == content
    assert {entry.name for entry in tmp_path.iterdir()} == {"deep", "trials.jsonl"}


def test_who_is_killed_loses_at_most_what_it_was_writing(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    with program(INTERRUPTED, path) as process:
        assert process.stdout is not None
        for _ in range(5):
            last = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
    count = TrialRecords(path).count()
    assert count >= 4 * (last + 1)
    assert count % 4 == 0


def test_processes_write_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    processes = [program(TOGETHER, path, start) for start in (1, 2, 3)]
    for process in processes:
        with process:
            assert process.communicate(timeout=300)[0] == ""
    assert TrialRecords(path).count() == 30

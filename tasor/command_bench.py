"""`tasor bench`: Tasor beside its peers, on a suite or on models of one's own.

What it does: finds the cases, has `tasor.peers` measure them, and says what came out. What it does
not: time anything itself.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import onnx

from graphopt.onnx_import.errors import ModelError, printable
from tasor.compiled_model import check_runs_here
from tasor.errors import UsageError, one_line
from tasor.peak_guest import PEAK_GUESTS, with_peak
from tasor.peer_cases import Case, graph_inputs, write_case
from tasor.peer_engines import ENGINES, TUNED, require_engines
from tasor.peer_report import AGREEMENT, threads_text
from tasor.peer_tuning import faster_schedules
from tasor.peers import Comparison, Failure, Row, pinned_cpus
from tasor.pipeline import settings_of
from tasor.reporter import Reporter
from tasor.roofline import Ceiling, ceiling
from tasor.suites.sources import SUITES, Source, sources
from tasor.tune_request import TuneRequest
from tensorgen.calibration import CalibrationError, calibrate
from tensorgen.schedule import Schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import Array, Shape


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What to measure. Of `suites`, each is a name in SUITES or the path of a model, for which
    `shapes` and `bindings` fix inputs, those that it has; `target` and `winograd` are those of
    `tasor.compile`. With `trials` Tasor takes part once more, tuned by so many for each kernel, or,
    if they are 0, by those in the file `records`. With `peak`, plain multiply-adds and those of a
    fed tile take their turns, too, and shares of the peaks are of what these reached."""

    suites: tuple[str, ...]
    threads: tuple[int, ...]
    batches: tuple[int, ...]
    only: str
    engines: tuple[str, ...]
    shapes: Mapping[str, Shape]
    target: str
    winograd: bool
    seconds: float
    rounds: int
    trials: int | None = None
    records: Path | None = None
    peak: bool = False
    bindings: Mapping[str, Array] = field(default_factory=dict)


def checked_engines(against: Sequence[str], *, tuned: bool = False) -> tuple[str, ...]:
    """Tasor, if wanted also as tuned, and its peers; UsageError for an unknown one, MissingPackage
    for a missing one."""
    names = tuple(dict.fromkeys(name.strip() for word in against for name in word.split(",")))
    for name in names:
        if name not in ENGINES or name == "tasor":
            peers = ", ".join(engine for engine in ENGINES if engine != "tasor")
            raise UsageError(
                f"--against: expected names among {peers}, got {printable(name)!r}; choose one"
            )
    engines = ("tasor", *([TUNED] if tuned else []), *names)
    require_engines(names)
    return engines


def check_options(options: BenchOptions) -> None:
    """UsageError for numbers that make no sense here, and for a target that this machine is not;
    TargetError for one that is not known."""
    for threads in options.threads:
        try:
            pinned_cpus(threads)
        except ValueError as error:
            raise UsageError(f"--{error}; choose fewer") from error
    check_runs_here(Target.named(options.target))
    if not 0 < options.seconds < float("inf"):
        raise UsageError(
            f"--seconds: expected a number above 0, got {options.seconds}; choose 1, say"
        )
    if options.rounds < 1:
        raise UsageError(f"--rounds: expected at least 1, got {options.rounds}; choose 5, say")
    if options.trials == 0 and options.records is None:
        raise UsageError(
            "--trials: expected at least 1, or a file of trials, got 0; choose 64, say, or name "
            "one by --records"
        )


def sources_of(options: BenchOptions) -> tuple[Source, ...]:
    """The cases to measure. UsageError if none matches."""
    try:
        only = re.compile(options.only)
    except re.error as error:
        raise UsageError(
            f"--only: expected a regular expression, got {printable(options.only)!r}: {error}; "
            "correct it"
        ) from error
    if not options.suites:
        raise UsageError(
            f"--suite: expected one of {', '.join(SUITES)} or the path of a model, got nothing; "
            "name one"
        )
    found: list[Source] = []
    one = sum(suite not in SUITES for suite in options.suites) == 1
    for suite in options.suites:
        if suite in SUITES:
            found += sources(suite, options.batches, only)
        else:
            found += [_model_source(Path(suite), options.shapes, options.bindings, one)]
    if not found:
        raise UsageError(
            f"--only: expected a case of the suite, got none that matches "
            f"{printable(options.only)!r}; choose another expression"
        )
    return tuple(found)


def _model_source(
    path: Path, shapes: Mapping[str, Shape], bindings: Mapping[str, Array], one: bool
) -> Source:
    """A model file. Where it is not the only `one`, inputs may be those of another one."""

    def write(target: Path) -> Case:
        try:
            model = onnx.load(path)
        except OSError as error:
            raise ModelError(
                f"model {printable(path)!r}: expected a readable file, got "
                f"{printable(error.strerror)}; check its path"
            ) from error
        except Exception as error:  # protobuf's exceptions have no common base
            raise ModelError(
                f"model {printable(path)!r}: expected an ONNX model, got other or truncated data"
            ) from error
        names = {value.name for value in graph_inputs(model)}
        return write_case(
            target, model, name=path.stem, group="models",
            shapes={name: shape for name, shape in shapes.items() if one or name in names},
            bindings={name: array for name, array in bindings.items() if one or name in names},
        )  # fmt: skip

    return Source(path.stem, write)


def measure(cases: Sequence[Source], options: BenchOptions, reporter: Reporter) -> tuple[Row, ...]:
    """Every case on every engine for every number of threads."""
    rows: list[Row] = []
    total = len(cases) * len(options.threads)
    chosen = {"target": options.target, "winograd": options.winograd}
    asked = PEAK_GUESTS if options.peak else {}
    guests = {name: partial(peak, options.target) for name, peak in asked.items()}
    with tempfile.TemporaryDirectory(prefix="tasor-bench-") as folder:
        for threads in options.threads:
            with Comparison(options.engines, threads, options=chosen, guests=guests) as comparison:
                for source in cases:
                    path = Path(folder, f"{len(rows)}.onnx")
                    case = source.write(path)
                    row = comparison.measure(
                        case,
                        seconds=options.seconds,
                        rounds=options.rounds,
                        schedules=_schedules(case, threads, options, reporter),
                    )
                    path.unlink()
                    rows.append(with_peak(row, options.target))
                    for result in row.results:
                        if isinstance(result, Failure) and result.engine in PEAK_GUESTS:
                            reporter.say(f"without a peak in turns: {printable(result.message)}")
                    reporter.say(f"{len(rows)}/{total} {_progress(rows[-1])}")
    return tuple(rows)


def _schedules(
    case: Case, threads: int, options: BenchOptions, reporter: Reporter
) -> Mapping[Task, Schedule] | None:
    """Those of Tasor as tuned; None where it does not take part."""
    if options.trials is None:
        return None
    settings = settings_of(options.target, threads, winograd=options.winograd)
    return faster_schedules(case, settings, TuneRequest(options.trials, options.records), reporter)


def _progress(row: Row) -> str:
    figures = [
        f"{result.engine} failed"
        if isinstance(result, Failure)
        else f"{result.engine} {result.milliseconds:.4g} ms"
        for result in row.results
    ]
    ratios = [("ratio", row.ratio), ("tuned ratio", row.tuned_ratio), ("gain", row.gain)]
    figures += [f"{name} {ratio:.2f}" for name, ratio in ratios if ratio is not None]
    return f"{printable(row.case)}, {threads_text(row.threads)}: {', '.join(figures)}"


def measured_ceilings(options: BenchOptions, reporter: Reporter) -> tuple[Ceiling, ...]:
    """The limits of this machine under the target for each number of threads, from a calibration.

    None, and a remark, where the machine cannot be measured: a comparison does without.
    """
    try:
        target, threads = Target.named(options.target), options.threads
        found = calibrate(target, max(threads), tell=reporter.say)
    except CalibrationError as error:
        reporter.say(f"without shares of the peak: {one_line(error)}")
        return ()
    return tuple(ceiling(found.machine, count) for count in sorted(set(threads)))


def all_agree(rows: Sequence[Row]) -> bool:
    """Whether every engine ran every case and no output is far from the reference's."""
    return not any(
        isinstance(result, Failure)
        or (result.deviation is not None and not result.deviation <= AGREEMENT)
        for row in rows
        for result in row.results
    )

"""The command `tasor`: what may be typed, and what is answered.

What it does: declares the commands and their options, prints results to stdout and everything
else to stderr, and turns every exception into one line and an exit code: 0 done, 1 the answer is
no, 2 unknown, 64 wrong usage, 65 bad input, 69 a tool is missing, 70 a bug of ours, 130
interrupted. What it does not: any of the work.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer

from graphopt.onnx_import.errors import printable
from tasor.command_compile import (
    CompileOptions,
    compilation_document,
    compile_into,
    compiled,
    saved_document,
    saved_line,
)
from tasor.command_line_bench import bench, with_repeated_options
from tasor.command_line_calibrate import calibrate
from tasor.command_line_options import (
    Bindings,
    JsonFlag,
    NoWinograd,
    Quiet,
    Shapes,
    Strict,
    TargetName,
    Threads,
)
from tasor.command_line_rules import rules
from tasor.command_line_tune import tune
from tasor.command_optimize import OptimizeOptions, optimize_into, report_document
from tasor.command_run import Ran, run_folder, run_model
from tasor.command_show import folder_views, model_views
from tasor.errors import (
    EXIT_BUG,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    UsageError,
    exit_code,
    one_line,
)
from tasor.interrupts import raise_for_signals
from tasor.library_folder import read_library_folder
from tasor.options import named_arrays, named_shapes
from tasor.reporter import STEPS, Reporter, Verbosity
from tasor.terminal import draw, print_json, print_line
from tensorgen.build import BuildError
from tensorgen.module_spec import WeightMode
from tensorgen.own_process import set_up_own_process
from tensorgen.version import tasor_version

app = typer.Typer(
    name="tasor",
    help="Compiles ONNX models to self-contained C.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(rules)
app.command("calibrate")(calibrate)
app.command("tune")(tune)

# typer has carried its own copy of click since 0.20; this is the base of usage errors in both.
_CLICK_ERROR: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

Model = Annotated[str, typer.Argument(metavar="MODEL", help="an ONNX file")]
ModelOrFolder = Annotated[
    str, typer.Argument(metavar="MODEL|DIR", help="an ONNX file, or a folder that compile wrote")
]
Trials = Annotated[
    int, typer.Option("--trials", metavar="N", help="schedules to measure for each kernel")
]
Records = Annotated[
    Path | None,
    typer.Option(
        "--records", metavar="FILE.sqlite", help="trials on file; without --trials, use the best"
    ),
]
Weights = Annotated[
    str | None,
    typer.Option("--weights", metavar="c|object|file", help="where constants are kept"),
]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="the library's name in C")]
Verbose = Annotated[
    int,
    typer.Option(
        "-v", "--verbose", count=True, help="summary; -vv steps, -vvv schedules, -vvvv the C"
    ),
]
Dump = Annotated[
    Path | None,
    typer.Option("--dump", metavar="DIR", help="write what each stage made to numbered files"),
]
NoSearch = Annotated[bool, typer.Option("--no-search", help="apply only the rules that always pay")]
Winograd = Annotated[
    bool, typer.Option("--winograd", help="let the search use minimal filtering: it rounds more")
]
MachineName = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="FILE|calibrated",
        help="constants to choose schedules by; see calibrate",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="fixes all randomness")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tasor {tasor_version()}")
        raise typer.Exit


@app.callback()
def _tasor(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    pass


@app.command("compile")
def _compile(
    model: Model,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="the new folder")],
    shape: Shapes = [],  # noqa: B006
    bind: Bindings = [],  # noqa: B006
    target: TargetName = "host",
    threads: Threads = None,
    machine: MachineName = None,
    trials: Trials = 0,
    records: Records = None,
    no_search: NoSearch = False,
    no_winograd: NoWinograd = False,
    strict: Strict = False,
    weights: Weights = None,
    name: Name = None,
    json_output: JsonFlag = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    dump: Dump = None,
    seed: Seed = 0,
) -> None:
    """Write a model as a self-contained C library."""
    options = _options(shape, bind, target, threads, trials, strict, weights, name)
    options = replace(
        options, search=not no_search, winograd=not no_winograd, machine=machine,
        records=records, seed=seed,
    )  # fmt: skip
    with Reporter(Verbosity(verbose, not (quiet or json_output), dump)) as reporter:
        result, saved = compile_into(model, output, options, reporter)
    if json_output:
        print_json(saved_document(result, saved))
    elif not quiet:
        print_line(saved_line(result, saved))
        if saved.no_self_test is not None:
            print_line(f"no self-test: {saved.no_self_test}")


@app.command("run")
def _run(
    model: ModelOrFolder,
    inputs: Annotated[
        list[str], typer.Option("--input", metavar="NAME=x.npy", help="default: random, seeded")
    ] = [],  # noqa: B006
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="where to write outputs")
    ] = None,
    shape: Shapes = [],  # noqa: B006
    target: TargetName = "host",
    threads: Threads = None,
    machine: MachineName = None,
    strict: Strict = False,
    json_output: JsonFlag = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    dump: Dump = None,
    seed: Seed = 0,
) -> None:
    """Run a model once, write its outputs, and say how long a run takes."""
    given = named_arrays(inputs, "--input")
    with Reporter(Verbosity(verbose, not (quiet or json_output), dump)) as reporter:
        if os.path.isdir(model):
            fixed = (shape, threads is not None, machine is not None, strict, target != "host")
            if any(fixed):
                raise UsageError(
                    "run DIR: expected no --shape, --target, --threads, --machine or --strict, got "
                    "one; they are fixed when the folder is compiled"
                )
            ran = run_folder(Path(model), given, seed, output, reporter)
        else:
            options = _options(shape, [], target, threads, 0, strict, None, None)
            options = replace(options, machine=machine)
            ran = run_model(model, given, options, seed, output, reporter)
    if json_output:
        print_json(_ran_document(ran, seed))
    elif not quiet:
        for line in _ran_lines(ran, seed, output):
            print_line(line)


@app.command("show")
def _show(
    model: ModelOrFolder,
    shape: Shapes = [],  # noqa: B006
    bind: Bindings = [],  # noqa: B006
    target: TargetName = "host",
    threads: Threads = None,
    machine: MachineName = None,
    strict: Strict = False,
    weights: Weights = None,
    json_output: JsonFlag = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    dump: Dump = None,
) -> None:
    """Show graph, tasks, arena and kernels of a model, or a library's; -v adds the whole graph."""
    with Reporter(Verbosity(max(0, verbose - 1), not (quiet or json_output), dump)) as reporter:
        if os.path.isdir(model):
            library = read_library_folder(Path(model))
            views, content = folder_views(library), dict(library.description)
        else:
            options = _options(shape, bind, target, threads, 0, strict, weights, None)
            options = replace(options, machine=machine)
            result = compiled(model, options, reporter)
            views = model_views(result, with_graph=verbose > 0)
            content = compilation_document(result)
    if json_output:
        print_json(content)
    elif not quiet:
        draw(*views)


@app.command("optimize")
def _optimize(
    model: Model,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT.onnx", help="the optimized model")
    ],
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.html", help="what was done")
    ] = None,
    shape: Shapes = [],  # noqa: B006
    bind: Bindings = [],  # noqa: B006
    target: TargetName = "host",
    threads: Threads = None,
    budget: Annotated[
        float | None, typer.Option("--budget", metavar="SECONDS", help="of the search, at most")
    ] = None,
    graphs: Annotated[
        int | None, typer.Option("--graphs", metavar="N", help="weighed for each distinct region")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option("--alpha", metavar="A", help="how much dearer steps may be")
    ] = None,
    measure_kernels: Annotated[
        bool, typer.Option("--measure", help="weigh kernels by timing them")
    ] = False,
    no_search: NoSearch = False,
    winograd: Winograd = False,
    discovered: Annotated[
        bool, typer.Option("--discovered", help="search with the rules found by enumeration, too")
    ] = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="neither time nor compare the graphs")
    ] = False,
    json_output: JsonFlag = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    dump: Dump = None,
) -> None:
    """Optimize a model's graph and write it as ONNX, for any runtime."""
    options = OptimizeOptions(
        shapes=named_shapes(shape),
        bindings=named_arrays(bind, "--bind"),
        target=target,
        threads=threads,
        search=not no_search,
        budget=budget,
        graphs=graphs,
        alpha=alpha,
        measure=measure_kernels,
        winograd=winograd,
        discovered=discovered,
        run=not no_run,
    )
    with Reporter(Verbosity(verbose, not (quiet or json_output), dump)) as reporter:
        result = optimize_into(model, output, report, options, reporter)
    if json_output:
        print_json(report_document(result.report))
    elif not quiet:
        print_line(f"{printable(output)}: {result.report}")


app.command("bench")(bench)


def _options(
    shape: Sequence[str],
    bind: Sequence[str],
    target: str,
    threads: int | None,
    trials: int,
    strict: bool,
    weights: str | None,
    name: str | None,
) -> CompileOptions:
    return CompileOptions(
        shapes=named_shapes(shape),
        bindings=named_arrays(bind, "--bind"),
        target=target,
        threads=threads,
        trials=trials,
        strict=strict,
        weights=_weight_mode(weights),
        name=name,
    )


def _weight_mode(word: str | None) -> WeightMode | None:
    match word:
        case None | "c" | "object" | "file":
            return word
        case _:
            raise UsageError(
                f"--weights: expected c, object or file, got {printable(word)!r}; choose one"
            )


def _ran_lines(ran: Ran, seed: int, folder: Path | None) -> list[str]:
    lines = []
    if ran.random:
        names = ", ".join(printable(name) for name in ran.random)
        lines.append(f"random inputs (seed {seed}): {names}")
    for port, array in ran.outputs:
        span = f", from {array.min()} to {array.max()}" if array.size else ""
        lines.append(f"output {printable(port.name)}: {port.type}{span}")
    if folder is not None:
        lines.append(f"{printable(folder)}: {', '.join(ran.files)}")
    lines.append(f"{ran.timed.milliseconds:.4g} ms, median of {ran.timed.calls} runs")
    return lines


def _ran_document(ran: Ran, seed: int) -> dict[str, object]:
    return {
        "median_ms": ran.timed.milliseconds,
        "runs": ran.timed.calls,
        "seed": seed,
        "random_inputs": list(ran.random),
        "outputs": [
            {
                "name": port.name,
                "dtype": port.type.dtype.name,
                "shape": list(port.type.shape),
                # As text: JSON knows no infinity and no NaN.
                "least": str(array.min()) if array.size else None,
                "greatest": str(array.max()) if array.size else None,
            }
            for port, array in ran.outputs
        ],
        "files": list(ran.files),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line given by `words`, the process's own if None; returns the exit code."""
    if words is None:
        words = sys.argv[1:]
        raise_for_signals()
        set_up_own_process()
    for stream in (sys.stdout, sys.stderr):
        # Names out of models may hold what the terminal's encoding cannot spell.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=with_repeated_options(words), prog_name="tasor", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not flush the rest.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except (Exception, KeyboardInterrupt) as error:
        return _answer(error, _level(words))
    if code == EXIT_INTERRUPTED:
        # What newer typers make of an interrupt.
        return _answer(KeyboardInterrupt(), 0)
    return code if isinstance(code, int) else EXIT_DONE


def _level(words: Sequence[str]) -> int:
    """How often -v was given, in words that may be no command at all."""
    return sum(len(word) - 1 for word in words if re.fullmatch("-v+", word))


def _answer(error: BaseException, level: int) -> int:
    """Says what went wrong; returns the exit code for it."""
    if isinstance(error, _CLICK_ERROR):
        format_message: Any = getattr(error, "format_message", None)
        text = str(format_message()).strip()
        if type(error).__name__ == "NoArgsIsHelpError":
            _complain(text)
        else:
            _complain(f"tasor: {' '.join(text.split()).rstrip('.')}; see tasor --help")
        return EXIT_USAGE
    if isinstance(error, typer.Abort):
        error = KeyboardInterrupt()
    code = exit_code(error)
    if code == EXIT_BUG:
        _complain(_bug_line(error, level))
    else:
        _complain(f"tasor: {one_line(error)}")
    if level >= STEPS and code != EXIT_INTERRUPTED:
        if isinstance(error, BuildError):
            _complain(error.log)
        elif code == EXIT_BUG:
            _complain("".join(traceback.format_exception(error)))
    return code


def _bug_line(error: BaseException, level: int) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    text = f": {printable(error)}" if str(error) else ""
    more = "" if level >= STEPS else " that -vv shows"
    return (
        f"tasor: internal error: {type(error).__name__}{place}{text}; this is a bug of Tasor: "
        f"please report it with the command, the model and the traceback{more}"
    )


def _complain(text: str) -> None:
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)

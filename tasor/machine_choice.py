"""Which machine's constants a compilation goes by: those typical for the target, unless it is told.

What it does: reads `--machine calibrated` and `--machine FILE`, where FILE is what
`tasor calibrate --json` wrote. What it does not: measure (`tensorgen.calibration`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from graphopt.onnx_import.errors import printable
from tasor.errors import InputFileError
from tensorgen.calibration import calibrate
from tensorgen.machine import Machine, MachineError, machine_of
from tensorgen.target import Target

CALIBRATED = "calibrated"

MachineSource = Machine | str | Path
"""A machine, the word "calibrated" for this one as measured, or the path of a file."""


def chosen_machine(
    source: MachineSource | None, target: Target, threads: int, tell: Callable[[str], None]
) -> Machine | None:
    """The machine that is meant; None for the constants that are typical for the target.

    Raises InputFileError for a file that is none of this target, and, if this machine is meant, as
    `calibrate`. `tell` gets its remarks.
    """
    match source:
        case None | Machine():
            return source
        case str() if source == CALIBRATED:
            return calibrate(target, threads, tell=tell).machine
        case _:
            return _read(Path(source), target)


def _read(path: Path, target: Target) -> Machine:
    place = f"machine {printable(path)!r}"
    advice = f"write it with tasor calibrate --target {target.name} --json FILE"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror if error.strerror is not None else error
        raise InputFileError(
            f"{place}: expected a readable file or the word {CALIBRATED}, got {printable(reason)}; "
            "check its path"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputFileError(f"{place}: expected JSON, got other data; {advice}") from error
    made_for = content.get("target") if isinstance(content, dict) else None
    if made_for != target.name:
        raise InputFileError(
            f"{place}: expected a calibration for {target.name}, got one for "
            f"{printable(made_for)[:60]}; {advice}"
        )
    try:
        return machine_of(content.get("machine"))
    except MachineError as error:
        raise InputFileError(f"{place}: {printable(error)}") from error

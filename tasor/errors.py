"""What a user can do wrong at the front door, and the exit code that answers each mistake.

What it does: names the mistakes that no lower layer knows, and maps every exception that the
layers raise on purpose to an exit code. What it does not: print. An exception without an exit code
is a bug of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from graphopt.enumerate import EnumerationError
from graphopt.onnx_export.errors import ExportError
from graphopt.onnx_import.errors import ModelError, printable
from graphopt.pattern import RuleError
from tasor.peer_cases import CaseError
from tasor.peer_engines import MissingPackage
from tensorgen.build import BuildError, ToolMissing
from tensorgen.calibration import CalibrationError
from tensorgen.library import InputError, RunError
from tensorgen.target import TargetError
from tensorgen.tune.cluster_address import AddressError
from tensorgen.tune.measurer import MeasureError
from tensorgen.tune.records import RecordsError
from tensorgen.types import ShapeError

EXIT_DONE = 0
EXIT_NO = 1
EXIT_UNKNOWN = 2
EXIT_USAGE = 64
EXIT_BAD_INPUT = 65
EXIT_TOOL_MISSING = 69
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class UsageError(ValueError):
    """What was asked for makes no sense. One line: place, expected, got, what to do."""


class OutputError(UsageError):
    """An output cannot be written where it was asked for. The message is one line."""


class InputFileError(ValueError):
    """A file given as an input is not what it has to be. The message is one line."""


_EXIT_CODES: Mapping[type[BaseException], int] = MappingProxyType(
    {
        UsageError: EXIT_USAGE,
        TargetError: EXIT_USAGE,
        AddressError: EXIT_USAGE,
        InputFileError: EXIT_BAD_INPUT,
        ModelError: EXIT_BAD_INPUT,
        RuleError: EXIT_BAD_INPUT,
        EnumerationError: EXIT_BAD_INPUT,
        ExportError: EXIT_BAD_INPUT,
        ShapeError: EXIT_BAD_INPUT,
        CaseError: EXIT_BAD_INPUT,
        InputError: EXIT_BAD_INPUT,
        RunError: EXIT_BAD_INPUT,
        RecordsError: EXIT_BAD_INPUT,
        MemoryError: EXIT_BAD_INPUT,
        OSError: EXIT_BAD_INPUT,
        ToolMissing: EXIT_TOOL_MISSING,
        BuildError: EXIT_TOOL_MISSING,
        CalibrationError: EXIT_TOOL_MISSING,
        MeasureError: EXIT_TOOL_MISSING,
        MissingPackage: EXIT_TOOL_MISSING,
        KeyboardInterrupt: EXIT_INTERRUPTED,
    }
)


def exit_code(error: BaseException) -> int:
    """The exit code for an exception; EXIT_BUG for one that no user can cause."""
    for kind in type(error).__mro__:
        if kind in _EXIT_CODES:
            return _EXIT_CODES[kind]
    return EXIT_BUG


def one_line(error: BaseException) -> str:
    """What the exception says, on one line without control characters."""
    match error:
        case KeyboardInterrupt():
            return "interrupted; no output was written"
        case MemoryError():
            return (
                "memory: expected enough for this model and these shapes, got too little; free "
                "some or choose smaller shapes"
            )
        case OSError():
            return f"system: expected files that can be read and written, got {printable(error)}"
    words = " ".join(str(error).split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)

"""What the command line's words mean: shapes, files, numbers and the names they belong to.

What it does: reads `NAME=1,3,224,224`, `NAME=x.npy` and `NAME=2.5`, and loads arrays from files
without running anything that is in them. What it does not: know any model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from graphopt.onnx_import.errors import printable
from tasor.errors import InputFileError, UsageError
from tensorgen.types import Array, Shape

T = TypeVar("T")

_SIZE = re.compile(r"[0-9]{1,13}", re.ASCII)


def named_shapes(words: Sequence[str]) -> dict[str, Shape]:
    """Shapes by input name from words like `x=1,3,224,224`; `x=` is a scalar. UsageError.

    A name may hold any character: it ends at the last `=`.
    """
    shapes: dict[str, Shape] = {}
    for word in words:
        name, value = _split(word, "--shape", "1,3,224,224")
        sizes = value.split(",") if value else []
        if not all(_SIZE.fullmatch(size) for size in sizes):
            raise UsageError(
                f"--shape: expected sizes like 1,3,224,224 for {printable(name)!r}, got "
                f"{printable(value)!r}; write whole numbers with commas between them"
            )
        _add(shapes, name, tuple(map(int, sizes)), "--shape")
    return shapes


def named_arrays(words: Sequence[str], option: str) -> dict[str, Array]:
    """Arrays by input name from words like `x=x.npy`. UsageError, or InputFileError for a file."""
    arrays: dict[str, Array] = {}
    for word in words:
        name, value = _split(word, option, "x.npy")
        _add(arrays, name, load_array(Path(value)), option)
    return arrays


def named_numbers(words: Sequence[str], option: str) -> dict[str, float]:
    """Numbers by model from words like `bert=2.5`. UsageError for what is no number at all."""
    numbers: dict[str, float] = {}
    for word in words:
        name, value = _split(word, option, "2.5", "model")
        try:
            number = float(value)
        except ValueError:
            raise UsageError(
                f"{option}: expected a number for {printable(name)!r}, got {printable(value)!r}; "
                "choose 1, say"
            ) from None
        _add(numbers, name, number, option, "model")
    return numbers


def _split(word: str, option: str, example: str, kind: str = "input") -> tuple[str, str]:
    name, sign, value = word.rpartition("=")
    if not sign or not name:
        raise UsageError(
            f"{option}: expected NAME={example}, got {printable(word)!r}; put the {kind}'s name "
            "and an equals sign in front"
        )
    return name, value


def _add(known: dict[str, T], name: str, value: T, option: str, kind: str = "input") -> None:
    if name in known:
        raise UsageError(
            f"{option}: expected each {kind} once, got {printable(name)!r} twice; leave one out"
        )
    known[name] = value


def load_array(path: Path) -> Array:
    """The array in a .npy file; InputFileError if there is none."""
    place = f"file {printable(path)!r}"
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        reason = error.strerror if error.strerror is not None else error
        raise InputFileError(
            f"{place}: expected a readable .npy file, got {printable(reason)}; check its path"
        ) from error
    except (ValueError, EOFError, SyntaxError, TypeError, MemoryError, OverflowError) as error:
        raise InputFileError(
            f"{place}: expected an array as numpy.save writes it, got {printable(error)}; write it "
            "again with numpy.save"
        ) from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputFileError(
            f"{place}: expected one array, got an archive of several; write each with numpy.save"
        )
    return array


def as_stored(array: Array, dtype: np.dtype[np.generic]) -> Array:
    """The array under that dtype if the file could only say how wide its elements are.

    The .npy format has no name for bfloat16.
    """
    anonymous = array.dtype.kind == "V" and array.dtype.names is None
    return array.view(dtype) if anonymous and array.dtype.itemsize == dtype.itemsize else array


def check_names(given: Mapping[str, object], known: Sequence[str]) -> None:
    """UsageError if a name is given that is not known."""
    for name in sorted(given):
        if name not in known:
            listed = ", ".join(repr(printable(item)) for item in known)
            raise UsageError(
                f"--input: expected a name among {listed or 'none'}, got {printable(name)!r}; "
                "choose one of these"
            )

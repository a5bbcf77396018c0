"""The folder that `tasor compile -o DIR` writes: complete, or not there.

What it does: writes a library's files into a folder beside DIR and renames that into place. A DIR
that exists is replaced only if it is empty or holds nothing but what Tasor and the Makefile in it
made, so that a mistyped name costs nobody their files. What it does not: make the files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from graphopt.onnx_import.errors import printable
from tasor.errors import InputFileError, OutputError
from tasor.library_folder import find_description, read_library_folder
from tasor.output_file import check_writable, created_folders, partial_path, reason_of

_BUILD_PRODUCTS = (".o", ".a", ".so")


def check_output_folder(folder: Path) -> None:
    """Refuses, before any work is done, a DIR that `write_output_folder` would refuse.

    OutputError if it is a file, holds anything that Tasor did not make, or cannot be written.
    """
    try:
        place = folder.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise OutputError(
            f"output {printable(folder)!r}: expected a folder, got {printable(error)}; choose "
            "another place"
        ) from error
    check_writable(place)
    try:
        if os.path.lexists(place):
            _check_replaceable(place, folder)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _check_replaceable(place: Path, folder: Path) -> None:
    shown = printable(folder)
    if not place.is_dir():
        raise OutputError(
            f"output {shown!r}: expected a folder, got a file of that name; choose another name"
        )
    foreign = _foreign_files(place)
    if foreign:
        raise OutputError(
            f"output {shown!r}: expected a new or empty folder, or one that Tasor wrote, got one "
            f"with {printable(foreign[0])!r} in it; choose another or move that file away"
        )


def _foreign_files(place: Path) -> tuple[str, ...]:
    """Names in the folder that neither Tasor nor the Makefile it writes has made."""
    names = sorted(path.name for path in place.iterdir())
    if find_description(place) is None:
        return tuple(names)
    try:
        library = read_library_folder(place)
    except InputFileError:
        return tuple(names)
    own = {f"{library.name}.json", f"{library.name}_test", *library.digests}
    return tuple(
        name
        for name in names
        if name not in own and not (name.endswith(_BUILD_PRODUCTS) and library.name in name)
    )


def write_output_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes the files as the whole content of the folder, which appears or changes at once.

    Nothing is left behind if it fails or is interrupted. OutputError as `check_output_folder`
    says, or if the disk is full.
    """
    check_output_folder(folder)
    place = folder.resolve()
    try:
        with created_folders(place.parent):
            partial, old = partial_path(place), partial_path(place)
            try:
                partial.mkdir()
                for name, content in files.items():
                    (partial / name).write_bytes(content)
                _put_into_place(partial, place, old)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
                if place.exists():
                    shutil.rmtree(old, ignore_errors=True)
    except (OSError, ValueError) as error:
        raise _unwritable(folder, error) from error


def _put_into_place(partial: Path, place: Path, old: Path) -> None:
    """Renames; what was at `place` ends up at `old`, or back at `place` if anything fails."""
    try:
        # No system call that every system has puts a folder in place of one that is not empty.
        if place.exists():
            place.rename(old)
        partial.rename(place)
    except BaseException:
        if old.exists() and not place.exists():
            old.rename(place)
        raise


def _unwritable(folder: Path, error: OSError | ValueError) -> OutputError:
    if isinstance(error, PermissionError | FileExistsError):
        remedy = "choose another place or change its permissions"
    else:
        remedy = "choose another place or make room"
    return OutputError(
        f"output {printable(os.fspath(folder))!r}: expected a folder that can be written, got "
        f"{reason_of(error)}; {remedy}"
    )

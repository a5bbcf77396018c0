"""Outputs that appear whole or not at all: files written beside their place, renamed into it.

What it does: writes single files, and several files into one folder that may hold others. What it
does not: replace a folder (see `output_folder`).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from graphopt.onnx_import.errors import printable
from tasor.errors import OutputError


def reason_of(error: OSError | ValueError) -> str:
    """Why the system refused, in its words."""
    text = error.strerror if isinstance(error, OSError) else str(error)
    return printable(text) if text else type(error).__name__


def partial_path(path: Path) -> Path:
    """A name beside `path` that nobody else uses."""
    return path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.partial")


@contextmanager
def created_folders(folder: Path) -> Iterator[None]:
    """Creates the folder and those above it; an exception inside removes what was created."""
    missing: list[Path] = []
    current = folder
    while not current.exists():
        missing.append(current)
        current = current.parent
    try:
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
        yield
    except BaseException:
        for path in missing:
            # Whatever is not empty by now belongs to somebody else.
            with suppress(OSError):
                path.rmdir()
        raise


def check_file_place(path: Path) -> None:
    """Refuses, before any work is done, a path that no file can be written to; OutputError."""
    if not path.name:
        raise OutputError(
            f"output {printable(path)!r}: expected the name of a file, got none; add one"
        )
    if os.path.isdir(path):
        raise OutputError(
            f"output {printable(path)!r}: expected a file, got a folder; name a file inside it"
        )
    check_writable(path)


def check_writable(path: Path) -> None:
    """OutputError if the path is none for a file, or nothing can be created where it would be."""
    place = f"output {printable(path)!r}: expected"
    current = path
    while True:
        try:
            os.lstat(current)
        except (FileNotFoundError, NotADirectoryError):
            current = current.parent
        except (OSError, ValueError) as error:
            raise OutputError(
                f"{place} a name that can be written, got {reason_of(error)}; choose another place"
            ) from error
        else:
            break
    if current == path:
        current = path.parent
    if not os.path.isdir(current):
        raise OutputError(
            f"{place} a folder to put it in, got the file {printable(current)!r}; choose another "
            "place"
        )
    if not os.access(current, os.W_OK | os.X_OK):
        raise OutputError(
            f"{place} a folder that can be written, got {printable(current)!r}, which cannot; "
            "choose another place or change its permissions"
        )


def write_file(path: Path, content: bytes) -> None:
    """Writes one file; whatever was there stays until the new one is complete. OutputError."""
    check_file_place(path)
    write_files(path.parent, {path.name: content})


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files into a folder beside what else it holds: first all contents, then all names.

    OutputError if one of them cannot be written; then none of them is.
    """
    written: dict[Path, Path] = {}
    try:
        with created_folders(folder):
            try:
                for name, content in files.items():
                    partial = partial_path(folder / name)
                    written[partial] = folder / name
                    partial.write_bytes(content)
                for partial, path in written.items():
                    partial.replace(path)
            except BaseException:
                for partial in written:
                    partial.unlink(missing_ok=True)
                raise
    except (OSError, ValueError) as error:
        raise OutputError(
            f"output {printable(folder)!r}: expected names that can be written, got "
            f"{reason_of(error)}; choose another place"
        ) from error

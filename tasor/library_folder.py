"""A folder with a generated library, as `tasor compile` writes it, read back.

What it does: reads NAME.json and checks every field that the rest of Tasor relies on, because the
folder may have come from anywhere. What it does not: check the C beside it; to build and run a
folder is to run a program, and only for folders that one trusts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphopt.onnx_import.errors import printable
from tasor.errors import InputFileError
from tensorgen.module_spec import ABI_VERSION, WeightMode
from tensorgen.ports import Port, c_identifier
from tensorgen.target import Target
from tensorgen.types import ShapeError, TensorType, dtype_named

_LARGEST_DESCRIPTION = 2**28
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True)
class LibraryFolder:
    """What NAME.json says. `source_flags` names the files to compile, with the flags for each;
    `digests` has the SHA-256 of every file that was written. `description` is all of the JSON."""

    path: Path
    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    target: Target
    threads: int
    strict: bool
    weights: WeightMode
    source_flags: Mapping[str, tuple[str, ...]]
    digests: Mapping[str, str]
    description: Mapping[str, Any]

    def file(self, name: str) -> bytes:
        """The content of one of its files; InputFileError if it cannot be read."""
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise _wrong(self.path, f"the file {name}", printable(error.strerror)) from error

    def changed_files(self) -> tuple[str, ...]:
        """Those of its files that are not as Tasor wrote them, sorted."""
        return tuple(
            name
            for name in sorted(self.digests)
            if not (self.path / name).is_file()
            or hashlib.sha256(self.file(name)).hexdigest() != self.digests[name]
        )


def _wrong(path: Path, expected: str, got: str) -> InputFileError:
    return InputFileError(
        f"folder {printable(path)!r}: expected {expected}, got {got}; give an ONNX file or a "
        "folder that `tasor compile -o` wrote"
    )


def find_description(folder: Path) -> Path | None:
    """The one NAME.json in the folder that Tasor may have written; None if there is no such one."""
    found = [path for path in sorted(folder.glob("*.json")) if _is_description(path)]
    return found[0] if len(found) == 1 else None


def _is_description(path: Path) -> bool:
    try:
        content = _read_json(path)
    except (OSError, ValueError, RecursionError):
        return False
    return (
        isinstance(content, dict)
        and content.get("name") == path.stem
        and {"abi", "arena_bytes", "kernels", "sources_sha256"} <= content.keys()
    )


def _read_json(path: Path) -> Any:
    if path.stat().st_size > _LARGEST_DESCRIPTION:
        raise ValueError(f"expected at most {_LARGEST_DESCRIPTION} bytes")
    return json.loads(path.read_bytes())


def read_library_folder(folder: Path) -> LibraryFolder:
    """The library in a folder; InputFileError if there is none, or none that this version knows."""
    path = find_description(folder)
    if path is None:
        raise _wrong(folder, "one NAME.json of Tasor", "none, or several")
    content = _read_json(path)
    if content.get("abi") != ABI_VERSION:
        raise _wrong(folder, f"interface version {ABI_VERSION}", printable(content.get("abi")))
    try:
        return _parsed(folder, content)
    except (AttributeError, KeyError, TypeError, ValueError, ShapeError) as error:
        # A field is missing, or of another type or value than Tasor writes.
        raise _wrong(
            folder,
            f"{path.name} as Tasor writes it",
            f"one with a wrong field ({printable(error)})",
        ) from error


def _parsed(folder: Path, content: Mapping[str, Any]) -> LibraryFolder:
    name = content["name"]
    if c_identifier(name) != name:
        raise ValueError(f"name {name!r}")
    weights = content["weights"]
    if weights not in ("c", "object", "file"):
        raise ValueError(f"weights {weights!r}")
    flags = {
        _file_name(source): tuple(map(str, words))
        for source, words in content["flags"]["sources"].items()
    }
    digests = {_file_name(file): str(digest) for file, digest in content["sources_sha256"].items()}
    if not flags.keys() <= digests.keys():
        raise ValueError("flags for files that are not listed")
    return LibraryFolder(
        path=folder,
        name=name,
        inputs=_ports(content["inputs"]),
        outputs=_ports(content["outputs"]),
        arena_bytes=_count(content["arena_bytes"], 2**48),
        target=Target.named(content["target"]),
        threads=max(1, _count(content["threads"], 4096)),
        strict=bool(content["strict"]),
        weights=weights,
        source_flags=flags,
        digests=digests,
        description=content,
    )


def _file_name(name: object) -> str:
    if not isinstance(name, str) or _FILE_NAME.fullmatch(name) is None:
        raise ValueError(f"file {name!r}")
    return name


def _count(value: object, limit: int) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise ValueError(f"number {value!r}")
    return value


def _ports(values: Sequence[Mapping[str, Any]]) -> tuple[Port, ...]:
    return tuple(
        Port(
            str(value["name"]),
            TensorType(
                dtype_named(value["dtype"]),
                tuple(_count(size, 2**40) for size in value["shape"]),
            ),
            _count(value["domain"], 2**40) if "domain" in value else None,
        )
        for value in values
    )

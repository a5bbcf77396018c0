"""Finished parts of an enumeration in a folder, so that a killed run loses nothing finished.

What it does: writes each part of a level (`nodes.Part` without its collisions) and what became of
its collisions (`candidates.Sifted`) to one file, whole or not at all, and reads it back. A file
names the version of this format, the vocabulary, the seed, the level and the shape that it belongs
to; one that does not fit is refused by name, never skipped.

What it does not: decide what to do next (`run`).
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphopt.enumerate.candidates import FATES, Accepted, Sifted
from graphopt.enumerate.nodes import Nodes, Part
from graphopt.enumerate.sizes import Grouping
from tensorgen.types import Shape

VERSION = 1
"""Of the files; raised when what they hold or mean changes."""


class EnumerationError(ValueError):
    """An enumeration that cannot be run or resumed. One line: place, expected, got, what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a file holds a part of."""

    vocabulary: str
    seed: int
    level: int
    last: bool
    shape: Shape


def path_of(folder: Path, place: Place) -> Path:
    """The file of a part."""
    kind = "last" if place.last else "part"
    sizes = "x".join(map(str, place.shape)) or "scalar"
    return folder / f"level-{place.level}-{kind}-{sizes}.npz"


def write_part(folder: Path, place: Place, part: Part, sifted: Sifted) -> None:
    """Write a part: the file appears complete under its name or not at all.

    Raises EnumerationError if it cannot be written.
    """
    path = path_of(folder, place)
    header = {"version": VERSION, "place": _plain(asdict(place))}
    arrays: Mapping[str, Any] = {
        "header": np.array(json.dumps(header)),
        "sifted": np.array(json.dumps(_plain_sifted(sifted))),
        "instance": part.found.instance,
        "left": part.found.left,
        "right": part.found.right,
        "keys": part.keys,
    }
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise EnumerationError(
            f"{path}: expected a folder that can be written to, got '{error.strerror}'; "
            "choose another"
        ) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def read_part(folder: Path, place: Place) -> tuple[Part, Sifted] | None:
    """A part without its collisions, and what became of them; None if it is not finished.

    Raises EnumerationError if the file is damaged or belongs to another enumeration.
    """
    path = path_of(folder, place)
    if not path.exists():
        return None
    try:
        # numpy leaves a file open that it opened itself and could not read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            found = _expected(path, place, header)
            arrays = {name: archive[name] for name in ("instance", "left", "right", "keys")}
            sifted = _sifted(json.loads(str(archive["sifted"])))
    except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, EnumerationError):
            raise
        raise EnumerationError(
            f"{path}: expected a finished part of an enumeration, got a damaged file; delete it"
        ) from None
    nodes = Nodes(arrays["instance"], arrays["left"], arrays["right"])
    if not len(nodes.instance) == len(nodes.left) == len(nodes.right) == len(arrays["keys"]):
        raise EnumerationError(
            f"{path}: expected arrays of one length, got others; delete the file"
        )
    empty = Nodes.joined([])
    part = Part(
        found.shape, sifted.generated, sifted.undefined, sifted.distinct,
        nodes, arrays["keys"], empty, empty, np.zeros(0, np.int64),
    )  # fmt: skip
    return part, sifted


def _expected(path: Path, place: Place, header: Any) -> Place:
    """The place, if the header says the same."""
    if header["version"] != VERSION:
        raise EnumerationError(
            f"{path}: expected version {VERSION} of the format, got {header['version']!r}; "
            "use an empty folder"
        )
    for name, wanted in _plain(asdict(place)).items():
        got = header["place"][name]
        if got != wanted:
            raise EnumerationError(
                f"{path}: expected {name} {wanted!r}, got {got!r}; use an empty folder"
            )
    return place


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back: lists for tuples."""
    result: dict[str, Any] = json.loads(json.dumps(values))
    return result


def _plain_sifted(sifted: Sifted) -> dict[str, Any]:
    return {
        "generated": sifted.generated,
        "undefined": sifted.undefined,
        "distinct": sifted.distinct,
        "fates": dict(sifted.fates),
        "accepted": [
            [item.first, item.second, item.known, item.cut, item.grouping.name]
            for item in sifted.accepted
        ],
    }


def _sifted(plain: Any) -> Sifted:
    accepted = []
    for first, second, known, cut, grouping in plain["accepted"]:
        a, b, c = (int(number) for number in first)
        d, e, f = (int(number) for number in second)
        cuts = tuple(int(number) for number in cut)
        accepted.append(Accepted((a, b, c), (d, e, f), int(known), cuts, Grouping[grouping]))
    return Sifted(
        int(plain["generated"]),
        int(plain["undefined"]),
        int(plain["distinct"]),
        tuple((fate, int(plain["fates"][fate])) for fate in FATES),
        tuple(accepted),
    )

"""Verdicts as JSON, and the folder that keeps them while rules are judged.

What it does: writes each verdict as one file beside its place and renames it, so that a run that is
killed loses nothing finished; reads it back, and believes it only if its checksum fits, what it is
keyed by is the same (the rule, the settings, the code of the prover), and a counterexample still
refutes. Anything else is judged again. What it does not: check certificates (`checker` does).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import z3

from graphopt.graph import Param, Params
from graphopt.rule import Rule, rule_text
from graphopt.rules import RuleError, read_rules
from tensorgen.types import dtype_named, dtype_of
from verify.assignment import Assignment, Place, instance_of
from verify.counterexample import Counterexample
from verify.difference import compare
from verify.judging import Judged, Settings
from verify.verdict import Proved, Refuted, Unknown, Verdict

Json = dict[str, Any]

_LAYERS = ("tensorgen", "graphopt", "verify")


class Corrupt(Exception):
    """A record that does not say what was judged."""


@dataclass(frozen=True, slots=True)
class Record:
    """What was found of a rule, and the seconds that it took, also those of the solver."""

    judged: Judged
    seconds: float
    solver_seconds: float


def record_json(record: Record) -> Json:
    """A record as what `json.dumps` takes."""
    found = record.judged
    verdict: Json
    match found.verdict:
        case Proved(certificate=certificate):
            verdict = {"proved": certificate}
        case Refuted(counterexample=counterexample):
            verdict = {"refuted": _assignment_json(counterexample.assignment)}
        case Unknown(reason=reason):
            verdict = {"unknown": reason}
    return {
        "inferred": list(found.inferred),
        "verdict": verdict,
        "seconds": record.seconds,
        "solver_seconds": record.solver_seconds,
    }


def record_of(rule: Rule, data: Any) -> Record:
    """The record of a rule that `record_json` wrote. Raises Corrupt."""
    try:
        inferred = tuple(map(str, data["inferred"]))
        if inferred:
            rule = _under(rule, inferred)
        [(kind, content)] = data["verdict"].items()
        judged = Judged(rule, inferred, _verdict(rule, kind, content))
        return Record(judged, float(data["seconds"]), float(data["solver_seconds"]))
    except (RuleError, KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Corrupt(str(error)) from None


def _under(rule: Rule, conditions: tuple[str, ...]) -> Rule:
    """The rule under further conditions, given as text."""
    joined = ", ".join(conditions)
    [narrower] = read_rules(f"{rule_text(rule)}{',' if rule.where else ' where'} {joined}")
    return narrower


def _verdict(rule: Rule, kind: str, content: Any) -> Verdict:
    match kind:
        case "proved":
            if content["digest"] != rule.digest:
                raise Corrupt("a certificate of another rule")
            return Proved(content)
        case "refuted":
            instance = instance_of(rule, _assignment(content))
            comparison = None if instance is None else compare(instance)
            if instance is None or comparison is None or comparison.difference is None:
                raise Corrupt("a counterexample on which both sides agree")
            return Refuted(Counterexample.of(rule, instance, comparison))
        case "unknown":
            return Unknown(str(content))
        case _:
            raise Corrupt(f"a verdict '{kind}'")


# Assignments


def _assignment_json(assignment: Assignment) -> Json:
    return {
        "tensors": [
            {
                "place": list(place),
                "type": dtype_of(array).name,
                "shape": list(array.shape),
                # Narrow floats are exact as float64, and JSON keeps that.
                "elements": array.astype(np.float64 if array.dtype.kind == "f" else array.dtype)
                .reshape(-1)
                .tolist(),
            }
            for place, array in assignment.tensors
        ],
        "params": [[name, value] for name, value in assignment.params],
        "captured": [[name, list(map(list, params))] for name, params in assignment.captured],
    }


def _assignment(data: Any) -> Assignment:
    tensors = []
    for tensor in data["tensors"]:
        name, position = tensor["place"]
        place: Place = (str(name), int(position))
        dtype = dtype_named(tensor["type"]).numpy
        array = np.asarray(tensor["elements"]).astype(dtype).reshape(tensor["shape"])
        tensors.append((place, array))
    return Assignment(
        tuple(tensors), _params(data["params"]),
        tuple((str(name), _params(params)) for name, params in data["captured"]),
    )  # fmt: skip


def _params(data: Any) -> Params:
    return tuple((str(name), _param(value)) for name, value in data)


def _param(value: Any) -> Param:
    if isinstance(value, list):
        return tuple(map(_param, value))
    if not isinstance(value, bool | int | float | str):
        raise Corrupt(f"a parameter {value!r}")
    return value


# Files


@lru_cache(maxsize=1)
def prover_digest() -> str:
    """The digest of all code that a verdict depends on, and of the solver's version."""
    state = hashlib.blake2b(z3.get_version_string().encode(), digest_size=16)
    root = Path(__file__).resolve().parent.parent
    for layer in _LAYERS:
        for path in sorted((root / layer).rglob("*.py")):
            state.update(path.relative_to(root).as_posix().encode())
            state.update(path.read_bytes())
    return state.hexdigest()


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of records. `versions` are what they are keyed by beside the rule."""

    path: Path
    versions: str

    @staticmethod
    def at(path: Path, settings: Settings, seconds: float) -> Folder:
        """The folder for verdicts under these settings; it is made if it is not there."""
        path.mkdir(parents=True, exist_ok=True)
        text = f"{prover_digest()} {settings} {seconds}"
        return Folder(path, hashlib.blake2b(text.encode(), digest_size=8).hexdigest())

    def read(self, rule: Rule) -> Record | None:
        """What was found of a rule; None if that is not known, or the file is damaged."""
        try:
            data = json.loads(self._place(rule).read_text(encoding="utf-8"))
            record = record_of(rule, data["record"])
        except (OSError, ValueError, KeyError, TypeError, Corrupt):
            return None
        known = data["checksum"] == _checksum(data["record"]) and data["asked"] == str(rule)
        return record if known else None

    def write(self, rule: Rule, record: Record) -> None:
        """Keep a record. Raises OSError."""
        data = record_json(record)
        text = json.dumps({"asked": str(rule), "checksum": _checksum(data), "record": data})
        place = self._place(rule)
        beside = place.with_suffix(f".{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, place)

    def _place(self, rule: Rule) -> Path:
        return self.path / f"{rule.digest}-{self.versions}.json"


def _checksum(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

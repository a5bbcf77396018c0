"""The cases of the suites by name, each built when it is asked for.

What it does: lists operators (`operators`), networks (`networks`), the layers that peaks are
measured by (`layers`) and trained models (`real_models`), and writes each as one ONNX file with its
inputs.
What it does not: run them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from tasor.peer_cases import Case, write_case
from tasor.suites.layers import layers
from tasor.suites.networks import MODERN_NETWORKS, NETWORKS, network
from tasor.suites.operators import Workload, build, flops, workloads
from tasor.suites.real_models import REAL_MODELS, RealModel

SUITES = ("operators", "networks", "modern", "layers", "real")


@dataclass(frozen=True, slots=True)
class Source:
    """A case that is not built yet; `write` builds it at the given path."""

    name: str
    write: Callable[[Path], Case]


def sources(suite: str, batches: Sequence[int], only: re.Pattern[str]) -> tuple[Source, ...]:
    """The cases of a suite whose names match; `batches` chooses among the operators.

    Raises ValueError for a name that is not in SUITES.
    """
    match suite:
        case "operators":
            found = [
                _operator_source(item, f"{item.operator} batch {item.batch}")
                for item in workloads()
                if item.batch in batches
            ]
        case "networks":
            found = [_network_source(name, "networks") for name in NETWORKS]
        case "modern":
            found = [_network_source(name, "modern networks") for name in MODERN_NETWORKS]
        case "layers":
            found = [_operator_source(item, "layers") for item in layers()]
        case "real":
            found = [_real_source(model) for model in REAL_MODELS]
        case _:
            raise ValueError(f"suite: expected one of {', '.join(SUITES)}, got {suite!r}")
    return tuple(source for source in found if only.search(source.name))


def _operator_source(workload: Workload, group: str) -> Source:
    def write(path: Path) -> Case:
        return write_case(
            path, build(workload), name=workload.id, group=group, flops=flops(workload)
        )

    return Source(workload.id, write)


def _network_source(name: str, group: str) -> Source:
    def write(path: Path) -> Case:
        return write_case(path, network(name), name=name, group=group)

    return Source(name, write)


def _real_source(model: RealModel) -> Source:
    def write(path: Path) -> Case:
        return write_case(
            path,
            onnx.load(model.path()),
            name=model.name,
            group="trained models",
            shapes=model.shapes_by_name,
            inputs=model.inputs(),
        )

    return Source(model.name, write)

"""The test cases that come with the installed `onnx` package.

What it does: lists node cases, simple models, models converted from PyTorch and the light models,
each with its model, its inputs and the outputs it expects. What it does not: run or download
anything.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import onnx
from onnx import numpy_helper

Group = Literal["node", "simple", "pytorch-converted", "pytorch-operator", "light"]
GROUPS: tuple[Group, ...] = get_args(Group)

DataSet = tuple[Sequence[Any], Sequence[Any]]
"""Inputs and expected outputs, each in the model's order."""

_EXPANDED = re.compile(r"_expanded.*")


@dataclass(frozen=True, slots=True)
class Case:
    """One test case. Either `model` and `data` are here, or `path` says where they are read from:
    a folder with a model and its data, or the file of a light model.

    `operator` is what a node case tests, with its domain if that is not ONNX's own; in the other
    groups it is empty.
    """

    name: str
    group: Group
    relative: float
    absolute: float
    operator: str = ""
    model: onnx.ModelProto | None = field(default=None, repr=False)
    data: tuple[DataSet, ...] = field(default=(), repr=False)
    path: Path | None = None

    def loaded(self) -> tuple[onnx.ModelProto, tuple[DataSet, ...]]:
        """The model and its data sets; tensors are numpy arrays, sequences are lists."""
        if self.model is not None:
            return self.model, tuple(
                (_arrays(given), _arrays(wanted)) for given, wanted in self.data
            )
        assert self.path is not None, self.name
        if self.path.is_dir():
            model = onnx.load(self.path / "model.onnx")
            folders = sorted(self.path.glob("test_data_set_*"))
            return model, tuple(_stored_data(model, folder) for folder in folders)
        model = onnx.load(self.path)
        return model, (_light_data(model, self.path),)


def all_cases() -> tuple[Case, ...]:
    """Every case, group by group, each group sorted by name."""
    return tuple(case for group in GROUPS for case in cases_of(group))


@cache
def cases_of(group: Group) -> tuple[Case, ...]:
    """The cases of a group, sorted by name. Computing the node cases takes seconds."""
    found = _node_cases() if group == "node" else _model_cases(group)
    return tuple(sorted(found, key=lambda case: case.name))


def _node_cases() -> list[Case]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The names have types, the function that takes them has none.
        collect: Any = collect_testcases
        found = collect(None)
    operators = {case.name: _operator(case.model) for case in found}
    return [
        Case(
            case.name,
            "node",
            case.rtol,
            case.atol,
            operators[_EXPANDED.sub("", case.name)],
            case.model,
            tuple(case.data_sets),
        )
        for case in found
    ]


def _operator(model: onnx.ModelProto) -> str:
    node = model.graph.node[-1]
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _model_cases(group: Group) -> Iterator[Case]:
    from onnx.backend.test.loader import load_model_tests

    package = Path(onnx.__file__).parent.parent
    for case in load_model_tests(kind="real" if group == "light" else group):
        path = Path(case.model_dir) if case.model_dir is not None else package / str(case.url)
        yield Case(case.name, group, case.rtol, case.atol, path=path)


def _arrays(items: Sequence[Any]) -> tuple[Any, ...]:
    """16-bit and smaller floats are given as `TensorProto`."""
    return tuple(
        numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else item
        for item in items
    )


def _stored_data(model: onnx.ModelProto, folder: Path) -> DataSet:
    def read(kind: str, declared: Sequence[onnx.ValueInfoProto]) -> list[Any]:
        count = len(list(folder.glob(f"{kind}_*.pb")))
        return [_read(folder / f"{kind}_{n}.pb", declared[n].type) for n in range(count)]

    return read("input", model.graph.input), read("output", model.graph.output)


def _read(path: Path, declared: onnx.TypeProto) -> Any:
    content = path.read_bytes()
    if declared.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if declared.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def _light_data(model: onnx.ModelProto, path: Path) -> DataSet:
    """As the package's runner does it: counted inputs, outputs from files beside the model."""
    from onnx.backend.test.runner import Runner

    known = {tensor.name for tensor in model.graph.initializer}
    inputs = [
        Runner.generate_dummy_data(value, seed=0, name=path.stem, random=False)
        for value in model.graph.input
        if value.name not in known
    ]
    outputs = [
        _read(path.with_name(f"{path.stem}_output_{number}.pb"), value.type)
        for number, value in enumerate(model.graph.output)
    ]
    return inputs, outputs

"""One case of a comparison: an ONNX file with static shapes and the inputs to give it.

What it does: fixes the input shapes of a model, draws inputs from a seed, and writes the file that
every engine will read, so that all of them see the same model.
What it does not: run anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
from onnx import helper, numpy_helper

from graphopt.graph import Graph
from graphopt.index_domains import index_domains
from graphopt.onnx_import import ModelError, import_model
from graphopt.work import work
from tasor.sample_inputs import at_a_line
from tensorgen.types import Array, Shape, ShapeError


class CaseError(ValueError):
    """A model and its shapes do not make a case. One line: place, expected, got, what to do."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model to run. `model` is an ONNX file whose input shapes are static.

    `inputs` holds one array per graph input and `outputs` the names of the graph outputs, both in
    the graph's order. `flops` is the work of one run by definition and `traffic` the bytes that it
    moves at least, where they are known.
    """

    name: str
    group: str
    model: Path
    inputs: tuple[tuple[str, Array], ...]
    outputs: tuple[str, ...]
    flops: int | None = None
    traffic: int | None = None

    @property
    def shapes(self) -> dict[str, Shape]:
        return {name: array.shape for name, array in self.inputs}

    def placed(self) -> Case:
        """The same with inputs that begin at a line of the cache: in a process that was sent a
        case they begin anywhere, and each engine's would elsewhere."""
        inputs = tuple((name, at_a_line(array)) for name, array in self.inputs)
        return replace(self, inputs=inputs)


def graph_inputs(model: onnx.ModelProto) -> tuple[onnx.ValueInfoProto, ...]:
    """The inputs a caller must give: those without an initializer."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return tuple(value for value in model.graph.input if value.name not in constants)


def _has_shape(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.HasField("shape"))


def static_shape(value: onnx.ValueInfoProto, shapes: Mapping[str, Shape]) -> Shape:
    """The shape of one input: the one in `shapes`, else the one that the model declares.

    Raises CaseError if neither is static, or if they contradict each other.
    """
    place = f"input {value.name!r}"
    declared = tuple(
        size.dim_value if size.HasField("dim_value") and size.dim_value >= 0 else None
        for size in value.type.tensor_type.shape.dim
    )
    given = shapes.get(value.name)
    if given is None:
        static = tuple(size for size in declared if size is not None)
        if not _has_shape(value) or len(static) < len(declared):
            raise CaseError(f"{place}: expected a static shape, got {declared}; give its shape")
        return static
    fits = not _has_shape(value) or (
        len(given) == len(declared)
        and all(size in (None, wanted) for size, wanted in zip(declared, given, strict=True))
    )
    if not fits:
        raise CaseError(f"{place}: expected a shape that fits {declared}, got {given}")
    return given


def with_static_shapes(model: onnx.ModelProto, shapes: Mapping[str, Shape]) -> onnx.ModelProto:
    """A copy of `model` whose inputs have static shapes; sizes that followed from them are open.

    Raises CaseError for a shape of an input that does not exist, and as `static_shape` does.
    """
    inputs = graph_inputs(model)
    unknown = sorted(set(shapes) - {value.name for value in inputs})
    if unknown:
        names = ", ".join(repr(value.name) for value in inputs)
        raise CaseError(f"shapes: expected names among {names}, got {unknown[0]!r}")
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value in graph_inputs(fixed):
        shape = static_shape(value, shapes)
        element = value.type.tensor_type.elem_type
        value.type.CopyFrom(helper.make_tensor_type_proto(element, list(shape)))
    # A symbol that was an input's size names nothing any more.
    del fixed.graph.value_info[:]
    for value in fixed.graph.output:
        for size in value.type.tensor_type.shape.dim if _has_shape(value) else ():
            if not (size.HasField("dim_value") and size.dim_value >= 0):
                size.Clear()
    return fixed


def with_constants(model: onnx.ModelProto, bindings: Mapping[str, Array]) -> onnx.ModelProto:
    """The model, or a copy whose inputs in `bindings` are constants, so that every engine knows
    them.

    Raises CaseError for an input that does not exist, a value of another type, and as
    `static_shape` does for one of another shape.
    """
    if not bindings:
        return model
    declared = {value.name: value for value in graph_inputs(model)}
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for name, array in bindings.items():
        if name not in declared:
            names = ", ".join(map(repr, declared))
            raise CaseError(f"bindings: expected names among {names}, got {name!r}")
        element = declared[name].type.tensor_type.elem_type
        dtype = helper.tensor_dtype_to_np_dtype(element)
        if array.dtype != dtype:
            raise CaseError(
                f"input {name!r}: expected a value of {dtype}, got {array.dtype}; convert it"
            )
        static_shape(declared[name], {name: array.shape})
        fixed.graph.initializer.append(numpy_helper.from_array(array, name))
    kept = [value for value in fixed.graph.input if value.name not in bindings]
    del fixed.graph.input[:]
    fixed.graph.input.extend(kept)
    return fixed


def sample_inputs(
    model: onnx.ModelProto, *, seed: int = 0, domains: Mapping[str, int] = MappingProxyType({})
) -> tuple[tuple[str, Array], ...]:
    """Random inputs for a model with static shapes.

    Floats are standard normal, booleans fair coins, integers uniform in [0, n) for an input with
    the domain n, else in [0, 2). Raises CaseError for any other element type.
    """
    rng = np.random.default_rng(seed)
    return tuple(
        (value.name, _sample(value, rng, domains.get(value.name, 2)))
        for value in graph_inputs(model)
    )


def domains_of(graph: Graph) -> dict[str, int]:
    """The domains of the inputs that a graph uses as indices."""
    found = zip(graph.input_names, index_domains(graph), strict=True)
    return {name: domain for name, domain in found if domain}


def _imported(model: onnx.ModelProto) -> Graph | None:
    """A model with static shapes as Tasor reads it; None for one that it refuses, which may yet be
    a case: that Tasor fails on it is a result."""
    try:
        return import_model(model)
    except (ModelError, ShapeError):
        return None


def _sample(value: onnx.ValueInfoProto, rng: np.random.Generator, below: int) -> Array:
    shape = static_shape(value, {})
    element = value.type.tensor_type.elem_type
    dtype = helper.tensor_dtype_to_np_dtype(element)
    match dtype.kind:
        case "f":
            return rng.standard_normal(shape).astype(dtype)
        case "i" | "u":
            return rng.integers(0, below, shape).astype(dtype)
        case "b":
            return rng.integers(0, 2, shape).astype(dtype)
        case _:
            raise CaseError(
                f"input {value.name!r}: expected floats, integers or booleans, got {dtype}"
            )


def write_case(
    path: Path,
    model: onnx.ModelProto,
    *,
    name: str,
    group: str,
    shapes: Mapping[str, Shape] | None = None,
    bindings: Mapping[str, Array] = MappingProxyType({}),
    inputs: tuple[tuple[str, Array], ...] | None = None,
    flops: int | None = None,
) -> Case:
    """Write `model` with static shapes to `path`; inputs in `bindings` are constants there.

    Inputs are drawn where none are given; `flops` are those of the graph's contractions where none
    are given. Nothing is known of the work of a model that Tasor refuses.
    """
    bound = with_constants(model, bindings)
    wanted = {} if shapes is None else shapes
    fixed = with_static_shapes(bound, {n: s for n, s in wanted.items() if n not in bindings})
    graph = _imported(fixed)
    if inputs is None:
        inputs = sample_inputs(fixed, domains={} if graph is None else domains_of(graph))
    onnx.save_model(fixed, path)
    outputs = tuple(value.name for value in fixed.graph.output)
    found = None if graph is None else work(graph)
    if flops is None and found is not None:
        flops = found.flops or None
    traffic = None if found is None else found.traffic
    return Case(name, group, path, inputs, outputs, flops, traffic)

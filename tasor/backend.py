"""Tasor as a backend of the `onnx` library: `onnx.backend.base.Backend`.

    model = tasor.backend.prepare(onnx.load("m.onnx"))
    y, = model.run([x])

What it does: compiles a model when it is first run, for the shapes at hand; inputs that decide
about shapes, loops or branches are fixed to the values at hand, and other values compile anew. All
outputs come through the emitted C. What it does not: run anything but on the CPU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from graphopt.onnx_import.errors import ModelError, printable
from graphopt.onnx_import.narrow import BY_NUMBER, stored
from graphopt.onnx_import.protobuf import is_sequence, item_type
from graphopt.onnx_import.signature import item_names
from tasor.compiled_model import CompiledModel
from tasor.errors import UsageError
from tasor.pipeline import Question, Settings, library_name, settings_of
from tasor.specialize import compile_for
from tensorgen.library import InputError
from tensorgen.types import Array, Shape

ShapeKey = tuple[tuple[str, Shape], ...]


class TasorModel(BackendRep):
    """A model, compiled once for each combination of input shapes and fixed values it is run on."""

    def __init__(self, model: onnx.ModelProto, settings: Settings) -> None:
        self._question = Question(model, library_name(model))
        self._settings = settings
        self._names = _free_inputs(model)
        self._sequences = {value.name for value in model.graph.input if is_sequence(value.type)}
        self._outputs = tuple(model.graph.output)
        self._fixed: dict[ShapeKey, tuple[str, ...]] = {}
        self._compiled: dict[tuple[ShapeKey, bytes], CompiledModel] = {}

    @property
    def fixed_inputs(self) -> tuple[str, ...]:
        """The inputs that had to be fixed to their values in some run so far, sorted."""
        return tuple(sorted({name for names in self._fixed.values() for name in names}))

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, in the model's order, for inputs in its order or by name.

        Raises InputError for inputs that do not fit, and as `tasor.compile`.
        """
        arrays: dict[str, Array] = {}
        lengths: dict[str, Shape] = {}
        for name, value in self._named(inputs).items():
            if name in self._sequences:
                lengths[name] = (len(value),)
                arrays |= zip(item_names(name, len(value)), map(_as_stored, value), strict=True)
            else:
                arrays[name] = _as_stored(value)
        model = self._model_for(arrays, lengths)
        outputs = model.run({port.name: arrays[port.name] for port in model.inputs})
        return tuple(_as_declared(value, outputs) for value in self._outputs)

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            given = dict(inputs)
            if given.keys() != set(self._names):
                wanted = ", ".join(repr(printable(name)) for name in self._names)
                raise InputError(f"inputs: expected arrays for {wanted}, got others; give those")
        else:
            listed = list(inputs) if isinstance(inputs, Sequence) else [inputs]
            if len(listed) != len(self._names):
                raise InputError(
                    f"inputs: expected {len(self._names)} arrays, got {len(listed)}; give one for "
                    "each input of the model"
                )
            given = dict(zip(self._names, listed, strict=True))
        return given

    def _model_for(
        self, arrays: Mapping[str, Array], lengths: Mapping[str, Shape]
    ) -> CompiledModel:
        known = {name: array.shape for name, array in arrays.items()}
        shapes: ShapeKey = tuple(sorted({**known, **lengths}.items()))
        key = (shapes, _values_digest(arrays, self._fixed.get(shapes, ())))
        if key not in self._compiled:
            question = replace(self._question, shapes=lengths)
            model = compile_for(question, self._settings, arrays)
            self._fixed[shapes] = tuple(sorted(model.question.bindings))
            key = (shapes, _values_digest(arrays, self._fixed[shapes]))
            self._compiled[key] = model
        return self._compiled[key]


def _as_stored(array: Any) -> Array:
    """An array as a library takes it: row-major, narrow element types as bytes."""
    return stored(np.require(array, requirements=["C", "A"]))


def _as_declared(declared: onnx.ValueInfoProto, outputs: Mapping[str, Array]) -> Any:
    """An output of the model: an array of the declared element type, or a list of them."""
    if is_sequence(declared.type):
        names = item_names(declared.name, len(outputs))
        return [_viewed(declared, outputs[name]) for name in names if name in outputs]
    return _viewed(declared, outputs[declared.name])


def _viewed(declared: onnx.ValueInfoProto, array: Array) -> Array:
    tensor = item_type(declared.type)
    narrow = None if tensor is None else BY_NUMBER.get(tensor.elem_type)
    return array if narrow is None else array.view(narrow.numpy)


def _values_digest(arrays: Mapping[str, Array], names: Sequence[str]) -> bytes:
    state = hashlib.blake2b(digest_size=16)
    for name in names:
        for part in (name.encode(), str(arrays[name].dtype).encode(), arrays[name].tobytes()):
            state.update(len(part).to_bytes(8, "little"))
            state.update(part)
    return state.digest()


def _free_inputs(model: onnx.ModelProto) -> tuple[str, ...]:
    """The inputs that a caller gives: those without an initializer."""
    known = {tensor.name for tensor in model.graph.initializer}
    known |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    return tuple(value.name for value in model.graph.input if value.name not in known)


class TasorBackend(Backend):
    """The backend's entry points; the module offers them as functions, too."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the device can be used; what a model needs shows when it is run."""
        return cls.supports_device(device)

    @classmethod
    def prepare(
        cls,
        model: onnx.ModelProto,
        device: str = "CPU",
        *,
        target: str = "host",
        threads: int | None = None,
        strict: bool = False,
        **kwargs: Any,
    ) -> TasorModel:
        """The model, to be compiled when it is first run.

        Raises UsageError for another device, TargetError for an unknown target.
        """
        if not cls.supports_device(device):
            raise UsageError(f"device: expected CPU, got {printable(device)}; choose CPU")
        return TasorModel(model, settings_of(target, threads, strict=strict, weights=None))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """The outputs of one run."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], Shape]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node; `opset_version` names its opset, the newest one if absent."""
        arrays = [np.asarray(array) for array in inputs]
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        model = _model_of_node(node, arrays, int(version))
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for the CPU."""
        return device.partition(":")[0] == "CPU"


def _model_of_node(node: onnx.NodeProto, arrays: Sequence[Array], version: int) -> onnx.ModelProto:
    """A model of that node alone, whose inputs are as the arrays."""
    names = list(dict.fromkeys(name for name in node.input if name))
    if len(names) != len(arrays):
        raise InputError(
            f"node: expected {len(names)} arrays, got {len(arrays)}; give one for each input"
        )
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, arrays, strict=True)
    ]
    graph = onnx.helper.make_graph([node], node.op_type or "node", inputs, [])
    opset = onnx.helper.make_opsetid(node.domain, version)
    model = onnx.helper.make_model(graph, opset_imports=[opset])
    try:
        types = onnx.shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, version, node.domain),
            node,
            {value.name: value.type for value in inputs},
            opset_imports=[opset],
            ir_version=model.ir_version,
        )
    except Exception as error:  # the library's exceptions have no common base
        raise ModelError(
            f"node {printable(node.op_type)!r}: expected one that ONNX defines for such inputs, "
            f"got {printable(error)}"
        ) from error
    for name in node.output:
        if name:
            declared = onnx.ValueInfoProto(name=name)
            declared.type.tensor_type.elem_type = types[name].tensor_type.elem_type
            declared.type.tensor_type.shape.SetInParent()
            graph_output = model.graph.output.add()
            graph_output.CopyFrom(declared)
            if types[name].tensor_type.HasField("shape"):
                graph_output.type.CopyFrom(types[name])
    return model


is_compatible = TasorBackend.is_compatible
prepare = TasorBackend.prepare
run_model = TasorBackend.run_model
run_node = TasorBackend.run_node
supports_device = TasorBackend.supports_device

"""Reading a model: file or bytes -> checked `ModelProto` of an opset that the importers know.

Untrusted input ends here as a `ModelError`: what is not protobuf, not ONNX, not well formed by
the `onnx` checker, or too new. It computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import checker, version_converter

from graphopt.onnx_import.errors import ModelError, printable, quoted
from graphopt.onnx_import.protobuf import TensorReader

OLDEST_OPSET = 7
"""Opset 7 gave operators numpy broadcasting; models before it are converted to it."""

MAX_NESTING = 24
"""Subgraphs and functions may be nested this deep."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model and what reads its tensors."""

    proto: onnx.ModelProto
    reader: TensorReader


def load(source: onnx.ModelProto | str | Path | bytes) -> LoadedModel:
    """The model from a path, its bytes, or a proto; ModelError if it is none."""
    if isinstance(source, onnx.ModelProto):
        return LoadedModel(source, TensorReader(None))
    if isinstance(source, bytes):
        return LoadedModel(_parse(source, "model"), TensorReader(None))
    path = Path(source)
    place = f"model {quoted(path.name)}"
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelError(f"{place}: expected a readable file, got {printable(reason)}") from None
    return LoadedModel(_parse(data, place), TensorReader(path.parent))


def _parse(data: bytes, place: str) -> onnx.ModelProto:
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except Exception:  # protobuf's DecodeError, the one exception that parsing has
        raise ModelError(f"{place}: expected an ONNX model, got other or truncated data") from None
    if not model.HasField("graph"):
        raise ModelError(f"{place}: expected an ONNX model, got data without a graph")
    return model


def check(model: LoadedModel) -> None:
    """Refuse what the `onnx` checker refuses, and what it overlooks: nesting, repeated names."""
    proto = model.proto
    newest = onnx.defs.onnx_opset_version()
    version = opset_versions(proto.opset_import).get("", 1)
    if version > newest:
        raise ModelError(f"model: expected opset {newest} or older, got opset {version}")
    for graph, depth in _graphs(proto.graph, 0):
        if depth > MAX_NESTING:
            raise ModelError(f"model: expected subgraphs nested at most {MAX_NESTING} deep")
        _check_unique(
            [tensor.name for tensor in graph.initializer]
            + [tensor.values.name for tensor in graph.sparse_initializer],
            "initializers",
        )
        _check_unique([value.name for value in graph.input], "graph inputs")
    if not _is_text(proto):
        raise ModelError("model: expected names in UTF-8, got other bytes")
    try:
        checker.check_model(_skeleton(proto))
    except Exception as error:  # the library's exceptions have no common base
        raise ModelError(
            f"model: expected a well-formed ONNX model, got {printable(error)}"
        ) from None


def _is_text(message: Any) -> bool:
    """Whether all text in a protobuf message is UTF-8; the library gives what is not as bytes."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            items = [value] if hasattr(value, "ListFields") else value
            if not all(_is_text(item) for item in items):
                return False
        elif field.type == field.TYPE_STRING:
            items = [value] if isinstance(value, str | bytes) else value
            if not all(isinstance(item, str) for item in items):
                return False
    return True


def _check_unique(names: list[str], purpose: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(f"model: expected {purpose} with distinct names, got {quoted(name)}")
        seen.add(name)


def _graphs(graph: onnx.GraphProto, depth: int) -> Iterator[tuple[onnx.GraphProto, int]]:
    """The graph and every subgraph, with its depth, one level beyond the bound at most."""
    yield graph, depth
    if depth > MAX_NESTING:
        return
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
                yield from _graphs(inner, depth + 1)


def _skeleton(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its initializers turned into inputs.

    What the checker then sees is small (its own limit is 2 GiB) and opens no file; `TensorReader`
    checks the tensors themselves. The checker also insists on shapes that models may leave out.
    """
    graph = onnx.GraphProto(
        name=proto.graph.name,
        node=proto.graph.node,
        input=proto.graph.input,
        output=proto.graph.output,
        value_info=proto.graph.value_info,
    )
    for value in (*graph.input, *graph.output):
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    declared = {value.name for value in graph.input}
    stored = [*proto.graph.initializer, *(s.values for s in proto.graph.sparse_initializer)]
    for tensor in stored:
        if tensor.name not in declared:
            value = onnx.helper.make_tensor_value_info(
                tensor.name, tensor.data_type, list(tensor.dims)
            )
            value.type.tensor_type.shape.SetInParent()  # also for a scalar, which has no sizes
            graph.input.append(value)
    return onnx.ModelProto(
        ir_version=proto.ir_version,
        opset_import=proto.opset_import,
        functions=proto.functions,
        graph=graph,
    )


def modernised(model: LoadedModel) -> LoadedModel:
    """The model in opset 7 or newer, converted by the `onnx` library if it is older."""
    version = opset_versions(model.proto.opset_import).get("", OLDEST_OPSET)
    if version >= OLDEST_OPSET:
        return model
    try:
        converted = version_converter.convert_version(model.proto, OLDEST_OPSET)
    except Exception as error:  # the library's exceptions have no common base
        raise ModelError(
            f"model: expected opset {OLDEST_OPSET} or newer, got opset {version}, "
            f"and its conversion failed: {printable(error)}"
        ) from None
    return LoadedModel(converted, model.reader)


def opset_versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Version by domain, with the standard domain spelled ""."""
    return {canonical_domain(entry.domain): int(entry.version) for entry in imports}


def canonical_domain(domain: str) -> str:
    """The domain's one spelling: "" for the standard operators."""
    return "" if domain == "ai.onnx" else domain

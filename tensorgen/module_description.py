"""NAME.json: what a library is, for programs.

What it does: describes ports, sizes, constants, kernels, calls and flags, with the digests of all
files and whatever the module's metadata adds. What it does not: hold anything that a build needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import assert_never

from tensorgen.digest import file_digest
from tensorgen.module_build import base_flags, link_flags, source_flags
from tensorgen.module_spec import (
    ABI_VERSION,
    ARENA_ALIGN,
    Arena,
    Constant,
    Input,
    Module,
    Output,
    Place,
)
from tensorgen.module_weights import WeightLayout
from tensorgen.ports import Port


def description_json(
    module: Module, layout: WeightLayout, block: bytes, files: Mapping[str, bytes]
) -> bytes:
    """The content of NAME.json; `block` is the constants, `files` are all other files.

    Each element of a list or object of the first level stands on a line of its own.
    """
    description: dict[str, object] = {
        "abi": ABI_VERSION,
        "arena_align": ARENA_ALIGN,
        "arena_bytes": module.arena_bytes,
        "calls": [
            {
                "arguments": [_place_value(place) for place in call.arguments],
                "kernel": call.kernel,
                "label": call.label,
            }
            for call in module.calls
        ],
        "constants": [
            {"dtype": tensor.dtype.name, "offset": offset, "shape": list(tensor.shape)}
            for tensor, offset in zip(layout.types, layout.offsets, strict=True)
        ],
        "flags": {
            "all": list(base_flags(module)),
            "link": list(link_flags(module)),
            "sources": {name: list(flags) for name, flags in source_flags(module).items()},
        },
        "inputs": _port_values(module.inputs, module.input_identifiers),
        "kernels": [
            {"expression": kernel.expression, "name": kernel.name, "schedule": kernel.schedule}
            for kernel in module.kernels
        ],
        "name": module.name,
        "outputs": _port_values(module.outputs, module.output_identifiers),
        "sources_sha256": {name: file_digest(content) for name, content in files.items()},
        "strict": module.strict,
        "target": module.target.name,
        "threads": module.threads,
        "weight_bytes": layout.bytes,
        "weights": module.weights,
        "weights_sha256": file_digest(block),
    }
    clashes = description.keys() & module.metadata.keys()
    assert not clashes, f"metadata uses names of its own file: {sorted(clashes)}"
    entries = (
        f"{_json(key)}: {_json_lines(value)}"
        for key, value in sorted((description | dict(module.metadata)).items())
    )
    return ("{\n  " + ",\n  ".join(entries) + "\n}\n").encode("ascii")


def _json_lines(value: object) -> str:
    """The value as JSON, with each element of a list or object on one line."""
    if not value:
        return _json(value)
    if isinstance(value, Mapping):
        items = (f"{_json(key)}: {_json(item)}" for key, item in sorted(value.items()))
        return "{\n    " + ",\n    ".join(items) + "\n  }"
    if isinstance(value, list | tuple):
        return "[\n    " + ",\n    ".join(map(_json, value)) + "\n  ]"
    return _json(value)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _port_values(ports: Sequence[Port], identifiers: Sequence[str]) -> list[dict[str, object]]:
    return [
        {
            "c_name": identifier,
            "dtype": port.type.dtype.name,
            "name": port.name,
            "shape": list(port.type.shape),
            **({} if port.domain is None else {"domain": port.domain}),
        }
        for port, identifier in zip(ports, identifiers, strict=True)
    ]


def _place_value(place: Place) -> dict[str, int]:
    match place:
        case Input(index, offset):
            return {"input": index, "offset": offset}
        case Output(index, offset):
            return {"output": index, "offset": offset}
        case Arena(offset):
            return {"arena": offset}
        case Constant(index):
            return {"constant": index}
        case _:
            assert_never(place)

"""A planned network, printed as the files of a self-contained C library.

What it does: turns ports, constants, kernels and the calls between them into C99 sources with a
checked entry point, a self-test, a description in JSON and build files; the same module gives the
same bytes. What it does not: plan memory, write kernels, decide or compile anything.

The C uses no malloc, no variable-length arrays, no mutable globals and no stdio, but for the test
program, NAME_test.c. Names from models reach it only through `comment_text`, `string_literal` and
`unique_identifiers`.
"""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache, partial
from pathlib import Path
from typing import assert_never

import jinja2

from tensorgen.c_functions import definitions
from tensorgen.digest import file_digest
from tensorgen.module_build import (
    ISA_SUPPORT,
    base_flags,
    library_sources,
    link_flags,
    source_flags,
)
from tensorgen.module_description import description_json
from tensorgen.module_self_test import (
    SelfTestInput,
    SelfTestLayout,
    SelfTestOutput,
    generated_input,
    self_test_layout,
)
from tensorgen.module_spec import (
    ABI_VERSION,
    ARENA_ALIGN,
    Arena,
    Call,
    Constant,
    Input,
    Kernel,
    Module,
    Output,
    Parameter,
    Place,
    SelfTest,
    WeightMode,
)
from tensorgen.module_steps import Steps, in_team, steps_of
from tensorgen.module_text import (
    call_text,
    comment_text,
    filled,
    needs_math_header,
    number_literals,
    size_literal,
    string_literal,
)
from tensorgen.module_weights import (
    FILE_HEADER_BYTES,
    WeightLayout,
    default_weights,
    stored_elements,
    stored_values,
    weight_block,
    weight_layout,
)
from tensorgen.ports import Port
from tensorgen.types import DTYPES, DType

__all__ = [
    "ABI_VERSION",
    "ARENA_ALIGN",
    "STATUSES",
    "Arena",
    "Call",
    "Constant",
    "Input",
    "Kernel",
    "Module",
    "Output",
    "Parameter",
    "Place",
    "SelfTest",
    "WeightMode",
    "default_weights",
    "generated_input",
    "kernels_files",
    "library_sources",
    "module_files",
    "source_flags",
]

STATUSES: tuple[tuple[str, int, str], ...] = (
    ("OK", 0, "done"),
    ("E_NULL", -1, "a pointer is null"),
    ("E_ALIGN", -2, "the arena, the weights or a tensor is not aligned"),
    ("E_ARENA", -3, "the arena is too small"),
    ("E_OVERLAP", -4, "an output or the arena overlaps other memory"),
    ("E_ISA", -5, "the processor lacks instructions that the library was made for"),
    ("E_WEIGHTS", -6, "the weights belong to another library"),
    ("E_MISMATCH", -7, "the self-test computed other values than expected"),
    ("E_FILE", -8, "the weights file cannot be opened or mapped"),
)
"""Suffix of the name, value and meaning of each status that the library's functions return."""


def module_files(module: Module) -> dict[str, bytes]:
    """The library's files: name and content.

    Always NAME.h, NAME_internal.h, NAME.c, NAME_kernels.c, NAME.json, Makefile, CMakeLists.txt and
    NAME.pc. With a self-test NAME_self_test.c and NAME_test.c. The constants are in NAME_weights.c,
    in NAME_weights.S and NAME.weights, or in NAME.weights with NAME_file.c to map it.
    """
    name = module.name
    layout = weight_layout(module)
    block = weight_block(module.constants, layout)
    self_test = module.self_test
    test = None if self_test is None else self_test_layout(module, self_test)
    context = _context(module, layout, block, test)
    files = _kernels_files(module, context, steps_of(module))
    files[f"{name}.c"] = _rendered("entry.c.j2", context)
    match module.weights:
        case "c" if module.constants:
            context["weight_literals"] = [
                number_literals(stored_values(constant)) for constant in module.constants
            ]
            files[f"{name}_weights.c"] = _rendered("weights.c.j2", context)
        case "object" if module.constants:
            files[f"{name}_weights.S"] = _rendered("weights.S.j2", context)
            files[f"{name}.weights"] = block
        case "file":
            files[f"{name}.weights"] = block
            if module.target.hosted:
                files[f"{name}_file.c"] = _rendered("file.c.j2", context)
        case "c" | "object":
            pass
        case _:
            assert_never(module.weights)
    if self_test is not None and test is not None:
        context |= _self_test_context(module, self_test, test)
        files[f"{name}_self_test.c"] = _rendered("self_test.c.j2", context)
        if module.target.hosted or module.weights != "file":
            files[f"{name}_test.c"] = _rendered("test.c.j2", context)
    files["Makefile"] = _rendered("Makefile.j2", context)
    files["CMakeLists.txt"] = _rendered("CMakeLists.txt.j2", context)
    files[f"{name}.pc"] = _rendered("pkgconfig.pc.j2", context)
    files[f"{name}.json"] = description_json(module, layout, block, files)
    return files


def kernels_files(
    module: Module, behind: str, elsewhere: Set[str] = frozenset()
) -> dict[str, bytes]:
    """The file with the kernels, without the steps, and the headers that it includes: enough to
    call them one by one from the text `behind` them. Of the C functions that kernels call, it only
    declares those that are defined `elsewhere`."""
    layout = weight_layout(module)
    block = weight_block(module.constants, layout)
    context = _context(module, layout, block, None, elsewhere)
    return _kernels_files(module, context, None, behind)


def _kernels_files(
    module: Module, context: dict[str, object], steps: Steps | None, behind: str = ""
) -> dict[str, bytes]:
    name = module.name
    texts = (str(context["functions"]), *(kernel.text for kernel in module.kernels), behind)
    context["steps"] = steps
    context["needs_math"] = any(map(needs_math_header, texts))
    files = {f"{name}_kernels.c": _rendered("kernels.c.j2", context) + behind.encode("ascii")}
    context["kernels_sha256"] = file_digest(files[f"{name}_kernels.c"])
    files[f"{name}.h"] = _rendered("header.h.j2", context)
    files[f"{name}_internal.h"] = _rendered("internal.h.j2", context)
    return files


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["size"] = size_literal
    environment.globals |= {
        "describe": _describe_port,
        "filled": filled,
        "prototype": partial(call_text, indent=""),
        "generator_arguments": _generator_arguments,
        "generator_parameters": _generator_parameters,
        "size": size_literal,
        "statement": call_text,
        "stored_elements": stored_elements,
        "string": string_literal,
    }
    return environment


def _rendered(template: str, context: dict[str, object]) -> bytes:
    return _environment().get_template(template).render(context).encode("ascii")


def _context(
    module: Module,
    layout: WeightLayout,
    block: bytes,
    test: SelfTestLayout | None,
    elsewhere: Set[str] = frozenset(),
) -> dict[str, object]:
    """What the templates of all files draw on."""
    name = module.name
    model_sha256 = _metadata_text(module, "model_sha256")
    version = _metadata_text(module, "tasor_version")
    flags = source_flags(module)
    return _signatures(module) | {
        "module": module,
        "name": name,
        "macro": name.upper(),
        "abi": ABI_VERSION,
        "align": ARENA_ALIGN,
        "statuses": STATUSES,
        "generated": comment_text(f"Generated by Tasor, version {version}; do not edit."),
        "origin": comment_text(f"Model SHA-256: {model_sha256}"),
        "model_sha256": model_sha256,
        "largest_bytes": max(
            module.arena_bytes,
            layout.bytes,
            *(p.type.bytes for p in (*module.inputs, *module.outputs)),
        ),
        "weights": layout,
        "weights_sha256": file_digest(block),
        "weights_header": filled(map(str, block[:FILE_HEADER_BYTES]), "    "),
        "file_mode": module.weights == "file",
        "object_mode": module.weights == "object" and bool(module.constants),
        "self_test": test,
        "isa": ISA_SUPPORT[module.target.isa],
        "isa_flags": " ".join(module.target.compiler_flags),
        "base_flags": " ".join(base_flags(module)),
        "kernel_flags": " ".join(flags[f"{name}_kernels.c"]),
        "link_flags": " ".join(link_flags(module)),
        "functions": _functions_text(module, elsewhere),
        "inputs": tuple(zip(module.inputs, module.input_identifiers, strict=True)),
        "outputs": tuple(zip(module.outputs, module.output_identifiers, strict=True)),
        "kernel_parameters": {
            kernel.name: tuple(map(_declared, kernel.parameters)) for kernel in module.kernels
        },
        "in_team": in_team(module),
        "unused": _unused_parameters(module),
        "sources": tuple(flags),
        "objects": " ".join(f"{Path(source).stem}.o" for source in flags),
    }


def _functions_text(module: Module, elsewhere: Set[str]) -> str:
    """The C functions that kernels call, those from the table first."""
    texts = (
        definitions(module.functions, elsewhere),
        *(
            function.declaration if function.name in elsewhere else function.text
            for function in module.made
        ),
    )
    return "\n".join(texts).strip("\n")


def _signatures(module: Module) -> dict[str, object]:
    """Parameters and arguments of the functions that take the library's tensors."""
    name = module.name
    inputs = (
        f"const {port.type.dtype.c_name} *{identifier}"
        for port, identifier in zip(module.inputs, module.input_identifiers, strict=True)
    )
    outputs = (
        f"{port.type.dtype.c_name} *{identifier}"
        for port, identifier in zip(module.outputs, module.output_identifiers, strict=True)
    )
    tensors = (*inputs, *outputs)
    has_weights = module.weights == "file"
    weight_type = f"const struct {name}_weight_layout *"
    buffer = (
        *(("const void *weights",) if has_weights else ()),
        "void *arena",
        "size_t arena_bytes",
    )
    return {
        "run_parameters": (*buffer, *tensors),
        "self_test_parameters": buffer,
        "report_parameters": (*buffer, f"{name}_mismatch *mismatch"),
        "steps_parameters": (
            "unsigned char *arena",
            *((f"{weight_type}weights",) if has_weights else ()),
            *tensors,
        ),
        "steps_arguments": (
            "(unsigned char *)arena",
            *((f"({weight_type})weights",) if has_weights else ()),
            *module.port_identifiers,
        ),
    }


def _declared(parameter: Parameter) -> str:
    return f"{parameter.c_type}{parameter.name}"


def _unused_parameters(module: Module) -> tuple[str, ...]:
    """Those parameters of the function with the steps that no step uses."""
    used = {place for call in module.calls for place in call.arguments}
    kinds = {type(place) for place in used}
    ports = (
        *map(Input, range(len(module.inputs))),
        *map(Output, range(len(module.outputs))),
    )
    return (
        *(("arena",) if Arena not in kinds else ()),
        *(("weights",) if module.weights == "file" and Constant not in kinds else ()),
        *(
            identifier
            for place, identifier in zip(ports, module.port_identifiers, strict=True)
            if place not in used
        ),
    )


def _self_test_context(
    module: Module, self_test: SelfTest, layout: SelfTestLayout
) -> dict[str, object]:
    generated = {test.tensor.dtype for test in layout.inputs if _is_generated(test)}
    compared = {test.tensor.dtype for test in layout.outputs}
    macro = module.name.upper()
    return {
        "absolute": repr(float(self_test.absolute)),
        "relative": repr(float(self_test.relative)),
        "generated_inputs": tuple(filter(_is_generated, layout.inputs)),
        "generated_dtypes": tuple(dtype for dtype in DTYPES if dtype in generated),
        "compared_dtypes": tuple(dtype for dtype in DTYPES if dtype in compared),
        "self_test_arguments": (
            *(("weights",) if module.weights == "file" else ()),
            "arena",
            f"{macro}_ARENA_BYTES",
            *(
                f"input_{test.index}" if test.literals else _in_buffer(test)
                for test in layout.inputs
            ),
            *map(_in_buffer, layout.outputs),
        ),
    }


def _is_generated(test: SelfTestInput) -> bool:
    return test.literals is None and test.tensor.size > 0


def _in_buffer(test: SelfTestInput | SelfTestOutput) -> str:
    return f"({test.tensor.dtype.c_name} *)(void *)(base + {size_literal(test.offset)})"


def _generator_parameters(dtype: DType) -> tuple[str, ...]:
    below = () if dtype.is_float else ("uint64_t below",)
    return f"{dtype.c_name} *values", "size_t count", "uint64_t seed", *below


def _generator_arguments(test: SelfTestInput) -> tuple[str, ...]:
    size, index = size_literal(test.tensor.size), size_literal(test.index)
    below = () if test.tensor.dtype.is_float else (size_literal(test.below),)
    return _in_buffer(test), size, index, *below


def _describe_port(port: Port) -> str:
    values = f", values 0 to {port.domain - 1}" if port.domain else ""
    return f"{port.type}{values}, in the model: {comment_text(port.name)}"


def _metadata_text(module: Module, key: str) -> str:
    return str(module.metadata.get(key, "unknown"))

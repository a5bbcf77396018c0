"""What a C library is made of, before it is text.

What it does: names the parts of a library (ports, constants, kernels, the calls between them, the
self-test) and asserts that they fit together. What it does not: print C (see `module`), plan the
arena, or write kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal, assert_never

from tensorgen.c_function import CFunction
from tensorgen.ports import Port, c_identifier, unique_identifiers
from tensorgen.target import Target
from tensorgen.types import Array, DType, TensorType, type_of

ABI_VERSION = 1
"""Changes when the functions and types of a library's header change their meaning."""

ARENA_ALIGN = 64
"""Bytes that the arena, each constant and the self-test's tensors are aligned to: a cache line, and
the widest vector register."""

WeightMode = Literal["c", "object", "file"]
"""Where constants live: in C source, in an object file made by the assembler, or in a file of their
own that the caller maps."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One pointer parameter of a kernel; `writes` tells whether the kernel stores through it."""

    name: str
    dtype: DType
    writes: bool

    @property
    def c_type(self) -> str:
        """The C type of the pointer, up to its name."""
        return f"{'' if self.writes else 'const '}{self.dtype.c_name} *"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One C function.

    `text` is its whole definition, `static void name(const float *restrict x, ...) {...}`, with
    the comment above it. It may use what `NAME_kernels.c` offers (see templates/kernels.c.j2): the
    macros TASOR_*, the standard headers included there and the functions of
    `tensorgen.c_functions` named in `functions`, and those that were `made` for it: under one name
    all kernels have the same. `schedule` and `expression` are for people.
    A `parallel` kernel is called by all threads of a team, any other by one. From one with an
    `open_end` each thread returns when its own part is done.
    """

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    functions: tuple[str, ...]
    schedule: str
    expression: str
    parallel: bool
    open_end: bool = False
    made: tuple[CFunction, ...] = ()


@dataclass(frozen=True, slots=True)
class Input:
    """The library's input of that index, from that element on."""

    index: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """The library's output of that index, from that element on; later calls may read it again."""

    index: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Arena:
    """The arena from that byte offset on."""

    offset: int


@dataclass(frozen=True, slots=True)
class Constant:
    """The library's constant of that index."""

    index: int


Place = Input | Output | Arena | Constant
"""Where an argument of a kernel lives."""


@dataclass(frozen=True, slots=True)
class Call:
    """One step of the run function: a kernel by name, its arguments, and a label for people."""

    kernel: str
    arguments: tuple[Place, ...]
    label: str


@dataclass(frozen=True, eq=False, slots=True)
class SelfTest:
    """Inputs and the outputs to be expected, one array for each port.

    An input that equals `module_self_test.generated_input` costs no space; any other is embedded
    whole. Of each output only some elements are embedded. A float `a` passes for an expected `e`
    if |a - e| <= absolute + relative * |e|; an integer if |a - e| <= absolute. NaN passes for NaN.
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    absolute: float
    relative: float


@dataclass(frozen=True, eq=False)
class Module:
    """A library to be printed.

    `name` is a C identifier as `ports.c_identifier` makes them; all files, functions and macros
    carry it. `calls` run in order and use `arena_bytes` bytes of a caller's buffer. With `strict`,
    floating-point operations are neither fused nor reordered. `metadata` holds JSON values that go
    into `NAME.json` as they are: rules applied, versions, digests; of these "model_sha256" and
    "tasor_version" (both text) also appear in the C code.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: tuple[Array, ...]
    kernels: tuple[Kernel, ...]
    calls: tuple[Call, ...]
    arena_bytes: int
    target: Target
    threads: int
    strict: bool
    weights: WeightMode
    self_test: SelfTest | None
    metadata: Mapping[str, object]

    def __post_init__(self) -> None:
        assert c_identifier(self.name) == self.name, self.name
        assert self.outputs, "a library without outputs does nothing"
        assert self.threads >= 1, self.threads
        assert self.arena_bytes >= 0, self.arena_bytes
        assert len(self.kernels_by_name) == len(self.kernels), "two kernels share a name"
        for kernel in self.kernels:
            assert kernel.parallel == ("TASOR_TEAM_FOR" in kernel.text), kernel.name
        assert self.kernels_by_name.keys() == {call.kernel for call in self.calls}
        for call in self.calls:
            parameters = self.kernels_by_name[call.kernel].parameters
            assert len(parameters) == len(call.arguments), call
            for parameter, place in zip(parameters, call.arguments, strict=True):
                self._assert_fits(parameter, place)
        if self.self_test is not None:
            given = (*self.self_test.inputs, *self.self_test.outputs)
            ports = (*self.inputs, *self.outputs)
            assert tuple(map(type_of, given)) == tuple(port.type for port in ports)

    def _assert_fits(self, parameter: Parameter, place: Place) -> None:
        match place:
            case Arena(offset):
                assert 0 <= offset <= self.arena_bytes, place
                assert offset % parameter.dtype.bytes == 0, (parameter, place)
            case Input() | Constant():
                assert not parameter.writes, (parameter, place)
                assert parameter.dtype.c_name == self.type_at(place).dtype.c_name, place
            case Output():
                assert parameter.dtype.c_name == self.type_at(place).dtype.c_name, place
            case _:
                assert_never(place)

    def type_at(self, place: Input | Output | Constant) -> TensorType:
        """The tensor type of what lies there."""
        match place:
            case Input(index=index):
                return self.inputs[index].type
            case Output(index=index):
                return self.outputs[index].type
            case Constant(index):
                return type_of(self.constants[index])
            case _:
                assert_never(place)

    @cached_property
    def kernels_by_name(self) -> Mapping[str, Kernel]:
        """Each kernel under its name."""
        return {kernel.name: kernel for kernel in self.kernels}

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """Names of the C functions that any kernel calls, sorted."""
        return tuple(sorted({name for kernel in self.kernels for name in kernel.functions}))

    @cached_property
    def made(self) -> tuple[CFunction, ...]:
        """The C functions that were made for kernels, by their names."""
        found = {function.name: function for kernel in self.kernels for function in kernel.made}
        return tuple(found[name] for name in sorted(found))

    @cached_property
    def port_identifiers(self) -> tuple[str, ...]:
        """The C names of all inputs, then of all outputs."""
        own = (
            "arena", "arena_bytes", "weights", "spans", "status", "check_spans", "isa_present",
            "inputs", "outputs", "info", "weights_header", "memory_span", "spans_clash",
            "begin_call", "end_call", "calls_under_way", "turn",
            "places", "team_place", "keep_apart", "leave_processor",
            *(f"input_{number}_shape" for number in range(len(self.inputs))),
            *(f"output_{number}_shape" for number in range(len(self.outputs))),
        )  # fmt: skip
        public = (
            "run", "query", "info", "tensor", "status", "status_text", "self_test", "steps",
            "self_test_report", "mismatch", "map_weights", "unmap_weights", "weights",
            "weights_match", "weight_layout",
        )  # fmt: skip
        return unique_identifiers(
            tuple(port.name for port in chain(self.inputs, self.outputs)),
            taken=(
                *own,
                *(f"{self.name}_{word}" for word in public),
                *self.kernels_by_name,
                *self.functions,
                *(function.name for function in self.made),
            ),
        )

    @cached_property
    def input_identifiers(self) -> tuple[str, ...]:
        """The C name of each input."""
        return self.port_identifiers[: len(self.inputs)]

    @cached_property
    def output_identifiers(self) -> tuple[str, ...]:
        """The C name of each output."""
        return self.port_identifiers[len(self.inputs) :]

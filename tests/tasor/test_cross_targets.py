"""The C for other machines: built by their compilers without a warning, run in emulators.

Every library passes its own test there, and strict ones give the same bits everywhere. Firmware is
compiled for all its targets; that of Cortex-M4 and M7 runs as well, on an emulated processor that
knows all their instructions.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

import tasor
from tasor.peer_engines import MissingPackage
from tasor.suites.real_models import REAL_MODELS
from tensorgen.module_spec import Module
from tensorgen.ports import Port
from tensorgen.target import Target, host_target
from tensorgen.types import Array
from tests.required_tools import require
from tests.tasor.mixed_model import mixed_inputs, mixed_model

WARNINGS = "-Wall -Wextra -pedantic -Wconversion -Wshadow -Wmissing-prototypes -Werror"
X86 = ("sse42", "avx2", "avx512")
"""The instruction sets of x86, each with those before it."""


def command(folder: Path, *words: str, given: bytes = b"") -> bytes:
    """What the command prints; it fails or complains of nothing."""
    done = subprocess.run(words, cwd=folder, input=given, capture_output=True, check=False)
    log = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, log
    assert not done.stderr, log
    return done.stdout


@dataclass(frozen=True, slots=True)
class Machine:
    """A way to build for a target and to run the result here.

    `system` is the GNU name of the system whose tools build and whose libraries are needed to run,
    "" for this machine's own.
    """

    target: str
    system: str = ""
    emulator: str = ""
    compiler: str = "gcc"
    flags: str = ""

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.target, self.system, self.compiler, self.flags[1:])))

    @property
    def prefix(self) -> str:
        return f"{self.system}-" if self.system else ""

    def check(self) -> None:
        """Skips the test if a tool is missing or this processor lacks the instructions."""
        require("make", f"{self.prefix}{self.compiler}", *filter(None, [self.emulator]))
        isa, here = Target.named(self.target).isa, host_target().isa
        if isa in X86 and (here not in X86 or X86.index(isa) > X86.index(here)):
            pytest.skip(f"needs a processor for {self.target}")

    def build(self, folder: Path, *goals: str, warnings: str = WARNINGS) -> None:
        """Runs the library's Makefile."""
        compiler = () if self.compiler == "gcc" else (f"CC={self.compiler}",)
        flags = f"CFLAGS={warnings} {self.flags}"
        command(folder, "make", "-s", f"CROSS={self.prefix}", *compiler, flags, *goals)

    def run(self, program: Path, given: bytes = b"") -> bytes:
        """What the program prints."""
        emulator = (self.emulator, "-L", f"/usr/{self.system}") if self.emulator else ()
        return command(program.parent, *emulator, str(program), given=given)


AARCH64 = Machine("aarch64", "aarch64-linux-gnu", "qemu-aarch64")
ARMV7 = Machine("armv7", "arm-linux-gnueabihf", "qemu-arm")
RISCV64 = Machine("riscv64", "riscv64-linux-gnu", "qemu-riscv64")
MACHINES = (
    AARCH64,
    ARMV7,
    RISCV64,
    Machine("x86-64-v2"),
    Machine("x86-64-v3"),
    Machine("x86-64-v4"),
    Machine("c99", flags="-O0"),
    Machine("c99", compiler="clang"),
    Machine("c99", "aarch64-linux-gnu", "qemu-aarch64"),
)
FIRMWARE = ("cortex-m4", "cortex-m7", "cortex-m55")


@dataclass(frozen=True, slots=True)
class Subject:
    """A model with its shapes and one set of inputs."""

    model: onnx.ModelProto | Path
    shapes: Mapping[str, tuple[int, ...]]
    inputs: Mapping[str, Array]

    def compiled(self, target: str, *, strict: bool, threads: int = 1) -> tasor.CompiledModel:
        return tasor.compile(
            self.model,
            shapes=dict(self.shapes), target=target, strict=strict, threads=threads, name="net",
        )  # fmt: skip

    def save(self, folder: Path, target: str, *, strict: bool, threads: int = 1) -> Module:
        """Writes the library with its self-test as the whole content of the folder."""
        compiled = self.compiled(target, strict=strict, threads=threads)
        assert compiled.save(folder).no_self_test is None
        return compiled.module


def mixed() -> Subject:
    return Subject(mixed_model(), {}, mixed_inputs())


def products() -> Subject:
    """A product with a constant and one of activations, whose tiles have tails on both sides."""
    rng = np.random.default_rng(8)
    weights = rng.normal(size=(96, 70)).astype(np.float32)
    types = {"x": (45, 96), "z": (70, 53)}
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "weights"], ["first"]),
        onnx.helper.make_node("MatMul", ["first", "z"], ["y"]),
    ]

    def value(name: str, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    graph = onnx.helper.make_graph(
        nodes, "products", [value(name, shape) for name, shape in types.items()],
        [value("y", (45, 53))], [onnx.numpy_helper.from_array(weights, "weights")],
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    inputs = {name: rng.normal(size=shape).astype(np.float32) for name, shape in types.items()}
    return Subject(model, {}, inputs)


def angle_classifier() -> Subject:
    (real,) = (real for real in REAL_MODELS if real.name == "ppocr-angle")
    try:
        return Subject(real.path(), real.shapes_by_name, dict(real.inputs()))
    except MissingPackage as missing:
        pytest.skip(str(missing))


SUBJECTS: Mapping[str, Callable[[], Subject]] = {"mixed": mixed, "angle": angle_classifier}

each_subject = pytest.mark.parametrize(
    "subject", ["mixed", pytest.param("angle", marks=pytest.mark.slow)], indirect=True
)
each_machine = pytest.mark.parametrize(
    "machine",
    [
        # Every run sees plain C on another machine with riscv64, and these tools with aarch64.
        pytest.param(machine, marks=pytest.mark.slow)
        if (machine.target, machine.system) == ("c99", AARCH64.system)
        else machine
        for machine in MACHINES
    ],
    ids=lambda machine: machine.name,
)


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]()


@pytest.fixture(scope="module")
def reference(subject: Subject) -> dict[str, bytes]:
    """The outputs of the strict library in plain C, called from Python."""
    outputs = subject.compiled("c99", strict=True).run(dict(subject.inputs))
    return {name: array.tobytes() for name, array in outputs.items()}


CALLER = """
#include "net.h"
#include <stdio.h>

{arrays}
static unsigned char memory[NET_ARENA_BYTES + NET_ARENA_ALIGN];

int main(void)
{{
    const size_t over = (size_t)((uintptr_t)memory % NET_ARENA_ALIGN);

{reads}
    if (net_run(memory + (NET_ARENA_ALIGN - over), NET_ARENA_BYTES{arguments}) != NET_OK) {{
        return 1;
    }}
{writes}
    return 0;
}}
"""


def caller(module: Module) -> str:
    """A program that reads the inputs' bytes, runs the library and writes the outputs' bytes."""
    inputs = [(f"in_{n}", port) for n, port in enumerate(module.inputs)]
    outputs = [(f"out_{n}", port) for n, port in enumerate(module.outputs)]

    def transfers(function: str, stream: str, arrays: list[tuple[str, Port]]) -> str:
        return "\n".join(
            f"    if ({function}({name}, {port.type.bytes}, 1, {stream}) != 1) return 2;"
            for name, port in arrays
        )

    return CALLER.format(
        arrays="\n".join(
            f"static {port.type.dtype.c_name} {name}[{port.type.size}];"
            for name, port in (*inputs, *outputs)
        ),
        reads=transfers("fread", "stdin", inputs),
        arguments="".join(f", {name}" for name, _ in (*inputs, *outputs)),
        writes=transfers("fwrite", "stdout", outputs),
    )


def input_bytes(subject: Subject, module: Module) -> bytes:
    return b"".join(
        np.ascontiguousarray(subject.inputs[port.name]).tobytes() for port in module.inputs
    )


def outputs_by_name(module: Module, written: bytes) -> dict[str, bytes]:
    outputs, start = {}, 0
    for port in module.outputs:
        outputs[port.name] = written[start : start + port.type.bytes]
        start += port.type.bytes
    assert start == len(written)
    return outputs


def assert_same_bits(found: Mapping[str, bytes], expected: Mapping[str, bytes]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []


def outputs_on(
    machine: Machine, subject: Subject, folder: Path, threads: int = 1
) -> dict[str, bytes]:
    """The bytes of the strict library's outputs there, which passes its own test on the way."""
    module = subject.save(folder, machine.target, strict=True, threads=threads)
    machine.build(folder)
    assert machine.run(folder / "net_test") == b"net: OK\n"
    # In the place of the self-test's program the Makefile links ours with the library.
    (folder / "net_test.c").write_text(caller(module))
    machine.build(folder, "net_test")
    written = machine.run(folder / "net_test", input_bytes(subject, module))
    return outputs_by_name(module, written)


@each_subject
@each_machine
def test_strict_code_gives_the_same_bits(
    machine: Machine, subject: Subject, reference: dict[str, bytes], tmp_path: Path
) -> None:
    machine.check()
    assert_same_bits(outputs_on(machine, subject, tmp_path / "out"), reference)


@pytest.mark.slow
@each_subject
@pytest.mark.parametrize("machine", [AARCH64, ARMV7, RISCV64], ids=lambda machine: machine.name)
def test_strict_code_gives_the_same_bits_on_several_threads(
    machine: Machine, subject: Subject, reference: dict[str, bytes], tmp_path: Path
) -> None:
    machine.check()
    assert_same_bits(outputs_on(machine, subject, tmp_path / "out", threads=3), reference)


@pytest.mark.parametrize("machine", [AARCH64, ARMV7], ids=lambda machine: machine.name)
def test_matrix_products_pass_their_own_test(machine: Machine, tmp_path: Path) -> None:
    machine.check()
    subject = products()
    module = subject.save(tmp_path / "out", machine.target, strict=False)
    assert sum("register_tile" in kernel.schedule for kernel in module.kernels) == 2
    machine.build(tmp_path / "out")
    assert machine.run(tmp_path / "out" / "net_test") == b"net: OK\n"


@pytest.mark.slow
@each_subject
@each_machine
def test_passes_its_own_test(machine: Machine, subject: Subject, tmp_path: Path) -> None:
    machine.check()
    subject.save(tmp_path / "out", machine.target, strict=False)
    machine.build(tmp_path / "out")
    assert machine.run(tmp_path / "out" / "net_test") == b"net: OK\n"


def test_runs_from_a_static_program(tmp_path: Path) -> None:
    """No system libraries are needed where the program runs."""
    AARCH64.check()
    mixed().save(tmp_path / "out", "aarch64", strict=False)
    AARCH64.build(tmp_path / "out", "LDFLAGS=-static", "net_test", warnings="-O1")
    assert command(tmp_path, "qemu-aarch64", "out/net_test") == b"net: OK\n"


# Cortex-M4 has the instructions of M7, save those on doubles.
@each_subject
@pytest.mark.parametrize(
    "target", [pytest.param(FIRMWARE[0], marks=pytest.mark.slow), *FIRMWARE[1:]]
)
@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_firmware_compiles(target: str, strict: bool, subject: Subject, tmp_path: Path) -> None:
    require("make", "arm-none-eabi-gcc")
    subject.save(tmp_path / "out", target, strict=strict)
    command(tmp_path / "out", "make", "-s", f"CFLAGS={WARNINGS}")
    symbols = command(tmp_path / "out", "arm-none-eabi-nm", "libnet.a").decode().split()
    assert not {"malloc", "free", "printf", "exit"} & set(symbols)


@pytest.mark.slow
@each_subject
@pytest.mark.parametrize("target", FIRMWARE[:2])
def test_firmware_gives_the_same_bits(
    target: str, subject: Subject, reference: dict[str, bytes], tmp_path: Path
) -> None:
    """The code generator is that of the bare-metal compiler; only the system's interface differs.

    The linker refuses firmware in a program for Linux, unless nothing says that it is firmware.
    """
    ARMV7.check()
    folder = tmp_path / "out"
    module = subject.save(folder, target, strict=True)
    ARMV7.build(folder)
    command(folder, "arm-linux-gnueabihf-objcopy", "-R", ".ARM.attributes", "libnet.a")
    for name, given, source in (
        ("net_test", b"", (folder / "net_test.c").read_text()),
        ("caller", input_bytes(subject, module), caller(module)),
    ):
        (folder / f"{name}.c").write_text(source)
        compiler = ("arm-linux-gnueabihf-gcc", "-std=c99", "-o", name)
        command(folder, *compiler, f"{name}.c", "libnet.a", "-lm")
        written = ARMV7.run(folder / name, given)
        if name == "net_test":
            assert written == b"net: OK\n"
        else:
            assert_same_bits(outputs_by_name(module, written), reference)

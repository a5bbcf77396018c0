"""The C for other machines: built by their compilers without a warning, run in an emulator.

Each library passes its own test there, and the strict ones give the same bits everywhere. The
firmware targets are only compiled, or run as an emulated firmware where the tools for that are.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

import tasor
from benchmarks.real_models import REAL_MODELS
from tasor.peer_engines import MissingPackage
from tensorgen.module_spec import Module
from tensorgen.ports import Port
from tensorgen.target import Target, host_target
from tensorgen.types import Array
from tests.tasor.mixed_model import mixed_inputs, mixed_model

WARNINGS = "-Wall -Wextra -pedantic -Wconversion -Wshadow -Wmissing-prototypes -Werror"
FIRMWARE = ("cortex-m4", "cortex-m7", "cortex-m55")


@dataclass(frozen=True, slots=True)
class Machine:
    """A way to build for a target and to run the result here."""

    target: str
    compiler: str
    emulator: tuple[str, ...] = ()
    flags: str = ""

    def check_tools(self) -> None:
        """Skips the test if a tool is missing or this processor lacks the instructions."""
        for tool in ("make", self.compiler, *self.emulator[:1]):
            if shutil.which(tool) is None:
                pytest.skip(f"needs {tool}")
        target = Target.named(self.target)
        if not self.emulator and target.architecture:
            order = ("c99", "sse42", "avx2", "avx512")
            here = host_target().isa
            if platform.machine() != target.architecture or here not in order:
                pytest.skip(f"needs a processor for {self.target}")
            if order.index(target.isa) > order.index(here):
                pytest.skip(f"needs a processor for {self.target}")

    def build(self, folder: Path, goal: str, flags: str = WARNINGS) -> None:
        """Runs the library's Makefile; everything is linked statically, as emulators need it."""
        done = subprocess.run(
            [
                "make", "-s", f"CC={self.compiler}", "LDFLAGS=-static",
                f"CFLAGS={flags} {self.flags}", goal,
            ],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert not done.stderr, done.stderr

    def run(self, program: Path, given: bytes = b"") -> bytes:
        """What the program prints."""
        done = subprocess.run(
            [*self.emulator, str(program)], input=given, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


MACHINES = (
    Machine("aarch64", "aarch64-linux-gnu-gcc", ("qemu-aarch64",)),
    Machine("armv7", "arm-linux-gnueabihf-gcc", ("qemu-arm",)),
    Machine("riscv64", "riscv64-linux-gnu-gcc", ("qemu-riscv64",)),
    Machine("x86-64-v2", "gcc"),
    Machine("x86-64-v3", "gcc"),
    Machine("x86-64-v4", "gcc"),
    Machine("c99", "gcc"),
    Machine("c99", "gcc", flags="-O0"),
    Machine("c99", "clang"),
    Machine("c99", "aarch64-linux-gnu-gcc", ("qemu-aarch64",)),
)


def machine_name(machine: Machine) -> str:
    return "-".join(filter(None, (machine.target, machine.compiler, machine.flags.strip("-"))))


@dataclass(frozen=True, slots=True)
class Subject:
    """A model with its shapes and one set of inputs."""

    model: onnx.ModelProto | Path
    shapes: Mapping[str, tuple[int, ...]]
    inputs: Mapping[str, Array]

    def save(self, folder: Path, target: str, *, strict: bool, threads: int = 1) -> Module:
        """Writes the library for a target, with its self-test, as the whole of the folder."""
        compiled = tasor.compile(
            self.model,
            shapes=dict(self.shapes), target=target, strict=strict, threads=threads, name="net",
        )  # fmt: skip
        assert compiled.save(folder).no_self_test is None
        return compiled.module


def mixed() -> Subject:
    return Subject(mixed_model(), {}, mixed_inputs())


def angle_classifier() -> Subject:
    (real,) = (real for real in REAL_MODELS if real.name == "ppocr-angle")
    try:
        return Subject(real.path(), real.shapes_by_name, dict(real.inputs()))
    except MissingPackage as missing:
        pytest.skip(str(missing))


SUBJECTS: Mapping[str, Callable[[], Subject]] = {"mixed": mixed, "angle": angle_classifier}


def each_subject(*, slow: bool) -> pytest.MarkDecorator:
    marks = [pytest.mark.slow] if slow else []
    return pytest.mark.parametrize(
        "subject", ["mixed", pytest.param("angle", marks=marks)], indirect=True
    )


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]()


def caller(module: Module) -> str:
    """A program that reads the inputs' bytes, runs the library and writes the outputs' bytes."""

    def arrays(ports: tuple[Port, ...], kind: str) -> str:
        return "".join(
            f"static uint64_t {kind}_{n}[{-(-port.type.bytes // 8) + 1}];\n"
            for n, port in enumerate(ports)
        )

    def transfers(ports: tuple[Port, ...], kind: str, function: str, stream: str) -> str:
        return "".join(
            f"    if ({function}({kind}_{n}, 1, {port.type.bytes}, {stream}) "
            f"!= {port.type.bytes}) return 2;\n"
            for n, port in enumerate(ports)
        )

    arguments = "".join(
        f", (void *){kind}_{n}"
        for kind, ports in (("in", module.inputs), ("out", module.outputs))
        for n in range(len(ports))
    )
    return (
        '#include "net.h"\n#include <stdio.h>\n\n'
        + arrays(module.inputs, "in")
        + arrays(module.outputs, "out")
        + "static unsigned char memory[NET_ARENA_BYTES + NET_ARENA_ALIGN];\n\nint main(void)\n{\n"
        + "    unsigned char *const arena = memory + NET_ARENA_ALIGN\n"
        + "        - (uintptr_t)memory % NET_ARENA_ALIGN;\n"
        + transfers(module.inputs, "in", "fread", "stdin")
        + f"    if (net_run(arena, NET_ARENA_BYTES{arguments}) != NET_OK) return 1;\n"
        + transfers(module.outputs, "out", "fwrite", "stdout")
        + "    return 0;\n}\n"
    )


def input_bytes(module: Module, inputs: Mapping[str, Array]) -> bytes:
    return b"".join(np.ascontiguousarray(inputs[port.name]).tobytes() for port in module.inputs)


def output_bits(module: Module, written: bytes) -> dict[str, bytes]:
    """The bytes of each output by its name."""
    outputs, start = {}, 0
    for port in module.outputs:
        outputs[port.name] = written[start : start + port.type.bytes]
        start += port.type.bytes
    assert start == len(written)
    return outputs


def bits_on(machine: Machine, subject: Subject, folder: Path, threads: int = 1) -> dict[str, bytes]:
    """The outputs of the strict library on that machine; it passes its own test on the way."""
    module = subject.save(folder, machine.target, strict=True, threads=threads)
    machine.build(folder, "net_test")
    assert machine.run(folder / "net_test") == b"net: OK\n"
    # Another program in the place of the self-test: the Makefile links it in the same way.
    (folder / "net_test.c").write_text(caller(module))
    machine.build(folder, "net_test", flags="")
    written = machine.run(folder / "net_test", input_bytes(module, subject.inputs))
    return output_bits(module, written)


@pytest.fixture(scope="module")
def reference(subject: Subject) -> dict[str, bytes]:
    """The outputs of the strict library here, in plain C, called from Python."""
    model = tasor.compile(
        subject.model, shapes=dict(subject.shapes), target="c99", strict=True, threads=1
    )
    return {name: array.tobytes() for name, array in model.run(dict(subject.inputs)).items()}


@each_subject(slow=True)
@pytest.mark.parametrize("machine", MACHINES, ids=machine_name)
def test_strict_code_gives_the_same_bits(
    machine: Machine, subject: Subject, reference: dict[str, bytes], tmp_path: Path
) -> None:
    machine.check_tools()
    found = bits_on(machine, subject, tmp_path / "out")
    assert [name for name in found if found[name] != reference[name]] == []
    assert found.keys() == reference.keys()


@pytest.mark.slow
@each_subject(slow=True)
@pytest.mark.parametrize("machine", MACHINES[:4], ids=machine_name)
def test_strict_code_gives_the_same_bits_on_several_threads(
    machine: Machine, subject: Subject, reference: dict[str, bytes], tmp_path: Path
) -> None:
    machine.check_tools()
    assert bits_on(machine, subject, tmp_path / "out", threads=3) == reference


@pytest.mark.slow
@each_subject(slow=True)
@pytest.mark.parametrize("machine", MACHINES, ids=machine_name)
def test_passes_its_own_test(machine: Machine, subject: Subject, tmp_path: Path) -> None:
    machine.check_tools()
    subject.save(tmp_path / "out", machine.target, strict=False)
    machine.build(tmp_path / "out", "net_test")
    assert machine.run(tmp_path / "out" / "net_test") == b"net: OK\n"

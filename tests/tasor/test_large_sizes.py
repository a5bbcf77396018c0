"""Tensors of more elements than 32 bits count: C that compiles, runs, or says what does not fit."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tasor
from tensorgen.types import Array
from tests.required_tools import require

STRICT_FLAGS = (
    "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Woverflow",
    "-Werror",
)  # fmt: skip

BEYOND = 2**31 + 11
"""More elements than an int counts."""


def model(
    nodes: Sequence[onnx.NodeProto],
    shape: Sequence[int],
    dtype: int = TensorProto.FLOAT,
    constants: Mapping[str, Array] | None = None,
    results: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of one input x; of its last node's result unless others are named with their type."""
    outputs = results if results is not None else {nodes[-1].output[0]: dtype}
    graph = helper.make_graph(
        nodes, "large",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@dataclass(frozen=True, slots=True)
class Large:
    """An operator on a tensor that no int counts the elements of."""

    operator: str
    shape: tuple[int, ...]
    weights: tuple[int, ...] = ()
    attributes: tuple[tuple[str, Any], ...] = ()

    def proto(self) -> onnx.ModelProto:
        constants = {"w": np.ones(self.weights, np.float32)} if self.weights else {}
        node = helper.make_node(
            self.operator, ["x", *constants], ["y"], **dict(self.attributes)
        )  # fmt: skip
        return model([node], self.shape, constants=constants)


LARGE = {
    "elementwise": Large("Neg", (65537, 65539)),
    "transposition": Large("Transpose", (65537, 65539), (), (("perm", [1, 0]),)),
    "sum": Large("ReduceSum", (3, 4294967311)),
    "softmax": Large("Softmax", (65537, 65539)),
    "product": Large("MatMul", (4294967, 1009), (1009, 17)),
    "pointwise": Large("Conv", (1, 3, 65537, 32771), (5, 3, 1, 1)),
    "convolution": Large("Conv", (1, 3, 65537, 32771), (16, 3, 3, 3), (("pads", [1] * 4),)),
    "depthwise": Large("Conv", (1, 2, 65537, 32771), (2, 1, 3, 3), (("group", 2),)),
    "pool": Large("MaxPool", (1, 2, 65537, 32771), (), (("kernel_shape", [3, 3]),)),
    "transposed": Large("ConvTranspose", (1, 2, 32771, 32771), (2, 3, 4, 4),
                        (("strides", [2, 2]), ("pads", [1] * 4))),
}  # fmt: skip


@pytest.mark.parametrize("target", ["x86-64-v4", "c99"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", LARGE)
def test_indices_are_wide_enough(name: str, compiler: str, target: str, tmp_path: Path) -> None:
    require(compiler)
    compiled = tasor.compile(LARGE[name].proto(), target=target, threads=2, name="net")
    compiled.save(tmp_path / "out")
    flags = compiled.module.target.compiler_flags
    for source in ("net.c", "net_kernels.c"):
        own = flags if source == "net_kernels.c" else ()
        done = subprocess.run(
            [compiler, *STRICT_FLAGS, "-fopenmp", *own, "-O0", "-c", "-o", "out.o", source],
            cwd=tmp_path / "out", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[:2000]


def free_bytes() -> int:
    """Memory that a process may take without others having to give theirs."""
    try:
        lines = Path("/proc/meminfo").read_text().split("\n")
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


@pytest.mark.slow
def test_elements_beyond_the_range_of_an_int_are_found() -> None:
    if free_bytes() < 8 * 2**30:
        pytest.skip("needs 8 GiB of memory")
    nodes = (
        helper.make_node("Not", ["x"], ["all"]),
        helper.make_node("Gather", ["x", "places"], ["some"]),
        helper.make_node("Slice", ["x", "start", "end"], ["last"]),
    )
    places = np.array([BEYOND - 1, 2**31, -1, 2**31 - 1, 5, BEYOND - 3], np.int64)
    constants: dict[str, Array] = {
        "places": places,
        "start": np.array([BEYOND - 9], np.int64),
        "end": np.array([BEYOND], np.int64),
    }
    results = dict.fromkeys(("all", "some", "last"), TensorProto.BOOL)
    proto = model(nodes, [BEYOND], TensorProto.BOOL, constants, results)
    x = np.zeros(BEYOND, bool)
    x[[5, 2**31, BEYOND - 3]] = True
    found = tasor.compile(proto, threads=2).run({"x": x})
    np.testing.assert_array_equal(found["some"], x[places])
    np.testing.assert_array_equal(found["last"], x[-9:])
    assert np.count_nonzero(found["all"]) == BEYOND - 3
    assert not found["all"][[5, 2**31, BEYOND - 3]].any()


@pytest.mark.parametrize("target", ["armv7", "cortex-m4", "cortex-m7", "cortex-m55"])
def test_what_32_bits_do_not_address_is_refused(target: str) -> None:
    message = rf"^target {target}: expected less than 2\*\*31 bytes in one piece, got \d+ for "
    copy = model([helper.make_node("Neg", ["x"], ["y"])], [2**29])
    with pytest.raises(tasor.TargetError, match=message + "input 'x'; choose smaller shapes"):
        tasor.compile(copy, target=target)
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axis"], ["column"]),
        helper.make_node("MatMul", ["column", "w"], ["products"]),
        helper.make_node("Softmax", ["products"], ["shares"]),
        helper.make_node("ReduceMax", ["shares"], ["y"], keepdims=0),
    ]
    constants: dict[str, Array] = {
        "axis": np.array([1], np.int64),
        "w": np.ones((1, 2**15), np.float32),
    }
    outer = model(nodes, [2**14], constants=constants)
    with pytest.raises(tasor.TargetError, match=message + "the arena"):
        tasor.compile(outer, target=target)
    assert tasor.compile(outer, target="c99").arena_bytes >= 2**31


def test_c_for_any_machine_does_not_compile_where_addresses_are_too_short(tmp_path: Path) -> None:
    compiler = "arm-linux-gnueabihf-gcc"
    require(compiler)
    for size, fits in ((2**28, True), (2**31, False)):
        proto = model([helper.make_node("Neg", ["x"], ["y"])], [size])
        folder = tmp_path / str(size)
        tasor.compile(proto, target="c99", name="net", threads=1).save(folder)
        done = subprocess.run(
            [compiler, "-std=c99", "-c", "net.c"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode == 0) is fits
        assert ("net_size_check" in done.stderr) is not fits

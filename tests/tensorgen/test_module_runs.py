"""The printed library when it is called: what it computes, and what it refuses."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import pytest

from tensorgen.build import build_library
from tensorgen.library import Library
from tensorgen.module import (
    STATUSES,
    Call,
    Input,
    Kernel,
    Output,
    Parameter,
    SelfTest,
    WeightMode,
    generated_input,
    library_sources,
    module_files,
    source_flags,
)
from tensorgen.ports import Port
from tensorgen.types import TensorType, float32
from tests.small_module import (
    COLUMNS,
    COMPILERS,
    HOST,
    MODES,
    ROWS,
    SCALE,
    STATUS,
    STRICT_FLAGS,
    TOTAL,
    X_TYPE,
    make,
    reference,
    run,
    self_test,
    tiny,
    written,
)


def load(folder: Path, mode: WeightMode) -> tuple[cffi.FFI, Any]:
    make(folder, "libtiny.so")
    ffi = cffi.FFI()
    weights = "const void *, " if mode == "file" else ""
    ffi.cdef(f"""
        typedef struct {{ const char *name, *dtype; size_t rank; const size_t *shape; size_t bytes;
        }} tensor;
        typedef struct {{ int abi; const char *name, *target; unsigned threads; int strict;
            size_t arena_bytes, arena_align, weight_bytes, input_count; const tensor *inputs;
            size_t output_count; const tensor *outputs;
            const char *model_sha256, *kernels_sha256, *weights_sha256; }} info;
        const info *tiny_query(void);
        const char *tiny_status_text(int);
        int tiny_run({weights}void *, size_t, const void *, const void *, void *, void *);
        int tiny_self_test({weights}void *, size_t);
        int tiny_map_weights(const char *, const void **);
        int tiny_unmap_weights(const void *);
    """)
    return ffi, ffi.dlopen(str(folder / "libtiny.so"))


def text_at(ffi: cffi.FFI, pointer: Any) -> str:
    text = ffi.string(pointer)
    assert isinstance(text, bytes)
    return text.decode()


class Memory:
    """Aligned memory for one run: the arena, then inputs and outputs far from each other."""

    def __init__(self, ffi: cffi.FFI) -> None:
        self.arena, self.x, self.limit, self.total, self.positive = (
            self._aligned(size) for size in (2048, X_TYPE.bytes, 8, 16, 4)
        )
        self.pointers = [
            ffi.cast("char *", array.ctypes.data)
            for array in (self.x, self.limit, self.total, self.positive)
        ]
        self.arena_pointer = ffi.cast("char *", self.arena.ctypes.data)

    @staticmethod
    def _aligned(size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        memory = np.zeros(size + 128, np.uint8)
        start = -memory.ctypes.data % 64
        return memory[start : start + size]


@pytest.mark.parametrize("weights", MODES)
def test_run_computes_and_refuses(weights: WeightMode, tmp_path: Path) -> None:
    module = tiny(weights=weights)
    folder = written(module, tmp_path)
    ffi, library = load(folder, weights)
    memory = Memory(ffi)
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    memory.x[:] = x.reshape(-1).view(np.uint8)
    memory.limit.view(np.int64)[:] = 1
    first: list[Any] = []
    if weights == "file":
        mapped = ffi.new("const void **")
        assert library.tiny_map_weights(str(folder / "tiny.weights").encode(), mapped) == 0
        first = [mapped[0]]
    arena, size, tensors = memory.arena_pointer, module.arena_bytes, memory.pointers

    assert library.tiny_run(*first, arena, size, *tensors) == STATUS["OK"]
    total, positive = reference(x, 1)
    np.testing.assert_allclose(memory.total.view(np.float32), total, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(memory.positive.view(bool), positive)

    def status(place: int, pointer: Any) -> int:
        changed = [*tensors]
        changed[place] = pointer
        return int(library.tiny_run(*first, arena, size, *changed))

    for place in range(4):
        assert status(place, ffi.NULL) == STATUS["E_NULL"]
    assert library.tiny_run(*first, ffi.NULL, size, *tensors) == STATUS["E_NULL"]
    assert library.tiny_run(*first, arena + 32, size, *tensors) == STATUS["E_ALIGN"]
    assert status(0, tensors[0] + 2) == STATUS["E_ALIGN"]
    assert status(1, tensors[1] + 4) == STATUS["E_ALIGN"]
    assert status(3, tensors[3] + 1) == STATUS["OK"]
    assert library.tiny_run(*first, arena, size - 1, *tensors) == STATUS["E_ARENA"]
    assert status(2, tensors[0] + X_TYPE.bytes - 4) == STATUS["E_OVERLAP"]
    assert status(2, tensors[0] + X_TYPE.bytes) == STATUS["OK"]
    assert status(0, arena + size - 4) == STATUS["E_OVERLAP"]
    assert status(3, tensors[2] + 15) == STATUS["E_OVERLAP"]
    assert status(1, tensors[0]) == STATUS["OK"]
    if weights == "file":
        assert library.tiny_run(ffi.NULL, arena, size, *tensors) == STATUS["E_NULL"]
        assert library.tiny_run(arena, arena, size, *tensors) == STATUS["E_OVERLAP"]
        elsewhere = np.zeros(4096, np.uint8)
        other = ffi.cast("char *", elsewhere.ctypes.data + -elsewhere.ctypes.data % 64)
        assert library.tiny_run(other, arena, size, *tensors) == STATUS["E_WEIGHTS"]
        assert library.tiny_unmap_weights(first[0]) == STATUS["OK"]


def test_weights_file_is_checked(tmp_path: Path) -> None:
    folder = written(tiny(weights="file"), tmp_path)
    ffi, library = load(folder, "file")
    mapped = ffi.new("const void **")

    def status(content: bytes | None) -> int:
        path = folder / "other.weights"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        return int(library.tiny_map_weights(str(path).encode(), mapped))

    good = (folder / "tiny.weights").read_bytes()
    changed = module_files(tiny(weights="file", constants=(*tiny().constants[:-1], np.array([7]))))
    assert status(good) == STATUS["OK"]
    assert library.tiny_unmap_weights(mapped[0]) == STATUS["OK"]
    assert status(None) == STATUS["E_FILE"]
    assert status(b"") == STATUS["E_WEIGHTS"]
    assert status(good[:-1]) == STATUS["E_WEIGHTS"]
    assert status(good + b"\0") == STATUS["E_WEIGHTS"]
    assert status(changed["tiny.weights"]) == STATUS["E_WEIGHTS"]
    assert mapped[0] == ffi.NULL
    assert library.tiny_map_weights(ffi.NULL, mapped) == STATUS["E_NULL"]


def test_query_tells_what_the_json_tells(tmp_path: Path) -> None:
    module = tiny()
    folder = written(module, tmp_path)
    ffi, library = load(folder, "c")
    info = library.tiny_query()
    document = json.loads((folder / "tiny.json").read_text())
    assert info.abi == document["abi"] == 1
    assert text_at(ffi, info.name) == document["name"] == "tiny"
    assert text_at(ffi, info.target) == document["target"] == "c99"
    assert info.arena_bytes == document["arena_bytes"] == module.arena_bytes
    assert info.weight_bytes == document["weight_bytes"]
    assert text_at(ffi, info.model_sha256) == document["model_sha256"]
    assert text_at(ffi, info.weights_sha256) == document["weights_sha256"]
    kernels_sha256 = document["sources_sha256"]["tiny_kernels.c"]
    assert text_at(ffi, info.kernels_sha256) == kernels_sha256
    for tensors, count, key in (
        (info.inputs, info.input_count, "inputs"),
        (info.outputs, info.output_count, "outputs"),
    ):
        assert count == len(document[key])
        for index, entry in enumerate(document[key]):
            tensor = tensors[index]
            assert text_at(ffi, tensor.name) == entry["name"]
            assert text_at(ffi, tensor.dtype) == entry["dtype"]
            assert [tensor.shape[axis] for axis in range(tensor.rank)] == entry["shape"]
    assert document["rules"] == ["mul-one"]
    assert [call["kernel"] for call in document["calls"]] == [SCALE.name, TOTAL.name]
    for suffix, value, text in STATUSES:
        assert text_at(ffi, library.tiny_status_text(value)) == text, suffix
    assert text_at(ffi, library.tiny_status_text(99)) == "unknown status"


@pytest.mark.parametrize("weights", ["c", "object"])
def test_python_builds_and_runs_it(weights: WeightMode, tmp_path: Path) -> None:
    module = tiny(weights=weights, target=HOST)
    sources = library_sources(module, module_files(module))
    path = build_library(
        sources,
        target=HOST,
        source_flags=source_flags(module),
        threads=module.threads,
        cache=tmp_path,
    )
    library = Library(path, "tiny", module.inputs, module.outputs, module.arena_bytes)
    x = np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    total, positive = library.run((x, np.array(0, np.int64)))
    np.testing.assert_allclose(total.view(np.float32), reference(x, 0)[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(positive, reference(x, 0)[1])


def test_self_test_finds_a_wrong_output(tmp_path: Path) -> None:
    correct = self_test()
    total = correct.outputs[0].copy()
    total[2] += 1
    wrong = SelfTest(correct.inputs, (total, correct.outputs[1]), 1e-5, 1e-5)
    folder = written(tiny(self_test=wrong), tmp_path)
    make(folder, "tiny_test")
    done = run("./tiny_test", folder=folder)
    assert done.returncode == 1
    assert re.fullmatch(
        r"tiny: output 0, element 2: expected [-0-9.e]+, got [-0-9.e]+\n", done.stdout
    )


def test_entry_refuses_an_old_processor(tmp_path: Path) -> None:
    if not HOST.isa.startswith("avx"):
        pytest.skip("the host has no instructions beyond those of its architecture")
    text = module_files(tiny(target=HOST))["tiny.c"].decode()
    assert '__builtin_cpu_supports("avx2")' in text
    # A processor that lacks what does not exist yet.
    folder = written(tiny(target=HOST), tmp_path)
    (folder / "tiny.c").write_text(
        re.sub(r'__builtin_cpu_supports\("avx2"\)', "0", text), encoding="ascii"
    )
    make(folder, "tiny_test")
    done = run("./tiny_test", folder=folder)
    assert done.returncode == 1
    assert done.stdout == f"tiny: {STATUSES[5][2]}\n"


def test_steps_can_be_timed(tmp_path: Path) -> None:
    folder = written(tiny(), tmp_path)
    (folder / "hooks.h").write_text(
        "void step(int number);\n#define TASOR_STEP_BEGIN(number) step(number);\n"
    )
    (folder / "hooks.c").write_text(
        '#include <stdio.h>\n#include "hooks.h"\n'
        'void step(int number) { printf("step %d\\n", number); }\n'
    )
    make(folder, "tiny_test", "CFLAGS=-include hooks.h", "LDFLAGS=hooks.c")
    done = run("./tiny_test", folder=folder)
    assert done.stdout == "step 0\nstep 1\ntiny: OK\n"


def test_kernels_call_our_functions(tmp_path: Path) -> None:
    kernel = Kernel(
        name="erf_f32_4x37",
        text="""
static void erf_f32_4x37(const float *restrict x, float *restrict y)
{
    for (int i = 0; i < 4; ++i) {
        y[i] = tasor_erf_f32(x[i]);
    }
}
""",
        parameters=(Parameter("x", float32, False), Parameter("y", float32, True)),
        functions=("tasor_erf_f32",),
        schedule="",
        expression="",
        parallel=False,
    )
    x = generated_input(X_TYPE, 0)
    y = np.array([math.erf(value) for value in x[0, :ROWS].tolist()], np.float32)
    module = tiny(
        inputs=(Port("x", X_TYPE),),
        outputs=(Port("y", TensorType(float32, (ROWS,))),),
        kernels=(kernel,),
        calls=(Call(kernel.name, (Input(0), Output(0)), "erf"),),
        self_test=SelfTest((x,), (y,), 0.0, 1e-6),
    )
    folder = written(module, tmp_path)
    for compiler in COMPILERS:
        done = run(compiler, *STRICT_FLAGS, "-c", "tiny_kernels.c", folder=folder)
        assert done.returncode == 0, done.stderr
    make(folder, "test")

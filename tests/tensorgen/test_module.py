"""The printed library as a whole: what compilers say to it, and what it does when called."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cffi
import ml_dtypes
import numpy as np
import pytest

from tensorgen.build import build_library
from tensorgen.library import Library
from tensorgen.module import (
    STATUSES,
    Arena,
    Call,
    Constant,
    Input,
    Kernel,
    Module,
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
from tensorgen.target import Target
from tensorgen.types import TensorType, boolean, dtype_of, float32, int64

COMPILERS = ("gcc", "clang")
MODES: tuple[WeightMode, ...] = ("c", "object", "file")
STRICT_FLAGS = (
    "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Wmissing-prototypes",
    "-Wvla", "-Wstrict-prototypes", "-Wundef", "-Werror",
)  # fmt: skip
STATUS = {suffix: value for suffix, value, _ in STATUSES}
ROWS, COLUMNS = 4, 37

SCALE = Kernel(
    name="scale_f32_4x37",
    text="""
/* expr: out[i,j] = x[i,j] * w[j] */
static void scale_f32_4x37(const float *restrict x, const float *restrict w, float *restrict out)
{
    TASOR_TEAM_FOR(i, 4) {
        TASOR_SIMD
        for (int j = 0; j < 37; ++j) {
            out[i * 37 + j] = x[i * 37 + j] * w[j];
        }
    }
}
""",
    parameters=(
        Parameter("x", float32, False),
        Parameter("w", float32, False),
        Parameter("out", float32, True),
    ),
    functions=(),
    schedule="parallel(i); vectorize(j)",
    expression="out[i,j] = x[i,j] * w[j]",
    parallel=True,
)
TOTAL = Kernel(
    name="total_f32_4x37",
    text="""
/* expr: total[i] = sum(j) a[i,j]; positive[i] = total[i] > limit[] */
static void total_f32_4x37(
    const float *restrict a, const int64_t *restrict limit, float *restrict total,
    uint8_t *restrict positive)
{
    for (int i = 0; i < 4; ++i) {
        float sum = 0.0f;
        TASOR_SIMD_REDUCTION(+, sum)
        for (int j = 0; j < 37; ++j) {
            sum += a[i * 37 + j];
        }
        total[i] = sum;
        positive[i] = sum > (float)limit[0] ? 1 : 0;
    }
}
""",
    parameters=(
        Parameter("a", float32, False),
        Parameter("limit", int64, False),
        Parameter("total", float32, True),
        Parameter("positive", boolean, True),
    ),
    functions=(),
    schedule="",
    expression="total[i] = sum(j) a[i,j]; positive[i] = total[i] > limit[]",
    parallel=False,
)
WEIGHT = np.linspace(-1, 2, COLUMNS, dtype=np.float32)
X_TYPE = TensorType(float32, (ROWS, COLUMNS))


def reference(x: np.ndarray[Any, Any], limit: int) -> tuple[Any, Any]:
    total = (x * WEIGHT).sum(axis=1, dtype=np.float32)
    return total, total > limit


def self_test() -> SelfTest:
    x = generated_input(X_TYPE, 0)
    limit = np.array(-(2**40), np.int64)
    return SelfTest((x, limit), reference(x, int(limit)), 1e-5, 1e-5)


def tiny(**changes: Any) -> Module:
    module = Module(
        name="tiny",
        inputs=(Port("x", X_TYPE), Port("limit", TensorType(int64, ()))),
        outputs=(
            Port("total", TensorType(float32, (ROWS,))),
            Port("positive?", TensorType(boolean, (ROWS,))),
        ),
        constants=(
            np.zeros((0, 3), np.int32),
            WEIGHT,
            np.array([np.nan, -np.inf, -0.0, 1e-45, 3.4028235e38], np.float32),
            np.array([-(2**63), 2**63 - 1, 0], np.int64),
            np.array([True, False]),
            np.array([1.5, -2.0], ml_dtypes.bfloat16),
            np.array([0.1, np.inf, np.nan, 5e-324]),
            np.array([2**64 - 1], np.uint64),
        ),
        kernels=(SCALE, TOTAL),
        calls=(
            Call("scale_f32_4x37", (Input(0), Constant(1), Arena(64)), "scale */ of ??/ layer\n1"),
            Call("total_f32_4x37", (Arena(64), Input(1), Output(0), Output(1)), "total"),
        ),
        arena_bytes=64 + ROWS * COLUMNS * 4,
        target=Target.named("c99"),
        threads=1,
        strict=False,
        weights="c",
        self_test=self_test(),
        metadata={
            "model_sha256": "ab" * 32,
            "tasor_version": "0.0",
            "rules": ["mul-one"],
            "compiler": "gcc",
        },
    )
    return replace(module, **changes)


def written(module: Module, folder: Path) -> Path:
    for name, content in module_files(module).items():
        (folder / name).write_bytes(content)
    return folder


def run(*command: object, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def make(folder: Path, *goals: str) -> None:
    done = run("make", "-s", *goals, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr


HOST = Target.named("host")
VARIANTS = {
    "one-thread": tiny(),
    "host": tiny(target=HOST),
    "threads": tiny(threads=2, weights="object"),
    "strict-file": tiny(strict=True, weights="file"),
    "no-constants": tiny(
        constants=(),
        kernels=(TOTAL,),
        calls=(Call("total_f32_4x37", (Input(0), Input(1), Output(0), Output(1)), ""),),
        arena_bytes=0,
        self_test=None,
        metadata={},
    ),
}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_compilers_have_no_complaint(variant: str, compiler: str, tmp_path: Path) -> None:
    folder = written(VARIANTS[variant], tmp_path)
    flags = source_flags(VARIANTS[variant])
    sources = sorted(path for path in folder.glob("*.c"))
    assert len(sources) >= 2
    for source in sources:
        for extra in ((), ("-fopenmp",)):
            done = run(
                compiler, *STRICT_FLAGS, "-O2", *extra, *flags.get(source.name, ()), "-c",
                source.name, "-o", "out.o", folder=folder,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert done.stderr == ""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_header_is_cpp(compiler: str, tmp_path: Path) -> None:
    folder = written(tiny(weights="file"), tmp_path)
    (folder / "user.cpp").write_text('#include "tiny.h"\nint abi() { return TINY_ABI; }\n')
    done = run(
        compiler, "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "user.cpp",
        folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("weights", MODES)
def test_makefile_builds_and_tests(weights: WeightMode, compiler: str, tmp_path: Path) -> None:
    folder = written(tiny(weights=weights, threads=2), tmp_path)
    done = run("make", f"CC={compiler}", "all", "test", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("tiny: OK\n")
    assert "warning" not in done.stderr
    assert (folder / "libtiny.so").exists()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="needs pkg-config")
@pytest.mark.parametrize("weights", ["object", "file"])
@pytest.mark.parametrize("shared", ["ON", "OFF"])
def test_cmake_builds_and_tests(weights: WeightMode, shared: str, tmp_path: Path) -> None:
    folder = written(tiny(weights=weights), tmp_path)
    for command in (
        ("cmake", "-S", ".", "-B", "build", f"-DBUILD_SHARED_LIBS={shared}"),
        ("cmake", "--build", "build"),
        ("ctest", "--test-dir", "build", "--output-on-failure"),
        ("cmake", "--install", "build", "--prefix", "installed"),
    ):
        done = run(*command, folder=folder)
        assert done.returncode == 0, done.stdout + done.stderr
    (folder / "user.c").write_text(
        "#include <tiny.h>\nint main(void) { return tiny_query()->abi != TINY_ABI; }\n"
    )
    search = {"PKG_CONFIG_PATH": str(folder / "installed/lib/pkgconfig")}
    link = run("pkg-config", "--cflags", "--libs", "--static", "tiny", folder=folder, **search)
    done = run("gcc", "user.c", "-o", "user", *link.stdout.split(), folder=folder)
    assert done.returncode == 0, link.stderr + done.stderr
    done = run("./user", folder=folder, LD_LIBRARY_PATH=str(folder / "installed/lib"))
    assert done.returncode == 0, done.stderr


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


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("weights", MODES)
def test_sanitizers_find_nothing(weights: WeightMode, compiler: str, tmp_path: Path) -> None:
    folder = written(tiny(weights=weights), tmp_path)
    sanitize = "-g -fsanitize=address,undefined -fno-sanitize-recover=all"
    done = run("make", "-s", f"CC={compiler}", f"CFLAGS={sanitize}", "test", folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "tiny: OK\n"


@pytest.mark.parametrize("weights", MODES)
def test_library_needs_nothing_and_keeps_nothing(weights: WeightMode, tmp_path: Path) -> None:
    module = tiny(weights=weights, target=HOST)
    folder = written(module, tmp_path)
    make(folder, "libtiny.a")
    expected = {"memcpy", "memset", "memcmp", "__cpu_model", "__cpu_indicator_init"}
    expected |= {"_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
    if weights == "file":
        expected |= {"open", "close", "fstat", "mmap", "munmap"}
    symbols = run("nm", "libtiny.a", folder=folder).stdout
    undefined = set(re.findall(r"^ +U (\w+)$", symbols, re.MULTILINE))
    assert {name for name in undefined if not name.startswith("tiny_")} <= expected
    sizes = run("size", "-A", "libtiny.a", folder=folder).stdout
    # Tables of pointers are read-only, but for the loader that relocates them.
    mutable = r"^\.(?:data(?!\.rel\.ro)|bss|tdata|tbss)\S*\s+[1-9].*$"
    assert not re.findall(mutable, sizes, re.MULTILINE)
    assert not re.findall(r" [DBbCG] ", symbols)
    make(folder, "libtiny.so")
    exported = run("nm", "-D", "--defined-only", "libtiny.so", folder=folder).stdout
    public = {"tiny_run", "tiny_query", "tiny_status_text", "tiny_self_test"}
    public |= {"tiny_self_test_report"}
    if weights == "file":
        public |= {"tiny_map_weights", "tiny_unmap_weights"}
    assert set(re.findall(r" [A-Z] (\w+)$", exported, re.MULTILINE)) == public


HOSTILE = (
    "outputs",
    "inputs",
    "info",
    "weights_header",
    "input_0_shape",
    "output_0_shape",
    "*/ int evil(void); /*",
    "a\\",
    "a??/",
    '"); system("id"); //',
    "line\nbreak\r\x00\x07",
    "int",
    "arena",
    "spans",
    "NULL",
    "x" * 5000,
    "",
    "größe 你好 \ud800",
    "{{ module }} {% raw %} $(id) `id`",
    "%s%n",
    SCALE.name,
    TOTAL.name,
)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_hostile_names_stay_names(compiler: str, tmp_path: Path) -> None:
    scalar = TensorType(float32, ())
    module = tiny(
        inputs=(*tiny().inputs, *(Port(name, scalar) for name in HOSTILE)),
        self_test=None,
        metadata={"model_sha256": "*/ ??/\n#error", "tasor_version": '"\\\n$(shell id)'},
    )
    folder = written(module, tmp_path)
    for source in sorted(folder.glob("*.c")):
        done = run(compiler, *STRICT_FLAGS, "-c", source.name, folder=folder)
        assert done.returncode == 0, done.stderr
    for name, content in module_files(module).items():
        assert content.isascii(), name
    make(folder, f"CC={compiler}")
    document = json.loads((folder / "tiny.json").read_text())
    assert [entry["name"] for entry in document["inputs"][2:]] == list(HOSTILE)
    assert len({entry["c_name"] for entry in document["inputs"]}) == len(HOSTILE) + 2


def test_same_module_same_bytes() -> None:
    for weights in MODES:
        assert module_files(tiny(weights=weights)) == module_files(tiny(weights=weights))
    metadata = tiny().metadata
    reordered = dict(sorted(metadata.items(), reverse=True))
    assert module_files(tiny(metadata=reordered)) == module_files(tiny())


def test_files_end_in_newlines_without_blanks_before() -> None:
    for name, content in module_files(tiny(threads=2)).items():
        text = content.decode("ascii")
        assert text.endswith("\n"), name
        assert not re.search(r"[ \t]$", text, re.MULTILINE), name
        assert not re.search(r"\n\n\n", text), name


def test_constants_have_the_same_bytes_in_c_and_in_the_file(tmp_path: Path) -> None:
    folder = written(tiny(), tmp_path)
    block = module_files(tiny(weights="object"))["tiny.weights"]
    make(folder, "tiny_weights.o")
    done = run("objcopy", "-O", "binary", "-j", ".rodata", "tiny_weights.o", "c.bin", folder=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "c.bin").read_bytes() == block
    assert dtype_of(WEIGHT) == float32
    assert block[64 : 64 + WEIGHT.nbytes] == WEIGHT.tobytes()


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


def test_kernels_refuse_the_wrong_flags(tmp_path: Path) -> None:
    folder = written(tiny(target=Target.named("x86-64-v3")), tmp_path)
    done = run("gcc", "-mno-avx2", "-fsyntax-only", "tiny_kernels.c", folder=folder)
    assert done.returncode == 1
    assert "compile it with -march=x86-64-v3" in done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-ffinite-math-only"])
def test_kernels_refuse_to_lose_nan(flag: str, compiler: str, tmp_path: Path) -> None:
    folder = written(tiny(), tmp_path)
    done = run(compiler, flag, "-fsyntax-only", "tiny_kernels.c", folder=folder)
    assert done.returncode == 1
    assert "compile without -ffast-math" in done.stderr


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


@pytest.mark.parametrize(
    "machine",
    ["aarch64-linux-gnu", "armv7-linux-gnueabihf", "riscv64-linux-gnu", "x86_64-linux-musl",
     "arm64-apple-macos", "x86_64-apple-macos", "x86_64-w64-mingw32"],
)  # fmt: skip
def test_weights_assemble_for_other_systems(machine: str, tmp_path: Path) -> None:
    folder = written(tiny(weights="object"), tmp_path)
    done = run("clang", f"--target={machine}", "-c", "tiny_weights.S", folder=folder)
    assert done.returncode == 0, done.stderr
    block = (folder / "tiny.weights").read_bytes()
    assert block in (folder / "tiny_weights.o").read_bytes()


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


@pytest.mark.parametrize("name", ["cortex-m4", "aarch64", "armv7"])
def test_other_machines_get_no_shared_library_and_no_x86(name: str) -> None:
    target = Target.named(name)
    files = module_files(tiny(target=target, weights="file"))
    assert (b"libtiny.so:" in files["Makefile"]) == target.hosted
    assert ("tiny_file.c" in files) == target.hosted
    assert b"__builtin_cpu" not in files["tiny.c"]
    assert (b"arm_neon.h" in files["tiny_kernels.c"]) == (target.isa in ("neon", "neon32"))


def test_mistakes_in_the_plan_are_found() -> None:
    def broken(**changes: Any) -> None:
        with pytest.raises(AssertionError):
            tiny(**changes)

    scale, total = tiny().calls
    broken(name="two words")
    broken(outputs=())
    broken(calls=(scale,))
    broken(calls=(replace(scale, arguments=scale.arguments[:2]), total))
    broken(calls=(replace(scale, arguments=(Input(0), Constant(1), Constant(1))), total))
    broken(calls=(replace(scale, arguments=(Input(1), Constant(1), Arena(64))), total))
    broken(calls=(replace(scale, arguments=(Input(0), Constant(1), Arena(66))), total))
    broken(arena_bytes=0)
    with pytest.raises(AssertionError, match="arena_bytes"):
        module_files(tiny(metadata={"arena_bytes": 3}))


@pytest.mark.parametrize("name", ["tiny.h", "tiny.c", "tiny_kernels.c", "tiny_self_test.c"])
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    module = tiny(target=Target.named("x86-64-v3"), threads=2)
    golden(f"module/{name}", module_files(module)[name].decode("ascii"))

"""The printed library and compilers: what they say to it, and what it is made of then."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tensorgen.module import (
    Call,
    Input,
    Output,
    WeightMode,
    module_files,
    source_flags,
)
from tensorgen.ports import Port
from tensorgen.target import Target
from tensorgen.types import TensorType, float32
from tests.required_tools import require
from tests.small_module import (
    COMPILERS,
    HOST,
    MODES,
    SCALE,
    STRICT_FLAGS,
    TOTAL,
    make,
    run,
    tiny,
    written,
)

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
    require(compiler)
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


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("weights", MODES)
def test_sanitizers_find_nothing(weights: WeightMode, compiler: str, tmp_path: Path) -> None:
    require(compiler)
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
    require(compiler)
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

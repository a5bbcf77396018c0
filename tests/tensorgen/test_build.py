"""Building libraries: the cache, its crash safety, and every way in which a build can fail."""

from __future__ import annotations

import os
import platform
import re
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cffi
import pytest

from tensorgen.build import (
    BuildError,
    ToolMissing,
    build_library,
    cache_folder,
    compiler_version,
    default_flags,
    find_compiler,
    prune_cache,
    supports_openmp,
)
from tensorgen.target import Target, host_target

HOST = host_target()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)


def answer(path: Path, name: str = "answer") -> int:
    ffi = cffi.FFI()
    ffi.cdef(f"int {name}(void);")
    return int(getattr(ffi.dlopen(str(path)), name)())


def returning(value: int) -> dict[str, str | bytes]:
    return {"answer.c": f"int answer(void) {{ return {value}; }}\n"}


def fake_compiler(folder: Path, script: str, name: str = "fakecc") -> Path:
    """A program that stands for the compiler; `$real` is the real one."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\nreal=cc\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def counting_compiler(folder: Path) -> Path:
    return fake_compiler(folder, f'echo run >> "{folder}/runs"\nexec $real "$@"')


def runs_of(compiler: Path) -> int:
    log = compiler.parent / "runs"
    return len(log.read_text().splitlines()) if log.exists() else 0


def half_made(cache: Path) -> list[Path]:
    """Whatever lies in the cache besides whole libraries, probes and folders."""
    return [
        path
        for path in cache.rglob("*")
        if path.is_file() and path.parent.name not in ("libraries", "probes")
    ]


def test_builds_what_the_sources_say() -> None:
    assert answer(build_library(returning(42), target=HOST)) == 42


def test_sources_of_every_kind_make_one_library(tmp_path: Path) -> None:
    sources: dict[str, str | bytes] = {
        "shared.h": "int part(void); extern const unsigned char weights[4];\n",
        "answer.c": '#include "shared.h"\nint answer(void) { return part() + weights[3]; }\n',
        "part.c": '#include "shared.h"\nint part(void) { return 30; }\n',
        "weights.S": ".section .rodata\n.globl weights\nweights: .incbin \"weights.bin\"\n",
        "weights.bin": bytes([9, 9, 9, 12]),
    }  # fmt: skip
    assert answer(build_library(sources, target=HOST)) == 42


def test_an_object_file_is_linked(tmp_path: Path) -> None:
    (tmp_path / "part.c").write_text("int part(void) { return 7; }\n")
    subprocess.run(["cc", "-fPIC", "-c", "part.c"], cwd=tmp_path, check=True)
    sources: dict[str, str | bytes] = {
        "answer.c": "int part(void); int answer(void) { return part(); }\n",
        "part.o": (tmp_path / "part.o").read_bytes(),
    }
    assert answer(build_library(sources, target=HOST)) == 7


@pytest.mark.skipif(HOST.isa not in ("avx2", "avx512"), reason="needs AVX2 to see the difference")
def test_a_source_with_flags_of_its_own_leaves_the_targets_to_the_others() -> None:
    text = "int {}(void) {{\n#ifdef __AVX2__\n return 1;\n#else\n return 0;\n#endif\n}}\n"
    sources = {"entry.c": text.format("entry"), "kernel.c": text.format("kernel")}
    path = build_library(sources, target=HOST, source_flags={"entry.c": ("-mno-avx",)})
    assert (answer(path, "entry"), answer(path, "kernel")) == (0, 1)


def test_a_hit_does_not_run_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = counting_compiler(tmp_path / "bin")
    monkeypatch.setenv("CC", str(compiler))
    first = build_library(returning(1), target=HOST, threads=2)
    runs = runs_of(compiler)
    assert runs >= 2
    assert build_library(returning(1), target=HOST, threads=2) == first
    assert runs_of(compiler) == runs


def test_everything_that_matters_changes_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = returning(1)
    compiler = fake_compiler(tmp_path / "bin", 'exec $real "$@"')
    monkeypatch.setenv("CC", str(compiler))
    paths = [
        build_library(base, target=HOST),
        build_library(returning(2), target=HOST),
        build_library({"other.c": base["answer.c"]}, target=HOST),
        build_library({**base, "note.h": ""}, target=HOST),
        build_library(base, target=HOST, flags=("-DX",)),
        build_library(base, target=HOST, source_flags={"answer.c": ("-DX",)}),
        build_library(base, target=HOST, libraries=()),
        build_library(base, target=HOST, strict=True),
        build_library(base, target=Target.named("c99")),
    ]
    monkeypatch.setenv("C_INCLUDE_PATH", str(tmp_path))
    paths.append(build_library(base, target=HOST))
    monkeypatch.delenv("C_INCLUDE_PATH")
    fake_compiler(tmp_path / "bin", 'exec $real -DNEWER "$@"')
    paths.append(build_library(base, target=HOST))
    assert len(set(paths)) == len(paths)


def test_the_flags_never_let_arithmetic_be_reordered() -> None:
    for strict in (False, True):
        flags = default_flags(strict=strict, openmp=False)
        assert not {"-ffast-math", "-Ofast", "-funsafe-math-optimizations"} & set(flags)
        assert ("-ffp-contract=off" in flags) == strict
        assert ("-ffp-contract=fast" in flags) != strict


@pytest.mark.skipif(not HOST.has_fma, reason="needs a fused multiply-add to see the difference")
def test_strict_builds_do_not_fuse_and_others_do() -> None:
    # (1 + e)(1 - e) rounds to 1, so only a fused multiply-add sees the -e*e that is left.
    source = (
        "static volatile double e = 1e-9, one = 1;\n"
        "int answer(void) { double a = one + e, b = one - e; return a * b - one != 0; }\n"
    )
    assert answer(build_library({"a.c": source}, target=HOST)) == 1
    assert answer(build_library({"a.c": source}, target=HOST, strict=True)) == 0


def test_openmp_comes_with_threads_if_the_compiler_has_it() -> None:
    source = "int answer(void) {\n#ifdef _OPENMP\n return 1;\n#else\n return 0;\n#endif\n}\n"
    expected = int(supports_openmp(find_compiler(HOST)))
    assert answer(build_library({"a.c": source}, target=HOST, threads=1)) == 0
    assert answer(build_library({"a.c": source}, target=HOST, threads=2)) == expected


def test_a_compiler_without_openmp_still_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'for word; do [ "$word" = -fopenmp ] && exit 1; done\nexec $real "$@"'
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path / "bin", script)))
    assert not supports_openmp(find_compiler(HOST))
    assert answer(build_library(returning(5), target=HOST, threads=2)) == 5


def test_openmp_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = counting_compiler(tmp_path / "bin")
    monkeypatch.setenv("CC", str(compiler))
    found = find_compiler(HOST)
    supports_openmp(found)
    supports_openmp(found)
    assert runs_of(compiler) == 1


def test_no_compiler_is_told_with_the_way_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing) as missing:
        build_library(returning(1), target=HOST)
    assert str(missing.value) == (
        f"compiler: expected one of cc, gcc, clang on PATH for target {HOST.name}, got none; "
        "install one (Debian and Ubuntu: apt-get install gcc) or name yours in CC"
    )


def test_a_wrong_cc_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-cc -m64")
    with pytest.raises(ToolMissing, match="expected CC to name a C compiler, got 'no-such-cc'"):
        build_library(returning(1), target=HOST)


def test_a_missing_cross_compiler_is_told_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = "aarch64" if platform.machine() == "x86_64" else "x86-64-v3"
    monkeypatch.setenv("PATH", str(tmp_path))
    prefix = Target.named(foreign).compiler_prefix
    with pytest.raises(ToolMissing, match=f"{prefix}gcc on PATH .* install gcc-{prefix[:-1]}"):
        find_compiler(Target.named(foreign))


def test_cc_for_this_machine_is_not_used_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = Target.named("aarch64" if platform.machine() == "x86_64" else "x86-64-v3")
    compiler = fake_compiler(tmp_path / "bin", "exit 0", f"{foreign.compiler_prefix}gcc")
    monkeypatch.setenv("PATH", f"{compiler.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CC", "cc")
    assert find_compiler(foreign).name == compiler.name
    assert find_compiler(HOST).name == "cc"


def test_firmware_targets_are_refused() -> None:
    with pytest.raises(BuildError, match=r"^build: expected a target whose system .* cortex-m4; "):
        build_library(returning(1), target=Target.named("cortex-m4"))


def test_a_refused_source_is_told_in_one_line_with_the_whole_log(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as refusal:
        build_library(
            {"bad.c": "int f(void) { return a; }\nint g(void) { return b; }\n"}, target=HOST
        )
    message = str(refusal.value)
    assert "\n" not in message
    assert re.match(
        r"build: expected cc to accept the emitted code, got bad\.c:1:\d+: error: .*'a'.* \| "
        r"bad\.c:2:\d+: error: .*'b'.*; choose another compiler with CC",
        message,
    )
    assert "return b;" in refusal.value.log
    assert "-shared -o library.so bad.c" in refusal.value.log
    assert half_made(tmp_path / "cache") == []


def test_a_failed_link_is_told() -> None:
    twice = {"a.c": "int f(void) { return 1; }\n", "b.c": "int f(void) { return 2; }\n"}
    with pytest.raises(BuildError, match=r"got .*multiple definition|duplicate symbol"):
        build_library(twice, target=HOST)


def test_a_compiler_that_dies_silently_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path / "bin", "exit 3")))
    with pytest.raises(BuildError, match="got exit status 3; choose another compiler"):
        build_library(returning(1), target=HOST)


def test_a_compiler_that_says_it_worked_but_made_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path / "bin", "exit 0")))
    with pytest.raises(BuildError, match=r"library\.so"):
        build_library(returning(1), target=HOST)
    assert list((tmp_path / "cache" / "libraries").iterdir()) == []


def test_a_compiler_that_takes_too_long_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The child would write the file if it outlived the compiler that started it.
    marker = tmp_path / "alive"
    script = f'(sleep 1; touch "{marker}") & wait'
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path / "bin", script)))
    started = time.monotonic()
    with pytest.raises(BuildError, match=r"to finish answer\.c within 0\.2 s"):
        build_library(returning(1), target=HOST, timeout_seconds=0.2)
    assert time.monotonic() - started < 0.9
    time.sleep(1)
    assert not marker.exists()


def test_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TASOR_CACHE", str(tmp_path / "file"))
    with pytest.raises(BuildError, match=r"expected a cache folder .* set TASOR_CACHE"):
        build_library(returning(1), target=HOST)


def test_the_cache_folder_is_the_users_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("TASOR_CACHE")
    assert cache_folder().name == "tasor"


def test_many_threads_build_the_same_library_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: build_library(returning(6), target=HOST), range(8)))
    assert len(set(paths)) == 1
    assert answer(paths[0]) == 6


BUILD_PROGRAM = """
import sys
from tensorgen.build import build_library
from tensorgen.target import host_target
print(build_library({"answer.c": "int answer(void) { return 8; }"}, target=host_target()))
"""


def start_build() -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", BUILD_PROGRAM], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_several_processes_build_the_same_library_at_once(tmp_path: Path) -> None:
    processes = [start_build() for _ in range(3)]
    paths = {process.communicate(timeout=60)[0].strip() for process in processes}
    assert len(paths) == 1
    assert answer(Path(paths.pop())) == 8
    assert half_made(tmp_path / "cache") == []


def test_a_killed_build_leaves_no_library_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The compiler writes half a library, says so, and waits to be killed.
    script = (
        'while [ "$1" != -o ]; do shift; done\n'
        f'echo half > "$2"; echo $$ > "{tmp_path}/started"; sleep 60'
    )
    compiler = fake_compiler(tmp_path / "bin", script)
    monkeypatch.setenv("CC", str(compiler))
    started = tmp_path / "started"
    process = start_build()
    deadline = time.monotonic() + 30
    while not (started.exists() and started.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    os.killpg(int(started.read_text()), signal.SIGKILL)
    libraries = tmp_path / "cache" / "libraries"
    assert list(libraries.iterdir()) == []
    (left,) = (tmp_path / "cache" / "building").iterdir()

    monkeypatch.delenv("CC")
    assert answer(build_library(returning(8), target=HOST)) == 8

    os.utime(left, (0, 0))
    prune_cache()
    assert not left.exists()


def test_the_least_recently_used_libraries_go_first(tmp_path: Path) -> None:
    paths = [build_library(returning(value), target=HOST) for value in range(4)]
    for age, path in enumerate(paths):
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert build_library(returning(3), target=HOST) == paths[3]
    size = paths[0].stat().st_size
    prune_cache(limit_bytes=2 * size + size // 2)
    assert [path.exists() for path in paths] == [True, False, False, True]
    prune_cache(limit_bytes=0, keep=paths[0])
    assert [path.exists() for path in paths] == [True, False, False, False]


def test_a_running_build_is_not_pruned(tmp_path: Path) -> None:
    running = tmp_path / "cache" / "building" / "running"
    running.mkdir(parents=True)
    prune_cache(limit_bytes=0)
    assert running.exists()


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    first = build_library(returning(3), target=HOST, cache=tmp_path / "one")
    second = build_library(returning(3), target=HOST, cache=tmp_path / "two")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_the_version_is_one_line() -> None:
    version = compiler_version(find_compiler(HOST))
    assert version
    assert "\n" not in version

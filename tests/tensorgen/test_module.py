"""The printed library as text: goldens, equal bytes, and mistakes in its plan."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tensorgen.module import (
    Arena,
    Constant,
    Input,
    module_files,
)
from tensorgen.target import Target
from tensorgen.types import dtype_of, float32
from tests.small_module import MODES, WEIGHT, make, run, tiny, written


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

"""Functions that candidates call are compiled once; who is refused is refused alone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from tensorgen.build import BuildError
from tensorgen.c_function import CFunction
from tensorgen.tune.function_libraries import FunctionLibraries, Place, places
from tensorgen.tune.part_assembly import MadeFunction


def function(name: str) -> CFunction:
    return CFunction(name, f"static void {name}(float *x)\n{{\n    *x = 0;\n}}\n", (), None, "")


A, B, C = map(function, ("tasor_a", "tasor_b", "tasor_c"))


class Compiler:
    """Remembers what it compiled; refuses some functions."""

    def __init__(self, *refused: CFunction, error: BuildError | None = None) -> None:
        self.refused = refused
        self.error = BuildError("build: expected x, got y") if error is None else error
        self.files: list[tuple[str, ...]] = []

    def compiled(self, functions: Sequence[MadeFunction]) -> Path:
        names = tuple(function.name for function in functions)
        self.files.append(names)
        if any(function in self.refused for function in functions):
            raise self.error
        return Path("+".join(names))

    def submit(self, functions: Sequence[MadeFunction]) -> Future[tuple[Place, ...]]:
        done: Future[tuple[Place, ...]] = Future()
        try:
            done.set_result(tuple(places(functions, self.compiled)))
        except BuildError as error:
            done.set_exception(error)
        return done


def test_each_is_compiled_once_and_all_new_ones_together() -> None:
    compiler = Compiler()
    libraries = FunctionLibraries(compiler.submit)
    libraries.begin([A, B, A])
    libraries.begin([B, C])
    libraries.begin([A])
    assert libraries.place("tasor_a") == libraries.place("tasor_b")
    assert libraries.place("tasor_c") == Path("tasor_c")
    assert compiler.files == [("tasor_a", "tasor_b"), ("tasor_c",)]


def test_who_is_refused_is_refused_alone() -> None:
    compiler = Compiler(B)
    libraries = FunctionLibraries(compiler.submit)
    libraries.begin([A, B, C])
    assert libraries.place("tasor_a") == Path("tasor_a")
    assert libraries.place("tasor_c") == Path("tasor_c")
    for _ in range(2):
        with pytest.raises(BuildError, match="expected x"):
            libraries.place("tasor_b")
    assert compiler.files == [("tasor_a", "tasor_b", "tasor_c"), *(((f.name,)) for f in (A, B, C))]


def test_a_full_disk_is_the_fault_of_none() -> None:
    """It is told to whoever asks, and nothing is tried again."""
    compiler = Compiler(A, error=BuildError("build", "No space left on device"))
    libraries = FunctionLibraries(compiler.submit)
    libraries.begin([A, B])
    for name in ("tasor_a", "tasor_b"):
        with pytest.raises(BuildError):
            libraries.place(name)
    assert len(compiler.files) == 1

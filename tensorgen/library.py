"""A generated library, loaded into this process and called with numpy arrays.

What it does: opens the shared library (cffi, ABI mode), checks the arrays against the library's
ports, gives it an arena and turns its status codes into errors. What it does not: build the
library, convert or copy arrays, or know how it computes.
"""

from __future__ import annotations

import mmap
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from tensorgen.ports import Port
from tensorgen.types import Array, Shape, type_of

ARENA_ALIGNMENT = 64
"""Bytes that the address of an arena is a multiple of: a cache line, and the widest vector."""

_WAIT_POLICY = "OMP_WAIT_POLICY"
BRIEF_SPINNING = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}
"""Turns of a waiting loop (GNU), and milliseconds (LLVM, Intel), before a thread goes to sleep."""

_OPENMP_RUNTIMES = (b"libgomp.so.1", b"libomp.so.5", b"libomp.so", b"libiomp5.so", b"libomp.dylib")

_STATUS_TEXTS = {
    -1: "expected every pointer to be set, got NULL; pass an array for each port",
    -2: "expected aligned pointers, got one that is not; align the arena to "
    f"{ARENA_ALIGNMENT} bytes and every array to its elements",
    -3: "expected a larger arena, got too few bytes; take the size from the library's header",
    -4: "expected separate arrays, got some that overlap; pass outputs that share no memory with "
    "the inputs or each other",
    -5: "expected a CPU with the instructions that the library was built for, got one without; "
    "build it for this machine or for an older level",
    -6: "expected the weights that belong to this library, got others; put the weight file that "
    "was built with it beside it",
}


class InputError(ValueError):
    """The arrays given do not match the library's ports. The message is one line."""


class RunError(RuntimeError):
    """A library could not be loaded, or refused to run. The message is one line."""


class Library:
    """A shared library with the function `int NAME_run(arena, arena_bytes, inputs…, outputs…)`.

    A library whose constants are in a file of their own takes them as its first argument.

    May be called from several threads at once: each has an arena of its own, kept for its next
    call, and Python's lock is released while the library computes.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        inputs: tuple[Port, ...],
        outputs: tuple[Port, ...],
        arena_bytes: int,
        weights: Path | None = None,
    ) -> None:
        """Loads the library that was built under `name`, a C identifier.

        `weights` is the file with its constants, if they are not in the library. Raises RunError if
        a file cannot be read, is no library for this machine or lacks the function.
        """
        assert re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name, re.ASCII), name
        assert arena_bytes >= 0, arena_bytes
        self.path = path
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.arena_bytes = arena_bytes
        self._input_layouts = tuple(_layout(port) for port in inputs)
        self._output_layouts = tuple(_layout(port) for port in outputs)
        self._arenas = threading.local()
        self._ffi = cffi.FFI()
        self._from_buffer: Callable[..., Any] = self._ffi.from_buffer
        self._weights = () if weights is None else (self._from_buffer(_mapped(weights)),)
        self._library, self._function = self._load()

    def _load(self) -> tuple[Any, Callable[..., int]]:
        pointers = ", void *" * (len(self.inputs) + len(self.outputs))
        weights = "const void *, " * len(self._weights)
        self._ffi.cdef(f"int {self.name}_run({weights}void *, size_t{pointers});")
        try:
            with _brief_spinning():
                library = self._ffi.dlopen(str(self.path))
        except OSError as error:
            raise RunError(
                f"library: expected {self.path} to be a library for this machine, got "
                f"{_one_line(error)}; build it again"
            ) from error
        _keep_openmp_loaded()
        try:
            function = getattr(library, f"{self.name}_run")
        except AttributeError as error:
            raise RunError(
                f"library: expected the function {self.name}_run in {self.path}, got none of that "
                "name; load it under the name it was built with"
            ) from error
        return library, function

    def run(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The outputs for these inputs, one array for each port in the library's order.

        Inputs are row-major and contiguous, of exactly the type of their port; nothing is
        converted. Raises InputError for any other array, RunError if the library refuses to run.
        """
        self._check("input", self.inputs, self._input_layouts, arrays)
        outputs = tuple(np.empty(shape, dtype) for dtype, shape in self._output_layouts)
        self._call(arrays, outputs)
        return outputs

    def run_into(self, arrays: Sequence[Array], outputs: Sequence[Array]) -> None:
        """As `run`, but writes to output arrays that the caller keeps."""
        self._check("input", self.inputs, self._input_layouts, arrays)
        self._check("output", self.outputs, self._output_layouts, outputs)
        for port, array in zip(self.outputs, outputs, strict=True):
            if not array.flags.writeable:
                raise InputError(
                    f"output {port.name!r}: expected memory that can be written, got a read-only "
                    "array; pass a copy of it"
                )
        self._call(arrays, outputs)

    def _call(self, arrays: Sequence[Array], outputs: Sequence[Array]) -> None:
        from_buffer = self._from_buffer
        buffers = [from_buffer(array) for array in (*arrays, *outputs)]
        status = self._function(*self._weights, self._arena(), self.arena_bytes, *buffers)
        if status != 0:
            reason = _STATUS_TEXTS.get(
                status, f"expected status 0, got {status}; the library and its caller do not match"
            )
            raise RunError(f"{self.name}_run: {reason}")

    def _check(
        self,
        role: str,
        ports: tuple[Port, ...],
        layouts: tuple[tuple[np.dtype[np.generic], Shape], ...],
        arrays: Sequence[Array],
    ) -> None:
        if len(arrays) != len(ports):
            names = ", ".join(repr(port.name) for port in ports)
            raise InputError(
                f"{self.name}: expected {len(ports)} {role} arrays ({names}), got {len(arrays)}; "
                "pass one for each"
            )
        for port, (dtype, shape), array in zip(ports, layouts, arrays, strict=True):
            if (
                not isinstance(array, np.ndarray)
                or array.dtype != dtype
                or array.shape != shape
                or not array.flags.c_contiguous
                or not array.flags.aligned
            ):
                raise InputError(_mismatch(role, port, array))

    def _arena(self) -> Any:
        """This thread's arena: a pointer to at least `arena_bytes` aligned bytes."""
        try:
            return self._arenas.pointer
        except AttributeError:
            pass
        try:
            memory = np.empty(self.arena_bytes + ARENA_ALIGNMENT, np.uint8)
        except MemoryError as error:
            raise RunError(
                f"{self.name}: expected {self.arena_bytes} bytes of memory for the arena, got none;"
                " free some memory or compile for smaller shapes"
            ) from error
        start = -memory.ctypes.data % ARENA_ALIGNMENT
        # The buffer object keeps the memory alive.
        self._arenas.pointer = self._from_buffer(memory[start:])
        return self._arenas.pointer


def _mapped(weights: Path) -> mmap.mmap:
    """The file in memory; a map starts at a page, which is aligned well enough."""
    try:
        with weights.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise RunError(
            f"library: expected the weights in {weights}, got {_one_line(error)}; put the file "
            "that was built with the library there"
        ) from error


@contextmanager
def _brief_spinning() -> Iterator[None]:
    """While an OpenMP runtime is loaded, asks it to let waiting threads sleep after a short spin.

    By default they spin for milliseconds. Where another process wants the same cores, or where two
    threads of one team meet on one core, each of the many short loops of a network then waits for
    the scheduler. What the user says in the environment stands.
    """
    asked = BRIEF_SPINNING.keys() & os.environ.keys() or _WAIT_POLICY in os.environ
    chosen = {} if asked else BRIEF_SPINNING
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name in chosen:
            del os.environ[name]


def _keep_openmp_loaded() -> None:
    """Keeps the OpenMP runtime in memory after the last library that uses it is closed.

    Its worker threads sleep in its own code; unmapping that would end the process.
    """
    system = _system_loader()
    for runtime in _OPENMP_RUNTIMES:
        # Finds it only if it is loaded already. Not ffi.dlopen, which expects dlerror() to have
        # something to say when this finds nothing.
        system.dlopen(runtime, os.RTLD_NOW | os.RTLD_NOLOAD | os.RTLD_NODELETE)


@lru_cache(maxsize=1)
def _system_loader() -> Any:
    ffi = cffi.FFI()
    ffi.cdef("void *dlopen(const char *, int);")
    return ffi.dlopen(None)


def _layout(port: Port) -> tuple[np.dtype[np.generic], Shape]:
    return port.type.dtype.numpy, port.type.shape


def _mismatch(role: str, port: Port, array: object) -> str:
    place = f"{role} {port.name!r}: expected {port.type}"
    if not isinstance(array, np.ndarray):
        return f"{place}, got {type(array).__name__}; pass a numpy array"
    try:
        got = str(type_of(array))
    except KeyError:
        got = f"{array.dtype}{list(array.shape)}"
    if got != str(port.type):
        return f"{place}, got {got}; convert or reshape it"
    return (
        f"{place} in contiguous aligned memory, got strides {array.strides} over elements of "
        f"{array.itemsize} bytes; pass numpy.ascontiguousarray of it"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())

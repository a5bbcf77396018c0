"""A generated library, loaded into this process and called with numpy arrays.

What it does: opens the shared library (cffi, ABI mode), checks the arrays against the library's
ports, gives it an arena and turns its status codes into errors. What it does not: build the
library, convert or copy arrays, or know how it computes.
"""

from __future__ import annotations

import mmap
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import _cffi_backend
import cffi
import numpy as np

from tensorgen.arena import ARENA_ALIGNMENT, empty_array, new_arena
from tensorgen.openmp_runtime import brief_spinning, keep_loaded
from tensorgen.ports import Port
from tensorgen.target import LINE_BYTES, PAGE_BYTES
from tensorgen.types import Array, Shape, type_of

LARGE_OUTPUT = 1 << 14
"""Bytes from which on a new output has its place in a page. Numpy's own large arrays begin a few
bytes into one: then every vector that is stored lies across two lines, and lines of the output
drive those of an input out of the first-level cache, which begins at the same place. (Planes of
channels whole pages apart, 1x1x1 convolution of 64 channels: 4.26 -> 3.74 ms.)"""

OUTPUT_PLACE = PAGE_BYTES // 2
"""Where in a page a large output begins: at a line, and as far as can be from where arrays do."""

_MISALIGNED = -2

_STATUS_TEXTS = {
    -1: "expected every pointer to be set, got NULL; pass an array for each port",
    _MISALIGNED: "expected aligned pointers, got one that is not; align the arena to "
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


@dataclass(frozen=True, slots=True)
class _Expected:
    """The arrays for some ports: their types and shapes in lists, which compare in one go."""

    role: str
    ports: tuple[Port, ...]
    classes: list[type]
    dtypes: list[np.dtype[np.generic]]
    shapes: list[Shape]

    @staticmethod
    def of(role: str, ports: tuple[Port, ...]) -> _Expected:
        types = [port.type for port in ports]
        dtypes = [type.dtype.numpy for type in types]
        return _Expected(role, ports, [np.ndarray] * len(ports), dtypes, [t.shape for t in types])

    def have(self, arrays: Sequence[Array]) -> bool:
        """Whether arrays have these types and shapes; False, too, if it takes a closer look.

        Every call comes here: a tenth of a microsecond for each array is much.
        """
        return (
            list(map(type, arrays)) == self.classes
            and list(map(_DTYPE, arrays)) == self.dtypes
            and list(map(_SHAPE, arrays)) == self.shapes
        )

    def require(self, name: str, arrays: Sequence[Array]) -> None:
        """InputError if one of the arrays does not match its port, or its memory does not."""
        if len(arrays) != len(self.ports):
            names = ", ".join(repr(port.name) for port in self.ports)
            raise InputError(
                f"{name}: expected {len(self.ports)} {self.role} arrays ({names}), got "
                f"{len(arrays)}; pass one for each"
            )
        for port, dtype, shape, array in zip(
            self.ports, self.dtypes, self.shapes, arrays, strict=True
        ):
            if (
                not isinstance(array, np.ndarray)
                or array.dtype != dtype
                or array.shape != shape
                or not array.flags.aligned
                or not array.flags.c_contiguous
            ):
                raise InputError(_mismatch(self.role, port, array))


_DTYPE, _SHAPE, _WRITEABLE = map(attrgetter, ("dtype", "shape", "flags.writeable"))


class Library:
    """A shared library with the function `int NAME_run(arena, arena_bytes, inputs…, outputs…)`.

    A library whose constants are in a file of their own takes them as its first argument. It
    refuses memory that is not aligned before it reads or writes anything, as ours do.

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
        self._expected_inputs = _Expected.of("input", inputs)
        self._expected_outputs = _Expected.of("output", outputs)
        self._output_bytes = [port.type.size * port.type.dtype.bytes for port in outputs]
        self._has_large_outputs = max(self._output_bytes, default=0) >= LARGE_OUTPUT
        self._arenas = threading.local()
        self._ffi = cffi.FFI()
        # The class behind cffi.FFI, whose method takes half as long.
        self._from_buffer: Callable[..., Any] = _cffi_backend.FFI().from_buffer
        self._weights = () if weights is None else (self._from_buffer(_mapped(weights)),)
        self._library, self._function = self._load()

    def _load(self) -> tuple[Any, Callable[..., int]]:
        pointers = ", void *" * (len(self.inputs) + len(self.outputs))
        weights = "const void *, " * len(self._weights)
        self._ffi.cdef(f"int {self.name}_run({weights}void *, size_t{pointers});")
        try:
            with brief_spinning():
                library = self._ffi.dlopen(str(self.path))
        except OSError as error:
            raise RunError(
                f"library: expected {self.path} to be a library for this machine, got "
                f"{_one_line(error)}; build it again"
            ) from error
        keep_loaded()
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
        buffers = self._buffers(self._expected_inputs, arrays)
        outputs = self.empty_outputs()
        self._call([*buffers, *map(self._from_buffer, outputs)], arrays, outputs)
        return outputs

    def empty_inputs(self) -> tuple[Array, ...]:
        """New arrays for `run_into` and `bind`, of any content, that begin with a line of the
        cache: numpy's own begin anywhere in one, and most vectors read of them lie across two."""
        expected = self._expected_inputs
        return tuple(
            empty_array(shape, dtype, LINE_BYTES)
            for shape, dtype in zip(expected.shapes, expected.dtypes, strict=True)
        )

    def empty_outputs(self) -> tuple[Array, ...]:
        """New arrays for `run_into` and `bind`, of any content; large ones begin with a line of the
        cache."""
        expected = self._expected_outputs
        if self._has_large_outputs:
            return tuple(map(_empty, expected.shapes, expected.dtypes, self._output_bytes))
        return tuple(map(np.empty, expected.shapes, expected.dtypes))

    def run_into(self, arrays: Sequence[Array], outputs: Sequence[Array]) -> None:
        """As `run`, but writes to output arrays that the caller keeps."""
        self._call(self._all_buffers(arrays, outputs), arrays, outputs)

    def bind(self, arrays: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """`run_into` on these arrays, which are looked at once, here, and kept: a function that
        computes the outputs from what the inputs hold when it is called.

        Raises as `run_into`; the function raises RunError if the library refuses to run.
        """
        buffers = self._all_buffers(arrays, outputs)
        self._require(arrays, outputs)
        return partial(self._call, buffers, arrays, outputs)

    def addresses(
        self, arrays: Sequence[Array], outputs: Sequence[Array]
    ) -> tuple[int, tuple[int, ...], int, tuple[int, ...]]:
        """One call as C sees it: the addresses of the function, of its first arguments (the weights
        if they are in a file, this thread's arena), the arena's bytes, the addresses of the arrays.

        They are good for as long as the library and the arrays are there. Raises as `run_into`.
        """
        self._require(arrays, outputs)
        first = (*self._weights, self._arena())
        address = self._address
        return (
            address(self._function),
            tuple(map(address, first)),
            self.arena_bytes,
            tuple(array.ctypes.data for array in (*arrays, *outputs)),
        )

    def _address(self, pointer: Any) -> int:
        return int(self._ffi.cast("uintptr_t", pointer))

    def _call(
        self, buffers: Sequence[Any], arrays: Sequence[Array], outputs: Sequence[Array]
    ) -> None:
        """Run on the memory of inputs and outputs."""
        status = self._function(*self._weights, self._arena(), self.arena_bytes, *buffers)
        if status != 0:
            if status == _MISALIGNED:
                self._require(arrays, outputs)
            reason = _STATUS_TEXTS.get(
                status, f"expected status 0, got {status}; the library and its caller do not match"
            )
            raise RunError(f"{self.name}_run: {reason}")

    def _require(self, arrays: Sequence[Array], outputs: Sequence[Array]) -> None:
        """InputError if one of the arrays does not match its port, or its memory does not."""
        self._expected_inputs.require(self.name, arrays)
        self._expected_outputs.require(self.name, outputs)

    def _all_buffers(self, arrays: Sequence[Array], outputs: Sequence[Array]) -> list[Any]:
        """The memory of inputs and of outputs, for C; InputError if one does not match its port or
        an output cannot be written."""
        buffers = self._buffers(self._expected_inputs, arrays)
        buffers += self._buffers(self._expected_outputs, outputs)
        if not all(map(_WRITEABLE, outputs)):
            first = next(n for n, array in enumerate(outputs) if not array.flags.writeable)
            raise InputError(
                f"output {self.outputs[first].name!r}: expected memory that can be written, got a "
                "read-only array; pass a copy of it"
            )
        return buffers

    def _buffers(self, expected: _Expected, arrays: Sequence[Array]) -> list[Any]:
        """The arrays' memory, for C; InputError if one of them does not match its port.

        Of memory that is not contiguous there is no buffer, and what is not aligned the library
        itself refuses, before it reads or writes anything.
        """
        if expected.have(arrays):
            try:
                return list(map(self._from_buffer, arrays))
            except ValueError:
                pass
        expected.require(self.name, arrays)
        return list(map(self._from_buffer, arrays))

    def _arena(self) -> Any:
        """This thread's arena: a pointer to at least `arena_bytes` aligned bytes."""
        try:
            return self._arenas.pointer
        except AttributeError:
            pass
        try:
            memory = new_arena(self.arena_bytes)
        except MemoryError as error:
            raise RunError(
                f"{self.name}: expected {self.arena_bytes} bytes of memory for the arena, got none;"
                " free some memory or compile for smaller shapes"
            ) from error
        # The buffer object keeps the memory alive.
        self._arenas.pointer = self._from_buffer(memory)
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


def _empty(shape: Shape, dtype: np.dtype[np.generic], size_bytes: int) -> Array:
    """A new array of any content; a large one begins in the middle of a page."""
    if size_bytes < LARGE_OUTPUT:
        return np.empty(shape, dtype)
    return empty_array(shape, dtype, PAGE_BYTES, OUTPUT_PLACE)


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

"""The OpenMP runtimes in this process: how long their threads spin, and what they outlive.

What it does: lets threads that wait go to sleep soon, keeps a runtime in memory while its threads
sleep there, and ends them before this process is copied by `fork`. What it does not: load a
runtime, or say how many threads there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import cffi

_WAIT_POLICY = "OMP_WAIT_POLICY"
BRIEF_SPINNING = {"GOMP_SPINCOUNT": "5000", "KMP_BLOCKTIME": "0"}
"""Turns of a waiting loop (GNU; some 0.1 ms), and milliseconds (LLVM, Intel), before a thread goes
to sleep. A thread that wakes another should find it awake the next time: where both sleep in turn,
virtual machines take longer to wake them than many kernels run, and each waking is an occasion to
put both on one processor."""

_GNU = b"libgomp.so.1"
_RUNTIMES = (_GNU, b"libomp.so.5", b"libomp.so", b"libiomp5.so", b"libomp.dylib")

_HARD_PAUSE = 2
"""The value of `omp_pause_hard` (OpenMP 5.0): end the threads that wait for work."""


@contextmanager
def brief_spinning() -> Iterator[None]:
    """While an OpenMP runtime is loaded, asks it to let waiting threads sleep after a short spin.

    By default they spin for milliseconds. Where another process wants the same cores, each of the
    many short loops of a network then waits for the scheduler. What the user says in the
    environment stands.
    """
    chosen = _spinning()
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name in chosen:
            del os.environ[name]


def spinning_environment() -> dict[str, str]:
    """The environment for a process of ours that loads an OpenMP runtime, as `brief_spinning` would
    have it there."""
    return {**os.environ, **_spinning()}


def _spinning() -> dict[str, str]:
    """The variables that ask for a short spin; none if the user says something about it."""
    said = BRIEF_SPINNING.keys() & os.environ.keys() or _WAIT_POLICY in os.environ
    return {} if said else BRIEF_SPINNING


def keep_loaded() -> None:
    """Keeps the OpenMP runtime in memory after the last library that uses it is closed.

    Its worker threads sleep in its own code; unmapping that would end the process.
    """
    for runtime in _RUNTIMES:
        # Finds it only if it is loaded already. Not ffi.dlopen, which expects dlerror() to have
        # something to say when this finds nothing.
        _system().dlopen(runtime, os.RTLD_NOW | os.RTLD_NOLOAD | os.RTLD_NODELETE)


def _end_threads() -> None:
    """Ends this thread's team in GNU's runtime, if that is loaded; the next parallel region makes
    another.

    `fork` copies only the thread that calls it. In the copy the runtime would wait for the others
    for ever. LLVM's starts afresh by itself, all but always: on a busy machine a child waited for
    ever now and then. Nothing helps there: where LLVM 14 is asked to pause, its children abort, and
    so does the process if other threads of it compute.
    """
    handle = _system().dlopen(_GNU, os.RTLD_NOW | os.RTLD_NOLOAD)
    if not handle:
        return
    pause = _system().dlsym(handle, b"omp_pause_resource_all")
    if pause:
        _ffi().cast("int (*)(int)", pause)(_HARD_PAUSE)
    _system().dlclose(handle)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_end_threads)


@lru_cache(maxsize=1)
def _ffi() -> Any:
    ffi = cffi.FFI()
    ffi.cdef(
        "void *dlopen(const char *, int); void *dlsym(void *, const char *); int dlclose(void *);"
    )
    return ffi


@lru_cache(maxsize=1)
def _system() -> Any:
    """The dynamic loader."""
    return _ffi().dlopen(None)

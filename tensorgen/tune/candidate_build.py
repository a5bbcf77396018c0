"""Printed candidates to shared libraries, several to a file; who is refused is refused alone.

What it does: compiles files of candidates as libraries are compiled, in threads that keep to the
cores they are given and away from those that are to be quiet, and halves a file that the compiler
refuses until it is known which candidate it is. What it does not: load or run what it built.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tensorgen.build import Around, BuildError, build_library, find_compiler, supports_openmp
from tensorgen.c_function import CFunction
from tensorgen.target import Target
from tensorgen.tune.candidate_source import (
    CandidateFile,
    PrintedKernel,
    candidate_file,
    function_name,
    functions_file,
)
from tensorgen.tune.compiler_cores import CompilerCores
from tensorgen.tune.draft_flags import BARE, FILTERED, draft_libraries
from tensorgen.tune.fields import one_line
from tensorgen.tune.function_libraries import FunctionLibraries, is_no_fault
from tensorgen.tune.functions_apart import apart_source, functions_apart
from tensorgen.tune.intrinsics import HEADER, intrinsics_of
from tensorgen.tune.outcome import Refused

SECONDS_EACH = 30.0
"""A compiler may take so long for each candidate of a file."""


@dataclass(frozen=True, slots=True)
class Built:
    """A candidate in a library: the function that calls it, by which number, and the libraries of
    what it calls."""

    library: Path
    function: str
    number: int
    needed: tuple[Path, ...] = ()


class CandidateBuilder:
    """Compiles candidates for a target; libraries go to `folder`, which the caller removes.

    Drafts call functions in other libraries, which have to be loaded before theirs: those that no
    candidate is needed for are kept in `cache`. `apart` tells that parts are to be such functions.
    """

    def __init__(
        self,
        target: Target,
        threads: int,
        folder: Path,
        *,
        strict: bool,
        drafts: bool,
        cores: CompilerCores,
        cache: Path | None,
    ) -> None:
        self._target = target
        self._threads = threads
        self._folder = folder
        self._strict = strict
        compiler = find_compiler(target)
        openmp = threads > 1 and supports_openmp(compiler, cache)
        self._draft_libraries = draft_libraries(openmp=openmp)
        self._intrinsics = intrinsics_of(compiler, target)
        # Other compilers draft nothing: they are asked for a library's passes.
        drafts = drafts and self._intrinsics is not None
        self.apart = drafts
        self._elsewhere = frozenset(functions_apart(target.isa) if drafts else ())
        self._everywhere: tuple[Path, ...] = ()
        if self._elsewhere:
            sources = {"functions.c": apart_source(target.isa)}
            library = build_library(sources, target=target, strict=strict, cache=cache)
            self._everywhere = (library,)
        self._cores = cores
        self._pool = ThreadPoolExecutor(max_workers=cores.count)
        self._made = FunctionLibraries(self._functions_library, self._pool)

    def close(self) -> None:
        """Waits for the compilers that are at work, and ends the threads."""
        self._pool.shutdown(cancel_futures=True)

    def start(
        self, printed: Sequence[PrintedKernel], draft_flags: tuple[str, ...]
    ) -> Future[list[Built | Refused]]:
        """Begins to compile candidates, all in one file, with these flags behind a library's where
        the compiler is gcc. The result raises BuildError if there is no room for libraries,
        whatever they are of."""
        self._made.begin(self._functions(printed))
        return self._pool.submit(self._built, tuple(printed), draft_flags)

    def _built(
        self, printed: Sequence[PrintedKernel], draft_flags: tuple[str, ...]
    ) -> list[Built | Refused]:
        if not printed:
            return []
        try:
            with self._cores.taken() as around:
                library = self._library(printed, draft_flags, around)
            needed = self._needed(printed)
        except BuildError as error:
            if is_no_fault(error):
                raise
            if len(printed) == 1:
                return [Refused(one_line(error))]
            half = len(printed) // 2
            return [
                *self._built(printed[:half], draft_flags),
                *self._built(printed[half:], draft_flags),
            ]
        return [
            Built(library, function_name(entry.kernel), number, needed)
            for number, entry in enumerate(printed)
        ]

    def _needed(self, printed: Sequence[PrintedKernel]) -> tuple[Path, ...]:
        """The libraries of the functions that a file of candidates calls, once they are there.
        Raises BuildError for a function that has none."""
        made = (self._made.place(function.name) for function in self._functions(printed))
        return tuple(dict.fromkeys((*self._everywhere, *made)))

    def _functions(self, printed: Sequence[PrintedKernel]) -> list[CFunction]:
        """The functions made for candidates that are to be in libraries of their own."""
        return [f for entry in printed for f in entry.kernel.made] if self.apart else []

    def _library(
        self, printed: Sequence[PrintedKernel], draft_flags: tuple[str, ...], around: Around
    ) -> Path:
        """The library of a file of candidates. Raises BuildError."""
        if self._intrinsics is not None:
            made = (function.name for function in self._functions(printed))
            file = self._file(printed, self._elsewhere.union(made))
            # Fails for what the part of the header lacks, too: then the compiler's own decides.
            with suppress(BuildError):
                return self._compiled(file, draft_flags, len(printed), around)
        return self._compiled(self._file(printed, frozenset()), None, len(printed), around)

    def _functions_library(self, functions: Sequence[CFunction]) -> Path:
        """The library of functions made for candidates. Raises BuildError."""
        with self._cores.taken() as around:
            file = functions_file(functions, self._target, strict=self._strict)
            with suppress(BuildError):
                return self._compiled(file, FILTERED, len(functions), around)
            return self._compiled(file, None, len(functions), around)

    def _file(self, printed: Sequence[PrintedKernel], elsewhere: Set[str]) -> CandidateFile:
        return candidate_file(
            printed, self._target, self._threads, strict=self._strict, elsewhere=elsewhere
        )

    def _compiled(
        self,
        file: CandidateFile,
        draft_flags: tuple[str, ...] | None,
        count: int,
        around: Around,
    ) -> Path:
        """The library of a file for so many. A draft has flags of its own, and as much of the
        header of intrinsics as it uses. Raises BuildError."""
        headers: dict[str, str] = {}
        flags: tuple[str, ...] = ()
        libraries: tuple[str, ...] = ("m",)
        if draft_flags is not None:
            assert self._intrinsics is not None, "others draft nothing"
            texts = (t if isinstance(t, bytes) else t.encode() for t in file.sources.values())
            headers = {HEADER: self._intrinsics.part_for(b"".join(texts).decode())}
            flags = ("-I.", *BARE, *draft_flags)
            libraries = self._draft_libraries
        return build_library(
            {**file.sources, **headers},
            target=self._target,
            flags=flags,
            source_flags=file.source_flags,
            libraries=libraries,
            strict=self._strict,
            threads=self._threads,
            cache=self._folder,
            timeout_seconds=SECONDS_EACH * (1 + count),
            around=around,
        )

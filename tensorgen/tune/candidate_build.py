"""Printed candidates to shared libraries, several to a file; who is refused is refused alone.

What it does: compiles files of candidates as libraries are compiled, those together that wait for a
compiler at the same time (`compile_queue`), and halves a file that the compiler refuses until it is
known which candidate it is. What it does not: load or run what it built.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tensorgen.build import Around, BuildError, build_library, find_compiler, supports_openmp
from tensorgen.target import Target
from tensorgen.tune.candidate_source import (
    CandidateFile,
    PrintedKernel,
    candidate_file,
    frame_calls_file,
    frames_file,
    function_name,
    functions_file,
)
from tensorgen.tune.compile_queue import CompileQueue, Flags
from tensorgen.tune.compiler_cores import CompilerCores
from tensorgen.tune.draft_flags import BARE, FILTERED, draft_libraries
from tensorgen.tune.fields import one_line
from tensorgen.tune.frame_assembly import FrameTarget
from tensorgen.tune.function_libraries import FunctionLibraries, Place, is_no_fault, places
from tensorgen.tune.functions_apart import apart_source, functions_apart
from tensorgen.tune.intrinsics import HEADER, intrinsics_of
from tensorgen.tune.outcome import Refused
from tensorgen.tune.part_assembly import MadeFunction

SECONDS_EACH = 30.0
"""A compiler may take so long for each candidate of a file."""

MOST_TOGETHER = 48
"""Candidates of a file, and functions, at most: what waits for a compiler is shared by several."""


@dataclass(frozen=True, slots=True)
class Built:
    """A candidate in a library: the function that calls it, by which number, and the libraries of
    what it calls."""

    library: Path
    function: str
    number: int
    needed: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A candidate in a library, and the functions that all candidates there call together."""

    library: Path
    function: str
    number: int
    calls: tuple[str, ...]


class CandidateBuilder:
    """Compiles candidates for a target; libraries go to `folder`, which the caller removes.

    Drafts call functions in other libraries, which have to be loaded before theirs: those that no
    candidate is needed for are kept in `cache`. `apart` tells that parts are to be such functions,
    and `frames` for whom what is left is to be assembly.
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
        self.frames = (
            FrameTarget(target.isa, strict, openmp, self._elsewhere)
            if drafts and platform.system() == "Linux"
            else None
        )
        self._everywhere = tuple(self._beside_all(cache))
        self._pool = ThreadPoolExecutor(max_workers=cores.count)
        self._kernels = CompileQueue(self._compiled_kernels, self._pool, cores, MOST_TOGETHER)
        functions = CompileQueue(self._compiled_functions, self._pool, cores, MOST_TOGETHER)
        self._made = FunctionLibraries(partial(functions.submit, FILTERED))

    def _beside_all(self, cache: Path | None) -> Iterator[Path]:
        """The libraries that any draft may call."""
        build = partial(build_library, target=self._target, strict=self._strict, cache=cache)
        if self._elsewhere:
            yield build({"functions.c": apart_source(self._target.isa)})
        if self.frames is not None:
            file = frame_calls_file(
                self._target, self._threads, strict=self._strict, team=self.frames.team
            )
            yield build(file.sources, source_flags=file.source_flags, threads=self._threads)

    def close(self) -> None:
        """Waits for the compilers that are at work, and ends the threads."""
        self._pool.shutdown(cancel_futures=True)

    def start(
        self, printed: Sequence[PrintedKernel], draft_flags: Flags
    ) -> Callable[[], list[Built | Refused]]:
        """Begins to compile candidates with these flags behind a library's where the compiler is
        gcc. What is given waits for the result. That raises BuildError if there is no room for
        libraries, whatever they are of. To be called by one thread."""
        self._made.begin(self._functions(printed))
        compiled = self._kernels.submit(draft_flags, printed)

        def built() -> list[Built | Refused]:
            return [
                self._built(entry, draft_flags, found)
                for entry, found in zip(printed, compiled.result(), strict=True)
            ]

        return built

    def _built(
        self, entry: PrintedKernel, draft_flags: Flags, compiled: _Compiled | Refused
    ) -> Built | Refused:
        """What became of a candidate, once the functions are there that it calls."""
        if isinstance(compiled, Refused):
            return compiled
        refused: dict[str, BuildError] = {}
        needed = dict.fromkeys(self._everywhere)
        for name in compiled.calls:
            try:
                needed[self._made.place(name)] = None
            except BuildError as error:
                if is_no_fault(error):
                    raise
                refused[name] = error
        for function in self._functions((entry,)):
            if function.name in refused:
                return Refused(one_line(refused[function.name]))
        if refused:
            # Another one of the file calls it: that can be loaded no more than a function.
            (again,) = self._kernels.submit(draft_flags, (entry,)).result()
            return self._built(entry, draft_flags, again)
        return Built(compiled.library, compiled.function, compiled.number, tuple(needed))

    def _compiled_kernels(
        self, draft_flags: Flags, printed: Sequence[PrintedKernel], around: Around
    ) -> list[_Compiled | Refused]:
        """Candidates, all in one file. Raises BuildError if nobody is to blame."""
        try:
            library = self._library(printed, draft_flags, around)
        except BuildError as error:
            if is_no_fault(error):
                raise
            if len(printed) == 1:
                return [Refused(one_line(error))]
            half = len(printed) // 2
            return [
                *self._compiled_kernels(draft_flags, printed[:half], around),
                *self._compiled_kernels(draft_flags, printed[half:], around),
            ]
        calls = tuple(dict.fromkeys(function.name for function in self._functions(printed)))
        return [
            _Compiled(library, function_name(entry.kernel), number, calls)
            for number, entry in enumerate(printed)
        ]

    def _functions(self, printed: Sequence[PrintedKernel]) -> list[MadeFunction]:
        """The functions made for candidates that are to be in libraries of their own."""
        return [f for entry in printed for f in entry.functions] if self.apart else []

    def _library(
        self, printed: Sequence[PrintedKernel], draft_flags: Flags, around: Around
    ) -> Path:
        """The library of a file of candidates. Raises BuildError."""
        if printed[0].assembly:
            return self._linked(frames_file(printed), draft_flags, (), len(printed), around)
        if self._intrinsics is not None:
            made = (function.name for function in self._functions(printed))
            file = self._file(printed, self._elsewhere.union(made))
            # Fails for what the part of the header lacks, too: then the compiler's own decides.
            with suppress(BuildError):
                return self._compiled(file, draft_flags, len(printed), around)
        return self._compiled(self._file(printed, frozenset()), None, len(printed), around)

    def _compiled_functions(
        self, draft_flags: Flags, functions: Sequence[MadeFunction], around: Around
    ) -> list[Place]:
        """Functions made for candidates. Raises BuildError if nobody is to blame."""

        def library(some: Sequence[MadeFunction]) -> Path:
            file = functions_file(some, self._target, strict=self._strict)
            with suppress(BuildError):
                return self._compiled(file, draft_flags, len(some), around)
            return self._compiled(file, None, len(some), around)

        return places(functions, library)

    def _file(self, printed: Sequence[PrintedKernel], elsewhere: Set[str]) -> CandidateFile:
        return candidate_file(
            printed, self._target, self._threads, strict=self._strict, elsewhere=elsewhere
        )

    def _compiled(
        self,
        file: CandidateFile,
        draft_flags: Flags | None,
        count: int,
        around: Around,
    ) -> Path:
        """The library of a C file for so many. A draft has flags of its own, and as much of the
        header of intrinsics as it uses. Raises BuildError."""
        if draft_flags is None:
            return self._linked(file, (), ("m",), count, around)
        assert self._intrinsics is not None, "others draft nothing"
        texts = (t if isinstance(t, bytes) else t.encode() for t in file.sources.values())
        header = self._intrinsics.part_for(b"".join(texts).decode())
        file = replace(file, sources={**file.sources, HEADER: header})
        flags = ("-I.", *BARE, *draft_flags)
        return self._linked(file, flags, self._draft_libraries, count, around)

    def _linked(
        self,
        file: CandidateFile,
        flags: Flags,
        libraries: tuple[str, ...],
        count: int,
        around: Around,
    ) -> Path:
        """The library of a file for so many, by these flags. Raises BuildError."""
        return build_library(
            file.sources,
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

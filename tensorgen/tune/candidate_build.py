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

from tensorgen.build import BuildError, build_library, find_compiler
from tensorgen.target import Target
from tensorgen.tune.candidate_source import (
    CandidateFile,
    PrintedKernel,
    candidate_file,
    function_name,
)
from tensorgen.tune.compiler_cores import CompilerCores
from tensorgen.tune.fields import one_line
from tensorgen.tune.functions_apart import apart_source, functions_apart
from tensorgen.tune.intrinsics import HEADER, intrinsics_of
from tensorgen.tune.outcome import NotBuilt

_NO_ROOM = "No space left on device"

SECONDS_EACH = 30.0
"""A compiler may take so long for each candidate of a file."""


@dataclass(frozen=True, slots=True)
class Built:
    """A candidate in a library: the function that calls it."""

    library: Path
    function: str


class CandidateBuilder:
    """Compiles candidates for a target; libraries go to `folder`, which the caller removes.

    Drafts call some functions in a library that is kept in `cache`: `functions`, if there is one,
    which has to be loaded before theirs.
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
        self._intrinsics = intrinsics_of(find_compiler(target), target)
        # Other compilers draft nothing: they are asked for a library's passes.
        drafts = drafts and self._intrinsics is not None
        self._elsewhere = frozenset(functions_apart(target.isa) if drafts else ())
        self.functions: Path | None = None
        if self._elsewhere:
            sources = {"functions.c": apart_source(target.isa)}
            self.functions = build_library(sources, target=target, strict=strict, cache=cache)
        self._cores = cores
        self._pool = ThreadPoolExecutor(max_workers=cores.count)

    def close(self) -> None:
        """Waits for the compilers that are at work, and ends the threads."""
        self._pool.shutdown(cancel_futures=True)

    def start(
        self, printed: Sequence[PrintedKernel], draft_flags: tuple[str, ...]
    ) -> Future[list[Built | NotBuilt]]:
        """Begins to compile candidates, all in one file, with these flags behind a library's where
        the compiler is gcc. The result raises BuildError if there is no room for libraries,
        whatever they are of."""
        return self._pool.submit(self._built, tuple(printed), draft_flags)

    def _built(
        self, printed: Sequence[PrintedKernel], draft_flags: tuple[str, ...]
    ) -> list[Built | NotBuilt]:
        if not printed:
            return []
        try:
            with self._cores.taken():
                library = self._library(printed, draft_flags)
        except BuildError as error:
            if isinstance(error.__cause__, OSError) or _NO_ROOM in error.log:
                raise
            if len(printed) == 1:
                return [NotBuilt(one_line(error))]
            half = len(printed) // 2
            return [
                *self._built(printed[:half], draft_flags),
                *self._built(printed[half:], draft_flags),
            ]
        return [Built(library, function_name(number)) for number in range(len(printed))]

    def _library(self, printed: Sequence[PrintedKernel], draft_flags: tuple[str, ...]) -> Path:
        """The library of a file of candidates. Raises BuildError."""
        if self._intrinsics is not None:
            file = self._file(printed, self._elsewhere)
            text = b"".join(
                t if isinstance(t, bytes) else t.encode() for t in file.sources.values()
            )
            header = self._intrinsics.part_for(text.decode())
            # Fails for what the part lacks, too: then the compiler's own header decides.
            with suppress(BuildError):
                return self._compiled(file, {HEADER: header}, ("-I.", *draft_flags), len(printed))
        return self._compiled(self._file(printed, frozenset()), {}, (), len(printed))

    def _file(self, printed: Sequence[PrintedKernel], elsewhere: Set[str]) -> CandidateFile:
        return candidate_file(
            printed, self._target, self._threads, strict=self._strict, elsewhere=elsewhere
        )

    def _compiled(
        self, file: CandidateFile, headers: dict[str, str], flags: tuple[str, ...], count: int
    ) -> Path:
        return build_library(
            {**file.sources, **headers},
            target=self._target,
            flags=flags,
            source_flags=file.source_flags,
            strict=self._strict,
            threads=self._threads,
            cache=self._folder,
            timeout_seconds=SECONDS_EACH * (1 + count),
        )

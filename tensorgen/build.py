"""From C sources to a shared library on disk, compiled at most once.

What it does: finds the C compiler, compiles the sources beside their destination, moves the result
into a cache under the digest of everything that went into it, and keeps that cache small. What it
does not: load the library, emit code, or choose instruction sets.

A build that is killed leaves only a folder that a later one clears away, and two processes that
build the same library at once both end up with a whole one: entries appear by a rename, never by
writing in place.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import platformdirs

from tensorgen.target import Target

CACHE_BYTES = 4 * 2**30
"""The cache is brought back to at most this size, least recently used libraries first."""

_FORMAT = b"tasor library 1"
_COMPILED = (".c", ".S", ".s")
_LINKED = (".o", ".a")
_PRUNE_AT_BYTES = 16 * 2**20
_STALE_SECONDS = 24 * 3600
_STOP_SECONDS = 0.1
"""How long a compiler may go on after another one has failed or the user has interrupted."""

# Variables that make the same compiler command find other headers, libraries or passes.
_COMPILER_VARIABLES = (
    "COMPILER_PATH", "CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH",
    "MACOSX_DEPLOYMENT_TARGET", "SDKROOT",
)  # fmt: skip
_OPENMP_PROBE = "#include <omp.h>\nint probe(void) { return omp_get_max_threads(); }\n"


class ToolMissing(RuntimeError):
    """A program that the work needs is not installed. The message says which, and how to get it.

    The command line answers it with exit code 69.
    """


class BuildError(RuntimeError):
    """The library could not be built.

    The message is one line with the first of the compiler's complaints; `log` has all of them.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


Around = Callable[[int], AbstractContextManager[None]]
"""A block around the processes of a group, which have begun."""


def _nothing_around(group: int) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: the command that starts it, and a digest that changes when it is replaced."""

    command: tuple[str, ...]
    identity: str

    @property
    def name(self) -> str:
        """The command as a person would type it."""
        return shlex.join(self.command)


def cache_folder() -> Path:
    """Where built libraries are kept: TASOR_CACHE if it is set, else the user's cache folder."""
    chosen = os.environ.get("TASOR_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("tasor"))


def find_compiler(target: Target) -> Compiler:
    """The C compiler for a target: what CC names, else the first of cc, gcc and clang there is.

    For a target that is not this machine it is the GNU cross compiler, or what CC names if that is
    one for this target. Raises ToolMissing if there is none.
    """
    chosen = shlex.split(os.environ.get("CC", ""))
    native = target.runs_on(platform.machine())
    if chosen and (native or Path(chosen[0]).name.startswith(target.compiler_prefix)):
        programs = [shutil.which(word) for word in chosen]
        if programs[0] is None:
            raise ToolMissing(
                f"compiler: expected CC to name a C compiler, got {chosen[0]!r}, which is not an "
                "executable on PATH; correct CC or unset it"
            )
        return Compiler(tuple(chosen), _identity(chosen, programs))
    names = ("cc", "gcc", "clang") if native else (f"{target.compiler_prefix}gcc",)
    for name in names:
        program = shutil.which(name)
        if program is not None:
            return Compiler((name,), _identity([name], [program]))
    package = "gcc" if native else f"gcc-{target.compiler_prefix.rstrip('-')}"
    raise ToolMissing(
        f"compiler: expected one of {', '.join(names)} on PATH for target {target.name}, got none; "
        f"install one (Debian and Ubuntu: apt-get install {package}) or name yours in CC"
    )


def _identity(command: Sequence[str], programs: Sequence[str | None]) -> str:
    """A digest of the words of a command and the programs that they name, told by their files:
    nothing is run."""
    parts = []
    for word, program in zip(command, programs, strict=True):
        parts.append(word)
        if program is not None:
            path = os.path.realpath(program)
            status = os.stat(path)
            parts.append(f"{path} {status.st_size} {status.st_mtime_ns}")
    parts.extend(f"{name}={os.environ.get(name, '')}" for name in _COMPILER_VARIABLES)
    return _digest(part.encode() for part in parts)


@lru_cache(maxsize=64)
def compiler_version(compiler: Compiler) -> str:
    """The first line of what the compiler says about itself, such as "gcc (Debian) 12.2.0"."""
    log = _run((*compiler.command, "--version"), Path.cwd(), None)
    return log.splitlines()[0] if log else compiler.name


def supports_openmp(compiler: Compiler, cache: Path | None = None) -> bool:
    """Whether the compiler builds shared libraries with OpenMP; asked once per compiler and cache.

    Only a yes is remembered on disk: what is missing today may be installed tomorrow.
    """
    folder = _folder(cache, "probes")
    known = folder / f"openmp-{compiler.identity}"
    if known.exists():
        return True
    if not _compiles_openmp(compiler, folder):
        return False
    known.touch()
    return True


@lru_cache(maxsize=64)
def _compiles_openmp(compiler: Compiler, folder: Path) -> bool:
    with _temporary_folder(folder) as work:
        Path(work, "probe.c").write_text(_OPENMP_PROBE, encoding="utf-8")
        command = (*compiler.command, "-fopenmp", "-fPIC", "-shared", "-o", "probe.so", "probe.c")
        try:
            _run(command, Path(work), None)
        except BuildError:
            return False
        return True


def default_flags(*, strict: bool, openmp: bool) -> tuple[str, ...]:
    """The flags that every source is compiled with.

    None of them lets the compiler reorder arithmetic. `strict` also forbids it to fuse a multiply
    and an add, so that every machine computes the same bits.
    """
    return (
        "-std=c99",
        "-O3",
        "-fPIC",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-ffp-contract=off" if strict else "-ffp-contract=fast",
        *(("-fopenmp",) if openmp else ()),
    )


def build_library(
    sources: Mapping[str, str | bytes],
    *,
    target: Target,
    flags: tuple[str, ...] = (),
    source_flags: Mapping[str, tuple[str, ...]] | None = None,
    libraries: tuple[str, ...] = ("m",),
    strict: bool = False,
    threads: int = 1,
    cache: Path | None = None,
    timeout_seconds: float | None = None,
    around: Around = _nothing_around,
) -> Path:
    """The path of a shared library made of these sources; compiled only if the cache has none.

    `sources` maps plain file names to contents: `.c`, `.S` and `.s` are compiled, `.o` and `.a`
    linked, anything else (headers, data for `.incbin`) lies beside them. Every source is compiled
    with `default_flags`, with OpenMP if `threads` is above 1 and the compiler has it, then `flags`,
    then the entry in `source_flags` or, for a source without one, the target's own flags.
    `libraries` are linked by their short names. `cache` takes the place of `cache_folder()`. Each
    process that compiles or links runs in a block that `around` gives for its group.

    Raises ToolMissing without a compiler, and BuildError for a target that loads no libraries, for
    sources that the compiler refuses or needs more than `timeout_seconds` for, and for a cache
    that cannot be written.
    """
    own_flags = {} if source_flags is None else source_flags
    assert all(re.fullmatch(r"\w[\w.-]*", name, re.ASCII) for name in sources), sorted(sources)
    assert set(own_flags) <= set(sources), sorted(own_flags)
    if not target.hosted:
        raise BuildError(
            f"build: expected a target whose system can load a library, got {target.name}; compile "
            "the emitted sources together with the firmware instead"
        )
    compiler = find_compiler(target)
    try:
        openmp = threads > 1 and supports_openmp(compiler, cache)
        common = (*default_flags(strict=strict, openmp=openmp), *flags)
        work_list = tuple(
            _Unit(name, (*common, *own_flags.get(name, target.compiler_flags)))
            for name in sorted(sources)
            if name.endswith(_COMPILED)
        )
        link_flags = (*common, *target.compiler_flags)
        key = _library_key(compiler, sources, work_list, link_flags, libraries)
        folder = _folder(cache, "libraries")
        library = folder / f"{key}.so"
        if _touch(library):
            return library
        with _temporary_folder(_folder(cache, "building")) as work:
            job = _Job(compiler, Path(work), link_flags, libraries, timeout_seconds, around)
            made = _compile(job, sources, work_list)
            size = made.stat().st_size
            os.replace(made, library)
        # Looking through the whole cache costs more than a small build: one key in 256 pays for it.
        if size >= _PRUNE_AT_BYTES or key.startswith("00"):
            prune_cache(cache, keep=library)
    except OSError as error:
        raise _unwritable(error) from error
    return library


def _unwritable(error: OSError) -> BuildError:
    return BuildError(
        f"build: expected a cache folder that can be written, got {error}; set TASOR_CACHE to a "
        "folder with room"
    )


@dataclass(frozen=True, slots=True)
class _Unit:
    """One file for the compiler, with the flags for it."""

    name: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Job:
    """What the compilations and the link of one library have in common."""

    compiler: Compiler
    work: Path
    link_flags: tuple[str, ...]
    libraries: tuple[str, ...]
    timeout_seconds: float | None
    around: Around

    def run(self, command: tuple[str, ...], stop: threading.Event | None = None) -> str:
        """What a command prints that runs in the folder of the job. Raises BuildError."""
        return _run(command, self.work, self.timeout_seconds, stop, self.around)


def _compile(job: _Job, sources: Mapping[str, str | bytes], units: tuple[_Unit, ...]) -> Path:
    for name, content in sources.items():
        data = content.encode() if isinstance(content, str) else content
        (job.work / name).write_bytes(data)
    inputs: tuple[str, ...]
    if len(units) == 1:
        # Starting the compiler twice would take as long as a small kernel.
        flags, inputs = units[0].flags, (units[0].name,)
    else:
        flags, inputs = job.link_flags, _objects(job, units)
    inputs += tuple(sorted(name for name in sources if name.endswith(_LINKED)))
    made = job.work / "library.so"
    # Assembly without a note about it makes the linker ask for an executable stack.
    hardening = ("-Wl,-z,noexecstack",) if platform.system() == "Linux" else ()
    named = (f"-l{library}" for library in job.libraries)
    command = (
        *job.compiler.command, *flags, *hardening, "-shared", "-o", made.name, *inputs, *named,
    )  # fmt: skip
    job.run(command)
    if not made.is_file():
        raise BuildError(
            f"build: expected {job.compiler.name} to write library.so, got no file and no error; "
            "choose another compiler with CC"
        )
    return made


def _objects(job: _Job, units: tuple[_Unit, ...]) -> tuple[str, ...]:
    """The objects of several files, compiled at the same time."""

    def compile_unit(unit: _Unit) -> str:
        made = f"{unit.name}.o"
        command = (*job.compiler.command, *unit.flags, "-c", "-o", made, unit.name)
        job.run(command, stop)
        return made

    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        try:
            return tuple(pool.map(compile_unit, units))
        except BaseException:
            # The pool waits for its threads, and they wait for their compilers.
            stop.set()
            raise


def _run(
    command: tuple[str, ...],
    folder: Path,
    timeout_seconds: float | None,
    stop: threading.Event | None = None,
    around: Around = _nothing_around,
) -> str:
    """What the command prints; BuildError if it fails, takes too long, or is to stop."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
            process_group=0,
        )
    except FileNotFoundError as error:
        raise ToolMissing(
            f"compiler: expected to run {command[0]}, got {error}; install a C compiler or name "
            "yours in CC"
        ) from error
    with process, around(process.pid):
        try:
            output = _output(process, timeout_seconds, stop)
        except BaseException as error:
            # The compiler is only the first of several processes: all of them must go.
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise BuildError(
                    f"build: expected {shlex.join(command[:1])} to finish {_subject(command)} "
                    f"within {timeout_seconds:g} s, got no end of it; allow more time or emit less "
                    "code"
                ) from error
            raise
    log = output.decode("utf-8", "replace")
    if process.returncode != 0:
        raise BuildError(
            f"build: expected {shlex.join(command[:1])} to accept the emitted code, got "
            f"{_first_errors(log) or f'exit status {process.returncode}'}; choose another compiler "
            "with CC, or report this with the log",
            f"{shlex.join(command)}\n{log}",
        )
    return log


def _subject(command: tuple[str, ...]) -> str:
    """The file that a command works on: the last one that it is given."""
    return [word for word in command if not word.startswith("-")][-1]


def _output(
    process: subprocess.Popen[bytes], timeout_seconds: float | None, stop: threading.Event | None
) -> bytes:
    """All that the process prints. TimeoutExpired after that time; BuildError if it is to stop."""
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    while True:
        left = _STOP_SECONDS if deadline is None else deadline - time.monotonic()
        try:
            return process.communicate(timeout=max(0.0, min(left, _STOP_SECONDS)))[0]
        except subprocess.TimeoutExpired:
            if stop is not None and stop.is_set():
                raise BuildError(
                    "build: expected all sources to compile, got one that did not; see its error"
                ) from None
            if deadline is not None and time.monotonic() >= deadline:
                raise


def _first_errors(log: str) -> str:
    """The first two complaints of a compiler or linker, on one line."""
    lines = [re.sub(r"[^ -~]+", " ", line).strip() for line in log.splitlines()]
    telling = re.compile(r"error|undefined|unrecognized|multiple definition|cannot|killed", re.I)
    complaints = [line for line in lines if telling.search(line)] or [
        line for line in lines if line
    ]
    return " | ".join(line[:200] for line in complaints[:2])


def _library_key(
    compiler: Compiler,
    sources: Mapping[str, str | bytes],
    units: tuple[_Unit, ...],
    link_flags: tuple[str, ...],
    libraries: tuple[str, ...],
) -> str:
    def parts() -> Iterable[bytes]:
        yield _FORMAT
        yield compiler.identity.encode()
        for name in sorted(sources):
            content = sources[name]
            yield name.encode()
            yield content.encode() if isinstance(content, str) else content
        for group in (*(unit.flags for unit in units), link_flags, libraries):
            yield str(len(group)).encode()
            yield from (word.encode() for word in group)

    return _digest(parts())


def _digest(parts: Iterable[bytes]) -> str:
    """SHA-256 of a sequence of byte strings, each told apart from the next by its length."""
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()


def _folder(cache: Path | None, name: str) -> Path:
    folder = (cache_folder() if cache is None else cache) / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def working_folder(cache: Path | None = None) -> tempfile.TemporaryDirectory[str]:
    """A folder in the cache for work that takes a while; who makes it removes it.

    What a killed process leaves there a later build clears away. Raises BuildError if the cache
    cannot be written.
    """
    try:
        return _temporary_folder(_folder(cache, "building"))
    except OSError as error:
        raise _unwritable(error) from error


def _temporary_folder(parent: Path) -> tempfile.TemporaryDirectory[str]:
    # After an interrupt a compiler may still be writing while the folder is removed.
    return tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True)


def _touch(library: Path) -> bool:
    """Marks a library as used just now; False if there is none."""
    try:
        os.utime(library)
    except FileNotFoundError:
        return False
    return True


def prune_cache(
    cache: Path | None = None, *, keep: Path | None = None, limit_bytes: int = CACHE_BYTES
) -> None:
    """Removes the least recently used libraries above the limit, and what killed builds left.

    `keep` is not removed, however large it is.
    """
    entries = []
    for path in _folder(cache, "libraries").glob("*.so"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        entries.append((path != keep, -status.st_mtime_ns, path.name, status.st_size, path))
    total = 0
    for is_other, _, _, size, path in sorted(entries):
        total += size
        if is_other and total > limit_bytes:
            path.unlink(missing_ok=True)
    oldest_kept = time.time() - _STALE_SECONDS
    for work in _folder(cache, "building").iterdir():
        try:
            stale = work.stat().st_mtime < oldest_kept
        except FileNotFoundError:
            continue
        if stale:
            shutil.rmtree(work, ignore_errors=True)

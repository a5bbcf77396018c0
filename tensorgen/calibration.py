"""A machine by measurement: the constants of `machine`, found in seconds and kept on disk.

What it does: compiles a few loops as kernels are compiled (`calibration_source`), has another
process time them (`calibration_process`), makes rates of what it finds, and remembers them for this
processor, compiler, target and number of threads. What it does not: decide who goes by them. A
compilation does only where it is told to: what is measured differs from run to run, and with it the
code that would be chosen.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tensorgen.build import (
    build_library,
    cache_folder,
    compiler_version,
    find_compiler,
)
from tensorgen.calibration_source import READ_VECTORS, calibration_source, multiply_add_vectors
from tensorgen.dialects import vector_dialect
from tensorgen.machine import (
    LEVEL_NAMES,
    Machine,
    MachineError,
    Rate,
    machine_document,
    machine_of,
)
from tensorgen.openmp_runtime import BRIEF_SPINNING
from tensorgen.target import MIB, Target, host_target, this_host
from tensorgen.types import float32
from tensorgen.typical_machine import MOST_SHARED_BYTES, typical_machine

SCHEMA = 3

ROUNDS = 15
"""Runs of each loop. The second fastest counts: what disturbs a run makes it longer, and a single
lucky one is no rule."""

STEADY = 1.2
"""Where half of the runs of plain arithmetic take more than this multiple of the fastest, the cores
are busy with other work, and what is found is not kept."""

TURN_SECONDS = 4e-3

LIMIT_SECONDS = 60.0
"""A calibration takes two or three seconds; a machine that needs this many is too busy for it."""

LEAST_MEMORY, MOST_MEMORY = 64 * MIB, 512 * MIB
"""Bytes that stand for main memory: several times the last cache, within reason."""

_ELEMENT = float32.bytes


class CalibrationError(RuntimeError):
    """This machine cannot be measured for the target. The message is one line."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A machine as measured, what the figures belong to, the file that keeps them, and the seconds
    that measuring took just now; None if they were on file."""

    machine: Machine
    identity: Mapping[str, object]
    path: Path
    seconds: float | None

    def document(self) -> dict[str, object]:
        """What is kept on file, as JSON."""
        return {**self.identity, "machine": machine_document(self.machine)}


def calibrated(target: Target, threads: int) -> Machine:
    """The constants of this machine for code of that target, measured unless they are on file.

    Raises as `calibrate`.
    """
    return calibrate(target, threads).machine


def calibrate(
    target: Target,
    threads: int,
    *,
    again: bool = False,
    cache: Path | None = None,
    tell: Callable[[str], None] = lambda remark: None,
) -> Calibration:
    """The constants of this machine, from the file that keeps them or, with `again`, measured.

    A file that is damaged or of another machine is named to `tell`, and replaced.

    Raises CalibrationError for a target that this machine cannot run, more threads than cores or a
    machine too busy; ToolMissing without a C compiler, BuildError for one that fails.
    """
    own = _with_own_caches(target)
    if not 1 <= threads <= max(own.cores, 1):
        raise CalibrationError(
            f"threads: expected 1 to {own.cores}, the cores that this process may use, got "
            f"{threads}; choose fewer"
        )
    identity = _identity(own, threads)
    path = _path(identity, cache)
    if not again:
        known = _read(path, identity, tell)
        if known is not None:
            return Calibration(known, identity, path, None)
    started = time.perf_counter()
    machine, at_rest = _measured(own, threads, cache)
    made = Calibration(machine, identity, path, time.perf_counter() - started)
    if at_rest:
        _write(path, made.document(), tell)
    else:
        tell(
            f"calibration: expected {threads} idle cores, got some with other work; the figures "
            "are too low and not kept"
        )
    return made


def _with_own_caches(target: Target) -> Target:
    """The target with the caches and cores of this machine. CalibrationError if it runs no such
    code."""
    host = host_target()
    if not (target.hosted and target.runs_on(platform.machine())):
        raise CalibrationError(
            f"target: expected one that this machine can run, such as {host.name}, got "
            f"{target.name}; calibrate it there"
        )
    return replace(
        target,
        cores=host.cores, maker=host.maker, family=host.family,
        l1_bytes=host.l1_bytes, l2_bytes=host.l2_bytes, l3_bytes=host.l3_bytes,
    )  # fmt: skip


# Measuring


@dataclass(frozen=True, slots=True)
class _Loop:
    """A probe on some threads, each of which does so much `work` a turn; one that reads does so
    from `count` elements."""

    probe: str
    threads: int
    work: float
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    """How many threads took part in a loop, and the seconds of one turn in each run."""

    team: int
    runs: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return sorted(self.runs)[1]

    @property
    def steady(self) -> bool:
        return median(self.runs) <= STEADY * min(self.runs)


def _measured(target: Target, threads: int, cache: Path | None) -> tuple[Machine, bool]:
    """The machine, and whether it was at rest while it was measured."""
    source = calibration_source(target)
    library = build_library({"calibration.c": source}, target=target, threads=threads, cache=cache)
    teams = (1, threads) if threads > 1 else (1,)
    memory = min(max(4 * target.l3_bytes, LEAST_MEMORY), MOST_MEMORY)
    loops = {
        (what, team): loop for team in teams for what, loop in _loops(target, memory, team).items()
    }
    timed = _timed(tuple(loops.values()), library, threads, memory)
    found = dict(zip(loops, timed, strict=True))

    def rate(what: str) -> Rate:
        rates = [
            loops[what, team].work * found[what, team].team / found[what, team].seconds
            for team in teams
        ]
        # All threads do at least what one of them can.
        return Rate(rates[0], max(rates))

    typical = typical_machine(target, threads)
    machine = replace(
        typical,
        flops=rate("flops"),
        divisions=rate("divisions"),
        levels=tuple(replace(level, bandwidth=rate(level.name)) for level in typical.levels),
        region_seconds=found["region", threads].seconds if threads > 1 else 0.0,
        barrier_seconds=found["barrier", threads].seconds if threads > 1 else 0.0,
    )
    return machine, all(found["flops", team].steady for team in teams)


def _loops(target: Target, memory: int, threads: int) -> dict[str, _Loop]:
    """What is timed on so many threads, by what it tells."""
    dialect = vector_dialect(target.isa, float32)
    assert dialect is not None, "there are vectors of float32, if of one element"
    step = READ_VECTORS * dialect.lanes
    flops = 2.0 * multiply_add_vectors(dialect) * dialect.lanes
    loops = {
        "flops": _Loop("multiply_add", threads, flops),
        "divisions": _Loop("divide", threads, float(step)),
    }
    for name, size in zip(LEVEL_NAMES, _sizes_read(target, memory, threads), strict=True):
        count = max(size // _ELEMENT // step, 1) * step
        loops[name] = _Loop("read", threads, float(count * _ELEMENT), count)
    if threads > 1:
        loops |= {name: _Loop(name, threads, 1.0) for name in ("region", "barrier")}
    return loops


def _sizes_read(target: Target, memory: int, threads: int) -> tuple[int, ...]:
    """Bytes that each thread reads again and again, for each of LEVEL_NAMES: they fit the level
    and not the one before. A level that is not there has the size of the one before."""
    first = target.l1_bytes // 2
    second = max(target.l2_bytes // 2, first)
    # Much less than the level holds: others use it, too, and pages have caches of their own.
    shared = min(target.l3_bytes, MOST_SHARED_BYTES)
    third = max(shared // 4 // threads, min(2 * target.l2_bytes, shared), second)
    return first, second, third, memory // threads


def _timed(loops: Sequence[_Loop], library: Path, threads: int, memory: int) -> list[_Found]:
    """Each loop's turn, timed by another process on that many bytes of memory."""
    request = {
        "library": str(library),
        "rounds": ROUNDS,
        "seconds": TURN_SECONDS,
        "threads": threads,
        "memory_bytes": memory,
        "probes": [
            {"name": loop.probe, "threads": loop.threads, "count": loop.count} for loop in loops
        ],
    }
    script = Path(__file__).with_name("calibration_process.py")
    # Isolated: the names of our modules must not hide those of the standard library.
    command = (sys.executable, "-I", str(script))
    try:
        answer = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=True,
            env={**BRIEF_SPINNING, **os.environ},
        )
    except subprocess.TimeoutExpired as error:
        raise CalibrationError(
            f"calibration: expected an end within {LIMIT_SECONDS:g} s, got none; let the machine "
            "come to rest and try again"
        ) from error
    except (OSError, subprocess.CalledProcessError) as error:
        raise CalibrationError(
            f"calibration: expected loops for {library.name} to run, got {_reason(error)}; choose "
            "a target that this processor supports"
        ) from error
    return [_Found(reply["team"], tuple(reply["seconds"])) for reply in json.loads(answer.stdout)]


def _reason(error: Exception) -> str:
    """Why a process failed: the last line that it wrote, or how it ended; on one line."""
    if isinstance(error, subprocess.CalledProcessError):
        said = str(error.stderr).strip().splitlines()
        return said[-1][:200] if said else f"exit status {error.returncode}"
    return " ".join(str(error).split())[:200]


# On file


def _identity(target: Target, threads: int) -> dict[str, object]:
    """What the figures belong to: with another of these they are measured anew."""
    compiler = find_compiler(target)
    return {
        "schema": SCHEMA,
        "processor": processor(),
        "caches": [target.l1_bytes, target.l2_bytes, target.l3_bytes],
        "compiler": compiler_version(compiler),
        "target": target.name,
        "threads": threads,
        "source": hashlib.sha256(calibration_source(target).encode()).hexdigest(),
    }


def processor() -> str:
    """What the processor calls itself, with family, model and stepping where the system knows."""
    host = this_host()
    listing = host.read_text("/proc/cpuinfo") or ""
    fields = {
        name.strip(): value.strip()
        for name, _, value in reversed([line.partition(":") for line in listing.splitlines()])
    }
    told = ("model name", "cpu family", "model", "stepping", "CPU implementer", "CPU part", "isa")
    words = [fields[name] for name in told if fields.get(name)]
    brand = host.sysctl("machdep.cpu.brand_string") if host.system == "Darwin" else None
    return " ".join(words) or brand or host.architecture


def _path(identity: Mapping[str, object], cache: Path | None) -> Path:
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]", "_", f"{identity['target']}-{identity['threads']}-{digest}.json")
    return (cache_folder() if cache is None else cache) / "machines" / name


def _read(
    path: Path, identity: Mapping[str, object], tell: Callable[[str], None]
) -> Machine | None:
    """The machine in the file; None if there is none, or none of this identity."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise MachineError(f"expected an object, got {type(content).__name__}")
        for name, expected in identity.items():
            if content.get(name) != expected:
                got = repr(content.get(name))[:60]
                raise MachineError(f"{name}: expected {expected!r}, got {got}")
        return machine_of(content.get("machine"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        tell(f"{path}: expected a calibration of this machine, got {reason}; measured again")
        return None


def _write(path: Path, content: Mapping[str, object], tell: Callable[[str], None]) -> None:
    """Puts the file in place as a whole, or tells why it cannot."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=".", delete=False
        ) as file:
            json.dump(content, file, indent=1, sort_keys=True)
            file.write("\n")
        os.replace(file.name, path)
    except OSError as error:
        tell(f"{path}: expected a file that can be written, got {error}; not kept")

"""What the generated code will run on: instruction set, caches, cores and compiler flags.

What it does: describes the targets that Tasor emits C for, and finds the best one that the machine
at hand supports. What it does not: emit code, run a compiler, or measure speed.
Source: x86-64 psABI section 3.1.1 (the levels v2, v3 and v4); Linux Documentation/ABI/testing
sysfs-devices-system-cpu (cache sizes).
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

Isa = Literal["avx512", "avx2", "sse42", "neon", "neon32", "c99"]
"""The families of vector instructions that kernels are written in; c99 means plain C.

neon is that of 64-bit Arm; neon32, of 32-bit Arm, takes and gives subnormal numbers as zero.
"""

KIB = 1024
MIB = 1024 * KIB

LINE_BYTES = 64
"""Bytes of a cache line."""

PAGE_BYTES = 4 * KIB
"""Bytes of a page, and of the addresses by which a first-level cache tells its sets."""


class TargetError(ValueError):
    """No code can be made for the target asked for. The message is one line."""


@dataclass(frozen=True, slots=True)
class Target:
    """One machine to emit code for.

    `architecture` is what `platform.machine()` says there, or "" if any machine will do.
    `vector_bits` and `vector_registers` describe one core's vector register file; for plain C they
    are those that a compiler can be expected to use. `has_fma` tells whether a fused multiply-add
    costs as much as a multiply. The three cache sizes are in bytes: the first two belong to one
    core, the third to all; 0 for a level that is not there, save that the fast memory of a core
    without caches counts as its first level. `compiler_flags` select the instruction set in
    gcc and clang. `compiler_prefix` starts the names of the GNU tools for this target on other
    machines. A target that is not `hosted` has no operating system to load a library. A piece of
    memory has less than 2**(`address_bits` - 1) bytes there. `maker` is who made the processor, in
    its own word, and `family` the number of its kind among those of this maker; "" and 0 if it may
    be anybody's and of any kind.
    """

    name: str
    isa: Isa
    architecture: str
    vector_bits: int
    vector_registers: int
    has_fma: bool
    cores: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    compiler_flags: tuple[str, ...] = ()
    compiler_prefix: str = ""
    hosted: bool = True
    address_bits: int = 64
    maker: str = ""
    family: int = 0

    @staticmethod
    def named(name: str) -> Target:
        """The target of that name; "host" is the best one that this machine supports.

        Every name but "host" gives the same target on every machine, with cache sizes and cores
        typical for it. Raises TargetError for a name that is unknown or not available.
        """
        if name == "host":
            return host_target()
        if name in _TARGETS:
            return _TARGETS[name]
        expected = f"target: expected one of {', '.join(TARGET_NAMES)}, got {name!r}"
        if name in CUDA_NAMES:
            raise TargetError(f"{expected}; code for GPUs is not available yet, choose a CPU")
        raise TargetError(f"{expected}; choose one of these")

    def exact(self) -> Target:
        """The same machine without fused multiply-adds, and in plain C if its vectors round in
        another way than IEEE 754 says."""
        return replace(self, isa="c99" if self.isa == "neon32" else self.isa, has_fma=False)

    def check_size(self, what: str, size: int) -> None:
        """TargetError if a piece of memory of so many bytes is too large for the target's
        addresses."""
        if size >= 1 << (self.address_bits - 1):
            raise TargetError(
                f"target {self.name}: expected less than 2**{self.address_bits - 1} bytes in one "
                f"piece, got {size} for {what}; choose smaller shapes or a 64-bit target"
            )

    def vector_lanes(self, element_bits: int) -> int:
        """How many elements of that width one vector register holds."""
        return self.vector_bits // element_bits

    def runs_on(self, architecture: str) -> bool:
        """Whether code for this target belongs to that kind of machine (`platform.machine()`)."""
        return self.architecture in ("", _canonical(architecture))


# Name, family, architecture, vector bits, vector registers, fused multiply-add, cores, bytes of the
# three caches, compiler flags, prefix of the tools' names.
_LEVEL_2 = Target(
    "x86-64-v2", "sse42", "x86_64", 128, 16, False, 4, 32 * KIB, 256 * KIB, 8 * MIB,
    ("-march=x86-64-v2",), "x86_64-linux-gnu-",
)  # fmt: skip
_LEVEL_3 = Target(
    "x86-64-v3", "avx2", "x86_64", 256, 16, True, 4, 32 * KIB, 512 * KIB, 16 * MIB,
    ("-march=x86-64-v3",), "x86_64-linux-gnu-",
)  # fmt: skip
# Compilers prefer 256-bit vectors by default, for the clocks of the first AVX-512 processors.
_LEVEL_4 = Target(
    "x86-64-v4", "avx512", "x86_64", 512, 32, True, 4, 32 * KIB, 1 * MIB, 32 * MIB,
    ("-march=x86-64-v4", "-mprefer-vector-width=512"), "x86_64-linux-gnu-",
)  # fmt: skip
_AARCH64 = Target(
    "aarch64", "neon", "aarch64", 128, 32, True, 4, 64 * KIB, 512 * KIB, 4 * MIB,
    ("-march=armv8-a",), "aarch64-linux-gnu-",
)  # fmt: skip
_ARMV7 = Target(
    "armv7", "neon32", "armv7l", 128, 16, True, 4, 32 * KIB, 512 * KIB, 0,
    ("-march=armv7-a", "-mfpu=neon-vfpv4", "-mfloat-abi=hard"), "arm-linux-gnueabihf-",
    address_bits=32,
)  # fmt: skip
_CORTEX_M4 = Target(
    "cortex-m4", "c99", "armv7e-m", 32, 32, True, 1, 64 * KIB, 0, 0,
    ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"), "arm-none-eabi-",
    hosted=False, address_bits=32,
)  # fmt: skip
_CORTEX_M7 = Target(
    "cortex-m7", "c99", "armv7e-m", 32, 32, True, 1, 16 * KIB, 0, 0,
    ("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard"), "arm-none-eabi-",
    hosted=False, address_bits=32,
)  # fmt: skip
_CORTEX_M55 = Target(
    "cortex-m55", "c99", "armv8.1-m", 128, 8, True, 1, 32 * KIB, 0, 0,
    ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"), "arm-none-eabi-",
    hosted=False, address_bits=32,
)  # fmt: skip
_RISCV64 = Target(
    "riscv64", "c99", "riscv64", 32, 32, True, 4, 32 * KIB, 512 * KIB, 2 * MIB,
    ("-march=rv64gc", "-mabi=lp64d"), "riscv64-linux-gnu-",
)  # fmt: skip
_C99 = Target("c99", "c99", "", 128, 16, False, 1, 32 * KIB, 256 * KIB, 0)

_TARGETS = {
    target.name: target
    for target in (
        _LEVEL_2, _LEVEL_3, _LEVEL_4, _AARCH64, _ARMV7,
        _CORTEX_M4, _CORTEX_M7, _CORTEX_M55, _RISCV64, _C99,
    )
}  # fmt: skip

TARGET_NAMES: tuple[str, ...] = ("host", *_TARGETS)
CUDA_NAMES: tuple[str, ...] = ("cuda-sm80", "cuda-sm90")

_LEVELS: tuple[tuple[Target, frozenset[str]], ...] = (
    (_LEVEL_4, frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})),
    (_LEVEL_3, frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})),
    (_LEVEL_2, frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})),
)
"""Each level with what it adds to the one below, best first, in the words of /proc/cpuinfo."""

_DARWIN_FEATURES = {
    "avx1.0": "avx", "lzcnt": "abm", "sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2",
    "lahf": "lahf_lm",
}  # fmt: skip
"""What macOS calls the same features in `machdep.cpu`, where the words differ."""

_ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True, slots=True)
class Host:
    """What the detection may ask of the machine it runs on; a test can answer for another one.

    `system` and `architecture` are `platform.system()` and `platform.machine()` there. `read_text`
    gives a file's text and `sysctl` a kernel variable's, None if there is no such thing.
    `usable_cores` is the number of cores that this process may run on.
    """

    system: str
    architecture: str
    read_text: Callable[[str], str | None]
    sysctl: Callable[[str], str | None]
    usable_cores: int


def this_host() -> Host:
    """The machine that this process runs on."""
    return Host(platform.system(), platform.machine(), _read_text, _read_sysctl, _usable_cores())


def host_target(host: Host | None = None) -> Target:
    """The best target that the machine's CPU and operating system support, with its own caches.

    The name is that of the instruction set level, so that equal machines have equal names; c99
    where nothing better is certain.
    """
    if host is None:
        host = this_host()
    target = replace(_best_target(host), maker=_maker(host), family=_family(host))
    caches = _cache_sizes(host)
    if caches is None:
        return replace(target, cores=host.usable_cores)
    l1_bytes, l2_bytes, l3_bytes = caches
    return replace(
        target,
        cores=host.usable_cores, l1_bytes=l1_bytes, l2_bytes=l2_bytes, l3_bytes=l3_bytes,
    )  # fmt: skip


def _canonical(architecture: str) -> str:
    lowered = architecture.lower()
    return _ARCHITECTURES.get(lowered, lowered)


def _best_target(host: Host) -> Target:
    match _canonical(host.architecture):
        case "x86_64":
            features = _x86_features(host)
            for position, (target, _) in enumerate(_LEVELS):
                if all(needed <= features for _, needed in _LEVELS[position:]):
                    return target
            return _C99
        case "aarch64":
            return _AARCH64
        case "armv7l" | "armv8l" if {"neon", "vfpv4"} <= _cpuinfo_words(host, "Features"):
            return _ARMV7
        case "riscv64":
            return _RISCV64
        case _:
            return _C99


def _maker(host: Host) -> str:
    """The word that x86 processors have for who made them; "" for one that does not tell."""
    return _cpuinfo_word(host, "vendor_id")


def _family(host: Host) -> int:
    """The number that x86 processors have for their kind; 0 for one that does not tell."""
    word = _cpuinfo_word(host, "cpu family")
    return int(word) if word.isascii() and word.isdecimal() else 0


def _x86_features(host: Host) -> frozenset[str]:
    """The features that the CPU has and the operating system saves at a task switch.

    Linux and macOS both leave out of these lists what they do not save (the check that a program
    without their help makes with the instruction XGETBV).
    """
    if host.system == "Linux":
        return _cpuinfo_words(host, "flags")
    if host.system == "Darwin":
        lists = (
            host.sysctl(f"machdep.cpu.{name}")
            for name in ("features", "leaf7_features", "extfeatures")
        )
        words = " ".join(text for text in lists if text is not None).lower().split()
        # macOS saves the AVX-512 registers on demand, and says so here.
        if host.sysctl("hw.optional.avx512f") != "1":
            words = [word for word in words if not word.startswith("avx512")]
        return frozenset(_DARWIN_FEATURES.get(word, word) for word in words)
    return frozenset()


def _cpuinfo_word(host: Host, field: str) -> str:
    """The one word of that field, where all processors of /proc/cpuinfo have it; "" otherwise."""
    words = _cpuinfo_words(host, field)
    return next(iter(words)) if len(words) == 1 else ""


def _cpuinfo_words(host: Host, field: str) -> frozenset[str]:
    """The words of that field that all processors of /proc/cpuinfo have in common."""
    text = host.read_text("/proc/cpuinfo")
    if text is None:
        return frozenset()
    lines = re.findall(rf"^{field}\s*:(.*)$", text, re.MULTILINE)
    if not lines:
        return frozenset()
    return frozenset.intersection(*(frozenset(line.split()) for line in lines))


def _cache_sizes(host: Host) -> tuple[int, int, int] | None:
    """Bytes of the data caches of levels 1, 2 and 3; None if the machine does not tell."""
    if host.system == "Linux":
        sizes = _linux_cache_sizes(host)
    elif host.system == "Darwin":
        sizes = {
            level: int(text)
            for level, name in ((1, "l1dcachesize"), (2, "l2cachesize"), (3, "l3cachesize"))
            if (text := host.sysctl(f"hw.{name}")) is not None and text.isdecimal()
        }
    else:
        sizes = {}
    if not sizes.get(1):
        return None
    return sizes[1], sizes.get(2, 0), sizes.get(3, 0)


def _linux_cache_sizes(host: Host) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for index in range(16):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{index}"
        level, kind, size = (
            (host.read_text(f"{folder}/{name}") or "").strip() for name in ("level", "type", "size")
        )
        amount = re.fullmatch(r"(\d+)([KM]?)", size)
        if kind in ("Data", "Unified") and level.isdecimal() and amount is not None:
            unit = {"": 1, "K": KIB, "M": MIB}[amount[2]]
            sizes[int(level)] = int(amount[1]) * unit
    return sizes


def _read_text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _read_sysctl(name: str) -> str | None:
    try:
        answer = subprocess.run(
            ["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

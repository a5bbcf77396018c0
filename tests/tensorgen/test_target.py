"""Targets: the table, the refusals, and the detection on machines that are not here."""

from __future__ import annotations

import dataclasses
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tensorgen.target import (
    CUDA_NAMES,
    KIB,
    MIB,
    TARGET_NAMES,
    Host,
    Target,
    TargetError,
    host_target,
    this_host,
)

V2 = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
V3 = f"{V2} avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
CACHE = "/sys/devices/system/cpu/cpu0/cache"


def linux(
    architecture: str, files: Mapping[str, str], *, cores: int = 3, system: str = "Linux"
) -> Host:
    return Host(system, architecture, files.get, lambda name: None, cores)


def darwin(architecture: str, variables: Mapping[str, str]) -> Host:
    return Host("Darwin", architecture, lambda path: None, variables.get, 8)


def cpuinfo(*flags_of_each: str, field: str = "flags") -> dict[str, str]:
    text = "\n".join(f"processor\t: 0\n{field}\t\t: {flags}\n" for flags in flags_of_each)
    return {"/proc/cpuinfo": text}


def caches(*rows: tuple[str, str, str]) -> dict[str, str]:
    return {
        f"{CACHE}/index{index}/{name}": f"{value}\n"
        for index, row in enumerate(rows)
        for name, value in zip(("level", "type", "size"), row, strict=True)
    }


@pytest.mark.parametrize("name", [name for name in TARGET_NAMES if name != "host"])
def test_a_named_target_is_sound(name: str) -> None:
    target = Target.named(name)
    assert target.name == name
    assert target == Target.named(name)
    assert target.vector_bits in (32, 64, 128, 256, 512)
    assert target.vector_lanes(32) >= 1
    assert min(target.vector_registers, target.cores, target.l1_bytes) > 0
    assert "-ffast-math" not in target.compiler_flags
    assert target.hosted == (not name.startswith("cortex-m"))


def test_a_target_is_a_value() -> None:
    target = Target.named("x86-64-v3")
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.cores = 2  # type: ignore[misc]
    assert hash(target) == hash(Target.named("x86-64-v3"))


@pytest.mark.parametrize(
    ("name", "isa", "bits", "registers", "fma"),
    [
        ("x86-64-v2", "sse42", 128, 16, False),
        ("x86-64-v3", "avx2", 256, 16, True),
        ("x86-64-v4", "avx512", 512, 32, True),
        ("aarch64", "neon", 128, 32, True),
        ("armv7", "neon32", 128, 16, True),
    ],
)
def test_register_files(name: str, isa: str, bits: int, registers: int, fma: bool) -> None:
    target = Target.named(name)
    assert (target.isa, target.vector_bits) == (isa, bits)
    assert (target.vector_registers, target.has_fma) == (registers, fma)


def test_vectors_that_lose_subnormal_numbers_are_not_exact() -> None:
    assert Target.named("armv7").exact().isa == "c99"
    assert Target.named("armv7").exact().compiler_flags == Target.named("armv7").compiler_flags
    assert Target.named("aarch64").exact() == dataclasses.replace(
        Target.named("aarch64"), has_fma=False
    )


@pytest.mark.parametrize("name", CUDA_NAMES)
def test_gpus_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(TargetError) as refusal:
        Target.named(name)
    message = str(refusal.value)
    assert message.startswith("target: expected one of host, x86-64-v2,")
    assert f"got '{name}'; code for GPUs is not available yet" in message
    assert "\n" not in message


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(
        TargetError, match=r"^target: expected one of .*c99, got 'pdp\\n11'; choose"
    ):
        Target.named("pdp\n11")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [(V4, "x86-64-v4"), (V3, "x86-64-v3"), (V2, "x86-64-v2"), ("sse sse2", "c99"), ("", "c99")],
)
def test_linux_levels(flags: str, expected: str) -> None:
    assert host_target(linux("x86_64", cpuinfo(flags))).name == expected


@pytest.mark.parametrize("lost", V4.split())
def test_one_missing_feature_costs_its_level_and_those_above(lost: str) -> None:
    flags = " ".join(flag for flag in V4.split() if flag != lost)
    expected = "c99" if lost in V2 else "x86-64-v2" if lost in V3 else "x86-64-v3"
    assert host_target(linux("x86_64", cpuinfo(flags))).name == expected


def test_the_weakest_core_decides() -> None:
    assert host_target(linux("x86_64", cpuinfo(V4, V3))).name == "x86-64-v3"


def test_features_are_words_not_parts_of_words() -> None:
    flags = V4.replace("avx512vl", "avx512vlx").replace("fma", "fma4")
    assert host_target(linux("x86_64", cpuinfo(flags))).name == "x86-64-v2"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (linux("x86_64", {}), "c99"),
        (linux("x86_64", {"/proc/cpuinfo": "\0garbage"}), "c99"),
        (linux("AMD64", cpuinfo(V4), system="Windows"), "c99"),
        (linux("aarch64", {}), "aarch64"),
        (linux("armv7l", cpuinfo("half neon vfpv4", field="Features")), "armv7"),
        (linux("armv7l", cpuinfo("half vfpv3", field="Features")), "c99"),
        (linux("riscv64", {}), "riscv64"),
        (linux("s390x", {}), "c99"),
        (darwin("arm64", {}), "aarch64"),
    ],
)
def test_other_machines(host: Host, expected: str) -> None:
    assert host_target(host).name == expected


def mac_features(avx512: str) -> dict[str, str]:
    return {
        "machdep.cpu.features": "FMA CX16 POPCNT SSE3 SSE4.1 SSE4.2 SSSE3 AVX1.0 F16C MOVBE XSAVE",
        "machdep.cpu.leaf7_features": "BMI1 BMI2 AVX2 AVX512F AVX512BW AVX512CD AVX512DQ AVX512VL",
        "machdep.cpu.extfeatures": "LAHF LZCNT",
        "hw.optional.avx512f": avx512,
        "hw.l1dcachesize": "32768",
        "hw.l2cachesize": "1048576",
    }


@pytest.mark.parametrize(("avx512", "expected"), [("1", "x86-64-v4"), ("0", "x86-64-v3")])
def test_macs_have_avx512_only_if_the_system_says_so(avx512: str, expected: str) -> None:
    target = host_target(darwin("x86_64", mac_features(avx512)))
    assert target.name == expected
    assert (target.l1_bytes, target.l2_bytes, target.l3_bytes) == (32 * KIB, MIB, 0)


def test_caches_and_cores_are_the_machines_own() -> None:
    files = cpuinfo(V4) | caches(
        ("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K"),
        ("3", "Unified", "260M"),
    )  # fmt: skip
    target = host_target(linux("x86_64", files, cores=5))
    assert (target.l1_bytes, target.l2_bytes, target.l3_bytes) == (48 * KIB, 2 * MIB, 260 * MIB)
    assert target.cores == 5
    assert target.compiler_flags == Target.named("x86-64-v4").compiler_flags


@pytest.mark.parametrize(
    "files",
    [{}, caches(("1", "Data", "huge")), caches(("1", "Data", "0K")), caches(("", "Data", "32K"))],
)
def test_typical_caches_where_the_machine_does_not_tell(files: dict[str, str]) -> None:
    target = host_target(linux("x86_64", cpuinfo(V3) | files))
    assert target.l2_bytes == Target.named("x86-64-v3").l2_bytes
    assert target.l1_bytes == Target.named("x86-64-v3").l1_bytes


def test_this_machine_has_a_target() -> None:
    target = Target.named("host")
    assert target == host_target(this_host())
    assert target.runs_on(platform.machine())
    assert target.cores >= 1
    assert target.l1_bytes > 0


@pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("gcc") is None, reason="needs gcc on x86-64"
)
def test_the_compilers_own_probe_agrees(tmp_path: Path) -> None:
    # The probe runs CPUID and XGETBV, so it knows what the operating system saves.
    probes = {
        "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
        "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "fma"),
        "x86-64-v2": ("popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"),
    }
    words = sorted({word for level in probes.values() for word in level})
    checks = "\n".join(f'if (__builtin_cpu_supports("{word}")) puts("{word}");' for word in words)
    source = tmp_path / "probe.c"
    source.write_text(f"#include <stdio.h>\nint main(void) {{\n{checks}\nreturn 0; }}\n")
    subprocess.run(["gcc", "-o", tmp_path / "probe", source], check=True)
    answer = subprocess.run([tmp_path / "probe"], check=True, capture_output=True, text=True)
    supported = set(answer.stdout.split())
    levels = ["x86-64-v4", "x86-64-v3", "x86-64-v2"]
    best = next(
        (
            level
            for position, level in enumerate(levels)
            if all(set(probes[below]) <= supported for below in levels[position:])
        ),
        "c99",
    )
    assert host_target().name == best


@pytest.mark.parametrize(
    ("name", "architecture", "expected"),
    [
        ("c99", "s390x", True), ("aarch64", "arm64", True), ("x86-64-v3", "AMD64", True),
        ("x86-64-v3", "aarch64", False), ("armv7", "aarch64", False),
    ],
)  # fmt: skip
def test_which_machine_a_target_belongs_to(name: str, architecture: str, expected: bool) -> None:
    assert Target.named(name).runs_on(architecture) == expected


@pytest.mark.parametrize(
    ("files", "maker"),
    [
        (cpuinfo(V4), ""),
        (cpuinfo("GenuineIntel", field="vendor_id"), "GenuineIntel"),
        (cpuinfo("GenuineIntel", "AuthenticAMD", field="vendor_id"), ""),
    ],
)
def test_the_maker_is_who_all_processors_name(files: dict[str, str], maker: str) -> None:
    assert host_target(linux("x86_64", files)).maker == maker


@pytest.mark.parametrize(
    ("files", "family"),
    [
        (cpuinfo(V4), 0),
        (cpuinfo("26", field="cpu family"), 26),
        (cpuinfo("25", "26", field="cpu family"), 0),
        (cpuinfo("0x1a", field="cpu family"), 0),
    ],
)
def test_the_family_is_the_number_that_all_processors_have(
    files: dict[str, str], family: int
) -> None:
    assert host_target(linux("x86_64", files)).family == family

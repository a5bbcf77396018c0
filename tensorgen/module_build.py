"""How the files of a library are compiled: sources, flags and the instruction sets to check for.

What it does: says which sources make up the library and with which flags each is compiled, for the
build files and for `build.build_library` alike. What it does not: run a compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorgen.build import default_flags
from tensorgen.module_spec import Module
from tensorgen.target import Isa

_MACRO_OF_SIMD = "-DTASOR_OPENMP_SIMD"
_BUILD_SUFFIXES = (".c", ".S", ".h", ".weights")


@dataclass(frozen=True, slots=True)
class IsaSupport:
    """What C code needs to know of an instruction set.

    `header` declares its intrinsics, `predefined` are macros of a compiler that is set to it, and
    `features` are words for `__builtin_cpu_supports`, enough to tell a processor and operating
    system that have it; none where the architecture itself promises the instructions.
    """

    header: str
    predefined: tuple[str, ...]
    features: tuple[str, ...]


# Compilers since gcc 5 and clang 6 know these words. No processor has them and lacks the rest of
# its level (F16C, LZCNT, MOVBE and the like), for which there are younger words or none.
ISA_SUPPORT: Mapping[Isa, IsaSupport] = {
    "avx512": IsaSupport(
        "immintrin.h",
        ("__AVX512F__", "__AVX512BW__", "__AVX512DQ__", "__AVX512VL__", "__FMA__"),
        ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma", "bmi2"),
    ),
    "avx2": IsaSupport("immintrin.h", ("__AVX2__", "__FMA__"), ("avx2", "fma", "bmi", "bmi2")),
    "sse42": IsaSupport("immintrin.h", ("__SSE4_2__",), ("sse4.2", "popcnt")),
    "neon": IsaSupport("arm_neon.h", ("__ARM_NEON", "__aarch64__"), ()),
    "neon32": IsaSupport("arm_neon.h", ("__ARM_NEON", "__ARM_FEATURE_FMA"), ()),
    "c99": IsaSupport("", (), ()),
}


def base_flags(module: Module) -> tuple[str, ...]:
    """The flags that every C source of the library is compiled with."""
    flags = default_flags(strict=module.strict, openmp=module.threads > 1)
    if module.target.hosted:
        return flags
    # All of a firmware is for one processor, and lies where the linker puts it.
    return (*(flag for flag in flags if flag != "-fPIC"), *module.target.compiler_flags)


def source_flags(module: Module) -> dict[str, tuple[str, ...]]:
    """Each source of the library with its flags beyond `base_flags`.

    On a system only the kernels may use the target's instructions: the entry has to run anywhere,
    to say that they are missing.
    """
    target_flags = module.target.compiler_flags if module.target.hosted else ()
    simd = ("-fopenmp-simd", _MACRO_OF_SIMD) if module.threads == 1 and not module.strict else ()
    flags: dict[str, tuple[str, ...]] = {
        f"{module.name}.c": (),
        f"{module.name}_kernels.c": (*target_flags, *simd),
    }
    if module.weights == "c" and module.constants:
        flags[f"{module.name}_weights.c"] = ()
    if module.weights == "object" and module.constants:
        flags[f"{module.name}_weights.S"] = ()
    if module.weights == "file" and module.target.hosted:
        flags[f"{module.name}_file.c"] = ()
    if module.self_test is not None:
        flags[f"{module.name}_self_test.c"] = ()
    return flags


def library_sources(module: Module, files: Mapping[str, bytes]) -> dict[str, str | bytes]:
    """Those of the module's files that a compiler needs for the library, as `build.build_library`
    takes them together with `source_flags`."""
    compiled = source_flags(module)
    return {
        name: content
        for name, content in files.items()
        if name.endswith(_BUILD_SUFFIXES) and (name in compiled or not name.endswith((".c", ".S")))
    }


def link_flags(module: Module) -> tuple[str, ...]:
    """The flags for linking with the library."""
    return (*(("-fopenmp",) if module.threads > 1 else ()), "-lm")

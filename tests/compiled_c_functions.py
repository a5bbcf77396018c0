"""The C functions for tests: compiled with the system's gcc, run on whole arrays through cffi."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cffi import FFI
from numpy.typing import NDArray

from tensorgen.c_functions import C_FUNCTIONS, definitions

Values = NDArray[Any]

INCLUDES = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\n"
NUMPY_TYPE = {"float": "float32", "double": "float64"} | {
    f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
INTEGER_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SUFFIX = {"float32": "f32", "float64": "f64"} | {
    name: name[0] + name.lstrip("uint") for name in INTEGER_TYPES
}

SPECIAL = np.array([
    0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0, 0.1, 10.0, -7.25,
    104.0, -104.0, -127.5, 128.0, 255.5, 65504.0, np.inf, -np.inf, np.nan, 2.0**24 - 1,
    2.0**24 + 2, -(2.0**24) + 1, 2.0**31, 2.0**32, -(2.0**31), 2.0**63, 2.0**64,
    3.4028234663852886e38, -3.4028234663852886e38, 1e-45, -1e-45, 1.1754943508222875e-38,
    16367173 * 2.0**72,  # very near to a multiple of pi/2
])  # fmt: skip

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@dataclass(frozen=True, slots=True)
class Signature:
    """Result and parameter types of a function, in C's spelling."""

    result: str
    parameters: tuple[str, ...]


def _signatures() -> dict[str, Signature]:
    """The functions that take and give values only, without pointers."""
    found = {}
    for name, function in C_FUNCTIONS.items():
        match = re.search(rf"(?:static inline|TASOR_INLINE) (\w+) {name}\(([^)]*)\)", function.text)
        assert match is not None, name
        parameters = tuple(part.split()[-2] for part in match[2].split(","))
        if "*" not in match[2]:
            found[name] = Signature(match[1], parameters)
    return found


SIGNATURES = _signatures()
FLOATING = tuple(
    name
    for name, signature in SIGNATURES.items()
    if {signature.result, *signature.parameters} <= {"float", "double"}
)
"""The functions from floats to floats."""


def loop(name: str, signature: Signature) -> str:
    """A C function `loop_NAME` that applies the function to arrays, on one line."""
    arrays = [f"const {kind} *restrict x{i}" for i, kind in enumerate(signature.parameters)]
    head = f"void loop_{name}({', '.join(arrays)}, {signature.result} *restrict out, int n)"
    values = ", ".join(f"x{i}[i]" for i in range(len(signature.parameters)))
    return f"{head}; {head} {{ for (int i = 0; i < n; i++) out[i] = {name}({values}); }}"


LOOPS = {name: loop(name, signature) for name, signature in SIGNATURES.items()}


def text_of(names: Iterable[str]) -> str:
    """A C file with the functions and, on the last lines, their loops."""
    names = tuple(names)
    return INCLUDES + definitions(names) + "\n".join(LOOPS[name] for name in names) + "\n"


REFERENCE = """
void reference_erf(const double *x, double *high, double *low, int n);
void reference_erf(const double *x, double *high, double *low, int n)
{
    for (int i = 0; i < n; i++) {
        const long double exact = erfl(x[i]);
        high[i] = (double)exact;
        low[i] = (double)(exact - high[i]);
    }
}
"""


def watched_program(folder: Path, level: str, text: str, *flags: str) -> Path:
    """A program of that text for a level of x86-64, with intrinsics, watched by sanitizers."""
    source, built = folder / "main.c", folder / "main"
    source.write_text(f"#include <immintrin.h>\n#include <stddef.h>\n{INCLUDES}{text}")
    strict = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", f"-march={level}")
    sanitizers = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    command = ["gcc", *strict, *sanitizers, *flags, str(source), "-o", str(built)]
    subprocess.run(command, check=True)
    return built


class Library:
    """All functions, applied to numpy arrays by name."""

    def __init__(
        self, folder: Path, compiler: str, *flags: str, names: Iterable[str] = SIGNATURES
    ) -> None:
        source, built = folder / "functions.c", folder / "functions.so"
        source.write_text(text_of(names) + REFERENCE)
        command = [compiler, "-std=c99", "-shared", "-fPIC", *flags, str(source), "-o", str(built)]
        subprocess.run([*command, "-lm"], check=True)
        self.ffi = FFI()
        for name in names:
            self.ffi.cdef(LOOPS[name].partition(";")[0].replace("restrict", "") + ";")
        self.ffi.cdef("void reference_erf(const double *, double *, double *, int);")
        self.library: Any = self.ffi.dlopen(str(built))

    def __call__(self, name: str, *operands: Values) -> Values:
        signature = SIGNATURES[name]
        assert len({operand.shape for operand in operands}) == 1
        arrays = [
            np.ascontiguousarray(operand, dtype=NUMPY_TYPE[kind])
            for operand, kind in zip(operands, signature.parameters, strict=True)
        ]
        out = np.empty(arrays[0].shape, NUMPY_TYPE[signature.result])
        pointers = [
            self.ffi.cast(f"{kind} *", array.ctypes.data)
            for array, kind in zip(arrays, signature.parameters, strict=True)
        ]
        result = self.ffi.cast(f"{signature.result} *", out.ctypes.data)
        getattr(self.library, f"loop_{name}")(*pointers, result, out.size)
        return out

    def erf(self, x: Values) -> Values:
        """The error function in long double."""
        high, low = np.empty_like(x), np.empty_like(x)
        pointers = (self.ffi.cast("double *", array.ctypes.data) for array in (x, high, low))
        self.library.reference_erf(*pointers, x.size)
        return np.copysign(high.astype(np.longdouble) + low, x)


def float32_sample(step: int, start: int = 0) -> Values:
    """Floats of every sign and exponent: each `step`-th bit pattern, and the special ones."""
    patterns = np.arange(start, 2**32, step, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([patterns.view(np.float32), SPECIAL.astype(np.float32)])


def float64_sample(count: int) -> Values:
    """Doubles of every exponent, and more where the functions bend."""
    rng = np.random.default_rng(20)
    patterns = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    spread = [rng.uniform(-scale, scale, count) for scale in (1.0, 4.0, 40.0, 800.0, 1e7)]
    near_one = 1 + rng.uniform(-1, 1, count) * 2.0 ** -rng.uniform(0, 53, count)
    return np.concatenate([patterns, *spread, near_one, SPECIAL])

"""The C functions under compilers: the same bits, no warning, no libm, vector code, no UB."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tensorgen.c_functions import C_FUNCTIONS, definitions
from tests.compiled_c_functions import (
    FLOATING,
    INCLUDES,
    NUMPY_TYPE,
    SIGNATURES,
    Library,
    float32_sample,
    float64_sample,
    needs_gcc,
    text_of,
)

STRICT = (
    "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow",
    "-Wmissing-prototypes", "-Wdouble-promotion", "-Wvla", "-Wundef", "-Werror",
)  # fmt: skip

needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
needs_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of x86-64")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Without fused multiply-adds."""
    return Library(
        tmp_path_factory.mktemp("plain"), "gcc", "-O1", "-ffp-contract=off", names=FLOATING
    )


@needs_gcc
@needs_x86_64
@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("gcc", ("-O0",)),
        ("gcc", ("-O3", "-march=x86-64-v3", "-fno-math-errno", "-fno-trapping-math")),
        pytest.param("clang", ("-O3", "-march=x86-64-v3"), marks=needs_clang),
    ],
)
def test_without_contraction_all_compilers_give_the_same_bits(
    plain: Library, tmp_path: Path, compiler: str, flags: tuple[str, ...]
) -> None:
    other = Library(tmp_path, compiler, *flags, "-ffp-contract=off", names=FLOATING)
    sample = {"float": float32_sample(2**17 - 1), "double": float64_sample(4000)}
    for name in FLOATING:
        kinds = SIGNATURES[name].parameters
        length = min(sample[kind].size for kind in kinds)
        operands = [np.roll(sample[kind][-length:], 7 * i) for i, kind in enumerate(kinds)]
        np.testing.assert_array_equal(plain(name, *operands), other(name, *operands), err_msg=name)


@pytest.mark.parametrize(
    "compiler",
    [pytest.param("gcc", marks=needs_gcc), pytest.param("clang", marks=needs_clang)],
)
def test_no_compiler_warns(tmp_path: Path, compiler: str) -> None:
    source = tmp_path / "functions.c"
    source.write_text(text_of(SIGNATURES))
    command = [compiler, *STRICT, "-O1", "-c", str(source), "-o", str(tmp_path / "functions.o")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


@needs_gcc
@needs_x86_64
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_no_libm_function_is_called(tmp_path: Path, level: str) -> None:
    source, built = tmp_path / "functions.c", tmp_path / "functions.o"
    # Quotients by a reciprocal are for targets with fused multiply-adds.
    fused = level == "x86-64-v3"
    divides = ("_quotient_", "_rest_", "_rescaled_")
    source.write_text(
        text_of([name for name in SIGNATURES if fused or not any(d in name for d in divides)])
    )
    flags = ("-std=c99", "-O2", f"-march={level}", "-fno-math-errno", "-fno-stack-protector")
    subprocess.run(["gcc", *flags, "-c", str(source), "-o", str(built)], check=True)
    symbols = subprocess.run(["nm", "-u", str(built)], capture_output=True, text=True, check=True)
    undefined = {line.split()[-1] for line in symbols.stdout.splitlines()}
    assert undefined <= {"_GLOBAL_OFFSET_TABLE_", "memcpy"}


VECTORIZED = (
    *(f"tasor_{op}_{t}" for t in ("f32", "f64")
      for op in ("exp", "exp_nonpositive", "log", "tanh", "sigmoid", "erf", "asin", "acos", "atan",
                 "sinh", "cosh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc", "round",
                 "sign", "max", "min")),
    *(f"tasor_{op}_f32" for op in ("sin", "cos", "tan", "pow")),
    *(f"tasor_{to}_from_{of}" for to, of in (("f32", "f16"), ("f16", "f32"), ("f32", "bf16"),
                                             ("bf16", "f32"), ("i32", "f32"), ("u8", "f32"))),
    *(f"tasor_{op}_i32" for op in ("add", "mul", "max", "abs", "sign", "shl", "shr")),
)  # fmt: skip


@needs_gcc
@needs_x86_64
@pytest.mark.parametrize("level", ["x86-64-v3", pytest.param("x86-64-v4", marks=pytest.mark.slow)])
def test_loops_become_vector_code(tmp_path: Path, level: str) -> None:
    source = tmp_path / "functions.c"
    text = text_of(VECTORIZED)
    source.write_text(text)
    flags = ("-std=c99", "-O3", f"-march={level}", "-fno-math-errno", "-fno-trapping-math")
    command = ["gcc", *flags, "-fopt-info-vec-optimized", "-c", str(source), "-o", "/dev/null"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = {int(line) for line in re.findall(r"\.c:(\d+):\d+: optimized: loop", finished.stderr)}
    first = text.count("\n") - len(VECTORIZED) + 1
    scalar = [name for i, name in enumerate(VECTORIZED) if first + i not in lines]
    assert not scalar, f"not vectorized: {scalar}"


def _c_values(c_type: str) -> list[str]:
    """Operands on which undefined behaviour would show, as C literals."""
    if c_type in ("float", "double"):
        of_float = ["0.0", "-0.0", "1.0", "-1.0", "0.5", "INFINITY", "-INFINITY", "NAN", "1e-45"]
        edges = ["127.9", "-129.0", "2147483648.0", "-2147483649.0", "9.3e18", "-9.3e18", "1.9e19"]
        return [f"({c_type})({value})" for value in [*of_float, *edges, "3e38", "-3e38", "1e5"]]
    info = np.iinfo(NUMPY_TYPE[c_type])
    values = [info.min, info.max, *range(0 if info.min == 0 else -2, 9), 15, 31, 32, 63, 64]
    literals = ["(-INT64_MAX - 1)" if value == -(2**63) else str(value) for value in values]
    return [f"({c_type}){value}{'u' * (value == str(2**64 - 1))}" for value in literals]


@needs_gcc
def test_sanitizers_find_no_undefined_behaviour(tmp_path: Path) -> None:
    checks = []
    for i, (name, signature) in enumerate(SIGNATURES.items()):
        if "reduced" in name or "excess" in name or "scaled" in name or "sin_cos" in name:
            continue  # parts, reached through the functions that call them
        values = [
            f"static const {kind} v{i}_{j}[] = {{{', '.join(_c_values(kind))}}};"
            for j, kind in enumerate(signature.parameters)
        ]
        loops = [
            f"for (size_t k{j} = 0; k{j} < sizeof v{i}_{j} / sizeof v{i}_{j}[0]; k{j}++)"
            for j in range(len(signature.parameters))
        ]
        call = ", ".join(f"v{i}_{j}[k{j}]" for j in range(len(signature.parameters)))
        checks.append("{ " + " ".join([*values, *loops]) + f" sink = (double){name}({call}); }}")
    source, built = tmp_path / "main.c", tmp_path / "main"
    main = "int main(void)\n{\n" + "\n".join(checks) + "\nreturn 0;\n}\n"
    source.write_text(f"{INCLUDES}{definitions(C_FUNCTIONS)}static volatile double sink;\n{main}")
    flags = ("-std=c99", "-O1", "-fsanitize=address,undefined,float-cast-overflow")
    command = ["gcc", *flags, "-fno-sanitize-recover=all", str(source), "-o", str(built), "-lm"]
    subprocess.run(command, check=True)
    finished = subprocess.run([str(built)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr

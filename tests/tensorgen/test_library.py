"""Loading and calling libraries: values, refusals, status codes, threads, cost of a call."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import timeit
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tensorgen.arena import ARENA_ALIGNMENT
from tensorgen.build import build_library, find_compiler, supports_openmp
from tensorgen.library import OUTPUT_PLACE, InputError, Library, RunError
from tensorgen.ports import Port
from tensorgen.target import LINE_BYTES, PAGE_BYTES, host_target
from tensorgen.types import DTYPES, DType, TensorType, float32, int32

HOST = host_target()
MATRIX = TensorType(float32, (2, 3))

# Copies through the arena, and checks what the caller promises.
SCALE = """
#include <stddef.h>
#include <stdint.h>
int scale_run(void *arena, size_t arena_bytes, const float *x, const int32_t *factor, float *y);
int scale_run(void *arena, size_t arena_bytes, const float *x, const int32_t *factor, float *y)
{
    float *kept = arena;
    if (arena == NULL || x == NULL || y == NULL) return -1;
    if ((uintptr_t)arena % 64 != 0) return -2;
    if ((uintptr_t)x % 4 != 0 || (uintptr_t)factor % 4 != 0 || (uintptr_t)y % 4 != 0) return -2;
    if (arena_bytes < 6 * sizeof(float)) return -3;
    if (*factor < 0) return *factor;
    for (int round = 0; round < 200; round++)
        for (int i = 0; i < 6; i++) ((volatile float *)kept)[i] = x[i];
    for (int i = 0; i < 6; i++) y[i] = kept[i] * (float)*factor;
    return 0;
}
"""
SCALE_INPUTS = (Port("x", MATRIX), Port("factor", TensorType(int32, ())))
SCALE_OUTPUTS = (Port("y", MATRIX),)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def scale(cache: Path) -> Library:
    path = build_library({"scale.c": SCALE}, target=HOST, cache=cache)
    return Library(path, "scale", SCALE_INPUTS, SCALE_OUTPUTS, 24)


def matrix() -> NDArray[np.float32]:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def factor(value: int) -> NDArray[np.int32]:
    return np.array(value, np.int32)


def test_large_new_outputs_begin_in_the_middle_of_a_page(cache: Path) -> None:
    """That is where a line begins. Others are plain arrays, which are quicker to make."""
    source = SCALE.replace("scale_run", "large_run")
    path = build_library({"large.c": source}, target=HOST, cache=cache)
    large, small = TensorType(float32, (64, 65)), TensorType(float32, (4, 5))
    outputs = (Port("y", large), Port("z", small), Port("empty", TensorType(float32, (0, 3))))
    made = Library(path, "large", SCALE_INPUTS, outputs, 24).empty_outputs()
    assert [(array.dtype, array.shape) for array in made] == [
        (port.type.dtype.numpy, port.type.shape) for port in outputs
    ]
    assert made[0].ctypes.data % PAGE_BYTES == OUTPUT_PLACE
    assert OUTPUT_PLACE % ARENA_ALIGNMENT == 0
    assert all(array.flags.c_contiguous and array.flags.writeable for array in made)
    assert made[1].base is None


def test_new_inputs_begin_with_a_line_of_the_cache(cache: Path) -> None:
    ports = (Port("x", TensorType(float32, (2, 3))), Port("empty", TensorType(float32, (0, 3))))
    source = SCALE.replace("scale_run", "lines_run")
    path = build_library({"lines.c": source}, target=HOST, cache=cache)
    library = Library(path, "lines", ports, SCALE_OUTPUTS, 24)
    # One in four of numpy's own would begin there by chance.
    for _ in range(16):
        made = library.empty_inputs()
        assert [(array.dtype, array.shape) for array in made] == [
            (port.type.dtype.numpy, port.type.shape) for port in ports
        ]
        assert all(array.ctypes.data % LINE_BYTES == 0 for array in made if array.size)
        assert all(array.flags.c_contiguous and array.flags.writeable for array in made)


def test_subclasses_of_arrays_are_arrays(scale: Library) -> None:
    class Named(np.ndarray):
        pass

    (y,) = scale.run([matrix().view(Named), factor(2)])
    np.testing.assert_array_equal(y, 2 * matrix())


def test_computes_and_leaves_its_inputs_alone(scale: Library) -> None:
    x = matrix()
    x.flags.writeable = False
    (y,) = scale.run([x, factor(3)])
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, 3 * matrix())
    np.testing.assert_array_equal(x, matrix())


def test_each_call_gives_fresh_outputs(scale: Library) -> None:
    (first,) = scale.run([matrix(), factor(1)])
    (second,) = scale.run([matrix(), factor(2)])
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, matrix())


def test_writes_to_the_callers_outputs(scale: Library) -> None:
    y = np.zeros((2, 3), np.float32)
    scale.run_into([matrix(), factor(2)], [y])
    np.testing.assert_array_equal(y, 2 * matrix())


def test_a_bound_call_computes_from_what_its_inputs_hold(scale: Library) -> None:
    x, y = matrix(), np.zeros((2, 3), np.float32)
    call = scale.bind([x, factor(2)], [y])
    assert not y.any()
    call()
    np.testing.assert_array_equal(y, 2 * matrix())
    x += 1
    call()
    np.testing.assert_array_equal(y, 2 * (matrix() + 1))


def test_a_bound_call_keeps_its_arrays_and_its_library(scale: Library) -> None:
    y = np.zeros((2, 3), np.float32)
    library = Library(scale.path, "scale", SCALE_INPUTS, SCALE_OUTPUTS, 24)
    call = library.bind([matrix(), factor(3)], [y])
    watched = weakref.ref(library)
    del library
    gc.collect()
    assert watched() is not None
    call()
    np.testing.assert_array_equal(y, 3 * matrix())


def test_bound_calls_of_several_threads_have_their_own_arenas(scale: Library) -> None:
    outputs = [np.zeros((2, 3), np.float32) for _ in range(6)]
    calls = [
        scale.bind([np.full((2, 3), value, np.float32), factor(2)], [y])
        for value, y in enumerate(outputs)
    ]

    def many(value: int) -> bool:
        for _ in range(300):
            outputs[value].fill(-1)
            calls[value]()
            if not (outputs[value] == 2 * value).all():
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(many, range(6)))


def test_what_cannot_be_bound_is_refused_at_once(scale: Library) -> None:
    y = np.zeros((2, 3), np.float32)
    odd = np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)
    fixed = matrix()
    fixed.flags.writeable = False
    for inputs, outputs, message in (
        ([matrix()], [y], r"^scale: expected 2 input arrays"),
        ([matrix().T, factor(1)], [y], r"^input 'x': expected float32\[2,3\], got float32\[3,2\]"),
        ([odd, factor(1)], [y], r"^input 'x'.*in contiguous aligned memory"),
        ([matrix(), factor(1)], [odd], r"^output 'y'.*in contiguous aligned memory"),
        ([matrix(), factor(1)], [fixed], r"^output 'y': expected memory that can be written"),
    ):
        with pytest.raises(InputError, match=message):
            scale.bind(inputs, outputs)


def test_a_bound_call_tells_what_the_library_refuses(scale: Library) -> None:
    with pytest.raises(RunError, match=r"^scale_run: expected separate arrays"):
        scale.bind([matrix(), factor(-4)], [np.zeros((2, 3), np.float32)])()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 2), np.float32), r"expected float32[2,3], got float32[3,2]; convert"),
        (np.zeros((2, 3), np.float64), r"expected float32[2,3], got float64[2,3]; convert"),
        (np.zeros((2, 3), ">f4"), r"expected float32[2,3], got >f4[2, 3]; convert"),
        (np.zeros((2, 3), object), r"expected float32[2,3], got object[2, 3]; convert"),
        (np.zeros((2, 3), "U4"), r"expected float32[2,3], got <U4[2, 3]; convert"),
        (np.zeros((3, 2), np.float32).T, "in contiguous aligned memory, got strides (4, 8) over"),
        (np.zeros((2, 6), np.float32)[:, ::2], "got strides (24, 8) over elements of 4 bytes; "),
        (np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3), "pass numpy.ascontiguousarray"),
        ([[0, 0, 0], [0, 0, 0]], "expected float32[2,3], got list; pass a numpy array"),
        (None, "expected float32[2,3], got NoneType; pass a numpy array"),
    ],
)
def test_a_wrong_input_is_refused_by_name(scale: Library, x: Any, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        scale.run([x, factor(1)])
    assert str(refusal.value).startswith("input 'x': expected float32[2,3]")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_wrong_output_is_refused_by_name(scale: Library) -> None:
    with pytest.raises(InputError, match=r"^output 'y': expected float32\[2,3\], got float32\[6\]"):
        scale.run_into([matrix(), factor(1)], [np.zeros(6, np.float32)])


def test_an_output_that_cannot_be_written_is_refused(scale: Library) -> None:
    y = matrix()
    y.flags.writeable = False
    with pytest.raises(InputError, match=r"^output 'y': expected memory that can be written"):
        scale.run_into([matrix(), factor(1)], [y])


def test_a_wrong_number_of_inputs_is_refused(scale: Library) -> None:
    with pytest.raises(InputError, match=r"^scale: expected 2 input arrays \('x', 'factor'\), got"):
        scale.run([matrix()])


@pytest.mark.parametrize(
    ("status", "part"),
    [
        (-1, "got NULL"), (-2, "aligned pointers"), (-3, "larger arena"), (-4, "overlap"),
        (-5, "CPU with the instructions"), (-6, "weights"), (-77, "got -77"),
    ],
)  # fmt: skip
def test_a_status_becomes_an_error_in_words(scale: Library, status: int, part: str) -> None:
    with pytest.raises(RunError) as refusal:
        scale.run([matrix(), factor(status)])
    assert str(refusal.value).startswith("scale_run: expected ")
    assert part in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_arena_has_the_size_that_was_said(scale: Library) -> None:
    small = Library(scale.path, "scale", SCALE_INPUTS, SCALE_OUTPUTS, 23)
    with pytest.raises(RunError, match="larger arena"):
        small.run([matrix(), factor(1)])


@pytest.mark.parametrize("arena_bytes", [0, 1, 64, 100_000, 50_000_000])
def test_the_arena_is_aligned_and_all_of_it_can_be_written(cache: Path, arena_bytes: int) -> None:
    source = (
        "#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"
        "int fill_run(void *arena, size_t bytes, int64_t *y) {\n"
        "memset(arena, 255, bytes); *y = (int64_t)((uintptr_t)arena % 64 + bytes); return 0; }\n"
    )
    path = build_library({"fill.c": source}, target=HOST, cache=cache)
    int64_scalar = TensorType(next(dtype for dtype in DTYPES if dtype.name == "int64"), ())
    library = Library(path, "fill", (), (Port("y", int64_scalar),), arena_bytes)
    assert ARENA_ALIGNMENT == 64
    for _ in range(3):
        assert library.run([])[0].item() == arena_bytes


def test_an_arena_that_memory_has_no_room_for_is_told(scale: Library) -> None:
    huge = Library(scale.path, "scale", SCALE_INPUTS, SCALE_OUTPUTS, 2**55)
    with pytest.raises(RunError, match=rf"^scale: expected {2**55} bytes of memory for the arena"):
        huge.run([matrix(), factor(1)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5,), (2, 3, 4)])
def test_every_element_type_and_shape_passes_through(
    cache: Path, dtype: DType, shape: tuple[int, ...]
) -> None:
    tensor = TensorType(dtype, shape)
    source = (
        "#include <stddef.h>\n#include <stdint.h>\n"
        f"int copy_run(void *arena, size_t bytes, const {dtype.c_name} *x, {dtype.c_name} *y) {{\n"
        f"for (int i = 0; i < {tensor.size}; i++) y[i] = x[i];\nreturn 0; }}\n"
    )
    path = build_library({"copy.c": source}, target=HOST, flags=("-O0",), cache=cache)
    library = Library(path, "copy", (Port("x", tensor),), (Port("y", tensor),), 0)
    values = np.arange(tensor.size, dtype=np.int64) % 2
    x = values.astype(dtype.numpy).reshape(shape)
    (y,) = library.run([x])
    assert y.dtype == dtype.numpy
    np.testing.assert_array_equal(y, x)


def test_several_threads_share_one_library(scale: Library) -> None:
    def many(value: int) -> bool:
        x = np.full((2, 3), value, np.float32)
        return all((scale.run([x, factor(2)])[0] == 2 * value).all() for _ in range(300))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(many, range(6)))


def test_python_runs_on_while_the_library_computes(cache: Path) -> None:
    # The library waits for the other thread, which can only come if Python's lock is free.
    source = (
        "#include <stddef.h>\n#include <stdint.h>\nstatic volatile int arrived;\n"
        "int meet_run(void *arena, size_t bytes, int32_t *y) {\n"
        "__atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);\n"
        "for (long i = 0; i < 4000000000L && arrived < 2; i++) {}\n*y = arrived; return 0; }\n"
    )
    path = build_library({"meet.c": source}, target=HOST, flags=("-O1",), cache=cache)
    library = Library(path, "meet", (), (Port("y", TensorType(int32, ())),), 0)
    with ThreadPoolExecutor(2) as pool:
        met = [future.result()[0].item() for future in [pool.submit(library.run, ()) for _ in "ab"]]
    assert met == [2, 2]


def test_a_call_costs_microseconds(scale: Library) -> None:
    arguments = [matrix(), factor(2)]
    seconds = min(timeit.repeat(lambda: scale.run(arguments), number=500, repeat=7)) / 500
    assert seconds < 50e-6


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("not a library\n")
    with pytest.raises(RunError, match=r"^library: expected .*text\.so to be a library for this"):
        Library(path, "m", (), (), 0)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^library: expected .*gone\.so to be a library"):
        Library(tmp_path / "gone.so", "m", (), (), 0)


def test_another_librarys_name_is_refused(scale: Library) -> None:
    with pytest.raises(RunError, match=r"expected the function other_run in .*, got none"):
        Library(scale.path, "other", SCALE_INPUTS, SCALE_OUTPUTS, 24)


CLOSING_PROGRAM = """
import gc, sys, time
from pathlib import Path
import numpy as np
from tensorgen.build import build_library
from tensorgen.library import Library
from tensorgen.ports import Port
from tensorgen.target import host_target
from tensorgen.types import TensorType, int32

source = '''
#include <stddef.h>
#include <stdint.h>
int sum_run(void *arena, size_t bytes, int32_t *y) {
    int total = 0;
    #pragma omp parallel for reduction(+ : total) num_threads(3)
    for (int i = 0; i < 3; i++) total += i + VALUE;
    *y = total;
    return 0;
}
'''
for value in range(3):
    sources = {"sum.c": source.replace("VALUE", str(value))}
    path = build_library(sources, target=host_target(), threads=2, cache=Path(sys.argv[1]))
    library = Library(path, "sum", (), (Port("y", TensorType(int32, ())),), 0)
    assert library.run([])[0] == 3 + 3 * value
    del library
    gc.collect()
    time.sleep(0.3)
print("done")
"""


FORKING_PROGRAM = """
import os, signal, sys, threading
from pathlib import Path
from tensorgen.build import build_library
from tensorgen.library import Library
from tensorgen.ports import Port
from tensorgen.target import host_target
from tensorgen.types import TensorType, int32

source = '''
#include <omp.h>
#include <stddef.h>
#include <stdint.h>
int sum_run(void *arena, size_t bytes, int32_t *y) {
    int total = 0;
    #pragma omp parallel reduction(+ : total) num_threads(3)
    total += omp_get_num_threads();
    *y = total;
    return 0;
}
'''
path = build_library({"sum.c": source}, target=host_target(), threads=2, cache=Path(sys.argv[1]))
library = Library(path, "sum", (), (Port("y", TensorType(int32, ())),), 0)

def check():
    assert library.run([])[0] == 9

check()
thread = threading.Thread(target=check)
thread.start()
thread.join()
child = os.fork()
if child == 0:
    signal.alarm(15)
    check()
    os._exit(7)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert code == 7, code
check()
print("done")
"""


# What a child of LLVM's runtime does is up to that runtime: see `_end_threads`.
@pytest.mark.parametrize(
    ("compiler", "program"),
    [("gcc", CLOSING_PROGRAM), ("clang", CLOSING_PROGRAM), ("gcc", FORKING_PROGRAM)],
    ids=["gcc-closed", "clang-closed", "gcc-forked"],
)
def test_openmp_threads_outlive_libraries_and_are_made_again_in_children(
    cache: Path, compiler: str, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler)
    if shutil.which(compiler) is None or not supports_openmp(find_compiler(HOST), cache):
        pytest.skip(f"needs {compiler} with OpenMP")
    done = subprocess.run(
        [sys.executable, "-c", program, str(cache)],
        cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


@pytest.mark.parametrize("chosen", [{}, {"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "7"}])
def test_loading_leaves_the_environment_as_it_was(
    scale: Library, chosen: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    Library(scale.path, scale.name, scale.inputs, scale.outputs, scale.arena_bytes)
    assert dict(os.environ) == before

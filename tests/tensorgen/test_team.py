"""Libraries of several threads: one team for all steps of a call, and when a call gets none."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.emit import Spelling
from tensorgen.expr import Fold, Tensor, apply, compute, reduce, reduce_sum
from tensorgen.loop import Space
from tensorgen.lower import lower
from tensorgen.module import Arena, Call, Input, Module, Output, module_files
from tensorgen.ports import Port
from tensorgen.schedule import Lanes, Loops, RowStages
from tensorgen.task import Task
from tensorgen.types import TensorType, float32
from tests.compiled_kernels import Case, CompiledKernels, assert_same, evaluate_task, print_kernel
from tests.contraction_tasks import whole_inputs
from tests.small_module import SCALE, TOTAL, make, run, tiny, written

SCALED = Call(SCALE.name, (Input(0), Input(2), Arena(64)), "scaled")
TOTALS = Call(TOTAL.name, (Arena(64), Input(1), Output(0), Output(1)), "totals")


def library(*calls: Call, threads: int = 2) -> Module:
    """A library of these steps: SCALED is made by a team, TOTALS by one thread."""
    x, limit = tiny().inputs
    weights = Port("w", TensorType(float32, (37,)))
    return tiny(
        threads=threads,
        inputs=(x, limit, weights),
        constants=(),
        calls=calls,
        kernels=tuple(k for k in (SCALE, TOTAL) if any(call.kernel == k.name for call in calls)),
        self_test=None,
    )


def steps_of(module: Module) -> list[str]:
    """The statements of the function with the steps, one a line, without their arguments."""
    text = module_files(module)["tiny_kernels.c"].decode()
    body = text[text.index("void tiny_steps(") :]
    body = re.sub(r"/\*.*?\*/", "", body[body.index("{") :])
    lines = [line.strip() for line in re.sub(r"\(\d+, (\w+)\(.*?\)\);", r" \1", body).split("\n")]
    return [line for line in lines if line and not line.startswith("(void)")]


def test_one_team_makes_all_steps() -> None:
    calls = (TOTALS, SCALED, SCALED, TOTALS, TOTALS, SCALED, TOTALS)
    assert steps_of(library(*calls)) == [
        "{",
        "TASOR_STEP total_f32_4x37",
        "TASOR_TEAM_PLACES",
        "TASOR_TEAM(begin_call())",
        "{",
        "TASOR_TEAM_STEP scale_f32_4x37",
        "TASOR_TEAM_STEP scale_f32_4x37",
        "if (TASOR_THREAD == 0) {",
        "TASOR_STEP total_f32_4x37",
        "TASOR_STEP total_f32_4x37",
        "}",
        "TASOR_WAIT_FOR_TEAM;",
        "TASOR_TEAM_STEP scale_f32_4x37",
        "}",
        "end_call();",
        "TASOR_STEP total_f32_4x37",
        "}",
    ]


@pytest.mark.parametrize(("calls", "threads"), [((TOTALS, TOTALS), 2), ((SCALED, TOTALS), 1)])
def test_no_team_for_one_thread_or_for_steps_of_one(calls: tuple[Call, ...], threads: int) -> None:
    module = library(*calls, threads=threads)
    assert not any("TEAM" in line for line in steps_of(module))
    text = module_files(module)["tiny_kernels.c"].decode()
    assert "omp.h" not in text
    assert "calls_under_way" not in text


def test_a_kernel_says_whether_a_team_runs_it() -> None:
    with pytest.raises(AssertionError, match="scale_f32_4x37"):
        replace(library(SCALED, TOTALS), kernels=(replace(SCALE, parallel=False), TOTAL))


OPEN = replace(SCALE, open_end=True)


def test_a_team_meets_behind_its_steps_but_the_last() -> None:
    module = replace(library(SCALED, TOTALS), kernels=(OPEN, TOTAL))
    steps = steps_of(replace(module, calls=(SCALED, TOTALS, SCALED, SCALED, TOTALS)))
    assert steps[4:] == [
        "TASOR_TEAM_STEP_AND_WAIT scale_f32_4x37",
        "if (TASOR_THREAD == 0) {",
        "TASOR_STEP total_f32_4x37",
        "}",
        "TASOR_WAIT_FOR_TEAM;",
        "TASOR_TEAM_STEP_AND_WAIT scale_f32_4x37",
        "TASOR_TEAM_STEP scale_f32_4x37",
        "}",
        "end_call();",
        "TASOR_STEP total_f32_4x37",
        "}",
    ]


def test_one_thread_waits_for_nobody() -> None:
    module = replace(library(SCALED, TOTALS, threads=1), kernels=(OPEN, TOTAL))
    assert "TASOR_STEP scale_f32_4x37" in steps_of(module)


def test_a_team_meets_behind_the_last_step_of_a_loop() -> None:
    module = replace(library(SCALED, TOTALS), kernels=(OPEN, TOTAL))
    steps = steps_of(replace(module, calls=(*[SCALED] * 4, TOTALS)))
    assert [line.partition("(")[0] for line in steps if "TEAM_STEP" in line] == [
        "TASOR_TEAM_STEP_AND_WAIT"
    ]


# What a kernel leaves to the first thread


def spread(rows: int, columns: int) -> Task:
    """Each element less the greatest of all, times the sum of its row: 4 stages, one a scalar."""
    x = Tensor(0, TensorType(float32, (rows, columns)))
    top, shifted = Tensor(1, TensorType(float32, ())), Tensor(2, x.type)
    total = Tensor(3, TensorType(float32, (rows,)))
    stages = (
        compute((), lambda: reduce(Fold.MAX, (rows, columns), lambda i, k: x[i, k])),
        compute((rows, columns), lambda i, j: x[i, j] - top[()]),
        compute((rows,), lambda i: reduce_sum(columns, lambda k: shifted[i, k])),
        compute((rows, columns), lambda i, j: apply("mul", shifted[i, j], total[i])),
    )
    return Task((x.type,), stages, (3,), (False,))


def in_common(*parallel: int, stack: int = 4096) -> RowStages:
    """Stages one after the other, each with so many loops that threads share."""
    return RowStages(0, tuple(Loops(Lanes.OUTPUT, 4, 0, n) for n in parallel), 0, stack)


def test_what_threads_compute_for_each_other_is_shared() -> None:
    shared = lower(spread(5, 7), in_common(0, 1, 0, 1)).kernel.scratch
    assert [buffer.space for buffer in shared] == [Space.SHARED] * 3
    assert lower(spread(5, 7), in_common(0, 0, 0, 0)).kernel.scratch == ()


def test_the_first_thread_alone_computes_what_is_not_shared_out() -> None:
    case = Case.of(spread(5, 7), in_common(0, 1, 0, 1))
    text = print_kernel(case, "k", Spelling("c99", strict=False)).text
    assert re.findall(r"^    \S.*TASOR.*|^    TASOR.*", text, re.MULTILINE) == [
        "    if (TASOR_THREAD == 0) {",
        "    TASOR_WAIT_FOR_TEAM;",
        "    TASOR_TEAM_FOR(i_j_o, 8) {",
        "    TASOR_WAIT_FOR_TEAM;",
        "    if (TASOR_THREAD == 0) {",
        "    TASOR_WAIT_FOR_TEAM;",
        "    TASOR_TEAM_FOR(i, 5) {",
    ]


@pytest.mark.parametrize(
    ("loops", "last"),
    [
        ((1, 1, 1, 1), "TASOR_TEAM_FOR(i, 5) {"),
        ((1, 1, 1, 0), "if (TASOR_THREAD == 0) {"),
    ],
)
def test_threads_do_not_meet_behind_what_comes_last(
    loops: tuple[int, int, int, int], last: str
) -> None:
    case = Case.of(spread(5, 7), in_common(*loops))
    kernel = print_kernel(case, "k", Spelling("c99", strict=False))
    assert kernel.open_end
    assert re.findall(r"if \(TASOR.*|TASOR_[TW].*", kernel.text)[-1] == last


def test_a_kernel_of_one_thread_has_no_open_end() -> None:
    case = Case.of(spread(5, 7), in_common(0, 0, 0, 0))
    assert not print_kernel(case, "k", Spelling("c99", strict=False)).open_end


needs_openmp = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc with OpenMP")

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 13))
SHARED_LOOPS = st.tuples(*(st.integers(0, 2) for _ in range(4)))


@needs_openmp
@given(st.lists(st.tuples(SHAPES, SHARED_LOOPS), min_size=12, max_size=12))
@settings(deadline=None, max_examples=2, derandomize=True)
def test_a_team_computes_what_one_thread_does(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[tuple[int, int], tuple[int, int, int, int]]],
) -> None:
    cases = [Case.of(spread(*shape), in_common(*loops)) for shape, loops in drawn]
    compiled = CompiledKernels(cases, tmp_path_factory.mktemp("team"), threads=3)
    for number, case in enumerate(cases):
        arrays = whole_inputs(case.task)
        for _ in range(5):
            assert_same(compiled.run(number, arrays)[0], evaluate_task(case.task, arrays)[0], 0.0)


# How a team shares out a loop

SHARING = """
#include "tiny_kernels.c"
#include <stdio.h>
#include <time.h>

enum { THREADS = 5, LARGEST = 1000 };
static int times[LARGEST], by_first;

static int computed(int count)
{
    int sum = 0;

    for (int i = 0; i < count; i++) {
        sum += __atomic_load_n(&times[i], __ATOMIC_RELAXED);
    }
    return sum;
}

/* Whether each iteration is computed once, if the first thread is held up in its first piece until
 * the others have done `others` iterations, for at most 20 s. */
static int shared_out(int threads, int count, int others)
{
    const time_t late = time(NULL) + 20;
    int in_time = 1;

    for (int i = 0; i < count; i++) {
        times[i] = 0;
    }
    by_first = 0;
    begin_call();
#pragma omp parallel num_threads(threads)
    {
        TASOR_TEAM_FOR(i, count) {
            if (TASOR_THREAD == 0) {
                by_first++;
            }
            while (TASOR_THREAD == 0 && in_time && computed(count) < others) {
                in_time = time(NULL) < late;
            }
            __atomic_add_fetch(&times[i], 1, __ATOMIC_RELAXED);
        }
    }
    end_call();
    for (int i = 0; i < count; i++) {
        in_time &= times[i] == 1;
    }
    return in_time;
}

/* Loops in which the second thread has nothing, until their number comes around. */
static int comes_around(void)
{
    int sum = 0;

    begin_call();
#pragma omp parallel num_threads(2)
    for (int loop = 0; loop < 2 * 65536; loop++) {
        const int count = loop % 65536 == 0 ? 2 : 1;

        TASOR_TEAM_FOR(i, count) {
            __atomic_add_fetch(&sum, 1, __ATOMIC_RELAXED);
        }
        TASOR_WAIT_FOR_TEAM;
    }
    end_call();
    return sum;
}

int main(void)
{
    const int counts[] = {1, 2, 3, 4, 5, 6, 31, 32, 33, 64, 65, 159, 160, 161, LARGEST};

    for (int threads = 1; threads <= THREADS; threads++) {
        puts("a team");
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
            if (!shared_out(threads, counts[n], 0)) {
                printf("%d: not each once\\n", counts[n]);
            }
        }
    }
    for (int threads = 2; threads <= THREADS; threads *= 2) {
        const int share = LARGEST / threads, piece = (share + 31) / 32;

        puts("the first is held up");
        if (!shared_out(threads, LARGEST, LARGEST - piece)) {
            printf("%d: not each once\\n", LARGEST);
        }
        if (by_first > piece) {
            printf("it computes %d\\n", by_first);
        }
    }
    puts("rounds");
    printf("%d\\n", comes_around());
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_each_iteration_is_computed_once_and_a_slow_thread_is_helped(
    compiler: str, tmp_path: Path
) -> None:
    if not has_openmp(compiler, tmp_path):
        pytest.skip(f"needs {compiler} with OpenMP")
    found = told(compiler, tmp_path, SHARING, threads=5, OMP_WAIT_POLICY="passive")
    assert found == [*[[]] * 7, [str(2 * 65536 + 2)]]


# How many threads a call gets

PROGRAM = """
#include "tiny.h"
#include "hooks.h"
#include <omp.h>
#include <pthread.h>
#include <stdio.h>

static _Alignas(64) unsigned char arenas[2][1024];
static float x[148], w[37], total[2][4];
static int64_t limit;
static uint8_t positive[2][4];
static int meanwhile;

static void call(int set)
{
    const tiny_status status = tiny_run(
        arenas[set], TINY_ARENA_BYTES, x, &limit, w, total[set], positive[set]);

    printf("%d\\n", (int)status);
}

static void *second(void *argument)
{
    call(1);
    return argument;
}

void step_begins(int step)
{
    printf("step %d: %d of %d\\n", step, omp_get_thread_num(), omp_get_num_threads());
    if (meanwhile) {
        pthread_t thread;

        meanwhile = 0;
        pthread_create(&thread, NULL, second, NULL);
        pthread_join(thread, NULL);
    }
}

int main(void)
{
    puts("alone");
    call(0);
    puts("in a parallel caller");
    #pragma omp parallel num_threads(2)
    {
        #pragma omp critical
        call(omp_get_thread_num());
    }
    puts("while another call is under way");
    meanwhile = 1;
    call(0);
    puts("after it");
    call(0);
    return 0;
}
"""


def told(
    compiler: str, folder: Path, program: str = PROGRAM, threads: int = 2, **environment: str
) -> list[list[str]]:
    """What a program prints after each heading."""
    written(library(SCALED, TOTALS, threads=threads), folder)
    (folder / "hooks.h").write_text(
        "void step_begins(int step);\n#define TASOR_STEP_BEGIN(step) step_begins(step);\n"
    )
    (folder / "main.c").write_text(program)
    make(folder, "libtiny.a", f"CC={compiler}", "CFLAGS=-include hooks.h")
    done = run(
        compiler, "-std=c11", "-fopenmp", "-pthread", "main.c", "libtiny.a", "-lm", "-o", "main",
        folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = run("./main", folder=folder, **environment)
    assert done.returncode == 0, done.stderr
    parts = re.split(r"^[a-z ]+\n", done.stdout, flags=re.MULTILINE)
    return [part.split("\n")[:-1] for part in parts[1:]]


def has_openmp(compiler: str, folder: Path) -> bool:
    (folder / "probe.c").write_text("#include <omp.h>\nint main(void) { return 0; }\n")
    command = [compiler, "-fopenmp", "probe.c", "-o", "probe"]
    found = shutil.which(compiler) is not None
    return found and subprocess.run(command, cwd=folder, capture_output=True).returncode == 0


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_call_gets_a_team_unless_the_processors_are_taken(compiler: str, tmp_path: Path) -> None:
    if not has_openmp(compiler, tmp_path):
        pytest.skip(f"needs {compiler} with OpenMP")
    team = ["step 0: 0 of 2", "step 1: 0 of 1", "0"]
    alone = ["step 0: 0 of 1", "step 1: 0 of 1", "0"]
    found = told(compiler, tmp_path, OMP_NUM_THREADS="2")
    assert found[0] == team
    # Behind its only parallel step the second call is outside the team: in that of its caller.
    assert [line for line in found[1] if "step 0" in line] == ["step 0: 0 of 1"] * 2
    assert found[2] == [team[0], *alone, *team[1:]]
    assert found[3] == team


def test_users_may_ask_for_fewer_threads(tmp_path: Path) -> None:
    if not has_openmp("gcc", tmp_path):
        pytest.skip("needs gcc with OpenMP")
    found = told("gcc", tmp_path, OMP_NUM_THREADS="1")
    assert found[0] == ["step 0: 0 of 1", "step 1: 0 of 1", "0"]
    assert os.environ.get("OMP_NUM_THREADS") is None or found[3] == found[0]


# Where the threads of a team are

PLACES = """
#define _GNU_SOURCE
#include "tiny.h"
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/types.h>

static _Alignas(64) unsigned char arena[1024];
static float x[148], w[37], total[4];
static int64_t limit;
static uint8_t positive[4];

void step_begins(int step)
{
    (void)step;
}

/* A machine that wakes every thread on its first processor. Each may use `allowed` of them. */
static int allowed;
static _Thread_local int processor;

int sched_getcpu(void)
{
    return processor;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    CPU_ZERO_S(size, set);
    for (int number = 0; number < allowed; number++) {
        CPU_SET_S((size_t)number, size, set);
    }
    return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
    (void)pid;
    while (!CPU_ISSET_S((size_t)processor, size, set)) {
        processor++;
    }
    printf("%d: on %d, free on %d\\n", omp_get_thread_num(), processor, CPU_COUNT_S(size, set));
    return 0;
}

int main(void)
{
    for (allowed = 1; allowed <= 4; allowed += 3) {
        for (int call = 0; call < 2; call++) {
            puts("a call");
            tiny_run(arena, TINY_ARENA_BYTES, x, &limit, w, total, positive);
        }
    }
    return 0;
}
"""


@pytest.mark.skipif(platform.system() != "Linux", reason="asks the system as Linux does")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_thread_leaves_its_callers_processor_if_it_may(compiler: str, tmp_path: Path) -> None:
    if not has_openmp(compiler, tmp_path):
        pytest.skip(f"needs {compiler} with OpenMP")
    found = told(compiler, tmp_path, PLACES, OMP_NUM_THREADS="2")
    left = ["1: on 1, free on 3", "1: on 1, free on 4"]
    assert found == [[], [], left, []]

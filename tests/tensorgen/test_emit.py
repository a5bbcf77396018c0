"""The C printer: golden kernels, strict compilers, sanitizers and the same bits everywhere."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tensorgen.emit import Spelling
from tensorgen.emit_terms import Terms
from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Expr,
    Fold,
    Tensor,
    TensorExpr,
    apply,
    cast,
    compute,
    const,
    maximum,
    reduce,
    reduce_sum,
    select,
)
from tensorgen.loop import Buffer, Space
from tensorgen.schedule import (
    ColumnRun,
    Lanes,
    Loops,
    RegisterTile,
    RowStages,
    Schedule,
    VectorSource,
    WindowTile,
)
from tensorgen.sketch import default_schedule, loop_schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tensorgen.types import (
    DTYPES,
    Array,
    DType,
    Kind,
    Shape,
    TensorType,
    bfloat16,
    boolean,
    float16,
    float32,
    int8,
    int32,
    int64,
    uint8,
)
from tests.compiled_kernels import (
    ISA_TARGETS,
    Case,
    CompiledKernels,
    assert_same,
    evaluate_task,
    kernels_module,
    kernels_source,
    print_kernel,
    runnable_isas,
)
from tests.contraction_tasks import convolution, matmul, whole_inputs, with_epilogue
from tests.required_tools import require
from tests.window_tasks import Spatial, window_task

STRICT_FLAGS = (
    "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow",
    "-Wmissing-prototypes", "-Werror",
)  # fmt: skip

LANES = Loops(Lanes.OUTPUT, 2048, 0, 0)


def one_stage(
    types: tuple[TensorType, ...], body: Callable[..., TensorExpr], constant: bool = False
) -> Task:
    stage = body(*(Tensor(n, type) for n, type in enumerate(types)))
    return Task(types, (stage,), (0,), (constant,) * len(types))


def of(dtype: DType, *shapes: Shape) -> tuple[TensorType, ...]:
    return tuple(TensorType(dtype, shape) for shape in shapes)


def softmax(*batch: int) -> Task:
    """Of rows of 70 elements: 6, or so many times 6."""
    shape = (*batch, 6)
    x, rows = Tensor(0, TensorType(float32, (*shape, 70))), TensorType(float32, shape)
    top, total, power = Tensor(1, rows), Tensor(3, rows), Tensor(2, x.type)
    stages = (
        compute(shape, lambda *i: reduce(Fold.MAX, 70, lambda k: x[*i, k])),
        compute((*shape, 70), lambda *i: apply("exp", x[i] - top[i[:-1]])),
        compute(shape, lambda *i: reduce_sum(70, lambda k: power[*i, k])),
        compute((*shape, 70), lambda *i: power[i] / total[i[:-1]]),
    )
    return Task((x.type,), stages, (3,), (False,))


def tile(vector: int, source: VectorSource, rows: int, vectors: int, lanes: int) -> RegisterTile:
    outer = source is VectorSource.RUNTIME
    return RegisterTile(vector, source, False, rows, vectors, lanes, outer, False)


GOLDEN: dict[str, tuple[Task, Schedule, str]] = {
    "elementwise": (
        one_stage(of(float32, (3, 5), (3, 5)), lambda x, y: compute(
            (3, 5), lambda i, j: maximum(x[i, j] + y[i, j] * 0.5, 0.0))),
        LANES, "avx2",
    ),
    "shared_terms": (
        one_stage(of(float32, (9,)), lambda x: compute(
            (9,), lambda i: apply("exp", x[i]) * apply("exp", x[i]) + apply("exp", x[i]))),
        LANES, "c99",
    ),
    "padding": (
        one_stage(of(float32, (4,)), lambda x: compute(
            (8,), lambda i: select((i >= 2) & (i < 6), x[i - 2], 0.0))),
        LANES, "c99",
    ),
    "transpose": (
        one_stage(of(float32, (5, 3)), lambda x: compute((3, 5), lambda i, j: x[j, i])),
        loop_schedule(one_stage(of(float32, (5, 3)), lambda x: compute(
            (3, 5), lambda i, j: x[j, i])), 1, fused=True), "c99",
    ),
    "reduction_lanes": (
        one_stage(of(float32, (3, 100)), lambda x: compute(
            (3,), lambda i: reduce_sum(100, lambda k: x[i, k]))),
        Loops(Lanes.REDUCTION, 32, 0, 1), "avx2",
    ),
    "unrolled_window": (
        one_stage(of(float32, (10,)), lambda x: compute(
            (8,), lambda i: reduce(Fold.MAX, 3, lambda k: x[i + k]))),
        Loops(Lanes.OUTPUT, 2048, 32, 0), "c99",
    ),
    "wrapping_integers": (
        one_stage(of(int8, (7,), (7,)), lambda x, y: compute(
            (7,), lambda i: x[i] * y[i] - x[i])),
        LANES, "c99",
    ),
    "halves": (
        one_stage(of(bfloat16, (7,), (7,)), lambda x, y: compute(
            (7,), lambda i: x[i] * y[i] + x[i])),
        LANES, "c99",
    ),
    "gather": (
        one_stage((TensorType(float32, (5, 4)), TensorType(int64, (3,))), lambda x, y: compute(
            (3, 4), lambda i, j: x[select(y[i] < 0, y[i] + 5, y[i]), j])),
        LANES, "c99",
    ),
    "rows_softmax": (softmax(), loop_schedule(softmax(), 1, fused=True), "avx512"),
    "rows_softmax_avx2": (softmax(), loop_schedule(softmax(), 1, fused=True), "avx2"),
    "register_tile": (
        with_epilogue(matmul((), 6, 40, 8), "bias"), tile(1, VectorSource.DIRECT, 3, 2, 16),
        "avx512",
    ),
    "register_tile_panel": (
        matmul((), 6, 12, 8, transposed=(False, True)), tile(1, VectorSource.RUNTIME, 3, 1, 8),
        "avx2",
    ),
    "parallel_rows": (
        softmax(), RowStages(1, (Loops(Lanes.OUTPUT, 8, 0, 0),) * 4, 1, 64), "c99",
    ),
    "window_tile": (
        window_task((Spatial(2, 3, 1, 1, 1), Spatial(7, 3, 1, 1, 1)), weighted=True,
                    epilogue="bias"),
        WindowTile(2, (ColumnRun(0, 1, 8, 7),), 0), "avx512",
    ),
    "window_tile_even": (
        window_task((Spatial(5, 2, 2, 1, 0), Spatial(16, 2, 2, 1, 1)), fold=Fold.MAX),
        WindowTile(2, (ColumnRun(0, 1, 8, 8), ColumnRun(5, 1, 4, 4)), 2), "avx2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, golden: Callable[[str, str], None]) -> None:
    task, schedule, isa = GOLDEN[name]
    kernel = print_kernel(Case.of(task, schedule), name, Spelling(isa, strict=False))
    golden(f"kernels/{name}.c", kernel.text)


def test_golden_kernels_compute_what_they_mean(tmp_path: Path) -> None:
    for isa in runnable_isas():
        cases = [Case.of(task, s) for task, s, own in GOLDEN.values() if own == isa]
        if not cases:
            continue
        compiled = CompiledKernels(cases, tmp_path, target=Target.named(ISA_TARGETS[isa]))
        for number, case in enumerate(cases):
            arrays = whole_inputs(case.task)
            expected = evaluate_task(case.task, arrays)[0]
            assert_same(compiled.run(number, arrays)[0], expected, 64.0, str(case.task))


def elementwise_tasks(dtype: DType) -> list[Task]:
    """One task for each way in which an element type is computed with."""
    types = of(dtype, (7,), (7,))
    tasks = [
        one_stage(types, lambda x, y, to=to: compute((7,), lambda i: cast(x[i], to)))
        for to in DTYPES
        if to != dtype
    ]
    names = ["add", "sub", "mul", "max", "min", "div", "mod", "pow", "abs", "neg", "lt", "eq",
             "bitand", "bitxor", "bitnot", "shl", "shr", "and", "or", "not", "exp", "erf",
             "sin", "log", "tanh", "round", "isnan"]  # fmt: skip
    for name in names:
        body = _applied(name, dtype)
        if body is not None:
            tasks.append(one_stage(types, lambda x, y, b=body: compute((7,), lambda i: b(x, y, i))))
    return tasks


def _applied(name: str, dtype: DType) -> Callable[[Tensor, Tensor, Expr], Expr] | None:
    from tensorgen.scalar_ops import SCALAR_OP

    op = SCALAR_OP[name]
    if dtype.kind not in op.kinds:
        return None
    if op.arity == 1:
        return lambda x, y, i: Apply(op, (x[i],))
    if dtype.is_integer and name in ("div", "mod"):
        return lambda x, y, i: Apply(op, (x[i], maximum(y[i], 1)))
    if name in ("shl", "shr"):
        return lambda x, y, i: Apply(op, (x[i], apply("bitand", y[i], const(7, dtype))))
    return lambda x, y, i: Apply(op, (x[i], y[i]))


def lowered_anew(isa: str) -> list[Case]:
    """Kernels of every kind, for one instruction set."""
    target = Target.named(ISA_TARGETS[isa])
    tasks = [task for dtype in DTYPES for task in elementwise_tasks(dtype)]
    tasks += [task for task, _, _ in GOLDEN.values()]
    tasks += [
        matmul((2,), 5, 19, 7),
        matmul((), 9, 33, 4, transposed=(False, True)),
        matmul((), 3, 21, 5, constant=(False, True)),
        convolution((5, 6), (3, 3), channels=(3, 10), strides=(1, 2)),
        convolution((5, 6), (3, 3), channels=(1, 1), groups=6),
        with_epilogue(matmul((), 5, 19, 3), "transposed residual"),
        with_epilogue(matmul((), 5, 19, 3), "narrow"),
    ]
    cases = [Case.of(task, default_schedule(task, target, 1)) for task in tasks]
    cases += [Case.of(task, s) for task, s, own in GOLDEN.values() if own == isa]
    # Of the loops that a team shares out as one, the first has one iteration.
    together = RowStages(2, (Loops(Lanes.OUTPUT, 8, 0, 0),) * 4, 2, 64)
    cases.append(Case.of(softmax(1), together))
    return cases


@cache
def many_cases(isa: str) -> tuple[Case, ...]:
    """The same, lowered once for all tests."""
    return tuple(lowered_anew(isa))


def write_sources(folder: Path, sources: dict[str, str | bytes]) -> None:
    for name, content in sources.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)


BUILDS = [
    pytest.param(compiler, isa, strict, marks=pytest.mark.slow if strict == odd else ())
    for compiler, isa, odd in (
        ("gcc", "c99", False),
        ("gcc", "avx2", True),
        ("gcc", "avx512", True),
        ("clang", "c99", True),
        ("clang", "avx2", False),
        ("clang", "avx512", False),
    )
    for strict in (False, True)
]
"""Every compiler, instruction set and way to round; `odd` is what the other compiler shows."""


@pytest.mark.parametrize(("compiler", "isa", "strict"), BUILDS)
def test_no_compiler_complains(compiler: str, isa: str, strict: bool, tmp_path: Path) -> None:
    require(compiler)
    target = Target.named(ISA_TARGETS[isa])
    if not target.runs_on("x86_64"):
        pytest.skip("the instruction set is that of another machine")
    module = kernels_module(many_cases(isa), target, strict=strict)
    files = kernels_source(module)
    write_sources(tmp_path, files)
    made = subprocess.run(
        [compiler, *STRICT_FLAGS, "-O1", *target.compiler_flags, "-c", "cases_kernels.c"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[:3000]


def test_the_same_kernels_are_the_same_text() -> None:
    target = Target.named("x86-64-v4")
    first, second = (kernels_source(kernels_module(lowered_anew("avx512"), target)) for _ in "ab")
    assert first == second


def inputs_for(task: Task, seed: int) -> list[Array]:
    """Reals for float operands, any bits for integers."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for type in task.inputs:
        if type.dtype == boolean:
            arrays.append(rng.integers(0, 2, type.shape).astype(np.bool_))
        elif type.dtype.kind is Kind.FLOAT:
            arrays.append((rng.standard_normal(type.shape) * 4).astype(type.dtype.numpy))
        elif len(type.shape) == 1 and type.dtype == int64 and type.shape == (3,):
            arrays.append(rng.integers(-4, 4, type.shape))
        else:
            limits = np.iinfo(type.dtype.name)
            arrays.append(
                rng.integers(limits.min, limits.max, type.shape, type.dtype.numpy, endpoint=True)
            )
    return arrays


@pytest.mark.parametrize(
    "isas",
    [
        # Vectors of SSE are spelled like those of AVX2.
        pytest.param(("c99", "avx2", "avx512"), id="most"),
        pytest.param(tuple(ISA_TARGETS), id="all", marks=pytest.mark.slow),
    ],
)
def test_strict_kernels_give_the_same_bits_on_every_instruction_set(
    isas: tuple[str, ...], tmp_path: Path
) -> None:
    tasks = [
        task
        for task in dict.fromkeys(case.task for case in many_cases("c99"))
        if task.output_types[0].dtype in (float32, float16, bfloat16, uint8, int32)
    ]
    results: dict[str, list[bytes]] = {}
    for isa in isas:
        if isa not in runnable_isas():
            continue
        target = Target.named(ISA_TARGETS[isa])
        cases = [Case.of(task, default_schedule(task, target, 1)) for task in tasks]
        compiled = CompiledKernels(cases, tmp_path, target=target, strict=True, flags=("-O3",))
        results[isa] = [
            compiled.run(n, inputs_for(task, n))[0].tobytes() for n, task in enumerate(tasks)
        ]
    reference = results["c99"]
    for isa, found in results.items():
        wrong = [str(task) for task, a, b in zip(tasks, found, reference, strict=True) if a != b]
        assert not wrong, f"{isa}: {wrong[:5]}"


def test_kernels_have_no_undefined_behaviour(tmp_path: Path) -> None:
    require("gcc")
    isa = runnable_isas()[-1]
    cases = many_cases(isa)
    target = Target.named(ISA_TARGETS[isa])
    module = kernels_module(cases, target)
    sources = kernels_source(module)
    lines = ["#include <stdint.h>", "#include <stdlib.h>", "#include <string.h>"]
    body: list[str] = []
    for number, case in enumerate(cases):
        lines.append(f"void call_{number}(void **p);")
        kernel = case.lowered.kernel
        inputs = case.kernel_inputs(inputs_for(case.task, number))
        body.append("    {")
        for position, buffer in enumerate(kernel.parameters):
            size = max(1, buffer.size * buffer.dtype.bytes)
            # Of exactly its size, so that every access outside is seen.
            body.append(f"        p[{position}] = malloc({size});")
            if position < len(inputs):
                data = np.ascontiguousarray(inputs[position]).tobytes()
                text = ",".join(map(str, data)) or "0"
                lines.append(f"static const uint8_t d{number}_{position}[] = {{{text}}};")
                body.append(f"        memcpy(p[{position}], d{number}_{position}, {len(data)});")
        body.append(f"        call_{number}(p);")
        body.extend(f"        free(p[{n}]);" for n in range(len(kernel.parameters)))
        body.append("    }")
    program = "\n".join([*lines, "int main(void)", "{", "    void *p[16];", *body,
                         "    return 0;", "}", ""])  # fmt: skip
    write_sources(tmp_path, {**sources, "main.c": program})
    sanitize = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")
    build = subprocess.run(
        ["gcc", "-std=c99", "-O1", *sanitize, *target.compiler_flags, "-o", "run",
         "cases_kernels.c", "main.c", "-lm"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert build.returncode == 0, build.stderr[:2000]
    ran = subprocess.run(["./run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[:3000]


# Details of the text


def text_of(task: Task, schedule: Schedule = LANES, **spelling: bool) -> str:
    options = {"strict": False, **spelling}
    return print_kernel(Case.of(task, schedule), "k", Spelling("avx512", **options)).text


def test_pointers_are_restrict_unless_a_result_may_overwrite_an_input() -> None:
    task = GOLDEN["elementwise"][0]
    assert "const float *restrict x, const float *restrict y, float *restrict out" in text_of(task)
    assert "restrict" not in text_of(task, in_place=True)


def test_strict_tiles_multiply_then_add() -> None:
    task, schedule, _ = GOLDEN["register_tile"]
    assert "_mm512_fmadd_ps" in text_of(task, schedule)
    strict = text_of(task, schedule, strict=True)
    assert "_mm512_fmadd_ps" not in strict
    assert "_mm512_add_ps(" in strict


def test_unused_parameters_are_named() -> None:
    task = one_stage(of(float32, (3,), (3,)), lambda x, y: compute((3,), lambda i: x[i]))
    assert "    (void)y;\n" in text_of(task)


def test_a_branch_not_taken_is_not_evaluated() -> None:
    task = one_stage(
        of(float32, (3,)),
        lambda x: compute(
            (7,), lambda i: select(i < 3, apply("exp", x[i]) * apply("exp", x[i]), 0.0)
        ),
    )
    text = text_of(task)
    assert "< 3 ? tasor_exp_f32(x[i]) * tasor_exp_f32(x[i]) : 0.0f" in text.replace("\n", " ")


def test_reinterpreting_as_the_same_type_is_nothing() -> None:
    task = one_stage(
        of(float32, (3,)), lambda x: compute((3,), lambda i: Cast(x[i], float32, bits=True))
    )
    assert "out[i] = x[i];" in text_of(task)


def test_signs_do_not_meet() -> None:
    task = one_stage(of(float32, (3,)), lambda x: compute((3,), lambda i: apply("neg", -x[i])))
    assert "out[i] = -(-x[i]);" in text_of(task)
    constant = one_stage(
        of(float32, (3,)), lambda x: compute((3,), lambda i: x[i] - const(-1.0, float32))
    )
    assert "--" not in text_of(constant)


def test_an_index_follows_the_names_of_what_is_in_it() -> None:
    """What indices have in common is printed once, but for loops and buffers that are called
    something else: the vector that is left behind a loop is at a number."""
    terms, i, j = Terms(), Axis(0, 8, "i"), Axis(1, 8, "j")
    terms.name_axis(i, "i")
    terms.name_axis(j, "j")
    index = i * 16 + j
    assert [terms.text(index + n) for n in (1, 2)] == ["i * 16 + j + 1", "i * 16 + j + 2"]
    terms.name_axis(j, "8")
    assert terms.text(index + 1) == "i * 16 + 8 + 1"
    place = Buffer(0, "place", int32, 4, Space.STACK)
    for name in ("place", "place2"):
        terms.name_buffer(place, name)
        read = cast(place.at(j), int64) + 1
        assert terms.text(read) == f"(int64_t){name}[8] + 1"
    terms.named[index.digest] = "there"
    assert terms.text(index + 2) == "there + 2"


def test_the_comment_cannot_be_closed_by_a_name() -> None:
    task = GOLDEN["elementwise"][0]
    case = Case.of(task, LANES)
    from tensorgen.emit import emit_kernel

    kernel = emit_kernel(
        case.lowered.kernel, "k", Spelling("c99", False), "*/ int evil; /*", "?" * 3 + "/ \\"
    )
    comment = kernel.text[: kernel.text.index("static void")]
    assert comment.count("*/") == 1
    assert comment.rstrip().endswith("*/")

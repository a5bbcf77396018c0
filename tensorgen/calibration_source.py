"""The C that measures a machine: a few loops, each bound by one thing.

What it does: writes one C file for a target. Each of its probes runs a loop on a number of threads
and returns how many took part. What it does not: time them (`calibration_process`).

The loops use the vectors that kernels use (`dialects`), so that they find the rates that kernels
can reach, not those of instructions that no kernel has.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensorgen.dialects import VectorDialect, vector_dialect
from tensorgen.module_build import ISA_SUPPORT
from tensorgen.sketch_tiles import MOST_VECTORS, tile_shapes
from tensorgen.target import Target
from tensorgen.types import float32

READ_VECTORS = 8
"""Vectors that one turn of the reading loop loads: enough sums in flight to hide their latency."""

TILE_STEPS = 64
"""Steps of the tile whose operands stay in the first-level cache: 21 KiB of them with AVX-512."""

_HEAD = """\
/* Loops that each keep one part of the processor busy. */
#include <stddef.h>
{includes}
#ifdef _OPENMP
#include <omp.h>
#define THREAD omp_get_thread_num()
#define TEAM omp_get_num_threads()
#else
#define THREAD 0
#define TEAM 1
#endif

typedef {type} vector;

/* One element of a sum of vectors. */
static float element(vector v)
{{
    float lanes[{lanes}];
    {store}
    return lanes[0];
}}
"""

_LOOP = """
/* {comment} */
static float {name}({parameters}long turns)
{{
    const vector x = {x}, y = {y};
{begin}
    for (long turn = 0; turn < turns; turn++) {{
{body}
    }}
{end}
    return element(v0);
}}
"""

_PROBE = """
{comment}int probe_{name}({parameters});
int probe_{name}({parameters})
{{
    int team = 1;
    (void)threads;
    (void)memory;
    (void)count;
{body}
    return team;
}}
"""

_PARAMETERS = "int threads, const float *memory, size_t count, long turns, float *sums"

# Every thread writes what it has summed up, or the compiler would leave its loop out.
_RUN_LOOP = """\
    #pragma omp parallel num_threads(threads)
    {{
        sums[16 * THREAD] += {call};
        #pragma omp single
        team = TEAM;
    }}"""

_REGIONS = """\
    for (long turn = 0; turn < turns; turn++) {
        #pragma omp parallel num_threads(threads)
        {
            sums[16 * THREAD] += 1.0f;
            if (THREAD == 0) {
                team = TEAM;
            }
        }
    }"""

_BARRIERS = """\
    #pragma omp parallel num_threads(threads)
    {
        for (long turn = 0; turn < turns; turn++) {
            sums[16 * THREAD] += 1.0f;
            #pragma omp barrier
        }
        if (THREAD == 0) {
            team = TEAM;
        }
    }"""

_TOUCH = """
/* Touches the memory where it is to lie: with the thread that is going to read it. */
void touch(int threads, float *memory, size_t count);
void touch(int threads, float *memory, size_t count)
{
    (void)threads;
    #pragma omp parallel num_threads(threads)
    for (size_t n = 0; n < count; n++) {
        memory[(size_t)THREAD * count + n] = 0.0f;
    }
}
"""


def calibration_source(target: Target) -> str:
    """The C of all probes. Deterministic."""
    dialect = vector_dialect(target.isa, float32)
    assert dialect is not None, "there are vectors of float32, if of one element"
    header = ISA_SUPPORT[target.isa].header
    parts = [
        _HEAD.format(
            includes=f"#include <{header}>\n" if header else "",
            type=dialect.type,
            lanes=dialect.lanes,
            store=dialect.store.format(p="lanes", v="v"),
        ),
        _arithmetic(dialect),
        _loop_probe("multiply_add", "multiply_add(turns)"),
        _tile(dialect),
        _loop_probe("tile", "tile(memory, turns)"),
        _divisions(dialect),
        _loop_probe("divide", "divide(turns)"),
        _reads(dialect),
        _loop_probe("read", "read_all(memory + (size_t)THREAD * count, count, turns)"),
        _TOUCH,
        _probe("region", _REGIONS, "/* Shares nothing among the threads, again and again. */\n"),
        _probe("barrier", _BARRIERS, "/* All threads wait for each other, again and again. */\n"),
    ]
    return "".join(parts)


def _probe(name: str, body: str, comment: str = "") -> str:
    return _PROBE.format(name=name, parameters=_PARAMETERS, body=body, comment=comment)


def _loop_probe(name: str, call: str) -> str:
    return _probe(name, _RUN_LOOP.format(call=call))


def multiply_add_vectors(dialect: VectorDialect) -> int:
    """Sums in flight in the probe of multiply-adds: as many as there are registers for."""
    return dialect.registers * 3 // 4


def _arithmetic(dialect: VectorDialect) -> str:
    names = [f"v{n}" for n in range(multiply_add_vectors(dialect))]
    body = [f"{v} = {dialect.multiply_add.format(a=v, b='x', c='y')};" for v in names]
    return _loop(dialect, "multiply_add", "Multiply-adds that nothing is loaded for.", names, body)


def tile_shape(dialect: VectorDialect) -> tuple[int, int]:
    """Rows and vectors of the tile in the probe: of those that fit the registers, the one that
    loads least for each of its sums."""
    shapes = tile_shapes(dialect.registers, MOST_VECTORS * dialect.lanes, dialect)
    return min(shapes, key=lambda shape: (sum(shape) / prod(shape), shape))


def tile_elements(dialect: VectorDialect) -> int:
    """Elements that the probe of a tile reads: a panel of vectors, and the rows."""
    rows, vectors = tile_shape(dialect)
    return TILE_STEPS * (vectors * dialect.lanes + rows)


def _tile(dialect: VectorDialect) -> str:
    rows, vectors = tile_shape(dialect)
    width = vectors * dialect.lanes
    names = [f"v{n}" for n in range(rows * vectors)]
    panel, element = f"memory + step * {width}", f"memory[{TILE_STEPS * width} + step * {rows}"
    body = [f"for (int step = 0; step < {TILE_STEPS}; step++) {{"]
    for n in range(vectors):
        load = dialect.load.format(p=f"{panel} + {n * dialect.lanes}")
        body.append(f"    const vector p{n} = {load};")
    for row in range(rows):
        body.append(f"    const vector e{row} = {dialect.fill.format(x=f'{element} + {row}]')};")
        for n in range(vectors):
            v = names[row * vectors + n]
            added = dialect.multiply_add.format(a=f"e{row}", b=f"p{n}", c=v)
            body.append(f"    {v} = {added};")
    comment = f"A tile of {rows} x {vectors} sums, whose operands are in the first-level cache."
    return _loop(dialect, "tile", comment, names, [*body, "}"], "const float *memory, ")


def _divisions(dialect: VectorDialect) -> str:
    names = [f"v{n}" for n in range(READ_VECTORS)]
    template = dialect.operation("div")
    assert template is not None, "every instruction set spells divisions"
    body = [f"{v} = {template.format(a='x', b=v)};" for v in names]
    return _loop(dialect, "divide", "Divisions of vectors by vectors.", names, body)


def _reads(dialect: VectorDialect) -> str:
    names = [f"v{n}" for n in range(READ_VECTORS)]
    step = READ_VECTORS * dialect.lanes
    loads = [dialect.load.format(p=f"p + {n * dialect.lanes}") for n in range(READ_VECTORS)]
    body = [
        f"for (const float *p = memory; p != memory + count; p += {step}) {{",
        *(
            f"    {v} = {dialect.multiply_add.format(a=load, b='x', c=v)};"
            for v, load in zip(names, loads, strict=True)
        ),
        "}",
    ]
    comment = f"Reads `count` elements, a multiple of {step}, in order."
    parameters = "const float *memory, size_t count, "
    return _loop(dialect, "read_all", comment, names, body, parameters)


def _loop(
    dialect: VectorDialect,
    name: str,
    comment: str,
    names: Sequence[str],
    body: Sequence[str],
    parameters: str = "",
) -> str:
    """A loop over vectors that begin with different values, so that none is another's copy."""
    begin = [f"vector {v} = {dialect.fill.format(x=f'{n + 1}.7f')};" for n, v in enumerate(names)]
    total = [f"v0 = {dialect.multiply_add.format(a=v, b='x', c='v0')};" for v in names[1:]]
    return _LOOP.format(
        name=name,
        comment=comment,
        parameters=parameters,
        x=dialect.fill.format(x="0.5f"),
        y=dialect.fill.format(x="1.0f"),
        begin=_indented(begin, 4),
        body=_indented(body, 8),
        end=_indented(["(void)y;", *total], 4),
    )


def _indented(lines: Sequence[str], spaces: int) -> str:
    return "\n".join(f"{' ' * spaces}{line}" for line in lines)

"""Loop IR: a kernel as loops, stores and vector registers over flat buffers. Already final.

Whatever decides anything stands before it (`schedule`, `lower`); whatever spells it stands after it
(`emit`). Index terms and values are terms of `expr`: a loop variable is an `Axis` whose position is
unique in its kernel, an element of a buffer is a `Load` with one flat index whose operand is the
buffer's number. `Reduce` does not occur.

Meaning: statements run in order. A parallel loop's iterations may run in any order or at once;
buffers allocated inside belong to the iteration. A `simd` loop's iterations do not depend on each
other. Float arithmetic is as written, save that `MultiplyAdd` may round once or twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from tensorgen.expr import Axis, Expr, Fold, Load
from tensorgen.types import DType, TensorType


class Space(Enum):
    """Where a buffer lives."""

    INPUT = "input"  # a parameter that is read
    OUTPUT = "output"  # a parameter that is written
    SCRATCH = "scratch"  # a part of the arena, one for each thread
    SHARED = "shared"  # a part of the arena, one for all threads
    STACK = "stack"  # a local array
    SCALAR = "scalar"  # a local variable


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` elements of one type; `number` is unique in its kernel, `name` is for display."""

    number: int
    name: str
    dtype: DType
    size: int
    space: Space

    def __hash__(self) -> int:
        return self.number

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, (self.size,))

    def at(self, index: Expr) -> Load:
        """The element at a flat index."""
        return Load(self.number, self.type, (index,))


class LoopKind(Enum):
    """How a loop runs."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    SIMD = "simd"
    ROLLED = "rolled"  # serial, and the compiler is told not to unroll it


@dataclass(frozen=True, slots=True)
class Register:
    """A vector variable of `lanes` elements; its name is unique where it is declared."""

    name: str
    dtype: DType
    lanes: int


@dataclass(frozen=True, slots=True)
class For:
    """`for axis in 0 … extent-1: body`.

    `collapse` counts the perfectly nested loops, this one included, that share a parallel loop.
    """

    axis: Axis
    body: tuple[Stmt, ...]
    kind: LoopKind = LoopKind.SERIAL
    collapse: int = 1


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[index] = value`. If it is `streamed`, nobody reads it soon: a hint."""

    buffer: Buffer
    index: Expr
    value: Expr
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Allocate:
    """A buffer that exists in `body`; its contents are undefined at first."""

    buffer: Buffer
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class If:
    """`if condition: body`, else `otherwise`."""

    condition: Expr
    body: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class FoldLanes:
    """`total[0] = lanes[0] fold … fold lanes[size - 1]`, by halves: the upper half of the lanes is
    folded into the lower one until one lane is left.

    `body` is the same written out, for instruction sets that have no function for it.
    """

    total: Buffer
    lanes: Buffer
    fold: Fold
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class TransposeBlock:
    """`target[target_index + j * target_step + i] = source[index + i * step + j]` for all i below
    `rows` and j below `columns`, both at most `lanes`.

    `body` is the same written out, for instruction sets that have no function for it.
    """

    target: Buffer
    target_index: Expr
    target_step: int
    source: Buffer
    index: Expr
    step: int
    rows: int
    columns: int
    lanes: int
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class TransposeSums:
    """A square `block`, all lanes of it, whose columns are multiplied on their way: `sums[r][i]`
    has `rows[rows_index + r * rows_step + j] * source[index + i * step + j]` added for all j.

    `body` is the same written out, for instruction sets that have no function for it.
    """

    block: TransposeBlock
    sums: tuple[Register, ...]
    rows: Buffer
    rows_index: Expr
    rows_step: int
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class SoftmaxRows:
    """`target[target_index + i * target_step + j] = exp(x[i, j] - m[i]) / s[i]`, where `x[i, j]` is
    `source[index + i * step + j]`, m[i] the greatest of row i and s[i] the sum of its powers, for
    all i below `rows` and j below `columns`. The target may be the source.

    `body` is the same written out, for instruction sets that have no function for it.
    """

    target: Buffer
    target_index: Expr
    target_step: int
    source: Buffer
    index: Expr
    step: int
    rows: int
    columns: int
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class FilterTile:
    """`target[target_index + i * target_line + j * target_column + l] = the sum of down[i][k] *
    across[j][m] * source[index + k * line + m * column + l]` over all k and m, on each lane l: a
    matrix on either side of a tile. The target is not the source.
    """

    target: Buffer
    target_index: Expr
    target_line: int
    target_column: int
    source: Buffer
    index: Expr
    line: int
    column: int
    down: tuple[tuple[int, ...], ...]
    across: tuple[tuple[int, ...], ...]
    lanes: int


@dataclass(frozen=True, slots=True)
class LoopFunction:
    """Statements on their own, which kernels call with arrays and numbers of theirs.

    `numbers` are terms of the indices in `body`, loop variables of no loop. `counts` are pairs: a
    loop of the body, and the number that says how often it runs instead of its extent. `alike` are
    the arrays that may have elements in common.
    """

    arrays: tuple[Buffer, ...]
    alike: frozenset[Buffer]
    numbers: tuple[Axis, ...]
    counts: tuple[tuple[Axis, Axis], ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """`function` on `arrays`, each from an element on, with these `numbers`.

    `body` is the same written out.
    """

    function: LoopFunction
    arrays: tuple[tuple[Buffer, Expr], ...]
    numbers: tuple[Expr, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Declare:
    """Registers that exist in `body`, undefined at first."""

    registers: tuple[Register, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """Every lane of `register` becomes `value`."""

    register: Register
    value: Expr


@dataclass(frozen=True, slots=True)
class VectorLoad:
    """`register[l] = buffer[index + l]` for `count` lanes from `first`, `outside` in the others.
    Only elements of those lanes are read; `index` itself may lie before the buffer.
    `kept` asks for the vector to stay in its register, because several statements use it."""

    register: Register
    buffer: Buffer
    index: Expr
    count: int
    first: int = 0
    outside: float = 0.0
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Bring the line of `buffer[index]` near, for a later load. A hint: `index` may lie outside.

    What is needed `later` than soon comes as far as the second-level cache: on its way from beyond
    it does not hold up what tiles read meanwhile."""

    buffer: Buffer
    index: Expr
    later: bool = False


@dataclass(frozen=True, slots=True)
class VectorStore:
    """`buffer[index + l] = register[l]` for the first `count` lanes."""

    buffer: Buffer
    index: Expr
    register: Register
    count: int


@dataclass(frozen=True, slots=True)
class MultiplyAdd:
    """`target[l] += left[l] * right[l]`."""

    target: Register
    left: Register
    right: Register


@dataclass(frozen=True, slots=True)
class VectorApply:
    """`target[l] = operation(left[l], right[l])`: an operator of `scalar_ops`, or `max_number` or
    `min_number`, which are `max` and `min` where no lane of `right` is NaN."""

    operation: str
    target: Register
    left: Register
    right: Register


@dataclass(frozen=True, slots=True)
class Alternate:
    """`target[l] = both[2 * l + odd]`, where `both` is `low` followed by `high`."""

    target: Register
    low: Register
    high: Register
    odd: bool


Stmt = (
    For
    | Store
    | Allocate
    | If
    | FoldLanes
    | TransposeBlock
    | TransposeSums
    | SoftmaxRows
    | FilterTile
    | Call
    | Declare
    | Fill
    | VectorLoad
    | Prefetch
    | VectorStore
    | MultiplyAdd
    | VectorApply
    | Alternate
)


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """One kernel: what it reads, what it writes, the scratch it needs, and its statements.

    A scratch buffer in SCRATCH stands for one private copy a thread, one in SHARED for itself.
    """

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    scratch: tuple[Buffer, ...]
    body: tuple[Stmt, ...]

    @property
    def parameters(self) -> tuple[Buffer, ...]:
        return (*self.inputs, *self.outputs, *self.scratch)


FIRST_LOOP = 1 << 20
"""Loop variables are numbered from here, so that they never meet the axes of the expression being
lowered, which are numbered from 0."""


@dataclass(slots=True)
class Numbers:
    """Numbers that are unique in the kernel being built; names are for display."""

    buffers: int = 0
    axes: int = FIRST_LOOP

    def buffer(self, name: str, dtype: DType, size: int, space: Space) -> Buffer:
        """A buffer of its own number."""
        self.buffers += 1
        return Buffer(self.buffers - 1, name, dtype, size, space)

    def axis(self, name: str, extent: int) -> Axis:
        """A loop variable of its own position."""
        self.axes += 1
        return Axis(self.axes - 1, extent, name)


def nested(axes: tuple[Axis, ...], body: tuple[Stmt, ...], kind: LoopKind) -> tuple[Stmt, ...]:
    """Loops over `axes`, outermost first, around `body`; a parallel nest shares one loop."""
    result = body
    for position in range(len(axes) - 1, -1, -1):
        shares = kind is LoopKind.PARALLEL
        if shares and position > 0:
            result = (For(axes[position], result),)
        else:
            result = (For(axes[position], result, kind, len(axes) if shares else 1),)
    return result


def shared_as_one(loop: For) -> tuple[tuple[Axis, ...], tuple[Stmt, ...]]:
    """The axes of the nested loops that threads share as one with this loop, and what is inside."""
    axes, body = [loop.axis], loop.body
    while len(axes) < loop.collapse:
        (inner,) = body
        assert isinstance(inner, For), "nested loops that are shared as one"
        axes.append(inner.axis)
        body = inner.body
    return tuple(axes), body


def has_parallel_loop(body: tuple[Stmt, ...]) -> bool:
    """Whether threads share a loop somewhere in a block."""
    return any(
        isinstance(statement, For) and statement.kind is LoopKind.PARALLEL
        for statement in statements(body)
    )


def is_hint(statement: Stmt) -> bool:
    """Whether a statement is nothing but hints."""
    return isinstance(statement, Prefetch) or (
        isinstance(statement, For) and all(map(is_hint, statement.body))
    )


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement in a block, outer before inner."""
    for statement in body:
        yield statement
        match statement:
            case (
                For()
                | Allocate()
                | FoldLanes()
                | TransposeBlock()
                | TransposeSums()
                | SoftmaxRows()
                | Call()
                | Declare()
            ):
                yield from statements(statement.body)
            case If():
                yield from statements(statement.body)
                yield from statements(statement.otherwise)
            case (
                Store()
                | FilterTile()
                | Fill()
                | VectorLoad()
                | Prefetch()
                | VectorStore()
                | MultiplyAdd()
                | VectorApply()
                | Alternate()
            ):
                pass
            case _:
                assert_never(statement)

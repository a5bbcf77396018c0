"""The statements of a kernel: loops, conditions, buffers and stores, one `match` over Loop IR.

A subterm that a statement uses more than once becomes a named constant in front of it.

A kernel with parallel loops is called by every thread of a team: they share these loops, meet
behind each but the last, and leave what stands between them to the first thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from math import prod
from typing import assert_never

from tensorgen.c_function import CFunction
from tensorgen.c_functions_filter import filter_function
from tensorgen.digest import content_digest
from tensorgen.emit_page import Page, head_lines
from tensorgen.emit_shared_terms import label, shared_terms
from tensorgen.emit_terms import Terms, local_type
from tensorgen.emit_vectors import VectorStatements, functions_in
from tensorgen.expr import Axis, Expr, const
from tensorgen.lane_vectors import (
    LaneVectors,
    fold_function,
    softmax_function,
    transpose_function,
    transpose_sum_function,
    whole_transpose_function,
)
from tensorgen.loop import (
    Allocate,
    Alternate,
    Buffer,
    Call,
    Declare,
    Fill,
    FilterTile,
    FoldLanes,
    For,
    If,
    LoopFunction,
    LoopKind,
    MultiplyAdd,
    Prefetch,
    SoftmaxRows,
    Space,
    Stmt,
    Store,
    TransposeBlock,
    TransposeSums,
    VectorApply,
    VectorLoad,
    VectorStore,
    has_parallel_loop,
    shared_as_one,
)
from tensorgen.module_spec import Parameter
from tensorgen.types import int64

SIMD_UNROLLED = 4
"""Lane loops of at most this length are left to the compiler without a pragma."""


@dataclass(slots=True)
class Statements:
    """The state of printing the body of one function.

    `together` tells that all threads of a team run what is printed next, `shared` that each of them
    has iterations of its own. `pools` names the scratch from which each thread takes its part,
    `apart` bytes behind that of the thread before. `open_end` tells that the threads of a team do
    not meet behind the last statement.
    """

    isa: str
    strict: bool
    together: bool
    apart: int
    page: Page = field(default_factory=Page)
    terms: Terms = field(default_factory=Terms)
    vectors: VectorStatements = field(init=False)
    pools: dict[int, str] = field(default_factory=dict)
    shared: bool = False
    open_end: bool = False

    def __post_init__(self) -> None:
        self.vectors = VectorStatements(self.isa, self.strict, self.page, self.terms)

    def parameter(self, buffer: Buffer) -> str:
        """The name of a parameter. Scratch is a pool of which each thread takes its part."""
        if buffer.space in (Space.SCRATCH, Space.SHARED):
            self.pools[buffer.number] = self.page.fresh(f"{buffer.name}_all")
            return self.pools[buffer.number]
        return self._name_buffer(buffer)

    def _name_buffer(self, buffer: Buffer) -> str:
        name = self.page.fresh(buffer.name)
        self.terms.name_buffer(buffer, name)
        return name

    def block(self, body: tuple[Stmt, ...], last: bool = False) -> None:
        """Statements in their order; a team's threads share out the parallel loops among them.

        Behind the `last` block of a function nobody waits: who calls it knows what comes next.
        """
        if not self.together:
            self._in_order(body, len(body) > 1)
            return
        done = 0
        for parallel, run in groupby(body, lambda statement: has_parallel_loop((statement,))):
            statements = tuple(run)
            done += len(statements)
            ends = last and done == len(body)
            if parallel:
                self._in_order(statements, len(body) > 1, ends)
            else:
                self._on_first_thread(statements, ends)

    def _on_first_thread(self, body: tuple[Stmt, ...], last: bool) -> None:
        self.together = False
        with self.page.braces("if (TASOR_THREAD == 0) {"):
            self.block(body)
        self.together = True
        if last:
            self.open_end = True
        else:
            self.page.line("TASOR_WAIT_FOR_TEAM;")

    def _in_order(self, body: tuple[Stmt, ...], has_neighbours: bool, last: bool = False) -> None:
        for number, statement in enumerate(body, 1):
            ends = last and number == len(body)
            if isinstance(statement, Allocate | Declare) and has_neighbours:
                # A scope of its own: statements beside it may declare the same names.
                with self.page.braces():
                    self.statement(statement, ends)
            else:
                self.statement(statement, ends)

    def statement(self, statement: Stmt, last: bool = False) -> None:
        """One statement with everything inside it; the `last` one of a function, maybe."""
        match statement:
            case For():
                self._loop(statement, last)
            case Store(buffer=buffer, index=index, value=value):
                self._store(buffer, index, value)
            case Allocate(buffer=buffer, body=body):
                self._allocate(buffer)
                self.block(body, last)
            case If(condition=condition, body=body):
                self.page.line(f"if ({self.terms.text(condition)}) {{")
                with self.page.scope():
                    self.block(body)
                if statement.otherwise:
                    self.page.line("} else {")
                    with self.page.scope():
                        self.block(statement.otherwise)
                self.page.line("}")
            case FoldLanes():
                self._fold(statement)
            case TransposeBlock():
                self._transpose(statement)
            case TransposeSums():
                self._transpose_sums(statement)
            case SoftmaxRows():
                self._softmax(statement)
            case FilterTile():
                self._filter(statement)
            case Call():
                self._call(statement)
            case Declare(registers=registers, body=body):
                self.vectors.declare(registers)
                self.block(body, last)
            case Prefetch(buffer=buffer, index=index, later=later):
                self.terms.used.add(buffer.number)
                name = self.terms.buffers[buffer.number][1]
                macro = "TASOR_PREFETCH_FOR_LATER" if later else "TASOR_PREFETCH"
                self.page.line(f"{macro}({name}, {self.terms.text(index)});")
            case (
                Fill() | VectorLoad() | VectorStore() | MultiplyAdd() | VectorApply() | Alternate()
            ):
                self.vectors.statement(statement)
            case _:
                assert_never(statement)

    def _fold(self, fold: FoldLanes) -> None:
        function = fold_function(self.isa, fold.lanes, fold.fold)
        if function is None:
            self.block(fold.body)
            return
        self.terms.functions.add(function)
        total = self.terms.element(fold.total, const(0, int64))
        lanes = self.terms.buffers[fold.lanes.number][1]
        self.page.line(f"{total} = {function}({lanes});")

    def _transpose(self, block: TransposeBlock) -> None:
        whole = whole_transpose_function(self.isa, block)
        function = transpose_function(self.isa, block)
        if whole is not None:
            self._square_call(whole, block)
        elif function is not None:
            self._rows_call(function, block, block.columns)
        else:
            self.block(block.body)

    def _transpose_sums(self, sums: TransposeSums) -> None:
        function = None if self.strict else transpose_sum_function(self.isa, sums)
        if function is None:
            self.block(sums.body)
            return
        rows = self.terms.pointer(sums.rows, sums.rows_index)
        registers = (f"&{register.name}" for register in sums.sums)
        self._square_call(function, sums.block, rows, str(sums.rows_step), *registers)

    def _square_call(self, function: str, block: TransposeBlock, *more: str) -> None:
        """The call of a function that transposes blocks of one size, with what else it is given."""
        self.terms.functions.add(function)
        source = self.terms.pointer(block.source, block.index)
        target = self.terms.pointer(block.target, block.target_index)
        arguments = ", ".join((f"{block.step}, {target}, {block.target_step}", *more))
        self.page.statement(f"{function}({source}, {arguments})")

    def _filter(self, tile: FilterTile) -> None:
        function = filter_function(tile.down, tile.across, tile.source.dtype.c_name, tile.lanes)
        self.terms.made[function.name] = function
        source = self.terms.pointer(tile.source, tile.index)
        target = self.terms.pointer(tile.target, tile.target_index)
        arguments = (
            source, tile.line, tile.column, target, tile.target_line, tile.target_column,
        )  # fmt: skip
        self.page.statement(f"{function.name}({', '.join(map(str, arguments))})")

    def _call(self, call: Call) -> None:
        function = function_text(call.function, self.isa, self.strict)
        self.terms.functions.update(function.requires)
        self.terms.made[function.name] = function
        arrays = (self.terms.pointer(buffer, index) for buffer, index in call.arrays)
        numbers = (self.terms.text(number) for number in call.numbers)
        self.page.statement(f"{function.name}({', '.join((*arrays, *numbers))})")

    def _softmax(self, rows: SoftmaxRows) -> None:
        function = None if self.strict else softmax_function(self.isa, rows)
        if function is None:
            self.block(rows.body)
        else:
            name, lanes = function
            self._rows_call(name, rows, lanes)

    def _rows_call(self, function: str, rows: TransposeBlock | SoftmaxRows, width: int) -> None:
        """The call of a function that takes rows from one place to another."""
        self.terms.functions.add(function)
        source = self.terms.pointer(rows.source, rows.index)
        target = self.terms.pointer(rows.target, rows.target_index)
        arguments = f"{rows.step}, {rows.rows}, {target}, {rows.target_step}, {width}"
        self.page.statement(f"{function}({source}, {arguments})")

    def _loop(self, loop: For, last: bool) -> None:
        vectors = None
        if loop.kind is LoopKind.SIMD and not self.strict:
            vectors = LaneVectors.of(loop, self.isa)
        if vectors is None:
            self._plain_loop(loop, last)
        else:
            self._vector_loop(loop.axis, vectors)

    def _plain_loop(self, loop: For, last: bool) -> None:
        match loop.kind:
            case LoopKind.PARALLEL:
                self._team_loop(loop, last)
                return
            case LoopKind.SIMD:
                if loop.axis.extent > SIMD_UNROLLED:
                    self.page.line("TASOR_SIMD")
            case LoopKind.ROLLED:
                self.page.line("TASOR_NO_UNROLL")
            case LoopKind.SERIAL:
                pass
            case _:
                assert_never(loop.kind)
        stop = self.terms.counts.get(loop.axis.position, loop.axis.extent)
        with self._counting(loop.axis, stop, "++"):
            self.block(loop.body)

    def _team_loop(self, loop: For, last: bool) -> None:
        """A loop, or perfectly nested ones as if they were one, that a team shares out."""
        axes, body = shared_as_one(loop)
        outer = self.together, self.shared
        self.together, self.shared = False, True
        count = prod(axis.extent for axis in axes)
        with self.page.names():
            self.page.visible.add("team_part")  # a name that the macro declares
            name = self.page.fresh(axes[0].name if len(axes) == 1 else "turn")
            with self.page.braces(f"TASOR_TEAM_FOR({name}, {count}) {{"):
                if len(axes) == 1:
                    self.terms.name_axis(axes[0], name)
                else:
                    self._axes_of_turn(name, axes)
                self.block(body)
        self.together, self.shared = outer
        if last:
            self.open_end = True
        else:
            self.page.line("TASOR_WAIT_FOR_TEAM;")

    def _axes_of_turn(self, turn: str, axes: Sequence[Axis]) -> None:
        """Where a turn of nested loops is along each of them. An axis of one element has no name:
        what is computed with it may have lost it."""
        below = prod(axis.extent for axis in axes)
        outermost = True
        for axis in axes:
            below //= axis.extent
            if axis.extent == 1:
                self.terms.name_axis(axis, "0")
                continue
            quotient = turn if below == 1 else f"{turn} / {below}"
            name = self.page.fresh(axis.name)
            self.terms.name_axis(axis, name)
            rest = "" if outermost else f" % {axis.extent}"
            self.page.line(f"const ptrdiff_t {name} = {quotient}{rest};")
            outermost = False

    @contextmanager
    def _counting(self, axis: Axis, stop: int | str, step: str) -> Iterator[None]:
        """A loop whose variable counts from 0 to below `stop`, stepping as `step` says."""
        with self.page.names():
            name = self.page.fresh(axis.name)
            self.terms.name_axis(axis, name)
            with self.page.braces(f"for (ptrdiff_t {name} = 0; {name} < {stop}; {name}{step}) {{"):
                yield

    def _vector_loop(self, axis: Axis, vectors: LaneVectors) -> None:
        """A lane loop in steps of a whole vector, and the lanes left behind it."""
        lanes = vectors.dialect.lanes
        rest = axis.extent % lanes
        whole = axis.extent - rest
        if whole:
            with self._counting(axis, whole, f" += {lanes}"):
                self._vector_statements(vectors, lanes)
        if rest:
            self.terms.name_axis(axis, str(whole))
            with self.page.braces():
                self._vector_statements(vectors, rest)

    def _vector_statements(self, vectors: LaneVectors, count: int) -> None:
        def pointer(number: int, index: Expr) -> str:
            return self.terms.pointer(self.terms.buffers[number][0], index)

        statements = vectors.statements(count, self.terms.text, pointer, self.page.fresh)
        for statement in statements:
            self.terms.functions.update(functions_in(statement))
            self.page.statement(statement.removesuffix(";"))

    def _allocate(self, buffer: Buffer) -> None:
        name, c_type = self._name_buffer(buffer), buffer.dtype.c_name
        assert not self.together or buffer.space is Space.SHARED, "threads of a team share this"
        match buffer.space:
            case Space.SCALAR:
                self.page.line(f"{c_type} {name};")
            case Space.STACK:
                # Compilers that vectorize may take more alignment for granted than the stack has.
                self.page.line(f"{c_type} {name}[{buffer.size}] TASOR_ALIGNED;")
            case Space.SCRATCH:
                self.terms.used.add(buffer.number)
                apart = self.apart // buffer.dtype.bytes
                # Outside a loop of ours the thread's number would be that of the caller's team.
                offset = f" + (size_t)TASOR_THREAD * {apart}" if self.shared else ""
                self.page.line(f"{c_type} *const {name} = {self.pools[buffer.number]}{offset};")
            case Space.SHARED:
                assert not self.shared, "what all threads share exists outside their loops"
                self.terms.used.add(buffer.number)
                self.page.line(f"{c_type} *const {name} = {self.pools[buffer.number]};")
            case Space.INPUT | Space.OUTPUT:
                raise AssertionError("parameters are not allocated")
            case _:
                assert_never(buffer.space)

    def _store(self, buffer: Buffer, index: Expr, value: Expr) -> None:
        before = dict(self.terms.named)
        for term in shared_terms(value):
            name = self.page.numbered(label(term))
            self.page.statement(f"const {local_type(term)} {name} = {self.terms.text(term)}")
            self.terms.named[term.digest] = name
        stored = self.terms.stored(buffer, value)
        self.page.statement(f"{self.terms.element(buffer, index)} = {stored}")
        self.terms.named = before


@lru_cache(maxsize=256)
def function_text(function: LoopFunction, isa: str, strict: bool) -> CFunction:
    """The C of a function that kernels call, named by its text."""
    printer = Statements(isa, strict, together=False, apart=0)
    arrays = tuple(
        (buffer, Parameter(printer.parameter(buffer), buffer.dtype, buffer.space is Space.OUTPUT))
        for buffer in function.arrays
    )
    names = {number: printer.page.fresh(number.name) for number in function.numbers}
    printer.terms.axes = {number.position: name for number, name in names.items()}
    printer.terms.counts = {loop.position: names[number] for loop, number in function.counts}
    printer.block(function.body)
    parameters = ", ".join(
        (
            *(
                f"{array.c_type}{'' if buffer in function.alike else 'restrict '}{array.name}"
                for buffer, array in arrays
            ),
            *(f"ptrdiff_t {name}" for name in names.values()),
        )
    )
    body = "\n".join((*printer.vectors.constant_lines(), *printer.page.lines))
    name = f"tasor_part_{content_digest(isa, str(strict), parameters, body).hex()[:16]}"
    head = "\n".join(head_lines(f"static void {name}({parameters})"))
    requires = tuple(sorted(printer.terms.functions))
    return CFunction(name, f"{head}\n{{\n{body}\n}}\n", requires, None, "")

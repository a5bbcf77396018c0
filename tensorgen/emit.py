"""The C printer: Loop IR in, the text of one C function out. It decides nothing.

Differences between instruction sets stand in `dialects`, functions that generated code calls in
`c_functions`. A subterm that a statement uses more than once becomes a named constant in front of
it. Index terms are printed as they are: their ranges are known, so they cannot overflow; integer
data wraps by going through unsigned arithmetic.

A kernel with parallel loops is called by every thread of a team: they share these loops, meet
behind each, and leave what stands between them to the first thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from textwrap import wrap
from typing import assert_never

import numpy as np

from tensorgen.c_functions import c_cast_for, c_function_for
from tensorgen.dialects import VectorDialect, vector_dialect
from tensorgen.emit_vectors import (
    applied_text,
    functions_in,
    loaded_text,
    pointer_before,
)
from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    children,
    const,
)
from tensorgen.lane_vectors import (
    STREAM_FENCE,
    STREAM_FUNCTION,
    LaneVectors,
    fold_function,
    transpose_function,
)
from tensorgen.loop import (
    Allocate,
    Alternate,
    Buffer,
    Declare,
    Fill,
    FoldLanes,
    For,
    If,
    LoopKernel,
    LoopKind,
    MultiplyAdd,
    Prefetch,
    Register,
    Space,
    Stmt,
    Store,
    TransposeBlock,
    VectorApply,
    VectorLoad,
    VectorStore,
    has_parallel_loop,
)
from tensorgen.module_spec import Kernel, Parameter
from tensorgen.module_text import comment_text, number_literals
from tensorgen.simplify import UNBOUNDED, bounds, simplify
from tensorgen.types import DType, Kind, boolean, float32, float64, int64

UNARY, ATOM = 14, 16
"""Precedence of a prefix operator or cast, and of what never needs parentheses."""

SIMD_UNROLLED = 4
"""Lane loops of at most this length are left to the compiler without a pragma."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """What the printer is told besides the loops."""

    isa: str
    strict: bool
    in_place: bool = False


def emit_kernel(
    kernel: LoopKernel, name: str, spelling: Spelling, expression: str, schedule: str
) -> Kernel:
    """The C function of a kernel, with its comment.

    With `in_place`, results may share storage with inputs of the same type, so no pointer is
    declared `restrict`.
    """
    parallel = has_parallel_loop(kernel.body)
    printer = _Printer(spelling, together=parallel)
    names = tuple(printer.parameter(buffer) for buffer in kernel.parameters)
    printer.block(kernel.body)
    if not printer.functions.isdisjoint(STREAM_FUNCTION.values()):
        printer.line(STREAM_FENCE)
    parameters = tuple(
        Parameter(text, buffer.dtype, buffer.space is not Space.INPUT)
        for text, buffer in zip(names, kernel.parameters, strict=True)
    )
    qualifier = "" if spelling.in_place else "restrict "
    declared = ", ".join(
        f"{'' if parameter.writes else 'const '}{parameter.dtype.c_name} *{qualifier}"
        f"{parameter.name}"
        for parameter in parameters
    )
    unused = (
        f"    (void){text};"
        for text, buffer in zip(names, kernel.parameters, strict=True)
        if buffer.number not in printer.used
    )
    lines = [
        "/* " + "\n * ".join(_comment("expr", expression) + _comment("schedule", schedule)) + " */",
        *_filled(f"static void {name}({declared})"),
        "{",
        *unused,
        *(
            line
            for name in sorted(printer.constants)
            for line in _indented(printer.constants[name])
        ),
        *printer.lines,
        "}",
    ]
    functions = tuple(sorted(printer.functions))
    text = "\n".join(lines) + "\n"
    return Kernel(name, text, parameters, functions, schedule, expression, parallel)


def _comment(label: str, text: str) -> list[str]:
    limited = text if len(text) <= 1500 else text[:1497] + "..."
    lines: list[str] = []
    for part in wrap(f"{label}: {limited}", 94, subsequent_indent="  ", break_long_words=False):
        lines.extend(comment_text(piece) for piece in _pieces(part, 180))
    return lines


def _pieces(text: str, length: int) -> list[str]:
    return [text[start : start + length] for start in range(0, len(text), length)]


def _indented(text: str) -> list[str]:
    return wrap(text, 100, initial_indent="    ", subsequent_indent="        ")


def _filled(text: str) -> list[str]:
    return wrap(text, 100, subsequent_indent="    ", break_long_words=False)


@dataclass(slots=True)
class _Printer:
    """The state of printing one function; `visible` holds the names of the scopes around.

    `together` tells that all threads of a team run what is printed next, `shared` that each of them
    has iterations of its own.
    """

    spelling: Spelling
    lines: list[str] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    constants: dict[str, str] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    buffers: dict[int, tuple[Buffer, str]] = field(default_factory=dict)
    pools: dict[int, str] = field(default_factory=dict)
    axes: dict[int, str] = field(default_factory=dict)
    named: dict[bytes, str] = field(default_factory=dict)
    visible: set[str] = field(default_factory=set)
    depth: int = 1
    together: bool = False
    shared: bool = False

    def parameter(self, buffer: Buffer) -> str:
        """The name of a parameter. Scratch is a pool of which each thread takes its part."""
        if buffer.space in (Space.SCRATCH, Space.SHARED):
            self.pools[buffer.number] = self.fresh(f"{buffer.name}_all")
            return self.pools[buffer.number]
        return self._name_buffer(buffer)

    def fresh(self, name: str) -> str:
        """The name, or with the first number behind it that makes it new where it is visible."""
        candidate, count = name, 1
        while candidate in self.visible:
            count += 1
            candidate = f"{name}{count}"
        self.visible.add(candidate)
        return candidate

    def _numbered(self, label: str) -> str:
        """The first of label_1, label_2, … that is new where it is visible."""
        count = 1
        while f"{label}_{count}" in self.visible:
            count += 1
        return self.fresh(f"{label}_{count}")

    def _name_buffer(self, buffer: Buffer) -> str:
        name = self.fresh(buffer.name)
        self.buffers[buffer.number] = (buffer, name)
        return name

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text if text else "")

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """Inside braces: one step further right; names declared there end there."""
        outside = set(self.visible)
        self.depth += 1
        yield
        self.depth -= 1
        self.visible = outside

    # Statements

    def block(self, body: tuple[Stmt, ...]) -> None:
        if not self.together:
            self._in_order(body, len(body) > 1)
            return
        for parallel, run in groupby(body, lambda statement: has_parallel_loop((statement,))):
            statements = tuple(run)
            if parallel:
                self._in_order(statements, len(body) > 1)
            else:
                self._on_first_thread(statements)

    def _on_first_thread(self, body: tuple[Stmt, ...]) -> None:
        self.line("if (TASOR_THREAD == 0) {")
        self.together = False
        with self._scope():
            self.block(body)
        self.together = True
        self.line("}")
        self.line("TASOR_WAIT_FOR_TEAM;")

    def _in_order(self, body: tuple[Stmt, ...], has_neighbours: bool) -> None:
        for statement in body:
            if isinstance(statement, Allocate | Declare) and has_neighbours:
                # A scope of its own: statements beside it may declare the same names.
                self.line("{")
                with self._scope():
                    self.statement(statement)
                self.line("}")
            else:
                self.statement(statement)

    def statement(self, statement: Stmt) -> None:
        match statement:
            case For():
                self._loop(statement)
            case Store(buffer=buffer, index=index, value=value):
                self._store(buffer, index, value)
            case Allocate(buffer=buffer, body=body):
                self._allocate(buffer)
                self.block(body)
            case If(condition=condition, body=body):
                self.line(f"if ({self.text(condition)}) {{")
                with self._scope():
                    self.block(body)
                if statement.otherwise:
                    self.line("} else {")
                    with self._scope():
                        self.block(statement.otherwise)
                self.line("}")
            case FoldLanes(total=folded, lanes=lanes, fold=fold, body=body):
                function = fold_function(self.spelling.isa, lanes, fold)
                if function is None:
                    self.block(body)
                else:
                    self.functions.add(function)
                    element = self._element(folded, const(0, int64))
                    self.line(f"{element} = {function}({self.buffers[lanes.number][1]});")
            case TransposeBlock():
                self._transpose(statement)
            case Declare(registers=registers, body=body):
                for register in registers:
                    assert self.fresh(register.name) == register.name, "registers nest"
                    self.line(f"{self._dialect(register).type} {register.name};")
                self.block(body)
            case Fill(register=register, value=value):
                filled = self._dialect(register).fill.format(x=self.text(value))
                self._assignment(f"{register.name} = ", filled)
            case VectorLoad():
                self._vector_load(statement)
            case Prefetch(buffer=buffer, index=index):
                self.used.add(buffer.number)
                name = self.buffers[buffer.number][1]
                self.line(f"TASOR_PREFETCH({name}, {self.text(index)});")
            case VectorStore():
                self._vector_store(statement)
            case MultiplyAdd(target=target, left=left, right=right):
                dialect = self._dialect(target)
                template = (
                    dialect.multiply_then_add if self.spelling.strict else dialect.multiply_add
                )
                total = template.format(a=left.name, b=right.name, c=target.name)
                self.line(f"{target.name} = {total};")
            case VectorApply(operation=operation, target=target, left=left, right=right):
                applied = applied_text(self._dialect(target), operation, left, right)
                self.functions.update(functions_in(applied))
                self._assignment(f"{target.name} = ", applied)
            case Alternate():
                self._alternate(statement)
            case _:
                assert_never(statement)

    def _transpose(self, block: TransposeBlock) -> None:
        function = transpose_function(self.spelling.isa, block)
        if function is None:
            self.block(block.body)
            return
        self.functions.add(function)
        source = self._pointer(block.source, block.index)
        target = self._pointer(block.target, block.target_index)
        arguments = f"{block.step}, {block.rows}, {target}, {block.target_step}, {block.columns}"
        self._assignment("", f"{function}({source}, {arguments})")

    def _loop(self, loop: For) -> None:
        vectors = None
        long = loop.axis.extent > SIMD_UNROLLED
        if loop.kind is LoopKind.SIMD and long and not self.spelling.strict:
            vectors = LaneVectors.of(loop, self.spelling.isa)
        if vectors is None:
            self._plain_loop(loop)
        else:
            self._vector_loop(loop.axis, vectors)

    def _plain_loop(self, loop: For) -> None:
        match loop.kind:
            case LoopKind.PARALLEL:
                collapse = f"_COLLAPSE({loop.collapse})" if loop.collapse > 1 else ""
                self.line(f"TASOR_PARALLEL_FOR{collapse}")
            case LoopKind.SIMD:
                if loop.axis.extent > SIMD_UNROLLED:
                    self.line("TASOR_SIMD")
            case LoopKind.ROLLED:
                self.line("TASOR_NO_UNROLL")
            case LoopKind.SERIAL:
                pass
            case _:
                assert_never(loop.kind)
        outside = set(self.visible)
        name = self.fresh(loop.axis.name)
        self.axes[loop.axis.position] = name
        self.line(f"for (ptrdiff_t {name} = 0; {name} < {loop.axis.extent}; {name}++) {{")
        outer = self.together, self.shared
        if loop.kind is LoopKind.PARALLEL:
            self.together, self.shared = False, True
        with self._scope():
            self.block(loop.body)
        self.together, self.shared = outer
        self.visible = outside
        self.line("}")

    def _vector_loop(self, axis: Axis, vectors: LaneVectors) -> None:
        """A lane loop in steps of a whole vector, and the lanes left behind it."""
        lanes = vectors.dialect.lanes
        rest = axis.extent % lanes
        whole = axis.extent - rest
        if whole:
            outside = set(self.visible)
            name = self.fresh(axis.name)
            self.axes[axis.position] = name
            self.line(f"for (ptrdiff_t {name} = 0; {name} < {whole}; {name} += {lanes}) {{")
            self._vector_statements(vectors, lanes)
            self.line("}")
            self.visible = outside
        if rest:
            self.axes[axis.position] = str(whole)
            self.line("{")
            self._vector_statements(vectors, rest)
            self.line("}")

    def _vector_statements(self, vectors: LaneVectors, count: int) -> None:
        def pointer(number: int, index: Expr) -> str:
            return self._pointer(self.buffers[number][0], index)

        with self._scope():
            for statement in vectors.statements(count, self.text, pointer, self.fresh):
                self.functions.update(functions_in(statement))
                self._assignment("", statement.removesuffix(";"))

    def _allocate(self, buffer: Buffer) -> None:
        name, c_type = self._name_buffer(buffer), buffer.dtype.c_name
        assert not self.together or buffer.space is Space.SHARED, "threads of a team share this"
        match buffer.space:
            case Space.SCALAR:
                self.line(f"{c_type} {name};")
            case Space.STACK:
                # Compilers that vectorize may take more alignment for granted than the stack has.
                self.line(f"{c_type} {name}[{buffer.size}] TASOR_ALIGNED;")
            case Space.SCRATCH:
                self.used.add(buffer.number)
                # Outside a loop of ours the thread's number would be that of the caller's team.
                offset = f" + (size_t)TASOR_THREAD * {buffer.size}" if self.shared else ""
                self.line(f"{c_type} *const {name} = {self.pools[buffer.number]}{offset};")
            case Space.SHARED:
                assert not self.shared, "what all threads share exists outside their loops"
                self.used.add(buffer.number)
                self.line(f"{c_type} *const {name} = {self.pools[buffer.number]};")
            case Space.INPUT | Space.OUTPUT:
                raise AssertionError("parameters are not allocated")
            case _:
                assert_never(buffer.space)

    def _store(self, buffer: Buffer, index: Expr, value: Expr) -> None:
        before = dict(self.named)
        for term in _shared_terms(value):
            text = self._value(term)
            name = self._numbered(_label(term))
            self._assignment(f"const {_local_type(term)} {name} = ", text)
            self.named[term.digest] = name
        self._assignment(f"{self._element(buffer, index)} = ", self._stored(buffer, value))
        self.named = before

    def _assignment(self, target: str, value: str) -> None:
        indent = "    " * self.depth
        text = f"{target}{value};"
        if len(indent) + len(text) <= 100:
            self.line(text)
            return
        self.lines.extend(
            wrap(
                text, 100, initial_indent=indent, subsequent_indent=indent + "    ",
                break_long_words=False, break_on_hyphens=False,
            )
        )  # fmt: skip

    def _stored(self, buffer: Buffer, value: Expr) -> str:
        if value.dtype == buffer.dtype and _needs_narrowing(value):
            return f"({buffer.dtype.c_name})({self.text(value)})"
        return self.text(value)

    def _element(self, buffer: Buffer, index: Expr) -> str:
        self.used.add(buffer.number)
        name = self.buffers[buffer.number][1]
        return name if buffer.space is Space.SCALAR else f"{name}[{self.text(index)}]"

    # Vectors

    def _dialect(self, register: Register) -> VectorDialect:
        dialect = vector_dialect(self.spelling.isa, register.dtype, register.lanes)
        assert dialect is not None, f"no vectors of {register.lanes} {register.dtype}"
        return dialect

    def _pointer(self, buffer: Buffer, index: Expr) -> str:
        self.used.add(buffer.number)
        name, position = self.buffers[buffer.number][1], self.text(index)
        return name if position == "0" else f"{name} + {position}"

    def _vector_load(self, load: VectorLoad) -> None:
        dialect, c_type = self._dialect(load.register), load.buffer.dtype.c_name
        start = simplify(load.index + load.first)
        if bounds(load.index)[0] < 0:
            pointer = pointer_before(self._pointer(load.buffer, start), load)
        else:
            pointer = self._pointer(load.buffer, load.index)
        text = loaded_text(dialect, pointer, load)
        if text is not None:
            self._assignment(f"{load.register.name} = ", text)
            if load.kept and dialect.lanes > 1:
                self.line(f"TASOR_KEEP({load.register.name});")
            return
        self.line("{")
        with self._scope():
            outside = _literal(load.outside, load.buffer.dtype, 0)
            zero = load.outside == 0
            values = "0" if zero else ", ".join([outside] * dialect.lanes)
            self._assignment(f"{c_type} part[{dialect.lanes}] = ", f"{{{values}}}")
            first = self._pointer(load.buffer, start)
            place = f"part + {load.first}" if load.first else "part"
            self.line(f"memcpy({place}, {first}, {load.count} * sizeof(part[0]));")
            self.line(f"{load.register.name} = {dialect.load.format(p='part')};")
        self.line("}")

    def _alternate(self, statement: Alternate) -> None:
        dialect, odd = self._dialect(statement.target), int(statement.odd)
        name = f"{('even', 'odd')[odd]}_{dialect.lanes}"
        if dialect.indices[odd]:
            self.constants[name] = dialect.indices[odd].format(i=name)
        low, high = statement.low.name, statement.high.name
        text = dialect.alternate[odd].format(a=low, b=high, i=name)
        self._assignment(f"{statement.target.name} = ", text)

    def _vector_store(self, store: VectorStore) -> None:
        dialect, count = self._dialect(store.register), store.count
        pointer, name = self._pointer(store.buffer, store.index), store.register.name
        text = dialect.stored(pointer, name, count)
        if text is not None:
            self.functions.update(functions_in(text))
            self.line(text)
        else:
            self.line("{")
            with self._scope():
                self.line(f"{store.buffer.dtype.c_name} part[{dialect.lanes}];")
                self.line(dialect.store.format(p="part", v=name))
                self.line(f"memcpy({pointer}, part, {count} * sizeof(part[0]));")
            self.line("}")

    # Terms

    def text(self, term: Expr, outer: int = 0) -> str:
        """The C text of a term, in parentheses if it binds less than `outer`."""
        name = self.named.get(term.digest)
        return name if name is not None else self._value(term, outer)

    def _value(self, term: Expr, outer: int = 0) -> str:
        match term:
            case Const(value=value, dtype=dtype):
                return _literal(value, dtype, outer)
            case Axis(position=position):
                return self.axes[position]
            case Load(operand=operand, indices=(index,)):
                return self._element(self.buffers[operand][0], index)
            case Apply():
                return self._apply(term, outer)
            case Cast():
                return self._cast(term, outer)
            case Select(condition=condition, then=then, otherwise=otherwise):
                text = (
                    f"{self.text(condition, 4)} ? {self.text(then, 4)} : {self.text(otherwise, 3)}"
                )
                return f"({text})" if outer > 3 else text
            case Load() | Reduce():
                raise AssertionError("loops hold flat loads and no reductions")
            case _:
                assert_never(term)

    def _call(self, op: str, dtype: DType, *args: Expr) -> str | None:
        function = c_function_for(op, dtype.name)
        if function is None:
            return None
        self.functions.add(function)
        return f"{function}({', '.join(self.text(arg) for arg in args)})"

    def _apply(self, term: Apply, outer: int) -> str:
        op, dtype = term.op, term.args[0].dtype
        if dtype == boolean and op.name in ("not", "bitnot"):
            return f"!{self.text(term.args[0], UNARY)}"
        if dtype == int64 and _is_index(term):
            text = self._index(term, outer)
            if text is not None:
                return text
        if op.symbol and (dtype.is_float or op.predicate or op.name in ("bitand", "bitor")):
            return self._infix(term, op.symbol, op.precedence, outer)
        if op.symbol and dtype == boolean:
            return self._infix(term, op.symbol, op.precedence, outer)
        if op.name == "neg" and dtype.is_float:
            inner = self.text(term.args[0], UNARY)
            # Two signs in a row would be the operator that decrements.
            text = f"-({inner})" if inner.startswith("-") else f"-{inner}"
            return _wrapped(text, UNARY, outer)
        if dtype.is_integer and op.name in ("add", "sub", "mul", "neg", "bitxor", "bitnot"):
            return self._wrapping(term, outer)
        if dtype.is_integer and op.name == "div" and dtype.kind is Kind.UNSIGNED:
            return self._narrowed(self._infix(term, "/", op.precedence, 0), dtype, outer)
        call = self._call(op.name, dtype, *term.args)
        assert call is not None, f"no C for {op.name} on {dtype}"
        return call

    def _infix(self, term: Apply, symbol: str, precedence: int, outer: int) -> str:
        # Mixed logic and bit operators get the parentheses that compilers warn about.
        mixed = symbol in ("&&", "||", "&", "|", "^")
        left = self.text(term.args[0], 11 if mixed else precedence)
        right = self.text(term.args[1], 11 if mixed else precedence + 1)
        return _wrapped(f"{left} {symbol} {right}", precedence, outer)

    def _index(self, term: Apply, outer: int) -> str | None:
        symbols = {"add": "+", "sub": "-", "mul": "*", "floordiv": "/", "mod": "%", "div": "/"}
        symbol = symbols.get(term.op.name)
        if symbol is None:
            return None
        if symbol in "/%" and (bounds(term.args[0])[0] < 0 or bounds(term.args[1])[0] <= 0):
            return None
        return self._infix(term, symbol, 12 if symbol in "+-" else 13, outer)

    def _wrapping(self, term: Apply, outer: int) -> str:
        """Integer arithmetic modulo 2**bits, through the unsigned type."""
        dtype = term.dtype
        wide = "uint64_t" if dtype.bits == 64 else "uint32_t"
        args = [f"({wide}){self.text(arg, UNARY)}" for arg in term.args]
        symbol = {"add": "+", "sub": "-", "mul": "*", "bitxor": "^"}.get(term.op.name)
        if symbol is not None:
            text = f"{args[0]} {symbol} {args[1]}"
        else:
            text = f"0u - {args[0]}" if term.op.name == "neg" else f"~{args[0]}"
        return _wrapped(f"({dtype.c_name})({text})", UNARY, outer)

    def _narrowed(self, text: str, dtype: DType, outer: int) -> str:
        return _wrapped(f"({dtype.c_name})({text})", UNARY, outer)

    def _cast(self, term: Cast, outer: int) -> str:
        source, target = term.arg.dtype, term.dtype
        if term.bits:
            return self._reinterpreted(term, outer)
        if target == boolean:
            zero = _literal(0.0 if source.is_float else 0, source, 0)
            return _wrapped(f"{self.text(term.arg, 10)} != {zero}", 9, outer)
        function = c_cast_for(source.name, target.name)
        if function is not None:
            self.functions.add(function)
            return f"{function}({self.text(term.arg)})"
        if target.is_half:
            # Integers and bool come through double, which holds or rounds them as float would.
            return self._cast(Cast(Cast(term.arg, float64), target), outer)
        if source.is_half:
            return self._cast(Cast(Cast(term.arg, float32), target), outer)
        return _wrapped(f"({target.c_name}){self.text(term.arg, UNARY)}", UNARY, outer)

    def _reinterpreted(self, term: Cast, outer: int) -> str:
        source, target = term.arg.dtype, term.dtype
        if source == target:
            return self.text(term.arg, outer)
        text = self.text(term.arg)
        if source.is_float and not source.is_half:
            function = f"tasor_bits_{_width(source)}"
            self.functions.add(function)
            return self._narrowed(f"{function}({text})", target, outer)
        if target.is_float and not target.is_half:
            function = f"tasor_from_bits_{_width(target)}"
            self.functions.add(function)
            unsigned = "uint64_t" if target.bits == 64 else "uint32_t"
            return f"{function}(({unsigned}){self.text(term.arg, UNARY)})"
        return self._narrowed(text, target, outer)


def _width(dtype: DType) -> str:
    return f"f{dtype.bits}"


def _wrapped(text: str, precedence: int, outer: int) -> str:
    return f"({text})" if precedence < outer else text


def _literal(value: int | float | bool, dtype: DType, outer: int) -> str:
    if dtype == int64 and -(2**31) < value < 2**31:
        text = str(int(value))
    elif dtype == int64:
        # The constant 9223372036854775808 fits no signed type, even with a minus before it.
        text = "INT64_MIN" if value == -(2**63) else f"INT64_C({int(value)})"
    else:
        text = number_literals(np.array([value], dtype.numpy))[0]
    return f"({text})" if text.startswith("-") and outer > 12 else text


def _is_index(term: Expr) -> bool:
    """True if the ranges of an int64 term are known, so that it cannot overflow."""
    return all(max(map(abs, bounds(t))) < UNBOUNDED for t in (term, *children(term)))


def _local_type(term: Expr) -> str:
    """The C type of a named term: indices have the machine's own width."""
    return "ptrdiff_t" if term.dtype == int64 and _is_index(term) else term.dtype.c_name


def _needs_narrowing(term: Expr) -> bool:
    """True if C computes a term in int although its type is narrower."""
    if term.dtype.bits >= 32:
        return False
    match term:
        case Load() | Const():
            return False
        case Cast(arg=arg):
            return term.dtype == boolean or arg.dtype == boolean
        case _:
            return True


def _label(term: Expr) -> str:
    match term:
        case Apply(op=op):
            return {"and": "both", "or": "either", "not": "negated"}.get(op.name, f"{op.name}")
        case Load():
            return "element"
        case Select():
            return "selected"
        case _:
            return "value"


def _shared_terms(value: Expr) -> tuple[Expr, ...]:
    """Subterms to name: used more than once, not trivial, and evaluated in any case.

    Innermost first. Terms inside a branch of a `Select` stay there unless they also occur outside:
    evaluating them always could read out of bounds.
    """
    uses: dict[bytes, int] = {}
    certain: set[bytes] = set()
    order: dict[bytes, Expr] = {}

    def visit(term: Expr, always: bool) -> None:
        uses[term.digest] = uses.get(term.digest, 0) + 1
        first = term.digest not in order
        upgraded = always and term.digest not in certain
        if always:
            certain.add(term.digest)
        if first or upgraded:
            match term:
                case Load() | Axis() | Const():
                    pass
                case Select(condition=condition):
                    visit(condition, always)
                    visit(term.then, False)
                    visit(term.otherwise, False)
                case _:
                    for child in children(term):
                        visit(child, always)
            order.setdefault(term.digest, term)

    visit(value, True)
    return tuple(
        term
        for digest, term in order.items()
        if uses[digest] > 1
        and digest in certain
        and isinstance(term, Apply | Select | Cast | Load)
        and not (isinstance(term, Cast) and isinstance(term.arg, Axis | Const))
    )

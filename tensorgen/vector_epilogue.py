"""The epilogue of a window in vector registers: what follows the fold, applied before the store.

What it does not: epilogues with functions or conversions, which go element by element
(`lower_window`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorgen.expr import Apply, Axis, Const, Expr, Load, Reduce, free_axes, substitute, walk
from tensorgen.loop import Buffer, Fill, Register, Stmt, VectorApply, VectorLoad
from tensorgen.lower_loops import replace_axes
from tensorgen.simplify import simplify_index
from tensorgen.window import Window

VECTOR_OPERATIONS = frozenset({"add", "sub", "mul", "div", "max", "min"})
"""Operators that an epilogue may use to stay in registers."""


@dataclass(frozen=True, slots=True)
class VectorEpilogue:
    """The epilogue of one tile in registers: what all rows share is computed once.

    Of the `lanes` of its vectors `count` are in use.
    """

    window: Window
    inputs: tuple[Buffer, ...]
    lanes: int
    count: int
    known: dict[Expr, Register] = field(default_factory=dict)
    uniform: dict[Expr, bool] = field(default_factory=dict)
    registers: list[Register] = field(default_factory=list)
    statements: list[Stmt] = field(default_factory=list)

    def value(self, term: Expr, accumulator: Register, place: dict[Axis, Expr]) -> Register:
        """The register that holds a term for one row of the tile."""
        if isinstance(term, Load) and term.operand == self.window.window_operand:
            return accumulator
        uniform = self.uniform.get(term)
        if uniform is None:
            uniform = self.uniform[term] = _is_uniform(term, self.window)
        if uniform:
            scalar = self._located(replace_axes(term, place))
            if scalar not in self.known:
                self.known[scalar] = self._register()
                self.statements.append(Fill(self.known[scalar], scalar))
            return self.known[scalar]
        match term:
            case Load(operand=operand, indices=(index,)):
                register = self._register()
                at, count = replace_axes(index, place), self.count
                self.statements.append(VectorLoad(register, self.inputs[operand], at, count))
                return register
            case Apply(op=op, args=(left, right)):
                first = self.value(left, accumulator, place)
                second = self.value(right, accumulator, place)
                # What is not needed again is overwritten.
                target = accumulator if accumulator in (first, second) else self._register()
                name = _operation(op.name, right)
                self.statements.append(VectorApply(name, target, first, second))
                return target
            case _:
                raise AssertionError("the epilogue does not stay in registers")

    def _register(self) -> Register:
        name = f"value_{len(self.registers)}"
        register = Register(name, self.window.dtype, self.lanes)
        self.registers.append(register)
        return register

    def _located(self, term: Expr) -> Expr:
        """The term over the kernel's buffers."""
        return substitute(
            term,
            lambda t: self.inputs[t.operand].at(t.indices[0]) if isinstance(t, Load) else None,
        )


def _operation(name: str, right: Expr) -> str:
    """The vector operation: a bound that is no NaN needs no care."""
    known = isinstance(right, Const) and right.value == right.value
    return f"{name}_number" if known and name in ("max", "min") else name


def _is_uniform(term: Expr, window: Window) -> bool:
    """True if a term of the epilogue is the same in all lanes."""
    if window.columns.output in free_axes(term):
        return False
    return all(not isinstance(t, Load) or t.operand != window.window_operand for t in walk(term))


def stays_in_registers(window: Window, output: Buffer) -> bool:
    """True if vector instructions compute the whole epilogue, which uses the fold once."""
    uses = 0

    def fits(term: Expr) -> bool:
        nonlocal uses
        if term.dtype != window.dtype:
            return False
        if isinstance(term, Load) and term.operand == window.window_operand:
            uses += 1
            return True
        if _is_uniform(term, window):
            return not any(isinstance(t, Reduce) for t in walk(term))
        match term:
            case Load(indices=(index,)):
                form = simplify_index(index)
                column = window.columns.output
                plain = all(
                    isinstance(a, Axis) or column not in free_axes(a) for a, _ in form.terms
                )
                return plain and form.coefficient(column) == 1
            case Apply(op=op, args=args):
                return op.name in VECTOR_OPERATIONS and all(map(fits, args))
            case _:
                return False

    return output.dtype == window.dtype and fits(window.epilogue) and uses == 1

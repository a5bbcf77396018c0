"""The C text of terms: indices, conditions and the arithmetic on elements.

Index terms are printed as they are: their ranges are known, so they cannot overflow; integer data
wraps by going through unsigned arithmetic. Parentheses are printed where precedence asks for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from tensorgen.c_function import CFunction
from tensorgen.c_functions import c_cast_for, c_function_for
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
)
from tensorgen.loop import Buffer, Space
from tensorgen.module_text import number_literals
from tensorgen.simplify import UNBOUNDED, bounds
from tensorgen.types import DType, Kind, boolean, float32, float64, int64

UNARY = 14
"""Precedence of a prefix operator or cast."""


@dataclass(slots=True)
class Terms:
    """What terms are spelled with inside one function, and what their text has asked for.

    `axes`, `buffers` and `named` say what a loop variable, a buffer (by its number) and a term (by
    its digest) is called where the next statement stands; `used` and `functions` collect the
    buffers that the text reads or writes and the C functions of ours that it calls, `made` those
    that were made for it. `counts` has the loops, by their variables, that run as often as the
    caller of the function says.
    """

    axes: dict[int, str] = field(default_factory=dict)
    counts: dict[int, str] = field(default_factory=dict)
    buffers: dict[int, tuple[Buffer, str]] = field(default_factory=dict)
    named: dict[bytes, str] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    made: dict[str, CFunction] = field(default_factory=dict)
    _indices: dict[tuple[bytes, int], str] = field(default_factory=dict)

    def name_axis(self, axis: Axis, name: str) -> None:
        """What a loop variable is called from here on."""
        if self.axes.get(axis.position, name) != name:
            self._indices.clear()
        self.axes[axis.position] = name

    def name_buffer(self, buffer: Buffer, name: str) -> None:
        """What a buffer is called from here on."""
        if self.buffers.get(buffer.number, (buffer, name))[1] != name:
            self._indices.clear()
        self.buffers[buffer.number] = (buffer, name)

    def text(self, term: Expr, outer: int = 0) -> str:
        """The C text of a term, in parentheses if it binds less than `outer`."""
        name = self.named.get(term.digest)
        return name if name is not None else self._value(term, outer)

    def _value(self, term: Expr, outer: int = 0) -> str:
        match term:
            case Const(value=value, dtype=dtype):
                return literal_text(value, dtype, outer)
            case Axis(position=position):
                return self.axes[position]
            case Load(operand=operand, indices=(index,)):
                return self.element(self.buffers[operand][0], index)
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
        if dtype == int64:
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
        """The text of a term whose ranges are known; None if it has other operations or ranges.
        Tiles have many indices that begin alike: what they have in common is printed once."""
        known = None if self.named else self._indices.get((term.digest, outer))
        if known is not None:
            return known
        symbols = {"add": "+", "sub": "-", "mul": "*", "floordiv": "/", "mod": "%", "div": "/"}
        symbol = symbols.get(term.op.name)
        if symbol is None or not is_index(term):
            return None
        if symbol in "/%" and (bounds(term.args[0])[0] < 0 or bounds(term.args[1])[0] <= 0):
            return None
        text = self._infix(term, symbol, 12 if symbol in "+-" else 13, outer)
        if not self.named:
            self._indices[term.digest, outer] = text
        return text

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
            zero = literal_text(0.0 if source.is_float else 0, source)
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
            function = f"tasor_bits_f{source.bits}"
            self.functions.add(function)
            return self._narrowed(f"{function}({text})", target, outer)
        if target.is_float and not target.is_half:
            function = f"tasor_from_bits_f{target.bits}"
            self.functions.add(function)
            unsigned = "uint64_t" if target.bits == 64 else "uint32_t"
            return f"{function}(({unsigned}){self.text(term.arg, UNARY)})"
        return self._narrowed(text, target, outer)

    def stored(self, buffer: Buffer, value: Expr) -> str:
        """The text of a value that is stored into a buffer."""
        if value.dtype == buffer.dtype and _needs_narrowing(value):
            return f"({buffer.dtype.c_name})({self.text(value)})"
        return self.text(value)

    def element(self, buffer: Buffer, index: Expr) -> str:
        """The text of one element of a buffer, to read or to assign to."""
        self.used.add(buffer.number)
        name = self.buffers[buffer.number][1]
        return name if buffer.space is Space.SCALAR else f"{name}[{self.text(index)}]"

    def pointer(self, buffer: Buffer, index: Expr) -> str:
        """The text of the address of an element."""
        self.used.add(buffer.number)
        name, position = self.buffers[buffer.number][1], self.text(index)
        return name if position == "0" else f"{name} + {position}"


def _wrapped(text: str, precedence: int, outer: int) -> str:
    return f"({text})" if precedence < outer else text


def literal_text(value: int | float | bool, dtype: DType, outer: int = 0) -> str:
    """A number as a C constant of that type, in parentheses if a sign binds less than `outer`."""
    if dtype == int64 and -(2**31) < value < 2**31:
        text = str(int(value))
    elif dtype == int64:
        # The constant 9223372036854775808 fits no signed type, even with a minus before it.
        text = "INT64_MIN" if value == -(2**63) else f"INT64_C({int(value)})"
    else:
        text = number_literals(np.array([value], dtype.numpy))[0]
    return f"({text})" if text.startswith("-") and outer > 12 else text


def is_index(term: Expr) -> bool:
    """True if the ranges of an int64 term are known, so that it cannot overflow."""
    return all(max(map(abs, bounds(t))) < UNBOUNDED for t in (term, *children(term)))


def local_type(term: Expr) -> str:
    """The C type of a named term: indices have the machine's own width."""
    return "ptrdiff_t" if term.dtype == int64 and is_index(term) else term.dtype.c_name


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

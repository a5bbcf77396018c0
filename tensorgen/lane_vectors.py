"""Lane loops in vector intrinsics, where compilers make less of the plain loop.

What it does: says whether an instruction set has functions of its own for what a lane loop
computes, and prints the statements of its body on whole vectors or on the first lanes of one. What
it does not: print the loop around them, or anything that compilers vectorize as well themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tensorgen.dialects import VectorDialect, vector_dialect
from tensorgen.expr import Apply, Expr, Fold, Load, free_axes, walk
from tensorgen.loop import Buffer, For, Store
from tensorgen.simplify import affine
from tensorgen.types import float32

_OPERATIONS: Mapping[str, Mapping[str, str]] = MappingProxyType({
    "avx512": MappingProxyType({
        "add": "_mm512_add_ps({0}, {1})",
        "sub": "_mm512_sub_ps({0}, {1})",
        "mul": "_mm512_mul_ps({0}, {1})",
        "div": "_mm512_div_ps({0}, {1})",
        "sqrt": "_mm512_sqrt_ps({0})",
        "max": "tasor_max_f32x16({0}, {1})",
        "min": "tasor_min_f32x16({0}, {1})",
        "exp": "tasor_exp_f32x16({0})",
        "sigmoid": "tasor_sigmoid_f32x16({0})",
        "tanh": "tasor_tanh_f32x16({0})",
        "erf": "tasor_erf_f32x16({0})",
        "max_number": "_mm512_max_ps({1}, {0})",
        "quotient": "tasor_quotient_f32x16({0}, {1}, {2})",
        "proper_quotient": "tasor_proper_quotient_f32x16({0}, {1}, {2})",
    }),
})  # fmt: skip
"""How an instruction set spells scalar operators on vectors of float32, as templates."""

_BETTER = frozenset({"exp", "sigmoid", "tanh", "erf", "max_number", "quotient", "proper_quotient"})
"""The operators for which these templates are faster than what compilers make of a loop."""


_FOLDS: Mapping[tuple[str, str, int], Mapping[Fold, str]] = MappingProxyType({
    ("avx512", "float32", 32): MappingProxyType({
        Fold.SUM: "tasor_sum_of_lanes_f32x32",
        Fold.MAX: "tasor_max_of_lanes_f32x32",
        Fold.MIN: "tasor_min_of_lanes_f32x32",
    }),
})  # fmt: skip
"""The C functions that fold so many lanes in an array of an element type into one value."""


def fold_function(isa: str, lanes: Buffer, fold: Fold) -> str | None:
    """The C function with which an instruction set folds lane accumulators; None without one."""
    return _FOLDS.get((isa, lanes.dtype.name, lanes.size), {}).get(fold)


_TRANSPOSES: Mapping[tuple[str, str, int], str] = MappingProxyType({
    ("avx512", "float32", 16): "tasor_transpose_f32_16x16",
    ("avx2", "float32", 8): "tasor_transpose_f32_8x8",
})  # fmt: skip
"""The C functions that transpose a block of so many rows and columns."""


def transpose_function(isa: str, source: Buffer, size: int) -> str | None:
    """The C function with which an instruction set transposes a block of a buffer; None without
    one."""
    return _TRANSPOSES.get((isa, source.dtype.name, size))


@dataclass(frozen=True, slots=True)
class LaneVectors:
    """The vector form of one lane loop."""

    loop: For
    dialect: VectorDialect
    operations: Mapping[str, str]

    @staticmethod
    def of(loop: For, isa: str) -> LaneVectors | None:
        """The vector form of a loop if the instruction set has one that is better."""
        operations = _OPERATIONS.get(isa)
        dialect = vector_dialect(isa, float32)
        if operations is None or dialect is None:
            return None
        form = LaneVectors(loop, dialect, operations)
        better = any(
            isinstance(term, Apply) and term.op.name in _BETTER
            for statement in loop.body
            if isinstance(statement, Store)
            for term in walk(statement.value)
        )
        return form if better and all(map(form._has_vectors, loop.body)) else None

    def _has_vectors(self, statement: object) -> bool:
        match statement:
            case Store(buffer=buffer, index=index, value=value):
                return self._is_vector(buffer.at(index)) and self._is_vector(value)
            case _:
                return False

    def _is_vector(self, term: Expr) -> bool:
        """True if a float32 term is the same in all lanes or has a vector form."""
        if term.dtype != float32:
            return False
        if self.loop.axis not in free_axes(term):
            return True
        match term:
            case Load(indices=(index,)):
                others = affine(index).plus(affine(self.loop.axis).scaled(-1))
                return not any(self.loop.axis in free_axes(atom) for atom, _ in others.terms)
            case Apply(op=op, args=args):
                return op.name in self.operations and all(map(self._is_vector, args))
            case _:
                return False

    def functions(self) -> frozenset[str]:
        """The C functions that the statements call."""
        return frozenset(
            name
            for statement in self.loop.body
            if isinstance(statement, Store)
            for term in walk(statement.value)
            if isinstance(term, Apply)
            and self.loop.axis in free_axes(term)
            and term.op.name in self.operations
            for name in re.findall(r"tasor_\w+", self.operations[term.op.name])
        )

    def statements(
        self,
        count: int,
        scalar: Callable[[Expr], str],
        pointer: Callable[[int, Expr], str],
        fresh: Callable[[str], str],
    ) -> Iterator[str]:
        """The C statements for the first `count` lanes of a vector; the loop's axis is its start.

        `scalar` prints a term that is the same in all lanes, `pointer` the address of an element of
        a buffer by its number, `fresh` makes a name.
        """
        mask = f"0x{(1 << count) - 1:X}"
        whole = count == self.dialect.lanes
        stored: dict[bytes, str] = {}

        def text(term: Expr) -> str:
            if term.digest in stored:
                return stored[term.digest]
            if self.loop.axis not in free_axes(term):
                return self.dialect.fill.format(x=scalar(term))
            match term:
                case Load(operand=operand, indices=(index,)):
                    template = self.dialect.load if whole else self.dialect.load_partial
                    assert template is not None
                    return template.format(p=pointer(operand, index), m=mask)
                case Apply(op=op, args=args):
                    return self.operations[op.name].format(*map(text, args))
                case _:
                    raise AssertionError("the term has no vector form")

        template = self.dialect.store if whole else self.dialect.store_partial
        assert template is not None
        for statement in self.loop.body:
            assert isinstance(statement, Store)
            name = fresh(_name(statement.buffer))
            yield f"const {self.dialect.type} {name} = {text(statement.value)};"
            yield template.format(
                p=pointer(statement.buffer.number, statement.index), m=mask, v=name
            )
            stored[statement.buffer.at(statement.index).digest] = name


def _name(buffer: Buffer) -> str:
    return f"{buffer.name}_lanes"

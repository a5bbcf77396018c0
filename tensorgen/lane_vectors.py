"""Lane loops in vector intrinsics, where compilers make less of the plain loop.

What it does: says whether a lane loop is to be in vectors of an instruction set, and prints the
statements of its body on whole vectors or on the first lanes of one. What it does not: print the
loop around them, or anything that compilers vectorize as well themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tensorgen.dialects import VectorDialect, vector_dialect
from tensorgen.expr import Apply, Expr, Fold, Load, free_axes, walk
from tensorgen.loop import (
    Buffer,
    For,
    SoftmaxRows,
    Space,
    Store,
    TransposeBlock,
    TransposeSums,
)
from tensorgen.simplify import affine
from tensorgen.types import float32
from tensorgen.vector_spelling import FOLDED_LANES, VECTOR_SPELLINGS

_WORDS = ("add", "sub", "mul", "div", "sqrt", "max_number")
_FUNCTIONS = {
    **dict.fromkeys(("max", "min"), "({0}, {1})"),
    **dict.fromkeys(("exp", "exp_nonpositive", "sigmoid", "tanh", "erf"), "({0})"),
    **dict.fromkeys(("quotient", "rescaled"), "({0}, {1}, {2})"),
}
_OPERATIONS: Mapping[str, Mapping[str, str]] = MappingProxyType({
    isa: MappingProxyType({
        **{word: spelling.words[word] for word in _WORDS},
        **{name: f"tasor_{name}_{spelling.suffix}{arguments}"
           for name, arguments in _FUNCTIONS.items()},
    })
    for isa, spelling in VECTOR_SPELLINGS.items()
})  # fmt: skip
"""How an instruction set spells scalar operators on vectors of float32, as templates."""

_BETTER = frozenset({
    "exp", "exp_nonpositive", "sigmoid", "tanh", "erf", "max_number", "quotient", "rescaled",
})  # fmt: skip
"""The operators for which these templates are faster than what compilers make of a loop."""


_BLENDS: Mapping[str, str] = MappingProxyType(
    {
        "avx512": "_mm512_mask_mov_ps({old}, (__mmask16){m}, {v})",
        "avx2": "_mm256_blend_ps({old}, {v}, {m})",
    }
)
"""How an instruction set spells a vector with the first lanes of another."""

_FOLDS: Mapping[tuple[str, str, int], Mapping[Fold, str]] = MappingProxyType({
    (isa, "float32", lanes): MappingProxyType({
        fold: f"tasor_{fold.name.lower()}_of_{lanes}_lanes_{suffix}"
        for fold in (Fold.SUM, Fold.MAX, Fold.MIN)
    })
    for isa, suffix in (("avx512", "f32"), ("avx2", "f32x8"))
    for lanes in FOLDED_LANES[isa]
})  # fmt: skip
"""The C functions that fold so many lanes in an array of an element type into one value."""


def fold_function(isa: str, lanes: Buffer, fold: Fold) -> str | None:
    """The C function with which an instruction set folds lane accumulators; None without one."""
    return _FOLDS.get((isa, lanes.dtype.name, lanes.size), {}).get(fold)


STREAM_FUNCTION = {
    spelling.lanes: f"tasor_stream_{spelling.suffix}" for spelling in VECTOR_SPELLINGS.values()
}
"""The C functions that store a vector of so many float32 past the caches."""

STREAM_FENCE = "_mm_sfence();"
"""Behind what was streamed, before others are told of it: such stores keep no order of their own.
Between threads of a team, the barriers, which are locked instructions, are as good."""


_TRANSPOSES: Mapping[tuple[str, str, int], Mapping[int, str]] = MappingProxyType({
    ("avx512", "float32", 16): {4: "tasor_transpose_4x16_f32", 16: "tasor_transpose_16x16_f32"},
    ("avx2", "float32", 8): {4: "tasor_transpose_4x8_f32", 8: "tasor_transpose_8x8_f32"},
})  # fmt: skip
"""The C functions that transpose a block of so many columns, by the most rows."""


def transpose_function(isa: str, block: TransposeBlock) -> str | None:
    """The C function with which an instruction set transposes a block; None without one."""
    functions = _TRANSPOSES.get((isa, block.source.dtype.name, block.lanes), {})
    return next((name for rows, name in functions.items() if block.rows <= rows), None)


def whole_transpose_function(isa: str, block: TransposeBlock) -> str | None:
    """The C function with which an instruction set transposes a block that is as large as blocks
    can be, and square; None for any other one, or without one."""
    function = transpose_function(isa, block)
    if function is None or not block.rows == block.columns == block.lanes:
        return None
    return f"tasor_transpose_whole_{block.lanes}x{block.lanes}_f32"


def transpose_sum_function(isa: str, sums: TransposeSums) -> str | None:
    """The C function with which an instruction set transposes a block and multiplies rows with its
    columns; None without one."""
    block = sums.block
    dialect = vector_dialect(isa, block.source.dtype)
    if dialect is None or len(sums.sums) != dialect.summed_rows or block.lanes != dialect.lanes:
        return None
    return f"tasor_transpose_sum_{dialect.summed_rows}x{dialect.lanes}_f32"


def softmax_function(isa: str, rows: SoftmaxRows) -> tuple[str, int] | None:
    """The C function with which an instruction set computes the softmax of rows, and the lanes of
    their last vector; None without one."""
    dialect = vector_dialect(isa, rows.source.dtype)
    if dialect is None or rows.columns > dialect.held_vectors * dialect.lanes:
        return None
    vectors = -(-rows.columns // dialect.lanes)
    lanes = rows.columns - (vectors - 1) * dialect.lanes
    return f"tasor_softmax_rows_{vectors}_f32x{dialect.lanes}", lanes


@dataclass(frozen=True, slots=True)
class LaneVectors:
    """The vector form of one lane loop."""

    loop: For
    dialect: VectorDialect
    operations: Mapping[str, str]
    blend: str

    @staticmethod
    def of(loop: For, isa: str) -> LaneVectors | None:
        """The vector form of a loop if the instruction set has one that is better.

        It is where the loop is whole vectors: compilers make several of such loops into one, or one
        into several, and keep sums in memory between them. Of loops that are not, it is where there
        are functions for what they compute.
        """
        operations = _OPERATIONS.get(isa)
        dialect = vector_dialect(isa, float32)
        if operations is None or dialect is None:
            return None
        form = LaneVectors(loop, dialect, operations, _BLENDS[isa])
        whole = loop.axis.extent % dialect.lanes == 0
        better = whole or form._has_functions()
        return form if better and all(map(form._has_vectors, loop.body)) else None

    def _has_functions(self) -> bool:
        """Whether a plain loop would be slower though its last vector is none."""
        stores = [statement for statement in self.loop.body if isinstance(statement, Store)]
        return any(store.streamed or self._adds_to_lanes(store) for store in stores) or any(
            isinstance(term, Apply) and term.op.name in _BETTER
            for store in stores
            for term in walk(store.value)
        )

    def _adds_to_lanes(self, store: Store) -> bool:
        """Whether the loop changes the first elements of a local array that has a whole vector from
        there on. Read and stored as a whole it stays in a register; a part that is stored could not
        be read again with the rest before it is in the cache."""
        buffer, index = store.buffer, store.index
        first = affine(index).plus(affine(self.loop.axis).scaled(-1))
        return (
            buffer.space is Space.STACK
            and self.loop.axis.extent < self.dialect.lanes
            and not first.terms
            and first.constant + self.dialect.lanes <= buffer.size
            and any(term == buffer.at(index) for term in walk(store.value))
        )

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
        signs = ", ".join("-1" if n < count else "0" for n in range(self.dialect.lanes))
        whole = count == self.dialect.lanes
        part_load = self.dialect.load_partial or self.dialect.load_signed
        stored: dict[bytes, str] = {}
        stores = [statement for statement in self.loop.body if isinstance(statement, Store)]
        kept = {s.buffer.at(s.index).digest for s in stores if self._adds_to_lanes(s)}

        def text(term: Expr) -> str:
            if term.digest in stored:
                return stored[term.digest]
            if self.loop.axis not in free_axes(term):
                return self.dialect.fill.format(x=scalar(term))
            match term:
                case Load(operand=operand, indices=(index,)):
                    full = whole or term.digest in kept
                    template = self.dialect.load if full else part_load
                    assert template is not None, "lanes can be left out"
                    return template.format(p=pointer(operand, index), m=mask, s=signs)
                case Apply(op=op, args=args):
                    return self.operations[op.name].format(*map(text, args))
                case _:
                    raise AssertionError("the term has no vector form")

        for statement in stores:
            name = fresh(_name(statement.buffer))
            yield f"const {self.dialect.type} {name} = {text(statement.value)};"
            place = pointer(statement.buffer.number, statement.index)
            store = self.dialect.stored(place, name, count)
            if statement.buffer.at(statement.index).digest in kept:
                old = self.dialect.load.format(p=place)
                blended = self.blend.format(old=old, m=mask, v=name)
                yield self.dialect.store.format(p=place, v=blended)
            elif statement.streamed and whole:
                yield f"{STREAM_FUNCTION[self.dialect.lanes]}({place}, {name});"
            elif store is not None:
                yield store
            else:
                part = fresh(f"{statement.buffer.name}_part")
                yield f"{statement.buffer.dtype.c_name} {part}[{self.dialect.lanes}];"
                yield self.dialect.store.format(p=part, v=name)
                yield f"memcpy({place}, {part}, {count} * sizeof({part}[0]));"
            stored[statement.buffer.at(statement.index).digest] = name


def _name(buffer: Buffer) -> str:
    return f"{buffer.name}_lanes"

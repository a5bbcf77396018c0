"""The instructions of x86-64 for statements on vectors of float32, under AVX2 and AVX-512.

What it does: says what a statement takes besides the registers that it names, which loads an
instruction can do itself, and spells each with the machine's registers and addresses that it is
given, in constants that it names. The results are those of the intrinsics in `dialects`, bit by
bit. What it does not: choose registers, or know what addresses are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from tensorgen.dialects import VectorDialect, vector_dialect
from tensorgen.emit_vectors import mask_text
from tensorgen.expr import Const, Load
from tensorgen.loop import (
    Alternate,
    Fill,
    MultiplyAdd,
    Prefetch,
    Register,
    VectorApply,
    VectorLoad,
    VectorStore,
)
from tensorgen.target import Isa
from tensorgen.tune.assembly_page import NoAssembly
from tensorgen.tune.streams import ELEMENT_BYTES
from tensorgen.tune.vector_steps import NOTHING, LaneMask, Needs, Plain, SpreadStore
from tensorgen.types import float32

_WIDTHS = {4: "x", 8: "y", 16: "z"}
_ISAS = ("avx2", "avx512")

_MOST_MASKS = 6
"""Registers of masks under AVX-512 that stay as they are."""

_QUARTER = 4
"""Lanes of which single ones can be stored."""

_FREE_MASK = "k7"

_EVEN, _ODD = 0x88, 0xDD
"""The elements of two vectors that a shuffle takes, of each half by itself."""

_HALVES_IN_ORDER = 0xD8
"""Pairs of elements 0, 2, 1, 3."""

_ARITHMETIC = {"add": "vaddps", "sub": "vsubps", "mul": "vmulps", "div": "vdivps"}
_LIMITS = {"max": "vmaxps", "min": "vminps"}
_SWAPPED_LIMITS = {f"{name}_number": text for name, text in _LIMITS.items()}
_COMMUTE = frozenset(("add", "mul"))


def has_vectors(isa: Isa) -> bool:
    """Whether there are instructions for this instruction set here."""
    return isa in _ISAS


def widest(isa: Isa) -> int:
    """Lanes of the widest vectors."""
    return _dialect(isa).lanes


def register_count(isa: Isa) -> int:
    """Vector registers of the machine."""
    return _dialect(isa).registers


def needs_of(isa: Isa, statement: Plain) -> Needs:
    """What a statement takes besides. Raises NoAssembly for one without instructions here."""
    plain = isa == "avx2"
    match statement:
        case MultiplyAdd(target=target):
            _check(isa, target)
            return NOTHING
        case VectorLoad(register=register, buffer=buffer, count=count):
            _check(isa, register)
            if buffer.dtype != float32:
                raise NoAssembly
            if count == register.lanes:
                return NOTHING
            read = range(statement.first, statement.first + count)
            return Needs(masks=((register.lanes, read),))
        case VectorStore(register=register, buffer=buffer, count=count):
            _check(isa, register)
            if buffer.dtype != float32:
                raise NoAssembly
            if count == register.lanes:
                return NOTHING
            if plain:
                return Needs(spare=int(count > 4))
            return Needs(masks=((register.lanes, range(count)),))
        case SpreadStore(register=register, buffer=buffer, count=count):
            _check(isa, register)
            if buffer.dtype != float32:
                raise NoAssembly
            return Needs(spare=int(count > _QUARTER))
        case VectorApply(operation=operation, target=target, left=left):
            _check(isa, target)
            if operation in _LIMITS:
                return Needs(spare=1 + (target == left) if plain else 0, long=True)
            if operation not in _ARITHMETIC and operation not in _SWAPPED_LIMITS:
                raise NoAssembly
            return NOTHING
        case Alternate(target=target, low=low, high=high):
            _check(isa, target)
            by_index = not plain and target.lanes > 4
            return Needs(spare=int(by_index and target in (low, high)), long=True)
        case Fill(register=register, value=value):
            _check(isa, register)
            if value.dtype != float32 or not isinstance(value, Const | Load):
                raise NoAssembly
            return NOTHING
        case Prefetch(buffer=buffer):
            if buffer.dtype.bytes != ELEMENT_BYTES:
                raise NoAssembly
            return NOTHING
        case _:
            assert_never(statement)


def _check(isa: Isa, register: Register) -> None:
    if register.dtype != float32 or vector_dialect(isa, float32, register.lanes) is None:
        raise NoAssembly


def _dialect(isa: Isa) -> VectorDialect:
    found = vector_dialect(isa, float32)
    assert found is not None, "there are vectors of float32"
    return found


def folds(isa: Isa, reader: Plain, load: Plain) -> Sequence[int]:
    """At which places among what it reads an instruction can do a load itself."""
    match load:
        case VectorLoad(register=register, count=count) if count < register.lanes:
            return ()
        case Fill() if isa == "avx2":
            return ()
        case _:
            pass
    match reader:
        case MultiplyAdd():
            return (0, 1)
        case VectorApply(operation=operation) if operation in _COMMUTE:
            return (0, 1)
        case VectorApply(operation=operation) if operation in _ARITHMETIC:
            return (1,)
        case VectorApply(operation=operation) if operation in _SWAPPED_LIMITS:
            return (0,)
        case _:
            return ()


@dataclass(slots=True)
class Constants:
    """Vectors, and the labels that they are found at in memory, behind a function."""

    label: Callable[[], str]
    labels: dict[tuple[int, ...], str] = field(default_factory=dict)

    def place(self, words: Sequence[int]) -> str:
        """The address of words of 32 bits."""
        key = tuple(words)
        if key not in self.labels:
            self.labels[key] = self.label()
        return f"[rip + {self.labels[key]}]"

    def lines(self) -> Iterator[str]:
        """The definitions of all of them, the longest first."""
        for words, label in sorted(self.labels.items(), key=lambda pair: -len(pair[0])):
            yield f"\t.balign {4 * len(words)}"
            yield f"{label}:"
            yield f"\t.long {', '.join(f'0x{word & 0xFFFFFFFF:X}' for word in words)}"


@dataclass(slots=True)
class VectorInstructions:
    """Spells statements for an instruction set. `mask_registers` are the registers that have masks:
    under AVX2 vectors, for those masks that are in one; under AVX-512 all of them."""

    isa: Isa
    constants: Constants
    mask_registers: dict[LaneMask, str]

    def masks_loaded(self) -> Iterator[str]:
        """What stands in front of everything."""
        for mask, register in self.mask_registers.items():
            lanes, read = mask
            if self.isa == "avx2":
                yield f"vmovups {register}, {self.constants.place(_signs(lanes, read))}"
            else:
                yield f"mov eax, {mask_text(read)}"
                yield f"kmovw {register}, eax"

    def loaded(self, load: VectorLoad, register: int, address: str) -> Iterator[str]:
        """A load from an address."""
        lanes, count, outside = load.register.lanes, load.count, load.outside
        name = vector(register, lanes)
        if count == lanes:
            yield f"vmovups {name}, {address}"
            return
        read = range(load.first, load.first + count)
        others = [0 if lane in read else _bits(outside) for lane in range(lanes)]
        mask = self.mask_registers.get((lanes, read))
        if self.isa == "avx2":
            if mask is None:
                yield f"vmovups {name}, {self.constants.place(_signs(lanes, read))}"
                mask = name
            yield f"vmaskmovps {name}, {mask}, {address}"
            if any(others):
                yield f"vorps {name}, {name}, {self.constants.place(others)}"
        elif any(others):
            yield f"vmovups {name}, {self.constants.place(others)}"
            yield f"vmovups {name}{{{mask}}}, {address}"
        else:
            yield f"vmovups {name}{{{mask}}}{{z}}, {address}"

    def stored(
        self, store: VectorStore, register: int, spare: Sequence[int], address: Callable[[int], str]
    ) -> Iterator[str]:
        """A store to an address, so many bytes behind which others are."""
        lanes, count = store.register.lanes, store.count
        name = vector(register, lanes)
        if count == lanes:
            yield f"vmovups {address(0)}, {name}"
        elif self.isa != "avx2":
            mask = self.mask_registers[lanes, range(count)]
            yield f"vmovups {address(0)}{{{mask}}}, {name}"
        else:
            part, done = vector(register, 4), 0
            if count >= 4:
                yield f"vmovups {address(0)}, {part}"
                done = 4
                if count > 4:
                    part = vector(spare[0], 4)
                    yield f"vextractf128 {part}, {name}, 1"
            if count - done >= 2:
                yield f"vmovlps qword ptr {address(4 * done)}, {part}"
                done += 2
            if count > done:
                yield f"vextractps dword ptr {address(4 * done)}, {part}, {done % 4}"

    def spread(
        self, store: SpreadStore, register: int, spare: Sequence[int], address: Callable[[int], str]
    ) -> Iterator[str]:
        """A store of each lane by itself."""
        part = vector(register, _QUARTER)
        for lane in range(store.count):
            quarter, place = divmod(lane, _QUARTER)
            if quarter and place == 0:
                part = vector(spare[0], _QUARTER)
                whole = vector(register, store.register.lanes)
                extract = "vextractf128" if self.isa == "avx2" else "vextractf32x4"
                yield f"{extract} {part}, {whole}, {quarter}"
            to = f"dword ptr {address(ELEMENT_BYTES * store.apart * lane)}"
            yield f"vextractps {to}, {part}, {place}" if place else f"vmovss {to}, {part}"

    def filled(self, fill: Fill, register: int, address: str | None) -> Iterator[str]:
        """A register full of a number, or of the element at an address."""
        name = vector(register, fill.register.lanes)
        if address is None:
            assert isinstance(fill.value, Const), "others are loads"
            bits = _bits(fill.value.value)
            if bits == 0:
                yield (
                    f"vxorps {name}, {name}, {name}"
                    if register < 16
                    else (f"vpxord {name}, {name}, {name}")
                )
                return
            address = self.constants.place((bits,))
        yield f"vbroadcastss {name}, dword ptr {address}"

    def memory_operand(self, load: Plain, address: str) -> str:
        """A load as an operand of an instruction that does it itself."""
        match load:
            case Fill(register=register):
                return f"dword ptr {address}{{1to{register.lanes}}}"
            case _:
                return address

    def multiplied(self, statement: MultiplyAdd, target: int, operands: list[str]) -> str:
        """`target += operands[0] * operands[1]`, one of which may be in memory."""
        left, right = operands
        if "[" in left:
            left, right = right, left
        return f"vfmadd231ps {vector(target, statement.target.lanes)}, {left}, {right}"

    def applied(
        self, statement: VectorApply, target: int, operands: list[str], spare: Sequence[int]
    ) -> Iterator[str]:
        """An operation on two operands; of limits, what is no number is the result."""
        lanes, operation = statement.target.lanes, statement.operation
        name = vector(target, lanes)
        left, right = operands
        if operation in _ARITHMETIC:
            if "[" in left:
                left, right = right, left
            yield f"{_ARITHMETIC[operation]} {name}, {left}, {right}"
        elif operation in _SWAPPED_LIMITS:
            yield f"{_SWAPPED_LIMITS[operation]} {name}, {right}, {left}"
        elif self.isa == "avx2":
            unordered, *rest = (vector(number, lanes) for number in spare)
            limit = rest[0] if rest else name
            yield f"vcmpunordps {unordered}, {left}, {left}"
            yield f"{_LIMITS[operation]} {limit}, {left}, {right}"
            yield f"vblendvps {name}, {limit}, {left}, {unordered}"
        elif left == name:
            yield f"vcmpordps {_FREE_MASK}, {left}, {left}"
            yield f"{_LIMITS[operation]} {name}{{{_FREE_MASK}}}, {left}, {right}"
        else:
            yield f"vcmpunordps {_FREE_MASK}, {left}, {left}"
            yield f"{_LIMITS[operation]} {name}, {left}, {right}"
            yield f"vmovaps {name}{{{_FREE_MASK}}}, {left}"

    def alternated(
        self, statement: Alternate, target: int, both: Sequence[int], spare: Sequence[int]
    ) -> Iterator[str]:
        """The even or the odd lanes of two registers."""
        lanes, odd = statement.target.lanes, int(statement.odd)
        name, low, high = (vector(number, lanes) for number in (target, *both))
        if lanes == 4 or self.isa == "avx2":
            yield f"vshufps {name}, {low}, {high}, {_ODD if odd else _EVEN}"
            if lanes == 8:
                yield f"vpermpd {name}, {name}, {_HALVES_IN_ORDER}"
            return
        into = vector(spare[0], lanes) if spare else name
        yield f"vmovups {into}, {self.constants.place(range(odd, 2 * lanes, 2))}"
        yield f"vpermi2ps {into}, {low}, {high}"
        if spare:
            yield f"vmovaps {name}, {into}"


def mask_registers(
    isa: Isa, masks: Mapping[LaneMask, int], given: Mapping[int, int]
) -> dict[LaneMask, str]:
    """The registers of masks, by the vector registers that were given away. Raises NoAssembly if
    there are not enough."""
    if isa == "avx2":
        return {
            mask: vector(given[number], mask[0])
            for mask, number in masks.items()
            if number in given
        }
    if len(masks) > _MOST_MASKS:
        raise NoAssembly
    return {mask: f"k{place}" for place, mask in enumerate(masks, 1)}


def vector(register: int, lanes: int) -> str:
    """The name of so many lanes of a register."""
    return f"{_WIDTHS[lanes]}mm{register}"


def _signs(lanes: int, read: range) -> list[int]:
    return [-1 if lane in read else 0 for lane in range(lanes)]


def _bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))

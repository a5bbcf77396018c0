"""What of gcc candidates do without, so that most of a trial is not the compiler's.

A draft is to be as fast as in a library to within a few percent, whatever else: races compare
drafts with each other.
"""

from __future__ import annotations

from typing import assert_never

from tensorgen.schedule import (
    AttentionTile,
    Loops,
    RegisterTile,
    RowStages,
    Schedule,
    WindowTile,
    WinogradTile,
)

TILES = (
    "-O1", "-fno-tree-bit-ccp", "-fno-tree-pta", "-fno-tree-sink", "-fno-tree-dse",
    "-fno-ipa-pure-const", "-fira-region=all",
)  # fmt: skip
"""The passes that kernels written in intrinsics need, and no others: the same speed to within a
percent or two for less than half of the compiler's time. Registers are given away loop by loop: for
a function as a whole, some inner loops spill, and run half as fast as in a library."""

WINDOWS = (*TILES, "-fno-tree-loop-ivcanon", "-fno-tree-dominator-opts")
"""For windows, long blocks without a branch: a seventh less of the compiler's time, and nearly the
same instructions."""

FILTERED = (*TILES, "-fexpensive-optimizations")
"""Tiles between transforms: without this pass, loops so deep kept their counters in memory."""

FRAME = ("-O0",)
"""Loops around calls, and stores of a few elements: nothing to win."""

LOOPS = (
    "-O2", "-ftree-loop-vectorize", "-fpeel-loops", "-funswitch-loops", "-fsplit-loops",
)  # fmt: skip
"""The passes that make vectors of plain loops over lanes: half of the time of the compiler for a
softmax, and a tenth where whole loops would be unrolled. With those of -O1 alone, short sums take
10 to 20 % more, and with those for tiles up to five times as long."""

LANES = (
    "-O1", "-fno-tree-bit-ccp", "-fno-tree-sink", "-fno-tree-dse", "-fno-ipa-pure-const",
    "-fpeel-loops", "-fexpensive-optimizations", "-fira-region=all",
)  # fmt: skip
"""For loops over lanes that are vectors already: as fast as in a library, for two thirds of the
compiler's time, while `LOOPS` would take nearly all of it. Short loops over vectors are peeled off,
or sums would stay in memory."""

BARE = ("-nostdlib",)
"""For all of them: the system's own library is there in every process that loads one, and to look
through it takes longer than the rest of the link."""

ASSEMBLY: tuple[str, ...] = BARE
"""For frames in assembly, which have no passes, and need no other library than those of what they
call."""


def draft_libraries(*, openmp: bool) -> tuple[str, ...]:
    """What drafts are linked to instead, by short names."""
    return ("m", "gcc", *(("gomp",) if openmp else ()))


def draft_flags(schedule: Schedule) -> tuple[str, ...]:
    """The flags for a kernel of this kind. Attention spends its time in tiles."""
    match schedule:
        case RegisterTile() | AttentionTile():
            return TILES
        case WindowTile():
            return WINDOWS
        case WinogradTile():
            return FILTERED
        case Loops() | RowStages():
            return LOOPS
        case _:
            assert_never(schedule)

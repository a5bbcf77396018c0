"""The comparison with TVM's MetaSchedule as a page and on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from rich.table import Table

from benchmarks.markdown_page import table_lines
from benchmarks.time_to_reach import LIKE_THE_BEST, Point, landmarks
from benchmarks.tvm_duel import Duel

STEP = 1.05
"""Curves are told where they are so many times as fast as where they were told before."""

NEVER = "never"

_TITLES = (
    "case", "Tasor ms", "TVM ms", "TVM / Tasor", "difference", "tuned s", "TVM tuned s",
    "TVM's best after s", f"to {LIKE_THE_BEST - 1:.0%} after s", "as fast after s", "trials",
    "times shorter",
)  # fmt: skip


def row_of(duel: Duel) -> tuple[str, ...]:
    """The figures of a case, one for each title."""
    turns, reached, shorter = duel.turns, duel.reached, duel.shorter
    return (
        duel.case,
        f"{turns.ours * 1e3:.4f}",
        f"{turns.theirs * 1e3:.4f}",
        f"{turns.ratio:.2f}",
        f"{turns.difference:.1e}",
        f"{duel.our_seconds:.1f}",
        f"{duel.their_seconds:.1f}",
        f"{duel.their_best_after:.1f}",
        f"{duel.like_their_best_after:.1f}",
        NEVER if reached is None else f"{reached.seconds:.1f}",
        NEVER if reached is None else str(reached.trials),
        NEVER if shorter is None else f"{shorter:.1f}",
    )


def summary(duels: Sequence[Duel]) -> str:
    """One line: the geometric mean of ratios, and the least of how many times shorter we took."""
    mean = prod(duel.turns.ratio for duel in duels) ** (1 / len(duels))
    shorter = [duel.shorter for duel in duels]
    least = min((each for each in shorter if each is not None), default=None)
    told = NEVER if least is None or None in shorter else f"at least {least:.1f} times shorter"
    return (
        f"{len(duels)} cases: {mean:.2f} times as fast as TVM's winners (geometric mean), "
        f"least {min(duel.turns.ratio for duel in duels):.2f}; as fast as they are: {told}"
    )


def table(duels: Sequence[Duel]) -> Table:
    """The table for the terminal: a column for each case."""
    first, *others = zip(_TITLES, *map(row_of, duels), strict=True)
    made = Table(*first, title="Tasor beside TVM's MetaSchedule")
    for row in others:
        made.add_row(*row)
    return made


def markdown(duels: Sequence[Duel], made: str, setting: str) -> str:
    """The page: how it was made, the table, and both curves of each case."""
    lines = [
        "# Tasor beside TVM's MetaSchedule",
        "",
        made,
        f"{setting}.",
        "",
        "Both tune from nothing on the same machine, one after the other; then both winners run in",
        "turns, each in a pinned process of its own, operands and weights warm: medians over turns",
        "of calls from a loop in C. TVM's weights are laid out before, as its schedule wants them,",
        "and its activations are given and taken in the layout of `--tvm-layout`; Tasor's library",
        "takes and gives that of ONNX (nchw), and its conversions are in the time that is told. A",
        "3x3 convolution may be filtered by Winograd's algorithm in Tasor, which rounds more;",
        "MetaSchedule is given the direct one.",
        "",
        "TVM's seconds are those of its tuning alone: it is imported before, and its winner is",
        "built behind. `TVM's best after s` is when it measured its best kernel, the next column",
        f"when it measured one within {LIKE_THE_BEST - 1:.0%} of it. `as fast after s` is how long "
        "it took us from",
        "the model to a library that was as fast as TVM's winner in turns with it: tuning until",
        "then, and all of compiling with an empty cache. `times shorter` compares that with TVM's",
        "best.",
        "",
        *table_lines(_TITLES, map(row_of, duels)),
        "",
        f"{summary(duels)}.",
        "",
        "## Best so far",
        "",
        "In each tuner's own figures, of kernels as trials run them: Tasor's with weights from",
        "behind the second-level cache, TVM's warm.",
    ]
    for duel in duels:
        lines += [
            "",
            f"### {duel.case}",
            "",
            "| tuner | trials | s | ms |",
            "|---|--:|--:|--:|",
            *_curve("Tasor", duel.our_curve),
            *_curve("TVM", duel.their_curve),
        ]
    return "\n".join([*lines, ""])


def _curve(name: str, curve: Sequence[Point]) -> list[str]:
    return [
        f"| {name} | {point.trials} | {point.seconds:.1f} | {point.best * 1e3:.4f} |"
        for point in landmarks(curve, STEP)
    ]

"""Learning curves: each strategy on some operators, beside drawing at random in the same space.

    python -m benchmarks.tuning_curves --seeds 5 --trials 64 --markdown curves.md

What it does: tunes a few operators of the suite by every strategy with every seed, and tells the
best so far after so many trials, medians over seeds. What it does not: leave parts of the search
out (`tuning_ablation`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.arguments import count_of
from benchmarks.tuning_runs import Variant
from benchmarks.tuning_tables import compare, parser_of
from tensorgen.tune.staged import STRATEGY_NAMES

PROGRAM = "benchmarks.tuning_curves"

OPERATORS = "^(GMM1|C2D1|C2D2|GRP1|DEP1|T2D1|SFM1|TBS0)-b1$"
"""Those that are tuned by default: a product, convolutions of several kinds, attention, and what is
bound by moving."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    parser = parser_of(PROGRAM, "Strategies side by side.", "operators", OPERATORS)
    parser.add_argument(
        "--strategies",
        type=_strategies,
        default=STRATEGY_NAMES[::-1],
        metavar="A,B",
        help=f"default: {','.join(STRATEGY_NAMES[::-1])}",
    )
    parser.add_argument(
        "--patience",
        type=count_of,
        metavar="N",
        help="a kernel is finished after so many trials without a gain",
    )
    arguments = parser.parse_args(words)
    variants = [Variant(name, name, patience=arguments.patience) for name in arguments.strategies]
    return compare(arguments, variants, PROGRAM, ("strategies", "patience"))


def _strategies(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in STRATEGY_NAMES:
            raise argparse.ArgumentTypeError(
                f"expected names among {', '.join(STRATEGY_NAMES)}, got {name!r}"
            )
    return names


if __name__ == "__main__":
    sys.exit(main())

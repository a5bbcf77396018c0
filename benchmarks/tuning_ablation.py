"""Ablation of the tuner: the whole search, without each of its parts, and drawing at random.

    python -m benchmarks.tuning_ablation --seeds 5 --trials 64 --markdown ablation.md

What it does: tunes networks by the search that tuning uses, and by it without evolution (points are
drawn at random instead), without the learned model (the estimate alone scores), without descent,
and without the scheduler of tasks (each gets equally many trials); as in Ansor's paper (Zheng et
al., OSDI 2020, section 7). What it does not: compare strategies on single operators
(`tuning_curves`), where there is nothing to schedule.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.tuning_runs import Variant
from benchmarks.tuning_tables import compare, parser_of

PROGRAM = "benchmarks.tuning_ablation"

VARIANTS = (
    Variant("whole search"),
    Variant("no evolution", strategy="random-descent"),
    Variant("no learned model", learned=False),
    Variant("no descent", strategy="evolution"),
    Variant("no task scheduler", gradient=False),
    Variant("random", strategy="random", gradient=False),
)

NETWORKS = "^(squeezenet|dcgan|mobilenetv2)$"
"""Those that are tuned by default."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    parser = parser_of(PROGRAM, "The tuner without its parts.", "networks", NETWORKS)
    return compare(parser.parse_args(words), VARIANTS, PROGRAM)


if __name__ == "__main__":
    sys.exit(main())

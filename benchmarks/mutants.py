"""Prover against oracle on mutants of all rules.

    python -m benchmarks.mutants --jobs 2 --kept out/mutants.jsonl
    TASO_SUBSTITUTIONS=graph_subst.pb python -m benchmarks.mutants

What it does: breaks the shipped rules, and those true ones of TASO's if its file is named, in every
way that `verify.mutants` knows, and prints what prover and oracle say of them. Exit codes: 0 for no
false proof and few rules of which neither says anything, 1 otherwise, 64 for wrong usage. A run
that is killed goes on where it was, given the same file.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.arguments import Parser, count_of, positive
from benchmarks.json_file import write_json
from graphopt.data_files import data_path
from graphopt.instances import FLOATS
from graphopt.rule import Rule
from graphopt.rules import load_rules
from graphopt.taso_rules import Translated, load_taso_rules
from verify.mutant_trial import ORACLE, PROVER, SECONDS, Trials, try_mutants
from verify.mutants import Mutant, mutants
from verify.oracle import Refuted, judge
from verify.symbolic_rule import Ranks

RANKS = Ranks((1, 2, 3), (1,))
"""Those of proofs."""

MOST_UNKNOWN = 0.02
"""The share of mutants of which neither says anything that is allowed."""

SHOWN = 20
"""So many rules and reasons are printed."""

DRAWN = 40
"""So many instances say whether a rule of TASO is true."""

EXIT_DONE, EXIT_NO = 0, 1


def true_rules(substitutions: Path | None) -> list[Rule]:
    """The shipped rules, and those of TASO that the oracle does not refute."""
    rules = [
        rule for path in sorted(data_path("rules").glob("*.rules")) for rule in load_rules(path)
    ]
    if substitutions is not None:
        rules += [
            entry.rule
            for entry in load_taso_rules(substitutions)
            if isinstance(entry, Translated)
            and not isinstance(judge(entry.rule, DRAWN, dtypes=FLOATS), Refuted)
        ]
    return rules


def chosen_mutants(rules: Sequence[Rule], count: int | None) -> list[Mutant]:
    """That many mutants of rules, of different rules by turns; all if None."""
    return list(islice(mutants(rules), count))


def shown(trials: Trials, console: Console) -> None:
    """Print the table of counts, and the rules that matter."""
    table = Table("oracle", *PROVER, title=f"{len(trials.trials)} mutants")
    for oracle in ORACLE:
        table.add_row(oracle, *(str(trials.counts.get((oracle, said), 0)) for said in PROVER))
    console.print(table)
    share = len(trials.unknown) / max(1, len(trials.trials))
    console.print(f"neither proved nor refuted: {len(trials.unknown)} ({share:.2%})")
    causes = Counter(trial.reason or "no proof was found" for trial in trials.unknown)
    for reason, number in causes.most_common(SHOWN):
        console.print(f"  {number} x {reason}", markup=False, soft_wrap=True)
    for trial in trials.faults[:SHOWN]:
        console.print(f"proved and refuted: {trial.rule}", markup=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the trial; returns the exit code."""
    parser = Parser(prog="mutants", description=__doc__, add_help=True)
    parser.add_argument("--count", type=count_of, help="try so many mutants instead of all")
    parser.add_argument("--jobs", type=count_of, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=positive, default=SECONDS, help="for one mutant")
    parser.add_argument("--kept", type=Path, help="the file that keeps what is done")
    parser.add_argument("--json", type=Path, help="write counts and what is unknown to this file")
    options = parser.parse_args(arguments)
    named = os.environ.get("TASO_SUBSTITUTIONS")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print("making mutants")
    found = chosen_mutants(true_rules(Path(named) if named else None), options.count)

    def report(done: int) -> None:
        if done % 500 == 0:
            console.print(f"{done} of {len(found)}")

    trials = try_mutants(
        found, RANKS, kept=options.kept, report=report, jobs=options.jobs, seconds=options.seconds
    )
    shown(trials, console)
    write_json(options.json, document(trials))
    few = len(trials.unknown) <= MOST_UNKNOWN * len(trials.trials)
    return EXIT_DONE if few and not trials.faults else EXIT_NO


def document(trials: Trials) -> dict[str, object]:
    """The trial as what `json.dumps` takes."""
    return {
        "mutants": len(trials.trials),
        "counts": [
            {"oracle": oracle, "prover": prover, "mutants": number}
            for (oracle, prover), number in sorted(trials.counts.items())
        ],
        "faults": [trial.rule for trial in trials.faults],
        "unknown": [
            {"rule": t.rule, "prover": t.prover, "reason": t.reason} for t in trials.unknown
        ],
    }


if __name__ == "__main__":
    sys.exit(main())

"""Prover and oracle on mutants: what both say of thousands of rules, most of which are false.

What it does: has each mutant tried by the oracle and by the prover, and counts what both say. A
rule that is proved and refuted is a fault of one of them. Proofs are of floats, so mutants that
only other element types refute are counted apart. What it does not: infer guards, or print (see
`benchmarks.mutants`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from graphopt.instances import FLOATS, Instance
from graphopt.rule import Rule
from verify.certificate import Certificate
from verify.difference import compare
from verify.directed import directed
from verify.mutants import Mutant
from verify.oracle import INSTANCES, Agreed, Refuted, Untested, judge
from verify.prover import Failed, Undecided, prove
from verify.records import prover_digest
from verify.symbolic_rule import Ranks
from verify.workers import Done, Ended, in_processes

SECONDS = 60.0
"""The time for one mutant."""

THOROUGH = 600
"""So many instances of floats are tried of what is proved and false of other types."""

OPEN_CASES = 4
"""So many cases that stayed open are searched for counterexamples."""

PROVED, OPEN, NO_ANSWER = "proved", "no proof", "no answer"
AGREED, REFUTED, REFUTED_OTHERS, UNTESTED = "agreed", "refuted", "refuted on integers", "untested"

PROVER = (PROVED, OPEN, NO_ANSWER)
ORACLE = (REFUTED, REFUTED_OTHERS, AGREED, UNTESTED)


@dataclass(frozen=True, slots=True)
class Trial:
    """What prover and oracle say of a mutant; `reason` is that of a prover without an answer."""

    rule: str
    prover: str
    oracle: str
    reason: str
    seconds: float

    @property
    def is_fault(self) -> bool:
        """Whether one of the two must be wrong."""
        return self.prover == PROVED and self.oracle == REFUTED

    @property
    def is_unknown(self) -> bool:
        """Whether the mutant is neither proved nor refuted."""
        return self.prover != PROVED and self.oracle not in (REFUTED, REFUTED_OTHERS)


@dataclass(frozen=True, slots=True)
class Trials:
    """All trials, in the order of the mutants."""

    trials: tuple[Trial, ...]

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """How many mutants there are of which oracle and prover say that."""
        return Counter((trial.oracle, trial.prover) for trial in self.trials)

    @property
    def faults(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.is_fault)

    @property
    def unknown(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.is_unknown)


def try_mutants(
    mutants: Sequence[Mutant],
    ranks: Ranks,
    *,
    kept: Path | None = None,
    report: Callable[[int], None] | None = None,
    jobs: int = 1,
    seconds: float = SECONDS,
) -> Trials:
    """Try mutants in `jobs` processes, each within so many seconds.

    The file `kept` gains a line for each as it is done, and what it holds of an earlier run of the
    same code is not tried again. `report` is told how many are done. Raises OSError.
    """
    known = dict(_read(kept, ranks))
    found = {n: known[m.rule.digest] for n, m in enumerate(mutants) if m.rule.digest in known}
    pending = [n for n in range(len(mutants)) if n not in found]

    def work(number: int) -> Trial:
        return tried(mutants[number].rule, ranks)

    def finish(number: int, trial: Trial) -> None:
        found[number] = trial
        _append(kept, ranks, mutants[number].rule, trial)
        if report is not None:
            report(len(found))

    ended: dict[int, Ended] = {}
    with closing(in_processes(work, pending, jobs, seconds)) as outcomes:
        for position, outcome in outcomes:
            match outcome:
                case Done(value=trial):
                    finish(pending[position], trial)
                case Ended():
                    ended[pending[position]] = outcome
    alone = list(ended)
    with closing(
        in_processes(lambda number: _of_oracle(mutants[number].rule), alone, jobs, seconds)
    ) as verdicts:
        for position, verdict in verdicts:
            number = alone[position]
            oracle = verdict.value if isinstance(verdict, Done) else UNTESTED
            finish(number, _ended(mutants[number].rule, oracle, ended[number]))
    return Trials(tuple(found[number] for number in range(len(mutants))))


def tried(rule: Rule, ranks: Ranks) -> Trial:
    """What prover and oracle say of a rule."""
    begun = perf_counter()
    oracle = _of_oracle(rule)
    found = prove(rule, ranks)
    match found:
        case Certificate():
            prover, reason = PROVED, ""
            if oracle == REFUTED_OTHERS and _refuted_of_floats(rule, THOROUGH):
                oracle = REFUTED
        case Undecided(reason=reason):
            prover = NO_ANSWER
        case Failed():
            prover, reason = OPEN, ""
            if oracle in (AGREED, UNTESTED) and any(map(_refutes, _directed(rule, found))):
                oracle = REFUTED
    return Trial(str(rule), prover, oracle, reason, perf_counter() - begun)


def _of_oracle(rule: Rule) -> str:
    match judge(rule):
        case Agreed():
            return AGREED
        case Untested():
            return UNTESTED
        case Refuted():
            return REFUTED if _refuted_of_floats(rule, INSTANCES) else REFUTED_OTHERS


def _refuted_of_floats(rule: Rule, count: int) -> bool:
    return isinstance(judge(rule, count, dtypes=FLOATS), Refuted)


def _ended(rule: Rule, oracle: str, ended: Ended) -> Trial:
    return Trial(str(rule), NO_ANSWER, oracle, ended.reason, ended.seconds)


def _directed(rule: Rule, failed: Failed) -> Iterator[Instance]:
    for case in failed.open[:OPEN_CASES]:
        yield from directed(rule, case.case)


def _refutes(instance: Instance) -> bool:
    return compare(instance).difference is not None


# Files


def _read(path: Path | None, ranks: Ranks) -> Iterator[tuple[str, Trial]]:
    if path is None or not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            versions, digest, *parts = json.loads(line)
            rule, prover, oracle, reason, seconds = parts
        except (ValueError, TypeError):
            continue  # the last line of a run that was killed
        if versions == _versions(ranks) and prover in PROVER and oracle in ORACLE:
            yield digest, Trial(rule, prover, oracle, reason, seconds)


def _append(path: Path | None, ranks: Ranks, rule: Rule, trial: Trial) -> None:
    if path is None:
        return
    parts = (trial.rule, trial.prover, trial.oracle, trial.reason, trial.seconds)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps([_versions(ranks), rule.digest, *parts]) + "\n")


def _versions(ranks: Ranks) -> str:
    return f"{prover_digest()} {ranks}"

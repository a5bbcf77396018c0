"""The verdict on one rule: proved, proved under guards that are inferred, refuted, or unknown.

What it does: asks the prover; where no proof was found, looks for a guard under which there is one
(`guards`), else for a counterexample, by random draws and then where the proof stayed open
(`directed`). A proof speaks of floats: rules that are false of integers, as far as the oracle sees,
get a guard on the element type. A counterexample outweighs a proof. What it does not: many rules,
time limits or files (see `audit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from graphopt.instances import OTHERS, Instance
from graphopt.pattern import expression_text
from graphopt.rule import Rule
from tensorgen.types import float64
from verify.certificate import Certificate
from verify.certificate_json import certificate_json
from verify.counterexample import Counterexample
from verify.difference import compare
from verify.directed import directed
from verify.guards import Guard, NoProof, guarded, sampled, with_guard
from verify.prover import Failed, Undecided, prove
from verify.shrinking import shrunk
from verify.symbolic_rule import Ranks
from verify.verdict import Proved, Refuted, Unknown, Verdict

SECOND_LOOKS = 3
"""So many instances of each element type are tried of a rule that is proved."""

GUARDED_DRAWS = 24
"""So many instances are tried of a rule under a guard before it is proved."""

OPEN_CASES = 8
"""So many cases that stayed open are searched for counterexamples."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a verdict depends on beside the rule; `infer` says whether guards are looked for."""

    ranks: Ranks = field(default_factory=Ranks)
    infer: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a rule, or on `rule` with the inferred conditions that it has now."""

    rule: Rule
    inferred: tuple[str, ...]
    verdict: Verdict


def judged(rule: Rule, settings: Settings) -> Judged:
    """Prove a rule, or refute it, or say why neither."""
    found = prove(rule, settings.ranks)
    if isinstance(found, Undecided):
        return Judged(rule, (), refuted(rule, settings, found.reason))
    doubts = _doubts(rule, settings) if isinstance(found, Certificate) else []
    if isinstance(found, Certificate) and not doubts:
        return Judged(rule, (), Proved(certificate_json(found)))
    sample = sampled(rule, settings.seed)
    sample.refuting.extend(doubts)
    if isinstance(found, Failed):
        sample.refuting.extend(filter(_refutes, _directed(rule, found, settings)))
    if settings.infer:
        inferred = guarded(rule, sample, lambda guard: _proof(rule, guard, settings))
        if inferred is not None:
            guard, proof = inferred
            texts = tuple(map(expression_text, guard))
            return Judged(with_guard(rule, guard), texts, Proved(certificate_json(proof)))
    instance = min(sample.refuting, key=_elements, default=None)
    if instance is not None:
        return Judged(rule, (), Refuted(_counterexample(rule, instance)))
    assert isinstance(found, Failed), "a proof is withheld for a counterexample"
    return Judged(rule, (), Unknown(_reason(found)))


def refuted(rule: Rule, settings: Settings, reason: str) -> Refuted | Unknown:
    """A counterexample that random draws find; unknown for that reason if they find none."""
    sample = sampled(rule, settings.seed)
    instance = min(sample.refuting, key=_elements, default=None)
    return Unknown(reason) if instance is None else Refuted(_counterexample(rule, instance))


def _proof(rule: Rule, guard: Guard, settings: Settings) -> Certificate | NoProof:
    """The proof of a rule under a guard, if nothing speaks against it."""
    narrower = with_guard(rule, guard)
    # Other instances than those that the guard was chosen by: drawing them takes less than a proof.
    drawn = sampled(narrower, settings.seed + 1, GUARDED_DRAWS).refuting
    if drawn:
        return NoProof(drawn)
    found = prove(narrower, settings.ranks, tuple(map(expression_text, guard)))
    match found:
        case Certificate():
            doubts = _doubts(narrower, settings)
            return NoProof(doubts) if doubts else found
        case Failed():
            return NoProof(list(filter(_refutes, _directed(narrower, found, settings))))
        case Undecided():
            return NoProof(())


def _doubts(rule: Rule, settings: Settings) -> list[Instance]:
    """What speaks against a rule although it is proved."""
    return [
        instance
        for dtype in (float64, *OTHERS)
        for instance in sampled(rule, settings.seed, SECOND_LOOKS, (dtype,)).refuting
    ]


def _directed(rule: Rule, failed: Failed, settings: Settings) -> Iterator[Instance]:
    for open_case in failed.open[:OPEN_CASES]:
        yield from directed(rule, open_case.case, settings.seed)


def _refutes(instance: Instance) -> bool:
    return compare(instance).difference is not None


def _counterexample(rule: Rule, instance: Instance) -> Counterexample:
    return shrunk(Counterexample.of(rule, instance, compare(instance)))


def _elements(instance: Instance) -> int:
    bindings = instance.bindings
    members = (value for values in bindings.sequences.values() for value in values)
    return sum(value.type.size for value in (*bindings.tensors.values(), *members))


def _reason(failed: Failed) -> str:
    """Where a proof stayed open, as one line."""
    first = failed.open[0]
    operands = ", ".join(f"{name}: {type}" for name, type in first.case.operands)
    left, right = (next(iter(side), "0")[:100] for side in (first.rest.source, first.rest.target))
    cases = len(failed.open) + len(failed.proved)
    return (
        f"no proof in {len(failed.open)} of {cases} cases and no counterexample; the first has "
        f"{operands}, where the source has {left} and the target {right}"
    )

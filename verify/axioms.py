"""Proofs of rules from axioms about operators, as TASO has them: by equational reasoning alone.

What it does: takes every case of a rule — ranks, orders of axes, what is assumed of sizes — and
derives its target from its source by instances of axioms whose conditions hold throughout the case;
Z3 decides that the instances are enough (`axiom_proof`). The axioms stand in `axioms.rules`; each
is itself proved from the operators' meanings (`prover`), and so are their conditions, which TASO
leaves out. What it does not: refute. A rule without such a proof may be true.

Source: Jia et al., "TASO" (SOSP 2019), section 4, with quantifiers instantiated beforehand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from graphopt.data_files import data_path
from graphopt.graph import Input
from graphopt.rule import Rule
from graphopt.rules import load_rules
from tensorgen.sizes import judged_by
from tensorgen.types import DType
from verify.axiom_instances import grown
from verify.axiom_proof import GroundProof, ground_proof
from verify.axiom_terms import Entailed, Terms
from verify.exploration import Path, TooManyPaths, explore
from verify.symbolic_rule import (
    ELEMENTS,
    Inexpressible,
    NoSource,
    NoTarget,
    Ranks,
    Sides,
    instance,
    ranks_for,
)


@dataclass(frozen=True, slots=True)
class FromAxioms:
    """A proof for every case. Cases that have the same proof are counted with it.

    `excluded` are the questions about sizes, in SMT-LIB 2, that the cases and the conditions of
    axioms rest on: no sizes fit any of them.
    """

    ranks: Ranks
    proofs: tuple[tuple[GroundProof, int], ...]
    excluded: tuple[str, ...]

    @property
    def axioms(self) -> tuple[str, ...]:
        """The axioms that are used, sorted."""
        return tuple(sorted({step.axiom for proof, _ in self.proofs for step in proof.steps}))


def axioms_json(found: FromAxioms) -> dict[str, object]:
    """A proof as JSON: its steps and the question that settles it, for each kind of case."""
    return {
        "axioms": list(found.axioms),
        "proofs": [
            {
                "cases": cases,
                "steps": [
                    {
                        "axiom": step.axiom,
                        "bindings": dict(step.bindings),
                        "left": step.left,
                        "right": step.right,
                    }
                    for step in proof.steps
                ],
                "smtlib": proof.smtlib,
            }
            for proof, cases in found.proofs
        ],
        "excluded": list(found.excluded),
    }


@dataclass(frozen=True, slots=True)
class NotFound:
    """No proof was found. `reason` is one line."""

    reason: str


class _Underived(Exception):
    """A case that the axioms do not derive."""


@cache
def shipped_axioms() -> tuple[Rule, ...]:
    """The axioms of `axioms.rules`."""
    return load_rules(data_path("rules", "axioms.rules"))


def proved_from_axioms(
    rule: Rule, axioms: Sequence[Rule], ranks: Ranks | None = None
) -> FromAxioms | NotFound:
    """A proof of a rule for operands of those ranks."""
    wanted = ranks_for(rule, Ranks() if ranks is None else ranks)
    try:
        for chosen, elements in product(wanted, ELEMENTS):
            found = _derived(rule, axioms, chosen, elements)
            if found.proofs:
                return found
    except (Inexpressible, TooManyPaths, _Underived) as error:
        return NotFound(str(error))
    return NotFound("no sizes were found for which both sides are defined")


def _derived(rule: Rule, axioms: Sequence[Rule], ranks: Ranks, elements: DType) -> FromAxioms:
    """The different proofs of all cases for elements of one type. Raises _Underived."""
    excluded: list[str] = []

    def run(path: Path) -> GroundProof | None:
        sides = instance(rule, path, ranks, elements)
        match sides:
            case NoSource() | NoTarget():
                return None
            case Sides():
                return _proved(sides, path, axioms, excluded)

    proofs: dict[str, GroundProof] = {}
    counts: Counter[str] = Counter()
    for _, proof in explore(run, excluded):
        if proof is not None:
            proofs.setdefault(proof.smtlib, proof)
            counts[proof.smtlib] += 1
    return FromAxioms(
        ranks,
        tuple((proof, counts[text]) for text, proof in proofs.items()),
        tuple(dict.fromkeys(excluded)),
    )


def _proved(sides: Sides, path: Path, axioms: Sequence[Rule], excluded: list[str]) -> GroundProof:
    bound = sides.bindings
    named = dict(bound.tensors)
    for name, members in bound.sequences.items():
        named |= {f"{name}[{number}]": member for number, member in enumerate(members)}
    names = {value.position: name for name, value in named.items() if isinstance(value, Input)}
    judge = Entailed.of(path, excluded)
    terms = Terms(judge, names)
    with judged_by(judge):
        goals = [
            (terms.add(source), terms.add(target))
            for source, target in zip(sides.source, sides.target, strict=True)
        ]
        instances = grown(terms, axioms, goals)
        proof = None if instances is None else ground_proof(terms, instances, goals)
    if proof is None:
        operands = ", ".join(f"{name}: {value.type}" for name, value in sorted(named.items()))
        raise _Underived(f"the axioms do not derive it for {operands}")
    return proof

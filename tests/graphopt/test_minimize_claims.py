"""Claims: sides of generic sizes, in an order in which rules come before what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement

from graphopt.enumerate import Candidate, enumerate_rules, taso
from graphopt.enumerate.generic_sides import generic_sides
from graphopt.graph import Input, Value, topological_order
from graphopt.minimize import Claim, Minimization, RuleBook, claims_of, derivable, sides_of
from graphopt.rules import read_rules


@cache
def candidates() -> tuple[Candidate, ...]:
    return enumerate_rules(taso(), 2).candidates


def inputs_of_all(values: Sequence[Value]) -> list[Input]:
    return [value for value in topological_order(values) if isinstance(value, Input)]


def test_every_candidate_has_sides_of_equal_types() -> None:
    claims, missing = claims_of(candidates())
    assert len(claims) + missing == len(candidates())
    assert missing <= len(candidates()) // 100
    for claim in claims:
        types = [value.type for value in claim.sources]
        assert types == [value.type for value in claim.targets], claim.text


def test_free_sizes_have_nothing_in_common() -> None:
    """Of matrices that no operator ties together, sizes are no sums of others."""
    chosen = [c for c in candidates() if c.equation.startswith("matmul(matmul(")]
    assert chosen
    for candidate in chosen:
        sides = generic_sides(candidate.statement, candidate.grouping)
        assert sides is not None
        shapes = [value.type.shape for value in inputs_of_all(sides)]
        sizes = sorted({size for shape in shapes for size in shape})
        assert len(sizes) == 4, "a product of three matrices has four sizes"
        sums = [a + b for a, b in combinations_with_replacement(sizes, 2)]
        assert len(set(sums)) == len(sums)
        assert not set(sums) & set(sizes)


def test_rules_of_two_results_come_last_and_have_parts() -> None:
    claims, _ = claims_of(candidates())
    joint = [claim.is_joint for claim in claims]
    assert joint == sorted(joint)
    assert sum(joint) > 20
    for claim in claims:
        assert len(claim.sources) == len(claim.targets) == (2 if claim.is_joint else 1)


def test_the_order_does_not_depend_on_that_of_candidates() -> None:
    texts = [claim.text for claim in claims_of(candidates())[0]]
    assert [claim.text for claim in claims_of(candidates()[::-1])[0]] == texts


def claim_of(text: str) -> Claim:
    [rule] = read_rules(f"claim: {text}")
    [sides, *_] = sides_of(rule)
    return Claim(text, sides.sources, sides.targets, (rule,))


def test_what_is_kept_derives_the_rest() -> None:
    minimization = Minimization(lambda rule: True)
    basic = claim_of("add(add(x, y), z) => add(x, add(y, z)) where same_shape(x, y, z)")
    other = claim_of("add(add(x, y), add(z, w)) => add(x, add(z, add(w, y))) "
                     "where same_shape(x, y, z, w)")  # fmt: skip
    assert minimization.take(basic) == "kept"
    assert minimization.take(other) == "derivable"
    assert minimization.take(basic) == "derivable"


def test_claims_without_proof_are_not_kept_and_not_used() -> None:
    minimization = Minimization(lambda rule: False)
    claim = claim_of("neg(neg(x)) => x")
    assert minimization.take(claim) == "unproved"
    assert minimization.take(claim) == "resting"
    assert minimization.kept == []
    assert not minimization.derives(claim)
    assert minimization.take(Claim("no words", claim.sources, claim.targets, ())) == "wordless"


def test_what_others_derive_is_dropped_again() -> None:
    minimization = Minimization(lambda rule: True)
    special = claim_of("mul(add(x, x), y) => mul(x, add(y, y)) where same_shape(x, y)")
    general = claim_of("add(mul(x, z), mul(y, z)) => mul(add(x, y), z) where same_shape(x, y, z)")
    assert minimization.take(special) == "kept"
    assert minimization.take(general) == "kept"
    assert minimization.reduce() == 1
    [kept] = minimization.kept
    assert kept.claim == general
    assert minimization.derives(special)


def test_instances_of_a_rule_are_over_inputs() -> None:
    [rule] = read_rules("r: matmul(matmul(x, y), z) => matmul(x, matmul(y, z))")
    found = sides_of(rule, 3)
    assert len(found) == 3
    for sides in found:
        values = topological_order((*sides.sources, *sides.targets))
        leaves = [value for value in values if not hasattr(value, "inputs")]
        assert all(isinstance(value, Input) for value in leaves)
        assert len(leaves) == 3
        assert derivable(sides.sources, sides.targets, RuleBook.of([rule]))

"""Guards: the weakest conditions that exclude what refutes a rule, and none for hopeless rules."""

from __future__ import annotations

import pytest

from graphopt.pattern import expression_text
from graphopt.rule import Rule
from graphopt.rules import read_rules
from verify.guards import Guard, NoProof, Sample, guarded, sampled, with_guard

GROUPED = (
    "add(conv(x, v, groups=g, **p), conv(y, w, groups=h, **q)) => conv(concat(x, y, axis=1), "
    "concat(v, w, axis=1), groups=quotient(total(size(x, 1), size(y, 1)), "
    "total(size(v, 1), size(w, 1))), **p)"
)


def rule_of(text: str) -> Rule:
    [rule] = read_rules(f"rule: {text}")
    return rule


def inferred(rule: Rule) -> list[str] | None:
    """The guard, where whatever the sample does not refute counts as proved."""

    def proof(guard: Guard) -> Guard | NoProof:
        refuting = sampled(with_guard(rule, guard), 1).refuting
        return NoProof(refuting) if refuting else guard

    found = guarded(rule, sampled(rule, 0), proof)
    return None if found is None else [expression_text(condition) for condition in found[0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("transpose(x, perm=p) => x", ["identity(p)"]),
        ("div(x, y) => mul(x, div(1, y))", ["floating(x)"]),
        ("abs(neg(x)) => abs(x)", ["signed(x)"]),
        (
            "add(conv(x, v, **p), conv(y, v, **p)) => conv(add(x, y), v, **p)",
            ["same_shape(x, y)"],
        ),
        # One group: of the kernel that is not concatenated, the other follows from the types.
        (
            "concat(conv(x, v, groups=g, **p), conv(x, w, groups=h, **p), axis=1) => "
            "conv(x, concat(v, w, axis=0), groups=g, **p)",
            ["equal(g, 1)"],
        ),
        (
            "add(conv(x, v, **p), conv(y, w, **p)) => "
            "conv(concat(x, y, axis=1), concat(v, w, axis=1), **p)",
            ["has(p, 'groups', 1)"],
        ),
    ],
)
def test_the_weakest_guard_is_found(text: str, expected: list[str]) -> None:
    assert inferred(rule_of(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "sub(x, y) => sub(y, x)",
        "matmul(x, y) => matmul(y, x)",  # true of matrices of one element
        "slice(x, **p) => x",
        # true of equal numbers of outputs: that would be another rule
        "concat(conv(x, v, groups=1, **p), conv(z, w, groups=1, **p), axis=1) => "
        "conv(concat(x, z, axis=1), concat(v, w, axis=0), groups=2, **p)",
    ],
)
def test_no_guard_says_what_sizes_are(text: str) -> None:
    assert inferred(rule_of(text)) is None


def test_a_guard_keeps_something() -> None:
    """`identity(p)` would exclude what refutes, and everything else."""
    rule = rule_of("transpose(x, perm=p) => x")
    sample = sampled(rule, 0)
    nothing = Sample(sample.refuting, [])
    assert guarded(rule, nothing, lambda guard: guard) is None


def test_of_a_rule_that_nothing_refutes_a_guard_excludes_nothing_that_was_seen() -> None:
    rule = rule_of("transpose(transpose(x, perm=p), perm=q) => transpose(x, perm=reordered(p, q))")
    tried: list[Guard] = []

    def proof(guard: Guard) -> NoProof:
        tried.append(guard)
        return NoProof(())

    sample = sampled(rule, 0)
    assert not sample.refuting
    assert guarded(rule, sample, proof) is None
    assert not [guard for guard in tried if "identity" in expression_text(guard[0])]


def test_guards_become_conditions() -> None:
    rule = rule_of(GROUPED)
    [read] = read_rules(f"{rule} where equal(g, 1), equal(h, 1)")
    assert with_guard(rule, read.where) == read


def test_the_same_seed_gives_the_same_sample() -> None:
    rule = rule_of("sub(x, y) => sub(y, x)")
    first, second = sampled(rule, 3), sampled(rule, 3)
    assert [i.source for i in first.refuting] == [i.source for i in second.refuting]
    assert [i.source for i in first.other] == [i.source for i in second.other]

"""Generic sizes of equations; rules with slices and of several results can be read."""

from __future__ import annotations

from functools import cache

import pytest

from graphopt.enumerate import Candidate, Vocabulary, enumerate_rules, extended, taso
from graphopt.enumerate.generic_sides import generic_sides
from graphopt.enumerate.sizes import Unsolvable, generic
from graphopt.enumerate.trees import Variable, subtrees
from graphopt.rule import rule_text, statement_text
from graphopt.rules import read_rules


@cache
def candidates(name: str) -> tuple[Candidate, ...]:
    vocabularies: dict[str, Vocabulary] = {"taso": taso(), "extended": extended()}
    return enumerate_rules(vocabularies[name], 2).candidates


@pytest.mark.parametrize("name", ["taso", "extended"])
def test_generic_sizes_fit_every_equation(name: str) -> None:
    for candidate in candidates(name):
        if "stride 2" in candidate.equation:
            continue  # kernels would have to be as large as what they slide over
        drawn = generic(candidate.statement, candidate.grouping)
        sides = generic_sides(candidate.statement, candidate.grouping)
        assert sides is not None, candidate.equation
        assert sides[0].type == sides[1].type
        for side in (candidate.statement.left, candidate.statement.right):
            for tree in subtrees(side):
                if isinstance(tree, Variable):
                    assert len(drawn.variables[tree]) == tree.rank


def test_free_axes_have_sizes_of_their_own() -> None:
    """Two variables of a concatenation differ along its axis and nowhere else."""
    [candidate] = [
        c for c in candidates("taso") if c.equation == "split0[0]2d(concat[0]2d(v0r2, v1r2)) = v0r2"
    ]
    drawn = generic(candidate.statement, candidate.grouping)
    first, second = drawn.variables.values()
    assert first[1] == second[1]
    assert len({first[0], second[0], first[0] + second[0], first[1]}) == 4


def test_what_has_no_sizes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsolvable(*given: object) -> None:
        raise Unsolvable

    monkeypatch.setattr("graphopt.enumerate.generic_sides.generic", unsolvable)
    candidate = candidates("taso")[0]
    assert generic_sides(candidate.statement, candidate.grouping) is None


def test_rules_of_two_results_can_be_read() -> None:
    joint = [candidate for candidate in candidates("taso") if candidate.level == 0]
    rules = [rule for candidate in joint for rule in candidate.rules]
    assert len(rules) > 25
    for rule in rules:
        assert len(rule.source.terms) == 2
        assert read_rules(rule_text(rule)) == (rule,)


@pytest.mark.parametrize(
    ("equation", "statements"),
    [
        (
            "matmul(split1[0]2d(v0r2), v1r2) = split1[0]2d(matmul(v0r2, v1r2))",
            {
                "matmul(slice(x, starts=s0, steps=(1, 1), sizes=n0), y) => "
                "slice(matmul(x, y), starts=s0, steps=(1, 1), "
                "sizes=plus(offset_on(n0, 0), offset_on(shape_of(y), 1))) "
                "where rank(2, x, y), equal(s0, offset_on(s0, 0)), "
                "equal(n0, plus(offset_on(n0, 0), offset_on(shape_of(x), 1)))",
                "slice(matmul(x, y), starts=s0, steps=(1, 1), sizes=n0) => "
                "matmul(slice(x, starts=s0, steps=(1, 1), "
                "sizes=plus(offset_on(n0, 0), offset_on(shape_of(x), 1))), y) "
                "where rank(2, x, y), equal(s0, offset_on(s0, 0))",
            },
        ),
    ],
)
def test_slices_are_said_where_sizes_can_be_put_together(
    equation: str, statements: set[str]
) -> None:
    [candidate] = [c for c in candidates("taso") if c.equation == equation]
    assert {statement_text(rule) for rule in candidate.rules} == statements

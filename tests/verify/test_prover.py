"""True rules are proved for all sizes, false ones are not, and what cannot be said is said."""

from __future__ import annotations

from itertools import islice

import pytest

from graphopt.rule import Rule
from graphopt.rules import read_rules
from graphopt.taso_rules import Translated, load_taso_rules
from tests.taso_file import FALSE_FOR_GROUPED, taso_file
from verify.certificate import Certificate
from verify.mutants import mutants
from verify.oracle import Refuted, judge
from verify.prover import Failed, Undecided, prove
from verify.symbolic_rule import Ranks, ranks_for

SMALL = Ranks((1, 2))


def rule(text: str) -> Rule:
    (found,) = read_rules(f"r: {text}")
    return found


@pytest.mark.parametrize(
    "text",
    [
        "matmul(matmul(x, y), z) => matmul(x, matmul(y, z))",
        "matmul(x, add(y, z)) => add(matmul(x, y), matmul(x, z))",
        "transpose(transpose(x, perm=p), perm=q) => transpose(x, perm=reordered(p, q))",
        "transpose(matmul(x, y), perm=(1, 0))"
        " => matmul(transpose(y, perm=(1, 0)), transpose(x, perm=(1, 0)))",
        "concat(matmul(x, y), matmul(x, z), axis=1) => matmul(x, concat(y, z, axis=1))"
        " where rank(2, x, y, z)",
        "add(matmul(x, y), matmul(z, w)) => matmul(concat(x, z, axis=1), concat(y, w, axis=0))"
        " where rank(2, x, y, z, w)",
        "reduce_sum(reduce_sum(x, axes=a, keepdims=True), axes=b, keepdims=True)"
        " => reduce_sum(x, axes=union(a, b), keepdims=True)",
        "reduce_max(concat(x, y, axis=0), axes=(0,), keepdims=False)"
        " => max(reduce_max(x, axes=(0,), keepdims=False),"
        " reduce_max(y, axes=(0,), keepdims=False))",
        "max(max(x, y), y) => max(x, y)",
        "div(mul(x, y), y) => x",
        "div(div(x, y), z) => div(x, mul(y, z))",
        "where(c, x, x) => x",
        "where(not_(c), x, y) => where(c, y, x)",
        "exp(transpose(x, perm=p)) => transpose(exp(x), perm=p)",
        'conv(pad(x, 0, before=b, after=a, mode="constant"), w, pads=p, groups=1, **q)'
        " => conv(x, w, pads=joined_pads(b, a, p), groups=1, **q)",
        "conv(x, add(w, v), **q) => add(conv(x, w, **q), conv(x, v, **q)) where same_shape(w, v)",
        # Equal types leave these no choice.
        "reduce_sum(x, axes=(0,), keepdims=True) => x",
        "slice(concat(x, y, axis=0), starts=s, steps=t, sizes=n)"
        " => slice(x, starts=s, steps=t, sizes=n)",
    ],
)
def test_true_rules_are_proved(text: str) -> None:
    verdict = prove(rule(text), SMALL)
    assert isinstance(verdict, Certificate), verdict
    assert verdict.cases


@pytest.mark.parametrize(
    "text",
    [
        "sub(x, y) => sub(y, x)",
        "matmul(x, y) => matmul(y, x)",
        "transpose(transpose(x, perm=p), perm=q) => transpose(x, perm=reordered(q, p))",
        "concat(matmul(x, y), matmul(z, y), axis=0) => matmul(concat(z, x, axis=0), y)",
        "max(add(x, y), 0) => add(max(x, 0), max(y, 0))",
        "exp(add(x, y)) => add(exp(x), exp(y))",
        "where(c, x, y) => where(c, y, x)",
        "reduce_max(add(x, y), axes=(0,), keepdims=False)"
        " => add(reduce_max(x, axes=(0,), keepdims=False),"
        " reduce_max(y, axes=(0,), keepdims=False))",
        "slice(concat(x, y, axis=0), starts=s, steps=t, sizes=n)"
        " => slice(y, starts=s, steps=t, sizes=n)",
        'conv(pad(x, 1, before=b, after=a, mode="constant"), w, pads=p, groups=1, **q)'
        " => conv(x, w, pads=joined_pads(b, a, p), groups=1, **q)",
        # A kernel of one element, broadcast to three, fits another stride: the sizes must agree.
        "conv(x, add(w, v), **q) => add(conv(x, w, **q), conv(x, v, **q))",
    ],
)
def test_false_rules_are_not(text: str) -> None:
    assert isinstance(prove(rule(text)), Failed)


def test_a_failure_says_where() -> None:
    verdict = prove(rule("sub(x, y) => sub(y, x)"))
    assert isinstance(verdict, Failed)
    rest = verdict.open[0].rest
    assert rest.source == ("x0[]", "-1 x1[]")
    assert rest.target == ("-1 x0[]", "x1[]")


def test_what_the_algebra_has_no_form_for_is_unknown() -> None:
    verdict = prove(rule("neg(gather(neg(x), i, axis=0)) => gather(x, i, axis=0)"))
    assert verdict == Undecided("an index that is read from a tensor")


def test_an_axis_that_is_written_out_is_met_at_higher_ranks() -> None:
    """Axis 1 is that of columns, of rows, or one of a batch."""
    joined = rule("concat(matmul(x, y), matmul(z, y), axis=1) => matmul(concat(x, z, axis=1), y)")
    assert next(ranks_for(joined, SMALL)).plain == (1, 2, 3, 4)


def test_two_axes_that_go_and_two_that_stay_are_told_apart() -> None:
    """True up to rank 3, where one axis of a kind has no order."""
    wrong = rule(
        "reduce_sum(transpose(x, perm=p), axes=a, keepdims=False)"
        " => transpose(reduce_sum(x, axes=images(a, p), keepdims=False), perm=without(a, a))"
    )
    assert isinstance(prove(wrong, Ranks((1, 2, 3))), Failed)


def test_a_size_as_a_place_is_no_reason_to_look_at_scalars_only() -> None:
    """Which axis the step of an unknown size names is not known; that does not make it none."""
    wrong = rule(
        "slice(transpose(x, perm=p), starts=s, steps=t, sizes=n) => transpose(slice(x,"
        " starts=reordered(s, inverse(p)), steps=images(t, inverse(p)),"
        " sizes=reordered(n, inverse(p))), perm=p)"
    )
    assert isinstance(prove(wrong), Undecided)


def test_bits_of_conditions_are_conditions() -> None:
    assert isinstance(
        prove(rule("not_(transpose(x, perm=p)) => transpose(bitnot(x), perm=p)"), SMALL),
        Certificate,
    )
    assert isinstance(prove(rule("and_(x, y) => bitxor(x, bitxor(y, or_(x, y)))")), Certificate)
    assert isinstance(prove(rule("or_(x, y) => bitxor(x, y)")), Failed)


def test_a_type_that_later_assumptions_exclude_is_no_crash() -> None:
    odd = rule(
        "matmul(concat(x, y, axis=a), concat(z, u, axis=b)) => add(matmul(z, x), matmul(y, u))"
    )
    assert isinstance(prove(odd), Failed)


TASO_RANKS = Ranks((2, 4), (2,))


@pytest.mark.slow
def test_of_the_substitutions_of_taso_the_true_ones_are_proved() -> None:
    """Convolutions of any groups, as TASO's matcher accepts them."""
    entries = [entry for entry in load_taso_rules(taso_file()) if isinstance(entry, Translated)]
    assert len(entries) == 133
    failed = {
        entry.index
        for entry in entries
        if not isinstance(prove(entry.rule, TASO_RANKS), Certificate)
    }
    assert failed == set(FALSE_FOR_GROUPED)


@pytest.mark.slow
def test_no_false_mutant_is_proved() -> None:
    rules = [entry.rule for entry in load_taso_rules(taso_file()) if isinstance(entry, Translated)]
    plain = [rule for rule in rules if "conv" not in str(rule)]
    for mutant in islice(mutants(plain), 300):
        if isinstance(prove(mutant.rule, TASO_RANKS), Certificate):
            assert not isinstance(judge(mutant.rule), Refuted), str(mutant.rule)

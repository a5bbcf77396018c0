"""Every shipped rule against exact evaluation, and mutants of the rules, which it must refute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from graphopt.check_rules import (
    Agreed,
    Refuted,
    Untested,
    by_meaning,
    by_reference,
    check_rule,
    compare,
)
from graphopt.data_files import data_path
from graphopt.instances import instances
from graphopt.matching import match
from graphopt.ops import OPS
from graphopt.pattern import (
    COMMUTATIVE,
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Pattern,
    Role,
    Term,
    Variable,
)
from graphopt.rule import Rule
from graphopt.rule_functions import CONDITIONS, FUNCTIONS
from graphopt.rules import load_rules, read_rules

SHIPPED = {
    rule.name: rule
    for file in ("default.rules", "lowering.rules")
    for rule in load_rules(data_path("rules", file))
}


def _rule(text: str) -> Rule:
    [rule] = read_rules(f"rule: {text}")
    return rule


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_rule_agrees_on_random_instances(name: str) -> None:
    assert check_rule(SHIPPED[name], 12, seed=1) == Agreed(12)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_rule_agrees_by_the_meaning_of_operators(name: str) -> None:
    assert check_rule(SHIPPED[name], 60, seed=2, value_of=by_meaning) == Agreed(60)
    assert check_rule(SHIPPED[name], 300, seed=3, value_of=by_reference) == Agreed(300)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_matcher_finds_what_the_instances_bind(name: str) -> None:
    """Instances are drawn without the matcher, so each of them tests it."""
    rule = SHIPPED[name]
    for _, instance in zip(range(3), instances(rule, seed=4), strict=False):
        found = list(match(rule.source, instance.source))
        bound = {key: value.digest for key, value in instance.bindings.tensors.items()}
        assert any(
            {key: value.digest for key, value in bindings.tensors.items()} == bound
            and bindings.params == instance.bindings.params
            and bindings.captured == instance.bindings.captured
            for bindings in found
        )


@pytest.mark.parametrize(
    "text",
    [
        "transpose(transpose(x, perm=p), perm=q) => transpose(x, perm=reordered(q, p))",
        "matmul(x, y) => matmul(y, x)",
        "conv(mul(x, c), w, **q) => mul(conv(x, w, **q), c)",
        # true of one group
        "add(conv(x, v, **p), conv(y, w, **p)) => "
        "conv(concat(x, y, axis=1), concat(v, w, axis=1), **p)",
        "max(add(x, y), z) => add(max(x, z), y)",
        "slice(x, **p) => x",
        "div(x, y) => mul(x, div(1, y))",  # true of the reals, not of integers
        "abs(neg(x)) => abs(x)",  # false of unsigned integers
        "cast(cast(x, to=t), to=u) => cast(x, to=u)",
        "reduce_sum(max(x, y), **p) => max(reduce_sum(x, **p), reduce_sum(y, **p))",
    ],
)
def test_false_rules_are_refuted(text: str) -> None:
    outcome = check_rule(_rule(text), 200)
    assert isinstance(outcome, Refuted)
    assert str(outcome).startswith("differ at [")
    assert "\n" not in str(outcome)


@pytest.mark.parametrize(
    "text",
    [
        "add(conv(x, v, groups=1, **p), conv(y, w, groups=1, **p)) => "
        "conv(concat(x, y, axis=1), concat(v, w, axis=1), groups=1, **p)",
        "matmul(x, concat(y, z, axis=1)) => concat(matmul(x, y), matmul(x, z), axis=1)",
        "concat(conv(x, v, groups=1, **p), conv(x, w, groups=1, **p), axis=1) => "
        "conv(x, concat(v, w, axis=0), groups=1, **p)",
        "matmul(matmul(x, y), z) => matmul(x, matmul(y, z))",
        "max(max_pool(x, **p), max_pool(y, **p)) => max_pool(max(x, y), **p)",
        "concat(sum_pool(x, **p), sum_pool(y, **p), axis=1) => sum_pool(concat(x, y, axis=1), **p)",
        "matmul(transpose(x, perm=(1, 0)), transpose(y, perm=(1, 0))) => "
        "transpose(matmul(y, x), perm=(1, 0))",
        "where(lt(x, y), x, y) => where(lt(x, y), min(x, y), y)",
        "max(max(x, 0), 0) => max(x, 0)",
        "gather(x, c, axis=a) => gather(add(x, 0), c, axis=a)",
    ],
)
def test_true_rules_agree(text: str) -> None:
    assert check_rule(_rule(text), 60) == Agreed(60)


def test_a_refutation_can_be_replayed() -> None:
    outcome = check_rule(_rule("sub(x, y) => sub(y, x)"), 50)
    assert isinstance(outcome, Refuted)
    again = compare(outcome.instance, by_meaning)
    assert again is not None
    assert again.index == outcome.index


def test_a_refutation_names_the_parameters() -> None:
    outcome = check_rule(_rule("slice(x, **p) => x"), 200)
    assert isinstance(outcome, Refuted)
    assert "x: " in str(outcome)
    assert "starts = (" in str(outcome)


def test_the_same_seed_gives_the_same_outcome() -> None:
    rule = _rule("sub(x, y) => sub(y, x)")
    first, second = check_rule(rule, 50, seed=9), check_rule(rule, 50, seed=9)
    assert isinstance(first, Refuted)
    assert isinstance(second, Refuted)
    assert (first.index, first.source.tolist()) == (second.index, second.source.tolist())


def test_no_instance_is_no_agreement() -> None:
    one = _rule("add(x, 0) => x")
    impossible = replace(one, where=(FunctionCall("ones", (Literal((2,)),)),))
    assert check_rule(impossible) == Untested()


# Mutants


def _expression_mutants(expression: Expression) -> Iterator[Expression]:
    match expression:
        case Literal(value=bool() as flag):
            yield Literal(not flag)
        case Literal(value=int() | float() as number):
            yield Literal(number + 1)
        case FunctionCall(function=name, args=args):
            roles = FUNCTIONS[name].roles
            if len(args) == 2 and roles[0] is roles[1] and name not in {"plus", "times", "union"}:
                yield FunctionCall(name, args[::-1])
            for position, arg in enumerate(args):
                for mutant in _expression_mutants(arg):
                    yield FunctionCall(name, (*args[:position], mutant, *args[position + 1 :]))
            if isinstance(args[0], Name) and roles == (Role.PARAMETER,):
                yield args[0]
        case _:
            return


def _term_mutants(term: Term, names: list[str]) -> Iterator[Term]:
    """The term broken in one place."""
    match term:
        case Variable():
            yield from (Variable(name) for name in names if name != term.name)
        case Literal(value=int() | float() as number) if not isinstance(number, bool):
            yield Literal(number + 1)
        case Application():
            op, args = term.op, term.args
            if len(args) > 1 and op.name not in COMMUTATIVE and args[::-1] != args:
                yield replace(term, args=args[::-1])
            for other in OPS:
                alike = (other.arity, other.params, other.family) == (
                    op.arity, op.params, op.family,
                )  # fmt: skip
                if alike and other is not op:
                    yield replace(term, op=other)
            for position, arg in enumerate(args):
                for mutant in _term_mutants(arg, names):
                    yield replace(term, args=(*args[:position], mutant, *args[position + 1 :]))
            for position, (name, value) in enumerate(term.params):
                for changed in _expression_mutants(value):
                    params = list(term.params)
                    params[position] = (name, changed)
                    yield replace(term, params=tuple(params))
        case _:
            return


def mutants(rule: Rule) -> Iterator[Rule]:
    """The rule with its target broken in one place, or without one of its truth conditions."""
    [source], [target] = rule.source.terms, rule.target.terms
    names = sorted(_variables(source))
    for broken in _term_mutants(target, names):
        if broken != source:
            yield replace(rule, target=Pattern((broken,)))
    for condition in rule.where:
        if not CONDITIONS[condition.function].profit:
            yield replace(rule, where=tuple(c for c in rule.where if c is not condition))


def _variables(term: Term) -> set[str]:
    match term:
        case Variable():
            return {term.name}
        case Application():
            return {name for arg in term.args for name in _variables(arg)}
        case _:
            return set()


# A family stands for all its operators: the mutants of one member are those of the others.
MUTATED = [
    rule
    for name, rule in SHIPPED.items()
    if "[" not in name or name.endswith(("[sub]", "[exp]", "[max]", "[neg]", "[reduce_sum]"))
]

# Equal types force the mutants of these to be true: reshape and broadcast_to agree wherever both
# are defined.
UNBREAKABLE = frozenset(
    {"reshape-reshape", "broadcast-broadcast", "reduce-units[reduce_sum]", "insert-axis"}
)


@pytest.mark.parametrize("rule", MUTATED, ids=lambda rule: rule.name)
def test_some_mutant_of_each_rule_is_refuted(rule: Rule) -> None:
    refuted = any(isinstance(check_rule(mutant, 40), Refuted) for mutant in mutants(rule))
    assert refuted or rule.name in UNBREAKABLE or not list(mutants(rule))


@pytest.mark.slow
def test_most_mutants_are_refuted() -> None:
    """Most others are true too: they apply only where types force both sides to be equal."""
    outcomes = [check_rule(mutant, 100) for rule in MUTATED for mutant in mutants(rule)]
    refuted = sum(isinstance(outcome, Refuted) for outcome in outcomes)
    agreed = sum(isinstance(outcome, Agreed) for outcome in outcomes)
    assert refuted > 1000
    assert refuted >= 0.93 * (refuted + agreed)

"""General forms of rules: what is proposed, in which order, and that nothing unaccepted comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphopt.minimize.generalize import most_general
from graphopt.minimize.naming import named
from graphopt.minimize.terms import grows_without_end, tidied, turned_around
from graphopt.rule import Rule, rule_text, statement_text
from graphopt.rules import read_rules


def rule(text: str) -> Rule:
    [found] = read_rules(f"r: {text}")
    return found


@pytest.mark.parametrize(
    ("special", "general"),
    [
        (
            "concat(max(x, 0), max(y, 0), axis=1) => max(concat(x, y, axis=1), 0) "
            "where rank(2, x, y)",
            "concat(max(x, 0), max(y, 0), axis=a) => max(concat(x, y, axis=a), 0)",
        ),
        (
            "conv(add(x, y), z, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=g) => "
            "add(conv(x, z, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=g), "
            "conv(y, z, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=g)) "
            "where rank(4, x, y, z), same_shape(x, y)",
            "conv(add(x, y), z, **o) => add(conv(x, z, **o), conv(y, z, **o)) "
            "where same_shape(x, y)",
        ),
        (
            "transpose(max(x, 0), perm=(1, 0)) => max(transpose(x, perm=(1, 0)), 0) "
            "where rank(2, x)",
            "transpose(max(x, 0), perm=p) => max(transpose(x, perm=p), 0)",
        ),
        (
            "max(slice(x, starts=(0, 0), steps=(1, 1), sizes=n0), 0) => "
            "slice(max(x, 0), starts=(0, 0), steps=(1, 1), sizes=n0) where rank(2, x)",
            "max(slice(x, starts=s, steps=t, sizes=n), 0) => "
            "slice(max(x, 0), starts=s, steps=t, sizes=n)",
        ),
        (
            "matmul(mul(x, y), z) => mul(matmul(x, z), y) where rank(0, y), rank(2, x, z)",
            "matmul(mul(x, y), z) => mul(matmul(x, z), y) where rank(0, y)",
        ),
        (
            "max(mul(x, x), 0) => mul(x, x) where rank(2, x), floating(x)",
            "max(mul(x, x), 0) => mul(x, x) where floating(x)",
        ),
    ],
)
def test_everything_accepted_gives_the_most_general_form(special: str, general: str) -> None:
    found = most_general(rule(special), lambda form: True)
    assert found is not None
    assert statement_text(found) == general
    assert rule(general) == found.__class__("r", found.source, found.target, found.where)


SPECIAL = rule(
    "concat(transpose(x, perm=(1, 0)), transpose(y, perm=(1, 0)), axis=0) => "
    "transpose(concat(x, y, axis=1), perm=(1, 0)) where rank(2, x, y)"
)


def test_nothing_accepted_gives_nothing() -> None:
    assert most_general(SPECIAL, lambda form: False) is None


def test_the_rule_itself_is_the_last_resort() -> None:
    assert most_general(SPECIAL, lambda form: form.digest == SPECIAL.digest) == SPECIAL


@pytest.mark.parametrize(
    "accepts",
    [
        lambda form: "perm=(1, 0)" in str(form),
        lambda form: "axis=0" in str(form),
        lambda form: "rank" in str(form),
        lambda form: "image" in str(form) or form.digest == SPECIAL.digest,
    ],
)
def test_only_accepted_forms_are_given(accepts: Callable[[Rule], bool]) -> None:
    tried: list[str] = []

    def asked(form: Rule) -> bool:
        tried.append(statement_text(form))
        return accepts(form)

    found = most_general(SPECIAL, asked)
    assert found is not None
    assert accepts(found)
    assert statement_text(found) in tried
    assert len(tried) == len(set(tried)), "no form is tested twice"


PART = rule(
    "slice(max(x, 0), starts=s, steps=(1, 1), sizes=n) => "
    "max(slice(x, starts=s, steps=(1, 1), sizes=n), 0) "
    "where equal(n, plus(offset_on(n, 0), offset_on(shape_of(x), 1)))"
)


def test_slices_of_any_axes_are_tried_before_those_of_one() -> None:
    anywhere = most_general(PART, lambda form: True)
    assert anywhere is not None
    assert anywhere.where == ()
    along_one = most_general(PART, lambda form: "plus(" in str(form))
    assert along_one is not None
    assert "equal(n, plus(offset_on(n, " in str(along_one)


def test_rules_turn_around_where_their_names_allow() -> None:
    factored = rule("add(mul(x, z), mul(y, z)) => mul(add(x, y), z)")
    around = turned_around(factored)
    assert around is not None
    assert statement_text(around) == "mul(add(x, y), z) => add(mul(x, z), mul(y, z))"
    assert turned_around(rule("mul(x, 1) => x")) is None
    assert turned_around(rule(
        "transpose(concat(x, y, axis=a), perm=p) => "
        "concat(transpose(x, perm=p), transpose(y, perm=p), axis=image(a, p))"
    )) is None  # fmt: skip
    assert turned_around(rule("sub(add(x, y), y) => add(x, sub(z, z))".replace("z", "x"))) is None


def test_growth_without_end_is_seen() -> None:
    assert grows_without_end(rule("max(x, 0) => max(max(x, 0), 0)"))
    assert not grows_without_end(rule("max(max(x, 0), 0) => max(x, 0)"))


def test_labels_that_nothing_uses_go() -> None:
    labelled = rule("add(p := mul(x, y), z) => add(mul(x, y), z) where same_shape(x, y)"
                    .replace("add(mul(x, y), z)", "add(z, mul(x, y))"))  # fmt: skip
    assert "p :=" not in rule_text(tidied(labelled))
    used = rule("add(p := mul(x, y), z) => add(z, mul(x, y)) where same_shape(p, z)")
    assert "p :=" in rule_text(tidied(used))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("add(add(x, y), z) => add(x, add(y, z))", "add-associates"),
        ("max(transpose(x, perm=p), 0) => transpose(max(x, 0), perm=p)", "relu-past-transpose"),
        (
            "matmul(x, concat(y, z, axis=a)) => concat(matmul(x, y), matmul(x, z), axis=a)",
            "matmul-over-concat-columns",
        ),
        (
            "concat(matmul(x, y), matmul(z, y), axis=a) => matmul(concat(x, z, axis=a), y)",
            "matmul-out-of-concat-rows",
        ),
        ("matmul(mul(x, y), z) => mul(matmul(x, z), y) where rank(0, y)", "matmul-past-scale-left"),
        ("matmul(mul(x, y), z) => matmul(x, mul(z, y)) where rank(0, y)",
         "scale-across-matmul-left"),
        ("max(max(x, 0), 0) => max(x, 0)", "relu-twice"),
        ("transpose(transpose(x, perm=(1, 0)), perm=(1, 0)) => x", "transpose-twice"),
        ("mul(x, 1) => x", "mul-by-1"),
        ("sub(x, neg(y)) => add(x, y)", "sub-neg-as-add"),
    ],
)  # fmt: skip
def test_names_say_what_rules_do(text: str, name: str) -> None:
    assert named([rule(text)])[0].name == name


def test_names_are_unique() -> None:
    same = rule("add(add(x, y), z) => add(x, add(y, z))")
    other = rule("add(add(x, y), z) => add(add(x, z), y)")
    assert [r.name for r in named([same, other, same])] == [
        "add-associates", "add-associates-2", "add-associates-3"
    ]  # fmt: skip

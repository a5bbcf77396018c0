"""Rule files: what they say, and what is refused with which message."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from graphopt import taso_operators, taso_rules, taso_shapes
from graphopt.data_files import data_path
from graphopt.pattern import Application, Variable
from graphopt.rule import Rule, rule_text
from graphopt.rule_functions import CONDITIONS, FUNCTIONS
from graphopt.rules import FAMILIES, RuleError, load_rules, read_rules
from verify import guards

REFUSED = sorted((Path(__file__).parents[1] / "refused" / "rules").glob("*.rules"))
MARK = "# refused: "


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_wrong_rules_are_refused_with_their_place(path: Path) -> None:
    [expected] = [
        line.removeprefix(MARK) for line in path.read_text().splitlines() if line.startswith(MARK)
    ]
    with pytest.raises(RuleError) as refusal:
        load_rules(path)
    assert str(refusal.value) == f"{path}:{expected}"
    assert "\n" not in str(refusal.value)


def test_every_kind_of_refusal_is_here() -> None:
    assert len(REFUSED) >= 30


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"none.rules: expected a readable rule file, got No such"):
        load_rules(tmp_path / "none.rules")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bytes.rules"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleError, match="no UTF-8"):
        load_rules(path)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000,
        "a: " + "neg(" * 3000 + "x" + ")" * 3000 + " => x",
        "a: " + "x" * 20_000 + " => x",
        "a: add(x, 1" + "0" * 5000 + ") => x",
        "a: add(x, \0) => x",
        "a: add(x, '",
        "a:",
        "a: => x",
        "a: add(x, 0) =>",
        "a: add(x, 0) => x where",
        "a: add(x, 0) => x for",
        "a: () => x",
        "a: add(x, 0)) => (x",
        "a: (y := add(x, 0)) => x",
        "a: add(x, 0) => x where constant(x=x)",
        "a: add(x, 0) => x where constant(*x)",
        "a: add.x(x, 0) => x",
        "a: transpose(x, perm=5) => x",
        "a: transpose(x, perm=p) => transpose(x, perm='a')",
        "a: add(x, 0) => x where along(x, 'a', x)",
        "a: add(ä, 0) => b",
    ],
)
def test_strange_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(RuleError) as refusal:
        read_rules(text, "strange")
    assert str(refusal.value).startswith("strange:1:")
    assert "\n" not in str(refusal.value)


def test_columns_count_characters() -> None:
    with pytest.raises(RuleError, match=r"^rules:1:17: expected a name that the source binds"):
        read_rules("a: add(ä, 0) => b")


def test_a_rule_file_is_read_in_order() -> None:
    rules = read_rules(
        "\n# comment\nfirst: add(x, 0) => x   # to the end\n\n"
        "second: mul(y := add(x, c), d)\n"
        "        => add(mul(x, d), mul(c, d))   # and on\n"
        "        where constant(c, d), single_use(y)\n"
    )
    assert [rule.name for rule in rules] == ["first", "second"]
    assert str(rules[1]) == (
        "second: mul(y := add(x, c), d) => add(mul(x, d), mul(c, d)) "
        "where constant(c, d), single_use(y)"
    )


def test_text_in_quotes_is_no_syntax() -> None:
    [rule] = read_rules("a: einsum(x, equation='ij->ij') => x  # 'unclosed => where")
    assert rule_text(rule) == "a: einsum(x, equation='ij->ij') => x"


def test_both_directions() -> None:
    forth, back = read_rules("a: matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z))")
    assert (forth.name, back.name) == ("a", "a-inverse")
    assert (forth.source, forth.target) == (back.target, back.source)
    assert forth.digest != back.digest


def test_an_operator_variable_gives_a_rule_for_each_operator() -> None:
    rules = read_rules("a: f(f(x)) => x for f in neg, not")
    assert [rule.name for rule in rules] == ["a[neg]", "a[not]"]
    assert str(rules[1]) == "a[not]: not_(not_(x)) => x"
    unary = read_rules("a: f(transpose(x, perm=p)) => transpose(f(x), perm=p) for f in unary")
    assert len(unary) == len(FAMILIES["unary"]) > 20


def test_the_where_operator_is_not_the_keyword() -> None:
    [rule] = read_rules("a: where(c, x, x) => x where varying(x)")
    assert isinstance(rule.source.terms[0], Application)
    assert rule.source.terms[0].op.name == "where"
    assert [condition.function for condition in rule.where] == ["varying"]


def test_the_digest_ignores_the_name_and_nothing_else() -> None:
    [rule] = read_rules("a: add(x, 0) => x")
    assert replace(rule, name="b").digest == rule.digest
    others = (
        "a: add(x, 0.0) => x",
        "a: add(y, 0) => y",
        "a: sub(x, 0) => x",
        "a: add(x, 0) => x where varying(x)",
        "a: add(x, 0) => add(x, x)",
    )
    digests = {rule.digest} | {read_rules(text)[0].digest for text in others}
    assert len(digests) == 1 + len(others)


def test_rules_are_frozen() -> None:
    [rule] = read_rules("a: add(x, 0) => x")
    with pytest.raises(FrozenInstanceError):
        rule.name = "b"  # type: ignore[misc]


@pytest.mark.parametrize("file", ["default.rules", "lowering.rules"])
def test_shipped_rules_print_as_they_read(file: str) -> None:
    rules = load_rules(data_path("rules", file))
    again = read_rules("\n".join(rule_text(rule) for rule in rules))
    assert again == rules
    assert [rule.digest for rule in again] == [rule.digest for rule in rules]


def test_shipped_rules_have_unique_claims() -> None:
    claims: dict[str, Rule] = {}
    for file in ("default.rules", "lowering.rules"):
        for rule in load_rules(data_path("rules", file)):
            other = claims.get(rule.digest)
            assert other is None, f"{rule.name} says what {other.name} does"
            claims[rule.digest] = rule


def test_rules_and_what_writes_them_use_the_whole_vocabulary() -> None:
    text = "".join(path.read_text() for path in data_path("rules").glob("*.rules"))
    translator = "".join(
        inspect.getsource(module) for module in (taso_operators, taso_rules, taso_shapes, guards)
    )
    for name in (*FUNCTIONS, *CONDITIONS):
        assert f"{name}(" in text or f'"{name}"' in translator, f"no rule uses {name}"


def test_variables_print_as_themselves() -> None:
    [rule] = read_rules("a: add(x, 0) => x")
    assert rule.target.terms == (Variable("x"),)

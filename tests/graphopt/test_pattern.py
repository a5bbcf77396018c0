"""The text form of patterns: printing and reading are inverse to each other."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphopt.graph import Param
from graphopt.ops import OP, OPS
from graphopt.pattern import (
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Pattern,
    RuleError,
    Sequence,
    Term,
    Variable,
    applications,
    literal_text,
    pattern_text,
    spelling,
)
from graphopt.pattern_reader import Excerpt, Scope, read_pattern
from graphopt.rule_functions import FUNCTIONS

TENSORS = st.sampled_from(["x", "y", "z", "w1"])
NUMBERS = st.one_of(
    st.booleans(), st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=True)
)
LITERALS: st.SearchStrategy[Param] = st.recursive(
    st.one_of(NUMBERS, st.text(max_size=8)),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
PARAMETERS: st.SearchStrategy[Expression] = st.one_of(
    LITERALS.map(Literal), st.sampled_from(["a", "b", "p"]).map(Name)
)


@st.composite
def _applied(draw: st.DrawFn, inner: st.SearchStrategy[Term]) -> Term:
    op = draw(st.sampled_from(OPS))
    count = draw(st.integers(1, 3)) if op.arity is None else op.arity
    args = [draw(inner) for _ in range(count)]
    if op.arity is None and draw(st.booleans()):
        args.insert(draw(st.integers(0, len(args))), Sequence(draw(st.sampled_from(["s", "t"]))))
    named = [name for name in op.params if draw(st.booleans())]
    # A group of captured parameters is known by the operator it belongs to and what it names.
    rest = f"rest_{op.name}_{'_'.join(named)}" if len(named) < len(op.params) else None
    params = tuple((name, draw(PARAMETERS)) for name in named)
    return Application(op, tuple(args), params, rest)


TERMS: st.SearchStrategy[Term] = st.recursive(
    st.one_of(TENSORS.map(Variable), NUMBERS.map(Literal)), _applied, max_leaves=8
)
PATTERNS = st.lists(_applied(TERMS), min_size=1, max_size=3).map(
    lambda terms: Pattern(tuple(terms))
)


on_any_machine = settings(suppress_health_check=[HealthCheck.too_slow])
"""Drawing a pattern takes long where others use the machine, too."""


@on_any_machine
@given(PATTERNS)
def test_reading_undoes_printing(pattern: Pattern) -> None:
    text = pattern_text(pattern)
    again = read_pattern(text)
    assert again == pattern
    assert pattern_text(again) == text


@on_any_machine
@given(PATTERNS)
def test_blanks_and_lines_do_not_matter(pattern: Pattern) -> None:
    text = pattern_text(pattern)
    if "'" not in text and '"' not in text:
        assert read_pattern(text.replace(", ", "\n   ,  ")) == pattern


@given(st.text(alphabet="xyadd(), =*:'0123\n\\#{}[]äλ", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with nullcontext() if _is_readable(text) else pytest.raises(RuleError, match=r"\Apattern:.*\Z"):
        pattern = read_pattern(text)
        assert read_pattern(pattern_text(pattern)) == pattern


def _is_readable(text: str) -> bool:
    try:
        read_pattern(text)
    except RuleError:
        return False
    return True


@pytest.mark.parametrize(
    "text",
    [
        "and_(x, not_(y))",
        "mul(x, -2)",
        "pow(x, 0.5)",
        "max(x, -1e999)",
        "or_(x, False)",
        "concat(*xs, y, *zs, axis=1)",
        "mul(y := conv(x, w, pads=(0, 0, 0, 0), **q), c)",
        "einsum(x, y, equation='ij,jk->ik')",
        "matmul(x, y), matmul(x, z)",
        "transpose(x, perm=(0,))",
        "reshape(x, shape=())",
    ],
)
def test_text_is_printed_as_written(text: str) -> None:
    assert pattern_text(read_pattern(text)) == text


def test_parameters_are_printed_in_the_order_of_the_operator() -> None:
    pattern = read_pattern("conv(x, w, groups=g, strides=s, **q)")
    assert pattern_text(pattern) == "conv(x, w, strides=s, groups=g, **q)"
    [application] = applications(pattern)
    assert application.captured == ("pads", "dilations")


def test_targets_compute_parameters() -> None:
    scope = Scope()
    read_pattern("transpose(x, perm=p)", scope)
    scope.closed = True
    target = read_pattern("transpose(x, perm=inverse(reordered(p, (1, 0))))", scope)
    assert target == Pattern(
        (
            Application(
                OP["transpose"],
                (Variable("x"),),
                (
                    (
                        "perm",
                        FunctionCall(
                            "inverse",
                            (FunctionCall("reordered", (Name("p"), Literal((1, 0)))),),
                        ),
                    ),
                ),
            ),
        )
    )
    assert set(FUNCTIONS) >= {"inverse", "reordered"}


def test_literals_of_different_types_differ() -> None:
    assert len({Literal(1), Literal(1.0), Literal(True), Literal((1,)), Literal("1")}) == 5
    assert Literal(0.0) != Literal(-0.0)


def test_literal_text_reads_back() -> None:
    assert literal_text((math.inf, -math.inf, 1e300, (True,))) == "(1e999, -1e999, 1e+300, (True,))"


def test_every_operator_can_be_written() -> None:
    for op in OPS:
        assert spelling(op).isidentifier()


def test_places_in_an_excerpt() -> None:
    excerpt = Excerpt("file", 7, "ab\ncdef", 3, 7)
    assert excerpt.content == "cdef"
    with pytest.raises(RuleError, match=r"^file:8:3: wrong$"):
        excerpt.fail(2, "wrong")
    with pytest.raises(RuleError, match=r"^file:8:2: wrong$"):
        excerpt.part(1, 3).fail(0, "wrong")

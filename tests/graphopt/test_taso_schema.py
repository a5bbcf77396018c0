"""Hostile files of substitutions: truncated, pointing nowhere, of another kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphopt.pattern import RuleError
from graphopt.rule import statement_text
from graphopt.taso_rules import Translated, load_taso_rules, translate
from graphopt.taso_schema import (
    MAX_BYTES,
    MAX_OPERATORS,
    Activation,
    OpType,
    Parameter,
    collection_class,
    decode_substitutions,
)
from tests.taso_file import Params, encoded, op

PLAIN: Params = {Parameter.ACTI: Activation.NONE}
X, Y, Z = (-1, 0), (-2, 0), (-3, 0)
RELU = [op(OpType.RELU, [X])]

SMALL = encoded(
    [op(OpType.MATMUL, [X, Y], PLAIN), op(OpType.MATMUL, [(0, 0), Z], PLAIN)],
    [op(OpType.MATMUL, [Y, Z], PLAIN), op(OpType.MATMUL, [X, (0, 0)], PLAIN)],
)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "expected at least one substitution, got none"),
        (b"matmul(x, y) => matmul(y, x)", "expected TASO's RuleCollection"),
        (b"\x0a\x00", "source: expected 1 to 64 operators, got 0"),
        (b"\x08\x01", "expected at least one substitution"),
        (SMALL + b"\x10\x01", "expected TASO's RuleCollection, got fields that it has not"),
        (encoded(RELU, RELU, outputs=[]), "substitution 0: expected an output, got none"),
        (encoded(RELU, RELU, outputs=[(1, 0, 0, 0)]), "an operator of the source, below 1, got 1"),
        (encoded(RELU, RELU, outputs=[(-1, 0, 0, 0)]), "an operator of the source, below 1"),
        (encoded(RELU, RELU, outputs=[(0, 0, 7, 0)]), "an operator of the target, below 1, got 7"),
        (encoded(RELU, RELU, outputs=[(0, 1, 0, 0)]), "an output, below 1, got 1"),
        (encoded(RELU, RELU, outputs=[(0, 0, 0, -5)]), "an output, below 1, got -5"),
        (encoded(RELU, RELU, outputs=[(0, 0, 0, 0)] * 2), "each output replaced once"),
        (encoded([op(8, [(0, 0)])], RELU), "source operator 0: expected the number of an earlier"),
        (encoded([op(8, [(1, 0)]), op(8, [(0, 0)])], RELU), "an earlier operator, below 0, got 1"),
        (encoded([op(8, [(2**31 - 1, 0)])], RELU), "got 2147483647"),
        (encoded([op(8, [(-(2**31), 1)])], RELU), "expected output 0 of a variable, got 1"),
        (encoded(RELU, [op(8, [Y])]), "target operator 0: expected a variable of the source"),
        (encoded([op(8, [X]), op(8, [(0, 3)])], RELU), "an output, below 1, got 3"),
        (encoded(RELU * (MAX_OPERATORS + 1), RELU), "expected 1 to 64 operators, got 65"),
        (encoded(RELU, []), "target: expected 1 to 64 operators, got 0"),
    ],
)
def test_files_that_point_nowhere_are_refused(data: bytes, problem: str) -> None:
    with pytest.raises(RuleError, match=re.escape(problem)) as caught:
        decode_substitutions(data, "bad.pb")
    assert str(caught.value).startswith("bad.pb: ")
    assert "\n" not in str(caught.value)


def test_a_parameter_given_twice_is_refused() -> None:
    collection = collection_class().FromString(SMALL)
    collection.rule[0].srcOp[0].para.add(key=9, value=2)
    with pytest.raises(RuleError, match="expected each parameter once"):
        decode_substitutions(collection.SerializeToString())


def test_truncated_files_are_refused_at_every_byte() -> None:
    assert len(decode_substitutions(SMALL)) == 1
    for length in range(len(SMALL)):
        with pytest.raises(RuleError):
            decode_substitutions(SMALL[:length], "cut.pb")


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        translate(decode_substitutions(data, "any.pb"))
    except RuleError as error:
        message = str(error)
    else:
        return
    assert message.startswith("any.pb: ")


@given(st.integers(0, len(SMALL) - 1), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_any_changed_byte_is_read_or_refused(position: int, byte: int) -> None:
    data = SMALL[:position] + bytes([byte]) + SMALL[position + 1 :]
    try:
        read = translate(decode_substitutions(data))
    except RuleError:
        return
    for entry in read:
        if isinstance(entry, Translated):
            assert statement_text(entry.rule)


def test_files_are_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "cut.pb"
    with pytest.raises(
        RuleError, match=r"cut\.pb: expected a readable rule file, got No such file"
    ):
        load_taso_rules(path)
    path.write_bytes(SMALL[:-1])
    with pytest.raises(
        RuleError, match=r"cut\.pb: expected TASO's RuleCollection, got a truncated"
    ):
        load_taso_rules(path)
    path.write_bytes(SMALL)
    assert len(load_taso_rules(path)) == 1


def test_files_of_absurd_size_are_refused_unread() -> None:
    with pytest.raises(RuleError, match="expected at most 4194304 bytes"):
        decode_substitutions(bytes(MAX_BYTES + 1))

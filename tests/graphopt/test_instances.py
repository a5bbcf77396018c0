"""Instances that are drawn for rules, held against the matcher, and the types they have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from graphopt.data_files import data_path
from graphopt.graph import Value
from graphopt.instances import FLOATS, instances
from graphopt.matching import match
from graphopt.rule import Rule
from graphopt.rules import load_rules, read_rules
from tensorgen.types import DType, int64

SHIPPED = {
    rule.name: rule
    for file in ("default.rules", "lowering.rules")
    for rule in load_rules(data_path("rules", file))
}


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


def test_literals_that_are_drawn_make_no_operand_larger() -> None:
    """The matcher takes no such constant for a scalar, so a rule says nothing of it."""
    [rule] = read_rules("ones: reduce_sum(add(mul(w, 0), 1), axes=a, keepdims=k) => w")
    drawn = list(islice(_sources(rule), 200))
    assert drawn
    assert all(list(match(rule.source, source)) for source in drawn)


def _sources(rule: Rule) -> Iterator[tuple[Value, ...]]:
    typed = replace(rule, target=rule.source)
    return (instance.source for instance in instances(typed))


@pytest.mark.parametrize("dtypes", [FLOATS, (int64,)])
def test_tensors_have_the_element_types_that_are_wanted(dtypes: tuple[DType, ...]) -> None:
    [rule] = read_rules("rule: max(x, max(y, z)) => max(max(z, y), x)")
    drawn = list(islice(instances(rule, dtypes=dtypes), 20))
    assert len(drawn) == 20
    for instance in drawn:
        for value in instance.bindings.tensors.values():
            assert value.type.dtype in dtypes

"""Winograd's matrices are exact, the rules are as committed, and together they filter tiles."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from graphopt.data_files import data_path
from graphopt.graph import Constant, Graph, Input, Node, Value, inputs_of, topological_order
from graphopt.matching import match
from graphopt.ops import conv
from graphopt.reference import evaluate_graph
from graphopt.rule import Rule, replacement
from graphopt.rules import load_rules
from graphopt.winograd_rules import KERNEL, winograd_rules
from tensorgen.types import TensorType, float64
from verify.certificate import Certificate
from verify.oracle import Agreed, judge
from verify.prover import prove
from verify.symbolic_rule import Ranks


def test_the_committed_file_is_what_is_generated() -> None:
    text = data_path("rules", "winograd.rules").read_text(encoding="utf-8")
    assert text == winograd_rules()


@cache
def rules() -> dict[str, Rule]:
    return {rule.name: rule for rule in load_rules(data_path("rules", "winograd.rules"))}


@pytest.mark.parametrize("name", sorted(rules()))
def test_the_rules_agree_with_the_oracle(name: str) -> None:
    judgement = judge(rules()[name], 8)
    assert isinstance(judgement, Agreed)
    assert judgement.instances == 8


def applied(rule: Rule, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """What a rule makes of values; it must fit."""
    for bindings in match(rule.source, values):
        found = replacement(rule, values, bindings)
        if found is not None:
            return found
    raise AssertionError(f"{rule.name} does not apply")


def convolutions(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The different convolutions that values need."""
    return tuple(v for v in topological_order(values) if isinstance(v, Node) and v.op is conv)


def phases_of(interleaved: Value) -> tuple[Value, ...]:
    """The phases that a value interleaves: reshape(concat(insert_axis(phase), …))."""
    (joined,) = inputs_of(interleaved)
    return tuple(phase for part in inputs_of(joined) for phase in inputs_of(part))


def filtered(value: Value, outputs: int, axis: str) -> tuple[Value, ...]:
    """A convolution by minimal filtering along an axis: the phases of its results."""
    (interleaved,) = applied(rules()[f"conv-phases-{outputs}-{axis}"], (value,))
    phases = phases_of(interleaved)
    assert len(convolutions(phases)) == outputs * KERNEL
    return applied(rules()[f"winograd-{outputs}"], phases)


@pytest.mark.parametrize(("outputs", "products"), [(2, 4), (4, 6)])
def test_a_line_is_filtered_with_fewer_products(outputs: int, products: int) -> None:
    rng = np.random.default_rng(0)
    x = Input(0, TensorType(float64, (2, 3, 8)))
    w = Constant(rng.integers(-4, 5, size=(5, 3, 3)).astype(np.float64))
    y = conv(x, w, strides=(1,), pads=(1, 1), dilations=(1,), groups=1)
    results = filtered(y, outputs, "line")
    assert len(convolutions(results)) == products
    names = tuple("ydefg"[: outputs + 1])
    given = {"x": rng.integers(-4, 5, size=(2, 3, 8)).astype(np.float64)}
    whole, *phases = evaluate_graph(Graph((x,), (y, *results), ("x",), names), given)
    for phase, values in enumerate(phases):
        np.testing.assert_allclose(values, whole[:, :, phase::outputs], rtol=0, atol=1e-10)


@pytest.mark.parametrize(("outputs", "products"), [(2, 16), (4, 36)])
def test_a_tile_is_filtered_axis_by_axis(outputs: int, products: int) -> None:
    """F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3)."""
    x = Input(0, TensorType(float64, (1, 2, 8, 8)))
    w = Input(1, TensorType(float64, (3, 2, 3, 3)))
    y = conv(x, w, strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=1)
    along_rows = convolutions(filtered(y, outputs, "rows"))
    along_both = [
        value for product in along_rows for value in filtered(product, outputs, "columns")
    ]
    assert len(convolutions(tuple(along_both))) == products
    # Each is a product of one element of a transformed tile and kernel, summed over channels.
    assert {inputs_of(p)[1].type.shape[2:] for p in convolutions(tuple(along_both))} == {(1, 1)}


RANKS = {"line": (1,), "rows": (2,), "columns": (2,)}
"""The spatial axes of rules about them; the others are for any."""


def is_proved(rule: Rule) -> bool:
    for spatial in RANKS.get(rule.name.rsplit("-", 1)[-1], (1, 2)):
        if not isinstance(prove(rule, Ranks((1,), (spatial,))), Certificate):
            return False
    return True


def test_minimal_filtering_is_proved() -> None:
    assert isinstance(prove(rules()["winograd-2"], Ranks((1,), (1,))), Certificate)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(rules()))
def test_the_rules_are_proved(name: str) -> None:
    assert is_proved(rules()[name])

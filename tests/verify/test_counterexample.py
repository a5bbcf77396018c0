"""Counterexamples: what shrinking keeps and makes smaller, and how they are shown."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphopt.rule import Rule
from graphopt.rules import read_rules
from graphopt.taso_rules import Groups, Translated, load_taso_rules
from tests.taso_file import FALSE_FOR_ORDINARY, taso_file
from verify.assignment import assignment_of, instance_of
from verify.counterexample import Counterexample
from verify.difference import compare
from verify.oracle import Refuted, judge
from verify.shrinking import shrunk

FALSE = {
    "exchanged": "matmul(x, y) => matmul(y, x)",
    "broadcast": "add(max(x, y), z) => max(add(x, z), y)",
    "floors": "floor(x) => round(x)",
    "slices": "slice(x, **p) => x",
    "many": "concat(*xs, y, axis=a) => concat(y, *xs, axis=a)",
    "literal": "mul(x, 3) => add(x, x)",
    "pooled": "max_pool(x, **p) => sum_pool(x, **p)",
    "two": "add(x, y), sub(x, y) => sub(x, y), add(x, y)",
    "labelled": "mul(y := conv(x, w, **q), c) => conv(mul(x, c), w, **q) where along(c, 1, y)",
    "wrapping": "div(x, y) => mul(x, div(1, y))",
}


def rule_of(text: str) -> Rule:
    [rule] = read_rules(f"rule: {text}")
    return rule


def refuting(rule: Rule, seed: int = 0) -> Counterexample:
    outcome = judge(rule, seed=seed)
    assert isinstance(outcome, Refuted)
    return outcome.counterexample


def sizes(counterexample: Counterexample) -> int:
    return sum(sum(array.shape) for _, array in counterexample.assignment.tensors)


@pytest.mark.parametrize("name", FALSE)
def test_an_assignment_builds_the_instance_that_it_was_taken_from(name: str) -> None:
    found = refuting(rule_of(FALSE[name]))
    again = instance_of(found.rule, found.assignment)
    assert again is not None
    assert [value.digest for value in again.source] == [
        value.digest for value in found.instance.source
    ]
    assert [value.digest for value in again.target] == [
        value.digest for value in found.instance.target
    ]
    assert assignment_of(found.rule, again).params == found.assignment.params


@pytest.mark.parametrize("name", FALSE)
def test_what_is_shrunk_still_refutes_and_is_no_larger(name: str) -> None:
    found = refuting(rule_of(FALSE[name]))
    small = shrunk(found, trials=400)
    assert sizes(small) <= sizes(found)
    instance = instance_of(small.rule, small.assignment)
    assert instance is not None
    assert compare(instance).difference == small.difference
    assert small.difference.source != small.difference.target
    assert len(small.text().splitlines()) <= 40


def test_shapes_shrink_to_the_smallest_and_elements_to_zero_and_one() -> None:
    small = shrunk(refuting(rule_of("sub(x, y) => sub(y, x) where same_shape(x, y)")))
    tensors = dict(small.assignment.named())
    assert {array.size for array in tensors.values()} == {1}
    assert sorted(int(array.sum()) for array in tensors.values()) == [0, 1]


def test_matrices_shrink_together() -> None:
    """x y = y x holds for one by one matrices; (1 by 2) (2 by 1) has another shape than its
    reverse. So two by two is the least."""
    small = shrunk(refuting(rule_of("matmul(x, y) => matmul(y, x) where rank(2, x, y)")))
    assert {array.shape for _, array in small.assignment.named()} == {(2, 2)}
    assert sum(array.sum() for _, array in small.assignment.named()) == 2


def test_other_types_become_floats_where_that_still_refutes() -> None:
    small = shrunk(refuting(rule_of("sub(x, y) => sub(y, x)"), seed=7))
    assert {array.dtype for _, array in small.assignment.named()} == {np.dtype(np.float64)}
    wrapping = shrunk(refuting(rule_of("div(x, y) => mul(x, div(1, y))")))
    assert all(array.dtype.kind in "iu" for _, array in wrapping.assignment.named())


def test_shrinking_twice_changes_nothing_more() -> None:
    small = shrunk(refuting(rule_of(FALSE["broadcast"])))
    again = shrunk(small)
    assert again.as_json() == small.as_json()
    assert shrunk(refuting(rule_of(FALSE["broadcast"]))).as_json() == small.as_json()


def test_no_trials_leave_it_as_it_is() -> None:
    found = refuting(rule_of(FALSE["exchanged"]))
    assert shrunk(found, trials=0) is found


@pytest.mark.slow
@pytest.mark.parametrize("index", FALSE_FOR_ORDINARY)
def test_the_false_substitutions_of_taso_shrink_to_kernels_of_one(index: int) -> None:
    """Two convolutions of one channel, with one and with three results: merged into two groups,
    each group makes two of the four."""
    entry = load_taso_rules(taso_file(), Groups.ONE)[index]
    assert isinstance(entry, Translated)
    small = shrunk(refuting(entry.rule))
    shapes = sorted(array.shape for _, array in small.assignment.named())
    assert shapes == [(1, 1, 1, 1)] * 3 + [(3, 1, 1, 1)]
    assert all(set(np.unique(array)) <= {0, 1} for _, array in small.assignment.named())
    assert dict(small.assignment.params) == {"p0": (0, 0, 0, 0), "p1": (0, 0, 0, 0)}


def test_both_sides_stand_beside_each_other() -> None:
    rule = rule_of("transpose(x, perm=p) => reshape(x, shape=reordered(shape_of(x), p))")
    found = refuting(rule)
    x = np.asarray([[0.0, 1.0], [2.0, 0.5]])
    assignment = type(found.assignment)(((("x", 0), x),), (("p", (1, 0)),), ())
    instance = instance_of(rule, assignment)
    assert instance is not None
    shown = Counterexample.of(rule, instance, compare(instance))
    assert shown.text() == (
        "rule: transpose(x, perm=p) => reshape(x, shape=reordered(shape_of(x), p))\n"
        "is false for\n"
        "  x = float64[2,2] [[0, 1], [2, 1/2]]\n"
        "  p = (1, 0)\n"
        "the source gives 2, the target 1 at [0, 1]\n"
        "  source       target\n"
        "     0 >  2<      0 >  1<\n"
        "     1  1/2       2  1/2"
    )
    assert str(shown) == shown.text()


def test_large_results_show_what_lies_around_the_difference() -> None:
    rule = rule_of("neg(x) => sub(0, abs(x)) where floating(x)")
    x = np.ones((3, 40, 50))
    x[2, 30, 45] = -1.0
    assignment = refuting(rule).assignment.with_tensor(("x", 0), x)
    instance = instance_of(rule, assignment)
    assert instance is not None
    text = Counterexample.of(rule, instance, compare(instance)).text()
    lines = text.splitlines()
    assert "  x = float64[3,40,50] of 6000 elements" in lines
    assert "the source gives 1, the target -1 at [2, 30, 45]" in lines
    assert sum(line.count(">") == 2 for line in lines) == 1
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_scalars_and_several_results_are_shown() -> None:
    small = shrunk(refuting(rule_of("add(x, y), sub(x, y) => add(x, y), sub(y, x)")))
    assert "at [] of result 1" in small.text() or "of result 1" in small.text()
    assert small.difference.result == 1


def test_names_of_sequences_are_counted() -> None:
    found = refuting(rule_of(FALSE["many"]), seed=1)
    names = [name for name, _ in found.assignment.named()]
    assert "y" in names
    assert any(name.startswith("xs[") for name in names)


def test_json_says_all_of_it() -> None:
    small = shrunk(refuting(rule_of(FALSE["exchanged"])))
    said = json.loads(json.dumps(small.as_json()))
    assert said["statement"] == FALSE["exchanged"]
    assert said["digest"] == small.rule.digest
    assert set(said["tensors"]) == {"x", "y"}
    assert said["tensors"]["x"]["type"] == "float64"
    elements = np.asarray([float(n) for n in said["tensors"]["x"]["elements"]])
    array = dict(small.assignment.named())["x"]
    assert np.array_equal(elements.reshape(said["tensors"]["x"]["shape"]), array)
    [result] = said["results"]
    position = int(np.ravel_multi_index(said["difference"]["index"], result["source"]["shape"]))
    assert result["source"]["elements"][position] == said["difference"]["source"]
    assert result["target"]["elements"][position] == said["difference"]["target"]


def test_parameters_become_neutral() -> None:
    found = refuting(rule_of("max_pool(x, **p) => sum_pool(x, **p)"))
    small = shrunk(found)
    assert dict(small.assignment.captured)["p"] == (
        ("dilations", (1,)),
        ("kernel", (2,)),
        ("pads", (0, 0)),
        ("strides", (1,)),
    )

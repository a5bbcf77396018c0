"""The rewrite engine: fixed points, sharing, limits, and what the shipped rules do to models."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphopt.data_files import data_path
from graphopt.evaluation import evaluate
from graphopt.graph import Constant, Graph, Input, Node, Value
from graphopt.instances import Instance, instances
from graphopt.ops import OP
from graphopt.rewrite import (
    Applied,
    StopReason,
    apply_match,
    find_matches,
    rewrite,
    simplify,
    uses_of,
)
from graphopt.rules import Rule, load_rules, read_rules
from tensorgen.types import Shape, TensorType, float32, float64

RULES = load_rules(data_path("rules", "default.rules"))
LOWERING = load_rules(data_path("rules", "lowering.rules"))

X = Input(0, TensorType(float64, (2, 3)))
RNG = np.random.default_rng(5)


def constant(*shape: int) -> Constant:
    return Constant(RNG.integers(1, 5, size=shape).astype(np.float64))


def scalar(value: float) -> Constant:
    return Constant(np.asarray(value, dtype=np.float64))


def graph(*outputs: Value, inputs: tuple[Input, ...] = (X,)) -> Graph:
    names = tuple(f"x{n}" for n in range(len(inputs)))
    return Graph(inputs, outputs, names, tuple(f"y{n}" for n in range(len(outputs))))


def operators(of: Graph) -> dict[str, int]:
    return dict(Counter(node.op.name for node in of.nodes))


def assert_equal_values(before: Graph, after: Graph) -> None:
    """Both graphs compute the same on random integers."""
    feeds = {value.digest: constant(*value.type.shape) for value in before.inputs}
    wanted, found = evaluate(rebuild_on(before, feeds)), evaluate(rebuild_on(after, feeds))
    for x, y in zip(wanted, found, strict=True):
        assert np.allclose(x.astype(float), y.astype(float), rtol=1e-9, atol=1e-9)


def rebuild_on(of: Graph, feeds: dict[bytes, Constant]) -> tuple[Value, ...]:
    """The outputs of a graph with constants for its inputs."""
    replaced: dict[bytes, Value] = {}
    for value in of.values:
        if isinstance(value, Node):
            operands = [replaced[operand.digest] for operand in value.inputs]
            replaced[value.digest] = value.op(*operands, **value.keywords)
        else:
            replaced[value.digest] = feeds.get(value.digest, value)
    return tuple(replaced[output.digest] for output in of.outputs)


def conv(x: Value, w: Value, pad: int = 0) -> Node:
    return OP["conv"](x, w, strides=(1, 1), pads=(pad,) * 4, dilations=(1, 1), groups=1)


# Fixed points


def test_nothing_to_do_is_the_same_graph() -> None:
    whole = graph(OP["exp"](OP["add"](X, X)))
    run = rewrite(whole, RULES)
    assert run.graph is whole
    assert run.applied == ()
    assert run.stop is StopReason.FIXED_POINT


def test_a_simplified_graph_stays() -> None:
    whole = graph(OP["neg"](OP["neg"](OP["mul"](X, scalar(1)))))
    once = simplify(whole, RULES).graph
    assert once.outputs == (X,)
    assert simplify(once, RULES).graph is once


def test_what_was_done_is_told() -> None:
    run = rewrite(graph(OP["neg"](OP["neg"](OP["mul"](X, scalar(1))))), RULES)
    assert run.applied == (
        Applied("mul-one", "mul", X.type),
        Applied("involution[neg]", "neg", X.type),
    )
    assert run.counts == (("involution[neg]", 1), ("mul-one", 1))
    assert str(run.applied[0]) == "mul-one at mul float64[2,3]"


def test_rules_are_tried_in_order() -> None:
    first, second = read_rules("a: neg(x) => sub(0, x)\nb: neg(x) => mul(x, -1)")
    whole = graph(OP["neg"](X))
    assert operators(rewrite(whole, [first, second]).graph) == {"sub": 1}
    assert operators(rewrite(whole, [second, first]).graph) == {"mul": 1}


def test_new_nodes_are_rewritten_too() -> None:
    rules = read_rules("a: exp(x) => neg(neg(log(x)))\nb: neg(neg(x)) => x\nc: log(x) => sqrt(x)")
    run = rewrite(graph(OP["exp"](X)), rules)
    assert run.graph.outputs == (OP["sqrt"](X),)


def test_rules_that_undo_each_other_end_at_the_limit() -> None:
    rules = read_rules("a: add(x, x) => mul(x, 2)\nb: mul(x, 2) => add(x, x)")
    run = rewrite(graph(OP["add"](X, X)), rules, steps=51)
    assert run.stop is StopReason.STEP_LIMIT
    assert len(run.applied) == 51
    assert_equal_values(graph(OP["add"](X, X)), run.graph)


def test_a_growing_rule_ends_at_the_limit() -> None:
    rules = read_rules("a: exp(x) => neg(neg(exp(add(x, 0))))")
    run = rewrite(graph(OP["exp"](X)), rules, steps=500)
    assert run.stop is StopReason.STEP_LIMIT


def test_no_steps_change_nothing() -> None:
    whole = graph(OP["neg"](OP["neg"](X)))
    run = rewrite(whole, RULES, steps=0)
    assert run.graph is whole
    assert run.stop is StopReason.STEP_LIMIT


def test_a_rule_does_not_apply_where_types_would_change() -> None:
    grown = OP["mul"](X, Constant(np.ones((4, 2, 3))))
    assert rewrite(graph(grown), RULES).graph.outputs == (grown,)
    assert rewrite(graph(OP["mul"](X, Constant(np.ones((1, 3))))), RULES).graph.outputs == (X,)


# Sharing


def test_equal_terms_are_one_value() -> None:
    one = OP["exp"](OP["add"](X, scalar(0)))
    other = OP["exp"](OP["mul"](X, scalar(1)))
    run = rewrite(graph(one, other), RULES)
    assert run.graph.outputs[0] is run.graph.outputs[1]


def test_outputs_count_as_readers() -> None:
    inner = OP["neg"](X)
    uses = uses_of(graph(OP["add"](inner, inner), inner))
    assert (uses(inner), uses(X), uses(OP["exp"](X))) == (3, 1, 0)


def test_a_shared_product_keeps_its_weights() -> None:
    """Folding a scale into the weights of a product that something else reads would double it."""
    product = OP["matmul"](X, constant(3, 4))
    scaled = OP["mul"](product, constant(4))
    assert operators(simplify(graph(scaled), RULES).graph) == {"matmul": 1}
    both = graph(scaled, OP["exp"](product))
    assert simplify(both, RULES).graph is both


def test_dead_code_is_gone() -> None:
    run = rewrite(graph(OP["where"](OP["isnan"](OP["exp"](X)), X, X)), RULES)
    assert run.graph.nodes == ()


# Rules with several results

MERGE = read_rules(
    """
merge: matmul(x, y), matmul(x, z)
       => slice(matmul(x, concat(y, z, axis=1)), starts=(0, 0), steps=(1, 1), sizes=(2, 2)),
          slice(matmul(x, concat(y, z, axis=1)), starts=(0, 2), steps=(1, 1), sizes=(2, 2))
"""
)


def test_several_results_are_replaced_together() -> None:
    y, z = constant(3, 2), constant(3, 2)
    whole = graph(OP["exp"](OP["matmul"](X, y)), OP["neg"](OP["matmul"](X, z)))
    run = rewrite(whole, MERGE)
    assert operators(run.graph) == {"concat": 1, "matmul": 1, "slice": 2, "exp": 1, "neg": 1}
    assert run.counts == (("merge", 1),)
    assert_equal_values(whole, run.graph)


def test_results_of_one_another_are_not_joined() -> None:
    """The second product reads the first: joined, each would be computed from itself."""
    square = Input(0, TensorType(float64, (2, 2)))
    first = OP["matmul"](square, constant(2, 2))
    second = OP["matmul"](square, first)
    whole = graph(second, inputs=(square,))
    assert list(find_matches(whole, MERGE)) == []
    assert rewrite(whole, MERGE).graph is whole


# Places


def test_places_are_found_and_applied_one_by_one() -> None:
    [rule] = read_rules("a: neg(neg(x)) => x")
    twice = OP["neg"](OP["neg"](OP["neg"](X)))
    whole = graph(twice, OP["exp"](OP["neg"](OP["neg"](X))))
    places = list(find_matches(whole, [rule]))
    assert len(places) == 2
    for place in places:
        assert_equal_values(whole, apply_match(whole, place))
    assert apply_match(whole, places[0]).outputs[1] == OP["exp"](X)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_shipped_rule_applies_in_a_graph(rule: Rule) -> None:
    """On an instance whose tensors are inputs wherever the rule does not ask for constants."""
    for _, instance in zip(range(40), instances(rule, seed=7), strict=False):
        whole = _with_inputs(instance)
        places = list(find_matches(whole, [rule]))
        if places:
            changed = apply_match(whole, places[0])
            assert changed.outputs[0].type == whole.outputs[0].type
            return
    pytest.fail("found no place for the rule")


def _with_inputs(instance: Instance) -> Graph:
    """The source of an instance with an input for each tensor that has more than one value."""
    inputs: dict[bytes, Input] = {}
    names = {"c", "d", "w", "v"}
    free = {
        value.digest
        for name, value in instance.bindings.tensors.items()
        if name not in names and isinstance(value, Constant)
    }
    whole = Graph((), instance.source, (), ("y",))
    replaced: dict[bytes, Value] = {}
    for value in whole.values:
        if isinstance(value, Node):
            operands = [replaced[operand.digest] for operand in value.inputs]
            replaced[value.digest] = value.op(*operands, **value.keywords)
        elif value.digest in free:
            number = len(inputs)
            replaced[value.digest] = inputs.setdefault(value.digest, Input(number, value.type))
        else:
            replaced[value.digest] = value
    found = tuple(inputs.values())
    outputs = tuple(replaced[output.digest] for output in instance.source)
    return Graph(found, outputs, tuple(f"x{n}" for n in range(len(found))), ("y",))


# What the shipped rules do to models


def batch_normalized(x: Value, channels: int) -> Value:
    """y = (x - mean) / sqrt(variance + epsilon) * scale + bias, as exporters write it."""

    def parameter() -> Constant:
        return constant(channels, 1, 1)

    deviation = OP["sqrt"](OP["add"](parameter(), scalar(1e-5)))
    centred = OP["div"](OP["sub"](x, parameter()), deviation)
    return OP["add"](OP["mul"](centred, parameter()), parameter())


def test_batch_normalization_folds_into_a_convolution() -> None:
    image = Input(0, TensorType(float64, (1, 3, 5, 5)))
    product = OP["add"](conv(image, constant(4, 3, 3, 3), pad=1), constant(1, 4, 1, 1))
    whole = graph(OP["max"](batch_normalized(product, 4), scalar(0)), inputs=(image,))
    run = simplify(whole, RULES)
    assert operators(run.graph) == {"conv": 1, "add": 1, "max": 1}
    assert_equal_values(whole, run.graph)


def test_batch_normalization_folds_into_a_grouped_convolution() -> None:
    image = Input(0, TensorType(float64, (2, 4, 5, 5)))
    product = OP["conv"](
        image, constant(4, 1, 3, 3), strides=(2, 2), pads=(1, 0, 1, 2), dilations=(1, 1), groups=4
    )
    whole = graph(batch_normalized(product, 4), inputs=(image,))
    run = simplify(whole, RULES)
    assert operators(run.graph) == {"conv": 1, "add": 1}
    assert_equal_values(whole, run.graph)


def test_scales_fold_into_matrices() -> None:
    product = OP["matmul"](OP["mul"](X, constant(3)), constant(3, 4))
    whole = graph(OP["add"](OP["div"](product, constant(1, 4)), constant(4)))
    run = simplify(whole, RULES)
    assert operators(run.graph) == {"matmul": 1, "add": 1}
    assert_equal_values(whole, run.graph)


def test_layout_changes_around_elementwise_operators_cancel() -> None:
    image = Input(0, TensorType(float64, (1, 3, 4, 5)))
    inner = OP["transpose"](image, perm=(0, 2, 3, 1))
    inner = OP["mul"](OP["sigmoid"](OP["add"](inner, constant(3))), inner)
    inner = OP["max"](OP["reshape"](inner, shape=(20, 3)), scalar(0))
    inner = OP["reshape"](inner, shape=(1, 4, 5, 3))
    whole = graph(OP["transpose"](inner, perm=(0, 3, 1, 2)), inputs=(image,))
    run = simplify(whole, RULES)
    assert operators(run.graph) == {"add": 1, "sigmoid": 1, "mul": 1, "max": 1}
    assert_equal_values(whole, run.graph)


def test_clips_merge() -> None:
    clipped = OP["max"](OP["max"](X, scalar(0)), scalar(-1))
    clipped = OP["min"](OP["min"](clipped, scalar(6)), scalar(9))
    run = simplify(graph(clipped), RULES)
    assert run.graph.outputs == (OP["min"](OP["max"](X, scalar(0)), scalar(6)),)


def test_padding_moves_into_windows_and_out_again() -> None:
    image = Input(0, TensorType(float64, (1, 3, 5, 5)))
    padded = OP["pad"](image, scalar(0), before=(0, 0, 1, 0), after=(0, 0, 2, 1), mode="constant")
    whole = graph(conv(padded, constant(4, 3, 3, 3), pad=1), inputs=(image,))
    merged = simplify(whole, RULES).graph
    assert operators(merged) == {"conv": 1}
    lowered = rewrite(merged, LOWERING).graph
    assert operators(lowered) == {"pad": 1, "conv": 1}
    assert_equal_values(whole, merged)
    assert_equal_values(whole, lowered)
    assert rewrite(lowered, LOWERING).graph is lowered


def test_division_stays_unless_it_is_exact() -> None:
    third = graph(OP["div"](X, scalar(3)))
    assert simplify(third, RULES).graph is third
    quarter = simplify(graph(OP["div"](X, scalar(4))), RULES).graph
    assert quarter.outputs == (OP["mul"](X, scalar(0.25)),)


def test_slices_of_concatenations_read_one_part() -> None:
    y, z = (Input(n, TensorType(float64, (2, size))) for n, size in ((0, 3), (1, 5)))
    joined = OP["concat"](y, OP["concat"](z, y, axis=1), axis=1)
    part = OP["slice"](joined, starts=(0, 4), steps=(1, 2), sizes=(2, 2))
    whole = graph(part, inputs=(y, z))
    run = simplify(whole, RULES)
    assert run.graph.outputs == (OP["slice"](z, starts=(0, 1), steps=(1, 2), sizes=(2, 2)),)
    assert_equal_values(whole, run.graph)


def test_a_concatenation_that_is_read_elsewhere_stays_one() -> None:
    """A layer of DenseNet reads all that came before it: the nested results share storage, flat
    ones would each be copied."""
    y, z = (Input(n, TensorType(float64, (2, size))) for n, size in ((0, 3), (1, 5)))
    inner = OP["concat"](y, z, axis=1)
    outer = OP["concat"](inner, z, axis=1)
    alone = simplify(graph(outer, inputs=(y, z)), RULES).graph
    assert alone.outputs == (OP["concat"](y, z, z, axis=1),)
    shared = graph(outer, OP["exp"](inner), inputs=(y, z))
    assert simplify(shared, RULES).graph is shared


# Random graphs


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    values: list[Value] = [X, scalar(0), scalar(1), scalar(2), Constant(np.asarray([[2.0, 4, 8]]))]
    for _ in range(draw(st.integers(1, 12))):
        x = draw(st.sampled_from(values))
        y = draw(st.sampled_from(values))
        match draw(st.integers(0, 7)):
            case 0:
                values.append(OP[draw(st.sampled_from(["neg", "abs", "floor"]))](x))
            case 1 | 2:
                name = draw(st.sampled_from(["add", "sub", "mul", "max", "min"]))
                if _fit(x.type.shape, y.type.shape):
                    values.append(OP[name](x, y))
            case 3:
                perm = tuple(draw(st.permutations(range(x.type.rank))))
                values.append(OP["transpose"](x, perm=perm))
            case 4:
                values.append(OP["reshape"](x, shape=(x.type.size, 1)))
            case 5 if x.type.rank == 2 and x.type.shape == y.type.shape:
                values.append(OP["concat"](x, y, axis=draw(st.integers(0, 1))))
            case 6 if x.type.rank == 2:
                sizes = tuple(draw(st.integers(1, size)) for size in x.type.shape)
                values.append(OP["slice"](x, starts=(0, 0), steps=(1, 1), sizes=sizes))
            case 7 if x.type.rank == 2:
                values.append(OP["matmul"](x, constant(x.type.shape[1], 2)))
            case _:
                values.append(OP["broadcast_to"](x, shape=(2, *x.type.shape)))
    return graph(values[-1])


def _fit(x: Shape, y: Shape) -> bool:
    try:
        return len(np.broadcast_shapes(x, y)) < 6
    except ValueError:
        return False


@settings(deadline=None, max_examples=80)
@given(random_graphs())
def test_random_graphs_keep_their_values(whole: Graph) -> None:
    run = simplify(whole, RULES)
    assert run.stop is StopReason.FIXED_POINT
    assert [value.type for value in run.graph.outputs] == [value.type for value in whole.outputs]
    assert_equal_values(whole, run.graph)
    assert simplify(run.graph, RULES).graph is run.graph


def test_some_thousand_nodes_take_a_second_or_two() -> None:
    image = Input(0, TensorType(float32, (1, 8, 4, 4)))

    def single(values: Constant) -> Constant:
        return Constant(values.array.astype(np.float32))

    value: Value = image
    for _ in range(250):
        product = conv(value, single(constant(8, 8, 1, 1)))
        scaled = OP["mul"](product, single(constant(8, 1, 1)))
        shifted = OP["add"](OP["add"](scaled, single(constant(8, 1, 1))), single(constant(8, 1, 1)))
        moved = OP["transpose"](shifted, perm=(0, 2, 3, 1))
        active = OP["max"](moved, single(scalar(0)))
        back = OP["transpose"](active, perm=(0, 3, 1, 2))
        value = OP["add"](OP["neg"](OP["neg"](back)), OP["reshape"](value, shape=(1, 8, 4, 4)))
    whole = graph(value, inputs=(image,))
    assert len(whole.nodes) > 2500
    start = time.perf_counter()
    run = simplify(whole, RULES)
    seconds = time.perf_counter() - start
    assert len(run.graph.nodes) == 4 * 250
    # Half a second on an idle core; the margin is for a busy one.
    assert seconds < 10

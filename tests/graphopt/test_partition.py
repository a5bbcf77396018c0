"""Partition: which operators share a kernel, and that the kernels compute the graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphopt.fragments import MAX_TERMS, view_of
from graphopt.graph import Constant, Graph, Input, Value
from graphopt.ops import OP
from graphopt.optimize import prepare
from graphopt.partition import partition, stored_views
from graphopt.reference import evaluate_graph
from graphopt.step import Step, is_window
from tensorgen.contraction import contraction_of
from tensorgen.expr import walk
from tensorgen.types import Array, Shape, TensorType, float32
from tests.compiled_kernels import assert_same, evaluate_task
from tests.random_graphs import inputs_for, random_graph


def graph_of(*outputs: Value, inputs: tuple[Input, ...] = ()) -> Graph:
    """A graph over the inputs that its outputs need, in their order."""
    found = {
        value.position: value
        for value in Graph((), outputs, (), tuple(map(str, range(len(outputs))))).values
        if isinstance(value, Input)
    }
    kept = inputs or tuple(found[position] for position in sorted(found))
    names = tuple(f"x{value.position}" for value in kept)
    return Graph(kept, outputs, names, tuple(f"y{n}" for n in range(len(outputs))))


def tensor(*shape: int, position: int = 0) -> Input:
    return Input(position, TensorType(float32, shape))


def weight(*shape: int, seed: int = 0) -> Constant:
    rng = np.random.default_rng(seed)
    return Constant(rng.integers(-2, 3, shape).astype(np.float32))


def scalar(value: float) -> Constant:
    return Constant(np.asarray(value, np.float32))


def conv(x: Value, w: Value, pad: int = 0) -> Value:
    return OP["conv"](x, w, strides=(1, 1), pads=(pad,) * 4, dilations=(1, 1), groups=1)


def relu(x: Value) -> Value:
    return OP["max"](x, scalar(0))


def reduced(name: str, x: Value, axis: int) -> Value:
    return OP[name](x, axes=(axis,), keepdims=True)


def run_steps(graph: Graph, arrays: dict[str, Array]) -> list[Array]:
    """The outputs, computed step by step by the interpreter of tensor expressions."""
    views = stored_views(graph)
    known: dict[Value, Array] = {
        value: arrays[name] for name, value in zip(graph.input_names, graph.inputs, strict=True)
    }

    def value_of(value: Value) -> Array:
        if value in known:
            return known[value]
        if isinstance(value, Constant):
            return value.array
        source, offset = views[value]
        part = value_of(source).reshape(-1)[offset : offset + value.type.size]
        return part.reshape(value.type.shape)

    for step in partition(graph):
        results = evaluate_task(step.task, [value_of(value) for value in step.inputs])
        known.update(zip(step.outputs, results, strict=True))
    return [value_of(value) for value in graph.outputs]


def steps_of(*outputs: Value) -> tuple[Step, ...]:
    """The steps of a graph, which compute what it means."""
    graph = graph_of(*outputs)
    arrays = inputs_for(graph, 1)
    expected = evaluate_graph(graph, arrays)
    for found, wanted in zip(run_steps(graph, arrays), expected, strict=True):
        assert_same(found, np.asarray(wanted), 64.0)
    return partition(graph)


@pytest.mark.parametrize("seed", range(120))
def test_steps_compute_the_graph(seed: int) -> None:
    graph = random_graph(seed, size=8 + seed % 8)
    arrays = inputs_for(graph, seed)
    expected = evaluate_graph(graph, arrays)
    for found, wanted in zip(run_steps(graph, arrays), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", range(0, 120, 9))
def test_steps_are_in_order_and_store_each_value_once(seed: int) -> None:
    graph = random_graph(seed)
    stored: set[Value] = set()
    views = stored_views(graph)
    for step in partition(graph):
        for value in step.inputs:
            while value in views:
                value = views[value][0]
            assert value in stored or isinstance(value, Input | Constant)
        assert not stored & set(step.outputs)
        stored.update(step.outputs)
        assert step.task.output_types == tuple(value.type for value in step.outputs)
        assert step.task.inputs == tuple(value.type for value in step.inputs)


# Chains


def test_elementwise_chains_are_one_kernel() -> None:
    x = tensor(4, 6)
    assert len(steps_of(relu(OP["add"](OP["mul"](x, weight(6)), weight(4, 1))))) == 1


def test_convolution_bias_relu_is_one_kernel() -> None:
    bias = weight(1, 4, 1, 1, seed=1)
    (step,) = steps_of(relu(OP["add"](conv(tensor(1, 3, 6, 6), weight(4, 3, 3, 3)), bias)))
    assert contraction_of(step.task) is not None


def test_residual_block_is_a_kernel_for_each_convolution() -> None:
    x = tensor(1, 4, 6, 6)
    inner = relu(conv(x, weight(4, 4, 1, 1)))
    steps = steps_of(relu(OP["add"](conv(inner, weight(4, 4, 1, 1, seed=1)), x)))
    assert len(steps) == 2
    assert all(contraction_of(step.task) is not None for step in steps)


def gelu(x: Value) -> Value:
    inner = OP["add"](OP["erf"](OP["mul"](x, scalar(0.7071))), scalar(1))
    return OP["mul"](OP["mul"](x, scalar(0.5)), inner)


def test_matmul_bias_gelu_is_one_kernel() -> None:
    total = OP["add"](OP["matmul"](tensor(5, 8), weight(8, 12)), weight(12, seed=1))
    steps = steps_of(gelu(total))
    # The sum is read twice by the activation.
    assert len(steps) <= 2
    assert contraction_of(steps[0].task) is not None


def test_softmax_is_one_kernel() -> None:
    x = tensor(4, 9)
    power = OP["exp"](OP["sub"](x, reduced("reduce_max", x, 1)))
    (step,) = steps_of(OP["div"](power, reduced("reduce_sum", power, 1)))
    assert len(step.task.stages) > 1


def test_softmax_over_the_first_axis_is_right() -> None:
    x = tensor(4, 9)
    power = OP["exp"](OP["sub"](x, reduced("reduce_max", x, 0)))
    steps_of(OP["div"](power, reduced("reduce_sum", power, 0)))


def test_layer_normalisation_is_one_kernel() -> None:
    x = tensor(4, 8)
    mean = OP["mul"](reduced("reduce_sum", x, 1), scalar(1 / 8))
    centred = OP["sub"](x, mean)
    squares = reduced("reduce_sum", OP["mul"](centred, centred), 1)
    deviation = OP["sqrt"](OP["add"](OP["mul"](squares, scalar(1 / 8)), scalar(1e-5)))
    scaled = OP["mul"](OP["div"](centred, deviation), weight(8))
    (step,) = steps_of(OP["add"](scaled, weight(8, seed=1)))
    assert step.task.output_types == (x.type,)


def test_padding_and_pooling_are_one_kernel() -> None:
    x = tensor(1, 3, 6, 6)
    pooled = OP["max_pool"](x, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1))
    graph = prepare(graph_of(pooled))
    assert len(partition(graph)) == 1


def depthwise(x: Value, kernel: int, pad: int) -> Value:
    channels = x.type.shape[1]
    w = weight(channels, 1, kernel, kernel)
    return OP["conv"](
        x, w, strides=(1, 1), pads=(pad,) * 4, dilations=(1, 1), groups=channels
    )  # fmt: skip


def test_padding_a_window_and_what_follows_are_one_window() -> None:
    shifted = OP["add"](depthwise(tensor(1, 3, 6, 6), 3, 1), weight(3, 1, 1, seed=1))
    (step,) = partition(prepare(graph_of(relu(shifted))))
    assert is_window(step.task)


def test_padding_is_absorbed_by_each_window_that_reads_it() -> None:
    x = tensor(1, 3, 8, 8)
    padded = OP["pad"](x, scalar(0), before=(0, 0, 1, 1), after=(0, 0, 1, 1), mode="constant")
    graph = graph_of(depthwise(padded, 3, 0), depthwise(padded, 2, 0))
    steps = partition(prepare(graph))
    assert len(steps) == 2
    assert all(is_window(step.task) for step in steps)


def test_the_sum_of_two_windows_is_stored_in_between() -> None:
    """One kernel would have two folds, and no tiles."""
    x = tensor(1, 3, 8, 8)
    steps = partition(prepare(graph_of(OP["add"](depthwise(x, 3, 1), depthwise(x, 5, 2)))))
    assert [is_window(step.task) for step in steps] == [True, True]


def test_a_value_used_twice_is_computed_once() -> None:
    shared = OP["exp"](tensor(4, 6))
    steps = steps_of(OP["add"](shared, reduced("reduce_sum", shared, 0)))
    assert sum(shared in step.outputs for step in steps) <= 1
    applied = [
        sum("exp" in str(term.op.name) for stage in step.task.stages for term in walk(stage.body)
            if hasattr(term, "op"))
        for step in steps
    ]  # fmt: skip
    assert sum(applied) == 1


def test_an_output_inside_a_chain_is_stored() -> None:
    inner = OP["exp"](tensor(4))
    steps = steps_of(relu(inner), inner)
    assert {value for step in steps for value in step.outputs} >= {inner}


# Layout


LAYOUTS: dict[str, Callable[[Value], Value]] = {
    "reshape": lambda x: OP["reshape"](x, shape=(2, 12)),
    "slice": lambda x: OP["slice"](x, starts=(1, 0), steps=(1, 1), sizes=(2, 6)),
    "insert": lambda x: OP["reshape"](x, shape=(4, 1, 6)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_contiguous_parts_are_views(name: str) -> None:
    x = tensor(4, 6)
    value = LAYOUTS[name](x)
    graph = graph_of(value)
    assert partition(graph) == ()
    assert stored_views(graph) == {value: (x, 6 if name == "slice" else 0)}


def test_a_transpose_alone_is_a_copy() -> None:
    assert len(steps_of(OP["transpose"](tensor(4, 6), perm=(1, 0)))) == 1


def test_a_strided_slice_is_a_copy() -> None:
    x = tensor(4, 6)
    assert len(steps_of(OP["slice"](x, starts=(0, 0), steps=(1, 2), sizes=(4, 3)))) == 1


@pytest.mark.parametrize("before", [False, True])
def test_transposes_join_the_kernel_beside_them(before: bool) -> None:
    x = tensor(4, 6)
    turned = OP["transpose"](x, perm=(1, 0)) if before else relu(x)
    result = relu(turned) if before else OP["transpose"](turned, perm=(1, 0))
    assert len(steps_of(result)) == 1


def test_transposed_operands_of_a_product_cost_nothing() -> None:
    x, y = tensor(4, 6), tensor(5, 6, position=1)
    product = OP["matmul"](x, OP["transpose"](y, perm=(1, 0)))
    (step,) = steps_of(OP["transpose"](product, perm=(1, 0)))
    assert contraction_of(step.task) is not None


def test_attention_heads_are_split_without_copies() -> None:
    x = tensor(5, 8)
    projected = OP["matmul"](x, weight(8, 8))
    heads = OP["transpose"](OP["reshape"](projected, shape=(5, 2, 4)), perm=(1, 0, 2))
    (step,) = steps_of(heads)
    assert contraction_of(step.task) is not None


# Outputs without a kernel


def test_outputs_that_are_inputs_or_constants_need_no_step() -> None:
    x = tensor(3)
    graph = graph_of(x, weight(2), x)
    assert partition(graph) == ()


def test_equal_outputs_are_one_step() -> None:
    assert len(steps_of(relu(tensor(3)), relu(tensor(3)))) == 1


def test_fused_expressions_stay_small() -> None:
    value: Value = tensor(5)
    for n in range(150):
        value = OP["add"](OP["mul"](value, weight(5, seed=2 * n)), weight(5, seed=2 * n + 1))
    graph = graph_of(value)
    sizes = [
        sum(1 for _ in walk(stage.body)) for step in partition(graph) for stage in step.task.stages
    ]
    assert max(sizes) <= MAX_TERMS
    assert len(sizes) < 15


def test_scalars_and_empty_tensors() -> None:
    steps_of(OP["add"](tensor(), scalar(2)))
    steps_of(OP["add"](tensor(0, 3), weight(3)))
    shape: Shape = (2, 0)
    steps_of(reduced("reduce_sum", tensor(*shape), 1))


def test_a_view_is_found_from_its_fragment_only() -> None:
    from graphopt.fragments import Fragment
    from tensorgen.expr import Tensor, compute

    x = tensor(4, 6)
    operand = Tensor(0, x.type)
    moved = compute((4, 6), lambda i, j: operand[i, j])
    turned = compute((6, 4), lambda i, j: operand[j, i])
    changed = compute((4, 6), lambda i, j: operand[i, j] + 1.0)
    assert view_of(Fragment((x,), None, moved, False)) == (x, 0)
    assert view_of(Fragment((x,), None, turned, False)) is None
    assert view_of(Fragment((x,), None, changed, True)) is None


def test_repeated_squares_do_not_grow_without_bound() -> None:
    value: Value = tensor(3)
    for n in range(60):
        value = OP["sub"](OP["mul"](value, value), weight(3, seed=n))
    assert 1 < len(partition(graph_of(value))) < 20


def test_only_what_is_read_outside_is_stored() -> None:
    x = tensor(4, 9)
    power = OP["exp"](OP["sub"](x, reduced("reduce_max", x, 1)))
    share = OP["div"](power, reduced("reduce_sum", power, 1))
    (alone,) = steps_of(share)
    assert alone.outputs == (share,)
    (both,) = steps_of(share, power)
    assert set(both.outputs) == {share, power}
    flat = OP["reshape"](OP["reshape"](power, shape=(2, 18)), shape=(36,))
    (viewed,) = steps_of(share, flat)
    assert len(viewed.outputs) == 2


def test_rows_are_read_where_they_lie() -> None:
    """Kernels of different rows are one kernel; part of a row is a place in the expression."""
    x = OP["exp"](tensor(4, 6))
    rows = [OP["slice"](x, starts=(n, 0), steps=(1, 1), sizes=(1, 6)) for n in range(4)]
    graph = graph_of(*(OP["tanh"](row) for row in rows))
    assert len({step.task for step in partition(graph)}) == 2
    assert stored_views(graph) == {row: (x, 6 * n) for n, row in enumerate(rows)}
    columns = [OP["slice"](x, starts=(0, n), steps=(1, 1), sizes=(4, 3)) for n in (0, 3)]
    assert not stored_views(graph_of(*(OP["tanh"](column) for column in columns)))


def stored(*outputs: Value) -> set[Value]:
    """What the steps of a graph store."""
    return {output for step in steps_of(*outputs) for output in step.outputs}


def silu(x: Value) -> Value:
    return OP["mul"](x, OP["sigmoid"](x))


def hard_swish(x: Value, bias: Value) -> Value:
    """As rewriting leaves it: the bias is in each factor, with another constant."""
    gate = OP["min"](relu(OP["add"](x, OP["add"](bias, scalar(3)))), scalar(6))
    return OP["mul"](OP["add"](x, bias), gate)


@pytest.mark.parametrize("layer", ["tile", "window", "elementwise"])
@pytest.mark.parametrize("activation", ["silu", "hard swish"])
def test_what_an_activation_reads_twice_is_no_kernel_of_its_own(
    layer: str, activation: str
) -> None:
    x, bias = tensor(1, 4, 6, 8), weight(1, 4, 1, 1, seed=1)
    value: Value
    match layer:
        case "tile":
            value = conv(x, weight(4, 4, 3, 3))
        case "window":
            value = OP["conv"](
                x, weight(4, 1, 3, 3), strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), groups=4
            )
        case _:
            value = OP["exp"](x)
    value = OP["add"](value, bias) if activation == "silu" else value
    [step] = steps_of(silu(value) if activation == "silu" else hard_swish(value, bias))
    assert x in step.inputs


def test_what_is_read_at_two_places_is_stored() -> None:
    for value in (
        conv(tensor(1, 4, 8, 8), weight(4, 4, 3, 3)),
        OP["exp"](tensor(1, 4, 6, 6)),
    ):
        turned = OP["sigmoid"](OP["transpose"](value, perm=(0, 1, 3, 2)))
        assert value in stored(OP["mul"](value, turned))


def test_what_is_read_by_others_is_stored() -> None:
    value = conv(tensor(1, 4, 8, 10), weight(4, 4, 3, 3))
    gate = OP["sigmoid"](OP["exp"](value))
    product = OP["mul"](value, gate)
    assert value not in stored(product)
    assert value in stored(product, value)
    assert {value, gate} <= stored(product, gate)
    assert value in stored(product, reduced("reduce_max", value, 3))
    assert value in stored(OP["mul"](value, reduced("reduce_sum", gate, 1)))

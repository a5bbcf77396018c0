"""Batched kernels against the operators' meaning, and projections against results."""

from __future__ import annotations

from itertools import product as pairs

import numpy as np
import pytest

from graphopt.enumerate.fields import Values, Worlds, constant_values, product, safe_primes
from graphopt.enumerate.kernels import (
    Concatenation,
    Convolution,
    Elementwise,
    MatrixProduct,
    compute,
    kernel_of,
)
from graphopt.enumerate.projections import Functional, adjoint, project, projections
from graphopt.enumerate.vocabulary import Instance, Vocabulary, extended, taso
from tensorgen.evaluate import evaluate
from tensorgen.types import Shape, TensorType, float64

WORLDS = Worlds(safe_primes(3), exponents=True, seed=3)
EXTRA: tuple[Shape, ...] = ((4, 8), (8, 4), (4, 4, 5, 5), (2, 8, 5, 5), (4, 2, 3, 3), (8, 4, 3, 3))
BINARY = Concatenation | Elementwise | MatrixProduct | Convolution


def applications() -> list[tuple[str, Vocabulary, Instance, tuple[Shape, ...]]]:
    """Every instance of both vocabularies on all shapes of inputs and some that concats make."""
    found: list[tuple[str, Vocabulary, Instance, tuple[Shape, ...]]] = []
    for vocabulary in (taso(), extended()):
        shapes = list(dict.fromkeys([*(t.shape for t in vocabulary.inputs), *EXTRA]))
        for instance in vocabulary.instances:
            choices: list[tuple[Shape, ...]] = list(pairs(shapes, repeat=instance.arity))
            fitting = [c for c in choices if vocabulary.parameters(instance, *c) is not None]
            assert fitting, instance.name
            found += [
                (f"{vocabulary.name} {instance.name} {choice}", vocabulary, instance, choice)
                for choice in fitting[:3]
            ]
    return found


CASES = applications()


def whole_numbers(shape: Shape, count: int, seed: int) -> np.ndarray:
    numbers = np.random.default_rng(seed).integers(1, 10, (count, *shape))
    signs = np.random.default_rng(seed + 1).choice([-1, 1], numbers.shape)
    return np.asarray(numbers * signs)


def batch(numbers: np.ndarray) -> Values:
    values = [constant_values(one, WORLDS) for one in numbers]
    return Values(
        np.concatenate([value.residues for value in values], axis=1),
        np.concatenate([value.shadows for value in values], axis=1),
    )


@pytest.mark.parametrize(("vocabulary", "instance", "shapes"), [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])  # fmt: skip
def test_results_are_what_the_operator_means(
    vocabulary: Vocabulary, instance: Instance, shapes: tuple[Shape, ...]
) -> None:
    params = vocabulary.parameters(instance, *shapes)
    assert params is not None
    operands = [whole_numbers(shape, 2, n) for n, shape in enumerate(shapes)]
    kernel = kernel_of(instance.op, params, shapes)
    found = compute(kernel, WORLDS, *map(batch, operands))
    literals = [np.asarray(float(value)) for value in instance.literals]
    for number in range(2):
        arrays = [*(operand[number].astype(np.float64) for operand in operands), *literals]
        types = [TensorType(float64, array.shape) for array in arrays]
        meaning = evaluate(instance.op.expression(*types, **params), arrays)
        for world in range(WORLDS.count):
            np.testing.assert_allclose(found.shadows[world, number], meaning, rtol=1e-12)
        if instance.op.name in ("exp", "sigmoid", "tanh"):
            continue
        for channel, modulus in enumerate(WORLDS.moduli):
            own = found.residues[channel, number]
            if instance.op.name == "div":
                product_ = np.mod(own * np.mod(arrays[1], modulus), modulus)
                wanted = np.broadcast_to(np.mod(arrays[0], modulus), own.shape)
                np.testing.assert_array_equal(product_, wanted)
            else:
                np.testing.assert_array_equal(own, np.mod(meaning, modulus))


@pytest.mark.parametrize(("vocabulary", "instance", "shapes"),
                         [case[1:] for case in CASES if len(case[3]) == 2],
                         ids=[case[0] for case in CASES if len(case[3]) == 2])  # fmt: skip
def test_projections_give_the_functional_of_every_pair(
    vocabulary: Vocabulary, instance: Instance, shapes: tuple[Shape, ...]
) -> None:
    params = vocabulary.parameters(instance, *shapes)
    assert params is not None
    kernel = kernel_of(instance.op, params, shapes)
    assert isinstance(kernel, BINARY)
    left, right = batch(whole_numbers(shapes[0], 3, 5)), batch(whole_numbers(shapes[1], 4, 6))
    functional = Functional.of(kernel.shape, WORLDS)
    first, second = projections(kernel, functional)
    primes = WORLDS.primes
    a = project(first, left.flat()[0][: WORLDS.count], primes)
    b = project(second, right.flat()[0][: WORLDS.count], primes)
    keys = functional.keys(product(a, b.swapaxes(-1, -2), primes))
    for row, column in pairs(range(3), range(4)):
        one = Values(left.residues[:, [row]], left.shadows[:, [row]])
        other = Values(right.residues[:, [column]], right.shadows[:, [column]])
        result = compute(kernel, WORLDS, one, other)
        assert keys[row, column] == functional.of_values(result)[0]


@pytest.mark.parametrize(("vocabulary", "instance", "shapes"),
                         [case[1:] for case in CASES if len(case[3]) == 1],
                         ids=[case[0] for case in CASES if len(case[3]) == 1])  # fmt: skip
def test_adjoints_give_the_functional_of_linear_results(
    vocabulary: Vocabulary, instance: Instance, shapes: tuple[Shape, ...]
) -> None:
    params = vocabulary.parameters(instance, *shapes)
    assert params is not None
    kernel = kernel_of(instance.op, params, shapes)
    assert not isinstance(kernel, BINARY)
    values = batch(whole_numbers(shapes[0], 3, 8))
    result = compute(kernel, WORLDS, values)
    functional = Functional.of(result.shape, WORLDS)
    vector = adjoint(kernel, functional)
    linear = instance.op.name not in ("max", "max_pool", "reduce_max", "exp", "sigmoid", "tanh")
    assert (vector is not None) == linear
    if vector is not None:
        whole = np.zeros((WORLDS.count, int(np.prod(shapes[0], dtype=int)), 1))
        whole[:, : vector.shape[1], 0] = vector
        found = functional.of_results(whole, values)[0]
        assert found.tolist() == functional.of_values(result).tolist()


def test_functionals_tell_tensors_apart() -> None:
    functional = Functional.of((3, 4), WORLDS)
    tensors = whole_numbers((3, 4), 200, 0)
    tensors[1] = tensors[0]
    keys = functional.of_values(batch(tensors))
    assert keys[0] == keys[1]
    assert len(set(keys.tolist())) == 199


def test_equal_elements_have_no_order_in_a_maximum() -> None:
    """Whichever of several equal elements is taken, the result is the same."""
    vocabulary = taso()
    instance = next(i for i in vocabulary.instances if i.name == "max_pool")
    params = vocabulary.parameters(instance, (2, 4, 5, 5))
    assert params is not None
    kernel = kernel_of(instance.op, params, ((2, 4, 5, 5),))
    values = batch(np.full((1, 2, 4, 5, 5), -3))
    found = compute(kernel, WORLDS, values)
    assert (found.residues == values.residues).all()

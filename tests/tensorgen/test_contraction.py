"""Recognising contractions, and the roles of their axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorgen.contraction import (
    SPLIT_BASE,
    assign_roles,
    contraction_of,
    has_tiles,
    inverse_axes,
    split_axes,
)
from tensorgen.expr import Axis, Expr, Fold, Tensor, compute, const, reduce, reduce_sum, substitute
from tensorgen.simplify import simplify
from tensorgen.task import Task
from tensorgen.types import TensorType, float32, int32, int64
from tests.contraction_tasks import EPILOGUES, convolution, matmul, with_epilogue


def extents(axes: Sequence[Axis]) -> list[int]:
    return [axis.extent for axis in axes]


def test_roles_of_a_matrix_product() -> None:
    contraction = contraction_of(matmul((), 5, 7, 3))
    assert contraction is not None
    rows = assign_roles(contraction, 1)
    assert (extents(rows.batch), extents(rows.rows), extents(rows.vectors)) == ([], [5], [7])
    assert extents(rows.reduction) == [3]
    columns = assign_roles(contraction, 0)
    assert (extents(columns.rows), extents(columns.vectors)) == ([7], [5])


def test_batch_and_rows_of_a_shared_factor_merge() -> None:
    contraction = contraction_of(matmul((2, 3), 5, 7, 4, shared=True))
    assert contraction is not None
    roles = assign_roles(contraction, 1)
    assert (extents(roles.batch), extents(roles.rows), extents(roles.vectors)) == ([], [30], [7])


def test_batch_axes_occur_in_both_factors() -> None:
    contraction = contraction_of(matmul((2, 3), 5, 7, 4))
    assert contraction is not None
    assert extents(assign_roles(contraction, 1).batch) == [6]


def test_roles_of_a_convolution() -> None:
    contraction = contraction_of(convolution((4, 5), (3, 3), channels=(2, 8)))
    assert contraction is not None
    roles = assign_roles(contraction, 1)
    assert (extents(roles.rows), extents(roles.vectors)) == ([4, 5], [8])
    assert prod(extents(roles.reduction)) == 18


def test_the_longest_reduction_is_innermost() -> None:
    contraction = contraction_of(convolution((6, 6), (3, 2), channels=(5, 4), strides=(2, 2)))
    assert contraction is not None
    for vector in (0, 1):
        assert extents(assign_roles(contraction, vector).reduction) == [2, 3, 5]


def test_a_pointwise_convolution_is_a_matrix_product() -> None:
    contraction = contraction_of(convolution((4, 5), (1, 1), channels=(3, 8)))
    assert contraction is not None
    roles = assign_roles(contraction, 1)
    assert (extents(roles.rows), extents(roles.vectors), extents(roles.reduction)) == (
        [20], [8], [3],
    )  # fmt: skip


def test_groups_become_a_batch_axis() -> None:
    contraction = contraction_of(convolution((4, 5), (3, 3), channels=(2, 8), groups=3))
    assert contraction is not None
    roles = assign_roles(contraction, 1)
    assert (extents(roles.batch), extents(roles.vectors)) == ([3], [8])


def test_a_reduction_to_one_element_has_no_tiles() -> None:
    contraction = contraction_of(matmul((), 1, 1, 9))
    assert contraction is not None
    assert not has_tiles(contraction)


@pytest.mark.parametrize("kind", EPILOGUES)
def test_epilogues_that_match_element_by_element(kind: str) -> None:
    assert contraction_of(with_epilogue(matmul((2,), 3, 4, 5), kind)) is not None


VECTOR = TensorType(float32, (6, 4))


def one_stage(kind: str) -> Task:
    dtype = int32 if kind == "integers" else float32
    type = TensorType(dtype, VECTOR.shape)
    x, y = Tensor(0, type), Tensor(1, type)
    stages = {
        "maximum": lambda: compute(
            (6,), lambda i: reduce(Fold.MAX, 4, lambda k: x[i, k] * y[i, k])
        ),
        "sum": lambda: compute((6,), lambda i: reduce_sum(4, lambda k: x[i, k] + y[i, k])),
        "integers": lambda: compute((6,), lambda i: reduce_sum(4, lambda k: x[i, k] * y[i, k])),
        "one factor": lambda: compute((6,), lambda i: reduce_sum(4, lambda k: x[i, k])),
        "scaled": lambda: compute((6,), lambda i: reduce_sum(4, lambda k: x[i, k] * y[i, k]) * 2.0),
        "not affine": lambda: compute(
            (6,), lambda i: reduce_sum(4, lambda k: x[i, k] * y[i * k % 5, k])
        ),
        "empty": lambda: compute((6,), lambda i: reduce_sum(0, lambda k: x[i, k] * y[i, k])),
        "elementwise": lambda: compute((6, 4), lambda i, j: x[i, j] * y[i, j]),
    }
    return Task((type, type), (stages[kind](),), (0,), (False, False))


@pytest.mark.parametrize(
    "kind",
    ["maximum", "sum", "integers", "one factor", "scaled", "not affine", "empty", "elementwise"],
)
def test_what_is_no_contraction(kind: str) -> None:
    assert contraction_of(one_stage(kind)) is None


@pytest.mark.parametrize("kind", ["twice", "part", "reduced", "repeated"])
def test_epilogues_that_are_not_element_by_element(kind: str) -> None:
    task = matmul((), 4, 4, 3)
    total = Tensor(2, task.stages[0].type)
    epilogue = {
        "twice": compute((4, 4), lambda i, j: total[i, j] + total[j, i]),
        "part": compute((2, 4), lambda i, j: total[i, j]),
        "reduced": compute((4,), lambda i: reduce_sum(4, lambda k: total[i, k])),
        "repeated": compute((4, 4, 2), lambda i, j, m: total[i, j]),
    }[kind]
    assert contraction_of(Task(task.inputs, (*task.stages, epilogue), (1,), task.constant)) is None


def test_stored_intermediate_sums_are_no_epilogue() -> None:
    task = with_epilogue(matmul((), 4, 4, 3), "bias")
    both = Task(task.inputs, task.stages, (0, 1), task.constant)
    assert contraction_of(both) is None


# Splitting and inverting


def value_at(term: Expr, point: dict[Axis, int]) -> int:
    replaced = substitute(
        term, lambda t: const(point[t], int64) if isinstance(t, Axis) and t in point else None
    )
    simple = simplify(replaced)
    return int(getattr(simple, "value"))  # noqa: B009


def test_divided_axes_are_split() -> None:
    i = Axis(0, 12, "i")
    axes, values = split_axes([i // 4, i % 4], [i], iter(range(SPLIT_BASE, SPLIT_BASE + 9)))
    assert extents(axes) == [3, 4]
    for outer in range(3):
        for inner in range(4):
            assert value_at(values[i], dict(zip(axes, (outer, inner), strict=True))) == (
                outer * 4 + inner
            )


def test_axes_that_do_not_divide_stay_whole() -> None:
    i = Axis(0, 10, "i")
    axes, values = split_axes([i // 4], [i], iter(range(SPLIT_BASE, SPLIT_BASE + 9)))
    assert (axes, values) == ((i,), {})


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
@settings(deadline=None, max_examples=60)
def test_inverse_of_transposes_and_reshapes(sizes: list[int], data: st.DataObject) -> None:
    outer = tuple(Axis(n, size, f"o{n}") for n, size in enumerate(sizes))
    order = data.draw(st.permutations(range(len(sizes))))
    # The permuted outer axes as digits of one, or of several, inner axes.
    cut = data.draw(st.integers(0, len(sizes)))
    indices: list[Expr] = []
    inner: list[Axis] = []
    for part in (order[:cut], order[cut:]):
        total: Expr = const(0, int64)
        for digit in part:
            total = total * outer[digit].extent + outer[digit]
        indices.append(simplify(total))
        inner.append(Axis(90 + len(inner), prod(sizes[digit] for digit in part), f"n{len(inner)}"))
    solution = inverse_axes([simplify(index) for index in indices], inner, outer)
    assert solution is not None
    for number in range(prod(sizes)):
        point: dict[Axis, int] = {}
        rest = number
        for axis in outer:
            point[axis], rest = rest % axis.extent, rest // axis.extent
        where = {a: value_at(t, point) for a, t in zip(inner, indices, strict=True)}
        for axis in outer:
            assert value_at(solution[axis], where) == point[axis]


def test_what_has_no_inverse() -> None:
    i, j = Axis(0, 4, "i"), Axis(1, 4, "j")
    n = Axis(9, 4, "n")
    assert inverse_axes([i + j], [Axis(9, 7, "n")], [i, j]) is None
    assert inverse_axes([i], [n], [i, j]) is None
    assert inverse_axes([i + 1], [Axis(9, 5, "n")], [i]) is None
    assert inverse_axes([i * 2], [Axis(9, 7, "n")], [i]) is None
    assert inverse_axes([i // 2], [Axis(9, 2, "n")], [i]) is None

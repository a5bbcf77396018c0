"""Costs of tasks and graphs, and kernel seconds on file."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphopt.graph import Graph, Input
from graphopt.ops import OP
from graphopt.search import AnalyticCost, KernelCost, KernelRecords, RecordedCost, RecordsError
from graphopt.search.cost import KERNEL_SECONDS, OperatorCost
from graphopt.search.kernels import Kernels
from graphopt.search.measure import Measured, measure
from graphopt.search.weight_copies import WeightBytes
from graphopt.terms import scalar
from tensorgen.loop_cycles import bytes_moved
from tensorgen.machine import Rate
from tensorgen.memory_order import Together, reordered
from tensorgen.sketch import default_schedule
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.types import TensorType, boolean, float32, int64
from tensorgen.typical_machine import typical_machine
from tests.graphs_for_search import (
    MODEL,
    TARGET,
    add,
    conv,
    graph_of,
    matmul,
    relu,
    residual_blocks,
    shared_input,
    tensor,
    weight,
)

ZERO = scalar(0.0, float32)


def task_of(graph: Graph) -> Task:
    [task] = Kernels().tasks(graph)
    return task


def product(rows: int, depth: int, columns: int) -> Task:
    return task_of(graph_of(matmul(tensor(0, rows, depth), weight(1, depth, columns))))


def test_more_work_costs_more() -> None:
    small, large = product(64, 64, 64), product(64, 512, 64)
    assert 0 < MODEL.cost(small) < MODEL.cost(large)
    # Eight times the work: between four and sixteen times the seconds.
    assert 4 < MODEL.cost(large) / MODEL.cost(small) < 16


def test_an_empty_result_costs_a_kernel_that_does_nothing() -> None:
    task = task_of(graph_of(relu(tensor(0, 2, 0))))
    assert MODEL.cost(task) == KERNEL_SECONDS


def test_a_product_takes_about_the_time_of_its_multiply_adds() -> None:
    target = Target.named("x86-64-v4")
    task = product(512, 512, 512)
    seconds = AnalyticCost(target).cost(task)
    least = 2 * 512**3 / typical_machine(target).peak_flops(1)
    assert least <= seconds < 2 * least


def test_threads_share_large_kernels_only() -> None:
    two = AnalyticCost(TARGET, 2)
    large, small = product(256, 512, 256), product(4, 4, 4)
    assert two.cost(large) < 0.7 * MODEL.cost(large)
    assert two.cost(small) == MODEL.cost(small)


def test_functions_cost_more_than_sums() -> None:
    x = tensor(0, 64, 64)
    assert MODEL.cost(task_of(graph_of(OP["exp"](x)))) > MODEL.cost(task_of(graph_of(add(x, x))))


def test_padding_costs_little_more_than_a_copy() -> None:
    """Loops are cut where padding begins; a choice by data is made for each element."""
    x, flags = tensor(0, 16, 64, 64), Input(1, TensorType(boolean, (16, 66, 66)))
    wide = tensor(0, 16, 66, 66)
    border = (0, 1, 1)
    padding = OP["pad"](x, ZERO, before=border, after=border, mode="constant")
    padded = MODEL.cost(task_of(graph_of(padding)))
    chosen = MODEL.cost(task_of(graph_of(OP["where"](flags, wide, ZERO))))
    copied = MODEL.cost(task_of(graph_of(relu(wide))))
    assert padded < 2 * copied
    assert chosen > 1.5 * padded


def test_reads_of_a_line_for_each_element_cost_many_times_a_copy() -> None:
    """A pool from channels together to row-major results was taken for little more than one."""
    pool = OP["max_pool"](
        tensor(0, 1, 64, 56, 56), kernel=(3, 3), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)
    )
    task = task_of(graph_of(pool))
    near, far = reordered(task, {0: Together(1, 64), 1: Together(1, 64)}), {0: Together(1, 64)}
    assert MODEL.cost(reordered(task, far)) > 10 * MODEL.cost(near)


def test_a_transposition_costs_less_than_scattered_reads() -> None:
    x = tensor(0, 512, 512)
    copy = MODEL.cost(task_of(graph_of(relu(x))))
    turned = MODEL.cost(task_of(graph_of(OP["transpose"](x, perm=(1, 0)))))
    assert copy < turned < 4 * copy


def test_a_row_costs_what_it_does_along_its_sum() -> None:
    """Lanes run along a long sum, which reads in order; along the result they would not."""
    wide = MODEL.cost(
        task_of(graph_of(OP["reduce_sum"](tensor(0, 64, 4096), axes=(1,), keepdims=False)))
    )
    copy = MODEL.cost(task_of(graph_of(relu(tensor(0, 64, 4096)))))
    assert wide < 2 * copy


def test_a_division_costs_more_where_divisors_differ() -> None:
    x, y, row = tensor(0, 64, 64), tensor(1, 64, 64), tensor(1, 64, 1)
    differing, shared, product = (
        MODEL.cost(task_of(graph_of(OP[name](x, other))))
        for name, other in (("div", y), ("div", row), ("mul", y))
    )
    assert differing > 2 * product
    assert shared < differing


def test_slower_divisions_cost_more() -> None:
    machine = typical_machine(TARGET)
    slow = replace(machine, divisions=Rate(1e8, 1e8))
    task = task_of(graph_of(OP["div"](tensor(0, 64, 64), tensor(1, 64, 64))))
    assert AnalyticCost(TARGET, machine=slow).cost(task) > 5 * MODEL.cost(task)


@pytest.mark.parametrize("threads", [2, 8])
def test_a_barrier_costs_what_the_machine_says_where_threads_share_the_kernel(threads: int) -> None:
    """The team is there already: a kernel opens no region."""
    machine = typical_machine(TARGET, threads)
    dear = replace(machine, barrier_seconds=machine.barrier_seconds + 1e-3, region_seconds=1.0)
    for task in (
        product(4, 4, 4),
        product(256, 512, 256),
        task_of(graph_of(relu(tensor(0, 64)))),
        task_of(graph_of(relu(tensor(0, 512, 512)))),
        task_of(graph_of(conv(tensor(0, 1, 8, 8, 8), weight(0, 8, 8, 3, 3)))),
    ):
        more, less = (
            AnalyticCost(TARGET, threads, constants).cost(task) for constants in (dear, machine)
        )
        schedule = str(default_schedule(task, TARGET, threads))
        assert (more - less > 0.9e-3) == ("parallel" in schedule), schedule
        assert more < 0.1


def test_tiles_wait_for_main_memory() -> None:
    """What a product reads from there is not hidden behind its multiply-adds."""
    task = product(64, 64, 1_000_000)
    machine = typical_machine(TARGET)
    *near, memory = machine.levels
    faster = replace(memory, bandwidth=Rate(1e13, 1e13))
    fast = AnalyticCost(TARGET, machine=replace(machine, levels=(*near, faster))).cost(task)
    seconds = machine.read_seconds(bytes_moved(task), 1)[-1]
    assert MODEL.cost(task) == pytest.approx(fast + seconds, rel=1e-2)


def test_only_what_is_read_is_moved() -> None:
    x = tensor(0, 8, 1000)
    part = OP["slice"](x, starts=(0, 0), steps=(1, 1), sizes=(8, 10))
    assert bytes_moved(task_of(graph_of(relu(part)))) == 2 * 8 * 10 * 4
    assert bytes_moved(task_of(graph_of(relu(x)))) == 2 * 8 * 1000 * 4


def test_a_gather_moves_what_it_gathers() -> None:
    table, indices = tensor(0, 30000, 64), Input(1, TensorType(int64, (5,)))
    task = task_of(graph_of(OP["gather"](table, indices, axis=0)))
    assert bytes_moved(task) < 100_000


def test_fused_operators_cost_less_than_each_alone() -> None:
    graph = residual_blocks(1)
    assert KernelCost(MODEL)(graph) < OperatorCost(MODEL)(graph)


def test_weights_are_free() -> None:
    x, w, v = tensor(0, 8, 16), weight(1, 16, 16), weight(2, 16, 16)
    plain, summed = graph_of(matmul(x, w)), graph_of(matmul(x, add(w, v)))
    for cost in (KernelCost(MODEL), OperatorCost(MODEL)):
        assert cost(plain) == cost(summed)


def test_joining_convolutions_in_place_costs_no_copy() -> None:
    x = tensor(0, 1, 8, 8, 8)
    parts = [relu(conv(x, weight(n, 8, 8, 1, 1))) for n in (1, 2)]
    kernels = Kernels().tasks(graph_of(OP["tanh"](OP["concat"](*parts, axis=1))))
    assert len(kernels) == 3


# On file


@pytest.fixture
def records(tmp_path: Path) -> KernelRecords:
    return KernelRecords(tmp_path / "deep" / "kernels.sqlite", TARGET, 1)


def test_measured_seconds_stand_above_estimates(records: KernelRecords) -> None:
    task = product(8, 8, 8)
    costs = RecordedCost(records)
    assert costs.cost(task) == MODEL.cost(task)
    assert not costs.is_measured(task)
    costs.add({task: 0.25})
    assert costs.cost(task) == 0.25
    assert costs.is_measured(task)
    again = RecordedCost(KernelRecords(records.path, TARGET, 1))
    assert again.cost(task) == 0.25
    assert RecordedCost(KernelRecords(records.path, TARGET, 2)).cost(task) != 0.25


def test_estimates_are_kept_for_the_same_model_only(
    records: KernelRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting:
        asked = 0

        def cost(self, task: Task) -> float:
            Counting.asked += 1
            return 1.0

        def copying(self, weights: WeightBytes) -> float:
            return 0.0

        def __repr__(self) -> str:
            return "counting"

    task = product(8, 8, 8)
    first = RecordedCost(records, Counting())
    assert first.cost(task) == first.cost(task) == 1.0
    first.save()
    first.save()
    assert RecordedCost(records, Counting()).cost(task) == 1.0
    assert Counting.asked == 1
    assert RecordedCost(records).cost(task) == MODEL.cost(task)
    monkeypatch.setattr("graphopt.search.records.tasor_version", lambda: "another")
    assert RecordedCost(records, Counting()).cost(task) == 1.0
    assert Counting.asked == 2


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.sqlite"
    path.write_text("this is no database, and long enough to be seen as such" * 20)
    with pytest.raises(RecordsError, match=r"text.sqlite: expected a file of kernel seconds, got"):
        KernelRecords(path, TARGET, 1)
    with pytest.raises(RecordsError, match="expected a file of kernel seconds"):
        KernelRecords(path / "below", TARGET, 1)


def test_a_file_with_other_content_is_refused(records: KernelRecords) -> None:
    with sqlite3.connect(records.path) as connection:
        connection.execute(
            "INSERT INTO kernel_seconds VALUES ('no digest', ?, 1, 'measured', 1.0)",
            (TARGET.name,),
        )
    connection.close()
    with pytest.raises(RecordsError, match="expected a file of kernel seconds"):
        RecordedCost(records)


def test_kernels_are_measured_once(tmp_path: Path) -> None:
    target = host_target()
    costs = RecordedCost(KernelRecords(tmp_path / "kernels.sqlite", target, 1))
    tasks = Kernels().tasks(shared_input()) + Kernels().tasks(residual_blocks(1))
    distinct = len({task.digest for task in tasks})
    assert measure(tasks, costs, cache=tmp_path) == Measured(distinct, 0, 0)
    assert measure(tasks, costs, cache=tmp_path) == Measured(0, distinct, 0)
    for task in tasks:
        assert 1e-9 < costs.cost(task) < 1e-2
    assert np.isfinite(KernelCost(costs)(residual_blocks(1)))


def test_no_batch_begins_after_the_budget(tmp_path: Path) -> None:
    costs = RecordedCost(KernelRecords(tmp_path / "kernels.sqlite", host_target(), 1))
    tasks = Kernels().tasks(shared_input())
    assert measure(tasks, costs, seconds=0.0) == Measured(0, 0, 1)


def test_estimates_are_made_comparable_with_measurements(records: KernelRecords) -> None:
    """Machines twice as slow as stated: estimates of the same kind double, others stay."""
    costs = RecordedCost(records)
    tasks = [product(8, 8 * n, 8) for n in range(1, 6)]
    costs.add({task: 2 * MODEL.cost(task) for task in tasks[:3]})
    elementwise = task_of(graph_of(relu(tensor(0, 8, 8))))
    for known in (costs, RecordedCost(KernelRecords(records.path, TARGET, 1))):
        assert known.cost(tasks[4]) == pytest.approx(2 * MODEL.cost(tasks[4]))
        assert known.cost(elementwise) == MODEL.cost(elementwise)

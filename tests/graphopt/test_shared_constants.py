"""Constants that several tasks read stay as few as they are without trials."""

from __future__ import annotations

from dataclasses import replace

from graphopt.compiler import Compilation, compile_graph
from graphopt.graph import Graph
from graphopt.ops import OP
from graphopt.optimize import prepare
from graphopt.shared_constants import Layouts, Read, shared_reads, splitting
from tensorgen.schedule import RegisterTile, Schedule
from tensorgen.target import Target
from tensorgen.task import Task
from tests.contraction_tasks import matmul
from tests.graphs_for_search import graph_of, tensor, weight

TARGET = Target.named("x86-64-v3")
A, B, C = (matmul((), n, 8, 8) for n in (1, 2, 3))


def reads(**tasks: tuple[Task, ...]) -> dict[bytes, tuple[Read, ...]]:
    """Constants by name, each read by these tasks as their only one."""
    return shared_reads(Read(name.encode(), task, 0) for name, own in tasks.items() for task in own)


def found(
    shared: dict[bytes, tuple[Read, ...]], usual: dict[Task, str], chosen: dict[Task, str]
) -> set[Task]:
    def layouts(task: Task) -> Layouts:
        return (usual[task].encode(),)

    return set(splitting(shared, layouts, {t: (way.encode(),) for t, way in chosen.items()}))


def test_a_constant_of_one_task_is_not_shared() -> None:
    assert reads(w=(A, A)) == {}
    assert [read.task for read in reads(w=(A, B, A))[b"w"]] == [A, B]


def test_layouts_that_make_a_copy_are_given_up() -> None:
    shared = reads(w=(A, B))
    usual = {A: "wide", B: "wide"}
    assert found(shared, usual, {A: "wide", B: "wide"}) == set()
    assert found(shared, usual, {A: "wide", B: "narrow"}) == {B}
    assert found(shared, usual, {A: "tall", B: "narrow"}) == {A, B}
    # All in another one are as many as before.
    assert found(shared, usual, {A: "narrow", B: "narrow"}) == set()


def test_copies_that_there_are_anyway_are_no_reason() -> None:
    shared = reads(w=(A, B))
    assert found(shared, {A: "wide", B: "tall"}, {A: "narrow", B: "tall"}) == set()
    assert found(shared, {A: "wide", B: "tall"}, {A: "wide", B: "wide"}) == set()


def test_what_is_given_up_for_one_constant_can_split_another() -> None:
    """B goes back to what is usual for v, and takes C with it."""
    shared = {
        b"v": (Read(b"v", A, 0), Read(b"v", B, 0)),
        b"w": (Read(b"w", B, 1), Read(b"w", C, 0)),
    }
    usual: dict[Task, Layouts] = {A: (b"wide",), B: (b"wide", b"wide"), C: (b"wide",)}
    chosen: dict[Task, Layouts] = {A: (b"wide",), B: (b"narrow", b"narrow"), C: (b"narrow",)}
    assert splitting(shared, usual.__getitem__, chosen) == {B, C}


def steps() -> Graph:
    """Two products with the same weights, of different tasks."""
    w = weight(0, 96, 96)
    x, y = tensor(0, 1, 96), tensor(1, 1, 96)
    return graph_of(OP["abs"](OP["matmul"](x, w)), OP["tanh"](OP["matmul"](y, w)))


def compiled(graph: Graph, schedules: dict[Task, Schedule]) -> Compilation:
    return compile_graph(
        prepare(graph, TARGET), name="steps", target=TARGET, threads=1, strict=False,
        weights=None, metadata={}, schedules=schedules,
    )  # fmt: skip


def test_tuned_schedules_make_no_copies_of_weights() -> None:
    graph = steps()
    plain = compiled(graph, {})
    assert len(plain.tasks) == 2
    usual = dict(zip(plain.tasks, plain.schedules, strict=True))
    assert plain.weight_bytes == 96 * 96 * 4

    def other(task: Task) -> RegisterTile:
        schedule = usual[task]
        assert isinstance(schedule, RegisterTile)
        return replace(schedule, vectors=4 if schedule.vectors != 4 else 6)

    first, second = plain.tasks
    one = compiled(graph, {first: other(first)})
    assert (one.weight_bytes, one.schedules) == (plain.weight_bytes, plain.schedules)
    both = compiled(graph, {first: other(first), second: other(second)})
    assert both.weight_bytes == plain.weight_bytes
    assert both.schedules == (other(first), other(second))

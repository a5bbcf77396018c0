"""Plans for statements on vectors: what is done inside others, in front of loops, and where."""

from __future__ import annotations

from tensorgen.expr import Axis, Expr, const
from tensorgen.loop import (
    Buffer,
    Declare,
    Fill,
    For,
    If,
    MultiplyAdd,
    Register,
    Space,
    Stmt,
    VectorApply,
    VectorLoad,
    VectorStore,
)
from tensorgen.tune.vector_plan import VectorPlan, planned
from tensorgen.types import float32, int64

SOURCE = Buffer(0, "source", float32, 1000, Space.INPUT)
RESULT = Buffer(1, "result", float32, 1000, Space.OUTPUT)
ROW, COLUMN = Axis(1, 10, "i"), Axis(2, 10, "j")
ONE, OTHER, SUM = (Register(name, float32, 8) for name in ("one", "other", "sum"))


def plan(*body: Stmt, alike: frozenset[int] = frozenset()) -> VectorPlan:
    return planned("avx2", (Declare((ONE, OTHER, SUM), body),), frozenset(), alike)


def load(register: Register, index: Expr, kept: bool = False) -> VectorLoad:
    return VectorLoad(register, SOURCE, index, 8, kept=kept)


def store(register: Register, index: Expr) -> VectorStore:
    return VectorStore(RESULT, index, register, 8)


ZERO = const(0, int64)


def test_instructions_load_what_nobody_else_reads() -> None:
    add = VectorApply("add", SUM, ONE, OTHER)
    once = plan(load(ONE, ZERO), load(OTHER, ZERO + 8), add, store(SUM, ZERO))
    assert once.inside == {2: (0, 0)}  # one of both
    kept = plan(load(ONE, ZERO, kept=True), load(OTHER, ZERO + 8), add, store(SUM, ZERO))
    assert kept.inside == {2: (1, 1)}
    twice = plan(load(ONE, ZERO), VectorApply("add", SUM, ONE, ONE), store(SUM, ZERO))
    assert twice.inside == {}
    late = plan(load(ONE, ZERO), load(OTHER, ZERO + 8, kept=True), store(OTHER, ZERO), add)
    assert late.inside == {}, "the store may have changed what is loaded"
    # What another block reads is in a register.
    behind = plan(load(ONE, ZERO), For(ROW, (load(OTHER, ROW), add, store(SUM, ROW * 8))))
    assert all(load != 0 for _, load in behind.inside.values())


def test_what_is_the_same_in_all_turns_is_in_front_of_loops() -> None:
    body = (
        Fill(SUM, const(0.0, float32)),
        Fill(ONE, SOURCE.at(COLUMN * 0 + 5)),
        Fill(OTHER, SOURCE.at(ROW + 7)),
        MultiplyAdd(SUM, ONE, OTHER),
        store(SUM, ROW * 80 + COLUMN * 8),
    )
    found = plan(For(ROW, (For(COLUMN, body),)))
    outer, inner = (n for n, step in enumerate(found.steps.line) if isinstance(step.statement, For)
                    and n in found.steps.ends)  # fmt: skip
    assert found.in_front == {outer: ((3,),), inner: ((4,),)}
    registers = {found.given[found.steps.line[n].written or 0] for n in (2, 3, 4)}
    assert len(registers) == 3


def test_what_may_not_be_reached_or_may_change_stays_where_it_is() -> None:
    fill = Fill(ONE, SOURCE.at(ZERO))
    reached = plan(For(ROW, (If(ROW < 3, (fill, store(ONE, ROW * 8))),)))
    assert not any(reached.in_front.values())
    written = Fill(ONE, RESULT.at(ZERO))
    assert not any(plan(For(ROW, (written, store(ONE, ROW * 8)))).in_front.values())
    same = frozenset((SOURCE.number, RESULT.number))
    assert not any(plan(For(ROW, (fill, store(ONE, ROW * 8))), alike=same).in_front.values())
    assert any(plan(For(ROW, (fill, store(ONE, ROW * 8)))).in_front.values())


def test_registers_last_as_long_as_they_are_needed() -> None:
    """From one turn to the next, too: nobody else has that of a sum while a loop adds to it."""
    body = (
        load(ONE, COLUMN * 8, kept=True),
        load(OTHER, COLUMN, kept=True),
        MultiplyAdd(SUM, ONE, OTHER),
    )
    found = plan(
        For(ROW, (Fill(SUM, const(0.0, float32)), For(COLUMN, body), store(SUM, ROW * 8))),
        load(ONE, ZERO, kept=True),
        store(ONE, ZERO),
    )
    line = found.steps.line
    [total] = {step.written for step in line if isinstance(step.statement, MultiplyAdd)}
    loaded = [step.written for step in line if isinstance(step.statement, VectorLoad)]
    assert total is not None
    within = {found.given[register] for register in loaded[:2] if register is not None}
    assert found.given[total] not in within
    assert len(within) == 2
    # Behind the loops all are free again.
    assert found.given[loaded[2] or 0] == 0

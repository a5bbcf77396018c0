"""Steps on vectors that are not done where they stand.

What it does: finds loads that the instruction behind them can do itself, and registers that a loop
would fill with the same in each turn. What it does not: know any instruction, or change steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import assert_never

from tensorgen.expr import Load
from tensorgen.loop import Fill, Stmt, VectorLoad, VectorStore
from tensorgen.tune.vector_steps import Mark, Plain, SpreadStore, Steps, read_before_written


def steps_in_front(
    steps: Steps, same: Callable[[int, int], bool], value: Callable[[int], object]
) -> dict[int, tuple[tuple[int, ...], ...]]:
    """By the begins of loops the steps in them that fill registers anew in each turn with what they
    have already, those together that fill them with the same `value`. `same` tells of a step and a
    loop that it does so. What conditions are around stays where it is."""
    outside = read_before_written(steps.line)
    writes = Counter(step.written for step in steps.line)
    found: dict[int, dict[object, list[int]]] = {}
    around: list[int | None] = []
    for number, step in enumerate(steps.line):
        match step.mark:
            case Mark.LOOP:
                around.append(number)
            case Mark.IF | Mark.ELSE:
                around.append(None)
            case Mark.END:
                around.pop()
            case Mark.DO if isinstance(step.statement, Fill) and writes[step.written] == 1:
                outermost = None
                for loop in reversed(around):
                    if loop is None or step.written in outside or not same(number, loop):
                        break
                    outermost = loop
                if outermost is not None:
                    alike = found.setdefault(outermost, {})
                    alike.setdefault(value(number), []).append(number)
            case Mark.DO:
                pass
            case _:
                assert_never(step.mark)
    return {loop: tuple(map(tuple, alike.values())) for loop, alike in found.items()}


def loads_inside(
    steps: Steps, apart: Set[int], folds: Callable[[Plain, Plain], Sequence[int]]
) -> dict[int, tuple[int, int]]:
    """Which steps do a load themselves: by the number of such a step the place of the load among
    what it reads, and the number of the step that loads, which is nothing more. `folds` says at
    which of these places a statement can do another's load; those `apart` are left as they are."""
    found: dict[int, tuple[int, int]] = {}
    # The load of each register whose readers are not all known, and these, with the place.
    loads: dict[int, tuple[int, list[tuple[int, int]]]] = {}
    outside = read_before_written(steps.line)

    def settle(register: int) -> None:
        load, readers = loads.pop(register)
        if len(readers) == 1:
            ((reader, place),) = readers
            does = folds(_plain(steps.line[reader].statement), _plain(steps.line[load].statement))
            if reader not in found and place in does:
                found[reader] = place, load

    for number, step in enumerate(steps.line):
        if step.mark is not Mark.DO:
            for register in tuple(loads):
                settle(register)
            continue
        if loads:
            for place, register in enumerate(step.reads):
                if register in loads:
                    loads[register][1].append((number, place))
            if isinstance(step.statement, VectorStore | SpreadStore):
                # Who reads behind a store may read what it wrote.
                for register in [r for r, (_, readers) in loads.items() if not readers]:
                    del loads[register]
        written = step.written
        if written is not None:
            if written in loads:
                settle(written)
            if _is_load(step.statement) and written not in outside and number not in apart:
                loads[written] = number, []
    for register in tuple(loads):
        settle(register)
    return found


def _plain(statement: Stmt | SpreadStore) -> Plain:
    assert isinstance(statement, Plain), "a step that does something"
    return statement


def _is_load(statement: Stmt | SpreadStore) -> bool:
    match statement:
        case VectorLoad(kept=kept):
            return not kept
        case Fill(value=Load()):
            return True
        case _:
            return False

"""The machine's registers for those that steps on vectors read and write.

What it does: finds out where each is first and last needed, across the turns of loops and where
conditions may not hold, and gives registers away from the first step on (Poletto and Sarkar,
Linear Scan Register Allocation, 1999), without keeping any in memory. What it does not: know any
instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import assert_never

from tensorgen.tune.vector_steps import Mark, Step, Steps


def given_registers(
    steps: Steps, inside: Mapping[int, tuple[int, int]], count: int, *, masks: bool
) -> dict[int, int] | None:
    """The machine's register of each declared one, of so many; None if there are not enough. Loads
    that are `inside` other steps need none. Without `masks` these are in none."""
    lives = _Lives(masks)
    loads = {load for _, load in inside.values()}
    for number, step in enumerate(steps.line):
        if number not in loads:
            lives.add(number, step, inside[number][0] if number in inside else None)
    free = list(range(count))
    taken: list[tuple[int, int]] = []  # until when, and which
    found: dict[int, int] = {}
    for register, first in sorted(lives.first.items(), key=lambda pair: pair[1]):
        while taken and taken[0][0] < first:
            heappush(free, heappop(taken)[1])
        if not free:
            return None
        found[register] = heappop(free)
        heappush(taken, (lives.last[register], found[register]))
    return found


@dataclass(slots=True)
class _Lives:
    """From where to where registers are needed: an even number where a step reads, the odd one
    behind it where it writes."""

    with_masks: bool
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    # Of each loop around, the function first: where it begins, and of the registers that it uses
    # whether they have to last from one turn to the next: it reads what it has not written, or may
    # not have.
    loops: list[tuple[int, dict[int, bool]]] = field(default_factory=lambda: [(0, {})])
    blocks: list[Mark] = field(default_factory=list)
    conditions: int = 0

    def add(self, number: int, step: Step, inside: int | None) -> None:
        """The next step. What it reads at the place `inside`, it loads itself."""
        place = 2 * number
        match step.mark:
            case Mark.DO:
                end = place + 1 if step.long else place
                for position, register in enumerate(step.reads):
                    if position != inside:
                        self._use(register, place, end, lasts=True)
                if step.written is not None:
                    self._use(step.written, place + 1, place + 1, lasts=self.conditions > 0)
                for register in step.spare:
                    self._use(register, place, place + 1, lasts=False)
                if self.with_masks:
                    for register in step.masks:
                        # Loaded in front of everything.
                        self._use(register, 0, place, lasts=True)
            case Mark.LOOP:
                self.loops.append((place, {}))
                self.blocks.append(step.mark)
            case Mark.IF | Mark.ELSE:
                self.conditions += 1
                self.blocks.append(step.mark)
            case Mark.END if self.blocks.pop() is Mark.LOOP:
                begin, used = self.loops.pop()
                for register, lasts in used.items():
                    if lasts:
                        self.first[register] = min(self.first[register], begin)
                        self.last[register] = place
                    self.loops[-1][1].setdefault(register, lasts)
            case Mark.END:
                self.conditions -= 1
            case _:
                assert_never(step.mark)

    def _use(self, register: int, begin: int, end: int, *, lasts: bool) -> None:
        self.first[register] = min(self.first.get(register, begin), begin)
        self.last[register] = end
        self.loops[-1][1].setdefault(register, lasts)

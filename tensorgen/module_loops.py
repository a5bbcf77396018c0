"""Calls that repeat, found again as loops.

What it does: finds runs of calls that do the same again and again on places that move on evenly
(the steps of a sequence, above all), so that the C has a loop where the graph was unrolled. What
it does not: change what runs, or in which order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorgen.module_spec import Arena, Call, Input, Output, Place

LEAST_REPETITIONS = 3
"""Fewer are written one after the other."""

MOST_CALLS = 128
"""No repeated run has more calls: each length is tried at each call."""


@dataclass(frozen=True, slots=True)
class Moving:
    """A place that moves on by `stride` with each repetition: elements of a port, bytes of the
    arena."""

    first: Input | Output | Arena
    stride: int


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A call of a loop: in repetition r, each argument that moves is `r * stride` further on."""

    kernel: str
    arguments: tuple[Place | Moving, ...]
    label: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """`calls`, `count` times; the first of them is number `start` of the calls of the library."""

    start: int
    count: int
    calls: tuple[RepeatedCall, ...]

    def unrolled(self) -> tuple[Call, ...]:
        """The calls that run, in order."""
        return tuple(
            Call(
                call.kernel,
                tuple(_place_in(repetition, argument) for argument in call.arguments),
                call.label,
            )
            for repetition in range(self.count)
            for call in self.calls
        )


def _place_in(repetition: int, argument: Place | Moving) -> Place:
    if not isinstance(argument, Moving):
        return argument
    first = argument.first
    return replace(first, offset=first.offset + repetition * argument.stride)


def rolled(calls: Sequence[Call]) -> tuple[Repeat, ...]:
    """The calls as loops, those that do not repeat as loops that run once.

    From front to back, at each call the loop that saves the most calls.
    """
    result: list[Repeat] = []
    position = 0
    while position < len(calls):
        found = _longest(calls, position)
        result.append(found)
        position += found.count * len(found.calls)
    return tuple(result)


def _longest(calls: Sequence[Call], start: int) -> Repeat:
    """The loop from a call on that stands for the most calls; the call alone if there is none."""
    best = Repeat(start, 1, (_still(calls[start]),))
    saved = 0
    for period in range(1, min(MOST_CALLS, (len(calls) - start) // LEAST_REPETITIONS) + 1):
        found = _loop(calls, start, period)
        if found is not None and (found.count - 1) * period > saved:
            best, saved = found, (found.count - 1) * period
    return best


def _still(call: Call) -> RepeatedCall:
    return RepeatedCall(call.kernel, call.arguments, call.label)


def _loop(calls: Sequence[Call], start: int, period: int) -> Repeat | None:
    """The longest loop of `period` calls from `start` on, if it repeats often enough."""
    body: list[RepeatedCall] = []
    for first, second in zip(
        calls[start : start + period], calls[start + period : start + 2 * period], strict=True
    ):
        joined = _moving(first, second)
        if joined is None:
            return None
        body.append(joined)
    found = Repeat(start, 2, tuple(body))
    count = 2
    while _follows(calls, start + count * period, found, count):
        count += 1
    return replace(found, count=count) if count >= LEAST_REPETITIONS else None


def _moving(first: Call, second: Call) -> RepeatedCall | None:
    """Two calls as the first repetitions of one; None if they do not do the same."""
    if first.kernel != second.kernel or first.label != second.label:
        return None
    arguments: list[Place | Moving] = []
    for one, other in zip(first.arguments, second.arguments, strict=True):
        match one, other:
            case _ if one == other:
                arguments.append(one)
            case (Input(index, at), Input(same, then)) if index == same:
                arguments.append(Moving(Input(index, at), then - at))
            case (Output(index, at), Output(same, then)) if index == same:
                arguments.append(Moving(Output(index, at), then - at))
            case Arena(at), Arena(then):
                arguments.append(Moving(Arena(at), then - at))
            case _:
                return None
    return RepeatedCall(first.kernel, tuple(arguments), first.label)


def _follows(calls: Sequence[Call], position: int, found: Repeat, repetition: int) -> bool:
    """True if the calls from `position` on are that repetition of a loop."""
    present = calls[position : position + len(found.calls)]
    return len(present) == len(found.calls) and all(
        call.kernel == expected.kernel
        and call.label == expected.label
        and call.arguments
        == tuple(_place_in(repetition, argument) for argument in expected.arguments)
        for call, expected in zip(present, found.calls, strict=True)
    )

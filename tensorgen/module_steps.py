"""The calls of a library as text, in the order in which they are printed.

What it does: makes loops of calls that repeat, says which of the calls a team of threads makes
together and where the team is needed, and spells their arguments. What it does not: change what
runs, or print statements; the template of the kernels does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import assert_never

from tensorgen.module_loops import Moving, Repeat, RepeatedCall, rolled
from tensorgen.module_spec import Arena, Constant, Input, Module, Output, Parameter, Place
from tensorgen.module_text import comment_text, size_literal


@dataclass(frozen=True, slots=True)
class Step:
    """A call as C text; `parallel` if all threads of a team make it, `waits` if they have to meet
    behind it."""

    number: str
    label: str
    kernel: str
    arguments: tuple[str, ...]
    parallel: bool
    waits: bool


@dataclass(frozen=True, slots=True)
class Turns:
    """Calls that run `count` times one after the other, in runs of parallel or other calls; what
    moves from one time to the next does so with `turn`."""

    count: int
    runs: tuple[tuple[Step, ...], ...]

    @property
    def parallel(self) -> bool:
        return any(step.parallel for run in self.runs for step in run)


@dataclass(frozen=True, slots=True)
class Steps:
    """The calls in their order: those before a team of threads is needed, those while there is one,
    and those after."""

    before: tuple[Turns, ...]
    together: tuple[Turns, ...]
    after: tuple[Turns, ...]


def in_team(module: Module) -> bool:
    """Whether a team of threads runs the steps, or some of them."""
    return module.threads > 1 and any(kernel.parallel for kernel in module.kernels)


def steps_of(module: Module) -> Steps:
    """The calls of a library. A team is there from its first parallel call to the last."""
    turns = tuple(_turns(module))
    if not in_team(module):
        return Steps(turns, (), ())
    first = next(number for number, part in enumerate(turns) if part.parallel)
    last = next(number for number in reversed(range(len(turns))) if turns[number].parallel)
    together = (*turns[first:last], _ended(turns[last]))
    return Steps(turns[:first], together, turns[last + 1 :])


def _ended(turns: Turns) -> Turns:
    """The last calls of a team, whose threads meet anyway where the team ends."""
    if turns.count > 1:
        return turns
    *before, (*steps, end) = turns.runs
    return replace(turns, runs=(*before, (*steps, replace(end, waits=False))))


def _turns(module: Module) -> Iterator[Turns]:
    """The calls as C text: loops, and between them what does not repeat, a run at a time."""
    for repeats, group in groupby(rolled(module.calls), lambda repeat: repeat.count > 1):
        if repeats:
            yield from (Turns(repeat.count, _runs(_calls(module, repeat))) for repeat in group)
        else:
            steps = (step for repeat in group for step in _calls(module, repeat))
            yield from (Turns(1, (run,)) for run in _runs(steps))


def _runs(steps: Iterable[Step]) -> tuple[tuple[Step, ...], ...]:
    """Steps cut where those of a team and those of one thread meet."""
    return tuple(tuple(run) for _, run in groupby(steps, lambda step: step.parallel))


def _calls(module: Module, repeat: Repeat) -> Iterator[Step]:
    for position, call in enumerate(repeat.calls):
        yield _step(module, repeat, position, call)


def _step(module: Module, repeat: Repeat, position: int, call: RepeatedCall) -> Step:
    kernel = module.kernels_by_name[call.kernel]
    arguments = tuple(
        _argument(module, parameter, place)
        for parameter, place in zip(kernel.parameters, call.arguments, strict=True)
    )
    number = str(repeat.start + position)
    if repeat.count > 1:
        number += f" + {len(repeat.calls)} * (int)turn"
    label = comment_text(call.label)
    return Step(number, label, call.kernel, arguments, kernel.parallel, kernel.open_end)


def _argument(module: Module, parameter: Parameter, place: Place | Moving) -> str:
    match place:
        case Moving(first, stride):
            return _at(module, parameter, first, f" {'+-'[stride < 0]} turn * {abs(stride)}u")
        case Constant(index):
            if module.weights == "file":
                return f"weights->w{index}"
            return f"{module.name}_weights.w{index}"
        case Input() | Output() | Arena():
            return _at(module, parameter, place, "")
        case _:
            assert_never(place)


def _at(module: Module, parameter: Parameter, place: Input | Output | Arena, moved: str) -> str:
    """A pointer to a place, `moved` further on."""
    match place:
        case Input(index, offset):
            return _element(module.input_identifiers[index], offset) + moved
        case Output(index, offset):
            return _element(module.output_identifiers[index], offset) + moved
        case Arena(offset):
            return f"TASOR_AT({parameter.dtype.c_name}, {size_literal(offset)}{moved})"
        case _:
            assert_never(place)


def _element(identifier: str, offset: int) -> str:
    """A pointer to an element of a port."""
    return f"{identifier} + {offset}" if offset else identifier

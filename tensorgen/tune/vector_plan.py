"""What is to be decided about statements on vectors before they are written as instructions.

What it does: lays them out as steps, finds the streams of what they read and write, decides which
steps are done inside others or in front of loops, and gives registers to all. What it does not:
write anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain

from tensorgen.expr import Load
from tensorgen.loop import Fill, For, Prefetch, Stmt, VectorLoad, VectorStore
from tensorgen.target import Isa
from tensorgen.tune.assembly_page import NoAssembly
from tensorgen.tune.streams import Access, Streams, streams_of
from tensorgen.tune.vector_loads import loads_inside, steps_in_front
from tensorgen.tune.vector_registers import given_registers
from tensorgen.tune.vector_steps import Mark, SpreadStore, Step, Steps, steps_of
from tensorgen.tune.x86_vectors import folds, has_vectors, needs_of, register_count, widest

Groups = tuple[tuple[int, ...], ...]
"""Steps, those together that are done once for all."""


@dataclass(frozen=True)
class VectorPlan:
    """Steps and their streams, and of registers the machine's that each was `given`. `inside` are
    the steps that do a load themselves: the place of the load among what they read, and the step
    that it was. `in_front` has what is done in front of loops, by their begins."""

    steps: Steps
    streams: Streams
    inside: Mapping[int, tuple[int, int]]
    in_front: Mapping[int, Groups]
    given: Mapping[int, int]

    @cached_property
    def loop_behind(self) -> dict[int, int]:
        """The begins of the loops that steps are done in front of."""
        return {number: loop for loop, groups in self.in_front.items() for number in chain(*groups)}

    @cached_property
    def elsewhere(self) -> frozenset[int]:
        """The steps that are not done where they stand."""
        return frozenset(chain((load for _, load in self.inside.values()), self.loop_behind))


def planned(isa: Isa, body: Sequence[Stmt], numbers: Set[int], alike: Set[int]) -> VectorPlan:
    """The plan for a body. The axes of these positions are `numbers`; buffers that are `alike` may
    have elements in common. Raises NoAssembly."""
    if not has_vectors(isa):
        raise NoAssembly
    steps = steps_of(body, widest(isa), partial(needs_of, isa))
    accesses = {
        number: access
        for number, step in enumerate(steps.line)
        if step.mark is Mark.DO and (access := _access(step)) is not None
    }
    streams = streams_of(accesses, numbers)
    same = partial(_loads_the_same, steps, streams, _written_in_loops(steps), alike)
    in_front = steps_in_front(steps, same, partial(_filled, steps, streams))
    apart = frozenset(chain(*chain(*in_front.values())))
    inside = loads_inside(steps, apart, partial(folds, isa))
    given = _given(isa, steps, inside)
    in_front = _with_registers(isa, steps, in_front, given)
    return VectorPlan(steps, streams, inside, in_front, given)


def _with_registers(
    isa: Isa,
    steps: Steps,
    in_front: Mapping[int, Groups],
    given: dict[int, int],
) -> dict[int, Groups]:
    """What is done in front of loops, as far as there are registers that nobody was given."""
    count = register_count(isa)
    free = count - 1 - max(given.values(), default=-1)
    found: dict[int, Groups] = {}
    for begin, groups in sorted(in_front.items()):
        taken = sum(len(some) for loop, some in found.items() if begin < steps.ends[loop])
        found[begin] = groups[: max(free - taken, 0)]
        for register, group in enumerate(found[begin], taken + 1):
            for number in group:
                written = steps.line[number].written
                assert written is not None, "what fills a register"
                given[written] = count - register
    return found


def _filled(steps: Steps, streams: Streams, number: int) -> object:
    """What a step fills a register with."""
    statement = steps.line[number].statement
    assert isinstance(statement, Fill), "a register is filled"
    place = streams.places.get(number)
    return statement.register.lanes, statement.value.digest if place is None else place


def _written_in_loops(steps: Steps) -> dict[int, frozenset[int]]:
    """The arrays that loops write to, by the loops' begins."""
    return {
        begin: frozenset(
            step.statement.buffer.number
            for step in steps.line[begin:end]
            if isinstance(step.statement, VectorStore | SpreadStore)
        )
        for begin, end in steps.ends.items()
        if steps.line[begin].mark is Mark.LOOP
    }


def _loads_the_same(
    steps: Steps,
    streams: Streams,
    written_in_loops: Mapping[int, Set[int]],
    alike: Set[int],
    number: int,
    begin: int,
) -> bool:
    """Whether a step fills a register with the same in all turns of the loop that begins there."""
    loop = steps.line[begin].statement
    assert isinstance(loop, For), "a loop"
    place = streams.places.get(number)
    if place is None:
        return True
    stream = streams.streams[place.stream]
    written = written_in_loops[begin]
    changed = stream.array in written or (stream.array in alike and written & alike)
    return not stream.step(loop.axis.position) and not changed


def _given(isa: Isa, steps: Steps, inside: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Vector registers; those of masks only if there are enough. Raises NoAssembly."""
    count = register_count(isa)
    given = None
    if isa == "avx2" and steps.masks:
        given = given_registers(steps, inside, count, masks=True)
    if given is None:
        given = given_registers(steps, inside, count, masks=False)
    if given is None:
        raise NoAssembly
    return given


def _access(step: Step) -> Access | None:
    """What a step reads or writes in an array."""
    match step.statement:
        case VectorLoad(buffer=buffer, index=index) | VectorStore(buffer=buffer, index=index):
            return Access(buffer.number, index, step.known)
        case Fill(value=Load(operand=operand, indices=(index,))):
            return Access(operand, index, step.known)
        case SpreadStore(buffer=buffer, index=index) | Prefetch(buffer=buffer, index=index):
            return Access(buffer.number, index, step.known)
        case _:
            return None

"""What to expect of machines that nothing was measured on: constants by target and processor.

What it does: states what a core of each kind does, as `calibration` found it, rounded. What it does
not: measure, or look at the machine that it runs on; who makes the processor is part of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf

from tensorgen.core_costs import TYPICAL_COSTS, CoreCosts
from tensorgen.dialects import vector_dialect
from tensorgen.machine import LEVEL_NAMES, Level, Machine, Rate, flops_per_cycle
from tensorgen.target import MIB, Target
from tensorgen.types import float32

MEMORY_CORES = 2
"""Cores that keep the memory of a typical machine busy."""

MOST_SHARED_BYTES = 48 * MIB
"""Bytes of a shared cache, at most: larger ones are in slices of many cores, and a program on a few
of them gets no more of it."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of core. A cycle is the time in which it multiplies and adds as many vectors as the
    dialect of its target says, `frequency` of them a second.

    `bytes` is what one core reads in a cycle from the second and third cache and from memory;
    after `division` cycles it can begin the next division of a vector by a vector. `region` and
    `barrier` are seconds of two threads that do not sleep, and so much again each time that the
    threads are doubled. Of the second cache `second_share` answers at full speed: pages fall on
    some of its sets more than on others. `costs` are those of single things.
    """

    bytes: tuple[float, float, float]
    frequency: float = 3.0e9
    division: float = 10.0
    region: float = 0.65e-6
    barrier: float = 0.25e-6
    second_share: float = 1.0
    costs: CoreCosts = TYPICAL_COSTS


_KINDS = {
    # Half a vector of 512 bits is stored in a clock; a thread beside it has half of the queue. Of
    # 32 MB of shared cache 16 arrive at 77 GB/s, 20 at 65, 26 at 55, and 40 at 42.
    ("x86-64-v4", "", 0): _Kind((32.0, 24.0, 5.0), costs=CoreCosts(sum_wait=3.5, shared_lost=0.0)),
    # Zen 5 multiplies two vectors of 512 bits in a clock, so that a cycle is half of one, and loads
    # two, whole ones or elements that it broadcasts.
    ("x86-64-v4", "AuthenticAMD", 26): _Kind(
        (31.0, 13.6, 4.7),
        8.4e9,
        5.0,
        0.45e-6,
        0.2e-6,
        costs=CoreCosts(
            clock=2.0,
            broadcast=2.0,
            in_place=0.0,
            second_line=4.5,
            cut_line=0.0,
            crossing_line=80.0,
            shared_lost=0.0,
        ),
    ),
    # Two vectors of 512 bits are multiplied in a clock, as on Zen 5. Steps of 4 x 2 sums take 4.9
    # clocks, of 6 x 2 and 4 x 3 6.4, of 5 x 3 7.6 (measured, with all operands in the first cache).
    ("x86-64-v4", "GenuineIntel", 0): _Kind(
        (22.0, 4.4, 2.3),
        4.0e9,
        16.0,
        1.3e-6,
        0.35e-6,
        second_share=0.625,
        costs=CoreCosts(
            clock=2.0,
            shuffle=1.75,
            row_line=3.0,
            broadcast=2.3,
            close_chains=8.0,
            lost_slot=0.22,
            most_lost=0.88,
            partial_sum=8.0,
            far_partial_sum=20.0,
            kept=0.67,
            long_block=1 / 3,
            second_vector=0.64,
            torn_step=3.5,
            stream=0.4,
            streamed=1.0,
            asked=0.6,
            lost_block=2.5,
            packed=0.7,
            packed_wait=0.0,
            result_line=9.0,
            crossing_line=100.0,
            shared_lost=0.0,
        ),
    ),
    ("x86-64-v3", "GenuineIntel", 0): _Kind((30.0, 10.0, 4.0), 2.5e9, 10.0, 1.3e-6, 0.35e-6),
    ("x86-64-v2", "", 0): _Kind((16.0, 8.0, 5.0)),
    ("aarch64", "", 0): _Kind((16.0, 8.0, 4.0)),
    ("armv7", "", 0): _Kind((16.0, 8.0, 4.0)),
}
"""Kinds by target, maker and the least number of the processor's family: measured on servers with
Zen 4, Zen 5 and Sapphire Rapids cores; narrower paths where vectors are shorter."""

_ANY = _Kind((32.0, 16.0, 5.0))


def _kind_of(target: Target) -> _Kind:
    for maker in (target.maker, ""):
        families = [
            least
            for name, made_by, least in _KINDS
            if (name, made_by) == (target.name, maker) and least <= target.family
        ]
        if families:
            return _KINDS[target.name, maker, max(families)]
    return _ANY


@cache
def typical_machine(target: Target, threads: int = 1) -> Machine:
    """What to expect of a machine that nothing was measured on. Deterministic.

    Frequencies are typical, too: who compares times across targets must measure.
    """
    dialect = vector_dialect(target.isa, float32)
    assert dialect is not None, "there are vectors of float32, if of one element"
    kind = _kind_of(target)
    flops = kind.frequency * flops_per_cycle(target.isa)
    divisions = kind.frequency * dialect.lanes / kind.division
    first = dialect.lanes * float32.bytes * dialect.loads_per_cycle
    *near, memory = (kind.frequency * min(amount, first) for amount in (first, *kind.bytes))
    rates = [
        *(Rate(rate, rate * threads) for rate in near),
        Rate(memory, memory * min(threads, MEMORY_CORES)),
    ]
    second = int(target.l2_bytes * kind.second_share)
    sizes = (target.l1_bytes, second, min(target.l3_bytes, MOST_SHARED_BYTES), inf)
    levels = tuple(
        Level(name, size, name in ("L3", "memory"), rate)
        for name, size, rate in zip(LEVEL_NAMES, sizes, rates, strict=True)
        if size
    )
    doublings = (threads - 1).bit_length()
    return Machine(
        threads,
        Rate(flops, flops * threads),
        Rate(divisions, divisions * threads),
        levels,
        kind.region * doublings,
        kind.barrier * doublings,
        costs=kind.costs,
    )

"""What single things cost a core, beside its rates: where cores of one instruction set differ.

Units are cycles: the time in which a core multiplies and adds as many vectors as the table of its
instruction set says.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class CoreCosts:
    """Costs of one kind of core; the defaults are of cores that hide them.

    A clock of the core has `clock` cycles: it counts where something has to be ready. To permute a
    vector takes `shuffle` cycles. A tile that reads several rows side by side waits `row_line`
    cycles for each of their lines. An element that is broadcast from memory takes `broadcast` times
    the loads that the instruction set's table says, and one that is not in a panel `in_place` loads
    more. For each clock of multiply-adds that a step has less than `close_chains`, it loses
    `lost_slot` of one and at most `most_lost`: the sums of the step before are ready only just in
    time. For each sum that a tile has beyond `READY_SUMS`, it waits for `sum_wait` cycles. To read
    and write a vector of partial sums takes `partial_sum` cycles, and `far_partial_sum` if the
    first cache does not hold them all. Panels that are asked for stay in the second cache while the
    part `kept` of what it is counted on for is in use. Where they would not, sums are also taken in
    blocks of which a panel and the next one fill the part `long_block` of it. A vector that a step
    of a tile reads from the second cache takes `second_vector` cycles more. Of lines that come from
    there in no order, one in `second_line` cycles does. A step that reads vectors of an array of
    callers in place, all of them across two lines, takes `torn_step` cycles more, and twice as many
    where lines that the second cache holds collide in the first one. A line of which the panel
    before has read or stored the first part takes `cut_line` cycles to come back, where lines
    collide in the first cache. Of the time in which packed elements of inner loops arrive from
    beyond the second cache, one after the other, the part `stream` is waited for, though the core
    itself asks for them in time; so is the part `streamed` of the shorter of two times, of
    arithmetic and of filtered weights that arrive for it, in more than one line a step. Of the time
    in which filtered weights that were asked for come from main memory, the part `asked` is waited
    for: a core waits for only so many lines at once. What of a block of transformed data the second
    cache does not keep goes and comes back in `lost_block` times the time in which it arrives. An
    element of a panel that is packed at run time takes `packed` cycles more; of the time in which
    it arrives from beyond the second cache, the part `packed_wait` is waited for if nobody has
    asked for it. To store a line of results in a page in which the tile before has not stored takes
    `result_line` cycles more. A line that another core has made takes `crossing_line` cycles to
    come, and to be made again. Of what is read again and again in order, and is more than the
    shared cache may be counted on for, the part `shared_lost` of that has left before it is read.
    """

    clock: float = 1.0
    shuffle: float = 1.0
    row_line: float = 0.0
    broadcast: float = 1.0
    in_place: float = 0.4
    # Measured: 4 x 2 sums of 8 lanes take 4.29 clocks, 3 x 3 4.82, 5 x 2 5.25, 6 x 2 and 4 x 3 6.
    close_chains: float = 6.0
    lost_slot: float = 0.25
    most_lost: float = 0.25
    sum_wait: float = 0.0
    partial_sum: float = 4.0
    far_partial_sum: float = 4.0
    kept: float = 1.0
    long_block: float = 0.0
    second_vector: float = 0.0
    second_line: float = 0.0
    torn_step: float = 0.0
    cut_line: float = 12.0
    stream: float = 0.0
    streamed: float = 0.2
    asked: float = 0.0
    lost_block: float = 0.0
    packed: float = 0.0
    packed_wait: float = 1.0
    result_line: float = 0.0
    crossing_line: float = 35.0
    # Measured on Zen 3: 12 MB of 32 arrive at 31 GB/s, 16 at 27, and 20 at the 20 of memory.
    shared_lost: float = 1.0


COST_NAMES = tuple(field.name for field in fields(CoreCosts))
"""The costs by name, in order."""

TYPICAL_COSTS = CoreCosts()
"""Those of cores that hide what can be hidden."""

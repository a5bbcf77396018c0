"""How many products register tiles sum in one block.

What it does: finds blocks of which a cache holds what tiles read again. What it does not: decide
which tiles take sums so (`sketch_tiles`), or write the loops (`lower_sum_blocks`).
"""

from __future__ import annotations

from dataclasses import replace

from tensorgen.contraction import Roles
from tensorgen.machine import CACHE_SHARE, FIRST_CACHE_SHARE, Core
from tensorgen.schedule import RegisterTile, VectorSource
from tensorgen.tile_costs import TiledWork

LEAST_DEPTH = 32
"""Products of a block, at least: partial sums are read and written once a block."""


def taken_in(schedule: RegisterTile, depth: int) -> RegisterTile:
    """The same with sums taken in blocks of so many products, or in one piece if that is 0."""
    return replace(schedule, depth=depth, epilogue_ahead=schedule.epilogue_ahead and not depth)


def block_depth(roles: Roles, work: TiledWork, schedule: RegisterTile, core: Core) -> int:
    """How many products a block of the sums has; 0 if they are not taken in blocks.

    Blocks are for panels that do not stay in the first cache together with the rows. The second one
    must hold all rows, which go by again for each vector tile.
    """
    if not (_may_block(roles, schedule) and core.second_cache >= work.row_span > 0):
        return 0
    step = work.step_bytes(schedule, schedule.rows, core)
    if work.depth * step <= core.first_bytes:
        return 0
    # A step counts all that it reads: nothing else needs room.
    held = core.first_bytes * CACHE_SHARE / FIRST_CACHE_SHARE
    return _longest_block(roles, work, int(held / step))


def long_block_depth(roles: Roles, work: TiledWork, schedule: RegisterTile, core: Core) -> int:
    """The same for blocks of which the second-level cache keeps a panel and the next one, while
    rows stream through it."""
    if not (_may_block(roles, schedule) and work.row_streams):
        return 0
    panels = 2 * schedule.vectors * schedule.lanes * work.element_bytes
    return _longest_block(roles, work, int(core.costs.long_block * core.near_bytes / panels))


def _may_block(roles: Roles, schedule: RegisterTile) -> bool:
    """Whether sums may be taken in blocks: of constants, while rows in place go by."""
    constant = schedule.source is VectorSource.PACKED and schedule.vectors_outer
    return constant and bool(roles.rows) and not schedule.row_packed


def _longest_block(roles: Roles, work: TiledWork, most: int) -> int:
    """The most products that divide the innermost axes of a sum, up to so many; 0 if these are too
    few to pay, or the whole sum."""
    depth = 1
    for axis in reversed(roles.reduction):
        inside = min(axis.extent, max(most // depth, 1))
        while axis.extent % inside:
            inside -= 1
        depth *= inside
        if inside < axis.extent:
            break
    return depth if LEAST_DEPTH <= depth < work.depth else 0

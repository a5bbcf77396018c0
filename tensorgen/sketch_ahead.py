"""What register tiles ask the caches for ahead of its use.

What it does: tells whether panels of the outer loop are worth asking for, and how many lines of
them each inner tile would ask for. What it does not: choose tiles (`sketch_tiles`), or write the
loops that ask (`lower_ahead`).
"""

from __future__ import annotations

from tensorgen.contraction import Roles
from tensorgen.machine import Core
from tensorgen.panel_lines import PanelLines
from tensorgen.schedule import RegisterTile, VectorSource
from tensorgen.tile_costs import TiledWork, panels_are_lost, tile_counts

MOST_ASKING = 64
"""Inner tiles that ask for the next outer one: of more, the first is soon over that would wait for
it, and all the others ask in vain."""

MOST_LINES = 64
"""Lines of the next panel that a tile asks for at once before it is packed: of more, it waits for
the first itself."""


def panels_pay(roles: Roles, work: TiledWork, schedule: RegisterTile, core: Core) -> bool:
    """True if the panels of the outer loop come from beyond the second-level cache while the first
    of several inner tiles would wait for them. With many inner tiles, that is a small part of the
    time."""
    packed, read = schedule.row_packed, work.row_bytes
    if schedule.vectors_outer:
        packed, read = schedule.source is not VectorSource.DIRECT, work.vector_bytes
    if not packed or not arrival_cycles(schedule, read, core):
        return False
    columns, rows = tile_counts(roles, schedule)
    if schedule.source is VectorSource.RUNTIME:
        asked = lines_asked(roles, schedule)
        few = asked is not None and asked <= MOST_LINES
        return rows > 1 and few and core.costs.packed_wait > 0.0
    if schedule.row_block:
        rows = min(rows, schedule.row_block // schedule.rows)
    if schedule.vectors_outer:
        return 1 < rows <= max(schedule.vectors * schedule.lanes, MOST_ASKING)
    return 1 < columns <= schedule.rows


def arrival_cycles(schedule: RegisterTile, read: float, core: Core) -> float:
    """Cycles in which packed panels, `read` bytes, arrive from beyond the second-level cache: each
    time that they are read if it does not hold them, else once a run if they are constants."""
    if core.passes_by(read):
        return core.far_cycles(read)
    return 0.0 if schedule.source is VectorSource.RUNTIME else core.first_cycles(read)


def lines_asked(roles: Roles, schedule: RegisterTile) -> int | None:
    """How many lines each tile asks for of those that the next panel is packed from; None if these
    are not neighbours in memory, or are in a slab that is near."""
    prologue = roles.contraction.prologue
    if prologue is not None and prologue.factor == schedule.vector_operand:
        return None
    lines = PanelLines.of(roles, schedule.vector_operand, schedule.vectors * schedule.lanes)
    if lines is None:
        return None
    _, rows = tile_counts(roles, schedule)
    return -(-lines.count // rows)


def asked_in_vain(work: TiledWork, schedule: RegisterTile, core: Core) -> bool:
    """True if panels of the outer loop are asked for too early to be kept: sums in blocks would ask
    for the next block only, and rows in blocks leave room for it."""
    blocked = schedule.depth or schedule.row_block
    asked = schedule.panels_ahead and schedule.vectors_outer and not blocked
    return asked and panels_are_lost(work, schedule, core)

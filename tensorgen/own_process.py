"""How Python runs in a process that is ours: where it looks for cycles, and how threads take turns.

What it does: leaves out the search for cycles through everything that lives. Terms of expressions
live long, by the million, and refer to each other without a cycle: looking at all of them again and
again took a tenth of a tuning, and found nothing. And it has a thread that computes give way soon:
those that start compilers do little but wait for its turn to end, some thirty times for each, and
meanwhile a core had no compiler. What it does not: change a process of somebody else, who calls us
as a library.
"""

from __future__ import annotations

import gc
import sys

_MIDDLE_FOR_ALL = 1000
"""Everything is looked at after so many searches through what is neither young nor old."""

_SWITCH_SECONDS = 5e-4
"""A tenth of Python's own."""


def set_up_own_process() -> None:
    """From here on, a thread that waits for another one's turn to end has its own soon, and cycles
    are found while they are young. Those that grow old stay until there were a thousand searches
    among the younger ones, which few commands come to."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _MIDDLE_FOR_ALL)
    sys.setswitchinterval(_SWITCH_SECONDS)

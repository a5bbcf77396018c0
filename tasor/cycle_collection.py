"""How Python looks for cycles in a process that is ours.

What it does: leaves out the search through everything that lives. Terms of expressions live long,
by the million, and refer to each other without a cycle: looking at all of them again and again took
a tenth of a tuning, and found nothing. What it does not: change a process of somebody else, who
calls us as a library.
"""

from __future__ import annotations

import gc

_MIDDLE_FOR_ALL = 1000
"""Everything is looked at after so many searches through what is neither young nor old."""


def collect_young_only() -> None:
    """From here on, cycles are found while they are young. Those that grow old stay until there
    were a thousand searches among the younger ones, which few commands come to."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _MIDDLE_FOR_ALL)

"""Where the weights of a kernel are when its run begins: trials differ by it, and so do records.

What it does: tells from how much a whole run moves which cache its weights stay in from one run to
the next. What it does not: bring them there (`local_measurer`), or estimate what that costs
(`Core.first_cycles`).
"""

from __future__ import annotations

from enum import Enum

from tensorgen.target import Target
from tensorgen.typical_machine import MOST_SHARED_BYTES

SHARED_SHARE = 0.75
"""The share of the third-level cache in which a whole run's weights stay from one to the next, if
they are no more than MOST_SHARED_BYTES: the cache may be told to be larger than it is to us. (Of
32 MiB on a Zen 3 server, 24 come again at 0.84 of the rate of 8, 32 at 0.74, 112 at 0.54.)"""


class WeightsPlace(Enum):
    """The nearest level that still holds weights when a run comes back to them."""

    NEAR = "near"
    """The second-level cache."""
    SHARED = "shared"
    """The third-level cache."""
    FAR = "far"
    """Main memory, where a run is larger than the caches."""


def weights_place(traffic: float, target: Target) -> WeightsPlace:
    """Where the weights of a run that moves so many bytes are found."""
    if traffic <= target.l2_bytes:
        return WeightsPlace.NEAR
    if traffic <= min(SHARED_SHARE * target.l3_bytes, MOST_SHARED_BYTES):
        return WeightsPlace.SHARED
    return WeightsPlace.FAR

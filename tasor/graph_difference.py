"""How far the outputs of two graphs are apart, in units of the last place.

What it does: counts differences in spacings of the numbers themselves, and of the largest number
of an output: cancellation makes the first large where the second tells that nothing was lost.
What it does not: compute the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorgen.types import Array


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest difference of two sets of outputs.

    `ulps` counts spacings at the larger of both numbers, `ulps_of_largest` spacings at the largest
    finite number of the output; both are infinite where NaN, infinities or whole numbers disagree.
    """

    ulps: float
    ulps_of_largest: float


NO_DIFFERENCE = Difference(0.0, 0.0)


def difference(expected: Sequence[Array], actual: Sequence[Array]) -> Difference:
    """The largest difference between outputs of equal types, one to one."""
    found = [_of_arrays(a, b) for a, b in zip(expected, actual, strict=True)]
    return Difference(
        max((item.ulps for item in found), default=0.0),
        max((item.ulps_of_largest for item in found), default=0.0),
    )


def _of_arrays(a: Array, b: Array) -> Difference:
    assert a.shape == b.shape, "outputs of equal types"
    assert a.dtype == b.dtype, "outputs of equal types"
    with np.errstate(all="ignore"):
        differs = (a != b) & ~((a != a) & (b != b))
    if not differs.any():
        return NO_DIFFERENCE
    if a.dtype.kind != "f" or not (np.isfinite(a[differs]).all() and np.isfinite(b[differs]).all()):
        return Difference(float("inf"), float("inf"))
    apart = np.abs(a[differs].astype(np.float64) - b[differs].astype(np.float64))
    larger = np.maximum(np.abs(a[differs]), np.abs(b[differs]))
    finite = np.abs(a[np.isfinite(a)])
    return Difference(
        float((apart / np.spacing(larger).astype(np.float64)).max()),
        float(apart.max() / np.float64(np.spacing(finite.max()))),
    )

"""Winograd's minimal filtering as rewrite rules: a convolution by fewer multiplications.

    y = A^T ((G g) * (B^T d))     m results of a kernel g of size r from m + r - 1 elements d

What it does: writes the rules: a convolution as phases of its results along one axis, each a sum of
convolutions by one tap of the kernel; and the sums of all phases by fewer products, with the
matrices of `tensorgen.minimal_filtering`. The text depends on nothing else, so
`data/rules/winograd.rules` is what `winograd_rules` returns. What it does not: judge when it pays.

Source: Lavin and Gray, "Fast algorithms for convolutional neural networks" (CVPR 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from tensorgen.minimal_filtering import MinimalFilter, Row, minimal_filter

KERNEL = 3
"""The kernel size on the axis."""

# Text

_HEADING = """\
# Winograd's minimal filtering for kernels of size 3 (Lavin and Gray, CVPR 2016). Written by
# `graphopt.winograd_rules`; do not edit. [rounds]
#
# First a convolution is taken apart into 2 or 4 phases of its results along one axis, sums of
# convolutions by one tap of the kernel each; then these sums share products. Along rows and then
# along columns this is F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3).

# Result m * t + n is the sum over taps k of element m * t + n + k by tap k. image(n, p) is element
# n of p, here the padding at one end of an axis; along another axis padding keeps the size."""

_FILTERS = """\
# m results from m + 2 products instead of 3 * m; per axis"""


def winograd_rules() -> str:
    """The rule file."""
    phases = [
        rule
        for outputs in (2, 4)
        for rule in (
            _phases(f"conv-phases-{outputs}-line", outputs, 1, 0),
            _phases(f"conv-phases-{outputs}-rows", outputs, 2, 0),
            _phases(f"conv-phases-{outputs}-columns", outputs, 2, 1),
        )
    ]
    filters = [
        _filters("winograd-2", (minimal_filter(2, KERNEL),)),
        _filters("winograd-4", (minimal_filter(4, KERNEL),)),
        _filters("winograd-2-by-2", (minimal_filter(2, KERNEL),) * 2),
    ]
    return "\n".join([_HEADING, *phases, "", _FILTERS, *filters, ""])


def _sum(terms: Sequence[str]) -> str:
    text = terms[0]
    for term in terms[1:]:
        text = f"add({text}, {term})"
    return text


def _combined(row: Row, terms: Sequence[str]) -> str:
    """The sum of terms with integer weights, those above 0 first."""
    text = ""
    for weight, term in sorted(zip(row, terms, strict=True), key=lambda pair: pair[0] < 0):
        part = term if abs(weight) == 1 else f"mul({term}, {abs(weight)})"
        if not weight:
            continue
        if text:
            text = f"{'add' if weight > 0 else 'sub'}({text}, {part})"
        else:
            text = part if weight > 0 else f"neg({part})"
    return text


def _tuple(values: Sequence[object]) -> str:
    return f"({', '.join(map(str, values))}{',' * (len(values) == 1)})"


def _wrapped(name: str, source: str, target: str, where: str) -> str:
    """A rule in lines that begin with blanks, broken after commas."""
    lines = [f"{name}:"]
    for part in (source, f"=> {target}", f"where {where}"):
        line = ""
        for word in part.split(" "):
            if line and len(line) + 1 + len(word) > 94:
                lines.append(line)
                line = ""
            line = f"{line} {word}" if line else f"    {word}"
        lines.append(line)
    return "\n".join(lines)


def _phases(name: str, outputs: int, spatial: int, axis: int) -> str:
    """A convolution as phases of its results along one of its spatial axes. Along the others its
    padding keeps sizes."""
    rank, place = 2 + spatial, 2 + axis
    ones = _tuple([1] * spatial)

    def along(values: Sequence[str], own: str) -> list[str]:
        return [own if position == place else value for position, value in enumerate(values)]

    def sliced(operand: str, start: int, step: int, sizes: Sequence[str]) -> str:
        starts, steps = along(["0"] * rank, str(start)), along(["1"] * rank, str(step))
        return (
            f"slice({operand}, starts={_tuple(starts)}, steps={_tuple(steps)}, "
            f"sizes=sizes({', '.join(sizes)}))"
        )

    result = f"total(size(x, {place}), image({axis}, p), image({spatial + axis}, p), {1 - KERNEL})"
    tiles = f"quotient({result}, {outputs})"
    # Padding on the axis goes before the slices; on another one it stays with the convolution.
    ends = [
        f"sizes({', '.join(along(['0'] * rank, f'image({end + axis}, p)'))})"
        for end in (0, spatial)
    ]
    padded = f'pad(x, 0, before={ends[0]}, after={ends[1]}, mode="constant")'
    pads = ["0" if n % spatial == axis else f"image({n}, p)" for n in range(2 * spatial)]
    elements = [
        sliced(padded, n, outputs, along([f"size(x, {axis})" for axis in range(rank)], tiles))
        for n in range(outputs + KERNEL - 1)
    ]
    taps = [
        sliced("w", k, 1, along([f"size(w, {axis})" for axis in range(rank)], "1"))
        for k in range(KERNEL)
    ]
    shared = f"strides={ones}, pads=sizes({', '.join(pads)}), dilations={ones}, groups=1"

    def phase(n: int) -> str:
        products = [f"conv({elements[n + k]}, {taps[k]}, {shared})" for k in range(KERNEL)]
        return f"insert_axis({_sum(products)}, axis={place + 1})"

    written = ["size(x, 0)", "size(w, 0)", *(f"size(x, {2 + n})" for n in range(spatial))]
    kept = [
        f"equal(size(w, {2 + n}), total(image({n}, p), image({spatial + n}, p), 1))"
        for n in range(spatial)
        if n != axis
    ]
    phases = ", ".join(map(phase, range(outputs)))
    return _wrapped(
        name,
        f"conv(x, w, strides={ones}, pads=p, dilations={ones}, groups=1)",
        f"reshape(concat({phases}, axis={place + 1}), "
        f"shape=sizes({', '.join(along(written, result))}))",
        ", ".join([f"equal(size(w, {place}), {KERNEL})", *kept]),
    )


def _filters(name: str, axes: Sequence[MinimalFilter]) -> str:
    """All results of a tile at once: the sums of products, and the same with fewer products.

    Elements are d0, d1, … and taps g0, g1, …; with two axes both have two numbers.
    """
    counts = [range(len(one.inputs)) for one in axes]
    taps = [range(KERNEL) for _ in axes]
    results = [range(len(one.outputs)) for one in axes]

    def named(letter: str, place: Sequence[int]) -> str:
        return letter + "".join(map(str, place))

    def spread(matrices: Sequence[Row]) -> Row:
        """The weights of all places from those along each axis."""
        return tuple(prod(weights) for weights in product(*matrices))

    labels: list[str] = []

    def filtered(at: Sequence[int], tap: Sequence[int]) -> str:
        place = [a + b for a, b in zip(at, tap, strict=True)]
        labels.append(named("y", [*at, *tap]))
        return f"{labels[-1]} := conv({named('d', place)}, {named('g', tap)}, **q)"

    sources = [_sum([filtered(at, tap) for tap in product(*taps)]) for at in product(*results)]
    elements = [named("d", place) for place in product(*counts)]
    kernels = [named("g", place) for place in product(*taps)]
    products = []
    for place in product(*counts):
        rows = [one.kernels[n] for one, n in zip(axes, place, strict=True)]
        divisor = prod(divisor for _, divisor in rows)
        kernel = _combined(spread([row for row, _ in rows]), kernels)
        kernel = kernel if divisor == 1 else f"div({kernel}, {divisor})"
        element = _combined(
            spread([one.inputs[n] for one, n in zip(axes, place, strict=True)]), elements
        )
        products.append(f"conv({element}, {kernel}, **q)")
    targets = [
        _combined(spread([one.outputs[n] for one, n in zip(axes, at, strict=True)]), products)
        for at in product(*results)
    ]
    return _wrapped(
        name,
        ", ".join(sources),
        ", ".join(targets),
        f"floating({elements[0]}), same_shape({', '.join(elements)}), "
        f"same_shape({', '.join(kernels)}), same_shape({', '.join(labels)})",
    )

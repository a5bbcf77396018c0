"""The epilogue of a tile: what becomes of each sum before it is stored.

What it does: gives the result's value where a sum stands, and takes out of it what can be computed
along the lanes, before the tile is stored across them; stores the tile. What it does not: compute
sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorgen.contraction import Contraction
from tensorgen.expr import Axis, Cast, Expr, Load, loads, map_children, walk
from tensorgen.flat import flat_index
from tensorgen.loop import Buffer, For, LoopKind, Numbers, Stmt, Store
from tensorgen.lower_loops import replace_axes
from tensorgen.lower_transpose import stored_across
from tensorgen.simplify import affine
from tensorgen.widen import widen


def epilogue_value(
    contraction: Contraction,
    inputs: Sequence[Buffer],
    output: Buffer,
    values: Mapping[Axis, Expr],
    element: Expr,
) -> Expr:
    """The result's value at a point of the contraction's axes where the sum is `element`."""
    placed = replace_axes(contraction.epilogue, values)

    def localise(term: Expr) -> Expr:
        if isinstance(term, Load) and term.operand == contraction.stage_operand:
            return element
        inner = map_children(term, localise)
        if isinstance(inner, Load):
            return inputs[inner.operand].at(flat_index(inner.indices, inner.type.shape))
        return inner

    value = widen(localise(placed))
    return Cast(value, output.dtype) if output.dtype.is_half else value


def along_lanes(
    value: Expr, element: Load, lane: Axis, fixed: Sequence[Axis] = ()
) -> tuple[Expr, Expr]:
    """An epilogue in two: what can be computed along the lanes, and the rest on its result.

    The first reads memory in step with the lanes, or not along them at all, and nowhere that
    depends on the `fixed` axes. It is `element` itself if nothing can be taken out. The second
    is in terms of `element`, which holds the first's result then.
    """
    parts: list[Expr] = []

    def taken(term: Expr) -> Expr:
        if element not in tuple(walk(term)):
            return term
        if term.dtype == element.dtype and _in_step(term, element, lane, fixed):
            parts.append(term)
            return element
        return map_children(term, taken)

    rest = taken(value)
    return (parts[0], rest) if len(set(parts)) == 1 else (element, value)


def _in_step(term: Expr, element: Load, lane: Axis, fixed: Sequence[Axis]) -> bool:
    for load in loads(term):
        if load != element:
            index = affine(load.indices[0])
            if index.coefficient(lane) not in (0, 1) or any(map(index.coefficient, fixed)):
                return False
            if any(not isinstance(atom, Axis) for atom, _ in index.terms):
                return False
    return True


def stored_tile(
    result: Store,
    tile: Buffer,
    element: Load,
    across: Axis,
    along: Axis,
    block: int,
    numbers: Numbers,
) -> tuple[Stmt, ...]:
    """`result` for all rows `across` and lanes `along` of a tile, in terms of its `element`.

    What is stored across the lanes is transposed in registers if a `block` of so many is given.
    """
    # The axis along which neighbours in the tile lie nearer in the result is the inner one.
    nearness = affine(result.index).coefficient(across)
    if not 0 < nearness < affine(result.index).coefficient(along):
        return (For(across, (For(along, (result,), LoopKind.SIMD),)),)
    before, value = along_lanes(result.value, element, along)
    result = replace(result, value=value)
    lanes_first = For(along, (Store(tile, element.indices[0], before),), LoopKind.SIMD)
    first = (For(across, (lanes_first,)),) if before != element else ()
    if block and nearness == 1:
        turned = stored_across(element, tile, result, across, along, block, numbers)
        return (*first, *turned)
    # One element after the other: compilers build slow shuffles or gathers of strided lanes.
    return (*first, For(along, (For(across, (result,)),), LoopKind.ROLLED))

"""The weights of a convolution, as minimal filtering multiplies them: an expression for packing."""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import add

from tensorgen.expr import Axis, Expr, Tensor, TensorExpr, cast, compute, const, minimum, select
from tensorgen.lower_loops import replace_axes
from tensorgen.lower_winograd_frame import Frame, axes_size, grids_of
from tensorgen.types import TensorType, float64
from tensorgen.winograd import FilteredContraction, FilterGrid, coordinates


def filtered_weights(frame: Frame, original: TensorType) -> TensorExpr:
    """G g G^T as an expression over the flattened weights, computed in double precision. A part
    that is a tap shorter than others ends with a tap of weight 0."""
    return _filtered_weights(frame.form, frame.schedule.results, frame.width, original)


@lru_cache(maxsize=256)
def _filtered_weights(
    form: FilteredContraction, results: tuple[int, ...], width: int, original: TensorType
) -> TensorExpr:
    """The same, made once for all schedules that filter so many results at once, in blocks of so
    many features."""
    outer, inner = grids_of(form, results)
    factor = form.contraction.factors[form.weights]
    features = axes_size(form.features)
    source = Tensor(0, TensorType(original.dtype, (original.size,)))
    taps = () if form.window is None else (form.window.tap,)
    shape = (
        *(axis.extent for axis in form.batch),
        -(-features // width),
        outer.points,
        inner.points,
        *(axis.extent for axis in taps),
        inner.part_count,
        outer.part_count,
        *(axis.extent for axis in form.channels),
        width,
    )

    def element(*indices: Expr) -> Expr:
        batch = indices[: len(form.batch)]
        block, down, across, *rest = indices[len(form.batch) :]
        deep, (beside, below, *summed, place) = rest[: len(taps)], rest[len(taps) :]
        feature = block * width + place
        values: dict[Axis, Expr] = dict(zip(form.batch, batch, strict=True))
        values.update(zip((*taps, *form.channels), (*deep, *summed), strict=True))
        extents = [axis.extent for axis in form.features]
        values.update(zip(form.features, coordinates(feature, extents), strict=True))

        def tap_of_both(i: int, j: int) -> Expr:
            for grid, part, tap in ((outer, below, i), (inner, beside, j)):
                if grid.window:
                    number = grid.in_part(part, tap)
                    values[grid.window.tap] = minimum(number, grid.window.tap.extent - 1)
            return cast(source[replace_axes(factor.expr, values)], float64)

        # Sums over one axis have no points of the other: most of the work is on a few elements.
        rows = (
            reduce(
                add,
                (
                    tap_of_both(i, j) * _coefficient(inner, across, beside, j)
                    for j in range(inner.taps)
                ),
            )
            for i in range(outer.taps)
        )
        total = reduce(
            add, (row * _coefficient(outer, down, below, i) for i, row in enumerate(rows))
        )
        value = cast(total, original.dtype)
        if features % width == 0:
            return value
        return select(feature < features, value, const(0, original.dtype))

    return compute(shape, element)


def _coefficient(grid: FilterGrid, point: Expr, part: Expr, tap: int) -> Expr:
    """The weight of a tap of a part at a point, as a choice among the points."""
    values = [row[tap] / divisor for row, divisor in grid.filter.kernels]
    chosen: Expr = const(values[-1], float64)
    for number in range(len(values) - 2, -1, -1):
        chosen = select(point < number + 1, const(values[number], float64), chosen)
    if tap < grid.taps - 1 or grid.long_parts == grid.part_count:
        return chosen
    return select(part < grid.long_parts, chosen, const(0.0, float64))

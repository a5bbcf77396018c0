"""Lowering of a convolution to minimal filtering.

    y = A^T [ sum(c) (G g G^T) * (B^T d B) ] A        for each tile of results y, data d and taps g

The weights are filtered at compile time. The rest is one kernel. For each block of strips (a strip
is a row of tiles): the data is relaid with channels along the lanes, transformed, and stored as one
matrix for each point of the filter; then, for a chunk of tiles and one block of features at a time,
register tiles multiply these matrices with the weights, and the products are transformed back, go
through the epilogue and are stored where the result wants them.

Layouts, zero-filled up to whole vectors:
- transformed data: point, window position, strip, tile, channel;
- weights: batch, feature block, point, window tap, channel, feature;
- products: point, row of the chunk, feature.

Source: Lavin and Gray, "Fast algorithms for convolutional neural networks" (CVPR 2016), section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from tensorgen.contraction import Contraction, contraction_of
from tensorgen.expr import (
    Axis,
    Const,
    Expr,
    Load,
    Select,
    Tensor,
    TensorExpr,
    all_of,
    apply,
    cast,
    compute,
    const,
    operand_name,
    select,
)
from tensorgen.flat import flat_index
from tensorgen.lane_choices import shared_choices
from tensorgen.loop import (
    Allocate,
    Buffer,
    Declare,
    Fill,
    If,
    LoopKernel,
    LoopKind,
    MultiplyAdd,
    Numbers,
    Register,
    Space,
    Stmt,
    Store,
    VectorLoad,
    VectorStore,
    nested,
)
from tensorgen.lower_contraction import Packing
from tensorgen.lower_epilogue import along_lanes, epilogue_value
from tensorgen.lower_loops import pieces, replace_axes, spans
from tensorgen.lower_prologue import prologue_element
from tensorgen.lower_transpose import stored_across, transposed
from tensorgen.minimal_filtering import Row
from tensorgen.schedule import ScheduleError, WinogradTile
from tensorgen.simplify import affine, simplify
from tensorgen.task import Task
from tensorgen.types import DType, TensorType, float64, int64
from tensorgen.winograd import (
    TRIVIAL,
    FilteredContraction,
    FilterGrid,
    coordinates,
    filtered_contraction,
)


def lower_winograd(task: Task, schedule: WinogradTile) -> tuple[LoopKernel, Packing]:
    """The loops of a convolution under minimal filtering, and the packing of its inputs."""
    contraction = contraction_of(task)
    form = (
        None
        if contraction is None
        else filtered_contraction(contraction, contraction.constant(task))
    )
    if form is None:
        raise ScheduleError("winograd: expected a convolution by constants, got " + str(task)[:200])
    if len(schedule.results) != len(form.filtered):
        raise ScheduleError(
            f"winograd: expected results along {len(form.filtered)} axes, "
            f"got {len(schedule.results)}"
        )
    return _Lowering(task, schedule, form).kernel()


Counter = Axis | Const
"""A loop variable; 0 without a loop."""


@dataclass(frozen=True)
class _Lowering:
    task: Task
    schedule: WinogradTile
    form: FilteredContraction
    numbers: Numbers = field(default_factory=Numbers)

    # Sizes

    @property
    def contraction(self) -> Contraction:
        return self.form.contraction

    @property
    def dtype(self) -> DType:
        return self.contraction.dtype

    @cached_property
    def grids(self) -> tuple[FilterGrid, FilterGrid]:
        """The filtered axes, outer and inner."""
        made = [
            FilterGrid.of(window, results)
            for window, results in zip(self.form.filtered, self.schedule.results, strict=True)
        ]
        return (TRIVIAL, made[0]) if len(made) == 1 else (made[0], made[1])

    @property
    def points(self) -> int:
        return self.grids[0].points * self.grids[1].points

    @property
    def width(self) -> int:
        """Features of one block."""
        return self.schedule.vectors * self.schedule.lanes

    @property
    def channels(self) -> int:
        return _size(self.form.channels)

    @property
    def pitch(self) -> int:
        """Elements from one row of transformed data to the next.

        A line more than the channels need: rows a power of two apart would share the few places
        of the first-level cache that their addresses allow.
        """
        lanes = self.schedule.lanes
        return (-(-self.channels // lanes) + 1) * lanes

    @property
    def strip_extents(self) -> tuple[int, ...]:
        """The numbers that tell a strip: images, unless the window moves through one, and tiles."""
        images = () if self.form.window else tuple(a.extent for a in self.form.images)
        return (*images, self.grids[0].count)

    @property
    def depth(self) -> int:
        """Products summed for one point."""
        taps = self.form.window.tap.extent if self.form.window else 1
        return taps * self.channels

    def counter(self, name: str, extent: int) -> Counter:
        """A loop variable, or 0 where there would be one step only."""
        return self.numbers.axis(name, extent) if extent != 1 else const(0, int64)

    # The kernel

    def kernel(self) -> tuple[LoopKernel, Packing]:
        """The loops over blocks of strips, and the packing of the inputs."""
        form, contraction, numbers = self.form, self.contraction, self.numbers
        weights = contraction.operands[form.weights]
        packing: list[TensorExpr | None] = [None] * len(self.task.inputs)
        packed = self._filtered_weights()
        packing[weights] = packed
        inputs = tuple(
            numbers.buffer(f"{operand_name(n)}_filtered", t.dtype, packed.type.size, Space.INPUT)
            if n == weights
            else numbers.buffer(operand_name(n), t.dtype, t.size, Space.INPUT)
            for n, t in enumerate(self.task.inputs)
        )
        type = self.task.output_types[0]
        output = numbers.buffer("out", type.dtype, type.size, Space.OUTPUT)
        outer = (*form.batch, *(form.images if form.window else ()))
        loops = tuple(self.counter(axis.name, axis.extent) for axis in outer)
        values: dict[Axis, Expr] = dict(zip(outer, loops, strict=True))
        most = min(self.schedule.strips, prod(self.strip_extents))
        deep = form.window.positions if form.window else 1
        rows = deep * most * self.grids[1].count
        transformed = numbers.buffer(
            "transformed",
            self.dtype,
            self.points * rows * self.pitch,
            Space.SCRATCH if self.schedule.apart else Space.SHARED,
        )
        strip = numbers.buffer("strip", self.dtype, self._strip_size, Space.SCRATCH)
        products = numbers.buffer(
            "products", self.dtype, self.points * self.schedule.chunk * self.width, Space.SCRATCH
        )
        body: list[Stmt] = []
        for span in spans(prod(self.strip_extents), most):
            block = self.counter("block", span.blocks)
            first = simplify(block * span.length + span.start)
            place = _Block(first, span.length, values)
            stages = (
                *self._transform(place, inputs, transformed, strip),
                *self._multiply(place, inputs, output, transformed, products),
            )
            if self.schedule.apart:
                stages = (Allocate(transformed, stages),)
            body += _nested((*loops, block), stages, self._shared(True))
        if not self.schedule.apart:
            body = [Allocate(transformed, tuple(body))]
        scratch = (transformed, strip, products)
        return LoopKernel(inputs, (output,), scratch, tuple(body)), tuple(packing)

    def _shared(self, whole: bool) -> LoopKind:
        """The kind of a loop over `whole` blocks, or over parts of one."""
        shared = self.schedule.parallel and self.schedule.apart == whole
        return LoopKind.PARALLEL if shared else LoopKind.SERIAL

    @property
    def _strip_size(self) -> int:
        """Data of one strip, with channels along the lanes."""
        return self.grids[0].points * self._strip_width * self.schedule.lanes

    @property
    def _strip_width(self) -> int:
        grid = self.grids[1]
        return ((grid.tiles - 1) * grid.results + grid.points) * grid.phases

    # Data

    def _transform(
        self, block: _Block, inputs: tuple[Buffer, ...], transformed: Buffer, strip: Buffer
    ) -> tuple[Stmt, ...]:
        """B^T d B for every tile of a block of strips."""
        numbers, lanes = self.numbers, self.schedule.lanes
        window = self.form.window
        deep = self.counter("z", window.positions if window else 1)
        row = self.counter("strip", block.strips)
        group = self.counter("c_o", -(-self.channels // lanes))
        inner, outer = self.grids[1], self.grids[0]
        tile = self.counter("tile", inner.count)
        number = (deep * block.strips + row) * inner.count + tile
        lane = self.counter("lane", lanes)
        columns = numbers.buffer(
            "columns", self.dtype, outer.points * inner.points * lanes, Space.STACK
        )
        column = self.counter("column", inner.points)
        position = inner.position(tile, column)
        down: list[Stmt] = []
        for i, weights in enumerate(outer.filter.inputs):
            elements = [
                strip.at(simplify((position + k * self._strip_width) * lanes + lane))
                for k in range(outer.points)
            ]
            index = simplify((column + i * inner.points) * lanes + lane)
            down.append(Store(columns, index, _combination(weights, elements)))
        line = self.counter("line", outer.points)
        across: list[Stmt] = []
        rows = transformed.size // self.points // self.pitch
        for j, weights in enumerate(inner.filter.inputs):
            elements = [
                columns.at(simplify((line * inner.points + k) * lanes + lane))
                for k in range(inner.points)
            ]
            point = line * inner.points + j
            index = simplify((point * rows + number) * self.pitch + group * lanes + lane)
            across.append(Store(transformed, index, _combination(weights, elements)))
        passes = (*_over(column, lane, down), *_over(line, lane, across))
        tiles = _nested((tile,), (Allocate(columns, passes),), LoopKind.SERIAL)
        relaid = self._relay(block, inputs, strip, deep, row, group)
        body = (Allocate(strip, (*relaid, *tiles)),)
        return _nested((deep, row, group), body, self._shared(False))

    def _relay(
        self,
        block: _Block,
        inputs: tuple[Buffer, ...],
        strip: Buffer,
        deep: Counter,
        row: Counter,
        group: Counter,
    ) -> tuple[Stmt, ...]:
        """Copy the data of one strip, channels along the lanes, zero where there is none."""
        lanes, form = self.schedule.lanes, self.form
        outer, inner = self.grids
        lane = self.counter("lane", lanes)
        line = self.counter("line", outer.points)
        channel = simplify(group * lanes + lane)
        *images, tile = coordinates(simplify(block.first + row), self.strip_extents)
        values = dict(block.values)
        values.update(zip(() if form.window else form.images, images, strict=True))
        values.update(
            zip(form.channels, coordinates(channel, [a.extent for a in form.channels]), strict=True)
        )
        if form.window:
            values |= {form.window.output: deep, form.window.tap: const(0, int64)}
        height = outer.position(tile, line)
        inside = [channel < self.channels]
        if outer.window:
            values |= {outer.window.output: height, outer.window.tap: const(0, int64)}
            inside.append(height < outer.positions)
        assert inner.window is not None
        across = self.numbers.axis("w", self._strip_width)
        values |= {inner.window.output: across, inner.window.tap: const(0, int64)}
        inside.append(across < inner.positions)
        element = self._datum(inputs, values)
        zero = const(0, self.dtype)
        if isinstance(element, Select) and element.otherwise == zero:
            inside.append(element.condition)
            element = element.then
        value = simplify(select(all_of(inside), element, zero))
        position = (line * self._strip_width + across) * lanes + lane
        statements: list[Stmt] = []
        for first, last in pieces(value, across, 1):
            reached = self.counter("w", last - first)
            place = {across: simplify(reached + first)}
            store = Store(strip, replace_axes(position, place), replace_axes(value, place))
            statements += self._copied(store, inputs, reached, lane)
        return _nested((line,), tuple(statements), LoopKind.ROLLED)

    def _datum(self, inputs: tuple[Buffer, ...], values: Mapping[Axis, Expr]) -> Expr:
        """What the data is at a point of the contraction's axes; a prologue is computed there."""
        contraction, data = self.contraction, self.form.data
        if contraction.prologue is not None:
            return prologue_element(contraction.prologue, inputs, values)
        index = replace_axes(contraction.factors[data].expr, values)
        return inputs[contraction.operands[data]].at(index)

    def _copied(
        self, store: Store, inputs: tuple[Buffer, ...], reached: Counter, lane: Counter
    ) -> tuple[Stmt, ...]:
        """Loops that store, under the conditions that they do not change."""
        axes = tuple(axis for axis in (reached, lane) if isinstance(axis, Axis))

        def along(inner: Store) -> tuple[Stmt, ...]:
            return _nested((reached,), (inner,), LoopKind.ROLLED)

        def over_both(inner: Store) -> tuple[Stmt, ...]:
            match inner.value:
                case Const():
                    filled = _nested((lane,), (inner,), LoopKind.SIMD)
                    return _nested((reached,), filled, LoopKind.SERIAL)
                case Load(operand=number, indices=(index,)) if (
                    self.schedule.turned
                    and isinstance(reached, Axis)
                    and isinstance(lane, Axis)
                    and affine(index).coefficient(reached) == 1
                ):
                    (source,) = (buffer for buffer in inputs if buffer.number == number)
                    lanes, target = self.schedule.lanes, inner.buffer
                    blocks = transposed(
                        source, index, target, inner.index, lane, reached, lanes, self.numbers
                    )
                    return tuple(blocks)
                case _:
                    chosen = shared_choices(axes[:1], inner, along)
                    return _nested((lane,), chosen, LoopKind.ROLLED)

        return shared_choices(axes, store, over_both)

    # Products

    def _multiply(
        self,
        block: _Block,
        inputs: tuple[Buffer, ...],
        output: Buffer,
        transformed: Buffer,
        products: Buffer,
    ) -> tuple[Stmt, ...]:
        """Products of all tiles of a block with all features, transformed back and stored."""
        form = self.form
        deep = form.window.output.extent if form.window else 1
        rows = deep * block.strips * self.grids[1].count
        features = self.counter("f_o", -(-_size(form.features) // self.width))
        body: list[Stmt] = []
        for span in spans(rows, self.schedule.chunk):
            chunk = self.counter("chunk", span.blocks)
            first = simplify(chunk * span.length + span.start)
            point = self.counter("point", self.points)
            tiles: list[Stmt] = []
            for part in spans(span.length, self.schedule.rows):
                tile = self.counter("m_o", part.blocks)
                start = simplify(tile * part.length + part.start)
                sums = self._register_tile(
                    block, inputs, transformed, products, (point, features, first), start,
                    part.length,
                )  # fmt: skip
                tiles += _nested((tile,), sums, LoopKind.SERIAL)
            back = self._transform_back(
                block, inputs, output, products, features, first, span.length
            )
            sums_then_results = (*_nested((point,), tuple(tiles), LoopKind.SERIAL), *back)
            body += _nested(
                (features, chunk), (Allocate(products, sums_then_results),), self._shared(False)
            )
        return tuple(body)

    def _register_tile(
        self,
        block: _Block,
        inputs: tuple[Buffer, ...],
        transformed: Buffer,
        products: Buffer,
        place: tuple[Counter, Counter, Expr],
        start: Expr,
        length: int,
    ) -> tuple[Stmt, ...]:
        """The products of `length` rows with one block of features, at one point.

        `place` is the point, the block of features, and the chunk's first row.
        """
        form, schedule = self.form, self.schedule
        point, features, first = place
        lanes, dtype, vectors = schedule.lanes, self.dtype, schedule.vectors
        group = [
            [Register(f"acc_{i}_{v}", dtype, lanes) for v in range(vectors)] for i in range(length)
        ]
        right = [Register(f"vector_{v}", dtype, lanes) for v in range(vectors)]
        left = Register("element", dtype, lanes)
        flat = [register for row in group for register in row]
        tap = self.counter("tap", form.window.tap.extent if form.window else 1)
        channel = self.counter("c", self.channels)
        weights = inputs[self.contraction.operands[form.weights]]
        blocks = -(-_size(form.features) // self.width)
        extents = tuple(axis.extent for axis in form.batch)
        batch = flat_index([block.values[axis] for axis in form.batch], extents)
        panel = ((batch * blocks + features) * self.points + point) * self.depth
        lane = (panel + tap * self.channels + channel) * self.width
        step: list[Stmt] = [
            VectorLoad(register, weights, simplify(lane + v * lanes), lanes, kept=length > 1)
            for v, register in enumerate(right)
        ]
        rows = transformed.size // self.points // self.pitch
        shift = 0
        if form.window:
            shift = form.window.dilation * block.strips * self.grids[1].count
        row = point * rows + first + start + tap * shift
        for i, accumulators in enumerate(group):
            index = simplify((row + i) * self.pitch + channel)
            step.append(Fill(left, transformed.at(index)))
            step.extend(
                MultiplyAdd(target, left, register)
                for target, register in zip(accumulators, right, strict=True)
            )
        target = (point * schedule.chunk + start) * self.width
        stores = [
            VectorStore(products, simplify(target + (i * self.width + v * lanes)), register, lanes)
            for i, accumulators in enumerate(group)
            for v, register in enumerate(accumulators)
        ]
        body = (
            *(Fill(register, const(0, dtype)) for register in flat),
            *_nested((tap, channel), tuple(step), LoopKind.ROLLED),
            *stores,
        )
        return (Declare((*flat, *right, left), body),)

    # Results

    def _transform_back(
        self,
        block: _Block,
        inputs: tuple[Buffer, ...],
        output: Buffer,
        products: Buffer,
        features: Counter,
        first: Expr,
        length: int,
    ) -> tuple[Stmt, ...]:
        """A^T (…) A for the rows of a chunk, through the epilogue into the result."""
        numbers, lanes = self.numbers, self.schedule.lanes
        outer, inner = self.grids
        row = self.counter("m", length)
        vector = self.counter("vector", self.schedule.vectors)
        lane = self.counter("lane", lanes)
        columns = numbers.buffer(
            "columns", self.dtype, outer.results * inner.points * lanes, Space.STACK
        )
        tile = numbers.buffer(
            "tile", self.dtype, outer.results * inner.results * lanes, Space.STACK
        )
        column = self.counter("column", inner.points)
        down: list[Stmt] = []
        for i, weights in enumerate(outer.filter.outputs):
            elements = []
            for k in range(outer.points):
                place = (column + k * inner.points) * self.schedule.chunk + row
                elements.append(products.at(simplify(place * self.width + vector * lanes + lane)))
            index = simplify((column + i * inner.points) * lanes + lane)
            down.append(Store(columns, index, _combination(weights, elements)))
        line = self.counter("line", outer.results)
        across: list[Stmt] = []
        for j, weights in enumerate(inner.filter.outputs):
            elements = [
                columns.at(simplify((line * inner.points + k) * lanes + lane))
                for k in range(inner.points)
            ]
            index = simplify((line * inner.results + j) * lanes + lane)
            across.append(Store(tile, index, _combination(weights, elements)))
        feature = simplify((features * self.schedule.vectors + vector) * lanes + lane)
        body = (
            *_over(column, lane, down),
            *_over(line, lane, across),
            *self._store_tile(block, inputs, output, tile, simplify(first + row), feature, lane),
        )
        allocated: tuple[Stmt, ...] = (Allocate(columns, (Allocate(tile, body),)),)
        return _nested((row, vector), allocated, LoopKind.SERIAL)

    def _store_tile(
        self,
        block: _Block,
        inputs: tuple[Buffer, ...],
        output: Buffer,
        tile: Buffer,
        row: Expr,
        feature: Expr,
        lane: Counter,
    ) -> tuple[Stmt, ...]:
        """The results of one tile and one vector of features, those that exist."""
        form = self.form
        outer, inner = self.grids
        line = self.counter("line", outer.results)
        column = self.counter("column", inner.results)
        deep = form.window.output.extent if form.window else 1
        z, strip, across = coordinates(row, (deep, block.strips, inner.count))
        *images, down = coordinates(simplify(block.first + strip), self.strip_extents)
        values = dict(block.values)
        values.update(zip(() if form.window else form.images, images, strict=True))
        if form.window:
            values[form.window.output] = z
        extents = [axis.extent for axis in form.features]
        values.update(zip(form.features, coordinates(feature, extents), strict=True))
        conditions: list[Expr] = [feature < _size(form.features)]
        for grid, number, part in ((outer, down, line), (inner, across, column)):
            if grid.window:
                place = grid.position(number, part)
                values[grid.window.output] = place
                conditions.append(place < grid.extent)
        element = tile.at(simplify((line * inner.results + column) * self.schedule.lanes + lane))
        index = replace_axes(self.contraction.result, values)
        value = epilogue_value(self.contraction, inputs, output, values, element)
        contiguous = affine(index).coefficient(lane) == 1
        before: Expr = element
        if isinstance(lane, Axis) and _size(form.features) % self.width == 0:
            fixed = [axis for axis in (line, column) if isinstance(axis, Axis)]
            before, value = along_lanes(value, element, lane, fixed)
        first: tuple[Stmt, ...] = ()
        if before != element:
            lanes = _nested((lane,), (Store(tile, element.indices[0], before),), LoopKind.SIMD)
            first = _nested((line, column), lanes, LoopKind.SERIAL)
        store = Store(output, index, value)
        statements: tuple[Stmt, ...] = (store,)
        condition = simplify(all_of(conditions))
        if condition != const(True, condition.dtype):
            statements = (If(condition, statements),)
        order = (line, column, lane) if contiguous else (lane, line, column)
        one_by_one = _nested(order, statements, LoopKind.ROLLED)
        if not isinstance(lane, Axis) or not isinstance(column, Axis) or contiguous:
            return (*first, *one_by_one)
        if (
            not self.schedule.turned
            or affine(index).coefficient(column) != 1
            or _size(form.features) % lane.extent
        ):
            return (*first, *one_by_one)
        last = {
            axis: const(axis.extent - 1, int64) for axis in (line, column) if isinstance(axis, Axis)
        }
        whole = replace_axes(all_of(conditions), {**last, lane: const(0, int64)})
        turned = _nested(
            (line,),
            stored_across(element, tile, store, column, lane, self.schedule.lanes, self.numbers),
            LoopKind.SERIAL,
        )
        if whole == const(True, whole.dtype):
            return (*first, *turned)
        return (*first, If(whole, turned, one_by_one))

    # Weights

    def _filtered_weights(self) -> TensorExpr:
        """G g G^T as an expression over the flattened weights, computed in double precision."""
        form, contraction = self.form, self.contraction
        outer, inner = self.grids
        factor = contraction.factors[form.weights]
        original = self.task.inputs[contraction.operands[form.weights]]
        source = Tensor(0, TensorType(original.dtype, (original.size,)))
        taps = () if form.window is None else (form.window.tap,)
        count = _size(form.features)
        blocks = -(-count // self.width)
        shape = (
            *(axis.extent for axis in form.batch),
            blocks,
            outer.points,
            inner.points,
            *(axis.extent for axis in (*taps, *form.channels)),
            self.width,
        )

        def element(*indices: Expr) -> Expr:
            batch = indices[: len(form.batch)]
            block, down, across, *summed, part = indices[len(form.batch) :]
            feature = block * self.width + part
            values: dict[Axis, Expr] = dict(zip(form.batch, batch, strict=True))
            values.update(zip((*taps, *form.channels), summed, strict=True))
            extents = [axis.extent for axis in form.features]
            values.update(zip(form.features, coordinates(feature, extents), strict=True))
            total: Expr | None = None
            for i in range(outer.taps):
                for j in range(inner.taps):
                    for grid, tap in ((outer, i), (inner, j)):
                        if grid.window:
                            values[grid.window.tap] = const(tap, int64)
                    load = cast(source[replace_axes(factor.expr, values)], float64)
                    weight = _coefficient(outer, down, i) * _coefficient(inner, across, j)
                    total = load * weight if total is None else total + load * weight
            assert total is not None
            value = cast(total, original.dtype)
            if count % self.width == 0:
                return value
            return select(feature < count, value, const(0, original.dtype))

        return compute(shape, element)


@dataclass(frozen=True, slots=True)
class _Block:
    """Consecutive strips: the number of the first, how many, and the outer axes around them."""

    first: Expr
    strips: int
    values: Mapping[Axis, Expr]


def _nested(
    counters: Sequence[Counter], body: tuple[Stmt, ...], kind: LoopKind
) -> tuple[Stmt, ...]:
    """Loops of those counters that need one."""
    return nested(tuple(axis for axis in counters if isinstance(axis, Axis)), body, kind)


def _over(outer: Counter, lane: Counter, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Vector statements for every step of a loop."""
    lanes = _nested((lane,), tuple(body), LoopKind.SIMD)
    return _nested((outer,), lanes, LoopKind.SERIAL)


def _size(axes: Sequence[Axis]) -> int:
    return prod(axis.extent for axis in axes)


def _combination(weights: Row, elements: Sequence[Load]) -> Expr:
    """The sum of the elements with integer weights, the first one above 0 if there is one."""
    total: Expr | None = None
    pairs = [(w, e) for w, e in zip(weights, elements, strict=True) if w]
    for weight, element in sorted(pairs, key=lambda pair: pair[0] < 0):
        size = abs(weight)
        term: Expr = element if size == 1 else element * const(size, element.dtype)
        if total is None:
            total = term if weight > 0 else apply("neg", term)
        else:
            total = total + term if weight > 0 else total - term
    assert total is not None, "no row of a filter is zero"
    return total


def _coefficient(grid: FilterGrid, point: Expr, tap: int) -> Expr:
    """The weight of a tap at a point, as a choice among the points."""
    values = [row[tap] / divisor for row, divisor in grid.filter.kernels]
    chosen: Expr = const(values[-1], float64)
    for number in range(len(values) - 2, -1, -1):
        chosen = select(point < number + 1, const(values[number], float64), chosen)
    return chosen

"""Lowering of a convolution to minimal filtering.

    y = A^T [ sum(c) (G g G^T) * (B^T d B) ] A        for each tile of results y, data d and taps g

The weights are filtered at compile time. The rest is one kernel. For each block of strips (a strip
is a row of tiles): the data is relaid with channels along the lanes, transformed, and stored as one
matrix for each point of the filter; then, for a chunk of tiles and one block of features at a time,
register tiles multiply these matrices with the weights, and the products are transformed back, go
through the epilogue and are stored where the result wants them.

Layouts, zero-filled up to whole vectors:
- transformed data: point, window position, strip, tile, parts, channel;
- weights: batch, feature block, point, window tap, parts, channel, feature;
- products: point, row of the chunk, feature.

Parts are those of windows with a stride or many taps (`winograd`), the inner axis first. Each pair
of them is transformed by itself, or they are folded: the strip is relaid so that all channels of a
pair of multiples of the strides are neighbours, and a vector has those of several pairs of parts.

Source: Lavin and Gray, "Fast algorithms for convolutional neural networks" (CVPR 2016), section 4.
"""

from __future__ import annotations

from tensorgen.contraction import contraction_of
from tensorgen.expr import Axis, Expr, TensorExpr, operand_name
from tensorgen.loop import Allocate, LoopKernel, Space, Stmt
from tensorgen.lower_contraction import Packing
from tensorgen.lower_winograd_data import transform_data
from tensorgen.lower_winograd_frame import Block, Buffers, Chunk, Frame, nested_counters
from tensorgen.lower_winograd_products import multiply
from tensorgen.lower_winograd_results import transform_back
from tensorgen.lower_winograd_weights import filtered_weights
from tensorgen.schedule import ScheduleError, WinogradTile
from tensorgen.simplify import simplify
from tensorgen.task import Task
from tensorgen.winograd import filtered_contraction


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
    frame = Frame(schedule, form)
    inner = frame.grids[1]
    runs = any(grid.part_count != grid.stride for grid in frame.grids)
    if schedule.folded and (runs or (inner.stride > 1 and inner.phases > 1)):
        raise ScheduleError(
            f"winograd: expected neighbours to fold, got stride {inner.stride}, "
            f"dilation {inner.phases} and {inner.part_count} parts"
        )
    if schedule.shares < 1 or frame.feature_blocks % schedule.shares:
        raise ScheduleError(
            f"winograd: expected a divisor of {frame.feature_blocks} blocks of features as the "
            f"number of shares, got {schedule.shares}"
        )
    if schedule.shares > 1 and not schedule.apart:
        raise ScheduleError(
            "winograd: expected transformed data of its own for each share of the features, got "
            + str(schedule)
        )
    return _kernel(task, frame)


def _kernel(task: Task, frame: Frame) -> tuple[LoopKernel, Packing]:
    """The loops over blocks of strips, and the packing of the inputs."""
    form, numbers = frame.form, frame.numbers
    weights = frame.contraction.operands[form.weights]
    packing: list[TensorExpr | None] = [None] * len(task.inputs)
    packed = filtered_weights(frame, task.inputs[weights])
    packing[weights] = packed
    inputs = tuple(
        numbers.buffer(f"{operand_name(n)}_filtered", t.dtype, packed.type.size, Space.INPUT)
        if n == weights
        else numbers.buffer(operand_name(n), t.dtype, t.size, Space.INPUT)
        for n, t in enumerate(task.inputs)
    )
    type, points = task.output_types[0], frame.points
    output = numbers.buffer("out", type.dtype, type.size, Space.OUTPUT)
    transformed = points * frame.transformed_rows * frame.pitch
    products = points * frame.schedule.chunk * frame.width
    buffers = Buffers(
        inputs,
        output,
        numbers.buffer("transformed", frame.dtype, transformed, frame.space),
        numbers.buffer("strip", frame.dtype, frame.strip_size, Space.SCRATCH),
        numbers.buffer("products", frame.dtype, products, Space.SCRATCH),
    )
    outer = (*form.batch, *(form.images if form.window else ()))
    loops = tuple(frame.counter(axis.name, axis.extent) for axis in outer)
    values: dict[Axis, Expr] = dict(zip(outer, loops, strict=True))
    share = frame.counter("share", frame.schedule.shares)
    body: list[Stmt] = []
    for span in frame.blocks:
        number = frame.counter("block", span.blocks)
        first = simplify(number * span.length + span.start)
        block = Block(first, span.length, values)
        stages: tuple[Stmt, ...] = (
            *transform_data(frame, buffers, block),
            *_results(frame, buffers, block, share),
        )
        if frame.schedule.apart:
            stages = (Allocate(buffers.transformed, stages),)
        body += nested_counters((share, *loops, number), stages, frame.shared(True))
    if not frame.schedule.apart:
        body = [Allocate(buffers.transformed, tuple(body))]
    scratch = (buffers.transformed, buffers.strip, buffers.products)
    return LoopKernel(inputs, (output,), scratch, tuple(body)), tuple(packing)


def _results(frame: Frame, buffers: Buffers, block: Block, share: Expr) -> tuple[Stmt, ...]:
    """All tiles of a block times the features of a share, transformed back and stored."""
    count = frame.feature_blocks // frame.schedule.shares
    counter = frame.counter("f_o", count)
    features = simplify(share * count + counter)
    rows = frame.rows(block.strips)
    length = min(rows, frame.schedule.chunk)
    number = frame.counter("chunk", -(-rows // length))
    chunk = Chunk(features, simplify(number * length), length)
    stages = (
        *multiply(frame, buffers, block, chunk),
        *transform_back(frame, buffers, block, chunk),
    )
    return nested_counters(
        (counter, number), (Allocate(buffers.products, stages),), frame.shared(False)
    )

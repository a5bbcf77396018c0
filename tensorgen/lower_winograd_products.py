"""The products of a convolution under minimal filtering: register tiles for each point."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tensorgen.expr import Expr, const
from tensorgen.flat import flat_index
from tensorgen.loop import (
    Buffer,
    Declare,
    Fill,
    LoopKind,
    MultiplyAdd,
    Prefetch,
    Register,
    Stmt,
    VectorLoad,
    VectorStore,
)
from tensorgen.lower_ahead import NEAR_PANEL
from tensorgen.lower_loops import spans
from tensorgen.lower_winograd_frame import (
    Block,
    Buffers,
    Chunk,
    Counter,
    Frame,
    nested_counters,
    where,
)
from tensorgen.simplify import simplify
from tensorgen.target import LINE_BYTES
from tensorgen.types import boolean, int64


def multiply(frame: Frame, buffers: Buffers, block: Block, chunk: Chunk) -> tuple[Stmt, ...]:
    """The products of a chunk's rows with its features, at every point."""
    body: tuple[Stmt, ...] = ()
    # Loops of their own for each number of rows: conditions inside cost registers.
    for rows in sorted(frame.row_counts(block)):
        exists = frame.has_row(block, chunk, const(rows - 1, int64))
        products = _multiplied(frame, buffers, block, replace(chunk, rows=rows))
        body = where(exists, products, body)
    return body


def _multiplied(frame: Frame, buffers: Buffers, block: Block, chunk: Chunk) -> tuple[Stmt, ...]:
    point = frame.counter("point", frame.points)
    tiles: list[Stmt] = []
    for part in spans(chunk.rows, frame.schedule.rows):
        tile = frame.counter("m_o", part.blocks)
        start = simplify(tile * part.length + part.start)
        sums = _register_tile(frame, buffers, block, chunk, point, start, part.length)
        tiles += nested_counters((tile,), sums, LoopKind.SERIAL)
    return nested_counters((point,), tuple(tiles), LoopKind.SERIAL)


def _register_tile(
    frame: Frame,
    buffers: Buffers,
    block: Block,
    chunk: Chunk,
    point: Counter,
    start: Expr,
    length: int,
) -> tuple[Stmt, ...]:
    """The products of `length` rows at one point, from row `start` of the chunk."""
    form, schedule = frame.form, frame.schedule
    lanes, dtype, vectors = schedule.lanes, frame.dtype, schedule.vectors
    group = [
        [Register(f"acc_{i}_{v}", dtype, lanes) for v in range(vectors)] for i in range(length)
    ]
    right = [Register(f"vector_{v}", dtype, lanes) for v in range(vectors)]
    left = Register("element", dtype, lanes)
    flat = [register for row in group for register in row]
    tap = frame.counter("tap", form.window.tap.extent if form.window else 1)
    inner = frame.grids[1]
    below, beside = (frame.counter(n, e) for n, e in zip("pq", frame.loops, strict=True))
    channel = frame.counter("c", frame.folded_channels)
    weights = buffers.inputs[frame.contraction.operands[form.weights]]
    extents = tuple(axis.extent for axis in form.batch)
    batch = flat_index([block.values[axis] for axis in form.batch], extents)
    panel = (batch * frame.feature_blocks + chunk.features) * frame.points + point
    part = beside * frame.loops[0] + below
    summed = (tap * prod(frame.loops) + part) * frame.folded_channels + channel
    lane = (panel * frame.depth + summed) * frame.width
    step: list[Stmt] = [
        VectorLoad(register, weights, simplify(lane + v * lanes), lanes, kept=length > 1)
        for v, register in enumerate(right)
    ]
    slot = form.window.slot(tap * form.window.dilation) if form.window else tap
    row = point * frame.transformed_rows + chunk.first + start + slot * block.strips * inner.count
    place = part * frame.channel_places + channel
    step += _panel_ahead(frame, weights, panel, summed, chunk, start)
    for i, accumulators in enumerate(group):
        index = simplify((row + i) * frame.pitch + place)
        step.append(Fill(left, buffers.transformed.at(index)))
        step.extend(
            MultiplyAdd(target, left, register)
            for target, register in zip(accumulators, right, strict=True)
        )
    target = (point * schedule.chunk + start) * frame.width
    stores = [
        VectorStore(
            buffers.products, simplify(target + (i * frame.width + v * lanes)), register, lanes
        )
        for i, accumulators in enumerate(group)
        for v, register in enumerate(accumulators)
    ]
    sums = nested_counters((channel,), tuple(step), LoopKind.ROLLED)
    exists = _has_products(frame, point, below, beside)
    body = (
        *(Fill(register, const(0, dtype)) for register in flat),
        *nested_counters((tap, beside, below), where(exists, sums), LoopKind.ROLLED),
        *stores,
    )
    return (Declare((*flat, *right, left), body),)


def _panel_ahead(
    frame: Frame, weights: Buffer, panel: Expr, summed: Expr, chunk: Chunk, start: Expr
) -> tuple[Prefetch, ...]:
    """Asks for the panel of the next point. Each of the tiles that read a panel asks for a part of
    it at each step, line after line: prefetchers of the machine take it for a stream."""
    if not frame.schedule.panels_ahead:
        return ()
    line = LINE_BYTES // frame.dtype.bytes
    tiles = -(-chunk.rows // frame.schedule.rows)
    share = -(-frame.width // tiles)
    step = start // frame.schedule.rows * frame.depth + summed
    index = (panel + 1) * (frame.depth * frame.width) + step * share
    later = frame.depth * frame.width * frame.dtype.bytes > NEAR_PANEL
    return tuple(
        Prefetch(weights, simplify(index + place), later) for place in range(0, share, line)
    )


def _has_products(frame: Frame, point: Expr, below: Expr, beside: Expr) -> Expr:
    """Whether a pair of parts has products at a point: at infinity the short ones have none.
    Folded ones are not told apart."""
    outer, inner = frame.grids
    if frame.schedule.folded:
        return const(True, boolean)
    down = (below < outer.long_parts) | (point // inner.points < outer.points - 1)
    across = (beside < inner.long_parts) | (point % inner.points < inner.points - 1)
    return simplify(down & across)

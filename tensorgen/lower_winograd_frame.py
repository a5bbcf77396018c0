"""What the stages of a convolution under minimal filtering share: sizes, buffers, loops.

What it does not: make any statement of a stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from tensorgen.contraction import Contraction
from tensorgen.expr import Axis, Const, Expr, const
from tensorgen.loop import Buffer, If, LoopKind, Numbers, Space, Stmt, nested
from tensorgen.lower_loops import Span, spans
from tensorgen.schedule import WinogradTile
from tensorgen.simplify import simplify
from tensorgen.types import DType, int64
from tensorgen.winograd import TRIVIAL, FilteredContraction, FilterGrid

Counter = Axis | Const
"""A loop variable; 0 without a loop."""


@dataclass(frozen=True)
class Frame:
    """A filtered contraction with its schedule, and the sizes that follow from both."""

    schedule: WinogradTile
    form: FilteredContraction
    numbers: Numbers = field(default_factory=Numbers)

    @property
    def contraction(self) -> Contraction:
        return self.form.contraction

    @property
    def dtype(self) -> DType:
        return self.contraction.dtype

    @cached_property
    def grids(self) -> tuple[FilterGrid, FilterGrid]:
        """The filtered axes, outer and inner."""
        return grids_of(self.form, self.schedule.results)

    @property
    def points(self) -> int:
        return self.grids[0].points * self.grids[1].points

    @property
    def width(self) -> int:
        """Features of one block."""
        return self.schedule.vectors * self.schedule.lanes

    @property
    def channels(self) -> int:
        return axes_size(self.form.channels)

    @property
    def features(self) -> int:
        return axes_size(self.form.features)

    @property
    def feature_blocks(self) -> int:
        return -(-self.features // self.width)

    @property
    def parts(self) -> int:
        """Pairs of parts of the windows along both axes."""
        return self.grids[0].part_count * self.grids[1].part_count

    @property
    def folded_channels(self) -> int:
        """Channels along the lanes: those of all pairs of parts if these are folded."""
        return self.channels * (self.parts if self.schedule.folded else 1)

    @property
    def channel_places(self) -> int:
        """Elements of transformed data for them, whole vectors."""
        lanes = self.schedule.lanes
        return -(-self.folded_channels // lanes) * lanes

    @property
    def loops(self) -> tuple[int, int]:
        """Parts along the outer and the inner axis that are not along the lanes."""
        outer, inner = self.grids
        return (1, 1) if self.schedule.folded else (outer.part_count, inner.part_count)

    @property
    def pitch(self) -> int:
        """Elements from one row of transformed data to the next.

        A line more than the channels need: rows a power of two apart would share the few places
        of the first-level cache that their addresses allow.
        """
        return prod(self.loops) * self.channel_places + self.schedule.lanes

    @property
    def strip_extents(self) -> tuple[int, ...]:
        """The numbers that tell a strip: images, unless the window moves through one, and tiles."""
        images = () if self.form.window else tuple(a.extent for a in self.form.images)
        return (*images, self.grids[0].count)

    @property
    def depth(self) -> int:
        """Products summed for one point."""
        taps = self.form.window.tap.extent if self.form.window else 1
        return taps * self.parts * self.channels

    @property
    def strips(self) -> int:
        """Strips of a block, but for the last one."""
        return min(self.schedule.strips, prod(self.strip_extents))

    def rows(self, strips: int) -> int:
        """Rows of results at one point, in so many strips: a row for each tile."""
        results = self.form.window.output.extent if self.form.window else 1
        return results * strips * self.grids[1].count

    @property
    def cuts_last(self) -> bool:
        """Whether the last block is in the loop of the others although it has fewer strips. Rows of
        strips that do not exist have to be the last ones, and the block one thread's: where several
        share it, all are to have as much of it."""
        shared = self.schedule.parallel and not self.schedule.apart
        return self.form.window is None and not shared

    @property
    def blocks(self) -> tuple[Span, ...]:
        """The strips, cut into blocks."""
        total = prod(self.strip_extents)
        if self.cuts_last:
            return (Span(0, -(-total // self.strips), self.strips),)
        return spans(total, self.strips)

    def has_strip(self, block: Block, strip: Expr) -> Expr:
        """Whether there is a strip of a block."""
        return simplify(block.first + strip < prod(self.strip_extents))

    def has_row(self, block: Block, chunk: Chunk, row: Expr) -> Expr:
        """Whether there is a row of a chunk."""
        place = chunk.first + row
        inside = (row < chunk.rows) & (place < self.rows(block.strips))
        total, count = prod(self.strip_extents), self.grids[1].count
        if not self.cuts_last or total % self.strips == 0:
            return simplify(inside)
        return simplify(inside & (block.first * count + place < total * count))

    def row_counts(self, block: Block) -> frozenset[int]:
        """How many rows the chunks of a block may have."""
        strips = {block.strips}
        if self.cuts_last:
            strips |= {span.length for span in spans(prod(self.strip_extents), self.strips)}
        return frozenset(
            span.length for count in strips for span in spans(self.rows(count), self.schedule.chunk)
        )

    @property
    def transformed_rows(self) -> int:
        """Rows of data at one point, as the buffer of transformed data holds them."""
        slots = self.form.window.slots if self.form.window else 1
        return slots * self.strips * self.grids[1].count

    @property
    def strip_lines(self) -> int:
        """Lines of the data of one strip."""
        return self.grids[0].elements(self.schedule.folded)

    @property
    def strip_width(self) -> int:
        """Elements of one line of a strip's data."""
        return self.grids[1].width(self.schedule.folded)

    @property
    def strip_size(self) -> int:
        """Data of one strip, with channels along the lanes. Those that are folded are not filled
        up: the last vector of a pair of parts reaches beyond it."""
        if self.schedule.folded:
            return self.strip_lines * self.strip_width * self.channels + self.beyond
        return self.strip_lines * self.strip_width * self.schedule.lanes

    def strip_index(self, line: Expr, column: Expr) -> Expr:
        """Where the first channel of an element of a strip is. If parts are folded, those of
        all that a pair of multiples of the strides begins are neighbours."""
        if not self.schedule.folded:
            return (line * self.strip_width + column) * self.schedule.lanes
        stride = self.grids[0].stride
        place = (line // stride * self.strip_width + column) * stride + line % stride
        return place * self.channels

    @property
    def beyond(self) -> int:
        """Elements by which vectors of folded channels are longer than these."""
        return self.channel_places - self.folded_channels

    @property
    def space(self) -> Space:
        """Where transformed data is: in front of all threads, or of each one alone."""
        return Space.SCRATCH if self.schedule.apart else Space.SHARED

    def shared(self, whole: bool) -> LoopKind:
        """The kind of a loop over `whole` blocks, or over parts of one."""
        shared = self.schedule.parallel and self.schedule.apart == whole
        return LoopKind.PARALLEL if shared else LoopKind.SERIAL

    def counter(self, name: str, extent: int) -> Counter:
        """A loop variable, or 0 where there would be one step only."""
        return self.numbers.axis(name, extent) if extent != 1 else const(0, int64)


@dataclass(frozen=True, slots=True)
class Buffers:
    """The storage of the kernel; what lies where is said in `lower_winograd`."""

    inputs: tuple[Buffer, ...]
    output: Buffer
    transformed: Buffer
    strip: Buffer
    products: Buffer


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive strips: the number of the first, how many at most, and the outer axes around
    them."""

    first: Expr
    strips: int
    values: Mapping[Axis, Expr]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a block whose products with one block of features are held at a time.

    `first` is the number of the first row in its block of strips. The last chunk has fewer `rows`,
    if they do not divide those of the block.
    """

    features: Expr
    first: Expr
    rows: int


def nested_counters(
    counters: Sequence[Counter], body: tuple[Stmt, ...], kind: LoopKind
) -> tuple[Stmt, ...]:
    """Loops of those counters that need one."""
    return nested(tuple(axis for axis in counters if isinstance(axis, Axis)), body, kind)


def where(
    condition: Expr, body: tuple[Stmt, ...], otherwise: tuple[Stmt, ...] = ()
) -> tuple[Stmt, ...]:
    """`body` where a condition holds, else `otherwise`; `body` alone if it always holds."""
    if condition == const(True, condition.dtype):
        return body
    return (If(condition, body, otherwise),)


def grids_of(form: FilteredContraction, results: Sequence[int]) -> tuple[FilterGrid, FilterGrid]:
    """The filtered axes, outer and inner, with so many results of each at once."""
    made = [
        FilterGrid.of(window, count) for window, count in zip(form.filtered, results, strict=True)
    ]
    return (TRIVIAL, made[0]) if len(made) == 1 else (made[0], made[1])


def axes_size(axes: Sequence[Axis]) -> int:
    """The number of elements that axes count."""
    return prod(axis.extent for axis in axes)

"""Schedules: how a task is computed, as values. A sketch (the class) plus its parameters.

A schedule decides structure, order, tile sizes, packing and threads; `lower` turns task and
schedule into loops and decides nothing more. The text of a schedule stands in the emitted code.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ScheduleError(ValueError):
    """A schedule does not fit its task. The message is one line: step, expected, got."""


class Lanes(Enum):
    """Which axis of a stage the vector lanes run along."""

    OUTPUT = "output"  # the innermost axis of the result
    REDUCTION = "reduction"  # the innermost axis of each reduction, with lane accumulators
    NONE = "none"  # plain loops


class Method(Enum):
    """How the elements of a stage come about."""

    EACH = "each"  # every one by itself
    RUNNING = "running"  # a fold of all earlier elements, carried along its axis in one pass
    RANKING = "ranking"  # the first elements in order, by insertion into the sorted result
    SCATTER = "scatter"  # a copy, then each update where data says
    BLOCKS = "blocks"  # by blocks of the result, of which what lies across the lanes is transposed


@dataclass(frozen=True, slots=True)
class Loops:
    """One stage as a loop nest, the innermost part in vector lanes.

    `tile` is the number of lane accumulators of a reduction (and, without one, the length of the
    chunks a one-dimensional loop is cut into); windows of at most `unroll` elements are written
    out; the `parallel` outermost loops share the threads. With `reciprocals`, a divisor that all
    lanes share is divided by once: the quotients come from its reciprocal by fused multiply-adds.
    With `softmax`, the stage is one of a softmax: its maximum need not propagate NaN, it takes exp
    of what is at most 0, it divides by a finite sum of at least 1, each of them NaN at worst.
    With `ahead`, the lanes of a reduction ask the caches for what they will read in the next row,
    and for the lines where the last stages will store this one.
    With `streamed`, results go past the caches, where they would not stay until they are read.
    A `method` other than the plain one goes over the operand once; a running fold carries `tile`
    totals at a time, and `tile` elements a side are transposed at once.
    """

    lanes: Lanes
    tile: int
    unroll: int
    parallel: int
    reciprocals: bool = False
    softmax: bool = False
    ahead: bool = False
    streamed: bool = False
    method: Method = Method.EACH

    def __str__(self) -> str:
        steps = [f"lanes({self.lanes.value}, {self.tile})"]
        if self.unroll:
            steps.append(f"unroll({self.unroll})")
        if self.parallel:
            steps.append(f"parallel({self.parallel})")
        if self.reciprocals:
            steps.append("reciprocals")
        if self.softmax:
            steps.append("softmax")
        if self.ahead:
            steps.append("ahead")
        if self.streamed:
            steps.append("streamed")
        if self.method is not Method.EACH:
            steps.append(self.method.value)
        return "; ".join(steps)


@dataclass(frozen=True, slots=True)
class RowStages:
    """Several stages fused at their `rows` common outer axes: one pass over each row.

    Intermediate rows live on the stack up to `stack_bytes` each, else in scratch. Each stage in
    `joined` (by position) is computed in the loop of the next one, which reduces it. With
    `softmax_held`, the last four are a softmax whose rows are held in vector registers, where the
    instruction set has a function for it.
    """

    rows: int
    stages: tuple[Loops, ...]
    parallel: int
    stack_bytes: int
    joined: frozenset[int] = frozenset()
    softmax_held: bool = False

    def __str__(self) -> str:
        inner = "".join(
            f"{stage}{' & ' if position in self.joined else ' | '}"
            for position, stage in enumerate(self.stages)
        ).removesuffix(" | ")
        held = "; softmax held" if self.softmax_held else ""
        return f"rows({self.rows}); parallel({self.parallel}); {inner}{held}"


class VectorSource(Enum):
    """How the operand along the vector lanes reaches the registers."""

    PACKED = "packed"  # relaid once, at compile time
    DIRECT = "direct"  # read in place: unit stride along the lanes
    RUNTIME = "runtime"  # packed panel by panel into scratch


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """A contraction with a tile of `rows` x `vectors` accumulators held in vector registers.

    `vector_operand` (0 or 1) is the factor whose elements lie along the lanes, the other is
    broadcast; `lanes` is the vector width in elements. `row_packed` relays the broadcast operand
    at compile time. `vectors_outer` puts the loop over vector tiles around the loop over rows. If
    `parallel`, threads share the outer one of the two, or with `grid` both.
    If `turned`, tiles that are stored across their lanes are transposed in registers.
    `ahead` asks the caches for the next tile of the operand that is read in place; `panels_ahead`,
    while the inner tiles go by, for the next panel of the packed operand of the outer loop, or with
    `depth` for the next block of it.
    `epilogue_ahead` asks for the result's lines, and for those that its epilogue reads beside the
    sums, while these are taken.
    A prologue is made inside `prologue` loops that move what is read of it: they come first then,
    and they alone share the threads. Inside none of them, all threads make it once. With `together`
    what the steps of a sum read of it (channels) are neighbours: a line of the cache serves as many
    steps as it has elements.
    With `copied`, a dense copy of that factor (0 or 1) is such a prologue. With `skips_padding`
    steps of the sum at which a whole tile would read zeros around a factor are left out; where that
    are all that read zeros, there is no prologue, and the others read the factor where it lies.
    With `row_block`, the broadcast operand is packed at run time, so many rows at a time: the loop
    over these blocks is around the one over vector tiles, and threads share it. Where all rows are
    one block, all threads pack it and share the vector tiles. With `block_in_place` nothing is
    packed: each block is read where it lies.
    With `panel_group`, all blocks of rows go over so many vector tiles, and then all over the next
    ones: the panels of a group stay in the shared cache while rows of main memory go by.
    With `depth`, sums are taken in blocks of so many products: such a block of a panel stays in the
    nearest cache while all rows go by, whose partial sums are in a buffer of the thread's own.
    With `backwards` the vector tiles come from last to first: a kernel that runs again with the
    same weights begins with those that are still in the cache.
    """

    vector_operand: int
    source: VectorSource
    row_packed: bool
    rows: int
    vectors: int
    lanes: int
    vectors_outer: bool
    parallel: bool
    grid: bool = False
    ahead: bool = False
    panels_ahead: bool = False
    turned: bool = False
    prologue: int = 0
    together: bool = False
    copied: int | None = None
    depth: int = 0
    backwards: bool = False
    row_block: int = 0
    epilogue_ahead: bool = False
    block_in_place: bool = False
    skips_padding: bool = False
    panel_group: int = 0

    def __str__(self) -> str:
        outer = "vector tiles" if self.vectors_outer else "rows"
        shared = "prologue" if self.prologue else "grid" if self.grid else outer
        rows = "packed" if self.row_packed else "broadcast in place"
        if self.row_block:
            how = "in place," if self.block_in_place else "packed"
            rows = f"{how} {self.row_block} at a time"
            shared = "blocks of rows"
        tiles = "vector tiles backwards" if self.backwards else "vector tiles"
        order = f"{tiles}, rows" if self.vectors_outer else f"rows, {tiles}"
        steps = [
            f"register_tile({self.rows} x {self.vectors}*{self.lanes})",
            f"vectors({self.source.value})",
            f"rows({rows})",
            f"order({order})",
        ]
        if self.panel_group:
            steps.append(f"groups({self.panel_group} vector tiles)")
        if self.depth:
            steps.append(f"depth({self.depth})")
        if self.turned:
            steps.append("turned")
        if self.ahead:
            steps.append("ahead")
        if self.panels_ahead:
            steps.append("panels ahead")
        if self.epilogue_ahead:
            steps.append("epilogue ahead")
        if self.copied is not None:
            steps.append("copied")
        if self.skips_padding:
            steps.append("skips padding")
        if self.prologue:
            steps.append(f"prologue(inside {self.prologue})")
        if self.together:
            steps.append("together")
        if self.parallel:
            steps.append(f"parallel({shared})")
        return "; ".join(steps)


@dataclass(frozen=True, slots=True)
class WinogradTile:
    """A convolution by minimal filtering, `results` at once along each filtered axis.

    Strips of data (tiles of one row) are transformed, a block of `strips` of them at a time.
    Products are summed by register tiles of `rows` x `vectors` * `lanes`, `chunk` rows of all
    points at a time, and transformed back. If `turned`, data and results go from and to lanes in
    blocks that are transposed in registers.
    If `parallel`, threads share the transforms and then the products of each block; with `apart`
    they share the blocks, each with transformed data of its own, or blocks and `shares` of the
    features: for each of these, data is transformed anew.
    If `folded`, vectors of data hold the few channels of several parts of strided windows.
    With `panels_ahead`, the weights of the next point are asked for while tiles read those of one.
    """

    results: tuple[int, ...]
    strips: int
    chunk: int
    rows: int
    vectors: int
    lanes: int
    parallel: bool
    turned: bool = False
    apart: bool = False
    folded: bool = False
    panels_ahead: bool = False
    shares: int = 1

    def __str__(self) -> str:
        shared = "strips | tiles"
        if self.apart:
            shared = f"{self.shares} shares of features, blocks" if self.shares > 1 else "blocks"
        steps = [
            f"winograd({' x '.join(map(str, self.results))})",
            f"strips({self.strips})",
            f"rows({self.chunk})",
            f"register_tile({self.rows} x {self.vectors}*{self.lanes})",
        ]
        if self.folded:
            steps.append("folded")
        if self.turned:
            steps.append("turned")
        if self.panels_ahead:
            steps.append("panels ahead")
        if self.parallel:
            steps.append(f"parallel({shared})")
        return "; ".join(steps)


@dataclass(frozen=True, slots=True)
class ColumnRun:
    """`vectors` vectors of `lanes` elements side by side from column `start`, `count` of the lanes
    in use (all of them if there are several vectors)."""

    start: int
    vectors: int
    lanes: int
    count: int

    def __str__(self) -> str:
        width = f"{self.vectors}*{self.lanes}" if self.vectors > 1 else f"{self.lanes}"
        used = f"[{self.count}]" if self.count < self.lanes else ""
        return f"{width}{used}@{self.start}"


@dataclass(frozen=True, slots=True)
class WindowTile:
    """Windows over planes: `rows` rows of results and one vector of columns in registers, the taps
    written out, each vector of the plane loaded once for all rows that need it.

    `columns` covers a row of the result; runs may overlap, what they share is computed twice.
    Threads share the `parallel` outermost loops, the last of which is that over rows of tiles.
    """

    rows: int
    columns: tuple[ColumnRun, ...]
    parallel: int

    def __str__(self) -> str:
        steps = [f"window_tile({self.rows} rows)", f"columns({' + '.join(map(str, self.columns))})"]
        if self.parallel:
            steps.append(f"parallel({self.parallel})")
        return "; ".join(steps)


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """A contraction, stages on the rows of its result and, perhaps, a contraction of those with
    another tensor, for `rows` rows at a time: their scores stay in a cache.

    Rows of scores lie `row_stride` elements apart. The vector factors are packed, if `scores` and
    `weighted` say so, once for all rows that share them; those are computed in `parts` parts, each
    of which packs for itself. With `parallel`, the parts of all batches share the threads. The
    `first_rows` of each part, a block of their own, are computed while keys are packed.
    """

    rows: int
    row_stride: int
    scores: RegisterTile
    stages: RowStages
    weighted: RegisterTile | None
    parts: int
    parallel: bool
    first_rows: int = 0

    @property
    def most_rows(self) -> int:
        """The rows of the longest block."""
        return max(self.rows, self.first_rows)

    def __str__(self) -> str:
        steps = [f"attention_tile({self.rows} rows, {self.row_stride} apart; parts({self.parts}))"]
        if self.first_rows:
            steps.append(f"first({self.first_rows} rows)")
        steps.append(f"scores({self.scores})")
        steps.append(str(self.stages))
        if self.weighted is not None:
            steps.append(f"weighted({self.weighted})")
        if self.parallel:
            steps.append("parallel(parts)")
        return "; ".join(steps)


Schedule = Loops | RowStages | RegisterTile | WinogradTile | WindowTile | AttentionTile

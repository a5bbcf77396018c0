"""Minimal filtering with zero trials: candidates for a convolution, and an estimate for each.

The estimate counts cycles as that of register tiles does, so that the two can be compared: relaying
and transforming the data, the products of all points, transforming back, and the filtered weights,
which are larger than the plain ones and come from afar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import ceil, prod

from tensorgen.conditions import conjuncts
from tensorgen.contraction import Contraction
from tensorgen.crossing_lines import ALIKE, READ_ELSEWHERE, Team
from tensorgen.dialects import VectorDialect
from tensorgen.expr import Axis, Select, all_of
from tensorgen.loop import FIRST_LOOP
from tensorgen.machine import Core
from tensorgen.minimal_filtering import Row
from tensorgen.moving_edges import moving_run
from tensorgen.prologue_costs import EXPOSED
from tensorgen.schedule import WinogradTile
from tensorgen.shares import busiest_share
from tensorgen.simplify import affine, simplify
from tensorgen.sketch_tiles import Estimate, tile_shapes
from tensorgen.target import LINE_BYTES
from tensorgen.task import Task
from tensorgen.tile_costs import (
    TRANSPOSED_STORE,
    VECTOR_STORE,
    overhead_cycles,
    parts,
    second_bytes,
    sums_step,
)
from tensorgen.winograd import (
    TRIVIAL,
    FilteredContraction,
    FilterGrid,
    WindowAxis,
    filtered_contraction,
)

MOST_POINTS = 6
"""Points of a filter along one axis: the interpolation points 0, 1, -1, 2, -2 and infinity. With
more of them the transforms multiply by larger numbers, and rounding grows faster than speed."""

RELAY, TURNED_RELAY = 1.2, 0.4
"""Cycles to copy one element so that channels lie along the lanes: one by one, and in blocks
transposed in registers."""

TURNED_RESULT = 0.7
"""Cycles to store one result where those of a line are transposed in registers."""

PART_LOOP = 12.0
"""Cycles to begin another loop over channels, for one more part of a window."""

STREAMED, STREAMED_HALVES = 0.2, 1.0
"""The share of the shorter of two times, of arithmetic and of weights that arrive for it, that the
longer one does not cover where one tile after the other reads the next weights: processors fetch
ahead what is read in order. The second is where a step reads a part of a line only: there it is
anything from none to twice the shorter time."""

PHASES_STORE = 8.0
"""Cycles to store one element of a dilated window's results, which lie apart and are looked at one
by one whether they are inside."""

IN_ORDER = 3.0
"""Cycles to copy or store a vector of channels or features that are neighbours in memory."""


def winograd_tiles(
    task: Task, contraction: Contraction, core: Core, threads: int
) -> Iterator[Estimate[WinogradTile]]:
    """Every way worth considering to filter the windows of a convolution, with its estimate."""
    for sketch in winograd_sketches(task, contraction, core):
        yield from _with_results(sketch, core, threads)


def winograd_sketches(task: Task, contraction: Contraction, core: Core) -> Iterator[WinogradSketch]:
    """The filters worth considering: how many results at once, and whether parts are folded."""
    form = filtered_contraction(contraction, contraction.constant(task))
    if form is None or core.dialect.lanes == 1:
        return
    choices = [range(2, MOST_POINTS - window.taps + 2) for window in form.filtered]
    for results in product(*choices):
        if len({*results}) > len({window.taps for window in form.filtered}):
            continue
        if not _mostly_idle(form, core.dialect):
            yield WinogradSketch(form, results, core, False)
        if _foldable(form, core.dialect):
            yield WinogradSketch(form, results, core, True)


def _mostly_idle(form: FilteredContraction, dialect: VectorDialect) -> bool:
    """True if each of several parts fills no vector with its channels. The estimate thinks such
    kernels faster than they are, by up to a third: their loops over channels are short."""
    channels = prod(axis.extent for axis in form.channels)
    return channels < dialect.lanes and any(window.parts > 1 for window in form.filtered)


def _foldable(form: FilteredContraction, dialect: VectorDialect) -> bool:
    """True if the channels of all residues take fewer vectors than one each."""
    residues = prod(window.stride for window in form.filtered)
    runs = any(window.parts != window.stride for window in form.filtered)
    channels = prod(axis.extent for axis in form.channels)
    inner = form.filtered[-1]
    neighbours = inner.stride == 1 or inner.dilation == 1
    vectors = -(-channels * residues // dialect.lanes)
    return neighbours and not runs and channels < dialect.lanes and vectors < residues


BLOCK_SHARE, PRODUCTS_SHARE = 1 / 2, 1 / 4
"""The parts of the second-level cache that transformed data of a block takes, and products."""

AGAIN = 0.1
"""The share that tiles wait of the time in which transformed data arrives that the second-level
cache has lost, where they ask for their weights ahead: it is read row by row, in order."""

SMALLER_BLOCKS = (1 / 8, 1 / 4)
"""Data of a block in second-level caches where those do hold the weights: what else goes through
the cache displaces less of it."""

LARGER_BLOCKS = (1.0, 2.0, 4.0)
"""Data of a block in second-level caches where those do not hold the weights, which each further
block reads again from afar: as many bytes as a block has are read in its stead."""

FOLDED_SHARE = 1 / 8
"""The part that a block takes where parts are folded: the weights of few channels are read again
for the next block sooner than data at many points comes back from a cache that others use, too.
Products of so short sums are stored and read back nearly as often as they are added to: theirs is
the first cache."""


def _with_results(
    work: WinogradSketch, core: Core, threads: int
) -> Iterator[Estimate[WinogradTile]]:
    dialect = core.dialect
    products = work.products_bytes(core)
    blocks: set[tuple[int, int]] = set()
    for share in work.block_shares(core):
        most = work.most_strips(int(core.second_cache * share))
        lengths = {most, largest_divisor(work.strips, most)}
        blocks |= {(length, 0) for length in lengths}
        if threads > 1:
            blocks |= {(length, 1) for length in work.lengths_apart(most, threads)}
            blocks |= {(length, threads) for length in lengths}
    for length, shares in sorted(blocks):
        for height, vectors in tile_shapes(work.rows_of(length), work.features, dialect):
            if shares > 1 and not work.has_shares(shares, vectors):
                continue
            chunk = work.chunk(length, height, vectors, products)
            schedule = WinogradTile(
                work.results, length, chunk, height, vectors, dialect.lanes, threads > 1,
                work.turned, shares > 0, work.folded, shares=max(shares, 1),
            )  # fmt: skip
            schedule = replace(schedule, panels_ahead=work.panels_pay(schedule, core))
            yield Estimate(schedule, work.cycles(schedule, core, threads))


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of a number that is at most so large."""
    return next(divisor for divisor in range(most, 0, -1) if number % divisor == 0)


def _moves_by_a_tap(form: FilteredContraction, batch: Axis, window: WindowAxis) -> bool:
    """Whether a step of a batch leads to the data that the next tap of a window reads."""
    data = form.contraction.factors[form.data]
    return data.coefficient(batch) == data.coefficient(window.tap)


def _edges_lie_still(form: FilteredContraction, width: int) -> bool:
    """Whether a line of the data, so many elements of it, has padding at the same places for all
    batches, or as much of it. Batches that move along a line, as phases do, may see more or less of
    its padding."""
    column, prologue = form.filtered[-1], form.contraction.prologue
    moving = any(_moves_by_a_tap(form, batch, column) for batch in form.batch)
    if not moving or prologue is None:
        return True
    assert isinstance(prologue.stage.body, Select), "a prologue is padding"
    across = Axis(FIRST_LOOP, width, "w")
    here = column.at(across)
    places = {
        axis: simplify(index.expr, here)
        for axis, index in zip(prologue.stage.axes, prologue.indices, strict=True)
    }
    exists = all_of([across < column.positions, prologue.stage.body.condition])
    return moving_run(conjuncts(simplify(exists, places)), across) is not None


class WinogradSketch:
    """One number of results at once, and whether parts are folded: the blocks and chunks that there
    are, and what a schedule costs. `turned` tells that data or results are transposed in registers
    where they go from and to lanes."""

    def __init__(
        self,
        form: FilteredContraction,
        results: tuple[int, ...],
        core: Core,
        folded: bool,
    ) -> None:
        dialect, lanes = core.dialect, core.dialect.lanes
        self.results, self.folded = results, folded
        made = [FilterGrid.of(w, n) for w, n in zip(form.filtered, results, strict=True)]
        self.outer, self.inner = (TRIVIAL, made[0]) if len(made) == 1 else (made[0], made[1])
        self.points = self.outer.points * self.inner.points
        pairs = self.outer.part_count * self.inner.part_count
        self.parts = self.points if folded else self.outer.products * self.inner.products
        window = form.window
        images = prod(axis.extent for axis in form.images)
        self.planes = prod(axis.extent for axis in form.channels)
        self.channels = self.planes * (pairs if folded else 1)
        self.padded_channels = -(-self.channels // lanes) * lanes
        self.features = prod(axis.extent for axis in form.features)
        self.taps = window.tap.extent if window else 1
        self.depth = self.taps * self.planes * pairs
        self.deep_in = window.positions if window else 1
        self.deep_out = window.output.extent if window else 1
        self.repeated = prod(axis.extent for axis in form.batch) * (images if window else 1)
        self.batches = prod(axis.extent for axis in form.batch)
        self.strips = self.outer.count * (1 if window else images)
        self.strip_rows = self.deep_in * self.inner.count
        self.lanes, self.loads_per_cycle = lanes, dialect.loads_per_cycle
        data, result = form.contraction.factors[form.data], affine(form.contraction.result)
        column = form.filtered[-1]
        turned_data = dialect.transposes and _edges_lie_still(form, self.inner.width(folded))
        self.relay = TURNED_RELAY * core.costs.shuffle if turned_data else RELAY
        if form.channels and data.coefficient(form.channels[-1]) == 1:
            turned_data = False
            self.relay = IN_ORDER / lanes
        turned_results = (
            dialect.transposes and result.coefficient(column.output) == 1 and self.inner.phases == 1
        )
        self.store = TURNED_RESULT * core.costs.shuffle if turned_results else TRANSPOSED_STORE
        if self.inner.phases > 1:
            self.store = PHASES_STORE
        if form.features and result.coefficient(form.features[-1]) == 1:
            turned_results = False
            self.store = IN_ORDER / lanes
        self.turned = turned_data or turned_results
        self.element_bytes = form.contraction.dtype.bytes
        self.form = form
        elements = prod(axis.extent for axis in form.contraction.axes)
        self.result_bytes = elements * self.element_bytes
        strip = self.outer.elements(folded) * self.inner.width(folded) * self.planes
        # Batches that move by as much as a tap, as phases do, read the same data.
        alike = prod(
            b.extent for b in form.batch if any(_moves_by_a_tap(form, b, w) for w in form.filtered)
        )
        strips = self.strips * self.deep_in * self.repeated // alike
        self.data_bytes = strips * strip * self.element_bytes

    def rows_of(self, strips: int) -> int:
        """Rows of the products of one block of strips."""
        return self.deep_out * strips * self.inner.count

    def block_bytes(self, strips: int) -> int:
        """Transformed data of a block."""
        row = self.parts * self.padded_channels * self.element_bytes
        return row * self.strip_rows * strips

    def block_shares(self, core: Core) -> tuple[float, ...]:
        """The parts of the second-level cache that the transformed data of a block may fill by
        rule: those that it holds, all of the data among them where it does, and more where it does
        not hold the weights. More not of parts of windows, which no tile asks for ahead: blocks of
        the former kind are faster there."""
        held = FOLDED_SHARE if self.folded else BLOCK_SHARE
        everything = self.block_bytes(self.strips)
        # A byte more than all, so that the product with the cache is never a byte less.
        whole = ((everything + 1) / core.second_cache,) if everything <= core.near_bytes else ()
        if not core.passes_by(self._filtered_bytes):
            smaller = () if self.folded else SMALLER_BLOCKS
            return (*smaller, held, *whole)
        larger = LARGER_BLOCKS if self.parts == self.points else ()
        return (held, *whole, *larger)

    def products_bytes(self, core: Core) -> int:
        """Bytes that the products of a chunk fill by rule."""
        return int(core.first_bytes if self.folded else core.second_cache * PRODUCTS_SHARE)

    def most_strips(self, cache_bytes: int) -> int:
        """Strips of which so many bytes of a cache hold the transformed data; at least one."""
        return max(1, min(self.strips, cache_bytes // self.block_bytes(1)))

    @property
    def _filtered_bytes(self) -> int:
        """Filtered weights of one batch."""
        return self.parts * self.taps * self.channels * self.features * self.element_bytes

    def lengths_apart(self, most: int, threads: int) -> Iterator[int]:
        """The length of blocks of at most so many strips, equal ones, with which threads that have
        blocks of their own all have as many; none if there is none."""
        for length in range(most, 0, -1):
            blocks, rest = divmod(self.strips, length)
            if not rest and blocks * self.repeated % threads == 0:
                yield length
                return

    def has_shares(self, shares: int, vectors: int) -> bool:
        """Whether blocks of features of so many vectors make so many equal shares."""
        return -(-self.features // (vectors * self.lanes)) % shares == 0

    def chunk(self, strips: int, height: int, vectors: int, cache_bytes: int) -> int:
        """Rows of a chunk: whole tiles, chunks of about the same length, of whose products so many
        bytes of a cache hold all points; at least one tile of `height` rows."""
        rows, width = self.rows_of(strips), vectors * self.lanes
        tiles = max(1, cache_bytes // (self.points * width * self.element_bytes) // height)
        chunks = ceil(rows / (tiles * height))
        return min(rows, ceil(ceil(rows / chunks) / height) * height)

    def may_ask_for_panels(self, schedule: WinogradTile) -> bool:
        """Whether several tiles read the weights of each point, all of them."""
        return schedule.chunk > schedule.rows and self.parts == self.points

    def panels_pay(self, schedule: WinogradTile, core: Core) -> bool:
        """Whether the weights come from beyond the second-level cache, or from there to a core that
        waits for it, and the first of several tiles would do so."""
        weights = self._weights_bytes(schedule)
        slow = core.costs.second_vector > 0.0 and weights > core.first_bytes
        return (slow or core.passes_by(weights)) and self.may_ask_for_panels(schedule)

    def _feature_blocks(self, schedule: WinogradTile) -> int:
        """Blocks of features, the last of which may be filled up."""
        return -(-self.features // (schedule.vectors * schedule.lanes))

    def _weights_bytes(self, schedule: WinogradTile) -> float:
        """Filtered weights of all batches, with the features that fill the last block."""
        width, features = schedule.vectors * schedule.lanes, self._feature_blocks(schedule)
        weights = self.parts * self.taps * self.channels * features * width
        return float(weights * self.element_bytes * self.batches)

    def cycles(self, schedule: WinogradTile, core: Core, threads: int) -> float:
        """Cycles of the busiest thread. Weights that are asked for ahead arrive meanwhile, and most
        of those that are read once in order; those that several tiles wait for do not."""
        features = self._feature_blocks(schedule)
        total = 0.0
        for strips, count in parts(self.strips, schedule.strips):
            rows, times = self.rows_of(strips), count * self.repeated
            vectors = self.padded_channels // self.lanes
            transforms = self.deep_in * strips * (1 if self.folded else vectors)
            data = self._data_cycles * transforms
            products = features * sum(
                self._product_cycles(length, schedule, core) * number
                for length, number in parts(rows, schedule.chunk)
            )
            if schedule.apart:
                turns = times * schedule.shares
                each = data + products / schedule.shares
                total += each * turns * busiest_share(turns, threads) + core.barrier
                continue
            data *= busiest_share(transforms, threads)
            products *= busiest_share(features * -(-rows // schedule.chunk), threads)
            total += (data + products) * times
            if threads > 1:
                tiles = self.deep_in * strips * self.inner.count
                lines = self.parts * tiles * -(-self.channels * self.element_bytes // LINE_BYTES)
                loops = 1 + len(list(parts(rows, schedule.chunk)))
                crossing = core.crossing_cycles(lines * LINE_BYTES, threads)
                total += (crossing + loops * core.barrier) * times
        moved = self._elsewhere(schedule, Team.of(core, threads))
        total += core.crossing_cycles(moved, threads)
        far = self._far_cycles(schedule, core, threads)
        again = self._again_cycles(schedule, core, threads)
        total += self._lost_cycles(schedule, core, threads)
        if schedule.panels_ahead:
            total += AGAIN * again
            return max(total, far) + min(total, self._asked_cycles(schedule, core, threads))
        far += again
        if schedule.chunk <= schedule.rows:
            waited = self._streamed(schedule, core) * min(total, far)
            return max(total, far) + max(waited, self._asked_cycles(schedule, core, threads))
        return total + EXPOSED * far

    def _elsewhere(self, schedule: WinogradTile, team: Team) -> float:
        """Bytes that go to one thread from others, in front of the kernel and behind it: threads
        share strips, or the features of the products."""
        form = self.form
        lines = (*form.batch, *form.images, form.filtered[0].output)
        strip = next((axis for axis in lines if axis.extent > 1), lines[-1])
        feature = form.features[0] if form.features else strip
        read = strip if schedule.shares == 1 else feature
        made = strip if schedule.apart and schedule.shares == 1 else feature
        contraction = form.contraction
        axes = (*contraction.axes, *contraction.reduction)
        data, result = contraction.factors[form.data], affine(contraction.result)
        asked = team.read_elsewhere(self.data_bytes, data, axes, read)
        left = team.made_elsewhere(self.result_bytes, result, contraction.axes, made)
        if team.tears(result, contraction.axes, made, self.element_bytes):
            left *= team.threads
        elif made is strip:
            left *= ALIKE
        return READ_ELSEWHERE * asked + left

    def _streamed(self, schedule: WinogradTile, core: Core) -> float:
        """The share of the shorter time that tiles wait which read weights once, in order: for
        several lines a step, or several loops a point, it differs between cores."""
        if schedule.vectors * schedule.lanes * self.element_bytes < LINE_BYTES:
            return STREAMED_HALVES
        several = schedule.vectors > 1 or self.parts != self.points
        return core.costs.streamed if several else STREAMED

    def _asked_cycles(self, schedule: WinogradTile, core: Core, threads: int) -> float:
        """Cycles that tiles wait for weights from main memory that somebody has asked for."""
        if core.traffic <= core.shared_bytes:
            return 0.0
        weights = self._weights_bytes(schedule)
        return core.costs.asked * core.first_cycles(weights / threads, of=weights)

    def _far_cycles(self, schedule: WinogradTile, core: Core, threads: int) -> float:
        """Cycles in which the weights of one thread arrive from beyond its second-level cache."""
        weights = self._weights_bytes(schedule)
        # Threads apart that have a batch in common read the same weights, and get in each other's
        # way: where these come from main memory, they win nothing over one thread.
        common = schedule.apart and schedule.shares % threads and self.batches % threads
        own = weights if common else weights / threads
        first = core.first_cycles(own, of=weights)
        if own + self.block_bytes(schedule.strips) <= core.near_bytes:
            return first
        passes = -(-self.strips // schedule.strips) * self.repeated / self.batches
        # All chunks of a block go over the weights of some features before the next ones do.
        features = self._feature_blocks(schedule)
        if own / features > core.near_bytes:
            passes *= -(-self.rows_of(schedule.strips) // schedule.chunk)
        once = core.far_cycles(own, of=weights)
        return max(first, once) + once * (passes - 1)

    def _again_cycles(self, schedule: WinogradTile, core: Core, threads: int) -> float:
        """Cycles in which transformed data arrives at one thread once more for each further block
        of features: what the second-level cache does not hold beside products and weights of one
        block of features."""
        features = self._feature_blocks(schedule)
        block = self.block_bytes(schedule.strips)
        lost = self._lost_share(schedule, core.near_bytes)
        data = lost * self.block_bytes(self.strips) * self.repeated
        if schedule.apart:
            turns = -(-self.strips // schedule.strips) * self.repeated * schedule.shares
            data *= schedule.shares * busiest_share(turns, threads)
        each = features / (schedule.shares if schedule.apart else threads)
        return core.far_cycles(max(each - 1, 0.0) * data, of=block)

    def _lost_cycles(self, schedule: WinogradTile, core: Core, threads: int) -> float:
        """Cycles in which transformed data goes and comes back that the second-level cache does not
        keep, beside what else goes through it, from when it is made until it is read first. Of
        folded parts a panel of weights is not read as a whole: that is what is beyond the cache."""
        block = self.block_bytes(schedule.strips)
        if self.folded:
            cost = max(core.costs.lost_block, 1.0)
            lost = max(block - core.near_bytes, 0.0) / block
        elif core.costs.lost_block:
            cost = core.costs.lost_block
            lost = self._lost_share(schedule, core.costs.kept * core.near_bytes)
        else:
            return 0.0
        data = lost * self.block_bytes(self.strips) * self.repeated / threads
        return cost * core.far_cycles(data, of=block)

    def _lost_share(self, schedule: WinogradTile, held: float) -> float:
        """The share of a block that is beyond so many bytes, beside products and weights of one
        block of features."""
        width, features = schedule.vectors * schedule.lanes, self._feature_blocks(schedule)
        block = self.block_bytes(schedule.strips)
        panel = self._weights_bytes(schedule) / self.batches / features
        products = self.points * schedule.chunk * width * self.element_bytes
        return min(max(block + panel + products - held, 0.0) / block, 1.0)

    @cached_property
    def _data_cycles(self) -> float:
        """Relaying and transforming one strip, of one vector of channels unless they are folded."""
        lines, width = self.outer.elements(self.folded), self.inner.width(self.folded)
        relayed = self.relay * lines * width * (self.planes if self.folded else self.lanes)
        if self.folded:
            tile = self._transform(self.outer.filter.inputs, self.inner.filter.inputs)
            return relayed + self.inner.count * tile * (self.padded_channels // self.lanes)
        tile = sum(
            down.count
            * across.count
            * self._transform(down.inputs(self.outer.filter), across.inputs(self.inner.filter))
            for down in self.outer.parts
            for across in self.inner.parts
        )
        return relayed + self.inner.count * tile

    def _product_cycles(self, rows: int, schedule: WinogradTile, core: Core) -> float:
        """The products of one chunk with one block of features, and transforming them back."""
        panel = self.depth * schedule.vectors * schedule.lanes * self.element_bytes
        dialect, load = core.dialect, core.vector_load(panel)
        summed = self.parts * self.taps * self.channels
        loops = (self.parts - self.points) * self.taps * PART_LOOP
        total = 0.0
        for length, count in parts(rows, schedule.rows):
            loads = length * core.broadcast + schedule.vectors * load
            step = max(
                sums_step(core, length, schedule.vectors),
                loads / dialect.loads_per_cycle,
                self._moved(length, schedule) / second_bytes(core, self.element_bytes),
            )
            sums = length * schedule.vectors
            ends = VECTOR_STORE * sums + overhead_cycles(core, sums)
            total += count * (summed * step + self.points * ends + loops)
        return total + rows * schedule.vectors * self._result_cycles

    def _moved(self, rows: int, schedule: WinogradTile) -> float:
        """Bytes that one step moves through the second-level cache for weights that are asked for
        ahead: what it reads, and what it asks for, on the way there and from there."""
        if not schedule.panels_ahead:
            return 0.0
        width = schedule.vectors * schedule.lanes * self.element_bytes
        tiles = -(-schedule.chunk // schedule.rows)
        return width + rows * self.element_bytes + 2.0 * width / tiles

    @cached_property
    def _result_cycles(self) -> float:
        """Transforming the products of one row and vector back, and storing the results."""
        back = self._transform(self.outer.filter.outputs, self.inner.filter.outputs)
        return back + self.outer.results * self.inner.results * self.lanes * self.store

    def _transform(self, outer: Sequence[Row], inner: Sequence[Row]) -> float:
        """Cycles to transform one tile: a combination of elements for each result, along one axis
        and then the other."""
        first = sum(map(self._combination, outer)) * len(inner[0])
        second = sum(map(self._combination, inner)) * len(outer)
        return first + second

    def _combination(self, row: Row) -> float:
        """A load for each weight, and a store."""
        return sum(weight != 0 for weight in row) / self.loads_per_cycle + 1

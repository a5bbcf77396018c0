"""What a machine does in a second: the constants that estimates and reports go by.

What it does: holds the rates of one core and of several at once, and reads and writes them as JSON.
What it does not: know any machine (`typical_machine`, `calibration`), or what code is like
(`sketch`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf

from tensorgen.core_costs import COST_NAMES, TYPICAL_COSTS, CoreCosts
from tensorgen.dialects import VectorDialect, vector_dialect
from tensorgen.target import LINE_BYTES, PAGE_BYTES, Isa
from tensorgen.types import DType, float32

LEVEL_NAMES = ("L1", "L2", "L3", "memory")
"""The levels of memory, from the nearest; a machine may lack the second and the third."""

FIRST_CACHE_SHARE, CACHE_SHARE, SHARED_CACHE_SHARE = 0.75, 0.875, 0.5
"""The part of a cache that may be counted on: of the first one beside other operands, of one that
belongs to a core, and of one that other cores and other programs use, too."""

SHARED_PANEL = 1.5
"""How many times longer than in order a vector of a panel takes to come from a shared cache or from
memory, where rows of other operands are read between its own. With it, tiles whose panels have one
to three MiB rank as they measure."""

MOST_WAYS = 12
"""Ways of the largest first-level caches that have the same sets for all pages."""

READY_SUMS = 12
"""Sums of a tile that are zeroed and stored while others are summed up."""

_LARGEST = 1e24


class MachineError(ValueError):
    """A description of a machine is none. The message is one line."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Something a second: what one core does while the others rest, and what all threads of the
    machine do together."""

    alone: float
    together: float

    def of(self, threads: int) -> float:
        """What that many threads do together: as much as each would alone, and at most what all
        of the machine's threads do."""
        return self.alone if threads <= 1 else min(threads * self.alone, self.together)


@dataclass(frozen=True, slots=True)
class Level:
    """One level of memory: how many bytes it holds and how many can be read from it in a second.

    A level is `shared` if its bytes belong to all cores together. Main memory holds `inf` bytes.
    """

    name: str
    bytes: float
    shared: bool
    bandwidth: Rate

    def usable_bytes(self, threads: int) -> float:
        """How many of so many threads' bytes it holds, beside what else there is."""
        return self.bytes * (SHARED_CACHE_SHARE if self.shared else CACHE_SHARE * max(threads, 1))


@dataclass(frozen=True, slots=True)
class Machine:
    """The constants of one machine under one target.

    `threads` is the number of threads that rates `together`, and the costs of threads, are of.
    `flops` counts float32 operations in fused multiply-adds of whole vectors, two for each lane;
    `divisions` float32 quotients of whole vectors. `levels` are the caches that there are, from the
    nearest, and main memory. A region is what it costs to share work among the threads and to wait
    for all of them; a barrier is such a wait inside a region; both are 0 for one thread.

    `traffic` is how many bytes the whole run moves of which kernels are estimated: what the caches
    do not hold of it has left them when the next run comes. 0 for a kernel that runs alone.
    `costs` are in multiply-adds of whole vectors.
    """

    threads: int
    flops: Rate
    divisions: Rate
    levels: tuple[Level, ...]
    region_seconds: float
    barrier_seconds: float
    traffic: float = 0.0
    costs: CoreCosts = TYPICAL_COSTS

    def serving(self, traffic: float) -> Machine:
        """The machine as the kernels of a run find it that moves so many bytes."""
        return replace(self, traffic=traffic)

    def peak_flops(self, threads: int) -> float:
        """Float32 operations a second that so many threads reach where nothing is loaded."""
        return self.flops.of(threads)

    def memory_bandwidth(self, threads: int) -> float:
        """Bytes a second that so many threads together read from main memory."""
        return self.levels[-1].bandwidth.of(threads)

    def read_seconds(self, amount: float, threads: int) -> tuple[float, ...]:
        """How long each level takes to give its part of `amount` bytes, which threads read again
        and again."""
        parts = _spread(amount, (level.usable_bytes(threads) for level in self.levels))
        return tuple(
            part / level.bandwidth.of(threads)
            for part, level in zip(parts, self.levels, strict=True)
        )

    def __post_init__(self) -> None:
        assert self.threads >= 1
        assert self.levels, "there is main memory"
        assert self.levels[-1].bytes == inf


@dataclass(frozen=True, slots=True)
class Core:
    """One core of a machine as it runs vectors of one kind: what estimates count in.

    A cycle is the time in which it multiplies and adds as many vectors as the dialect says. `loads`
    are, from the nearest level, the bytes of a panel that is read from it and what one vector of it
    costs, in loads from the first cache, in which `first_ways` lines share a set. `far` are the
    levels beyond the second cache, which has `second_cache` bytes (0 if there is none): what they
    hold, and the bytes that arrive in a cycle. Threads wait for each other behind a loop that they
    share for `barrier` cycles. A whole run moves `traffic` bytes. `costs` are those of single
    things.
    """

    dialect: VectorDialect
    frequency: float
    loads: tuple[tuple[float, float], ...]
    first_ways: int
    second_cache: int
    far: tuple[tuple[float, float], ...]
    barrier: float
    traffic: float
    costs: CoreCosts

    def tile_wait(self, sums: int) -> float:
        """Cycles that a tile of so many vectors of sums waits until they are zeroed and stored."""
        return self.costs.sum_wait * max(sums - READY_SUMS, 0)

    @property
    def broadcast(self) -> float:
        """Loads that an element counts as which is broadcast from memory."""
        return self.costs.broadcast * self.dialect.broadcast_loads

    @property
    def first_bytes(self) -> float:
        """Bytes of the first-level cache that may be counted on."""
        size, _ = self.loads[0]
        return size

    @property
    def near_bytes(self) -> float:
        """Bytes of the second-level cache that may be counted on."""
        return CACHE_SHARE * self.second_cache

    def passes_by(self, amount: float) -> bool:
        """Whether so many bytes, read beside others, do not stay in the second-level cache."""
        return amount > self.second_cache // 2

    def far_cycles(self, amount: float, of: float = 0.0) -> float:
        """Cycles in which so many bytes, or a part `of` so many, arrive from where these are beyond
        the second cache, each time that they are read."""
        return amount * self._byte_cycles(max(amount, of))

    @property
    def shared_bytes(self) -> float:
        """Bytes of the cache beyond the second one that may be counted on."""
        size, _ = self.far[0]
        return size

    def memory_cycles(self, amount: float) -> float:
        """Cycles in which so many bytes arrive from main memory."""
        _, rate = self.far[-1]
        return amount / rate

    def again_cycles(self, amount: float, beside: float) -> float:
        """Cycles in which so many bytes arrive that are read again and again, so many others beside
        them each time: from main memory as far as the shared cache does not hold all of these."""
        return self.far_cycles(amount, of=amount + beside)

    def first_cycles(self, amount: float, of: float = 0.0) -> float:
        """Cycles in which so many bytes of constants, or a part `of` so many, arrive for the first
        time in a run; 0 if they have stayed in the second cache since the run before. In a run that
        moves more than the shared cache holds, all have left it, whatever it keeps of less."""
        if self.traffic <= self.near_bytes:
            return 0.0
        if self.traffic > self.shared_bytes:
            return self.memory_cycles(amount)
        return self.far_cycles(amount, of)

    def crossing_cycles(self, amount: float, threads: int) -> float:
        """Cycles in which so many bytes come to one of so many threads, which have made equal parts
        of them, each its own."""
        return self.costs.crossing_line * amount / LINE_BYTES * (1 - 1 / threads)

    def _byte_cycles(self, amount: float) -> float:
        """Cycles for each of so many bytes, read again and again in the same order: where a cache
        does not hold them all, some that it could hold have left it before they are read again."""
        if not amount:
            return 0.0
        kept = 1 - self.costs.shared_lost
        parts = _spread(amount, (size if amount <= size else size * kept for size, _ in self.far))
        return sum(part / rate for part, (_, rate) in zip(parts, self.far, strict=True)) / amount

    @staticmethod
    def of(isa: Isa, dtype: DType, machine: Machine) -> Core | None:
        """A core with the widest vectors of an instruction set; None if no such elements are
        computed in vectors."""
        dialect = vector_dialect(isa, dtype)
        if dialect is None:
            return None
        frequency = machine.flops.alone / flops_per_cycle(isa)
        full = frequency * dialect.loads_per_cycle * dialect.lanes * dtype.bytes
        first, *others = machine.levels
        loads = [(FIRST_CACHE_SHARE * first.bytes, 1.0)]
        for level in others:
            slower = SHARED_PANEL if level.shared else 1.0
            cost = max(full / level.bandwidth.alone * slower, loads[-1][1])
            loads.append((level.usable_bytes(1), cost))
        threads = machine.threads
        second = next((int(level.bytes) for level in others if not level.shared), 0)
        far = tuple(
            (level.usable_bytes(1), level.bandwidth.of(threads) / threads / frequency)
            for level in machine.levels
            if level.shared
        )
        barrier = machine.barrier_seconds * frequency
        return Core(
            dialect,
            frequency,
            tuple(loads),
            _first_ways(first),
            second,
            far,
            barrier,
            machine.traffic,
            machine.costs,
        )

    def vector_load(self, panel: float) -> float:
        """Loads from the first cache that one vector of a panel of so many bytes costs."""
        for size, cost in self.loads:
            if panel <= size:
                return cost
        return self.loads[-1][1]


def _first_ways(first: Level) -> int:
    """Lines of a first-level cache with one place in their pages: its sets are told by that."""
    return max(int(min(first.bytes, MOST_WAYS * PAGE_BYTES)) // PAGE_BYTES, 1)


def _spread(amount: float, sizes: Iterable[float]) -> Iterator[float]:
    """What comes from each level, of so many bytes read again and again: what it holds beyond the
    nearer ones."""
    held = 0.0
    for size in sizes:
        part = max(min(amount, size) - held, 0.0)
        held += part
        yield part


def flops_per_cycle(isa: Isa) -> float:
    """Float32 operations of a core in a cycle, in fused multiply-adds of whole vectors."""
    dialect = vector_dialect(isa, float32)
    assert dialect is not None, "there are vectors of float32, if of one element"
    return 2 * dialect.lanes * dialect.multiply_adds_per_cycle


def machine_document(machine: Machine) -> dict[str, object]:
    """A machine as JSON. Sizes are in bytes, rates a second, costs of threads in seconds, of
    single things as `CoreCosts` has them."""
    return {
        "threads": machine.threads,
        "flops": _rate_document(machine.flops),
        "divisions": _rate_document(machine.divisions),
        "levels": [
            {
                "name": level.name,
                "bytes": None if level.bytes == inf else level.bytes,
                "shared": level.shared,
                "bandwidth": _rate_document(level.bandwidth),
            }
            for level in machine.levels
        ],
        **{name: getattr(machine.costs, name) for name in COST_NAMES},
        "region_seconds": machine.region_seconds,
        "barrier_seconds": machine.barrier_seconds,
    }


def _rate_document(rate: Rate) -> dict[str, float]:
    return {"alone": rate.alone, "together": rate.together}


def machine_of(document: object) -> Machine:
    """The machine that `machine_document` wrote. Raises MachineError for anything else."""
    fields = _fields(document, "machine")
    threads = fields.get("threads")
    if type(threads) is not int or threads < 1:
        raise _unexpected("threads", "a whole number from 1", threads)
    levels = fields.get("levels")
    if not isinstance(levels, list) or not levels:
        raise _unexpected("levels", "a list of memory levels", levels)
    read = [_level(item, f"levels[{position}]") for position, item in enumerate(levels)]
    if [level.bytes == inf for level in read] != [False] * (len(read) - 1) + [True]:
        raise _unexpected("levels", "main memory, without a size, last", [v.name for v in read])
    return Machine(
        threads,
        _rate(fields.get("flops"), "flops"),
        _rate(fields.get("divisions"), "divisions"),
        tuple(read),
        _number(fields.get("region_seconds"), "region_seconds", least=0.0),
        _number(fields.get("barrier_seconds"), "barrier_seconds", least=0.0),
        costs=CoreCosts(
            **{name: _number(fields.get(name), name, least=0.0) for name in COST_NAMES}
        ),
    )


def _level(item: object, place: str) -> Level:
    fields = _fields(item, place)
    name, shared, size = fields.get("name"), fields.get("shared"), fields.get("bytes")
    if not isinstance(name, str) or not name.isascii() or not name.isalnum():
        raise _unexpected(f"{place}.name", "a short name", name)
    if not isinstance(shared, bool):
        raise _unexpected(f"{place}.shared", "true or false", shared)
    held = inf if size is None else _number(size, f"{place}.bytes", least=1.0)
    return Level(name, held, shared, _rate(fields.get("bandwidth"), f"{place}.bandwidth"))


def _rate(item: object, place: str) -> Rate:
    fields = _fields(item, place)
    alone, together = (
        _number(fields.get(name), f"{place}.{name}", least=1.0) for name in ("alone", "together")
    )
    return Rate(alone, together)


def _fields(item: object, place: str) -> Mapping[str, object]:
    if not isinstance(item, dict):
        raise _unexpected(place, "an object", item)
    return item


def _number(item: object, place: str, *, least: float) -> float:
    if isinstance(item, bool) or not isinstance(item, int | float):
        raise _unexpected(place, "a number", item)
    if not least <= item <= _LARGEST:
        raise _unexpected(place, f"a number from {least:g} to {_LARGEST:g}", item)
    return float(item)


def _unexpected(place: str, expected: str, got: object) -> MachineError:
    return MachineError(
        f"{place}: expected {expected}, got {repr(got)[:60]}; write it with tasor calibrate --json"
    )

"""Constants of machines: rates of several threads, levels of memory, cores, and their JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorgen.contraction import contraction_of
from tensorgen.machine import (
    Core,
    Level,
    Machine,
    MachineError,
    Rate,
    machine_document,
    machine_of,
)
from tensorgen.sketch_winograd import winograd_tiles
from tensorgen.target import KIB, MIB, TARGET_NAMES, Isa, Target
from tensorgen.types import float32, float64, int32
from tensorgen.typical_machine import typical_machine
from tests.contraction_tasks import convolution, padded

NAMES = [name for name in TARGET_NAMES if name != "host"]
AVX512 = Target.named("x86-64-v4")

rates = st.tuples(st.floats(1.0, 1e15), st.floats(1.0, 1e15)).map(
    lambda pair: Rate(min(pair), max(pair))
)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    sizes = sorted(draw(st.sets(st.integers(1, 2**40), max_size=3)))
    near = [Level(f"L{n + 1}", float(size), n == 2, draw(rates)) for n, size in enumerate(sizes)]
    return Machine(
        draw(st.integers(1, 512)),
        draw(rates),
        draw(rates),
        (*near, Level("memory", inf, True, draw(rates))),
        draw(st.floats(0.0, 1.0)),
        draw(st.floats(0.0, 1.0)),
    )


@given(machines())
def test_a_machine_survives_json(machine: Machine) -> None:
    text = json.dumps(machine_document(machine), allow_nan=False)
    assert machine_of(json.loads(text)) == machine


@given(rates, st.integers(1, 1000))
def test_more_threads_do_more_and_never_more_than_all(rate: Rate, threads: int) -> None:
    assert rate.of(1) == rate.alone
    assert rate.of(threads) <= rate.of(threads + 1) <= max(rate.together, rate.alone)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_every_target_has_a_typical_machine(name: str, threads: int) -> None:
    target = Target.named(name)
    machine = typical_machine(target, threads)
    assert machine == typical_machine(target, threads)
    assert machine.threads == threads
    assert machine.peak_flops(threads) == pytest.approx(threads * machine.peak_flops(1))
    assert machine.memory_bandwidth(1) <= machine.memory_bandwidth(threads)
    # Nearer levels are smaller, and not slower.
    sizes = [level.bytes for level in machine.levels]
    speeds = [level.bandwidth.alone for level in machine.levels]
    assert sizes == sorted(sizes)
    assert speeds == sorted(speeds, reverse=True)
    assert (machine.region_seconds > 0) == (threads > 1)
    assert machine.region_seconds >= machine.barrier_seconds


@given(machines(), st.floats(0.0, 1e12), st.integers(1, 64))
def test_what_no_cache_holds_comes_from_memory(
    machine: Machine, amount: float, threads: int
) -> None:
    seconds = machine.read_seconds(amount, threads)
    parts = [
        taken * level.bandwidth.of(threads)
        for taken, level in zip(seconds, machine.levels, strict=True)
    ]
    assert sum(parts) == pytest.approx(amount)
    for part, level in zip(parts, machine.levels, strict=True):
        assert part <= level.usable_bytes(threads) * (1 + 1e-9)
    assert sum(seconds) <= sum(machine.read_seconds(2 * amount, threads))


def test_nearer_levels_are_full_before_farther_ones_are_read() -> None:
    machine = typical_machine(AVX512, 4)
    for size, threads, last in (
        (1, 1, 0),
        (28 * KIB, 1, 0),
        (29 * KIB, 1, 1),
        (2 * MIB, 1, 2),
        # Four cores have four second caches, and share the third.
        (2 * MIB, 4, 1),
        (40 * MIB, 4, 3),
    ):
        seconds = machine.read_seconds(size, threads)
        assert [taken > 0 for taken in seconds] == [level <= last for level in range(4)], size


@pytest.mark.parametrize(
    ("isa", "name", "costs"),
    [
        ("avx512", "x86-64-v4", [1, 2, 4]),
        ("avx2", "x86-64-v3", [1, 2, 6]),
        ("sse42", "x86-64-v2", [1, 2, 6]),
        ("neon", "aarch64", [1, 2, 6]),
        ("c99", "c99", [1, 1, 1.5]),
    ],
)
def test_a_vector_costs_more_from_afar(isa: Isa, name: str, costs: list[float]) -> None:
    target = Target.named(name)
    core = Core.of(isa, float32, typical_machine(target))
    assert core is not None
    sizes = (target.l1_bytes // 2, target.l2_bytes // 2, 2 * MIB)
    assert [core.vector_load(size) for size in sizes] == pytest.approx(costs)
    assert core.vector_load(inf) >= core.vector_load(2 * MIB)
    assert core.frequency == pytest.approx(3e9)


def test_a_core_has_one_frequency_for_all_its_vectors() -> None:
    machine = replace(typical_machine(AVX512), flops=Rate(112e9, 112e9))
    cores = [Core.of("avx512", dtype, machine) for dtype in (float32, float64)]
    assert [core.frequency if core else None for core in cores] == [3.5e9, 3.5e9]
    assert Core.of("avx512", int32, machine) is None


def test_memory_is_the_first_level_of_a_core_without_caches() -> None:
    machine = machine_of(
        machine_document(typical_machine(AVX512)) | {"levels": [memory_document(8e9)]}
    )
    core = Core.of("avx512", float32, machine)
    assert core is not None
    assert core.vector_load(1e12) == 1.0
    assert core.second_cache == 0


def test_makers_of_one_instruction_set_differ() -> None:
    other = replace(AVX512, maker="GenuineIntel")
    ours, theirs = typical_machine(AVX512), typical_machine(other)
    assert typical_machine(replace(AVX512, maker="Somebody")) == ours
    assert theirs.levels[2].bandwidth.alone < ours.levels[2].bandwidth.alone / 2
    assert theirs.levels[1].bytes < other.l2_bytes


def test_a_kind_is_for_its_family_and_later_ones() -> None:
    kinds = {
        family: typical_machine(replace(AVX512, maker="AuthenticAMD", family=family))
        for family in (0, 25, 26, 27)
    }
    assert kinds[0] == kinds[25] == typical_machine(AVX512)
    assert kinds[26] == kinds[27]
    assert kinds[26].flops.alone > 2 * kinds[25].flops.alone


@pytest.mark.parametrize(("size", "ways"), [(2, 1), (16, 4), (32, 8), (48, 12), (64, 12)])
def test_a_first_level_cache_has_the_ways_that_its_size_says(size: int, ways: int) -> None:
    core = Core.of("avx512", float32, typical_machine(replace(AVX512, l1_bytes=size * KIB)))
    assert core is not None
    assert core.first_ways == ways


@pytest.mark.parametrize(
    ("traffic", "amount", "level"),
    [(0.0, 10 * MIB, None), (512 * KIB, 512 * KIB, None), (2 * MIB, 1.0, 2), (1e15, 1.0, 3)],
)  # fmt: skip
def test_constants_come_from_where_a_whole_run_finds_room(
    traffic: float, amount: float, level: int | None
) -> None:
    machine = typical_machine(AVX512).serving(traffic)
    core = Core.of("avx512", float32, machine)
    assert core is not None
    rate = inf if level is None else machine.levels[level].bandwidth.alone / core.frequency
    assert core.first_cycles(amount) == pytest.approx(amount / rate)


@pytest.mark.parametrize("lost", [0.0, 0.25, 1.0])
def test_a_cache_has_lost_some_of_what_is_more_than_it_has_room_for(lost: float) -> None:
    machine = typical_machine(AVX512)
    machine = replace(machine, costs=replace(machine.costs, shared_lost=lost))
    core = Core.of("avx512", float32, machine.serving(1e9))
    assert core is not None
    third, memory = machine.levels[2:]
    room = third.usable_bytes(1)
    rates = [level.bandwidth.alone / core.frequency for level in (third, memory)]
    kept = (1 - lost) * room
    arriving = kept / rates[0] + (1.5 * room - kept) / rates[1]
    assert core.far_cycles(room) == pytest.approx(room / rates[0])
    assert core.far_cycles(1.5 * room) == pytest.approx(arriving)
    assert core.far_cycles(room / 2, of=1.5 * room) == pytest.approx(arriving / 3)
    assert core.far_cycles(room / 2, of=room) == pytest.approx(room / 2 / rates[0])
    assert core.far_cycles(0.0) == 0.0
    # Constants have left a cache that the whole run overflows, whatever it keeps of less.
    assert core.first_cycles(room / 2) == pytest.approx(room / 2 / rates[1])


def test_filtered_weights_arrive_sooner_where_a_cache_keeps_some_of_them() -> None:
    """Those of 512 channels, 38 MB; but not in a run that overflows it by itself."""
    task = padded(convolution((7, 7), (3, 3), channels=(512, 512)), (1, 1), (1, 1))
    contraction = contraction_of(task)
    assert contraction is not None
    cycles = {}
    for lost in (0.0, 1.0):
        for traffic in (10 * MIB, 100 * MIB):
            machine = typical_machine(AVX512).serving(traffic)
            machine = replace(machine, costs=replace(machine.costs, shared_lost=lost))
            core = Core.of("avx512", float32, machine)
            assert core is not None
            tiles = winograd_tiles(task, contraction, core, 1)
            large = (e.cycles for e in tiles if e.schedule.results == (4, 4))
            cycles[lost, traffic] = min(large)
    assert cycles[0.0, 10 * MIB] < cycles[1.0, 10 * MIB]
    assert cycles[0.0, 100 * MIB] == cycles[1.0, 100 * MIB] == cycles[1.0, 10 * MIB]


def memory_document(rate: float) -> dict[str, object]:
    bandwidth = {"alone": rate, "together": rate}
    return {"name": "memory", "bytes": None, "shared": True, "bandwidth": bandwidth}


GOOD = machine_document(typical_machine(AVX512))


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (None, "machine"),
        ([], "machine"),
        (GOOD | {"threads": 0}, "threads"),
        (GOOD | {"threads": True}, "threads"),
        (GOOD | {"levels": []}, "levels"),
        (GOOD | {"levels": {}}, "levels"),
        (GOOD | {"levels": [memory_document(1e9), memory_document(1e9)]}, "levels"),
        (GOOD | {"levels": [{}]}, "levels[0].name"),
        (GOOD | {"levels": [memory_document(0.0)]}, "levels[0].bandwidth.alone"),
        (GOOD | {"flops": 3.0}, "flops"),
        (GOOD | {"flops": {"alone": "1", "together": 1}}, "flops.alone"),
        (GOOD | {"flops": {"alone": float("nan"), "together": 1}}, "flops.alone"),
        (GOOD | {"flops": {"alone": 10**400, "together": 1}}, "flops.alone"),
        (GOOD | {"region_seconds": -1.0}, "region_seconds"),
        (GOOD | {"barrier_seconds": None}, "barrier_seconds"),
    ],
)
def test_what_is_no_machine_is_refused_in_one_line(document: object, place: str) -> None:
    with pytest.raises(MachineError) as caught:
        machine_of(document)
    assert str(caught.value).startswith(f"{place}: expected ")
    assert "\n" not in str(caught.value)

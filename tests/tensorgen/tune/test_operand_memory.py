"""Memory of operands: what is put there is found by another map, and places are used again."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tensorgen.tune.measuring_memory import GUARD, Memory
from tensorgen.tune.operand_memory import OperandMemory, Place


@pytest.fixture(params=["in memory", "on disk", "refused in memory"])
def memory(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OperandMemory]:
    if request.param == "on disk":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    if request.param == "refused in memory":
        monkeypatch.setattr(os, "memfd_create", refused, raising=False)
    operands = OperandMemory(tmp_path)
    yield operands
    operands.close()
    assert not list(tmp_path.iterdir())


def refused(name: str) -> int:
    raise OSError(38, "Function not implemented")


def parts(memory: OperandMemory, places: list[Place]) -> list[Memory]:
    """The places as who measures has them."""
    whole = mmap.mmap(memory.file, memory.size, flags=mmap.MAP_PRIVATE)
    return [Memory.part(whole, place.offset, place.size) for place in places]


def content(part: Memory) -> bytes:
    return part._map[part._offset : part._offset + part.size]


def test_operands_are_found_between_guards(memory: OperandMemory) -> None:
    given = [b"", b"a", bytes(range(256)) * 33, b"last" * 1000]
    places = [memory.put(memoryview(data), turn) for turn, data in enumerate(given)]
    found = parts(memory, places)
    assert [content(part) for part in found] == given
    assert all(part.is_guarded(part.size) for part in found)
    assert all(part.address % 64 == 0 for part in found)
    # They begin at different places of a page.
    assert len({place.offset % mmap.PAGESIZE for place in places}) == len(places)


def test_an_operand_may_begin_inside_a_line_and_so_do_its_copies(memory: OperandMemory) -> None:
    place = memory.put(memoryview(b"y" * 100), 3, inside=16)
    (found,) = parts(memory, [place])
    assert (content(found), found.is_guarded(100), found.address % 64) == (b"y" * 100, True, 16)
    copy = found.copy(4)
    assert (content(copy), copy.is_guarded(100), copy.address % 64) == (b"y" * 100, True, 16)


def test_a_store_next_to_an_operand_is_seen_and_stays_with_who_stored(
    memory: OperandMemory,
) -> None:
    place = memory.put(memoryview(b"x" * 100), 3)
    one, other = parts(memory, [place])[0], parts(memory, [place])[0]
    one._map[place.offset + 100] = 0
    assert not one.is_guarded(100)
    assert other.is_guarded(100)


def test_places_are_used_again_and_names_are_not(memory: OperandMemory) -> None:
    rng = Random(1)
    held: dict[str, tuple[Place, bytes]] = {}
    names: set[str] = set()
    for _ in range(400):
        if held and rng.random() < 0.5:
            place, _ = held.pop(rng.choice(list(held)))
            memory.remove(place)
            continue
        data = rng.randbytes(rng.choice([1, 4000, 4096, 9000, 40000]))
        place = memory.put(memoryview(data), rng.randrange(4))
        assert place.name not in names
        names.add(place.name)
        held[place.name] = place, data
    places = [place for place, _ in held.values()]
    assert [content(part) for part in parts(memory, places)] == [data for _, data in held.values()]
    assert memory.size < 40 * 45000
    for place in places:
        memory.remove(place)
    # All of it is one piece again.
    size = memory.size
    again = memory.put(memoryview(bytes(size // 2)), 0)
    assert again.offset < mmap.PAGESIZE


def test_what_cannot_be_written_takes_no_place(
    memory: OperandMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*given: object) -> int:
        raise OSError(28, "No space left on device")

    first = memory.put(memoryview(b"first"), 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", no_room)
        with pytest.raises(OSError, match="No space left"):
            memory.put(memoryview(b"none"), 0)
    second = memory.put(memoryview(b"second"), 0)
    assert second.offset - first.offset == mmap.PAGESIZE
    assert GUARD in content(parts(memory, [Place("", 0, memory.size - len(GUARD))])[0])

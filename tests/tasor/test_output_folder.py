"""The output folder: complete or absent, and nobody's files lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import tasor
from tasor import output_folder
from tasor.errors import OutputError
from tasor.output_folder import check_output_folder, write_output_folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def written(model: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    tasor.compile(model, shapes={"x": (2, 6)}, threads=1).save(folder)
    return folder


def test_a_new_folder_appears_with_its_parents(tmp_path: Path) -> None:
    write_output_folder(tmp_path / "a" / "b", {"f": b"1"})
    assert content(tmp_path / "a" / "b") == {"f": b"1"}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_output_folder(tmp_path / "out", {"f": b"1"})
    assert content(tmp_path / "out") == {"f": b"1"}


def test_a_folder_of_tasor_is_replaced_with_what_make_left(written: Path) -> None:
    for name in ("small.o", "small_kernels.o", "libsmall.a", "libsmall.so", "small_test"):
        (written / name).touch()
    write_output_folder(written, {"f": b"1"})
    assert content(written) == {"f": b"1"}
    assert [path.name for path in written.parent.iterdir()] != []
    assert not list(written.parent.glob(".*"))


@pytest.mark.parametrize("name", ["notes.txt", "other.o", ".hidden", "small.json.bak", "zoo"])
def test_a_folder_with_anything_else_is_refused(written: Path, name: str) -> None:
    (written / name).write_text("mine")
    before = content(written)
    with pytest.raises(OutputError, match="choose another or move that file away"):
        write_output_folder(written, {"f": b"1"})
    assert content(written) == before


@pytest.mark.parametrize(
    "description",
    [
        "{}",
        "[",
        '{"name": "other"}',
        '{"name": "a", "abi": 1, "arena_bytes": 0, "kernels": [], "sources_sha256": {}}',
        '{"name": "a", "abi": 99, "arena_bytes": 0, "kernels": [], "sources_sha256": {}}',
    ],
)
def test_a_json_file_alone_makes_no_folder_ours(tmp_path: Path, description: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.json").write_text(description)
    with pytest.raises(OutputError, match=r"with 'a\.json' in it"):
        check_output_folder(tmp_path / "out")


def test_two_descriptions_make_no_folder_ours(written: Path) -> None:
    other = json.loads((written / "small.json").read_bytes()) | {"name": "second"}
    (written / "second.json").write_text(json.dumps(other))
    with pytest.raises(OutputError):
        check_output_folder(written)


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(OutputError, match="expected a folder, got a file of that name"):
        check_output_folder(tmp_path / "out")


def test_a_file_above_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(OutputError, match="got the file"):
        check_output_folder(tmp_path / "f" / "out")


@pytest.mark.parametrize("step", ["write_bytes", "rename"])
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_whatever_fails_the_old_folder_stays_and_nothing_else(
    written: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    exists: bool,
    error: BaseException,
) -> None:
    folder = written if exists else written.parent / "deep" / "new"
    before, siblings = content(written), sorted(written.parent.iterdir())
    plain: Callable[..., object] = getattr(Path, step)
    calls: list[Path] = []

    def failing(self: Path, *rest: object) -> object:
        calls.append(self)
        # With a folder to be replaced, the second rename is the one that matters.
        if len(calls) == (2 if exists else 1):
            raise error
        return plain(self, *rest)

    monkeypatch.setattr(Path, step, failing)
    with pytest.raises((OutputError, KeyboardInterrupt)):
        write_output_folder(folder, {"f": b"1", "g": b"2"})
    monkeypatch.undo()
    assert content(written) == before
    assert sorted(written.parent.iterdir()) == siblings


def test_an_interrupt_while_the_old_folder_goes_leaves_the_new_one(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = output_folder._put_into_place

    def interrupted(partial: Path, place: Path, old: Path) -> None:
        plain(partial, place, old)
        raise KeyboardInterrupt

    monkeypatch.setattr(output_folder, "_put_into_place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_output_folder(written, {"f": b"1"})
    assert content(written) == {"f": b"1"}
    assert not list(written.parent.glob(".*"))


def test_a_link_is_followed(written: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(written)
    write_output_folder(tmp_path / "link", {"f": b"1"})
    assert (tmp_path / "link").is_symlink()
    assert content(written) == {"f": b"1"}

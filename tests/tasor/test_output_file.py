"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasor.errors import OutputError
from tasor.output_file import check_file_place, created_folders, write_file, write_files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_writes_and_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "f.txt"
    write_file(path, b"one")
    write_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(path.parent) == ["f.txt"]


def test_a_failed_write_leaves_the_old_files_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"a": b"old", "b": b"old"})
    write = Path.write_bytes
    calls = []

    def failing(self: Path, content: bytes) -> int:
        calls.append(self)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", failing)
    with pytest.raises(OutputError, match="got No space left on device; choose another place"):
        write_files(tmp_path, {"a": b"new", "b": b"new"})
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == {
        "a": b"old",
        "b": b"old",
    }


def test_an_interrupt_removes_what_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Path, content: bytes) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "new" / "deep" / "f", b"x")
    assert names(tmp_path) == []


def test_created_folders_keeps_what_others_put_there(tmp_path: Path) -> None:
    def fill_and_fail() -> None:
        with created_folders(tmp_path / "a" / "b"):
            (tmp_path / "a" / "other").touch()
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fill_and_fail()
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == ["other"]


def test_refuses_a_folder_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="expected a file, got a folder; name a file inside it"):
        check_file_place(tmp_path)


def test_refuses_a_file_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(OutputError, match="expected a folder to put it in, got the file"):
        check_file_place(tmp_path / "f" / "g")


def test_refuses_a_folder_without_permission(read_only_folder: Path) -> None:
    with pytest.raises(OutputError, match="expected a folder that can be written"):
        check_file_place(read_only_folder / "f")


def test_refuses_names_that_no_file_can_have(tmp_path: Path) -> None:
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(OutputError):
            write_file(tmp_path / name, b"x")
    assert names(tmp_path) == []

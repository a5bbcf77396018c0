"""Reading back a folder that may have come from anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tasor
from tasor.errors import InputFileError
from tasor.library_folder import find_description, read_library_folder


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    path = tmp_path / "out"
    tasor.compile(model, shapes={"x": (2, 6)}, target="c99", threads=1).save(path)
    return path


def test_reads_what_save_wrote(folder: Path) -> None:
    library = read_library_folder(folder)
    assert (library.name, library.threads, library.strict) == ("small", 1, False)
    assert [(port.name, port.type.shape) for port in library.inputs] == [("x", (2, 6))]
    assert [(port.name, port.type.shape) for port in library.outputs] == [("y", (2, 5))]
    assert library.target.name == "c99"
    assert {"small.c", "small_kernels.c"} <= library.source_flags.keys()
    assert library.changed_files() == ()


def test_says_which_files_are_not_as_written(folder: Path) -> None:
    (folder / "small.c").write_text("int x;")
    (folder / "Makefile").unlink()
    assert read_library_folder(folder).changed_files() == ("Makefile", "small.c")


def test_an_empty_folder_has_no_library(tmp_path: Path) -> None:
    assert find_description(tmp_path) is None
    with pytest.raises(InputFileError, match=r"expected one NAME\.json of Tasor, got none"):
        read_library_folder(tmp_path)


def changed(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.update(fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(abi=99), "expected interface version 1, got 99"),
        (changed(abi="x" * 1000), "expected interface version 1"),
        (changed(weights="cloud"), "wrong field"),
        (changed(arena_bytes=-1), "wrong field"),
        (changed(arena_bytes=2**80), "wrong field"),
        (changed(arena_bytes=True), "wrong field"),
        (changed(threads="2"), "wrong field"),
        (changed(target="pdp-11"), "wrong field"),
        (changed(inputs=None), "wrong field"),
        (changed(inputs=[{"name": "x", "dtype": "float99", "shape": [1]}]), "wrong field"),
        (changed(inputs=[{"name": "x", "dtype": "float32", "shape": [2**60]}]), "wrong field"),
        (changed(inputs=[{"name": "x", "dtype": "float32", "shape": [-1]}]), "wrong field"),
        (changed(inputs=[{"name": "x", "dtype": "float32", "shape": 7}]), "wrong field"),
        (changed(inputs=["x"]), "wrong field"),
        (changed(flags={}), "wrong field"),
        (changed(flags={"sources": {"../../x.c": []}}), "wrong field"),
        (changed(flags={"sources": {"absent.c": []}}), "wrong field"),
        (changed(sources_sha256={"/etc/passwd": "0"}), "wrong field"),
        (changed(sources_sha256=[1]), "wrong field"),
        (lambda content: content.pop("outputs"), "wrong field"),
    ],
)
def test_wrong_fields_are_refused_in_one_line(
    folder: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = folder / "small.json"
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(InputFileError) as raised:
        read_library_folder(folder)
    assert message in str(raised.value)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 500


def test_a_name_that_is_no_identifier_is_refused(folder: Path) -> None:
    content = json.loads((folder / "small.json").read_bytes()) | {"name": "a b"}
    (folder / "small.json").unlink()
    (folder / "a b.json").write_text(json.dumps(content))
    with pytest.raises(InputFileError, match="wrong field"):
        read_library_folder(folder)


@pytest.mark.parametrize("text", ["", "[[[[", "[" * 100_000, "\xff", "7", "null", '{"abi": NaN}'])
def test_what_is_no_description_is_not_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_bytes(text.encode("latin-1"))
    assert find_description(tmp_path) is None

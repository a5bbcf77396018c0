"""Words of the command line: what they mean and which are refused."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tasor.errors import InputFileError, UsageError
from tasor.options import (
    as_stored,
    check_names,
    load_array,
    named_arrays,
    named_numbers,
    named_shapes,
)


def test_shapes_by_name() -> None:
    assert named_shapes(["x=1,3,224,224", "s=", "input:0=4", "a=b=7"]) == {
        "x": (1, 3, 224, 224),
        "s": (),
        "input:0": (4,),
        "a=b": (7,),
    }


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("x", "expected NAME=1,3,224,224, got 'x'"),
        ("=1", "expected NAME=1,3,224,224, got '=1'"),
        ("x=1,,2", "got '1,,2'"),
        ("x=-1", "got '-1'"),
        ("x=1.5", "got '1.5'"),
        ("x=1,n", "got '1,n'"),
        ("x=٣", "expected sizes like"),
        ("x=1 ", "expected sizes like"),
        ("x=" + "9" * 5000, "expected sizes like"),
        ("x\n\x1b[31m=q", "expected sizes like"),
    ],
)
def test_shapes_that_are_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        named_shapes([word])
    assert message in str(raised.value)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 400


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="expected each input once, got 'x' twice"):
        named_shapes(["x=1", "x=2"])


def test_arrays_by_name(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", array)
    (loaded,) = named_arrays([f"a={tmp_path / 'x.npy'}"], "--input").values()
    np.testing.assert_array_equal(loaded, array)


def test_files_that_are_no_array_are_refused_without_running_them(tmp_path: Path) -> None:
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    several = tmp_path / "several.npz"
    np.savez(several, a=np.zeros(1))
    whole = tmp_path / "whole.npy"
    np.save(whole, np.zeros(100))
    cut = tmp_path / "cut.npy"
    cut.write_bytes(whole.read_bytes()[:200])
    text = tmp_path / "text.npy"
    text.write_text("hello")
    empty = tmp_path / "empty.npy"
    empty.touch()
    huge = tmp_path / "huge.npy"
    huge.write_bytes(whole.read_bytes().replace(b"(100,)", b"(10**9,)"))
    for path in (objects, several, cut, text, empty, huge, tmp_path, tmp_path / "absent.npy"):
        with pytest.raises(InputFileError, match=r"expected .*, got .*; ") as raised:
            load_array(path)
        assert "\n" not in str(raised.value)


def test_a_type_that_the_format_cannot_name_is_read_as_the_port_has_it(tmp_path: Path) -> None:
    array = np.array([1.5, -2.0], dtype=ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", array)
    loaded = as_stored(load_array(tmp_path / "x.npy"), array.dtype)
    np.testing.assert_array_equal(loaded, array)
    floats = np.zeros(2, np.float32)
    assert as_stored(floats, np.dtype(np.int32)) is floats


def test_unknown_names_are_refused() -> None:
    check_names({"a": 1}, ("a", "b"))
    with pytest.raises(UsageError, match="expected a name among 'a', 'b', got 'c'"):
        check_names({"c": 1}, ("a", "b"))


def test_numbers_by_model() -> None:
    assert named_numbers(["a=2", "b.onnx=0.5", "x=y=1e-3"], "--weight") == {
        "a": 2.0, "b.onnx": 0.5, "x=y": 1e-3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a"], "--weight: expected NAME=2.5, got 'a'; put the model's name"),
        (["=2"], "--weight: expected NAME=2.5"),
        (["a=fast"], "--weight: expected a number for 'a', got 'fast'"),
        (["a="], "--weight: expected a number for 'a', got ''"),
        (["a=1", "a=2"], "--weight: expected each model once, got 'a' twice"),
    ],
)
def test_numbers_that_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        named_numbers(words, "--weight")

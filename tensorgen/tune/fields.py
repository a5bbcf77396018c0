"""Fields of JSON objects from files that somebody else may have written: read strictly, by name.

What it does: takes a field of a type out of an object, and refuses what is missing, of another type
or not known. What it does not: know what the fields mean.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from tensorgen.digest import DIGEST_BYTES

Document = Mapping[str, Any]
"""A JSON object."""

LARGEST = 2**40
"""No count, size or tile in our files is larger."""


class FieldError(ValueError):
    """An object does not say what it should. The message is one line: place, expected, got."""


def document_in(text: str) -> Document:
    """The JSON object that a text is. Raises FieldError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FieldError(f"expected a JSON object, got {one_line(error)}") from None
    return object_in(value, "")


def document_text(document: Document) -> str:
    """The one text of a JSON object, whatever the order of its fields; one line of ASCII."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def object_in(value: object, place: str) -> Document:
    """The value as an object. Raises FieldError."""
    if not isinstance(value, dict):
        raise unexpected(place, "a JSON object", value)
    return value


def known_only(document: Document, names: Collection[str], place: str) -> None:
    """FieldError if an object has other fields than those."""
    for name in document:
        if name not in names:
            raise unexpected(place, f"fields among {', '.join(sorted(names))}", name)


def text_in(document: Document, name: str) -> str:
    """A field that is text. Raises FieldError."""
    value = document.get(name)
    if not isinstance(value, str):
        raise unexpected(name, "text", value)
    return value


def digest_in(document: Document, name: str, of: str) -> str:
    """A field that is the digits of a digest of something. Raises FieldError."""
    text = text_in(document, name)
    if len(text) != 2 * DIGEST_BYTES or not set(text) <= set("0123456789abcdef"):
        raise unexpected(name, f"the digest of {of}, {2 * DIGEST_BYTES} hexadecimal digits", text)
    return text


def whole_in(document: Document, name: str, least: int = 0) -> int:
    """A field that is a whole number from `least`. Raises FieldError."""
    return whole(document.get(name), name, least)


def whole(value: object, place: str, least: int = 0) -> int:
    """The value as a whole number from `least`. Raises FieldError."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
        raise unexpected(place, f"a whole number from {least}", value)
    return value


def seconds_in(document: Document, name: str) -> float:
    """A field that is a positive number of seconds. Raises FieldError."""
    return positive_seconds(document.get(name), name)


def positive_seconds(value: object, place: str) -> float:
    """The value as a positive number of seconds. Raises FieldError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LARGEST:
        return float(value)
    raise unexpected(place, "a positive number of seconds", value)


def unexpected(place: str, expected: str, got: object) -> FieldError:
    """The error for a value that is not what it should be."""
    return FieldError(f"{place}: expected {expected}, got {shown(got)}".removeprefix(": "))


def shown(value: object) -> str:
    """A value as an error message shows it: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def one_line(error: object, length: int = 200) -> str:
    """What an error says, on one short line of printable characters."""
    text = "".join(c if c.isprintable() else " " for c in str(error))
    text = " ".join(text.split()) or type(error).__name__
    return text if len(text) <= length else f"{text[: length - 3]}..."

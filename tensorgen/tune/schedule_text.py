"""Schedules as text and back: what records keep.

What it does: writes any schedule as one line of JSON, the same for equal schedules, and reads it
back; what it does not know, it refuses. Fields that have their default are left out, so that text
written before there was a field still says what it said. What it does not: ask whether a schedule
fits a task; whoever reads one of a stranger must.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from tensorgen.digest import content_digest
from tensorgen.schedule import Schedule
from tensorgen.tune.fields import (
    Document,
    FieldError,
    document_in,
    document_text,
    known_only,
    object_in,
    one_line,
    unexpected,
    whole,
)

VERSION = 1
"""Changes when a field of a schedule changes its meaning or its default."""

MOST_PARTS = 4096
"""A list in a schedule has no more elements."""

_KINDS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(Schedule)}


class ScheduleTextError(ValueError):
    """A text says no schedule that is known here. The message is one line."""


def schedule_text(schedule: Schedule) -> str:
    """A schedule as one line of JSON; equal schedules give equal text."""
    return document_text(schedule_document(schedule))


def read_schedule(text: str) -> Schedule:
    """The schedule that `schedule_text` wrote. Raises ScheduleTextError."""
    try:
        return schedule_of(document_in(text))
    except FieldError as error:
        raise ScheduleTextError(f"schedule: {one_line(error)}") from None


def schedule_digest(schedule: Schedule) -> str:
    """A name for a schedule: equal for equal ones, the same in every process."""
    return content_digest(schedule_text(schedule)).hex()


def schedule_document(schedule: Schedule) -> Document:
    """A schedule as a JSON object."""
    return {"version": VERSION, "kind": type(schedule).__name__} | _fields_of(schedule)


def schedule_of(document: Document) -> Schedule:
    """The schedule that `schedule_document` wrote. Raises FieldError."""
    content = dict(document)
    version, name = content.pop("version", None), content.pop("kind", None)
    if version != VERSION:
        raise unexpected("version", f"{VERSION}, which this Tasor reads", version)
    if not isinstance(name, str) or name not in _KINDS:
        raise unexpected("kind", f"one of {', '.join(_KINDS)}", name)
    schedule: Schedule = _value_of(_KINDS[name], content, name)
    return schedule


def _fields_of(value: Any) -> dict[str, object]:
    """The fields of a dataclass that differ from their defaults."""
    return {
        field.name: _written(getattr(value, field.name))
        for field in fields(value)
        if field.default is MISSING or getattr(value, field.name) != field.default
    }


def _written(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_written(part) for part in value]
    if is_dataclass(value):
        return _fields_of(value)
    assert value is None or isinstance(value, bool | int), value
    return value


@lru_cache(maxsize=64)
def _types_of(kind: type) -> Mapping[str, tuple[Any, bool]]:
    """The type of each field of a dataclass, and whether it must be given."""
    hints = get_type_hints(kind)
    return {field.name: (hints[field.name], field.default is MISSING) for field in fields(kind)}


def _value_of(kind: type, value: object, place: str) -> Any:
    """The dataclass of that type in a JSON object."""
    document = object_in(value, place)
    types = _types_of(kind)
    known_only(document, types.keys(), place)
    missing = [name for name, (_, needed) in types.items() if needed and name not in document]
    if missing:
        raise FieldError(f"{place}: expected {', '.join(missing)}, got none; write it anew")
    read = {name: _read(types[name][0], document[name], f"{place}.{name}") for name in document}
    return kind(**read)


def _read(expected: Any, value: object, place: str) -> Any:
    """The value as one of the expected type."""
    if get_origin(expected) is UnionType:
        (inner,) = (kind for kind in get_args(expected) if kind is not NoneType)
        return None if value is None else _read(inner, value, place)
    if get_origin(expected) in (tuple, frozenset):
        inner = get_args(expected)[0]
        if not isinstance(value, list) or len(value) > MOST_PARTS:
            raise unexpected(place, f"a list of at most {MOST_PARTS} elements", value)
        parts = [_read(inner, part, f"{place}[{n}]") for n, part in enumerate(value)]
        return get_origin(expected)(parts)
    if expected is bool:
        if not isinstance(value, bool):
            raise unexpected(place, "true or false", value)
        return value
    if expected is int:
        return whole(value, place)
    if issubclass(expected, Enum):
        words = [member.value for member in expected]
        if value not in words:
            raise unexpected(place, f"one of {', '.join(words)}", value)
        return expected(value)
    return _value_of(expected, value, place)

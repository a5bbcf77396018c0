"""What the benchmarks' pages have in common: the line that says how one was made, and tables."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence


def options_of(arguments: argparse.Namespace, *names: str) -> dict[str, object]:
    """Options by name, as they were given."""
    return {name: getattr(arguments, name.replace("-", "_")) for name in names}


def made_by(program: str, options: Mapping[str, object]) -> str:
    """The command that a page was made by, with options by name. A pattern is quoted, an option
    that is True stands alone, and one that is False or None is left out."""
    words = [
        f"--{name}" if value is True else f"--{name} {_typed(value)}"
        for name, value in options.items()
        if value is not False and value is not None
    ]
    return f"Made by `python -m {program} {' '.join(words)} --markdown FILE`."


def _typed(value: object) -> str:
    match value:
        case re.Pattern():
            return f"'{value.pattern}'"
        case float():
            return f"{value:g}"
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def table_lines(
    titles: Sequence[str], rows: Iterable[Iterable[str]], *, texts: int = 1
) -> list[str]:
    """A table whose first columns, so many, are text, and the others numbers."""
    aligned = ["---"] * texts + ["--:"] * (len(titles) - texts)
    return [
        f"| {' | '.join(titles)} |",
        f"|{'|'.join(aligned)}|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]

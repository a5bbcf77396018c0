"""The page on which one C function is written: its lines, its scopes and the names in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from textwrap import wrap

LINE_LENGTH = 100
"""Columns of the emitted text; comments and long names may go beyond."""


@dataclass(slots=True)
class Page:
    """Lines written so far, how far the next one is indented, and the names visible there."""

    lines: list[str] = field(default_factory=list)
    visible: set[str] = field(default_factory=set)
    depth: int = 1

    def fresh(self, name: str) -> str:
        """The name, or with the first number behind it that makes it new where it is visible."""
        candidate, count = name, 1
        while candidate in self.visible:
            count += 1
            candidate = f"{name}{count}"
        self.visible.add(candidate)
        return candidate

    def numbered(self, label: str) -> str:
        """The first of label_1, label_2, … that is new where it is visible."""
        count = 1
        while f"{label}_{count}" in self.visible:
            count += 1
        return self.fresh(f"{label}_{count}")

    def line(self, text: str) -> None:
        """One line, indented."""
        self.lines.append("    " * self.depth + text if text else "")

    def statement(self, text: str) -> None:
        """A statement with its semicolon, on several lines if it is long."""
        indent = "    " * self.depth
        text += ";"
        if len(indent) + len(text) <= LINE_LENGTH:
            self.line(text)
            return
        self.lines.extend(
            wrap(
                text, LINE_LENGTH, initial_indent=indent, subsequent_indent=indent + "    ",
                break_long_words=False, break_on_hyphens=False,
            )
        )  # fmt: skip

    @contextmanager
    def names(self) -> Iterator[None]:
        """Names declared inside are forgotten behind it."""
        outside = set(self.visible)
        yield
        self.visible = outside

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Inside braces: one step further right; names declared there end there."""
        with self.names():
            self.depth += 1
            yield
            self.depth -= 1

    @contextmanager
    def braces(self, opening: str = "{") -> Iterator[None]:
        """A block: the line that opens it, what is printed inside, and the line that closes it."""
        self.line(opening)
        with self.scope():
            yield
        self.line("}")


def head_lines(text: str) -> list[str]:
    """The head of a function, on several lines if it is long."""
    return wrap(text, LINE_LENGTH, subsequent_indent="    ", break_long_words=False)

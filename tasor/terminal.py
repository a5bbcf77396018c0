"""What commands print: lines, JSON and tables to stdout; a line of progress to stderr.

What it does: prints, as wide as the terminal or a page. What it does not: decide what, or catch
what goes wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PAGE_WIDTH = 160
"""Columns of a table that goes to a file or a pipe."""


def print_line(line: str) -> None:
    """One line."""
    print(line)


def print_json(content: Any) -> None:
    """A value as indented JSON."""
    print(json.dumps(content, indent=1))


def draw(*views: RenderableType) -> None:
    """Tables and texts, one below the other."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PAGE_WIDTH)
    for view in views:
        console.print(view)


class Advance(Protocol):
    """Tells how far the work is: so many of so many done, and what was done last."""

    def __call__(self, done: int, total: int, text: str) -> None: ...


@contextmanager
def progress_bar(what: str, *, shown: bool) -> Iterator[Advance]:
    """A bar on stderr while work goes on, if stderr is a terminal and it is to be shown."""
    console = Console(stderr=True, highlight=False, markup=False)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    )
    with bar:
        task = bar.add_task(what, total=None)

        def advance(done: int, total: int, text: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{what}: {text}")

        yield advance

"""A file of tables that several processes share and that survives being killed.

What it does: opens an SQLite file for one block of reading or one transaction of writing at a time,
and says in one line what is wrong with it. What it does not: know the tables.

A connection lives for its block only: nothing is open in between, so that a process may fork, and
whoever is killed leaves at most a journal, which the next reader rolls back. The journal is the
plain one and not a write-ahead log: a file that nobody writes is then one file, to be copied,
shipped, or read from a folder without permission to write. Writers wait for each other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE_SECONDS = 30.0
"""How long to wait for others who write."""

_REMEDIES = (
    (("SQLITE_BUSY", "SQLITE_LOCKED"), "end the process that keeps it locked, or try again later"),
    (("SQLITE_FULL", "SQLITE_IOERR"), "make room on the disk; what the file held it still holds"),
    (("SQLITE_READONLY", "SQLITE_PERM"), "name a file in a folder that you may write to"),
    (("SQLITE_CANTOPEN",), "name a file in a folder that is there and that you may write to"),
)
_REMEDY = "name another file, or remove it"


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """The file at `path`. `content` says what it should hold, for messages; `error` makes the
    exception of a message."""

    path: Path
    content: str
    error: Callable[[str], Exception]
    patience_seconds: float = PATIENCE_SECONDS

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to a file that is there, for queries. Raises `error`."""
        with self._translated(), closing(self._connection("rw")) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection whose block is one transaction: all of it, or nothing if it raises. Makes
        the file and its folder if they are not there. Raises `error`."""
        with self._translated():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connection("rwc")) as connection:
                # Locked from the start: two that read first and write then would wait for ever.
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")

    def unusable(self, reason: object, remedy: str = _REMEDY) -> Exception:
        """The exception for a file that cannot be used."""
        return self.error(
            f"{self.path}: expected {self.content}, got {' '.join(str(reason).split())}; {remedy}"
        )

    def _connection(self, mode: str) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(
            address, timeout=self.patience_seconds, isolation_level=None, uri=True
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self.unusable(error, "name a file in a folder that you may write to") from None
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            remedy = next((r for names, r in _REMEDIES if name.startswith(names)), _REMEDY)
            raise self.unusable(error, remedy) from None

"""The address of a cluster, as a user writes it.

What it does: checks its form. What it does not: connect (`cluster_connection`).
"""

from __future__ import annotations

import re

from tensorgen.tune.fields import shown

_ADDRESS = re.compile(r"(?:(tcp|tls|ws|wss)://)?(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})", re.ASCII)


class AddressError(ValueError):
    """A text is no address of a scheduler. The message is one line."""


def cluster_address(text: str) -> str:
    """The address as `tcp://HOST:PORT`, or of another kind of connection that it names. Raises
    AddressError."""
    parts = _ADDRESS.fullmatch(text)
    if parts is None or not 0 < int(parts[3]) < 1 << 16:
        raise AddressError(
            f"cluster: expected the address of a dask scheduler, such as tcp://HOST:8786, got "
            f"{shown(text)}; `dask scheduler` prints its own"
        )
    return f"{'tcp' if parts[1] is None else parts[1]}://{parts[2]}:{parts[3]}"

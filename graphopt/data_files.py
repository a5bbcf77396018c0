"""Where the data that Tasor ships lies: rules, proofs, tuning records and the cost model.

What it does: finds a shipped file, in a checkout and in an installed package alike. What it does
not: read, check or write it.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_path(*parts: str) -> Path:
    """The path of a shipped file or folder, such as `data_path("rules", "fusion.rules")`.

    An installed package holds the data inside itself; in a checkout they lie beside it. The path
    need not exist; whoever opens it says what is missing.
    """
    inside = _PACKAGE / "data"
    folder = inside if inside.is_dir() else _PACKAGE.parent / "data"
    return folder.joinpath(*parts)

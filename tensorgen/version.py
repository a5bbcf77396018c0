"""The version of Tasor that runs here: all of its packages are installed as one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def tasor_version() -> str:
    """The installed version, or `unpackaged` for one that runs from its source tree."""
    try:
        return version("tasor")
    except PackageNotFoundError:
        return "unpackaged"

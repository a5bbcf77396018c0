"""Tools that a user's machine may lack: tests that need them are skipped there, and say so."""

from __future__ import annotations

import shutil

import pytest


def require(*tools: str) -> None:
    """Skips the test without one of the tools."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")

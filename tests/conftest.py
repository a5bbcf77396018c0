"""What all tests share: the comparison with golden files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

# Test processes share the cores: threads that wait must not keep the others from running.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# `make test` runs the tests; the makes that they run are their own.
for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(name, None)
# Many tests start Python anew, which without bytecode on file compiles everything each time. Where
# none is to be left in the tree it stays beside it, for all processes of this run.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    BYTECODE = tempfile.TemporaryDirectory(prefix="tasor-tests-")
    os.environ.setdefault("PYTHONPYCACHEPREFIX", BYTECODE.name)

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files anew instead of comparing with them",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes begins first: at the end the other processes would wait for it."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the file of that name in tests/golden.

    `pytest --update-golden` writes the file: read the difference before you keep it.
    """
    update: bool = request.config.getoption("--update-golden")

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {name}: make it with pytest --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare

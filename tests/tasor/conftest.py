"""What the tests of the front door share: a small model, and a cache of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest

from tasor.command_line import main
from tests.tasor.small_models import small_model


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the tests away from the user's cache of built libraries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TASOR_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("tasor.command_run._SECONDS", 0.01)
        yield


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The small model as a file."""
    path = tmp_path / "small.onnx"
    onnx.save_model(small_model(), path)
    return path


@pytest.fixture
def tasor_command(
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: (exit code, stdout, stderr)."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run

"""What the tests of the front door share: a small model, a cache of their own, a browser."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest

from tasor.command_line import main
from tests.browser import Browser, chromium, running_browser
from tests.tasor.given_rules import TRUE
from tests.tasor.small_models import small_model
from tests.unprivileged import unprivileged


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the tests away from the user's cache of built libraries, and measurements brief."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TASOR_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("tasor.command_run._SECONDS", 0.01)
        patch.setattr("tasor.graph_search.TIMING_SECONDS", 0.02)
        yield


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium; tests that need it are skipped where there is none."""
    program = chromium()
    if program is None:
        pytest.skip("no Chromium is here to open reports in; the variable CHROMIUM may name one")
    with running_browser(program, tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder that the test may not write, even where the tests run as root."""
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    folder.chmod(0o555)
    try:
        with unprivileged():
            yield folder
    finally:
        folder.chmod(0o755)
        folder.rmdir()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The small model as a file."""
    path = tmp_path / "small.onnx"
    onnx.save_model(small_model(), path)
    return path


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A file of true rules, in a folder as `proofs_path` expects it."""
    path = tmp_path / "given" / "rules" / "some.rules"
    path.parent.mkdir(parents=True)
    path.write_text(TRUE)
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

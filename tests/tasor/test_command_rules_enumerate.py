"""`tasor rules enumerate` as users meet it: rules written, resumed, and refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from graphopt.rules import load_rules
from tasor.command_line import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def enumerated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the rules of an enumeration and its finished parts."""
    folder = tmp_path_factory.mktemp("enumerated")
    words = ["enumerate", "--max-ops", "2", "-o", f"{folder}/a.rules", "--resume", f"{folder}/kept"]
    assert main(["rules", *words, "--quiet"]) == 0
    return folder


def test_enumerate_writes_rules_that_can_be_read(enumerated: Path) -> None:
    path = enumerated / "a.rules"
    assert path.read_text().startswith("# Enumerated: taso operators, at most 2 of them, seed 0.\n")
    rules = load_rules(path)
    assert len(rules) > 50
    assert "transpose(transpose(x, perm=(1, 0)), perm=(1, 0)) => x" in path.read_text()


def test_enumerate_resumes_and_finds_the_same(
    tasor_command: Command, enumerated: Path, tmp_path: Path
) -> None:
    path = tmp_path / "b.rules"
    words = ("rules", "enumerate", "--max-ops", 2, "--resume", enumerated / "kept", "-o", path)
    code, out, err = tasor_command(*words)
    assert (code, err) == (0, "")
    assert "taso: what each step left" in out
    assert "candidates left" in out
    assert f"{path}: " in out
    assert path.read_bytes() == (enumerated / "a.rules").read_bytes()
    code, out, _ = tasor_command(*words, "--json")
    levels = json.loads(out)["levels"]["taso"]
    assert [level["level"] for level in levels] == [0, 1, 2]
    assert all(level["generated"] >= level["distinct"] for level in levels)


@pytest.mark.slow
def test_enumerate_keeps_what_is_proved(
    tasor_command: Command, enumerated: Path, tmp_path: Path
) -> None:
    path, kept = tmp_path / "proved.rules", tmp_path / "kept"
    shutil.copytree(enumerated / "kept", kept)
    words = ("rules", "enumerate", "--max-ops", 2, "-o", path, "--prove", "--resume", kept)
    assert tasor_command(*words)[0] == 0
    rules = load_rules(path)
    assert 50 < len(rules) <= len(load_rules(enumerated / "a.rules"))
    assert tasor_command("rules", "verify", path, "--resume", kept / "verdicts", "-q")[0] == 0


@pytest.mark.slow
def test_enumerate_keeps_what_smaller_rules_do_not_say(
    tasor_command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "minimal.rules"
    words = ("rules", "enumerate", "--max-ops", 2, "-o", path, "--minimize")
    code, out, _ = tasor_command(*words)
    assert code == 0
    assert "derivable" in out
    names = [rule.name for rule in load_rules(path)]
    assert "matmul-associates" in names
    assert not any(name.startswith("enumerated") for name in names)


def test_enumerate_refuses_a_damaged_part(
    tasor_command: Command, enumerated: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(enumerated / "kept", kept)
    words = ("rules", "enumerate", "--max-ops", 2, "--resume", kept, "-o", tmp_path / "a.rules")
    damaged = max(kept.iterdir(), key=lambda path: path.stat().st_size)
    damaged.write_bytes(damaged.read_bytes()[:40])
    code, out, err = tasor_command(*words)
    assert (code, out) == (65, "")
    assert str(damaged) in err
    assert err.count("\n") == 1
    assert not (tmp_path / "a.rules").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--max-ops", "7"], "Invalid value for '--max-ops'"),
        (["--max-ops", "0"], "Invalid value for '--max-ops'"),
        (["--max-ops", "1", "--vocabulary", "pet"], "--vocabulary: expected taso or extended, got"),
        (["--max-ops", "1", "-o", "/"], "expected the name of a file"),
    ],
)
def test_enumerate_refuses_wrong_options(
    tasor_command: Command, tmp_path: Path, words: list[str], reason: str
) -> None:
    given = words if "-o" in words else [*words, "-o", str(tmp_path / "a.rules")]
    code, out, err = tasor_command("rules", "enumerate", *given)
    assert (code, out) == (64, "")
    assert reason in err

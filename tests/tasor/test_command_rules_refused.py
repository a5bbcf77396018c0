"""What `tasor rules …` refuses: rules, files, places and options, each on one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.taso_file import encoded, op

Command = Callable[..., tuple[int, str, str]]


BAD_RULES = [
    ("unbound", "a: add(x, 0) => y\n", ":1:17: ", "expected a name that the source binds, got 'y'"),
    ("operator", "a: add(x, 0) => ad(x)\n", ":1:17: ", "'ad'"),
    ("parameter", "a: concat(x, axes=0) => x\n", ":1:", "axes"),
    ("types", "a: relu(x) => x\nb: add(x, y) => eq(x, y)\n", ":1:4: ", "'relu'"),
    (
        "ill-typed",
        "b: add(x, y) => eq(x, y)\n",
        ":1:1: ",
        "expected both sides of 'b' to have equal",
    ),
    ("duplicate", "a: add(x, 0) => x\n\na: sub(x, 0) => x\n", ":3:1: ", "got 'a' again"),
    ("no arrow", "a: add(x, 0)\n", ":1:4: ", "got no arrow"),
    ("bracket", "a: add(x, 0 => x\n", ":1:", "expected as many closing brackets as opening ones"),
    ("control", "a\x1b[31m: add(x, 0) => x\n", ":1:1: ", "lower-case name"),
    ("huge", "a: " + "add(" * 5000 + "x" + ", 0)" * 5000 + " => x\n", ":1:", "expected"),
]


@pytest.mark.parametrize("command", ["verify", "list", "prove", "check"])
@pytest.mark.parametrize(
    ("text", "place", "reason"), [row[1:] for row in BAD_RULES], ids=[row[0] for row in BAD_RULES]
)
def test_wrong_rules_are_refused_with_their_place(
    tasor_command: Command, tmp_path: Path, text: str, place: str, reason: str, command: str
) -> None:
    path = tmp_path / "bad.rules"
    path.write_text(text)
    code, out, err = tasor_command("rules", command, path)
    assert (code, out) == (65, "")
    assert err.startswith(f"tasor: {path}{place}")
    assert reason in err
    assert err.count("\n") == 1
    assert err[:-1].isprintable()


BAD_FILES: list[tuple[str, bytes | None, str]] = [
    ("empty.rules", b"", "expected at least one rule, got none"),
    ("comment.rules", b"# nothing\n", "expected at least one rule, got none"),
    ("latin.rules", b"a: add(x, 0) => x # \xff\n", "got text that is no UTF-8"),
    ("missing.rules", None, "expected a readable file, got No such file or directory"),
    ("empty.pb", b"", "expected at least one substitution, got none"),
    ("missing.pb", None, "expected a readable file, got No such file or directory"),
    ("other.pb", b"no protocol buffer", "expected TASO's RuleCollection"),
    (
        "truncated.pb",
        encoded([op(8, [(-1, 0)])], [op(9, [(-1, 0)])])[:-3],
        "expected TASO's RuleCollection, got a truncated or another file",
    ),
]


@pytest.mark.parametrize(("name", "content", "reason"), BAD_FILES, ids=[f[0] for f in BAD_FILES])
def test_wrong_files_are_refused_by_name(
    tasor_command: Command, tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    code, out, err = tasor_command("rules", "verify", path, "--report", tmp_path / "report")
    assert (code, out) == (65, "")
    assert str(path) in err
    assert reason in err
    assert err.count("\n") == 1
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("name", ["folder", "folder.pb"])
def test_a_folder_is_no_file_of_rules(tasor_command: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    code, _, err = tasor_command("rules", "verify", tmp_path / name)
    assert code == 65
    assert err == (
        f"tasor: rules '{tmp_path / name}': expected a readable file, got Is a directory; check "
        "the path\n"
    )


@pytest.mark.parametrize("option", ["--report", "--resume"])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    tasor_command: Command, rules: Path, tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").write_text("")
    code, out, err = tasor_command("rules", "verify", rules, option, tmp_path / "file" / "below")
    assert (code, out) == (64, "")
    assert "expected a folder to put it in, got the file" in err


@pytest.mark.parametrize("option", ["--report", "--resume"])
def test_a_file_is_no_folder(
    tasor_command: Command, rules: Path, tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").write_text("mine")
    code, _, err = tasor_command("rules", "verify", rules, option, tmp_path / "file")
    assert code == 64
    assert err == (
        f"tasor: output '{tmp_path / 'file'}': expected a folder, got a file; choose another name\n"
    )
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_without_permission_is_refused(
    tasor_command: Command, rules: Path, read_only_folder: Path
) -> None:
    code, _, err = tasor_command("rules", "verify", rules, "--report", read_only_folder)
    assert code == 64
    assert err == (
        f"tasor: output '{read_only_folder}/report.html': expected a folder that can be written, "
        f"got '{read_only_folder}', which cannot; choose another place or change its permissions\n"
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--time-limit", "0"], "--time-limit: expected seconds above 0, got 0.0"),
        (["--time-limit", "nan"], "--time-limit: expected seconds above 0, got nan"),
        (["--jobs", "0"], "Invalid value for '--jobs'"),
        (["--groups", "two"], "--groups: expected free or one, got 'two'; choose one"),
        (["--groups", "one"], "--groups: expected a file of TASO's (.pb), got"),
    ],
)
def test_wrong_options_are_refused(
    tasor_command: Command, rules: Path, words: list[str], reason: str
) -> None:
    code, out, err = tasor_command("rules", "verify", rules, *words)
    assert (code, out) == (64, "")
    assert reason in err
    assert err.count("\n") == 1

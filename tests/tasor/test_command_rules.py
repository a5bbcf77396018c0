"""`tasor rules …` as users meet it: answers, exit codes, files, and every refusal."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphopt.proofs import load_proved_rules, read_proofs, write_proofs
from graphopt.rules import load_rules
from tasor.command_line import main
from tests.taso_file import FALSE_FOR_GROUPED, encoded, op, taso_file

Command = Callable[..., tuple[int, str, str]]

TRUE = """\
# Rules that are true.
mul-commutes: mul(x, y) => mul(y, x)
matmul-join: matmul(x, concat(y, z, axis=1)) => concat(matmul(x, y), matmul(x, z), axis=1)
    where rank(2, x)
"""
FALSE = "sub-commutes: sub(x, y) => sub(y, x)\n"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A file of true rules, in a folder as `proofs_path` expects it."""
    path = tmp_path / "given" / "rules" / "some.rules"
    path.parent.mkdir(parents=True)
    path.write_text(TRUE)
    return path


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# verify


def test_verify_proves_true_rules(tasor_command: Command, rules: Path) -> None:
    code, out, err = tasor_command("rules", "verify", rules, "--jobs", 1)
    assert (code, err) == (0, "")
    assert "matmul-join" in out
    assert "2 rules: 2 proved (0 of them with inferred guards), 0 refuted, 0 unknown" in out


def test_verify_shows_a_counterexample_and_says_no(tasor_command: Command, rules: Path) -> None:
    rules.write_text(TRUE + FALSE)
    code, out, _ = tasor_command("rules", "verify", rules, "--jobs", 1)
    assert code == 1
    assert "3 rules: 2 proved (0 of them with inferred guards), 1 refuted, 0 unknown" in out
    assert "is false for" in out
    assert "the source gives" in out


def test_verify_does_not_know_what_takes_too_long(tasor_command: Command, rules: Path) -> None:
    code, out, _ = tasor_command("rules", "verify", rules, "--jobs", 1, "--time-limit", "1e-9")
    assert code == 2
    assert "0 refuted, 2 unknown" in out


@pytest.mark.parametrize("groups", [(), ("--groups", "one"), ("--groups", "free")])
def test_verify_reads_files_of_taso(
    tasor_command: Command, tmp_path: Path, groups: tuple[str, ...]
) -> None:
    path = tmp_path / "one.pb"
    path.write_bytes(encoded([op(8, [(-1, 0)]), op(8, [(0, 0)])], [op(8, [(-1, 0)])]))
    code, out, err = tasor_command("rules", "verify", path, "--jobs", 1, *groups)
    assert (code, err) == (0, "")
    assert "taso-000" in out


def test_verify_says_of_what_it_cannot_read_that_it_is_unknown(
    tasor_command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "same.pb"
    path.write_bytes(encoded([op(8, [(-1, 0)])], [op(8, [(-1, 0)])]))
    code, out, _ = tasor_command("rules", "verify", path, "--report", tmp_path / "report")
    assert code == 2
    assert "both sides are the same" in out
    assert "both sides are the same" in (tmp_path / "report" / "report.html").read_text()


def test_verify_prints_json(tasor_command: Command, rules: Path) -> None:
    rules.write_text(TRUE + FALSE)
    code, out, err = tasor_command("rules", "verify", rules, "--json", "--jobs", 1)
    assert (code, err) == (1, "")
    found = json.loads(out)
    assert found["summary"]["proved"] == 2
    assert [rule["verdict"] for rule in found["rules"]] == ["proved", "proved", "refuted"]
    assert found["digest"] == hashlib.sha256(rules.read_bytes()).hexdigest()
    assert "certificate" not in found["rules"][0]


def test_verify_is_quiet(tasor_command: Command, rules: Path) -> None:
    assert tasor_command("rules", "verify", rules, "-q", "--jobs", 1) == (0, "", "")


def test_verify_writes_a_report(tasor_command: Command, rules: Path, tmp_path: Path) -> None:
    rules.write_text(TRUE + FALSE)
    folder = tmp_path / "new" / "report"
    code, out, _ = tasor_command("rules", "verify", rules, "--report", folder, "--jobs", 1)
    assert code == 1
    assert "report.html, report.json, report.md" in out
    assert files_below(folder) == {"report.html", "report.json", "report.md"}
    audit = json.loads((folder / "report.json").read_text())
    assert audit["rules"][0]["certificate"]["cases"]
    page = (folder / "report.html").read_text()
    assert page.count('<section class="rule"') == 3
    assert page.count("<svg") == 6
    assert "sub-commutes" in (folder / "report.md").read_text()


def test_verify_writes_into_a_folder_that_holds_other_files(
    tasor_command: Command, rules: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "report.html").write_text("old")
    assert tasor_command("rules", "verify", rules, "--report", tmp_path, "-q", "--jobs", 1)[0] == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert not [name for name in files_below(tmp_path) if name.endswith(".partial")]


def test_verify_proves_a_second_time_from_axioms(
    tasor_command: Command, rules: Path, tmp_path: Path
) -> None:
    words = ("rules", "verify", rules, "--jobs", 1, "--axioms", "--report", tmp_path)
    code, out, err = tasor_command(*words)
    assert (code, err) == (0, "")
    assert "rules are proved from axioms, too" in out
    audit = json.loads((tmp_path / "report.json").read_text())
    assert audit["rules"][1]["axioms"]["proofs"]
    assert "Second proof, from axioms" in (tmp_path / "report.html").read_text()


def test_inferred_guards_are_told_from_those_written(
    tasor_command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "pool.rules"
    path.write_text("twice: transpose(transpose(x, perm=p), perm=q) => x where rank(2, x)\n")
    code, out, _ = tasor_command("rules", "verify", path, "--json", "--jobs", 1)
    (rule,) = json.loads(out)["rules"]
    assert code == {"proved": 0, "refuted": 1, "unknown": 2}[rule["verdict"]]
    if rule["verdict"] == "proved":
        assert rule["inferred"]
        assert set(rule["inferred"]) <= set(rule["guards"])


@pytest.mark.slow
def test_verify_audits_the_file_that_taso_ships(tasor_command: Command, tmp_path: Path) -> None:
    code, out, _ = tasor_command("rules", "verify", taso_file(), "--report", tmp_path, "--json")
    assert code == 1
    found = json.loads(out)
    assert found["summary"]["rules"] == 133
    by_verdict: dict[str, set[int]] = {"proved": set(), "refuted": set(), "unknown": set()}
    for rule in found["rules"]:
        by_verdict[rule["verdict"]].add(rule["index"])
    guarded = {rule["index"] for rule in found["rules"] if rule["inferred"]}
    assert by_verdict["unknown"] == set()
    assert by_verdict["refuted"] | guarded == set(FALSE_FOR_GROUPED)
    assert (tmp_path / "report.html").stat().st_size < 20_000_000


# Refused inputs

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


# Resuming


def records(folder: Path) -> dict[str, int]:
    """Files of finished verdicts with the time of their last change."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}


def verification(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a run over many rules, which keeps its work in `folder`/kept."""
    path = folder / "many.rules"
    path.write_text(
        "".join(
            f"r{n}: mul(add(x, {n}), y) => add(mul(x, y), mul({n}, y)) where same_shape(x, y)\n"
            for n in range(2, 2 + MANY)
        )
    )
    command = [
        sys.executable, "-m", "tasor", "rules", "verify", str(path), "--jobs", "1", "--json",
        "--resume", str(folder / "kept"), "--report", str(folder / "report"),
    ]  # fmt: skip
    return command, {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


MANY = 60


def stopped(folder: Path, number: int, *, group: bool) -> tuple[int, str]:
    """Exit code and stderr of such a run that gets a signal after its first verdicts."""
    command, environment = verification(folder)
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        # A test runner in the background may have had interrupts turned off for its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while len(records(folder / "kept")) < 3 and process.poll() is None:
            assert time.monotonic() < end, "no verdict was kept"
            time.sleep(0.005)
        if group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, err = process.communicate(timeout=30)
        return process.returncode, err
    finally:
        process.kill()
        process.wait()


def test_a_killed_verification_goes_on_where_it_was(tmp_path: Path) -> None:
    code, _ = stopped(tmp_path, signal.SIGKILL, group=True)
    assert code == -signal.SIGKILL, "it was done before it could be killed"
    before = records(tmp_path / "kept")
    assert 3 <= len(before) < MANY
    assert not (tmp_path / "report").exists()
    command, environment = verification(tmp_path)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert (done.returncode, found["summary"]["proved"]) == (0, MANY)
    after = records(tmp_path / "kept")
    assert {name: after[name] for name in before} == before
    assert len(after) == MANY
    assert (tmp_path / "report" / "report.html").exists()


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (signal.SIGINT, (130, "tasor: interrupted; no output was written\n")),
        (signal.SIGTERM, (143, "")),
    ],
)
def test_a_signal_ends_a_verification_at_once(
    tmp_path: Path, number: int, expected: tuple[int, str]
) -> None:
    assert stopped(tmp_path, number, group=False) == expected
    kept = records(tmp_path / "kept")
    time.sleep(0.5)
    assert records(tmp_path / "kept") == kept, "its processes go on"
    assert not (tmp_path / "report").exists()


def test_a_damaged_record_is_judged_again(
    tasor_command: Command, rules: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    words = ("rules", "verify", rules, "--resume", kept, "--json", "--jobs", 1)
    first = json.loads(tasor_command(*words)[1])
    damaged = sorted(kept.glob("*.json"))[0]
    damaged.write_text(damaged.read_text()[:-10])
    again = json.loads(tasor_command(*words)[1])
    assert again["summary"]["proved"] == first["summary"]["proved"] == 2
    assert json.loads(damaged.read_text())


# enumerate


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


# list, show, prove, check


def test_list_shows_what_is_shipped(tasor_command: Command) -> None:
    code, out, err = tasor_command("rules", "list", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    names = [rule["name"] for rule in found]
    assert "add-zero" in names
    assert {Path(rule["file"]).name for rule in found} >= {"default.rules", "lowering.rules"}


def test_list_says_what_is_proved(tasor_command: Command, rules: Path) -> None:
    _, out, _ = tasor_command("rules", "list", rules)
    assert "some.rules: 2 rules, 0 proved" in out
    assert tasor_command("rules", "prove", rules, "-q", "--jobs", 1)[0] == 0
    _, out, _ = tasor_command("rules", "list", rules)
    assert "some.rules: 2 rules, 2 proved" in out
    assert "mul(x, y) => mul(y, x)" in out


def test_show_prints_both_sides_as_terms(tasor_command: Command, rules: Path) -> None:
    code, out, _ = tasor_command("rules", "show", "matmul-join", "--file", rules)
    assert code == 0
    assert (
        "target\n  concat axis=1\n    matmul\n      x\n      y\n    matmul\n      x\n      z\n"
    ) in out
    assert "where\n  rank(2, x)\n" in out
    assert "proof: none is stored" in out
    assert "some.rules, line 3\n" in out


def test_show_says_what_the_proof_says(tasor_command: Command, rules: Path) -> None:
    tasor_command("rules", "prove", rules, "-q", "--jobs", 1)
    _, out, _ = tasor_command("rules", "show", "matmul-join", "--file", rules)
    assert "proof: cases " in out
    _, out, _ = tasor_command("rules", "show", "matmul-join", "--file", rules, "--json")
    (found,) = json.loads(out)
    assert found["proved"] is True
    assert found["certificate"]["digest"] == found["digest"]


def test_show_finds_shipped_rules_of_families_and_inverses(tasor_command: Command) -> None:
    code, out, _ = tasor_command("rules", "show", "idempotent-operand[max]")
    assert code == 0
    assert "from: rules/default.rules, line " in out


def test_show_knows_no_such_rule(tasor_command: Command, rules: Path) -> None:
    code, out, err = tasor_command("rules", "show", "no\nsuch", "--file", rules)
    assert (code, out) == (64, "")
    assert err == (
        f"tasor: rule: expected the name of a rule in '{rules}', got 'no such'; `tasor rules list` "
        "shows the names\n"
    )


def test_prove_writes_proofs_that_load_and_check(tasor_command: Command, rules: Path) -> None:
    code, out, _ = tasor_command("rules", "prove", rules, "--jobs", 1)
    proofs = rules.parent.parent / "proofs" / "some.proofs"
    assert (code, out) == (0, f"{proofs}: written\n")
    assert len(load_proved_rules(rules)) == 2
    before = proofs.read_bytes()
    assert tasor_command("rules", "prove", rules, "-q", "--jobs", 1)[0] == 0
    assert proofs.read_bytes() == before
    code, out, _ = tasor_command("rules", "check", rules, "--jobs", 1, "--no-solver")
    assert code == 0
    assert "2 proofs: 2 accepted, 0 rejected, 0 open" in out


def test_prove_keeps_what_is_there_if_a_rule_is_false(tasor_command: Command, rules: Path) -> None:
    assert tasor_command("rules", "prove", rules, "-q", "--jobs", 1)[0] == 0
    proofs = rules.parent.parent / "proofs" / "some.proofs"
    before = proofs.read_bytes()
    rules.write_text(TRUE + FALSE)
    code, out, _ = tasor_command("rules", "prove", rules, "--jobs", 1)
    assert code == 1
    assert "1 refuted" in out
    assert f"{proofs}: not written" in out
    assert proofs.read_bytes() == before


def test_check_asks_the_second_solver(tasor_command: Command, rules: Path) -> None:
    pytest.importorskip("cvc5", reason="cvc5 is not installed")
    tasor_command("rules", "prove", rules, "-q", "--jobs", 1)
    code, out, _ = tasor_command("rules", "check", rules, "--jobs", 1, "--json")
    assert code == 0
    assert {one["verdict"] for one in json.loads(out)} == {"accepted"}


def test_check_without_the_second_solver_says_what_to_do(
    tasor_command: Command, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cvc5", None)
    code, out, err = tasor_command("rules", "check", rules)
    assert (code, out) == (69, "")
    assert "pip install cvc5" in err
    assert "--no-solver" in err


def test_check_wants_a_proof_of_every_rule(tasor_command: Command, rules: Path) -> None:
    code, out, _ = tasor_command("rules", "check", rules, "--no-solver")
    assert code == 1
    assert "2 proofs: 0 accepted, 2 rejected, 0 open" in out
    assert "no proof is stored" in out


def forged(proofs: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrites every certificate with digests that fit, as somebody might who means to deceive."""
    certificates = {}
    for digest, text in read_proofs(proofs).items():
        certificate = json.loads(text)
        change(certificate)
        certificates[digest] = json.dumps(certificate)
    write_proofs(proofs, certificates)


def test_check_rejects_edited_certificates(tasor_command: Command, rules: Path) -> None:
    tasor_command("rules", "prove", rules, "-q", "--jobs", 1)
    proofs = rules.parent.parent / "proofs" / "some.proofs"

    def change(certificate: dict[str, Any]) -> None:
        for case in certificate["cases"]:
            for result in case["results"]:
                result["target"] = [*result["target"], {"times": "2"}]

    forged(proofs, change)
    code, out, _ = tasor_command("rules", "check", rules, "--no-solver", "--jobs", 1)
    assert code == 1
    assert "2 proofs: 0 accepted, 2 rejected" in out


def test_check_rejects_the_proof_of_another_rule(tasor_command: Command, rules: Path) -> None:
    tasor_command("rules", "prove", rules, "-q", "--jobs", 1)
    proofs = rules.parent.parent / "proofs" / "some.proofs"
    (first, one), (second, other) = sorted(read_proofs(proofs).items())
    certificates = {first: json.loads(other), second: json.loads(one)}

    def change(certificate: dict[str, Any]) -> None:
        swapped = certificates[certificate["digest"]]
        certificate.clear()
        certificate.update(swapped)

    forged(proofs, change)
    code, out, _ = tasor_command("rules", "check", rules, "--no-solver", "--jobs", 1)
    assert code == 1
    assert "a proof of another rule" in out


def test_edited_proof_files_are_refused(tasor_command: Command, rules: Path) -> None:
    tasor_command("rules", "prove", rules, "-q", "--jobs", 1)
    proofs = rules.parent.parent / "proofs" / "some.proofs"
    text = proofs.read_bytes()
    proofs.write_bytes(text[:-5] + b"AAAA\n")
    for command in ("list", "check"):
        code, out, err = tasor_command("rules", command, rules)
        assert (code, out) == (65, "")
        assert str(proofs) in err
        assert "SHA-256" in err
    proofs.write_bytes(text[:-20])
    code, _, err = tasor_command("rules", "list", rules)
    assert code == 65
    assert "expected a file whose last line ends" in err


def test_help_names_every_command(tasor_command: Command) -> None:
    code, out, _ = tasor_command("rules", "--help")
    assert code == 0
    for name in ("enumerate", "verify", "list", "show", "prove", "check"):
        assert name in out

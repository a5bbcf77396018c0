"""Python's collector: set for a process of ours, and left alone in somebody else's."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, sys
before = gc.get_threshold()
from tasor.command_line import main
sys.argv = ["tasor", "--version"]
main({words})
after = gc.get_threshold()
print(after[:2] == before[:2], after[2] > 10 * before[2], after == before)
"""


def last_line(words: str) -> str:
    text = PROGRAM.format(words=words)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_process_of_ours_looks_at_what_is_young() -> None:
    assert last_line("") == "True True False"


def test_a_process_of_somebody_else_is_left_alone() -> None:
    assert last_line('["--version"]') == "True False True"

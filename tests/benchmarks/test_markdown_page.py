"""What the pages of benchmarks have in common."""

from __future__ import annotations

import argparse
import re

from benchmarks.markdown_page import made_by, options_of, table_lines


def test_the_command_is_as_it_would_be_typed() -> None:
    options = {
        "suite": "operators", "only": re.compile("^(GMM1|TBS0)$"), "seeds": 5,
        "turn-seconds": 0.25, "winograd": True, "measure": False, "strategies": ("a", "b"),
        "patience": None,
    }  # fmt: skip
    assert made_by("benchmarks.some", options) == (
        "Made by `python -m benchmarks.some --suite operators --only '^(GMM1|TBS0)$' --seeds 5 "
        "--turn-seconds 0.25 --winograd --strategies a,b --markdown FILE`."
    )


def test_options_are_those_that_were_given() -> None:
    given = argparse.Namespace(tvm_trials=200, threads=2, seed=0)
    assert options_of(given, "threads", "tvm-trials") == {"threads": 2, "tvm-trials": 200}


def test_numbers_are_to_the_right() -> None:
    assert table_lines(("name", "rule", "ms"), [("a", "b", "1.5")], texts=2) == [
        "| name | rule | ms |",
        "|---|---|--:|",
        "| a | b | 1.5 |",
    ]
    assert table_lines(("name", "ms"), []) == ["| name | ms |", "|---|--:|"]

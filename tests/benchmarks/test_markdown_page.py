"""What the pages of benchmarks have in common."""

from __future__ import annotations

import re

from benchmarks.markdown_page import made_by, table_lines


def test_the_command_is_as_it_would_be_typed() -> None:
    options = {
        "suite": "operators", "only": re.compile("^(GMM1|TBS0)$"), "seeds": 5,
        "turn-seconds": 0.25, "winograd": True, "measure": False,
    }  # fmt: skip
    assert made_by("benchmarks.some", options) == (
        "Made by `python -m benchmarks.some --suite operators --only '^(GMM1|TBS0)$' --seeds 5 "
        "--turn-seconds 0.25 --winograd --markdown FILE`."
    )


def test_numbers_are_to_the_right() -> None:
    assert table_lines(("name", "rule", "ms"), [("a", "b", "1.5")], texts=2) == [
        "| name | rule | ms |",
        "|---|---|--:|",
        "| a | b | 1.5 |",
    ]
    assert table_lines(("name", "ms"), []) == ["| name | ms |", "|---|--:|"]

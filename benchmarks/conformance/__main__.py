"""Command line of the conformance sweep.

    python -m benchmarks.conformance --only '^test_conv' --target c99 --json out/conformance.json

Exit codes: 0 no case failed, 1 one did, 64 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from benchmarks.conformance.cases import GROUPS, Case, all_cases, cases_of
from benchmarks.conformance.document import operators_document, outcome_counts
from benchmarks.conformance.outcome import Failed, Record
from benchmarks.conformance.sweep import sweep

EXIT_DONE = 0
EXIT_NO = 1
EXIT_USAGE = 64

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "operators.md"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(
            f"expected a regular expression, got {text!r}: {error}"
        ) from error


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="benchmarks.conformance", description="Run the onnx package's own test cases."
    )
    parser.add_argument("--only", type=_pattern, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--group", choices=GROUPS, help="default: all")
    parser.add_argument("--target", default="host", help="a target that this machine can run")
    parser.add_argument("--threads", type=_count, default=1, metavar="N", help="default: 1")
    parser.add_argument("--workers", type=_count, default=2, metavar="N", help="default: 2")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument(
        "--write-docs", action="store_true", help="write docs/operators.md; needs every case"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    return parser


def _chosen(arguments: argparse.Namespace) -> tuple[Case, ...]:
    cases = all_cases() if arguments.group is None else cases_of(arguments.group)
    return tuple(case for case in cases if arguments.only.search(case.name))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line given by `words`; returns the exit code."""
    parser = _parser()
    arguments = parser.parse_args(words)
    if arguments.write_docs and (arguments.group is not None or arguments.only.pattern):
        parser.error("--write-docs: expected a sweep over every case, got a choice; leave it out")
    cases = _chosen(arguments)
    if not cases:
        parser.error(f"--only: expected a case, got none that matches {arguments.only.pattern!r}")
    progress = Console(stderr=True, quiet=arguments.quiet, markup=False, highlight=False)

    def told(record: Record) -> None:
        if isinstance(record.outcome, Failed):
            progress.print(f"failed {record.name}: {record.outcome.message}", soft_wrap=True)

    records = sweep(
        cases,
        arguments.target,
        threads=arguments.threads,
        workers=arguments.workers,
        told=told,
    )
    for line in outcome_counts(records):
        print(line)
    if arguments.json is not None:
        arguments.json.write_text(
            json.dumps([record.document() for record in records], indent=1) + "\n",
            encoding="utf-8",
        )
    if arguments.write_docs:
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_text(operators_document(records), encoding="utf-8")
    return EXIT_NO if any(isinstance(record.outcome, Failed) for record in records) else EXIT_DONE


if __name__ == "__main__":
    sys.exit(main())

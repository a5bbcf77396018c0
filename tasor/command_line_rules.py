"""The commands `tasor rules …`: what may be typed, and what is answered.

What it does: declares the commands and prints what they find. What it does not: any of the work.
The modules that do it are loaded when a command runs: the prover brings Z3, which would make every
other command of Tasor start slower.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from graphopt.onnx_import.errors import printable
from graphopt.rule import statement_text
from tasor.command_line_options import JsonFlag, Quiet
from tasor.errors import EXIT_NO, UsageError
from tasor.terminal import draw, print_json, print_line, progress_bar

rules = typer.Typer(
    name="rules",
    help="Finds rewrite rules, proves or refutes them, and shows what Tasor ships.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

RulesFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="rules as text, or a graph_subst.pb of TASO's")
]
Resume = Annotated[
    Path | None,
    typer.Option("--resume", metavar="DIR", help="keep finished work here, and go on from it"),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", min=1, max=1024, help="processes; default: the cores"),
]
TimeLimit = Annotated[float, typer.Option("--time-limit", metavar="S", help="seconds for one rule")]
TextFile = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="default: the rules that Tasor ships")
]
TextFiles = Annotated[
    list[Path],
    typer.Argument(metavar="[FILE]...", help="rules as text; default: those that Tasor ships"),
]


@rules.command("enumerate")
def _enumerate(
    most_operators: Annotated[
        int, typer.Option("--max-ops", metavar="N", min=1, max=6, help="operators of a side")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="the rules found, as text")
    ],
    vocabulary: Annotated[
        str, typer.Option("--vocabulary", metavar="taso|extended", help="the operators")
    ] = "taso",
    prove: Annotated[
        bool, typer.Option("--prove", help="keep only what is proved for all sizes")
    ] = False,
    minimize: Annotated[
        bool, typer.Option("--minimize", help="and only what smaller rules do not say already")
    ] = False,
    jobs: Jobs = None,
    resume: Resume = None,
    json_output: JsonFlag = False,
    quiet: Quiet = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0)] = 0,
) -> None:
    """Find equations between small terms: tested, and with --minimize proved and minimal."""
    from tasor.command_rules import EnumerateOptions, enumerate_into
    from tasor.rule_tables import found_views

    options = EnumerateOptions(
        vocabulary, most_operators, seed, resume, prove, minimize, _processes(jobs)
    )
    with progress_bar("enumerating", shown=not (quiet or json_output)) as advance:
        found = enumerate_into(output, options, advance)
    if json_output:
        print_json(found.as_json())
    elif not quiet:
        draw(*found_views(found))
        print_line(f"{printable(output)}: {len(found.rules)} rules")


@rules.command("verify")
def _verify(
    file: RulesFile,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="write report.html, report.json, report.md"),
    ] = None,
    jobs: Jobs = None,
    resume: Resume = None,
    time_limit: TimeLimit = 60.0,
    axioms: Annotated[
        bool, typer.Option("--axioms", help="prove a second time, from axioms alone")
    ] = False,
    groups: Annotated[
        str | None,
        typer.Option("--groups", metavar="free|one", help="convolutions of a graph_subst.pb"),
    ] = None,
    json_output: JsonFlag = False,
    quiet: Quiet = False,
) -> None:
    """Prove each rule for all sizes, or refute it: exit code 0, 1 if refuted, 2 if unknown."""
    from tasor.command_rules import VerifyOptions, verdict_code, verify_file, without_proofs
    from tasor.rule_tables import audit_views

    _check_time_limit(time_limit)
    options = VerifyOptions(groups, _processes(jobs), time_limit, resume, report, axioms)
    with progress_bar("verifying", shown=not (quiet or json_output)) as advance:
        found = verify_file(file, options, advance)
    if json_output:
        print_json(without_proofs(found))
    elif not quiet:
        draw(*audit_views(found, with_table=True))
        if report is not None:
            print_line(f"{printable(report)}: report.html, report.json, report.md")
    raise typer.Exit(verdict_code(found))


@rules.command("list")
def _list(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="default: the rules that Tasor ships")
    ] = None,
    json_output: JsonFlag = False,
) -> None:
    """List rules, and whether a proof of each is stored."""
    from tasor.command_stored_rules import stored_rules
    from tasor.rule_tables import rules_lists

    found = stored_rules(file)
    if json_output:
        print_json(
            [
                {
                    "name": stored.rule.name,
                    "statement": statement_text(stored.rule),
                    "file": str(stored.file),
                    "proved": stored.certificate is not None,
                }
                for stored in found
            ]
        )
    else:
        draw(*rules_lists(found))


@rules.command("show")
def _show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="the name of a rule")],
    file: TextFile = None,
    json_output: JsonFlag = False,
) -> None:
    """Show one rule: both sides as terms, conditions, its proof, where it is from."""
    from tasor.command_stored_rules import rule_document, rules_named
    from tasor.rule_tables import stored_rule_lines

    found = rules_named(name, file)
    if json_output:
        print_json([rule_document(stored) for stored in found])
    else:
        for stored in found:
            for line in stored_rule_lines(stored):
                print_line(line)


@rules.command("prove")
def _prove(
    files: TextFiles = [],  # noqa: B006
    jobs: Jobs = None,
    resume: Resume = None,
    time_limit: TimeLimit = 60.0,
    quiet: Quiet = False,
) -> None:
    """Prove the rules of files, and store the proofs where `load_proved_rules` looks for them."""
    from tasor.command_stored_rules import prove_files
    from tasor.rule_tables import audit_views

    _check_time_limit(time_limit)
    with progress_bar("proving", shown=not quiet) as advance:
        found = prove_files(files, _processes(jobs), time_limit, resume, advance)
    for proving in found:
        if not quiet and proving.missing:
            draw(*audit_views(proving.audit, with_table=True))
        if not quiet:
            answer = "not written" if proving.missing else "written"
            print_line(f"{printable(proving.proofs)}: {answer}")
    if any(proving.missing for proving in found):
        raise typer.Exit(EXIT_NO)


@rules.command("check")
def _check(
    files: TextFiles = [],  # noqa: B006
    no_solver: Annotated[
        bool, typer.Option("--no-solver", help="do not ask cvc5 the solver's questions again")
    ] = False,
    jobs: Jobs = None,
    json_output: JsonFlag = False,
    quiet: Quiet = False,
) -> None:
    """Check stored proofs anew, without the prover: exit code 0, 1 if rejected, 2 if open."""
    from tasor.command_stored_rules import check_files, checks_code
    from tasor.rule_tables import checks_line, checks_table

    with progress_bar("checking", shown=not (quiet or json_output)) as advance:
        found = check_files(files, _processes(jobs), solver=not no_solver, advance=advance)
    if json_output:
        print_json([checked.as_json() for checked in found])
    elif not quiet:
        draw(checks_table(found))
        print_line(checks_line(found))
    raise typer.Exit(checks_code(found))


def _processes(jobs: int | None) -> int:
    """As many as cores that this process may use, unless a number is given."""
    if jobs is not None:
        return jobs
    affinity = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() or 1) if affinity is None else len(affinity(0))


def _check_time_limit(seconds: float) -> None:
    if not 0 < seconds < float("inf"):
        raise UsageError(f"--time-limit: expected seconds above 0, got {seconds}; choose 60, say")

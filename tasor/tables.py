"""Tables for the terminal and for reports: operators, rules, kernels, memory, ports.

What it does: draws what the stages found with rich. What it does not: print, or find anything.
Names out of models reach a table only as `Text`, never as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from graphopt.compiler import Compilation, KernelRecord
from graphopt.onnx_import.errors import printable
from tasor.optimized_model import OptimizationReport
from tensorgen.ports import Port


def _table(title: str, *columns: str, numbers: Iterable[str] = ()) -> Table:
    right = set(numbers)
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _row(table: Table, *cells: object) -> None:
    table.add_row(*(Text(printable(cell)) for cell in cells))


def ports_table(inputs: Sequence[Port], outputs: Sequence[Port]) -> Table:
    """Names and types of inputs and outputs."""
    table = _table("inputs and outputs", "", "name", "type")
    for role, ports in (("input", inputs), ("output", outputs)):
        for port in ports:
            _row(table, role, port.name, port.type)
    return table


def operators_table(report: OptimizationReport) -> Table:
    """How often each operator is there before and after the optimization."""
    table = _table("operators", "operator", "before", "after", numbers=("before", "after"))
    for name, before, after in report.operators:
        _row(table, name, before, after)
    table.add_section()
    _row(table, "all", report.nodes_before, report.nodes_after)
    return table


def rules_table(report: OptimizationReport) -> Table:
    """Which rules were applied, and how often."""
    table = _table("rules applied", "rule", "times", numbers=("times",))
    for rule, count in report.applied:
        _row(table, rule, count)
    return table


def kernels_table(
    kernels: Sequence[KernelRecord], *, with_expressions: bool, limit: int | None = None
) -> Table:
    """Kernels with calls, work of one call, and how they compute; with a limit, only those that
    do most of the work."""
    extra = ("expression",) if with_expressions else ()
    table = _table(
        "kernels", "kernel", "calls", "MFLOP", "kB", "schedule", *extra,
        numbers=("calls", "MFLOP", "kB"),
    )  # fmt: skip
    shown = kernels
    if limit is not None:
        shown = sorted(kernels, key=lambda kernel: -kernel.flops * kernel.calls)[:limit]
    for kernel in shown:
        cells = [
            kernel.name,
            kernel.calls,
            f"{kernel.flops / 1e6:.3f}",
            f"{kernel.bytes / 1e3:.1f}",
            kernel.schedule,
        ]
        _row(table, *cells, *((kernel.expression,) if with_expressions else ()))
    if len(shown) < len(kernels):
        _row(table, f"… and {len(kernels) - len(shown)} with less work", "", "", "", "")
    return table


def memory_table(compilation: Compilation) -> Table:
    """Bytes of the arena, of the weights, and of inputs and outputs."""
    module, arena = compilation.module, compilation.arena
    table = _table("memory", "", "bytes", "", numbers=("bytes",))
    if arena.optimal:
        remark = "no plan is smaller"
    else:
        remark = f"no plan is smaller than {arena.lower_bound}"
    _row(table, "arena", arena.arena_bytes, remark)
    _row(table, "weights", compilation.weight_bytes, f"kept as: {module.weights}")
    _row(table, "inputs", sum(port.type.bytes for port in module.inputs), "")
    _row(table, "outputs", sum(port.type.bytes for port in module.outputs), "")
    return table

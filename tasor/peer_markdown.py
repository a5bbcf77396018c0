"""A comparison as a Markdown page, for documents that are kept beside the code.

What it does not: measure (`peers`), or judge: a ratio above 1 says that Tasor is faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasor.peer_engines import engine_version
from tasor.peer_report import group_means, machine
from tasor.peers import Row


def markdown(rows: Sequence[Row], engines: Sequence[str], settings: Mapping[str, object]) -> str:
    """The page: how it was measured, geometric means by group, and every case."""
    host = machine()
    versions = ", ".join(f"{engine} {engine_version(engine)}" for engine in engines)
    how = "; ".join(f"{name} {_plain(value)}" for name, value in settings.items())
    lines = [
        "# Performance, measured",
        "",
        f"Written by `tasor bench --markdown`. {versions}. Processor: {host['processor']},",
        f"{host['cpus']} CPUs. Settings: {how}.",
        "Times are medians of one run in milliseconds, engines in turns with the same threads on",
        "the same cores; the ratio is the best peer's time over Tasor's.",
        "",
        "| geometric mean | threads | ratio |",
        "|---|---|---|",
    ]
    lines += [
        f"| {_cell(group)} | {threads} | {mean:.2f} |"
        for (group, threads), mean in group_means(rows).items()
    ]
    lines += ["", f"| case | threads | {' | '.join(engines)} | ratio | Gflop/s |"]
    lines.append("|---" * (len(engines) + 4) + "|")
    lines += [_row(row, engines) for row in rows]
    return "\n".join(lines) + "\n"


def _row(row: Row, engines: Sequence[str]) -> str:
    timings = [row.timing(engine) for engine in engines]
    figures = ["failed" if timing is None else f"{timing.milliseconds:.4g}" for timing in timings]
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    own = row.timing("tasor")
    rate = "" if row.flops is None or own is None else f"{row.flops / own.milliseconds / 1e6:.0f}"
    return f"| {_cell(row.case)} | {row.threads} | {' | '.join(figures)} | {ratio} | {rate} |"


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _cell(text: str) -> str:
    """Text that cannot end a table's cell."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")

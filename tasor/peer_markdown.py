"""A comparison as a Markdown page, for documents that are kept beside the code.

What it does not: measure (`peers`), or judge: a ratio above 1 says that Tasor is faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasor.peer_engines import TUNED, engine_version
from tasor.peer_report import Ratio, machine, mean_ratios, ratio_text, ratios_of, threads_text
from tasor.peers import Row
from tasor.roofline import (
    Ceiling,
    flops_per_second,
    percent,
    share_of_fed_peak,
    share_of_peak,
)


def markdown(
    rows: Sequence[Row],
    engines: Sequence[str],
    settings: Mapping[str, object],
    ceilings: Sequence[Ceiling] = (),
) -> str:
    """The page: how it was measured, geometric means by group, and every case."""
    host, ratios = machine(), ratios_of(rows)
    packages = [engine for engine in engines if engine != TUNED]
    versions = ", ".join(f"{engine} {engine_version(engine)}" for engine in packages)
    how = "; ".join(f"{name} {_plain(value)}" for name, value in settings.items())
    lines = [
        "# Performance, measured",
        "",
        f"Written by `tasor bench --markdown`. {versions}. Processor: {host['processor']},",
        f"{host['cpus']} CPUs. Settings: {how}.",
        "Times are medians of one run in milliseconds, engines in turns with the same threads on",
        "the same cores, and more turns for all while half of those of one take a quarter longer",
        "than its fastest; the ratio is the best peer's time over Tasor's. All are called from",
        "Python; `in C` is Tasor called by a loop in C, and the rates are of these calls.",
        *_tuned_lines(ratios),
        *_peak_lines(ceilings, in_turns=any(row.peak is not None for row in rows)),
        "",
        f"| geometric mean | threads | {' | '.join(ratios)} |",
        "|---" * (len(ratios) + 2) + "|",
    ]
    lines += [
        f"| {_cell(group)} | {threads} | {' | '.join(map(ratio_text, means.values()))} |"
        for (group, threads), means in mean_ratios(rows).items()
    ]
    fed = any(row.fed_peak is not None for row in rows)
    columns = ["case", "threads", *engines, *ratios, "in C", "Gflop/s", "of peak"]
    columns += ["of fed peak"] if fed else []
    lines += ["", f"| {' | '.join(columns)} |"]
    lines.append("|---" * len(columns) + "|")
    lines += [_row(row, engines, ratios, ceilings, fed=fed) for row in rows]
    return "\n".join(lines) + "\n"


def _tuned_lines(ratios: Mapping[str, Ratio]) -> list[str]:
    if "gain" not in ratios:
        return []
    return [
        "Tasor takes part twice: as compiled without trials, and as tuned; `tuned ratio` is the",
        "ratio of the tuned one, the gain is the time without trials over that as tuned.",
    ]


def _peak_lines(ceilings: Sequence[Ceiling], *, in_turns: bool) -> list[str]:
    if in_turns:
        return [
            "Shares of the peak are of what plain float32 multiply-adds reached in turns with the",
            "engines, all in registers; those of the fed peak of what a tile of them reached whose",
            "operands come from the first-level cache, as those of any kernel do at best.",
            "Operations are counted by definition: a filtered convolution needs fewer and may",
            "exceed both.",
        ]
    if not ceilings:
        return []
    peaks = ", ".join(
        f"{ceiling.peak / 1e9:.0f} Gflop/s with {threads_text(ceiling.threads)}"
        for ceiling in ceilings
    )
    return [
        f"Measured peak of float32 multiply-adds: {peaks}. Operations are counted by definition:",
        "a filtered convolution needs fewer and may exceed the peak.",
    ]


def _row(
    row: Row,
    engines: Sequence[str],
    ratios: Mapping[str, Ratio],
    ceilings: Sequence[Ceiling],
    *,
    fed: bool,
) -> str:
    timings = [row.timing(engine) for engine in engines]
    figures = ["failed" if timing is None else f"{timing.milliseconds:.4g}" for timing in timings]
    figures += [ratio_text(ratio(row)) for ratio in ratios.values()]
    own = row.timing("tasor")
    in_c = "" if own is None or own.in_c is None else f"{own.in_c:.4g}"
    reached = flops_per_second(row)
    rate = "" if reached is None else f"{reached / 1e9:.0f}"
    shares = [percent(share_of_peak(row, ceilings))]
    shares += [percent(share_of_fed_peak(row))] if fed else []
    cells = (_cell(row.case), str(row.threads), *figures, in_c, rate, *shares)
    return f"| {' | '.join(cells)} |"


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _cell(text: str) -> str:
    """Text that cannot end a table's cell."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")

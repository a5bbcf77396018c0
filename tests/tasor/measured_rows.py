"""Rows of a comparison for tests of what is said of them: figures without measuring."""

from __future__ import annotations

from math import inf

from tasor.peers import Failure, Row, Timing
from tasor.roofline import Bandwidth, Ceiling

ENGINES = ("tasor", "onnxruntime", "openvino")

CEILINGS = tuple(
    Ceiling(threads, threads * 100e9, (Bandwidth("L1", 200e9), Bandwidth("memory", 20e9)))
    for threads in (1, 2)
)


def timing(engine: str, milliseconds: float, deviation: float | None = None) -> Timing:
    """A steady figure."""
    return Timing(engine, milliseconds, milliseconds, milliseconds, 9, 0.1, deviation, quiet=True)


def row(
    case: str,
    *milliseconds: float,
    group: str = "group",
    threads: int = 1,
    flops: int | None = None,
    traffic: int | None = None,
) -> Row:
    """A case with the times of as many of ENGINES."""
    results = tuple(timing(*pair) for pair in zip(ENGINES, milliseconds, strict=False))
    return Row(case, group, threads, flops, results, traffic)


def sample_rows() -> tuple[Row, ...]:
    """Cases that are faster, even, slower, filtered, failed, wrong, unsteady or of unknown work."""
    unsteady = Timing("openvino", 3.0, 2.0, 4.0, 9, 0.1, 1e-6, quiet=True)
    wrong = timing("tasor", 1.0, inf)
    failed = Failure("openvino", "no such operator")
    return (
        row("fast", 1.0, 2.0, 7.5, group="convolution", flops=90_000_000, traffic=1_000_000),
        row("even", 1.0, 1.01, 1.5, group="convolution", flops=80_000_000, traffic=2_000_000),
        row("slow", 2.0, 1.0, 1.5, group="softmax", flops=10_000_000, traffic=16_000_000),
        row("filtered", 1.0, 2.5, 2.4, group="convolution", flops=250_000_000, traffic=900_000),
        row("fast", 0.6, 1.1, 1.2, group="convolution", threads=2, flops=90_000_000, traffic=10**6),
        Row("wrong", "models", 1, None, (wrong, timing("onnxruntime", 1.5), failed), None),
        Row(
            "shaky", "models", 1, None, (timing("tasor", 1.0), timing("onnxruntime", 2.0), unsteady)
        ),
    )

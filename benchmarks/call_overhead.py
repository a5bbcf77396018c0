"""What a call from Python costs beyond the same call from C.

What it does: compiles models that compute next to nothing, and times each public way to call them
against a loop in C around the same library. What it does not: say anything about kernels.

    python -m benchmarks.call_overhead
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

import tasor
from benchmarks.arguments import Parser, count_of
from tensorgen.calls_in_c import repeated_calls
from tensorgen.types import Array

CALLS = 2000
"""Calls that are timed together."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """Microseconds of one call: from C, and from Python by each way, the least of several tries."""

    additions: int
    c: float
    python: tuple[tuple[str, float], ...]

    @property
    def most(self) -> float:
        """What the slowest way costs beyond the call from C."""
        return max(microseconds for _, microseconds in self.python) - self.c


def sums(additions: int) -> onnx.ModelProto:
    """So many additions of two vectors of 4 elements: 2 inputs and 1 output each."""

    def ports(letter: str) -> list[onnx.ValueInfoProto]:
        names = (f"{letter}{number}" for number in range(additions))
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in names]

    nodes = [helper.make_node("Add", [f"x{n}", f"y{n}"], [f"z{n}"]) for n in range(additions)]
    graph = helper.make_graph(nodes, "sums", [*ports("x"), *ports("y")], ports("z"))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def overhead(additions: int, repeats: int = 15) -> Overhead:
    """The calls of the model with so many additions, timed in turns."""
    model = tasor.compile(sums(additions), threads=1, name="sums")
    inputs = [np.full(4, number, np.float32) for number in range(2 * additions)]
    outputs: list[Array] = [np.empty(4, np.float32) for _ in range(additions)]
    named = {port.name: array for port, array in zip(model.inputs, inputs, strict=True)}
    ways: dict[str, Callable[[], object]] = {
        "model(x, y)": lambda: model(*inputs),
        "model.run({...})": lambda: model.run(named),
        "model.run_into(...)": lambda: model.run_into(inputs, outputs),
        "model.bind(...)()": model.bind(inputs, outputs),
    }
    loop = repeated_calls(model.library, inputs, outputs)
    least = dict.fromkeys(("C", *ways), float("inf"))
    for _ in range(repeats):
        least["C"] = min(least["C"], _seconds(lambda: loop(CALLS)))
        for name, way in ways.items():
            least[name] = min(least[name], _seconds(lambda way=way: _repeat(way)))  # type: ignore[misc]
    microseconds = {name: seconds / CALLS * 1e6 for name, seconds in least.items()}
    return Overhead(additions, microseconds.pop("C"), tuple(microseconds.items()))


def _repeat(way: Callable[[], object]) -> None:
    for _ in range(CALLS):
        way()


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main(words: Sequence[str]) -> int:
    """Print the cost of a call for models with few and with many inputs and outputs."""
    parser = Parser(prog="call_overhead", description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=count_of, default=15, help="tries, of which the least")
    options = parser.parse_args(words)
    for additions in (1, 8):
        found = overhead(additions, options.repeats)
        print(f"{2 * additions} inputs, {additions} outputs: {found.c:.3f} us a call from C")
        for name, microseconds in found.python:
            print(f"  {name:20} {microseconds:6.2f} us, {microseconds - found.c:+.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Instances of a rule as graph values over inputs, for derivations.

What it does: draws instances, puts inputs of the same types in place of the data, and prefers those
whose sizes have the least in common. What it does not: cover all sizes; a derivation for a few
instances of different sizes is evidence that the rules' own conditions bear out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from graphopt.graph import Input, Value
from graphopt.instances import instances
from graphopt.matching import Bindings, build
from graphopt.rule import Rule, replacement

_DRAWS = 24


@dataclass(frozen=True, slots=True)
class Sides:
    """The results of a rule's source and of its target."""

    sources: tuple[Value, ...]
    targets: tuple[Value, ...]


def sides_of(rule: Rule, count: int = 2) -> tuple[Sides, ...]:
    """Up to so many instances of a rule, those of the most distinct sizes first."""
    found: dict[bytes, tuple[tuple[int, int], Sides]] = {}
    for instance in islice(instances(rule), _DRAWS):
        bindings = _over_inputs(instance.bindings)
        sources = build(rule.source, bindings)
        targets = replacement(rule, sources, bindings)
        if targets is None:
            continue
        shapes = [value.type.shape for value in bindings.tensors.values()]
        sizes = [size for shape in shapes for size in shape]
        rank = (sizes.count(1) + sizes.count(0), -len(set(sizes)))
        key = b"".join(value.digest for value in (*sources, *targets))
        found.setdefault(key, (rank, Sides(sources, targets)))
    ordered = sorted(found.items(), key=lambda item: (item[1][0], item[0]))
    return tuple(sides for _, (_, sides) in ordered[:count])


def _over_inputs(bindings: Bindings) -> Bindings:
    """The bindings with an input for every tensor."""
    tensors: dict[str, Value] = {}
    sequences: dict[str, tuple[Value, ...]] = {}
    position = 0
    for name, value in bindings.tensors.items():
        tensors[name] = Input(position, value.type)
        position += 1
    for name, values in bindings.sequences.items():
        sequences[name] = tuple(Input(position + n, v.type) for n, v in enumerate(values))
        position += len(values)
    return Bindings(tensors, sequences, bindings.params, bindings.captured)

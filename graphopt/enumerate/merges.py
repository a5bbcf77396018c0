"""Rules with two results: what two terms compute apart, one term computes at once, then splits.

What it does: proposes, for each operator instance and each choice of the operands that differ,
op(…, y, …), op(…, z, …) => split(op(…, concat(y, z), …)), over all axes of concats and results, and
tests each proposal directly: its parts are right exactly if the concat of both terms is the joint
one.

What it does not: propose joint terms of other forms; those are compositions of these with the
single-result equations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from graphopt.enumerate.retest import Holds, retest
from graphopt.enumerate.sizes import Grouping
from graphopt.enumerate.trees import Applied, Equation, Tree, Variable, numbered
from graphopt.enumerate.vocabulary import Instance, Vocabulary, result_shape
from graphopt.graph import Params
from tensorgen.types import Shape


@dataclass(frozen=True, slots=True)
class Merge:
    """Terms s and t whose concat along `axis` is one term: `equation` says so, concat first."""

    equation: Equation
    axis: int
    grouping: Grouping


def merges(vocabulary: Vocabulary, seed: int) -> tuple[Merge, ...]:
    """All proposals that passed the tests, in a fixed order."""
    found: dict[str, Merge] = {}
    for equation, axis in _proposals(vocabulary):
        text = f"{equation} {axis}"
        if text in found:
            continue
        outcome = retest(equation, seed)
        if isinstance(outcome, Holds):
            found[text] = Merge(equation, axis, outcome.grouping)
    return tuple(found.values())


def _proposals(vocabulary: Vocabulary) -> Iterator[tuple[Equation, int]]:
    """Equations concat(op(…y…), op(…z…)) = op(…concat(y, z)…) and the axis of the first concat."""
    concats = [instance for instance in vocabulary.instances if instance.op.name == "concat"]
    for instance in vocabulary.instances:
        if instance.op.name in ("concat", "slice"):
            continue
        for ranks, params, rank in _applications(vocabulary, instance):
            for differing in _choices(instance.arity):
                for outer in concats:
                    if outer.rank != rank:
                        continue
                    for inner in _inner(concats, [ranks[n] for n in differing]):
                        yield _proposal(instance, params, ranks, differing, outer, inner)


def _applications(
    vocabulary: Vocabulary, instance: Instance
) -> Iterator[tuple[tuple[int, ...], Params, int]]:
    """Ranks of operands that an instance takes, parameters, rank of the result; each once."""
    shapes = list(dict.fromkeys(tensor.shape for tensor in vocabulary.inputs))
    known = set()
    operands: list[tuple[Shape, ...]] = [(x,) for x in shapes]
    if instance.arity == 2:
        operands = [(x, y) for x in shapes for y in shapes]
    for choice in operands:
        params = vocabulary.parameters(instance, *choice)
        if params is None:
            continue
        result = result_shape(instance, params, choice, vocabulary.most_elements)
        assert result is not None
        key = tuple(map(len, choice)), tuple(sorted(params.items())), len(result)
        if key not in known:
            known.add(key)
            yield key


def _choices(arity: int) -> Iterator[tuple[int, ...]]:
    """Non-empty sets of the operands that differ."""
    for count in range(1, arity + 1):
        yield from combinations(range(arity), count)


def _inner(concats: list[Instance], ranks: list[int]) -> Iterator[tuple[Instance, ...]]:
    """A concat for each differing operand."""
    if not ranks:
        yield ()
        return
    for concat in concats:
        if concat.rank == ranks[0]:
            for others in _inner(concats, ranks[1:]):
                yield (concat, *others)


def _proposal(
    instance: Instance,
    params: Params,
    ranks: tuple[int, ...],
    differing: tuple[int, ...],
    outer: Instance,
    inner: tuple[Instance, ...],
) -> tuple[Equation, int]:
    first = [Variable(number, rank) for number, rank in enumerate(ranks)]
    second = [
        Variable(number + len(ranks), rank) if number in differing else first[number]
        for number, rank in enumerate(ranks)
    ]
    joint: list[Tree] = list(first)
    for number, concat in zip(differing, inner, strict=True):
        joint[number] = _concat(concat, first[number], second[number])
    terms = [Applied(instance, params, tuple(operands)) for operands in (first, second)]
    equation = numbered(_concat(outer, *terms), Applied(instance, params, tuple(joint)))
    return equation, outer.axis


def _concat(concat: Instance, left: Tree, right: Tree) -> Applied:
    return Applied(concat, (("axis", concat.axis),), (left, right))

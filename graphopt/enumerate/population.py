"""The representatives, one term for each value, with their values and what can be combined.

What it does: takes in what a level found, computes its values from those of their operands, and
lists the blocks of operands that the next level combines. What it does not: combine them, which is
for `levels`.

Memory: residues of all representatives in float32, which holds them exactly; shadows in float64 of
those that another level reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphopt.enumerate.fields import (
    Floats,
    Keys,
    Values,
    Worlds,
    constant_values,
    random_values,
    safe_primes,
)
from graphopt.enumerate.kernels import Fold, Kernel, Move, Pointwise, compute, kernel_of
from graphopt.enumerate.nodes import LEAF, Nodes, Numbers, Part
from graphopt.enumerate.projections import Functional, adjoint
from graphopt.enumerate.vocabulary import Instance, Vocabulary, result_shape
from tensorgen.types import Shape

WORLDS = 3
"""Independent primes: a fingerprint has 3 times 23 bits, folded into 64."""

COMPUTED_ELEMENTS = 2**18
"""Elements of results that are computed at once."""


@dataclass(slots=True)
class Shelf:
    """The representatives of one shape, level after level, and what later levels need of them.

    `starts[n]` is the row where level n begins; rows are kept in the order of identifiers.
    `derived[i]` are the fingerprints of one-operand instance i applied to each row.
    """

    shape: Shape
    functional: Functional
    starts: list[int]
    identifiers: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    keys: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))
    residues: list[NDArray[np.float32]] = field(default_factory=list)
    shadows: list[Floats] = field(default_factory=list)
    derived: dict[int, list[Keys]] = field(default_factory=dict)

    def rows(self, level: int) -> slice:
        """The rows of a level; none if it has not been reached."""
        if level + 1 >= len(self.starts):
            return slice(0, 0)
        return slice(self.starts[level], self.starts[level + 1])

    def piece(self, rows: slice) -> int:
        """Which of the arrays of its levels holds the rows of a level."""
        begins = np.cumsum([0, *(part.shape[1] for part in self.residues)])
        piece = int(np.searchsorted(begins, rows.start))
        assert begins[piece] == rows.start
        assert begins[piece + 1] == rows.stop
        return piece


@dataclass(frozen=True, slots=True)
class Block:
    """One instance on all representatives of one shape and level, or on all pairs of two."""

    number: int
    instance: Instance
    kernel: Kernel
    shapes: tuple[Shape, ...]
    levels: tuple[int, ...]

    @property
    def unordered(self) -> bool:
        """Whether each pair of operands occurs in both orders, one of which will do."""
        alike = self.shapes[0] == self.shapes[-1] and self.levels[0] == self.levels[-1]
        return self.instance.commutative and alike


class Population:
    """All representatives so far. It grows by whole levels."""

    def __init__(self, vocabulary: Vocabulary, seed: int) -> None:
        self.vocabulary = vocabulary
        self.worlds = Worlds(safe_primes(WORLDS), vocabulary.uses_exponentials, seed)
        self.nodes = Nodes.joined([])
        self.levels_of = np.zeros(0, np.int64)
        self.shelves: dict[Shape, Shelf] = {}
        self.places: list[tuple[Shape, int]] = []
        self._kernels: dict[tuple[int, tuple[Shape, ...]], tuple[Kernel, Shape] | None] = {}
        self._blocks: dict[int, dict[Shape, list[Block]]] = {}

    @property
    def finished(self) -> int:
        """The number of levels admitted; level 0 holds the inputs."""
        return 0 if not len(self.levels_of) else int(self.levels_of[-1]) + 1

    # Growth

    def result_shapes(self, level: int) -> tuple[Shape, ...]:
        """The shapes of the results of a level."""
        if level == 0:
            return tuple(sorted({tensor.shape for tensor in self.vocabulary.inputs}))
        return tuple(sorted(self._plan(level)))

    def blocks(self, level: int, shape: Shape) -> list[Block]:
        """What gives the results of a level of one shape."""
        return self._plan(level).get(shape, [])

    def admit(self, parts: list[Part], combined: bool) -> None:
        """Take the new representatives of a whole level in.

        `combined` says that another level follows that applies two-operand instances to results
        of this one; their shadows are dropped, as only the next level reads them otherwise.
        """
        level = self.finished
        parts = [part for part in parts if len(part.found)]
        for part in parts:
            shelf = self._shelf(part.shape, level)
            count = len(part.found)
            first = len(self.nodes)
            identifiers = np.arange(first, first + count)
            self.nodes = Nodes.joined([self.nodes, part.found])
            self.levels_of = np.concatenate([self.levels_of, np.full(count, level)])
            row = len(shelf.identifiers)
            self.places += [(part.shape, row + n) for n in range(count)]
            shelf.identifiers = np.concatenate([shelf.identifiers, identifiers])
            shelf.keys = np.concatenate([shelf.keys, part.keys])
        for shelf in self.shelves.values():
            shelf.starts += [len(shelf.identifiers)] * (level + 2 - len(shelf.starts))
        for part in parts:
            self._materialize(part.shape, level, combined)

    def _shelf(self, shape: Shape, level: int) -> Shelf:
        if shape not in self.shelves:
            functional = Functional.of(shape, self.worlds)
            self.shelves[shape] = Shelf(shape, functional, [0] * (level + 1))
        return self.shelves[shape]

    # What there is to combine

    def _plan(self, level: int) -> dict[Shape, list[Block]]:
        """The blocks of a level by result shape, in order of instance, shapes and levels."""
        if level not in self._blocks:
            plan: dict[Shape, list[Block]] = {}
            if level == 1:
                for constant in self.vocabulary.constants:
                    plan.setdefault(constant.shape, [])
            for number, instance in enumerate(self.vocabulary.instances):
                for shapes, levels in self._operands(instance, level):
                    settled = self._kernel(number, shapes)
                    if settled is not None:
                        block = Block(number, instance, settled[0], shapes, levels)
                        plan.setdefault(settled[1], []).append(block)
            self._blocks = {level: plan}
        return self._blocks[level]

    def _operands(
        self, instance: Instance, level: int
    ) -> Iterator[tuple[tuple[Shape, ...], tuple[int, ...]]]:
        """Shapes and levels of operands whose operators add up to one less than `level`."""
        present = {
            n: [shape for shape in sorted(self.shelves) if count_of(self.shelves[shape].rows(n))]
            for n in range(level)
        }
        if instance.arity == 1:
            for shape in present[level - 1]:
                yield (shape,), (level - 1,)
            return
        for n in range(level):
            other = level - 1 - n
            if instance.commutative and n > other:
                continue
            for left in present[n]:
                for right in present[other]:
                    yield (left, right), (n, other)

    def _kernel(self, number: int, shapes: tuple[Shape, ...]) -> tuple[Kernel, Shape] | None:
        key = number, shapes
        if key not in self._kernels:
            instance = self.vocabulary.instances[number]
            params = self.vocabulary.parameters(instance, *shapes)
            settled = None
            if params is not None:
                most = self.vocabulary.most_elements
                shape = result_shape(instance, params, shapes, most)
                assert shape is not None
                settled = kernel_of(instance.op, params, shapes), shape
            self._kernels[key] = settled
        return self._kernels[key]

    # Values

    def values(self, identifiers: Numbers) -> Values:
        """The values of representatives of one shape whose level is materialized."""
        shape = self.places[int(identifiers[0])][0]
        rows = np.array([self.places[int(n)][1] for n in identifiers])
        return _gathered(self.shelves[shape], rows)

    def inputs_of(self, shape: Shape) -> list[int]:
        """The numbers of the inputs of a shape."""
        return [n for n, tensor in enumerate(self.vocabulary.inputs) if tensor.shape == shape]

    def constants_of(self, shape: Shape) -> list[int]:
        """The numbers of the constants of a shape; they follow the inputs."""
        inputs = len(self.vocabulary.inputs)
        constants = enumerate(self.vocabulary.constants, start=inputs)
        return [number for number, constant in constants if constant.shape == shape]

    def functional(self, shape: Shape) -> Functional:
        """The functional of a shape."""
        shelf = self.shelves.get(shape)
        return Functional.of(shape, self.worlds) if shelf is None else shelf.functional

    def leaves(self, numbers: list[int]) -> Values:
        """The values of inputs, or of constants, which are numbered after them."""
        values = []
        for number in numbers:
            if number < len(self.vocabulary.inputs):
                tensor = self.vocabulary.inputs[number]
                values.append(random_values(tensor.shape, self.worlds, number))
            else:
                constant = self.vocabulary.constants[number - len(self.vocabulary.inputs)]
                values.append(constant_values(constant.like(constant.shape), self.worlds))
        return Values(
            np.concatenate([value.residues for value in values], axis=1),
            np.concatenate([value.shadows for value in values], axis=1),
        )

    def _materialize(self, shape: Shape, level: int, combined: bool) -> None:
        """Compute the values of a level's representatives of one shape, and what derives."""
        shelf = self.shelves[shape]
        rows = shelf.rows(level)
        count = count_of(rows)
        if not count:
            return
        size = int(np.prod(shape, dtype=int))
        linear, others = self._unary(shape, size)
        adjoints = np.zeros((self.worlds.count, size, len(linear)))
        for column, (_, vector) in enumerate(linear):
            adjoints[:, : vector.shape[1], column] = vector
        channels = len(self.worlds.moduli)
        residues = np.empty((channels, count, *shape), np.float32)
        kept = self.worlds.count if combined else 0
        shadows = np.empty((kept, count, *shape))
        derived: dict[int, list[Keys]] = {}
        identifiers = shelf.identifiers[rows]
        step = max(1, COMPUTED_ELEMENTS // max(size, 1))
        for start in range(0, count, step):
            chosen = identifiers[start : start + step]
            values = self._computed(self.nodes[chosen], shape)
            residues[:, start : start + step] = values.residues
            if kept:
                shadows[:, start : start + step] = values.shadows
            if linear:
                results = shelf.functional.of_results(adjoints, values)
                for (number, _), keys in zip(linear, results, strict=True):
                    derived.setdefault(number, []).append(keys)
            for number, kernel, functional in others:
                result = compute(kernel, self.worlds, values)
                derived.setdefault(number, []).append(functional.of_values(result))
        shelf.residues.append(residues)
        shelf.shadows.append(shadows)
        for number, parts in derived.items():
            shelf.derived.setdefault(number, []).append(np.concatenate(parts))

    def _unary(
        self, shape: Shape, size: int
    ) -> tuple[list[tuple[int, Floats]], list[tuple[int, Kernel, Functional]]]:
        """One-operand instances on a shape: the linear ones with their adjoints, the others."""
        linear: list[tuple[int, Floats]] = []
        others: list[tuple[int, Kernel, Functional]] = []
        for number, instance in enumerate(self.vocabulary.instances):
            settled = self._kernel(number, (shape,)) if instance.arity == 1 else None
            if settled is None:
                continue
            kernel, functional = settled[0], self.functional(settled[1])
            assert isinstance(kernel, Move | Fold | Pointwise)
            vector = adjoint(kernel, functional)
            if vector is None:
                others.append((number, kernel, functional))
            else:
                linear.append((number, vector))
        return linear, others

    def _computed(self, nodes: Nodes, shape: Shape) -> Values:
        """The values of terms of one shape from those of their operands, in order."""
        worlds = self.worlds
        residues = np.empty((len(worlds.moduli), len(nodes), *shape))
        shadows = np.empty((worlds.count, len(nodes), *shape))
        for chosen, kernel, operands in self._by_operand_shapes(nodes):
            if kernel is None:
                values = self.leaves([int(n) for n in nodes.left[chosen]])
            else:
                values = compute(kernel, worlds, *(self.values(part) for part in operands))
            residues[:, chosen] = values.residues
            shadows[:, chosen] = values.shadows
        return Values(residues, shadows)

    def _by_operand_shapes(
        self, nodes: Nodes
    ) -> Iterator[tuple[Numbers, Kernel | None, tuple[Numbers, ...]]]:
        """Groups of terms with one kernel: their positions, the kernel, operand identifiers."""
        groups: dict[tuple[int, tuple[Shape, ...]], list[int]] = {}
        rows = zip(nodes.instance.tolist(), nodes.left.tolist(), nodes.right.tolist(), strict=True)
        for position, (instance, left, right) in enumerate(rows):
            operands = () if instance == LEAF else (left,) if right < 0 else (left, right)
            shapes = tuple(self.places[operand][0] for operand in operands)
            groups.setdefault((instance, shapes), []).append(position)
        for (instance, shapes), positions in groups.items():
            chosen = np.array(positions)
            if instance == LEAF:
                yield chosen, None, ()
                continue
            settled = self._kernel(instance, shapes)
            assert settled is not None
            sides = (nodes.left[chosen], nodes.right[chosen])
            yield chosen, settled[0], sides[: len(shapes)]


def count_of(rows: slice) -> int:
    """The number of rows."""
    return int(rows.stop - rows.start)


def _gathered(shelf: Shelf, rows: Numbers) -> Values:
    """The values of rows of a shelf, from the arrays of its levels."""
    starts = np.cumsum([0, *(part.shape[1] for part in shelf.residues)])
    piece = np.searchsorted(starts, rows, side="right") - 1
    channels = shelf.residues[0].shape[0]
    worlds = shelf.shadows[0].shape[0]
    residues = np.empty((channels, len(rows), *shelf.shape))
    shadows = np.empty((worlds, len(rows), *shelf.shape))
    for number in np.unique(piece):
        chosen = piece == number
        local = rows[chosen] - starts[number]
        residues[:, chosen] = shelf.residues[number][:, local]
        shadows[:, chosen] = shelf.shadows[number][:, local]
    return Values(residues, shadows)

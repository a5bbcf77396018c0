"""One level of growth over values: only one term for each value is ever combined again.

What it does: level n holds the terms with n operators. Its terms are the operators applied to
representatives whose operator counts add up to n - 1. Their fingerprints come from projections of
the operands (`projections`), and terms with equal fingerprints and shapes *collide*: the first term
of a value is its representative, every other one an equation.

Terms are trees: a subterm that occurs twice counts twice. Operands of commutative operators are
ordered, which leaves out nothing but renamings of the same equation.

What it does not: compute values (`population`), judge equations (`candidates`, `retest`), keep
files (`records`).

Memory: the keys of one result shape of one level at a time, 8 bytes for each term and as much again
to sort them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphopt.enumerate.fields import Keys, product
from graphopt.enumerate.kernels import (
    Concatenation,
    Convolution,
    Elementwise,
    MatrixProduct,
)
from graphopt.enumerate.nodes import LEAF, Nodes, Numbers, Part
from graphopt.enumerate.population import Block, Population, Shelf, count_of
from graphopt.enumerate.projections import project, projections
from tensorgen.types import Shape

TILE = 2**18
"""Pairs of operands whose keys are computed at once."""

ROW_ELEMENTS = 2**21
"""Elements of left operands that are projected at once."""


def find(population: Population, level: int, shape: Shape, last: bool) -> Part:
    """What a level finds among the results of one shape; `last` if no other level follows."""
    generated = _Generated(population, shape)
    if level == 0:
        generated.leaves(population.inputs_of(shape))
    else:
        if level == 1:
            generated.leaves(population.constants_of(shape))
        for block in population.blocks(level, shape):
            generated.block(block)
    return generated.sorted_out(last)


class _Generated:
    """The keys of all terms of one level and shape, and how to find their roots again."""

    def __init__(self, population: Population, shape: Shape) -> None:
        self.population = population
        self.shape = shape
        self.functional = population.functional(shape)
        self.keys: list[Keys] = []
        self.origins: list[tuple[int, Numbers, Numbers]] = []
        self.chosen: list[Numbers | None] = []
        self.undefined = 0

    def leaves(self, numbers: list[int]) -> None:
        """Inputs or constants."""
        if numbers:
            keys = self.functional.of_values(self.population.leaves(numbers))
            self._add(keys, LEAF, np.array(numbers), np.array([-1]), None)

    def block(self, block: Block) -> None:
        """All terms of a block."""
        left = self.population.shelves[block.shapes[0]]
        rows = left.rows(block.levels[0])
        if block.instance.arity == 1:
            keys = left.derived[block.number][left.piece(rows)]
            self._add(keys, block.number, left.identifiers[rows], np.array([-1]), None)
            return
        right = self.population.shelves[block.shapes[1]]
        columns = right.rows(block.levels[1])
        worlds, primes = self.population.worlds.count, self.functional.primes
        others, b = right.identifiers[columns], _residues(right, columns, worlds)
        if block.instance.op.name == "div":
            nonzero = (b != 0).all(axis=(0, 2))
            self.undefined += int((~nonzero).sum()) * count_of(rows)
            others, b = others[nonzero], b[:, nonzero]
        if not len(others):
            return
        assert isinstance(block.kernel, Concatenation | Elementwise | MatrixProduct | Convolution)
        of_left, of_right = projections(block.kernel, self.functional)
        y = project(of_right, b.astype(np.float64), primes).swapaxes(-1, -2)
        a, ids = _residues(left, rows, worlds), left.identifiers[rows]
        step = max(1, min(TILE // len(others), ROW_ELEMENTS // max(1, a.shape[2])))
        for start in range(0, len(ids), step):
            chosen = slice(start, start + step)
            x = project(of_left, a[:, chosen].astype(np.float64), primes)
            keys = self.functional.keys(product(x, y, primes)).reshape(-1)
            ordered = None
            if block.unordered:
                ordered = np.flatnonzero((ids[chosen, None] <= others).reshape(-1))
            self._add(keys, block.number, ids[chosen], others, ordered)

    def _add(
        self, keys: Keys, number: int, left: Numbers, right: Numbers, chosen: Numbers | None
    ) -> None:
        """Keys of all pairs of two sets of operands, row by row; of the `chosen` ones, if given."""
        self.keys.append(keys if chosen is None else keys[chosen])
        self.origins.append((number, left, right))
        self.chosen.append(chosen)

    def nodes(self, positions: Numbers) -> Nodes:
        """The roots of terms by their position among all keys of this level."""
        ends = np.cumsum([len(part) for part in self.keys])
        piece = np.searchsorted(ends, positions, side="right")
        instance = np.empty(len(positions), np.int64)
        left, right = np.empty_like(instance), np.empty_like(instance)
        order = np.argsort(piece, kind="stable")
        bounds = np.searchsorted(piece[order], np.arange(len(self.keys) + 1))
        for number in np.flatnonzero(np.diff(bounds)):
            where = order[bounds[number] : bounds[number + 1]]
            local = positions[where] - (ends[number] - len(self.keys[number]))
            selection = self.chosen[number]
            flat = local if selection is None else selection[local]
            which, lefts, rights = self.origins[number]
            instance[where] = which
            left[where] = lefts[flat // len(rights)]
            right[where] = rights[flat % len(rights)]
        return Nodes(instance, left, right)

    def sorted_out(self, last: bool) -> Part:
        """Representatives and collisions."""
        shelf = self.population.shelves.get(self.shape)
        nothing = np.zeros(0, np.int64)
        old_keys = np.zeros(0, np.uint64) if shelf is None else shelf.keys
        identifiers = nothing if shelf is None else shelf.identifiers
        keys = np.concatenate([old_keys, *self.keys])
        count = len(old_keys)
        new, others, firsts = _first_of_each(keys, count)
        known = np.full(len(firsts), -1)
        is_old = firsts < count
        known[is_old] = identifiers[firsts[is_old]]
        return Part(
            shape=self.shape,
            generated=len(keys) - count,
            undefined=self.undefined,
            distinct=len(new),
            found=self.nodes(nothing if last else new - count),
            keys=keys[nothing if last else new],
            others=self.nodes(others - count),
            firsts=self._roots(firsts - count, known),
            known=known,
        )

    def _roots(self, positions: Numbers, known: Numbers) -> Nodes:
        """The roots of representatives: known ones by identifier, others by position."""
        is_old = known >= 0
        new = self.nodes(positions[~is_old])
        old = self.population.nodes[known[is_old]]
        order = np.concatenate([np.flatnonzero(~is_old), np.flatnonzero(is_old)])
        return Nodes.joined([new, old])[np.argsort(order)]


def _first_of_each(keys: Keys, count: int) -> tuple[Numbers, Numbers, Numbers]:
    """Positions of new keys, of keys that occurred before, and of their first occurrences.

    The first `count` keys are known and distinct; the positions of all others are told, in order.
    """
    order = np.argsort(keys)
    ranked = keys[order]
    begins = np.flatnonzero(np.concatenate([[len(keys) > 0], ranked[1:] != ranked[:-1]]))
    if not len(keys):
        return order, order, order
    firsts = np.minimum.reduceat(order, begins)
    repeated = np.repeat(firsts, np.diff(np.append(begins, len(keys))))
    colliding = (order != repeated) & (order >= count)
    others, first = order[colliding], repeated[colliding]
    by_position = np.argsort(others)
    return np.sort(firsts[firsts >= count]), others[by_position], first[by_position]


def _residues(shelf: Shelf, rows: slice, worlds: int) -> NDArray[np.float32]:
    """Residues modulo the primes (worlds, n, elements) of the rows of one level."""
    part = shelf.residues[shelf.piece(rows)][:worlds]
    return part.reshape(worlds, count_of(rows), -1)

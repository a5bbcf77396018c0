"""Linear functionals of results without the results: fingerprints of all pairs by one product.

What it does: a fingerprint of a tensor is a linear functional of its residues in each world, which
different tensors share with a probability of about (rank / prime)**worlds (Schwartz-Zippel). How
such a functional of an operator's result splits into functionals of its operands is said here for
every kernel: all two-operand kernels are linear in each operand or a sum of both, so

    <r, op(a, b)> = sum over k of left(a)[k] * right(b)[k]

with `left` and `right` linear and short. One matrix product then gives the fingerprints of the
results of all pairs of a batch of a and a batch of b.

What it does not: compute results (`kernels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import assert_never

import numpy as np

from graphopt.enumerate.fields import Floats, Keys, Values, Worlds, inverse, product, reduced
from graphopt.enumerate.kernels import (
    BinaryKernel,
    Concatenation,
    Convolution,
    Elementwise,
    Fold,
    Indices,
    MatrixProduct,
    Move,
    Pointwise,
    UnaryKernel,
)
from tensorgen.types import Shape

# Functionals


@dataclass(frozen=True, slots=True)
class Functional:
    """A linear functional of tensors of one shape: a product of one vector for each axis.

    `vectors[axis]` is (worlds, size). `mix` has one odd 64-bit number for each world.
    """

    vectors: tuple[Floats, ...]
    mix: Keys
    primes: tuple[int, ...]

    @staticmethod
    def of(shape: Shape, worlds: Worlds) -> Functional:
        """The functional of a shape; different shapes have unrelated ones."""
        rng = worlds.generator(3, *shape)
        vectors = tuple(
            np.stack([rng.integers(1, prime, size) for prime in worlds.primes]).astype(np.float64)
            for size in shape
        )
        mix = worlds.generator(4).integers(0, 2**63, worlds.count, dtype=np.uint64)
        return Functional(vectors, mix * np.uint64(2) + np.uint64(1), worlds.primes)

    def over(self, *axes: int) -> Floats:
        """The product of the vectors of some axes, flattened in their order: (worlds, elements)."""
        result = np.ones((len(self.primes), 1))
        for axis in axes:
            outer = result[:, :, None] * self.vectors[axis][:, None, :]
            result = reduced(outer.reshape(len(self.primes), -1), self.primes)
        return result

    @property
    def flat(self) -> Floats:
        """All coefficients: (worlds, elements)."""
        return self.over(*range(len(self.vectors)))

    def keys(self, values: Floats) -> Keys:
        """One 64-bit key for each residue modulo the primes (worlds, …): the fingerprint."""
        parts = (
            values[world].astype(np.uint64) * self.mix[world] for world in range(len(self.primes))
        )
        return reduce(np.add, parts)

    def of_values(self, values: Values) -> Keys:
        """The fingerprints of a batch: (n,)."""
        flat = values.flat()[0][: len(self.primes)]
        return self.keys(product(flat, self.flat[:, :, None], self.primes)[..., 0])

    def of_results(self, adjoints: Floats, values: Values) -> Keys:
        """The fingerprints of results by adjoint functionals (worlds, elements, m): (m, n)."""
        flat = values.flat()[0][: len(self.primes)]
        return self.keys(product(flat, adjoints, self.primes)).T


# Projections


@dataclass(frozen=True, slots=True)
class Dense:
    """a -> a M, for M (worlds, elements, k)."""

    matrix: Floats


@dataclass(frozen=True, slots=True)
class Scaled:
    """a -> each element times a weight (worlds, elements); of the reciprocals with `inverted`."""

    weights: Floats
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class Summand:
    """a -> (<v, a>, 1) for the left operand of a sum, (1, <v, a>) for the right one."""

    vector: Floats
    position: int


Projection = Dense | Scaled | Summand


def project(projection: Projection, residues: Floats, primes: tuple[int, ...]) -> Floats:
    """Projections (worlds, n, k) of a batch (worlds, n, elements)."""
    match projection:
        case Dense():
            return product(residues, projection.matrix, primes)
        case Scaled():
            values = inverse(residues, primes) if projection.inverted else residues
            return reduced(values * projection.weights[:, None, :], primes)
        case Summand():
            pair = np.ones((*residues.shape[:2], 2))
            sums = product(residues, projection.vector[:, :, None], primes)
            pair[..., projection.position] = sums[..., 0]
            return pair
        case _:
            assert_never(projection)


def _matrix(
    shape: tuple[int, int],
    rows: Indices,
    columns: Indices,
    entries: Floats,
    primes: tuple[int, ...],
) -> Dense:
    """The projection whose matrix holds the sums of `entries` (worlds, m) at given places."""
    result = np.zeros((len(primes), *shape))
    for world in range(len(primes)):
        np.add.at(result[world], (rows, columns), entries[world])
    return Dense(reduced(result, primes))


# Projections of a result


def adjoint(kernel: UnaryKernel, functional: Functional) -> Floats | None:
    """The functional of the operand that is that of the result (worlds, elements).

    None if the operator is not linear. `Move` and `Fold` name elements of the operand by number,
    the largest of which need not occur: the result may be shorter than the operand.
    """
    match kernel:
        case Move():
            sources = kernel.source[:, None]
        case Fold() if not kernel.largest:
            sources = kernel.sources
        case Pointwise(name="neg"):
            return reduced(-functional.flat, functional.primes)
        case Fold() | Pointwise():
            return None
        case _:
            assert_never(kernel)
    results = np.broadcast_to(np.arange(len(sources))[:, None], sources.shape)
    inside = sources >= 0
    size = int(sources.max()) + 1
    entries = functional.flat[:, results[inside]]
    column = np.zeros(int(inside.sum()), np.intp)
    return _matrix((size, 1), sources[inside], column, entries, functional.primes).matrix[..., 0]


def projections(kernel: BinaryKernel, functional: Functional) -> tuple[Projection, Projection]:
    """How a functional of the result splits into projections of the operands."""
    r, primes = functional.flat, functional.primes
    match kernel:
        case Concatenation():
            sizes = len(kernel.source)
            spread = np.zeros((len(primes), sizes))
            spread[:, kernel.source] = r
            return Summand(spread[:, : kernel.cut], 0), Summand(spread[:, kernel.cut :], 1)
        case Elementwise():
            return _elementwise_projections(kernel, r, primes)
        case MatrixProduct():
            return _matrix_projections(kernel, functional)
        case Convolution():
            return _convolution_projections(kernel, functional)
        case _:
            assert_never(kernel)


def _elementwise_projections(
    kernel: Elementwise, r: Floats, primes: tuple[int, ...]
) -> tuple[Projection, Projection]:
    sizes = int(kernel.left.max()) + 1, int(kernel.right.max()) + 1
    if kernel.name in ("add", "sub"):
        vectors = []
        for places, size in zip((kernel.left, kernel.right), sizes, strict=True):
            column = np.zeros(len(places), np.intp)
            vectors.append(_matrix((size, 1), places, column, r, primes).matrix[..., 0])
        if kernel.name == "sub":
            vectors[1] = reduced(-vectors[1], primes)
        return Summand(vectors[0], 0), Summand(vectors[1], 1)
    inverted = kernel.name == "div"
    unit = Scaled(np.ones((len(primes), sizes[1])), inverted)
    if sizes[0] == sizes[1] == len(kernel.left):
        return Scaled(r), unit
    return _matrix(sizes, kernel.left, kernel.right, r, primes), unit


def _matrix_projections(
    kernel: MatrixProduct, functional: Functional
) -> tuple[Projection, Projection]:
    rank = len(kernel.shape)
    primes = functional.primes
    batch, inner = kernel.shape[:-2], kernel.left[-1]
    columns = np.arange(int(np.prod(batch, dtype=int)) * inner).reshape(*batch, inner)

    def entries(shape: Shape, axis: int, coefficients: Floats, column: Indices) -> Dense:
        """Element (*batch, …) of an operand goes to its column, times its coefficient."""
        own = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
        whole = (*batch, *shape[-2:])
        rows = np.broadcast_to(own, whole)
        size = int(np.prod(whole, dtype=int))
        target = np.broadcast_to(np.expand_dims(column, axis), whole)
        weights = np.broadcast_to(coefficients, (len(primes), *whole)).reshape(len(primes), size)
        place = (int(np.prod(shape, dtype=int)), columns.size)
        return _matrix(place, rows.reshape(-1), target.reshape(-1), weights, primes)

    outer = functional.over(*range(rank - 1)).reshape(len(primes), *kernel.shape[:-1], 1)
    right = functional.over(rank - 1).reshape(len(primes), *(1,) * (rank - 1), -1)
    return entries(kernel.left, -2, outer, columns), entries(kernel.right, -1, right, columns)


def _convolution_projections(
    kernel: Convolution, functional: Functional
) -> tuple[Projection, Projection]:
    primes = functional.primes
    n, c, outputs, terms = kernel.windows.shape
    rank = len(kernel.shape)
    numbers = np.arange(c * terms).reshape(1, c, 1, terms)
    columns = np.broadcast_to(numbers, kernel.windows.shape)
    weights = functional.over(0, *range(2, rank)).reshape(len(primes), n, 1, outputs, 1)
    inside = kernel.windows >= 0
    entries = np.broadcast_to(weights, (len(primes), *kernel.windows.shape))[:, inside]
    left = _matrix(
        (kernel.elements, c * terms), kernel.windows[inside], columns[inside], entries, primes
    )
    filters, within = kernel.weights[:2]
    group = np.arange(filters) // (filters // kernel.groups)
    channel = group[:, None] * within + np.arange(within)
    column = channel[..., None] * terms + np.arange(terms)
    factors = np.broadcast_to(
        functional.over(1)[:, :, None, None], (len(primes), filters, within, terms)
    )
    own = np.arange(column.size)
    right = _matrix(
        (column.size, c * terms), own, column.reshape(-1),
        factors.reshape(len(primes), -1), primes,
    )  # fmt: skip
    return left, right

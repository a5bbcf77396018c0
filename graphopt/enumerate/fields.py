"""Exact arithmetic on many tensors at once: rational numbers modulo primes, in float64.

What it does: holds a batch of tensors in several independent *worlds*. In each world the inputs are
other random rational numbers, and every element is kept twice: modulo the world's prime, exactly,
and as a float64 *shadow* of its true value. Sums and products need the residues alone. What depends
on the order of the reals (relu, maximum) takes the residue of whichever operand the shadow says, so
such an operator means exactly what it means on real numbers. (Without shadows one would let the
quadratic character of F_p, p = 3 mod 4, stand for the sign: it knows that products of signs are
signs, but not that sums of positive numbers are positive, and has no maximum of several numbers.)

Primes are p = 2q + 1 below 2**23 with q prime: a product is below 2**46, so a sum of 127 products
is exact in float64 and matrix products may go through BLAS. Where exponentials occur, elements are
also kept modulo q, and exp(x) is g**(x mod q) modulo p for a generator g of the squares, so that
exp(x + y) = exp(x) exp(y). Modulo q the result, like sigmoid and tanh altogether, is a random
function of its argument's residue: equal arguments give equal results and nothing else is known.

What it does not: know operators or terms (`kernels`, `vocabulary`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from tensorgen.types import Shape

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]

LIMIT = 2**23
"""Primes are below this."""

MAX_TERMS = 127
"""So many products of residues add up exactly: 127 * (2**23)**2 < 2**53."""

_DENOMINATOR = 2**19
"""Random inputs are whole multiples of its reciprocal, so that they are of the order of 1."""

_RANGES = (
    (-_DENOMINATOR, _DENOMINATOR),
    (-_DENOMINATOR, _DENOMINATOR // 8),
    (-_DENOMINATOR // 8, _DENOMINATOR),
)
"""What the numerators of random inputs lie between, in turn for each world."""


def is_prime(number: int) -> bool:
    """Whether a number below 2**46 is prime, by trial division."""
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


@cache
def safe_primes(count: int, skipped: int = 0) -> tuple[int, ...]:
    """The largest primes p = 2q + 1 below 2**23 with q prime, after leaving out some."""
    found: list[int] = []
    number = LIMIT - 1
    while len(found) < skipped + count:
        if is_prime(number) and is_prime(number // 2):
            found.append(number)
        number -= 4
    return tuple(found[skipped:])


@dataclass(frozen=True)
class Worlds:
    """The primes, and whether elements are kept modulo (p - 1) / 2 too; `seed` draws all data."""

    primes: tuple[int, ...]
    exponents: bool
    seed: int

    @property
    def count(self) -> int:
        """Number of worlds."""
        return len(self.primes)

    @cached_property
    def moduli(self) -> tuple[int, ...]:
        """The modulus of each channel: the primes, then with `exponents` the orders."""
        orders = tuple(prime // 2 for prime in self.primes) if self.exponents else ()
        return (*self.primes, *orders)

    def generator(self, *purpose: int) -> np.random.Generator:
        """Random numbers that depend on the seed and the purpose alone."""
        return np.random.default_rng((self.seed, *purpose))


@dataclass(frozen=True, slots=True)
class Values:
    """A batch of tensors of one shape.

    `residues` is (channels, n, *shape), one channel for each modulus; `shadows` is
    (worlds, n, *shape).
    """

    residues: Floats
    shadows: Floats

    @property
    def count(self) -> int:
        """Number of tensors."""
        return int(self.residues.shape[1])

    @property
    def shape(self) -> Shape:
        """The shape of each tensor."""
        return tuple(int(size) for size in self.residues.shape[2:])

    def flat(self) -> tuple[Floats, Floats]:
        """Residues and shadows as (channels or worlds, n, elements)."""
        count = self.count
        return (
            self.residues.reshape(len(self.residues), count, -1),
            self.shadows.reshape(len(self.shadows), count, -1),
        )


def reduced(numbers: Floats, moduli: tuple[int, ...]) -> Floats:
    """Whole numbers between -2**52 and 2**53 modulo the modulus of their channel (axis 0).

    The quotient is exact after rounding down: a number just below a multiple k of the modulus is
    1/p > 2**-23 away from it when divided, and k < 2**30 leaves 23 bits for that.
    """
    column = np.array(moduli, np.float64).reshape((-1,) + (1,) * (numbers.ndim - 1))
    quotients = numbers / column
    np.floor(quotients, out=quotients)
    quotients *= column
    return np.subtract(numbers, quotients, out=quotients)


def product(left: Floats, right: Floats, moduli: tuple[int, ...]) -> Floats:
    """Stacked matrix products (channels, …, i, k) (channels, …, k, j) of residues."""
    terms = left.shape[-1]
    if terms <= MAX_TERMS:
        return reduced(np.matmul(left, right), moduli)
    total: Floats | None = None
    for start in range(0, terms, MAX_TERMS):
        chosen = slice(start, start + MAX_TERMS)
        part = reduced(np.matmul(left[..., chosen], right[..., chosen, :]), moduli)
        total = part if total is None else total + part
    assert total is not None
    return reduced(total, moduli)


def power(base: Floats, exponent: int, modulus: int) -> Floats:
    """Residues to a power, element by element."""
    result = np.ones_like(base)
    factor = base
    while exponent:
        if exponent & 1:
            result = np.mod(result * factor, modulus)
        factor = np.mod(factor * factor, modulus)
        exponent >>= 1
    return result


def inverse(residues: Floats, moduli: tuple[int, ...]) -> Floats:
    """The reciprocal of each residue; that of 0 is 0."""
    parts = [
        power(channel, modulus - 2, modulus)
        for channel, modulus in zip(residues, moduli, strict=True)
    ]
    return np.stack(parts)


@cache
def _powers(prime: int) -> Floats:
    """g**k modulo the prime for k = 0 … q - 1, where g = 4 generates the squares."""
    order = prime // 2
    table = np.ones(1)
    while len(table) < order:
        step = pow(4, len(table), prime)
        table = np.concatenate([table, np.mod(table * step, prime)])
    return table[:order]


def exponentials(residues: Floats, worlds: Worlds) -> Floats:
    """exp of a batch, all channels."""
    assert worlds.exponents
    arguments = residues[worlds.count :].astype(np.int64)
    parts = [_powers(prime)[k] for prime, k in zip(worlds.primes, arguments, strict=True)]
    results = np.stack(parts)
    orders = random_function(residues, worlds, 1)[worlds.count :]
    return np.concatenate([results, orders])


def random_function(residues: Floats, worlds: Worlds, which: int) -> Floats:
    """A random function of the residues modulo the primes, one for each number `which`."""
    arguments = residues[: worlds.count].astype(np.uint64)
    parts = []
    for channel, modulus in enumerate(worlds.moduli):
        salt = worlds.generator(which, channel).integers(0, 2**63, dtype=np.uint64)
        mixed = _mixed(arguments[channel % worlds.count] + salt)
        parts.append((mixed % np.uint64(modulus)).astype(np.float64))
    return np.stack(parts)


def _mixed(numbers: Keys) -> Keys:
    """Each number scattered over 64 bits (the finalizer of splitmix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def random_values(shape: Shape, worlds: Worlds, *purpose: int) -> Values:
    """One tensor of random rationals of the order of 1 in each world.

    Elements are mostly negative in some worlds and mostly positive in others, and a tensor of one
    element is negative in every other world, so that values that are equal for numbers of one sign
    only are told apart.
    """
    numbers = np.empty((worlds.count, *shape), np.int64)
    for world in range(worlds.count):
        rng = worlds.generator(2, world, *purpose)
        low, high = _RANGES[world % len(_RANGES)]
        numbers[world] = rng.integers(low, high, size=shape)
        if math.prod(shape) == 1:
            numbers[world] = (abs(numbers[world]) + 1) * (1 - 2 * (world % 2))
    return _rationals(numbers, _DENOMINATOR, worlds)


def constant_values(array: NDArray[np.int64], worlds: Worlds) -> Values:
    """One tensor of given whole numbers, the same in each world."""
    return _rationals(np.stack([array] * worlds.count), 1, worlds)


def _rationals(numerators: NDArray[np.int64], denominator: int, worlds: Worlds) -> Values:
    residues = []
    for channel, modulus in enumerate(worlds.moduli):
        scale = pow(denominator, -1, modulus)
        residues.append(
            np.mod(np.mod(numerators[channel % worlds.count], modulus) * scale, modulus)
        )
    exact = np.stack(residues).astype(np.float64)
    return Values(exact[:, None], (numerators / denominator)[:, None])

"""From collisions to candidate equations: pruning, canonical form, tests.

What it does: of the collisions of a level it drops, on arrays, those that are renamings of others;
of the rest it forms equations in canonical form, cut where both sides share subterms, and tests
each form once.

Renaming: inputs of one shape are interchangeable, so an equation is needed for one choice of them
only. It is kept if the inputs of its value are the first of their shapes; names are then settled
by the canonical form. (The inputs that a value is computed from are a property of the value, since
its representative is a smallest term, and go over into those of the renamed value; the inputs of
the other term may be more, and are no reason to drop it.)

Shared subterms: TASO drops an equation whose sides share a subterm, as an instance of a smaller
one. That is so only if the equation with a variable in the subterm's place holds, which is tested:
relu(relu(x)) = relu(x) shares relu(x), and relu(y) = y is false. What holds is the candidate.
Subterms of one side that have no input in common with the other side are cut in the same way.

What it does not: compute values (`levels`), say candidates in the rule language (`rule_text`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from graphopt.enumerate.counts import Counts
from graphopt.enumerate.nodes import LEAF, Nodes, Numbers, Part
from graphopt.enumerate.population import Population
from graphopt.enumerate.retest import Fails, Holds, Outcome, Untested, retest
from graphopt.enumerate.sizes import Grouping
from graphopt.enumerate.trees import (
    Equation,
    Forest,
    Root,
    is_instance,
    operator_count,
    skeleton,
)


@dataclass(frozen=True, slots=True)
class Found:
    """An equation that passed all tests: at which level, and for which groups it is claimed."""

    equation: Equation
    level: int
    grouping: Grouping


@dataclass(frozen=True, slots=True)
class Accepted:
    """A collision whose equation passed the tests, in terms of identifiers.

    `known` is the identifier of the second root or -1, `cut` holds those of the cut subterms.
    """

    first: Root
    second: Root
    known: int
    cut: tuple[int, ...]
    grouping: Grouping


@dataclass(frozen=True, slots=True)
class Sifted:
    """What became of the collisions of one part: a number for each fate, and what was accepted."""

    generated: int
    undefined: int
    distinct: int
    fates: tuple[tuple[str, int], ...]
    accepted: tuple[Accepted, ...]


FATES = ("renamed", "shared", "duplicate", "special", "failed", "untested", "candidates")
"""What can become of a collision: fields of `Counts`."""


class Sieve:
    """Equations seen so far, and what the tests said of them."""

    def __init__(self, population: Population, seed: int) -> None:
        self.population = population
        self.seed = seed
        self.forest = Forest(population)
        self.outcomes: dict[str, Outcome] = {}
        self.found: dict[str, Found] = {}
        self._fates: dict[tuple[int, ...], str] = {}
        self._families: dict[tuple[str, str], list[str]] = {}
        self._supports = np.zeros(0, np.int64)
        self._inputs_below: list[int] = []  # the same, for one at a time
        self._accepted: list[Accepted] = []

    def sift(self, level: int, part: Part) -> Sifted:
        """Judge the collisions of one part of a level that is not yet admitted."""
        self._extend_supports()
        self._accepted = []
        tally = dict.fromkeys(FATES, 0)
        kept = np.flatnonzero(self._initial(part.firsts))
        tally["renamed"] = len(part.others) - len(kept)
        # What has more variables comes first: of an equation and its special case, the equation.
        variables = np.bitwise_count(self._support(part.firsts[kept])).astype(np.int64)
        kept = kept[np.argsort(-variables, kind="stable")]
        for first, second, known in _pairs(part, kept):
            tally[self._judge(level, first, second, known)] += 1
        fates = tuple(tally.items())
        accepted = tuple(self._accepted)
        return Sifted(part.generated, part.undefined, part.distinct, fates, accepted)

    def recall(self, level: int, sifted: Sifted) -> None:
        """Take in what was sifted before, in place of sifting it."""
        for item in sifted.accepted:
            cut = frozenset(item.cut)
            equation = self.forest.equation(item.first, item.second, item.known, cut)
            self._keep(equation, level, Holds(item.grouping))

    def close(self, level: int, sifted: list[Sifted]) -> Counts:
        """The counts of a level all of whose parts are sifted or recalled."""
        tally = dict.fromkeys(FATES, 0)
        for part in sifted:
            for fate, count in part.fates:
                tally[fate] += count
        dropped = self._drop_special(level)
        tally["special"] += dropped
        tally["candidates"] -= dropped
        return Counts(
            level=level,
            generated=sum(part.generated for part in sifted),
            undefined=sum(part.undefined for part in sifted),
            distinct=sum(part.distinct for part in sifted),
            equations=sum(count for part in sifted for _, count in part.fates),
            **tally,
        )

    def _judge(self, level: int, first: Root, second: Root, known: int) -> str:
        """What becomes of one collision: the name of a field of `Counts`."""
        forest = self.forest
        below = forest.proper(second) if known < 0 else forest.subterms(known)
        shared = forest.proper(first) & below
        idle = self._idle(first, second) - shared
        for cut in (shared | idle, shared) if idle else (shared,):
            if not cut:
                continue
            fate = self._settled(level, first, second, known, cut)
            if fate == "candidates":
                return fate
            if fate in ("duplicate", "special"):
                return "shared"
        return self._settled(level, first, second, known, frozenset())

    def _idle(self, first: Root, second: Root) -> frozenset[int]:
        """Subterms of the first side that have no input in common with the second side."""
        inputs = self._inputs_of(second)
        if inputs == self._inputs_of(first):
            return frozenset()
        subterms = self.forest.proper(first)
        return frozenset(n for n in subterms if not self._inputs_below[n] & inputs)

    def _inputs_of(self, root: Root) -> int:
        if root[0] == LEAF:
            inputs = len(self.population.vocabulary.inputs)
            return 1 << root[1] if root[1] < inputs else 0
        right = self._inputs_below[root[2]] if root[2] >= 0 else 0
        return self._inputs_below[root[1]] | right

    def _settled(
        self, level: int, first: Root, second: Root, known: int, cut: frozenset[int]
    ) -> str:
        """The fate of a collision with some subterms cut.

        "duplicate" stands for an equation seen before that holds, "failed" and "untested" for one
        that does not, whether seen before or not.
        """
        signature = self.forest.signature(first, second, known, cut)
        fate = self._fates.get(signature)
        if fate is not None:
            return fate
        equation = self.forest.equation(first, second, known, cut)
        text = str(equation)
        outcome = self.outcomes.get(text)
        if outcome is None and self._general(equation) is not None:
            self._fates[signature] = "special"
            return "special"
        seen = outcome is not None
        if outcome is None:
            alike = equation.left == equation.right
            outcome = Holds(Grouping.ANY) if alike else retest(equation, self.seed)
            self.outcomes[text] = outcome
            if isinstance(outcome, Holds) and not alike:
                self._keep(equation, level, outcome)
                self._accepted.append(
                    Accepted(first, second, known, tuple(sorted(cut)), outcome.grouping)
                )
            seen = alike
        match outcome:
            case Holds():
                self._fates[signature] = "duplicate"
                return "duplicate" if seen else "candidates"
            case Fails():
                self._fates[signature] = "failed"
            case Untested():
                self._fates[signature] = "untested"
            case _:
                assert_never(outcome)
        return self._fates[signature]

    def _keep(self, equation: Equation, level: int, outcome: Holds) -> None:
        text = str(equation)
        self.outcomes[text] = outcome
        self.found[text] = Found(equation, level, outcome.grouping)
        self._families.setdefault(_family(equation), []).append(text)

    # Variables alike

    def _general(self, equation: Equation) -> str | None:
        """The text of a candidate that gives this equation if some of its variables are alike."""
        own = str(equation)
        for text in self._families.get(_family(equation), ()):
            if text != own and is_instance(equation, self.found[text].equation):
                return text
        return None

    def _drop_special(self, level: int) -> int:
        """Drop candidates of a level that a later one turned out to be more general than."""
        own = [found for found in self.found.values() if found.level == level]
        special = [str(found.equation) for found in own if self._general(found.equation)]
        for text in special:
            found = self.found.pop(text)
            self._families[_family(found.equation)].remove(text)
        return len(special)

    # Renaming

    def _extend_supports(self) -> None:
        """The inputs that each representative is computed from, as bits."""
        levels = self.population.levels_of
        while len(self._supports) < len(levels):
            start = len(self._supports)
            end = int(np.searchsorted(levels, levels[start], side="right"))
            bits = self._support(self.population.nodes[slice(start, end)])
            self._supports = np.concatenate([self._supports, bits])
            self._inputs_below += bits.tolist()

    def _support(self, nodes: Nodes) -> Numbers:
        inputs = len(self.population.vocabulary.inputs)
        leaf = nodes.instance == LEAF
        bits = np.zeros(len(nodes), np.int64)
        is_input = leaf & (nodes.left < inputs)
        bits[is_input] = np.left_shift(1, nodes.left[is_input])
        inner = ~leaf
        bits[inner] = self._supports[nodes.left[inner]]
        two = inner & (nodes.right >= 0)
        bits[two] |= self._supports[nodes.right[two]]
        return bits

    def _initial(self, roots: Nodes) -> NDArray[np.bool_]:
        """Whether the inputs of each shape that occur are the first ones of that shape."""
        bits = self._support(roots)
        result = np.ones(len(roots), np.bool_)
        for group in self.population.vocabulary.interchangeable:
            assert list(group) == list(range(group[0], group[0] + len(group)))
            own = np.right_shift(bits, group[0]) & ((1 << len(group)) - 1)
            result &= (own & (own + 1)) == 0
        return result


def _family(equation: Equation) -> tuple[str, str]:
    """What an equation shares with those that differ from it in their variables alone."""
    left, right = sorted((skeleton(equation.left), skeleton(equation.right)))
    return left, right


def _pairs(part: Part, kept: Numbers) -> Iterator[tuple[Root, Root, int]]:
    others, firsts = part.others[kept], part.firsts[kept]
    columns = (
        others.instance, others.left, others.right,
        firsts.instance, firsts.left, firsts.right, part.known[kept],
    )  # fmt: skip
    for a, b, c, d, e, f, known in zip(*(column.tolist() for column in columns), strict=True):
        yield (a, b, c), (d, e, f), known


def in_order(found: dict[str, Found]) -> tuple[Found, ...]:
    """Candidates from few operators to many, then by text."""
    return tuple(
        candidate
        for _, candidate in sorted(
            found.items(),
            key=lambda item: (
                operator_count(item[1].equation.left) + operator_count(item[1].equation.right),
                item[0],
            ),
        )
    )

"""Making counterexamples smaller.

What it does: tries smaller sizes, parameters and elements, in a fixed order, and keeps each change
after which both sides still differ, until none of them helps. Sizes depend on each other, so they
are changed together: all equal ones, then one, two or three at a time. What it does not: promise
the least of all counterexamples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations

import numpy as np

from graphopt.graph import Constant, Param, Params
from graphopt.matching import Bindings, evaluate
from graphopt.pattern import Name
from graphopt.rule import Rule
from graphopt.rule_functions import Undefined
from tensorgen.types import Array
from verify.assignment import Assignment, Place, instance_of
from verify.counterexample import Counterexample
from verify.difference import compare

TRIALS = 3000
"""So many changes are tried."""

MOST_SITES = 12
"""Three sizes are changed together where there are no more than this."""

Measure = tuple[int, ...]


def shrunk(counterexample: Counterexample, trials: int = TRIALS) -> Counterexample:
    """A counterexample to the same rule that no single change makes smaller.

    `trials` bounds the changes that are tried. Shrinking twice changes nothing more.
    """
    search = _Search(counterexample, trials)
    any(map(search.accepts, _of_floats(counterexample.assignment)))
    pending = True
    while pending:
        pending = search.sizes()
        pending |= search.parameters()
        pending |= search.elements()
    return search.best


class _Trial(Enum):
    """What came of a change."""

    REFUTES = "smaller, and both sides differ"
    AGREES = "both sides are equal"
    MISFIT = "not smaller, or the rule does not apply"


class _Search:
    """The smallest counterexample so far."""

    def __init__(self, start: Counterexample, trials: int) -> None:
        self.best = start
        self.left = trials

    def accepts(self, assignment: Assignment) -> bool:
        """Whether an assignment is smaller and still refutes; then it is the best."""
        return self.tried(assignment) is _Trial.REFUTES

    def tried(self, assignment: Assignment) -> _Trial:
        if _measure(assignment) >= _measure(self.best.assignment) or self.left <= 0:
            return _Trial.MISFIT
        instance = instance_of(self.best.rule, assignment)
        if instance is None:
            return _Trial.MISFIT
        self.left -= 1
        comparison = compare(instance)
        if comparison.difference is None:
            return _Trial.AGREES
        self.best = Counterexample.of(self.best.rule, instance, comparison)
        return _Trial.REFUTES

    def sizes(self) -> bool:
        """Make sizes smaller; whether that succeeded."""
        changed = False
        while self.left > 0 and any(map(self.resized, _cuts(self.best.assignment))):
            changed = True
        return changed

    def resized(self, cut: tuple[_Resize, ...]) -> bool:
        """Make some sizes smaller together; whether that succeeded."""
        for last in (False, True):
            smaller = _resized(self.best.assignment, cut, last)
            if smaller is None:
                return False
            trial = self.tried(smaller)
            if trial is _Trial.MISFIT:
                trial = self.tried(_derived(self.best.rule, smaller))
            if trial is not _Trial.AGREES:
                # Where sizes do not fit, they do not with other elements either.
                return trial is _Trial.REFUTES
        return False

    def parameters(self) -> bool:
        """Make parameters more neutral; whether that succeeded."""
        changed = False
        while self.left > 0 and any(map(self.accepts, _neutral(self.best.assignment))):
            changed = True
        return changed

    def elements(self) -> bool:
        """Make elements smaller; whether that succeeded."""
        changed = False
        for place, _ in self.best.assignment.tensors:
            if place[0]:
                changed |= self.elements_of(place)
        return changed

    def elements_of(self, place: Place) -> bool:
        """Elements of one tensor toward 0 and 1: in ever smaller blocks."""
        changed = False
        block = dict(self.best.assignment.tensors)[place].size
        while block and self.left > 0:
            starts = range(0, dict(self.best.assignment.tensors)[place].size, block)
            for start in starts:
                array = dict(self.best.assignment.tensors)[place]
                for candidate in _smaller(array, start, block):
                    if self.accepts(self.best.assignment.with_tensor(place, candidate)):
                        changed = True
                        break
            block //= 2
        return changed


# Measure


def _of_floats(assignment: Assignment) -> Iterator[Assignment]:
    """The assignment with numbers of type float64, of which nobody suspects that they wrap.

    Where it refutes because they wrap to negative numbers, it may with one tensor negated.
    """
    floats = replace(
        assignment,
        tensors=tuple(
            (place, array if array.dtype.kind == "b" else array.astype(np.float64))
            for place, array in assignment.tensors
        ),
    )
    yield floats
    for place, array in floats.tensors:
        if place[0] and array.dtype == np.float64:
            yield floats.with_tensor(place, -array)


def _measure(assignment: Assignment) -> Measure:
    """What shrinking makes smaller: other types, then sizes, ranks, parameters and elements."""
    arrays = [array for _, array in assignment.tensors]
    numbers = [n for value in _parameter_values(assignment) for n in _integers(value)]
    return (
        sum(array.dtype != np.float64 for array in arrays),
        sum(sum(array.shape) for array in arrays),
        sum(array.ndim for array in arrays),
        sum(map(abs, numbers)),
        sum(map(_cost, arrays)),
    )


def _parameter_values(assignment: Assignment) -> Iterator[Param]:
    yield from (value for _, value in assignment.params)
    for _, captured in assignment.captured:
        yield from (value for _, value in captured)


def _integers(value: Param) -> Iterator[int]:
    if isinstance(value, tuple):
        for item in value:
            yield from _integers(item)
    elif isinstance(value, int):
        yield int(value)


def _cost(array: Array) -> int:
    """Zeros cost nothing, ones 1; others more, the larger and the more fractional."""
    wide = np.abs(array.astype(np.float64))
    wide = np.where(np.isfinite(wide), np.minimum(wide, 2.0**40), 2.0**40)
    whole = wide == np.rint(wide)
    cost = np.where(array == 0, 0, np.where(array == 1, 1, 2 + np.ceil(wide) + 8 * ~whole))
    return int(cost.sum())


# Sizes


@dataclass(frozen=True, slots=True)
class _Site:
    """A size: an axis of a tensor, or an element of a parameter that may say the same size."""

    place: Place | str
    axis: int
    size: int


_Resize = tuple[_Site, int]
"""A size and what becomes of it."""


def _cuts(assignment: Assignment) -> Iterator[tuple[_Resize, ...]]:
    """Sets of sizes to make smaller together, the boldest first."""
    axes = [
        _Site(place, axis, size)
        for place, array in assignment.tensors
        for axis, size in enumerate(array.shape)
        if size > 1
    ]
    stated = [
        _Site(name, position, item)
        for name, value in assignment.params
        for position, item in enumerate(value if isinstance(value, tuple) else (value,))
        if isinstance(item, int) and item > 1
    ]
    every = [*axes, *stated]
    for sites in (axes, every):
        yield tuple((site, 1) for site in sites)
        for size in sorted({site.size for site in axes}, reverse=True):
            alike = [site for site in sites if site.size == size]
            for smaller in _less(size):
                yield tuple((site, smaller) for site in alike)
                for other in alike:
                    yield tuple((site, smaller) for site in alike if site is not other)
    for divisor in (2, 3, 5, 7):
        # Channels and groups are multiples of each other.
        multiples = [site for site in every if site.size % divisor == 0]
        for smaller in _less(divisor):
            yield tuple((site, site.size // divisor * smaller) for site in multiples)
            for other in multiples:
                yield tuple(
                    (site, site.size // divisor * smaller)
                    for site in multiples
                    if site is not other
                )
    for site in every:
        for smaller in _less(site.size):
            yield ((site, smaller),)
    for count in (2, 3) if len(every) <= MOST_SITES else (2,):
        for chosen in combinations(every, count):
            yield tuple((site, 1) for site in chosen)
            yield tuple((site, site.size - 1) for site in chosen)
            for divisor in (2, 3):
                if all(site.size % divisor == 0 for site in chosen):
                    yield tuple((site, site.size // divisor) for site in chosen)


def _less(size: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys((1, size // 2, max(size - 2, 1), size - 1)))


def _resized(assignment: Assignment, cut: tuple[_Resize, ...], last: bool) -> Assignment | None:
    """The assignment with axes cut, keeping their first or last elements; None for no cut."""
    if not cut:
        return None
    tensors = dict(assignment.tensors)
    params = dict(assignment.params)
    for site, size in cut:
        if isinstance(site.place, str):
            value = params[site.place]
            if isinstance(value, tuple):
                params[site.place] = (*value[: site.axis], size, *value[site.axis + 1 :])
            else:
                params[site.place] = size
        else:
            array = tensors[site.place]
            kept = range(site.size - size, site.size) if last else range(size)
            tensors[site.place] = array.take(kept, axis=site.axis)
    return replace(assignment, tensors=tuple(tensors.items()), params=tuple(params.items()))


def _derived(rule: Rule, assignment: Assignment) -> Assignment:
    """The assignment with the parameters that conditions `equal(p, …)` define computed again."""
    tensors = {name: Constant(array) for (name, _), array in assignment.tensors}
    params = dict(assignment.params)
    for condition in rule.where:
        defined = condition.args[0]
        if condition.function == "equal" and isinstance(defined, Name) and defined.name in params:
            try:
                bindings = Bindings(dict(tensors), {}, dict(params))
                params[defined.name] = evaluate(condition.args[1], bindings)
            except (Undefined, KeyError):
                continue
    return replace(assignment, params=tuple(params.items()))


# Parameters


def _neutral(assignment: Assignment) -> Iterator[Assignment]:
    """Assignments with a parameter, or one of its elements, nearer to 0."""
    for name, value in assignment.params:
        for simpler in _simpler(value):
            params = tuple((n, simpler if n == name else v) for n, v in assignment.params)
            yield replace(assignment, params=params)
    for group, captured in assignment.captured:
        for name, value in captured:
            for simpler in _simpler(value):
                changed: Params = tuple((n, simpler if n == name else v) for n, v in captured)
                yield replace(
                    assignment,
                    captured=tuple(
                        (g, changed if g == group else c) for g, c in assignment.captured
                    ),
                )


def _simpler(value: Param) -> Iterator[Param]:
    match value:
        case bool():
            if value:
                yield False
        case int():
            nearer = dict.fromkeys((0, 1, value // 2, value - 1, value + 1))
            yield from (smaller for smaller in nearer if abs(smaller) < abs(value))
        case tuple():
            if any(value):
                yield tuple(0 if isinstance(item, int) else item for item in value)
                yield tuple(1 if isinstance(item, int) else item for item in value)
            for position, item in enumerate(value):
                for simpler in _simpler(item):
                    yield (*value[:position], simpler, *value[position + 1 :])
        case _:
            return


# Elements


def _smaller(array: Array, start: int, count: int) -> Iterator[Array]:
    """The array with a block of elements nearer to 0."""
    flat = array.reshape(-1)
    block = flat[start : start + count]
    values = [np.zeros_like(block), np.ones_like(block)]
    if array.dtype.kind in "fi":
        values += [np.sign(block), np.abs(block), np.trunc(block / 2).astype(block.dtype)]
    elif array.dtype.kind == "u":
        values.append(block // 2)
    for value in values:
        if not np.array_equal(value, block):
            changed = flat.copy()
            changed[start : start + count] = value
            yield changed.reshape(array.shape)

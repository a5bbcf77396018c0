"""Whether rules derive an equation: equality saturation over terms known by type alone.

What it does: adds the sides of an equation as classes of terms (`term_classes`), merges what rules
say is equal, round after round within bounds, and tells whether the sides came to be one class.
Conditions and parameter functions of rules see sizes and literals and nothing else. What the
language matches in both orders (`pattern.COMMUTATIVE`) needs no rule.

With sizes that nothing ties together (`enumerate.sizes.generic`) a derivation uses no accident of
size: it is one for all sizes of that kind.

It has classes of its own, not those of `search.equality_graph`, which stand for values: with types
alone thousands of equations are tried in seconds.

Source: Nandi et al., "Rewrite rule inference using equality saturation" (Ruler, OOPSLA 2021), for
derivability as what makes a rule superfluous.

What it does not: say that something is not derivable: a bound may have been too small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphopt.graph import Param, Value
from graphopt.minimize.term_classes import Classes, ClassId
from graphopt.minimize.term_matching import Matcher
from graphopt.ops.spec import OpSpec
from graphopt.pattern import applications
from graphopt.rule import Rule, replacement


@dataclass(frozen=True, slots=True)
class Bounds:
    """Rounds of applying all rules, and operators in the e-graph."""

    rounds: int = 4
    operators: int = 300


BOUNDS = Bounds()
"""Enough for what four operators say, and small enough for thousands of equations."""


@dataclass(frozen=True, slots=True)
class RuleBook:
    """Rules, with the operators that each needs to fit anywhere."""

    rules: tuple[Rule, ...] = ()
    needed: tuple[frozenset[str], ...] = ()

    @staticmethod
    def of(rules: Sequence[Rule]) -> RuleBook:
        """The book of some rules, in order."""
        needed = (frozenset(part.op.name for part in applications(r.source)) for r in rules)
        return RuleBook(tuple(rules), tuple(needed))

    def with_rules(self, more: Sequence[Rule]) -> RuleBook:
        """The book with more rules at its end."""
        added = RuleBook.of(more)
        return RuleBook((*self.rules, *added.rules), (*self.needed, *added.needed))

    def for_operators(self, present: frozenset[str]) -> Iterator[Rule]:
        """The rules that need no other operators than those."""
        for rule, needed in zip(self.rules, self.needed, strict=True):
            if needed <= present:
                yield rule


NO_RULES = RuleBook()


def derivable(
    sources: Sequence[Value],
    targets: Sequence[Value],
    rules: RuleBook,
    bounds: Bounds = BOUNDS,
    forward: bool = False,
) -> bool:
    """Whether rules make every source equal its target within the bounds.

    `forward` asks for a derivation that starts from the sources alone, as a search would find it:
    the targets' own terms are not rewritten.
    """
    classes = Classes()
    roots = [classes.add(value) for value in sources]
    wanted = list(targets) if forward else [classes.add(value) for value in targets]
    derivation = _Derivation(classes, roots, wanted, bounds)
    for _ in range(bounds.rounds):
        if derivation.is_done or not derivation.advance(rules):
            break
    return derivation.is_done


class _Derivation:
    """An e-graph that grows towards the equality of some classes."""

    def __init__(
        self,
        classes: Classes,
        roots: list[ClassId],
        wanted: Sequence[ClassId | Value],
        bounds: Bounds,
    ) -> None:
        self.classes = classes
        self.roots = roots
        self.wanted = wanted
        self.bounds = bounds
        self._made: dict[object, Value] = {}
        self._applied: set[object] = set()

    @property
    def is_done(self) -> bool:
        """Whether every root has become the class wanted."""
        for root, wanted in zip(self.roots, self.wanted, strict=True):
            goal = wanted if isinstance(wanted, int) else self.classes.lookup(wanted)
            if goal is None or self.classes.find(goal) != self.classes.find(root):
                return False
        return True

    def advance(self, rules: RuleBook) -> bool:
        """Apply every rule wherever it fits now; whether that said anything new."""
        matcher = Matcher(self.classes)
        found: list[tuple[tuple[ClassId, ...], tuple[Value, ...]]] = []
        for rule in rules.for_operators(matcher.operators):
            for roots, names in matcher.fits(rule):
                key = (rule.digest, roots, tuple(names.items()))
                if key in self._applied:
                    continue
                self._applied.add(key)
                old = tuple(self.classes.stand_in(root) for root in roots)
                values = replacement(rule, old, matcher.bindings(names), None, self._make)
                if values is not None:
                    found.append((roots, values))
        changed = False
        for roots, values in found:
            for root, value in zip(roots, values, strict=True):
                changed |= self.classes.merge(root, self.classes.add(value))
            if self.classes.size > self.bounds.operators:
                self.classes.rebuild()
                return False
        self.classes.rebuild()
        return changed

    def _make(self, op: OpSpec, inputs: tuple[Value, ...], params: Mapping[str, Param]) -> Value:
        key = op.name, tuple(value.digest for value in inputs), tuple(params.items())
        if key not in self._made:
            self._made[key] = op(*inputs, **params)
        return self._made[key]

"""The rules that derive all others: what an enumeration found, without what follows from smaller.

What it does: goes through claims from small to large; what the rules kept so far derive is dropped
unproved, and of the others the most general form is kept that a given test accepts (a proof). At
the end rules that the others derive go, too. A rule of two results is kept where no derivation from
its source alone finds it: as an equation it follows from slices of a concatenation, but nothing
would ever form that.

Source: Nandi et al., "Rewrite rule inference using equality saturation" (Ruler, OOPSLA 2021). There
rules are chosen by size and tested by sampling; here each is proved, and generalized first, so that
fewer derive more.

What it does not: prove, find claims, or name rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from graphopt.graph import Value
from graphopt.minimize.derivation import BOUNDS, NO_RULES, Bounds, RuleBook, derivable
from graphopt.minimize.generalize import Test, most_general
from graphopt.minimize.sides import sides_of
from graphopt.minimize.terms import grows_without_end, turned_around
from graphopt.rule import Rule

FATES = ("kept", "derivable", "wordless", "unproved", "resting", "beyond")
"""What becomes of a claim: it is kept; it follows from what is kept; the rule language has no words
for it; no form of it was proved; it follows only if an unproved claim is true, too; it was derived,
but not within the bounds when rules had gone that others derive."""


INSTANCES = 6
"""So many instances of a rule must follow from others for it to be superfluous."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An equation of values, by result, and the rules that say it in either direction."""

    text: str
    sources: tuple[Value, ...]
    targets: tuple[Value, ...]
    rules: tuple[Rule, ...]

    @property
    def is_joint(self) -> bool:
        """Whether it has several results."""
        return len(self.sources) > 1


@dataclass(frozen=True, slots=True)
class Kept:
    """A claim that is kept, as the most general rules that were proved."""

    claim: Claim
    rules: tuple[Rule, ...]


@dataclass(slots=True)
class Minimization:
    """What is kept so far, and what became of all claims."""

    accepts: Test
    bounds: Bounds = BOUNDS
    kept: list[Kept] = field(default_factory=list)
    by_claim: dict[str, str] = field(default_factory=dict)
    _single: RuleBook = NO_RULES
    _all: RuleBook = NO_RULES
    _assumed: RuleBook = NO_RULES

    def take(self, claim: Claim) -> str:
        """Judge one claim; smaller ones come first. What became of it: one of FATES."""
        fate = self._fate(claim)
        self.by_claim[claim.text] = fate
        return fate

    def _fate(self, claim: Claim) -> str:
        if self.derives(claim):
            return "derivable"
        if not claim.rules:
            return "wordless"
        if not claim.is_joint and self._rests(claim):
            return "resting"
        found = self._general_forms(claim)
        if not found:
            self._assumed = self._assumed.with_rules(tuple(_directions(claim.rules)))
            return "unproved"
        self._keep(Kept(claim, found))
        return "kept"

    def _general_forms(self, claim: Claim) -> tuple[Rule, ...]:
        """The most general rules that say a claim and are proved, at most one for either way."""

        def serves(form: Rule) -> bool:
            return self._serves(form, claim)

        first = claim.rules[0]
        general = most_general(first, serves)
        around = None if general is None else turned_around(general)
        if around is not None and not grows_without_end(around) and serves(around):
            assert general is not None
            return general, around
        found = {} if general is None else {general.digest: general}
        for rule in _directions(claim.rules):
            other = None if rule == first else most_general(rule, serves)
            if other is not None:
                found[other.digest] = other
        return tuple(found.values())

    def derives(self, claim: Claim) -> bool:
        """Whether what is kept derives a claim, within the bounds."""
        book = self._all if claim.is_joint else self._single
        return derivable(claim.sources, claim.targets, book, self.bounds, claim.is_joint)

    def _rests(self, claim: Claim) -> bool:
        """Whether a claim follows from what is kept together with claims that stayed unproved."""
        if not self._assumed.rules:
            return False
        book = self._single.with_rules(self._assumed.rules)
        return derivable(claim.sources, claim.targets, book, self.bounds)

    def _serves(self, form: Rule, claim: Claim) -> bool:
        """Whether a rule says a claim, and is true."""
        alone = RuleBook.of([form])
        says = derivable(claim.sources, claim.targets, alone, Bounds(1), claim.is_joint)
        return says and self.accepts(form)

    def _keep(self, kept: Kept) -> None:
        self.kept.append(kept)
        self._all = self._all.with_rules(kept.rules)
        if not kept.claim.is_joint:
            self._single = self._single.with_rules(kept.rules)

    def reduce(self) -> int:
        """Drop what the others derive, the largest first; how many went."""
        before = len(self.kept)
        for candidate in reversed(list(self.kept)):
            others = [kept for kept in self.kept if kept is not candidate]
            if _follows(candidate, others, self.bounds):
                self.kept = others
        self._single, self._all = RuleBook(), RuleBook()
        remaining, self.kept = self.kept, []
        for kept in remaining:
            self._keep(kept)
        return before - len(self.kept)

    def settle(self, claim: Claim) -> str:
        """What became of a claim in the end: "derivable" if what is kept at last derives it, and
        "beyond" if it was derived on the way and is not within the bounds any longer."""
        fate = self.by_claim[claim.text]
        if fate == "wordless" or any(kept.claim is claim for kept in self.kept):
            return fate
        if self.derives(claim):
            return "derivable"
        return "beyond" if fate in ("derivable", "kept") else fate


def _directions(rules: tuple[Rule, ...]) -> Iterable[Rule]:
    """Rules and what they say the other way round, each once."""
    found = {rule.digest: rule for rule in rules}
    for rule in rules:
        if len(rules) == 1 and len(rule.source.terms) == 1:
            around = turned_around(rule)
            if around is not None and not grows_without_end(around):
                found.setdefault(around.digest, around)
    return found.values()


def _follows(candidate: Kept, others: list[Kept], bounds: Bounds) -> bool:
    """Whether other rules derive the claim and instances of every rule that was made of it."""
    joint = candidate.claim.is_joint
    rules = [r for kept in others if joint or not kept.claim.is_joint for r in kept.rules]
    book = RuleBook.of(rules)
    claim = candidate.claim
    if not derivable(claim.sources, claim.targets, book, bounds, joint):
        return False
    for rule in candidate.rules:
        instances = sides_of(rule, INSTANCES)
        if not instances:
            return False
        for sides in instances:
            if not derivable(sides.sources, sides.targets, book, bounds, joint):
                return False
    return True

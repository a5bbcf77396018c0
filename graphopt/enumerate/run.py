"""A whole enumeration: level after level, candidates and counts, in a folder if one is given.

What it does: drives `levels` and `candidates`, keeps and recalls finished parts (`records`), and
says what was found as JSON lines. The result depends on the vocabulary, the number of operators and
the seed alone, whether or not a run was interrupted.

What it does not: prove candidates, choose among them or make rule files of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from graphopt.enumerate.candidates import Found, Sieve, Sifted, in_order
from graphopt.enumerate.counts import Counts, counts_table
from graphopt.enumerate.levels import find
from graphopt.enumerate.merges import Merge, merges
from graphopt.enumerate.nodes import Part
from graphopt.enumerate.population import Population
from graphopt.enumerate.records import EnumerationError, Place, read_part, write_part
from graphopt.enumerate.rule_text import merge_rule, rules_of
from graphopt.enumerate.sizes import Grouping
from graphopt.enumerate.trees import Applied, Equation, Fixed, subtrees
from graphopt.enumerate.vocabulary import Vocabulary
from graphopt.pattern import spelling
from graphopt.rule import Rule, rule_text
from tensorgen.types import Shape

MOST_OPERATORS = 6
"""More operators than this are refused: time and memory grow thirtyfold with each."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A part of a level is finished, so many of so many; `resumed` if it lay in the folder."""

    level: int
    part: int
    parts: int
    shape: Shape
    resumed: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """An equation that passed all tests, and the rules that it gives.

    `equation` is in the enumeration's own words, `statement` the same as terms. `rules` go from
    more operators to fewer, both ways between as many and with slices; there are none where the
    rule language has no words. `grouping` says for which convolutions it is claimed, `constants`
    which named constants occur, `level` is the number of operators of the larger side as it was
    found; 0 for rules with two results.
    """

    equation: str
    level: int
    statement: Equation
    grouping: Grouping
    operators: tuple[str, ...]
    constants: tuple[str, ...]
    rules: tuple[Rule, ...]

    @property
    def groups(self) -> str:
        """The name of the grouping."""
        return self.grouping.name.lower()

    def to_json(self) -> str:
        """One line."""
        return json.dumps(
            {
                "equation": self.equation,
                "level": self.level,
                "groups": self.groups,
                "operators": list(self.operators),
                "constants": list(self.constants),
                "rules": [rule_text(rule) for rule in self.rules],
            }
        )


@dataclass(frozen=True, slots=True)
class Enumeration:
    """All candidates in a fixed order, and what each step left of each level."""

    candidates: tuple[Candidate, ...]
    counts: tuple[Counts, ...]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule once, in order."""
        rules = (rule for candidate in self.candidates for rule in candidate.rules)
        return tuple({rule.digest: rule for rule in rules}.values())

    def json_lines(self) -> str:
        """One line for each candidate."""
        return "".join(f"{candidate.to_json()}\n" for candidate in self.candidates)

    def table(self) -> str:
        """The counts as text."""
        return counts_table(self.counts)


def enumerate_rules(
    vocabulary: Vocabulary,
    most_operators: int,
    *,
    seed: int = 0,
    folder: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Enumeration:
    """All candidate equations between terms of up to `most_operators` operators.

    Finished parts are kept in `folder` and taken from there. Raises EnumerationError if the number
    of operators is out of range or the folder holds another enumeration.
    """
    if not 1 <= most_operators <= MOST_OPERATORS:
        raise EnumerationError(
            f"enumerate: expected 1 to {MOST_OPERATORS} operators, got {most_operators}"
        )
    population = Population(vocabulary, seed)
    sieve = Sieve(population, seed)
    counts = []
    for level in range(most_operators + 1):
        last = level == most_operators
        parts: list[Part] = []
        sifted: list[Sifted] = []
        shapes = population.result_shapes(level)
        for number, shape in enumerate(shapes, start=1):
            place = Place(vocabulary.digest, seed, level, last, shape)
            recalled = None if folder is None else read_part(folder, place)
            if recalled is None:
                part = find(population, level, shape, last)
                outcome = sieve.sift(level, part)
                if folder is not None:
                    write_part(folder, place, part, outcome)
                part = part.without_collisions()
            else:
                part, outcome = recalled
                sieve.recall(level, outcome)
            parts.append(part)
            sifted.append(outcome)
            if progress is not None:
                progress(Progress(level, number, len(shapes), shape, recalled is not None))
        counts.append(sieve.close(level, sifted))
        if not last:
            population.admit(parts, combined=level + 1 < most_operators)
    found = [_candidate(item) for item in in_order(sieve.found)]
    joint = [_merged(item) for item in merges(vocabulary, seed)]
    return Enumeration((*found, *joint), tuple(counts))


def _candidate(found: Found) -> Candidate:
    rules = rules_of(found.equation, found.grouping)
    return _described(found.equation, str(found.equation), found.level, found.grouping, rules)


def _merged(merge: Merge) -> Candidate:
    rule = merge_rule(merge.equation, merge.axis, merge.grouping)
    text = f"parts along {merge.axis}: {merge.equation}"
    rules = () if rule is None else (rule,)
    return _described(merge.equation, text, 0, merge.grouping, rules)


def _described(
    equation: Equation, text: str, level: int, grouping: Grouping, rules: tuple[Rule, ...]
) -> Candidate:
    operators, constants = set(), set()
    for side in (equation.left, equation.right):
        for tree in subtrees(side):
            if isinstance(tree, Applied):
                operators.add(spelling(tree.instance.op))
            elif isinstance(tree, Fixed):
                constants.add(tree.constant.name)
    names = tuple(sorted(operators)), tuple(sorted(constants))
    return Candidate(text, level, equation, grouping, *names, rules)

"""From operators to a proved, minimal rule file: enumerate, prove, minimize, name, write.

    discovery = discover(Settings(), folder, progress)
    discovery.text        # the rule file
    discovery.table()     # what each step left

What it does: drives the enumerator (`graphopt.enumerate`), the prover and the minimization
(`graphopt.minimize`), and keeps what is finished in a folder, so that a killed run loses nothing.
The result depends on the settings and the code alone. What it does not: keep certificates; the
rules of the file are proved again when their proofs are written.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from graphopt.enumerate import (
    Counts,
    Enumeration,
    EnumerationError,
    Vocabulary,
    enumerate_rules,
    extended,
    taso,
)
from graphopt.enumerate.counts import counts_table
from graphopt.instances import find_instance
from graphopt.minimize import BOUNDS, FATES, Bounds, Claim, Kept, Minimization, claims_of, named
from graphopt.pattern import Literal, applications
from graphopt.rule import Rule, rule_text
from verify.certificate import Certificate
from verify.oracle import Agreed, judge
from verify.prover import prove
from verify.records import prover_digest
from verify.symbolic_rule import Ranks

VOCABULARIES: Mapping[str, Callable[[], Vocabulary]] = MappingProxyType(
    {"taso": taso, "extended": extended}
)

INSTANCES = 25
"""So many instances of a rule are tried before a proof is."""

_WINDOW_PARAMETERS = frozenset({"strides", "pads", "dilations", "kernel"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Vocabularies by name with the number of operators; earlier ones come first in all else."""

    parts: tuple[tuple[str, int], ...] = (("taso", 4),)
    seed: int = 0
    bounds: Bounds = BOUNDS


@dataclass(frozen=True, slots=True)
class Step:
    """So many of so many done in a step of that name."""

    name: str
    done: int
    total: int


Progress = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Discovery:
    """The rules that are kept, by equation, either way that was proved; the rule file; and what
    each step left."""

    equations: tuple[tuple[Rule, ...], ...]
    text: str
    enumerated: tuple[tuple[str, tuple[Counts, ...]], ...]
    fates: Mapping[str, int]
    proofs: Mapping[str, int]
    unproved: tuple[str, ...]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of the file, in order."""
        return tuple(rule for equation in self.equations for rule in equation)

    def table(self) -> str:
        """The counts of all steps as text."""
        return _table(self.enumerated, self.fates, self.proofs, len(self.rules))


def discover(
    settings: Settings,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Discovery:
    """Find, prove and minimize rules. Finished parts are kept in `folder` and taken from there.

    Raises EnumerationError if the folder holds another enumeration or cannot be written.
    """
    report = progress or (lambda step: None)
    found = [(name, count, _enumerated(name, count, settings, folder, report))
             for name, count in settings.parts]  # fmt: skip
    claims: list[Claim] = []
    sizeless = 0
    for _, _, enumeration in found:
        more, missing = claims_of(enumeration.candidates)
        claims += more
        sizeless += missing
    claims.sort(key=lambda claim: claim.is_joint)
    judgements = Judgements(None if folder is None else folder / "judgements.jsonl")
    minimization = Minimization(judgements.accepts, settings.bounds)
    for number, claim in enumerate(claims, start=1):
        minimization.take(claim)
        report(Step("prove and derive", number, len(claims)))
    fates = Counter({"superfluous": minimization.reduce(), "without sizes": sizeless})
    unproved = []
    for number, claim in enumerate(claims, start=1):
        fate = minimization.settle(claim)
        fates[fate] += 1
        if fate == "unproved":
            unproved.append(claim.text)
        report(Step("derive again", number, len(claims)))
    enumerated = tuple((f"{name}, {count} operators", e.counts) for name, count, e in found)
    equations = tuple(_named(minimization.kept))
    rules = sum(map(len, equations))
    # How many forms were tried says more of the prover than of the rules.
    counts = _table(enumerated, fates, {}, rules)
    return Discovery(
        equations,
        _rule_file(equations, counts),
        enumerated,
        MappingProxyType(dict(fates)),
        MappingProxyType(dict(judgements.outcomes)),
        tuple(unproved),
    )


def _enumerated(
    name: str, count: int, settings: Settings, folder: Path | None, report: Progress
) -> Enumeration:
    part = None if folder is None else folder / f"{name}-{count}"
    return enumerate_rules(
        VOCABULARIES[name](), count, seed=settings.seed, folder=part,
        progress=lambda done: report(
            Step(f"enumerate {name}, {done.level} operators", done.part, done.parts)
        ),
    )  # fmt: skip


# Proofs


def ranks_of(rule: Rule) -> Ranks:
    """The ranks to prove a rule for: two spatial axes where the rule's own parameters say so."""
    literal = any(
        name in _WINDOW_PARAMETERS and isinstance(value, Literal)
        for pattern in (rule.source, rule.target)
        for part in applications(pattern)
        for name, value in part.params
    )
    return Ranks(spatial=(2,)) if literal else Ranks()


@dataclass(slots=True)
class Judgements:
    """Whether rules were proved, kept in a file line by line."""

    path: Path | None
    outcomes: Counter[str] = field(default_factory=Counter)
    _known: dict[str, str] = field(default_factory=dict)
    _is_cut: bool = False

    def __post_init__(self) -> None:
        if self.path is None or not self.path.exists():
            return
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise _unusable(self.path, error) from None
        self._is_cut = not text.endswith("\n")
        for line in text.splitlines():
            entry = _entry(line)
            if entry is not None:
                self._known[entry[0]] = entry[1]

    def accepts(self, rule: Rule) -> bool:
        """Whether a rule is proved and could be read from a file."""
        outcome = self._known.get(rule.digest)
        if outcome is None:
            outcome = _outcome(rule)
            self._known[rule.digest] = outcome
            self._write(json.dumps([prover_digest(), rule.digest, outcome]))
        self.outcomes[outcome] += 1
        return outcome == "proved"

    def _write(self, line: str) -> None:
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"\n{line}\n" if self._is_cut else f"{line}\n")
        except OSError as error:
            raise _unusable(self.path, error) from None
        self._is_cut = False


def _unusable(path: Path, error: OSError) -> EnumerationError:
    return EnumerationError(
        f"{path}: expected a file to read and write, got '{error.strerror}'; choose another folder"
    )


def _entry(line: str) -> tuple[str, str] | None:
    """Digest and outcome of a line; None if it is damaged or of other code."""
    try:
        code, digest, outcome = json.loads(line)
    except (ValueError, TypeError):
        return None
    return (str(digest), str(outcome)) if code == prover_digest() else None


def _outcome(rule: Rule) -> str:
    if find_instance(rule) is None:
        return "no instance"
    if not isinstance(judge(rule, INSTANCES), Agreed):
        return "refuted"
    return "proved" if isinstance(prove(rule, ranks_of(rule)), Certificate) else "unknown"


# Text

_COLUMNS = 100
_HEADER = """\
# Rules that were found by enumeration, not written: every one is proved, and no smaller ones derive
# it. They are equations over the reals (integers: modulo 2**bits), for all shapes and parameters
# under which both sides are defined and have equal types. That operands of add, mul and max may
# change places is part of matching and needs no rule.
#
# Generated by `tasor rules enumerate --max-ops 4 --minimize`; do not edit. What each step left:
#
"""


def _named(kept: Sequence[Kept]) -> Iterator[tuple[Rule, ...]]:
    """The rules of each claim by name; an exact inverse has the name that a rule file gives it."""
    rules = [rule for item in kept for rule in item.rules if rule != _inverse(item.rules)]
    names = {rule.digest: rule for rule in named(rules)}
    for item in kept:
        head = names[item.rules[0].digest]
        inverse = _inverse(item.rules)
        if inverse is None:
            yield tuple(names[rule.digest] for rule in item.rules)
        else:
            yield head, Rule(f"{head.name}-inverse", head.target, head.source, head.where)


def _inverse(rules: tuple[Rule, ...]) -> Rule | None:
    """The second of two rules if it is the first one turned around."""
    if len(rules) != 2:
        return None
    first, second = rules
    sides = first.source == second.target and first.target == second.source
    return second if sides and set(first.where) == set(second.where) else None


def _rule_file(equations: Sequence[tuple[Rule, ...]], counts: str) -> str:
    table = "".join(f"#   {line}".rstrip() + "\n" for line in counts.splitlines())
    said: list[str] = []
    for rules in equations:
        if _inverse(rules) is None:
            said += map(rule_text, rules)
        else:
            said.append(rule_text(rules[0]).replace(" => ", " <=> ", 1))
    return f"{_HEADER}{table}\n" + "\n".join(map(_wrapped, said)) + "\n"


def _wrapped(text: str) -> str:
    """A line of the file, in several where it is long: each part of the rule begins one."""
    if len(text) <= _COLUMNS:
        return text
    parts = re.split(r" (?=<?=> |where )", text)
    return "\n".join(
        textwrap.fill(
            part, _COLUMNS, initial_indent="    " if number else "", subsequent_indent=" " * 8,
            break_long_words=False, break_on_hyphens=False,
        )
        for number, part in enumerate(parts)
    )  # fmt: skip


def _table(
    enumerated: tuple[tuple[str, tuple[Counts, ...]], ...],
    fates: Mapping[str, int],
    proofs: Mapping[str, int],
    rules: int,
) -> str:
    parts = []
    for title, counts in enumerated:
        parts += [title, counts_table(counts).rstrip()]
    names = (*FATES, "superfluous", "without sizes")
    rows = [(name, fates.get(name, 0)) for name in names]
    rows += [(f"forms {name}", count) for name, count in sorted(proofs.items())]
    rows.append(("rules in the file", rules))
    parts += ["claims", *(f"{name:<24}{count:>8,}" for name, count in rows)]
    return "\n".join(parts)

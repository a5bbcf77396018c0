"""What each step of the enumeration left, as a table in the form of TASO's (section 7 there)."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Counts:
    """Terms and equations of one level.

    generated = distinct + known + collisions is kept apart: `distinct` values are new, every
    other term is an equation. Equations then fall, in this order, to variable renaming, to a
    shared subterm, to having another equation's canonical form, to being another equation with
    some variables alike, to the tests.
    """

    level: int
    generated: int
    """Terms, operands of commutative operators ordered."""
    undefined: int
    """Quotients by something with a zero, left out before."""
    distinct: int
    """Values not seen before."""
    equations: int
    """Terms with a value seen before."""
    renamed: int
    """Of these: variables other than the first of their shape."""
    shared: int
    """Of the rest: true with a variable for a subterm that both sides share, or that is idle."""
    duplicate: int
    """Of the rest: the same as another equation but for names and orders."""
    special: int
    """Of the rest: another equation with some of its variables alike."""
    failed: int
    """Of the rest: false on other shapes or data."""
    untested: int
    """Of the rest: no shapes found to test it on."""
    candidates: int
    """What is left."""

    def __post_init__(self) -> None:
        assert self.generated == self.distinct + self.equations
        pruned = self.renamed + self.shared + self.duplicate + self.special
        pruned += self.failed + self.untested
        assert self.equations == pruned + self.candidates


def counts_table(counts: tuple[Counts, ...]) -> str:
    """One row for each step, one column for each level."""
    rows = []
    for entry in fields(Counts):
        numbers = [getattr(column, entry.name) for column in counts]
        rows.append(f"{entry.name:<12}" + "".join(f"{number:>12,}" for number in numbers))
    return "\n".join(rows)

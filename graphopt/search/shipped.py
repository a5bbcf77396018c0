"""The shipped rules of the search, and which of them only lead to others.

What it does: loads the rules that a cost decides on. Those of Winograd's filtering apart: they
change how a sum is computed, not only its order, and so by how much it rounds. Those that
enumeration discovered apart, too: there are as many again, and searching with them takes longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import cache

from graphopt.data_files import data_path
from graphopt.proofs import load_proved_rules
from graphopt.rule import Rule, statement_text
from graphopt.search.places import shared_variables

CHAINS: Mapping[str, str] = {
    "conv-phases-2-rows": "winograd-2",
    "conv-phases-4-rows": "winograd-4",
}
"""Rules that are worth nothing alone, and the rule that is then applied to what they made: the
search makes both in one step."""


@cache
def search_rules(*, winograd: bool = False, discovered: bool = False) -> tuple[Rule, ...]:
    """The rules that a cost decides on, in the order of their file.

    `winograd` adds minimal filtering along the rows of images, F(2, 3) and F(4, 3); `discovered`
    what enumeration found.
    """
    rules = load_proved_rules(data_path("rules", "search.rules"))
    if winograd:
        rules = (*rules, *_winograd_rules())
    if discovered:
        rules = (*rules, *_discovered_rules({statement_text(rule) for rule in rules}))
    return rules


def _winograd_rules() -> tuple[Rule, ...]:
    wanted = {*CHAINS, *CHAINS.values()}
    rules = load_proved_rules(data_path("rules", "winograd.rules"))
    return tuple(rule for rule in rules if rule.name in wanted)


def _discovered_rules(known: Set[str]) -> Iterator[Rule]:
    """Those that say something else, but for pairs that have no operand in common: any two relus
    of a graph are such a pair, and joining them saves nothing on a CPU."""
    for rule in load_proved_rules(data_path("rules", "discovered.rules")):
        terms = rule.source.terms
        if statement_text(rule) not in known and (len(terms) == 1 or shared_variables(rule)):
            yield rule

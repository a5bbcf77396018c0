"""The shipped rules of the search, and which of them only lead to others.

What it does: loads the rules that a cost decides on. Those of Winograd's filtering apart: they
change how a sum is computed, not only its order, and so by how much it rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from graphopt.data_files import data_path
from graphopt.proofs import load_proved_rules
from graphopt.rule import Rule

CHAINS: Mapping[str, str] = {
    "conv-phases-2-rows": "winograd-2",
    "conv-phases-4-rows": "winograd-4",
}
"""Rules that are worth nothing alone, and the rule that is then applied to what they made: the
search makes both in one step."""


@cache
def search_rules(*, winograd: bool = False) -> tuple[Rule, ...]:
    """The rules that a cost decides on, in the order of their file.

    `winograd` adds minimal filtering along the rows of images, F(2, 3) and F(4, 3).
    """
    rules = load_proved_rules(data_path("rules", "search.rules"))
    return (*rules, *_winograd_rules()) if winograd else rules


def _winograd_rules() -> tuple[Rule, ...]:
    wanted = {*CHAINS, *CHAINS.values()}
    rules = load_proved_rules(data_path("rules", "winograd.rules"))
    return tuple(rule for rule in rules if rule.name in wanted)

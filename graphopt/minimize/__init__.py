"""Minimization of rules: the few from which the others follow.

`derivation` tells whether rules derive an equation, with `term_classes` and `term_matching`;
`claims` makes equations of an enumeration's candidates; `generalize` finds the most general form of
a rule, with `moves` made of `terms`; `minimization` decides what is kept, with `sides` as instances
of rules; `naming` names the result.
"""

from graphopt.minimize.claims import claims_of
from graphopt.minimize.derivation import BOUNDS, Bounds, RuleBook, derivable
from graphopt.minimize.minimization import FATES, Claim, Kept, Minimization
from graphopt.minimize.naming import named
from graphopt.minimize.sides import Sides, sides_of

__all__ = [
    "BOUNDS",
    "FATES",
    "Bounds",
    "Claim",
    "Kept",
    "Minimization",
    "RuleBook",
    "Sides",
    "claims_of",
    "derivable",
    "named",
    "sides_of",
]

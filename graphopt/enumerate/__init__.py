"""The enumerator of graph substitutions: equations between small tensor terms, found by value.

    enumeration = enumerate_rules(taso(), 3)
    print(enumeration.table())
    for rule in enumeration.rules: ...

`vocabulary` says what is enumerated; `fields`, `kernels` and `projections` compute with many exact
tensors at once; `population` holds one term for each value (`nodes`), `levels` combines them and
finds collisions of fingerprints; `candidates` prunes them, with `trees`, `sizes` and `retest`;
`merges` proposes rules with two results; `rule_text` says candidates in the rule language;
`records` keeps finished parts, `counts` is the table, and `run` is all of it.
"""

from graphopt.enumerate.counts import Counts, counts_table
from graphopt.enumerate.records import EnumerationError
from graphopt.enumerate.run import Candidate, Enumeration, Progress, enumerate_rules
from graphopt.enumerate.vocabulary import Vocabulary, extended, taso

__all__ = [
    "Candidate",
    "Counts",
    "Enumeration",
    "EnumerationError",
    "Progress",
    "Vocabulary",
    "counts_table",
    "enumerate_rules",
    "extended",
    "taso",
]

"""The numeric oracle: what a rule claims, tried exactly on many small instances.

What it does: draws instances of a rule (`graphopt.instances`: coprime sizes and ones, unequal
parts, several groups, even and odd kernels, strides) and compares both sides exactly
(`difference`). The same seed gives the same judgement.
What it does not: prove. Agreement says that no counterexample was found, and `Untested` is no
agreement.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphopt.evaluation import NodeValue, by_reference
from graphopt.instances import ATTEMPTS, ELEMENT_TYPES, instances
from graphopt.rule import Rule
from tensorgen.types import DType
from verify.counterexample import Counterexample
from verify.difference import compare

INSTANCES = 60
"""So many instances are tried."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """Both sides were equal on that many instances; on `exact` of them without any rounding."""

    instances: int
    exact: int


@dataclass(frozen=True, slots=True)
class Refuted:
    """Both sides differ. The counterexample is as it was drawn: see `counterexample.shrunk`."""

    counterexample: Counterexample


@dataclass(frozen=True, slots=True)
class Untested:
    """Nothing could be compared."""

    reason: str


Judgement = Agreed | Refuted | Untested


def judge(
    rule: Rule,
    count: int = INSTANCES,
    seed: int = 0,
    attempts: int = ATTEMPTS,
    *,
    dtypes: tuple[DType, ...] = ELEMENT_TYPES,
    value_of: NodeValue = by_reference,
) -> Judgement:
    """Try a rule on up to `count` instances; `attempts` draws in a row may lead nowhere.

    `dtypes` are those of `instances`, `value_of` is that of `compare`.
    """
    drawn = tested = exact = 0
    for instance in instances(rule, seed, attempts, dtypes):
        drawn += 1
        comparison = compare(instance, value_of)
        if comparison.difference is not None:
            return Refuted(Counterexample.of(rule, instance, comparison))
        if comparison.elements:
            tested += 1
            exact += comparison.exact
        if tested == count or drawn == 4 * count:
            break
    if tested:
        return Agreed(tested, exact)
    if drawn:
        return Untested(f"no element of {drawn} instances has a value on both sides")
    return Untested(f"no operands of fitting types in {attempts} draws")

"""Instances of a rule against a certificate: whether each fits one of its cases.

What it does: draws instances (`graphopt.instances`), leaves out those of which the certificate says
nothing - elements of another kind, other ranks, longer sequences, negative numbers - and looks for
a case whose types and parameters the others have for some sizes. What it does not: conclude more
than that from samples, or use any part of the prover.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphopt.graph import Param
from graphopt.instances import instances
from graphopt.matching import Bindings
from graphopt.pattern import Application, Variable
from graphopt.pattern import Sequence as Operands
from graphopt.rule import Rule
from tensorgen.types import TensorType
from verify.case_parts import assumed, equations, kind, named_types, numbers_in, sizes_of
from verify.integer_points import Fault, Order, Point, Polynomial, plus, points, variables
from verify.sampled_values import Json

DRAWS = 4
"""So many times as many instances are drawn as are wanted."""

TRIES = 300
"""So many choices of a value are made in search of sizes that fit."""

_WINDOWS = frozenset({"conv", "conv_transpose", "sum_pool", "max_pool"})


def covered(rule: Rule, certificate: Json, wanted: int) -> int:
    """How many instances were drawn of which the certificate speaks; each fits a case.

    Raises Fault if one does not.
    """
    meant = _Meant.of(rule, certificate)
    count = 0
    for instance in itertools.islice(instances(rule), DRAWS * wanted):
        if count == wanted:
            break
        bindings = instance.bindings
        params: dict[str, Param] = dict(bindings.params)
        for name, held in bindings.captured.items():
            params |= {f"{name}.{key}": value for key, value in held}
        types = named_types(bindings)
        if not meant.has(types, params, bindings):
            continue
        if not any(_fits(case, types, params) for case in certificate["cases"]):
            parts = [f"{name}: {value}" for name, value in (*types.items(), *params.items())]
            raise Fault(f"expected a case for {', '.join(parts)}")
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class _Meant:
    """The instances that a certificate says anything of."""

    kinds: frozenset[tuple[str, str]]
    ranks: Mapping[str, set[int]]
    plain: Sequence[int]
    most_numbers: int
    longest_sequence: int

    @staticmethod
    def of(rule: Rule, certificate: Json) -> _Meant:
        ranks, cases = certificate["ranks"], certificate["cases"]
        seen = [
            (name, *sizes_of(text)) for case in cases for name, text in case["operands"].items()
        ]
        allowed = _ranks(rule, ranks)
        for name, _, sizes in seen:
            # A condition of the rule may ask for a rank that is none of those tried elsewhere.
            allowed.setdefault(name, set()).add(len(sizes))
        numbers = [numbers_in(text) for case in cases for text in case["parameters"].values()]
        numbers += [*ranks["plain"], *(2 * spatial for spatial in ranks["spatial"])]
        kinds = frozenset((name, kind(dtype)) for name, dtype, _ in seen)
        return _Meant(kinds, allowed, ranks["plain"], max(numbers), ranks["longest_sequence"])

    def has(
        self, types: Mapping[str, TensorType], params: Mapping[str, Param], bindings: Bindings
    ) -> bool:
        sequences = bindings.sequences.values()
        return (
            all((name, kind(type.dtype)) in self.kinds for name, type in types.items())
            and all(type.rank in self.ranks[name] for name, type in types.items())
            and all(len(members) <= self.longest_sequence for members in sequences)
            and all(map(self.has_parameter, params.values()))
        )

    def has_parameter(self, value: Param) -> bool:
        """Numbers of at least 0, and as many of them as there can be axes."""
        if isinstance(value, tuple):
            some = bool(value) or 0 in self.plain
            return some and len(value) <= self.most_numbers and all(map(self.has_parameter, value))
        return isinstance(value, str) or value >= 0


def _ranks(rule: Rule, ranks: Json) -> dict[str, set[int]]:
    """The ranks of operands that a certificate speaks of, by what first reads them."""
    allowed: dict[str, set[int]] = {}

    def visit(term: Application) -> None:
        for position, arg in enumerate(term.args):
            if isinstance(arg, Application):
                visit(arg)
            elif isinstance(arg, Variable):
                own = set(ranks["plain"])
                if term.op.name in _WINDOWS:
                    own = {2 + spatial for spatial in ranks["spatial"]}
                elif term.op.name == "pad" and position == 1:
                    own = {0}
                allowed.setdefault(arg.name, own)
            elif isinstance(arg, Operands):
                for number in range(ranks["longest_sequence"]):
                    allowed.setdefault(f"{arg.name}[{number}]", set(ranks["plain"]))

    for root in rule.source.terms:
        if isinstance(root, Application):
            visit(root)
    return allowed


def _fits(case: Json, types: Mapping[str, TensorType], params: Mapping[str, Param]) -> bool:
    """Whether some sizes make the operands and parameters of a case those of an instance."""
    if types.keys() != case["operands"].keys() or params.keys() != case["parameters"].keys():
        return False
    equal: list[tuple[Polynomial, int]] = []
    for name, type in types.items():
        dtype, sizes = sizes_of(case["operands"][name])
        if kind(dtype) != kind(type.dtype) or len(sizes) != type.rank:
            return False
        equal += zip(sizes, type.shape, strict=True)
    for name, value in params.items():
        sized = equations(case["parameters"][name], value)
        if sized is None:
            return False
        equal += sized
    known: Point = {}
    required = assumed(case)
    for size, number in equal:
        if len(size) == 1 and len(size[0][0]) == 1 and size[0][1] == 1:
            if known.setdefault(size[0][0][0], number) != number:
                return False
        else:
            required.append((plus(size, (((), number),), -1), "=="))
    open_names = {name for size, _ in required for name in variables(size)} - known.keys()
    largest = max([*known.values(), *(abs(number) for _, number in equal), 1])
    # Sizes of results are sums of a few products.
    spans = dict.fromkeys(sorted(open_names), (0, 4 * largest * largest + 8))
    return next(points(required, known, spans, _upward()), None) is not None


def _upward() -> Order:
    """Values from the least on; none after many tries."""
    tries = itertools.count()
    return lambda low, high: range(low, high + 1) if next(tries) < TRIES else ()

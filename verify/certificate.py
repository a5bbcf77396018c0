"""What a proof says, as values: cases, both normal forms of each, and what was left to a solver.

What it does: names the parts of a certificate. What it does not: make one (see `prover`), write it
(see `certificate_json`) or check it (see `checker`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphopt.graph import Input, Param
from graphopt.matching import Bindings
from graphopt.pattern import literal_text
from tensorgen.sizes import Size
from verify.assumptions import Assumptions
from verify.normal_form import Quotient, Sum
from verify.symbolic_rule import Ranks


@dataclass(frozen=True, slots=True)
class Comparison:
    """The element of a result, by its position, at `axes`, each below its extent, on either side.

    An axis is an index i, 0 where the extent is 1, or d*i+p where the extent is a multiple of a
    number d: then there is a comparison for every p below d. The forms may name `quotients`.

    `pairs` are positions of terms (source, target) that are equal by form. The other terms cancel
    wherever their conditions hold: each of `obligations` is a question in SMT-LIB 2 about integers
    that must be unsatisfiable (see `obligation`). A result without elements has no terms, and one
    obligation: that no index fits.
    """

    result: int
    axes: tuple[Size, ...]
    extents: tuple[Size, ...]
    quotients: tuple[Quotient, ...]
    source: Sum
    target: Sum
    pairs: tuple[tuple[int, int], ...]
    obligations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One way to apply a rule: types and parameters, and what is assumed of the sizes in them.

    `operands` and `parameters` go by name, `inputs` by the operand's position in the forms. Members
    of a sequence are named xs[0], xs[1]; captured parameters q.pads, q.strides.
    """

    operands: tuple[tuple[str, str], ...]
    inputs: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    assumptions: Assumptions
    comparisons: tuple[Comparison, ...]

    @staticmethod
    def of(
        bindings: Bindings, assumptions: Assumptions, comparisons: tuple[Comparison, ...]
    ) -> Case:
        """The case of what names stand for."""
        tensors = dict(bindings.tensors)
        for name, members in bindings.sequences.items():
            tensors |= {f"{name}[{n}]": member for n, member in enumerate(members)}
        inputs = {
            value.position: str(value.type)
            for value in tensors.values()
            if isinstance(value, Input)
        }
        parameters = dict(bindings.params)
        for name, captured in bindings.captured.items():
            parameters |= {f"{name}.{key}": value for key, value in captured}
        return Case(
            tuple((name, str(value.type)) for name, value in sorted(tensors.items())),
            tuple(inputs[position] for position in sorted(inputs)),
            tuple((name, parameter_text(parameters[name])) for name in sorted(parameters)),
            assumptions,
            comparisons,
        )


def parameter_text(value: Param) -> str:
    """A parameter as text; sizes in it are polynomials."""
    match value:
        case tuple():
            inside = ", ".join(map(parameter_text, value))
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        case Size():
            return str(value)
        case _:
            return literal_text(value)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A proof that both sides of a rule are equal.

    `guards` are the conditions that were inferred; the text of the rule holds them. `excluded` are
    questions in SMT-LIB 2 that must be unsatisfiable: what no sizes can be. `unclaimed` counts the
    ways to apply the source for which the target is not defined or has other types.
    """

    rule: str
    digest: str
    ranks: Ranks
    guards: tuple[str, ...]
    cases: tuple[Case, ...]
    excluded: tuple[str, ...]
    unclaimed: int

    @property
    def obligations(self) -> Iterator[str]:
        """Every question to a solver, each once."""
        seen: set[str] = set()
        for text in (
            *self.excluded,
            *(
                text
                for case in self.cases
                for comparison in case.comparisons
                for text in comparison.obligations
            ),
        ):
            if text not in seen:
                seen.add(text)
                yield text

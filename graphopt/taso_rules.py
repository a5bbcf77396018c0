"""TASO's substitutions as rules: a `graph_subst.pb` in Tasor's own rule language.

What it does: says each substitution as source, target and the conditions that TASO's operators
imply. Whatever has no counterpart is refused by name, as a value. What it does not: judge whether a
substitution is true; some that TASO ships are not.

TASO's operators, as its generator and its matcher have them:

- `ewadd`, `ewmul` take operands of equal shapes, never broadcast: `same_shape(x, y)`;
- `matmul` has two axes, `concat` and `transpose` as many as they say: `rank(2, x)`;
- `conv2d` ignores the kernel sizes that a file gives, as the matcher does. Its groups are implicit,
  channels of x over channels of w, so they are free unless ordinary convolutions are asked for;
- SAME keeps sizes at stride 1: k - 1 rows of padding. Where that is odd, the further row comes
  after (ONNX SAME_UPPER), which is what TASO's generator does and its cuDNN code does not;
- average pooling divides by the whole window, padding included;
- `split` cuts where the value was concatenated last, a position that operators hand on;
- `enlarge` centres a kernel in a larger one of zeros, rounding the place down;
- scalar multiplication takes the scalar second;
- `relu` is max(x, 0), as activation of another operator max(0, x).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from graphopt.pattern import (
    Application,
    FunctionCall,
    Literal,
    Name,
    Pattern,
    Term,
    Variable,
    subterms,
)
from graphopt.pattern_reader import MAX_LENGTH
from graphopt.rule import Rule, statement_text
from graphopt.taso_operators import Parameters, Unsayable, apply_operator, rank_of
from graphopt.taso_schema import (
    Operator,
    OpType,
    Parameter,
    Port,
    Substitution,
    load_substitutions,
)
from graphopt.taso_shapes import Leaf, Tensor

MAX_TERMS = 200
"""A result with more terms than this, written out as a tree, is refused."""

MAX_OUTPUTS = 64
"""No operator has more results than this."""


class Groups(Enum):
    """What convolutions of a source may be: of any groups, as TASO's matcher has it, or of one.

    Those of a target have as many groups as their operands say, as in TASO.
    """

    FREE = "free"
    ONE = "one"


@dataclass(frozen=True, slots=True)
class Translated:
    """The substitution at `index` (from 0) of a file, as a rule."""

    index: int
    rule: Rule


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The substitution at `index` of a file, which the rule language does not say, and why."""

    index: int
    name: str
    reason: str


TasoRule = Translated | Unsupported


def load_taso_rules(path: Path | str, groups: Groups = Groups.FREE) -> tuple[TasoRule, ...]:
    """Every substitution of a file, in order. Raises RuleError, one line that names the file."""
    return translate(load_substitutions(path), groups)


def translate(
    substitutions: Sequence[Substitution], groups: Groups = Groups.FREE
) -> tuple[TasoRule, ...]:
    """Substitutions as rules named `taso-000`, `taso-001`, …, or why there is no such rule."""
    width = max(3, len(str(len(substitutions) - 1)))
    return tuple(
        _translated(index, f"taso-{index:0{width}}", substitution, groups)
        for index, substitution in enumerate(substitutions)
    )


def _translated(index: int, name: str, substitution: Substitution, groups: Groups) -> TasoRule:
    try:
        return Translated(index, _rule(name, substitution, groups))
    except Unsayable as reason:
        return Unsupported(index, name, str(reason))


def _rule(name: str, substitution: Substitution, groups: Groups) -> Rule:
    parameters = Parameters(groups is Groups.ONE)
    variables = _variables(substitution)
    left = _tensors(
        substitution.sources, [a for a, _ in substitution.outputs], variables, parameters
    )
    source = [left[port].term for port, _ in substitution.outputs]
    shapes = _shape_conditions(substitution, left, parameters)
    bound = {term for root in source for term in subterms(root) if isinstance(term, Variable)}
    parameters.close(source)
    right = _tensors(
        substitution.targets, [b for _, b in substitution.outputs], variables, parameters
    )
    target = [right[port].term for _, port in substitution.outputs]
    if source == target:
        raise Unsayable("both sides are the same")
    used = {term for root in target for term in subterms(root) if isinstance(term, Variable)}
    if not used <= bound:
        raise Unsayable("a variable that no result of the source needs")
    definitions = tuple(
        FunctionCall("equal", (known, value))
        for value, known in parameters.defined.items()
        if isinstance(known, Name) and known not in parameters.implied
    )
    rule = Rule(
        name,
        Pattern(_labelled(source, parameters)),
        Pattern(tuple(target)),
        (*shapes, *definitions),
    )
    if len(statement_text(rule)) > MAX_LENGTH:
        raise Unsayable("a rule too long to read")
    return rule


def _tensors(
    operators: Sequence[Operator],
    outputs: Sequence[Port],
    variables: dict[int, Tensor],
    parameters: Parameters,
) -> dict[Port, Tensor]:
    """The tensors that some output needs, as terms."""
    tensors = {Port(number, 0): tensor for number, tensor in variables.items()}
    sizes = dict.fromkeys(tensors, 1)
    for index in _needed(operators, outputs):
        operator = operators[index]
        results = apply_operator(
            operator, tuple(tensors[port] for port in operator.inputs), parameters
        )
        for output, tensor in enumerate(results):
            tensors[Port(index, output)] = tensor
            # An operator is at most three terms.
            sizes[Port(index, output)] = 3 + sum(sizes[port] for port in operator.inputs)
            if sizes[Port(index, output)] > MAX_TERMS:
                raise Unsayable("a result too large to write out as a term")
    if any(port not in tensors for port in outputs):
        raise Unsayable("an output that its operator has not")
    return tensors


def _needed(operators: Sequence[Operator], outputs: Sequence[Port]) -> list[int]:
    """The operators that some output needs, in order."""
    needed = {port.operator for port in outputs}
    for index in range(len(operators) - 1, -1, -1):
        if index in needed:
            needed.update(port.operator for port in operators[index].inputs)
    return sorted(index for index in needed if index >= 0)


# Variables and their shapes


_NAMES = ("x", "y", "z", "w", "u", "v")

_RANKS: Mapping[int, int] = {
    OpType.CONV2D: 4, OpType.POOL2D_MAX: 4, OpType.POOL2D_AVG: 4, OpType.ENLARGE: 4,
    OpType.MATMUL: 2,
}  # fmt: skip
"""How many axes all operands have, and the result."""

_BINARY = frozenset({OpType.EW_ADD, OpType.EW_MUL})
_ELEMENTWISE = _BINARY | {OpType.RELU, OpType.SIGMOID, OpType.TANH}
_SAME_RANK = _ELEMENTWISE | {OpType.MUL, OpType.SPLIT}


def _variables(substitution: Substitution) -> dict[int, Tensor]:
    """The variables, named in the order in which they occur, with as many axes as operators say.

    Variables that must have equal shapes have the sizes of the first of them.
    """
    ports = dict.fromkeys(
        port for operator in substitution.sources for port in operator.inputs if port.operator < 0
    )
    names = {port: _NAMES[n] if n < len(_NAMES) else f"x{n}" for n, port in enumerate(ports)}
    ranks = _ranks(substitution)
    first = _first_of_shape(substitution)
    result = {}
    for port, name in names.items():
        rank = ranks.get((0, port))
        axes = None
        if rank is not None:
            owner = Name(names[first.get(port, port)])
            calls = (FunctionCall("size", (owner, Literal(n))) for n in range(rank))
            axes = tuple(Leaf(call) for call in calls)
        result[port.operator] = Tensor(Variable(name), axes)
    return result


def _first_of_shape(substitution: Substitution) -> dict[Port, Port]:
    """For each variable that elementwise operators tie to others, the first of those."""
    alike: dict[Port, tuple[Port, ...]] = {}
    for index in _needed(substitution.sources, [port for port, _ in substitution.outputs]):
        operator = substitution.sources[index]
        if operator.type in _ELEMENTWISE:
            tied = [*operator.inputs, Port(index, 0)]
            together = tuple(
                dict.fromkeys(member for port in tied for member in alike.get(port, (port,)))
            )
            alike.update(dict.fromkeys(together, together))
    result = {}
    for port, together in alike.items():
        variables = [member for member in together if member.operator < 0]
        if port.operator < 0:
            result[port] = variables[0]
    return result


_Place = tuple[int, Port]
"""A tensor: side 1 or 2 and port; variables are on side 0."""


def _ranks(substitution: Substitution) -> dict[_Place, int]:
    """How many axes tensors have, as far as operators say; Unsayable if they disagree."""
    known: dict[_Place, int] = {}

    def place(side: int, port: Port) -> _Place:
        return (0 if port.operator < 0 else side, port)

    def settle(where: _Place, rank: int) -> None:
        if known.setdefault(where, rank) != rank:
            raise Unsayable(f"a tensor of {known[where]} and of {rank} axes")

    pending = True
    while pending:
        before = len(known)
        for side, operators in ((1, substitution.sources), (2, substitution.targets)):
            for index, operator in enumerate(operators):
                inputs = [place(side, port) for port in operator.inputs]
                results = [(side, Port(index, n)) for n in range(_outputs(operator))]
                alike = [*inputs, *results]
                if operator.type == OpType.MUL:
                    alike = [*inputs[:1], *results]
                    for scalar in inputs[1:]:
                        settle(scalar, 0)
                rank = _stated_rank(operator)
                if rank is None and operator.type in _SAME_RANK:
                    rank = next((known[where] for where in alike if where in known), None)
                if rank is not None:
                    for where in alike:
                        settle(where, rank)
        pending = len(known) > before
    return known


def _stated_rank(operator: Operator) -> int | None:
    """How many axes an operator says that its operands and results have."""
    if operator.type in (OpType.CONCAT, OpType.TRANSPOSE):
        return rank_of(operator)
    return _RANKS.get(operator.type)


def _outputs(operator: Operator) -> int:
    count = operator.param(Parameter.NUM_OUTPUTS) if operator.type == OpType.SPLIT else 1
    return 1 if count is None else min(count, MAX_OUTPUTS)


def _shape_conditions(
    substitution: Substitution, tensors: dict[Port, Tensor], parameters: Parameters
) -> tuple[FunctionCall, ...]:
    """What TASO's operators ask of shapes and the rule language's do not."""
    alike: dict[Term, tuple[Term, ...]] = {}
    windowed: set[Term] = set()
    for index in _needed(substitution.sources, [port for port, _ in substitution.outputs]):
        operator = substitution.sources[index]
        operands = [tensors[port].term for port in operator.inputs]
        for operand in operands:
            alike.setdefault(operand, (operand,))
        if _RANKS.get(operator.type) == 4:
            windowed.update(operands)
        joined = operands if operator.type in _BINARY else operands[:1]
        if operator.type in _ELEMENTWISE or operator.type == OpType.MUL:
            together = tuple(dict.fromkeys(leaf for term in joined for leaf in alike[term]))
            for term, leaves in alike.items():
                if set(leaves) & set(together):
                    alike[term] = together
            alike[tensors[Port(index, 0)].term] = together
    classes = dict.fromkeys(alike.values())
    conditions = [
        FunctionCall("same_shape", tuple(parameters.name_of(leaf) for leaf in leaves))
        for leaves in classes
        if len(leaves) > 1
    ]
    stated: dict[int, list[Name]] = {}
    axes = {tensor.term: tensor.axes for tensor in tensors.values()}
    for leaves in classes:
        known = axes[leaves[0]]
        settled = windowed & set(leaves) or not all(isinstance(x, Variable) for x in leaves)
        if known is not None and not settled:
            stated.setdefault(len(known), []).append(parameters.name_of(leaves[0]))
    for rank in sorted(stated):
        conditions.append(FunctionCall("rank", (Literal(rank), *stated[rank])))
    return tuple(conditions)


def _labelled(roots: Sequence[Term], parameters: Parameters) -> tuple[Term, ...]:
    """The source with the labels that conditions refer to, each where its tensor occurs first."""
    wanted = dict(parameters.names)

    def inner(term: Term) -> Term:
        if not isinstance(term, Application):
            return term
        label = wanted.pop(term, None)
        args = tuple(inner(arg) for arg in term.args)
        return replace(term, args=args, label=None if label is None else label.name)

    def outer(term: Term) -> Term:
        assert isinstance(term, Application)
        return replace(term, args=tuple(inner(arg) for arg in term.args))

    labelled = tuple(outer(root) for root in roots)
    if wanted:
        raise Unsayable("a condition on a result itself")
    return labelled

"""Moves from a rule to more general ones: parameters that were enumerated become names.

What it does: proposes forms of a rule in which windows, pads, axes, permutations or slices are
general, in each way there is. A form may be false. What it does not: choose among forms
(`generalize`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from graphopt.minimize.terms import (
    first_variable,
    free_name,
    names_in,
    with_applications,
    with_conditions,
    with_literals_named,
    with_params,
)
from graphopt.pattern import (
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Variable,
    applications,
    expression_text,
)
from graphopt.rule import Rule

MOST_CHOICES = 12
"""So many ways to say the axes of a target are tried."""

_WINDOWS = ("conv", "sum_pool", "max_pool")


def _windows(rule: Rule) -> Iterator[Rule]:
    """All parameters of windows captured; the groups of convolutions where all have the same."""
    names: dict[str, str] = {}
    groups = {
        expression_text(value)
        for pattern in (rule.source, rule.target)
        for part in applications(pattern)
        for name, value in part.params
        if name == "groups"
    }
    has_groups_alike = len(groups) == 1 and not groups & {"1"}

    def captured(term: Application, in_source: bool) -> Application:
        if term.op.name not in _WINDOWS or term.rest is not None:
            return term
        kept = () if has_groups_alike else tuple(p for p in term.params if p[0] == "groups")
        alike = [p for p in term.params if p[0] != "groups"]
        key = term.op.name + str(alike)
        if key not in names:
            if not in_source:
                return term
            names[key] = f"o{len(names)}" if names else "o"
        return Application(term.op, term.args, kept, names[key], term.label)

    current = with_applications(rule, captured)
    if current != rule:
        yield current


def _strides(rule: Rule) -> Iterator[Rule]:
    """Strides of windows by name, where not all parameters can be captured."""
    named = free_name(rule, "s")

    def changed(term: Application, in_source: bool) -> Application:
        literal = any(n == "strides" and isinstance(v, Literal) for n, v in term.params)
        return with_params(term, strides=Name(named)) if literal else term

    yield with_applications(rule, changed)


def _pads(rule: Rule) -> Iterator[Rule]:
    """Margins of pads by name: equal ones before alike, and equal ones after."""
    before, after = (
        {
            expression_text(value): Name("")
            for part in applications(rule.source)
            for name, value in part.params
            if part.op.name == "pad" and name == side and isinstance(value, Literal)
        }
        for side in ("before", "after")
    )
    for prefix, names in ((free_name(rule, "b"), before), (free_name(rule, "c"), after)):
        for number, text in enumerate(names):
            names[text] = Name(f"{prefix}{number or ''}")

    def changed(term: Application, in_source: bool) -> Application:
        if term.op.name != "pad":
            values = {name: _margins_named(value, before, after) for name, value in term.params}
            return with_params(term, **values)
        params = dict(term.params)
        return with_params(
            term,
            before=before.get(expression_text(params["before"]), params["before"]),
            after=after.get(expression_text(params["after"]), params["after"]),
        )

    current = with_applications(rule, changed)
    if current != rule:
        yield current


def _margins_named(
    value: Expression, before: Mapping[str, Name], after: Mapping[str, Name]
) -> Expression:
    """An expression with names in plus(plus(sizes, before), after)."""
    match value:
        case FunctionCall("plus", (FunctionCall("plus", (sizes, low)), high)):
            low = before.get(expression_text(low), low)
            high = after.get(expression_text(high), high)
            return FunctionCall("plus", (FunctionCall("plus", (sizes, low)), high))
        case FunctionCall():
            args = tuple(_margins_named(arg, before, after) for arg in value.args)
            return FunctionCall(value.function, args)
        case _:
            return value


def _with_named(term: Application, names: Mapping[str, Name]) -> Application:
    values = {name: with_literals_named(value, names) for name, value in term.params}
    return with_params(term, **values)


def _permutations(rule: Rule) -> Iterator[Rule]:
    """One permutation by name; not where axes of the target alone depend on it."""
    literal = {expression_text(perm) for perm in _perms(rule) if isinstance(perm, Literal)}
    axes = _Axes.of(rule)
    if not literal or (axes.target and not axes.source):
        return
    named = Name(free_name(rule, "p"))

    def changed(term: Application, in_source: bool) -> Application:
        if term.op.name == "transpose":
            return with_params(term, perm=named)
        return _with_named(term, dict.fromkeys(literal, named))

    yield with_applications(rule, changed)


def _slices(rule: Rule) -> Iterator[Rule]:
    """Slices of any rank: the same box anywhere if both sides have them, else as the rule has
    them."""
    in_source, in_target = (
        any(part.op.name == "slice" for part in applications(side))
        for side in (rule.source, rule.target)
    )
    starts, steps = Name(free_name(rule, "s")), Name(free_name(rule, "t"))
    sizes = Name(free_name(rule, "n"))

    def anywhere(term: Application, in_source: bool) -> Application:
        if term.op.name != "slice":
            return term
        return with_params(term, starts=starts, steps=steps, sizes=sizes)

    if in_source and in_target:
        yield with_applications(rule, anywhere)
    if in_source:
        yield _placed_slices(rule, starts, steps)
    elif in_target:
        yield with_applications(rule, _like_their_sizes)


def _like_their_sizes(term: Application, in_source: bool) -> Application:
    if term.op.name != "slice":
        return term
    params = dict(term.params)
    sizes = params["sizes"]
    params["steps"] = FunctionCall("ones_like", (sizes,))
    if isinstance(params["starts"], Literal):
        params["starts"] = FunctionCall("zeros_like", (sizes,))
    return with_params(term, **params)


def _placed_slices(rule: Rule, starts: Name, steps: Name) -> Rule:
    """Literal starts and steps of slices by names that conditions settle."""
    conditions: list[FunctionCall] = []
    wanted = rule.target.terms[0]

    def settled(name: Expression, function: str, tensor: str) -> None:
        shape = FunctionCall("shape_of", (Name(tensor),))
        value = FunctionCall(function, (shape,)) if function else shape
        conditions.append(FunctionCall("equal", (name, value)))

    def changed(term: Application, in_source: bool) -> Application:
        if term.op.name != "slice":
            return term
        params = dict(term.params)
        tensor = first_variable(term)
        if in_source and isinstance(params["sizes"], Name) and isinstance(wanted, Variable):
            settled(params["sizes"], "", wanted.name)
        if isinstance(params["steps"], Literal):
            params["steps"] = steps
            settled(steps, "ones_like", tensor)
        if isinstance(params["starts"], Literal):
            params["starts"] = starts
            settled(starts, "zeros_like", tensor)
        return with_params(term, **params)

    current = with_applications(rule, changed)
    return with_conditions(current, (*rule.where, *conditions))


@dataclass(frozen=True, slots=True)
class _Axes:
    """The axes of a rule: the literal ones of concatenations and of where slices begin."""

    source: tuple[int, ...]
    target: tuple[int, ...]

    @staticmethod
    def of(rule: Rule) -> _Axes:
        found: tuple[dict[int, None], dict[int, None]] = {}, {}
        for side, pattern in enumerate((rule.source, rule.target)):
            for part in applications(pattern):
                for name, value in part.params:
                    for axis in _axes_in(name, value):
                        found[side][axis] = None
        for condition in rule.where:
            for axis in _axes_in("", condition):
                found[1][axis] = None
        return _Axes(tuple(found[0]), tuple(found[1]))


def _axes_in(name: str, value: Expression) -> Iterator[int]:
    if name == "axis" and isinstance(value, Literal) and isinstance(value.value, int):
        yield value.value
    if isinstance(value, FunctionCall):
        if value.function == "offset_on" and isinstance(value.args[1], Literal):
            axis = value.args[1].value
            assert isinstance(axis, int)
            yield axis
        else:
            for arg in value.args:
                yield from _axes_in("", arg)


def _axes(rule: Rule) -> Iterator[Rule]:
    """Axes by name in the source; in the target the same, or what operators make of them."""
    axes = _Axes.of(rule)
    if not axes.source and not axes.target:
        return
    names = {axis: Name(f"{free_name(rule, 'a')}{n or ''}") for n, axis in enumerate(axes.source)}
    choices = [list(_axis_choices(rule, axis, names)) for axis in axes.target]
    for chosen in islice(product(*choices), MOST_CHOICES):
        target = dict(zip(axes.target, chosen, strict=True))
        used = {name for value in chosen for name in names_in(value)}
        # An axis that the target says nothing of is one that types alone settle, or any.
        source = {a: name for a, name in names.items() if name.name in used or not axes.target}
        if source or not names:
            yield _with_axes(rule, source, target)


def _with_axes(rule: Rule, source: dict[int, Name], target: dict[int, Expression]) -> Rule:
    """The rule with literal axes replaced on both sides."""

    def replaced(value: Expression, known: dict[int, Expression]) -> Expression:
        if isinstance(value, FunctionCall):
            if value.function == "offset_on" and isinstance(value.args[1], Literal):
                axis = value.args[1].value
                assert isinstance(axis, int)
                return FunctionCall("offset_on", (value.args[0], known.get(axis, value.args[1])))
            return FunctionCall(value.function, tuple(replaced(arg, known) for arg in value.args))
        return value

    def changed(term: Application, in_source: bool) -> Application:
        known: dict[int, Expression] = dict(source) if in_source else target
        params = []
        for name, value in term.params:
            if name == "axis" and isinstance(value, Literal) and isinstance(value.value, int):
                params.append((name, known.get(value.value, value)))
            else:
                params.append((name, replaced(value, known)))
        return Application(term.op, term.args, tuple(params), term.rest, term.label)

    current = with_applications(rule, changed)
    where = []
    for condition in rule.where:
        found = replaced(condition, target)
        assert isinstance(found, FunctionCall)
        where.append(found)
    return with_conditions(current, tuple(where))


def _axis_choices(rule: Rule, axis: int, names: dict[int, Name]) -> Iterator[Expression]:
    """What an axis of the target may be, general choices first."""
    tensors = _operands(rule)
    operators = {part.op.name for part in applications(rule.source)}
    perms = _perms(rule)
    for perm in perms:
        for name in names.values():
            yield FunctionCall("image", (name, perm))
    if axis in names and not perms:
        yield names[axis]
    if "matmul" in operators:
        for first, second in tensors:
            if names:
                yield from (
                    FunctionCall("broadcast_axis", (name, Name(a), Name(b)))
                    for name in names.values()
                    for a, b in ((first, second), (second, first))
                )
            for tensor in (first, second):
                yield FunctionCall("counted", (Literal(axis - 2), Name(tensor)))
    yield Literal(axis)


def _operands(rule: Rule) -> list[tuple[str, str]]:
    """For each matrix product, the first variable of either operand; each pair once."""
    found: dict[tuple[str, str], None] = {}
    for part in applications(rule.source):
        if part.op.name == "matmul":
            sides = []
            for arg in part.args:
                sides.append(first_variable(arg))
            found[sides[0], sides[1]] = None
    return list(found)


def _perms(rule: Rule) -> list[Expression]:
    found: dict[str, Expression] = {}
    for part in applications(rule.source):
        for name, value in part.params:
            if name == "perm":
                found[expression_text(value)] = value
    return list(found.values())


MOVES: Sequence[Callable[[Rule], Iterator[Rule]]] = (
    _windows, _strides, _pads, _permutations, _slices, _axes,
)  # fmt: skip
"""The moves, in the order in which they are made."""

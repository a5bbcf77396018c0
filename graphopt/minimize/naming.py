"""Names of rules that say what they do: matmul-over-concat-columns, relu-past-transpose.

What it does: names a rule after its outermost operators and how they change places, and makes names
unique by numbers. What it does not: tell apart rules that differ in parameters alone.

    f(f(x, y), z) => f(x, f(y, z))          f-associates
    f(g(x)) => g(f(x))                      f-past-g
    f(g(x, y), …) => g(f(x, …), f(y, …))    f-over-g, and where in f that g stands
    g(f(x, …), f(y, …)) => f(g(x, y), …)    f-out-of-g
    f(g(x, …), y) => f(x, g(y, …))          g-across-f, and where it was
    f(f(x)) => x, f(f(x)) => f(x)           f-twice
    g(f(x, y), f(z, w)) => f(h(x, z), h(y, w))  g-of-f-by-h, and back f-of-h-by-g
    f(x, …), f(y, …) => parts of f(concat(x, y), …)    f-joined
    others                                  words of the source, -as-, words of the target
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from graphopt.pattern import Application, Literal, Name, Term, Variable, literal_text
from graphopt.rule import Rule

_PLACES: Mapping[tuple[str, str], Mapping[tuple[int, ...], str]] = {
    ("matmul", "concat"): {(0,): "-rows", (1,): "-columns", (0, 1): "-inner"},
    ("conv", "concat"): {(0,): "-batch", (1,): "-outputs", (0, 1): "-channels"},
    ("conv", ""): {(0,): "-data", (1,): "-weights", (0, 1): "-both"},
}
"""What to call the places of an operator's operands, by the operator that stands there."""
_SIDES: Mapping[tuple[int, ...], str] = {(0,): "-left", (1,): "-right", (0, 1): "-both"}
_ORDERLESS = frozenset({"add", "mul", "scale", "relu"})


def named(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules under names of their own, in the same order."""
    taken: dict[str, int] = {}
    result = []
    for rule in rules:
        base = _name(rule)
        taken[base] = taken.get(base, 0) + 1
        number = taken[base]
        name = base if number == 1 else f"{base}-{number}"
        result.append(replace(rule, name=name))
    return tuple(result)


def _name(rule: Rule) -> str:
    source, target = rule.source.terms[0], rule.target.terms[0]
    assert isinstance(source, Application)
    scalars = {
        arg.name
        for condition in rule.where
        if condition.function == "rank" and condition.args[0] == Literal(0)
        for arg in condition.args[1:]
        if isinstance(arg, Name)
    }

    def word(term: Application) -> str:
        if term.op.name == "max" and Literal(0) in term.args:
            return "relu"
        if term.op.name == "mul" and any(
            isinstance(arg, Variable) and arg.name in scalars for arg in term.args
        ):
            return "scale"
        return term.op.name.replace("_", "-")

    def words(term: Term) -> Iterator[str]:
        if isinstance(term, Application):
            yield word(term)
            for arg in term.args:
                yield from words(arg)

    def operands(term: Application) -> list[Application]:
        return [arg for arg in term.args if isinstance(arg, Application)]

    def place(outer: Application, inner: str) -> str:
        tensors = [arg for arg in outer.args if not isinstance(arg, Literal)]
        where = tuple(
            n
            for n, arg in enumerate(tensors)
            if isinstance(arg, Application) and word(arg) == inner
        )
        if word(outer) in _ORDERLESS or len(tensors) < 2:
            return ""
        name = word(outer)
        known = _PLACES.get((name, inner)) or _PLACES.get((name, "")) or _SIDES
        return known.get(where, "")

    outer = word(source)
    if len(rule.source.terms) > 1:
        whole = operands(target)[0] if isinstance(target, Application) else source
        return f"{word(whole)}-joined{place(whole, 'concat')}"
    below = operands(source)
    inner = {word(term) for term in below}
    if not isinstance(target, Application):
        literals = [literal_text(arg.value) for arg in source.args if isinstance(arg, Literal)]
        if literals and not below:
            return f"{outer}-by-{literals[0]}"
        return f"{outer}-twice" if inner == {outer} else "-of-".join(dict.fromkeys(words(source)))
    result = word(target)
    above = operands(target)
    made = {word(term) for term in above}
    if outer == result:
        if inner == {outer} and not made and not any(map(operands, below)):
            return f"{outer}-twice"
        if inner == made == {outer}:
            return f"{outer}-associates" if len(below) == 1 else f"{outer}-exchanges-axes"
        if inner == made and len(below) == len(above) == 1:
            [moved] = inner
            return f"{moved}-across-{outer}{place(source, moved)}"
    elif inner == {result} and made == {outer}:
        if len(below) == len(above):
            return f"{outer}-past-{result}{place(source, result) or place(target, outer)}"
        if len(below) < len(above):
            return f"{outer}-over-{result}{place(source, result)}"
        return f"{result}-out-of-{outer}{place(target, outer)}"
    elif len(below) == len(above) == 2 and len(inner) == len(made) == 1:
        [under], [over] = inner, made
        if under == result:
            return f"{outer}-of-{under}-by-{over}"
        if over == outer:
            return f"{outer}-of-{under}-by-{result}"
    return f"{'-'.join(words(source))}-as-{'-'.join(words(target))}"

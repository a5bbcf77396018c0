"""Rebuilding rules: their applications, expressions and conditions replaced one by one.

What it does: maps functions over the parts of a rule, turns a rule around, and says which names a
rule binds. What it does not: judge the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from graphopt.pattern import (
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Pattern,
    Sequence,
    Term,
    Variable,
    applications,
    expression_text,
    subterms,
)
from graphopt.rule import Rule


def with_applications(rule: Rule, change: Callable[[Application, bool], Application]) -> Rule:
    """The rule with every application changed, operands first; the flag says: in the source."""

    def changed(term: Term, in_source: bool) -> Term:
        if not isinstance(term, Application):
            return term
        args = tuple(changed(arg, in_source) for arg in term.args)
        return change(replace(term, args=args), in_source)

    source = Pattern(tuple(changed(term, True) for term in rule.source.terms))
    target = Pattern(tuple(changed(term, False) for term in rule.target.terms))
    return Rule(rule.name, source, target, rule.where)


def with_params(term: Application, **values: Expression) -> Application:
    """The application with some of its named parameters replaced."""
    return replace(term, params=tuple((name, values.get(name, old)) for name, old in term.params))


def with_literals_named(expression: Expression, names: Mapping[str, Name]) -> Expression:
    """The expression with names in place of the literals inside calls, by their text."""
    if not isinstance(expression, FunctionCall):
        return expression
    args = []
    for arg in expression.args:
        known = names.get(expression_text(arg)) if isinstance(arg, Literal) else None
        args.append(with_literals_named(arg, names) if known is None else known)
    return FunctionCall(expression.function, tuple(args))


def with_conditions(rule: Rule, where: tuple[FunctionCall, ...]) -> Rule:
    """The rule under other conditions."""
    return Rule(rule.name, rule.source, rule.target, tuple(dict.fromkeys(where)))


def names_in(expression: Expression) -> Iterator[str]:
    """Every name in an expression."""
    match expression:
        case Name():
            yield expression.name
        case FunctionCall():
            for arg in expression.args:
                yield from names_in(arg)
        case _:
            return


def bound_names(pattern: Pattern) -> set[str]:
    """The names that a source binds."""
    names: set[str] = set()
    for root in pattern.terms:
        for term in subterms(root):
            match term:
                case Variable() | Sequence():
                    names.add(term.name)
                case Application():
                    names |= {name for name in (term.rest, term.label) if name is not None}
                    names |= {name for _, value in term.params for name in names_in(value)}
    return names


def free_name(rule: Rule, prefix: str) -> str:
    """A name that the rule does not use."""
    taken = bound_names(rule.source) | bound_names(rule.target)
    taken |= {name for condition in rule.where for name in names_in(condition)}
    if prefix not in taken:
        return prefix
    return next(f"{prefix}{n}" for n in range(1, len(taken) + 2) if f"{prefix}{n}" not in taken)


def grows_without_end(rule: Rule) -> bool:
    """Whether a result contains its own source: the rule would apply to what it made."""
    return any(
        old in subterms(new) for old, new in zip(rule.source.terms, rule.target.terms, strict=True)
    )


def is_closed(rule: Rule) -> bool:
    """Whether the source binds every name of the target and of the conditions."""
    names = bound_names(rule.source)
    wanted = bound_names(rule.target) | {n for c in rule.where for n in names_in(c)}
    return wanted <= names


def turned_around(rule: Rule) -> Rule | None:
    """The rule from target to source, under those conditions whose names it binds.

    None if it binds too few names or computes parameters in its source. What remains of the
    conditions may be too little: the result is another claim.
    """
    if not all(isinstance(term, Application) for term in rule.target.terms):
        return None
    calculated = any(
        isinstance(value, FunctionCall)
        for application in applications(rule.target)
        for _, value in application.params
    )
    unlabelled = with_applications(rule, lambda term, _: replace(term, label=None))
    names = bound_names(rule.target)
    if calculated or not bound_names(unlabelled.source) <= names:
        return None
    where = tuple(c for c in rule.where if set(names_in(c)) <= names)
    return Rule(rule.name, rule.target, unlabelled.source, where)


def first_variable(term: Term) -> str:
    """The name of the first variable in a term."""
    return next(part.name for part in subterms(term) if isinstance(part, Variable))


def tidied(rule: Rule) -> Rule:
    """The rule without labels that nothing refers to, and each condition once."""
    used = {name for condition in rule.where for name in names_in(condition)}
    for pattern in (rule.source, rule.target):
        for root in pattern.terms:
            for term in subterms(root):
                if isinstance(term, Variable):
                    used.add(term.name)
                elif isinstance(term, Application):
                    used |= {name for _, value in term.params for name in names_in(value)}

    def bare(term: Application, in_source: bool) -> Application:
        return term if term.label in used else replace(term, label=None)

    return with_conditions(with_applications(rule, bare), rule.where)

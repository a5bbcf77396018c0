"""An independent check of certificates: no solver, and nothing of the prover.

It reads the JSON itself, with arithmetic of its own. It and what it consists of (`integer_points`,
`case_parts`, `sampled_values`, `sampled_cases`, `sampled_instances`) import nothing else of this
package. It establishes of a certificate
- form: the text reads as one rule with that digest, whose conditions hold the guards;
- equality: `pairs` pair terms of both sides one to one, and paired terms are equal up to the names
  of bound variables; all other terms stand in obligations, whose texts are written here once more
  by the rules of `obligation` and must be the same. So both forms are equal at all sizes of a case
  *if* its obligations are unsatisfiable, which `solver_check` asks of another solver;
- meaning, by samples: for sizes that fit a case the rule applies, and at some elements both forms
  and both sides of the rule have one value, exactly, by `OpSpec.compute`;
- coverage, by samples: random instances of the rule, as far as the certificate speaks of them
  (floats, its ranks and longest sequences, parameters of at least 0), fit one of its cases.
It does not establish that the forms are what `compute` says at all sizes, nor that no case is
missing: for both it relies on samples. It reads `excluded` and `unclaimed`, and concludes nothing
from them.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm, prod

from graphopt.pattern import expression_text
from graphopt.rule import Rule, rule_text
from graphopt.rules import RuleError, read_rules
from verify.case_parts import Axis, assumed, axis_of
from verify.integer_points import (
    Condition,
    Fault,
    condition,
    demand,
    multiplied,
    plus,
    polynomial,
    substituted,
    variables,
)
from verify.sampled_cases import compared
from verify.sampled_instances import covered
from verify.sampled_values import Json, coefficient


@dataclass(frozen=True, slots=True)
class Accepted:
    """No fault was found. For `sampled` of the `cases` sizes were found, and so many elements were
    compared there; so many instances were drawn and covered."""

    cases: int
    sampled: int
    elements: int
    instances: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A fault: where, and one line with what was expected."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is sampled: points of a case, elements of a result at each, instances of a rule."""

    points: int = 2
    elements: int = 4
    instances: int = 30


def check(text: str, effort: Effort = Effort()) -> Accepted | Rejected:
    """Check a certificate, given as JSON; the same text has the same outcome."""
    place, sampled, elements = "certificate", 0, 0
    try:
        rng = random.Random(text)
        certificate = json.loads(text)
        rule = _rule(certificate)
        for number, case in enumerate(certificate["cases"]):
            place = f"case {number}"
            _check_places(rule, case)
            for result in case["results"]:
                _check_equality(case, result)
            found = [compared(rule, case, effort.elements, rng) for _ in range(effort.points)]
            sampled += any(count is not None for count in found)
            elements += sum(count or 0 for count in found)
        place = "coverage"
        drawn = covered(rule, certificate, effort.instances)
    except Fault as fault:
        return Rejected(place, str(fault))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        return Rejected(place, f"expected a certificate, got a malformed one: {error!r}")
    except RecursionError:
        return Rejected(place, "expected a certificate, got one nested too deeply")
    return Accepted(len(certificate["cases"]), sampled, elements, drawn)


MOST_BOUND = 7
"""Renamings of so many bound variables are tried; terms that are the same need none."""

_QUESTION = re.compile(
    r"\(set-logic QF_NIA\)\n(\(declare-const \w+ Int\)\n)*(\(assert .*\)\n)*\(check-sat\)"
)


def _rule(certificate: Json) -> Rule:
    try:
        (rule,) = read_rules(certificate["rule"])
    except RuleError as error:
        raise Fault(str(error)) from None
    demand(rule_text(rule) == certificate["rule"], "expected a rule as it prints")
    demand(rule.digest == certificate["digest"], f"expected the rule's digest, {rule.digest}")
    conditions = {expression_text(condition) for condition in rule.where}
    demand(conditions.issuperset(certificate["guards"]), "expected a rule with all guards")
    demand(bool(certificate["cases"]), "expected at least one case")
    for text in certificate["excluded"]:
        demand(_QUESTION.fullmatch(text) is not None, f"expected a question, got {text!r}")
    return rule


# Equality of both forms


def _check_places(rule: Rule, case: Json) -> None:
    """The elements that are compared must be all of each result."""
    places: dict[int, list[tuple[Axis, ...]]] = {n: [] for n in range(len(rule.source.terms))}
    solved = {name: polynomial(text) for name, text in case["equations"].items()}
    for result in case["results"]:
        axes = tuple(map(axis_of, result["axes"]))
        for axis, extent in zip(axes, result["extents"], strict=True):
            single = substituted(polynomial(extent), solved) == polynomial("1")
            demand(axis.name != "" or single, f"expected an index for the extent {extent}")
        places[result["result"]].append(axes)
    for number, found in places.items():
        options = [set(axes) for axes in zip(*found, strict=True)]
        whole = [
            len({(axis.name, axis.step) for axis in own}) == 1 and len(own) == next(iter(own)).step
            for own in options
        ]
        complete = len(set(found)) == len(found) == prod(map(len, options))
        demand(complete and all(whole), f"expected all elements of result {number}, once")


def _check_equality(case: Json, result: Json) -> None:
    source, target, pairs = result["source"], result["target"], result["pairs"]
    for side, form in enumerate((source, target)):
        paired = [pair[side] for pair in pairs]
        distinct = len(set(paired)) == len(paired) and set(paired) <= set(range(len(form)))
        demand(distinct, "expected pairs of terms, each term once")
    for left, right in pairs:
        if not _same_term(source[left], target[right], {}):
            raise Fault(f"expected equal terms, got {source[left]} and {target[right]}")
    groups: dict[str, list[tuple[int, Json]]] = {}
    for side, form in enumerate((source, target)):
        for number, term in enumerate(form):
            if all(pair[side] != number for pair in pairs):
                bare = json.dumps([term.get("over", []), term.get("of", [])])
                groups.setdefault(bare, []).append((-1 if side else 1, term))
    wanted = sorted(_question(case, result, group) for group in groups.values())
    nothing = not source and not target and result["obligations"] == [_question(case, result, [])]
    demand(
        nothing or wanted == sorted(result["obligations"]),
        "expected the obligations of the terms without a partner",
    )


def _same_term(left: Json, right: Json, names: Mapping[str, str]) -> bool:
    """Whether terms, or members of a maximum, are equal once the left one's `names` are changed."""
    if left == right and not names:
        return True
    own, other = left.get("over", []), right.get("over", [])
    if len(own) != len(other) or left.get("times") != right.get("times"):
        return False
    demand(len(own) <= MOST_BOUND, f"expected at most {MOST_BOUND} bound variables, got {own}")
    return any(
        _same_conditions(left, right, {**names, **dict(zip(own, order, strict=True))})
        and _same_parts(left, right, {**names, **dict(zip(own, order, strict=True))})
        for order in itertools.permutations(other)
    )


def _same_conditions(left: Json, right: Json, names: Mapping[str, str]) -> bool:
    own = {_renamed(condition(text), names) for text in left.get("where", ())}
    return own == {condition(text) for text in right.get("where", ())}


def _same_parts(left: Json, right: Json, names: Mapping[str, str]) -> bool:
    if "value" in left:
        return _same_all(left["value"], right["value"], names)
    return _same_all(left.get("of", ()), right.get("of", ()), names)


def _same_all(left: Sequence[Json], right: Sequence[Json], names: Mapping[str, str]) -> bool:
    """Whether terms, members or factors are equal one to one, in any order."""
    rest = list(right)
    for one in left:
        same = _same_term if isinstance(one, dict) else _same_factor
        found = next((n for n, other in enumerate(rest) if same(one, other, names)), None)
        if found is None:
            return False
        del rest[found]
    return not rest


def _same_factor(left: Json, right: Json, names: Mapping[str, str]) -> bool:
    (a, exponent), (b, other) = left, right
    if exponent != other or a.keys() != b.keys():
        return False
    match a:
        case {"call": name}:
            pairs = zip(a.get("of", ()), b.get("of", ()), strict=True)
            return bool(name == b["call"]) and all(_same_all(x, y, names) for x, y in pairs)
        case {"max": members} | {"min": members} | {"mul": members}:
            return _same_all(members, next(iter(b.values())), names)
    own = [a["number"]] if "number" in a else a.get("at", [])
    others = [b["number"]] if "number" in b else b.get("at", [])
    renamed = [_renamed((polynomial(text), "=="), names)[0] for text in own]
    return a.get("x") == b.get("x") and renamed == [polynomial(text) for text in others]


def _renamed(required: Condition, names: Mapping[str, str]) -> Condition:
    """The condition with names changed; a name that a bound variable now has is no longer free."""
    changed = {name: names.get(name, f"{name}'" if name in names.values() else name)
               for name in variables(required[0])}  # fmt: skip
    terms = ((tuple(sorted(changed[n] for n in own)), factor) for own, factor in required[0])
    return tuple(sorted(terms)), required[1]


# Obligations


def _question(case: Json, result: Json, group: Sequence[tuple[int, Json]]) -> str:
    """The text that asks whether terms, with signs, add up to anything but 0; see `obligation`."""
    solved = {name: polynomial(text) for name, text in case["equations"].items()}
    names: set[str] = set()

    def told(required: Condition) -> str:
        size = substituted(required[0], solved)
        names.update(variables(size))
        equal = f"(= {_total([_product(*term) for term in size])} 0)"
        told = {">=": f"(>{equal[1:]}", "==": equal, "!=": f"(not {equal})"}
        return told[required[1]]

    known = {told(required) for required in (*assumed(case), *_below(result))
             if required[1] != "=="}  # fmt: skip
    common = lcm(*(coefficient(term).denominator for _, term in group))
    cases = []
    for sign, term in group:
        conditions = sorted({told(condition(text)) for text in term.get("where", ())})
        both = f"(and {' '.join(conditions)})" if len(conditions) > 1 else "".join(conditions)
        weight = _number(int(sign * coefficient(term) * common))
        cases.append(f"(ite {both or 'true'} {weight} 0)")
    lines = [*sorted(known), *([f"(not (= {_total(sorted(cases))} 0))"] if group else [])]
    return "\n".join([
        "(set-logic QF_NIA)",
        *(f"(declare-const {name} Int)" for name in sorted(names)),
        *(f"(assert (>= {name} 0))" for name in sorted(names)),
        *(f"(assert {line})" for line in lines),
        "(check-sat)",
    ])  # fmt: skip


def _total(summands: Sequence[str]) -> str:
    return f"(+ {' '.join(summands)})" if len(summands) > 1 else "".join(summands) or "0"


def _product(names: Sequence[str], factor: int) -> str:
    parts = [*([_number(factor)] if factor != 1 or not names else []), *names]
    return f"(* {' '.join(parts)})" if len(parts) > 1 else parts[0]


def _number(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"


def _below(result: Json) -> list[Condition]:
    """That indices are less than extents, and what quotients are."""
    pairs = zip(result["axes"], result["extents"], strict=True)
    sizes = [
        plus(polynomial(f"{extent}-1"), polynomial(axis), -1)
        for axis, extent in pairs
        if axis_of(axis).name
    ]
    for name, dividend, divisor in result["quotients"]:
        whole = multiplied(polynomial(name), polynomial(divisor))
        rest = plus(polynomial(dividend), whole, -1)
        sizes += [rest, plus(polynomial(f"{divisor}-1"), rest, -1)]
    return [(size, ">=") for size in sizes]

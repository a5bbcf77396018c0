"""Rule files: lines of text to checked rules.

    # A comment.
    name: source => target where condition, condition
    name: source <=> target
    name: f(transpose(x, perm=p)) => transpose(f(x), perm=p) for f in unary

A line that begins with a blank continues the one before. `<=>` gives the rule and its inverse
(`name-inverse`). `for f in …` gives one rule for each operator of a family or list
(`name[exp]`, …).

Loading refuses a rule whose text, names, operators or parameters are wrong, and one for which no
operands of fitting types are found. It neither proves nor tests what a rule claims: that is the
business of `verify`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from graphopt.instances import find_instance
from graphopt.ops import OP, OPS
from graphopt.ops.spec import OpSpec
from graphopt.pattern import RuleError
from graphopt.pattern_reader import Excerpt, Scope, read_conditions, read_pattern
from graphopt.rule import Rule, rule_text

__all__ = ["FAMILIES", "Rule", "RuleError", "load_rules", "read_rules", "rule_text"]

FAMILIES: Mapping[str, tuple[OpSpec, ...]] = {
    "unary": tuple(
        op for op in OPS if op.family == "elementwise" and op.arity == 1 and not op.params
    ),
    "binary": tuple(
        op for op in OPS if op.family == "elementwise" and op.arity == 2 and not op.params
    ),
}
"""What an operator variable can range over, by name."""

_NAME = re.compile(r"([a-z][a-z0-9-]*)(\[[a-z0-9_]+\])?\s*:(?!=)")
_RANGE = re.compile(r"\s*([a-z_]\w*)\s+in\s+(.*?)\s*", re.DOTALL)
_SEPARATOR = re.compile(r"<=>|=>|(?<=\s)where(?=\s)|(?<=\s)for(?=\s)")


def load_rules(path: Path | str) -> tuple[Rule, ...]:
    """The rules of a file, in order. Raises RuleError, one line: file:line:column, problem."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "text that is no UTF-8"
        raise RuleError(f"{path}: expected a readable rule file, got {reason}") from None
    return read_rules(text, str(path))


def read_rules(text: str, file: str = "rules") -> tuple[Rule, ...]:
    """The rules that a text says; `file` names it in errors. Raises RuleError."""
    rules: list[Rule] = []
    names: set[str] = set()
    for line in _logical_lines(text, file):
        for rule in _rules_of(line):
            if rule.name in names:
                line.fail(0, f"expected a new name, got '{rule.name}' again")
            names.add(rule.name)
            rules.append(rule)
    return tuple(rules)


def _logical_lines(text: str, file: str) -> Iterator[Excerpt]:
    """Each rule with its continuation lines, comments blanked out."""
    begun: list[str] = []
    start = 0
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        bare = _without_comment(line.removesuffix("\r"))
        continues = bare[:1] in (" ", "\t") and bool(bare.strip())
        if begun and not continues:
            yield Excerpt.of("\n".join(begun), file, start)
            begun = []
        if begun:
            begun.append(bare)
        elif continues:
            Excerpt.of(bare, file, number).fail(0, "expected a name at the margin, got a blank")
        elif bare.strip():
            begun, start = [bare], number


def _code_positions(text: str) -> Iterator[tuple[int, int]]:
    """(position, depth of brackets) of each character outside string literals."""
    depth, quote = 0, ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
            yield position, depth


def _without_comment(line: str) -> str:
    for position, _ in _code_positions(line):
        if line[position] == "#":
            return line[:position].rstrip()
    return line


def _sections(body: Excerpt) -> dict[str, Excerpt]:
    """The parts of a rule by the word before them; the source comes first, under ''."""
    content = body.content
    depths = dict(_code_positions(content))
    if list(depths.values())[-1:] not in ([], [0]):
        body.fail(0, "expected as many closing brackets as opening ones")
    outside = {position for position, depth in depths.items() if depth == 0}
    cuts = [found for found in _SEPARATOR.finditer(content) if found.start() in outside]
    sections: dict[str, Excerpt] = {}
    word, start = "", 0
    for cut in cuts:
        sections[word] = body.part(start, cut.start())
        word, start = cut.group(), cut.end()
        if word in sections or ("=>" in word and len(sections) > 1):
            body.fail(cut.start(), f"expected '{word}' once, after the source")
    sections[word] = body.part(start, len(content))
    if "=>" not in sections and "<=>" not in sections:
        body.fail(0, "expected 'source => target', got no arrow")
    return sections


def _after_blanks(line: Excerpt, position: int) -> int:
    rest = line.content[position:]
    return position + len(rest) - len(rest.lstrip())


def _rules_of(line: Excerpt) -> Iterator[Rule]:
    heading = _NAME.match(line.content)
    if heading is None:
        line.fail(0, "expected 'name: source => target' with a lower-case name")
    base, suffix = heading.group(1), heading.group(2) or ""
    sections = _sections(line.part(_after_blanks(line, heading.end()), len(line.content)))
    both = "<=>" in sections
    source = sections[""]
    target = sections["<=>" if both else "=>"]
    where = sections.get("where")
    for operators, tag in _operators(sections.get("for")):
        name = f"{base}{suffix}{tag}"
        yield _checked(line, _rule(name, source, target, where, operators))
        if both:
            inverse = f"{base}-inverse{suffix}{tag}"
            yield _checked(line, _rule(inverse, target, source, where, operators))


def _operators(section: Excerpt | None) -> Iterator[tuple[dict[str, OpSpec], str]]:
    """Each assignment of the operator variable, with the tag it adds to the name."""
    if section is None:
        yield {}, ""
        return
    found = _RANGE.fullmatch(section.content)
    if found is None:
        section.fail(0, "expected 'for f in family' or 'for f in operator, operator'")
    variable, listed = found.groups()
    family = FAMILIES.get(listed)
    if family is None:
        names = [name.strip() for name in listed.split(",")]
        unknown = [name for name in names if name not in OP]
        if unknown:
            known = ", ".join(sorted(FAMILIES))
            section.fail(
                found.start(2), f"expected operators or a family ({known}), got '{unknown[0]}'"
            )
        family = tuple(OP[name] for name in names)
    for op in family:
        yield {variable: op}, f"[{op.name}]"


def _rule(
    name: str,
    source: Excerpt,
    target: Excerpt,
    where: Excerpt | None,
    operators: Mapping[str, OpSpec],
) -> Rule:
    scope = Scope(operators=operators)
    left = read_pattern(source, scope)
    scope.closed = True
    right = read_pattern(target, scope)
    if len(left.terms) != len(right.terms):
        target.fail(0, f"expected {len(left.terms)} results as in the source, "
                    f"got {len(right.terms)}")  # fmt: skip
    if left == right:
        target.fail(0, "expected a target that differs from the source")
    conditions = () if where is None else read_conditions(where, scope)
    return Rule(name, left, right, conditions)


def _checked(line: Excerpt, rule: Rule) -> Rule:
    """The rule, known to print as it reads and to fit some operands."""
    assert _reread(rule) == rule, f"{rule.name}: does not print as it reads"
    if find_instance(rule) is None:
        line.fail(
            0,
            f"expected both sides of '{rule.name}' to have equal types for some operands, "
            "found none",
        )
    return rule


def _reread(rule: Rule) -> Rule:
    line = Excerpt.of(rule_text(rule))
    heading = _NAME.match(line.content)
    assert heading is not None
    sections = _sections(line.part(heading.end(), len(line.content)))
    again = _rule("", sections[""], sections["=>"], sections.get("where"), {})
    return replace(again, name=line.content[: heading.end() - 1])

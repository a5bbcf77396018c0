"""Reading patterns: Python call syntax, parsed by `ast`, to terms.

What it does: turns text into the terms of `graphopt.pattern`, checking operators, parameters and
the roles of names, with the column of whatever is wrong. What it does not: files (see
`rule_files`), types of tensors.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from graphopt.graph import Param
from graphopt.ops import OP
from graphopt.ops.spec import OpSpec
from graphopt.pattern import (
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Pattern,
    Role,
    RuleError,
    Sequence,
    Term,
    Variable,
)
from graphopt.rule_functions import CONDITIONS, FUNCTIONS, Function

MAX_LENGTH = 10_000
"""A rule longer than this is refused: nobody can read it."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A stretch of a text: where a piece of a rule stands.

    `text` is the whole text (several lines are possible), which begins at line `line` of `file`;
    the excerpt is `text[start:stop]`.
    """

    file: str
    line: int
    text: str
    start: int
    stop: int

    @staticmethod
    def of(text: str, file: str = "pattern", line: int = 1) -> Excerpt:
        """A whole text as an excerpt."""
        return Excerpt(file, line, text, 0, len(text))

    @property
    def content(self) -> str:
        """The text of the excerpt on one line, each line break read as a blank."""
        return self.text[self.start : self.stop].replace("\n", " ")

    def part(self, start: int, stop: int) -> Excerpt:
        """The stretch from `start` to `stop` of this excerpt."""
        return Excerpt(self.file, self.line, self.text, self.start + start, self.start + stop)

    def fail(self, offset: int, message: str) -> NoReturn:
        """Raise RuleError for what stands `offset` characters into the excerpt."""
        before = self.text[: self.start + offset]
        line = self.line + before.count("\n")
        column = len(before) - (before.rfind("\n") + 1) + 1
        raise RuleError(f"{self.file}:{line}:{column}: {message}")


@dataclass(slots=True)
class Scope:
    """The names of one rule and their roles, filled while the source is read.

    `operators` gives the operator variables of the rule, `captured` the parameter names that a
    captured group stands for. A closed scope binds no more names: that is how targets are read.
    """

    operators: Mapping[str, OpSpec] = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    captured: dict[str, tuple[str, ...]] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    closed: bool = False


def read_pattern(text: Excerpt | str, scope: Scope | None = None) -> Pattern:
    """The pattern that a text says. Raises RuleError.

    Without a scope the text is a source pattern: its names are free.
    """
    excerpt = Excerpt.of(text) if isinstance(text, str) else text
    reader = _Reader(excerpt, Scope() if scope is None else scope)
    node = reader.parsed()
    if isinstance(node, ast.Tuple):
        if not node.elts:
            excerpt.fail(0, "expected a pattern, got none")
        return Pattern(tuple(reader.root(item) for item in node.elts))
    return Pattern((reader.root(node),))


def read_conditions(excerpt: Excerpt, scope: Scope) -> tuple[FunctionCall, ...]:
    """The conditions, joined by commas, that a text says. Raises RuleError."""
    reader = _Reader(excerpt, scope)
    node = reader.parsed()
    return tuple(
        reader.condition(item) for item in (node.elts if isinstance(node, ast.Tuple) else [node])
    )


class _Reader:
    """One parse of one excerpt: the syntax tree and where it stands."""

    def __init__(self, excerpt: Excerpt, scope: Scope) -> None:
        self.excerpt = excerpt
        self.scope = scope
        content = excerpt.content
        self.indent = len(content) - len(content.lstrip())
        self.content = content.strip()

    def parsed(self) -> ast.expr:
        if len(self.content) > MAX_LENGTH:
            self.excerpt.fail(0, f"expected at most {MAX_LENGTH} characters; shorten the rule")
        if not self.content:
            self.excerpt.fail(self.indent, "expected a term, got nothing")
        try:
            return ast.parse(self.content, mode="eval").body
        except SyntaxError as error:
            column = (error.offset or 1) - 1
            self.excerpt.fail(
                self.indent + min(column, len(self.content)),
                f"expected Python call syntax: {error.msg}",
            )
        except (RecursionError, MemoryError, ValueError):
            self.excerpt.fail(self.indent, "expected Python call syntax that Python can read")

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        column = getattr(node, "col_offset", 0)
        # ast counts bytes of UTF-8, an excerpt counts characters.
        offset = len(self.content.encode()[:column].decode(errors="ignore"))
        self.excerpt.fail(self.indent + offset, message)

    def shown(self, node: ast.AST) -> str:
        text = ast.unparse(node)
        return text if len(text) <= 40 else f"{text[:37]}..."

    # Names

    def name(self, node: ast.AST, name: str, role: Role) -> str:
        """A name used in a role: bound here, or checked against what it was bound as."""
        known = self.scope.roles.get(name)
        if known is None:
            if self.scope.closed:
                self.fail(node, f"expected a name that the source binds, got '{name}'")
            self.scope.roles[name] = role
        elif known is not role:
            self.fail(node, f"expected '{name}' as a {known.value}, got it as a {role.value}")
        elif name in self.scope.labels and not self.scope.closed:
            self.fail(node, f"expected a fresh name for a node, got '{name}' twice")
        return name

    # Tensors

    def root(self, node: ast.expr) -> Term:
        if isinstance(node, ast.NamedExpr | ast.Starred):
            self.fail(node, "expected a term, got a name for the result itself; leave it out")
        term = self.term(node)
        if not self.scope.closed and not isinstance(term, Application):
            self.fail(node, f"expected an operator at the root of a source, got {self.shown(node)}")
        if isinstance(term, Literal):
            self.fail(node, "expected a result with a type, got a literal")
        return term

    def term(self, node: ast.expr) -> Term:
        match node:
            case ast.Name():
                return Variable(self.name(node, node.id, Role.TENSOR))
            case ast.Call():
                return self.application(node, None)
            case ast.NamedExpr(target=target, value=ast.Call() as value) if not self.scope.closed:
                application = self.application(value, target.id)
                if target.id in self.scope.roles:
                    self.fail(node, f"expected a fresh name for a node, got '{target.id}' twice")
                self.name(node, target.id, Role.TENSOR)
                self.scope.labels.add(target.id)
                return application
            case _:
                literal = _literal(node)
                if not isinstance(literal, int | float):
                    self.fail(node, f"expected a tensor, got {self.shown(node)}")
                return Literal(literal)

    def operator(self, node: ast.Call) -> OpSpec:
        if not isinstance(node.func, ast.Name):
            self.fail(node, f"expected the name of an operator, got {self.shown(node.func)}")
        written = node.func.id
        if written in self.scope.operators:
            return self.scope.operators[written]
        plain = written.removesuffix("_")
        name = plain if keyword.iskeyword(plain) else written
        if name not in OP:
            self.fail(node, f"expected an operator, got '{written}'; see docs/operators.md")
        return OP[name]

    def application(self, node: ast.Call, label: str | None) -> Application:
        op = self.operator(node)
        args = tuple(self.operand(op, arg) for arg in node.args)
        if op.arity is not None and len(args) != op.arity:
            self.fail(node, f"{op.name}: expected {op.arity} operands, got {len(args)}")
        if not args and op.arity is None:
            self.fail(node, f"{op.name}: expected at least one operand, got none")
        params: dict[str, Expression] = {}
        rest: tuple[ast.keyword, str] | None = None
        for entry in node.keywords:
            if entry.arg is None:
                if not isinstance(entry.value, ast.Name) or rest is not None:
                    self.fail(entry, f"{op.name}: expected one name after **")
                rest = (entry, entry.value.id)
            elif entry.arg not in op.params:
                known = ", ".join(op.params) if op.params else "none"
                self.fail(entry, f"{op.name}: expected parameters {known}, got '{entry.arg}'")
            else:
                params[entry.arg] = self.parameter(entry.value)
        missing = tuple(name for name in op.params if name not in params)
        if rest is not None:
            self.rest(op, rest[0], rest[1], missing)
        elif missing:
            self.fail(node, f"{op.name}: expected parameter '{missing[0]}'; give it, or **others")
        ordered = tuple((name, params[name]) for name in op.params if name in params)
        return Application(op, args, ordered, None if rest is None else rest[1], label)

    def operand(self, op: OpSpec, node: ast.expr) -> Term:
        if isinstance(node, ast.Starred):
            if not isinstance(node.value, ast.Name):
                self.fail(node, f"expected a name after *, got {self.shown(node.value)}")
            if op.arity is not None:
                self.fail(node, f"{op.name}: expected {op.arity} operands, got a sequence")
            return Sequence(self.name(node, node.value.id, Role.TENSORS))
        return self.term(node)

    def rest(self, op: OpSpec, node: ast.AST, name: str, missing: tuple[str, ...]) -> None:
        self.name(node, name, Role.PARAMETERS)
        known = self.scope.captured.setdefault(name, missing)
        if set(known) != set(missing):
            self.fail(
                node,
                f"{op.name}: expected **{name} to stand for {', '.join(known) or 'nothing'}, "
                f"got {', '.join(missing) or 'nothing'}",
            )

    # Parameters

    def parameter(self, node: ast.expr) -> Expression:
        """The value of a parameter: a literal, a name, or (targets) a function call."""
        match node:
            case ast.Name():
                return Name(self.name(node, node.id, Role.PARAMETER))
            case ast.Call() if self.scope.closed:
                return self.call(node, FUNCTIONS, "function")
            case _:
                value = _literal(node)
                if value is None:
                    self.fail(node, f"expected a literal or a name, got {self.shown(node)}")
                return Literal(value)

    def condition(self, node: ast.expr) -> FunctionCall:
        if not isinstance(node, ast.Call):
            self.fail(node, f"expected a condition such as constant(x), got {self.shown(node)}")
        return self.call(node, CONDITIONS, "condition")

    def call(self, node: ast.Call, table: Mapping[str, Function], kind: str) -> FunctionCall:
        if not isinstance(node.func, ast.Name) or node.func.id not in table:
            self.fail(node, f"expected a {kind} ({', '.join(sorted(table))}), got "
                      f"{self.shown(node.func)}")  # fmt: skip
        function = table[node.func.id]
        if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            self.fail(node, f"{function.name}: expected plain arguments")
        if not function.admits(len(node.args)):
            wanted = ", ".join(role.value for role in function.roles)
            self.fail(node, f"{function.name}: expected ({wanted}), got {len(node.args)} arguments")
        roles = function.roles_for(len(node.args))
        args = tuple(self.argument(arg, role) for arg, role in zip(node.args, roles, strict=True))
        return FunctionCall(function.name, args)

    def argument(self, node: ast.expr, role: Role) -> Expression:
        if isinstance(node, ast.Name):
            return Name(self.name(node, node.id, role))
        if role is not Role.PARAMETER:
            self.fail(node, f"expected the name of a {role.value}, got {self.shown(node)}")
        return self.parameter(node)


def _literal(node: ast.expr) -> Param | None:
    """The literal that a syntax tree says; None if it says something else."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return None if isinstance(value, bool) else -value
        case ast.Tuple():
            items = [_literal(item) for item in node.elts]
            known = tuple(item for item in items if item is not None)
            return known if len(known) == len(items) else None
        case _:
            return None

"""Patterns as nodes and edges, for drawings.

What it does: turns one side of a rule into inputs, operators and results; equal terms are one node.
What it does not: draw.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphopt.pattern import (
    Application,
    Literal,
    Pattern,
    Sequence,
    Term,
    Variable,
    expression_text,
    spelling,
    term_text,
)

Json = dict[str, Any]


def pattern_graph(pattern: Pattern) -> Json:
    """{"nodes": [{"id", "label", "kind"}], "edges": [[from, to, label]]}.

    Kinds are input, constant, operator and result. A label names an operator, then one parameter a
    line; edges of operators with several operands say which operand they bring.
    """
    drawing = _Drawing()
    several = len(pattern.terms) > 1
    for number, term in enumerate(pattern.terms):
        value = drawing.node(term)
        result = drawing.added(f"result {number}" if several else "result", "result")
        drawing.edges.append([value, result, ""])
    return {"nodes": drawing.nodes, "edges": drawing.edges}


class _Drawing:
    """The nodes and edges so far."""

    def __init__(self) -> None:
        self.nodes: list[Json] = []
        self.edges: list[list[Any]] = []
        self.known: dict[Term, int] = {}

    def added(self, label: str, kind: str) -> int:
        self.nodes.append({"id": len(self.nodes), "label": label, "kind": kind})
        return len(self.nodes) - 1

    def node(self, term: Term) -> int:
        same = replace(term, label=None) if isinstance(term, Application) else term
        if same not in self.known:
            self.known[same] = self._made(term)
        return self.known[same]

    def _made(self, term: Term) -> int:
        match term:
            case Variable() | Sequence():
                return self.added(term_text(term), "input")
            case Literal():
                return self.added(term_text(term), "constant")
            case Application():
                operands = [self.node(arg) for arg in term.args]
                node = self.added(_label(term), "operator")
                for position, operand in enumerate(operands):
                    name = str(position) if len(operands) > 1 else ""
                    self.edges.append([operand, node, name])
                return node


def _label(term: Application) -> str:
    name = spelling(term.op)
    lines = [name if term.label is None else f"{term.label} := {name}"]
    lines += [f"{parameter}={expression_text(value)}" for parameter, value in term.params]
    lines += [] if term.rest is None else [f"**{term.rest}"]
    return "\n".join(lines)

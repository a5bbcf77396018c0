"""A node's parameters by the type that its operator gave them."""

from __future__ import annotations

from graphopt.graph import Node
from tensorgen.types import Shape


def integer(node: Node, name: str) -> int:
    """An integer parameter."""
    value = node.param(name)
    assert isinstance(value, int)
    return value


def integers(node: Node, name: str) -> Shape:
    """A parameter that is a tuple of integers."""
    values = node.param(name)
    assert isinstance(values, tuple)
    result = tuple(value for value in values if isinstance(value, int))
    assert len(result) == len(values)
    return result


def text(node: Node, name: str) -> str:
    """A parameter that is a string."""
    value = node.param(name)
    assert isinstance(value, str)
    return value

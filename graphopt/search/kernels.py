"""Kernels of a graph: what the compiler would emit for it, found again quickly after a rewrite.

What it does: lowers a graph as `optimize.prepare` does and cuts it as `partition` and `storage` do,
into the tasks that become kernels. Every decision that depends on a neighbourhood only (lowering a
node, absorbing its operands' fragments, making a task of a fragment) is remembered under the
structure of that neighbourhood: operators, parameters, types and which operands are the same, not
what lies upstream. After a rewrite only the nodes around it are decided anew; for the rest there is
a look-up.

What depends on weights alone is computed at compile time, so it is a constant here.

What it does not: know what a task costs (`cost`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from graphopt.fold import FoldLimits, fold_node
from graphopt.fragments import UNIFORM_ELEMENTS, Fragment, absorb, read_by_one, step_of, view_of
from graphopt.graph import Constant, Graph, Input, Node, Value, walk_back
from graphopt.matching import match
from graphopt.meetings import Meeting, meetings
from graphopt.optimize import lowering_rules, taken_apart
from graphopt.partition import stored_values
from graphopt.pattern import Application
from graphopt.row_groups import fuse_rows, starts_rows
from graphopt.rule import Rule, replacement
from graphopt.search.promised import Promise, WeightOnly
from graphopt.step import Step
from graphopt.storage import lay_out
from tensorgen.prologue import is_padding
from tensorgen.task import Task

_SMALL = FoldLimits(small_bytes=64, growth=0.0, work=2**16)
"""Literals are computed; they decide what an expression is."""


@dataclass(frozen=True, slots=True)
class _Template:
    """What a node's neighbourhood makes of it: its fragment over numbered operands.

    `code` identifies it. `view` is the number of the operand that it is a part of, with an offset.
    """

    numbers: tuple[int, ...]
    fragment: Fragment
    code: bytes
    view: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class _Known:
    """A template on the values of a graph."""

    template: _Template
    fragment: Fragment


class Kernels:
    """The tasks of graphs, with a memory of neighbourhoods."""

    def __init__(self) -> None:
        self.is_weight = WeightOnly()
        self.neighbourhoods = 0
        self._rules: dict[str, list[Rule]] = {}
        for rule in lowering_rules():
            root = rule.source.terms[0]
            assert isinstance(root, Application)
            self._rules.setdefault(root.op.name, []).append(rule)
        self._lowered: dict[bytes, Value] = {}
        self._templates: dict[bytes, _Template] = {}
        self._tasks: dict[object, tuple[Task, tuple[int, ...]]] = {}
        self._starts: dict[tuple[bytes, bool], bool] = {}
        self._uniform: dict[bytes, bool] = {}

    def tasks(self, graph: Graph) -> tuple[Task, ...]:
        """The task of each kernel of a graph, in the order in which they run."""
        return tuple(step.task for step in self.steps(graph))

    def steps(self, graph: Graph) -> tuple[Step, ...]:
        """The kernels of a graph with the values of the lowered graph that they are bound to."""
        lowered = self.lowered(graph)
        steps, views = self.cut(lowered)
        # Without outputs, since copies into the caller's buffers are the same for all graphs.
        inside = replace(lowered, outputs=(), output_names=())
        return lay_out(inside, steps, views).steps

    def stored(self, graph: Graph) -> Callable[[Value], bool]:
        """Tells which values of a graph are in memory: results of kernels, views and inputs."""
        lowered = self.lowered(graph)
        steps, views = self.cut(lowered)
        made = {value for step in steps for value in step.outputs}
        made.update(views)
        made.update(lowered.inputs)
        return lambda value: self._lowered[value.digest] in made

    def cut(self, lowered: Graph) -> tuple[tuple[Step, ...], dict[Value, tuple[Value, int]]]:
        """The steps of a lowered graph, and the values that are views: what `partition` and
        `stored_views` say, without asking again where a neighbourhood recurs."""
        known = self._fragments(lowered)
        fragments = {value: entry.fragment for value, entry in known.items()}
        steps: list[Step] = []
        views: dict[Value, tuple[Value, int]] = {}
        for value in stored_values(lowered, fragments):
            entry = known[value]
            if entry.template.view is None:
                steps.append(self._step_of(value, entry))
            else:
                position, offset = entry.template.view
                views[value] = (entry.fragment.operands[position], offset)
        if any(self._starts_rows(step) for step in steps):
            return fuse_rows(tuple(steps), lowered), views
        return tuple(steps), views

    def lowered(self, graph: Graph) -> Graph:
        """The graph with operators taken apart for the compiler and weights computed."""
        for value in graph.values:
            if value.digest not in self._lowered:
                self._lowered[value.digest] = self._lower(value)
        outputs = tuple(self._lowered[value.digest] for value in graph.outputs)
        return replace(graph, outputs=outputs)

    def _lower(self, value: Value) -> Value:
        if not isinstance(value, Node):
            return value
        operands = tuple(self._lowered[operand.digest] for operand in value.inputs)
        if all(isinstance(operand, Constant) for operand in operands) and operands:
            return self._promised(value, operands)
        parts = taken_apart(value)
        if parts is not value:
            for part in walk_back(parts):
                if part.digest not in self._lowered:
                    self._lowered[part.digest] = self._lower(part)
            return self._lowered[parts.digest]
        node = value
        if any(a is not b for a, b in zip(operands, value.inputs, strict=True)):
            node = Node(value.op, operands, value.params, value.type)
        for rule in self._rules.get(node.op.name, ()):
            for bindings in match(rule.source, (node,)):
                values = replacement(rule, (node,), bindings, _read_once)
                if values is not None:
                    return values[0]
        return node

    def _promised(self, value: Node, operands: tuple[Value, ...]) -> Constant:
        if not any(isinstance(operand, Promise) for operand in operands):
            folded = fold_node(value.op(*operands, **value.keywords), _SMALL)
            if isinstance(folded, Constant):
                return folded
        return Promise(value.type, value.digest)

    # Fragments

    def _fragments(self, graph: Graph) -> dict[Value, _Known]:
        single = read_by_one(graph)
        met = meetings(graph)
        known: dict[Value, _Known] = {}
        for node in graph.nodes:
            known[node] = self._known(node, known, single, met.get(node, ()))
        return known

    def _known(
        self,
        node: Node,
        known: Mapping[Value, _Known],
        single: Set[Value],
        met: Sequence[Meeting],
    ) -> _Known:
        numbers: dict[Value, int] = {}
        parts: list[object] = [node.op.name, node.params]
        for operand in node.inputs:
            numbers.setdefault(operand, len(numbers))
            inner = known.get(operand)
            parts.append((numbers[operand], operand.type, operand in single))
            if inner is None:
                parts.append(self._leaf(operand))
                continue
            parts.append(self._behind(inner, known, numbers))
        for meeting in met:
            # Others are nothing that the node would read.
            if meeting.value in numbers:
                inside = known[meeting.value]
                stored = sorted(numbers[value] for value in meeting.between if value in numbers)
                parts.append((numbers[meeting.value], meeting.value.type, stored))
                parts.append(self._behind(inside, known, numbers))
        key = hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()
        template = self._templates.get(key)
        values = tuple(numbers)
        if template is None:
            template = self._decided(node, known, single, met, numbers)
            self._templates[key] = template
        operands = tuple(values[number] for number in template.numbers)
        return _Known(template, replace(template.fragment, operands=operands))

    def _behind(
        self, entry: _Known, known: Mapping[Value, _Known], numbers: dict[Value, int]
    ) -> object:
        """What a fragment computes and reads; its operands are given numbers."""
        parts: list[object] = [entry.template.code]
        for value in entry.fragment.operands:
            parts.append(numbers.setdefault(value, len(numbers)))
            behind = self._padding(value, known)
            if behind is not None:
                parts.append(behind.template.code)
                parts += [
                    numbers.setdefault(source, len(numbers)) for source in behind.fragment.operands
                ]
        return parts

    @staticmethod
    def _padding(value: Value, known: Mapping[Value, _Known]) -> _Known | None:
        """What is known of padding, which contractions absorb behind layout, too."""
        entry = known.get(value)
        return entry if entry is not None and is_padding(entry.fragment.expr) else None

    def _decided(
        self,
        node: Node,
        known: Mapping[Value, _Known],
        single: Set[Value],
        met: Sequence[Meeting],
        numbers: Mapping[Value, int],
    ) -> _Template:
        self.neighbourhoods += 1
        near = (*node.inputs, *(meeting.value for meeting in met))
        inner = {value: known[value].fragment for value in near if value in known}
        for value in {value for fragment in inner.values() for value in fragment.operands}:
            behind = self._padding(value, known)
            if behind is not None:
                inner.setdefault(value, behind.fragment)
        fragment = absorb(node, inner, single, met)
        view = view_of(fragment)
        position = None if view is None else (fragment.operands.index(view[0]), view[1])
        order = tuple(numbers[value] for value in fragment.operands)
        return _Template(order, replace(fragment, operands=()), _code(fragment), position)

    def _leaf(self, value: Value) -> object:
        """What matters of a value that no kernel of its own computes."""
        if not isinstance(value, Constant):
            return "input" if isinstance(value, Input) else "value"
        if value.type.size > UNIFORM_ELEMENTS or isinstance(value, Promise):
            return "constant"
        uniform = self._uniform.get(value.digest)
        if uniform is None:
            flat = value.array.reshape(-1)
            uniform = bool(flat.size) and flat[:1].tobytes() * flat.size == flat.tobytes()
            self._uniform[value.digest] = uniform
        return value.array.reshape(-1)[:1].tobytes() if uniform else "constant"

    # Tasks

    def _step_of(self, value: Value, entry: _Known) -> Step:
        operands = entry.fragment.operands
        constant = tuple(isinstance(operand, Constant) for operand in operands)
        key = (entry.template.code, entry.template.numbers, constant)
        known = self._tasks.get(key)
        if known is None:
            step = step_of(value, entry.fragment)
            used = tuple(operands.index(operand) for operand in step.inputs)
            known = (step.task, used)
            self._tasks[key] = known
        task, used = known
        return Step(task, tuple(operands[position] for position in used), (value,))

    def _starts_rows(self, step: Step) -> bool:
        [value] = step.outputs
        key = (step.task.digest, isinstance(value, Node) and value.op.name == "pad")
        known = self._starts.get(key)
        if known is None:
            known = starts_rows(step)
            self._starts[key] = known
        return known


def _code(fragment: Fragment) -> bytes:
    """What a fragment computes, whatever its operands are: the same for the same expressions."""
    contraction = b"" if fragment.contraction is None else fragment.contraction.digest
    padding = b"" if fragment.padding is None else fragment.padding.digest
    arithmetic = b"a" if fragment.arithmetic else b"m"
    return arithmetic + fragment.expr.digest + contraction + padding


def _read_once(value: Value) -> int:
    """Uses for rules that ask only whether to apply at all."""
    return 1

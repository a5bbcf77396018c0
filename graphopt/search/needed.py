"""Applications that a result needs: those on the way to it that it does not owe anything are left
out.

What it does: takes a path of applications that led to a graph, and leaves out parts of it as long
as what remains still applies and the part did not pay: halves, quarters, … single ones. A search
goes through graphs of equal cost, and what brought it there may have no use; left in, it would
change rounding, and the report, for nothing.

Source: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (TSE 2002), for
the order in which parts are tried.

What it does not: find other ways to the same graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphopt.graph import Graph, Node, Value
from graphopt.matching import Bindings, match
from graphopt.rewrite import uses_of
from graphopt.rule import replacement
from graphopt.search.moves import Application, applied

MOST_STEPS = 400
"""Applications that are made again, in all attempts together."""


Pays = Callable[[Graph, Graph], bool]
"""Whether it pays to have the second graph instead of the first."""


def needed_applications(
    graph: Graph, path: Sequence[Application], pays: Pays
) -> tuple[Graph, tuple[Application, ...]]:
    """What remains of the end of a path that begins at `graph`, and the applications that it needs.

    The graph itself, and none, if all together do not pay.
    """
    trail = _Trail(graph, path)
    best, kept = trail.end, tuple(path)
    if not path or not pays(graph, best):
        return graph, ()
    chosen = list(range(len(path)))
    size = len(chosen)
    steps = MOST_STEPS
    while size and steps > 0:
        position = 0
        while position < len(chosen) and steps > 0:
            fewer = chosen[:position] + chosen[position + size :]
            steps -= len(fewer) + 1
            again = trail.replay(fewer)
            if again is not None and not pays(again[0], best):
                best, kept = again
                chosen = fewer
            else:
                position += size
        size //= 2
    return best, kept


class _Trail:
    """A path with the graphs on it."""

    def __init__(self, graph: Graph, path: Sequence[Application]) -> None:
        self.start = graph
        self.path = path
        self.images: list[Mapping[bytes, Value]] = []
        self.graphs = [graph]
        for application in path:
            step = applied(self.graphs[-1], application)
            self.images.append(step.image)
            self.graphs.append(step.graph)

    @property
    def end(self) -> Graph:
        """The graph that the path leads to."""
        return self.graphs[-1]

    def replay(self, chosen: Sequence[int]) -> tuple[Graph, tuple[Application, ...]] | None:
        """The chosen applications alone, made at the places that they now have; None if one of
        them has none."""
        wanted = set(chosen)
        graph = self.start
        made: list[Application] = []
        # For each value of the graph on the path, the value that stands there now.
        now: dict[bytes, Value] = {value.digest: value for value in graph.values}
        for number, application in enumerate(self.path):
            image: Mapping[bytes, Value] = {}
            following: dict[bytes, Value] = {}
            if number in wanted:
                again = _moved(application, now, graph)
                if again is None:
                    return None
                step = applied(graph, again)
                graph, image = step.graph, step.image
                made.append(again)
                for old, new in zip(application.replacements, again.replacements, strict=True):
                    _pair(old, new, following)
            for value in self.graphs[number].values:
                current = now.get(value.digest)
                if current is not None:
                    follower = self.images[number].get(value.digest, value)
                    following.setdefault(follower.digest, image.get(current.digest, current))
            now = following
        return graph, tuple(made)


def _moved(
    application: Application, now: Mapping[bytes, Value], graph: Graph
) -> Application | None:
    """The application of the same rule to what now stands in place of what it matched."""
    roots = tuple(now.get(root.digest) for root in application.roots)
    places = tuple(root for root in roots if isinstance(root, Node))
    if len(set(places)) != len(application.roots):
        return None
    bound = application.bindings
    for bindings in match(application.rule.source, places):
        if _corresponds(bound, bindings, now):
            values = replacement(application.rule, places, bindings, uses_of(graph))
            if values is not None:
                return Application(application.rule, places, values, bindings)
    return None


def _corresponds(old: Bindings, new: Bindings, now: Mapping[bytes, Value]) -> bool:
    """Whether bindings bind the same names to what now stands for the old values."""

    def moved(value: Value) -> bytes:
        return now.get(value.digest, value).digest

    return (
        old.params == new.params
        and old.captured == new.captured
        and all(moved(value) == new.tensors[name].digest for name, value in old.tensors.items())
        and all(
            [moved(value) for value in values] == [v.digest for v in new.sequences[name]]
            for name, values in old.sequences.items()
        )
    )


def _pair(old: Value, new: Value, found: dict[bytes, Value]) -> None:
    """Note for what was built what is built now, as far as both are built alike."""
    pending = [(old, new)]
    while pending:
        before, after = pending.pop()
        if before.digest in found:
            continue
        found[before.digest] = after
        if isinstance(before, Node) and isinstance(after, Node) and before.op is after.op:
            pending.extend(zip(before.inputs, after.inputs, strict=False))

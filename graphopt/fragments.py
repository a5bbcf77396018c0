"""Fragments: what a node's kernel would compute.

Every node starts as a fragment, an expression over values. A node absorbs the fragment of an
operand where that saves a pass over memory and repeats no arithmetic: elementwise chains, what is
done to a sum right after it, layout changes in front of whoever reads them.

What it does not: decide which values are stored (`partition`), or join rows (`row_groups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod

import numpy as np

from graphopt.graph import Constant, Graph, Node, Value, consumers
from graphopt.meetings import Meeting
from graphopt.ops.spec import expression_of
from graphopt.step import Step, has_reduction, is_contraction, is_tiled, is_window
from tensorgen.composition import inline, renumber_operands
from tensorgen.expr import Load, Reduce, TensorExpr, children, const, loads, substitute, walk
from tensorgen.flat import flat_index
from tensorgen.prologue import is_padding
from tensorgen.simplify import affine, simplify_tensor
from tensorgen.task import Task

MAX_TERMS = 400
"""A fused expression does not grow beyond this many distinct terms."""

MAX_TREE = 4096
"""Nor beyond this many terms if each is counted as often as it is used."""

CHEAP_ELEMENTS = 4096
"""A value of at most this many elements may be recomputed where it is broadcast."""

UNIFORM_ELEMENTS = 4096
"""Constants of at most this many equal elements become literals."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """`expr` over `operands`; if `contraction` is given, operand `len(operands)` stands for it, and
    in it operand `len(operands) + 1` for `padding`, if that is given.

    `arithmetic` tells that computing an element costs more than addressing it.
    """

    operands: tuple[Value, ...]
    contraction: TensorExpr | None
    expr: TensorExpr
    arithmetic: bool
    padding: TensorExpr | None = None

    @property
    def reduces(self) -> bool:
        """True if an element needs more than a fixed few others."""
        return self.contraction is not None or has_reduction(self.expr)


def read_by_one(graph: Graph) -> Set[Value]:
    """The values that one node reads, and who runs the graph does not."""
    outputs = set(graph.outputs)
    return {
        value
        for value, nodes in consumers(graph.values).items()
        if len(nodes) == 1 and value not in outputs
    }


def absorb(
    node: Node,
    fragments: Mapping[Value, Fragment],
    single: Set[Value],
    met: Sequence[Meeting] = (),
) -> Fragment:
    """The node's fragment, with those of its operands, and of values all of whose uses have `met`
    in it, that fit in. No other node reads one of `single`."""
    expr = simplify_tensor(expression_of(node))
    if node.op.family == "elementwise" or node.op.name == "pad":
        expr = _with_literals(expr, node.inputs)
    arithmetic = not _moves_only(expr)
    fragment = Fragment(node.inputs, None, expr, arithmetic)
    if _is_window(fragment):
        return _with_padding(fragment, fragments)
    if _is_tiled(node, expr):
        for operand in dict.fromkeys(node.inputs):
            inner = fragments.get(operand)
            if inner is not None and not (inner.arithmetic or inner.reduces or _is_slice(inner)):
                candidate = _inlined(fragment, operand, inner)
                if _still_tiled(candidate):
                    fragment = candidate
        axes = fragment.expr.axes
        count = len(fragment.operands)
        identity = TensorExpr(axes, Load(count, fragment.expr.type, axes))
        tiled = Fragment(fragment.operands, fragment.expr, identity, True)
        return _with_prologue(tiled, fragments)
    for operand in dict.fromkeys(node.inputs):
        inner = fragments.get(operand)
        if inner is None:
            continue
        if _may_absorb(fragment, operand, inner, operand in single):
            fragment = _grown(fragment, operand, inner)
    for meeting in met:
        inner = fragments.get(meeting.value)
        # What is between and stored reads the value, too.
        outside = meeting.value not in fragment.operands or not meeting.between.isdisjoint(
            fragment.operands
        )
        if inner is None or outside or not _reads_alike(fragment, meeting.value):
            continue
        if _may_absorb(fragment, meeting.value, inner, single=True):
            fragment = _grown(fragment, meeting.value, inner)
    return fragment


def _grown(fragment: Fragment, operand: Value, inner: Fragment) -> Fragment:
    """The fragment with an operand's fragment in its place, if that leaves a kernel to be had."""
    candidate = _inlined(fragment, operand, inner)
    return candidate if _is_small(candidate) and _keeps_tiles(candidate, inner) else fragment


def _with_padding(fragment: Fragment, fragments: Mapping[Value, Fragment]) -> Fragment:
    """A window with the padding or layout in front of it: its tiles leave out what is outside."""
    for operand in dict.fromkeys(fragment.operands):
        inner = fragments.get(operand)
        if inner is not None and not inner.reduces:
            candidate = _inlined(fragment, operand, inner)
            if _is_window(candidate):
                fragment = candidate
    return fragment


def _with_prologue(fragment: Fragment, fragments: Mapping[Value, Fragment]) -> Fragment:
    """A contraction with the padding of one of its factors, which its kernel makes on the way."""
    contraction = fragment.contraction
    assert contraction is not None
    for position, operand in enumerate(fragment.operands):
        inner = fragments.get(operand)
        if inner is None or inner.contraction is not None or not is_padding(inner.expr):
            continue
        if sum(load.operand == position for load in loads(contraction.body)) != 1:
            continue
        operands = tuple(
            dict.fromkeys((*(v for v in fragment.operands if v != operand), *inner.operands))
        )
        place = {value: index for index, value in enumerate(operands)}
        own = {n: place.get(value, len(place) + 1) for n, value in enumerate(fragment.operands)}
        theirs = {n: place[value] for n, value in enumerate(inner.operands)}
        axes = fragment.expr.axes
        candidate = Fragment(
            operands,
            renumber_operands(contraction, own),
            TensorExpr(axes, Load(len(place), fragment.expr.type, axes)),
            True,
            renumber_operands(inner.expr, theirs),
        )
        if operand not in inner.operands and is_contraction(_task_of(candidate)):
            return candidate
    return fragment


def _with_literals(expr: TensorExpr, operands: Sequence[Value]) -> TensorExpr:
    """The expression with loads of constants that hold one value only replaced by that value."""
    values = {
        position: const(operand.array.reshape(-1)[0].item(), operand.type.dtype)
        for position, operand in enumerate(operands)
        if isinstance(operand, Constant) and _is_uniform(operand)
    }
    if not values:
        return expr
    body = substitute(expr.body, lambda t: values.get(t.operand) if isinstance(t, Load) else None)
    return simplify_tensor(TensorExpr(expr.axes, body))


def _is_uniform(constant: Constant) -> bool:
    """True if all elements have the same bits; looked for in small constants only."""
    if not 0 < constant.type.size <= UNIFORM_ELEMENTS:
        return False
    bits = constant.array.reshape(-1).view(np.uint8).reshape(constant.type.size, -1)
    return bool((bits == bits[0]).all())


def _may_absorb(fragment: Fragment, operand: Value, inner: Fragment, single: bool) -> bool:
    """True if absorbing an operand's fragment repeats no arithmetic to speak of."""
    if inner.contraction is not None and fragment.contraction is not None:
        return False
    if _is_slice(inner):
        return False
    if inner.reduces:
        return single and not has_reduction(fragment.expr) and _one_to_one(fragment, operand)
    if not inner.arithmetic:
        return single or not fragment.reduces or _gathers_nothing(inner)
    if not single:
        return False
    if has_reduction(fragment.expr):
        return _reads_once(fragment, operand)
    return inner.expr.type.size >= fragment.expr.type.size or inner.expr.type.size <= CHEAP_ELEMENTS


def _inlined(fragment: Fragment, operand: Value, inner: Fragment) -> Fragment:
    """The fragment with an operand's fragment in its place."""
    kept = [value for value in fragment.operands if value != operand]
    operands = tuple(dict.fromkeys([*kept, *inner.operands]))
    position = {value: index for index, value in enumerate(operands)}
    count, padded, spare = len(operands), len(operands) + 1, len(operands) + 2
    own = {index: position.get(value, spare) for index, value in enumerate(fragment.operands)}
    own |= {len(fragment.operands): count, len(fragment.operands) + 1: padded}
    theirs = {index: position[value] for index, value in enumerate(inner.operands)}
    theirs |= {len(inner.operands): count, len(inner.operands) + 1: padded}
    expr = inline(
        renumber_operands(fragment.expr, own), spare, renumber_operands(inner.expr, theirs)
    )
    source, numbers = (inner, theirs) if fragment.contraction is None else (fragment, own)
    return Fragment(
        operands,
        _renumbered(source.contraction, numbers),
        simplify_tensor(expr),
        fragment.arithmetic or inner.arithmetic,
        _renumbered(source.padding, numbers),
    )


def _renumbered(expr: TensorExpr | None, numbers: Mapping[int, int]) -> TensorExpr | None:
    return None if expr is None else renumber_operands(expr, dict(numbers))


def _is_tiled(node: Node, expr: TensorExpr) -> bool:
    """True for a node that becomes a register-tiled kernel."""
    return _still_tiled(Fragment(node.inputs, None, expr, True))


def _still_tiled(fragment: Fragment) -> bool:
    types = tuple(value.type for value in fragment.operands)
    return is_tiled(Task(types, (fragment.expr,), (0,), (False,) * len(types)))


def _is_window(fragment: Fragment) -> bool:
    return fragment.contraction is None and is_window(_task_of(fragment))


def _keeps_tiles(fragment: Fragment, inner: Fragment) -> bool:
    """True unless what was computed in tiles no longer is: a window that now stands beside another
    sum, a contraction whose epilogue does not match its elements one to one."""
    if inner.reduces and _is_window(inner):
        return _is_window(fragment)
    return fragment.contraction is None or is_contraction(_task_of(fragment))


def _task_of(fragment: Fragment) -> Task:
    types = tuple(value.type for value in fragment.operands)
    constant = tuple(isinstance(value, Constant) for value in fragment.operands)
    if fragment.contraction is None:
        return Task(types, (fragment.expr,), (0,), constant)
    count = len(types)
    stages = [fragment.contraction]
    match fragment.expr.body:
        case Load(operand=operand, indices=indices) if (
            operand == count and indices == fragment.expr.axes
        ):
            pass
        case _:
            stages.append(fragment.expr)
    if fragment.padding is not None:
        moved = {n: n for n in range(count)} | {count: count + 1, count + 1: count}
        stages = [fragment.padding, *(renumber_operands(stage, moved) for stage in stages)]
    return Task(types, tuple(stages), (len(stages) - 1,), constant)


def step_of(value: Value, fragment: Fragment) -> Step:
    used = sorted(
        {
            load.operand
            for expr in (fragment.padding, fragment.contraction, fragment.expr)
            if expr is not None
            for load in loads(expr.body)
            if load.operand < len(fragment.operands)
        }
    )
    numbers = {old: new for new, old in enumerate(used)}
    numbers |= {len(fragment.operands): len(used), len(fragment.operands) + 1: len(used) + 1}
    trimmed = Fragment(
        tuple(fragment.operands[index] for index in used),
        _renumbered(fragment.contraction, numbers),
        renumber_operands(fragment.expr, numbers),
        fragment.arithmetic,
        _renumbered(fragment.padding, numbers),
    )
    return Step(_task_of(trimmed), trimmed.operands, (value,))


def _moves_only(expr: TensorExpr) -> bool:
    """True if an element is a copy of another: layout, no arithmetic, no choice."""
    return isinstance(expr.body, Load) and not any(
        isinstance(term, Load) for index in expr.body.indices for term in walk(index)
    )


def _gathers_nothing(fragment: Fragment) -> bool:
    """True if a layout fragment reads memory in the order it is written, or repeats elements."""
    body = fragment.expr.body
    if not isinstance(body, Load) or not fragment.expr.axes:
        return True
    inner = next((a for a in reversed(fragment.expr.axes) if a.extent != 1), None)
    if inner is None:
        return True
    form = affine(flat_index(body.indices, body.type.shape))
    return form.coefficient(inner) in (0, 1)


def _one_to_one(fragment: Fragment, operand: Value) -> bool:
    """True if the fragment reads each element of the operand at most once."""
    return _reads_alike(fragment, operand) and fragment.expr.type.size <= operand.type.size


def _reads_alike(fragment: Fragment, operand: Value) -> bool:
    """True if all reads of the operand for one element are of the same element."""
    position = fragment.operands.index(operand)
    return sum(load.operand == position for load in loads(fragment.expr.body)) == 1


def _reads_once(fragment: Fragment, operand: Value) -> bool:
    """True if the fragment's reductions read each element of the operand about once."""
    position = fragment.operands.index(operand)
    reads = [load for load in loads(fragment.expr.body) if load.operand == position]
    work = fragment.expr.type.size * prod(
        axis.extent
        for term in walk(fragment.expr.body)
        if isinstance(term, Reduce)
        for axis in term.axes
    )
    return len(reads) == 1 and work <= operand.type.size


def _is_small(fragment: Fragment) -> bool:
    """True if the expression is neither too large nor, through sharing, too large a tree."""
    sizes: dict[bytes, int] = {}
    for term in walk(fragment.expr.body):
        sizes[term.digest] = 1 + sum(sizes[part.digest] for part in children(term))
    return len(sizes) <= MAX_TERMS and sizes[fragment.expr.body.digest] <= MAX_TREE


def view_of(fragment: Fragment) -> tuple[Value, int] | None:
    """The operand and element offset of which a fragment is an unchanged contiguous part."""
    body = fragment.expr.body
    if fragment.contraction is not None or not isinstance(body, Load):
        return None
    source = affine(flat_index(body.indices, body.type.shape))
    target = affine(flat_index(fragment.expr.axes, fragment.expr.type.shape))
    if source.terms != target.terms:
        return None
    return fragment.operands[body.operand], source.constant - target.constant


def _is_slice(fragment: Fragment) -> bool:
    """True for some of the outermost rows of a value, contiguous in memory.

    They cost nothing where they lie, and kernels that read different rows stay the same kernel:
    steps of a sequence above all.
    """
    view = view_of(fragment)
    if view is None:
        return False
    source, offset = view
    row = source.type.size // max(1, source.type.shape[0]) if source.type.shape else 0
    size = fragment.expr.type.size
    return 0 < size < source.type.size and offset % row == 0 and size % row == 0

"""Importers of control flow: branches chosen and loops unrolled at compile time.

A branch on a condition that is not constant computes both sides and selects, which is the same
because operators have no effects; both sides must then have one type. Loops need a trip count known
at compile time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphopt.graph import Constant, Value
from graphopt.onnx_import.narrow import Encoded
from graphopt.onnx_import.node import Importer, OnnxNode, Operand, Subgraph, TensorSequence
from graphopt.terms import apply, broadcast_to, concat, reshape, scalar, slice_axis
from tensorgen.types import TensorType, boolean, int64

MAX_ITERATIONS = 4096
"""A loop with more iterations is refused: unrolled, it would be too much code."""


def _if(node: OnnxNode) -> tuple[Operand, ...]:
    condition = node.input(0)
    if condition.type.dtype != boolean or condition.type.size != 1:
        raise node.error("a bool condition of one element", condition.type)
    then, otherwise = node.subgraph("then_branch"), node.subgraph("else_branch")
    if isinstance(condition, Constant):
        return (then if condition.array.any() else otherwise).build(())
    first, second = then.build(()), otherwise.build(())
    types = list(map(_type, first))
    if types != list(map(_type, second)) or None in types:
        node.known(condition, "the condition of branches with different results")
    chosen = reshape(condition, ())
    return tuple(
        apply("where", chosen, node.tensor_of(a), node.tensor_of(b))
        for a, b in zip(first, second, strict=True)
    )


def _type(value: Operand) -> TensorType | None:
    """The type of a tensor that can be computed with; None of anything else."""
    return None if isinstance(value, Encoded | TensorSequence) else value.type


def _loop(node: OnnxNode) -> tuple[Operand, ...]:
    """Carried values go around; what else the body gives is stacked along a new first axis."""
    body = node.subgraph("body")
    state = tuple(node.any_operand(position) for position in range(2, len(node.inputs)))
    _check_body(node, body, inputs=2 + len(state), least_outputs=1 + len(state))
    bound = None if node.optional(0) is None else node.integer_of(0, "the trip count")
    going = True if node.optional(1) is None else _truth(node, node.input(1))
    rows: list[tuple[Value, ...]] = []
    trip = 0
    while going and (bound is None or trip < bound):
        if trip == MAX_ITERATIONS:
            raise node.unsupported(f"at most {MAX_ITERATIONS} iterations", "more")
        results = body.build((scalar(trip, int64), scalar(True, boolean), *state))
        going = _truth(node, node.tensor_of(results[0]))
        state = results[1 : 1 + len(state)]
        rows.append(_tensors(node, results[1 + len(state) :]))
        trip += 1
    if rows:
        return (*state, *(_stacked(node, parts, 0) for parts in zip(*rows, strict=True)))
    results = body.build((scalar(0, int64), scalar(True, boolean), *state))
    scanned = _tensors(node, results[1 + len(state) :])
    return (*state, *(_empty(value.type, 0) for value in scanned))


def _tensors(node: OnnxNode, values: Sequence[Operand]) -> tuple[Value, ...]:
    return tuple(map(node.tensor_of, values))


def _check_body(node: OnnxNode, body: Subgraph, inputs: int, least_outputs: int) -> None:
    if len(body.input_names) != inputs or len(body.output_names) < least_outputs:
        got = f"{len(body.input_names)} and {len(body.output_names)}"
        raise node.error(f"a body of {inputs} inputs and at least {least_outputs} outputs", got)


def _truth(node: OnnxNode, condition: Value) -> bool:
    array = node.known(condition, "whether the loop goes on")
    if array.size != 1:
        raise node.error("a condition of one element", array.shape)
    return bool(array.any())


def _stacked(node: OnnxNode, parts: Sequence[Value], axis: int) -> Value:
    """Equal tensors joined along a new axis."""
    first = parts[0].type
    if any(part.type != first for part in parts):
        raise node.unsupported("the same shape from every iteration", "different shapes")
    position = node.axis(axis, first.rank + 1)
    shape = (*first.shape[:position], 1, *first.shape[position:])
    return concat([reshape(part, shape) for part in parts], position)


def _empty(type: TensorType, axis: int) -> Value:
    shape = (*type.shape[:axis], 0, *type.shape[axis:])
    return broadcast_to(scalar(0, type.dtype), shape)


def _scan(node: OnnxNode) -> tuple[Value, ...]:
    """One iteration for each slice along the scan axes of the last operands."""
    if node.version < 9:
        return _scan_batched(node)
    return _scanned(node, node.operands)


def _scan_batched(node: OnnxNode) -> tuple[Value, ...]:
    """Opset 8: a leading batch axis everywhere, each entry scanned by itself."""
    if node.optional(0) is not None:
        raise node.unsupported("no sequence lengths", "some")
    operands = tuple(node.input(position) for position in range(1, len(node.inputs)))
    sizes = {value.type.shape[:1] for value in operands}
    if len(sizes) != 1 or sizes & {(), (0,)}:
        raise node.error("operands with one batch size of at least 1", sorted(sizes))
    rows = [
        _scanned(node, tuple(_element(value, 0, entry) for value in operands))
        for entry in range(operands[0].type.shape[0])
    ]
    return tuple(_stacked(node, parts, 0) for parts in zip(*rows, strict=True))


def _element(x: Value, axis: int, position: int) -> Value:
    """The slice at a position of an axis, without that axis."""
    cut = slice_axis(x, axis, position, 1)
    return reshape(cut, (*x.type.shape[:axis], *x.type.shape[axis + 1 :]))


def _scanned(node: OnnxNode, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    body, count = node.subgraph("body"), node.integer("num_scan_inputs")
    if not 1 <= count <= len(operands):
        raise node.error(f"num_scan_inputs within 1 … {len(operands)}", count)
    carried = len(operands) - count
    state, scanned = operands[:carried], operands[carried:]
    _check_body(node, body, inputs=len(operands), least_outputs=carried)
    axes = [
        node.axis(axis, value.type.rank)
        for axis, value in zip(_flags(node, "scan_input_axes", count), scanned, strict=True)
    ]
    lengths = {value.type.shape[axis] for axis, value in zip(axes, scanned, strict=True)}
    if len(lengths) != 1:
        raise node.error("scanned operands of one length", sorted(lengths))
    length = lengths.pop()
    if not 1 <= length <= MAX_ITERATIONS:
        raise node.unsupported(f"1 to {MAX_ITERATIONS} iterations", length)
    name = "scan_input_directions" if node.version >= 9 else "directions"
    backwards = _flags(node, name, count)
    rows: list[tuple[Value, ...]] = []
    for step in range(length):
        elements = (
            _element(value, axis, length - 1 - step if back else step)
            for value, axis, back in zip(scanned, axes, backwards, strict=True)
        )
        results = _tensors(node, body.build((*state, *elements)))
        state = results[:carried]
        rows.append(results[carried:])
    stacked = len(body.output_names) - carried
    output_axes = _flags(node, "scan_output_axes", stacked)
    prepended = _flags(node, "scan_output_directions", stacked)
    collected = zip(zip(*rows, strict=True), output_axes, prepended, strict=True)
    return (
        *state,
        *(
            _stacked(node, parts[::-1] if reverse else parts, axis)
            for parts, axis, reverse in collected
        ),
    )


def _flags(node: OnnxNode, name: str, count: int) -> tuple[int, ...]:
    values = node.integers(name, (0,) * count)
    if len(values) != count:
        raise node.error(f"{name} with {count} values", list(values))
    return values


TABLE: Mapping[tuple[str, str], Importer] = {
    ("", "If"): _if,
    ("", "Loop"): _loop,
    ("", "Scan"): _scan,
}

"""What a graph has to do, whoever does it: operations of its contractions, bytes it must move.

What it does: counts by the definition of the operators, as papers and vendors do: a multiply-add is
two operations, and taps in the padding count. Who filters a convolution with fewer products does
less than is counted here, and may seem faster than the machine.
What it does not: estimate time (`search.cost`), or look at kernels (`compiler.flops`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from graphopt.graph import Constant, Graph, Input, Node, Value, consumers
from graphopt.ops.spec import expression_of
from tensorgen.expr import Reduce


@dataclass(frozen=True, slots=True)
class Work:
    """`flops`: multiplications and additions of all contractions in one run.

    `traffic`: bytes that one run moves at least, if nothing is kept from the run before: inputs,
    constants and results, each once; of what is only gathered from, no more than is gathered.
    """

    flops: int
    traffic: int


def work(graph: Graph) -> Work:
    """The work of one run of the graph as it stands."""
    readers = consumers(graph.values)
    ends = {value.digest: value for value in graph.outputs}
    traffic = sum(value.type.bytes for value in ends.values())
    for value in graph.values:
        if isinstance(value, Input | Constant):
            traffic += _bytes_read(value, readers.get(value, ()), value.digest in ends)
    return Work(sum(map(contraction_flops, graph.nodes)), traffic)


def contraction_flops(node: Node) -> int:
    """Operations of a node that is a sum of products; 0 for any other."""
    match node.op.name:
        case "matmul":
            return 2 * node.type.size * node.inputs[0].type.shape[-1]
        case "conv":
            return 2 * node.type.size * prod(node.inputs[1].type.shape[1:])
        case "conv_transpose":
            x, weights = (operand.type for operand in node.inputs)
            groups = node.param("groups")
            assert isinstance(groups, int)
            return 2 * x.size * (weights.shape[0] // groups) * prod(weights.shape[2:])
        case "einsum":
            factors = len(node.inputs)
            match expression_of(node).body:
                case Reduce(axes=axes):
                    return factors * node.type.size * prod(axis.extent for axis in axes)
                case _:
                    return (factors - 1) * node.type.size
        case _:
            return 0


def _bytes_read(value: Value, readers: tuple[Node, ...], whole: bool) -> int:
    """How much of an input or constant its readers need; all of it if it is a result as well."""
    if whole or not all(_gathers_from(node, value) for node in readers):
        return value.type.bytes
    return min(value.type.bytes, sum(node.type.bytes for node in readers))


def _gathers_from(node: Node, value: Value) -> bool:
    gathers = node.op.name in ("gather", "gather_elements", "gather_nd")
    return gathers and node.inputs[0] == value and value not in node.inputs[1:]

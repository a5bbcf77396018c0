"""Transposed convolution, the adjoint of convolution: each element of x adds a scaled kernel to the
result, `strides` apart.

It has no kernel of its own: `graphopt.phases` takes it apart. As one operator it keeps its name
through rules and into ONNX, and scales fold into its weights.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from graphopt.ops.groups import channel_read, over_groups, require_groups
from graphopt.ops.operands import require_at_least, require_length
from graphopt.ops.spec import OpSpec, sample
from graphopt.ops.windows import spatial_names
from tensorgen.expr import Expr, Tensor, TensorExpr, all_of, compute, reduce_sum, select
from tensorgen.types import Array, Shape, TensorType, int32


def _conv_transpose_type(
    x: TensorType,
    w: TensorType,
    *,
    strides: Shape,
    pads: Shape,
    dilations: Shape,
    groups: int,
) -> TensorType:
    op = "conv_transpose"
    dtype = require_groups(op, x, w, groups)
    rank = x.rank - 2
    require_length(op, "strides", strides, rank)
    require_length(op, "pads", pads, 2 * rank)
    require_length(op, "dilations", dilations, rank)
    require_at_least(op, "strides", strides, 1)
    require_at_least(op, "dilations", dilations, 1)
    require_at_least(op, "sizes", x.shape[2:], 1)
    require_at_least(op, "kernel sizes", w.shape[2:], 1)
    parts = zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    whole = tuple((size - 1) * s + (taps - 1) * d + 1 for size, taps, s, d in parts)
    cut = zip(whole, pads[:rank], pads[rank:], strict=True)
    outputs = tuple(full - before - after for full, before, after in cut)
    require_at_least(op, "result sizes", outputs, 1)
    return TensorType(dtype, (x.shape[0], w.shape[0], *outputs))


def _conv_transpose_compute(
    x: Tensor, w: Tensor, *, strides: Shape, pads: Shape, dilations: Shape, groups: int
) -> TensorExpr:
    result = _conv_transpose_type(
        x.type, w.type, strides=strides, pads=pads, dilations=dilations, groups=groups
    )
    rank = len(strides)

    def body(n: Expr, oc: Expr, *outputs: Expr) -> Expr:
        def added(ic: Expr, *places: Expr) -> Expr:
            elements, kernel = places[:rank], places[rank:]
            channel = channel_read(w, groups, oc, ic)
            meets = tuple(
                (element * stride + tap * dilation).equals(output + before)
                for element, stride, tap, dilation, output, before in zip(
                    elements, strides, kernel, dilations, outputs, pads[:rank], strict=True
                )
            )
            return select(all_of(meets), x[(n, channel, *elements)] * w[(oc, ic, *kernel)], 0)

        names = ["ic", *spatial_names("i", rank), *spatial_names("k", rank)]
        return reduce_sum((w.shape[1], *x.shape[2:], *w.shape[2:]), added, names=names)

    return compute(result.shape, body, names=["n", "oc", *spatial_names("o", rank)])


def _conv_transpose_reference(
    x: Array, w: Array, *, strides: Shape, pads: Shape, dilations: Shape, groups: int
) -> Array:
    rank = len(strides)
    sizes, kernel = x.shape[2:], w.shape[2:]
    before, after = pads[:rank], pads[rank:]
    # Negative padding adds zeros at the ends.
    margin = max(0, *(-size for size in pads))
    extents = tuple(
        (size - 1) * stride + (taps - 1) * dilation + 1 + 2 * margin
        for size, stride, taps, dilation in zip(sizes, strides, kernel, dilations, strict=True)
    )

    def part(inputs: Array, weights: Array) -> Array:
        flat = weights.reshape(*weights.shape[:2], -1)
        whole = np.zeros((x.shape[0], weights.shape[0], *extents), inputs.dtype)
        for number, tap in enumerate(product(*map(range, kernel))):
            places = tuple(
                slice(start, start + (size - 1) * stride + 1, stride)
                for start, size, stride in zip(
                    (margin + k * d for k, d in zip(tap, dilations, strict=True)),
                    sizes,
                    strides,
                    strict=True,
                )
            )
            scaled = np.tensordot(inputs, flat[:, :, number], axes=(1, 1))
            whole[:, :, *places] += np.moveaxis(scaled, -1, 1)
        return whole

    kept = tuple(
        slice(margin + low, extent - margin - high)
        for low, extent, high in zip(before, extents, after, strict=True)
    )
    return over_groups(x, w, groups, part)[:, :, *kept].astype(x.dtype)


conv_transpose = OpSpec(
    name="conv_transpose",
    arity=2,
    params=("strides", "pads", "dilations", "groups"),
    infer=_conv_transpose_type,
    compute=_conv_transpose_compute,
    reference=_conv_transpose_reference,
    samples=(
        sample(
            (1, 3, 4, 4), (2, 3, 4, 4), strides=(2, 2), pads=(1,) * 4, dilations=(1, 1), groups=1
        ),
        sample(
            (2, 2, 3, 2), (3, 2, 3, 2), strides=(2, 1), pads=(1, 0, -1, 1), dilations=(1, 1),
            groups=1,
        ),
        sample(
            (1, 4, 3, 2), (6, 2, 2, 3), strides=(3, 2), pads=(0,) * 4, dilations=(1, 2), groups=2
        ),
        sample((2, 3, 5), (2, 3, 6), strides=(3,), pads=(1, 2), dilations=(1,), groups=1),
        sample(
            (1, 2, 7), (2, 1, 3), strides=(2,), pads=(-2, -3), dilations=(3,), groups=2, dtype=int32
        ),
        sample(
            (1, 2, 2, 1, 3), (1, 2, 2, 4, 1), strides=(2, 2, 1), pads=(0, 1, 0, 0, 1, 0),
            dilations=(1, 1, 1), groups=1,
        ),
        sample(
            (0, 2, 2, 2), (1, 2, 1, 1), strides=(1, 2), pads=(0,) * 4, dilations=(1, 1), groups=1
        ),
    ),
    family="contraction",
    doc=(
        "Element i of x (n, c, spatial…) times tap k of w (oc, c/groups, kernel…) is added at "
        "i * stride + k * dilation - pad; negative pads at the end lengthen the result."
    ),
)  # fmt: skip

TRANSPOSED: tuple[OpSpec, ...] = (conv_transpose,)

"""The layers suite: large matrix products, and every 1x1 and 3x3 convolution of ResNet-50.

What these reach of the peak is what the register tiles reach: nothing else is in them. Single
operators in the ONNX layout, weights constant, batch 1. Shapes: He et al., "Deep Residual Learning"
(CVPR 2016), table 1, with the stride in the 3x3 convolution, as in the networks suite.
"""

from __future__ import annotations

from collections.abc import Iterator

from tasor.suites.operators import Workload

_MATRICES = (
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (128, 768, 3072),
    (128, 3072, 768),
)
"""Rows, columns and depth: cubes, and the feed-forward layers of BERT."""

_STAGES = ((64, 64, 56), (256, 128, 28), (512, 256, 14), (1024, 512, 7))
"""Channels that enter, channels between, and the height and width that leave each stage."""


def layers() -> tuple[Workload, ...]:
    """All of them; names tell the kind and the sizes."""
    # The first shortcut has the sizes of the layer beside it.
    return tuple(dict.fromkeys((*_matrix_products(), *_convolutions())))


def _matrix_products() -> Iterator[Workload]:
    for m, n, k in _MATRICES:
        sizes = (("k", k), ("m", m), ("n", n))
        yield Workload(f"gemm-{m}x{n}x{k}", "GMM", 1, sizes)


def _convolutions() -> Iterator[Workload]:
    for entering, between, size in _STAGES:
        # All stages but the first halve the height and width.
        stride = 1 if size == _STAGES[0][2] else 2
        yield _convolution(entering, between, 1, size * stride, 1)
        yield _convolution(between, between, 3, size * stride, stride)
        yield _convolution(between, 4 * between, 1, size, 1)
        yield _convolution(entering, 4 * between, 1, size * stride, stride)
        yield _convolution(4 * between, between, 1, size, 1)
        if stride > 1:
            yield _convolution(between, between, 3, size, 1)


def _convolution(
    in_channels: int, out_channels: int, kernel: int, size: int, stride: int
) -> Workload:
    sizes = {
        "height": size,
        "width": size,
        "in_channels": in_channels,
        "out_channels": out_channels,
        "kernel": kernel,
        "stride": stride,
        "pad": kernel // 2,
    }
    name = f"conv{kernel}x{kernel}-{in_channels}-{out_channels}-{size}"
    return Workload(
        name + (f"-stride{stride}" if stride > 1 else ""), "C2D", 1, tuple(sorted(sizes.items()))
    )

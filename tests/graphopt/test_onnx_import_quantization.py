"""Quantization against ONNX Runtime (exact where integers come out), and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt.graph import Graph
from graphopt.onnx_import import ModelError, UnsupportedOperator

EXACT = {"rtol": 0, "atol": 0}


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(0, 40, shape).astype(np.float32)


def integers(dtype: Any, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    generator = np.random.default_rng(sum(shape))
    return generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def weights(dtype: Any, *shape: int) -> Any:
    """As `integers`, signed ones of half the range: where a processor has no instruction for sums
    of such products, ONNX Runtime adds two of them in 16 bits, which larger ones saturate."""
    found = integers(dtype, *shape)
    return found // 2 if np.issubdtype(dtype, np.signedinteger) else found


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_quantize_and_dequantize_per_tensor_and_axis(
    agree: Callable[..., Graph], dtype: Any
) -> None:
    for scale, zero_point in (
        (np.float32(0.7), dtype(3)),
        (np.array([0.5, 2, 0.01], np.float32), np.array([0, 7, 1], dtype)),
    ):
        constants = {"scale": scale, "zero": zero_point}
        agree(
            "QuantizeLinear", {"x": floats(2, 3, 4)}, constants=constants, types={"y": dtype},
            **EXACT,
        )  # fmt: skip
        agree(
            "DequantizeLinear", {"x": integers(dtype, 2, 3, 4)}, constants=constants,
            types={"y": np.float32}, rtol=1e-6,
        )  # fmt: skip


def test_halves_round_to_even_and_ends_saturate(one_node: Callable[..., Any]) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, 1e30, -1e30, np.inf, -np.inf], np.float32)
    case = one_node(
        "QuantizeLinear", {"x": x}, constants={"s": np.float32(1), "z": np.int8(1)},
        types={"y": np.int8},
    )  # fmt: skip
    assert case.evaluated()[0].tolist() == [1, 3, 3, 1, 127, -128, 127, -128]


def test_blocks(agree: Callable[..., Graph]) -> None:
    scale = np.array([[0.5, 1, 2], [3, 0.1, 0.2]], np.float32)
    constants = {"s": scale, "z": integers(np.int8, 2, 3)}
    agree(
        "DequantizeLinear", {"x": integers(np.int8, 2, 8)}, constants=constants, block_size=3,
        types={"y": np.float32},
    )  # fmt: skip
    agree(
        "QuantizeLinear", {"x": floats(2, 8)}, constants=constants, block_size=3,
        types={"y": np.int8}, **EXACT,
    )  # fmt: skip


def test_dequantize_to_half_floats(agree: Callable[..., Graph]) -> None:
    agree(
        "DequantizeLinear", {"x": integers(np.uint8, 3, 4)},
        constants={"s": np.float16(0.3), "z": np.uint8(100)}, types={"y": np.float16}, rtol=2e-3,
    )  # fmt: skip
    agree(
        "DequantizeLinear", {"x": integers(np.int32, 3, 4)}, constants={"s": np.float32(1e-6)},
        types={"y": np.float32},
    )  # fmt: skip


@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
def test_matmul_integer(agree: Callable[..., Graph], left: Any, right: Any) -> None:
    arrays = {"a": integers(left, 2, 3, 5), "b": weights(right, 5, 4)}
    constants = {"za": left(7), "zb": integers(right, 4)}
    graph = agree("MatMulInteger", arrays, constants=constants, types={"y": np.int32}, **EXACT)
    product = next(node for node in graph.nodes if node.op.name == "matmul")
    assert product.type.dtype.name == "int32"


@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
def test_matmul_integer_of_the_whole_range(
    one_node: Callable[..., Any], left: Any, right: Any
) -> None:
    a, b, zero = integers(left, 3, 5), integers(right, 5, 4), integers(right, 4)
    constants = {"za": left(7), "zb": zero}
    case = one_node("MatMulInteger", {"a": a, "b": b}, constants=constants, types={"y": np.int32})
    expected = (a.astype(np.int64) - 7) @ (b.astype(np.int64) - zero)
    np.testing.assert_array_equal(case.evaluated()[0], expected)


def test_matmul_integer_with_zero_points_per_row(one_node: Callable[..., Any]) -> None:
    a, b, zero = integers(np.uint8, 3, 5), integers(np.uint8, 5, 4), integers(np.uint8, 3)
    case = one_node("MatMulInteger", {"a": a, "b": b}, constants={"z": zero}, types={"y": np.int32})
    expected = (a.astype(np.int64) - zero[:, None]) @ b.astype(np.int64)
    np.testing.assert_array_equal(case.evaluated()[0], expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_qlinear_matmul(agree: Callable[..., Graph], dtype: Any) -> None:
    arrays = {"a": integers(dtype, 2, 4, 5), "b": weights(dtype, 2, 5, 3)}
    constants = {
        "sa": np.float32(0.03), "za": dtype(11), "sb": np.float32(0.02), "zb": dtype(5),
        "sy": np.float32(0.13), "zy": dtype(9),
    }  # fmt: skip
    names = ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"]
    agree("QLinearMatMul", arrays, names, constants, **EXACT)


@pytest.mark.parametrize("per_channel", [False, True])
def test_qlinear_conv(agree: Callable[..., Graph], per_channel: bool) -> None:
    x = {"x": integers(np.uint8, 1, 4, 6, 5)}
    count = 6 if per_channel else 1
    scale = np.linspace(0.01, 0.03, count).astype(np.float32)
    constants = {
        "sx": np.float32(0.05), "zx": np.uint8(120), "w": weights(np.int8, 6, 2, 3, 2),
        "sw": scale if per_channel else scale[0], "zw": np.zeros(count, np.int8)[()],
        "sy": np.float32(0.2), "zy": np.uint8(128), "b": integers(np.int16, 6).astype(np.int32),
    }  # fmt: skip
    if not per_channel:
        constants["zw"] = np.int8(3)
    agree(
        "QLinearConv", x, constants=constants, group=2, strides=[2, 1], pads=[1, 0, 1, 2], **EXACT
    )


def test_conv_integer_pads_with_the_zero_point(agree: Callable[..., Graph]) -> None:
    agree(
        "ConvInteger", {"x": integers(np.uint8, 1, 2, 5, 5), "w": integers(np.uint8, 3, 2, 3, 3)},
        constants={"zx": np.uint8(20), "zw": np.uint8(9)}, types={"y": np.int32},
        pads=[1, 1, 1, 1], **EXACT,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("constants", "attributes", "message"),
    [
        ({"s": np.ones(5, np.float32)}, {}, "scales and zero points of 3 elements"),
        ({"s": np.float32(1), "z": np.float32(0)}, {}, "a result of an integer or narrow type"),
        ({"s": np.float32(1), "z": np.int8(0)}, {"output_dtype": 2}, "a zero point of the type"),
        ({"s": np.ones((2, 2), np.float32)}, {"block_size": 2}, r"of shape \[2, 2, 4\]"),
    ],
)
def test_refused(
    one_node: Callable[..., Any],
    constants: dict[str, Any],
    attributes: dict[str, Any],
    message: str,
) -> None:
    case = one_node(
        "QuantizeLinear", {"x": floats(2, 3, 4)}, constants=constants, types={"y": np.uint8},
        **attributes,
    )  # fmt: skip
    with pytest.raises(ModelError, match=message):
        case.imported()


def test_refused_element_types(one_node: Callable[..., Any]) -> None:
    case = one_node(
        "QuantizeLinear", {"x": floats(2)}, constants={"s": np.float32(1)}, output_dtype=8
    )
    with pytest.raises(UnsupportedOperator, match="got string"):
        case.imported()

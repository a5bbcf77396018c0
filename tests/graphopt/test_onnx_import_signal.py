"""DFT and STFT against numpy's FFT, MelWeightMatrix against ONNX Runtime, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphopt.graph import Graph
from graphopt.onnx_import import ModelError


def signal(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def pairs(spectrum: Any) -> Any:
    return np.stack([spectrum.real, spectrum.imag], axis=-1)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.integers(1, 40), length=st.integers(1, 45), axis=st.integers(0, 1),
    inverse=st.booleans(), parts=st.integers(1, 2),
)  # fmt: skip
def test_dft_of_any_length(
    one_node: Callable[..., Any], size: int, length: int, axis: int, inverse: bool, parts: int
) -> None:
    shape = [3, 3, parts]
    shape[axis] = size
    x = signal(*shape)
    values = x[..., 0] + 1j * (x[..., 1] if parts == 2 else 0)
    case = one_node(
        "DFT", {"x": x}, constants={"n": np.int64(length), "axis": np.int64(axis)}, opset=20,
        inverse=int(inverse),
    )  # fmt: skip
    expected = (np.fft.ifft if inverse else np.fft.fft)(values, n=length, axis=axis)
    np.testing.assert_allclose(case.evaluated()[0], pairs(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 7, 8])
def test_one_sided_there_and_back(one_node: Callable[..., Any], size: int) -> None:
    x = signal(2, size, 1)
    case = one_node("DFT", {"x": x}, opset=19, onesided=1)
    (spectrum,) = case.evaluated()
    np.testing.assert_allclose(spectrum, pairs(np.fft.rfft(x[..., 0])), atol=1e-9)
    back = one_node(
        "DFT", {"x": spectrum}, constants={"n": np.int64(size)}, opset=19, inverse=1, onesided=1
    )
    np.testing.assert_allclose(back.evaluated()[0], x, atol=1e-9)


@pytest.mark.parametrize("length", [512, 1000, 1024, 1331, 4096])
def test_long_transforms_are_split(one_node: Callable[..., Any], length: int) -> None:
    x = signal(2, length, 1)
    case = one_node("DFT", {"x": x}, opset=19, onesided=1)
    np.testing.assert_allclose(case.evaluated()[0], pairs(np.fft.rfft(x[..., 0])), atol=1e-8)
    products = [node for node in case.imported().nodes if node.op.name == "matmul"]
    assert len(products) == 2


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("window", [True, False])
def test_stft(agree: Callable[..., Graph], onesided: int, window: bool) -> None:
    x = signal(2, 40, 1, dtype=np.float32)
    constants: dict[str, Any] = {"step": np.int64(5), "length": np.int64(12)}
    names = ["x", "step", "window" if window else "", "length"]
    if window:
        constants["window"] = np.hanning(12).astype(np.float32)
    agree("STFT", {"x": x}, names, constants, onesided=onesided, atol=1e-4)


def test_stft_takes_the_length_from_the_window(one_node: Callable[..., Any]) -> None:
    x = signal(1, 20, 1)
    window = np.hamming(8)
    case = one_node(
        "STFT", {"x": x, "window": window}, ["x", "step", "window"], {"step": np.int64(6)}
    )
    frames = np.stack([x[0, start : start + 8, 0] * window for start in (0, 6, 12)])
    np.testing.assert_allclose(case.evaluated()[0], pairs(np.fft.rfft(frames))[None], atol=1e-9)


@pytest.mark.parametrize(("bins", "length", "high"), [(8, 64, 4000.0), (5, 16, 8000.0)])
def test_mel_weight_matrix(
    agree: Callable[..., Graph], bins: int, length: int, high: float
) -> None:
    constants = {
        "bins": np.int64(bins), "length": np.int64(length), "rate": np.int64(16000),
        "low": np.float32(20), "high": np.float32(high),
    }  # fmt: skip
    agree("MelWeightMatrix", {"unused": signal(1, dtype=np.float32)}, list(constants), constants)


@pytest.mark.parametrize("window", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_are_constants(agree: Callable[..., Graph], window: str) -> None:
    graph = agree(window, {"unused": signal(1, dtype=np.float32)}, ["n"], {"n": np.int64(9)})
    assert graph.nodes == ()


@pytest.mark.parametrize(
    ("x", "constants", "attributes", "message"),
    [
        (signal(3, 4, 3), {}, {}, r"a signal of shape \(…, 1 or 2\)"),
        (signal(3, 4, 1), {}, {"axis": 2}, "an axis of the signal"),
        (signal(3, 4, 1), {"n": np.int64(0)}, {}, "a transform of length 1"),
        (signal(1, 8209, 1), {}, {}, "a transform of moderate or highly composite length"),
    ],
)
def test_refused(
    one_node: Callable[..., Any],
    x: Any,
    constants: dict[str, Any],
    attributes: dict[str, Any],
    message: str,
) -> None:
    case = one_node("DFT", {"x": x}, constants=constants, opset=19, **attributes)
    with pytest.raises(ModelError, match=message):
        case.imported()


def test_refused_frames(one_node: Callable[..., Any]) -> None:
    constants = {"step": np.int64(0), "length": np.int64(4)}
    case = one_node("STFT", {"x": signal(1, 8, 1)}, ["x", "step", "", "length"], constants)
    with pytest.raises(ModelError, match="frames of 1 to 8 samples at a step of at least 1"):
        case.imported()

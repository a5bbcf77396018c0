"""The network suite: accepted by the checker, runnable, of the published size."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import onnx
import onnxruntime
import pytest

from graphopt.onnx_import import import_model
from tasor.peer_cases import domains_of, sample_inputs
from tasor.suites.families.bert import VOCABULARY
from tasor.suites.families.language import GPT_VOCABULARY
from tasor.suites.networks import MODERN_NETWORKS, NETWORKS, network

# Of the published models, in millions; batch-normalization statistics count as parameters here,
# and the graph constants that exporters store (clip bounds, shapes) hardly weigh.
PARAMETERS: Mapping[str, float] = {
    "resnet50": 25.6,
    "resnext50": 25.1,
    "mobilenetv2": 3.54,
    "inceptionv3": 23.9,
    "squeezenet": 1.24,
    "nasnet_a": 5.3,
    "nasrnn": 4.19,
    "resnet3d18": 33.4,
    "dcgan": 12.7,
    "bert": 108.6,
    "efficientnet": 5.33,
    "mobilenetv3": 5.51,
    "shufflenetv2": 2.3,
    "densenet121": 8.06,
    "convnext": 28.6,
    "vit": 22.1,
    "swin": 1.62,
    "mixer": 18.5,
    "gpt": 46.3,
    "whisper": 7.83,
    "conformer": 0.97,
    "wavenet": 0.34,
    "lstm": 2.4,
    "gru": 1.81,
    "unet": 7.76,
    "deeplab": 8.53,
    "style": 1.68,
    "espcn": 0.0227,
    "yolo": 7.23,
}

OUTPUTS: Mapping[str, tuple[int, ...]] = {
    "resnet3d18": (1, 400),
    "nasrnn": (1, 512),
    "dcgan": (1, 3, 64, 64),
    "bert": (1, 128, 768),
    "gpt": (1, 128, 8192),
    "whisper": (1, 500, 384),
    "conformer": (1, 256, 144),
    "wavenet": (1, 256, 1024),
    "lstm": (32, 1, 64),
    "gru": (32, 1, 64),
    "unet": (1, 2, 192, 192),
    "deeplab": (1, 21, 96, 96),
    "style": (1, 3, 224, 224),
    "espcn": (1, 1, 288, 288),
    "yolo": (1, 6300, 85),
}

VOCABULARIES: Mapping[str, Mapping[str, int]] = {
    "bert": {"input_ids": VOCABULARY},
    "gpt": {"input_ids": GPT_VOCABULARY},
}

FAST = ("squeezenet", "nasrnn", "swin", "conformer", "wavenet", "gru", "espcn", "deeplab")
CASES = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
    for name in (*NETWORKS, *MODERN_NETWORKS)
]


@pytest.mark.parametrize("name", CASES)
def test_network_is_valid_and_runs_with_sane_outputs(name: str) -> None:
    model = network(name)
    onnx.checker.check_model(model, full_check=True)
    parameters = sum(prod(tensor.dims) for tensor in model.graph.initializer) / 1e6
    assert parameters == pytest.approx(PARAMETERS[name], rel=0.02)

    session = onnxruntime.InferenceSession(model.SerializeToString())
    domains = domains_of(import_model(model))
    assert domains == VOCABULARIES.get(name, {})
    feeds = dict(sample_inputs(model, domains=domains))
    output = np.asarray(session.run(None, feeds)[0])
    assert output.shape == OUTPUTS.get(name, (1, 1000))
    assert np.isfinite(output).all()
    assert 0.01 < output.std() < 20

    feeds = dict(sample_inputs(model, seed=1, domains=domains))
    # Twice as loud: means over planes of equally loud noise are nearly alike.
    feeds = {key: 2 * x if x.dtype.kind == "f" else x for key, x in feeds.items()}
    other = np.asarray(session.run(None, feeds)[0])
    assert np.abs(output - other).max() > 1e-3


def test_same_network_twice_is_the_same_bits() -> None:
    assert network("squeezenet").SerializeToString() == network("squeezenet").SerializeToString()


def test_unknown_network_is_refused() -> None:
    with pytest.raises(ValueError, match=r"network: expected one of resnet50, .*, got 'vgg'"):
        network("vgg")

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
from tasor.suites.networks import NETWORKS, network

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
}

OUTPUTS: Mapping[str, tuple[int, ...]] = {
    "resnet3d18": (1, 400),
    "nasrnn": (1, 512),
    "dcgan": (1, 3, 64, 64),
    "bert": (1, 128, 768),
}

FAST = ("squeezenet", "nasrnn")
CASES = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS]


@pytest.mark.parametrize("name", CASES)
def test_network_is_valid_and_runs_with_sane_outputs(name: str) -> None:
    model = network(name)
    onnx.checker.check_model(model, full_check=True)
    parameters = sum(prod(tensor.dims) for tensor in model.graph.initializer) / 1e6
    assert parameters == pytest.approx(PARAMETERS[name], rel=0.02)

    session = onnxruntime.InferenceSession(model.SerializeToString())
    domains = domains_of(import_model(model))
    assert domains == ({"input_ids": VOCABULARY} if name == "bert" else {})
    feeds = dict(sample_inputs(model, domains=domains))
    output = np.asarray(session.run(None, feeds)[0])
    assert output.shape == OUTPUTS.get(name, (1, 1000))
    assert np.isfinite(output).all()
    assert 0.01 < output.std() < 20

    other = np.asarray(session.run(None, dict(sample_inputs(model, seed=1, domains=domains)))[0])
    assert np.abs(output - other).max() > 1e-3


def test_same_network_twice_is_the_same_bits() -> None:
    assert network("squeezenet").SerializeToString() == network("squeezenet").SerializeToString()


def test_unknown_network_is_refused() -> None:
    with pytest.raises(ValueError, match=r"network: expected one of resnet50, .*, got 'vgg'"):
        network("vgg")

"""The network suite: ten networks with seeded random weights, built on demand.

What it does: names them and builds them; `families` holds one module per family.
What it does not: train, download or run them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from tasor.suites.families.bert import bert
from tasor.suites.families.dcgan import dcgan
from tasor.suites.families.inception import inceptionv3
from tasor.suites.families.mobile import mobilenetv2, squeezenet
from tasor.suites.families.nasnet import nasnet_a
from tasor.suites.families.recurrent import nasrnn
from tasor.suites.families.residual import resnet3d18, resnet50, resnext50

_BUILDERS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": resnet50,
    "resnext50": resnext50,
    "mobilenetv2": mobilenetv2,
    "inceptionv3": inceptionv3,
    "squeezenet": squeezenet,
    "nasnet_a": nasnet_a,
    "nasrnn": nasrnn,
    "resnet3d18": resnet3d18,
    "dcgan": dcgan,
    "bert": bert,
}

NETWORKS: tuple[str, ...] = tuple(_BUILDERS)
"""The names that `network` knows."""


def network(name: str) -> onnx.ModelProto:
    """The network of that name: float32, opset 17, static shapes, one output y.

    Raises ValueError for a name that is not in NETWORKS.
    """
    if name not in _BUILDERS:
        raise ValueError(f"network: expected one of {', '.join(NETWORKS)}, got {name!r}")
    return _BUILDERS[name]()

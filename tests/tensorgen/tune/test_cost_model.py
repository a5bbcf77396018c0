"""Features and the learned cost model: what it predicts before, with and after enough trials."""

from __future__ import annotations

import sys
from math import exp, inf, log
from random import Random

import numpy as np
import pytest

from tensorgen.target import Target
from tensorgen.tune.cost_model import LEAST_TRIALS, LearnedModel, ModelMissing
from tensorgen.tune.features import COLUMNS, MISSING, features
from tensorgen.tune.space import Candidate, Space
from tensorgen.tune.task_space import space_of
from tests.contraction_tasks import matmul
from tests.tuned_tasks import CONVOLUTIONS, EXACT, ROUNDED

TARGET = Target.named("x86-64-v4")


def product_space(rows: int = 96) -> Space:
    return space_of(matmul((), rows, 128, 64, constant=(False, True)), TARGET, 1)


def truth(space: Space, candidate: Candidate) -> float:
    """Seconds that the estimate misjudges: short tiles and tiles of one vector take longer."""
    settings = space.settings(candidate)
    wrong = log(2.0) * (int(settings["rows"]) < 6) + 0.5 * (int(settings["vectors"]) == 1)
    return space.estimate(candidate) * 3.0 * exp(wrong)


def tiles(space: Space, count: int, seed: int = 0) -> list[Candidate]:
    """Points of the sketches that are tiles."""
    rng = Random(seed)
    own = [n for n, sketch in enumerate(space.sketches) if sketch.family == "register_tile"]
    points = {space.random(rng, rng.choice(own)) for _ in range(4 * count)}
    return sorted(points, key=lambda p: (p.sketch, p.choices))[:: max(len(points) // count, 1)]


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of two rankings."""
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


@pytest.mark.parametrize("name", [*EXACT, *ROUNDED, *CONVOLUTIONS])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_point_has_all_features_of_its_family(name: str, threads: int) -> None:
    task = {**EXACT, **ROUNDED, **CONVOLUTIONS}[name]
    space = space_of(task, TARGET, threads)
    rng = Random(0)
    points = [space.random(rng, n) for n in range(len(space.sketches)) for _ in range(3)]
    groups = features(space, points)
    assert sorted(place for places, _ in groups.values() for place in places) == [
        *range(len(points))
    ]
    for family, (places, rows) in groups.items():
        assert {space.sketches[points[place].sketch].family for place in places} == {family}
        assert rows.shape == (len(places), len(COLUMNS[family]))
        assert np.isfinite(rows).all()
        estimates = rows[:, COLUMNS[family].index("estimate")]
        assert np.allclose(estimates, [log(space.estimate(points[place])) for place in places])


def test_columns_are_filled() -> None:
    """No column is a name that nothing has."""
    filled: dict[str, set[str]] = {}
    for task in (*EXACT.values(), *ROUNDED.values(), *CONVOLUTIONS.values()):
        space = space_of(task, TARGET, 2)
        rng = Random(0)
        points = [space.random(rng, n) for n in range(len(space.sketches))]
        for family, (_, rows) in features(space, points).items():
            present = (rows != MISSING).any(axis=0)
            names = {c for c, here in zip(COLUMNS[family], present, strict=True) if here}
            filled.setdefault(family, set()).update(names)
    for family, columns in COLUMNS.items():
        missing = {column for column in columns if column not in filled[family]}
        assert not {column for column in missing if not column.startswith("stage ")}, family


def test_without_trials_it_is_the_analytical_model() -> None:
    space = product_space()
    points = tiles(space, 20)
    expected = [space.estimate(point) for point in points]
    assert np.allclose(LearnedModel().seconds(space, points), expected)


def test_few_trials_correct_the_level() -> None:
    space = product_space()
    points = tiles(space, 30)
    model = LearnedModel()
    for point in points[: LEAST_TRIALS // 2]:
        model.observe(space, point, 5.0 * space.estimate(point))
    expected = [5.0 * space.estimate(point) for point in points]
    assert np.allclose(model.seconds(space, points), expected)


def test_trials_teach_what_the_estimate_gets_wrong() -> None:
    space = product_space()
    points = tiles(space, 400)
    known, unknown = points[::2], points[1::2]
    model = LearnedModel()
    for point in known:
        model.observe(space, point, truth(space, point))
    actual = np.array([truth(space, point) for point in unknown])
    estimated = np.array([space.estimate(point) for point in unknown])
    predicted = model.seconds(space, unknown)
    assert correlation(predicted, actual) > 0.97 > correlation(estimated, actual)
    assert np.median(np.abs(np.log(predicted / actual))) < 0.1


def test_trials_of_one_task_warm_another() -> None:
    space, other = product_space(96), product_space(120)
    model = LearnedModel()
    for point in tiles(space, 200):
        model.observe(space, point, truth(space, point))
    points = tiles(other, 200)
    actual = np.array([truth(other, point) for point in points])
    estimated = np.array([other.estimate(point) for point in points])
    assert correlation(model.seconds(other, points), actual) > correlation(estimated, actual) + 0.01


def test_a_single_trial_says_little_about_its_family() -> None:
    """A search for a grouped convolution made two trials of plain loops; one was twelve times as
    fast as estimated, and of 512 points the eight that were thought fastest were all loops."""
    space = product_space()
    other = next(n for n, s in enumerate(space.sketches) if s.family != "register_tile")
    loops = sorted({space.random(Random(seed), other) for seed in range(40)}, key=space.estimate)
    points = tiles(space, 60)
    model = LearnedModel()
    for point in points:
        model.observe(space, point, space.estimate(point))
    model.observe(space, loops[-1], space.estimate(loops[-1]) / 12.0)
    expected = model.seconds(space, loops[:-1])
    assert np.all(expected > 0.5 * np.array([space.estimate(point) for point in loops[:-1]]))
    for point in loops:
        model.observe(space, point, space.estimate(point) / 12.0)
    expected = model.seconds(space, loops)
    assert np.all(expected < 0.2 * np.array([space.estimate(point) for point in loops]))


def test_equal_trials_give_equal_models() -> None:
    def scores() -> list[float]:
        space = product_space()
        points = tiles(space, 60)
        model = LearnedModel(seed=3)
        for point in points[:30]:
            model.observe(space, point, truth(space, point))
        return [float(s) for s in model.seconds(space, points)]

    assert scores() == scores()


def test_failures_and_illegal_points_teach_nothing() -> None:
    space = product_space()
    point = space.start
    model = LearnedModel()
    model.observe(space, point, inf)
    rows, vectors, *_ = (len(knob.values) - 1 for knob in space.sketches[point.sketch].knobs)
    illegal = Candidate(point.sketch, (rows, vectors, *point.choices[2:]))
    assert space.schedule(illegal) is None
    model.observe(space, illegal, 1.0)
    assert list(model.seconds(space, [point, illegal])) == [space.estimate(point), inf]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(
        ModelMissing, match="expected scikit-learn, which is not installed; install"
    ):
        LearnedModel()


def test_disturbed_trials_do_not_mislead() -> None:
    """One trial in ten takes six times as long as it should."""
    space = product_space()
    points = tiles(space, 400)
    model, rng = LearnedModel(), Random(1)
    for point in points[::2]:
        disturbed = 6.0 if rng.random() < 0.1 else 1.0
        model.observe(space, point, disturbed * truth(space, point))
    actual = np.array([truth(space, point) for point in points[1::2]])
    estimated = np.array([space.estimate(point) for point in points[1::2]])
    predicted = model.seconds(space, points[1::2])
    assert correlation(predicted, actual) > max(0.9, correlation(estimated, actual))

"""What tuning might have found, for tests of what is said of it: figures without measuring."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from tasor.model_race import ModelRace
from tasor.model_tuning import FailedModel, ModelFinish, TunedModel, TunedTask, TuneResult
from tasor.pipeline import Question, run_stages, settings_of
from tasor.turns import Timings
from tensorgen.schedule import Lanes, Loops
from tensorgen.tune.learning_curve import History, Round
from tensorgen.tune.library_race import Choice
from tensorgen.tune.outcome import Tally
from tensorgen.tune.task_scheduler import Finish, Network, TaskState
from tests.tasor.small_models import small_model

SETTINGS = settings_of("x86-64-v3", 1)

USUAL, FASTER = Loops(Lanes.OUTPUT, 0, 0, 1), Loops(Lanes.OUTPUT, 8, 4, 1)

HISTORY = History(
    {"first": 4e-3, "second": 1e-3, "unmeasured": inf},
    16,
    (Round("first", 24, 0.5, 3e-3), Round("second", 32, 1.0, 1e-3), Round("first", 40, 2.0, 2e-3)),
)


def sample_result(name: str = "model", note: str = "signal 11") -> TuneResult:
    """A model with a faster kernel that won its race, one with a target that shares a kernel, one
    without any figure, and one that failed; `name` is theirs, and `note` what was said of
    failures."""
    question = Question(small_model(), name, {"x": (2, 6)})
    stages = run_stages(question, SETTINGS)
    (task,) = stages.compilation.tasks
    outcomes = (
        Tally("timed", 20, ""), Tally("slower", 9, ""), Tally("wrong", 2, "off by 3"),
        Tally("not built", 1, "too wide"), Tally("crashed", 3, note),
        Tally("took too long", 1, ""),
    )  # fmt: skip
    tasks = {
        "first": TunedTask(
            "first", task, TaskState("first", 1e-3, 24, (4e-3, 3e-3, 2e-3)), USUAL,
            Choice(FASTER, 2.2e-3, 4.4e-3, True), None, outcomes,
        ),
        "second": TunedTask(
            "second", task, TaskState("second", 0.96e-3, 16, (1e-3, 1e-3)), USUAL,
            Choice(USUAL, 1.1e-3, 1.1e-3, False), Finish.AT_BOUND, (Tally("timed", 16, ""),),
        ),
        "unmeasured": TunedTask(
            "unmeasured", task, TaskState("unmeasured", 1e-6), USUAL,
            Choice(USUAL, inf, inf, False), None,
        ),
    }  # fmt: skip
    counts = ({"first": 2, "second": 1}, {"second": 3}, {"unmeasured": 1})
    ends = (ModelFinish.USED_UP, ModelFinish.REACHED, ModelFinish.USED_UP)
    race = ModelRace(Timings((10.0, 20.0, 10.4)), Timings((6.0, 12.0, 6.5)))
    models = [
        TunedModel(
            replace(question, name=f"{name}{number}"), stages, count, end,
            HISTORY.curve(Network(str(number), count)), 0.0035 if number == 1 else None,
            race if number == 0 else None,
        )
        for number, (count, end) in enumerate(zip(counts, ends, strict=True))
    ]  # fmt: skip
    failed = FailedModel(replace(question, name=f"{name}3"), f"model '{note}': expected an ONNX")
    return TuneResult((*models, failed), tasks, HISTORY)

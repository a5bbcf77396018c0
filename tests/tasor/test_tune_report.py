"""The page on tuning: every figure is in it, text stays text, and it stands alone."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tasor.command_tune import failures_table, models_table, tune_document
from tasor.model_race import ModelRace
from tasor.model_tuning import TunedModel
from tasor.tune_report import tune_page
from tasor.tune_request import TuneRequest
from tasor.turns import Timings
from tensorgen.tune.learning_curve import History
from tests.tasor.tuned_results import SETTINGS, sample_result

REQUEST = TuneRequest(16, Path("in/trials.sqlite"), 3, weights={"model0": 2.0})
HOSTILE = '</title><script>alert("\'&")</script>\u202e\x1b'


def page_of(request: TuneRequest = REQUEST) -> str:
    return tune_page(sample_result(), SETTINGS, request)


def rows(page: str, table: str) -> list[str]:
    """The texts of the rows of the table of a class, one line each."""
    body = page[page.index(f'class="{table}"') :]
    body = body[body.index("<tbody>") : body.index("</tbody>")]
    return [
        " ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split())
        for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    ]


def test_models_have_their_figures_or_a_reason() -> None:
    assert rows(page_of(), "models") == [
        "model0 2 1 9.9 5.5 10.4 5.778 6.5 1.67 all trials are used up",
        "model1 1 0 3.3 3.3 1.00 3.5 its latency target is reached",
        "model2 1 0 all trials are used up",
        "model3 model 'signal 11': expected an ONNX",
    ]


def test_a_model_that_lost_its_race_is_no_faster() -> None:
    result = sample_result()
    won, *others = result.models
    assert isinstance(won, TunedModel)
    lost = replace(won, race=ModelRace(Timings((5.0,)), Timings((8.0,))))
    page = tune_page(replace(result, models=(lost, *others)), SETTINGS, REQUEST)
    assert rows(page, "models")[0] == (
        "model0 2 1 9.9 5.5 5 2.778 8 1.00 all trials are used up; as a whole 0.625 times as fast "
        "as without trials: kept as without trials"
    )


def test_a_schedule_that_is_not_taken_makes_no_model_faster() -> None:
    result = sample_result()
    won, *others = result.models
    assert isinstance(won, TunedModel)
    assert (won.faster(result.tasks), won.times_as_fast(result.tasks)) == (1, 10 / 6)
    left = replace(won, race=None, left=frozenset({"first"}))
    assert (left.faster(result.tasks), left.times_as_fast(result.tasks)) == (0, 1.0)
    document: Any = tune_document(replace(result, models=(left, *others)), [None] * 4)
    assert document["models"][0]["not_taken"] == ["first"]


def test_kernels_that_take_most_of_the_time_come_first() -> None:
    first, second, unmeasured = rows(page_of(), "rows")
    assert first.startswith("first its meaning")
    # 2 runs of 2.2 ms and 4 of 1.1 ms.
    assert "50 % 2 4.4 2.2 2.00 45 % 24 6 all trials are used up before:" in first
    assert "50 % 4 1.1 1.1 1.00 87 % 16 0 near its bound as without trials:" in second
    assert unmeasured.endswith("lanes(output, 0, 0)") or "as without trials" in unmeasured


def test_failures_are_told_by_kind_with_an_example() -> None:
    page = page_of()
    assert rows(page, "outcomes") == [
        "timed, with a right result 36 69 %",
        "outrun: stopped when clearly slower than others 9 17 %",
        "wrong result 2 3.8 % first: off by 3",
        "not built: it does not fit 1 1.9 % first: too wide",
        "crashed 3 5.8 % first: signal 11",
        "hung: it did not end in time 1 1.9 %",
    ]
    assert "2 wrong, 3 crashed, 1 took too long" in page
    assert '<li class="unknown"><b>6</b><span>trials gave no right result' in page


def test_two_plots_for_each_model_that_was_measured() -> None:
    labels = re.findall(
        r'class="latency" viewBox="[^"]*" role="img" aria-label="([^"]*)"', page_of()
    )
    assert labels == [
        "model0: from 9 to 5 ms over trials",
        "model0: from 9 to 5 ms over seconds",
        "model1: from 3 to 3 ms over trials",
        "model1: from 3 to 3 ms over seconds",
    ]


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (REQUEST, "the sum of the models&#39; times; with weights: model0 2 times"),
        (replace(REQUEST, weights={}, latencies={"model1": 3.5}), "short enough: model1 3.5 ms"),
        (TuneRequest(1, mean_speed=True), "the geometric mean of the models&#39; times"),
        (TuneRequest(1, gradient=False), "none: equally many trials for each kernel"),
        (TuneRequest(1, learned=False), "staged, by estimates alone"),
        (TuneRequest(1, patience=48), "48 trials without a gain"),
        (TuneRequest(1), "in the cache folder"),
        (TuneRequest(1, cluster="tcp://h:8786"), "workers of the cluster tcp://h:8786"),
    ],
)
def test_it_says_what_was_asked_for(request_: TuneRequest, told: str) -> None:
    assert told in page_of(request_)


def test_what_stopped_early_says_so() -> None:
    assert "stopped early" not in page_of()
    assert tune_document(sample_result(), [None] * 4)["stopped"] is None
    result = replace(sample_result(), stopped="cluster <here>: nobody is there")
    told = "Tuning stopped early: cluster &lt;here&gt;: nobody is there. Tune again"
    assert told in tune_page(result, SETTINGS, REQUEST)
    assert tune_document(result, [None] * 4)["stopped"] == "cluster <here>: nobody is there"


def test_cards_say_it_in_short() -> None:
    page = page_of()
    cards = re.findall(r'<li class="\w*"><b>([^<]*)</b><span>([^<]*)</span>', page)
    assert cards == [
        ("1.29 x", "as fast as with zero trials, geometric mean of 2 models"),
        ("1 of 3", "kernels are faster"),
        ("24", "trials in 2 s, 12 a second"),
        ("16", "trials were on file"),
        ("6", "trials gave no right result"),
        ("1", "model cannot be compiled"),
    ]
    assert "<title>4 models, tuned</title>" in page


def test_it_is_made_where_nothing_was_measured() -> None:
    result = sample_result()
    history = History({"unmeasured": result.history.before["unmeasured"]}, 0, ())
    (alone, failed) = result.models[2:]
    nothing = replace(
        result, models=(alone, failed), tasks={"unmeasured": result.tasks["unmeasured"]},
        history=history,
    )  # fmt: skip
    page = tune_page(nothing, SETTINGS, REQUEST)
    assert "How they became faster" not in page
    assert "What came of the trials" not in page
    assert "trials in 0 s" in page
    empty = tune_page(replace(nothing, models=(failed,), tasks={}), SETTINGS, REQUEST)
    assert "<title>model3, tuned</title>" in empty


def test_every_drawing_is_well_formed() -> None:
    drawings = re.findall(r"<svg.*?</svg>", page_of(), re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_text_from_outside_is_text_only() -> None:
    request = TuneRequest(8, Path(HOSTILE), weights={HOSTILE: 2.0})
    page = tune_page(sample_result(HOSTILE, HOSTILE), SETTINGS, request)
    assert page.count("<script") == 1
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page


def test_it_loads_nothing() -> None:
    page = page_of()
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=|url\(|@import|https?://", page)
    assert not re.search(r'\sstyle="', page)


def test_the_document_has_the_curves() -> None:
    result = sample_result()
    document: Any = tune_document(result, [None] * 4)
    assert document == json.loads(json.dumps(document))
    first, second, third, failed = document["models"]
    assert [(p["trials"], p["seconds"]) for p in first["curve"]] == [
        (16, 0.0), (24, 0.5), (32, 1.0), (40, 2.0),
    ]  # fmt: skip
    assert [p["ms"] for p in first["curve"]] == pytest.approx([9.0, 7.0, 7.0, 5.0])
    assert (second["target_ms"], second["ended"]) == (3.5, "its latency target is reached")
    assert third["curve"] == []
    assert set(failed) == {"name", "failed"}
    assert first["race"] == {
        "zero_trial_ms": 10.4, "tuned_ms": 6.5, "times_as_fast": pytest.approx(10 / 6),
        "is_won": True,
    }  # fmt: skip
    assert second["race"] is None
    assert first["predicted_ms"] == pytest.approx(10.4 * first["tuned_ms"] / first["zero_trial_ms"])
    assert second["predicted_ms"] is None
    assert document["trials_made"] == 24
    assert document["tasks"]["first"]["outcomes"]["crashed"] == 3
    assert models_table(result).row_count == 4


def test_trials_that_failed_are_said_at_the_end() -> None:
    """Each is a bug of ours, which who tunes should not have to look for."""
    table = failures_table(sample_result(note="signal 11"))
    assert table is not None
    assert [list(map(str, column.cells)) for column in table.columns] == [
        ["first", "first", "first"],
        ["2 wrong", "3 crashed", "1 took too long"],
        ["off by 3", "signal 11", ""],
    ]
    assert failures_table(replace(sample_result(), tasks={})) is None

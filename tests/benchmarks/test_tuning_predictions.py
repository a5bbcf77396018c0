"""What the benchmark of predictions says about its figures, and what it refuses."""

from __future__ import annotations

import pytest

from benchmarks.arguments import EXIT_USAGE
from benchmarks.tuning_predictions import (
    TITLES,
    Prediction,
    _parser,
    cells,
    main,
    markdown,
    summary,
)

EXACT = Prediction("exact", 7, 3, (9.0, 6.0), (10.0, 8.0), 10.0 * 6 / 9, 1.5)
SHORT = Prediction("short", 5, 1, (4.0, 3.0), (5.0, 4.0), 3.75, 1.2)
LONG = Prediction("long", 2, 2, (2.0, 1.0), (2.0, 1.25), 1.0, 2.08)


def test_shares_are_of_what_was_measured() -> None:
    assert (EXACT.share, EXACT.together_share) == (1.0, 0.75)
    assert SHORT.share == pytest.approx(0.9)
    row = dict(zip(TITLES, cells(SHORT), strict=True))
    assert row["run predicted"] == "3.750 ms"
    assert row["predicted / measured"] == "0.900"
    assert row["kernels / run"] == "0.750"


def test_the_farthest_are_named() -> None:
    assert summary([EXACT, SHORT, LONG]) == (
        "Predicted as a share of measured: least 0.900 (short), most 1.040 (long), 3 networks."
    )
    assert summary([]) == "All networks are kept as without trials."


def test_the_page_has_a_row_for_each_network_and_how_it_was_made() -> None:
    arguments = _parser().parse_args(["--suite", "networks", "--suite", "real", "--trials", "8"])
    page = markdown([EXACT, LONG], arguments).splitlines()
    assert "--suite networks --suite real --trials 8 --threads 1 --turns 15" in page[2]
    assert [line.split(" | ")[0] for line in page if line.startswith("| ")] == [
        "| network", "| exact", "| long",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [["--suite", "none"], [], ["--suite", "real", "--trials", "0"]])
def test_wrong_usage_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == EXIT_USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1

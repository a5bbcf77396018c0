"""A process of our own is set up; one that calls us is not."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from tasor.command_line import main
from tensorgen.own_process import set_up_own_process


@pytest.fixture(autouse=True)
def settings() -> Iterator[tuple[float, tuple[int, int, int]]]:
    """The settings before, which are there again afterwards."""
    before = sys.getswitchinterval(), gc.get_threshold()
    yield before
    sys.setswitchinterval(before[0])
    gc.set_threshold(*before[1])


def test_threads_give_way_sooner_and_old_terms_are_looked_at_rarely(
    settings: tuple[float, tuple[int, int, int]],
) -> None:
    interval, (young, middle, old) = settings
    set_up_own_process()
    assert sys.getswitchinterval() < interval
    assert gc.get_threshold()[:2] == (young, middle)
    assert gc.get_threshold()[2] > old
    assert gc.isenabled()


def test_who_calls_the_command_line_with_words_keeps_the_settings(
    settings: tuple[float, tuple[int, int, int]],
) -> None:
    assert main(["--version"]) == 0
    assert (sys.getswitchinterval(), gc.get_threshold()) == settings

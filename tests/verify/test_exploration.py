"""Every path of a function on symbolic sizes, and what each assumes."""

from __future__ import annotations

import pytest

from tensorgen.sizes import Size
from verify.exploration import MOST_PATHS, Path, TooManyPaths, explore


def outcomes(found: list[tuple[Path, object]]) -> set[tuple[object, tuple[str, ...]]]:
    return {(result, tuple(path.assumptions.lines())) for path, result in found}


def test_a_comparison_goes_both_ways() -> None:
    def run(path: Path) -> str:
        a, b = path.fresh("a"), path.fresh("a")
        if a == b:
            return "equal" if b == a else "impossible"
        return "less" if a < b else "more"

    assert outcomes(list(explore(run))) == {
        ("equal", ("a1 = a0",)),
        ("less", ("0 <= -1-a0+a1", "a0-a1 != 0")),
        ("more", ("0 <= a0-a1", "a0-a1 != 0")),
    }


def test_what_follows_is_not_asked_again() -> None:
    def run(path: Path) -> bool:
        a = path.fresh("a", 1)
        return bool(a >= 1) and not a < 0 and bool(a * a > 0)

    assert [result for _, result in explore(run)] == [True]


def test_choices_are_all_taken() -> None:
    def run(path: Path) -> tuple[int, str]:
        return path.choose((1, 2)), path.choose("xyz")

    assert [result for _, result in explore(run)] == [(n, c) for n in (1, 2) for c in "xyz"]


def test_a_product_is_zero_if_a_factor_is() -> None:
    def run(path: Path) -> bool:
        a, b, c = (path.fresh("a") for _ in range(3))
        return bool(a * b == a * c)

    assert {lines for result, lines in outcomes(list(explore(run))) if result} == {
        ("a0 = 0",),
        ("a1 = a2", "a0 != 0"),
    } or {lines for result, lines in outcomes(list(explore(run))) if result} == {
        ("a0 = 0",),
        ("a2 = a1", "a0 != 0"),
    }


def test_quotients_are_bounded() -> None:
    def run(path: Path) -> Size:
        a, b = path.fresh("a"), path.fresh("b", 1)
        quotient = a // b
        assert quotient * b <= a
        assert a < quotient * b + b
        assert (a // b).same(quotient)
        return quotient

    (path, _), *more = explore(run)
    assert not more
    assert path.quotients


def test_endless_paths_are_given_up() -> None:
    def run(path: Path) -> None:
        for _ in range(MOST_PATHS.bit_length()):
            path.choose((0, 1))

    with pytest.raises(TooManyPaths, match="more than"):
        for _ in explore(run):
            pass

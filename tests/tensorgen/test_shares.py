"""What the busiest thread has to do, against the pieces written out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tensorgen.shares import Repeated, Work, busiest, cycles_of, pieces_of, repeated

WORK = st.recursive(
    st.integers(0, 9).map(float),
    lambda part: st.builds(repeated, st.integers(0, 3), st.lists(part, max_size=3).map(tuple)),
    max_leaves=6,
)


def written_out(work: Work) -> list[float]:
    if not isinstance(work, Repeated):
        return [work]
    return [piece for part in work.parts for piece in written_out(part)] * work.times


@given(WORK)
def test_pieces_and_cycles_are_those_of_the_sequence(work: Work) -> None:
    pieces = written_out(work)
    assert pieces_of(work) == len(pieces)
    assert cycles_of(work) == sum(pieces)


@given(WORK, st.integers(1, 5))
def test_threads_get_equal_numbers_of_consecutive_pieces(work: Work, threads: int) -> None:
    pieces = written_out(work)
    least, more = divmod(len(pieces), threads)
    shares = []
    for thread in range(threads):
        length = least + (thread < more)
        shares.append(sum(pieces[:length]))
        pieces = pieces[length:]
    assert busiest(work, threads) == max(shares)


def test_a_shorter_piece_at_the_end_is_the_last_threads() -> None:
    rows = repeated(1, (repeated(3, (10.0,)), 4.0))
    assert busiest(rows, 2) == 20.0
    assert busiest(repeated(2, (rows,)), 2) == 34.0

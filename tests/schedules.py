"""Schedules of every kind, drawn at random; whether one fits some task is not asked."""

from __future__ import annotations

from hypothesis import strategies as st

from tensorgen.schedule import (
    AttentionTile,
    ColumnRun,
    Lanes,
    Loops,
    Method,
    RegisterTile,
    RowStages,
    Schedule,
    VectorSource,
    WindowTile,
    WinogradTile,
)

_SIZES = st.integers(0, 5000)
_FLAGS = st.booleans()

LOOPS = st.builds(
    Loops, st.sampled_from(Lanes), _SIZES, _SIZES, st.integers(0, 4), _FLAGS, _FLAGS, _FLAGS,
    _FLAGS, st.sampled_from(Method),
)  # fmt: skip
ROW_STAGES = st.builds(
    RowStages,
    st.integers(0, 4),
    st.lists(LOOPS, max_size=3).map(tuple),
    st.integers(0, 4),
    _SIZES,
    st.frozensets(st.integers(0, 3)),
)
REGISTER_TILES = st.builds(
    RegisterTile, st.integers(0, 1), st.sampled_from(VectorSource), _FLAGS, _SIZES, _SIZES, _SIZES,
    _FLAGS, _FLAGS, _FLAGS, _FLAGS, _FLAGS, _FLAGS, st.integers(0, 3), _FLAGS,
    st.none() | st.integers(0, 1), _SIZES, _FLAGS,
)  # fmt: skip
WINOGRAD_TILES = st.builds(
    WinogradTile, st.lists(st.integers(1, 6), max_size=3).map(tuple), _SIZES, _SIZES, _SIZES,
    _SIZES, _SIZES, _FLAGS, _FLAGS, _FLAGS, _FLAGS,
)  # fmt: skip
WINDOW_TILES = st.builds(
    WindowTile,
    _SIZES,
    st.lists(st.builds(ColumnRun, _SIZES, _SIZES, _SIZES, _SIZES), max_size=3).map(tuple),
    st.integers(0, 4),
)
ATTENTION_TILES = st.builds(
    AttentionTile, _SIZES, _SIZES, REGISTER_TILES, ROW_STAGES, st.none() | REGISTER_TILES, _SIZES,
    _FLAGS,
)  # fmt: skip

SCHEDULES: st.SearchStrategy[Schedule] = st.one_of(
    LOOPS, ROW_STAGES, REGISTER_TILES, WINOGRAD_TILES, WINDOW_TILES, ATTENTION_TILES
)

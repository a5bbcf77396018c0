"""What models learn from: numbers about candidates, many at once, without lowering any.

Columns are the values of knobs, facts about the task under a sketch, and what follows from both:
how much of a tile idles, what it loads for each product, how many bytes come from where. All
candidates of one family have the same columns, whatever their task and sketch, so that what was
measured of one task tells something about another. (Tokens of the decision vector instead of
lowered code: TLP, Zhai et al., ASPLOS 2023; traffic by level: Pruner's draft model.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from tensorgen.tune.space import Candidate, Knob, Setting, Sketch, Space

Column = NDArray[np.float64]

Columns = Mapping[str, Column]

WORDS = ("output", "reduction", "none", "fit", "divide", "go round", "packed", "direct", "runtime")
"""Values of knobs that are words; their numbers are their places here."""

MISSING = -1.0
"""Stands where a sketch has no such number."""

MOST_STAGES = 6
"""Stages of a task whose loops are told one by one."""


def features(
    space: Space, candidates: Sequence[Candidate]
) -> dict[str, tuple[list[int], NDArray[np.float64]]]:
    """For each family among some candidates, the places of its candidates and a row of numbers for
    each of them, as in `COLUMNS`. What a sketch does not have is MISSING."""
    groups: dict[int, list[int]] = {}
    for place, candidate in enumerate(candidates):
        groups.setdefault(candidate.sketch, []).append(place)
    found: dict[str, tuple[list[int], NDArray[np.float64]]] = {}
    for number, places in groups.items():
        sketch = space.sketches[number]
        rows = _rows(space, sketch, [candidates[place] for place in places])
        before, others = found.get(sketch.family, ([], np.empty((0, rows.shape[1]))))
        found[sketch.family] = ([*before, *places], np.concatenate([others, rows]))
    return found


def _rows(space: Space, sketch: Sketch, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """The numbers of candidates of one sketch."""
    count = len(candidates)
    choices = np.array([candidate.choices for candidate in candidates], np.int64)
    choices = choices.reshape(count, len(sketch.knobs))
    first, *others = space.machine.levels
    second = others[0].bytes if len(others) > 1 else first.bytes
    shared = {**sketch.facts, "threads": space.threads, "first": first.bytes, "second": second}
    columns = {name: np.full(count, float(value)) for name, value in shared.items()}
    for place, knob in enumerate(sketch.knobs):
        columns[knob.name] = _numbers(knob)[choices[:, place]]
    columns["estimate"] = np.array([log(space.estimate(c)) for c in candidates])
    columns |= TRAFFIC[sketch.family](columns)
    missing = np.full(count, MISSING)
    return np.stack([columns.get(name, missing) for name in COLUMNS[sketch.family]], axis=1)


def _numbers(knob: Knob) -> Column:
    """The values of a knob as numbers."""
    return np.array([_number(value) for value in knob.values], np.float64)


def _number(value: Setting) -> float:
    return float(WORDS.index(value)) if isinstance(value, str) else float(value)


# What follows from knobs and facts


def _whole(extent: Column, length: Column) -> Column:
    """How many tiles of a length cover an extent."""
    return np.ceil(extent / np.maximum(length, 1.0))


def _idle(extent: Column, length: Column) -> Column:
    """How much more than an extent its tiles cover."""
    return _whole(extent, length) * length / np.maximum(extent, 1.0)


def _busiest(units: Column, threads: Column) -> Column:
    """How much more than its share the busiest of several threads has."""
    return _idle(units, threads)


def _tile_traffic(c: Columns) -> dict[str, Column]:
    width = c["vectors"] * c["lanes"]
    depth = np.where(c["depth"] > 0, c["depth"], c["sum"])
    across, along = _whole(c["extent"], c["rows"]), _whole(c["columns"], width)
    panel, block = depth * width * c["element_bytes"], depth * c["rows"] * c["element_bytes"]
    lines = np.where(c["vectors_outer"] > 0, along, across)
    rows = c["extent"] * c["sum"] * c["element_bytes"] / c["second"]
    return {
        "accumulators": c["rows"] * c["vectors"],
        "loads": (c["rows"] + c["vectors"]) / (c["rows"] * c["vectors"]),
        "idle_rows": _idle(c["extent"], c["rows"]),
        "idle_columns": _idle(c["columns"], width),
        "tiles": across * along,
        "inner_tiles": np.where(c["vectors_outer"] > 0, across, along),
        "panel": panel / c["first"],
        "block": (panel + block) / c["first"],
        "vector_factor": c["columns"] * c["sum"] * c["element_bytes"] / c["second"],
        "block_rows": np.where(c["row_blocks"] > 0, rows / np.maximum(c["row_blocks"], 1.0), 0.0),
        "row_factor": rows,
        "busiest": _busiest(
            np.where(c["grid"] > 0, across * along, lines) * c["repeated"], c["threads"]
        ),
    }


def _winograd_traffic(c: Columns) -> dict[str, Column]:
    width = c["vectors"] * c["lanes"]
    fitting = np.maximum(np.floor(c["block_share"] * c["second"] / c["strip_bytes"]), 1.0)
    strips = np.minimum(c["strips"], fitting)
    rows = strips * c["strip_rows"]
    return {
        "accumulators": c["rows"] * c["vectors"],
        "loads": (c["rows"] + c["vectors"]) / (c["rows"] * c["vectors"]),
        "idle_rows": _idle(rows, c["rows"]),
        "idle_columns": _idle(c["columns"], width),
        "blocks": _whole(c["strips"], strips) * c["repeated"],
        "panel": c["sum"] * width * c["element_bytes"] / c["first"],
        "weights": c["parts"] * c["channels"] * c["columns"] * c["element_bytes"] / c["second"],
        "busiest": _busiest(
            _whole(c["strips"], strips) * c["repeated"] * c["shares"], c["threads"]
        ),
    }


def _window_traffic(c: Columns) -> dict[str, Column]:
    return {
        "idle_rows": _idle(c["extent"], c["rows"]),
        "idle_columns": _idle(c["columns"], c["lanes"]),
        "plane_rows": ((c["rows"] - 1) * c["row_step"] + c["kernel_rows"]) / c["rows"],
        "busiest": _busiest(c["planes"], c["threads"]),
    }


def _attention_traffic(c: Columns) -> dict[str, Column]:
    made = {
        "blocks": _whole(c["extent"], c["rows"] * c["tiles"] * c["parts"]),
        "idle_rows": _idle(c["extent"], c["rows"]),
        "scores": c["rows"] * c["tiles"] * c["keys"] * c["element_bytes"] / c["first"],
        "busiest": _busiest(c["repeated"] * c["parts"], c["threads"]),
    }
    for name, extent in (("scores", c["keys"]), ("weighted", c["width"])):
        vectors = c.get(f"{name} vectors")
        if vectors is not None:
            made[f"{name} loads"] = (c["rows"] + vectors) / (c["rows"] * vectors)
            made[f"{name} idle"] = _idle(extent, vectors * c["lanes"])
    return made


def _loop_traffic(c: Columns) -> dict[str, Column]:
    return {
        "vectors": c["tile"] / c["lanes count"],
        "idle": _idle(c["inner"], c["lanes count"]),
        "chunks": _whole(c["results"], c["tile"]),
        "from_afar": c["bytes"] / c["second"],
    }


def _row_traffic(c: Columns) -> dict[str, Column]:
    return {"from_afar": c["bytes"] / c["second"], "row": c["inner"] / c["lanes count"]}


TRAFFIC: dict[str, Callable[[Columns], dict[str, Column]]] = {
    "register_tile": _tile_traffic,
    "winograd": _winograd_traffic,
    "window": _window_traffic,
    "attention": _attention_traffic,
    "loops": _loop_traffic,
    "rows": _row_traffic,
}
"""For each family, what follows from knobs and facts."""

_TILE_KNOBS = ("source", "vectors", "vectors_outer", "ahead", "turned")
_LOOP_KNOBS = ("lanes", "tile", "unroll", "reciprocals")
_EVERY = ("estimate", "threads", "parallel")

COLUMNS: dict[str, tuple[str, ...]] = {
    "register_tile": (
        *_EVERY, "rows", "vectors", "vectors_outer", "row_packed", "ahead", "panels_ahead",
        "epilogue_ahead", "depth", "row_blocks", "turned", "together", "prologue", "grid", "extent",
        "columns", "sum", "repeated", "vector_packed", "row_distance", "contiguous", "copied",
        "accumulators", "loads", "idle_rows", "idle_columns", "tiles", "inner_tiles", "panel",
        "block", "vector_factor", "block_in_place", "block_rows", "row_factor", "busiest",
    ),
    "winograd": (
        *_EVERY, "block_share", "rounding", "products_bytes", "rows", "vectors", "turned",
        "apart", "shares", "panels_ahead", "points", "results", "channels", "columns", "strips",
        "strip_rows", "repeated", "folded", "accumulators", "loads", "idle_rows", "idle_columns",
        "blocks", "panel", "weights", "busiest",
    ),
    "window": (
        *_EVERY, "rows", "lanes", "extent", "columns", "taps", "row_step", "column_step", "planes",
        "weighted", "idle_rows", "idle_columns", "plane_rows", "busiest",
    ),
    "attention": (
        *_EVERY, "rows", "tiles", "first_rows", "parts", "more_lines",
        *(f"scores {name}" for name in _TILE_KNOBS), *(f"weighted {name}" for name in _TILE_KNOBS),
        "extent", "keys", "sum", "repeated", "width", "blocks", "idle_rows", "scores",
        "scores loads", "scores idle", "weighted loads", "weighted idle", "busiest",
    ),
    "loops": (
        *_EVERY, *_LOOP_KNOBS, "streamed", "bytes", "results", "inner", "vectors", "idle",
        "chunks", "from_afar",
    ),
    "rows": (
        *_EVERY, "rows", "stack_bytes", "joined", "ahead", "streamed", "bytes", "results",
        "stages", "inner", "shared rows", "from_afar", "row",
        *(f"stage {n} {name}" for n in range(MOST_STAGES) for name in _LOOP_KNOBS),
    ),
}  # fmt: skip
"""The columns of each family, in order."""

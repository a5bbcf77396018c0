"""The tile that comparisons run over operands in the first-level cache."""

from __future__ import annotations

import pytest

from tensorgen.calibration_source import calibration_source, tile_elements, tile_shape
from tensorgen.dialects import vector_dialect
from tensorgen.sketch_tiles import tile_shapes
from tensorgen.target import TARGET_NAMES, Target
from tensorgen.types import float32

TARGETS = [name for name in TARGET_NAMES if name != "host"]


@pytest.mark.parametrize("name", TARGETS)
def test_the_tile_fits_the_registers_and_its_operands_the_cache(name: str) -> None:
    target = Target.named(name)
    dialect = vector_dialect(target.isa, float32)
    assert dialect is not None
    rows, vectors = tile_shape(dialect)
    assert rows * vectors + vectors < dialect.registers
    assert tile_elements(dialect) * float32.bytes <= 24 * 1024
    loads = (rows + vectors) / (rows * vectors)
    others = tile_shapes(dialect.registers, 8 * dialect.lanes, dialect)
    assert all((r + v) / (r * v) >= loads for r, v in others)


@pytest.mark.parametrize(("name", "sums"), [("x86-64-v4", 25), ("x86-64-v3", 12)])
def test_each_step_multiplies_every_row_by_every_vector(name: str, sums: int) -> None:
    source = calibration_source(Target.named(name))
    tile = source.split("static float tile(")[1].split("static float")[0]
    assert tile.count("_fmadd_ps(e") == sums
    assert "step < 64" in tile

"""Which exporter writes which operator: the family tables merged.

A new operator needs an entry in its family's table.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.onnx_export import contraction, elementwise, indexing, layout, pooling, reduction
from graphopt.onnx_export.term import Exporter

EXPORTERS: Mapping[str, Exporter] = {
    **elementwise.TABLE,
    **contraction.TABLE,
    **pooling.TABLE,
    **reduction.TABLE,
    **layout.TABLE,
    **indexing.TABLE,
}

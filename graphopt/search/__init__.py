"""Cost-based search over graph rewrites: which rules to apply where, and which not to.

`search` is the way in. What it does not: prove rules, run whole models, or know ONNX.
"""

from graphopt.search.backtracking import StopReason
from graphopt.search.cost import AnalyticCost, CostModel, KernelCost, machine_for
from graphopt.search.measure import Measured, measure
from graphopt.search.measured_search import MeasuredSearch, measured_search
from graphopt.search.records import KernelRecords, RecordedCost, RecordsError
from graphopt.search.search import (
    DEFAULT_SETTINGS,
    AppliedAt,
    SearchResult,
    SearchSettings,
    search,
)
from graphopt.search.shipped import search_rules
from graphopt.search.spot_check import Checked, spot_check

__all__ = [
    "DEFAULT_SETTINGS",
    "AnalyticCost",
    "AppliedAt",
    "Checked",
    "CostModel",
    "KernelCost",
    "KernelRecords",
    "Measured",
    "MeasuredSearch",
    "RecordedCost",
    "RecordsError",
    "SearchResult",
    "SearchSettings",
    "StopReason",
    "machine_for",
    "measure",
    "measured_search",
    "search",
    "search_rules",
    "spot_check",
]

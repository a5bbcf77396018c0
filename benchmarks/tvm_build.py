"""How TVM's workers build a candidate: as they do by default, without what no kernel here needs.

The default imports instructions of all kinds of processors first, which takes a worker half a
minute of processor time, and each batch has workers of its own; with it, candidates hit the time
limit of a build on a busy machine. Nothing else may be imported here: each worker imports this.
"""

from __future__ import annotations

import importlib
from typing import Any


def built(module: Any, target: Any, _params: Any) -> Any:
    """A scheduled module as code. Weights are taken as the schedule lays them out."""
    transform = importlib.import_module("tvm.s_tir.transform")
    tirx = importlib.import_module("tvm.tirx")
    packed = transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    return tirx.build(packed, target=target)

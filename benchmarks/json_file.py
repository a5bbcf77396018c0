"""Results as a file of JSON, for programs that read on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def write_json(path: Path | None, content: Mapping[str, object]) -> None:
    """Writes the file that `--json` names, if it names one."""
    if path is not None:
        path.write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")

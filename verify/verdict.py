"""What is found of a rule: a proof, a counterexample, or why neither.

What it does: names the three. What it does not: find them (see `judging`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verify.counterexample import Counterexample


@dataclass(frozen=True, slots=True)
class Proved:
    """Both sides are equal for all sizes, within what the certificate states.

    The certificate is as `certificate_json` writes it: what is checked is what is written.
    """

    certificate: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refuted:
    """Both sides differ on the operands of the counterexample, which is shrunk."""

    counterexample: Counterexample


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither was found. `reason` is one line."""

    reason: str


Verdict = Proved | Refuted | Unknown

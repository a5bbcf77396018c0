"""What can be wrong with a model: one exception class per kind of mistake, one line per message.

Every message says place, expected, got and, after a semicolon, what to do. Nothing else leaves the
importer for a bad model; any other exception is a bug of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_TEXT = 120


def printable(text: object) -> str:
    """Untrusted text for a message: one line, no control characters, bounded length."""
    clean = "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split()))
    return clean if len(clean) <= LONGEST_TEXT else clean[: LONGEST_TEXT - 1] + "…"


def quoted(name: str) -> str:
    """An untrusted name, quoted for a message."""
    return f"'{printable(name)}'"


class ModelError(ValueError):
    """The model is not one that Tasor can read. The command line exits with 65 (bad input)."""


class UnsupportedOperator(ModelError):
    """The model uses an operator, or a form of one, that Tasor does not import."""


class UnpinnedDimension(ModelError):
    """A graph input has a size that the model leaves open and the caller did not give."""


class NeedsConstant(ModelError):
    """A value must be known at compile time and is not.

    `inputs` names the graph inputs that it is computed from: fixing all of them makes it known.
    """

    def __init__(self, message: str, inputs: Sequence[str]) -> None:
        super().__init__(message)
        self.inputs = tuple(inputs)

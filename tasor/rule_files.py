"""Files of rules as users name them: Tasor's own text, or TASO's `graph_subst.pb`.

What it does: reads either, by the end of its name, and refuses in one line what is neither. What it
does not: judge the rules.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from graphopt.data_files import data_path
from graphopt.onnx_import.errors import printable
from graphopt.rule import Rule
from graphopt.rules import RuleError, load_rules
from graphopt.taso_rules import Groups, Translated, Unsupported, load_taso_rules
from tasor.errors import UsageError
from tasor.output_file import reason_of
from verify.judging import Settings
from verify.symbolic_rule import Ranks

TASO_SUFFIX = ".pb"


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The rules of a file in order, among them what the rule language does not say.

    `digest` is that of the file's bytes.
    """

    path: Path
    digest: str
    entries: tuple[Rule | Unsupported, ...]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Those that are rules."""
        return tuple(entry for entry in self.entries if isinstance(entry, Rule))


def read_rule_file(path: Path, groups: Groups | None = None) -> RuleFile:
    """The rules of a file.

    `groups` says what TASO's convolutions may be, free if None. RuleError, one line, if the file
    cannot be read or holds no rule; UsageError for `groups` with a file of another kind.
    """
    digest = hashlib.sha256(_content(path)).hexdigest()
    entries: tuple[Rule | Unsupported, ...]
    if path.suffix == TASO_SUFFIX:
        entries = tuple(
            entry.rule if isinstance(entry, Translated) else entry
            for entry in load_taso_rules(path, Groups.FREE if groups is None else groups)
        )
    elif groups is not None:
        raise UsageError(
            f"--groups: expected a file of TASO's ({TASO_SUFFIX}), got {printable(path)!r}; leave "
            "the option out"
        )
    else:
        entries = load_rules(path)
    if not entries:
        raise RuleError(
            f"rules {printable(path)!r}: expected at least one rule, got none; `tasor rules list` "
            "shows what rules look like"
        )
    return RuleFile(path, digest, entries)


def settings_for(given: RuleFile) -> Settings:
    """How the rules of a file are to be judged: TASO's tensors have two or four axes."""
    if given.path.suffix == TASO_SUFFIX:
        return Settings(Ranks((2, 4), (2,)))
    return Settings()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise RuleError(
            f"rules {printable(path)!r}: expected a readable file, got {reason_of(error)}; check "
            "the path"
        ) from None


def shipped_rule_files() -> tuple[Path, ...]:
    """The files of rules that Tasor ships, by name."""
    return tuple(sorted(data_path("rules").glob("*.rules")))

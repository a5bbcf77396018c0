"""The proofs of rules: kept beside them as data, and no rule is loaded without its own.

    data/rules/NAME.rules     the rules
    data/proofs/NAME.proofs   a line for each: RULE_DIGEST SHA256 PROOF

PROOF is the certificate, JSON as `verify` writes it, compressed (bzip2) and in base64: certificates
repeat themselves much, and a program reads all of them as it starts. SHA256 is that of the line
without it, `RULE_DIGEST PROOF`. Lines are sorted; the same proofs give the same bytes.

What it does: reads and writes such files, and loads rules that have proofs there. A rule's digest
is of all that it claims, so a proof of another rule never fits. What it does not: check proofs
(`verify.checker` does). The digests say that a file is whole and belongs to the rules; they do not
say who made it.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from graphopt.rule import Rule
from graphopt.rules import RuleError, load_rules

MOST_CHARACTERS = 2**28
"""A certificate is refused that unfolds to more: a few bytes could stand for any number."""

REMEDY = "prove the rules again: tasor rules prove"

_HEAD = re.compile(rb"([0-9a-f]{32}) ([0-9a-f]{64}) ")

_COMPRESSION = 9


class ProofError(RuleError):
    """A proof that is missing or does not fit. One line: file, rule, expected, got, what to do."""


class _Line(NamedTuple):
    """The parts of a line."""

    digest: str
    sha256: str
    proof: bytes


def proofs_path(rules: Path | str) -> Path:
    """The file that holds the proofs of a rule file."""
    path = Path(rules)
    return path.parent.parent / "proofs" / f"{path.stem}.proofs"


def load_proved_rules(path: Path | str, proofs: Path | str | None = None) -> tuple[Rule, ...]:
    """The rules of a file, each with a proof in `proofs` (`proofs_path` if that is not given).

    Raises RuleError for the rules and ProofError for what is amiss with a proof of one.
    """
    rules = load_rules(path)
    file = proofs_path(path) if proofs is None else Path(proofs)
    lines = _lines(file)
    for rule in rules:
        found = lines.get(rule.digest)
        if found is None:
            raise ProofError(
                f"{file}: rule {rule.name}: expected a proof of digest {rule.digest}, got none; "
                f"{REMEDY}"
            )
        _checked(found, f"{file}: rule {rule.name}")
    return rules


def read_proofs(path: Path | str) -> Mapping[str, str]:
    """The certificates of a file, JSON by the digest of the rule. Raises ProofError."""
    return {
        digest: _unfolded(_checked(line, f"{path}: rule {digest}"), f"{path}: rule {digest}")
        for digest, line in _lines(Path(path)).items()
    }


def read_proof(path: Path | str, rule: Rule) -> str | None:
    """The certificate of one rule as JSON; None if there is none. Raises ProofError."""
    line = _lines(Path(path)).get(rule.digest)
    place = f"{path}: rule {rule.name}"
    return None if line is None else _unfolded(_checked(line, place), place)


def write_proofs(path: Path | str, certificates: Mapping[str, str]) -> None:
    """Write certificates, JSON by the digest of the rule; the file appears whole or not at all."""
    file = Path(path)
    lines = b"".join(proof_line(digest, certificates[digest]) for digest in sorted(certificates))
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(lines)
        os.chmod(beside, 0o644)
        os.replace(beside, file)
    except BaseException:
        os.unlink(beside)
        raise


def proof_line(digest: str, certificate: str) -> bytes:
    """The line that holds a certificate."""
    proof = base64.b64encode(bz2.compress(certificate.encode(), _COMPRESSION))
    head = f"{digest} {_sha256(digest, proof)} ".encode()
    assert _HEAD.fullmatch(head), "a digest is 32 hexadecimal digits"
    return head + proof + b"\n"


def _lines(file: Path) -> Mapping[str, _Line]:
    """The lines of a file by the digest of the rule, not yet checked against their own digests."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ProofError(
            f"{file}: expected a readable file of proofs, got {error.strerror}; {REMEDY}"
        ) from None
    lines = data.split(b"\n")
    if lines.pop():
        raise ProofError(
            f"{file}:{len(lines) + 1}: expected a file whose last line ends, got a part of one; "
            f"{REMEDY}"
        )
    found: dict[str, _Line] = {}
    for number, line in enumerate(lines, start=1):
        head = _HEAD.match(line)
        if head is None:
            start = line[:40].decode("ascii", "backslashreplace")
            raise ProofError(
                f"{file}:{number}: expected 'RULE_DIGEST SHA256 PROOF', got {start!r}; {REMEDY}"
            )
        digest = head[1].decode()
        if digest in found:
            raise ProofError(
                f"{file}:{number}: expected one proof of rule {digest}, got another; {REMEDY}"
            )
        found[digest] = _Line(digest, head[2].decode(), line[head.end() :])
    return found


def _checked(line: _Line, place: str) -> bytes:
    """The proof of a line, whose own digest fits."""
    got = _sha256(line.digest, line.proof)
    if line.sha256 != got:
        raise ProofError(f"{place}: expected a line of SHA-256 {line.sha256}, got {got}; {REMEDY}")
    return line.proof


def _sha256(digest: str, proof: bytes) -> str:
    state = hashlib.sha256(f"{digest} ".encode())
    state.update(proof)
    return state.hexdigest()


def _unfolded(proof: bytes, place: str) -> str:
    try:
        folded = base64.b64decode(proof, validate=True)
        decompressor = bz2.BZ2Decompressor()
        data = decompressor.decompress(folded, MOST_CHARACTERS)
        if decompressor.eof and not decompressor.unused_data:
            return data.decode("ascii")
        reason = "one that does not end"
    except (binascii.Error, OSError, UnicodeDecodeError) as error:
        reason = str(error)
    raise ProofError(f"{place}: expected a compressed certificate, got {reason}; {REMEDY}")

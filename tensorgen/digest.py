"""Content digests: what gives terms, graph values and files their identity."""

from __future__ import annotations

import hashlib


def content_digest(*parts: bytes | str | int) -> bytes:
    """The digest of a sequence, 16 bytes.

    Parts are prefixed with their lengths, so that no two sequences share an encoding.
    """
    encoded: list[bytes] = []
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        encoded += (len(data).to_bytes(4, "little"), data)
    return hashlib.blake2b(b"".join(encoded), digest_size=16).digest()


def file_digest(content: bytes) -> str:
    """SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


class Identified:
    """Equality and hashing by digest: equal content is one thing."""

    __slots__ = ()
    digest: bytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identified) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

"""Content digests: what gives terms, graph values and files their identity."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

DIGEST_BYTES = 16

_DIGEST_LENGTH = DIGEST_BYTES.to_bytes(4, "little")


def content_digest(*parts: bytes | str | int) -> bytes:
    """The digest of a sequence, 16 bytes.

    Parts are prefixed with their lengths, so that no two sequences share an encoding.
    """
    return hashlib.blake2b(_encoded(parts), digest_size=DIGEST_BYTES).digest()


def digest_of_digests(first: tuple[str, ...], digests: Iterable[bytes]) -> bytes:
    """`content_digest(*first, *digests)`, for terms of which there are many.

    There are few `first` parts, whose encodings are remembered.
    """
    encoded = _DIGEST_LENGTH.join((_encoded_words(first), *digests))
    return hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).digest()


@lru_cache(maxsize=1 << 14)
def remembered_digest(*parts: bytes | str) -> bytes:
    """`content_digest` of what comes again and again."""
    return content_digest(*parts)


@lru_cache(maxsize=1024)
def _encoded_words(words: tuple[str, ...]) -> bytes:
    return _encoded(words)


def _encoded(parts: Iterable[bytes | str | int]) -> bytes:
    encoded: list[bytes] = []
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        encoded += (len(data).to_bytes(4, "little"), data)
    return b"".join(encoded)


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

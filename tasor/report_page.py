"""What the report pages have in common: their templates, and names for what is inline in them."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import jinja2

_TEMPLATES = Path(__file__).parent / "templates"

_UNPRINTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that turn the direction of text, and halves of characters."""


def shipped_text(name: str) -> str:
    """A style sheet or script beside the templates."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """What a content security policy names an inline element by."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@lru_cache(maxsize=8)
def page_template(name: str) -> jinja2.Template:
    """A page that escapes all it is given, and refuses names that it is not given."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
    )
    return environment.get_template(name)


def printed(page: str) -> str:
    """A page with a question mark for each character that a browser should not be given."""
    return _UNPRINTED.sub("?", page)

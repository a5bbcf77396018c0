"""Text of any origin and numbers, spelled so that C compilers read what was meant.

What it does: makes comments, string literals, number literals and filled lines out of untrusted
names and of arrays. What it does not: know expressions or statements.
Source: C99 sections 5.1.1.2 (trigraphs, spliced lines), 6.4.4, 6.4.5, 6.4.9 and 7.12.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from tensorgen.types import Array, Kind, dtype_of

MAX_COMMENT_LENGTH = 200
"""Longer text in a comment is cut."""

MAX_STRING_BYTES = 1000
"""Longer string literals are cut: C99 5.2.4.1 promises 4095 characters, after escapes."""

LINE_LENGTH = 100

_MATH = re.compile(
    r"\b(?:INFINITY|NAN|HUGE_VALF?|MATH_ERRNO|MATH_ERREXCEPT|math_errhandling|FP_[A-Z]\w+|signbit|"
    r"fpclassify|is(?:finite|inf|nan|normal|greater|greaterequal|less|lessequal|lessgreater|unordered)|"
    r"(?:a?(?:cos|sin|tan)h?|atan2|exp|exp2|expm1|frexp|ilogb|ldexp|log|log10|log1p|log2|logb|modf|"
    r"scalbl?n|cbrt|fabs|hypot|pow|sqrt|erfc?|lgamma|tgamma|ceil|floor|nearbyint|(?:l|ll)?(?:rint|"
    r"round)|trunc|fmod|remainder|remquo|copysign|nan|nextafter|nexttoward|fdim|fmax|fmin|fma)[fl]?)\b"
)
"""What <math.h> declares: C99 section 7.12."""

_SPECIAL_NUMBERS = {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}


def comment_text(text: str) -> str:
    """One line of printable ASCII that can stand in a C comment and in a Makefile comment.

    Other characters become <U+XXXX>; what would open or close a comment, or could be a trigraph,
    is pulled apart with blanks. Text beyond 200 characters is cut.
    """
    spelled = "".join(
        letter if " " <= letter <= "~" and letter != "\\" else f"<U+{ord(letter):04X}>"
        for letter in text[: MAX_COMMENT_LENGTH + 1]
    )
    if len(spelled) > MAX_COMMENT_LENGTH:
        spelled = spelled[: MAX_COMMENT_LENGTH - 3] + "..."
    return re.sub(r"([*/])(?=[*/])|(\?)(?=\?)", lambda match: match[0] + " ", spelled)


def needs_math_header(text: str) -> bool:
    """Whether C text has a name that <math.h> declares. Some libraries' takes compilers as long as
    a kernel."""
    return _MATH.search(text) is not None


def string_literal(text: str) -> str:
    """A C string literal of the text in UTF-8; text beyond 1000 bytes is cut."""
    encoded = text.encode("utf-8", "surrogatepass")[:MAX_STRING_BYTES]
    return '"' + "".join(map(_string_character, encoded)) + '"'


def _string_character(byte: int) -> str:
    letter = chr(byte)
    if letter in '"\\?':
        return "\\" + letter
    return letter if " " <= letter <= "~" else f"\\{byte:03o}"


def size_literal(size: int) -> str:
    """A C constant for a number of bytes or elements; unsigned, and wide enough by itself."""
    assert size >= 0, size
    return f"{size}u"


def number_literals(array: Array) -> list[str]:
    """A C constant for each element in row-major order, with exactly its value.

    Floats are the shortest decimals that round to the value; INFINITY and NAN need <math.h>. The
    16-bit floats are their bit patterns, booleans 0 or 1.
    """
    dtype = dtype_of(array)
    flat = np.ascontiguousarray(array).reshape(-1)
    if dtype.is_half:
        return [str(pattern) for pattern in flat.view(np.uint16).tolist()]
    match dtype.kind:
        case Kind.BOOL:
            return ["1" if value else "0" for value in flat.tolist()]
        case Kind.SIGNED:
            # The constant 9223372036854775808 fits no signed type, even with a minus before it.
            return [str(value) if value != -(2**63) else "INT64_MIN" for value in flat.tolist()]
        case Kind.UNSIGNED:
            return [f"{value}u" for value in flat.tolist()]
        case Kind.FLOAT:
            suffix = "f" if dtype.bits == 32 else ""
            return [_SPECIAL_NUMBERS.get(text, text + suffix) for text in map(str, flat)]


def filled(items: Iterable[str], indent: str) -> str:
    """The items with commas between them, on lines of at most 100 characters."""
    lines: list[str] = []
    line = indent
    for item in items:
        if len(line) + len(item) + 2 > LINE_LENGTH and line != indent:
            lines.append(line.rstrip())
            line = indent
        line += item + ", "
    return "\n".join([*lines, line.rstrip(", ")])


def call_text(opening: str, arguments: Sequence[str], closing: str, indent: str) -> str:
    """`opening(arguments)closing` on one line if it fits, else with the arguments below."""
    line = f"{indent}{opening}({', '.join(arguments)}){closing}"
    if len(line) <= LINE_LENGTH:
        return line
    return f"{indent}{opening}(\n{filled(arguments, indent + '    ')}){closing}"

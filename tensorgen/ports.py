"""The named inputs and outputs of a generated library, and names that C and C++ accept.

What it does: ties a name to a tensor type, and turns any text, such as a tensor name out of an
untrusted model file, into an identifier that cannot break the generated code. What it does not:
escape text for comments or string literals.
Source: C17 sections 5.2.4.1 (limits), 6.4.1 (keywords) and 7.1.3 (reserved identifiers); C++20
[lex.name] and [lex.key].
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorgen.types import TensorType

MAX_IDENTIFIER_LENGTH = 63
"""C17 5.2.4.1: a compiler need not tell apart identifiers that differ after 63 characters."""

_LONGEST_WORDS = MAX_IDENTIFIER_LENGTH - 1  # leaves room for the underscore of reserved words

_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false far float for friend goto huge if inline int interface long main module mutable
    namespace near new noexcept not not_eq nullptr operator or or_eq pascal private protected public
    register reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename
    typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
"""

_MACROS_AND_OBJECTS = """
    assert complex errno i386 imaginary linux noreturn offsetof setjmp stderr stdin stdout unix
    va_arg va_copy va_end va_list va_start
"""

_MATH_FUNCTIONS = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
    fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2
    logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round
    scalbln scalbn sin sinh sqrt tan tanh tgamma trunc
"""

_OTHER_FUNCTIONS = """
    abort abs alloca atexit atof atoi atol atoll bsearch calloc clearerr clock ctime difftime div
    exit fclose feof ferror fflush fgetc fgetpos fgets fopen fpclassify fprintf fputc fputs fread
    free freopen fscanf fseek fsetpos ftell fwrite getc getchar getenv gets gmtime isalnum isalpha
    isblank iscntrl isdigit isfinite isgraph isgreater isinf isless islessgreater islower isnan
    isnormal isprint ispunct isspace isunordered isupper isxdigit labs ldiv llabs lldiv localtime
    longjmp malloc max memchr memcmp memcpy memmove memset min mktime perror printf putc putchar
    puts qsort raise rand realloc remove rename rewind scanf setbuf setvbuf signal signbit snprintf
    sprintf srand sscanf strcat strchr strcmp strcoll strcpy strcspn strerror strlen strncat strncmp
    strncpy strpbrk strrchr strspn strstr strtod strtof strtok strtol strtold strtoll strtoul
    strtoull strxfrm system time tmpfile tmpnam tolower toupper ungetc vfprintf vprintf vsnprintf
    vsprintf
"""

_RESERVED_WORDS = frozenset(
    (_KEYWORDS + _MACROS_AND_OBJECTS + _OTHER_FUNCTIONS).split()
    + [name + suffix for name in _MATH_FUNCTIONS.split() for suffix in ("", "f", "l")]
)

_RESERVED_PATTERNS = re.compile(
    r"""
      [A-Z0-9_]{2,}                            # may be a macro: EOF, INT_MAX, INPUT on Arduino
    | I                                        # the imaginary unit of <complex.h>
    | (PRI|SCN)[a-zX].*                        # format macros of <inttypes.h>
    | .*_t                                     # types of POSIX, <stdint.h>, <arm_neon.h>
    | (atomic|omp|cnd|mtx|thrd|tss)_[a-z].*    # C17 7.31 and OpenMP
    | v[a-z0-9]+_([a-z]+_)?(s|u|f|p|bf)(8|16|32|64)  # NEON and MVE intrinsics
    | mm(256|512)?_.*                          # x86 intrinsics less their leading underscore
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a library: the name its users know it by, and its tensor type.

    The name is any text; `c_identifier` makes the C spelling of it. Elements of an input with a
    `domain` of n choose one of n entries; ordinary values are 0 … n-1.
    """

    name: str
    type: TensorType
    domain: int | None = None


def c_identifier(name: str) -> str:
    """An identifier for any text that is safe in C99 up to C23 and in C++.

    The result has 1 to 63 of the characters [A-Za-z0-9_], starts with a letter, holds no double
    underscore, and is no keyword, standard macro or standard library name. The same text gives the
    same identifier always; different texts may give the same one (`unique_identifiers` tells them
    apart). Applied to its own result it changes nothing.
    """
    base_letters = re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", name))
    words = re.sub(r"[^A-Za-z0-9]+", "_", base_letters).strip("_")
    if not words:
        words = "unnamed"
    if words[0].isdigit():
        words = "t_" + words
    if len(words) > _LONGEST_WORDS:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        suffix = f"_h{digest}"
        words = words[: _LONGEST_WORDS - len(suffix)].rstrip("_") + suffix
    return words + "_" if _is_reserved(words) else words


def _is_reserved(word: str) -> bool:
    return word in _RESERVED_WORDS or _RESERVED_PATTERNS.fullmatch(word) is not None


def unique_identifiers(names: Sequence[str], *, taken: Iterable[str] = ()) -> tuple[str, ...]:
    """One safe identifier for each name, all distinct and none of them in `taken`.

    A name that is a safe identifier already keeps its spelling; any other that collides gets the
    first free number: `a.b`, `a/b` and `a_b` become `a_b_2`, `a_b_3` and `a_b`.
    """
    used = set(taken)
    chosen: list[str | None] = [None] * len(names)
    for position, name in enumerate(names):
        if name not in used and c_identifier(name) == name:
            chosen[position] = name
            used.add(name)
    next_number: dict[str, int] = {}
    result = []
    for name, kept in zip(names, chosen, strict=True):
        if kept is not None:
            result.append(kept)
            continue
        base = c_identifier(name)
        candidate = base
        while candidate in used:
            number = next_number.get(base, 2)
            next_number[base] = number + 1
            candidate = _numbered(base, number)
        used.add(candidate)
        result.append(candidate)
    return tuple(result)


def _numbered(base: str, number: int) -> str:
    suffix = f"_{number}"
    return c_identifier(base[: _LONGEST_WORDS - len(suffix)].rstrip("_") + suffix)

"""The C function that puts memory out of the caches of this machine.

What it does: writes the function, for processors that let programs do that: x86 and 64-bit ARM.
Elsewhere it does nothing. What it does not: tell what has to come from main memory
(`weights_place`).

Other memory would have to go by otherwise, as much as the last cache has room for: hundreds of
megabytes where a server's many cores share one, of which a program may have any part.
"""

from __future__ import annotations

DROP_LINES = "drop_lines"
"""`void drop_lines(const void *memory, long bytes)`: reads of these bytes come from main memory."""


def drop_lines_source() -> str:
    """The C text of the function."""
    return f"""#include <stdint.h>

void {DROP_LINES}(const void *memory, long bytes);

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <emmintrin.h>

enum {{ LINE = 64 }};

/* Twenty times as fast as the older instruction, which waits for each line. */
__attribute__((target("clflushopt"))) static void drop_unordered(const char *begin, const char *end)
{{
    for (const char *line = begin; line < end; line += LINE) {{
        __builtin_ia32_clflushopt(line);
    }}
}}

static void drop_in_order(const char *begin, const char *end)
{{
    for (const char *line = begin; line < end; line += LINE) {{
        _mm_clflush(line);
    }}
}}

/* Asked once: a virtual machine stops for each question. */
static int has_unordered(void)
{{
    static int found = -1;
    unsigned a, b, c, d;

    if (found < 0) {{
        found = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 23 & 1) != 0;
    }}
    return found;
}}

void {DROP_LINES}(const void *memory, long bytes)
{{
    const char *begin = (const char *)memory - (uintptr_t)memory % LINE;
    const char *end = (const char *)memory + bytes;

    if (has_unordered()) {{
        drop_unordered(begin, end);
    }} else {{
        drop_in_order(begin, end);
    }}
    _mm_mfence();
}}
#elif defined(__aarch64__) && defined(__GNUC__)
void {DROP_LINES}(const void *memory, long bytes)
{{
    uint64_t sizes;

    __asm__ volatile("mrs %0, ctr_el0" : "=r"(sizes));
    const uintptr_t line = (uintptr_t)4 << (sizes >> 16 & 15);
    const uintptr_t end = (uintptr_t)memory + (uintptr_t)bytes;

    for (uintptr_t at = (uintptr_t)memory & ~(line - 1); at < end; at += line) {{
        __asm__ volatile("dc civac, %0" : : "r"(at) : "memory");
    }}
    __asm__ volatile("dsb sy" : : : "memory");
}}
#else
void {DROP_LINES}(const void *memory, long bytes)
{{
    (void)memory;
    (void)bytes;
}}
#endif
"""

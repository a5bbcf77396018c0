"""The C functions that hold a kernel's results against the expected ones.

One function for each element type: it counts the elements that are too far from what is expected,
and tells the first of them.
"""

from __future__ import annotations

from tensorgen.c_functions import definitions
from tensorgen.types import DTYPES, DType

_WIDENED = {"float16": "tasor_f32_from_f16", "bfloat16": "tasor_f32_from_bf16"}


def check_name(dtype: DType) -> str:
    """The function for elements of a type:
    `long NAME(const void *found, const void *expected, long count, double absolute, double
    relative, long *first, double *values)`, which puts the expected and the found value of the
    first element that is too far into `values`."""
    return f"check_{dtype.name}"


def check_source() -> str:
    """The C text of all of them. It is built once and kept."""
    functions = "\n".join(map(_function, DTYPES))
    return f"""#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

{definitions(sorted(_WIDENED.values()))}

/* Elements that are looked at together. */
enum {{ BLOCK = 1024 }};

static int is_close(double found, double expected, double absolute, double relative)
{{
    if (found == expected || (isnan(found) && isnan(expected))) {{
        return 1;
    }}
    if (!isfinite(found) || !isfinite(expected)) {{
        return 0;
    }}
    return fabs(found - expected) <= absolute + relative * fabs(expected);
}}

{functions}"""


def _function(dtype: DType) -> str:
    widened = _WIDENED.get(dtype.name, "")
    parameters = """const void *found, const void *expected, long count, double absolute,
    double relative, long *first, double *values"""
    return f"""long {check_name(dtype)}({parameters});
long {check_name(dtype)}({parameters})
{{
    const {dtype.c_name} *a = found, *e = expected;
    long wrong = 0;

    for (long begin = 0; begin < count; begin += BLOCK) {{
        const long end = count - begin < BLOCK ? count : begin + BLOCK;
        int clear = 1;

        /* Without a branch: vectors do it. What is not finite is not clear. */
        for (long n = begin; n < end; n++) {{
            const double x = (double){widened}(a[n]), y = (double){widened}(e[n]);

            clear &= (fabs(x - y) <= absolute + relative * fabs(y)) & (fabs(y) <= DBL_MAX);
        }}
        for (long n = begin; n < end && !clear; n++) {{
            const double x = (double){widened}(a[n]), y = (double){widened}(e[n]);

            if (!is_close(x, y, absolute, relative) && wrong++ == 0) {{
                *first = n;
                values[0] = y;
                values[1] = x;
            }}
        }}
    }}
    return wrong;
}}
"""

"""Files of rules that the tests of `tasor rules …` share."""

from __future__ import annotations

TRUE = """\
# Rules that are true.
mul-commutes: mul(x, y) => mul(y, x)
matmul-join: matmul(x, concat(y, z, axis=1)) => concat(matmul(x, y), matmul(x, z), axis=1)
    where rank(2, x)
"""
FALSE = "sub-commutes: sub(x, y) => sub(y, x)\n"

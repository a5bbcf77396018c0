"""Lane loops that divide by one value: quotients by its reciprocal, and the plain loop beside them.

A division takes a vector unit as long as five or more multiplications. With r = 1 / y correctly
rounded, the quotient x / y comes from three: q = x r, then q - (q y - x) r, whose fused steps leave
one rounding (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000
processor", IBM Journal of Research and Development 34, 1990). Where y is such that the steps could
leave the range of exponents, the loop divides.

In a softmax two are enough: x r + x s, where s is what 1 / y is beyond r. For an x of at least
2**-100 (2**-968 in double) the sum is within 2**-20 units of being correctly rounded, for a smaller
one it may be off by one unit. No divisor is unsuitable: each is at least 1, being a sum of powers
of which the greatest is 1.
"""

from __future__ import annotations

from dataclasses import replace

from tensorgen.expr import (
    Apply,
    Axis,
    Const,
    Expr,
    Load,
    apply,
    const,
    free_axes,
    map_children,
    walk,
)
from tensorgen.loop import Allocate, Buffer, For, If, LoopKind, Numbers, Space, Stmt, Store
from tensorgen.scalar_ops import QUOTIENT, RECIPROCAL_REST, RESCALED, quotient_divisors
from tensorgen.types import int64

_FIRST = const(0, int64)


def lane_quotients(lane: Axis, store: Store, numbers: Numbers) -> tuple[Stmt, ...]:
    """The loop over `lane` around `store`, quotients by what all lanes share from reciprocals."""
    plain = For(lane, (store,), LoopKind.SIMD)
    divisors = _shared_divisors(store.value, lane)
    if not divisors:
        return (plain,)
    scalars: list[Buffer] = []
    before: list[Stmt] = []

    def scalar(name: str, value: Expr) -> Load:
        buffer = numbers.buffer(name, value.dtype, 1, Space.SCALAR)
        scalars.append(buffer)
        before.append(Store(buffer, _FIRST, value))
        return buffer.at(_FIRST)

    known: dict[bytes, tuple[Expr, Expr]] = {}
    suitable: Expr | None = None
    for term in divisors:
        divisor = term if isinstance(term, Load) else scalar("divisor", term)
        one = const(1.0, term.dtype)
        known[term.digest] = divisor, scalar("reciprocal", apply("div", one, divisor))
        condition = _within(divisor, *quotient_divisors(term.dtype))
        suitable = condition if suitable is None else apply("and", suitable, condition)
    assert suitable is not None

    def by_reciprocal(term: Expr) -> Expr:
        inner = map_children(term, by_reciprocal)
        match inner:
            case Apply(op=op, args=(dividend, divisor)) if op.name == "div":
                pair = known.get(divisor.digest)
                return inner if pair is None else Apply(QUOTIENT, (dividend, *pair))
            case _:
                return inner

    quick = For(lane, (replace(store, value=by_reciprocal(store.value)),), plain.kind)
    body: tuple[Stmt, ...] = (*before, If(suitable, (quick,), (plain,)))
    for buffer in reversed(scalars):
        body = (Allocate(buffer, body),)
    return body


def lane_shares(lane: Axis, store: Store, numbers: Numbers) -> tuple[Stmt, ...]:
    """The loop over `lane` around `store`, whose one division is of a power by its softmax's sum of
    them: a product with the sum's reciprocal if all lanes share it."""
    divisors = _shared_divisors(store.value, lane)
    if len(divisors) != 1 or not isinstance(divisors[0], Load):
        # Sums of 16-bit floats may be infinite.
        return lane_quotients(lane, store, numbers)
    (total,) = divisors
    factor = numbers.buffer("reciprocal", total.dtype, 1, Space.SCALAR)
    rest = numbers.buffer("rest", total.dtype, 1, Space.SCALAR)
    parts = factor.at(_FIRST), rest.at(_FIRST)

    def multiplied(term: Expr) -> Expr:
        inner = map_children(term, multiplied)
        match inner:
            case Apply(op=op, args=(power, divisor)) if op.name == "div" and divisor == total:
                return Apply(RESCALED, (power, *parts))
            case _:
                return inner

    quick = replace(store, value=multiplied(store.value))
    return (
        Allocate(factor, (
            Allocate(rest, (
                Store(factor, _FIRST, apply("div", const(1.0, total.dtype), total)),
                Store(rest, _FIRST, Apply(RECIPROCAL_REST, (total, parts[0]))),
                For(lane, (quick,), LoopKind.SIMD),
            )),
        )),
    )  # fmt: skip


def _shared_divisors(body: Expr, lane: Axis) -> tuple[Expr, ...]:
    """What floats are divided by that is no constant and the same in all lanes; each once."""
    found: dict[bytes, Expr] = {}
    for term in walk(body):
        match term:
            case Apply(op=op, args=(_, divisor)) if op.name == "div" and divisor.dtype.is_float:
                if not isinstance(divisor, Const) and lane not in free_axes(divisor):
                    found[divisor.digest] = divisor
            case _:
                pass
    return tuple(found.values())


def _within(value: Expr, least: float, most: float) -> Expr:
    """Whether a value lies between two others."""

    def literal(bound: float) -> Expr:
        return const(bound, value.dtype)

    return apply("and", apply("le", literal(least), value), apply("le", value, literal(most)))

"""Tensor expressions over a finite field: the same sums and products, of residues modulo a prime.

What it does: turns an expression on floats into one on whole numbers that means its value modulo a
prime, where every float is taken for the rational number that it is. Two sides that are equal for
all real numbers are equal here, whatever the leaves are; two polynomials that differ agree at
random leaves with a probability of at most their degree divided by the prime (Schwartz, Zippel).
Nothing rounds and nothing overflows.

What it does not: have an order, roots or exponentials. An expression that needs one of them has no
meaning here.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tensorgen.expr import (
    Apply,
    Cast,
    Const,
    Expr,
    Fold,
    Load,
    Reduce,
    Select,
    TensorExpr,
    apply,
    cast,
    const,
    walk,
)
from tensorgen.types import Array, TensorType, boolean, int64

PRIME = 1048573
"""Below 2**20, so that a sum of 2**21 products of residues is below 2**63."""


def over_field(expr: TensorExpr) -> TensorExpr | None:
    """The expression on residues, whose float operands are int64 tensors; None if it has none."""
    try:
        return TensorExpr(expr.axes, _Residues().of(expr.body))
    except _NoMeaning:
        return None


def residue(value: float) -> int:
    """A finite float as an element of the field."""
    exact = Fraction(value)
    return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


def residues(values: Array) -> Array:
    """Finite floats as elements of the field, each the rational number that it is."""
    flat = [residue(float(value)) for value in values.reshape(-1)]
    return np.array(flat, np.int64).reshape(values.shape)


class _NoMeaning(Exception):
    """An operation that a field does not have."""


class _Residues:
    """Turns terms into their residues, each distinct term once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Expr] = {}

    def of(self, term: Expr) -> Expr:
        """The residue of a float; whatever else a term is stays as it is."""
        if term.digest not in self._known:
            self._known[term.digest] = self._made(term)
        return self._known[term.digest]

    def _made(self, term: Expr) -> Expr:
        if not term.dtype.is_float:
            _require_no_floats(term)
            return term
        match term:
            case Const(value=value) if math.isfinite(float(value)):
                return const(residue(float(value)), int64)
            case Load(operand=operand, type=type, indices=indices):
                for index in indices:
                    _require_no_floats(index)
                return Load(operand, TensorType(int64, type.shape), indices)
            case Cast(arg=arg, bits=False) if not arg.dtype.is_float and arg.dtype != boolean:
                _require_no_floats(arg)
                return _modulo(cast(arg, int64))
            case Select(condition=condition, then=then, otherwise=otherwise):
                _require_no_floats(condition)
                return Select(condition, self.of(then), self.of(otherwise))
            case Reduce(fold=Fold.SUM, axes=axes, body=Apply(op=op, args=args)) if op.name == "mul":
                # A sum of products is a contraction to the interpreter; reduced once, at its end.
                product = apply("mul", *(self.of(arg) for arg in args))
                return _modulo(Reduce(Fold.SUM, axes, product))
            case Reduce(fold=Fold.SUM, axes=axes, body=body):
                return _modulo(Reduce(Fold.SUM, axes, self.of(body)))
            case Apply(op=op, args=args) if op.name in ("add", "sub", "mul", "neg"):
                return _modulo(apply(op.name, *(self.of(arg) for arg in args)))
            case Apply(op=op, args=(left, right)) if op.name == "div":
                return _modulo(apply("mul", self.of(left), _inverse(self.of(right))))
            case _:
                raise _NoMeaning


def _require_no_floats(term: Expr) -> None:
    if any(part.dtype.is_float for part in walk(term)):
        raise _NoMeaning


def _modulo(term: Expr) -> Expr:
    return apply("mod", term, const(PRIME, int64))


def _inverse(term: Expr) -> Expr:
    """The reciprocal of a residue, by Fermat's little theorem; that of 0 is 0."""
    power, result = term, None
    exponent = PRIME - 2
    while exponent:
        if exponent & 1:
            result = power if result is None else _modulo(apply("mul", result, power))
        power = _modulo(apply("mul", power, power))
        exponent >>= 1
    assert result is not None
    return result

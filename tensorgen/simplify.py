"""Simplification of index terms: affine normal form, ranges, and a table of rules.

Terms of type int64 (indices) are brought to the form `c0 + sum(ci * atom)`, atoms sorted, each sum
in one go with all that are inside it; the rules below then remove divisions, remainders and
comparisons that ranges decide. Every rule is an equation over the integers that holds for all
values in the axes' ranges, never under an assumption. Float terms are left alone: their algebra is
the business of the graph's rules.

Simplification is idempotent, and a term that is already simple is returned as the same object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import gcd
from types import MappingProxyType

from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    TensorExpr,
    apply,
    const,
    free_axes,
    map_children,
)
from tensorgen.types import boolean, int64, integer_range

UNBOUNDED = 2**62

NOTHING: Mapping[Axis, Expr] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant + sum(coefficient * atom)`; no coefficient is zero, no atom is affine itself."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    @property
    def bounds(self) -> tuple[int, int]:
        """Lowest and highest value over the ranges of the atoms; -2**62 and 2**62 where nothing is
        known, which includes values that large."""
        low = high = self.constant
        for atom, factor in self.terms:
            first, last = bounds(atom) if factor > 0 else bounds(atom)[::-1]
            known = abs(first) < UNBOUNDED and low > -UNBOUNDED
            low = low + factor * first if known else -UNBOUNDED
            known = abs(last) < UNBOUNDED and high < UNBOUNDED
            high = high + factor * last if known else UNBOUNDED
        if self.terms:
            return max(low, -UNBOUNDED), min(high, UNBOUNDED)
        return low, high

    def coefficient(self, atom: Expr) -> int:
        """The factor of an atom; 0 if it does not occur."""
        return next((factor for term, factor in self.terms if term == atom), 0)

    def step(self, axis: Axis) -> int | None:
        """How much the term grows from one value of an axis to the next; None if that differs."""
        for atom, _ in self.terms:
            if atom != axis and not isinstance(atom, Axis) and axis in free_axes(atom):
                return None
        return self.coefficient(axis)

    def scaled(self, factor: int) -> Affine:
        return _affine(((atom, c * factor) for atom, c in self.terms), self.constant * factor)

    def plus(self, other: Affine) -> Affine:
        return _affine((*self.terms, *other.terms), self.constant + other.constant)

    @property
    def expr(self) -> Expr:
        """The term in its canonical shape: positive products first, the constant last."""
        positive = [(atom, c) for atom, c in self.terms if c > 0]
        negative = [(atom, -c) for atom, c in self.terms if c < 0]
        result: Expr | None = None
        for atom, factor in positive:
            product = _scaled_term(atom, factor)
            result = product if result is None else apply("add", result, product)
        if result is None:
            result = const(self.constant, int64)
        elif self.constant > 0:
            result = apply("add", result, const(self.constant, int64))
        for atom, factor in negative:
            result = apply("sub", result, _scaled_term(atom, factor))
        if self.constant < 0 and positive:
            result = apply("sub", result, const(-self.constant, int64))
        return result


@dataclass(frozen=True, slots=True)
class Shifted:
    """A simplified int64 term, and those that differ from it by constants.

    `terms` is what they have in common; None if the constant stands in the middle of it.
    """

    form: Affine
    terms: Expr | None

    @staticmethod
    def of(term: Expr) -> Shifted:
        """A term that is simplified, and its neighbours."""
        form = affine(term)
        in_front = bool(form.terms) and all(factor > 0 for _, factor in form.terms)
        return Shifted(form, replace(form, constant=0).expr if in_front else None)

    def by(self, offset: int) -> Expr:
        """The term and a constant, simplified."""
        constant = self.form.constant + offset
        if self.terms is None:
            return replace(self.form, constant=constant).expr
        if constant == 0:
            return self.terms
        operation = "add" if constant > 0 else "sub"
        return apply(operation, self.terms, const(abs(constant), int64))


@dataclass(slots=True)
class Memory:
    """What is known of terms, by their digests: their simple form, affine form and bounds. For
    sizes that are numbers: of others, what is known changes with what is assumed of them."""

    simplified: dict[bytes, Expr] = field(default_factory=dict)
    affine: dict[bytes, Affine] = field(default_factory=dict)
    bounds: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def keep_below(self, most: int) -> None:
        """Forgets everything if there is more of it."""
        if max(len(self.simplified), len(self.affine), len(self.bounds)) > most:
            for known in (self.simplified, self.affine, self.bounds):
                known.clear()


_MEMORY: ContextVar[Memory | None] = ContextVar("memory", default=None)


def _scaled_term(atom: Expr, factor: int) -> Expr:
    return atom if factor == 1 else apply("mul", atom, const(factor, int64))


def _affine(terms: Iterable[tuple[Expr, int]], constant: int) -> Affine:
    total: dict[Expr, int] = {}
    for atom, factor in terms:
        total[atom] = total.get(atom, 0) + factor
    kept = [(atom, factor) for atom, factor in total.items() if factor]
    return Affine(tuple(sorted(kept, key=_term_order)), constant)


def _term_order(term: tuple[Expr, int]) -> tuple[int, int, bytes]:
    """Axes by position before other atoms by digest."""
    atom = term[0]
    if isinstance(atom, Axis):
        return (0, atom.position, atom.digest)
    return (1, 0, atom.digest)


def affine(expr: Expr) -> Affine:
    """The affine form of an int64 term; any other operation becomes one atom."""
    memory = _MEMORY.get()
    if memory is None:
        return _affine_form(expr)
    known = memory.affine.get(expr.digest)
    if known is None:
        known = memory.affine[expr.digest] = _affine_form(expr)
    return known


def _affine_form(expr: Expr) -> Affine:
    total: dict[Expr, int] = {}
    constant = _gather(expr, 1, total, _as_atom)
    return _affine(total.items(), constant)


def _as_atom(expr: Expr) -> Affine:
    """A term that is no sum: a multiple where one factor is a constant in other words."""
    if isinstance(expr, Apply) and expr.op.name == "mul":
        multiple = _multiple(*expr.args)
        if multiple is not None:
            return multiple
    return Affine(((expr, 1),), 0)


def _multiple(left: Expr, right: Expr) -> Affine | None:
    """The form of a product of which one factor is a constant; None of any other."""
    a, b = affine(left), affine(right)
    if not a.terms:
        return b.scaled(a.constant)
    return a.scaled(b.constant) if not b.terms else None


def _gather(
    expr: Expr, factor: int, total: dict[Expr, int], other: Callable[[Expr], Affine]
) -> int:
    """Adds `factor` times an int64 term to a total of atoms; gives what is constant of it. Sums,
    differences and products with a literal are taken apart in one go, whatever their depth; `other`
    tells the form of what remains."""
    if isinstance(expr, Const):
        return factor * int(expr.value)
    if isinstance(expr, Apply):
        args = expr.args
        match expr.op.name:
            case "add":
                first = _gather(args[0], factor, total, other)
                return first + _gather(args[1], factor, total, other)
            case "sub":
                first = _gather(args[0], factor, total, other)
                return first + _gather(args[1], -factor, total, other)
            case "neg":
                return _gather(args[0], -factor, total, other)
            case "mul" if isinstance(args[1], Const):
                return _gather(args[0], factor * int(args[1].value), total, other)
            case "mul" if isinstance(args[0], Const):
                return _gather(args[1], factor * int(args[0].value), total, other)
    form = other(expr)
    for atom, times in form.terms:
        total[atom] = total.get(atom, 0) + factor * times
    return factor * form.constant


def bounds(expr: Expr) -> tuple[int, int]:
    """Lowest and highest value that an int64 term can take; ±2**62 where nothing is known."""
    match expr:
        case Const():
            return int(expr.value), int(expr.value)
        case Axis():
            return 0, max(expr.extent - 1, 0)
        case _:
            pass
    memory = _MEMORY.get()
    if memory is None:
        return _bounds(expr)
    known = memory.bounds.get(expr.digest)
    if known is None:
        known = memory.bounds[expr.digest] = _bounds(expr)
    return known


def _bounds(expr: Expr) -> tuple[int, int]:
    match expr:
        case Apply(op=op, args=(left, right)):
            (a, b), (c, d) = bounds(left), bounds(right)
            if op.name in ("add", "sub", "mul") and max(map(abs, (a, b, c, d))) >= UNBOUNDED:
                return -UNBOUNDED, UNBOUNDED
            match op.name:
                case "add":
                    return a + c, b + d
                case "sub":
                    return a - d, b - c
                case "mul":
                    products = (a * c, a * d, b * c, b * d)
                    return min(products), max(products)
                case "floordiv" if c == d and c > 0:
                    return a // c, b // c
                case "mod" if c == d and c > 0:
                    return (a, b) if a // c == b // c and a >= 0 and b < c else (0, c - 1)
                case "max":
                    return max(a, c), max(b, d)
                case "min":
                    return min(a, c), min(b, d)
        case Select():
            (a, b), (c, d) = bounds(expr.then), bounds(expr.otherwise)
            return min(a, c), max(b, d)
        case Cast(arg=arg, bits=False) if arg.dtype.bits < 64 and not arg.dtype.is_float:
            return _narrow_bounds(arg)
        case _:
            pass
    return -UNBOUNDED, UNBOUNDED


def _narrow_bounds(term: Expr) -> tuple[int, int]:
    """Lowest and highest value of an integer or bool term narrower than int64: those of its type,
    or of a type that it was converted from without loss."""
    own = (0, 1) if term.dtype == boolean else integer_range(term.dtype)
    if isinstance(term, Cast) and not term.bits and not term.arg.dtype.is_float:
        low, high = (
            _narrow_bounds(term.arg) if term.arg.dtype.bits < 64 else integer_range(term.arg.dtype)
        )
        if own[0] <= low and high <= own[1]:
            return low, high
    return own


# The rules. Each receives the operands, already simple, and gives the simpler term or None.


def _divide(left: Expr, right: Expr) -> Expr | None:
    """(x*c*q + r) // c  ->  x*q + r // c;  r // c -> 0 if 0 <= r < c;  (g*a + b) // (g*c) -> a // c
    if 0 <= b < g;  (x // b) // c -> x // (b*c);  (x % (b*c)) // c -> (x // c) % b."""
    if not isinstance(right, Const) or int(right.value) <= 0:
        return None
    divisor = int(right.value)
    whole, rest = _split_multiples(affine(left), divisor)
    if divisor == 1:
        return affine(left).expr
    low, high = rest.bounds
    if low // divisor == high // divisor and abs(low) < UNBOUNDED and abs(high) < UNBOUNDED:
        return whole.plus(Affine((), low // divisor)).expr
    reduced, small = _drop_fraction(rest, divisor)
    if small != divisor:
        return whole.plus(affine(_floor_divide(reduced, small))).expr
    if whole.terms or whole.constant:
        return whole.plus(Affine(((_floor_divide(rest, divisor), 1),), 0)).expr
    match rest.terms, rest.constant:
        case ((Apply(op=op, args=(inner, Const(value=first))), 1),), 0 if op.name == "floordiv":
            return _floor_divide(affine(inner), int(first) * divisor)
        case ((Apply(op=op, args=(inner, Const(value=first))), 1),), 0 if (
            op.name == "mod" and int(first) % divisor == 0
        ):
            quotient = _floor_divide(affine(inner), divisor)
            return simplify(apply("mod", quotient, const(int(first) // divisor, int64)))
    return None


def _remainder(left: Expr, right: Expr) -> Expr | None:
    """(x*c*q + r) % c -> r % c;  r % c -> r if 0 <= r < c;  (g*a + b) % (g*c) -> g*(a % c) + b
    if 0 <= b < g;  (x % b) % c -> x % c if c divides b."""
    if not isinstance(right, Const) or int(right.value) <= 0:
        return None
    divisor = int(right.value)
    if divisor == 1:
        return const(0, int64)
    whole, rest = _split_multiples(affine(left), divisor)
    low, high = rest.bounds
    if low >= 0 and high < divisor:
        return rest.expr
    common = _common_factor(rest, divisor)
    outer, inner = _split_multiples(rest, common)
    first, last = inner.bounds
    if common > 1 and first >= 0 and last < common:
        remainder = apply("mod", outer.expr, const(divisor // common, int64))
        return affine(simplify(remainder)).scaled(common).plus(inner).expr
    match rest.terms, rest.constant:
        case ((Apply(op=op, args=(inner_term, Const(value=first_value))), 1),), 0 if (
            op.name == "mod" and int(first_value) % divisor == 0
        ):
            return simplify(apply("mod", inner_term, right))
    if whole.terms or whole.constant:
        return apply("mod", rest.expr, right)
    return None


def _product(left: Expr, right: Expr) -> Expr | None:
    """c * (sum) -> sum of products, for a constant c."""
    multiple = _multiple(left, right)
    return None if multiple is None else multiple.expr


def _maximum(left: Expr, right: Expr) -> Expr | None:
    """max(x, y) -> x  if x >= y always."""
    low, high = affine(left).plus(affine(right).scaled(-1)).bounds
    return left if low >= 0 else right if high <= 0 else None


def _minimum(left: Expr, right: Expr) -> Expr | None:
    """min(x, y) -> y  if x >= y always."""
    low, high = affine(left).plus(affine(right).scaled(-1)).bounds
    return right if low >= 0 else left if high <= 0 else None


def _less(left: Expr, right: Expr) -> Expr | None:
    """x < y -> true or false, if the ranges decide it."""
    low, high = affine(left).plus(affine(right).scaled(-1)).bounds
    return const(True, boolean) if high < 0 else const(False, boolean) if low >= 0 else None


def _less_equal(left: Expr, right: Expr) -> Expr | None:
    """x <= y -> true or false, if the ranges decide it."""
    low, high = affine(left).plus(affine(right).scaled(-1)).bounds
    return const(True, boolean) if high <= 0 else const(False, boolean) if low > 0 else None


def _equal(left: Expr, right: Expr) -> Expr | None:
    """x == y -> true or false, if the ranges decide it."""
    low, high = affine(left).plus(affine(right).scaled(-1)).bounds
    if low > 0 or high < 0:
        return const(False, boolean)
    return const(True, boolean) if low == high == 0 else None


def _and(left: Expr, right: Expr) -> Expr | None:
    """true && x -> x;  false && x -> false."""
    for known, other in ((left, right), (right, left)):
        if isinstance(known, Const):
            return other if known.value else known
    return left if left == right else None


def _or(left: Expr, right: Expr) -> Expr | None:
    """false || x -> x;  true || x -> true."""
    for known, other in ((left, right), (right, left)):
        if isinstance(known, Const):
            return known if known.value else other
    return left if left == right else None


def _not(inner: Expr) -> Expr | None:
    """!true -> false;  !false -> true;  !!x -> x."""
    if isinstance(inner, Const):
        return const(not inner.value, boolean)
    if isinstance(inner, Apply) and inner.op.name == "not":
        return inner.args[0]
    return None


INDEX_RULES: Mapping[str, Callable[..., Expr | None]] = {
    "mul": _product,
    "floordiv": _divide,
    "mod": _remainder,
    "max": _maximum,
    "min": _minimum,
    "lt": _less,
    "le": _less_equal,
    "eq": _equal,
}
"""Rules for operators on int64 operands, by operator; sums and their kin have an affine form."""

LOGIC_RULES: Mapping[str, Callable[..., Expr | None]] = {"and": _and, "or": _or, "not": _not}
"""Rules for operators on bool operands, by operator."""


_SIMPLE: set[bytes] = set()
"""Digests of terms that no rule here changes. A memory, not a state: what it holds changes nothing
but the time."""

_REMEMBERED = 1 << 20
"""So many are remembered."""


@contextmanager
def remembering(memory: Memory) -> Iterator[None]:
    """In the block, what is known of a term is looked up in the memory, and what is found added:
    the schedules of a task are lowered to many equal indices.

    Digests leave out the names of axes, so that a term may come back with the names of one that was
    seen earlier. What is printed then depends on what was printed before: it is for kernels that
    are timed and forgotten.
    """
    token = _MEMORY.set(memory)
    try:
        yield
    finally:
        _MEMORY.reset(token)


def simplify(expr: Expr, values: Mapping[Axis, Expr] = NOTHING) -> Expr:
    """The term with every index and condition in it simplified, bottom up; of a term in which
    `values` have taken the place of axes."""
    if len(_SIMPLE) > _REMEMBERED:
        _SIMPLE.clear()
    memory = _MEMORY.get()
    simplifier = _Simplifier({} if memory is None else memory.simplified)
    return (_Replacement(values, simplifier, {}) if values else simplifier).visit(expr)


class _Visitor(ABC):
    """What finds the simple form of terms bottom up. An object, since functions that call each
    other from inside another one are a cycle: kernels have thousands of indices, and the collector
    would find them by looking at everything.
    """

    __slots__ = ()

    @abstractmethod
    def visit(self, term: Expr) -> Expr:
        """The simple form of a term; itself if it is that."""

    def _simple(self, term: Expr) -> Expr:
        if _is_sum(term):
            total: dict[Expr, int] = {}
            constant = _gather(term, 1, total, self._form)
            return _recombine(_affine(total.items(), constant))
        return _rewrite(map_children(term, self.visit))

    def _form(self, term: Expr) -> Affine:
        return affine(
            _rewrite(map_children(term, self.visit)) if _is_sum(term) else self.visit(term)
        )


@dataclass(frozen=True, slots=True)
class _Simplifier(_Visitor):
    """Terms as they are, and what has been found so far, by digest."""

    memo: dict[bytes, Expr]

    def visit(self, term: Expr) -> Expr:
        if term.digest in _SIMPLE:
            return term
        known = self.memo.get(term.digest)
        if known is None:
            known = self.memo[term.digest] = self._simple(term)
            if known == term:
                _SIMPLE.add(term.digest)
        return term if known == term else known


@dataclass(frozen=True, slots=True)
class _Replacement(_Visitor):
    """Terms in which others take the place of axes: what there is of those is simplified."""

    values: Mapping[Axis, Expr]
    simplifier: _Simplifier
    memo: dict[bytes, Expr]

    def visit(self, term: Expr) -> Expr:
        if free_axes(term).isdisjoint(self.values):
            return self.simplifier.visit(term)
        known = self.memo.get(term.digest)
        if known is None:
            known = self.memo[term.digest] = (
                self.simplifier.visit(self.values[term])
                if isinstance(term, Axis)
                else self._simple(term)
            )
        return term if known == term else known


_SUMS = frozenset(("add", "sub", "neg", "mul"))


def _is_sum(term: Expr) -> bool:
    """Whether a term is an index that `_gather` takes apart, as far as it can."""
    return isinstance(term, Apply) and term.dtype == int64 and term.op.name in _SUMS


def simplify_tensor(tensor: TensorExpr) -> TensorExpr:
    """A tensor expression with its body simplified; the same object if nothing changed."""
    body = simplify(tensor.body)
    return tensor if body is tensor.body else TensorExpr(tensor.axes, body)


def _rewrite(term: Expr) -> Expr:
    match term:
        case Apply(op=op, args=args):
            kind = args[0].dtype
            table = INDEX_RULES if kind == int64 else LOGIC_RULES if kind == boolean else {}
            rule = table.get(op.name)
            result = rule(*args) if rule is not None else None
            return term if result is None or result == term else result
        case Select(condition=Const(value=value)):
            return term.then if value else term.otherwise
        case Select() if term.then == term.otherwise:
            return term.then
        case Axis(extent=1):
            return const(0, int64)
        case Const() | Axis() | Load() | Cast() | Select() | Reduce():
            return term


def _split_multiples(form: Affine, divisor: int) -> tuple[Affine, Affine]:
    """`form = divisor * first + second`, where `second` keeps the terms not divisible."""
    whole = [(atom, c // divisor) for atom, c in form.terms if c % divisor == 0]
    rest = [(atom, c) for atom, c in form.terms if c % divisor]
    quotient, remainder = divmod(form.constant, divisor)
    return _affine(whole, quotient), _affine(rest, remainder)


def _common_factor(form: Affine, divisor: int) -> int:
    """The largest common factor of the divisor and of some terms such that the others, together,
    stay below it."""
    best = 1
    for _, coefficient in form.terms:
        factor = gcd(coefficient, divisor)
        if factor <= best:
            continue
        _, inner = _split_multiples(form, factor)
        low, high = inner.bounds
        if low >= 0 and high < factor:
            best = factor
    return best


def _drop_fraction(form: Affine, divisor: int) -> tuple[Affine, int]:
    """`form // divisor` as `reduced // small`, by dropping what stays below a common factor."""
    factor = _common_factor(form, divisor)
    if factor == 1:
        return form, divisor
    outer, _ = _split_multiples(form, factor)
    return outer, divisor // factor


def _floor_divide(form: Affine, divisor: int) -> Expr:
    """`form // divisor`, simplified."""
    term = apply("floordiv", form.expr, const(divisor, int64))
    result = _divide(*term.args)
    return term if result is None else result


def _recombine(form: Affine) -> Expr:
    """The term of a sum: k*c*(x // c) + k*(x % c) -> k*x, wherever the pair occurs."""
    for atom, factor in form.terms:
        match atom:
            case Apply(op=op, args=(inner, Const(value=value))) if op.name == "mod":
                divisor = int(value)
                quotient = affine(_floor_divide(affine(inner), divisor))
                if len(quotient.terms) != 1 or quotient.constant or quotient.terms[0][1] != 1:
                    continue
                partner = quotient.terms[0][0]
                if form.coefficient(partner) != factor * divisor:
                    continue
                rest = [(a, c) for a, c in form.terms if a not in (atom, partner)]
                merged = _affine(rest, form.constant).plus(affine(inner).scaled(factor))
                return _recombine(merged)
    return form.expr


def simplify_index(expr: Expr) -> Affine:
    """The affine form of a simplified int64 term."""
    return affine(simplify(expr))

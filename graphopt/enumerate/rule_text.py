"""Candidates in the rule language.

What it does: says an equation as rules of `graphopt.rule`, in each direction in which every name
of the target is bound by the source. The ranks that were enumerated, and that elementwise operands
had equal shapes, become conditions, so that a rule claims what was found and no more. A split
becomes a slice whose start and sizes the rule's other names settle.

What it does not: say everything. The rule language has no constants but scalars, so an equation
with an identity matrix or the like has no rule, nor one for depthwise convolutions alone, nor one
with a split whose place no name of the source settles.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain, combinations
from typing import TypeVar, assert_never

from graphopt.enumerate.sizes import Grouping, Linear, Sizes, Unsolvable, general_sizes
from graphopt.enumerate.trees import Applied, Equation, Fixed, Tree, operator_count, subtrees
from graphopt.enumerate.trees import Variable as EnumeratedVariable
from graphopt.ops import OP
from graphopt.pattern import (
    Application,
    Expression,
    FunctionCall,
    Literal,
    Name,
    Pattern,
    Term,
    Variable,
)
from graphopt.rule import Rule

_NAMES = ("x", "y", "z", "u", "v", "w", "a", "b", "c", "d")
_LABELS = ("p", "q", "r", "e", "f", "h", "i", "j", "k", "l")
_GROUPS = "g"


class _Unsayable(Exception):
    """The rule language has no words for this."""


def rules_of(equation: Equation, grouping: Grouping) -> tuple[Rule, ...]:
    """The rules that an equation gives: to fewer operators, or both ways; none if unsayable.

    With slices it is both ways always: what one way needs as a condition on a slice, the other
    computes.
    """
    if grouping is Grouping.DEPTHWISE:
        return ()
    try:
        sizes = general_sizes(equation, grouping)
    except Unsolvable:
        return ()
    ways = [(equation.left, equation.right)]
    alike = operator_count(equation.left) == operator_count(equation.right)
    if alike or any(_is_slice(tree) for side in ways[0] for tree in subtrees(side)):
        ways.append((equation.right, equation.left))
    rules = []
    for source, target in ways:
        try:
            rules.append(_Writer(sizes, grouping).rule(source, target))
        except _Unsayable:
            continue
    return tuple(rules)


def _is_slice(tree: Tree) -> bool:
    return isinstance(tree, Applied) and tree.instance.op.name == "slice"


def named(rule: Rule) -> Rule:
    """The rule under a name made of its digest."""
    return Rule(f"enumerated-{rule.digest[:12]}", rule.source, rule.target, rule.where)


_ORDERED = frozenset({"max", "max_pool", "reduce_max"})
_CALCULATING = frozenset(
    {"add", "sub", "mul", "div", "neg", "matmul", "conv", "sum_pool", "reduce_sum"}
)


def _needs_reals(tree: Tree) -> bool:
    """Whether a term may mean something else modulo 2**bits: sums wrap and change their order."""
    names = {part.instance.op.name for part in subtrees(tree) if isinstance(part, Applied)}
    return "div" in names or bool(names & _ORDERED and names & _CALCULATING)


def _call(function: str, *args: Expression) -> FunctionCall:
    return FunctionCall(function, args)


@dataclass(slots=True)
class _Writer:
    """One direction of an equation: names bound by the source so far, and conditions."""

    sizes: dict[Tree, Sizes]
    grouping: Grouping
    bound: dict[Tree, str] = field(default_factory=dict)
    params: set[str] = field(default_factory=set)
    slices: list[tuple[Sizes, Linear, int, Expression, Expression]] = field(default_factory=list)
    shapes: list[tuple[Sizes, Expression]] = field(default_factory=list)
    conditions: list[FunctionCall] = field(default_factory=list)
    in_source: bool = True
    has_slice: bool = False

    def rule(self, source: Tree, target: Tree) -> Rule:
        if not isinstance(source, Applied):
            raise _Unsayable
        for tree in subtrees(source):
            if isinstance(tree, EnumeratedVariable) and tree not in self.bound:
                self.bound[tree] = _NAMES[len(self.bound)]
            self.has_slice |= _is_slice(tree)
        left = self.term(source)
        self.in_source = False
        right = self.term(target)
        conditions = self.ranks()
        if _needs_reals(source) or _needs_reals(target):
            conditions.append(_call("floating", Name(next(iter(self.bound.values())))))
        where = tuple(dict.fromkeys([*conditions, *self.conditions]))
        return named(Rule("", Pattern((left,)), Pattern((right,)), where))

    def ranks(self) -> list[FunctionCall]:
        """Conditions that say the ranks of all variables."""
        ranks: dict[int, list[str]] = {}
        for tree, name in self.bound.items():
            if isinstance(tree, EnumeratedVariable):
                ranks.setdefault(tree.rank, []).append(name)
        return [
            _call("rank", Literal(rank), *map(Name, names)) for rank, names in sorted(ranks.items())
        ]

    def term(self, tree: Tree) -> Term:
        match tree:
            case EnumeratedVariable():
                if tree not in self.bound:
                    raise _Unsayable
                return Variable(self.bound[tree])
            case Fixed():
                raise _Unsayable
            case Applied():
                return self.application(tree)
            case _:
                assert_never(tree)

    def application(self, tree: Applied) -> Application:
        op = tree.instance.op
        args: tuple[Term, ...]
        if op.name in ("add", "sub", "mul", "div"):
            args = tuple(self.operand(operand) for operand in tree.operands)
            if all(isinstance(arg, Literal) for arg in args):
                raise _Unsayable
            args = self.same_shape(tree, args)
        else:
            args = tuple(self.term(operand) for operand in tree.operands)
        if op.name == "concat" and self.has_slice:
            args = self.labelled(tree, args)
        args = (*args, *(Literal(value) for value in tree.instance.literals))
        if op.name == "slice":
            return self.slice(tree, args)
        params = []
        for name in op.params:
            value: Expression = Literal(dict(tree.params)[name])
            if name == "groups":
                value = self.groups(tree)
            if op.name == "reshape":
                value = self.reshaped(self.sizes[tree])
            params.append((name, value))
        return Application(op, args, tuple(params))

    def operand(self, tree: Tree) -> Term:
        """An operand of an elementwise operator: there a constant of ones is the literal 1."""
        if isinstance(tree, Fixed) and tree.constant.name == "ones":
            return Literal(1)
        return self.term(tree)

    def same_shape(self, tree: Applied, args: tuple[Term, ...]) -> tuple[Term, ...]:
        """Ask for operands of one shape, with labels where the source needs names for that."""
        ranks = {len(self.sizes[operand]) for operand in tree.operands}
        if any(isinstance(arg, Literal) for arg in args) or len(ranks) > 1:
            return args
        labelled = self.labelled(tree, args)
        names = [Name(self.bound[operand]) for operand in tree.operands if operand in self.bound]
        if len(set(names)) == 2:
            self.conditions.append(_call("same_shape", *names))
        return labelled

    def labelled(self, tree: Applied, args: tuple[Term, ...]) -> tuple[Term, ...]:
        """The operands, each application in the source with a name of its own."""
        if not self.in_source:
            return args
        result: list[Term] = []
        for operand, arg in zip(tree.operands, args, strict=True):
            if isinstance(arg, Application) and operand not in self.bound:
                taken = sum(not isinstance(key, EnumeratedVariable) for key in self.bound)
                self.bound[operand] = _LABELS[taken]
                arg = Application(arg.op, arg.args, arg.params, arg.rest, _LABELS[taken])
            result.append(arg)
        return tuple(result)

    def groups(self, tree: Applied) -> Expression:
        plain = dict(tree.params)["groups"] == 1
        if self.grouping is Grouping.AS_FOUND and plain:
            return Literal(1)
        return self.parameter(_GROUPS)

    def parameter(self, name: str) -> Name:
        if self.in_source:
            self.params.add(name)
        elif name not in self.params:
            raise _Unsayable
        return Name(name)

    def slice(self, tree: Applied, args: tuple[Term, ...]) -> Application:
        """A part of an axis: in the source under names that conditions settle, in the target
        computed from names of the source."""
        axis, part = tree.instance.axis, tree.instance.part
        own = self.sizes[tree]
        rank = len(own)
        operand = self.sizes[tree.operands[0]]
        cut = own[axis] if part == 0 else operand[axis].plus(own[axis], -1)
        zeros: Expression = Literal((0,) * rank)
        if self.in_source:
            starts = zeros
            if part == 1:
                starts = self.parameter(f"s{len(self.slices)}")
                try:
                    place = self.offset(cut, axis, rank)
                except _Unsayable:  # anywhere along the axis
                    place = _call("offset_on", starts, Literal(axis))
                self.conditions.append(_call("equal", starts, place))
            sizes: Expression = self.parameter(f"n{len(self.slices)}")
            self.slices.append((own, cut, axis, starts, sizes))
            self.keep_other_axes(tree, sizes)
        else:
            starts = zeros if part == 0 else self.offset(cut, axis, rank)
            sizes = self.shape(own)
        params = (("starts", starts), ("steps", Literal((1,) * rank)), ("sizes", sizes))
        return Application(OP["slice"], args, params)

    def keep_other_axes(self, tree: Applied, sizes: Expression) -> None:
        """Ask that a part of one axis of a variable is all of the others."""
        operand, axis = tree.operands[0], tree.instance.axis
        others = [n for n in range(len(self.sizes[operand])) if n != axis]
        if operand not in self.bound or not others:
            return
        whole = _call("shape_of", Name(self.bound[operand]))
        parts = [_call("offset_on", sizes, Literal(axis))]
        parts += [_call("offset_on", whole, Literal(n)) for n in others]
        kept = reduce(lambda left, right: _call("plus", left, right), parts)
        self.conditions.append(_call("equal", sizes, kept))

    def reshaped(self, own: Sizes) -> Expression:
        """The sizes of a reshape: any in the source, those of something bound in the target."""
        if not self.in_source:
            return self.shape(own)
        shape = self.parameter(f"t{len(self.shapes)}")
        self.shapes.append((own, shape))
        return shape

    def offset(self, cut: Linear, axis: int, rank: int) -> Expression:
        """Starts that skip `cut` elements of an axis."""
        for tree, name in self.bound.items():
            own = self.sizes[tree]
            if len(own) == rank and own[axis] == cut:
                return _call("offset_on", _call("shape_of", Name(name)), Literal(axis))
        for own, known, where, starts, _ in self.slices:
            if known == cut and where == axis and len(own) == rank and isinstance(starts, Name):
                return starts
        for own, _, _, _, sizes in self.slices:
            if len(own) == rank and own[axis] == cut:
                return _call("offset_on", sizes, Literal(axis))
        raise _Unsayable

    def shape(self, wanted: Sizes) -> Expression:
        """Sizes, as those of something bound."""
        for tree, name in self.bound.items():
            if self.sizes[tree] == wanted:
                return _call("shape_of", Name(name))
        named = [(own, sizes) for own, _, _, _, sizes in self.slices] + self.shapes
        for own, sizes in named:
            if own == wanted:
                return sizes
        named += [(self.sizes[tree], _call("shape_of", Name(n))) for tree, n in self.bound.items()]
        return self.assembled(wanted, named)

    def assembled(self, wanted: Sizes, known: list[tuple[Sizes, Expression]]) -> Expression:
        """Sizes of which each axis is that of something known, or the sum of two such."""
        known = [(own, sizes) for own, sizes in known if len(own) == len(wanted)]
        parts: list[Expression] = []
        for axis, size in enumerate(wanted):
            single = ((sizes,) for own, sizes in known if own[axis] == size)
            double = (
                (first, second)
                for (one, first), (other, second) in combinations(known, 2)
                if one[axis].plus(other[axis]) == size
            )
            found = next(chain(single, double), None)
            if found is None:
                raise _Unsayable
            parts += [_call("offset_on", sizes, Literal(axis)) for sizes in found]
        return reduce(lambda left, right: _call("plus", left, right), parts)


def merge_rule(pair: Equation, axis: int, grouping: Grouping) -> Rule | None:
    """Two results as slices of one: from concat(s, t, axis=axis) = m, the rule s, t => parts of m.

    `pair.left` is that concat. The parameters of windows are captured, since sizes of results are
    computed from them. None if it cannot be said.
    """
    if grouping is Grouping.DEPTHWISE:
        return None
    joined, merged = pair.left, pair.right
    assert isinstance(joined, Applied)
    assert joined.instance.op.name == "concat"
    try:
        writer = _Writer(general_sizes(pair, grouping), grouping)
        for tree in subtrees(joined):
            if isinstance(tree, EnumeratedVariable) and tree not in writer.bound:
                writer.bound[tree] = _NAMES[len(writer.bound)]
        first, second = (_captured(writer.application(side)) for side in _operators(joined))
        writer.in_source = False
        whole = _captured(writer.term(merged))
    except (Unsolvable, _Unsayable):
        return None
    rank = len(writer.sizes[joined])
    start = _call("offset_on", _result_shape(first), Literal(axis))
    targets = tuple(
        Application(
            OP["slice"],
            (whole,),
            (("starts", starts), ("steps", Literal((1,) * rank)), ("sizes", _result_shape(term))),
        )
        for term, starts in ((first, Literal((0,) * rank)), (second, start))
    )
    where = tuple(dict.fromkeys([*writer.ranks(), *writer.conditions]))
    return named(Rule("", Pattern((first, second)), Pattern(targets), where))


def _operators(joined: Applied) -> tuple[Applied, ...]:
    """The operands of a concatenation, which have operators of their own."""
    if not all(isinstance(operand, Applied) for operand in joined.operands):
        raise _Unsayable
    return tuple(operand for operand in joined.operands if isinstance(operand, Applied))


_Parsed = TypeVar("_Parsed", bound=Term)


def _captured(term: _Parsed) -> _Parsed:
    """The term with the parameters of its windows captured, but for a literal number of groups."""
    if not isinstance(term, Application) or term.op.name not in ("conv", "sum_pool", "max_pool"):
        return term
    literal = tuple(
        (name, value)
        for name, value in term.params
        if name == "groups" and isinstance(value, Literal)
    )
    return replace(term, params=literal, rest="o")


def _result_shape(term: Application) -> Expression:
    """The sizes of an operator's result, computed from its operands."""
    names = [Name(arg.name) for arg in term.args if isinstance(arg, Variable)]
    params = dict(term.params)
    match term.op.name:
        case "matmul":
            return _call("matmul_shape", *names)
        case "conv":
            return _call("conv_shape", *names, Name("o"))
        case "sum_pool" | "max_pool":
            return _call("pool_shape", *names, Name("o"))
        case "transpose":
            return _call("reordered", _call("shape_of", *names), params["perm"])
        case "pad":
            before = _call("plus", _call("shape_of", *names), params["before"])
            return _call("plus", before, params["after"])
        case "reduce_sum" | "reduce_max":
            return _call("reduced_shape", *names, params["axes"], params["keepdims"])
        case "reshape":
            raise _Unsayable
        case _:
            return _call("shape_of", names[0])

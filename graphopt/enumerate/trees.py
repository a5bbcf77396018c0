"""Terms as trees, equations between them, and the form in which equal equations are equal.

What it does: an equation's variables are numbered in the order in which they occur, so that
renaming them changes nothing; a subterm that both sides share can be *cut*, that is, replaced by a
variable, which gives the more general equation that it is an instance of, if that one holds.

What it does not: test equations (`retest`), say them in the rule language (`rule_text`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import assert_never

from graphopt.enumerate.nodes import LEAF
from graphopt.enumerate.population import Population
from graphopt.enumerate.vocabulary import Instance, NamedConstant
from graphopt.graph import Params
from tensorgen.types import Shape


@dataclass(frozen=True, slots=True)
class Variable:
    """Any tensor of a rank."""

    number: int
    rank: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """A named constant."""

    constant: NamedConstant


@dataclass(frozen=True, slots=True)
class Applied:
    """An instance applied, with the parameters that it had where the term was found."""

    instance: Instance
    params: Params
    operands: tuple[Tree, ...]


Tree = Variable | Fixed | Applied


@dataclass(frozen=True, slots=True)
class Equation:
    """Two terms with equal values; the first has at least as many operators."""

    left: Tree
    right: Tree

    def __str__(self) -> str:
        return f"{tree_text(self.left)} = {tree_text(self.right)}"


Root = tuple[int, int, int]
"""Instance and operands (identifiers) of a term; see `levels.Nodes`."""


def operator_count(tree: Tree) -> int:
    """Operators of a tree, constants included."""
    match tree:
        case Variable():
            return 0
        case Fixed():
            return 1
        case Applied():
            return 1 + sum(map(operator_count, tree.operands))
        case _:
            assert_never(tree)


def subtrees(tree: Tree) -> Iterator[Tree]:
    """Every subtree, operands before the tree itself."""
    if isinstance(tree, Applied):
        for operand in tree.operands:
            yield from subtrees(operand)
    yield tree


def variables(tree: Tree) -> tuple[Variable, ...]:
    """The variables of a tree in the order in which they occur, each once."""
    found = (part for part in subtrees(tree) if isinstance(part, Variable))
    return tuple(dict.fromkeys(found))


def tree_text(tree: Tree) -> str:
    """A tree in the enumeration's own words, which tell all instances apart."""
    match tree:
        case Variable():
            return f"v{tree.number}r{tree.rank}"
        case Fixed():
            return tree.constant.name
        case Applied():
            inside = ", ".join(map(tree_text, tree.operands))
            return f"{tree.instance.name}{_distinction(tree)}({inside})"
        case _:
            assert_never(tree)


def _distinction(tree: Applied) -> str:
    """What the instance's name leaves open: grouped convolutions, the margins of a pad."""
    for name, value in tree.params:
        if name == "groups" and value != 1:
            return "g"
        if name == "before":
            return f"{list(value)}" if isinstance(value, tuple) else ""
    return ""


# Canonical form


def canonical(left: Tree, right: Tree) -> Equation:
    """The equation of two terms, the same however variables are numbered and operands ordered.

    The side with more operators comes first; among equals, whatever reads first.
    """
    sizes = operator_count(left), operator_count(right)
    if sizes[0] < sizes[1]:
        left, right = right, left
    orders = [(left, right)] if sizes[0] != sizes[1] else [(left, right), (right, left)]
    forms = (numbered(*sides) for pair in orders for sides in product(*map(_reorderings, pair)))
    return min(forms, key=str)


def skeleton(tree: Tree) -> str:
    """A term without the names of its variables: equal for terms that differ in them alone."""
    match tree:
        case Variable():
            return f"r{tree.rank}"
        case Fixed():
            return tree.constant.name
        case Applied():
            inside = ",".join(map(skeleton, tree.operands))
            return f"{tree.instance.name}{_distinction(tree)}({inside})"
        case _:
            assert_never(tree)


def _reorderings(tree: Tree) -> tuple[Tree, ...]:
    """The term with operands of commutative operators in order of their skeletons, all ways."""
    if not isinstance(tree, Applied):
        return (tree,)
    found: list[Tree] = []
    for operands in product(*map(_reorderings, tree.operands)):
        orders = [operands]
        if tree.instance.commutative:
            texts = [skeleton(operand) for operand in operands]
            if texts[0] > texts[1]:
                orders = [operands[::-1]]
            elif texts[0] == texts[1] and operands[0] != operands[1]:
                orders.append(operands[::-1])
        found += [Applied(tree.instance, tree.params, order) for order in orders]
    return tuple(found)


def numbered(left: Tree, right: Tree) -> Equation:
    """The equation with variables numbered in the order in which they occur."""
    names: dict[int, int] = {}

    def renamed(tree: Tree) -> Tree:
        match tree:
            case Variable():
                return Variable(names.setdefault(tree.number, len(names)), tree.rank)
            case Fixed():
                return tree
            case Applied():
                return Applied(tree.instance, tree.params, tuple(map(renamed, tree.operands)))
            case _:
                assert_never(tree)

    return Equation(renamed(left), renamed(right))


def is_instance(special: Equation, general: Equation) -> bool:
    """Whether renaming the variables of one equation, some of them alike, gives the other.

    Both are canonical; the order of operands and of sides is left open.
    """
    wanted = [variables_in_order(side) for side in (special.left, special.right)]
    pairs = [(general.left, general.right)]
    if operator_count(general.left) == operator_count(general.right):
        pairs.append((general.right, general.left))
    shape = skeleton(special.left), skeleton(special.right)
    for pair in pairs:
        if (skeleton(pair[0]), skeleton(pair[1])) != shape:
            continue
        for sides in product(*map(_reorderings, pair)):
            found = [variables_in_order(side) for side in sides]
            if _is_function([*found[0], *found[1]], [*wanted[0], *wanted[1]]):
                return True
    return False


def variables_in_order(tree: Tree) -> list[int]:
    """The number of the variable at each place."""
    return [part.number for part in subtrees(tree) if isinstance(part, Variable)]


def _is_function(arguments: list[int], values: list[int]) -> bool:
    known: dict[int, int] = {}
    return all(known.setdefault(a, b) == b for a, b in zip(arguments, values, strict=True))


class Forest:
    """The trees of representatives and roots of one population."""

    def __init__(self, population: Population) -> None:
        self.population = population
        self._params: dict[tuple[int, tuple[Shape, ...]], Params] = {}
        self._subterms: dict[int, frozenset[int]] = {}
        self._trees: dict[int, Tree] = {}
        self._roots: dict[int, Root] = {}
        self._words: dict[tuple[int, tuple[Shape, ...]], int] = {}
        self._texts: dict[str, int] = {}
        self._inputs = len(population.vocabulary.inputs)

    def subterms(self, identifier: int) -> frozenset[int]:
        """A representative and its subterms, without inputs and constants."""
        known = self._subterms.get(identifier)
        if known is None:
            root = self.root(identifier)
            known = frozenset() if root[0] == LEAF else self.proper(root) | {identifier}
            self._subterms[identifier] = known
        return known

    def proper(self, root: Root) -> frozenset[int]:
        """The subterms below a root, without inputs and constants."""
        if root[0] == LEAF:
            return frozenset()
        right = self.subterms(root[2]) if root[2] >= 0 else frozenset()
        return self.subterms(root[1]) | right

    def root(self, identifier: int) -> Root:
        """The root of a representative."""
        known = self._roots.get(identifier)
        if known is None:
            nodes = self.population.nodes
            known = (
                int(nodes.instance[identifier]),
                int(nodes.left[identifier]),
                int(nodes.right[identifier]),
            )
            self._roots[identifier] = known
        return known

    def equation(self, first: Root, second: Root, known: int, cut: frozenset[int]) -> Equation:
        """The equation of two roots in canonical form, with some subterms cut.

        `known` is the identifier of the second root, or -1.
        """
        left, right = self._tree(first, -1, cut), self._tree(second, known, cut)
        return canonical(left, right)

    def signature(
        self, first: Root, second: Root, known: int, cut: frozenset[int]
    ) -> tuple[int, ...]:
        """The equation as written, names of variables aside: equal for equal canonical forms.

        The reverse does not hold. It is what a collision can be recognized by quickly.
        """
        words: list[int] = []
        names: dict[int, int] = {}
        self._write(first, -1, cut, names, words)
        self._write(second, known, cut, names, words)
        return tuple(words)

    def _write(
        self, root: Root, identifier: int, cut: frozenset[int], names: dict[int, int],
        words: list[int],
    ) -> None:  # fmt: skip
        """Append the words of a term: operators from 0 on in prefix order, variables below 0."""
        instance, left, right = root
        if identifier in cut or (instance == LEAF and left < self._inputs):
            rank = len(self.population.places[identifier][0])
            words.append(-1 - rank - 8 * names.setdefault(identifier, len(names)))
            return
        words.append(self._word(instance, left, right))
        if instance == LEAF:
            return
        self._write(self.root(left), left, cut, names, words)
        if right >= 0:
            self._write(self.root(right), right, cut, names, words)

    def _word(self, instance: int, left: int, right: int) -> int:
        """A number for an operator with what its text tells apart."""
        places = self.population.places
        if instance == LEAF:
            return left - self._inputs
        shapes = (places[left][0],) if right < 0 else (places[left][0], places[right][0])
        key = instance, shapes
        if key not in self._words:
            operator = Applied(
                self.population.vocabulary.instances[instance], self._parameters(*key), ()
            )
            text = tree_text(operator)
            constants = len(self.population.vocabulary.constants)
            self._words[key] = constants + self._texts.setdefault(text, len(self._texts))
        return self._words[key]

    def _tree(self, root: Root, identifier: int, cut: frozenset[int]) -> Tree:
        """A term whose variables are numbered by identifier."""
        vocabulary = self.population.vocabulary
        if identifier in cut or (root[0] == LEAF and root[1] < len(vocabulary.inputs)):
            return Variable(identifier, len(self.population.places[identifier][0]))
        if root[0] == LEAF:
            return Fixed(vocabulary.constants[root[1] - len(vocabulary.inputs)])
        operands = [n for n in root[1:] if n >= 0]
        trees = tuple(self._subtree(n, cut) for n in operands)
        shapes = tuple(self.population.places[n][0] for n in operands)
        return Applied(vocabulary.instances[root[0]], self._parameters(root[0], shapes), trees)

    def _subtree(self, identifier: int, cut: frozenset[int]) -> Tree:
        """The term of a representative; kept if nothing in it is cut."""
        if not cut.isdisjoint(self.subterms(identifier)):
            return self._tree(self.root(identifier), identifier, cut)
        known = self._trees.get(identifier)
        if known is None:
            known = self._tree(self.root(identifier), identifier, frozenset())
            self._trees[identifier] = known
        return known

    def _parameters(self, number: int, shapes: tuple[Shape, ...]) -> Params:
        key = number, shapes
        if key not in self._params:
            vocabulary = self.population.vocabulary
            params = vocabulary.parameters(vocabulary.instances[number], *shapes)
            assert params is not None
            self._params[key] = tuple(sorted(params.items()))
        return self._params[key]

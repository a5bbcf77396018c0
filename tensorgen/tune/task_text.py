"""Tasks as text and back: what is sent to another machine that measures.

What it does: writes a task as JSON, each distinct term once, and reads it back; what it does not
know, it refuses. The text carries the task's digest, so that a reader to whom a term means
something else, one of another version, notices. What it does not: write schedules
(`schedule_text`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from tensorgen.expr import (
    Apply,
    Axis,
    Cast,
    Const,
    Expr,
    Fold,
    Load,
    Reduce,
    Select,
    TensorExpr,
    walk,
)
from tensorgen.scalar_ops import SCALAR_OP
from tensorgen.sizes import Size
from tensorgen.task import Task
from tensorgen.tune.fields import (
    Document,
    FieldError,
    known_only,
    one_line,
    text_in,
    unexpected,
    whole,
)
from tensorgen.types import DTYPES, DType, ShapeError, TensorType, dtype_named, integer_range

_NAMES = ("constant", "digest", "given", "inputs", "outputs", "stages", "terms")
_DTYPE_NAMES = frozenset(dtype.name for dtype in DTYPES)
_FOLDS = {fold.value: fold for fold in Fold}


def task_document(task: Task) -> Document:
    """A task as a JSON object.

    `terms` are lists that begin with what a term is; other terms in them are given by their
    position, which is that of an earlier one.
    """
    numbers: dict[Expr, int] = {}
    terms: list[list[object]] = []

    def add(term: Expr) -> None:
        if term not in numbers:
            numbers[term] = len(terms)
            terms.append(_written(term, numbers))

    stages = []
    for stage in task.stages:
        for term in walk(stage.body):
            for axis in term.axes if isinstance(term, Reduce) else ():
                add(axis)
            add(term)
        for axis in stage.axes:
            add(axis)
        stages.append([[numbers[axis] for axis in stage.axes], numbers[stage.body]])
    return {
        "digest": task.digest.hex(),
        "inputs": [[type.dtype.name, *type.shape] for type in task.inputs],
        "constant": list(task.constant),
        "given": sorted(task.given),
        "outputs": list(task.outputs),
        "terms": terms,
        "stages": stages,
    }


def _written(term: Expr, numbers: dict[Expr, int]) -> list[object]:
    match term:
        case Const(value, dtype):
            assert not isinstance(value, Size), "a task has static shapes"
            # JSON has no infinities, and a decimal might be rounded.
            return ["const", dtype.name, value.hex() if isinstance(value, float) else int(value)]
        case Axis(position, extent, name):
            return ["axis", position, extent, name]
        case Load(operand, type, indices):
            shape = [type.dtype.name, *type.shape]
            return ["load", operand, shape, [numbers[index] for index in indices]]
        case Apply(op, args):
            return ["apply", op.name, [numbers[arg] for arg in args]]
        case Cast(arg, dtype, bits):
            return ["cast", numbers[arg], dtype.name, bits]
        case Select(condition, then, otherwise):
            return ["select", numbers[condition], numbers[then], numbers[otherwise]]
        case Reduce(fold, axes, body):
            return ["reduce", fold.value, [numbers[axis] for axis in axes], numbers[body]]
        case _:
            assert_never(term)


def task_of(document: Document) -> Task:
    """The task that `task_document` wrote. Raises FieldError."""
    known_only(document, _NAMES, "task")
    inputs = tuple(_type(item, "inputs") for item in _list(document.get("inputs"), "inputs"))
    constant = tuple(
        _truth(item, "constant") for item in _list(document.get("constant"), "constant")
    )
    terms: list[Expr] = []
    try:
        for item in _list(document.get("terms"), "terms"):
            terms.append(_term(item, terms, f"terms[{len(terms)}]"))
        stages = tuple(_stage(item, terms) for item in _list(document.get("stages"), "stages"))
        places = _list(document.get("outputs"), "outputs")
        outputs = tuple(_place(place, stages, "outputs") for place in places)
        given = frozenset(
            _place(place, inputs, "given") for place in _list(document.get("given", []), "given")
        )
        task = Task(inputs, stages, outputs, constant, given)
    except (AssertionError, IndexError, ShapeError) as error:
        # What terms ask of their parts.
        raise FieldError(f"task: expected terms that fit together, got {one_line(error)}") from None
    if text_in(document, "digest") != task.digest.hex():
        raise unexpected("digest", f"{task.digest.hex()}, that of this task", document["digest"])
    return task


def _stage(item: object, terms: Sequence[Expr]) -> TensorExpr:
    axes, body = _parts(item, "stages", 2)
    return TensorExpr(_axes(axes, terms, "stages"), _earlier(body, terms, "stages"))


def _term(item: object, terms: Sequence[Expr], place: str) -> Expr:
    parts = _list(item, place)
    match parts:
        case ["const", dtype, value]:
            return _const(_dtype(dtype, place), value, place)
        case ["axis", position, extent, str(name)] if name.isidentifier() and name.isascii():
            return Axis(whole(position, place), whole(extent, place), name)
        case ["load", operand, shape, indices]:
            found = tuple(_earlier(index, terms, place) for index in _list(indices, place))
            return Load(whole(operand, place), _type(shape, place), found)
        case ["apply", str(name), args] if name in SCALAR_OP:
            found = tuple(_earlier(arg, terms, place) for arg in _list(args, place))
            return Apply(SCALAR_OP[name], found)
        case ["cast", arg, dtype, bits]:
            kind = _dtype(dtype, place)
            return Cast(_earlier(arg, terms, place), kind, _truth(bits, place))
        case ["select", *branches] if len(branches) == 3:
            condition, then, otherwise = (_earlier(branch, terms, place) for branch in branches)
            return Select(condition, then, otherwise)
        case ["reduce", str(fold), axes, body] if fold in _FOLDS:
            return Reduce(_FOLDS[fold], _axes(axes, terms, place), _earlier(body, terms, place))
        case _:
            raise unexpected(place, "a term of a kind that is known here", item)


def _const(dtype: DType, value: object, place: str) -> Const:
    if dtype.is_float:
        if isinstance(value, str):
            try:
                return Const(float.fromhex(value), dtype)
            except (ValueError, OverflowError):
                pass
        raise unexpected(place, "a number in hexadecimal", value)
    least, most = integer_range(dtype) if dtype.is_integer else (0, 1)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise unexpected(place, f"a whole number from {least} to {most}", value)
    return Const(value if dtype.is_integer else bool(value), dtype)


def _earlier(item: object, terms: Sequence[Expr], place: str) -> Expr:
    return terms[_place(item, terms, place)]


def _place(item: object, among: Sequence[object], place: str) -> int:
    number = whole(item, place)
    if number >= len(among):
        raise unexpected(place, f"a position below {len(among)}", item)
    return number


def _axes(item: object, terms: Sequence[Expr], place: str) -> tuple[Axis, ...]:
    found = tuple(_earlier(part, terms, place) for part in _list(item, place))
    axes = tuple(axis for axis in found if isinstance(axis, Axis))
    if len(axes) != len(found):
        raise unexpected(place, "axes", item)
    return axes


def _type(item: object, place: str) -> TensorType:
    match item:
        case [dtype, *sizes]:
            shape = tuple(whole(size, place) for size in sizes)
            try:
                return TensorType(_dtype(dtype, place), shape)
            except ShapeError as error:
                raise FieldError(f"{place}: {one_line(error)}") from None
        case _:
            raise unexpected(place, "an element type and sizes", item)


def _dtype(name: object, place: str) -> DType:
    if not isinstance(name, str) or name not in _DTYPE_NAMES:
        raise unexpected(place, "an element type", name)
    return dtype_named(name)


def _truth(item: object, place: str) -> bool:
    if not isinstance(item, bool):
        raise unexpected(place, "true or false", item)
    return item


def _list(item: object, place: str) -> list[object]:
    if not isinstance(item, list):
        raise unexpected(place, "a list", item)
    return item


def _parts(item: object, place: str, count: int) -> list[object]:
    parts = _list(item, place)
    if len(parts) != count:
        raise unexpected(place, f"{count} parts", item)
    return parts

"""Every operator, four ways: numpy reference, tensor expression, loops, compiled C."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from graphopt.graph import Input, Param
from graphopt.ops import OPS, OpSpec, expression_of
from tensorgen.contraction import contraction_of
from tensorgen.dialects import vector_dialect
from tensorgen.schedule import Lanes, Loops, Schedule
from tensorgen.simplify import simplify_tensor
from tensorgen.sketch import default_schedule, loop_schedule
from tensorgen.target import Target, host_target
from tensorgen.task import Task
from tensorgen.types import (
    DTYPES,
    Array,
    DType,
    Kind,
    ShapeError,
    TensorType,
    boolean,
)
from tests.compiled_kernels import Case, CompiledKernels, assert_same

INDEXED = ("indexing", "scatter")
DIVISIONS = ("div", "floordiv", "mod", "fmod")
SHIFTS = ("shl", "shr")
ULPS = 64.0

SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-40, 3e38)


@dataclass(frozen=True, slots=True)
class Application:
    """An operator on operands of those types, with inputs for it."""

    op: OpSpec
    types: tuple[TensorType, ...]
    params: tuple[tuple[str, Param], ...]
    thorough: bool = False
    """Whether to try it under every kind of schedule."""

    @property
    def label(self) -> str:
        return f"{self.op.name}({', '.join(map(str, self.types))}) {dict(self.params)}"

    @property
    def task(self) -> Task:
        node = self.op(*(Input(n, t) for n, t in enumerate(self.types)), **dict(self.params))
        return Task(
            self.types, (simplify_tensor(expression_of(node)),), (0,), (False,) * len(self.types)
        )

    def inputs(self) -> list[Array]:
        seed = zlib.crc32(self.label.encode())
        rng = np.random.default_rng(seed)
        special = self.op.family == "elementwise"
        arrays = [numbers(type, rng, special) for type in self.types]
        if self.op.family in INDEXED:
            position = 0 if self.op.name == "one_hot" else 1
            arrays[position] = self._indices(position, rng)
        if self.op.name in DIVISIONS and not self.types[1].dtype.is_float:
            arrays[1] = np.where(arrays[1] == 0, np.ones_like(arrays[1]), arrays[1])
        if self.op.name in SHIFTS:
            counts = rng.integers(0, self.types[1].dtype.bits + 3, self.types[1].shape)
            arrays[1] = np.asarray(counts).astype(self.types[1].dtype.numpy)
        return arrays

    def _indices(self, position: int, rng: np.random.Generator) -> Array:
        type = self.types[position]
        if self.op.name == "one_hot":
            bound = int(str(dict(self.params)["depth"])) + 2
        else:
            bound = min(self.types[0].shape)
        return rng.integers(-bound, max(bound, 1), type.shape).astype(type.dtype.numpy)


def numbers(type: TensorType, rng: np.random.Generator, special: bool) -> Array:
    """Operand values: with `special` all that the type has, else small whole numbers, of which
    sums and products are exact."""
    dtype = type.dtype
    if dtype == boolean:
        return rng.integers(0, 2, type.shape).astype(np.bool_)
    if not special:
        low = 0 if dtype.kind is Kind.UNSIGNED else -2
        return rng.integers(low, 3, type.shape).astype(dtype.numpy)
    if dtype.is_float:
        values = rng.standard_normal(type.shape) * 3
        chosen = rng.choice(np.array(SPECIAL), type.shape)
        mixed = np.where(rng.random(type.shape) < 0.4, chosen, values)
        with np.errstate(all="ignore"):
            return np.asarray(mixed).astype(dtype.numpy)
    limits = np.iinfo(dtype.name)
    whole = rng.integers(limits.min, limits.max, type.shape, dtype.numpy, endpoint=True)
    edges = np.array([limits.min, limits.max, 0, 1, limits.max - 1], dtype.numpy)
    chosen = rng.choice(edges, type.shape)
    small = rng.integers(0, 5, type.shape).astype(dtype.numpy)
    pick = rng.random(type.shape)
    return np.asarray(np.where(pick < 0.3, chosen, np.where(pick < 0.6, small, whole)))


def applications(every_sample: bool) -> Iterator[Application]:
    """Each operator on its samples, and in every element type that it takes."""
    for op in OPS:
        for number, case in enumerate(op.samples):
            yield Application(op, case.types, case.params, thorough=op.family != "elementwise")
            if number and not every_sample:
                continue
            first = case.types[0 if op.name != "where" else 1].dtype
            for dtype in DTYPES:
                if dtype == first:
                    continue
                types = tuple(_retyped(op, case.types, dtype))
                changed = Application(op, types, case.params, thorough=every_sample)
                if _is_accepted(changed):
                    yield changed


def _retyped(op: OpSpec, types: Sequence[TensorType], dtype: DType) -> Iterator[TensorType]:
    """The operands in another element type; positions and conditions keep theirs."""
    for position, type in enumerate(types):
        index = op.family in INDEXED and position == (0 if op.name == "one_hot" else 1)
        condition = op.name == "where" and position == 0
        yield type if index or condition else replace(type, dtype=dtype)


def _is_accepted(application: Application) -> bool:
    try:
        _ = application.task
    except (ShapeError, AssertionError):
        return False
    return True


def conversions() -> Iterator[Application]:
    """Every pair of element types, converted and reinterpreted."""
    ops = {op.name: op for op in OPS}
    for source in DTYPES:
        for target in DTYPES:
            types = (TensorType(source, (37,)),)
            yield Application(ops["cast"], types, (("to", target.name),))
            bits = Application(ops["bitcast"], types, (("to", target.name),))
            if _is_accepted(bits) and boolean not in (source, target):
                yield bits


def schedules(task: Task, target: Target, thorough: bool) -> Iterator[Schedule]:
    """The schedules to try: the default, and loops with lanes small enough to have tails."""
    yield default_schedule(task, target, 1)
    if not thorough:
        return
    for lanes in Lanes:
        yield Loops(lanes, 3, 4 if lanes is Lanes.NONE else 0, 0)
    contraction = contraction_of(task)
    if contraction is not None and vector_dialect("c99", contraction.dtype) is not None:
        yield loop_schedule(task, 1, fused=True)


def check(applications: Sequence[Application], cache: Path, flags: tuple[str, ...]) -> None:
    """All four ways agree; every failure is reported."""
    cases: list[Case] = []
    owners: list[Application] = []
    target = host_target()  # It reads files of the system.
    for application in applications:
        task = application.task
        for schedule in dict.fromkeys(schedules(task, target, application.thorough)):
            cases.append(Case.of(task, schedule))
            owners.append(application)
    compiled = CompiledKernels(cases, cache, target=target, flags=flags)
    failures: list[str] = []
    for number, (case, application) in enumerate(zip(cases, owners, strict=True)):
        label = f"{application.label} under {case.schedule}"
        arrays = application.inputs()
        with np.errstate(all="ignore"):
            expected = np.asarray(application.op.reference(*arrays, **dict(application.params)))
        exact = not case.task.output_types[0].dtype.is_float
        for way, result in (
            ("loops", lambda c=case, a=arrays: c.interpret(a)[0]),
            ("C", lambda n=number, a=arrays: compiled.run(n, a)[0]),
        ):
            try:
                assert_same(result(), expected, 0.0 if exact else ULPS, f"{way}: {label}")
            except (AssertionError, IndexError, OverflowError, TypeError) as error:
                failures.append(f"{way}: {label}\n{str(error)[:600]}")
    assert not failures, f"{len(failures)} failures\n" + "\n".join(failures[:20])


@pytest.mark.long
def test_every_operator(tmp_path: Path) -> None:
    check(tuple(applications(every_sample=False)), tmp_path, ("-O1",))


def test_every_conversion(tmp_path: Path) -> None:
    check(tuple(conversions()), tmp_path, ("-O1",))


@pytest.mark.slow
def test_every_sample_in_every_type(tmp_path: Path) -> None:
    check(tuple(applications(every_sample=True)), tmp_path, ("-O3",))

"""The C functions: the table, and exact arithmetic against numpy and Python's integers."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from tensorgen.c_functions import C_FUNCTIONS, c_cast_for, c_function_for, definitions
from tensorgen.scalar_ops import INTEGERS, SCALAR_OPS
from tensorgen.types import DTYPES
from tests.compiled_c_functions import (
    INTEGER_TYPES,
    SIGNATURES,
    SPECIAL,
    SUFFIX,
    Library,
    Values,
    needs_gcc,
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Without fused multiply-adds."""
    return Library(tmp_path_factory.mktemp("plain"), "gcc", "-O1", "-ffp-contract=off")


@needs_gcc
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("op", "reference"),
    [("max", np.maximum), ("min", np.minimum), ("mod", np.mod), ("fmod", np.fmod)],
)
def test_float_arithmetic_agrees_with_numpy(
    plain: Library, op: str, reference: Callable[..., Values], dtype: str
) -> None:
    rng = np.random.default_rng(22)
    values = np.concatenate([SPECIAL, rng.normal(size=40), rng.normal(size=20) * 1e30])
    x, y = (grid.ravel() for grid in np.meshgrid(values.astype(dtype), values.astype(dtype)))
    with np.errstate(all="ignore"):
        expected = reference(x, y)
    np.testing.assert_array_equal(plain(f"tasor_{op}_{SUFFIX[dtype]}", x, y), expected)


@needs_gcc
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_predicates_agree_with_numpy(plain: Library, dtype: str) -> None:
    x = SPECIAL.astype(dtype)
    for op in ("isnan", "isinf", "isposinf", "isneginf"):
        got = plain(f"tasor_{op}_{SUFFIX[dtype]}", x)
        np.testing.assert_array_equal(got, getattr(np, op)(x).astype(np.uint8))


def _wrap(value: int, dtype: str) -> int:
    bits, signed = np.dtype(dtype).itemsize * 8, dtype[0] == "i"
    value %= 2**bits
    return value - 2**bits if signed and value >= 2 ** (bits - 1) else value


def _power(x: int, y: int, bits: int) -> int:
    if y >= 0:
        return int(pow(x, y, 2**bits))
    return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)


def _truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _integer_meaning(op: str, x: int, y: int, bits: int) -> int:
    """The exact result, before it wraps."""
    if op in ("div", "floordiv", "mod", "fmod") and y == 0:
        return 0
    in_range = 0 <= y < bits
    meanings: dict[str, Callable[[], int]] = {
        "add": lambda: x + y,
        "sub": lambda: x - y,
        "mul": lambda: x * y,
        "div": lambda: _truncated(x, y),
        "floordiv": lambda: x // y,
        "mod": lambda: x % y,
        "fmod": lambda: x - y * _truncated(x, y),
        "pow": lambda: _power(x, y, bits),
        "max": lambda: max(x, y),
        "min": lambda: min(x, y),
        "shl": lambda: x << y if in_range else 0,
        "shr": lambda: x >> y if in_range else 0,
        "neg": lambda: -x,
        "abs": lambda: abs(x),
        "sign": lambda: (x > 0) - (x < 0),
    }
    return meanings[op]()


@needs_gcc
@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_integer_arithmetic_agrees_with_python(plain: Library, dtype: str) -> None:
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, info.min // 2]
    small = [value for value in range(-9, 10) if value >= info.min]
    bits = [value for value in (15, 16, 31, 32, 63, 64, 100) if value <= info.max]
    values = np.array([*edges, *small, *bits], dtype=dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(values, values))
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    for op in ("add", "sub", "mul", "div", "floordiv", "mod", "fmod", "pow", "max", "min", "shl",
               "shr", "neg", "abs", "sign"):  # fmt: skip
        exact = [_integer_meaning(op, *pair, info.bits) for pair in pairs]
        expected = np.array([_wrap(value, dtype) for value in exact], dtype=dtype)
        name = f"tasor_{op}_{SUFFIX[dtype]}"
        operands = (x, y)[: len(SIGNATURES[name].parameters)]
        np.testing.assert_array_equal(plain(name, *operands), expected, err_msg=name)


def test_definitions_put_callees_first_and_name_each_function_once() -> None:
    text = definitions(C_FUNCTIONS)
    order = re.findall(r"^(?:static inline|TASOR_INLINE) \w+ (\w+)\(", text, re.MULTILINE)
    assert sorted(order) == sorted(C_FUNCTIONS)
    for name, function in C_FUNCTIONS.items():
        assert all(order.index(required) < order.index(name) for required in function.requires)


def test_definitions_do_not_depend_on_the_order_of_names() -> None:
    names = ["tasor_tanh_f32", "tasor_exp_f64", "tasor_pow_f64", "tasor_exp_f32"]
    assert definitions(names) == definitions(reversed(names)) == definitions([*names, names[0]])


def test_definitions_give_only_what_is_needed() -> None:
    assert re.findall(r"tasor_\w+(?=\(\w+ )", definitions(["tasor_fmod_i32"])) == ["tasor_fmod_i32"]
    assert definitions([]) == ""


def test_definitions_refuse_an_unknown_name() -> None:
    with pytest.raises(KeyError, match="tasor_gamma_f32"):
        definitions(["tasor_gamma_f32"])


def test_comments_state_the_bounds() -> None:
    assert "Within 1 ulp." in C_FUNCTIONS["tasor_exp_f32"].text
    for function in C_FUNCTIONS.values():
        assert function.text.startswith("/* ")
        assert max(map(len, function.text.splitlines())) <= 100


def test_every_operator_that_c_does_not_spell_has_a_function() -> None:
    spelled_by_c = {"neg", "bitnot", "not"}
    for op in SCALAR_OPS:
        for dtype in DTYPES:
            if op.symbol or op.name in spelled_by_c or dtype.kind not in op.kinds:
                continue
            name = c_function_for(op.name, dtype.name)
            assert name is not None, (op.name, dtype.name)
            assert SIGNATURES[name].parameters == (dtype.computed.c_name,) * op.arity
            result = "uint8_t" if op.predicate else dtype.computed.c_name
            assert SIGNATURES[name].result == result


def test_operators_that_wrap_have_functions_for_integers_only() -> None:
    for dtype in DTYPES:
        for op in ("add", "sub", "mul", "neg"):
            integer = dtype.kind in INTEGERS
            assert (c_function_for(op, dtype.name) is not None) == integer
    assert c_function_for("max", "bool") is None


def test_casts_that_c_does_right_have_no_function() -> None:
    assert c_cast_for("float32", "int8") == "tasor_i8_from_f32"
    assert c_cast_for("bfloat16", "float32") == "tasor_f32_from_bf16"
    for source, target in (("int64", "int8"), ("float32", "float64"), ("float32", "bool")):
        assert c_cast_for(source, target) is None

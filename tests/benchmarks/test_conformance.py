"""The conformance sweep: what it says of right, wrong, refused, crashing and endless cases."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from benchmarks.conformance.__main__ import DOCUMENT, EXIT_USAGE, main
from benchmarks.conformance.cases import Case, all_cases, cases_of
from benchmarks.conformance.check import check
from benchmarks.conformance.document import operators_document, outcome_counts, unmeasured_part
from benchmarks.conformance.outcome import (
    LONGEST_MESSAGE,
    Failed,
    Passed,
    Record,
    Unsupported,
    one_line,
)
from benchmarks.conformance.sweep import sweep
from tensorgen.build import find_compiler
from tensorgen.target import Target
from tests.required_tools import require

LEAST_NODE_CASES = 1825
"""Of 1,884 in onnx 1.23; the others use text, images or random numbers."""

STRICT = "-Wall -Wextra -pedantic -Wconversion -Wshadow -Wmissing-prototypes -Werror"
SANITIZE = "-g -fsanitize=address,undefined -fno-sanitize-recover=all"

LEAST_MODELS = 130
"""Of the 140 simple and converted models."""

SAMPLE_STRIDE = 12
"""Every twelfth node case is checked by `make test`."""

LEAST_OF_SAMPLE = 0.95


def addition(expected: float, name: str = "addition") -> Case:
    """A case that adds 1 and 2 and expects some result."""
    x, y, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (1,)) for n in "xyz")
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], name, [x, y], [z])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    inputs = (np.array([1], np.float32), np.array([2], np.float32))
    data = ((inputs, (np.array([expected], np.float32),)),)
    return Case(name, "node", 1e-3, 1e-7, "Add", model, data)


# One case


def test_a_right_output_passes() -> None:
    assert check(addition(3), "c99") == Passed()


def test_a_wrong_value_fails_with_numpys_words() -> None:
    outcome = check(addition(4), "c99")
    assert isinstance(outcome, Failed)
    assert "Not equal to tolerance" in outcome.message


@pytest.mark.parametrize(
    "expected",
    [np.array([3], np.float64), np.array([[3]], np.float32)],
    ids=["element type", "shape"],
)
def test_a_wrong_type_fails(expected: np.ndarray) -> None:
    case = addition(3)
    assert isinstance(check(replace(case, data=((case.data[0][0], (expected,)),)), "c99"), Failed)


def test_a_missing_output_fails() -> None:
    case = addition(3)
    inputs, outputs = case.data[0]
    assert isinstance(check(replace(case, data=((inputs, (*outputs, outputs[0])),)), "c99"), Failed)


def test_inputs_that_decide_about_shapes_are_named() -> None:
    case = next(case for case in cases_of("node") if case.name == "test_reshape_one_dim")
    assert check(case, "c99") == Passed(("shape",))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_string_concat", "text"),
        ("test_optional_has_element_empty_optional_input", "optional values that are absent"),
        ("test_bernoulli_expanded", "random numbers"),
    ],
)
def test_a_refused_case_has_a_reason(name: str, reason: str) -> None:
    case = next(case for case in cases_of("node") if case.name == name)
    outcome = check(case, "c99")
    assert isinstance(outcome, Unsupported)
    assert outcome.reason == reason


@pytest.mark.parametrize(
    "name",
    [
        "test_cast_FLOAT_to_FLOAT8E4M3FN",
        "test_identity_opt",
        "test_loop13_seq",
        "test_quantizelinear_int4",
        "test_sequence_map_add_2_sequences",
    ],
)
def test_values_that_are_no_plain_tensors_pass(name: str) -> None:
    case = next(case for case in cases_of("node") if case.name == name)
    assert isinstance(check(case, "c99"), Passed)


# The list of cases


def test_every_case_of_the_package_is_there_once() -> None:
    counts = Counter(case.group for case in all_cases())
    assert counts["node"] >= 1884
    assert counts["simple"] + counts["pytorch-converted"] + counts["pytorch-operator"] >= 140
    assert counts["light"] == 9
    assert len({(case.group, case.name) for case in all_cases()}) == sum(counts.values())


def test_expanded_cases_belong_to_the_operator_that_they_spell_out() -> None:
    operators = {case.name: case.operator for case in cases_of("node")}
    assert operators["test_softmax_axis_0_expanded_ver18"] == "Softmax"
    assert operators["test_ai_onnx_ml_label_encoder_tensor_mapping"] == "ai.onnx.ml.LabelEncoder"


def test_models_on_disk_come_with_data() -> None:
    for group in ("simple", "pytorch-converted", "pytorch-operator"):
        model, data = cases_of(group)[0].loaded()
        assert model.graph.node
        assert len(data) >= 1
        assert all(outputs for _, outputs in data)


# Many cases


class OnArrival:
    """What calls a function in the process that it is sent to, by way of pickle."""

    def __init__(self, *call: Any) -> None:
        self._call = call

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self._call[0], self._call[1:]


def misbehaving(name: str, *call: Any) -> Case:
    """A case that does something else to its process than to compute."""
    data: Any = OnArrival(*call)
    return replace(addition(3, name), data=(data,))


def test_a_crash_and_an_endless_case_cost_only_themselves() -> None:
    cases = [
        misbehaving("crash", os.abort),
        addition(3, "first"),
        misbehaving("endless", time.sleep, 600),
        addition(3, "second"),
    ]
    told: list[Record] = []
    seconds = {"endless": 0.5}
    records = sweep(
        cases, "c99", limit=lambda case: seconds.get(case.name, 120.0), told=told.append
    )
    assert [record.name for record in records] == [case.name for case in cases]
    assert sorted(record.name for record in told) == sorted(case.name for case in cases)
    crash, first, endless, second = (record.outcome for record in records)
    assert crash == Failed("the process ended with exit code -6")
    assert endless == Failed("no end within 0.5 s")
    assert first == second == Passed()


def test_about_every_twelfth_node_case_passes_under_strict_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CC", f"{find_compiler(Target.named('host')).command[0]} {STRICT}")
    cases = cases_of("node")[::SAMPLE_STRIDE]
    outcomes = [check(case, "c99") for case in cases]
    assert [outcome for outcome in outcomes if isinstance(outcome, Failed)] == []
    passed = sum(isinstance(outcome, Passed) for outcome in outcomes)
    assert passed >= LEAST_OF_SAMPLE * len(cases)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang", "gcc with sanitizers"])
def test_nearly_every_case_passes(
    compiler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python does not know of the sanitizers: their runtime is loaded before it, and it leaks."""
    command, _, sanitized = compiler.partition(" ")
    require(command)
    monkeypatch.setenv("TASOR_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", f"{command} {SANITIZE if sanitized else STRICT}")
    if sanitized:
        monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")
        monkeypatch.setenv("LD_PRELOAD", ":".join(map(runtime_of_gcc, ("libasan", "libubsan"))))
    records = sweep(all_cases(), "host")
    passed = Counter(record.group for record in records if record.passed)
    assert passed["node"] >= LEAST_NODE_CASES
    assert passed["simple"] + passed["pytorch-converted"] + passed["pytorch-operator"] >= (
        LEAST_MODELS
    )
    assert passed["light"] == 9
    assert [record.name for record in records if isinstance(record.outcome, Failed)] == []


def runtime_of_gcc(library: str) -> str:
    command = ["gcc", f"-print-file-name={library}.so"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


# The document


RECORDS = (
    Record("test_b", "node", "B", Passed(("shape",))),
    Record("test_b_text", "node", "B", Unsupported("text", "refused")),
    Record("test_a", "node", "A", Failed("wrong")),
    Record("test_model", "light", "", Passed()),
)


def test_the_counts_are_told_group_by_group() -> None:
    assert list(outcome_counts(RECORDS)) == [
        "node: 1 of 3 passed, 1 unsupported, 1 failed",
        "light: 1 of 1 passed",
    ]


def test_the_document_counts_by_operator_and_lists_by_reason() -> None:
    text = operators_document(RECORDS)
    assert "| A | 0 | 1 |   |\n| B | 1 | 2 | 1 |\n" in text
    assert "### Text: 1\n\n- B: `test_b_text`\n" in text
    assert "### Defects: 1\n\n- A: `test_a`\n" in text
    assert text.endswith(unmeasured_part())


def test_the_committed_document_has_todays_types_and_operators() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.endswith(unmeasured_part()), (
        "write it anew: python -m benchmarks.conformance --write-docs"
    )


# The command line


def test_the_command_runs_a_choice_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.json"
    words = ["--group", "pytorch-operator", "--only", "^test_operator_(exp|view)$"]
    assert main([*words, "--target", "c99", "--json", str(path), "--quiet"]) == 0
    assert capsys.readouterr().out == "pytorch-operator: 2 of 2 passed\n"
    assert [entry["outcome"] for entry in json.loads(path.read_text())] == ["passed"] * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "("], "argument --only: expected a regular expression, got '('"),
        (["--group", "light", "--only", "nothing"], "--only: expected a case, got none"),
        (["--write-docs", "--only", "x"], "--write-docs: expected a sweep over every case"),
        (["--workers", "0"], "argument --workers: expected a whole number of at least 1"),
    ],
)
def test_wrong_usage_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == EXIT_USAGE
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_messages_are_bounded_and_on_one_line() -> None:
    assert one_line("a\n  b") == "a b"
    assert len(one_line("x" * 1000)) == LONGEST_MESSAGE

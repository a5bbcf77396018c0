"""The shape of the code itself: who imports whom, what files are called, nothing unfinished."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("tasor", "verify", "graphopt", "tensorgen")
"""The layers from the front door down; each may import only those after it."""

ALLOWED = {
    "tasor": {"tasor", "verify", "graphopt", "tensorgen"},
    "verify": {"verify", "graphopt", "tensorgen"},
    "graphopt": {"graphopt", "tensorgen"},
    "tensorgen": {"tensorgen"},
}
FOREIGN = {
    "graphopt": {"z3", "cvc5"},
    "tensorgen": {"onnx", "onnxruntime", "networkx", "z3", "cvc5"},
}
"""Libraries that belong to a layer above."""

NOWHERE_SHIPPED = {
    "onnxruntime", "openvino", "torch", "dask", "distributed", "pytest", "hypothesis",
    "benchmarks", "tests",
}  # fmt: skip
"""What the shipped code must run without; the bench command asks for its rivals when it runs."""

VAGUE_NAMES = re.compile(r"(.*_)?(utils?|helpers?|managers?|misc|common)")
UNFINISHED = re.compile(r"\b(" + "TO" + "DO|FIX" + "ME|X" + r"XX)\b")


def modules(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


def imported_names(path: Path) -> list[tuple[int, str, bool]]:
    """Line, full module name and whether the module is imported as its importer loads."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    later = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    found = []
    for node in ast.walk(tree):
        at_load = id(node) not in later
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, at_load) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                assert node.module is not None
                found.append((node.lineno, node.module, at_load))
            else:
                package = path.relative_to(ROOT).parent.parts
                kept = package[: len(package) - node.level + 1]
                assert kept, f"{path}:{node.lineno}: the import leaves its package"
                found.append((node.lineno, ".".join((*kept, node.module or "")), at_load))
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_run_only_downward(layer: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(layer)
        for line, name, _ in imported_names(path)
        if name.split(".")[0] in LAYERS and name.split(".")[0] not in ALLOWED[layer]
    ]
    assert wrong == []


@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_leaves_the_libraries_of_others_alone(layer: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(layer)
        for line, name, at_load in imported_names(path)
        if name.split(".")[0] in FOREIGN.get(layer, set())
        or (at_load and name.split(".")[0] in NOWHERE_SHIPPED)
    ]
    assert wrong == []


def test_the_layers_exist_and_say_what_they_are() -> None:
    for layer in LAYERS:
        opening = ROOT / layer / "__init__.py"
        assert ast.get_docstring(ast.parse(opening.read_text(encoding="utf-8"))), opening


@pytest.mark.parametrize("layer", LAYERS)
def test_every_module_opens_with_what_it_does(layer: str) -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in modules(layer)
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_no_file_is_named_for_nothing() -> None:
    folders = (*LAYERS, "benchmarks", "tests")
    vague = [
        str(path.relative_to(ROOT))
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if VAGUE_NAMES.fullmatch(path.stem)
    ]
    assert vague == []


def test_nothing_is_left_unfinished() -> None:
    folders = (*LAYERS, "benchmarks", "tests", "docs", "data")
    suffixes = {".py", ".c", ".h", ".j2", ".md", ".rules", ".toml"}
    left = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in suffixes
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert left == []


def test_the_readings_of_imports_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    module = tmp_path / "graphopt" / "ops" / "one.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import a.b\nfrom c.d import e\nfrom . import f\nfrom .g import h\nfrom ..i import j\n"
        "def later() -> None:\n    import k\n",
        encoding="utf-8",
    )
    assert imported_names(module) == [
        (1, "a.b", True),
        (2, "c.d", True),
        (3, "graphopt.ops.", True),
        (4, "graphopt.ops.g", True),
        (5, "graphopt.i", True),
        (7, "k", False),
    ]

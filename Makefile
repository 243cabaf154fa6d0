# Every verb works on a machine that has only python3 (3.11 or later) and make: it creates the virtual environment it
# needs and installs into it. PYTHON chooses another interpreter, WORKERS the number of test processes.

PYTHON ?= python3
WORKERS ?= 2
ONLY ?=

VENV := .venv
LOWEST := .venv-lowest
BENCH := .venv-bench
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install -qq --disable-pip-version-check
# Exact: other builds of torch are several times as large. Kernels for GPUs are tested on the CPU, in Triton's interpreter.
TORCH := torch==2.13.0
FAST := -m "not slow and not gpu"
PYTEST := -m pytest -n $(WORKERS) --dist worksteal
INSTALLED := pyproject.toml src/mercer/_version.py
BOUNDS_TESTS := tests/test_compiled.py tests/test_engines.py tests/test_parzen.py tests/test_smoothing.py \
	tests/test_strings.py tests/test_graphs.py tests/test_trees.py tests/test_product_tiles.py

# The folder with the larger data sets; without it the tests that need it are skipped with that reason.
MERCER_DATA ?= $(abspath $(wildcard ../shared/data))
ifneq ($(strip $(MERCER_DATA)),)
export MERCER_DATA
else
unexport MERCER_DATA
endif

# One cache of compiled code per state of src/ (tools/numba_cache.py says why).
NUMBA_CACHE_DIR := $(shell $(PYTHON) tools/numba_cache.py "$(CURDIR)")
export NUMBA_CACHE_DIR

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo test lint docs bench test-slow test-lowest test-bounds format clean prune-cache

help:
	@echo "make demo         one 'mercer fit' on a bundled table: chooses, fits and tests a model, writes a report"
	@echo "make test         the fast tests, README examples included, then test-bounds"
	@echo "make lint         ruff, import layers, type check"
	@echo "make docs         the documentation as a site in out/site, built without a network; warnings are errors"
	@echo "make bench        benchmarks against peers; ONLY=name runs one of them"
	@echo "make test-slow    the tests marked slow; they read the data folder MERCER_DATA"
	@echo "make test-lowest  the fast tests with the lowest supported versions"
	@echo "make test-bounds  compiled loops and engines with array bounds checked"
	@echo "make format       rewrite the sources in the project's format"
	@echo "make clean        remove environments, caches and build products"

$(VENV)/.stamp: $(INSTALLED)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) $(TORCH) triton || echo "no torch here: its tests are skipped"
	$(BIN)/python $(PIP_INSTALL) --editable ".[test,plot]"
	@touch $@

$(VENV)/.stamp-docs: $(VENV)/.stamp
	$(BIN)/python $(PIP_INSTALL) --editable ".[test,plot,docs]"
	@touch $@

$(LOWEST)/.stamp: $(INSTALLED) requirements/lowest.txt
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python $(PIP_INSTALL) --editable ".[test,plot]" --constraint requirements/lowest.txt
	@touch $@

$(BENCH)/.stamp: $(INSTALLED) requirements/bench.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python $(PIP_INSTALL) --editable . --requirement requirements/bench.txt
	@touch $@

prune-cache:
	@$(PYTHON) tools/numba_cache.py "$(CURDIR)" --prune > /dev/null

demo: $(VENV)/.stamp prune-cache
	@mkdir -p out
	$(BIN)/mercer fit src/mercer/datasets/data/concrete.npz -o out/demo.mercer --report out/demo.html --force

# Test processes are as many as cores: BLAS threads of their own would wait for one another, and small matrices take ten
# times as long.
test test-bounds test-lowest: export OPENBLAS_NUM_THREADS := 1
test: $(VENV)/.stamp prune-cache
	@tools/browser.sh
	$(BIN)/python $(PYTEST) $(FAST)
	@$(MAKE) --no-print-directory test-bounds

# Numba's cache does not tell checked from unchecked code: this run starts from an empty folder of its own.
test-bounds: export NUMBA_BOUNDSCHECK := 1
test-bounds: export NUMBA_CACHE_DIR := $(CURDIR)/.cache/bounds
test-bounds: $(VENV)/.stamp
	@rm -rf "$(NUMBA_CACHE_DIR)"
	$(BIN)/python $(PYTEST) $(FAST) --timeout 300 -o faulthandler_timeout=900 $(BOUNDS_TESTS)

test-slow: $(VENV)/.stamp prune-cache
	$(BIN)/python -m pytest -m "slow and not gpu" --timeout 1800 -o faulthandler_timeout=3600

test-lowest: export NUMBA_CACHE_DIR := $(NUMBA_CACHE_DIR)-lowest
test-lowest: $(LOWEST)/.stamp prune-cache
	$(LOWEST)/bin/python $(PYTEST) $(FAST) -W ignore::pytest.PytestRemovedIn10Warning  # from the old scikit-learn

lint: $(VENV)/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(VENV)/.stamp
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format .

# Tables first (behaviour on bad input from the tests, benchmarks from their records), then the pages, then a look at them.
docs: $(VENV)/.stamp-docs prune-cache
	$(BIN)/python tools/bad_input_table.py
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs out/site
	$(BIN)/python -m pytest -m slow tests/test_slow_site.py
	@echo "open out/site/index.html"

bench: export NUMBA_CACHE_DIR := $(NUMBA_CACHE_DIR)-bench
bench: $(BENCH)/.stamp prune-cache
	$(BENCH)/bin/python -m benchmarks $(ONLY)

clean:
	rm -rf $(VENV) $(LOWEST) $(BENCH) .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf build dist out examples/out docs/api docs/gallery
	find src tests benchmarks examples tools -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || true

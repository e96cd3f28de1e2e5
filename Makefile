# Prerequisites: Python 3.11 or newer, Java 17 and Maven. Every target sets up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv, where it is installed, takes a third of pip's time. setuptools warns of every editable installation.
PIP := $(if $(shell command -v uv), \
	uv pip install --quiet --python $(BIN)/python, \
	PYTHONWARNINGS='ignore:Editable installation' $(BIN)/python -m pip install --quiet --disable-pip-version-check)
PYSPARK := $(shell grep -o "pyspark==[0-9.]*" pyproject.toml)
PYTEST := $(BIN)/python -m pytest
DEMO_STAMP := $(VENV)/.ready-for-demo
STAMP := $(VENV)/.ready
SITE_VENV := $(VENV)/site

.PHONY: help setup hooks demo test gates check lint types layers unit tidy wire wire-oracle spark real-clusters chaos sim fuzz slow \
	kerberos nightly mutants matrix coverage release-check docs gallery pictures site bench bench-quick clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 15

setup: $(STAMP) ## create the virtual environment

$(DEMO_STAMP): pyproject.toml
	@echo "setting up $(VENV) (once, under a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable . $(PYSPARK)
	@touch $@

$(STAMP): $(DEMO_STAMP)
	@echo "installing what the tests need (once, half a minute)"
	@$(PIP) --upgrade 'pip>=25.1' # the first that knows dependency groups
	@$(PIP) --editable '.[zookeeper,pytest]' --group test --group check
	@touch $@

# A dependency group that only one target needs, installed when that target first runs.
$(VENV)/.ready-%: $(STAMP)
	@$(PIP) --group $*
	@touch $@

hooks: setup ## run the quick checks before every commit (pre-commit)
	@$(BIN)/pre-commit install

demo: $(DEMO_STAMP) ## run three brokers and a Structured Streaming job in one process
	@$(BIN)/python examples/orders/demo.py

test: setup ## test embedkafka on its own, without Apache Kafka; SHUFFLE=7 in another order
	@ci/run.sh test

gates: setup ## run what CI runs after `make test` on every push: Apache Kafka, more of Spark, installing
	@ci/run.sh gates

nightly: setup ## run everything there is
	@ci/run.sh nightly

check: setup lint types layers unit ## check format, lint, types and import layers, run the unit tests

lint:
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types:
	@$(BIN)/mypy

layers:
	@$(BIN)/lint-imports

unit:
	$(PYTEST) -q $(if $(SHUFFLE),--shuffle $(SHUFFLE)) tests/unit tests/cluster/handles/test_mistakes.py

tidy: setup ## run the quick part of tests/tidy: seams, documents, workflows
	$(PYTEST) -q -m "not slow and not gate and not spark" tests/tidy \
		$(addprefix --ignore tests/tidy/,test_benchmarks.py test_commands.py test_snippets.py)

wire: setup ## test embedkafka with stock clients and raw frames
	$(PYTEST) tests/wire

wire-oracle: setup ## run the wire tests on Apache Kafka as well
	$(PYTEST) tests/wire --oracle -m "not slow"

spark: setup ## test embedkafka with Spark's own connector
	$(PYTEST) -m "not slow" tests/spark examples

real-clusters: setup ## run examples and audits on Apache Kafka, a standalone Spark cluster and Spark Connect
	$(PYTEST) -m "slow or not slow" tests/real_clusters

slow: setup ## run tests that take minutes or start many JVMs, such as Apache brokers under our controller
	$(PYTEST) -m slow tests

kerberos: $(VENV)/.ready-kerberos ## test GSSAPI with a KDC, on Apache Kafka too; needs Debian's krb5-kdc, krb5-admin-server, krb5-user, libkrb5-dev
	$(PYTEST) -m slow tests/wire/security/test_kerberos.py --oracle

matrix: $(VENV)/.ready-matrix ## run the tests on every supported Python and PySpark; ARGS="-s tests-3.13 -- unit"
	@$(BIN)/nox $(ARGS)

coverage: $(VENV)/.ready-coverage ## measure branch coverage of unit, sim, wire and cluster tests; html in build/coverage
	@ci/coverage.sh

release-check: $(VENV)/.ready-release ## build sdist and wheel, install the wheel in a fresh environment, run the demo; TAG=v0.1.0
	@ci/release-check.sh $(TAG)

docs: setup ## write the generated pages of docs/ from the code
	@$(BIN)/python -m tests.tidy.pages

gallery: setup ## run all examples and show in docs/gallery.md what they print
	@$(BIN)/python -m tests.tidy.gallery

pictures: setup ## take the pictures of README and docs from real runs; needs chromium
	@$(BIN)/python -m tests.page.pictures

site: $(SITE_VENV)/.ready ## build the website in build/site; SERVE=1 serves it while you write
	@NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/python -m mkdocs $(if $(SERVE),serve,build --strict --quiet)

# A separate environment: the site needs neither the package nor the test dependencies.
$(SITE_VENV)/.ready: pyproject.toml
	@echo "setting up $(SITE_VENV) (once, under a minute)"
	@test -x $(SITE_VENV)/bin/python || $(PYTHON) -m venv $(SITE_VENV)
	@$(SITE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(SITE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

chaos: setup ## kill, pause and cut off brokers under load, and isolate random tests; SEED=… ROUNDS=…
	$(BIN)/python -m tests.chaos --workers 2 --rounds $(or $(ROUNDS),20) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.chaos.isolation --rounds $(or $(ROUNDS),20) $(if $(SEED),--seed $(SEED))

sim: setup ## simulate clusters without threads, exactly repeatable by seed; SEED=… SEEDS=…
	$(BIN)/python -m tests.sim --workers 2 --seeds $(or $(SEEDS),1000) $(if $(SEED),--seed $(SEED))

fuzz: setup ## feed hostile input to decoders, logs and a running broker; INPUTS=… SEED=… ONLY=decoders|batches|broker
	$(BIN)/python -m tests.fuzz $(if $(INPUTS),--inputs $(INPUTS)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

mutants: setup ## flip decisions one at a time and see that a unit test fails; SEED=… COUNT=…
	$(BIN)/python -m tests.mutants --count $(or $(COUNT),40) $(if $(SEED),--seed $(SEED))

bench: setup ## compare with Apache Kafka, about 15 minutes; ARGS="--themes groups --rounds 3"
	$(BIN)/python -m benchmarks $(ARGS)

bench-quick: setup ## run the benchmarks on a smaller scale, about 4 minutes
	$(BIN)/python -m benchmarks --quick $(ARGS)

clean: ## remove everything the targets above created
	rm -rf $(VENV) .nox .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage* build dist

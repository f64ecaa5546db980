# `make help` lists what there is. Two commands matter: `make run` breaks a cluster and reports,
# `make test` proves the project. Everything sets up .venv first; that needs python3 (3.11 or newer,
# with venv). Tests that need more (root, Java, Docker, ...) are skipped without it, and the last
# lines of a test run say how to get it.

SHELL := bash
.SHELLFLAGS := -e -o pipefail -c
PYTHON ?= python3
BIN := .venv/bin
# Tests of one file stay together, because they share a cluster; so do those on Spark, which share
# Java (tests/support/tiers.py). The files that take longest begin.
# Tests also wait, so there are two workers for a processor.
PYTEST := $(BIN)/pytest --dist loadfile --no-loadscope-reorder
WORKERS := --numprocesses $$(($$(nproc) * 2))
READY := .venv/.ready
# What check-fast runs: the tests of pure modules, which need neither processes nor much time.
UNIT := tests/nodes/controller tests/nodes/log tests/nodes/replication tests/nodes/storage \
  tests/checkers/causes tests/checkers/contract tests/checkers/detectors tests/checkers/elle \
  tests/checkers/engines tests/nemesis tests/harness/admin tests/harness/plans
# `make test TESTS="not nightly"` leaves out what only the night repeats.
TESTS :=
# `make test BUT=--leave-out-passed LINT=` leaves out what the last check-bare has passed, and lint.
BUT :=
LINT := lint

.PHONY: help run test check check-fast check-bare lint fmt site clean setup compiled kafka \
  kafka-programs kafka-zookeeper zookeeper java-client tlc
.DEFAULT_GOAL := run

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: $(READY) ## break a cluster for a minute and print the verdict (the default)
	$(BIN)/highwater run first-light

check-fast: lint ## the inner loop: format, lint, types, layers, unit tests (under a minute)
	$(PYTEST) $(WORKERS) -m "not slow" $(UNIT)

check: lint ## check-fast and the tests of real kernel objects, processes and browsers
	$(PYTEST) $(WORKERS) -m "not slow"

test: $(LINT) $(READY) ## everything: check, whole clusters, Spark and Apache Kafka
	$(PYTEST) $(WORKERS) -m "$(TESTS)" $(BUT)

check-bare: $(READY) ## check without any optional tool, as on a new user's machine
	$(BIN)/python -m tests.tools.bare $(PYTEST) $(WORKERS) -m "not slow" --remember-passed

lint: $(READY) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy examples/plugin-*/*/
	$(BIN)/lint-imports

fmt: $(READY) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

site: $(READY) ## build the documentation into site/, strictly
	$(BIN)/python -m tests.tools.anomaly_reports docs/anomalies/reports
	$(BIN)/mkdocs build --strict --quiet

kafka: ## fetch Apache Kafka by Maven, for `highwater run --system kafka`
	@command -v mvn >/dev/null \
	  || { echo "Maven is missing (it fetches Kafka's jars): apt-get install maven"; exit 1; }
	@mkdir -p .kafka && echo '*' > .kafka/.gitignore
	mvn --quiet --batch-mode --file harness/brokers/kafka/pom.xml \
	  dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka/libs

zookeeper: ## fetch ZooKeeper by Maven, for `highwater run --control-plane zookeeper`
	@command -v mvn >/dev/null \
	  || { echo "Maven is missing (it fetches ZooKeeper's jars): apt-get install maven"; exit 1; }
	@mkdir -p .zookeeper && echo '*' > .zookeeper/.gitignore
	mvn --quiet --batch-mode --file harness/brokers/zookeeper/pom.xml \
	  dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.zookeeper/libs

kafka-zookeeper: ## fetch Apache Kafka 3.9, the last that can use ZooKeeper, by Maven
	@command -v mvn >/dev/null \
	  || { echo "Maven is missing (it fetches Kafka's jars): apt-get install maven"; exit 1; }
	@mkdir -p .kafka39 && echo '*' > .kafka39/.gitignore
	mvn --quiet --batch-mode --file harness/brokers/kafka/with-zookeeper.pom.xml \
	  dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka39/libs

kafka-programs: kafka ## fetch Kafka Streams and Connect by Maven, for the tests
	mvn --quiet --batch-mode --file tests/support/foreign/java/pom.xml \
	  dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka/programs

java-client: ## compile the workload client on Kafka's Java client, for `highwater run --client java`
	@command -v mvn >/dev/null && command -v javac >/dev/null \
	  || { echo "Maven or a JDK is missing: apt-get install maven openjdk-17-jdk-headless"; exit 1; }
	@mkdir -p .kafka && echo '*' > .kafka/.gitignore
	mvn --quiet --batch-mode --file harness/workloads/clients/program/java_client/pom.xml \
	  package -Dout=$(CURDIR)/.kafka/client

tlc: ## fetch TLC, the TLA+ model checker, by Maven
	@command -v mvn >/dev/null \
	  || { echo "Maven is missing (it fetches TLC's jar): apt-get install maven"; exit 1; }
	@mkdir -p .tlc && echo '*' > .tlc/.gitignore
	mvn --quiet --batch-mode --file harness/simulation/validation/pom.xml \
	  dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.tlc

setup: $(READY) ## set up .venv

# Make or update an environment. One that another Python made is made anew: it would be a mixture of both.
THIS_PYTHON = $(PYTHON) -c 'import os, sys; print(os.path.realpath(sys._base_executable))'
make_venv = $(PYTHON) -m venv $$(test "$$(readlink -f $(1)/bin/python3)" = "$$($(THIS_PYTHON))" || echo --clear) $(1)

compiled: ## set up .venv-compiled, where the broker's hot modules are compiled (needs gcc, Python's headers)
	@command -v gcc >/dev/null || { echo "gcc is missing: apt-get install gcc python3-dev"; exit 1; }
	@$(call make_venv,.venv-compiled)
	HIGHWATER_COMPILE=1 .venv-compiled/bin/pip install --disable-pip-version-check --quiet .
	.venv-compiled/bin/python -P -c 'from nodes import sources; print("built-in broker:", sources.description())'

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "highwater needs Python 3.11 or newer; $(PYTHON) is older. Set PYTHON=python3.11, say."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "Python's venv is missing: apt-get install python3-venv"; exit 1; }
	@echo "Setting up .venv: about 150 packages, half a gigabyte, two minutes. This happens once."
	@$(call make_venv,.venv)
	@$(BIN)/pip install --disable-pip-version-check --progress-bar off --no-compile --editable '.[dev]' \
	  | sed -u -n -e 's/^Collecting \([^ ]*\).*/  found \1/p' \
	      -e 's/^Installing collected.*/  installing all of them (a minute)/p' \
	      -e 's/^Successfully installed.*/  done/p'
	@$(BIN)/python -m compileall -qq -j 0 .venv/lib || true  # pip would use one processor
	@touch $(READY)

clean: ## remove .venv and everything that was built
	rm -rf .venv .venv-compiled build site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

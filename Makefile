# Two commands matter: `make run` breaks a cluster and reports, `make test` proves the project.
# Both set up everything in .venv; they need python3 (3.11 or newer, with venv). Tests that need more
# (root, Java, Docker, ...) are skipped without it, and the last lines say how to get it.

PYTHON ?= python3
BIN := .venv/bin
# One file's tests stay together: they share a cluster. The slow ones wait more than they compute.
PYTEST := $(BIN)/pytest --numprocesses auto --dist loadfile
READY := .venv/.ready

.PHONY: run test check check-bare fmt clean setup kafka
.DEFAULT_GOAL := run

run: $(READY)
	$(BIN)/highwater run first-light

test: check
	$(PYTEST) --numprocesses $$(($$(nproc) * 3 / 2)) -m slow --and-before

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -m "not slow"

# The fast tests without any optional tool: what a new user's machine may lack is covered up.
check-bare: $(READY)
	$(BIN)/python -m tests.tools.bare $(PYTEST) -m "not slow"

fmt: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "highwater needs Python 3.11 or newer; $(PYTHON) is older. Set PYTHON=python3.11, say."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "Python's venv is missing: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

# Apache Kafka, for `highwater run --system kafka`.
kafka:
	@command -v mvn >/dev/null \
	  || { echo "Maven is missing (it fetches Kafka's jars): apt-get install maven"; exit 1; }
	@mkdir -p .kafka && echo '*' > .kafka/.gitignore
	mvn --quiet --batch-mode --file harness/brokers/kafka/pom.xml \
	  dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.kafka/libs

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

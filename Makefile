# Two commands for everyone: `make demo` and `make test`. The rest is for people who work on icepact.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WHEELS ?= dist
STAMP := $(VENV)/.ready
export NO_MKDOCS_2_WARNING := 1  # about a successor of the theme; whatever else mkdocs warns of is an error

.PHONY: setup demo check test matrix bench chaos samples wheel docs lock clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: $(STAMP)  ## create .venv with everything, download the jars, prepare fast starts
	@$(BIN)/icepact setup

$(STAMP): requirements.txt requirements-uv.txt pyproject.toml scripts/check-machine
	@scripts/check-machine $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: setup  ## make a messy table, compact it, show the difference; leave another for you
	@$(BIN)/icepact demo

check: $(STAMP)  ## format, lint, types, architecture, documentation
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports 
	@$(BIN)/mkdocs build --strict --site-dir $(VENV)/site

test: setup  ## all tests but the long forms
	@$(BIN)/python -m tests

matrix: setup  ## every combination of the before/after tests, and property tests with more examples
	@HYPOTHESIS_PROFILE=thorough $(BIN)/python -m tests -m "matrix or not matrix"

bench: setup  ## ratios against rivals, measured here and now
	@$(BIN)/python -m bench --scale $(or $(SCALE),1) --write-docs

KILLS ?= 500
MINUTES ?= 20
RUNS ?= 300
WORKERS ?= 20
ANSWERS ?= 200
ORPHANS ?= 60
DISKS ?= 60
SERVICES ?= 200
SEED ?= 1
SEARCH ?= 60

chaos: setup  ## kills, concurrent writers, faults, lost answers, in the long form; can be stopped and gone on with
	@$(BIN)/pytest --timeout 0 -m 'matrix or not matrix' tests/unit/commit/test_protocol_dangers.py
	@$(BIN)/python -m tests.chaos search --minutes $(SEARCH) --seed $(SEED)
	@$(BIN)/python -m tests.chaos kills --count $(KILLS) --seed $(SEED)
	@$(BIN)/python -m tests.chaos soak --minutes $(MINUTES) --seed $(SEED)
	@$(BIN)/python -m tests.chaos faults --runs $(RUNS) --seed $(SEED)
	@$(BIN)/python -m tests.chaos workers --count $(WORKERS) --seed $(SEED)
	@$(BIN)/python -m tests.chaos answers --count $(ANSWERS) --seed $(SEED)
	@$(BIN)/python -m tests.chaos orphans --count $(ORPHANS) --seed $(SEED)
	@$(BIN)/python -m tests.chaos disks --count $(DISKS) --seed $(SEED)
	@$(BIN)/python -m tests.chaos services --count $(SERVICES) --seed $(SEED)
	@$(BIN)/python -m tests.chaos docs

samples: setup  ## write the samples of output in the pages anew, where they are not true any more
	@$(BIN)/python -m tests.acceptance.samples

wheel: $(STAMP)  ## build dist/icepact-*.whl
	@$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir $(WHEELS)

docs: $(STAMP)  ## serve the documentation
	@$(BIN)/mkdocs serve

lock: $(STAMP)  ## compile requirements.txt anew
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --extra dev \
		--custom-compile-command "make lock" --output-file requirements.txt pyproject.toml
	@grep '^uv==' requirements.txt | cut -d' ' -f1 | $(BIN)/uv pip compile --quiet --universal --generate-hashes \
		--custom-compile-command "make lock" --output-file requirements-uv.txt -

clean:  ## remove what make made here
	@rm -rf $(VENV) site dist icepact-warehouse

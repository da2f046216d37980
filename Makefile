# The commands of a working day. `make serve` and `make test` are all that a newcomer needs: they set up
# what is missing in .venv (and Node in .tools, when the machine has none) and skip what is there.

PYTHON ?= python3
BIN := .venv/bin
LISTEN ?= 127.0.0.1:4437
DATA_DIR ?= data
# More for the program behind the target: make test ARGS="-k offsets", make bench ARGS=--help
ARGS ?=

export PATH := $(CURDIR)/.tools/bin:$(PATH)

.PHONY: help setup setup-test serve test check lint format soak bench newcomer lock

help:
	@echo "make serve    start the server on $(LISTEN), data in ./$(DATA_DIR)"
	@echo "make test     linters, then all tests but soak; 'make check' is the same"
	@echo "make lint     ruff, mypy and import-linter alone"
	@echo "make format   let ruff rewrite what it can"
	@echo "make soak     the tests that run for long"
	@echo "make bench    the benchmarks in bench/"
	@echo "make newcomer how long a fresh clone takes from make serve to its first append"
	@echo "make setup    only install what 'make serve' needs"
	@echo "make lock     write the lock files anew; UPGRADE=1 takes the newest versions"

setup:
	@$(PYTHON) scripts/setup_environment.py

setup-test:
	@$(PYTHON) scripts/setup_environment.py --test

serve: setup
	@$(BIN)/millstream serve --listen $(LISTEN) --data-dir $(DATA_DIR) $(ARGS)

# Nothing may print after pytest: its closing line is the last one.
test: lint
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal -m "not soak" \
		--durations 10 --durations-min 2 $(ARGS)

check: test

lint: setup-test
	@$(BIN)/python scripts/run_checks.py

format: setup-test
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

soak: setup-test
	@$(BIN)/python -m pytest -m soak --timeout 0 -v $(ARGS)

bench: setup-test
	@$(BIN)/python bench/run.py $(ARGS)

# Without .venv: it measures how one is made.
newcomer:
	@$(PYTHON) scripts/newcomer_time.py $(ARGS)

lock:
	@$(PYTHON) scripts/lock_requirements.py $(if $(UPGRADE),--upgrade)

# make demo: a virtual Spark, from nothing to an answer.   make test: every test there is.
# Both need root on Debian or Ubuntu, and set up what they use; the first time takes some minutes.

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: help setup packages demo test lint unit check-recipes lab-test verify bench lab-down clean

help:
	@sed -n '1,2s/^# //p' Makefile

$(READY): requirements.lock
	@command -v python3 >/dev/null && python3 -c 'import ensurepip' 2>/dev/null \
	  || (apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv)
	python3 -m venv --clear $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

setup: $(READY)

# What the lab needs of the system. Without root, tests that need it say so and are skipped.
packages: setup
	@missing=$$($(PYTHON) -m tests.lab packages --missing); \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -y -qq --no-install-recommends $$missing; fi

demo: packages
	@$(PYTHON) -m tests.lab demo

test: lint unit check-recipes lab-test

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy deploys

unit: packages
	$(PYTHON) -m pytest tests/unit

# Of one recipe, or with a word on each: $(PYTHON) -m tests.recipes [NAME ...]
check-recipes: packages
	$(PYTHON) -m pytest tests/recipes

lab-test: packages
	$(PYTHON) -m pytest tests/e2e

verify: setup
	$(PYTHON) -m pytest tests/verify

bench: packages
	$(PYTHON) -m tests.benchmarks

lab-down:
	$(PYTHON) -m tests.lab down

clean: lab-down
	rm -rf $(VENV)

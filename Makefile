# make demo: a virtual Spark, from nothing to an answer.   make test: what a change is tried with.
# make test-all: every test but the campaign.   CONTRIBUTING.md says what each tier proves and costs.
# All need root on Debian or Ubuntu, and set up what they use; the first time takes some minutes.

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: help setup packages demo test test-all lint unit component security contract system acceptance \
  check-recipes mutants campaign vm verify bench dist sbom audit docs release lab-down clean

help:
	@sed -n '1,3s/^# //p' Makefile

$(READY): requirements.lock
	@command -v python3 >/dev/null && python3 -c 'import ensurepip' 2>/dev/null \
	  || if [ "$$(id -u)" = 0 ]; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; \
	  else echo "found no python3-venv; expected it: sudo apt-get install python3-venv" >&2; exit 1; fi
	@python3 -c 'import sys; found = "%d.%d" % sys.version_info[:2]; \
	  sys.exit(sys.version_info < (3, 11) and "found Python %s; expected 3.11 or later" % found)'
	@echo "Installing what it needs into $(VENV): about a minute"
	python3 -m venv --clear $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@touch $@

# For this folder: what an installed Sparkwright has as a program.
$(VENV)/bin/sparkwright: $(READY)
	@printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -m sparkwright "$$@"\n' > $@ && chmod +x $@

setup: $(VENV)/bin/sparkwright

# What the lab needs of the system. Without root, tests that need it say so and are skipped.
packages: setup
	@missing=$$($(PYTHON) -m tests.lab packages --missing); \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ]; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	    apt-get install -y -qq --no-install-recommends $$missing; fi

demo: packages
	@$(PYTHON) -m tests.lab demo

test: packages
	@$(PYTHON) -m tests.tiers test

test-all: test
	@$(PYTHON) -m tests.tiers rest

# One tier, in this terminal. A lab of it is in a shard: it disturbs none that is up.
lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	PYTHONPATH=files $(VENV)/bin/lint-imports --no-logo
	$(PYTHON) -m tests.budget

unit: setup
	$(PYTHON) -m pytest tests/unit

# Two at once, each file by one of them: what a file sets up once is set up once.
component security: packages
	$(PYTHON) -m pytest tests/$@ -n 2 --dist loadfile

contract: packages
	$(PYTHON) -m pytest tests/contract tests/recipes

# Of one recipe, or with a word on each: $(PYTHON) -m tests.recipes [NAME ...]
check-recipes: packages
	$(PYTHON) -m pytest tests/recipes

system acceptance: packages
	$(PYTHON) -m tests.lab.shard $@ -- $(PYTHON) -m pytest tests/$@

# Lists changes of the code that no unit test notices: make mutants OF=sparkwright/plan
MUTANTS := .mutants
OF := sparkwright/plan
$(MUTANTS)/.ready: requirements-mutants.lock
	python3 -m venv --clear $(MUTANTS)
	$(MUTANTS)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-mutants.lock
	@touch $@

mutants: setup $(MUTANTS)/.ready
	$(MUTANTS)/bin/python -m tests.mutants $(OF)

# Faults at random moments, for so many minutes: make campaign MINUTES=60 SEED=7
MINUTES := 60
campaign: packages
	$(PYTHON) -m tests.campaign --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# A Spark that hangs or panics, in a virtual machine with a watchdog; on x86_64.
vm: packages
	@command -v qemu-system-x86_64 >/dev/null \
	  || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-system-x86
	$(PYTHON) -m pytest tests/vm -v -s

verify: setup
	$(PYTHON) -m pytest tests/verify

bench: packages
	$(PYTHON) -m tests.benchmarks

# Wheel and sdist, in dist/: of what git has, as a build takes each file that is there.
dist: setup
	@found="$$(git status --porcelain)"; [ -z "$$found" ] \
	  || { printf 'found files that git does not have as they are; expected none:\n%s\n' "$$found" >&2; exit 1; }
	$(PYTHON) -m hatchling build -d dist

# What the product installs, here, for the jobs on a Spark, and for the gateway: as CycloneDX, and
# held against the published advisories, which needs the internet.
SBOM := .sbom
SBOM_OF := requirements.lock files/host/artifacts/weights/requirements.txt files/host/door/gateway/requirements.txt \
  files/images/community/requirements.txt files/images/sm121-inject/requirements.txt
$(SBOM)/.ready: requirements-sbom.lock
	python3 -m venv --clear $(SBOM)
	$(SBOM)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-sbom.lock
	@touch $@

sbom: $(SBOM)/.ready
	mkdir -p sbom
	for file in $(SBOM_OF); do \
	  $(SBOM)/bin/cyclonedx-py requirements --output-reproducible --output-format JSON \
	    --output-file sbom/$$(echo $$file | tr / -).cdx.json $$file || exit; done

audit: $(SBOM)/.ready
	for file in $(SBOM_OF); do \
	  $(SBOM)/bin/pip-audit --strict --require-hashes --disable-pip --requirement $$file || exit; done

# The docs site, in site/: its reference pages are made from the code, and every link is checked.
DOCS := .docs
docs: setup
	$(PYTHON) -m tests.docs
	python3 -m venv --clear $(DOCS)
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-docs.lock
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

# Checks this clone, builds, tags, and says what remains; it pushes nothing: make release VERSION=0.2.0
release: setup
	@$(PYTHON) -m tests.release v$(VERSION) --ready
	@$(MAKE) --no-print-directory dist sbom docs
	git tag --annotate --message "Sparkwright $(VERSION)" v$(VERSION)
	@$(PYTHON) -m tests.release v$(VERSION) --next

lab-down:
	$(PYTHON) -m tests.lab down

clean: lab-down
	rm -rf $(VENV) $(SBOM) sbom $(DOCS) $(MUTANTS) site dist

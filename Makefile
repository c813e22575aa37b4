# Each target works from a clean clone with Python 3.11 and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Many tests wait for a server or a process: twice as many workers as cores keep the cores busy.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print($(PER_CORE) * (os.cpu_count() or 1))')
PER_CORE := 2
# The slow ones wait most of their time: with two workers a core, 40 % of the cores' time is left.
test-slow test-examiner: PER_CORE := 3
# Whatever the environment says of bytecode, workers and the processes they start need not each compile everything.
COMPILED := PYTHONDONTWRITEBYTECODE=
# Where `make docs-site` works, beside the other environment: what it needs, nothing else does.
SITE := build/docs-site
# How long `make test-long` begins new tests, and what it draws from; without SEED it draws one.
MINUTES ?= 60
SEED ?=
# What `make mutants` takes: statements that differ from a commit, how many mutants, drawn from which seed.
CHANGED ?=
MUTANTS ?= 100
# PART=kubelab, purekube or product takes the tests of one part alone, for `make test` and `make test-all`.
PART ?=
# How many `make test-examiner` and `make test-benchmarks` take, others each time; without SAMPLE all.
SAMPLE ?=
# COUNTED=1 counts the branches that tests take, for `make coverage-report`.
PYTEST = PYTHONHASHSEED=0 $(COMPILED) $(BIN)/python $(if $(COUNTED),-m coverage run) -m pytest --workers $(WORKERS) $(if $(PART),--part $(PART))
# For `make cluster` and `make test-cluster`: --with flux,argo, --oldest, --keep; for the first --embedded.
CLUSTER_ARGS ?=

.PHONY: help setup release-dry-run demo test test-all test-slow test-examiner test-benchmarks test-long coverage coverage-report test-pure test-install cluster test-cluster mutants lint types contracts check manifests docs-site bench soak clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ —/'

# The parts, the lower ones first: pip takes each from here, and not from an index.
PARTS := --editable ./core --editable ./adapters/fake --editable ./contrib --editable ./kit
PROJECTS := pyproject.toml core/pyproject.toml adapters/fake/pyproject.toml contrib/pyproject.toml kit/pyproject.toml

# pip compiles nothing of what it installs: what is imported is compiled then, and most of it never is.
INSTALL := install --quiet --disable-pip-version-check --no-compile
PIP := $(COMPILED) $(BIN)/python -m pip $(INSTALL)
# hatchling builds all parts; in isolation each part would install it for itself.
BUILDS := --upgrade 'pip>=25.1' 'hatchling>=1.27' editables

$(VENV)/.pip:
	@echo 'setting up $(VENV) (about 30 s)' >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	@# By the pip that is here; an installation of the pip that comes with Python takes five seconds more.
	@$(PYTHON) -m pip --python $(BIN)/python $(INSTALL) $(BUILDS) 2> /dev/null \
		|| { $(BIN)/python -m ensurepip > /dev/null && $(PIP) $(BUILDS); }
	@touch $@

$(VENV)/.operator: $(VENV)/.pip $(PROJECTS)
	@$(PIP) --no-build-isolation $(PARTS) --editable '.[embedded]'
	@touch $@

# What the tests need that are not slow, in one run of pip; another core compiles meanwhile what they import from here.
$(VENV)/.tests: $(VENV)/.pip $(PROJECTS)
	@$(COMPILED) $(PYTHON) -m compileall -qq core adapters app kit contrib tools tests/support & \
	$(PIP) --no-build-isolation $(PARTS) --editable '.[embedded]' --group tests; status=$$?; wait; exit $$status
	@touch $(VENV)/.operator $@

$(VENV)/.dev: $(VENV)/.tests
	@$(PIP) --group dev
	@touch $@

setup: $(VENV)/.dev  ## create .venv with everything

demo: $(VENV)/.operator  ## set up and run the main job, end to end, over real HTTP
	@$(COMPILED) $(BIN)/vworkspace-operator demo

test: $(if $(PYTEST_ARGS)$(COUNTED),$(VENV)/.dev,$(VENV)/.tests)  ## set up and run the tests: all that PYTEST_ARGS names, else all but the slow ones; PART=kubelab: those of one part
	@$(PYTEST) $(PYTEST_ARGS)

test-all: $(VENV)/.dev  ## the same with the slow ones, which start processes or wait for time to pass
	@$(PYTEST) --everything

test-slow: $(VENV)/.dev  ## the slow ones alone, without those of the next two targets
	@$(PYTEST) -m "slow and not installs and not seeded and not benchmark"

test-examiner: $(VENV)/.dev  ## operators with seeded defects, and one of kopf, examined by `conformance operator`; SAMPLE=12: so many of them
	@$(PYTEST) -m seeded tests/conformance $(if $(SAMPLE),--sample $(SAMPLE))

test-benchmarks: $(VENV)/.dev  ## each benchmark at its smallest: it runs, and tells what it measures; SAMPLE=2: so many of them
	@$(PYTEST) -m benchmark tests/e2e $(if $(SAMPLE),--sample $(SAMPLE))

test-long: $(VENV)/.dev  ## an hour of new examples from a seed that is printed; MINUTES and SEED set both
	@$(COMPILED) $(BIN)/python -m pytest --workers $(WORKERS) \
		--long --minutes $(MINUTES) $(if $(SEED),--hypothesis-seed=$(SEED)) \
		$(or $(PYTEST_ARGS),tests/property tests/unit tests/app tests/e2e)

coverage: $(VENV)/.dev  ## all tests, the slow ones too, with the branches counted that they take; fails below the gate of pyproject.toml
	@$(BIN)/python -m coverage erase
	@$(MAKE) --no-print-directory test-all COUNTED=1
	@$(MAKE) --no-print-directory coverage-report

coverage-report: $(VENV)/.dev  ## what runs with COUNTED=1 have counted since the last report; fails below the gate of pyproject.toml
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report

test-pure:  ## prove that core and in-memory fake stand alone: tests/property and tests/unit with nothing else installed
	@scripts/test-pure $(PYTHON)

cluster: $(VENV)/.dev  ## a cluster of real controllers on this machine, built with Go: prints its kubeconfig and waits
	@$(BIN)/python -m tools.cluster up $(CLUSTER_ARGS)

test-cluster: $(VENV)/.dev  ## the tests that want a real kube-apiserver or real controllers, on such a cluster; needs Go
	@$(BIN)/python -m tools.cluster test $(CLUSTER_ARGS) -- $(PYTEST_ARGS)

mutants: $(VENV)/.dev  ## change statements of the core, and see whether a test of it fails; CHANGED=main, MUTANTS=320, SEED=7
	@PYTHONHASHSEED=0 $(COMPILED) $(BIN)/python -m tools.mutants --mutants $(MUTANTS) \
		$(if $(SEED),--seed $(SEED)) $(if $(CHANGED),--changed $(CHANGED)) $(MUTANTS_ARGS)

test-install: $(VENV)/.dev  ## install the package and the image's wheel into fresh environments, and start them
	@$(BIN)/python -m pytest -m installs tests/packaging $(PYTEST_ARGS)

lint: $(VENV)/.dev  ## formatting, lint, and the English of docstrings and comments
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/python -m tools.plain_english

types: $(VENV)/.dev  ## mypy, strict
	@$(BIN)/mypy

contracts: $(VENV)/.dev  ## the hexagon's import contracts
	@$(BIN)/lint-imports

check: lint types contracts test  ## everything that is to be green

manifests: $(VENV)/.dev  ## write the files that are generated (CRDs, kustomize bases, Helm chart, pages of docs/)
	@$(BIN)/python -m tools.generate .

.venv-docs/.done: pyproject.toml
	@test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

docs-site: .venv-docs/.done $(VENV)/.dev  ## the documentation as a site in build/docs-site/html; a link that leads nowhere fails it
	@$(BIN)/python -m tools.site_pages $(SITE)/pages
	@.venv-docs/bin/python -m tools.docs_site $(SITE)
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --config-file $(SITE)/mkdocs.yml
	@.venv-docs/bin/python -m tools.docs_site $(SITE) --check

release-dry-run: $(VENV)/.dev  ## each step of a release that needs no network; TAG=v1.2.3 is strict about the changelog
	@$(BIN)/python -m tools.release dry-run $(TAG)

bench: $(VENV)/.operator  ## the numbers, with the machine they were measured on
	@$(BIN)/python -m bench.run

soak: $(VENV)/.operator  ## ten minutes at 50 changes a second: memory and file descriptors stay flat
	@$(BIN)/python -m bench.soak $(SOAK_ARGS)

clean:  ## remove what the targets made
	@rm -rf $(VENV) .venv-pure .venv-docs $(SITE) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

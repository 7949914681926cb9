# `make demo` and `make test` need nothing before them: each builds .venv from pinned requirements if it is missing or
# the pins changed. requirements/cpu.txt or gpu.txt is what the package and vLLM need; cluster.txt adds Ray, dev.txt the
# tests' tools.
PYTHON ?= python3
REQUIREMENTS ?= requirements/$(if $(shell command -v nvidia-smi),gpu,cpu).txt
BIN := .venv/bin
RUNTIME := .venv/.installed-$(notdir $(basename $(REQUIREMENTS)))
DEV := $(RUNTIME)-dev
# Nothing is compiled when it is installed: Python keeps what it compiled on import, even if the shell forbids it.
export PYTHONDONTWRITEBYTECODE :=

# Two workers. All tests that start vLLM go to the same one, so that two never compete for memory; groups of tests
# begin in the order of tests/conftest.py.
WORKERS ?= 2
XDIST := -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
PYTEST = $(BIN)/python -m pytest $(XDIST) --durations=15 --junitxml=.pytest_cache/$@.xml $(PYTEST_ARGS)

.PHONY: demo test test-slow test-full test-latest mutants lint venv docs sbom
$(RUNTIME): $(REQUIREMENTS) requirements/install pyproject.toml
	@rm -f .venv/.installed-*
	PYTHON=$(PYTHON) requirements/install $(REQUIREMENTS)
	@touch $@

$(DEV): $(RUNTIME) requirements/cluster.txt requirements/dev.txt
	requirements/install $(REQUIREMENTS) requirements/cluster.txt requirements/dev.txt
	@touch $@

venv: $(DEV)

demo: $(RUNTIME)
	$(BIN)/python recipes/alpaca_emo.py --config demo

# Tiny models, and the demo once on real parts. What they write lies in memory, where nothing waits for a disk.
test mutants: export PYTEST_DEBUG_TEMPROOT ?= $(if $(wildcard /dev/shm/.),/dev/shm)
test: $(DEV)
	$(PYTEST) -m "not slow and not full"

# The rest: vLLM, kills, several processes, a browser, the real model. PYTEST_ARGS="--cov=instruct" measures coverage,
# that of these tests' own processes, and doubles the time of those that train nothing.
test-slow: $(DEV)
	$(PYTEST) -m "slow and not full"

# Every combination and repetition, and property tests with many more examples. Run it before a release.
test-full: $(DEV)
	$(PYTEST) -m "full or hypothesis" --hypothesis-profile=long

# The same as `make test` with the newest versions that pyproject.toml allows, without vLLM.
test-latest:
	PYTHON=$(PYTHON) VENV=.venv-latest requirements/install --latest
	.venv-latest/bin/python -m pytest $(XDIST) $(PYTEST_ARGS) -m "not slow and not full"

# Whether `make test` still sees each of the faults in tests/mutants/faults.py. FAULTS="budget clusters" chooses those
# with such words in their names.
mutants: $(DEV)
	$(BIN)/python -m tests.mutants $(FAULTS)

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# What is installed, with versions and licenses: a software bill of materials in CycloneDX's JSON.
sbom: $(RUNTIME)
	$(BIN)/uv tool run -q --from cyclonedx-bom==7.5.0 cyclonedx-py environment $(BIN)/python --output-file sbom.cdx.json

# The documentation, as a site that works offline: site/index.html. Its tools have their own environment; the tables of
# keys are made by the package in .venv.
DOCS := .venv-docs/.installed
$(DOCS): requirements/docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install -q --disable-pip-version-check --no-deps -r requirements/docs.txt
	@touch $@

docs: $(DOCS) $(RUNTIME)
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict

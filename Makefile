# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test check bench fuzz docs site clean

# Run the main job on a sample: ends with a verdict and the report's path.
demo: $(READY)
	$(BIN)/profiler-doctor run --budget 320 samples/resnet50.py

# All tests. `make test FAST=1` leaves out the ones that run scripts end to end, `make test ALL=1` also counts every
# sample's ops in twenty windows of three processes (another quarter of an hour).
test: $(READY)
	$(if $(ALL),ALL_SAMPLES=1) $(BIN)/pytest -q -n 2 --dist loadgroup $(if $(FAST),-m "not slow")

# What CI also asks: style, types, import contracts, generated pages up to date.
check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m profiler_doctor.verbs.catalogue --check docs

# Speed and memory of reading and analysis. `make bench FULL=1` also measures large traces and other tools (half an
# hour), and writes docs/performance.md.
bench: $(READY)
	$(BIN)/python -m benchmarks $(if $(FULL),--full)

# Damaged traces, 10,000 of them; the tests read 500.
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz_reading --mutations 10000

# The pages that are made from the code: rules, fixes, the document's schema. `make check` fails when one is stale.
docs: $(READY)
	$(BIN)/python -m profiler_doctor.verbs.catalogue docs

# The documentation as a site in site/; a link that leads nowhere fails.
site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(READY): pyproject.toml constraints.txt setup.py $(wildcard native/* native/*/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[torch,dev]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache

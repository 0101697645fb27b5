"""Invented records that say what each method knows, with any scores."""

from itertools import product

import pytest

KNOWS = {"supervised": "classes", "known-e": "propensity", "upu": "prior", "sar-em": "names"}
SPEC = {
    "name": "told", "title": "What methods know", "seed": 0, "settings": ["all"], "n_propensity_attributes": [2],
    "n_splits": 2, "n_labellings": 2, "test_share": 0.25, "added_attributes": 4, "clusters": 5, "low": 0.2, "high": 0.8,
    "C": 1.0, "km_max_rows": 100,
}  # fmt: skip


class Told:
    """Records of an experiment in which every record says what its method knows.

    `scores(dataset, setting, method, run)` returns the scores of a record, and `run` counts splits and labellings.
    """

    def __init__(self, scores, *, datasets, mechanisms, methods, settings=None, knows=KNOWS, **changes):
        self.spec = {**SPEC, "datasets": list(datasets), "mechanisms": list(mechanisms), "methods": list(methods)}
        self.spec |= changes
        self.records, self.timings = [], []
        splits, labellings = range(self.spec["n_splits"]), range(self.spec["n_labellings"])
        for dataset, setting, split, labelling, method in product(
            datasets, settings or mechanisms, splits, labellings, methods
        ):
            key = {"dataset": dataset, "setting": setting, "k": 0, "split": split, "labelling": labelling}
            run = split * self.spec["n_labellings"] + labelling
            told = {} if knows is None else {"knows": knows.get(method, "nothing")}
            self.records.append({**key, "method": method, **told, **scores(dataset, setting, method, run)})
            self.timings.append({**key, "method": method, "seconds": 0.5})

    @property
    def manifest(self):
        return {"name": self.spec["name"], "digest": "0123456789ab", "spec": self.spec}

    @property
    def everything(self):
        return self.records, self.timings, self.manifest

    def fail(self, **where):
        """Replace the scores of matching records by an error."""
        keys = ("dataset", "setting", "k", "split", "labelling", "method", "knows")
        for i, record in enumerate(self.records):
            if all(record[name] == value for name, value in where.items()):
                kept = {name: record[name] for name in keys if name in record}
                self.records[i] = {**kept, "error": "ValueError: no"}


@pytest.fixture(scope="session")
def told():
    """Return the class that invents records that say what each method knows."""
    return Told

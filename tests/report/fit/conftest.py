"""Raw tables, and models of every kind fitted to them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from tests.helpers import fit_quietly

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
    TableClassifier,
)
from scarless.report import model_report

LABELLING = ["visits", "insurance"]


def make_patients(n=900, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(55, 12, n).round(),
            "visits": rng.poisson(3, n),
            "insurance": rng.choice(["none", "basic", "full"], n),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "ward": "A",
            "empty": np.full(n, np.nan),
        },
        index=[f"P{i:04d}" for i in range(n)],
    )
    f = 1 / (1 + np.exp(-(table["age"] - 60) / 5))
    e = 1 / (1 + np.exp(1.0 - 0.4 * table["visits"] - table["insurance"].map({"none": -1, "basic": 0, "full": 1})))
    s = ((rng.random(n) < f) & (rng.random(n) < e)).astype(int).to_numpy()
    table.loc[table.index[::9], "age"] = np.nan
    table.loc[table.index[::7], "insurance"] = None
    return table, s


KINDS = {
    "SAREMClassifier": lambda: SAREMClassifier(propensity_attributes=LABELLING),
    "SAREMClassifierCV": lambda: SAREMClassifierCV(
        propensity_attributes=LABELLING, Cs=[0.1, 1.0], propensity_Cs=[1.0], cv=2, random_state=0
    ),
    "SARStackingClassifier": lambda: SARStackingClassifier(
        [("logistic", None), ("other", LogisticRegression())], propensity_attributes=LABELLING, cv=2, random_state=0
    ),
    "SCARClassifier": SCARClassifier,
    "SCARClassifier, known": lambda: SCARClassifier(0.5),
    "NaiveClassifier": NaiveClassifier,
    "PropensityWeightedClassifier": PropensityWeightedClassifier,
    "StratifiedSCARClassifier": lambda: StratifiedSCARClassifier("visits"),
    "boosted": lambda: SAREMClassifier(
        HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=4, max_bins=16),
        propensity_attributes=LABELLING,
        cv=2,
        random_state=0,
    ),
    "swappable": lambda: SAREMClassifier(propensity_attributes="all"),
}


@pytest.fixture(scope="session")
def patients():
    return make_patients()


@pytest.fixture(scope="session")
def fitted(patients):
    """Return a model by its kind; each is fitted once."""
    made = {}

    def fit(kind):
        if kind not in made:
            given = {"propensity": np.full(len(patients[1]), 0.5)} if kind.startswith("Propensity") else {}
            made[kind] = fit_quietly(TableClassifier(KINDS[kind]()), *patients, **given)
        return made[kind]

    return fit


@pytest.fixture(scope="session")
def reported(patients, fitted):
    """Return a report by the kind of its model; each is made once."""
    made = {}

    def report(kind):
        if kind not in made:
            made[kind] = model_report(fitted(kind), *patients, n_ranked=30)
        return made[kind]

    return report


@pytest.fixture(scope="session")
def narrated():
    """Return the report of a table with a column of free text, a long name, and long categories."""
    rng = np.random.default_rng(1)
    engine = rng.random(600) < 0.5
    about = np.where(engine, "engine <b>ingested</b> one", "small bird & wing")
    when = rng.choice(["climb", "approach", "landing", "taxi"], 600)
    long = "region_of_the_airport_where_it_happened"
    table = pd.DataFrame(
        {
            "remarks": [f"{a} during {b}, flight {k}" for k, (a, b) in enumerate(zip(about, when, strict=True))],
            "visits": rng.normal(size=600),
            long: rng.choice(["North West and the Isles", "a_long_level_without_any_place_to_break_it", "East"], 600),
        }
    )
    s = (rng.random(600) < np.where(engine, 0.8, 0.1) / (1 + np.exp(-table["visits"]))).astype(int).to_numpy()
    command = f"scarless fit strikes.csv --label damaged --propensity visits {long} --out a/folder/far/away"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = TableClassifier(SAREMClassifier(propensity_attributes=["visits", long])).fit(table, s)
        return model_report(model, table, s, n_ranked=30, run={"file": "strikes.csv", "command": command})


@pytest.fixture(scope="session")
def small():
    """Return a fitted pair of logistic models, its table of three numeric columns, and its labels."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"a": rng.normal(5, 2, 700), "b": rng.normal(-1, 0.5, 700), "z": rng.normal(0, 3, 700)})
    f = 1 / (1 + np.exp(-(X["a"] - 5.5) - 2 * (X["b"] + 1)))
    s = (rng.random(700) < f / (1 + np.exp(-X["z"]))).astype(int).to_numpy()
    model = SAREMClassifier(propensity_attributes=["z"], classification_attributes=["a", "b"]).fit(X, s)
    return model, X, s

"""Raw tables of patients, some of them diagnosed."""

import numpy as np
import pandas as pd
import pytest


def make_patients(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "patient": [f"P{i:05d}" for i in range(n)],
            "age": rng.normal(55, 12, n).round(1),
            "visits": rng.poisson(3, n),
            "insurance": rng.choice(["none", "basic", "full"], n),
            "smoker": rng.choice(["yes", "no"], n),
            "last_visit": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
            "weight": rng.integers(1, 3, n),
        }
    )
    f = 1 / (1 + np.exp(-(0.12 * (table["age"] - 55) + 1.2 * (table["smoker"] == "yes") - 1.0)))
    e = 1 / (1 + np.exp(-(0.9 * (table["visits"] - 3) + table["insurance"].map({"none": -1.0, "basic": 0, "full": 1}))))
    table["known"] = e
    table["diagnosed"] = np.where((rng.random(n) < f) & (rng.random(n) < e), "yes", None)
    table.loc[::11, "age"] = np.nan
    return table


@pytest.fixture(scope="session")
def patients():
    return make_patients()


def make_hospital(n=3000, seed=0, n_audits=200):
    """Return a table of patients, and their true classes.

    The table has the labels and durations of three visits, of which some did not take place. It also has a single label
    column, which is empty for unlabelled rows, and a column of audits.
    """
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "patient": [f"P{i:05d}" for i in range(n)],
            "age": rng.normal(55, 12, n).round(1),
            "bmi": rng.normal(27, 4, n).round(1),
            "smoker": rng.choice(["yes", "no"], n, p=[0.3, 0.7]),
            "insurance": rng.choice(["none", "basic", "full"], n),
            "visits": rng.poisson(3, n),
            "admitted": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
        }
    )
    u = 0.09 * (table["age"] - 55) + 1.3 * (table["smoker"] == "yes") + 0.1 * (table["bmi"] - 27) - 1.1
    ill = (rng.random(n) < 1 / (1 + np.exp(-u))).to_numpy()
    v = 0.35 * (table["visits"] - 3) + table["insurance"].map({"none": -1.0, "basic": 0.0, "full": 0.8}) - 0.4
    hours = rng.gamma(4, 0.5, (n, 3)).round(2) * np.array([1.0, 2.0, 0.5])
    for k, made in enumerate((0.9, 0.8, 0.6)):
        seen = rng.random(n) < made
        found = ill & (rng.random(n) < 1 / (1 + np.exp(-(v + 0.5 * (hours[:, k] - 2)))))
        table[f"visit_{k + 1}"] = np.where(seen, np.where(found, "yes", "no"), None)
        table[f"hours_{k + 1}"] = np.where(seen, hours[:, k], np.nan)
    table["diagnosed"] = np.where(ill & (rng.random(n) < 1 / (1 + np.exp(-v))), "yes", None)
    checked, rows = np.full(n, None, dtype=object), rng.choice(n, n_audits, replace=False)
    checked[rows] = np.where(ill[rows], "yes", "no")
    table["checked"] = checked
    table.loc[rng.random(n) < 0.08, "bmi"] = np.nan
    table.loc[rng.random(n) < 0.05, "insurance"] = None
    return table, ill


LOOKS, HOURS = ["visit_1", "visit_2", "visit_3"], ["hours_1", "hours_2", "hours_3"]


@pytest.fixture(scope="session")
def hospital():
    return make_hospital()

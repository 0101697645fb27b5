"""Patients, some of them diagnosed: a table as people have it."""

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

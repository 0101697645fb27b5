"""Write ``patients.csv``: simulated patients, some of them diagnosed, for `make demo` and the documentation.

Illness depends on age, body mass index, smoking and blood sugar. Ill patients are diagnosed more often if they see a
doctor often and are insured. The file does not contain the true class, which `scarless fit` has to estimate.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd


def make_patients(n=6000, seed=2019):
    """Return the table and the true classes."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "patient": [f"P{i:05d}" for i in range(1, n + 1)],
            "age": rng.normal(55, 12, n).clip(18, 95).round().astype(int),
            "bmi": rng.normal(27, 4, n).round(1),
            "smoker": rng.choice(["yes", "no"], n, p=[0.25, 0.75]),
            "sugar": rng.lognormal(4.6, 0.2, n).round(),
            "visits": rng.poisson(3, n),
            "insurance": rng.choice(["none", "basic", "full"], n, p=[0.2, 0.5, 0.3]),
            "region": rng.choice(["north", "south", "east", "west"], n),
            "last_visit": (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D")).strftime(
                "%Y-%m-%d"
            ),
        }
    )
    risk = 0.07 * (table["age"] - 55) + 0.12 * (table["bmi"] - 27) + 0.8 * (table["smoker"] == "yes")
    ill = rng.random(n) < 1 / (1 + np.exp(-(risk + 0.03 * (table["sugar"] - 100) - 2.0)))
    insured = table["insurance"].map({"none": -1.4, "basic": 0.0, "full": 0.8})
    looked = rng.random(n) < 1 / (1 + np.exp(-(0.6 * (table["visits"] - 3) + insured - 0.3)))
    table["diagnosed"] = np.where(ill & looked, "yes", "")
    table.loc[rng.random(n) < 0.05, "bmi"] = np.nan
    table.loc[rng.random(n) < 0.03, "region"] = None
    return table, ill


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("patients.csv"))
    made, truth = make_patients()
    made.to_csv(path, index=False)
    print(f"{path}: {len(made)} patients, {(made['diagnosed'] == 'yes').sum()} diagnosed, {truth.sum()} ill")

"""Write ``patients.csv`` and ``next-month.csv``: simulated patients, for `make demo` and the documentation.

Illness depends on age, body mass index, smoking and blood sugar. Ill patients are diagnosed more often if they see a
doctor often and are insured. The files do not contain the true class, which `scarless fit` has to estimate.
``python examples/make_patients.py FOLDER`` writes the files into another folder.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd


def make_patients(n=6000, seed=2019, first=1):
    """Return the table and the true classes; `first` is the number of the first patient."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "patient": [f"P{i:05d}" for i in range(first, first + n)],
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


def make_next_month():
    """Return the table of 1,000 other patients, who fall ill and are diagnosed in the same way, and their classes."""
    return make_patients(n=1000, seed=2020, first=6001)


MADE = {"patients.csv": make_patients, "next-month.csv": make_next_month}

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    for name, make in MADE.items():
        table, ill = make()
        table.to_csv(folder / name, index=False)
        print(f"{name}: {len(table):,} patients, {(table['diagnosed'] == 'yes').sum()} diagnosed, {ill.sum():,} ill")

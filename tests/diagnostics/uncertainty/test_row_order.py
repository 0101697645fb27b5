"""Series with the row names of the table in another order: values are matched by position, so there is a warning."""

import numpy as np
import pandas as pd
import pytest

from scarless import SAREMClassifier
from scarless.diagnostics import bootstrap_intervals, missed_positives, yield_curve
from scarless.field import PGlinClassifier

N = 400


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b", "c"])
    y, e = rng.random(N) < 1 / (1 + np.exp(-2 * X.a)), np.where(X.c > 0, 0.7, 0.3)
    return X, pd.Series((y & (rng.random(N) < e)).astype(int))


@pytest.fixture(scope="module")
def model(rows):
    return SAREMClassifier(propensity_attributes=["c"]).fit(*rows)


def shuffled(values):
    return pd.Series(values).sample(frac=1.0, random_state=1)


WEIGHT = np.linspace(0.5, 1.5, N)
CALLS = {
    "groups of a fit": lambda m, X, s: SAREMClassifier(propensity_attributes=["c"]).fit(
        X, s, groups=shuffled(np.arange(N) // 4)
    ),
    "groups of a bootstrap": lambda m, X, s: bootstrap_intervals(
        m, X, s, groups=shuffled(np.arange(N) // 4), n_resamples=20, random_state=0
    ),
    "weights of a bootstrap": lambda m, X, s: bootstrap_intervals(
        m, X, s, sample_weight=shuffled(WEIGHT), n_resamples=20, random_state=0
    ),
    "weights of a yield curve": lambda m, X, s: yield_curve(m, X, s, n=10, sample_weight=shuffled(WEIGHT)),
    "weights of groups": lambda m, X, s: missed_positives(m, X, s, by="c", sample_weight=shuffled(WEIGHT)),
    "labels of a score": lambda m, X, s: PGlinClassifier().fit(X, s).score(X, shuffled(s)),
}


@pytest.mark.parametrize("name", CALLS)
def test_another_order_of_the_row_names_gets_a_warning(name, rows, model):
    with pytest.warns(UserWarning, match=r"matched to the rows by position, as in scikit-learn, but its index has the"):
        CALLS[name](model, *rows)

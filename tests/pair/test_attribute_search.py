"""Search for propensity attributes: columns that drive the labelling are found, and other columns are not."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from scarless.pair import stack as attribute_search
from scarless.pair.logistic import Training
from scarless.pair.stack import find_columns, min_gain


def labelled(driving=(), effect=2.0, n_rows=2_000, n_columns=6, seed=0):
    """Return rows, labels and the true class logit; columns in `driving` drive the labelling."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    logit = 5.0 * X[:, 0] + 2.0 * X[:, 1]
    e = expit(-0.5 + effect * X[:, list(driving)].sum(axis=1))
    s = (rng.random(n_rows) < expit(logit)) & (rng.random(n_rows) < e)
    return X, s.astype(float), logit


def search(X, s, logit, w=None):
    w = np.ones(s.size) if w is None else w
    return find_columns(Training(X, s, w), [logit], w)


@pytest.mark.parametrize("driving", [(3,), (1,), (2, 4)])
def test_columns_that_drive_the_labelling_are_found_first(driving):
    found = search(*labelled(driving))
    assert {each.column for each in found[: len(driving)]} == set(driving)
    assert all(each.gain > 10.0 for each in found[: len(driving)])


def test_few_columns_are_found_if_labels_are_random():
    gains = [each.gain for seed in range(6) for each in search(*labelled(seed=seed))]
    assert len(gains) <= 2
    assert max(gains, default=0.0) < 4.0


def test_a_column_of_the_class_is_not_taken_for_a_propensity_attribute():
    """The labels fit as well if the models are swapped, with the column of the class in the propensity model."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1_200, 4))
    s = (rng.random(1_200) < expit(5.0 * X[:, 0])) & (rng.random(1_200) < expit(2.5 * X[:, 3] - 0.5))
    both = 5.0 * X[:, 0] + 4.0 * X[:, 3]  # a class logit that includes an effect of the labelling
    found = search(X, s.astype(float), both)
    assert found[0].column == 3
    assert 0 not in {each.column for each in found}


def test_the_required_gain_grows_with_the_number_of_columns():
    assert min_gain(1) == 1.0
    assert min_gain(100) == pytest.approx(1.0 + np.log(10.0))


def test_sparse_and_dense_rows_give_the_same_columns():
    X, s, logit = labelled((3,))
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, thin = search(X, s, logit), search(sparse.csr_array(X), s, logit)
    assert dense
    assert dense == thin


def test_weights_equal_repeated_rows_and_rows_of_weight_0_are_ignored():
    X, s, logit = labelled((3,), n_rows=600)
    twice = np.arange(600) % 3 == 0
    rows = np.append(np.arange(600), np.flatnonzero(twice))
    by_weight, by_rows = search(X, s, logit, 1.0 + twice), search(X[rows], s[rows], logit[rows])
    assert [each.column for each in by_weight] == [each.column for each in by_rows]
    np.testing.assert_allclose([each.gain for each in by_weight], [each.gain for each in by_rows], rtol=1e-3)
    noise = np.random.default_rng(1).normal(size=(50, X.shape[1]))
    more = search(np.vstack([X, noise]), np.append(s, np.ones(50)), np.append(logit, noise[:, 0]),
                  np.append(1.0 + twice, np.zeros(50)))  # fmt: skip
    assert more == by_weight


def test_units_and_constant_columns_do_not_matter():
    X, s, logit = labelled((3,))
    far = np.column_stack([X * 1e6 + 1e3, np.full(s.size, 7.0)])
    columns, others = ([each.column for each in search(table, s, logit)] for table in (X, far))
    assert columns == others


def test_large_tables_are_searched_in_a_weighted_sample(monkeypatch):
    X, s, logit = labelled((3,), n_rows=6_000)
    every = search(X, s, logit)
    monkeypatch.setattr(attribute_search, "_MAX_ROWS_PER_LABEL", 1_000)
    some = search(X, s, logit)
    assert every[0].column == some[0].column == 3
    assert 0.4 < some[0].gain / every[0].gain < 1.6

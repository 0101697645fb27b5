"""Arrays that NumPy would read in another way than they are meant."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from scarless import NaiveClassifier, PropensityWeightedClassifier, SAREMClassifier, SCARClassifier
from scarless.checks.kinds import plain_array, refuse_masked, refuse_odd_vector, refuse_unread
from scarless.diagnostics import bootstrap_intervals
from scarless.label_frequency import KernelMean
from scarless.labelling import LogisticSAR, simulate_labels
from scarless.metrics import propensity_weighted_roc_auc

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
S = (RNG.random(200) < 0.6 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
E = np.full(200, 0.6)


def masked(values, *places):
    array = np.ma.array(values, copy=True)
    for place in places:
        array[place] = np.ma.masked
    return array


MODELS = [NaiveClassifier(), SCARClassifier(0.9, method="likelihood"), SAREMClassifier(propensity_attributes=[1])]


@pytest.mark.parametrize("model", [*MODELS, KernelMean()], ids=lambda model: type(model).__name__)
def test_masks_are_refused_wherever_rows_come_in(model):
    with pytest.raises(ValueError, match=r"X is a masked array with 1 of 400 values masked.*X\.filled\(value\)"):
        model.fit(masked(X, (3, 1)), S)
    with pytest.raises(ValueError, match=r"y is a masked array with 2 of 200 values masked"):
        model.fit(X, masked(S, 3, 8))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_masks_are_refused_after_the_fit_too(model):
    model.fit(X, S)
    for method in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match="X is a masked array with 1 of 400 values masked"):
            method(masked(X, (0, 0)))
    with pytest.raises(ValueError, match="y is a masked array"):
        model.score(X, masked(S, 0))
    if hasattr(model, "predict_posterior"):
        with pytest.raises(ValueError, match="s is a masked array"):
            model.predict_posterior(X, masked(S, 0))
    with pytest.raises(ValueError, match="sample_weight is a masked array"):
        model.fit(X, S, sample_weight=masked(np.ones(200), 0))


def test_an_array_in_which_nothing_is_masked_is_an_array():
    plain = SAREMClassifier().fit(X, S)
    again = SAREMClassifier().fit(masked(X), masked(S), sample_weight=np.ma.ones(200))
    np.testing.assert_array_equal(plain.coef_, again.coef_)
    refuse_masked([1, 2], "X")


def test_other_places_refuse_masks():
    with pytest.raises(ValueError, match="propensity is a masked array"):
        PropensityWeightedClassifier().fit(X, S, propensity=masked(E, 1))
    with pytest.raises(ValueError, match="y is a masked array"):
        simulate_labels(masked(S, 1), 0.5)
    with pytest.raises(ValueError, match="X is a masked array"):
        LogisticSAR([0], [1.0]).propensity(masked(X, (1, 1)))
    with pytest.raises(ValueError, match="s is a masked array"):
        propensity_weighted_roc_auc(masked(S, 1), X[:, 0], propensity=E)


def test_imaginary_parts_are_not_dropped():
    with pytest.raises(ValueError, match=r"sample_weight must hold real numbers; .* e\.g\. sample_weight\.real"):
        SAREMClassifier().fit(X, S, sample_weight=np.ones(200) + 1j)
    with pytest.raises(ValueError, match="propensity must hold real numbers"):
        PropensityWeightedClassifier().fit(X, S, propensity=pd.Series(E + 0j))
    with pytest.raises(ValueError, match="Complex data not supported: y must hold real numbers"):
        SAREMClassifier().fit(X, S + 0j)


@pytest.mark.parametrize("as_sparse", [lambda s: sparse.csr_matrix(s[:, None]), sparse.coo_array])
def test_sparse_labels_are_refused(as_sparse):
    with pytest.raises(TypeError, match=r"y is sparse, and one plain value per row is needed\. Pass y\.toarray\(\)"):
        SAREMClassifier().fit(X, as_sparse(S))
    with pytest.raises(TypeError, match="sample_weight is sparse"):
        SAREMClassifier().fit(X, S, sample_weight=as_sparse(S))


def test_a_query_is_to_be_collected_where_values_are_needed():
    frame = pl.DataFrame(X, schema=["a", "b"])
    with pytest.raises(TypeError, match=r"y is a LazyFrame, which holds no values yet\. Pass y\.collect\(\)"):
        SAREMClassifier().fit(frame, pl.DataFrame({"s": S}).lazy())
    with pytest.raises(TypeError, match=r"X is a LazyFrame, which holds no values yet\. Pass X\.collect\(\)"):
        LogisticSAR(["a"], [1.0]).propensity(frame.lazy())
    refuse_unread(frame, "X")


def test_a_query_is_read_as_rows_that_live_elsewhere():
    frame = pl.DataFrame(X, schema=["a", "b"])
    model = SAREMClassifier().fit(frame, S)
    for ask in (
        lambda X: SAREMClassifier().fit(X, S),
        lambda X: bootstrap_intervals(model, X, S, n_resamples=20),
    ):
        with pytest.raises(TypeError, match="With a LazyFrame the labels are a column of the query"):
            ask(frame.lazy())
    known = PropensityWeightedClassifier(method="likelihood").fit(frame, S, propensity=0.9)
    for ask in (
        model.predict_proba,
        lambda X: known.score(X, S, propensity=0.9),
        lambda X: known.predict_posterior(X, S, 0.9),
    ):
        np.testing.assert_array_equal(ask(frame.lazy()), ask(frame))


@pytest.mark.parametrize("values", [[1, 2], np.arange(3), pd.Series([1.0]), pl.Series([1]), 5, None, "text"])
def test_what_is_plain_passes(values):
    refuse_odd_vector(values, "w")


def test_an_array_is_made_of_one_value_per_row():
    np.testing.assert_array_equal(plain_array([1, 0], "y"), [1, 0])
    with pytest.raises(ValueError, match="decisions must hold one value per row, and NumPy can make no array of it: "):
        plain_array([[1], [0, 1]], "decisions")

"""Sums over groups of rows of a fitted pair, compared with sums of its predictions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.naive_bayes import GaussianNB

from scarless import SAREMClassifier
from scarless.models.inspection import draw_group_sums, group_totals
from scarless.pair.fitted import NoOutOfFoldLogits


@pytest.fixture(scope="module")
def rows():
    """Return attributes, labels, audits of 60 rows, two divisions into groups, and weights, some of them 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = rng.random(400) < expit(2 * X[:, 0])
    s = (y & (rng.random(400) < expit(X[:, 2]))).astype(int)
    audit = np.where(np.arange(400) < 60, y, np.nan)
    codes = np.column_stack([rng.integers(0, 3, 400), rng.integers(3, 5, 400)])
    return X, s, audit, codes, rng.integers(0, 4, 400) / 2


def by_group(codes, values):
    return sum(np.bincount(division, values, minlength=5) for division in codes.T)


@pytest.mark.parametrize("audited", [False, True])
def test_totals_of_groups_are_sums_of_the_predictions(rows, audited):
    X, s, audit, codes, w = rows
    given = {"audit": audit} if audited else {}
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s, **given)
    found = group_totals(model, X, s, given.get("audit"), codes, w)
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    q, label, counted = model.predict_posterior(X, s, **given), f * e, (w > 0) * 1.0
    expected = {
        "rows": counted,
        "labelled_rows": counted * s,
        "audited_rows": counted * (np.isfinite(audit) & audited),
        "weight": w,
        "with_label": w * q * s,
        "without_label": w * q * (1 - s),
        "label": w * label,
        "label_variance": w * label * (1 - label),
        "label_posterior": w * label * f * (1 - e) / (1 - label),
    }
    assert found._fields == tuple(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(found, name), by_group(codes, values), rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("given", [{}, {"estimator": GaussianNB(), "cv": 3}], ids=["logistic", "cross-fit"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_drawn_sums_of_groups_are_sums_of_drawn_posteriors(rows, given):
    X, s, _, codes, w = rows
    model = SAREMClassifier(propensity_attributes=[2], random_state=0, **given).fit(X, s)
    found = draw_group_sums(model, X, s, None, codes, w, 7, np.random.default_rng(5))
    drawn = model.draw_posteriors(X, s, n_draws=7, random_state=np.random.default_rng(5))
    for j, q in enumerate(drawn):
        assert (q[s == 1] == 1).all()
        sums = [w * s * q, w * (1 - s) * q, w * s * q * (1 - q), w * (1 - s) * q * (1 - q)]
        for got, values in zip(found, sums, strict=True):
            np.testing.assert_allclose(got[j], by_group(codes, values), rtol=1e-9, atol=1e-12)


def test_a_pair_without_standard_errors_and_folds_has_no_out_of_fold_logits(rows):
    X, s, *_ = rows
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    alone = replace(model.fitted_pair_, inference=None)
    with pytest.raises(NoOutOfFoldLogits, match="only for two logistic models and for cross-fitted models"):
        alone.out_of_fold_logits(model._rows(X), X, s)


def test_the_detection_curve_of_rows_without_expected_positives_is_0(rows):
    X, s, *_ = rows
    looks = np.column_stack([s, s * (np.arange(400) % 3 > 0)])
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, looks)
    far = np.column_stack([np.full((5, 1), -1e6 * np.sign(model.coef_[0, 0])), np.zeros((5, 2))])
    assert (model.predict_proba(far)[:, 1] == 0).all()
    np.testing.assert_array_equal(model.detection_curve(far), [0.0, 0.0])

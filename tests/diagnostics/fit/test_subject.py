"""A fitted model with its rows, for all kinds of labels."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from scarless import SAREMClassifier, SCARClassifier, TableClassifier
from scarless.diagnostics.fit.examination import Examination, compare_audits
from scarless.diagnostics.fit.subject import ENOUGH_AUDITS, Subject, is_uninformative


def make_rows(n=600, seed=0):
    """Return a table, labels at two looks, and audits of some rows."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abz"))
    y = rng.random(n) < expit(2 * X["a"] - 0.5)
    S = (y.to_numpy()[:, None] & (rng.random((n, 2)) < expit(X[["z", "z"]].to_numpy()))).astype(float)
    audit = np.full(n, np.nan)
    audit[: ENOUGH_AUDITS + 10] = y[: ENOUGH_AUDITS + 10]
    return X, S, audit


def test_a_fit_is_uninformative_if_all_positives_are_labelled_and_the_interval_is_short_or_wide():
    assert is_uninformative(1.0, 0.03, 0.0301)
    assert is_uninformative(0.995, 0.03, 0.035)
    assert not is_uninformative(1.0, 0.03, 0.19)
    assert not is_uninformative(0.6, 0.03, 0.0301)
    assert not is_uninformative(None, 0.03, 0.0301)
    assert is_uninformative(1.0, None, None)
    assert is_uninformative(1.0, 0.19, 1.0)


@pytest.mark.parametrize("looks", [1, 2])
def test_part_equals_a_subject_of_the_selected_rows(looks):
    X, S, audit = make_rows()
    labels, given = (S[:, 0], {}) if looks == 1 else (S, {"audit": audit})
    model = SAREMClassifier(propensity_attributes=["z"]).fit(X, labels, **given)
    rows = np.arange(20, 200, 3)
    whole = Subject.of(model, X, labels, **given)
    part = Subject.of(model, X.iloc[rows], labels[rows], **{name: values[rows] for name, values in given.items()})
    taken = whole.part(rows)
    assert whole.codes.shape == (600, looks)
    for name in ("codes", "s", "f", "e", "posterior", "weight", "audited"):
        np.testing.assert_allclose(getattr(taken, name), getattr(part, name), rtol=1e-12, err_msg=name)
    np.testing.assert_array_equal(whole.s, (labels.reshape(600, -1) == 1).any(axis=1))


def test_one_label_with_audits():
    X, S, audit = make_rows()
    one = SAREMClassifier(propensity_attributes=["z"]).fit(X, S[:, 0], audit=audit)
    subject = Subject.of(one, X, S[:, 0], audit=audit)
    np.testing.assert_allclose(subject.e, one.predict_propensity(X), rtol=1e-12)
    np.testing.assert_allclose(subject.posterior, one.predict_posterior(X, S[:, 0], audit=audit))
    assert subject.labelled_positives == S[:, 0].sum()


def test_all_audits_of_the_fit_separate_the_models_in_a_part_of_the_rows():
    X, S, audit = make_rows()
    model = SAREMClassifier(propensity_attributes="all").fit(X, S[:, 0], audit=audit)
    shown = slice(50, 300)
    subject = Subject.of(model, X[shown], S[shown, 0], audit=audit[shown])
    assert subject.audited.sum() < ENOUGH_AUDITS
    assert subject.models_are_separated
    assert not subject.may_be_swapped
    alone = SAREMClassifier(propensity_attributes="all").fit(X, S[:, 0])
    assert Subject.of(alone, X, S[:, 0]).may_be_swapped


@pytest.mark.filterwarnings("ignore:SAREMClassifier. the classifier and the propensity model use the same")
def test_named_propensity_attributes_separate_the_models():
    X, S, _ = make_rows()
    assert not Subject.of(SAREMClassifier(propensity_attributes=["z"]).fit(X, S[:, 0]), X, S[:, 0]).may_be_swapped
    every = SAREMClassifier(propensity_attributes=["a", "b", "z"]).fit(X, S[:, 0])
    assert Subject.of(every, X, S[:, 0]).may_be_swapped


def test_known_leaks_are_not_searched_again(monkeypatch):
    X, S, _ = make_rows()
    model = SCARClassifier(0.5).fit(X, S[:, 0])
    monkeypatch.setattr("scarless.diagnostics.fit.subject.find_leaks", lambda *_: pytest.fail("searched again"))
    assert Subject.of(model, X, S[:, 0], leaks=()).leaks == ()


def test_audits_are_compared_with_posteriors_without_audits():
    X, S, audit = make_rows()
    model = SAREMClassifier(propensity_attributes=["z"]).fit(X, S, audit=audit)
    found, narrow = (compare_audits(Subject.of(model, X, S, audit=audit, level=level)) for level in (0.95, 0.5))
    for wide_group, narrow_group in zip(found.groups, narrow.groups, strict=True):
        assert narrow_group[:5] == wide_group[:5]
        assert narrow_group[6] - narrow_group[5] < wide_group[6] - wide_group[5]
    new = np.isfinite(audit) & ~(S == 1).any(axis=1)
    q = model.predict_posterior(X[new], S[new])
    assert (found.n, found.found) == (new.sum(), audit[new].sum())
    assert found.expected == pytest.approx(q.sum())
    assert found.surplus == pytest.approx((audit[new].sum() - q.sum()) / np.sqrt((q * (1 - q)).sum()))
    assert sum(group[2] for group in found.groups) == new.sum()


def test_the_test_of_scar_does_not_warn_about_the_last_category_of_an_encoded_column(recwarn):
    X, S, _ = make_rows()
    X["insurance"] = np.random.default_rng(1).choice(["full", "basic", "none"], len(X))
    s = S[:, 0].astype(int)
    model = TableClassifier(SAREMClassifier(propensity_attributes=["insurance", "z"])).fit(X, s)
    subject = Subject.of(model, X, s)
    assert len(subject.labelling_columns) == 4
    found, _ = Examination.of(subject, np.random.default_rng(0)).scar()
    assert found.degrees_of_freedom == 3
    assert not [each for each in recwarn if "leaves out" in str(each.message)]

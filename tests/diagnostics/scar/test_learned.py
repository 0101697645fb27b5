"""Columns learned out of fold: they do not depend on the row itself; seeds; kinds of tables."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from scarless.diagnostics.scar import _learned
from scarless.diagnostics.scar._learned import class_columns, class_scores, expected_attributes, standardised
from scarless.diagnostics.scar._roles import Roles

N, FOLDS = 240, 3
BOOSTING, FOREST, LOGISTIC = range(3)  # default columns of the scores


@pytest.fixture(autouse=True)
def small_forests(monkeypatch):
    """Use small forests, which are faster; the tests hold for forests of any size."""
    monkeypatch.setattr(_learned, "TREES_PER_FOREST", 25)


def make_roles(n_tested=2, shared=(), make=np.asarray, seed=0):
    """The class depends on column 0; the first tested attribute is correlated with column 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    X[np.abs(X) < 0.2] = 0.0
    Z = rng.normal(size=(N, n_tested))
    Z[:, 0] += 2.0 * X[:, 0]
    s = (rng.random(N) < 0.6 * expit(3.0 * X[:, 0])).astype(float)
    names = tuple(f"z{j}" for j in range(n_tested))
    return Roles(make(X), Z, np.isin(np.arange(n_tested), shared), s, np.ones(s.size), names, ())


def columns(roles, seed=0, estimator=None):
    return class_columns(roles, estimator=estimator, cv=FOLDS, rng=np.random.default_rng(seed))


def scores_of(X, s):
    return class_scores(X, s, np.ones(s.size), estimator=None, cv=FOLDS, rng=np.random.default_rng(0))


def expected_of(X, Z, seed=0):
    return expected_attributes(X, Z, np.ones(len(Z)), cv=FOLDS, rng=np.random.default_rng(seed))


class TestOutOfFold:
    def test_a_changed_row_does_not_change_other_scores_in_its_fold(self):
        """The models that score a fold are not trained on it, so the scores of its other rows stay exactly equal."""
        roles = make_roles()
        other = roles.X_class.copy()
        other[7] = [40.0, -30.0]
        kept = scores_of(roles.X_class, roles.s) == scores_of(other, roles.s)
        assert (kept.sum(axis=0) >= N // FOLDS - 1).all()
        assert not kept.all(axis=0).any()

    def test_random_labels_cannot_be_predicted(self):
        """A forest that was trained on these rows would predict their labels."""
        rng = np.random.default_rng(1)
        X, s = rng.normal(size=(400, 5)), rng.integers(0, 2, 400).astype(float)
        for scores in scores_of(X, s).T:
            assert 0.4 < roc_auc_score(s, scores) < 0.6

    def test_expected_attributes_do_not_use_the_row_itself(self):
        """Folds do not depend on `Z`. An outlier changes expected values in other folds, but not in its own."""
        roles = make_roles()
        wild = roles.Z.copy()
        wild[7, 0] = 1e6
        kept = expected_of(roles.X_class, roles.Z) == expected_of(roles.X_class, wild)
        assert kept[7].all()
        assert N // FOLDS <= kept[:, 0].sum() < N


class TestLearnedColumns:
    def test_every_score_predicts_the_label(self):
        roles = make_roles()
        for scores in scores_of(roles.X_class, roles.s).T:
            assert roc_auc_score(roles.s, scores) > 0.7

    def test_expected_attributes_follow_the_class_columns(self):
        roles = make_roles()
        expected = expected_of(roles.X_class, roles.Z)
        assert expected.shape == roles.Z.shape
        assert np.corrcoef(expected[:, 0], 2.0 * roles.X_class[:, 0])[0, 1] > 0.9
        assert abs(np.corrcoef(expected[:, 1], roles.Z[:, 1])[0, 1]) < 0.2

    def test_one_attribute(self):
        roles = make_roles(n_tested=1)
        expected = expected_of(roles.X_class, roles.Z)
        assert expected.shape == (N, 1)
        assert np.corrcoef(expected[:, 0], roles.Z[:, 0])[0, 1] > 0.7

    def test_one_attribute_has_the_same_expected_values_as_two_copies(self):
        """The best splits for one target are also the best splits for two copies of it."""
        roles = make_roles(n_tested=1)
        twice = expected_of(roles.X_class, np.column_stack([roles.Z, roles.Z]))
        np.testing.assert_allclose(expected_of(roles.X_class, roles.Z), twice[:, :1], rtol=1e-9)

    def test_the_expected_value_of_a_constant_attribute_is_the_constant(self):
        roles = make_roles()
        Z = np.column_stack([roles.Z, np.full(N, 3.0)])
        np.testing.assert_allclose(expected_of(roles.X_class, Z)[:, 2], 3.0, rtol=1e-12)

    def test_an_attribute_that_is_constant_except_in_one_row(self):
        roles = make_roles()
        Z = roles.Z.copy()
        Z[:, 1] = 0.0
        Z[7, 1] = 1.0
        D = columns(roles._replace(Z=Z))
        assert np.isfinite(D).all()


class TestColumns:
    def test_columns_are_scores_expected_and_shared_attributes_of_unit_variance(self):
        roles = make_roles(shared=(1,))
        D = columns(roles)
        assert D.shape == (N, 3 + 2 + 1)
        np.testing.assert_allclose(D.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(D.std(axis=0), 1.0, rtol=1e-12)
        np.testing.assert_allclose(D[:, -1], standardised(roles.Z, roles.w)[:, 1])
        rng = np.random.default_rng(0)
        X = standardised(roles.X_class, roles.w)
        scores = class_scores(X, roles.s, roles.w, estimator=None, cv=FOLDS, rng=rng)
        expected = expected_attributes(X, roles.Z, roles.w, cv=FOLDS, rng=rng)
        np.testing.assert_allclose(D[:, :5], standardised(np.column_stack([scores, expected]), roles.w))

    def test_a_classifier_passed_by_the_user_replaces_both_default_classifiers(self):
        roles = make_roles()
        own = columns(roles, estimator=LogisticRegression())
        assert own.shape == (N, 2 + 2)

    def test_the_logistic_form_uses_the_columns_themselves(self):
        roles = make_roles(shared=(0,))
        np.testing.assert_allclose(
            columns(roles, estimator="logistic"), standardised(np.column_stack([roles.X_class, roles.Z[:, 0]]), roles.w)
        )

    def test_equal_seeds_give_equal_columns(self):
        roles = make_roles()
        one, same, other = (columns(roles, seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one, same)
        assert (one != other).any(axis=0).all()

    def test_a_sparse_table(self):
        """A logistic regression replaces boosting; the forests are trained on the same rows."""
        dense, thin = columns(make_roles()), columns(make_roles(make=sparse.csr_array))
        assert thin.shape == dense.shape
        assert np.isfinite(thin).all()
        for j in (FOREST, LOGISTIC, 3):
            assert np.corrcoef(dense[:, j], thin[:, j])[0, 1] > 0.9
        np.testing.assert_array_equal(thin, columns(make_roles(make=sparse.csr_array)))

    @pytest.mark.parametrize("cv", [N, 10 * N])
    def test_more_folds_than_labelled_rows(self, cv):
        roles = make_roles()
        message = f"cv={cv} is too large: .* there are {roles.s.sum():.0f} labelled and .* Use at most cv="
        with pytest.raises(ValueError, match=message):
            class_columns(roles, estimator=None, cv=cv, rng=np.random.default_rng(0))


def test_standardised_columns():
    X = np.column_stack([np.arange(4.0), np.full(4, 7.0)])
    np.testing.assert_allclose(
        standardised(X, np.ones(4)), np.column_stack([(X[:, 0] - 1.5) / np.sqrt(1.25), np.zeros(4)])
    )
    thin = standardised(sparse.csr_array(X), np.ones(4))
    np.testing.assert_allclose(thin.toarray(), np.column_stack([X[:, 0] / np.sqrt(1.25), X[:, 1]]))

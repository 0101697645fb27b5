"""Tests of SCAR: known properties, reference results, and messages."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import expit
from scipy.stats import chi2_contingency
from sklearn.linear_model import LogisticRegression, Perceptron

from scarless.diagnostics.scar._pair_tests import _fit, _pair, compare, fit_null
from scarless.diagnostics.scar.tests import METHODS, SCARTest, by_likelihood, scar_test
from scarless.labelling import LogisticSAR, simulate_labels
from scarless.numerics.label_tests import constant_propensity
from scarless.pair.logistic import engine_of


def make_rows(n=1500, slope=0.0, seed=0):
    """The class depends on columns 0 and 1, the labelling on column 2; column 2 is correlated with column 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 2] += 0.7 * X[:, 0]
    y = rng.random(n) < expit(2.5 * X[:, 0] + X[:, 1])
    e = LogisticSAR(attributes=[2], coefficients=[slope], intercept=-0.3).propensity(X)
    return X, simulate_labels(y, e, random_state=seed + 1)


def run(X, s, **options):
    return scar_test(X, s, **{"propensity_attributes": [2, 3], "random_state": 0, "cv": 3, **options})


@pytest.mark.parametrize(
    ("method", "estimator"),
    # The class model does not depend on the method, so only one method uses the slow default classifiers.
    [(method, None if method == "score" else "logistic") for method in METHODS],
)
def test_biased_labels_are_detected_and_random_labels_are_not(method, estimator):
    assert run(*make_rows(), method=method, estimator=estimator).p_value > 0.1
    assert run(*make_rows(slope=1.5), method=method, estimator=estimator).p_value < 0.005


@pytest.mark.parametrize("method", METHODS)
def test_p_values_are_uniform_under_scar_if_the_model_is_right(method):
    """A rough check that detects a wrong scale of the statistic; benchmarks/scar_test.py measures the exact size."""
    p = [run(*make_rows(600, seed=i), method=method, estimator="logistic", n_simulations=99).p_value for i in range(40)]
    assert 0.35 < np.mean(p) < 0.65
    assert np.mean(np.array(p) < 0.2) < 0.4


class TestLikelihoodRatio:
    def test_without_class_columns_it_is_the_g_test_of_a_2_by_2_table(self):
        """With a constant `f` and one binary attribute both models fit the cells of a 2 x 2 table."""
        rng = np.random.default_rng(0)
        z = rng.integers(0, 2, 300).astype(float)
        s = (rng.random(300) < 0.2 + 0.15 * z).astype(float)
        table = [[np.sum((s == a) & (z == b)) for b in (0, 1)] for a in (0, 1)]
        g, p, *_ = chi2_contingency(table, correction=False, lambda_="log-likelihood")
        found = by_likelihood(compare(np.empty((300, 0)), z[:, None], s, np.ones(300)), 1, "likelihood-ratio")
        assert found.statistic == pytest.approx(g, rel=1e-5)
        assert found.p_value == pytest.approx(p, rel=1e-4)
        assert found.degrees_of_freedom == 1

    def test_it_is_not_negative_and_increases_with_attributes(self):
        rng = np.random.default_rng(1)
        for seed in range(5):
            X, s = make_rows(400, slope=0.5, seed=seed)
            Z = np.column_stack([X[:, 2:], rng.normal(size=(400, 2))])
            found = [compare(X[:, :2], Z[:, :k], s.astype(float), np.ones(s.size)).statistic for k in range(1, 5)]
            assert found[0] >= 0
            assert (np.diff(found) >= -1e-6).all()

    def test_the_null_fit_is_a_maximum(self):
        X, s = make_rows(800)
        null = fit_null(X[:, :2], s.astype(float), np.ones(s.size))
        rows = constant_propensity(X[:, :2], s.astype(float), np.ones(s.size), null.beta_f, null.v)
        assert np.abs(rows.residual @ rows.tangent).max() < 1e-2  # sum over 800 rows; not 0 because of the weak penalty

    @pytest.mark.parametrize("seed", [77, 85])
    def test_the_alternative_also_starts_at_the_null_model(self, seed):
        """On these rows, the default start ends at a log-likelihood that is lower by about 2."""
        D, Z, s = few_rows(seed)
        engine, pair = engine_of(np.column_stack([D, Z]), s=s, w=np.ones(s.size)), _pair(2, 2)
        found, alone = compare(D, Z, s, np.ones(s.size)), _fit(engine, pair)
        assert found.null.value - found.statistic / 2 < alone.value - 1.9

    @pytest.mark.parametrize("seed", [42, 43, 52])
    def test_the_null_model_also_starts_at_the_class_model_of_the_alternative(self, seed):
        D, Z, s = few_rows(seed)
        assert compare(D, Z, s, np.ones(s.size)).null.value < fit_null(D, s, np.ones(s.size)).value - 0.5


def few_rows(seed):
    """Return rows for which the likelihoods have several optima."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 4))
    s = (rng.random(80) < expit(2 * X[:, 0] + X[:, 1]) * expit(2 * X[:, 3])).astype(float)
    return X[:, :2], X[:, 2:], s


class TestWald:
    def test_without_class_columns_the_wald_test_has_no_conclusion(self):
        """With a constant `f`, only the product of `f` and `e` is identified: effects on `e` have no standard error."""
        rng = np.random.default_rng(3)
        z = rng.integers(0, 2, 300).astype(float)
        s = (rng.random(300) < 0.2 + 0.3 * z).astype(float)
        found = by_likelihood(compare(np.empty((300, 0)), z[:, None], s, np.ones(300)), 1, "wald")
        assert np.isnan(found.statistic)
        assert np.isnan(found.p_value)

    def test_it_agrees_with_the_likelihood_ratio_on_many_rows(self):
        X, s = make_rows(6000, slope=0.2, seed=5)
        one, other = (
            run(X, s, method=method, estimator="logistic").statistic for method in ("wald", "likelihood-ratio")
        )
        assert one == pytest.approx(other, rel=0.1)


class TestKolmogorovSmirnov:
    def test_p_values_count_the_observed_labels_as_one_of_the_simulations(self):
        found = run(*make_rows(), method="kolmogorov-smirnov", n_simulations=19, estimator="logistic")
        assert found.p_value * 20 == pytest.approx(round(found.p_value * 20))
        assert found.degrees_of_freedom is None
        strong = run(*make_rows(slope=2.0), method="kolmogorov-smirnov", n_simulations=19, estimator="logistic")
        assert strong.p_value == 1 / 20

    def test_it_detects_a_dependence_without_a_trend(self):
        """The propensity is high for middle values and low at both ends: no trend, but another distribution."""
        rng = np.random.default_rng(4)
        X = rng.normal(size=(3000, 3))
        y = rng.random(3000) < expit(3 * X[:, 0])
        s = y & (rng.random(3000) < np.where(np.abs(X[:, 2]) < 0.7, 0.7, 0.2))
        options = {"propensity_attributes": [2], "estimator": "logistic", "random_state": 0}
        assert scar_test(X, s, method="kolmogorov-smirnov", **options).p_value < 0.01
        assert scar_test(X, s, method="likelihood-ratio", **options).p_value > 0.05


class TestInvariance:
    @pytest.mark.parametrize("method", METHODS)
    def test_units_and_order_of_rows_do_not_matter(self, method):
        X, s = make_rows(600, slope=0.4)
        options = {"method": method, "estimator": "logistic", "n_simulations": 99}
        first = run(X, s, **options)
        shuffled = np.random.default_rng(0).permutation(600)
        again = run(X[shuffled], s[shuffled], **options)
        assert again.statistic == pytest.approx(first.statistic, rel=1e-6)
        assert again.p_value == pytest.approx(first.p_value, rel=1e-6)
        other_units = run(X * [1.0, 1e-6, 1e6, -3.0] + [0, 5, 0, 100.0], s, **options)
        assert other_units.statistic == pytest.approx(first.statistic, rel=1e-3)

    def test_equal_seeds_give_equal_results(self, monkeypatch):
        monkeypatch.setattr("scarless.diagnostics.scar._learned.TREES_PER_FOREST", 25)
        X, s = make_rows(250)
        one, same, other = (run(X, s, cv=2, random_state=seed).statistic for seed in (1, 1, 2))
        assert one == same != other

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_names_appear(self, frame):
        X, s = make_rows(500)
        table = frame(dict(zip(["dose", "lab", "age", "visits"], X.T, strict=True)))
        found = run(table, s, propensity_attributes=["visits", "age"], estimator="logistic")
        assert found.attributes == ("age", "visits")  # in the order of the table
        assert "age" in str(found)
        assert "age and visits" in found.hypothesis
        numbered = run(X, s, propensity_attributes=[3, 2], estimator="logistic")
        assert numbered.attributes == ("x2", "x3")
        assert numbered.p_value == pytest.approx(found.p_value)

    def test_naming_the_columns_of_the_class_is_enough(self):
        X, s = make_rows(500)
        one = run(X, s, estimator="logistic")
        other = run(X, s, propensity_attributes=None, classification_attributes=[0, 1], estimator="logistic")
        assert one == other

    @pytest.mark.parametrize("method", METHODS)
    def test_sparse_and_single_precision_tables(self, method):
        X, s = make_rows(600, slope=0.4)
        X[np.abs(X) < 0.5] = 0.0
        options = {"method": method, "estimator": "logistic", "n_simulations": 99}
        dense = run(X, s, **options)
        assert run(sparse.csr_array(X), s, **options).statistic == pytest.approx(dense.statistic, rel=0.02)
        assert run(X.astype(np.float32), s, **options).statistic == pytest.approx(dense.statistic, rel=1e-3)
        few = slice(300)
        learned = run(sparse.csr_array(X[few]), s[few], method=method, cv=2, n_simulations=99)
        assert 0 <= learned.p_value <= 1

    def test_labels_of_any_coding(self):
        X, s = make_rows(500)
        one = run(X, s, estimator="logistic")
        assert run(X, 2 * s - 1, estimator="logistic") == one
        words = np.where(s == 1, "yes", "no")
        assert run(X, words, pos_label="yes", estimator="logistic") == one

    def test_a_classifier_passed_by_the_user(self):
        X, s = make_rows(500)
        assert 0 <= run(X, s, estimator=LogisticRegression(C=0.1)).p_value <= 1


class TestEdges:
    def test_constant_and_dependent_attributes_are_left_out_with_a_warning(self):
        X, s = make_rows(500)
        wide = np.column_stack([X, np.ones(500), X[:, 2] - X[:, 3]])
        left_out = "leaves out x4 and x5. Each of these columns is constant, or a linear combination"
        with pytest.warns(UserWarning, match=left_out):
            found = run(wide, s, propensity_attributes=[2, 3, 4, 5], estimator="logistic")
        assert found.attributes == ("x2", "x3")
        assert found.degrees_of_freedom == 2
        assert found.statistic == pytest.approx(run(X, s, estimator="logistic").statistic, rel=1e-6)

    def test_constant_propensity_attributes_are_refused(self):
        X, s = make_rows(100)
        X[:, 2:] = 1.0
        with pytest.raises(ValueError, match="nothing to test: all propensity attributes \\(x2 and x3\\) are constant"):
            run(X, s)

    def test_an_attribute_of_class_and_labelling_gives_a_warning(self):
        X, s = make_rows(500)
        with pytest.warns(
            UserWarning, match="x2 may affect both the class and the labelling. Only the assumed logistic form"
        ):
            found = run(X, s, classification_attributes=[0, 1, 2], estimator="logistic")
        assert found.hypothesis.endswith("and logistic in x2, and does not depend on x3")
        assert found.shared == ("x2",)
        with pytest.warns(UserWarning, match="x2 and x3 may affect"):
            found = run(X, s, classification_attributes=[2, 3])
        assert found.hypothesis.endswith("Pr(positive | x) is logistic in x2 and x3")

    def test_an_attribute_that_the_class_model_explains_gives_no_conclusion(self):
        """With one binary column in both models, `f` alone fits the labels of both groups."""
        rng = np.random.default_rng(0)
        z = rng.integers(0, 2, (400, 1)).astype(float)
        s = rng.random(400) < 0.2 + 0.3 * z[:, 0]
        with pytest.warns(UserWarning, match="x0 may affect both the class and the labelling"):
            found = run(z, s, propensity_attributes=[0], classification_attributes=[0])
        assert (found.degrees_of_freedom, found.p_value) == (0, 1.0)
        assert str(found).startswith(
            "No conclusion on SCAR (score test, chi-squared 0.0 on 0 df, p = 1): the class model explains every effect"
        )

    def test_separable_classes_and_full_labelling(self):
        """All positives are labelled, so the propensity is 1 and depends on no attribute."""
        rng = np.random.default_rng(6)
        X = rng.normal(size=(300, 3))
        s = X[:, 0] > 0
        for method in ("likelihood-ratio", "kolmogorov-smirnov"):
            found = scar_test(X, s, propensity_attributes=[2], method=method, estimator="logistic", random_state=0)
            assert found.p_value > 0.05

    def test_too_few_rows(self):
        X, s = make_rows(200)
        few = np.flatnonzero(s)[19:]
        s[few] = 0
        with pytest.raises(
            ValueError, match="at least 20 labelled and 20 unlabelled rows; there are 19 labelled and 181"
        ):
            run(X, s)
        X, s = make_rows(100)
        wide = np.column_stack([X, np.random.default_rng(9).normal(size=(100, 4))])
        with pytest.warns(
            UserWarning, match="5 attributes with 2. labelled rows, which is fewer than 10 for each attr"
        ):
            run(wide, s, propensity_attributes=slice(3, 8), estimator="logistic")

    def test_no_column_left_for_the_class(self):
        with pytest.raises(ValueError, match="the labelling may depend on every column, so no column is left for"):
            run(*make_rows(200), propensity_attributes=slice(None))

    def test_no_attributes_named(self):
        with pytest.raises(ValueError, match="needs propensity_attributes: columns that the labelling may depend on"):
            run(*make_rows(200), propensity_attributes=None)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"method": "t"}, "method must be one of 'score', 'likelihood-ratio', 'wald'"),
            ({"cv": 1}, "cv must be a whole number of at least 2"),
            ({"n_simulations": 5}, "n_simulations must be a whole number of at least 19"),
            ({"estimator": "trees"}, "estimator must be None, 'logistic' or an instance of a scikit-learn classifier"),
            ({"estimator": LogisticRegression}, "estimator must be None, 'logistic' or .* got <class"),
            ({"estimator": 3}, "estimator must be None, 'logistic' or an instance of a scikit-learn classifier; got 3"),
            (
                {"cv": 100},
                "cv=100 is too large: each fold needs .* there are .* labelled and .* unlabelled rows",
            ),
            ({"estimator": Perceptron()}, "Perceptron has no predict_proba, which scar_test needs"),
            ({"propensity_attributes": ["age"]}, "X has no column names"),
            (
                {"propensity_attributes": [9]},
                "selects column 9, but columns of X are numbered 0 to 3",
            ),
            ({"random_state": "x"}, "random_state must be None"),
        ],
    )
    def test_wrong_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            run(*make_rows(200), **options)

    def test_bad_tables(self):
        X, s = make_rows(200)
        X[3, 1] = np.nan
        with pytest.raises(ValueError, match="NaN at row 3, column 1"):
            run(X, s)
        with pytest.raises(ValueError, match="y has one class only"):
            run(make_rows(200)[0], np.zeros(200))
        with pytest.raises(ValueError, match="a minimum of 2 is required by scar_test"):
            run(np.empty((0, 4)), np.empty(0))
        with pytest.raises(ValueError, match="scar_test requires y to be passed"):
            run(make_rows(200)[0], None)


class TestText:
    def make(self, **changes):
        values = {
            "statistic": 12.3,
            "degrees_of_freedom": 2,
            "p_value": 0.002,
            "method": "wald",
            "attributes": ("age", "visits"),
            "hypothesis": "",
            "label_frequency": 0.4,
            "n_rows": 900,
            "n_labelled": 120,
        }
        return SCARTest(**{**values, **changes})

    def test_a_rejection_gives_advice(self):
        words = str(self.make())
        assert "SCAR is not plausible (wald test, chi-squared 12.3 on 2 df, p = 0.002)" in words
        assert "depends on at least one of age and visits" in words
        assert "SAREMClassifier" in words
        assert "depends on age" in str(self.make(attributes=("age",)))

    def test_a_rejection_names_its_condition(self):
        words = str(self.make())
        assert "visits, provided that they are unrelated to the class given the classification attributes" in words
        assert "Otherwise this may be an effect on the class: add attributes that may affect the class to" in words
        one = str(self.make(attributes=("age",)))
        assert "provided that age is unrelated to the class" in one
        assert "add age to classification_attributes." in one
        mixed = str(self.make(shared=("visits",)))
        assert "provided that age is unrelated to the class" in mixed
        assert "and that the class and the labelling are logistic in visits." in mixed
        both = str(self.make(shared=("age", "visits")))
        assert "provided that the class and the labelling are logistic in age and visits. Otherwise" in both
        assert "classification_attributes too" not in both

    @pytest.mark.parametrize(("p", "shown"), [(0.0498, "0.0498"), (0.049999, "0.049999"), (0.0502, "0.05")])
    def test_printed_p_values_agree_with_the_conclusion(self, p, shown):
        words = str(self.make(p_value=p))
        assert f"p = {shown})" in words
        assert words.startswith("SCAR is not plausible") == (p < 0.05)

    def test_a_test_without_rejection_does_not_claim_a_proof(self):
        words = str(self.make(p_value=0.4))
        assert words.startswith("No evidence against SCAR")
        assert "120 labelled of 900 rows" in words
        assert "may still affect the labelling" in words

    def test_a_flat_likelihood_gives_no_conclusion(self):
        words = str(self.make(statistic=np.nan, p_value=np.nan))
        assert words.startswith("No conclusion on SCAR")
        assert "method='score'" in words

    def test_names_are_escaped_in_html(self):
        assert "&lt;b&gt;" in self.make(attributes=("<b>",))._repr_html_()

    def test_results_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            self.make().p_value = 1.0


def test_an_effect_on_the_class_is_not_detected_if_the_attribute_is_named_as_both_kinds():
    """The attribute affects the class only. Otherwise the test takes this effect for an effect on the labelling."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = rng.random(1500) < expit(2 * X[:, 0] + 1.5 * X[:, 1])
    s = simulate_labels(y, 0.5, random_state=1)
    options = {"propensity_attributes": [1], "estimator": "logistic"}
    assert run(X, s, **options).p_value < 1e-6
    with pytest.warns(UserWarning, match="x1 may affect both the class and the labelling"):
        assert run(X, s, classification_attributes=[0, 1, 2], **options).p_value > 0.05


@pytest.mark.parametrize("attributes", [[2], [2, 3]])
def test_ordinary_data_give_no_warning(attributes, monkeypatch):
    monkeypatch.setattr("scarless.diagnostics.scar._learned.TREES_PER_FOREST", 25)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(*make_rows(300), cv=2, propensity_attributes=attributes)

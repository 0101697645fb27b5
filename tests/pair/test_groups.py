"""Groups of rows: folds do not split groups, and intervals account for them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, logit
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold

from scarless import (
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    TableClassifier,
    load,
    save,
)
from scarless.diagnostics import bootstrap_intervals, label_calibration, labelling_attributes, scar_test
from scarless.label_frequency import BestBinEstimator
from scarless.pair import recalibrated
from scarless.pair.folds import check_folds, fold_rows
from scarless.pair.groups import check_groups, design_effect, sums_by_group, variance_ratio, weights_for_groups
from scarless.pair.logistic import Training


def make_groups(n_groups=200, size=5, seed=0):
    """Return rows in groups. Rows of a group have nearly the same attributes, class and label."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), size)
    X = rng.normal(size=(n_groups, 2))[group] + 0.1 * rng.normal(size=(n_groups * size, 2))
    f, e = 1 / (1 + np.exp(-2 * X[:, 0])), 1 / (1 + np.exp(-1.5 * X[:, 1] - 0.5))
    s = (rng.random(n_groups)[group] < f) & (rng.random(n_groups)[group] < e)
    return X, s.astype(int), group


def logistic(**options):
    return SAREMClassifier(propensity_attributes=[1], classification_attributes=[0], C=100, propensity_C=100, **options)


def width(interval):
    return interval.high - interval.low


@pytest.mark.parametrize("n_looks", [1, 2])
def test_copies_of_rows_in_a_group_add_no_information(n_looks):
    X, s, _ = make_groups(600, 1)
    if n_looks == 2:
        second = np.random.default_rng(1).random(600) < 0.7
        s = np.column_stack([s, (s == 1) & second])
    four = np.repeat(np.arange(600), 4)
    options = {"propensity_attributes": [1], "C": np.inf, "propensity_C": np.inf}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about looks that depend on each other
        once = SAREMClassifier(**options).fit(X, s, groups=np.arange(600))
        often = SAREMClassifier(**options).fit(X[four], s[four], groups=four)
        blind = SAREMClassifier(**options).fit(X[four], s[four])
    assert "Rows belong to 600 groups" in " ".join(str(often.summary()).split())
    for end, other in zip(once.class_prior_interval(), often.class_prior_interval(), strict=True):
        assert end == pytest.approx(other, abs=1e-5)
    np.testing.assert_allclose(once.standard_errors().coef, often.standard_errors().coef, rtol=1e-4)
    np.testing.assert_allclose(once.predict_proba_interval(X), often.predict_proba_interval(X), atol=1e-4)
    assert width(blind.class_prior_interval()) < 0.6 * width(often.class_prior_interval())


def test_intervals_with_groups_agree_with_a_bootstrap_and_groups_of_one_row_change_little():
    X, s, group = make_groups()
    model = logistic().fit(X, s, groups=group)
    assert "Rows belong to 200 groups" in str(model.summary())
    drawn = bootstrap_intervals(model, X, s, groups=group, n_resamples=80, random_state=0, progress=False)
    spread = float(np.std(drawn.samples["class_prior_"]))
    assert model.standard_errors().class_prior == pytest.approx(spread, rel=0.35)
    assert logistic().fit(X, s).standard_errors().class_prior < 0.7 * spread
    X, s, own = make_groups(1500, 1)
    alone, together = logistic().fit(X, s), logistic().fit(X, s, groups=own)
    assert together.class_prior_ == alone.class_prior_
    assert width(together.class_prior_interval()) == pytest.approx(width(alone.class_prior_interval()), rel=0.15)
    assert "groups" not in str(alone.summary())


def test_with_few_groups_standard_errors_equal_a_jackknife_over_groups():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(720, 2)), np.repeat(np.arange(40), 18)
    y = rng.random(720) < expit(2 * X[:, 0] + rng.normal(size=40)[group])
    s = (y & (rng.random(720) < expit(2 * X[:, 1] + 0.5))).astype(int)
    model = logistic().fit(X, s, groups=group)
    refits = [logistic().fit(X[group != j], s[group != j]) for j in range(40)]
    drawn = np.array([[each.coef_[0][0], each.propensity_coef_[0][1]] for each in refits])
    jackknife = np.sqrt(39 / 40 * np.square(drawn - drawn.mean(axis=0)).sum(axis=0))
    errors = model.standard_errors()
    np.testing.assert_allclose([errors.coef[0][0], errors.propensity_coef[0][1]], jackknife, rtol=0.15)
    low, high = model.class_prior_interval()
    p = model.class_prior_
    half = errors.class_prior / (p * (1 - p)) * student.ppf(0.975, 39)
    assert logit(high) - logit(low) == pytest.approx(2 * half)
    assert logit(p) - logit(low) == pytest.approx(half)


@pytest.fixture
def models_without_error(monkeypatch):
    """Leave the error of the models out of intervals, because it hides how much groups widen them."""
    monkeypatch.setattr(recalibrated, "MODEL_ERROR", 0.0)


@pytest.mark.usefixtures("models_without_error")
def test_row_intervals_of_searches_and_stacks_account_for_groups():
    X, s, group = make_groups(200, 5)
    stack = SARStackingClassifier([("logistic", None)], propensity_attributes=[1], attribute_sets=[None])
    search = SAREMClassifierCV(Cs=[1.0], propensity_attributes=[1], random_state=0)
    for model in (stack, search):
        same = {"cv": list(GroupKFold(2).split(X, s, group))}
        blind = model.set_params(**same).fit(X, s)
        before = np.diff(blind.predict_proba_interval(X), axis=1).mean()
        after = np.diff(model.fit(X, s, groups=group).predict_proba_interval(X), axis=1).mean()
        assert after > 1.2 * before
        assert "Rows belong to 200 groups" in " ".join(str(model.summary()).split())


@pytest.mark.usefixtures("models_without_error")
@pytest.mark.parametrize(
    "model",
    [
        SAREMClassifierCV(Cs=[1.0], cv=2, random_state=0),
        SARStackingClassifier([("l", None)], attribute_sets=[None], cv=2, random_state=0),
    ],
)
def test_searches_and_stacks_have_wider_intervals_with_groups(model):
    model = model.set_params(propensity_attributes=[1])
    X, s, group = make_groups(100, 5)
    blind = width(model.fit(X, s).class_prior_interval())
    assert width(model.fit(X, s, groups=group).class_prior_interval()) > 1.3 * blind


def test_a_search_with_looks_accounts_for_groups():
    X, s, group = make_groups(100, 5)
    looks = np.column_stack([s, s & (np.random.default_rng(2).random(500) < 0.8)])
    model = SAREMClassifierCV(propensity_attributes=[1], Cs=[1.0], cv=GroupKFold(3), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about looks that depend on each other
        together = model.fit(X, looks, groups=group).class_prior_interval()
        same = {"cv": list(GroupKFold(2).split(X, s, group))}
        blind = model.set_params(**same).fit(X, looks).class_prior_interval()
    assert width(together) > 1.3 * width(blind)


def test_folds_never_split_a_group():
    X, s, group = make_groups(60, 4)
    training = Training(X, s.astype(float), np.ones(240))
    folds = check_folds(4, training, training, 0, name="cv", groups=group)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(240))
    for train, test in [*folds, *check_folds(GroupKFold(3), training, training, 0, name="cv", groups=group)]:
        assert not set(group[train]) & set(group[test])
    split = list(KFold(3, shuffle=True, random_state=0).split(X))
    with pytest.raises(ValueError, match="cv has a fold whose training rows and test rows share a group"):
        check_folds(split, training, training, 0, name="cv", groups=group)
    one_group = training._replace(s=(group == 0).astype(float))
    with pytest.raises(ValueError, match="2 groups with labelled rows and 2 groups with unlabelled rows; got 1 and 59"):
        check_folds(4, one_group, one_group, 0, name="cv", groups=group)
    with pytest.raises(ValueError, match="2 groups with labelled rows and 2 groups with unlabelled rows; got 1 and 59"):
        fold_rows(4, SAREMClassifierCV()._check_rows(X, (group == 0).astype(int), None), 0, name="cv", groups=group)
    rows = SAREMClassifierCV()._check_rows(X, s, None)
    fold = fold_rows(4, rows, 0, name="cv", groups=group).engine.collect(lambda X, rows: rows["fold"])
    assert all(np.unique(fold[group == each]).size == 1 for each in range(60))
    with pytest.raises(ValueError, match="cv has a fold whose training rows and test rows share a group"):
        SAREMClassifierCV(cv=split).fit(X, s, groups=group)


def test_invalid_groups_raise():
    X, s, group = make_groups(40, 2)
    with pytest.raises(ValueError, match=r"groups must have one value for each of the 80 rows; got shape \(3,\)"):
        check_groups([1, 2, 3], X)
    for wrong in (None, 5, "table"):
        with pytest.raises(TypeError, match=r"X must be a table with rows and columns; got "):
            check_groups([1, 2, 3], wrong)
    gaps = pd.Series(group.astype(object))
    gaps[4] = None
    with pytest.raises(ValueError, match=r"groups has 1 missing value, the first in row 5 \(counted from 1\)"):
        check_groups(gaps, X)
    with pytest.raises(ValueError, match="groups must have at least 2 different values; all rows have the same value"):
        check_groups(np.zeros(80), X)
    with pytest.warns(UserWarning, match="groups has only 8 different values. With fewer than about 30 groups"):
        check_groups(group // 5, X)
    with pytest.raises(ValueError, match="groups is not supported by SAREMClassifier with an estimator"):
        SAREMClassifier(LogisticRegression()).fit(X, s, groups=group)


@pytest.mark.parametrize("make", [list, tuple, pd.Series, lambda values: np.array(values, dtype=object)])
def test_mixed_numbers_and_text_raise_and_equal_numbers_are_one_group(make):
    mixed = make([1, "1", *range(2, 60)])
    with pytest.raises(
        ValueError, match=r"groups must have values of one type; found a number in row 1 \(1\) and text in row 2"
    ):
        check_groups(mixed, np.eye(60))
    numbers = make([1, 1.0, *range(2, 60)])
    assert check_groups(numbers, np.eye(60)).tolist() == [0, 0, *range(1, 59)]
    words = make(["1", "01", *map(str, range(2, 60))])
    assert np.unique(check_groups(words, np.eye(60))).size == 60


def test_the_design_effect_of_copies_is_the_number_of_copies():
    rng = np.random.default_rng(0)
    f, e = rng.uniform(0.2, 0.8, (2, 500))
    s = (rng.random(500) < f * e).astype(float)
    four = np.repeat(np.arange(500), 4)
    found = design_effect(f[four], e[four], s[four], np.ones(2000), four)
    longer = (student.ppf(0.975, 499) / student.ppf(0.975, np.inf)) ** 2
    assert found == pytest.approx(4 * 500 / 499 * longer)
    assert design_effect(f, e, s, np.ones(500), np.arange(500)) == pytest.approx(500 / 499 * longer)
    np.testing.assert_array_equal(sums_by_group(np.eye(3), np.array([1, 0, 1])), [[0, 1, 0], [1, 0, 1]])


def test_the_design_effect_is_the_largest_of_three_ratios():
    """The scores of both logits are 1 - f and 1 - e for labelled rows, and -fe/(1 - fe) times this for others."""
    rng = np.random.default_rng(3)
    group, largest = np.repeat(np.arange(40), 5), []
    for of_class, of_propensity in ((2.0, 0.0), (0.0, 2.0), (0.0, 0.0)):
        common = rng.normal(size=(2, 40))[:, group]
        f, e = expit(np.array([[of_class], [of_propensity]]) * common + 0.2 * rng.normal(size=(2, 200)))
        s, w = (rng.random(200) < f * e).astype(float), rng.uniform(0.5, 2.0, size=200)
        residual = np.where(s == 1, 1.0, -f * e / (1 - f * e))
        ratios = []
        for r in (residual * (1 - f), residual * (1 - e), f - np.average(f, weights=w)):
            left = w * (r - np.average(r, weights=w))
            ratios.append(np.square(np.bincount(group, left)).sum() / np.square(left / np.sqrt(w)).sum())
        factor = 40 / 39 * (student.ppf(0.975, 39) / student.ppf(0.975, np.inf)) ** 2
        assert design_effect(f, e, s, w, group) == pytest.approx(max(factor * max(ratios), 1.0))
        largest.append(int(np.argmax(ratios)))
    assert len(set(largest)) > 1


def test_table_classifier_accepts_groups_and_a_saved_model_keeps_their_intervals(tmp_path):
    X, s, group = make_groups(100, 5)
    table = pd.DataFrame(X, columns=["age", "visits"])
    model = TableClassifier(SAREMClassifier(propensity_attributes=["visits"])).fit(table, s, groups=group.astype(str))
    save(model, tmp_path / "model.skops")
    assert load(tmp_path / "model.skops").class_prior_interval() == model.class_prior_interval()
    blind = TableClassifier(SAREMClassifier(propensity_attributes=["visits"])).fit(table, s)
    assert width(model.class_prior_interval()) > 1.3 * width(blind.class_prior_interval())


def _survey(n=1200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = rng.random(n) < expit(2 * X[:, 0] - 0.5)
    return X, (y & (rng.random(n) < expit(X[:, 3]))).astype(int), np.full(n, 333.0)


@pytest.mark.usefixtures("models_without_error")
@pytest.mark.parametrize("make", [SAREMClassifier, SAREMClassifierCV, SARStackingClassifier])
def test_a_fit_warns_about_survey_weights_and_groups_rows_ignores_their_scale(make):
    X, s, w = _survey()
    seed = {} if make is SAREMClassifier else {"cv": 3, "random_state": 0}
    seed |= {"Cs": [1.0]} if make is SAREMClassifierCV else {}
    with pytest.warns(UserWarning, match="the 1,200 rows count as 399,600 rows.*groups='rows'"):
        short = make(propensity_attributes=[3], **seed).fit(X, s, sample_weight=w).class_prior_interval()
    robust = make(propensity_attributes=[3], **seed).fit(X, s, sample_weight=w, groups="rows").class_prior_interval()
    alone = make(propensity_attributes=[3], **seed).fit(X, s, groups="rows").class_prior_interval()
    np.testing.assert_allclose(robust, alone, atol=1e-6)
    assert short.high - short.low < 0.5 * (robust.high - robust.low)


def test_robust_errors_equal_the_sandwich_formula():
    X, s, _ = _survey()
    w = np.random.default_rng(1).uniform(0.5, 1.5, 1200)
    w *= 1200 / w.sum()
    model = SAREMClassifier(propensity_attributes=[3]).fit(X, s, sample_weight=w, groups="rows")
    beta = np.concatenate(
        [model.coef_[0], model.intercept_, model.propensity_coef_[0][[3]], model.propensity_intercept_]
    )
    F, E = np.column_stack([X, np.ones(1200)]), np.column_stack([X[:, 3], np.ones(1200)])

    def scores(beta):
        f, e = expit(F @ beta[:5]), expit(E @ beta[5:])
        residual = (s - f * e) / (1 - f * e)
        return np.column_stack([F * (residual * (1 - f))[:, None], E * (residual * (1 - e))[:, None]])

    step, ridge = 1e-5, np.diag([1.0, 1, 1, 1, 0, 1, 0])
    H = -np.column_stack([(w @ scores(beta + d) - w @ scores(beta - d)) / (2 * step) for d in step * np.eye(7)])
    g = w[:, None] * scores(beta)
    g -= np.outer(w, g.sum(axis=0) / w.sum())
    A = np.linalg.inv(H + ridge)
    expected = np.sqrt(np.diagonal(A @ (ridge + 1200 / 1199 * g.T @ g) @ A))
    found = model.standard_errors()
    np.testing.assert_allclose(
        np.concatenate([found.coef[0], found.intercept, found.propensity_coef[0][[3]], found.propensity_intercept]),
        expected,
        rtol=1e-4,
    )


def test_sampling_variances_with_groups_are_those_of_ratios_of_group_totals():
    """The class prior is a mean of f; the label frequency is the ratio of the sums of fe and f."""
    X, s, group = make_groups(60, 5)
    w = np.random.default_rng(2).uniform(0.5, 1.5, 300)
    model = logistic().fit(X, s, sample_weight=w, groups=group)
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    prior, c = np.average(f, weights=w), (w @ (f * e)) / (w @ f)
    expected = [
        60 / 59 * np.square(np.bincount(group, w * (f - prior))).sum() / w.sum() ** 2,
        60 / 59 * np.square(np.bincount(group, w * f * (e - c))).sum() / (w @ f) ** 2,
    ]
    inference = model.fitted_pair_.inference
    np.testing.assert_allclose(inference.row_variances, expected, rtol=1e-9)
    found = inference.class_prior
    error = np.sqrt(inference.precision.errors(found.gradient[None])[0] ** 2 + expected[0])
    assert model.standard_errors().class_prior == pytest.approx(error, rel=1e-9)
    half = error / (prior * (1 - prior)) * student.ppf(0.975, 59)
    low, high = logit(model.class_prior_interval()) - logit(prior)
    assert (low, high) == pytest.approx((-half, half), rel=1e-6)


def test_weights_of_groups_of_one_row_have_the_number_of_weighted_rows_as_their_sum():
    np.testing.assert_allclose(weights_for_groups(np.array([0.0, 2.0, 6.0]), "rows"), [0.0, 0.5, 1.5])
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        weights_for_groups(np.zeros(3), "rows")
    np.testing.assert_array_equal(weights_for_groups([1, 2, 3], np.arange(3)), [1, 2, 3])
    assert weights_for_groups(7.0, "rows") is None


class KnownErrors:
    """Stands for the inference of a fit whose class prior has a known standard error."""

    class_prior = None

    def __init__(self, error):
        self.error = error

    def error_of(self, functional):
        return self.error

    def quantile(self, level):
        return 2.0


@pytest.mark.parametrize(
    ("before", "after", "ratio"), [(1.0, 3.0, 9.0), (2.0, 1.0, 1.0), (np.inf, np.inf, 1.0), (0.0, 1.0, 1.0)]
)
def test_groups_widen_intervals_by_the_ratio_of_the_errors_and_never_shorten_them(before, after, ratio):
    assert variance_ratio(KnownErrors(before), KnownErrors(after)) == ratio


def test_a_fit_does_not_warn_about_counts_of_rows():
    X, s, _ = _survey(400)
    SAREMClassifier(propensity_attributes=[3]).fit(X, s, sample_weight=np.full(400, 2.0))  # a warning would be an error


def test_groups_with_pandas_missing_values_raise():
    with pytest.raises(ValueError, match="groups has 20 missing values"):
        check_groups(pd.Series(pd.array(["a", "b", None] * 20, dtype="string")), np.eye(60))


def test_a_scalar_weight_is_accepted_with_groups_rows():
    X, s, _ = _survey(400)
    model = SAREMClassifier(propensity_attributes=[3]).fit(X, s, sample_weight=5, groups="rows")
    plain = SAREMClassifier(propensity_attributes=[3]).fit(X, s, groups="rows")
    assert model.class_prior_interval() == plain.class_prior_interval()


def _weighted_results(X, s, w):
    """Yield functions that have no groups and treat weights as counts, with their names."""
    model, given = SCARClassifier().fit(X, s), {"sample_weight": w}
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    thin, some = sparse.csr_matrix(X), {"n_resamples": 20}
    yield "SCARClassifier", lambda: SCARClassifier().fit(X, s, **given)
    yield "bootstrap_intervals", lambda: bootstrap_intervals(model, X, s, **given, **some)
    yield "bootstrap_intervals", lambda: bootstrap_intervals(SCARClassifier(0.4).fit(thin, s), thin, s, **given, **some)
    yield "calibration curves", lambda: label_calibration(s, f, propensity=e, **given)
    yield "scar_test", lambda: scar_test(X, s, propensity_attributes=[3], n_simulations=19, cv=2, **given)
    yield "labelling_attributes", lambda: labelling_attributes(X, s, classification_attributes=[0, 1], **given)
    yield "BestBinEstimator", lambda: BestBinEstimator(**some).fit(X, s, **given)


def test_functions_without_groups_warn_about_survey_weights():
    X, _, w = _survey(600)
    rng = np.random.default_rng(1)
    s = ((rng.random(len(X)) < expit(3 * X[:, 0])) & (rng.random(len(X)) < 0.4)).astype(int)
    pairs = zip(_weighted_results(X, s, w), _weighted_results(X, s, w / w.mean()), strict=True)
    for (name, run), (_, scaled) in pairs:
        with pytest.warns(UserWarning, match=rf"^{name}: .* 600 rows count as 199,800 rows.*divide the weights by"):
            run()
        scaled()  # warnings are errors
    groups = np.arange(len(X)) // 2
    bootstrap_intervals(SCARClassifier().fit(X, s), X, s, sample_weight=w, groups=groups, n_resamples=20)

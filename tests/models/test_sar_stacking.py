"""The stack: recalibrated mean of the members, intervals and summary."""

import pickle
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from scarless import SAREMClassifierCV, SARStackingClassifier
from scarless.models.base import SET_WITHOUT_PROPENSITY_ATTRIBUTES as WITHOUT
from scarless.models.messages import warn_if_all_positive
from scarless.pair.draws import default_forest
from scarless.pair.stack import LOG_LIKELIHOOD_SCALE, needs_dense

BOOSTING = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=4, max_bins=16)
PAIR = [("logistic", None), ("boosting", BOOSTING)]
pytestmark = pytest.mark.filterwarnings("ignore:.* began to memorise labels")


def stack(estimators=PAIR, **options):
    return SARStackingClassifier(estimators, **({"propensity_attributes": [2], "cv": 2, "random_state": 0} | options))


@pytest.fixture(scope="module")
def pu():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    y = rng.random(240) < expit(1.5 * X[:, 0] - X[:, 1] - 0.3)
    return SimpleNamespace(X=X, s=(y & (rng.random(240) < 0.3 + 0.6 * expit(1.5 * X[:, 2]))).astype(int))


@pytest.fixture(scope="module")
def fitted(pu):
    return stack().fit(pu.X, pu.s)


def test_probabilities_are_the_recalibrated_mean_of_the_members(pu, fitted):
    X = pu.X[:100] + 0.1
    assert [(member.name, member.attributes) for member in fitted.members_] == [
        ("logistic", "all"), ("logistic", WITHOUT), ("boosting", WITHOUT)
    ]  # fmt: skip

    def moved(found, u):
        return found.centre + found.shift + found.slope * (u - found.centre)

    weights = [member.weight for member in fitted.members_]
    assert max(weights) == 1
    gaps = np.diff([member.recalibration.log_likelihood for member in fitted.members_])
    np.testing.assert_allclose(np.diff(np.log(weights)), gaps / LOG_LIKELIHOOD_SCALE)
    parts = [expit(moved(member.recalibration, member.logits(X))) for member in fitted.members_]
    mean = np.average(parts, axis=0, weights=weights)
    expected = expit(moved(fitted.recalibration_, logit(mean)))
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 1], expected, rtol=1e-9)
    linear = X @ fitted.propensity_coef_[0] + fitted.propensity_intercept_[0]
    np.testing.assert_allclose(fitted.predict_propensity(X), expit(linear), rtol=1e-9)
    assert not fitted.propensity_coef_[0][[0, 1, 3]].any()


def test_class_prior_and_likelihood_come_from_out_of_fold_logits(pu, fitted):
    weights = [member.weight for member in fitted.members_]
    mean = np.average([member.f for member in fitted.members_], axis=0, weights=weights)
    f, e = expit(fitted.recalibration_(logit(mean))), fitted.predict_propensity(pu.X)
    assert fitted.class_prior_ == pytest.approx(f.mean())
    assert fitted.label_frequency_ == pytest.approx(f @ e / f.sum())
    value = np.where(pu.s == 1, np.log(f * e), np.log(1 - f * e)).sum()
    assert fitted.log_likelihood_ == pytest.approx(value)


def test_a_member_uses_only_the_columns_of_its_attribute_set(pu, fitted):
    moved = pu.X.copy()
    moved[:, 2] += 5.0
    for member in fitted.members_:
        same = np.array_equal(member.logits(moved), member.logits(pu.X))
        assert same == (member.attributes == WITHOUT) or member.name == "boosting"


def test_intervals_contain_the_estimate_and_widen_with_the_level(pu, fitted):
    low, high = fitted.class_prior_interval()
    assert low < fitted.class_prior_ < high
    f = fitted.predict_proba(pu.X)[:, 1]
    widths = []
    for level in (0.5, 0.9, 0.99):
        ends = fitted.predict_proba_interval(pu.X, level=level)
        assert ((ends >= 0) & (ends <= 1)).all()
        widths.append(ends[:, 1] - ends[:, 0])
        prior = fitted.class_prior_interval(level=level)
        assert prior.low <= fitted.class_prior_ <= prior.high or level < 0.9
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()
    inside = (ends[:, 0] <= f) & (f <= ends[:, 1])
    assert inside.mean() > 0.98
    with pytest.raises(ValueError, match="level"):
        fitted.predict_proba_interval(pu.X, level=1.5)


def test_a_row_interval_is_a_quantile_over_members_and_class_priors(pu, fitted):
    row, values, weights = pu.X[:1], [], []
    us = [member.logits(row) for member in fitted.members_]
    mean = np.mean([expit(member.recalibration(u)) for member, u in zip(fitted.members_, us, strict=True)], axis=0)
    found = [member.recalibration for member in fitted.members_] + [fitted.recalibration_]
    for recalibration, u in zip(found, [*us, logit(mean)], strict=True):
        values.append(recalibration.logits_on_grid(u)[0])
        weights.append(recalibration.grid.interval_weight / len(found))
    values, weights = np.concatenate(values), np.concatenate(weights)
    low, high = logit(fitted.predict_proba_interval(row, level=0.8)[0])
    biggest = weights.max()  # the largest step of the distribution
    assert weights[values <= low].sum() == pytest.approx(0.1, abs=biggest)
    assert weights[values >= high].sum() == pytest.approx(0.1, abs=biggest)


def test_posterior_intervals_contain_the_posterior(pu, fitted):
    q = fitted.predict_posterior(pu.X, pu.s)
    ends = fitted.predict_posterior_interval(pu.X, pu.s, level=0.99)
    np.testing.assert_array_equal(ends[pu.s == 1], 1.0)
    assert ((ends[:, 0] <= q) & (q <= ends[:, 1])).mean() > 0.98
    wider, of_class = ends[pu.s == 0], fitted.predict_proba_interval(pu.X, level=0.99)[pu.s == 0]
    spans = [np.diff(logit(np.clip(each, 1e-12, 1 - 1e-12)), axis=1) for each in (wider, of_class)]
    assert (
        spans[0] >= spans[1] - 1e-9
    ).mean() > 0.98  # A higher class prior means lower propensities, and both raise the posterior.
    with pytest.raises(TypeError, match="s must be the observed labels"):
        fitted.predict_posterior_interval(pu.X, None)
    assert not hasattr(fitted, "standard_errors")  # a stack has no coefficients of the class model


def test_the_summary_names_every_member(pu, fitted):
    summary = fitted.summary(level=0.9)
    text, page = str(summary), summary._repr_html_()
    for member in fitted.members_:
        for shown in (text, page):
            assert f"{member.name}, {member.attributes}" in shown
            assert f"{member.recalibration.class_prior:.3f}" in shown
            assert f"{member.recalibration.log_likelihood / 240:.5f}" in shown
    assert "all together" in text
    assert f"x2 {fitted.propensity_coef_[0, 2]:.3g}" in text
    assert "90% interval" in text
    assert page.count("<tr>") == 5  # headings, three members, the stack
    assert repr(summary) == text


def test_the_summary_as_a_frame(pu, fitted):
    pytest.importorskip("pandas")
    frame = fitted.summary().to_frame()
    assert len(frame) == 4
    assert frame.loc[("all together", ""), "class_prior"] == fitted.class_prior_
    assert frame.loc[("boosting", WITHOUT), "slope"] == fitted.members_[2].recalibration.slope
    assert (frame["low"] <= frame["high"]).all()


@pytest.mark.filterwarnings("ignore:.* nearly every row is positive")
def test_names_in_a_summary_are_escaped(pu):
    model = stack([("<b>", None)], propensity_attributes=None).fit(pu.X, pu.s)
    page = model.summary()._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "No propensity attributes are named" in str(model.summary())


@pytest.mark.filterwarnings("ignore:.* nearly every row is positive")
def test_none_and_all_are_equal_and_a_list_names_a_column(pu):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(pu.X, columns=["a", "b", "all", "d"])
    nothing, word, column, third = (
        stack([("logistic", None)], propensity_attributes=given).fit(frame, pu.s)
        for given in (None, "all", ["all"], [2])
    )
    np.testing.assert_array_equal(nothing.predict_proba(frame), word.predict_proba(frame))
    assert len(word.members_) == 1
    np.testing.assert_array_equal(column.predict_proba(frame), third.predict_proba(frame))
    assert np.flatnonzero(column.propensity_coef_[0]).tolist() == [2]
    assert list(column.feature_names_in_) == ["a", "b", "all", "d"]
    assert "all " in str(column.summary()).split("Propensity, logit: ")[1][:5]


def test_attribute_sets_of_the_user(pu):
    model = stack([("logistic", None)], attribute_sets={"first": [0], "both": [0, 1]}).fit(pu.X, pu.s)
    assert [member.attributes for member in model.members_] == ["first", "both"]
    assert [member.model.columns.tolist() for member in model.members_] == [[0], [0, 1]]
    with pytest.raises(ValueError, match="attribute_sets: each set needs a different name; got 'all', 'all'"):
        stack(attribute_sets=[None, None]).fit(pu.X, pu.s)
    for given in ([], "some", 5):
        with pytest.raises(ValueError, match="attribute_sets must be 'auto', or a list or dict of column selectors"):
            stack(attribute_sets=given).fit(pu.X, pu.s)


@pytest.mark.parametrize(
    ("estimators", "text"),
    [
        ([], "estimators must be a list of pairs"),
        ("logistic", "estimators must be a list of pairs"),
        (BOOSTING, "estimators must be a list of pairs"),
        ({"logistic": None}, "estimators must be a list of pairs"),
        ([None], "estimators must be a list of pairs"),
        ([(1, None)], "estimators must be a list of pairs"),
        ([("a", None), ("a", BOOSTING)], "estimators: each classifier needs a different name; got 'a', 'a'"),
        ([("a", RidgeClassifier())], "a=RidgeClassifier has no predict_proba"),
        ([("a", LogisticRegression)], "a must be an instance of a scikit-learn classifier"),
        ([("a", "forest")], "a must be an instance of a scikit-learn classifier"),
    ],
)
def test_invalid_estimators_are_refused(pu, estimators, text):
    model = stack(estimators)
    repr(model)
    with pytest.raises(ValueError, match=text):
        model.fit(pu.X, pu.s)


@pytest.mark.parametrize(
    "option",
    [{"propensity_C": -1}, {"tol": 0}, {"known": 4}, {"max_iter": 0}, {"cv": 1}],
    ids=lambda option: next(iter(option)),
)
def test_options_out_of_range_are_named(pu, option):
    (name,) = option
    with pytest.raises(ValueError, match=f"{name} must be"):
        stack(**option).fit(pu.X, pu.s)


def test_logistic_models_refuse_missing_values_and_text(pu):
    X = pu.X.copy()
    X[5, 2] = np.nan
    with pytest.raises(ValueError, match="NaN at row 5, column 2"):
        stack().fit(X, pu.s)
    with pytest.raises(ValueError, match="logistic model uses columns with NaN"):
        stack([("boosting", BOOSTING)]).fit(X, pu.s)
    X[:, 2], X[5, 0] = pu.X[:, 2], np.nan
    model = stack([("boosting", BOOSTING)]).fit(X, pu.s)  # boosting accepts missing values
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_copy_of_a_fitted_stack_predicts_the_same(pu, fitted, tmp_path):
    joblib.dump(fitted, tmp_path / "stack")
    for copy in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "stack")):
        np.testing.assert_array_equal(copy.predict_proba(pu.X), fitted.predict_proba(pu.X))
        np.testing.assert_array_equal(copy.predict_proba_interval(pu.X), fitted.predict_proba_interval(pu.X))
        assert str(copy.summary()) == str(fitted.summary())
    assert pu.X[:3].tobytes() not in pickle.dumps(fitted)


def test_clones_have_the_parameters_and_fit_the_same_and_verbose_prints_what_is_fitted(pu, fitted, capsys):
    copy = clone(fitted)
    assert not hasattr(copy, "members_")
    given = copy.get_params()
    assert given["propensity_attributes"] == [2]
    assert [name for name, _ in given["estimators"]] == ["logistic", "boosting"]
    copy.set_params(verbose=True).fit(pu.X, pu.s)
    np.testing.assert_array_equal(copy.predict_proba(pu.X), fitted.predict_proba(pu.X))
    out = capsys.readouterr().out
    for part in ("logistic, all", "boosting, all", "stage 1, held-out log-likelihood per row"):
        assert f"SARStackingClassifier: {part}" in out
    assert copy.set_params(cv=3).cv == 3


def test_weights_equal_copies_and_row_order_does_not_matter(simulated):
    data = simulated(n=120)
    estimators = [("logistic", None), ("tree", DecisionTreeClassifier(max_depth=1, random_state=0))]
    weight = np.random.default_rng(0).integers(0, 3, 120)
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(120), weight))
    model = stack(estimators, attribute_sets=[[0, 1]])
    weighted = clone(model).fit(data.X, data.s, sample_weight=weight)
    copied = clone(model).fit(data.X[rows], data.s[rows])
    np.testing.assert_allclose(weighted.predict_proba(data.X), copied.predict_proba(data.X), atol=1e-5)
    assert weighted.class_prior_ == pytest.approx(copied.class_prior_, abs=1e-5)


def test_folds_of_the_user_and_rows_in_no_fold(pu):
    folds, options = list(StratifiedKFold(3).split(pu.X, pu.s)), {"attribute_sets": [[0, 1]]}
    boosting = [("boosting", BOOSTING)]
    listed, split = (stack(boosting, cv=cv, **options).fit(pu.X, pu.s) for cv in (folds, StratifiedKFold(3)))
    np.testing.assert_array_equal(listed.predict_proba(pu.X), split.predict_proba(pu.X))
    some = stack(boosting, cv=folds[:2], **options).fit(pu.X, pu.s)
    judged = np.concatenate([test for _, test in folds[:2]])
    f = expit(some.recalibration_(logit(np.mean([member.f for member in some.members_], axis=0))))
    assert some.class_prior_ == pytest.approx(f[judged].mean())
    assert some.summary().members[-1].log_likelihood == pytest.approx(some.log_likelihood_ / judged.size)


def test_nothing_is_printed_by_default(pu, capsys):
    stack([("logistic", None)], attribute_sets=[[0, 1]]).fit(pu.X, pu.s)
    assert capsys.readouterr().out == ""


def test_the_stack_is_nearer_to_the_truth_than_the_naive_model(simulated):
    data = simulated(n=1000, low=0.2, high=0.7)
    model = stack([("logistic", None), ("tree", DecisionTreeClassifier(max_depth=3))], attribute_sets=[None])
    f = model.fit(data.X, data.s).predict_proba(data.X)[:, 1]
    naive = LogisticRegression().fit(data.X, data.s).predict_proba(data.X)[:, 1]
    assert np.mean((f - data.f) ** 2) < 0.3 * np.mean((naive - data.f) ** 2)
    assert model.n_iter_ >= 1
    assert model.converged_


@pytest.mark.filterwarnings("ignore:.* finds that all positives are labelled:UserWarning")
@pytest.mark.parametrize(
    "model",
    [
        SARStackingClassifier([("logistic", None)], cv=3, random_state=0),
        SAREMClassifierCV(propensity_attributes="all", Cs=[1.0, 10.0], cv=3, random_state=0),
    ],
    ids=["stack", "search"],
)
def test_models_with_the_same_columns_are_not_swapped_if_every_positive_is_labelled(model):
    y = np.arange(200) % 2
    X = np.random.default_rng(0).normal(size=(200, 2)) + 4.0 * y[:, None]
    model.fit(X, y)
    assert model.class_prior_ == pytest.approx(0.5, abs=0.01)
    wrong = np.flatnonzero(model.predict(X) != y)
    assert wrong.size <= 2  # rows between the classes, which may look like unlabelled positives
    assert not y[wrong].any()


def test_a_fit_that_finds_every_row_positive_warns():
    with pytest.warns(
        UserWarning,
        match=r"M finds that nearly every row is positive \(class prior 0\.990; 30% of the rows are labelled",
    ):
        warn_if_all_positive(0.99, 0.3, "M")
    warn_if_all_positive(0.9, 0.3, "M")
    warn_if_all_positive(0.99, 0.98, "M")


def test_of_the_default_members_boosting_alone_needs_dense_rows(pu):
    X = sparse.csr_array(pu.X)
    given = {"attribute_sets": [[0, 1]]}
    without_boosting = [("logistic", None), ("forest", default_forest())]
    model, dense = stack(None, **given).fit(X, pu.s), stack(without_boosting, **given).fit(pu.X, pu.s)
    assert [member.name for member in model.members_] == ["logistic", "forest"]
    by_name = stack(without_boosting, **given).fit(X, pu.s)
    np.testing.assert_array_equal(model.predict_proba(X), by_name.predict_proba(X))
    logistic = [each.members_[0] for each in (model, dense)]  # equal up to the tolerance of recalibration
    np.testing.assert_allclose(logistic[0].f, logistic[1].f, atol=1e-3)
    said = "gradient boosting needs dense input, so it was left out. If memory allows, pass X.toarray()"
    assert any(said in note for note in model.summary().remarks)
    assert not any(said in note for note in dense.summary().remarks)


@pytest.mark.parametrize(
    "members", [PAIR, [("boosting", BOOSTING)], [("tree", DecisionTreeClassifier()), ("boosting", GaussianNB())]]
)
def test_members_that_cannot_read_sparse_rows_are_named_before_any_fit(pu, members, monkeypatch):
    monkeypatch.setattr(SARStackingClassifier, "_fit_stack", None)
    with pytest.raises(ValueError, match=r"these members need dense rows: 'boosting'.*Pass X\.toarray\(\)"):
        stack(members).fit(sparse.csr_array(pu.X), pu.s)


def test_members_that_can_read_sparse_rows_are_kept(pu):
    to_dense = make_pipeline(FunctionTransformer(sparse.csr_array.toarray, accept_sparse=True), LogisticRegression())
    for member in (LogisticRegression(), None):
        model = stack([("own", member)], attribute_sets=[[0, 1]]).fit(sparse.csr_array(pu.X), pu.s)
        assert [each.name for each in model.members_] == ["own"]
    assert not needs_dense(to_dense)


def test_sparse_rows_are_refused_by_a_stack_that_was_fitted_to_dense_ones(pu, fitted):
    with pytest.raises(ValueError, match=r"X is sparse, but these members need dense rows: 'boosting'"):
        fitted.predict_proba(sparse.csr_array(pu.X))


def test_audits_of_no_row_change_nothing(pu):
    model = stack([("logistic", None)], attribute_sets=[[0, 1]])
    plain, audited = clone(model).fit(pu.X, pu.s), clone(model).fit(pu.X, pu.s, audit=np.full(len(pu.s), -1))
    assert audited.class_prior_ == plain.class_prior_
    assert audited.fitted_pair_.looks is None

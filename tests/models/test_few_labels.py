"""Few labels and no named attributes: the stack, the warnings of fits, and decision thresholds."""

import warnings

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from tests.helpers import quick_first

from scarless import (
    ClassPrior,
    ClassPriorWarning,
    LabelFrequency,
    NaiveClassifier,
    PropensityWeightedClassifier,
    PseudoObservations,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
    TableClassifier,
)
from scarless.models.messages import warn_if_class_prior_is_uncertain
from scarless.models.sar_stacking import ASSUMED_FOLLOW_SLOPE, MIN_GAIN_PER_COLUMN, MIN_LABELLED_FOR_BOOSTING
from scarless.pair.recalibrated import grid_interval
from scarless.pair.stack import FoundColumn, mean_logits


def labelled_table(n_rows=300, frequency=0.15, seed=0):
    """Return rows whose labels are selected completely at random."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    y = rng.random(n_rows) < expit(3.0 * X[:, 0])
    return X, (y & (rng.random(n_rows) < frequency)).astype(int)


@pytest.fixture(scope="module")
def few():
    return labelled_table()


@pytest.fixture(scope="module")
def stack(few):
    return SARStackingClassifier(cv=2, random_state=0).fit(*few)


def test_without_named_attributes_the_propensity_rises_with_the_class_logit(few, stack):
    X, _ = few
    f, e = stack.predict_proba(X)[:, 1], stack.predict_propensity(X)
    np.testing.assert_allclose(logit(e), stack.propensity_intercept_[0] + ASSUMED_FOLLOW_SLOPE * logit(f), atol=1e-9)
    assert not stack.propensity_coef_.any()
    assert "class logit 0.5" in str(stack.summary())
    assert "No propensity attributes are named" in str(stack.summary())


def test_naming_every_column_equals_naming_none(few):
    X, s = few[0][:, :2], few[1]
    models = [SARStackingClassifier([("l", None)], propensity_attributes=p, cv=2, random_state=0).fit(X, s)
              for p in (None, "all", [0, 1])]  # fmt: skip
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].predict_proba(X), other.predict_proba(X))


def test_boosting_needs_labels(few, stack):
    X, s = few
    assert [member.name for member in stack.members_] == ["logistic", "boosting", "forest"]
    fewer = np.where(np.cumsum(s) <= MIN_LABELLED_FOR_BOOSTING - 1, s, 0)
    model = SARStackingClassifier(cv=2, random_state=0).fit(X, fewer)
    assert [member.name for member in model.members_] == ["logistic", "forest"]
    said = " ".join(str(model.summary()).split())
    assert "Gradient boosting was left out: it needs at least 20 labelled rows, and there are 19" in said


def test_members_without_weight_do_not_change_predictions_and_are_named():
    X, s = labelled_table(n_rows=600, frequency=0.3)

    options = {"cv": 2, "random_state": 0, "find_attributes": False}
    model = SARStackingClassifier([("l", None)], attribute_sets={"all": None, "noise": [3]}, **options).fit(X, s)
    assert [(member.attributes, member.weight) for member in model.members_] == [("all", 1.0), ("noise", 0.0)]
    said = " ".join(str(model.summary()).split())
    assert "left out, because held-out labels are much less likely with them: 'l, noise'." in said
    alone = SARStackingClassifier([("l", None)], **options).fit(X, s)
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: logistic_stack(),  # noqa: PLW0108 - defined below
        lambda: SAREMClassifierCV(cv=2, Cs=[1.0], random_state=0),
        SCARClassifier,
        lambda: SAREMClassifier(LogisticRegression(), cv=2, random_state=0),
    ],
    ids=["stack", "search", "scar", "cross-fit"],
)
def test_fits_to_few_labels_warn_about_the_class_prior(few, make):
    X, s = few
    text = (
        r"there are only \d+ labelled rows. The ranking of rows is rough with so few labels. Do not rely on the "
        r"number of positives \(class prior 0\.\d\d, 95% interval 0\.\d\d to 0\.\d\d\), nor on predict\(\), which "
        r"depends on the class prior. Name the attributes that drive the labelling, or audit about 30 unlabelled "
        r"rows: see scarless.diagnostics.plan_audit."
    )
    with pytest.warns(ClassPriorWarning, match=text):
        make().fit(X, s)


def test_the_warning_about_one_label_is_singular():
    with pytest.warns(ClassPriorWarning, match="M: there is only 1 labelled row. The ranking of rows is rough"):
        warn_if_class_prior_is_uncertain("M", 1.0, 0.4, None, nameless=False, swappable=False)


def test_pseudo_observations_do_not_suppress_the_warning(few):
    with pytest.warns(ClassPriorWarning, match="there are only"):
        logistic_stack(known=[PseudoObservations(1000)]).fit(*few)


@pytest.mark.parametrize("make", [SAREMClassifier, lambda **given: SAREMClassifierCV(cv=2, Cs=[1.0], **given)])
def test_models_with_the_same_columns_warn_that_they_may_be_swapped(few, make):
    X, s = few
    text = "use the same columns and may be swapped: compare the ranking of rows with the ranking by NaiveClassifier"
    with pytest.warns(ClassPriorWarning, match=text):
        make(propensity_attributes="all").fit(X, s)


def test_a_wide_interval_gets_a_warning_with_many_labels_too():
    X, s = labelled_table(n_rows=1000, frequency=0.3)
    with pytest.warns(ClassPriorWarning, match="the labels do not determine the class prior"):
        logistic_stack().fit(X, s)


def test_many_labels_and_a_narrow_interval_need_no_warning():
    X, s = labelled_table(n_rows=3000, frequency=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SAREMClassifier(propensity_attributes=[1]).fit(X, s)
    low, high = model.class_prior_interval()
    assert high - low < 0.5


MODELS = {
    "stack": lambda X, s: logistic_stack().fit(X, s),
    "pair": lambda X, s: SAREMClassifier(propensity_attributes=[1]).fit(X, s),
    "search": lambda X, s: SAREMClassifierCV(cv=2, Cs=[1.0], random_state=0).fit(X, s),
    "scar": lambda X, s: SCARClassifier(0.3).fit(X, s),
    "naive": lambda X, s: NaiveClassifier().fit(X, s),
    "known": lambda X, s: PropensityWeightedClassifier().fit(X, s, propensity=np.full(s.size, 0.3)),
}


@pytest.mark.parametrize("name", MODELS)
def test_decisions_use_the_documented_threshold(few, name):
    X, s = few
    model = MODELS[name](X, s)
    f = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X), f > 0.5)
    np.testing.assert_array_equal(model.predict(X, decision="accuracy"), f > 0.5)
    np.testing.assert_array_equal(model.predict(X, decision="balanced"), f > model.class_prior_)
    np.testing.assert_array_equal(model.predict(X, decision=(1, 4)), f > 0.2)


def test_the_balanced_threshold_maximises_balanced_accuracy():
    # Expected sensitivity plus specificity at the threshold t: sum_{f > t} f / P + sum_{f <= t} (1 - f) / N.
    f = np.sort(np.random.default_rng(0).beta(0.5, 2.0, 400))
    prior = f.mean()
    values = [f[i:].sum() / f.sum() + (1 - f[:i]).sum() / (1 - f).sum() for i in range(401)]
    assert int(np.argmax(values)) == int(np.searchsorted(f, prior))


def test_a_table_classifier_decides_like_its_classifier(few):
    pandas = pytest.importorskip("pandas")
    X, s = few
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = TableClassifier(SCARClassifier(0.3)).fit(frame, s)
    f = model.predict_proba(frame)[:, 1]
    np.testing.assert_array_equal(model.predict(frame, decision="balanced"), f > model.class_prior_)
    np.testing.assert_array_equal(model.predict(frame), f > 0.5)


def test_strata_use_the_class_prior_as_threshold(few):
    X, s = few
    X = np.column_stack([X, np.arange(300) % 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = StratifiedSCARClassifier(propensity_attributes=[4], label_frequency="elkan-noto").fit(X, s)
    f = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X, decision="balanced"), f > model.class_prior_)


@pytest.mark.parametrize("decision", ["best", 0.3, None, (1,), (1, 2, 3)])
def test_an_unknown_decision_is_refused(few, decision):
    X, s = few
    model = NaiveClassifier().fit(X, s)
    with pytest.raises(
        ValueError, match="decision must be 'accuracy', 'balanced', or a pair with the costs of a false positive"
    ):
        model.predict(X, decision=decision)


def test_costs_of_a_decision_are_checked(few):
    X, s = few
    model = NaiveClassifier().fit(X, s)
    with pytest.raises(ValueError, match="each cost of decision must be a number of at least 0"):
        model.predict(X, decision=(-1, 2))
    with pytest.raises(ValueError, match="decision: at least one of the two costs must be above 0"):
        model.predict(X, decision=(0, 0))


def logistic_stack(*, find_attributes=False, **options):
    given = {"find_attributes": find_attributes, "cv": 2, "random_state": 0}
    return SARStackingClassifier([("logistic", None)], **given, **options)


@pytest.mark.parametrize("named", quick_first(None, [2]))
@pytest.mark.parametrize("fact", [ClassPrior(0.45), LabelFrequency(0.2)], ids=["class prior", "label frequency"])
def test_a_stack_satisfies_an_exact_known_value(few, named, fact):
    X, s = few
    model = logistic_stack(propensity_attributes=named, known=[fact]).fit(X, s)
    assert getattr(model, f"{fact.share}_") == pytest.approx(fact.value, abs=2e-3)
    low, high = model.class_prior_interval()
    assert high - low < (1e-3 if fact.share == "class_prior" else 0.02)
    held_out = expit(model.recalibration_(mean_logits(model.members_)))  # The class prior is the mean of these.
    np.testing.assert_allclose(held_out.mean(), model.class_prior_, atol=0.01)


def test_an_uncertain_known_value_narrows_the_interval(few):
    X, s = few
    free, told = (logistic_stack(known=known).fit(X, s) for known in (None, [ClassPrior(0.45, se=0.05)]))
    widths = [np.ptp(model.class_prior_interval()) for model in (free, told)]
    assert widths[1] < 0.25 < widths[0]
    ends = sorted((free.class_prior_, 0.45))
    assert ends[0] <= told.class_prior_ <= ends[1]


def test_a_known_class_prior_suppresses_the_warning(few):
    X, s = few
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClassPriorWarning)
        logistic_stack(known=[ClassPrior(0.5, se=0.03)]).fit(X, s)


def test_known_values_that_labels_contradict_get_a_warning():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1_500, 2))
    y = rng.random(1_500) < expit(6.0 * X[:, 0])
    s = (y & (rng.random(1_500) < 0.7)).astype(int)
    with pytest.warns(UserWarning, match=r"the known class prior and the labels disagree: they are \d"):
        logistic_stack(propensity_attributes=[1], attribute_sets=[None], known=[ClassPrior(0.9, se=0.01)]).fit(X, s)


def test_a_class_prior_below_the_share_of_labels_is_refused(few):
    X, s = few
    with pytest.raises(ValueError, match=r"known has a class prior of 0\.01, but 0\.0\d+ of the rows are lab"):
        logistic_stack(known=[ClassPrior(0.01)]).fit(X, s)


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (0.3, r"known must be a list, such as \[ClassPrior\(0\.35, se=0\.02\)\]; got 0\.3"),
        ([0.3], r"known must contain only .*, LabelFrequency\(\.\.\.\) and PseudoObservations\(\.\.\.\); got 0\.3"),
        ([ClassPrior(0.3, where={0: 1})], r"known has the class prior where 0 = 1, but no row has these values"),
        ([LabelFrequency(0.3, look=1)], r"known has the label frequency of look 1, but labels have 1 look"),
    ],
)
def test_known_is_checked(few, known, told):
    with pytest.raises(ValueError, match=told):
        logistic_stack(known=known).fit(*few)


@pytest.fixture(scope="module")
def driven():
    """Return rows whose labelling depends on the last column, and whose class does not."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1_200, 4))
    y = rng.random(1_200) < expit(5.0 * X[:, 0])
    return X, (y & (rng.random(1_200) < expit(2.5 * X[:, 3] - 0.5))).astype(int)


def test_a_column_that_clearly_drives_the_labelling_is_found_and_used(driven):
    X, s = driven
    with pytest.warns(UserWarning, match=r"'x3' seems to drive the labelling \(held-out log-likelihood higher by"):
        found = logistic_stack(find_attributes=True).fit(X, s)
    named = logistic_stack(propensity_attributes=[3]).fit(X, s)
    np.testing.assert_array_equal(found.predict_proba(X), named.predict_proba(X))
    np.testing.assert_array_equal(found.predict_propensity(X), named.predict_propensity(X))
    assert found.class_prior_interval() == named.class_prior_interval()
    assert found.propensity_coef_[0, 3] > 1.0
    assert any(
        "'x3' seems to drive the labelling: with it in the propensity" in each for each in found.summary().remarks
    )
    assert not any("seems to drive" in each for each in named.summary().remarks)


@pytest.mark.parametrize("find", [True, False], ids=["find", "do not find"])
def test_found_columns_need_a_held_out_gain_and_find_attributes(driven, monkeypatch, find):
    X, s = driven
    if find:
        monkeypatch.setattr("scarless.models.sar_stacking.MIN_GAIN_PER_COLUMN", 1e9)
    model = logistic_stack(find_attributes=find).fit(X, s)
    assert not model.propensity_coef_.any()
    assert model.recalibration_.follow == ASSUMED_FOLLOW_SLOPE


def test_the_gain_must_be_due_to_the_found_columns(driven, monkeypatch):
    X, _ = driven
    rng = np.random.default_rng(1)
    s = (rng.random(len(X)) < 0.5 * expit(3.0 * X[:, 0])).astype(int)
    monkeypatch.setattr("scarless.models.sar_stacking.ASSUMED_FOLLOW_SLOPE", 4.0)  # contradicted by these labels
    monkeypatch.setattr("scarless.models.sar_stacking.MIN_GAIN_PER_COLUMN", 1.5)
    monkeypatch.setattr("scarless.models.sar_stacking.find_columns", lambda *_, **__: [FoundColumn(2, 9.0)])
    model, other = logistic_stack(find_attributes=True).fit(X, s), logistic_stack(propensity_attributes=[2]).fit(X, s)
    assert other.log_likelihood_ > model.log_likelihood_ + 1.5  # although the propensity is constant
    assert not model.propensity_coef_.any()


def test_more_than_100_columns_are_not_searched_and_the_summary_says_so(driven, monkeypatch):
    X, s = driven
    monkeypatch.setattr("scarless.models.sar_stacking.MAX_COLUMNS_SEARCHED", 3)
    model = logistic_stack(find_attributes=True).fit(X, s)
    assert not model.propensity_coef_.any()
    assert "Columns were not searched for propensity attributes, because there are more than 3" in " ".join(
        model.summary().remarks
    )


def test_intervals_allow_for_a_missing_propensity_attribute():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3_000, 4))
    y = rng.random(3_000) < expit(4.0 * X[:, 0])
    s = (y & (rng.random(3_000) < expit(1.5 * X[:, 1] + 3.0 * X[:, 0] - 2.0))).astype(
        int
    )  # column 0 drives the labelling but is not named
    model = logistic_stack(propensity_attributes=[1]).fit(X, s)
    without = grid_interval(model.fitted_pair_.grids[:-1], "class_prior", 0.95)
    low, high = model.class_prior_interval()
    assert low < without.high < y.mean() < high
    assert model._missing > MIN_GAIN_PER_COLUMN
    assert "A propensity attribute may be missing" in " ".join(model.summary().remarks)


def test_a_class_model_that_ranks_worse_than_the_naive_model_gets_a_warning():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    s = ((rng.random(400) < expit(4.0 * X[:, 0])) & (rng.random(400) < 0.3)).astype(int)
    with pytest.warns(
        UserWarning, match=r"ranks labelled rows worse than the naive model \(area under the ROC curve low"
    ):
        SAREMClassifier(propensity_attributes="all", C=1e-6, propensity_C=1e3).fit(X, s)


@pytest.mark.parametrize("seed", range(4))
def test_a_search_over_all_columns_ranks_like_the_naive_model_or_warns(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 10))
    y = rng.random(150) < expit(4.0 * X[:, 0])
    s = (y & (rng.random(150) < 0.12)).astype(int)
    model = SAREMClassifierCV(Cs=[0.1], propensity_Cs=[1.0], propensity_attributes="all", cv=3, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f = model.fit(X, s).predict_proba(X)[:, 1]
    naive = NaiveClassifier().fit(X, s).predict_proba(X)[:, 1]
    told = any("ranks labelled rows worse than the naive model" in str(each.message) for each in caught)
    assert told or roc_auc_score(y, f) > roc_auc_score(y, naive) - 0.05
    assert np.ptp(f) > 0.01  # the class model must explain part of the labels


def test_few_labels_of_several_looks_get_a_warning():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    looks = (rng.random((60, 2)) < 0.1).astype(int)
    with pytest.warns(ClassPriorWarning, match=r"there are only \d+ labelled rows"):
        SAREMClassifier(propensity_attributes=[1]).fit(X, looks)


def test_a_stack_says_that_its_members_rank_labels_worse_than_the_naive_model(few):
    X, s = few
    noise = SARStackingClassifier([("l", None)], attribute_sets={"noise": [3]}, cv=2, find_attributes=False)
    with pytest.warns(UserWarning, match="rank held-out labels worse than the naive model"):
        noise.set_params(random_state=0).fit(X, s)


@pytest.mark.parametrize("is_reversed", [True, False])
def test_a_stack_asks_whether_labels_are_reversed_only_if_most_rows_are_positive(is_reversed):
    """One row in ten is a case; in the reversed table the label says that a row is none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    is_case = rng.random(800) < expit(2.0 * X[:, 0] - 3.2)
    marked = ~is_case if is_reversed else is_case
    s = (marked & (rng.random(800) < 0.6)).astype(int)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SARStackingClassifier([("l", None)], cv=2, find_attributes=False, random_state=0).fit(X, s)
    told = [each for each in caught if "the labels are probably reversed" in str(each.message)]
    assert bool(told) == is_reversed
    assert all(issubclass(each.category, ClassPriorWarning) for each in told)


def boosted_rows(curved, intercept, seed, n_rows=2500):
    """Return rows whose first column affects both class and labelling, and a boosting classifier fitted to them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    u = 3.0 * X[:, 0] * X[:, 1] + X[:, 2] if curved else 1.5 * X[:, 0] + X[:, 1] - X[:, 2]
    y = rng.random(n_rows) < expit(u - 0.5)
    return X, (y & (rng.random(n_rows) < expit(intercept + X[:, 0]))).astype(int)


def fit_boosting(X, s):
    boosting = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    return SAREMClassifier(boosting, propensity_attributes=[0], random_state=0).fit(X, s)


def test_boosting_of_few_labels_warns_that_logistic_models_explain_held_out_labels_better():
    X, s = boosted_rows(curved=False, intercept=-2.5, seed=1)
    with pytest.warns(ClassPriorWarning) as caught:
        model = fit_boosting(X, s)
    texts = [str(each.message) for each in caught]
    assert any("logistic models explain held-out labels better than this classifier" in text for text in texts)
    assert any("Nor do they determine the ranking of rows" in text for text in texts)
    assert not any("ranking of rows hardly depends" in text for text in texts)
    assert "Logistic models explain held-out labels better" in str(model.summary())


@pytest.mark.parametrize("curved", quick_first(True, False))
@pytest.mark.filterwarnings("ignore:.*do not determine the class prior:UserWarning")
def test_boosting_of_many_labels_does_not_warn_about_logistic_models(curved):
    model = fit_boosting(*boosted_rows(curved, intercept=0.0, seed=1))
    assert "Logistic models explain" not in str(model.summary())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_boosting_that_uses_a_propensity_attribute_keeps_the_first_propensity_for_20_rounds():
    X, s = boosted_rows(curved=False, intercept=-1.0, seed=0, n_rows=600)
    means = fit_boosting(X, s).history_["mean_propensity"]
    assert np.ptp(means[:4]) == 0.0  # four stages of 5 rounds
    assert means[4] != means[3]
    boosting = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    options = {"propensity_attributes": [0], "classification_attributes": [1, 2, 3, 4, 5], "random_state": 0}
    assert np.ptp(SAREMClassifier(boosting, **options).fit(X, s).history_["mean_propensity"][:4]) > 0.0

"""A fit warns about claims on audits, looks, bounds, offsets and rates if the rows contradict them, and only then."""

import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from tests.helpers import fit_and_listen, quick_first

from scarless import Labelling, SAREMClassifier, SAREMClassifierCV, audited_class_prior
from scarless.checks.looks import warnings_about_audits
from scarless.labelling import simulate_audit, simulate_looks
from scarless.scale import ParquetRows

SEEDS = quick_first(*range(3))
pytestmark = pytest.mark.usefixtures("one_start")


class Seen:
    """Rows with three looks and 200 audits; the propensity depends on the last attribute."""

    def __init__(self, seed, n=3000):
        self.rng = rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, 4))
        self.y = rng.random(n) < expit(self.X @ [2, -1, 0.5, 0] - 0.6)
        self.logit = -self.X[:, 3] - 0.8
        self.S = simulate_looks(self.y, [expit(self.logit)] * 3, random_state=seed)
        self.s = self.S[:, 0]
        self.audit = simulate_audit(self.y, 200, random_state=seed)
        self.found = np.where(self.audit == 1, 1.0, self.s)  # findings entered as labels

    def audited(self, rows):
        audit = np.full(self.y.size, np.nan)
        audit[rows] = self.y[rows]
        return audit

    def drawn(self, which, size):
        return self.rng.choice(np.flatnonzero(which), size, replace=False)


def fit_pair(X, s, audit=None, attributes=(3,), **params):
    named = list(attributes) if isinstance(attributes, tuple) else attributes
    return fit_and_listen(SAREMClassifier(propensity_attributes=named, **params), X, s, audit=audit)


def summary_of(model):
    return " ".join(str(model.summary()).split())


def covers(model, y):
    low, high = model.class_prior_interval()
    return low < y.mean() < high


@pytest.mark.parametrize("seed", SEEDS)
def test_correct_claims_get_no_warning(seed):
    """Audits selected at random, by labels or by attributes; independent looks; true offsets, bounds and rates."""
    seen = Seen(seed)
    X, s, S = seen.X, seen.s, seen.S
    by_label = np.concatenate([seen.drawn(s == 1, 100), seen.drawn(s == 0, 100)])
    every_label = np.concatenate([np.flatnonzero(s == 1), seen.drawn(s == 0, 100)])
    by_attribute = np.flatnonzero(seen.rng.random(s.size) < 0.3 * expit(2 * X[:, 0]))
    for audit in (seen.audit, *map(seen.audited, (seen.drawn(s == 0, 200), by_label, every_label, by_attribute))):
        assert fit_pair(X, s, audit)[1] == []
    for looks, params in ((S[:, :2], {}), (S, {}), (S[:, :2], {"labelling": Labelling(shared=False)})):
        assert fit_pair(X, looks, **params)[1] == []
    false = np.where(seen.rng.random(s.size) < 0.03, 1.0, s)
    assert fit_pair(X, false, labelling=Labelling(false_positive_rate=0.03))[1] == []
    within = simulate_looks(seen.y, [0.2 + 0.6 * expit(seen.logit)], random_state=seed)[:, 0]
    assert fit_pair(X, within, labelling=Labelling(bounds=(0.2, 0.8)))[1] == []
    assert fit_pair(X, s, labelling=Labelling(bounds=(0.01, 1)))[1] == []
    effort = seen.rng.uniform(0.5, 10, s.size)
    by_effort = simulate_looks(seen.y, [expit(seen.logit - 2 + np.log(effort))], random_state=seed)[:, 0]
    assert fit_pair(np.column_stack([X, np.log(effort)]), by_effort, labelling=Labelling(offset=4))[1] == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("attributes", [(3,), "all"])
def test_audits_of_0_in_unaudited_rows_get_a_warning(seed, attributes):
    seen = Seen(seed)
    zeros = np.where(seen.s == 1, seen.audit, np.nan_to_num(seen.audit))
    model, told = fit_pair(seen.X, seen.s, zeros, attributes)
    assert not covers(model, seen.y)
    assert any("unlabelled rows have an audit" in each and "If 0 was filled in" in each for each in told)
    assert "If 0 was filled in" in summary_of(model)


def test_audits_of_0_in_labelled_rows_are_refused():
    seen = Seen(0)
    with pytest.raises(ValueError, match="use NaN or -1 in audit"):
        SAREMClassifier(propensity_attributes=[3]).fit(seen.X, seen.s, audit=np.nan_to_num(seen.audit))


@pytest.mark.parametrize("seed", SEEDS)
def test_audits_are_compared_with_a_fit_to_labels_alone(seed):
    """Wrong audits of 0 in half of the rows dominate a fit that includes them. A fit to labels alone disagrees."""
    seen = Seen(seed, n=4000)
    half = (np.arange(seen.s.size) % 2 == 0) & (seen.s == 0)
    model, told = fit_pair(seen.X, seen.s, np.where(half, np.nan_to_num(seen.audit), seen.audit))
    assert not covers(model, seen.y)
    assert any("positives, but labels and models predict" in each for each in told)


def test_audits_without_a_usable_fit_to_labels_alone():
    """A fit to the labels of equal rows predicts a positive in every row, with a standard error of 0."""
    s = (np.arange(117) % 13 < 4).astype(int)
    with pytest.warns(UserWarning, match=r"all 81 unlabelled rows have an audit \(0 positive, 81 negative\)"):
        model = SAREMClassifier(propensity_attributes=[2]).fit(np.zeros((117, 3)), s, audit=s)
    assert model.class_prior_ == pytest.approx(s.mean())


def test_audits_of_nearly_all_unlabelled_rows_get_a_warning():
    labels = np.r_[np.ones(10), np.zeros(100)].astype(np.int8)[:, None]
    audit = np.r_[np.full(10, -1), np.zeros(95), np.full(5, -1)].astype(np.int8)
    (told,) = warnings_about_audits(labels, audit)
    assert told.startswith("95 of the 100 unlabelled rows have an audit (0 positive, 95 negative).")
    audit[50:] = -1
    assert warnings_about_audits(labels, audit) == []


@pytest.mark.parametrize(
    ("n_seeds", "attributes"),
    [(1, (3,)), pytest.param(6, (3,), marks=pytest.mark.slow), pytest.param(6, "all", marks=pytest.mark.slow)],
)
def test_findings_entered_as_labels_get_a_warning(n_seeds, attributes):
    """By default the class prior is wrong, and the fit warns; with audit_labels='drop' the interval covers it.

    'undo' is exactly the fit to the labels before the audit. Over 40 seeds 'drop' covered 39 times, 'undo' 36 times.
    """
    right = 0
    for seed in range(n_seeds):
        seen = Seen(seed)
        model, told = fit_pair(seen.X, seen.found, seen.audit, attributes)
        assert not covers(model, seen.y)
        assert any("audited positives have a label" in each and "audit_labels='drop'" in each for each in told)
        dropped, told = fit_pair(seen.X, seen.found, seen.audit, attributes, labelling=Labelling(audit_labels="drop"))
        assert told == []
        right += covers(dropped, seen.y)
        only = seen.audited(seen.drawn(seen.s == 0, 200))
        later = np.where(only == 1, 1.0, seen.s)
        model, told = fit_pair(seen.X, later, only, attributes)
        assert any("audited positives have a label" in each for each in told)
        undone, told = fit_pair(seen.X, later, only, attributes, labelling=Labelling(audit_labels="undo"))
        assert told == []
        assert undone.class_prior_ == fit_pair(seen.X, seen.s, only, attributes)[0].class_prior_
    assert right >= min(n_seeds, 5)


@pytest.mark.parametrize(
    ("n_seeds", "attributes"),
    [(1, (3,)), pytest.param(3, (3,), marks=pytest.mark.slow), pytest.param(3, "all", marks=pytest.mark.slow)],
)
def test_how_rows_were_chosen_for_audits_is_compared_with_audit_labels(n_seeds, attributes):
    """Rows are audited regardless of their label, or only if unlabelled; at random, or by an attribute."""
    wrong = []
    for seed in range(n_seeds):
        for by_risk in (False, True):
            seen = Seen(seed)
            risk = expit(2 * seen.X[:, 0]) if by_risk else np.ones(seen.s.size)
            for right, other, share in (("drop", "undo", risk), ("undo", "drop", risk * (seen.s == 0))):
                rows = seen.rng.choice(seen.s.size, 300, replace=False, p=share / share.sum())
                audit = seen.audited(rows)
                found = np.where(audit == 1, 1.0, seen.s)
                model, told = fit_pair(seen.X, found, audit, attributes, labelling=Labelling(audit_labels=right))
                assert told == []
                instead, told = fit_pair(seen.X, found, audit, attributes, labelling=Labelling(audit_labels=other))
                wrong.append(any(f"audit_labels={other!r} assumes that" in each for each in told))
                assert all("rows contradict this" in each and f"use audit_labels={right!r}" in each for each in told)
                text = summary_of(instead)
                assert f"audit_labels={other!r} assumes that" in text
                assert (
                    f"If it is wrong, use audit_labels={right!r}: the class prior is then {model.class_prior_:.2f}"
                    in text
                )
    assert sum(wrong) >= 8 * n_seeds / 3


@pytest.mark.parametrize("seed", [0, 1])
def test_dropped_labels_of_several_looks_get_no_warning(seed):
    """With several looks, the two assumptions about audits cannot be compared."""
    seen = Seen(seed, n=1500)
    audit = seen.audited(seen.rng.choice(1500, 150, replace=False))
    entered = np.where((audit == 1)[:, None], 1.0, seen.S)
    model, told = fit_pair(seen.X, entered, audit, labelling=Labelling(audit_labels="drop"))
    assert not [each for each in told if "audit_labels" in each]
    assert "If this is wrong, so is the class prior." in summary_of(model)


def test_survey_weights_do_not_add_evidence_about_the_selection_for_audits():
    """Each row has weight 333, but the evidence must be the same as with weights of 1."""
    seen = Seen(0, n=1500)
    audit = seen.audited(seen.rng.choice(1500, 100, replace=False))
    found, remarks = np.where(audit == 1, 1.0, seen.s), []
    for weight in (1.0, 333.0):
        model = SAREMClassifier(
            propensity_attributes=[3], C=np.inf, propensity_C=np.inf, labelling=Labelling(audit_labels="drop")
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(seen.X, found, sample_weight=np.full(1500, weight), audit=audit)
        remarks.append(model._choice_remark)
    assert remarks[0] == remarks[1]


@pytest.mark.parametrize("weights", ["alike", "varied", "counts"])
def test_survey_weights_cause_no_further_warnings(weights):
    """With correct claims, the fit warns only about the weights; a copied look is still found."""
    seen = Seen(0, n=2000)
    by = {"alike": np.full(2000, 333.0), "varied": seen.rng.uniform(1, 600, 2000), "counts": np.full(2000, 2.0)}
    w, effort, copied = by[weights], seen.rng.uniform(0.5, 10, 2000), seen.S.copy()
    half = seen.rng.random(2000) < 0.6
    copied[half, 1] = copied[half, 0]
    by_effort = simulate_looks(seen.y, [expit(seen.logit - 2 + np.log(effort))], random_state=0)[:, 0]
    fits = [
        (seen.X, seen.S[:, :2], {}, None),
        (seen.X, seen.S, {}, None),
        (seen.X, seen.s, {}, seen.audit),
        (np.column_stack([seen.X, np.log(effort)]), by_effort, {"labelling": Labelling(offset=4)}, None),
        (seen.X, copied, {}, None),
    ]
    for number, (X, labels, params, audit) in enumerate(fits):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            SAREMClassifier(propensity_attributes=[3], **params).fit(X, labels, sample_weight=w, audit=audit)
        said = [str(each.message) for each in told]
        heavy = [each for each in said if "rows count as" in each and "groups='rows'" in each]
        assert len(heavy) == (weights != "counts")
        other = [each for each in said if each not in heavy]
        assert any("look 0 and look 1 agree more often" in each for each in other) if number == 4 else not other


def test_dropped_and_undone_labels_have_no_influence():
    seen = Seen(0)
    audited = ~np.isnan(seen.audit)
    gaps = np.where(audited, np.nan, seen.found)[:, None]
    for how, instead in (("drop", gaps), ("undo", np.where(audited, 0.0, seen.found))):
        got, _ = fit_pair(seen.X, seen.found, seen.audit, labelling=Labelling(audit_labels=how))
        want, _ = fit_pair(seen.X, instead, seen.audit)
        np.testing.assert_array_equal(got.coef_, want.coef_)
        assert ("dropped" if how == "drop" else "undone") in str(got.summary())
        np.testing.assert_array_equal(got.predict_posterior(seen.X, seen.found, seen.audit)[audited], seen.y[audited])


def test_dropped_labels_in_files_in_a_search_and_in_a_cross_fit(tmp_path):
    import pandas as pd

    seen, columns = Seen(1, n=1500), list("abcd")
    want, _ = fit_pair(seen.X, seen.found, seen.audit, labelling=Labelling(audit_labels="drop"))
    frame = pd.DataFrame(seen.X, columns=columns).assign(label=seen.found, checked=seen.audit)
    frame.to_parquet(tmp_path / "rows.parquet")
    stored = SAREMClassifier(propensity_attributes=["d"], labelling=Labelling(audit_labels="drop"))
    stored.fit(ParquetRows(tmp_path / "rows.parquet"), ["label"], audit="checked")
    assert stored.class_prior_ == pytest.approx(want.class_prior_, abs=1e-6)
    search = SAREMClassifierCV(
        propensity_attributes=[3], Cs=[1.0], cv=2, random_state=0, labelling=Labelling(audit_labels="drop")
    )
    assert covers(search.fit(seen.X, seen.found, audit=seen.audit), seen.y)
    crossed = SAREMClassifier(
        LogisticRegression(), propensity_attributes=[3], cv=2, random_state=0, labelling=Labelling(audit_labels="drop")
    )
    assert covers(crossed.fit(seen.X, seen.found, audit=seen.audit), seen.y)


def test_the_difference_estimator_knows_that_labels_came_from_audits():
    found = []
    for seed in range(4):
        seen = Seen(seed, n=1500)
        model, _ = fit_pair(seen.X, seen.found, seen.audit, labelling=Labelling(audit_labels="drop"))
        low, high = audited_class_prior(model, seen.X, seen.found, seen.audit, 200 / seen.y.size).interval
        found.append(low < seen.y.mean() < high)
    assert sum(found) >= 3


@pytest.mark.parametrize(
    ("how", "audit", "match"),
    [
        ("found", True, "audit_labels must be one of 'keep', 'drop', 'undo'; got 'found'"),
        ("drop", False, "audit_labels='drop' needs audits, and no row"),
        ("undo", "labelled", "audit_labels='undo' leaves no label, because all labelled rows were audited"),
    ],
)
def test_audit_labels_that_are_refused(how, audit, match):
    seen = Seen(0, n=500)
    given = {True: seen.audit, False: None, "labelled": np.where(seen.s == 1, 1.0, np.nan)}[audit]
    with pytest.raises(ValueError, match=match):
        SAREMClassifier(propensity_attributes=[3], labelling=Labelling(audit_labels=how)).fit(
            seen.X, seen.s, audit=given
        )


@pytest.mark.parametrize("attributes", [(3,), "all"])
def test_a_look_that_is_partly_a_copy_gets_a_warning(attributes):
    """With three looks, every run finds the copy. With two, only the form of the models can; a remark says so."""
    two = []
    for seed in range(3):
        seen = Seen(seed)
        S, copied = seen.S.copy(), seen.rng.random(seen.y.size) < 0.6
        S[copied, 1] = S[copied, 0]
        model, told = fit_pair(seen.X, S, attributes=attributes)
        assert not covers(model, seen.y)
        assert any(each.startswith("SAREMClassifier: look 0 and look 1 agree more often than") for each in told)
        model, told = fit_pair(seen.X, S[:, :2], attributes=attributes)
        assert not covers(model, seen.y)
        two.append(any("look 0 and look 1 agree more often than" in each for each in told))
        assert "the data hardly show whether one look is partly a copy of the other" in " ".join(
            str(model.summary()).split()
        )
        _, told = fit_pair(seen.X, S[:, :2], seen.audit, attributes)
        assert any("positives, but labels and models predict" in each for each in told)
    assert sum(two) >= 2


def test_looks_coded_as_0_after_a_label_get_a_warning():
    seen = Seen(0)
    S = seen.S.copy()
    S[:, 1:] *= np.cumsum(S, axis=1)[:, :-1] == 0
    _, told = fit_pair(seen.X, S, labelling=Labelling(shared=False))
    assert any("agree less often than independent looks would" in each and "NaN" in each for each in told)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bounds", [(0.6, 1), (0, 0.1)])
def test_bounds_that_rows_contradict_get_a_warning(seed, bounds):
    seen = Seen(seed)
    model, told = fit_pair(seen.X, seen.s, labelling=Labelling(bounds=bounds))
    assert not covers(model, seen.y)
    assert any("rows contradict the bounds" in each for each in told)
    assert "Propensity bounds are taken as given" in summary_of(model)


def test_a_bound_that_determines_the_class_prior_gets_a_warning():
    """The propensity is constant and slightly below the bound, so the bound alone determines the class prior."""
    seen = Seen(0)
    s = simulate_looks(seen.y, [0.45], random_state=0)[:, 0]
    _, told = fit_pair(seen.X, s, attributes=None, labelling=Labelling(bounds=(0.5, 1)))
    assert any("of positives is at the bound 0.5, so the bound determines the class prior" in each for each in told)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_effort_instead_of_its_logarithm_gets_a_warning(seed):
    seen = Seen(seed)
    effort = seen.rng.uniform(0.5, 10, seen.y.size)
    s = simulate_looks(seen.y, [expit(seen.logit - 2 + np.log(effort))], random_state=seed)[:, 0]
    model, told = fit_pair(np.column_stack([seen.X, effort]), s, labelling=Labelling(offset=4))
    assert not covers(model, seen.y)
    assert any("the logarithm of the offset fits better" in each for each in told)
    negative = np.column_stack(
        [seen.X, -3.0 * np.log(effort)]
    )  # has no logarithm, and the coefficient has the wrong sign
    _, told = fit_pair(negative, s, labelling=Labelling(offset=4))
    assert any("coefficient of an offset is 1" in each for each in told)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_false_positive_rate_that_is_too_high_gets_a_warning(seed):
    seen = Seen(seed)
    model, told = fit_pair(seen.X, seen.s, labelling=Labelling(false_positive_rate=0.1))
    assert any("labels do not fit a model with a false-positive rate of 0.1" in each for each in told)
    assert "With one look, the false-positive rate is taken as given" in " ".join(str(model.summary()).split())

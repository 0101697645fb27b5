"""Class prior from a model and audits."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scarless import NaiveClassifier, SAREMClassifier, SCARClassifier, audited_class_prior
from scarless.checks.labels import LabelCoding
from scarless.numerics.audits import Differences, difference_interval, inclusion_scale

Z = 1.959963984540054


class FixedPosterior(BaseEstimator):
    """A fitted classifier whose posterior of unlabelled rows is given."""

    label_coding_ = LabelCoding(np.array([0, 1]), 1)

    def __init__(self, q):
        self.q_ = np.asarray(q, dtype=float)

    def fit(self, X, y):
        return self

    def predict_posterior(self, X, s):
        return np.where(np.asarray(s) == 1, 1.0, self.q_)


Q = np.array([0.1, 0.6, 0.3, 0.8, 0.5, 0.2, 0.9])
Y = np.array([0, 1, 1, 0, 1, 0, 1])
S = np.array([0, 0, 0, 0, 0, 0, 1])
X7 = np.zeros((7, 1))


def numbers(found):
    return found.value, *found.interval, found.std_err


def audit_of(rows, y=Y):
    audit = np.full(len(y), np.nan)
    audit[list(rows)] = np.asarray(y)[list(rows)]
    return audit


def test_the_mean_over_all_samples_of_unlabelled_rows_is_the_share_of_positives():
    values = [audited_class_prior(FixedPosterior(Q), X7, S, audit_of(rows)).value for rows in combinations(range(6), 4)]
    assert np.mean(values) == pytest.approx(Y.mean(), abs=1e-12)


def test_audits_of_labelled_rows_do_not_change_the_estimate():
    """Labelled rows are a stratum in which the difference between class and posterior is 0."""
    for rows in combinations(range(6), 3):
        without = audited_class_prior(FixedPosterior(Q), X7, S, audit_of(rows))
        with_label = audited_class_prior(FixedPosterior(Q), X7, S, audit_of([*rows, 6]))
        assert numbers(without) == pytest.approx(numbers(with_label), abs=1e-12)
        assert without.n_audited == with_label.n_audited == 3


def test_the_estimating_equation_has_mean_zero_under_unequal_probabilities():
    """Hajek's ratio is the root of an unbiased equation. All samples are enumerated; rows are drawn independently."""
    p = np.array([0.3, 0.9, 0.5, 0.7, 0.2, 0.6])
    truth, total = float((Y[:6] - Q[:6]).mean()), 0.0
    for drawn in product((False, True), repeat=6):
        rows = np.flatnonzero(drawn)
        chance = np.prod(np.where(drawn, p, 1 - p))
        if rows.size < 2:  # audited_class_prior needs two audits, so the mean is computed here
            weights, mean = 1 / p[rows], float((Y[rows] - Q[rows]).mean()) if rows.size else 0.0
        else:
            strata_mean = Differences(Y[rows] * 1.0, Q[rows], 1 / p[rows], p[rows], 6 / 7).mean
            weights, mean = 1 / p[rows], strata_mean
        total += chance * weights.sum() * (mean - truth)
    assert total == pytest.approx(0.0, abs=1e-12)


def test_audited_rows_are_weighted_by_inverse_probabilities():
    rows, p = [0, 1, 2, 3], np.array([0.2, 0.4, 0.5, 0.8])
    found = audited_class_prior(FixedPosterior(Q), X7, S, audit_of(rows), p)
    d = Y[rows] - Q[rows]
    q = np.where(S == 1, 1.0, Q)
    assert found.value == pytest.approx(q.mean() + 6 / 7 * (d / p).sum() / (1 / p).sum(), abs=1e-12)
    everywhere = np.full(7, np.nan)
    everywhere[rows] = p
    again = audited_class_prior(FixedPosterior(Q), X7, S, audit_of(rows), everywhere)
    assert again.interval == found.interval


def test_equal_probabilities_are_the_sampling_fraction_of_unlabelled_rows():
    rows = [0, 1, 2, 3]
    plain = audited_class_prior(FixedPosterior(Q), X7, S, audit_of(rows))
    for probability in ("equal", 4 / 6, np.full(4, 4 / 6)):
        found = audited_class_prior(FixedPosterior(Q), X7, S, audit_of(rows), probability)
        assert found.std_err == pytest.approx(plain.std_err)


def test_the_mean_squared_standard_error_is_the_variance_over_all_samples():
    """(1 - n/N) s^2 / n is unbiased for the variance over samples; the variance of drawing the rows is subtracted."""
    found = [audited_class_prior(FixedPosterior(Q), X7, S, audit_of(rows)) for rows in combinations(range(6), 4)]
    design = [each.std_err**2 - each.value * (1 - each.value) / 7 for each in found]
    assert np.mean(design) == pytest.approx(np.var([each.value for each in found]), abs=1e-12)


def test_if_all_rows_are_audited_only_the_sampling_variance_of_rows_remains():
    found = audited_class_prior(FixedPosterior(Q), X7, S, Y)
    assert found.value == pytest.approx(4 / 7)
    assert found.std_err == pytest.approx(np.sqrt(4 / 7 * 3 / 7 / 7))
    low, high = found.interval  # Wilson's interval for 4 of 7
    for end in (low, high):
        assert abs(end - 4 / 7) == pytest.approx(Z * np.sqrt(end * (1 - end) / 7), abs=1e-9)


def test_a_constant_posterior_gives_wilsons_interval():
    """Few of many rows are audited, and the observed variance is below the variance at either end."""
    n, k = 40, 1
    a = (np.arange(n) < k) * 1.0
    sample = Differences(a, np.full(n, 0.3), np.full(n, 1e9), np.full(n, 1e-9), 1.0)
    low, high = difference_interval(k / n, sample, 0.0, z=Z, kish=0.0)
    centre, half = (k / n + Z**2 / 2 / n) / (1 + Z**2 / n), Z / (1 + Z**2 / n)
    half *= np.sqrt(k / n * (1 - k / n) / n + Z**2 / 4 / n**2)
    assert high == pytest.approx(centre + half, abs=1e-7)
    assert low <= centre - half + 1e-7  # at the lower end, the larger observed variance is used


def test_audits_without_a_positive_give_an_interval_above_0():
    q = np.full(2000, 0.02)
    audit = np.full(2000, np.nan)
    audit[:50] = 0
    found = audited_class_prior(FixedPosterior(q), np.zeros((2000, 1)), np.zeros(2000), audit)
    assert found.value == pytest.approx(0.0, abs=1e-15)
    assert 0.03 < found.interval.high < 0.12
    assert "Few audited rows are positive, or few are negative." in str(found)


def test_the_estimate_is_between_the_shares_of_known_and_possible_positives():
    q = np.r_[np.full(10, 0.9), np.full(10, 0.1)]
    audit = np.full(20, np.nan)
    audit[:8] = 0
    found = audited_class_prior(FixedPosterior(q), np.zeros((20, 1)), np.r_[np.zeros(18), 1, 1], audit)
    assert found.value == pytest.approx(2 / 20)
    assert found.difference == pytest.approx(found.value - found.model_value)


def test_only_ratios_of_weights_matter():
    rows, w = [0, 1, 2, 3, 4], np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0])
    one = audited_class_prior(FixedPosterior(Q), X7, S, audit_of(rows), sample_weight=w)
    other = audited_class_prior(FixedPosterior(Q), X7, S, audit_of(rows), sample_weight=100 * w)
    assert numbers(one) == pytest.approx(numbers(other))
    q = np.where(S == 1, 1.0, Q)
    open_ = w[:6].sum() / w.sum()
    expected = w @ q / w.sum() + open_ * (w[rows] @ (Y[rows] - Q[rows])) / w[rows].sum()
    assert one.value == pytest.approx(expected, abs=1e-12)


def test_rows_of_weight_0_are_ignored():
    keep = np.array([0, 1, 2, 3, 5, 6])
    w = np.ones(7)
    w[4] = 0
    one = audited_class_prior(FixedPosterior(Q), X7, S, audit_of([0, 1, 2, 4]), sample_weight=w)
    other = audited_class_prior(FixedPosterior(Q[keep]), X7[keep], S[keep], audit_of([0, 1, 2, 4])[keep])
    assert (one.value, one.std_err, one.n_audited) == pytest.approx((other.value, other.std_err, 3))


def drawn(seed=0, n=3000, n_looks=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = rng.random(n) < expit(2 * X[:, 0])
    s = y[:, None] & (rng.random((n, n_looks)) < expit(X[:, [1]] - 1))
    audit = np.full(n, np.nan)
    rows = rng.choice(n, 200, replace=False)
    audit[rows] = y[rows]
    return X, y, s * 1.0, audit


def test_posteriors_do_not_use_the_audits_of_the_fit():
    """If the posterior of an audited row were its audit, all differences would be 0."""
    X, _, s, audit = drawn()
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, s[:, 0], audit=audit)
    found = audited_class_prior(model, X, s[:, 0], audit)
    assert found.model_value == pytest.approx(model.predict_posterior(X, s[:, 0]).mean())
    assert found.std_err > 0.01


@pytest.mark.parametrize("n_looks", [1, 3])
def test_the_interval_covers_the_truth_of_a_simulation(n_looks):
    X, y, s, audit = drawn(n_looks=n_looks)
    labels = s[:, 0] if n_looks == 1 else s
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, labels)
    low, high = audited_class_prior(model, X, labels, audit).interval
    assert low < 0.5 < high
    assert low < y.mean() < high
    assert high - low < 0.15


def test_models_without_a_posterior_use_the_class_probability():
    X, _, s, audit = drawn()
    naive, plain = NaiveClassifier().fit(X, s[:, 0]), LogisticRegression().fit(X, s[:, 0])
    found = audited_class_prior(naive, X, s[:, 0], audit)
    q = np.where(s[:, 0] == 1, 1.0, naive.predict_proba(X)[:, 1])
    assert found.model_value == pytest.approx(q.mean())
    assert found.difference > 0.1  # the naive model treats unlabelled positives as negative
    assert audited_class_prior(plain, X, s[:, 0], audit).value == pytest.approx(found.value, abs=0.02)


def test_pipelines_text_labels_and_data_frames():
    X, _, s, audit = drawn()
    words = np.where(s[:, 0] == 1, "yes", "no")
    frame = pd.DataFrame(X, columns=["a", "b"])
    pipe = make_pipeline(StandardScaler(), SCARClassifier(pos_label="yes")).fit(frame, words)
    bare = SCARClassifier(pos_label="yes").fit(StandardScaler().fit_transform(X), words)
    answers = pd.Series(np.where(np.isnan(audit), None, np.where(audit == 1, "yes", "no")))
    one = audited_class_prior(pipe, frame, words, answers)
    other = audited_class_prior(bare, StandardScaler().fit_transform(X), words, audit)
    assert one.value == pytest.approx(other.value)


def test_with_false_positives_labelled_rows_are_a_separate_stratum():
    """One labelled row in ten is negative. The estimate is the weighted mean of the audits of both strata."""
    q, s, y = np.full(200, 0.25), np.repeat([0, 1], 100), np.repeat([0, 1], 100)
    y[:20], y[100:110] = 1, 0
    audit = np.full(200, np.nan)
    audit[5:45], audit[105:145] = y[5:45], y[105:145]
    with pytest.warns(UserWarning, match="5 audited rows are labelled but negative, and the model assumes"):
        found = audited_class_prior(FixedPosterior(q), np.zeros((200, 1)), s, audit)
    assert found.value == pytest.approx(0.5 * y[5:45].mean() + 0.5 * y[105:145].mean())
    assert not found.labels_are_certain
    assert "count as positive" not in str(found)


def test_strata_are_merged_if_few_labelled_rows_are_audited():
    q, s, y = np.full(200, 0.25), np.repeat([0, 1], 100), np.repeat([0, 1], 100)
    y[100] = 0
    audit = np.full(200, np.nan)
    audit[:40], audit[100:102] = y[:40], y[100:102]
    with pytest.warns(UserWarning, match="1 audited row is labelled but negative"):
        found = audited_class_prior(FixedPosterior(q), np.zeros((200, 1)), s, audit)
    d = np.r_[y[:40] - 0.25, y[100:102] - 1.0]
    assert found.value == pytest.approx(0.625 + d.mean())


def test_the_printed_text():
    X, _, s, audit = drawn()
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, s[:, 0])
    found = audited_class_prior(model, X, s[:, 0], audit, level=0.9)
    told = str(found)
    assert told.startswith(f"Class prior {found.value:.3f}, 90% interval {found.interval.low:.3f} to ")
    assert f"The model alone estimates {found.model_value:.3f}" in told
    assert "Labelled rows count as positive, audited or not." in told
    assert "if the audited rows were chosen at random. It is too high if positives were more likely to be aud" in told
    assert repr(found) == told
    assert told in found._repr_html_().replace("&#x27;", "'")


def test_equal_probabilities_may_be_tiny():
    tiny, none = (audited_class_prior(FixedPosterior(Q), X7, S, audit_of([0, 1, 2]), p) for p in (5e-324, 1e-12))
    assert numbers(tiny) == pytest.approx(numbers(none))


def test_audits_that_prefer_positives_are_not_detected():
    """Positives are audited twice as often. If this is ignored, the interval is above the truth."""
    X, y, s, _ = drawn(n=20_000)
    rng = np.random.default_rng(3)
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, s[:, 0])
    chance = np.where(y, 0.1, 0.05)
    audit = np.where(rng.random(y.size) < chance, y, np.nan)
    found = audited_class_prior(model, X, s[:, 0], audit)
    assert found.interval.low > y.mean() + 0.03
    told = audited_class_prior(model, X, s[:, 0], audit, chance)
    assert told.interval.low < y.mean() < told.interval.high


def test_very_unequal_probabilities_give_a_warning():
    p = np.array([1e-4, 0.9, 0.9, 0.9, 0.9])
    with pytest.warns(
        UserWarning,
        match="5 audits have only as much information as 1 audit with equal prob.* A few rows with tiny probabilities",
    ):
        found = audited_class_prior(FixedPosterior(Q), X7, S, audit_of([0, 1, 2, 3, 4]), p)
    assert "only as much information as 1 audit of rows with equal probabilities" in str(found)


def test_inclusion_probabilities_add_up_to_the_sample_size():
    rng = np.random.default_rng(0)
    for n in (1, 3, 17, 30):
        size = rng.exponential(size=30) ** 3
        p = np.minimum(1.0, inclusion_scale(size, n) * size)
        assert p.sum() == pytest.approx(n)
    assert inclusion_scale(np.ones(3), 0) == 0.0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"audit": np.full(7, np.nan)}, "audit must contain the class of at least 2 unlabelled rows with .*; got 0"),
        ({"audit": audit_of([0, 6])}, "audit must contain the class of at least 2 unlabelled rows with .*; got 1"),
        ({"audit": np.ones(3)}, "audit has 3 values for 7 rows"),
        ({"audit": np.full(7, 0.5)}, r"audit must be 1 .* got 0\.5\."),
        ({"probability": 0.0}, r"probability must lie in \(0, 1\]; got 0.0"),
        ({"probability": True}, r"probability must lie in \(0, 1\]; got True"),
        ({"probability": "random"}, "probability must be a number, one number for each row, or 'equal'; got 'random'"),
        (
            {"probability": np.ones(5)},
            "probability has 5 values; pass a single number, one number for each of the 7 rows, or one",
        ),
        (
            {"probability": [0.5, 0.0, 0.5]},
            r"\(0, 1\] for every audited row; it does not for 1 of 3 \(first: row 1 has 0\). Pass the probability",
        ),
        ({"probability": [0.5, np.nan, 0.5]}, "first: row 1 has nan"),
        ({"level": 1.5}, "level must lie strictly between 0 and 1; got 1.5"),
        ({"s": S[:5]}, "audit has 7 values for 5 rows"),
        ({"sample_weight": -np.ones(7)}, "sample_weight must be finite and at least 0"),
    ],
)
def test_errors(change, told):
    given = {"s": S, "audit": audit_of([0, 1, 2]), "probability": None, **change}
    with pytest.raises(ValueError, match=told):
        audited_class_prior(FixedPosterior(Q), X7, **given)


def test_objects_other_than_fitted_classifiers_are_refused():
    with pytest.raises(TypeError, match="estimator must be a fitted classifier of this package; got 'a'"):
        audited_class_prior("a", X7, S, audit_of([0, 1]))
    with pytest.raises(TypeError, match="estimator must have predict_proba, but StandardScaler does not"):
        audited_class_prior(StandardScaler().fit(X7), X7, S, audit_of([0, 1]))
    with pytest.raises(ValueError, match=r"s has 6 rows, but X has 7\. Pass one row of labels for each row of X"):
        audited_class_prior(NaiveClassifier().fit(X7, S), X7, S[1:], audit_of([0, 1])[:6])

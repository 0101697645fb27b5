"""Errors of public implementations: each is emulated in a few lines, and compared with the right version.

`docs/where-implementations-differ.md` has a table with one line for each pair of numbers below. The tests compute the
numbers, and compare them with the page.
"""

import re
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score
from sklearn.model_selection import check_cv
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import fit_quietly

from scarless import NaiveClassifier, PublishedEMClassifier, SCARClassifier
from scarless.field import (
    LBEClassifier,
    PGlinClassifier,
    PUBaggingClassifier,
    ThresholdedNaiveClassifier,
    TMClassifier,
)
from scarless.field.tm import MIN_UNLABELLED_ROWS, above_quantile, above_spies
from scarless.numerics.likelihood import posterior
from scarless.pair.learners import LogisticLearner, balanced_weights

PAGE = Path(__file__).parents[2] / "docs" / "where-implementations-differ.md"


def gaussian_classes(n, prior, distance, seed, label_frequency=0.3):
    """Return rows of two Gaussian classes, in two attributes, and labels completely at random."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < prior).astype(int)
    X = rng.normal(size=(n, 2)) + distance * y[:, None] * [1, 0]
    return X, y, y * (rng.random(n) < label_frequency)


def balanced_accuracy(y, positive):
    return balanced_accuracy_score(y, np.asarray(positive).astype(int))


# --- LBE


def lbe_steps(X, s, n_iter, *, on_all_rows=False, kept=1.0):
    """Run LBE with exact M steps; fit the propensity on all rows, or leave out rows with the largest loss of f."""
    w, f, e = np.ones(s.size), LogisticLearner(C=1.0), LogisticLearner(C=1.0)
    for model in (f, e):
        model.fit(X, s, balanced_weights(s, w))
    for _ in range(n_iter):
        p = f.probability(X)
        q = posterior(p, e.probability(X), s)
        loss = -q * np.log(p) - (1 - q) * np.log1p(-p)
        f.fit(X, q, w * (loss <= np.quantile(loss, kept)))
        e.fit(X, s, w if on_all_rows else q)
    return f.probability(X)


def lbe_in_one_cell(sx, f, n_iter, *, on_all_rows):
    """Iterate LBE for rows with equal attributes and a share `sx` of labels: each model is one number."""
    e = sx
    for _ in range(n_iter):
        q = f * (1 - e) / (1 - f * e)
        f, e = sx + (1 - sx) * q, sx if on_all_rows else sx / (sx + (1 - sx) * q)
    return f, e


@pytest.mark.parametrize("sx", [0.05, 0.3])
def test_the_only_fixed_point_of_lbe_with_a_propensity_of_all_rows_is_one(sx):
    r"""If e = sx, the step f -> sx + (1 - sx) f (1 - sx)/(1 - f sx) moves f by sx (1 - f)^2 / (1 - f sx)."""
    f = np.linspace(0, 1, 50)
    after = np.array([lbe_in_one_cell(sx, each, 1, on_all_rows=True)[0] for each in f])
    np.testing.assert_allclose(after - f, sx * (1 - f) ** 2 / (1 - f * sx), atol=1e-14)
    assert lbe_in_one_cell(sx, 0.4, 20_000, on_all_rows=True)[0] > 0.99
    right, e = lbe_in_one_cell(sx, 0.4, 100, on_all_rows=False)
    assert right * e == pytest.approx(sx, abs=1e-12)
    assert right < 0.9


@cache
def overlapping():
    return gaussian_classes(1000, 0.4, 1.0, seed=0)


def lbe_propensity():
    X, y, s = overlapping()
    wrong = lbe_steps(X, s, 100, on_all_rows=True)
    right = fit_quietly(LBEClassifier(n_iter=100, change_tol=0.0), X, s)
    assert np.mean(wrong > 0.5) > 0.95  # nearly each row is called positive
    np.testing.assert_allclose(right.predict_proba(X)[:, 1], lbe_steps(X, s, 100), atol=1e-6)
    return balanced_accuracy(y, wrong > 0.5), balanced_accuracy(y, right.predict(X))


def lbe_trimming():
    X, y, s = overlapping()
    assert y.mean() == pytest.approx(0.37, abs=0.005)  # as the page says
    kept = np.mean(lbe_steps(X, s, 20, kept=0.8)), fit_quietly(LBEClassifier(), X, s).class_prior_
    assert kept[0] < kept[1]
    return kept


def test_trimming_leaves_out_every_labelled_row_if_they_are_few_and_f_is_below_one_half():
    s = np.repeat([1.0, 0.0], [10, 90])
    f, e = np.full(100, 0.3), np.full(100, 0.5)
    q = posterior(f, e, s)
    loss = -q * np.log(f) - (1 - q) * np.log1p(-f)
    assert loss[s == 1].min() > loss[s == 0].max()
    assert (np.argsort(loss)[:80] >= 10).all()


def lbe_balanced_step():
    q = np.random.default_rng(0).beta(1, 4, 1000)
    prior = q.mean()
    positive, negative = (q / prior).sum(), ((1 - q) / (1 - prior)).sum()
    assert positive / (positive + negative) == pytest.approx(0.5, abs=1e-12)  # for every q
    return positive / (positive + negative), prior


# --- one ranking, several cut-offs


def ntc_tmi_ceiling():
    """Compare the median split with the cut at the class prior, for 1 positive in 7 and a perfect ranking."""
    X, y, s = gaussian_classes(7000, 1 / 7, 12.0, seed=1, label_frequency=0.1)
    found = [
        balanced_accuracy(y, ThresholdedNaiveClassifier(**options).fit(X, s).predict(X))
        for options in ({}, {"cut": "prior", "class_prior": y.mean()})
    ]
    assert found[0] == pytest.approx(0.5 + 0.25 / (1 - 1 / 7), abs=0.015)
    return found


def pglin_maximum():
    """Add one row far from all others, and return the relative change of the class prior, by maximum and quantile."""
    X, _, s = overlapping()
    far, labels = np.vstack([X, [[9.0, 0.0]]]), np.append(s, 0)
    changes = []
    for quantile in (1.0, 0.99):
        before, after = (PGlinClassifier(quantile=quantile).fit(*each).class_prior_ for each in ((X, s), (far, labels)))
        changes.append(abs(after / before - 1))
    return changes


def above_own_quantile(scores, prior):
    """Return which rows are above the quantile of their own scores, as in the authors' program."""
    return scores > np.sort(scores)[int(np.floor(scores.size * (1 - prior)))]


def pusb_batch():
    """Return the share of a batch without positives that is called positive."""
    X, y, s = gaussian_classes(4000, 0.4, 4.0, seed=2)
    model = ThresholdedNaiveClassifier(cut="prior", class_prior=0.4).fit(X, s)
    scores = model.decision_function(X)
    assert not any(above_own_quantile(scores[[i]], 0.4)[0] for i in range(100))  # a single row is always negative
    assert model.predict(X[:100]).any()
    of_batch = np.mean(above_own_quantile(scores[y == 0], 0.4))
    assert of_batch == pytest.approx(0.4, abs=0.001)  # whatever the rows are
    return of_batch, np.mean(model.predict(X[y == 0]))


def pusb_as_naive():
    X, y, s = gaussian_classes(4000, 0.4, 4.0, seed=2)
    model = ThresholdedNaiveClassifier(cut="prior", class_prior=0.4).fit(X, s)
    naive = NaiveClassifier().fit(X, s).predict_proba(X)[:, 1]
    assert roc_auc_score(y, naive) == roc_auc_score(y, model.decision_function(X))  # the ranking is the same
    return np.mean(naive[y == 1] > 0.5), np.mean(model.predict(X)[y == 1])


def pusb_penalty():
    """Return the penalty whose minimum has the gradient of the program, for a penalty of 1."""
    X, _, s = overlapping()
    Z = np.column_stack([X, np.ones(len(X))])

    def gradient(b, ridge):
        return -0.4 * Z[s == 1].mean(axis=0) + expit(Z[s == 0] @ b) @ Z[s == 0] / (s == 0).sum() + ridge * b

    def minimum(penalty):  # of the risk plus penalty * b'b
        return minimize(
            lambda b: -0.4 * (Z[s == 1] @ b).mean() + np.logaddexp(0, Z[s == 0] @ b).mean() + penalty * b @ b,
            np.zeros(3),
            jac=lambda b: gradient(b, 2 * penalty),
            tol=1e-12,
        ).x

    stationary = brentq(lambda log: gradient(minimum(np.exp(log)), 1.0) @ minimum(np.exp(log)), -3, 2)
    np.testing.assert_allclose(gradient(minimum(0.5), 1.0), 0, atol=1e-6)
    return np.exp(stationary), 1.0


# --- PUe


def pue_risk(X, s, prior, e, scale):
    """Return the scores at the minimum of PUe's risk; all rows are the unlabelled sample, of weight `scale` each."""
    Z, share = np.column_stack([X, np.ones(len(X))]), s / e / (s / e).sum()

    def risk(b):
        return -prior * share @ (Z @ b) + scale * np.logaddexp(0, Z @ b).sum() + 1e-6 * b @ b

    return Z @ minimize(risk, np.zeros(3), tol=1e-10).x


def adam(gradient, start, n_steps, rate=1e-3):
    b, mean, square = start.copy(), 0.0, 0.0
    for step in range(1, n_steps + 1):
        g = gradient(b)
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        b = b - rate * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return b


@cache
def pue_table():
    """Return rows and labels whose propensity increases with the class probability."""
    rng = np.random.default_rng(3)
    y = (rng.random(2000) < 0.4).astype(int)
    X = rng.normal(size=(2000, 2)) + 2.5 * y[:, None] * [1, 0]
    return X, y, y * (rng.random(2000) < 0.6 * expit(X[:, 0])), 0.6 * expit(X[:, 0])


def pue_training():
    """Return the mean balanced accuracy of 200 random starts after 20 steps of Adam, and of the minimum."""
    X, y, s, e = pue_table()
    Z, share = np.column_stack([X, np.ones(2000)]), s / e / (s / e).sum()

    def gradient(b):
        return -0.4 * share @ Z + expit(Z @ b) @ Z / 2000

    starts = np.random.default_rng(4).uniform(-1, 1, size=(200, 3)) / np.sqrt(2)
    ends = np.array([adam(gradient, start, 20) for start in starts])
    assert np.abs(ends - starts).max() < 0.0201
    untrained = np.mean([balanced_accuracy(y, Z @ b > 0) for b in ends])
    return untrained, balanced_accuracy(y, pue_risk(X, s, 0.4, e, 1 / 2000) > 0)


def pue_sum():
    X, y, s, e = pue_table()
    assert y.mean() == pytest.approx(0.41, abs=0.005)  # as the page says
    return [np.mean(pue_risk(X, s, 0.4, e, scale) > 0) for scale in (1.0, 1 / 2000)]


def pue_batches():
    """Enumerate batches of two labelled rows, of propensity .1 or .9: mean weight of the rows of propensity .1."""
    weights = np.array([1 / 0.1, 1 / 0.9])
    batches = [
        weights[list(rows)] * (np.array(rows) == 0) / weights[list(rows)].sum() for rows in product((0, 1), repeat=2)
    ]
    return np.mean([batch.sum() for batch in batches]), weights[0] / weights.sum()


# --- TM and JERM


def tm_quantile():
    """Return the propensity of separable classes with label frequency .5, by TM's rule, and the true one."""
    rng = np.random.default_rng(5)
    y = np.arange(20_000) < 8000
    s = (y & (rng.random(20_000) < 0.5)).astype(float)
    f = y * rng.uniform(0.5, 1, 20_000)
    selected = above_quantile(f, s)
    found = s[selected].mean()
    assert found == pytest.approx(0.5 / (1 - 0.5 * s.mean()), abs=0.01)
    named = (s == 1) | (f > np.quantile(f[s == 1], 0.5))  # the level that the name hat_c promises
    assert s[named].mean() == pytest.approx(0.5 / (1 - 0.5 * 0.5), abs=0.01)
    return found, s[y].mean()


def jerm_fit(X, s, e, tol):
    """Maximise the likelihood at given propensities by JERM's bound of the Hessian, until no coefficient moves."""
    Z = np.column_stack([np.ones(len(X)), X])
    bound, beta = np.linalg.inv(0.25 * Z.T @ Z + 0.01 * np.eye(Z.shape[1])), np.zeros(Z.shape[1])
    for _ in range(100_000):
        f = expit(Z @ beta)
        step = bound @ (Z.T @ ((1 - f) * (s - e * f) / (1 - e * f)))
        if np.abs(step).max() < tol:
            break
        beta = beta + step
    return beta


def jerm_tolerance():
    """Return the coefficient of the first attribute with the fixed tolerance of .01, and at the maximum."""
    X, _, s = gaussian_classes(1000, 0.4, 3.0, seed=6)
    e = np.full(1000, 0.3)
    learner = LogisticLearner(C=np.inf)
    learner.fit_with_propensity(X, s, e, np.ones(1000))
    np.testing.assert_allclose(jerm_fit(X, s, e, 1e-7)[1:], learner.beta[:-1], atol=1e-3)
    return jerm_fit(X, s, e, 0.01)[1], learner.beta[0]


def jerm_first_row():
    """Return how many rows take the place of rows above the spies, without and with the row of largest f."""
    f, e, s = np.linspace(0.01, 0.99, 60), np.full(60, 0.5), np.repeat([0.0, 1.0], [59, 1])
    selected = above_spies(f, e, s, np.array([58]))
    program = np.argsort(-f[:59])[1:10]
    assert 58 not in program
    assert selected[58]
    assert set(program) < set(np.flatnonzero(selected[:59]))
    assert selected[:59].sum() == MIN_UNLABELLED_ROWS
    return program.size, selected[:59].sum()


def test_predict_of_the_two_models_can_be_called_here():
    """The published class of TM calls the predict of its classifier without rows."""
    X, _, s = overlapping()
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        LogisticRegression().fit(X, s).predict()
    model = fit_quietly(TMClassifier(), X, s)
    assert (model.predict(X) == (model.predict_proba(X)[:, 1] > 0.5)).all()


# --- SAR-EM


def test_without_negative_weights_a_row_is_positive_from_f_above_one_half_to_one():
    """With f and e of a row: copies of weight 1/e are positive, unlabelled rows negative. f > 1/(1 + e) is needed."""
    for f, e in product([0.2, 0.5, 0.95], [0.1, 0.3, 1.0]):
        positive, negative, left_out = f * e / e, 1 - f * e, f * e * (1 - 1 / e)
        assert positive / (positive + negative + left_out) == pytest.approx(f, abs=1e-12)
        assert (positive > negative) == (f > 1 / (1 + e))


def sar_em_negative_weights():
    """Return the balanced accuracy of SAR-EM on all attributes after a refit without negative weights, and before."""
    X, y, s = gaussian_classes(1000, 0.4, 2.0, seed=0, label_frequency=0.1)
    model = fit_quietly(PublishedEMClassifier(propensity_attributes="all"), X, s)
    rows = np.concatenate([np.flatnonzero(s == 1), np.flatnonzero(s == 0)])
    refit = LogisticRegression().fit(X[rows], s[rows], np.where(s == 1, 1 / model.predict_propensity(X), 1.0)[rows])
    return balanced_accuracy(y, refit.predict(X)), balanced_accuracy(y, model.predict_proba(X)[:, 1] > 0.5)


# --- uPU and nnPU


def nnpu_table(n, seed):
    """Return random features of rows of two classes in ten attributes: enough to fit 60 labelled rows exactly."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.5
    X = rng.normal(size=(n, 10)) + 0.6 * y[:, None]
    features = np.random.default_rng(0)
    return np.tanh(X @ features.normal(size=(10, 300)) / 2 + features.normal(size=300)), y


def nnpu_fit(P, U, prior, below, n_steps=3000, rate=0.05):
    """Minimise the nnPU risk with log loss; `below` is the factor of the negative part's gradient below 0."""
    b = np.zeros(P.shape[1])
    for _ in range(n_steps):
        p, u = P @ b, U @ b
        negative = np.logaddexp(0, u).mean() - prior * np.logaddexp(0, p).mean()
        of_negative = expit(u) @ U / len(U) - prior * expit(p) @ P / len(P)
        of_positive = -prior * expit(-p) @ P / len(P)
        # The published algorithm steps back: it follows minus the gradient of the negative part, and only that.
        b -= rate * (of_positive + of_negative if negative >= 0 else (below * of_negative if below else of_positive))
    return b, negative


def nnpu_maximum():
    P, y = nnpu_table(200, 1)
    U, _ = nnpu_table(300, 2)
    new, classes = nnpu_table(4000, 3)
    fits = [nnpu_fit(P[y][:60], U, 0.5, below) for below in (0.0, -1.0)]
    assert fits[0][1] < -0.03 < fits[1][1]  # only the step back keeps the negative part near 0
    return [np.mean((new @ b > 0) == classes) for b, _ in fits]


def nnpu_sign():
    """Return the balanced accuracy of uPU if the loss of unlabelled rows has the sign of positives, and of uPU."""
    X, y, s = gaussian_classes(2000, 0.4, 2.0, seed=8)
    Z = np.column_stack([X, np.ones(2000)])
    P, U, prior = Z[s == 1], Z, 0.4

    def as_negatives(b):
        return -prior * (P @ b).mean() + np.logaddexp(0, U @ b).mean() + 1e-3 * b @ b

    def as_positives(b):
        positive = np.logaddexp(0, -P @ b).mean()
        return prior * positive + np.logaddexp(0, -U @ b).mean() - prior * positive + 1e-3 * b @ b

    moved = as_positives(np.ones(3)) - 1e-3 * 3
    assert moved == pytest.approx(np.logaddexp(0, -U @ np.ones(3)).mean(), abs=1e-12)  # labelled rows cancel
    return [balanced_accuracy(y, Z @ minimize(risk, np.zeros(3)).x > 0) for risk in (as_positives, as_negatives)]


def case_control_means():
    """Return f of rows with f = .7, prior .4 and label frequency .5, if means over unlabelled rows replace all rows."""
    prior, c, f = 0.4, 0.5, 0.7
    # Of a mass of 1 at these attributes, f is positive. Case-control: all positives count prior / P(y=1) = 1 each.
    labelled, unlabelled = f * c / (prior * c), (1 - f * c) / (1 - prior * c)

    def minimiser(mean_of_unlabelled):
        z = minimize(lambda z: -prior * labelled * z[0] + mean_of_unlabelled * np.logaddexp(0, z[0]), [0.0], tol=1e-12)
        return expit(z.x[0])

    found = minimiser(unlabelled)
    assert found == pytest.approx(f * (1 - prior * c) / (1 - c * f), abs=1e-5)
    certain = (1 - prior * c) / (1 - c)
    assert certain > 1  # so that for rows that are certainly positive, the risk falls without end
    return found, minimiser(1.0)


# --- Elkan-Noto and bagging


def elkan_noto_columns():
    """Return the sum of both columns of a probability, divided by the label frequency .3."""
    X, _, s = overlapping()
    columns = NaiveClassifier().fit(X, s).predict_proba(X) / 0.3
    assert (columns.argmax(axis=1) == (columns[:, 1] * 0.3 > 0.5)).all()  # the naive decision, not c / 2
    sums = SCARClassifier(0.3).fit(X, s).predict_proba(X).sum(axis=1)
    np.testing.assert_allclose(sums, 1, atol=1e-12)
    return columns.sum(axis=1).mean(), sums.mean()


class MisorderedBagging(BaseEstimator, ClassifierMixin):
    """A class whose tags come from BaseEstimator, because it is the first base class."""


def bagging_folds():
    """Return the folds without a labelled row, of 5 folds of sorted labels."""
    assert not is_classifier(MisorderedBagging())
    assert is_classifier(PUBaggingClassifier())
    s = np.repeat([1, 0], [100, 900])
    return [
        sum(s[rows].sum() == 0 for _, rows in check_cv(5, s, classifier=is_classifier(model)).split(s, s))
        for model in (MisorderedBagging(), PUBaggingClassifier())
    ]


def bagging_scores():
    """Return the share of unlabelled positives found among the training rows, by all trees and by others' trees."""
    X, y, s = gaussian_classes(600, 0.5, 1.5, seed=9, label_frequency=0.5)
    model = PUBaggingClassifier(DecisionTreeClassifier(), random_state=0).fit(X, s)
    missed = (s == 0) & (y == 1)
    new, classes, _ = gaussian_classes(4000, 0.5, 1.5, seed=10)
    found = np.mean(model.predict(X[missed])), np.mean(model.oob_scores_[missed] > model.cut_)
    assert found[1] == pytest.approx(np.mean(model.predict(new[classes == 1])), abs=0.05)  # as for new rows
    return found


# --- protocols


def unscaled_oracle():
    """Return the balanced accuracy of a classifier of the true classes, with C = 1, on columns of small variance."""
    data = load_breast_cancer()
    X, y = data.data[:, data.data.std(axis=0) < 0.02], data.target
    assert X.shape[1] == 8
    return [
        balanced_accuracy(y, LogisticRegression().fit(Z, y).predict(Z)) for Z in (X, StandardScaler().fit_transform(X))
    ]


def validation_on_classes():
    """Return the balanced accuracy of a naive ranking, cut by the classes of 46 rows, and cut at 1/2."""
    X, y, s = gaussian_classes(4600, 0.4, 3.0, seed=10, label_frequency=0.1)
    scores = NaiveClassifier().fit(X, s).predict_proba(X)[:, 1]
    cuts = np.quantile(scores, np.linspace(0.01, 0.99, 99))
    best = cuts[np.argmax([f1_score(y[:46], scores[:46] > cut, average="macro") for cut in cuts])]
    return balanced_accuracy(y[46:], scores[46:] > best), balanced_accuracy(y[46:], scores[46:] > 0.5)


def labels_of_the_top():
    """Return the share of positives that no seed labels, if the N highest scores are labelled, and at random."""
    f = np.sort(np.random.default_rng(11).random(1000))
    ever = np.zeros((2, 1000), dtype=bool)
    for seed in range(200):
        ever[0, np.argsort(-f)[:100]] = True
        ever[1, np.random.default_rng(seed).choice(1000, 100, replace=False, p=f**2 / (f**2).sum())] = True
    return 1 - ever.mean(axis=1)


# --- the page

EFFECTS = {
    "LBE: propensity fitted on all rows": lbe_propensity,
    "LBE: rows with a large loss left out": lbe_trimming,
    "LBE: balanced classes in the M step": lbe_balanced_step,
    "NTC-tMI: a median split": ntc_tmi_ceiling,
    "PGlin: the largest of all probabilities": pglin_maximum,
    "PUSB: a quantile of the test rows": pusb_batch,
    "PUSB: a naive classifier": pusb_as_naive,
    "PUSB: half of the penalty": pusb_penalty,
    "PUe: an untrained model": pue_training,
    "PUe: a sum beside a mean": pue_sum,
    "PUe: weights of a batch": pue_batches,
    "TM: a quantile of the labelled rows": tm_quantile,
    "JERM: a fixed tolerance": jerm_tolerance,
    "JERM: the first row left out": jerm_first_row,
    "SAR-EM: negative weights left out": sar_em_negative_weights,
    "nnPU: the maximum in place of the step back": nnpu_maximum,
    "uPU and nnPU: the sign of unlabelled rows": nnpu_sign,
    "uPU and nnPU: means over unlabelled rows": case_control_means,
    "Elkan-Noto: both columns divided": elkan_noto_columns,
    "Bagging: not a classifier": bagging_folds,
    "Bagging: scores of rows that were seen": bagging_scores,
    "Protocol: tables that are not scaled": unscaled_oracle,
    "Protocol: validation on true classes": validation_on_classes,
    "Protocol: the highest scores are labelled": labels_of_the_top,
}


def lines_of_the_table():
    """Return the two numbers of each line of the page's table, as text, by the heading that the line links to."""
    lines = re.findall(r"^\| \[(.+?)\]\(#(.+?)\) \| .+ \| ([-\d.]+) \| ([-\d.]+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: (anchor, wrong, right) for name, anchor, wrong, right in lines}


@pytest.mark.parametrize("name", EFFECTS)
def test_the_page_has_the_numbers_of_both_versions(name):
    _, *printed = lines_of_the_table()[name]
    assert printed[0] != printed[1]
    for text, value in zip(printed, EFFECTS[name](), strict=True):
        last_digit = 10.0 ** -len(text.partition(".")[2])
        assert float(text) == pytest.approx(float(value), abs=0.6 * last_digit)


def test_every_line_of_the_table_has_a_section_with_four_parts():
    sections = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    lines = lines_of_the_table()
    assert list(sections) == list(lines) == list(EFFECTS)
    for name, text in sections.items():
        assert re.findall(r"\*\*(Paper|Public code|Effect|Here)\.\*\*", text) == [
            "Paper",
            "Public code",
            "Effect",
            "Here",
        ]
        assert lines[name][0] == re.sub(r"[^\w -]", "", name).lower().replace(" ", "-")

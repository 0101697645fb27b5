"""Published occupancy examples: an independent fit, without the library, reproduces the printed estimates.

This checks the data, which were typed from their sources, and how many of the printed decimals are right.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit

examples = pytest.importorskip(
    "benchmarks.occupancy_examples", reason="the benchmarks are not part of the distribution"
)
printed_numbers = pytest.importorskip("benchmarks.printed_numbers")
r_optim = pytest.importorskip("benchmarks.r_optim")
r_random = pytest.importorskip("benchmarks.r_random")

Term = tuple[str, str, int | None]
NAMES = tuple(examples.EXAMPLES)
BY_R = tuple(name for name, load in examples.EXAMPLES.items() if load().printed_by == "unmarked")


def columns(example: Any) -> dict[Term, np.ndarray]:
    """Return the values by which each coefficient is multiplied, per row and look; values of f repeat in all looks."""
    n, n_looks = example.S.shape

    def site(name: str) -> np.ndarray:
        return np.repeat(example.X[[name]].to_numpy(float), n_looks, axis=1)

    parts: dict[Term, np.ndarray] = {("f", "intercept", None): np.ones((n, n_looks))}
    parts |= {("f", name, None): site(name) for name in example.class_attributes}
    if example.intercept_per_look:
        parts |= {("e", "intercept", k): np.tile(np.eye(n_looks)[k], (n, 1)) for k in range(n_looks)}
    else:
        parts["e", "intercept", None] = np.ones((n, n_looks))
    parts |= {("e", name, None): site(name) for name in example.propensity_attributes}
    for name, per_look in (example.visit_attributes or {}).items():
        parts["e", name, None] = np.nan_to_num(example.X[per_look].to_numpy(float))
    if example.false_positive_looks:
        parts["h", "intercept", None] = np.ones((n, n_looks))
    return parts


class Model:
    """The likelihood f A + (1 - f) B of one example, in plain numpy."""

    def __init__(self, example: Any) -> None:
        parts = columns(example)
        self.terms = list(parts)
        self.columns = np.array(list(parts.values()))
        self.of = {model: np.array([term[0] == model for term in self.terms]) for model in "feh"}
        self.looked, self.s = np.isfinite(example.S), np.nan_to_num(example.S)
        self.can_err = np.isin(np.arange(self.s.shape[1]), example.false_positive_looks)

    def logits(self, theta: np.ndarray, model: str) -> np.ndarray:
        mine = self.of[model]
        return np.tensordot(theta[mine], self.columns[mine], axes=1)

    def log_joint(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log(f A) and log((1 - f) B) of each row."""
        f, e, h = (self.logits(theta, model) for model in "feh")
        log_a = np.where(self.s == 1, log_expit(e), log_expit(-e))
        wrong, right = np.where(self.can_err, log_expit(h), -np.inf), np.where(self.can_err, log_expit(-h), 0.0)
        log_b = np.where(self.s == 1, wrong, right)
        seen = [np.where(self.looked, part, 0.0).sum(axis=1) for part in (log_a, log_b)]
        return log_expit(f[:, 0]) + seen[0], log_expit(-f[:, 0]) + seen[1]

    def log_likelihood(self, theta: np.ndarray) -> float:
        return float(np.logaddexp(*self.log_joint(theta)).sum())

    def score(self, theta: np.ndarray) -> np.ndarray:
        """Return the score, as the expected score of the complete data (Fisher's identity)."""
        positive, negative = self.log_joint(theta)
        q = expit(positive - negative)[:, None]
        f, e, h = (expit(self.logits(theta, model)) for model in "feh")
        first = np.arange(self.s.shape[1]) == 0
        residual = {
            "f": np.where(first, q - f, 0.0),
            "e": np.where(self.looked, q * (self.s - e), 0.0),
            "h": np.where(self.looked & self.can_err, (1 - q) * (self.s - h), 0.0),
        }
        return np.array([(residual[t[0]] * c).sum() for t, c in zip(self.terms, self.columns, strict=True)])

    def information(self, theta: np.ndarray) -> np.ndarray:
        """Return the observed information, by central differences of the score."""
        steps = 1e-5 * np.eye(theta.size)
        rows = np.array([(self.score(theta - row) - self.score(theta + row)) / 2e-5 for row in steps])
        return (rows + rows.T) / 2.0


class Fit(NamedTuple):
    model: Model
    theta: np.ndarray
    se: np.ndarray


@cache
def fitted(name: str) -> Fit:
    """Fit by a quasi-Newton method from a start with e > h, and then by Newton's method to full precision."""
    model = Model(examples.EXAMPLES[name]())
    start = np.where(model.of["h"], -2.0, 0.0)
    theta = minimize(lambda t: -model.log_likelihood(t), start, jac=lambda t: -model.score(t), method="BFGS").x
    for _ in range(4):
        theta = theta + np.linalg.solve(model.information(theta), model.score(theta))
    return Fit(model, theta, np.sqrt(np.diag(np.linalg.inv(model.information(theta)))))


@pytest.mark.parametrize("name", NAMES)
def test_the_exact_maximum_agrees_with_every_printed_number(name):
    example, (model, theta, se) = examples.EXAMPLES[name](), fitted(name)
    printed = {(line.model, line.term, line.look): line for line in example.estimates}
    assert set(printed) == set(model.terms)
    for term, value, error in zip(model.terms, theta, se, strict=True):
        line = printed[term]
        assert line.value.agrees(value), (term, value)
        assert line.se is None or line.se.agrees(error), (term, error)
    if example.aic is not None:
        assert example.aic.agrees(2.0 * theta.size - 2.0 * model.log_likelihood(theta))
    if example.posterior is not None:
        positive, negative = model.log_joint(theta)
        never = np.flatnonzero((model.s.sum(axis=1) == 0) & model.looked.all(axis=1))
        assert example.posterior.agrees(expit(positive - negative)[never[0]])


@pytest.mark.parametrize("name", BY_R)
def test_with_the_rules_of_r_every_printed_digit_is_reproduced(name):
    example = examples.EXAMPLES[name]()
    model = Model(example)

    def cost(theta: np.ndarray) -> float:
        return -model.log_likelihood(theta)

    theta = r_optim.minimise(cost, np.zeros(len(model.terms)) if example.start is None else np.array(example.start))
    printed = {(line.model, line.term, line.look): line for line in example.estimates}
    for term, value, error in zip(model.terms, theta, r_optim.standard_errors(cost, theta), strict=True):
        line = printed[term]
        assert line.value.is_printed_of(value), (term, value)
        assert line.se is None or line.se.is_printed_of(error), (term, error)
    if example.aic is not None:
        assert example.aic.is_printed_of(2.0 * theta.size + 2.0 * cost(theta))


@pytest.mark.parametrize("name", NAMES)
def test_printed_estimates_are_no_better_than_the_exact_maximum(name):
    model, theta, _ = fitted(name)
    printed = {(line.model, line.term, line.look): line.value.value for line in examples.EXAMPLES[name]().estimates}
    rounded = np.array([printed[term] for term in model.terms])
    gap = model.log_likelihood(theta) - model.log_likelihood(rounded)
    assert np.abs(model.score(theta)).max() < 1e-8
    assert 0.0 <= gap < 1e-3


def test_the_fit_statistic_of_the_salamanders():
    """Compute MacKenzie and Bailey's chi-square statistic from observed and expected numbers of all histories."""
    example, (_, theta, _) = examples.salamander(), fitted("salamander")
    n, n_looks = example.S.shape
    psi, p = expit(theta)
    seen = [tuple(row) for row in example.S.astype(int)]
    statistic, n_expected = 0.0, 0.0
    for history in product((0, 1), repeat=n_looks):
        k = sum(history)
        expected = n * (psi * p**k * (1 - p) ** (n_looks - k) + (1 - psi) * (k == 0))
        n_expected += expected
        observed = seen.count(history)
        statistic += (observed - expected) ** 2 / expected
    assert n_expected == pytest.approx(n, rel=1e-12)
    assert example.fit_statistic.agrees(statistic)


def test_sizes_agree_with_the_printed_sizes():
    weta, frogs = examples.weta_constant().S, examples.frogs().S
    assert weta.shape == (72, 5)
    assert np.isnan(weta).sum() == 98
    assert round(np.nanmax(weta, axis=1).mean(), 4) == 0.4861
    assert round(examples.salamander().S.max(axis=1).mean(), 4) == 0.4615
    assert frogs.shape == (130, 3)


def test_a_missing_look_has_no_visit_attribute():
    for name in NAMES:
        example = examples.EXAMPLES[name]()
        for per_look in (example.visit_attributes or {}).values():
            np.testing.assert_array_equal(np.isnan(example.X[per_look].to_numpy(float)), np.isnan(example.S))


def test_random_numbers_agree_with_r():
    """Compare ``set.seed(1); runif(3)``, and the errors per visit that the book counts in its simulated data."""
    stream = r_random.RStream(1)
    assert [round(stream.uniform(), 7) for _ in range(3)] == [0.2655087, 0.3721239, 0.5728534]
    y, S = r_random.RStream(1).coins(200, 0.6), examples.false_positives().S
    assert S[y == 0].sum(axis=0).tolist() == [8, 4, 3, 4, 1, 8, 7]
    assert (1 - S[y == 1]).sum(axis=0).tolist() == [39, 32, 33, 39, 44, 34, 42]


def test_a_probability_of_0_or_1_draws_no_random_number():
    stream = r_random.RStream(7)
    assert stream.coins(3, 0.0).tolist() == [0, 0, 0]
    assert stream.coins(2, 1.0).tolist() == [1, 1]
    assert stream.uniform() == r_random.RStream(7).uniform()


def test_confirmed_and_printed_decimals():
    number = printed_numbers.Number.parse("0.4826/3")
    assert number == printed_numbers.Number(0.4826, 4, 3)
    assert number.agrees(0.4822)
    assert not number.agrees(0.4820)
    assert number.is_printed_of(0.48264)
    assert not number.is_printed_of(0.4822)
    assert printed_numbers.Number.parse("-2.69") == printed_numbers.Number(-2.69, 2, 2)


def test_minimise_stops_where_r_stops_on_rosenbrocks_function():
    """The example of ``optim``: Rosenbrock's function from (-1.2, 1) without given slopes; values from R 4.4.3."""

    def cost(x: np.ndarray) -> float:
        return float(100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2)

    end = r_optim.minimise(cost, np.array([-1.2, 1.0]))
    np.testing.assert_allclose(end, [0.999804433, 0.999608381], rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_our_classifier_reproduces_the_printed_estimates(name):
    """Estimates, standard errors and AIC agree in every decimal that is right at the exact maximum."""
    published = pytest.importorskip("benchmarks.occupancy")
    example = examples.EXAMPLES[name]()
    model = published.fit_example(example)
    for line, (term, value, error) in zip(example.estimates, published.estimates_of(model, example), strict=True):
        assert line.value.agrees(value), (term, value, line.value)
        assert line.se is None or line.se.agrees(error), (term, error, line.se)
    if example.aic is not None:
        assert example.aic.agrees(2 * len(example.estimates) - 2 * model.log_likelihood_)
    if example.posterior is not None:
        table = example.X.fillna(0.0).assign(nothing=0.0)
        unseen = np.nanmax(example.S, axis=1) == 0
        assert example.posterior.agrees(float(model.predict_posterior(table, example.S)[unseen].mean()))

"""Occupancy models: an independent fit, without the library, agrees with printed estimates and with our fits.

Ten published examples need tables that are not part of scarless; their tests are skipped unless the variable
SCARLESS_OCCUPANCY_DATA names a folder with the tables. Simulated surveys of the same forms need no file. The
independent fit computes their exact maximum, and our fits must agree with it to many digits.
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
published = pytest.importorskip("benchmarks.occupancy")
simulated = pytest.importorskip("benchmarks.occupancy_simulated")

Term = tuple[str, str, int | None]
PRESENCE = ("salamander-by-visit", "weta-presence")


def needs_table(name: str) -> Any:
    """Return the name as a parameter; its test is skipped if the table of the example is not here."""
    absent = not examples.is_available(name)
    return pytest.param(name, marks=pytest.mark.skipif(absent, reason=f"the table of {name} is not part of scarless"))


NAMES = tuple(needs_table(name) for name in examples.EXAMPLES)
BY_R = tuple(needs_table(name) for name in examples.EXAMPLES if name not in PRESENCE)
SURVEYS = tuple(simulated.SURVEYS)
needs_published_tables = pytest.mark.skipif(
    not all(map(examples.is_available, examples.EXAMPLES)), reason="the published tables are not part of scarless"
)


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
    model = Model((examples.EXAMPLES | simulated.SURVEYS)[name]())
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


@needs_published_tables
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


@needs_published_tables
def test_sizes_agree_with_the_printed_sizes():
    weta, frogs = examples.weta_constant().S, examples.frogs().S
    assert weta.shape == (72, 5)
    assert np.isnan(weta).sum() == 98
    assert round(np.nanmax(weta, axis=1).mean(), 4) == 0.4861
    assert round(examples.salamander().S.max(axis=1).mean(), 4) == 0.4615
    assert frogs.shape == (130, 3)


def test_a_missing_look_has_no_visit_attribute():
    here = [load for name, load in examples.EXAMPLES.items() if examples.is_available(name)]
    for load in [*here, *simulated.SURVEYS.values()]:
        example = load()
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


# --- simulated surveys


@pytest.mark.parametrize("name", SURVEYS)
def test_our_classifier_agrees_with_the_exact_maximum(name):
    """Compare estimates, standard errors, likelihood and posteriors with those of the independent fit."""
    survey, (exact, theta, se) = simulated.SURVEYS[name](), fitted(name)
    assert np.abs(exact.score(theta)).max() < 1e-8
    assert np.linalg.eigvalsh(exact.information(theta)).min() > 0.0
    model = published.fit_example(survey)
    ours = {
        (line.model, line.term, line.look): answer[1:]
        for line, answer in zip(survey.estimates, published.estimates_of(model, survey), strict=True)
    }
    assert set(ours) == set(exact.terms)
    np.testing.assert_allclose([ours[term][0] for term in exact.terms], theta, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose([ours[term][1] for term in exact.terms], se, rtol=1e-6)
    assert model.log_likelihood_ == pytest.approx(exact.log_likelihood(theta), rel=1e-12)
    positive, negative = exact.log_joint(theta)
    posterior = np.where(np.nanmax(survey.S, axis=1) == 1, 1.0, expit(positive - negative))
    table = survey.X.fillna(0.0).assign(nothing=0.0)
    np.testing.assert_allclose(model.predict_posterior(table, survey.S), posterior, rtol=1e-7)


@pytest.mark.parametrize("name", SURVEYS)
def test_the_score_is_the_slope_of_the_likelihood(name):
    """The independent fit is right: its score agrees with differences of its likelihood, away from the maximum."""
    model = Model(simulated.SURVEYS[name]())
    theta = np.linspace(-0.4, 0.3, len(model.terms))
    slopes = [
        (model.log_likelihood(theta + row) - model.log_likelihood(theta - row)) / 2e-5
        for row in 1e-5 * np.eye(theta.size)
    ]
    np.testing.assert_allclose(model.score(theta), slopes, rtol=1e-6, atol=1e-6)


def test_the_likelihood_of_the_streams_is_a_sum_over_histories():
    """Compute the likelihood of the survey without attributes from the number of sites with each history."""
    S = simulated.streams().S
    model = Model(simulated.streams())
    psi, p = expit(0.3), expit(-0.8)
    total = 0.0
    for history in product((0.0, 1.0), repeat=S.shape[1]):
        k = int(sum(history))
        n = sum(tuple(row) == history for row in S)
        total += n * np.log(psi * p**k * (1 - p) ** (S.shape[1] - k) + (1 - psi) * (k == 0))
    assert model.log_likelihood(np.array([0.3, -0.8])) == pytest.approx(total, rel=1e-12)


def test_simulated_surveys_have_the_stated_sizes_and_the_effects_that_made_them():
    sizes = {name: make().S.shape for name, make in simulated.SURVEYS.items()}
    assert sizes["streams"] == (39, 5)
    assert sizes["bushes-observer-day"] == (72, 5)
    assert sizes["ponds"] == (130, 3)
    for name in ("bushes-observer-day", "ponds", "streams-by-visit"):
        survey, (exact, theta, se) = simulated.SURVEYS[name](), fitted(name)
        true = {(line.model, line.term, line.look): line.value.value for line in survey.estimates}
        assert np.abs((theta - [true[term] for term in exact.terms]) / se).max() < 3.5


def test_simulated_surveys_are_the_same_on_every_machine():
    """The random numbers are R's, so these counts depend neither on NumPy nor on the processor."""
    counts = {
        name: (int(np.nansum(make().S)), int(np.isnan(make().S).sum())) for name, make in simulated.SURVEYS.items()
    }
    assert counts["streams"] == (42, 0)
    assert counts["bushes-constant"] == counts["bushes-observer-day"] == (58, 88)
    assert counts["ponds"] == counts["ponds-constant"] == (170, 42)


def test_a_published_table_that_is_not_here_is_refused(monkeypatch, capsys):
    monkeypatch.delenv(examples.DATA_VARIABLE, raising=False)
    with pytest.raises(FileNotFoundError, match=r"^frogs.csv is not part of scarless, .* SCARLESS_OCCUPANCY_DATA\.$"):
        examples.frogs()
    examples.main([])
    assert "frogs: the table is not here; see benchmarks/data/README.md" in capsys.readouterr().out
    published.main([])
    assert "Not compared, because SCARLESS_OCCUPANCY_DATA names no folder" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="A record needs all examples"):
        published.main(["--record"])


def test_surveys_are_written_as_csv_files(tmp_path, capsys):
    simulated.main(["--out", str(tmp_path)])
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(SURVEYS)
    head = (tmp_path / "ponds.csv").read_text(encoding="utf-8").splitlines()[0]
    assert head == "seen_1,seen_2,seen_3,minutes_1,minutes_2,minutes_3,temperature_1,temperature_2,temperature_3"
    assert "ponds: 130 x 3" in capsys.readouterr().out

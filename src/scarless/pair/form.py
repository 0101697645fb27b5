"""Score tests of the form of two fitted logistic models: would labels fit better if either model saw more?

The likelihood identifies the class prior through the form of both models. Where the labels contradict that form, the
class prior and its interval mean little, and classifier and propensity may be swapped. One more direction at a time is
tested: products of two columns in the classifier, columns that the propensity does not see, products of columns in the
propensity, and products of the two fitted logits. Nothing is fitted again.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.stats import chi2

from scarless.engines import InMemoryEngine, Rows
from scarless.numerics.arrays import Columns, Matrix, Vector
from scarless.numerics.likelihood import fisher_roots, pair_terms
from scarless.numerics.linear import logits
from scarless.numerics.newton import WIDEST_MATRIX
from scarless.numerics.uncertainty import added_scores
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.logistic import Training
from scarless.pair.problem import PairProblem
from scarless.pair.stack import MOST_COLUMNS, FoundColumn, find_columns

#: p-value, adjusted for the number of directions, below which labels contradict the form of the models. By judgement.
REJECTED = 1e-3
#: p-value below which columns are tried as propensity attributes that nobody named. By judgement.
SUSPECT = 0.05
#: Gain in log-likelihood by a propensity attribute that nobody named, from which on a fit warns of it. By judgement.
CLEAR_GAIN = 7.0
MAX_COLUMNS_TRIED = 10
#: Inverse penalties below which a fit is not tested as it is, but fitted again with these. By judgement: the default.
MIN_C_TESTED = 1.0
#: Rows that the test of the form looks at. By judgement.
MAX_ROWS_TESTED = 5_000
MAX_COLUMNS_PAIRED = 40  # whose products with each other are tested; of more, only the squares
#: Labelled, and unlabelled, rows below which nothing is tested: statistics are then far from chi-squared. By judgement.
MIN_LABELLED = 20
#: Standard deviations from the mean at which products are cut off: a few outlying rows would make the statistic. By
#: judgement.
MAX_DEVIATIONS = 3.0
PROBABILITY_MARGIN = 1e-12  # to 0 and 1, of probabilities that are divided by


class Direction(NamedTuple):
    """What one of the models would see besides: one column, the product of two, or of the two logits."""

    model: str  # "classifier" or "propensity"
    columns: tuple[int, ...]  # empty: a product of logits

    def told(self, names: Any) -> str:
        """Return the direction in words.

        Examples
        --------
        >>> Direction("classifier", (0, 0)).told(["age"]), Direction("propensity", (0,)).told(["age"])
        ("the square of 'age' in the classifier", "'age' in the propensity")
        """
        if not self.columns:
            return f"a curved logit of the {self.model}"
        shown = [repr(str(names[column])) for column in self.columns]
        if len(shown) == 1:
            return f"{shown[0]} in the {self.model}"
        product = f"square of {shown[0]}" if shown[0] == shown[1] else f"product of {shown[0]} and {shown[1]}"
        return f"the {product} in the {self.model}"


class FormTest(NamedTuple):
    """The direction that the labels ask for most, and how surely."""

    direction: Direction
    statistic: float  # chi-squared with one degree of freedom, by itself
    p_value: float  # adjusted for the number of directions (Bonferroni)
    n_directions: int
    driver: int = -1  # column that nobody named and that drives the labelling, by the labels; -1 for none
    gain: float = 0.0  # of log-likelihood, by that column

    @property
    def rejected(self) -> bool:
        """Whether the labels contradict the form of the models."""
        return self.p_value < REJECTED or self.driver >= 0


def check_form(problem: PairProblem, beta_f: Vector, beta_e: Vector) -> FormTest | None:
    """Test the form of two fitted models on up to 5,000 rows.

    None where that is not possible: the rows are not in memory, labels are few, or the models are very wide.
    """
    if not isinstance(problem.engine, InMemoryEngine) or problem.n_parameters > WIDEST_MATRIX:
        return None
    part = problem.thinned(MAX_ROWS_TESTED)
    X = _dense(part.engine.collect(_table))
    s, w = (part.engine.collect(_value, name) for name in ("s", "w"))
    w = _at_most_one(w)
    if w @ s < MIN_LABELLED or w @ (1.0 - s) < MIN_LABELLED:
        return None
    if min(part.C, part.propensity_C) < MIN_C_TESTED:
        # A strong penalty moves the fit off the top of the likelihood, and the tests with it: test a freer fit.
        C, propensity_C = max(part.C, MIN_C_TESTED), max(part.propensity_C, MIN_C_TESTED)
        part = part._replace(C=C, propensity_C=propensity_C, audits=None)
        free = fit_pair(part, np.concatenate([beta_f, beta_e]), FitOptions(1e-8, 200))
        beta_f, beta_e = free.f, free.e
    tested, columns = _tested(part, X, s, w, beta_f, beta_e)
    if tested is None or tested.p_value >= SUSPECT or X.shape[1] > MOST_COLUMNS:
        return tested
    u, named = logits(X[:, part.f.indices], beta_f), tuple(int(column) for column in part.e.indices)
    driver = unnamed_driver(Training(X, s, w), [u], w, named, columns)
    if driver is None or driver.gain < 0.5 * tested.statistic:  # about what the other direction gains
        return tested
    return tested._replace(driver=driver.column, gain=driver.gain)


def unnamed_driver(
    training: Training, logits: list[Vector], held: Vector, named: tuple[int, ...], tried: Columns | None = None
) -> FoundColumn | None:
    """Return the column that the labels clearly say drives the labelling beside, or in place of, the `named` ones."""
    found = find_columns(training, logits, _at_most_one(held), named=named, tried=tried, most=1)
    return found[0] if found and found[0].gain >= CLEAR_GAIN else None


def _at_most_one(w: Vector) -> Vector:
    """Return weights with a mean of at most 1: they may say for how many others a row stands, as in a survey."""
    mean = float(w.sum()) / max(int(np.count_nonzero(w)), 1)
    return w / mean if mean > 1.0 else w


def _tested(
    part: PairProblem, X: Matrix, s: Vector, w: Vector, beta_f: Vector, beta_e: Vector
) -> tuple[FormTest | None, Columns]:
    """Return the test, and the columns that take part in the directions with the highest statistics."""
    X_f, X_e = X[:, part.f.indices], X[:, part.e.indices]
    u, v = logits(X_f, beta_f), logits(X_e, beta_e)
    terms = pair_terms(u, v)
    p = np.clip(terms.f * terms.e, PROBABILITY_MARGIN, 1.0 - PROBABILITY_MARGIN)
    root, ones = np.sqrt(w), np.ones((len(X), 1))
    slopes = dict(zip(("classifier", "propensity"), (root * each for each in fisher_roots(terms)), strict=True))
    of_f, of_e = (
        np.hstack([seen, ones]) * slope[:, None] for seen, slope in zip((X_f, X_e), slopes.values(), strict=True)
    )
    fitted, residual = np.hstack([of_f, of_e]), root * (s - p) / np.sqrt(p * (1.0 - p))
    tests: list[tuple[float, Direction]] = []
    for model, columns, added in _directions(part, X, u, v, w):
        found = added_scores(fitted, added * slopes[model][:, None], residual, part.ridge)
        tests += [(float(x), Direction(model, each)) for x, each in zip(found, columns, strict=True) if np.isfinite(x)]
    if not tests:
        return None, np.arange(0)
    tests.sort(key=lambda test: -test[0])
    statistic, direction = tests[0]
    p_value = min(float(chi2.sf(statistic, 1)) * len(tests), 1.0)
    involved = list(dict.fromkeys(column for _, each in tests for column in each.columns))[:MAX_COLUMNS_TRIED]
    return FormTest(direction, statistic, p_value, len(tests)), np.array(involved, dtype=np.intp)


def _directions(
    part: PairProblem, X: Matrix, u: Vector, v: Vector, w: Vector
) -> Iterator[tuple[str, list[tuple[int, ...]], Matrix]]:
    """Yield directions: of which model, of which columns, and their values, of unit spread."""
    Z = _standardised(X, w)
    near = np.clip(Z, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    for model, columns in (("classifier", part.f.indices), ("propensity", part.e.indices)):
        if columns.size:
            pairs = _pairs(columns)
            yield model, pairs, _standardised(np.column_stack([near[:, i] * near[:, j] for i, j in pairs]), w)
    others = np.setdiff1d(np.arange(X.shape[1]), part.e.indices)
    if others.size:
        yield "propensity", [(int(column),) for column in others], Z[:, others]
    logit = np.clip(_standardised(np.column_stack([u, v]), w), -MAX_DEVIATIONS, MAX_DEVIATIONS)
    products = _standardised(np.column_stack([logit[:, 0] ** 2, logit[:, 0] * logit[:, 1]]), w)
    yield "classifier", [(), ()], products


def _pairs(columns: Columns) -> list[tuple[int, ...]]:
    if columns.size > MAX_COLUMNS_PAIRED:
        return [(int(column), int(column)) for column in columns]
    i, j = np.triu_indices(columns.size)
    return [(int(a), int(b)) for a, b in zip(columns[i], columns[j], strict=True)]


def _standardised(X: Matrix, w: Vector) -> Matrix:
    """Return columns around 0 with unit spread; constant ones as zeros."""
    centred = X - np.average(X, axis=0, weights=w)
    spread = np.sqrt(np.average(centred**2, axis=0, weights=w))
    lively = spread > 1e-10 * (1.0 + np.abs(X).max(axis=0, initial=0.0))
    return np.asarray(centred / np.where(lively, spread, np.inf))


def _table(X: Any, rows: Rows) -> Any:
    return _dense(X)


def _dense(X: Any) -> Matrix:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def _value(X: Any, rows: Rows, name: str) -> Vector:
    return np.asarray(rows[name], dtype=np.float64)

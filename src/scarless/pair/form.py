"""Score tests of the functional form of two fitted logistic models.

The likelihood identifies the class prior only if the form of both models is right. If the labels contradict that form,
the class prior and its interval are unreliable, and the models may be swapped. Each test adds one term to a model: a
product of two columns that the model uses, a column that the propensity model does not use, the square of the fitted
class logit, or the product of the two fitted logits. A score test does not need a fit with the added term.
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
from scarless.numerics.newton import MAX_MATRIX_PARAMETERS
from scarless.numerics.uncertainty import added_scores
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.logistic import Training
from scarless.pair.problem import PairProblem
from scarless.pair.stack import MAX_COLUMNS_SEARCHED, FoundColumn, find_columns

#: The labels contradict the form of the models if the p-value, adjusted for the number of tests, is smaller. By
#: judgement.
REJECTION_P_VALUE = 1e-3
#: Columns that are not named are tried as propensity attributes if the adjusted p-value is smaller. By judgement.
SUSPICION_P_VALUE = 0.05
#: A fit warns about a missing propensity attribute if adding it raises the log-likelihood by at least this number. By
#: judgement.
MIN_CLEAR_GAIN = 7.0
MAX_COLUMNS_TRIED = 10
#: A model with a smaller C is fitted again with this C before the test. By judgement: this is the default C.
MIN_C_TESTED = 1.0
#: If a table has at least twice this number of rows, only every k-th row is tested, but at least this number of rows.
#: By judgement.
ROWS_TESTED = 5_000
MAX_NUMBERS_AT_ONCE = 1 << 18  # terms are tested in groups, so that the values of a group take at most 2 MB
MAX_COLUMNS_PAIRED = 40  # with more columns, only squares of columns are tested, not products
#: Smallest number of labelled rows, and of unlabelled rows, for a test. With fewer rows, the distribution of the
#: statistics is far from chi-squared. By judgement.
MIN_LABELLED = 20
#: Standardised columns are clipped to this absolute value before products are formed, so that a few outlying rows do
#: not determine the statistic. By judgement.
MAX_DEVIATIONS = 3.0
PROBABILITY_MARGIN = 1e-12  # probabilities closer to 0 or 1 are clipped, to avoid a division by 0


class FormDirection(NamedTuple):
    """A term that could be added to one of the models: a column, a product of two columns, or a product of logits."""

    model: str  # "classifier" or "propensity"
    columns: tuple[int, ...]  # empty for a product of logits

    def describe(self, names: Any) -> str:
        """Return a description of the term.

        Examples
        --------
        >>> FormDirection("classifier", (0, 0)).describe(["age"]), FormDirection("propensity", (0,)).describe(["age"])
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
    """The most significant score test of the functional form."""

    direction: FormDirection
    statistic: float  # chi-squared with one degree of freedom
    p_value: float  # adjusted for the number of tests (Bonferroni)
    n_directions: int  # number of tests
    driver: int = -1  # column that seems to drive the labelling but was not named; -1 for none
    gain: float = 0.0  # log-likelihood gain if that column is added

    @property
    def rejected(self) -> bool:
        """Whether the labels contradict the form of the models."""
        return self.p_value < REJECTION_P_VALUE or self.driver >= 0


def check_form(problem: PairProblem, beta_f: Vector, beta_e: Vector) -> FormTest | None:
    """Test the functional form of two fitted models.

    In a table of 10,000 rows or more, only every k-th row is tested, at least 5,000 rows. Returns None if the rows are
    not in memory, if there are fewer than 20 labelled or unlabelled rows, or if the models have too many parameters.
    """
    if not isinstance(problem.engine, InMemoryEngine) or problem.n_parameters > MAX_MATRIX_PARAMETERS:
        return None
    part = problem.thinned(ROWS_TESTED)
    X = _dense(part.engine.collect(_table))
    s, w = (part.engine.collect(_value, name) for name in ("s", "w"))
    w = _at_most_one(w)
    if w @ s < MIN_LABELLED or w @ (1.0 - s) < MIN_LABELLED:
        return None
    if min(part.C, part.propensity_C) < MIN_C_TESTED:
        # Score tests are valid only at the maximum of the likelihood, and a strong penalty moves the fit away from it.
        C, propensity_C = max(part.C, MIN_C_TESTED), max(part.propensity_C, MIN_C_TESTED)
        part = part._replace(C=C, propensity_C=propensity_C, pseudo_observations=None)
        free = fit_pair(part, np.concatenate([beta_f, beta_e]), FitOptions(1e-8, 200))
        beta_f, beta_e = free.f, free.e
    tested, columns = _tested(part, X, s, w, beta_f, beta_e)
    if tested is None or tested.p_value >= SUSPICION_P_VALUE or X.shape[1] > MAX_COLUMNS_SEARCHED:
        return tested
    u, named = logits(X[:, part.f.indices], beta_f), tuple(int(column) for column in part.e.indices)
    driver = unnamed_driver(Training(X, s, w), [u], w, named, columns)
    # Half of the statistic approximates the log-likelihood gain by the tested term.
    if driver is None or driver.gain < 0.5 * tested.statistic:
        return tested
    return tested._replace(driver=driver.column, gain=driver.gain)


def unnamed_driver(
    training: Training, logits: list[Vector], held: Vector, named: tuple[int, ...], tried: Columns | None = None
) -> FoundColumn | None:
    """Return a column that clearly drives the labelling but is not among the `named` columns; None if there is none."""
    found = find_columns(training, logits, _at_most_one(held), named=named, tried=tried, most=1)
    return found[0] if found and found[0].gain >= MIN_CLEAR_GAIN else None


def _at_most_one(w: Vector) -> Vector:
    """Scale weights to a mean of at most 1, because survey weights would overstate the number of rows."""
    mean = float(w.sum()) / max(int(np.count_nonzero(w)), 1)
    return w / mean if mean > 1.0 else w


def _tested(
    part: PairProblem, X: Matrix, s: Vector, w: Vector, beta_f: Vector, beta_e: Vector
) -> tuple[FormTest | None, Columns]:
    """Return the most significant test, and the columns of the most significant terms, at most 10 columns."""
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
    tests: list[tuple[float, FormDirection]] = []
    for model, columns, added in _directions(part, X, u, v, w):
        found = added_scores(fitted, added * slopes[model][:, None], residual, part.ridge)
        tests += [
            (float(x), FormDirection(model, each)) for x, each in zip(found, columns, strict=True) if np.isfinite(x)
        ]
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
    """Yield the terms to test: the model, the columns of each term, and the standardised values of each term."""
    Z = _standardised(X, w)
    near = np.clip(Z, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    for model, columns in (("classifier", part.f.indices), ("propensity", part.e.indices)):
        pairs, many = _pairs(columns), max(1, MAX_NUMBERS_AT_ONCE // len(X))
        for some in (pairs[start : start + many] for start in range(0, len(pairs), many)):
            i, j = np.array(some, dtype=np.intp).T
            yield model, some, near[:, i] * near[:, j]  # the statistic does not depend on mean and scale
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
    """Scale columns to mean 0 and standard deviation 1; constant columns become 0."""
    centred = X - np.average(X, axis=0, weights=w)
    spread = np.sqrt(np.average(centred**2, axis=0, weights=w))
    varies = spread > 1e-10 * (1.0 + np.abs(X).max(axis=0, initial=0.0))
    return np.asarray(centred / np.where(varies, spread, np.inf))


def _table(X: Any, rows: Rows) -> Any:
    return _dense(X)


def _dense(X: Any) -> Matrix:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def _value(X: Any, rows: Rows, name: str) -> Vector:
    return np.asarray(rows[name], dtype=np.float64)

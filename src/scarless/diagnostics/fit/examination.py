"""All diagnostics of one fit, on all of its rows or on a sample. A diagnostic that does not apply raises an error."""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier

from scarless.diagnostics.audits.changes import AuditComparison, compare_with_posteriors
from scarless.diagnostics.calibration.curves import Calibration, label_calibration
from scarless.diagnostics.fit.subject import Subject
from scarless.diagnostics.scar.tests import SCARTest, scar_test
from scarless.diagnostics.sensitivity.analysis import Sensitivity
from scarless.diagnostics.uncertainty.identifiability import IdentifiabilityReport, identifiability_report
from scarless.diagnostics.uncertainty.profile import profile_class_prior
from scarless.models import NaiveClassifier
from scarless.models.explaining import dense
from scarless.models.inspection import at_each_node
from scarless.models.pair import known_inference
from scarless.numerics import histories
from scarless.numerics.arrays import Vector
from scarless.numerics.histories import Histories
from scarless.numerics.label_tests import independent_columns
from scarless.numerics.uncertainty import Interval

MAX_ROWS, SAMPLE_ROWS = 50_000, 20_000  # slow diagnostics of tables with more than MAX_ROWS rows use a sample
SCAR_FOLDS = 3  # few, because the test of SCAR fits forests and takes most of the time of a report
# The test of SCAR uses a sample with about ENOUGH_LABELS labelled rows, but at least MIN_SCAR_ROWS and at most
# MAX_SCAR_ROWS rows.
MIN_SCAR_ROWS, MAX_SCAR_ROWS, ENOUGH_LABELS = 5_000, 20_000, 500
# From this many columns on, the test of SCAR uses a forest instead of boosting. With 1,000 columns, this lowered the
# test's share of the time of a report from a quarter to an eighth.
MIN_COLUMNS_FOR_FOREST = 300
FACTORS = (1.5, 2.0, 3.0, 5.0)  # factors on the odds of the propensity for which bounds are shown
GAMMAS = tuple(float(gamma) for gamma in np.geomspace(1.0, 5.0, 17))
_FACTOR_RTOL = 1e-3  # relative tolerance of tipping points
MAX_CANDIDATES = 12  # largest number of candidates that are listed
MORE_LOOKS = 6  # number of looks up to which a detection curve is extrapolated if all looks have the same propensity
MIN_EXPECTED_ROWS = 5.0  # in a cell of the chi-square test of `repeats`; smaller cells are pooled
MAX_MEAN_COUNT = 10.0  # mean weight up to which `repeats` treats integer weights as counts of rows
REFUSALS = (ValueError, TypeError, ArithmeticError, RuntimeError)  # raised by diagnostics that do not apply


class Candidates(NamedTuple):
    """Candidates among which a fit selected, and the range of class priors of candidates tied with the best.

    The fields of `rows` depend on `kind`: "members" of a stack have a name, class prior, both ends of its interval and
    held-out log-likelihood. Candidates of a "search" have attributes, C, propensity_C, class prior, held-out
    log-likelihood and whether they were selected. "optima" have their starts, class prior, label frequency, distance in
    log-likelihood from the best and whether they were selected.
    """

    kind: str
    reason: str
    rows: tuple[tuple[Any, ...], ...]
    low: float
    high: float
    n: int


class Profile(NamedTuple):
    """Log-likelihood as a function of the class prior, relative to its maximum."""

    class_prior: Vector
    drop: Vector
    estimate: float
    interval: Interval
    recalibrated: bool  # True for the grid of a recalibrated fit, False for a profile likelihood
    flat: bool
    other_optima: tuple[float, ...]  # class priors of other optima
    sentences: list[str]
    sample: Subject


class PropensityBounds(NamedTuple):
    """Bounds on the class prior if the odds of the propensity are wrong by a factor."""

    estimate: float
    low: Vector  # at `GAMMAS`
    high: Vector
    bounds: tuple[tuple[float, float, float], ...]  # factor, low and high, at `FACTORS`
    interval: Interval | None  # confidence interval of the model; None if it is missing or excludes the estimate
    interval_factor: float  # factor from which the bounds exceed the confidence interval; 1 without an interval
    most_unlabelled: tuple[float, float] | None  # factor up to which most positives are unlabelled, and their share
    sample: Subject


class LabelCounts(NamedTuple):
    """Numbers of rows with 0, 1, 2, ... labels, and the p-value of a test that they are as expected."""

    counted: Histories
    p_value: float


@dataclass(frozen=True)
class Examination:
    """Diagnostics of a fit. Slow diagnostics of a large table are computed on a sample of its rows."""

    subject: Subject
    sample: Subject
    rng: np.random.Generator
    identifiability: IdentifiabilityReport | None  # None if it does not apply
    refusal: str  # reason why it does not apply

    @classmethod
    def of(cls, subject: Subject, rng: np.random.Generator) -> Self:
        """Draw the sample and compute the identifiability report."""
        sample = subject if subject.n_rows <= MAX_ROWS else subject.sample(SAMPLE_ROWS, rng)
        twin = copy(subject.inner)
        twin.feature_names_in_ = np.array(subject.column_labels, dtype=object)  # the report shows names of raw columns
        try:
            found = replace(
                identifiability_report(twin, level=subject.level), class_prior_interval=subject.prior_interval()
            )
            return cls(subject, sample, rng, found, "")
        except REFUSALS as error:
            return cls(subject, sample, rng, None, str(error))

    @property
    def swappable(self) -> bool:
        """Whether both models use the same attributes, so that they may be swapped."""
        return bool(getattr(known_inference(self.subject.inner), "swappable", False))

    # --- diagnostics for one label of each row

    def scar(self) -> tuple[SCARTest, Subject] | None:
        """Test whether the labelling depends on the propensity attributes; None if there are none."""
        subject = self.subject
        if subject.looks is not None and not subject.looks.plain:
            raise ValueError(
                "This test needs one label for each row. It also needs a model without false positives, an offset, "
                "bounds or visit attributes, because the test would mistake any of these for an effect of a column on "
                "the labelling. See the odds ratios and their intervals in the section 'What drives the labelling' "
                "instead."
            )
        wanted = int(np.clip(ENOUGH_LABELS / max(float(subject.s.mean()), 1e-9), MIN_SCAR_ROWS, MAX_SCAR_ROWS))
        sample = subject if subject.n_rows <= wanted else subject.sample(wanted, self.rng)
        labelling = sample.labelling_columns
        if not labelling:
            return None
        others = np.setdiff1d(np.arange(sample.prepared.shape[1]), labelling).tolist()
        found = scar_test(
            _with_raw_names(sample),
            sample.s.astype(np.int64),
            propensity_attributes=_separable_columns(sample) if others else labelling,
            classification_attributes=others or None,
            sample_weight=None if sample.weights is None else sample.row_weight,
            estimator=scorer_of(sample),
            cv=SCAR_FOLDS,
            random_state=self.rng,
        )
        return found, sample

    def profile(self) -> Profile:
        """Return the profile of the class prior."""
        inner, sample = self.subject.inner, self.sample
        if hasattr(inner, "recalibration_"):
            return self._grid()
        if self.subject.looks is not None:
            raise ValueError(
                "This check is for one label for each row. It would ignore audits, further looks and known values. Use "
                "the confidence interval of the share of positives instead, which includes them."
            )
        known_inference(inner)  # raises an error for a fit without inference, before the slow steps
        given = {"sample_weight": sample.weights}
        if sample is not self.subject:  # a profile needs a fit to the same rows
            inner = clone(inner).fit(sample.prepared, sample.labels, **given)
        found = profile_class_prior(inner, sample.prepared, sample.labels, **given, level=sample.level)
        order = np.argsort(found.class_prior)
        drop = found.difference[order] - float(found.difference.max())
        others = tuple(float(other.fit_class_prior) for other in found.other_optima)
        return Profile(found.class_prior[order], drop, float(found.fit_class_prior), Interval(*found.interval), False,
                       bool(found.flat), others, found.sentences(), sample)  # fmt: skip

    def _grid(self) -> Profile:
        """Return the grid of class priors of a recalibrated fit, which has no profile."""
        inner = self.subject.inner
        grid = inner.recalibration_.grid
        density = np.asarray(grid.log_density - grid.pseudo_log_density)
        return Profile(np.asarray(grid.class_prior), density - density.max(), float(inner.class_prior_),
                       self.subject.prior_interval(), True, False, (), grid.remarks(), self.subject)  # fmt: skip

    def calibration(self) -> Calibration:
        """Return the calibration of the predicted probabilities of a label."""
        subject = self.subject
        f, e = subject.f, np.ones(subject.n_rows) if isinstance(subject.inner, NaiveClassifier) else subject.e
        if e is None:
            raise ValueError(
                "This check needs the propensity of each row (its probability of a label, if it is positive), and "
                f"{type(subject.inner).__name__} does not predict it. In Python, pass propensity= to model_report."
            )
        if subject.looks is not None:  # s is a label at any look, including false positives
            f, e = subject.label_probability, np.ones(subject.n_rows)
        weight = None if subject.weights is None else subject.row_weight
        return label_calibration(subject.s, f, propensity=e, sample_weight=weight, level=subject.level)

    def propensity_bounds(self) -> PropensityBounds:
        """Return bounds on the class prior if the propensity is wrong."""
        if self.subject.looks is not None:
            raise ValueError(
                "This check is for one label for each row. It would ignore audits, further looks and known values. To "
                "check the labelling model, audit further random rows."
            )
        sample = self.sample
        given: dict[str, Any] = {} if sample.propensity is None else {"propensity": sample.propensity}
        rows = Sensitivity.from_estimator(
            sample.inner, sample.prepared, sample.labels, sample_weight=sample.weights, **given
        )
        curve = rows.curve("class_prior", gammas=np.array(GAMMAS))
        bounds = tuple((gamma, *map(float, rows.at(gamma).class_prior)) for gamma in FACTORS)
        labelled = rows.tipping_point("label_frequency", at_most=0.5, rtol=_FACTOR_RTOL)
        most = (float(labelled.gamma), 1.0 - float(labelled.estimate)) if labelled.gamma > 1.0 else None
        interval, factor = _interval_and_factor(sample, rows, float(curve.estimate))
        estimate = float(curve.estimate)
        return PropensityBounds(
            estimate, curve.low, curve.high, bounds, interval, factor, most, sample  # type: ignore[arg-type]
        )  # fmt: skip

    # --- candidates of the fit

    def candidates(self) -> Candidates | None:
        """Return the candidates among which the fit selected; None if there was no selection."""
        inner = self.subject.inner
        if hasattr(inner, "members_"):
            return _members(inner, self.subject.level)
        if not hasattr(inner, "selection_"):
            return None
        return _searched(inner) if hasattr(inner, "cv_results_") else _optima(inner)

    # --- audits and several looks

    def audited(self) -> AuditComparison:
        """Compare the audits with the posteriors that the audited rows have without their audits."""
        return compare_audits(self.subject)

    def detection(self) -> Vector:
        """Return the share of positives that are labelled after one look, two looks and so on."""
        facts, inner = self.subject.looks, self.subject.inner
        assert facts is not None
        n = len(facts.names)
        return np.asarray(
            inner.detection_curve(self.subject.prepared, max(n, MORE_LOOKS) if facts.same_propensity else n)
        )

    def repeats(self) -> LabelCounts:
        """Compare the numbers of rows with 0, 1, 2, ... labels with the expected numbers."""
        subject, facts = self.subject, self.subject.looks
        assert facts is not None
        n_looks, w = subject.codes.shape[1], subject.weight
        h = np.broadcast_to(np.resize([value for value, _ in facts.rates], n_looks), (w.size, n_looks))
        counts = bool((w == np.floor(w)).all()) and float(w.mean()) <= MAX_MEAN_COUNT
        rows = np.repeat(np.arange(w.size), w.astype(np.int64)) if counts else np.flatnonzero(w > 0)
        labels = np.where(np.isfinite(subject.codes), subject.codes, -1.0)[rows]
        expected_rows: Any = 0.0
        for share, model in at_each_node(subject.inner):
            e = np.column_stack([model.predict_propensity(subject.prepared, look=k) for k in range(n_looks)])
            counted = histories.count_labels(labels, subject.f[rows], e[rows], h[rows])
            expected_rows = expected_rows + share * counted.expected
        counted = counted._replace(expected=np.asarray(expected_rows))
        never = float((labels < 0).all(axis=1).sum())
        number = np.array([int(name.split(" ")[0]) for name in counted.names], dtype=np.intp)
        shape = (counted.observed, counted.expected)
        observed, expected = (np.bincount(number, part, n_looks + 1).astype(np.float64) for part in shape)
        found = Histories(tuple(map(str, range(n_looks + 1))), observed, expected)
        cells = histories.pooled(found, MIN_EXPECTED_ROWS)
        p_value = float(chi2.sf(histories.chi_square(cells), max(len(cells.names) - 1, 1)))
        observed[0], expected[0] = observed[0] + never, expected[0] + never  # rows without a look have no labels
        return LabelCounts(found, p_value)


def scorer_of(sample: Subject) -> Any:
    """Return the classifier for the test of SCAR: a forest if there are many columns, otherwise the default.

    With many weak columns, forests are better and faster than boosting.
    """
    if sparse.issparse(sample.prepared) or sample.prepared.shape[1] < MIN_COLUMNS_FOR_FOREST:
        return None
    return ExtraTreesClassifier(100, max_features="sqrt", min_samples_leaf=max(3, sample.n_rows // 2000))


def _separable_columns(sample: Subject) -> list[int]:
    """Return the labelling columns, without columns that other labelling columns determine.

    For example, the columns of all categories of a raw column add up to 1, so one of them is left out. A column is kept
    if its raw column would otherwise have no column in the test; `scar_test` then warns that it cannot be tested.
    """
    X, columns = sample.prepared, sample.labelling_columns
    chosen = sparse.csc_array(X)[:, columns] if sparse.issparse(X) else np.asarray(X)[:, columns]
    kept = {columns[k] for k in independent_columns(dense(chosen))}
    tested = {sample.origins[j].column for j in kept}
    return [j for j in columns if j in kept or sample.origins[j].column not in tested]


def _with_raw_names(sample: Subject) -> Any:
    """Return the prepared rows with the names of the raw columns, if these are unique."""
    names = sample.column_labels
    if hasattr(sample.prepared, "set_axis") and len(set(names)) == len(names):
        return sample.prepared.set_axis(names, axis=1)
    return sample.prepared


def _interval_and_factor(subject: Subject, rows: Sensitivity, fitted: float) -> tuple[Interval | None, float]:
    """Return the confidence interval of the class prior, and the factor from which the bounds exceed it."""
    try:
        low, high = subject.prior_interval()
    except (AttributeError, ValueError, TypeError):  # the model has no interval
        return None, 1.0
    if not low < fitted < high:
        return None, 1.0
    ends = (
        rows.tipping_point("class_prior", at_least=low, rtol=_FACTOR_RTOL).gamma,
        rows.tipping_point("class_prior", at_most=high, rtol=_FACTOR_RTOL).gamma,
    )
    return Interval(low, high), float(min(ends))


def _members(inner: Any, level: float) -> Candidates | None:
    rows = tuple(
        (
            f"{each.name}, {each.attributes}" if each.attributes else each.name,
            float(each.class_prior),
            float(each.class_prior_interval.low),
            float(each.class_prior_interval.high),
            float(each.log_likelihood),
        )
        for each in inner.summary(level=level).members
    )
    priors = [row[1] for row in rows[:-1]]
    return Candidates("members", "", rows, min(priors), max(priors), len(priors)) if len(priors) > 1 else None


def _searched(inner: Any) -> Candidates:
    results, chosen = inner.cv_results_, inner.selection_
    tied = np.flatnonzero(results["tied"])
    order = sorted(tied, key=lambda i: (i not in chosen.members, -results["mean_test_score"][i]))
    numbers = ("param_C", "param_propensity_C", "class_prior", "mean_test_score")
    rows = tuple(
        (results["param_attributes"][i], *(float(results[name][i]) for name in numbers), i in chosen.members)
        for i in order[:MAX_CANDIDATES]
    )
    priors = results["class_prior"][tied]
    return Candidates("search", str(chosen.reason), rows, float(priors.min()), float(priors.max()), int(tied.size))


def _optima(inner: Any) -> Candidates:
    chosen, optima = inner.selection_, inner.optima_
    rows = tuple(
        (
            ", ".join(optimum.starts),
            float(optimum.class_prior),
            float(optimum.label_frequency),
            float(chosen.behind[i]),
            i in chosen.members,
        )
        for i, optimum in enumerate(optima[:MAX_CANDIDATES])
    )
    low, high = chosen.class_priors
    return Candidates("optima", str(chosen.reason), rows if len(rows) > 1 else (), low, high, chosen.n_tied)


def compare_audits(subject: Subject) -> AuditComparison:
    """Compare the audits with the posteriors that the audited rows have without their audits.

    Without false positives, audits of labelled rows have no information and are left out.
    """
    new = subject.audited & ((subject.s == 0) if subject.has_no_false_positives else True) & (subject.weight > 0)
    rows = np.flatnonzero(new)
    if not rows.size:
        return compare_with_posteriors(np.empty(0), np.empty(0))
    part = subject.part(rows)
    q = np.asarray(part.inner.predict_posterior(part.prepared, part.labels))
    return compare_with_posteriors(np.asarray(subject.audit)[rows], q, level=subject.level)

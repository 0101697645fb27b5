"""Every diagnostic of one fit, asked about all of its rows or a sample of them: results, and refusals as errors."""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.stats import binomtest, chi2
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier

from scarless.diagnostics.calibration.curves import Calibration, label_calibration
from scarless.diagnostics.fit.subject import Subject
from scarless.diagnostics.scar.tests import SCARTest, scar_test
from scarless.diagnostics.sensitivity.analysis import Sensitivity
from scarless.diagnostics.uncertainty.identifiability import IdentifiabilityReport, identifiability_report
from scarless.diagnostics.uncertainty.profile import profile_class_prior
from scarless.models import NaiveClassifier
from scarless.models.pair import known_inference
from scarless.numerics import histories
from scarless.numerics.arrays import Vector
from scarless.numerics.histories import Histories
from scarless.numerics.uncertainty import Interval

MOST_ROWS, SAMPLE = 50_000, 20_000  # above the first, expensive diagnostics look at so many
SCAR_FOLDS = 3  # of the test that fits forests: it takes most of a report's time, and so
FEWEST_TESTED, MOST_TESTED, ENOUGH_LABELS = 5_000, 20_000, 500  # looks at as many rows as hold so many labels
# Columns from which on that test does without boosting: of 1,000 it was a quarter of all work, and is an eighth.
MANY_COLUMNS = 300
FACTORS = (1.5, 2.0, 3.0, 5.0)  # on the odds of a label, that bounds are shown for
GAMMAS = tuple(float(gamma) for gamma in np.geomspace(1.0, 5.0, 17))
_FACTOR_RTOL = 1e-3  # of tipping points
MOST_CANDIDATES = 12  # that are listed
AUDIT_GROUPS, FEWEST_IN_GROUP = 5, 12  # groups of checked rows, and rows in each
MORE_LOOKS = 6  # that a curve of detection goes on to, where all looks are alike
FEWEST_EXPECTED = 5.0  # rows in a cell of a chi-square; cells of fewer are put together
MOST_COPIES = 10.0  # mean of whole weights up to which they are taken for counts of rows in that chi-square
REFUSALS = (ValueError, TypeError, ArithmeticError, RuntimeError)


class Candidates(NamedTuple):
    """What a fit chose among, and which shares of positives those have that do as well."""

    kind: str  # "members" of a stack, "search" or "optima"
    reason: str
    rows: tuple[tuple[Any, ...], ...]  # what is known of each; `CANDIDATE_FIELDS` names it
    low: float
    high: float
    n: int


CANDIDATE_FIELDS = {
    "members": ("model", "class prior", "its low end", "its high end", "held-out log-likelihood per row"),
    "search": ("attributes", "C", "propensity_C", "class prior", "held-out log-likelihood per row", "taken"),
    "optima": ("starts", "class prior", "label frequency", "log-likelihood behind the best", "taken"),
}


class Profile(NamedTuple):
    """How well the labels fit each share of positives: log-likelihoods below their top."""

    class_prior: Vector
    drop: Vector
    estimate: float
    interval: Interval
    recalibrated: bool  # whether it is the grid of a recalibrated fit, and not a profile of the likelihood
    flat: bool
    elsewhere: tuple[float, ...]  # class priors of other good fits
    sentences: list[str]
    sample: Subject


class Doubt(NamedTuple):
    """The share of positives, by how wrong the odds of a label may be."""

    estimate: float
    low: Vector  # at `GAMMAS`
    high: Vector
    bounds: tuple[tuple[float, float, float], ...]  # factor, and both ends: at `FACTORS`
    interval: Interval | None  # the model's own; None where it has none that holds the estimate
    interval_factor: float  # from which on a wrong labelling may matter more than chance; 1 without an interval
    most_unlabelled: tuple[float, float] | None  # factor up to which most positives have no label, and their share
    sample: Subject


class Audited(NamedTuple):
    """What checks found among rows whose check could tell something new."""

    n: int
    found: int
    expected: float
    surplus: float | None  # found more than expected, in standard errors
    groups: tuple[tuple[float, ...], ...]  # lowest and highest chance, rows, expected, found, ends of the interval


class Repeats(NamedTuple):
    """Rows by the number of their labels, and a hint whether that is as the models say."""

    counted: Histories
    p_value: float


@dataclass(frozen=True)
class Examination:
    """A fit that is asked whether it can be believed: all rows, and those that expensive diagnostics look at."""

    subject: Subject
    sample: Subject
    rng: np.random.Generator
    identifiability: IdentifiabilityReport | None  # None where it is refused
    refusal: str

    @classmethod
    def of(cls, subject: Subject, rng: np.random.Generator) -> Self:
        """Draw the sample, and ask first what the answer needs to know."""
        sample = subject if subject.n_rows <= MOST_ROWS else subject.sample(SAMPLE, rng)
        twin = copy(subject.inner)
        twin.feature_names_in_ = np.array(subject.column_labels, dtype=object)  # raw names in its sentences
        try:
            found = replace(identifiability_report(twin), class_prior_interval=subject.prior_interval())
            return cls(subject, sample, rng, found, "")
        except REFUSALS as error:
            return cls(subject, sample, rng, None, str(error))

    @property
    def swappable(self) -> bool:
        """Whether the models of a fit to looks, audits or facts may have changed places."""
        return bool(getattr(known_inference(self.subject.inner), "swappable", False))

    # --- one label of each row

    def scar(self) -> tuple[SCARTest, Subject] | None:
        """Test whether the labelling depends on the columns that are named for it; None where there are none."""
        subject = self.subject
        if subject.looks is not None and not subject.looks.plain:
            raise ValueError(
                "The test is for one label of each row that is never wrong; here the number of looks, or false labels, "
                "would pass for an effect of columns. What drives the labelling is above, with intervals."
            )
        wanted = int(np.clip(ENOUGH_LABELS / max(float(subject.s.mean()), 1e-9), FEWEST_TESTED, MOST_TESTED))
        sample = subject if subject.n_rows <= wanted else subject.sample(wanted, self.rng)
        if not sample.labelling_columns:
            return None
        found = scar_test(
            _with_raw_names(sample),
            sample.s.astype(np.int64),
            propensity_attributes=sample.labelling_columns,
            sample_weight=None if sample.weights is None else sample.row_weight,
            estimator=scorer_of(sample),
            cv=SCAR_FOLDS,
            random_state=self.rng,
        )
        return found, sample

    def profile(self) -> Profile:
        """Return which shares of positives the labels allow."""
        inner, sample = self.subject.inner, self.sample
        if hasattr(inner, "recalibration_"):
            return self._grid()
        if self.subject.looks is not None:
            raise ValueError(
                "The curve is that of one label of each row, without audits, looks and facts, and would say less than "
                "is known. The interval at the top has all of it."
            )
        known_inference(inner)  # refuses here what it would refuse after a fit
        given = {"sample_weight": sample.weights}
        if sample is not self.subject:  # a profile is of the rows of its fit
            inner = clone(inner).fit(sample.prepared, sample.labels, **given)
        found = profile_class_prior(inner, sample.prepared, sample.labels, **given, level=sample.level)
        order = np.argsort(found.class_prior)
        drop = found.difference[order] - float(found.difference.max())
        others = tuple(float(other.fit_class_prior) for other in found.elsewhere)
        return Profile(found.class_prior[order], drop, float(found.fit_class_prior), Interval(*found.interval), False,
                       bool(found.flat), others, found.sentences(), sample)  # fmt: skip

    def _grid(self) -> Profile:
        """Return the class priors that a recalibrated fit has tried: it has no other profile."""
        inner = self.subject.inner
        levels = inner.recalibration_.grid
        density = np.asarray(levels.log_density - levels.pseudo_log_density)
        return Profile(np.asarray(levels.class_prior), density - density.max(), float(inner.class_prior_),
                       self.subject.prior_interval(), True, False, (), levels.remarks(), self.subject)  # fmt: skip

    def calibration(self) -> Calibration:
        """Compare how often labels come with how often they are predicted."""
        subject = self.subject
        f, e = subject.f, np.ones(subject.n_rows) if isinstance(subject.inner, NaiveClassifier) else subject.e
        if e is None:
            raise ValueError("The propensity of each row is not known: give it as propensity=, one value per row.")
        if subject.looks is not None:  # any label at the looks that took place, true or false
            f, e = subject.label_chance, np.ones(subject.n_rows)
        weight = None if subject.weights is None else subject.row_weight
        return label_calibration(subject.s, f, propensity=e, sample_weight=weight, level=subject.level)

    def doubt(self) -> Doubt:
        """Return how wrong the labelling would have to be for the share of positives to fall."""
        if self.subject.looks is not None:
            raise ValueError(
                "The bounds are those of one label of each row; what audits, other looks and facts rule out would be "
                "in them. Whether the labelling is as the model says, audits show."
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
        interval, factor = _beyond_chance(sample, rows, float(curve.estimate))
        return Doubt(
            float(curve.estimate), curve.low, curve.high, bounds, interval, factor, most, sample  # type: ignore[arg-type]
        )  # fmt: skip

    # --- what a fit chose among

    def candidates(self) -> Candidates | None:
        """Return what a fitted model chose among; None where there was no choice."""
        inner = self.subject.inner
        if hasattr(inner, "members_"):
            return _members(inner, self.subject.level)
        if not hasattr(inner, "selection_"):
            return None
        return _searched(inner) if hasattr(inner, "cv_results_") else _optima(inner)

    # --- audits and several looks

    def audited(self) -> Audited:
        """Compare what checks found with what was expected of these rows before."""
        return compare_audits(self.subject)

    def detection(self) -> Vector:
        """Return the share of positives with a label after one look, two and so on."""
        facts, inner = self.subject.looks, self.subject.inner
        assert facts is not None
        n = len(facts.names)
        return np.asarray(inner.detection_curve(self.subject.prepared, max(n, MORE_LOOKS) if facts.alike else n))

    def repeats(self) -> Repeats:
        """Compare how many rows have no label, one, two, ... with what the models expect."""
        subject, facts = self.subject, self.subject.looks
        assert facts is not None
        n_looks, w = subject.codes.shape[1], subject.weight
        e = np.column_stack([subject.inner.predict_propensity(subject.prepared, look=k) for k in range(n_looks)])
        h = np.broadcast_to(np.resize([value for value, _ in facts.rates], n_looks), e.shape)
        counts = bool((w == np.floor(w)).all()) and float(w.mean()) <= MOST_COPIES
        rows = np.repeat(np.arange(w.size), w.astype(np.int64)) if counts else np.flatnonzero(w > 0)
        labels = np.where(np.isfinite(subject.codes), subject.codes, -1.0)[rows]
        counted = histories.count_labels(labels, subject.f[rows], e[rows], h[rows])
        never = float((labels < 0).all(axis=1).sum())
        number = np.array([int(name.split(" ")[0]) for name in counted.names], dtype=np.intp)
        shape = (counted.observed, counted.expected)
        observed, expected = (np.bincount(number, part, n_looks + 1).astype(np.float64) for part in shape)
        found = Histories(tuple(map(str, range(n_looks + 1))), observed, expected)
        cells = histories.pooled(found, FEWEST_EXPECTED)
        p_value = float(chi2.sf(histories.chi_square(cells), max(len(cells.names) - 1, 1)))
        observed[0], expected[0] = observed[0] + never, expected[0] + never  # of them nothing is expected
        return Repeats(found, p_value)


def scorer_of(sample: Subject) -> Any:
    """Return what the test of SCAR learns labels with beside a logistic model: of many columns a forest alone.

    Forests do better on many weak columns, and are faster than boosting there.
    """
    if sparse.issparse(sample.prepared) or sample.prepared.shape[1] < MANY_COLUMNS:
        return None
    return ExtraTreesClassifier(100, max_features="sqrt", min_samples_leaf=max(3, sample.n_rows // 2000))


def _with_raw_names(sample: Subject) -> Any:
    """Return the prepared rows with columns called as in the raw table, where these names are different ones."""
    names = sample.column_labels
    if hasattr(sample.prepared, "set_axis") and len(set(names)) == len(names):
        return sample.prepared.set_axis(names, axis=1)
    return sample.prepared


def _beyond_chance(subject: Subject, rows: Sensitivity, fitted: float) -> tuple[Interval | None, float]:
    """Return the model's interval, and from which factor on a wrong labelling may matter more than chance."""
    try:
        low, high = subject.prior_interval()
    except (AttributeError, ValueError, TypeError):  # a model that knows no interval
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
        for i in order[:MOST_CANDIDATES]
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
        for i, optimum in enumerate(optima[:MOST_CANDIDATES])
    )
    low, high = chosen.class_priors
    return Candidates("optima", str(chosen.reason), rows if len(rows) > 1 else (), low, high, chosen.n_tied)


def compare_audits(subject: Subject) -> Audited:
    """Compare what checks found with what was expected of these rows before.

    Where labels are never wrong, a check of a labelled row tells nothing new.
    """
    new = subject.audited & ((subject.s == 0) if subject.rates_are_none else True) & (subject.weight > 0)
    rows = np.flatnonzero(new)
    if not rows.size:
        return Audited(0, 0, 0.0, None, ())
    part = subject.part(rows)
    q, found = np.asarray(part.inner.predict_posterior(part.prepared, part.labels)), np.asarray(part.audit)
    spread = float(np.sqrt(np.sum(q * (1.0 - q))))
    surplus = float(found.sum() - q.sum()) / spread if spread > 0 else None
    groups = []
    for members in np.array_split(np.argsort(q, kind="stable"), max(1, min(AUDIT_GROUPS, q.size // FEWEST_IN_GROUP))):
        k, n, chance = int(found[members].sum()), int(members.size), q[members]
        ends = binomtest(k, n).proportion_ci(method="wilson")
        groups.append((float(chance.min()), float(chance.max()), float(n), float(chance.mean()), k / n,
                       float(ends.low), float(ends.high)))  # fmt: skip
    return Audited(int(rows.size), int(found.sum()), float(q.sum()), surplus, tuple(groups))

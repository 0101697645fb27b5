"""Can it be believed? Each diagnostic with its verdict in one sentence; what refuses says why."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier

from scarless.diagnostics import Calibration, identifiability_report, label_calibration, profile_class_prior, scar_test
from scarless.diagnostics.leaks import Leak
from scarless.diagnostics.uncertainty.identifiability import CONTRADICTED
from scarless.models import NaiveClassifier, SARStackingClassifier
from scarless.models.uncertainty import known_inference
from scarless.outside.plain_words import plain
from scarless.report.fit import looks
from scarless.report.fit.answer import SILENT, either_way, is_short, is_silent, leaks_of, recorded
from scarless.report.fit.candidates import Candidates, candidates
from scarless.report.fit.data import Check, Mark, Picture
from scarless.report.fit.doubt import sensitivity
from scarless.report.fit.ranked import sample_of
from scarless.report.fit.subject import Subject
from scarless.report.fit.words import count, listed, ratio, share, share_range, text
from scarless.report.numbers import p_sentence

MOST_ROWS, SAMPLE = 50_000, 20_000  # above the first, expensive diagnostics look at so many
FOLDS = 3  # of the test that fits forests: it takes most of a report's time, and so
FEWEST_TESTED, MOST_TESTED, ENOUGH_LABELS = 5_000, 20_000, 500  # looks at as many rows as hold so many labels
# Columns from which on that test does without boosting: of 1,000 it was a quarter of all work, and is an eighth.
MANY_COLUMNS = 300
SIGNIFICANT = 0.05
SLIGHT, TOO_WRONG = 0.05, 0.2  # calibration errors beyond chance, as shares of the labelled rows
WIDE = 0.4  # range of shares that says little
DEEPEST = 8.0  # below its top that a curve is drawn
REFUSALS = (ValueError, TypeError, ArithmeticError, RuntimeError)


@dataclass(frozen=True)
class Asked:
    """What diagnostics are asked about: all rows, and those that expensive ones look at."""

    subject: Subject
    sample: Subject
    identifiability: Any  # None where it is refused
    refusal: str
    rng: np.random.Generator
    silent: bool  # whether the fit says nothing of positives without a label
    leaks: tuple[Leak, ...]

    def on_a_sample(self, sample: Subject) -> tuple[str, ...]:
        """Return what to say where not all rows were looked at."""
        if sample is self.subject:
            return ()
        return (f"Computed on {count(sample.n_rows)} of {count(self.subject.n_rows)} rows, drawn at random.",)


def ask(subject: Subject, rng: np.random.Generator) -> Asked:
    """Draw the sample, and ask first what the answer needs to know."""
    sample = subject if subject.n_rows <= MOST_ROWS else sample_of(subject, SAMPLE, rng)
    twin = copy(subject.inner)
    twin.feature_names_in_ = np.array(subject.labels_of_columns, dtype=object)  # raw names in its sentences
    known = (is_silent(subject), leaks_of(subject))
    try:
        found = replace(identifiability_report(twin), class_prior_interval=subject.prior_interval())
        return Asked(subject, sample, found, "", rng, *known)
    except REFUSALS as error:
        return Asked(subject, sample, None, str(error), rng, *known)


def make_checks(asked: Asked, tell: Callable[[str], None]) -> tuple[Check, ...]:
    """Ask every diagnostic, in the order in which a reader asks."""
    parts = (
        ("identifiability", "Do the data settle it?", _identifiability),
        *_of_information(asked.subject),
        ("selection", "Which model was chosen, and what else would have done?", _selection),
        ("scar", "Does the labelling depend on the columns named for it?", _scar),
        ("profile", "Which shares of positives do the labels allow?", _profile),
        ("calibration", "Do labels come as often as predicted?", _calibration),
        ("sensitivity", "What if the labelling is not as the model says?", _sensitivity),
    )
    found = []
    for key, title, function in parts:
        tell(title)
        try:
            found.append(function(key, title, asked))
        except REFUSALS as error:
            found.append(Check(key, title, "none", "Not to be had for this model.", _in_words([str(error)])))
    unseen = _unseen(asked)
    return tuple(_doubted(check, unseen) for check in found) if unseen else tuple(found)


def _unseen(asked: Asked) -> str:
    """Return what may be wrong with a fit although every check is fine: no check of labels can see it."""
    if asked.silent:
        return "Of positives without a label it says nothing."
    if either_way(asked.subject):
        return "Whether both models have changed places, it cannot see."
    return f"Whether {recorded(asked.leaks)} recorded because of the label, it cannot see." if asked.leaks else ""


def _doubted(check: Check, unseen: str) -> Check:
    """Return a check that finds nothing wrong as one that is open, with what it cannot see."""
    return check if check.status != "good" else replace(check, status="open", verdict=f"{check.verdict} {unseen}")


def _of_information(subject: Subject) -> list[tuple[str, str, Callable[[str, str, Asked], Check]]]:
    """Return what to ask of fits that were told more than one label of each row."""
    facts = subject.looks
    if facts is None:
        return []
    parts: list[tuple[str, str, Any]] = []
    if subject.audited.any():
        parts.append(("audits", "Do the audits agree with the model?", looks.audits))
    if len(facts.names) > 1:
        parts.append(("looks", "What did each look find?", looks.several_looks))
    if facts.claims:
        parts.append(("facts", "Do the rows agree with what is known from elsewhere?", looks.known_facts))
    return [(key, title, _about_all_rows(function)) for key, title, function in parts]


def _about_all_rows(function: Any) -> Callable[[str, str, Asked], Check]:
    return lambda key, title, asked: function(key, title, asked.subject)


def _left_out(subject: Subject, why: str) -> None:
    """Raise where a diagnostic is for one label of each row, and this fit knows more."""
    if subject.looks is not None:
        raise ValueError(why)


_IDENTIFIED = {
    "identified": (
        "good",
        "Yes, if both models are of the right form: the labels settle how many positives there are.",
    ),
    "weakly identified": ("open", "Only roughly: the labels leave a good deal of room for the number of positives."),
    CONTRADICTED: (
        "bad",
        "No: the labels contradict the form of the models, and without it they do not settle how many positives there "
        "are.",
    ),
    "not identified": ("bad", "No: labels alone leave the number of positives open; the form of the models decides."),
}


def _identifiability(key: str, title: str, asked: Asked) -> Check:
    report = asked.identifiability
    if asked.subject.looks is not None:
        return _settled(key, title, asked.subject)
    if report is None:
        raise ValueError(asked.refusal)
    status, verdict = _IDENTIFIED[report.verdict]
    if asked.silent:
        told = "Its numbers say how sure the share of labelled rows is."
        return Check(key, title, "bad", f"No: {SILENT}.", (told, *_in_words(report.sentences()[1:])))
    if report.verdict == "weakly identified" and is_short(*report.class_prior_interval):
        verdict = "Only roughly: the interval is short, but it holds less than the labels leave open."
    return Check(key, title, status, verdict, _in_words(report.sentences()))


def _in_words(sentences: Sequence[str]) -> tuple[str, ...]:
    return tuple(text(plain(line), 2000) for line in sentences)


def _settled(key: str, title: str, subject: Subject) -> Check:
    """Judge by the interval, for which all that was given counts."""
    low, high = subject.prior_interval()
    status = _status_of(high - low)
    words = {"good": "Yes", "open": "Only roughly", "bad": "Hardly"}[status]
    verdict = f"{words}: with all that was given, {share_range(low, high)} of rows are positive."
    details = [
        "Labels alone settle this by the form of the models only. Several looks and audits settle it by what they "
        "show: which rows are found again, and which were never found.",
    ]
    if getattr(known_inference(subject.inner), "exchangeable", False):
        status, verdict = "bad", f"No: class and labelling see the same columns, and may be exchanged. {verdict}"
    return Check(key, title, status, verdict, tuple(details))


def _selection(key: str, title: str, asked: Asked) -> Check:
    inner = asked.subject.inner
    found = candidates(inner, asked.subject.level)
    if found is None:
        return Check(key, title, "none", "There was nothing to choose: one model was fitted.")
    details = _in_words([found.reason]) if found.reason else ()
    tables = (found.table,) if found.table.rows else ()
    status, verdict = _choice(inner, found, silent=asked.silent)
    return Check(key, title, status, verdict, details, None, tables)


def _choice(inner: Any, found: Candidates, *, silent: bool) -> tuple[str, str]:
    """Return status and verdict of what was chosen."""
    if getattr(inner, "higher_basin_", None) is not None:
        return "bad", "Another start leads to a better fit, which was not taken."
    if found.n < 2:
        if hasattr(inner, "basins_") and len(inner.basins_) == 1 and len(inner.basins_[0].starts) == 1:
            return "open", "One fit was made, from one start; a quick look from another found none that is better."
        return "good", "Nothing else that was tried does as well."
    status = _status_of(2.0 * (found.high - found.low))  # of what is only the spread of estimates
    if silent and is_short(found.low, found.high):
        return "open", f"{found.n} models do about equally well; they all take nearly every positive to have a label."
    range_ = share_range(found.low, found.high)
    if isinstance(inner, SARStackingClassifier):
        return status, f"{found.n} models were averaged; on their own they find {range_} positives."
    return status, f"{found.n} models do about equally well; they find {range_} positives."


def _scar(key: str, title: str, asked: Asked) -> Check:
    subject = asked.subject
    if subject.looks is not None and not subject.looks.plain:
        raise ValueError(
            "The test is for one label of each row that is never wrong; here the number of looks, or false labels, "
            "would pass for an effect of columns. What drives the labelling is above, with intervals."
        )
    if asked.silent:
        return Check(key, title, "none", f"Not to be said: {SILENT}.")
    wanted = int(np.clip(ENOUGH_LABELS / max(float(subject.s.mean()), 1e-9), FEWEST_TESTED, MOST_TESTED))
    sample = subject if subject.n_rows <= wanted else sample_of(subject, wanted, asked.rng)
    columns = sample.labelling_columns
    if not columns:
        return Check(
            key,
            title,
            "open",
            "Not tested: no columns are named that the labelling may depend on.",
            (
                "Labels alone cannot refute that they are given at random: some classifier explains them as well. It "
                "takes columns that may drive the labelling and say nothing of the class; name them: --propensity "
                "COLUMN.",
            ),
        )
    found = scar_test(
        _with_raw_names(sample),
        sample.s.astype(np.int64),
        propensity_attributes=columns,
        sample_weight=None if sample.weights is None else sample.row_weight,
        estimator=_scorer_of(sample),
        n_folds=FOLDS,
        random_state=asked.rng,
    )
    raw = listed(list(dict.fromkeys(text(sample.origins[j].column) for j in columns)))
    how = f"({p_sentence(found.p_value)})"
    if np.isnan(found.p_value) or found.degrees_of_freedom == 0:
        status, verdict = "none", "No verdict: the data cannot tell."
    elif found.p_value < SIGNIFICANT:
        status = "good"
        verdict = f"Yes {how}: whether a positive gets its label depends on {raw}, as this model allows for."
    else:
        status, verdict = "open", f"Nothing shows it {how}: labels may be given at random as far as {raw} can tell."
    caveat = (
        "The test assumes that the columns named for the labelling do not affect the class once all other columns are "
        "known. If one does, the test mistakes its effect on the class for an effect on the labelling."
    )
    return Check(key, title, status, verdict, (*_in_words([str(found)]), caveat, *asked.on_a_sample(sample)))


def _scorer_of(sample: Subject) -> Any:
    """Return what the test learns labels with beside a logistic model: of many columns a forest, without boosting.

    Forests do better on many weak columns, and are faster than boosting there.
    """
    if sparse.issparse(sample.prepared) or sample.prepared.shape[1] < MANY_COLUMNS:
        return None
    return ExtraTreesClassifier(100, max_features="sqrt", min_samples_leaf=max(3, sample.n_rows // 2000))


def _with_raw_names(sample: Subject) -> Any:
    """Return the prepared rows with columns called as in the raw table, where these names are different ones."""
    names = sample.labels_of_columns
    if hasattr(sample.prepared, "set_axis") and len(set(names)) == len(names):
        return sample.prepared.set_axis(names, axis=1)
    return sample.prepared


def _profile(key: str, title: str, asked: Asked) -> Check:
    inner = asked.subject.inner
    if asked.silent and is_short(*asked.subject.prior_interval()):
        return Check(key, title, "bad", f"Not to be said: {SILENT}.")
    if hasattr(inner, "relaxation_"):
        return _walked(key, title, asked)
    _left_out(
        asked.subject,
        "The curve is that of one label of each row, without audits, looks and facts, and would say less than is "
        "known. The interval at the top has all of it.",
    )
    sample = asked.sample
    known_inference(inner)  # refuses here what it would refuse after a fit
    if sample is not asked.subject:  # a profile is of the rows of its fit
        inner = clone(inner).fit(sample.prepared, sample.labels, sample_weight=sample.weights)
    found = profile_class_prior(inner, sample.prepared, sample.labels, sample_weight=sample.weights, level=sample.level)
    low, high = found.interval
    top = asked.subject.prior_interval()
    verdict = f"The likelihood gives {share_range(low, high)} for these very rows; the interval of the answer, for all "
    verdict += f"that they are a sample of, is {share_range(*top)}."
    if found.flat:
        verdict = f"Many: {share_range(low, high)} fit about as well."
    if found.elsewhere:
        others = listed([share(other.fit_class_prior) for other in found.elsewhere])
        verdict += f" There are other good fits, at {others}."
    order = np.argsort(found.class_prior)
    drop = found.difference[order] - float(found.difference.max())
    picture = _curve(found.class_prior[order], drop, found.fit_class_prior, (low, high), "the log-likelihood falls")
    told = asked.on_a_sample(sample)
    if told:
        told = (f"{told[0][:-1]}, to which the model was fitted anew: with all rows the range is shorter.",)
    status = "bad" if found.flat else _status_of(high - low)
    return Check(key, title, status, verdict, (*_in_words(found.sentences()), *told), picture)


def _status_of(width: float) -> str:
    """Return what to think of a range of shares."""
    return "bad" if width > WIDE else "open" if width > WIDE / 2 else "good"


def _walked(key: str, title: str, asked: Asked) -> Check:
    """Show the levels that a relaxed fit has walked through: it has no other profile."""
    inner = asked.subject.inner
    levels = inner.relaxation_.levels
    low, high = asked.subject.prior_interval()
    status = _status_of(high - low)
    told = f"{share_range(low, high)} fit about as well."
    verdict = f"Many: {told}" if status == "bad" else told
    density = np.asarray(levels.log_density - levels.imagined)
    picture = _curve(
        np.asarray(levels.class_prior), density - density.max(), inner.class_prior_, (low, high), "the likelihood falls"
    )
    details = (
        "The fit tried a grid of shares of positives. For each share it chose everything else so that held-out labels "
        "fit best. The estimate is the mean of these shares, weighted by their likelihood.",
        *_in_words(levels.remarks()),
    )
    return Check(key, title, status, verdict, details, picture)


def _curve(x: Any, y: Any, at: float, ends: tuple[float, float], what: str) -> Picture:
    shown = y > -DEEPEST
    return Picture(
        kind="profile",
        title="How well the labels fit each share of positives",
        description=(
            f"A curve over the share of positives: highest at {share(float(x[int(np.argmax(y))]))}; {what} to both "
            f"sides. The estimate is {share(at)}, the range {share_range(*ends)}."
        ),
        x_label="share of positives",
        y_label="log-likelihood below its top",
        x=tuple(map(float, x[shown])),
        y=tuple(map(float, y[shown])),
        low=(float(ends[0]),),
        high=(float(ends[1]),),
        marks=(Mark(float(at), share(at)),),
    )


def _calibration(key: str, title: str, asked: Asked) -> Check:
    subject = asked.subject
    e = np.ones(subject.n_rows) if isinstance(subject.inner, NaiveClassifier) else subject.e
    if e is None:
        raise ValueError("The propensity of each row is not known: give it as propensity=, one value per row.")
    f = subject.f
    if subject.looks is not None:  # any label at the looks that took place, true or false
        f, e = subject.label_chance, np.ones(subject.n_rows)
    found = label_calibration(
        subject.s,
        f,
        propensity=e,
        sample_weight=None if subject.weights is None else subject.row_weight,
        level=subject.level,
    )
    status, verdict = _calibrated(found, float(subject.weight @ subject.s) / float(subject.weight.sum()))
    picture = Picture(
        kind="calibration",
        title="Predicted and observed share of labelled rows",
        description=(
            f"{found.predicted.size} groups of rows by predicted chance of a label, from {share(found.predicted[0])} "
            f"to {share(found.predicted[-1])}; observed shares from {share(found.observed[0])} to "
            f"{share(found.observed[-1])}. On the diagonal both are the same."
        ),
        x_label="predicted",
        y_label="observed",
        x=tuple(map(float, found.predicted)),
        y=tuple(map(float, found.observed)),
        low=tuple(map(float, found.low)),
        high=tuple(map(float, found.high)),
    )
    details = (
        f"Calibration error {share(found.error)}; chance alone makes {share(found.expected_error)}. Chi-square "
        f"{ratio(found.statistic)} on {found.degrees_of_freedom} degrees of freedom, {p_sentence(found.p_value)}.",
        "These are the rows of the fit itself; on other rows a model does somewhat worse. This check cannot see an "
        "error that cancels out: too many positives, each with too small a chance of a label, predict the same labels.",
    )
    return Check(key, title, status, verdict, details, picture)


def _calibrated(found: Calibration, labelled: float) -> tuple[str, str]:
    """Return status and verdict; how wrong is too wrong depends on how many rows have a label."""
    beyond = found.error - found.expected_error
    if found.p_value >= SIGNIFICANT:
        return "good", f"Yes, as far as chance lets one see ({p_sentence(found.p_value)})."
    told = f"predictions are off by {share(found.error)} on average, where {share(labelled)} of rows have a label."
    if beyond > TOO_WRONG * labelled:
        return "bad", f"No: {told}"
    return ("good", f"Nearly: {told}") if beyond < SLIGHT * labelled else ("open", f"Not quite: {told}")


def _sensitivity(key: str, title: str, asked: Asked) -> Check:
    _left_out(
        asked.subject,
        "The bounds are those of one label of each row; what audits, other looks and facts rule out would be in them. "
        "Whether the labelling is as the model says, audits show.",
    )
    if asked.silent:
        why = (
            "Bounds come from factors on the odds of getting a label. Here every positive is taken to be labelled for "
            "sure, and no factor changes that."
        )
        return Check(key, title, "none", f"Not to be said: {SILENT}.", (why,))
    status, verdict, details, picture, tables = sensitivity(asked.sample)
    return Check(key, title, status, verdict, (*details, *asked.on_a_sample(asked.sample)), picture, tables)

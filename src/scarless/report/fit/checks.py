"""Can it be believed? Each diagnostic with its verdict in one sentence; what refuses says why."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scarless.diagnostics import Calibration
from scarless.diagnostics.fit.examination import FACTORS, GAMMAS, REFUSALS, Candidates, Doubt, Examination
from scarless.diagnostics.fit.subject import Subject, is_short
from scarless.diagnostics.uncertainty.identifiability import CONTRADICTED
from scarless.models import SARStackingClassifier
from scarless.outside.notices import listed
from scarless.outside.plain_words import plain
from scarless.report.fit import looks
from scarless.report.fit.answer import SILENT, WIDE, recorded
from scarless.report.fit.data import Check, Mark, NumberTable, Picture
from scarless.report.words import count, p_sentence, ratio, share, share_range, text

SIGNIFICANT = 0.05
SLIGHT, TOO_WRONG = 0.05, 0.2  # calibration errors beyond chance, as shares of the labelled rows
LOWEST_DRAWN = 8.0  # below the top of a log-likelihood that its curve is drawn
FIRM_FACTOR = 2.0  # within which a wrong labelling must matter no more than chance, for the answer to be firm
NOT_SAID = f"Not to be said: {SILENT}."
MOST_NAMED = 6  # names in a sentence
Ask = Callable[[str, str, Examination], Check]
DOING = {  # what is said while a check runs
    "identifiability": "checking whether the data settle it",
    "audits": "comparing the audits with the model",
    "looks": "comparing the looks with the model",
    "facts": "comparing the rows with what is known from elsewhere",
    "selection": "comparing the chosen model with the others",
    "scar": "testing whether the labelling depends on the columns named for it",
    "profile": "finding which shares of positives the labels allow",
    "calibration": "comparing labels with predictions",
    "sensitivity": "finding what a wrong model of the labelling would change",
}


def make_checks(exam: Examination, tell: Callable[[str], None]) -> tuple[Check, ...]:
    """Ask every diagnostic, in the order in which a reader asks."""
    parts = (
        ("identifiability", "Do the data settle it?", _identifiability),
        *_of_information(exam.subject),
        ("selection", "Which model was chosen, and what else would have done?", _selection),
        ("scar", "Does the labelling depend on the columns named for it?", _scar),
        ("profile", "Which shares of positives do the labels allow?", _profile),
        ("calibration", "Do labels come as often as predicted?", _calibration),
        ("sensitivity", "What if the labelling is not as the model says?", _sensitivity),
    )
    found = []
    for key, title, function in parts:
        tell(DOING[key])
        try:
            found.append(function(key, title, exam))
        except REFUSALS as error:
            found.append(Check(key, title, "none", "Not to be had for this model.", _in_words([str(error)])))
    unseen = _unseen(exam.subject)
    return tuple(_doubted(check, unseen) for check in found) if unseen else tuple(found)


def _unseen(subject: Subject) -> str:
    """Return what may be wrong with a fit although every check is fine: no check of labels can see it."""
    if subject.silent:
        return "Of positives without a label it says nothing."
    if subject.either_way:
        return "Whether both models have changed places, it cannot see."
    return f"Whether {recorded(subject.leaks)} recorded because of the label, it cannot see." if subject.leaks else ""


def _doubted(check: Check, unseen: str) -> Check:
    """Return a check that finds nothing wrong as one that is open, with what it cannot see."""
    return check if check.status != "good" else replace(check, status="open", verdict=f"{check.verdict} {unseen}")


def _of_information(subject: Subject) -> list[tuple[str, str, Ask]]:
    """Return what to ask of fits that were told more than one label of each row."""
    facts = subject.looks
    if facts is None:
        return []
    parts: list[tuple[str, str, Ask]] = []
    if subject.audited.any():
        parts.append(("audits", "Do the audits agree with the model?", looks.audits))
    if len(facts.names) > 1:
        parts.append(("looks", "What did each look find?", looks.several_looks))
    if facts.claims:
        parts.append(("facts", "Do the rows agree with what is known from elsewhere?", looks.known_facts))
    return parts


def _in_words(sentences: Sequence[str]) -> tuple[str, ...]:
    return tuple(text(plain(line), 2000) for line in sentences)


def _on_a_sample(exam: Examination, sample: Subject) -> tuple[str, ...]:
    """Return what to say where not all rows were looked at."""
    if sample is exam.subject:
        return ()
    return (f"Computed on {count(sample.n_rows)} of {count(exam.subject.n_rows)} rows, drawn at random.",)


def _status_of(width: float) -> str:
    """Return what to think of a range of shares."""
    return "bad" if width > WIDE else "open" if width > WIDE / 2 else "good"


# --- do the data settle it?

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


def _identifiability(key: str, title: str, exam: Examination) -> Check:
    report = exam.identifiability
    if exam.subject.looks is not None:
        return _settled(key, title, exam)
    if report is None:
        raise ValueError(exam.refusal)
    status, verdict = _IDENTIFIED[report.verdict]
    if exam.subject.silent:
        told = "Its numbers say how sure the share of labelled rows is."
        return Check(key, title, "bad", f"No: {SILENT}.", (told, *_in_words(report.sentences()[1:])))
    if report.verdict == "weakly identified" and is_short(*report.class_prior_interval):
        verdict = "Only roughly: the interval is short, but it holds less than the labels leave open."
    return Check(key, title, status, verdict, _in_words(report.sentences()))


def _settled(key: str, title: str, exam: Examination) -> Check:
    """Judge by the interval, for which all that was given counts."""
    low, high = exam.subject.prior_interval()
    status = _status_of(high - low)
    words = {"good": "Yes", "open": "Only roughly", "bad": "Hardly"}[status]
    verdict = f"{words}: with all that was given, {share_range(low, high)} of rows are positive."
    details = (
        "Labels alone settle this by the form of the models only. Several looks and audits settle it by what they "
        "show: which rows are found again, and which were never found.",
    )
    if exam.swappable:
        status, verdict = "bad", f"No: class and labelling see the same columns, and may be swapped. {verdict}"
    return Check(key, title, status, verdict, details)


# --- what else would have done?

_CANDIDATE_TABLES = {  # caption, head and kinds
    "members": (
        "The models that were averaged",
        ("model", "positives", "from", "to", "log-likelihood of held-out labels, per row"),
        ("text", "share", "share", "share", "number"),
    ),
    "search": (
        "Candidates that held-out labels cannot tell from the best",
        ("classifier sees", "C", "C of the labelling", "positives", "held-out log-likelihood, per row", "taken"),
        ("text", "number", "number", "share", "number", "text"),
    ),
    "optima": (
        "The fits that were found",
        ("found from", "positives", "of them labelled", "behind the best, in log-likelihood", "taken"),
        ("text", "share", "share", "number", "text"),
    ),
}


def _selection(key: str, title: str, exam: Examination) -> Check:
    found = exam.candidates()
    if found is None:
        return Check(key, title, "none", "There was nothing to choose: one model was fitted.")
    details = _in_words([found.reason]) if found.reason else ()
    status, verdict = _choice(exam.subject, found)
    return Check(key, title, status, verdict, details, None, (_candidate_table(found),) if found.rows else ())


def _candidate_table(found: Candidates) -> NumberTable:
    caption, head, kinds = _CANDIDATE_TABLES[found.kind]
    if found.kind == "search" and len(found.rows) < found.n:
        caption += f"; the first {len(found.rows)} of {found.n}"
    return NumberTable(caption, head, kinds, tuple(tuple(map(_candidate_cell, row)) for row in found.rows))


def _candidate_cell(value: Any) -> str | float:
    if isinstance(value, bool):
        return "yes" if value else ""
    return value if isinstance(value, float) else text(value)


def _choice(subject: Subject, found: Candidates) -> tuple[str, str]:
    """Return status and verdict of what was chosen."""
    inner = subject.inner
    if getattr(inner, "higher_optimum_", None) is not None:
        return "bad", "Another start leads to a better fit, which was not taken."
    if found.n < 2:
        if hasattr(inner, "optima_") and len(inner.optima_) == 1 and len(inner.optima_[0].starts) == 1:
            return "open", "One fit was made, from one start; a quick look from another found none that is better."
        return "good", "Nothing else that was tried does as well."
    status = _status_of(2.0 * (found.high - found.low))  # of what is only the spread of estimates
    if subject.silent and is_short(found.low, found.high):
        return "open", f"{found.n} models do about equally well; they all take nearly every positive to have a label."
    range_ = share_range(found.low, found.high)
    if isinstance(inner, SARStackingClassifier):
        return status, f"{found.n} models were averaged; on their own they find {range_} positives."
    return status, f"{found.n} models do about equally well; they find {range_} positives."


# --- does the labelling depend on the columns named for it?


def _scar(key: str, title: str, exam: Examination) -> Check:
    if exam.subject.silent:
        return Check(key, title, "none", NOT_SAID)
    asked = exam.scar()
    if asked is None:
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
    found, sample = asked
    names = dict.fromkeys(text(sample.origins[j].column) for j in sample.labelling_columns)
    raw, how = listed(list(names), MOST_NAMED), f"({p_sentence(found.p_value)})"
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
    return Check(key, title, status, verdict, (*_in_words([str(found)]), caveat, *_on_a_sample(exam, sample)))


# --- which shares of positives do the labels allow?


def _profile(key: str, title: str, exam: Examination) -> Check:
    if exam.subject.silent and is_short(*exam.subject.prior_interval()):
        return Check(key, title, "bad", NOT_SAID)
    found = exam.profile()
    low, high = found.interval
    status, range_ = "bad" if found.flat else _status_of(high - low), share_range(low, high)
    told = f"{range_} fit about as well."
    if found.recalibrated:
        verdict = f"Many: {told}" if status == "bad" else told
    elif found.flat:
        verdict = f"Many: {told}"
    else:
        verdict = (
            f"The likelihood gives {range_} for these very rows; the interval of the answer, for all that they are a "
            f"sample of, is {share_range(*exam.subject.prior_interval())}."
        )
    if found.elsewhere:
        verdict += f" There are other good fits, at {listed([share(other) for other in found.elsewhere], MOST_NAMED)}."
    details = _in_words(found.sentences)
    if found.recalibrated:
        details = (
            "The fit tried a grid of shares of positives. For each share it chose everything else so that held-out "
            "labels fit best. The estimate is the mean of these shares, weighted by their likelihood.",
            *details,
        )
    elif found.sample is not exam.subject:
        (of,) = _on_a_sample(exam, found.sample)
        details += (f"{of[:-1]}, to which the model was fitted anew: with all rows the range is shorter.",)
    falls = "the likelihood falls" if found.recalibrated else "the log-likelihood falls"
    x, y, at = found.class_prior, found.drop, found.estimate
    shown = y > -LOWEST_DRAWN
    picture = Picture(
        kind="profile",
        title="How well the labels fit each share of positives",
        description=(
            f"A curve over the share of positives: highest at {share(float(x[int(np.argmax(y))]))}; {falls} to both "
            f"sides. The estimate is {share(at)}, the range {range_}."
        ),
        x_label="share of positives",
        y_label="log-likelihood below its top",
        x=tuple(map(float, x[shown])),
        y=tuple(map(float, y[shown])),
        low=(float(low),),
        high=(float(high),),
        marks=(Mark(at, share(at)),),
    )
    return Check(key, title, status, verdict, details, picture)


# --- do labels come as often as predicted?


def _calibration(key: str, title: str, exam: Examination) -> Check:
    found = exam.calibration()
    status, verdict = _calibrated(found, exam.subject.labelled_share)
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


# --- what if the labelling is not as the model says?


def _sensitivity(key: str, title: str, exam: Examination) -> Check:
    if exam.subject.silent and exam.subject.looks is None:
        why = (
            "Bounds come from factors on the odds of getting a label. Here every positive is taken to be labelled for "
            "sure, and no factor changes that."
        )
        return Check(key, title, "none", NOT_SAID, (why,))
    found = exam.doubt()
    table = NumberTable(
        "Share of positives, if the odds of getting a label are wrong by at most a factor",
        ("factor", "at least", "at most"),
        ("number", "share", "share"),
        found.bounds,
    )
    low, high = found.bounds[FACTORS.index(2.0)][1:]
    verdict = (
        f"If the odds of getting a label are wrong by a factor of 2, {share_range(low, high)} of rows are positive."
    )
    picture = Picture(
        kind="sensitivity",
        title="Share of positives, by how wrong the labelling may be",
        description=(
            f"A band that widens from {share(found.estimate)} at a factor of 1 to "
            f"{share_range(*found.bounds[-1][1:])} at a factor of {FACTORS[-1]:g}."
        ),
        x_label="factor on the odds of getting a label",
        y_label="share of positives",
        x=GAMMAS,
        y=(found.estimate,) * len(GAMMAS),
        low=tuple(map(float, found.low)),
        high=tuple(map(float, found.high)),
    )
    details = (
        *_of_factors(found),
        "Bounds hold whatever the labelling depends on, within that factor; a factor of 2 takes a chance of 50% to "
        "somewhere from 33 to 67%. The error of estimating the chance of a label itself is not in them.",
        *_on_a_sample(exam, found.sample),
    )
    status = "good" if found.interval_factor >= FIRM_FACTOR else "open"
    return Check(key, title, status, verdict, details, picture, (table,))


def _of_factors(found: Doubt) -> list[str]:
    """Say from which factor on a wrong labelling may matter more than chance, and until when most have no label."""
    told = []
    if found.interval is not None and np.isfinite(found.interval_factor):
        told.append(
            f"From a factor of {ratio(found.interval_factor)} on, a wrong labelling may take the share of positives "
            f"out of its interval, {share_range(*found.interval)}: beyond, it may matter more than chance."
        )
    if found.most_unlabelled is not None:
        factor, unlabelled = found.most_unlabelled
        most = f"Most positives have no label ({share(unlabelled)} expected)"
        until = f"unless the odds are wrong by a factor of more than {ratio(factor)}"
        told.append(f"{most}, {until if np.isfinite(factor) else 'whatever the factor'}.")
    return told

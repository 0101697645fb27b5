"""The diagnostics of a fit, each with a verdict, or with the reason why it is not available."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scarless.diagnostics import Calibration
from scarless.diagnostics.fit.examination import FACTORS, GAMMAS, REFUSALS, Candidates, Examination, PropensityBounds
from scarless.diagnostics.fit.subject import WIDE_INTERVAL, Subject, is_short
from scarless.diagnostics.scar.tests import SCARTest
from scarless.diagnostics.uncertainty.identifiability import CONTRADICTED
from scarless.models import SARStackingClassifier
from scarless.outside.notices import listed
from scarless.outside.plain_words import plain
from scarless.report.fit import looks
from scarless.report.fit.answer import NO_ESTIMATE, recorded
from scarless.report.fit.data import Check, Mark, NumberTable, Picture
from scarless.report.fit.identification import identification_sentences
from scarless.report.words import count, p_sentence, ratio, share, share_range, text

SIGNIFICANT = 0.05  # p-value
# The calibration error minus the error expected by chance, divided by the share of labelled rows. Below the first value
# the verdict is "Nearly", above the second "No". By judgement.
SLIGHT_MISFIT, SEVERE_MISFIT = 0.05, 0.2
MAX_DROP_DRAWN = 8.0  # distance below the maximum log-likelihood to which the profile is drawn
# The sensitivity check is "good" if the share of positives stays within its interval when the odds of a label are wrong
# by this factor. By judgement.
ROBUST_FACTOR = 2.0
NOT_AVAILABLE = f"Not available: {NO_ESTIMATE}."
MAX_NAMES = 6  # names in a sentence
# Words of the models and diagnostics, and the words of the report for the same concepts.
_REPORT_WORDS = {
    "class priors": "shares of positives",
    "class prior": "share of positives",
    "classifier uses": "class model uses",
    "the propensity attributes": "the columns of the labelling model",
    "set of attributes": "set of columns",
    "propensity model": "labelling model",
}
_WORDS = re.compile("|".join(map(re.escape, _REPORT_WORDS)))
CheckFunction = Callable[[str, str, Examination], Check]
STEPS = {  # progress texts
    "identifiability": "checking whether the data determine the number of positives",
    "audits": "comparing audits with the model",
    "looks": "comparing looks with the model",
    "facts": "comparing the rows with known values",
    "selection": "comparing the candidate models",
    "scar": "testing whether the labelling depends on the columns given with --propensity",
    "profile": "computing which shares of positives are compatible with the labels",
    "calibration": "comparing predicted with observed labels",
    "sensitivity": "computing the effect of errors of the labelling model",
}


def make_checks(exam: Examination, report_step: Callable[[str], None]) -> tuple[Check, ...]:
    """Return the results of all diagnostics, in the order of the page."""
    parts = (
        ("identifiability", "Do the data determine the number of positives?", _identifiability),
        *_information_checks(exam.subject),
        ("selection", "Which model was chosen, and which others fit as well?", _selection),
        ("scar", _scar_title(exam.subject), _scar),
        ("profile", "Which shares of positives are compatible with the labels?", _profile),
        ("calibration", "Are labels as frequent as predicted?", _calibration),
        ("sensitivity", "What if the labelling model is wrong?", _sensitivity),
    )
    found = []
    for key, title, function in parts:
        report_step(STEPS[key])
        try:
            found.append(function(key, title, exam))
        except REFUSALS as error:
            found.append(Check(key, title, "none", "Not available for this fit.", _in_words([str(error)])))
    undetected = _undetected(exam.subject)
    return tuple(_qualified(check, undetected) for check in found) if undetected else tuple(found)


def _scar_title(subject: Subject) -> str:
    names = _labelling_names(subject)
    columns = "the columns given with --propensity" if len(names) > MAX_NAMES else listed(names)
    return f"Does the labelling depend on {columns or 'any column'}?"


def _labelling_names(subject: Subject) -> list[str]:
    """Return the columns of the table that the labelling model uses."""
    return list(dict.fromkeys(text(subject.origins[j].column) for j in subject.labelling_columns))


def _undetected(subject: Subject) -> str:
    """Return a sentence on a problem that no check of the labels can detect, or "" if there is none."""
    if subject.is_uninformative:
        return "This check says nothing about positives without a label."
    if subject.may_be_swapped:
        return "This check cannot detect swapped models."
    if not subject.leaks:
        return ""
    return f"This check cannot detect whether {recorded(subject.leaks)} recorded because of the label."


def _qualified(check: Check, undetected: str) -> Check:
    """Return a check with status "good" as "open", with the problem that it cannot detect; return others unchanged."""
    return check if check.status != "good" else replace(check, status="open", verdict=f"{check.verdict} {undetected}")


def _information_checks(subject: Subject) -> list[tuple[str, str, CheckFunction]]:
    """Return the checks for audits, several looks and known values."""
    facts = subject.looks
    if facts is None:
        return []
    parts: list[tuple[str, str, CheckFunction]] = []
    if subject.audited.any():
        parts.append(("audits", "Do the audits agree with the model?", looks.audits))
    if len(facts.names) > 1:
        parts.append(("looks", "What did each look find?", looks.several_looks))
    if facts.known_values:
        parts.append(("facts", "Do the rows agree with the known values?", looks.known_values))
    return parts


def _in_words(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return sentences of models and diagnostics in the words of the report."""
    return tuple(text(_WORDS.sub(lambda found: _REPORT_WORDS[found[0]], plain(line)), 2000) for line in sentences)


def _on_a_sample(exam: Examination, sample: Subject) -> tuple[str, ...]:
    """Return a note if the diagnostic used a sample of the rows."""
    if sample is exam.subject:
        return ()
    return (f"Computed on {count(sample.n_rows)} of {count(exam.subject.n_rows)} rows, drawn at random.",)


def _status_of(width: float) -> str:
    """Return the status of an interval of shares of this width."""
    return "bad" if width > WIDE_INTERVAL else "open" if width > WIDE_INTERVAL / 2 else "good"


# --- identifiability

_IDENTIFIED = {
    "identified": (
        "good",
        "Yes, if the log-odds of being positive, and the log-odds that a positive gets a label, are linear in the "
        "columns.",
    ),
    "weakly identified": ("open", "Only roughly: the labels are compatible with a wide range of numbers of positives."),
    CONTRADICTED: (
        "bad",
        "No: the labels contradict the assumption that the log-odds are linear in the columns. Without this "
        "assumption, the labels do not determine the number of positives.",
    ),
    "not identified": (
        "bad",
        "No: the estimated number of positives depends on the assumption that the log-odds are linear in the columns.",
    ),
}
_ONE_PROPENSITY = (
    "Yes, if the log-odds of being positive are linear in the columns, and all positives are equally likely to get a "
    "label."
)


def _identifiability(key: str, title: str, exam: Examination) -> Check:
    report = exam.identifiability
    if exam.subject.looks is not None:
        return _identifiability_with_information(key, title, exam)
    if report is None and isinstance(exam.subject.inner, SARStackingClassifier):
        why = (
            "This check needs a single class model, and this model averages several. See instead which shares of "
            "positives are compatible with the labels, below."
        )
        return Check(key, title, "none", "Not available for this fit.", (why,))
    if report is None:
        raise ValueError(exam.refusal)
    status, verdict = _IDENTIFIED[report.verdict]
    if report.verdict == "identified" and not exam.subject.labelling_columns:
        verdict = _ONE_PROPENSITY
    if report.swapped is not None and report.verdict == "not identified":
        verdict = "No: both models use the same columns, and may be swapped."
    labelled = float(exam.subject.weight @ exam.subject.s)
    subject = exam.subject
    found = identification_sentences(
        report,
        labelled,
        columns={name: str(origin.column) for name, origin in zip(subject.column_labels, subject.origins, strict=True)},
        level=subject.level,
        recalibrated=hasattr(subject.inner, "recalibration_"),
    )
    sentences = _in_words(found)
    if exam.subject.is_uninformative:
        note = "In this fit, the numbers below are the uncertainty of the share of rows with a label."
        return Check(key, title, "bad", f"No: {NO_ESTIMATE}.", (note, *sentences[1:]))
    if report.verdict == "weakly identified" and is_short(*report.class_prior_interval):
        verdict = "Only roughly: the confidence interval is short, but a wider range is compatible with the labels."
    return Check(key, title, status, verdict, sentences)


def _identifiability_with_information(key: str, title: str, exam: Examination) -> Check:
    """Return the check of a fit with audits, looks or known values, judged by the width of the interval."""
    low, high = exam.subject.prior_interval()
    status = _status_of(high - low)
    words = {"good": "Yes", "open": "Only roughly", "bad": "Hardly"}[status]
    verdict = f"{words}: {share_range(low, high)} of rows are positive, given the labels and the other information."
    details = (
        "With labels alone, the estimate depends on the assumption that the log-odds are linear in the columns. "
        "Further information makes this assumption less important: several looks show how many positives are found "
        "again, and audits show how many positives have no label.",
    )
    if exam.swappable:
        status, verdict = "bad", f"No: both models use the same columns, and may be swapped. {verdict}"
    return Check(key, title, status, verdict, details)


# --- candidate models

_CANDIDATE_TABLES = {  # caption, head and kinds
    "members": (
        "The models that were averaged. The nearer the log-likelihood is to 0, the better the model predicts held-out "
        "labels",
        ("model", "positives", "from", "to", "log-likelihood of held-out labels, per row"),
        ("text", "share", "share", "share", "number"),
    ),
    "search": (
        "Candidates that predict held-out labels (labels not used in the fit) about as well as the best candidate; "
        "a smaller C is a stronger penalty on large coefficients. The log-likelihood is per row, of held-out labels",
        ("columns for the class", "C, class", "C, labelling", "positives", "log-likelihood", "chosen"),
        ("text", "number", "number", "share", "number", "text"),
    ),
    "optima": (
        "The optima that the optimiser found from different starts",
        ("start", "positives", "share of positives labelled", "log-likelihood below the best", "chosen"),
        ("text", "share", "share", "number", "text"),
    ),
}  # fmt: skip


def _selection(key: str, title: str, exam: Examination) -> Check:
    found = exam.candidates()
    if found is None:
        return Check(key, title, "none", "Only one model was fitted.")
    status, verdict = _choice(exam.subject, found)
    # With one optimum there is no table, and the verdict already gives the reason.
    details = _in_words([found.reason]) if found.reason and found.rows else ()
    return Check(key, title, status, verdict, details, None, (_candidate_table(found),) if found.rows else ())


def _candidate_table(found: Candidates) -> NumberTable:
    caption, head, kinds = _CANDIDATE_TABLES[found.kind]
    if found.kind == "search" and len(found.rows) < found.n:
        caption += f" (the first {len(found.rows)} of {found.n})"
    return NumberTable(caption, head, kinds, tuple(tuple(map(_candidate_cell, row)) for row in found.rows))


def _candidate_cell(value: Any) -> str | float:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return value
    return _in_words([str(value)])[0]


def _choice(subject: Subject, found: Candidates) -> tuple[str, str]:
    """Return status and verdict of the choice among candidates."""
    inner = subject.inner
    if getattr(inner, "higher_optimum_", None) is not None:
        return "bad", "From another start, the optimiser finds a better fit, which was not chosen."
    if found.n < 2:
        if hasattr(inner, "optima_") and len(inner.optima_) == 1 and len(inner.optima_[0].starts) == 1:
            return "open", (
                "The optimiser used one start. A short trial from another start found no better fit, but better fits "
                "may exist."
            )
        return "good", "No other candidate fits as well as the chosen model."
    # The range is doubled: the spread of point estimates is narrower than an interval.
    status = _status_of(2.0 * (found.high - found.low))
    if subject.is_uninformative and is_short(found.low, found.high):
        return "open", f"{found.n} candidates fit about equally well; in all of them nearly every positive has a label."
    range_ = share_range(found.low, found.high)
    if isinstance(inner, SARStackingClassifier):
        return status, f"{found.n} models were averaged; they estimate shares of positives of {range_}."
    return (
        status,
        f"{found.n} candidates fit about equally well; they estimate shares of positives of {range_}.",
    )


# --- SCAR test


def _scar(key: str, title: str, exam: Examination) -> Check:
    if exam.subject.is_uninformative:
        return Check(key, title, "none", NOT_AVAILABLE)
    tested = exam.scar()
    if tested is None:
        return Check(
            key,
            title,
            "open",
            "Not tested: no columns were given with --propensity.",
            (
                "Labels alone cannot show whether all positives are equally likely to get a label, because some class "
                "model always explains the labels equally well. The test needs columns that may affect the labelling "
                "but not the class. Name them with --propensity.",
            ),
        )
    found, sample = tested
    raw, how = listed(_labelling_names(sample), MAX_NAMES), f"({p_sentence(found.p_value)})"
    if np.isnan(found.p_value) or found.degrees_of_freedom == 0:
        status, verdict = "none", "Not available: the test could not be computed from these rows."
    elif found.p_value < SIGNIFICANT:
        status = "good"
        verdict = f"Yes {how}, and this model allows for it."
    else:
        status, verdict = "open", f"Not detectably {how}: the labelling may be independent of {raw}."
    details = [] if status == "none" else [_scar_statistic(found)]
    details.append(
        "The test assumes that the columns given with --propensity affect only the labelling. If they also affect "
        "whether a row is positive, the test wrongly counts that as an effect on the labelling."
    )
    if status == "open":
        details.append(
            "With more labels, the test could detect weaker effects. The labelling may also depend on columns that "
            "were not named."
        )
    return Check(key, title, status, verdict, (*_in_words(details), *_on_a_sample(exam, sample)))


def _scar_statistic(found: SCARTest) -> str:
    hypothesis = "of the hypothesis that all positives are equally likely to get a label"
    if found.degrees_of_freedom is None:
        return f"Test {hypothesis}: statistic {found.statistic:.3g}."
    degrees = f"{found.degrees_of_freedom} degree{'s' * (found.degrees_of_freedom > 1)} of freedom"
    return f"{found.method.capitalize()} test {hypothesis}: chi-squared {found.statistic:.1f} on {degrees}."


# --- profile of the class prior


def _profile(key: str, title: str, exam: Examination) -> Check:
    if exam.subject.is_uninformative and is_short(*exam.subject.prior_interval()):
        return Check(key, title, "bad", NOT_AVAILABLE)
    found = exam.profile()
    low, high = found.interval
    if exam.subject.has_no_false_positives:  # A profile may include shares below the share of labelled rows.
        low = max(low, min(exam.subject.labelled_share, high))
    status, range_ = "bad" if found.flat else _status_of(high - low), share_range(low, high)
    best = share(float(found.class_prior[int(np.argmax(found.drop))]))
    sentence = f"Shares of positives from {range_} are compatible with the labels; {best} fits best."
    if share(low) == share(high):
        sentence = f"Only shares of positives near {range_} are compatible with the labels."
    if found.recalibrated:
        verdict = f"Many. {sentence}" if status == "bad" else sentence
    elif found.flat:
        verdict = f"Many. {sentence}"
    else:
        verdict, population = sentence, share_range(*exam.subject.prior_interval())
        if population != range_:
            verdict += (
                " These are shares in this table. In the population that the rows were drawn from, the confidence "
                f"interval is {population}."
            )
    if found.other_optima:
        others = listed([share(other) for other in found.other_optima], MAX_NAMES)
        verdict += f" There are other local optima, with {others} positives."
    # The first sentences of a profile, on the interval and on other optima, repeat the verdict.
    details = _in_words(found.sentences if found.recalibrated else found.sentences[1 + len(found.other_optima) :])
    if found.recalibrated:
        details = (_grid_sentences(exam.subject), *details)
    elif found.sample is not exam.subject:
        (of,) = _on_a_sample(exam, found.sample)
        details += (f"{of} The model was refitted to these rows; with all rows, the range would be shorter.",)
    falls = "the likelihood falls" if found.recalibrated else "the log-likelihood falls"
    x, y, at = found.class_prior, found.drop, found.estimate
    shown = y > -MAX_DROP_DRAWN
    picture = Picture(
        kind="profile",
        title="How well each share of positives fits the labels",
        description=(
            f"A curve over the share of positives. It is highest at {best}, and {falls} on both sides. The estimate is "
            f"{share(at)}; the shaded range is {range_}."
        ),
        x_label="share of positives",
        y_label="log-likelihood, relative to its maximum",
        x=tuple(map(float, x[shown])),
        y=tuple(map(float, y[shown])),
        low=(float(low),),
        high=(float(high),),
        marks=(Mark(at, share(at)),),
    )
    return Check(key, title, status, verdict, details, picture)


def _points(value: float) -> str:
    """Return a difference of two shares."""
    return f"{100.0 * value:.2g} percentage points"


def _grid_sentences(subject: Subject) -> str:
    """Return how a recalibrated fit computes its curve, its estimate and its interval."""
    estimate = (
        "The estimate is the mean of all shares, weighted by how well they fit."
        if subject.looks is None
        else "The estimate is the share that fits best, together with all other information."
    )
    return (
        "For each share of positives, the curve shows how well the models can fit the labels. The labelling model was "
        "fitted again for each share. The class model was not: its log-odds, predicted for rows that it was not fitted "
        f"to, were only shifted and rescaled. {estimate} The shaded range is the confidence interval. It is wider than "
        "the curve suggests, because no real table follows the models exactly."
    )


# --- calibration


def _calibration(key: str, title: str, exam: Examination) -> Check:
    found = exam.calibration()
    status, verdict = _calibrated(found, exam.subject.labelled_share)
    picture = Picture(
        kind="calibration",
        title="Predicted and observed share of labelled rows",
        description=(
            f"{found.predicted.size} groups of rows by predicted probability of a label, from "
            f"{share(found.predicted[0])} to {share(found.predicted[-1])}; observed shares from "
            f"{share(found.observed[0])} to {share(found.observed[-1])}. On the diagonal, predicted and observed "
            "shares are equal."
        ),
        x_label="predicted",
        y_label="observed",
        x=tuple(map(float, found.predicted)),
        y=tuple(map(float, found.observed)),
        low=tuple(map(float, found.low)),
        high=tuple(map(float, found.high)),
    )
    details = (
        f"The calibration error (the mean distance between predicted and observed shares) is {_points(found.error)}. "
        f"If the predictions were right, chance alone would give about {_points(found.expected_error)}. Test of fit: "
        f"chi-squared {ratio(found.statistic)} on {found.degrees_of_freedom} degrees of freedom, "
        f"{p_sentence(found.p_value)}.",
        "The model was fitted to these rows; on new rows it fits somewhat worse. This check cannot detect two errors "
        "that cancel out. A model that assumes too many positives, each with too low a probability of a label, can "
        "predict the same number of labels as the correct model.",
    )
    return Check(key, title, status, verdict, details, picture)


def _calibrated(found: Calibration, labelled: float) -> tuple[str, str]:
    """Return status and verdict; the thresholds are relative to the share of labelled rows."""
    excess = found.error - found.expected_error
    if found.p_value >= SIGNIFICANT:
        return "good", f"Yes: no detectable misfit ({p_sentence(found.p_value)})."
    error = f"predicted shares are off by {share(found.error)} on average, and {share(labelled)} of rows have a label."
    if excess > SEVERE_MISFIT * labelled:
        return "bad", f"No: {error}"
    return ("good", f"Nearly: {error}") if excess < SLIGHT_MISFIT * labelled else ("open", f"Not quite: {error}")


# --- sensitivity to the labelling model


def _sensitivity(key: str, title: str, exam: Examination) -> Check:
    if exam.subject.is_uninformative and exam.subject.looks is None:
        why = (
            "This check multiplies the odds that a positive gets a label by a factor. In this fit, every positive has "
            "a label, and no factor changes this."
        )
        return Check(key, title, "none", NOT_AVAILABLE, (why,))
    found = exam.propensity_bounds()
    table = NumberTable(
        "Share of positives if the model's odds that a positive gets a label are wrong by up to this factor",
        ("factor", "at least", "at most"),
        ("number", "share", "share"),
        found.bounds,
    )
    low, high = found.bounds[FACTORS.index(2.0)][1:]
    verdict = (
        f"If the model's odds that a positive gets a label are wrong by a factor of up to 2, the share of positives is "
        f"between {share(low)} and {share(high)}."
    )
    picture = Picture(
        kind="sensitivity",
        title="Share of positives, by the error of the labelling model",
        description=(
            f"A band. At a factor of 1, the share of positives is {share(found.estimate)}; at a factor of "
            f"{FACTORS[-1]:g}, it is between {share(found.bounds[-1][1])} and {share(found.bounds[-1][2])}."
        ),
        x_label="largest error of the odds of a label (factor)",
        y_label="share of positives",
        x=GAMMAS,
        y=(found.estimate,) * len(GAMMAS),
        low=tuple(map(float, found.low)),
        high=tuple(map(float, found.high)),
    )
    details = (
        *_factor_sentences(found),
        "The factor limits the error for each row, in either direction. For example, if the model says that a positive "
        "gets a label with a probability of 50%, then with a factor of 2 the true probability is between 33% and 67%. "
        "The bounds do not include the sampling error of the labelling model.",
        *_on_a_sample(exam, found.sample),
    )
    status = "good" if found.interval_factor >= ROBUST_FACTOR else "open"
    return Check(key, title, status, verdict, details, picture, (table,))


def _factor_sentences(found: PropensityBounds) -> list[str]:
    """Return the factor above which the estimate may leave its interval, and whether most positives have no label."""
    sentences = []
    if found.interval is not None and np.isfinite(found.interval_factor):
        sentences.append(
            f"If the odds are wrong by a factor of more than {ratio(found.interval_factor)}, the share of positives "
            f"may be outside its confidence interval, {share_range(*found.interval)}."
        )
    if found.most_unlabelled is not None:
        factor, unlabelled = found.most_unlabelled
        most = f"Most positives have no label (an estimated {share(unlabelled)})"
        until = f"unless the odds are wrong by a factor of more than {ratio(factor)}"
        sentences.append(f"{most}, {until if np.isfinite(factor) else 'however wrong the odds are'}.")
    return sentences

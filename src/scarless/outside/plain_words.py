"""Replaces Python names in messages, for users of the command line and readers of the report."""

import re
from functools import partial
from typing import Any

_MODEL = r"(?:SAREM|SCAR|SARStacking|StratifiedSCAR|PropensityWeighted|Naive|PublishedEM)Classifier(?:CV)?"
_PARAMETERS = "C|propensity_C|label_frequency|cv|max_iter|n_starts|tol|random_state|recalibrate|propensity_attributes"
# What a user of the command line can do if a fit does not converge; columns are scaled there already.
OTHER_MODEL = (
    "Leave out columns that say little (--exclude), or choose another model: --model boosted needs no such optimiser."
)
# Python names in messages of models and diagnostics are replaced by flags of the command line. The first pattern that
# matches applies. Names in quotes may be column names, and do not change.
_REMOVED = re.compile(
    rf"^(?:{_MODEL}|scar_test)(?: \(EM\))?: (?=\S)"
    rf"| \((?:exclude=\[.*?\]|(?:{_PARAMETERS})=[^()]*|lower Cs?)\)| If they may be wrong, use within\(lower, upper\)\."
    r"|\bscarless\.[a-z]+\.(?=[a-z])"
)
_QUOTED_NAMES = re.compile(r"(?<!\w)'[^']* [^']*'(?!\w)")  # column names that contain a space
_REPLACEMENTS = tuple(
    (re.compile(rf"(?<![\w'\"]){python}(?![\w'\"])"), words)
    for python, words in (
        (rf"^{_MODEL} finds", "The model finds"),
        (r"^scar_test leaves out", "The test of the labelling leaves out"),
        (rf"(?<=[Tt]his ){_MODEL}", "model"),
        (r"known has the class prior, ([^,]+)", r"--prevalence is \1"),
        (r"known has the label frequency of look \d+, ([^,]+)", r"--label-frequency gives \1"),
        (r"([Gg])ive it a larger se", r"\1ive it a larger standard error"),
        (
            r"allow for labelled negatives with false_positive_rate",
            "allow for labelled negatives with --false-positive-rate",
        ),
        (r"SAREMClassifier with n_starts=5", "--model logistic"),  # it always has several starts
        (r"SAREMClassifier(?:CV)?\(propensity_attributes=\S*?\)", "--propensity COLUMN"),
        (r"profile_class_prior", "a profile of the likelihood"),
        (r"class_prior_interval\(\)", "the interval of the share of positives"),
        (r"audited_class_prior", "an estimate from the audits alone (in Python: audited_class_prior)"),
        (r"plan_audit", "scarless audit"),
        (r"bootstrap_intervals", "a bootstrap (in Python)"),
        (r"fewer columns for the class model", "fewer columns for the class (--classification-attributes)"),
        (r"the propensity_attributes", "the columns of the labelling (--propensity)"),
        (r"(fewer|other) propensity_attributes", r"\1 columns for the labelling (--propensity)"),
        (r"(fewer|other) classification_attributes", r"\1 columns for the class (--classification-attributes)"),
        (r"classification_attributes", "the columns of the class (--classification-attributes)"),
        (r"propensity_attributes", "the columns of the labelling (--propensity)"),
        (r"Labelling\(([^()]*)\)", r"\1"),
        (r"visit_attributes", "--visit-attributes"),
        (r"audit_labels='?(\w+)'?", r"--audit-labels \1"),
        (r"heterogeneity=('estimate'|[\d.]+)", r"--heterogeneity \1"),
        (r"false_positive_rate='estimate'", "--false-positive-rate estimate"),
        (r"false_positive_rate", "the rate of false positives"),
        (r"shared=False", "--not-shared"),
        (r"[Ss]ample_weight counts", "weights count"),
        (r"sample_weight", "the weights"),
        (rf"^{_MODEL}(?: \([^)]*\))? did not converge", "The model did not converge"),
        (
            r"(?:Raise max_iter|Scale the columns)(?:, scale the columns)?, (?:or )?use a stronger penalty[^.]*\.",
            OTHER_MODEL,
        ),
        (r"Raise max_iter\. If it is large already, raise tol\.", OTHER_MODEL),
        (r"max_iter=(\d+)", r"\1"),
        (r"pass groups='rows'", "say that weights are not counts of rows (in Python: groups='rows')"),
        (r"max_iter", "the number of iterations"),
        (r"(?:use|with) n_starts=5", "from several starts"),
        (r"n_starts=5 searches", "several starts search"),
        (r"n_starts=5", "several starts"),
        (r"predict\(\)", "which rows are called positive"),
        (r"SARStackingClassifier(?:\(\))?", "--model stack"),
        (r"SAREMClassifierCV(?:\(\))?", "--model search"),
        (r"SAREMClassifier(?:\(\))?", "--model logistic"),
        (r"SCARClassifier(?:\(\))?", "--scar"),
        (r"NaiveClassifier(?:\(\))?", "the naive model"),
    )
)


def _replaced(name: re.Match[str], words: str) -> str:
    """Return the words that replace a name, with a capital letter at the beginning of a sentence."""
    new = name.expand(words)
    return new[:1].upper() + new[1:] if name.string[: name.start()].endswith(". ") else new


def plain(sentence: Any) -> str:
    """Return a message of a model or a diagnostic without Python names.

    Examples
    --------
    >>> plain("SAREMClassifierCV: rows are few. Use SARStackingClassifier(), or fewer propensity_attributes.")
    'Rows are few. Use --model stack, or fewer columns for the labelling (--propensity).'
    >>> plain("Column 'sample_weight' is empty.")
    "Column 'sample_weight' is empty."
    """
    kept: list[str] = []

    def keep(name: re.Match[str]) -> str:
        kept.append(name[0])
        return f"\0{len(kept) - 1}\0"

    found = _QUOTED_NAMES.sub(keep, str(sentence))
    found = _REMOVED.sub("", found)
    for python, words in _REPLACEMENTS:
        found = python.sub(partial(_replaced, words=words), found)
    found = re.sub("\0([0-9]+)\0", lambda place: kept[int(place[1])], found)
    return found[:1].upper() + found[1:] if found != str(sentence) else found

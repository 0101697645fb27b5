"""From a fitted model and its table to the data of a report."""

import platform
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from scarless.checks.options import check_random_stream, check_share, check_whole
from scarless.diagnostics.fit.examination import Examination
from scarless.diagnostics.fit.subject import Subject
from scarless.numerics.arrays import ArrayLike
from scarless.outside.plain_words import plain
from scarless.report.fit.answer import make_answer
from scarless.report.fit.checks import make_checks
from scarless.report.fit.data import Fact
from scarless.report.fit.looks import make_given
from scarless.report.fit.page import FitReport
from scarless.report.fit.parts import make_columns, make_effects, make_ranked
from scarless.report.words import text

PACKAGES = ("scarless", "scikit-learn", "numpy", "scipy", "pandas", "polars", "skrub", "lightgbm", "xgboost")
OF_LABELS = (
    "The fit takes every positive to have a label already. The chances below say nothing of how many of these rows are "
    "positive; the order is that of rows with a label."
)
_SAID_ELSEWHERE = {"title", "command", "warnings"}  # keys of `run` that are no facts to list
_OF_LIBRARIES = (DeprecationWarning, PendingDeprecationWarning)  # nothing that a reader of the page could mend


def model_report(
    estimator: Any,
    X: Any,
    s: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    audit: ArrayLike | None = None,
    row_names: Any = None,
    level: float = 0.95,
    n_ranked: int = 50,
    random_state: Any = 0,
    run: Mapping[str, Any] | None = None,
    progress: Callable[[str], Any] | None = None,
) -> FitReport:
    """Tell what a fit found, how far it can be believed, and how it came about: data first, then a page.

    Diagnostics that do not suit a model say so in their place. With more than 50,000 rows the expensive ones look at
    20,000 of them, and the test of the labelling never at more than 10,000. Warnings are collected and shown.

    Parameters
    ----------
    estimator : fitted TableClassifier, pipeline or classifier of this package
        A pipeline must end in a classifier of this package.
    X : data frame or array of shape (n_rows, n_columns)
        The table that it was fitted to, as raw as it was there.
    s : array of shape (n_rows,) or (n_rows, n_looks)
        Observed labels, coded as in the fit.
    sample_weight : array of shape (n_rows,), optional
        Weights of the fit.
    propensity : array of shape (n_rows,), optional
        For `PropensityWeightedClassifier`, which does not keep what it was given.
    audit : array of shape (n_rows,), optional
        The class of rows that somebody checked, where the fit was told.
    row_names : sequence of length n_rows, optional
        What ranked rows are called. None: the index of a pandas data frame, or their positions.
    level : float, default=0.95
        Nominal probability that intervals cover.
    n_ranked : int, default=50
        Unlabelled rows to show, the most probable positives first.
    random_state : int, numpy generator or RandomState, default=0
        Of samples, and of folds of the test for labels at random.
    run : dict, optional
        Facts of the run, shown under "how to repeat it": file, hash, seed, versions. Its `title` heads the page,
        `command` is shown as such, `warnings` (a list) join those of the report.
    progress : callable, optional
        Told in words what is being done.

    Returns
    -------
    FitReport

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier
    >>> from scarless.report import model_report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = rng.random(2000) < 1 / (1 + np.exp(1 - 2 * X[:, 0]))
    >>> s = y & (rng.random(2000) < 1 / (1 + np.exp(-X[:, 2])))
    >>> model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> report = model_report(model, X, s)
    >>> print(report.answer.sentence)
    356 of 2,000 rows have a label; we estimate ... positives (...% of rows); about ... are missing.
    >>> page = report.to_html()
    """
    given: dict[str, Any] = {"sample_weight": sample_weight, "propensity": propensity, "audit": audit}
    level = check_share(level, "level")
    return report_on(
        lambda: Subject.of(estimator, X, s, level=level, **given),
        row_names=row_names,
        n_ranked=n_ranked,
        random_state=random_state,
        run=run,
        progress=progress,
    )


def report_on(
    make_subject: Callable[[], Subject],
    *,
    row_names: Any = None,
    n_ranked: int = 50,
    random_state: Any = 0,
    run: Mapping[str, Any] | None = None,
    progress: Callable[[str], Any] | None = None,
) -> FitReport:
    """Return the report on a model with its rows, which `make_subject` makes: warnings of that are shown too."""
    n_ranked = check_whole(n_ranked, "n_ranked", at_least=0)
    rng, facts = check_random_stream(random_state), _check_run(run)
    tell = (lambda _: None) if progress is None else progress
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        tell("preparing the table")
        subject = make_subject()
        names = _check_names(row_names, subject.n_rows)
        tell("ranking rows")
        ranked = make_ranked(subject.by_labels() if subject.either_way else subject, n_ranked, names)
        exam = Examination.of(subject, rng)
        tell("reading the models")
        effects = make_effects(subject, rng)
        checks = make_checks(exam, tell)
        answer = make_answer(subject, exam.identifiability, checks)
        columns = make_columns(subject)
    if subject.silent:
        ranked = replace(ranked, notes=(OF_LABELS, *ranked.notes))
    told = [plain(each.message) for each in raised if not issubclass(each.category, _OF_LIBRARIES)]
    return FitReport(
        title=text(facts.get("title", "Report of a fit")),
        kind=type(subject.inner).__name__,
        level=subject.level,
        answer=answer,
        ranked=ranked,
        effects=effects,
        checks=checks,
        columns=columns,
        warnings=tuple(dict.fromkeys(text(each, 2000) for each in [*facts.get("warnings", ()), *told])),
        run=tuple(_facts(subject, facts, random_state)),
        command=text(facts.get("command", ""), 4000),
        given=make_given(subject),
    )


def _check_run(run: Any) -> dict[str, Any]:
    if run is None:
        return {}
    if not isinstance(run, Mapping):
        raise TypeError(f"run must be a dict of facts, such as {{'file': 'patients.csv'}}; got {type(run).__name__}.")
    facts = {str(name): value for name, value in run.items()}
    if isinstance(facts.get("warnings", ()), str):
        facts["warnings"] = (facts["warnings"],)
    return facts


def _check_names(row_names: Any, n_rows: int) -> Any:
    """Return one name per row, by position."""
    if row_names is None:
        return None
    names = row_names.to_numpy() if hasattr(row_names, "to_numpy") else row_names
    if isinstance(names, str) or not hasattr(names, "__len__") or len(names) != n_rows:
        given = f"{len(names)} names" if hasattr(names, "__len__") and not isinstance(names, str) else repr(names)
        raise ValueError(f"row_names must hold one name for each of the {n_rows} rows; got {given}.")
    return names


def _facts(subject: Subject, facts: Mapping[str, Any], random_state: Any) -> list[Fact]:
    given = [Fact(text(name), text(value, 2000)) for name, value in facts.items() if name not in _SAID_ELSEWHERE]
    own = [
        Fact("model" if "model" not in facts else "model in Python", text(" ".join(repr(subject.inner).split()), 2000))
    ]
    if isinstance(random_state, int | np.integer):
        own.append(Fact("seed of the report", str(random_state)))
    own.append(Fact("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"))
    return [*given, *own, *(Fact(name, found) for name in PACKAGES if (found := _version(name)))]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

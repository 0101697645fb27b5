"""Reports as data, built from a fitted model and its table."""

import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from scarless.checks.options import check_random_stream, check_share, check_whole
from scarless.diagnostics.audits.changes import AuditChanges
from scarless.diagnostics.fit.examination import Examination
from scarless.diagnostics.fit.subject import Subject
from scarless.numerics.arrays import ArrayLike
from scarless.outside.plain_words import plain
from scarless.report.fit.answer import make_answer
from scarless.report.fit.checks import make_checks
from scarless.report.fit.data import NamedValue
from scarless.report.fit.looks import make_checked, make_given
from scarless.report.fit.page import FitReport
from scarless.report.fit.parts import RowsInFiles, make_columns, make_effects, make_overlooked, make_ranked
from scarless.report.words import text

PACKAGES = ("scarless", "scikit-learn", "numpy", "scipy", "pandas", "polars", "skrub", "lightgbm", "xgboost")
ALL_LABELLED = (
    "In this fit, every positive already has a label. The probabilities therefore do not show how many of the rows "
    "listed here are positive. They show only how similar the rows are to labelled rows."
)
N_LISTED = 1000  # ranked rows that the reader of the page can list; about 150 kB
_SHOWN_ELSEWHERE = {"title", "command", "warnings"}  # keys of `run` that have their own places on the page
_LIBRARY_WARNINGS = (DeprecationWarning, PendingDeprecationWarning)  # The reader of the page cannot act on these.


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
    n_listed: int = N_LISTED,
    by: Sequence[Any] = (),
    random_state: Any = 0,
    run: Mapping[str, Any] | None = None,
    progress: Callable[[str], Any] | None = None,
) -> FitReport:
    """Return a report of a fit: the estimate, the ranked rows, the effects of columns, and the diagnostics.

    A diagnostic that does not apply to the model is reported as not available. With more than 50,000 rows, the slow
    diagnostics use a sample of 20,000 rows; the SCAR test uses at most 10,000. Warnings are collected and shown.

    Parameters
    ----------
    estimator : fitted TableClassifier, pipeline or classifier of this package
        A pipeline must end in a classifier of this package.
    X : data frame or array of shape (n_rows, n_columns)
        The table that the model was fitted to, in its raw form.
    s : array of shape (n_rows,) or (n_rows, n_looks)
        Observed labels, coded as in the fit.
    sample_weight : array of shape (n_rows,), optional
        Weight of each row; 1 by default. Pass the weights of the fit.
    propensity : array of shape (n_rows,), optional
        Propensity of each row, in (0, 1]. Only for `PropensityWeightedClassifier`, which does not store it.
    audit : array of shape (n_rows,), optional
        True class of audited rows, 1 or 0; NaN, None or -1 for rows that were not audited. Pass the audit of the fit.
    row_names : sequence of length n_rows, optional
        Names of the rows. By default, the index of a pandas data frame, or the row positions.
    level : float in (0, 1), default=0.95
        Confidence level.
    n_ranked : int, default=50
        Number of unlabelled rows to show, the most probable positives first.
    n_listed : int, default=1000
        Number of unlabelled rows that the page contains. Its reader can list, sort, filter and download these rows,
        which needs JavaScript. At least `n_ranked` rows, and no rows if `n_ranked` is 0.
    by : list of str or Series, optional
        Raw columns, or the group of each row, for the section "Who is overlooked?". By default, the propensity
        attributes and the columns with at most 12 categories.
    random_state : int, numpy generator or RandomState, default=0
        Seed of the random numbers, for samples of rows and for the folds of the SCAR test.
    run : dict, optional
        Details of the run, such as file, hash and seed, shown under "How to repeat this analysis". The key `title` is
        the title of the page, `command` is shown as a command, and `warnings` (a list) are added to the warnings of the
        report.
    progress : callable, optional
        Called with a description of the current step.

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
    356 of 2,000 rows have a label. We estimate that about ... rows (...%; 95% interval ...) are positive, so about ...
    >>> page = report.to_html()
    """
    given: dict[str, Any] = {"sample_weight": sample_weight, "propensity": propensity, "audit": audit}
    level = check_share(level, "level")
    return report_on(
        lambda: Subject.of(estimator, X, s, level=level, **given),
        row_names=row_names,
        n_ranked=n_ranked,
        n_listed=n_listed,
        by=by,
        random_state=random_state,
        run=run,
        progress=progress,
    )


def report_on(
    make_subject: Callable[[], Subject],
    *,
    row_names: Any = None,
    n_ranked: int = 50,
    n_listed: int = N_LISTED,
    by: Sequence[Any] = (),
    changes: AuditChanges | None = None,
    all_rows: RowsInFiles | None = None,
    used: str = "",
    random_state: Any = 0,
    run: Mapping[str, Any] | None = None,
    progress: Callable[[str], Any] | None = None,
) -> FitReport:
    """Return the report of the subject that `make_subject` returns; warnings of that call are shown too.

    `all_rows` are the rows of the section "Who is overlooked?", if the subject has only a sample of the rows. `used` is
    a sentence that says which model was fitted, and why.
    """
    n_ranked, n_listed = check_whole(n_ranked, "n_ranked", at_least=0), check_whole(n_listed, "n_listed", at_least=0)
    rng, run_values = check_random_stream(random_state), _check_run(run)
    report_step = (lambda _: None) if progress is None else progress
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        report_step("preparing the table for the report")
        subject = make_subject()
        names = _check_names(row_names, subject.n_rows)
        report_step("explaining the highest-ranked rows")
        by_class = subject.with_naive_model() if subject.may_be_swapped else subject
        ranked = make_ranked(by_class, n_ranked, names, n_listed)
        exam = Examination.of(subject, rng)
        report_step("computing the effects of the columns")
        effects = make_effects(subject, rng)
        report_step("estimating who is overlooked")
        overlooked = make_overlooked(subject, by, all_rows)
        checks = make_checks(exam, report_step)
        answer = make_answer(subject, exam.identifiability, checks, changes)
        columns = make_columns(subject)
    if subject.is_uninformative:
        ranked = replace(ranked, notes=(ALL_LABELLED, *ranked.notes))
    raised_texts = [plain(each.message) for each in raised if not issubclass(each.category, _LIBRARY_WARNINGS)]
    warned = [*run_values.get("warnings", ()), *raised_texts]
    return FitReport(
        title=text(run_values.get("title", "How many rows are positive?")),
        kind=type(subject.inner).__name__,
        level=subject.level,
        answer=answer,
        ranked=ranked,
        effects=effects,
        overlooked=overlooked,
        checks=checks,
        columns=columns,
        warnings=tuple(dict.fromkeys(text(each, 2000) for each in warned)),
        run=tuple(_run_details(subject, run_values, random_state)),
        command=text(run_values.get("command", ""), 4000),
        given=make_given(subject),
        checked=make_checked(changes),
        used=text(used, 1000),
    )


def _check_run(run: Any) -> dict[str, Any]:
    if run is None:
        return {}
    if not isinstance(run, Mapping):
        raise TypeError(f"run must be a dict, such as {{'file': 'patients.csv'}}; got {type(run).__name__}.")
    run_values = {str(name): value for name, value in run.items()}
    if isinstance(run_values.get("warnings", ()), str):
        run_values["warnings"] = (run_values["warnings"],)
    return run_values


def _check_names(row_names: Any, n_rows: int) -> Any:
    """Return the names of the rows, one for each row, after a check of their number."""
    if row_names is None:
        return None
    names = row_names.to_numpy() if hasattr(row_names, "to_numpy") else row_names
    if isinstance(names, str) or not hasattr(names, "__len__") or len(names) != n_rows:
        given = f"{len(names)} names" if hasattr(names, "__len__") and not isinstance(names, str) else repr(names)
        raise ValueError(f"row_names must have one name for each of the {n_rows} rows; got {given}.")
    return names


def _run_details(subject: Subject, run_values: Mapping[str, Any], random_state: Any) -> list[NamedValue]:
    shown = [name for name in run_values if name not in _SHOWN_ELSEWHERE]
    given = [NamedValue(text(name), text(_run_value(run_values[name]), 2000)) for name in shown]
    own = [NamedValue("model in Python", text(" ".join(repr(subject.inner).split()), 2000))]
    if isinstance(random_state, int | np.integer) and run_values.get("seed") != random_state:
        own.append(NamedValue("seed of the report" if "seed" in run_values else "seed", str(random_state)))
    own.append(NamedValue("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"))
    return [*given, *own, *(NamedValue(name, found) for name in PACKAGES if (found := _version(name)))]


def _run_value(value: Any) -> Any:
    """Return a list as names with commas; other values unchanged."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

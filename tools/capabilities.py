"""Write docs/capabilities.md: which kinds of data each function supports.

``python tools/capabilities.py`` tries every combination and writes the page; a test tries them again. REASONS contains
the reason for each combination that is not supported.
"""

import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import array_api_strict
import dask.dataframe as dd
import numpy as np
import pandas as pd
import sklearn
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

from scarless import (
    ClassPrior,
    Labelling,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    TableClassifier,
    load,
    save,
    to_onnx,
)
from scarless.diagnostics import (
    Sensitivity,
    bootstrap_intervals,
    goodness_of_fit,
    identifiability_report,
    profile_class_prior,
)
from scarless.scale import ParquetRows

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "capabilities.md"
EFFORT = ["effort_1", "effort_2"]
HEAD = """# Supported combinations

The columns of the table are kinds of data; the rows are estimators and functions. Each combination was tried
(`python tools/capabilities.py`), and a test tries it again.
"""
# Reasons why combinations are not supported, by the key of `COLUMNS`, or by the name of the data and this key.
REASONS: dict[Any, str] = {
    "rows on a device": "Not implemented yet: the likelihood of looks, audits and known values needs NumPy arrays.",
    "sensitivity": "`Sensitivity` varies the odds of one propensity for each row. Several looks have several "
    "propensities. With false positives, bounds or offsets its results would not be valid.",
    "goodness of fit": "With one label for each row there is nothing to test: for any labels, some propensity fits.",
    "ONNX": "Not implemented yet: the exported graph supports one label for each row.",
    "`TableClassifier`": "The preparation would change the column of an offset, which must stay unchanged.",
    "command line": "The command line has no option for an offset: its preparation would change the column.",
}


class Observed(NamedTuple):
    """One kind of data, which is a column of the page: attributes, labels, audits and options of the estimator."""

    name: str
    X: pd.DataFrame
    labels: np.ndarray
    audit: np.ndarray | None = None
    options: Any = ()  # pairs of a parameter of the estimator and its value
    flags: tuple[str, ...] = ()  # flags of the command line besides those for labels and audits

    @property
    def given(self) -> dict[str, Any]:
        """Arguments of `fit` besides rows and labels."""
        return {} if self.audit is None else {"audit": self.audit}


def rows(n: int = 700) -> list[Observed]:
    """Return one example of each kind of data."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    y = rng.random(n) < expit(1.5 * X["a"] + X["b"])
    e = expit(X["c"] + 0.3)
    looks = np.column_stack([(y & (rng.random(n) < e)) for _ in range(2)]).astype(float)
    gaps = np.where(rng.random((n, 2)) < 0.2, np.nan, looks)
    gaps[:2] = looks[:2]
    audit = np.where(rng.random(n) < 0.25, y, np.nan).astype(float)
    one = looks[:, 0].astype(int)
    wrong = np.where(rng.random((n, 2)) < 0.03, 1.0, looks)
    effort = pd.DataFrame(rng.uniform(0.5, 2.0, (n, 2)), columns=EFFORT)
    visits, log_effort = pd.concat([X, effort], axis=1), X.assign(log_effort=np.log(effort["effort_1"]))
    lower = y & (rng.random(n) < 0.2 + 0.8 * e)
    return [
        Observed("one label", X, one),
        Observed("several looks", X, looks.astype(int)),
        Observed("looks with gaps", X, gaps),
        Observed("audits", X, one, audit),
        Observed(
            "false positives",
            X,
            wrong.astype(int),
            options=(("labelling", Labelling(false_positive_rate=0.03)),),
            flags=("--false-positive-rate", "0.03"),
        ),
        Observed(
            "known share", X, one, options=(("known", [ClassPrior(0.5, se=0.05)]),), flags=("--prevalence", "0.5")
        ),
        Observed(
            "visit attributes",
            visits,
            looks.astype(int),
            options=(("labelling", Labelling(visit_attributes={"effort": EFFORT})),),
            flags=("--visit-attributes", f"effort={','.join(EFFORT)}"),
        ),
        Observed("offset", log_effort, one, options=(("labelling", Labelling(offset="log_effort")),)),
        Observed(
            "bounds",
            X,
            lower.astype(int),
            options=(("labelling", Labelling(bounds=(0.2, 1))),),
            flags=("--bounds", "0.2", "1", "--model", "logistic"),
        ),
    ]


def logistic(row: Observed, **options: Any) -> Any:
    """Fit two logistic models."""
    return SAREMClassifier(propensity_attributes=["c"], **dict(row.options), **options).fit(
        row.X, row.labels, **row.given
    )


def _search(row: Observed) -> Any:
    model = SAREMClassifierCV(propensity_attributes=["c"], Cs=[1.0], cv=2, random_state=0, **dict(row.options))
    return model.fit(row.X, row.labels, **row.given)


def _boosted(row: Observed) -> Any:
    boosting = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=4)
    model = SAREMClassifier(boosting, propensity_attributes=["c"], cv=2, random_state=0, **dict(row.options))
    return _checked(model.fit(row.X, row.labels, **row.given), row)


def _stack(row: Observed) -> Any:
    model = SARStackingClassifier([("l", None)], propensity_attributes=["c"], cv=2, random_state=0, **dict(row.options))
    return _checked(model.fit(row.X, row.labels, **row.given), row)


def _checked(model: Any, row: Observed) -> Any:
    """Call the methods of a fitted model, and check that a saved and loaded copy predicts the same."""
    low, high = model.class_prior_interval()
    assert low <= model.class_prior_ <= high
    assert model.predict_proba_interval(row.X).shape == (len(row.X), 2)
    assert np.isfinite(model.score(row.X, row.labels))
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model.skops")
        again = load(Path(folder) / "model.skops")
    q = model.predict_posterior(row.X, row.labels, **row.given)
    np.testing.assert_array_equal(again.predict_posterior(row.X, row.labels, **row.given), q)
    return again.summary()


def _named(row: Observed) -> tuple[pd.DataFrame, Any, dict[str, Any]]:
    """Return one table with labels and audits, and the names of these columns."""
    table, labels = row.X.copy(), np.atleast_2d(row.labels.T).T
    names = [f"look_{k}" for k in range(labels.shape[1])]
    table[names] = labels
    if row.audit is not None:
        table["audit"] = row.audit
    return table, names[0] if len(names) == 1 else names, {} if row.audit is None else {"audit": "audit"}


def _parquet(row: Observed) -> Any:
    table, labels, given = _named(row)
    with tempfile.TemporaryDirectory() as folder:
        table.to_parquet(Path(folder) / "rows.parquet")
        model = SAREMClassifier(propensity_attributes=["c"], **dict(row.options))
        return model.fit(ParquetRows(folder), labels, **given)


def _dask(row: Observed) -> Any:
    table, labels, given = _named(row)
    model = SAREMClassifier(propensity_attributes=["c"], **dict(row.options))
    return model.fit(dd.from_pandas(table, npartitions=2), labels, **given)


def _device(row: Observed) -> Any:
    X = array_api_strict.asarray(row.X.to_numpy())
    options = dict(row.options)
    if "labelling" in options:
        columns = {name: place for place, name in enumerate(row.X.columns)}
        parameters = options["labelling"].get_params()
        visits, offset = parameters["visit_attributes"], parameters["offset"]
        parameters["visit_attributes"] = visits and {k: [columns[name] for name in v] for k, v in visits.items()}
        parameters["offset"] = None if offset is None else columns[offset]
        options["labelling"] = type(options["labelling"])(**parameters)
    with sklearn.config_context(array_api_dispatch=True):
        return SAREMClassifier(propensity_attributes=[2], **options).fit(X, row.labels, **row.given)


def _bootstrap(row: Observed) -> Any:
    model, given = logistic(row), {"fit_params": row.given} if row.given else {}
    return bootstrap_intervals(model, row.X, row.labels, n_resamples=20, random_state=0, progress=False, **given)


def _profile(row: Observed) -> Any:
    return profile_class_prior(logistic(row), row.X, row.labels, **row.given)


def _identifiability(row: Observed) -> Any:
    return identifiability_report(logistic(row))


def _sensitivity(row: Observed) -> Any:
    return Sensitivity.from_estimator(logistic(row), row.X).at(1.5)


def _goodness(row: Observed) -> Any:
    return goodness_of_fit(logistic(row), row.X, row.labels, n_resamples=0, **row.given)


def _saved(row: Observed) -> Any:
    model = logistic(row)
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model.skops")
        again = load(Path(folder) / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(row.X), model.predict_proba(row.X))
    return again.summary()


def _onnx(row: Observed) -> Any:
    return to_onnx(logistic(row))


def _table(row: Observed) -> Any:
    model = TableClassifier(SAREMClassifier(propensity_attributes=["c"], **dict(row.options)))
    return model.fit(row.X, row.labels, **row.given)


def _command_line(row: Observed) -> Any:
    if row.name == "offset":
        raise ValueError("no flag")
    table, labels, _ = _named(row)
    looks = labels if isinstance(labels, list) else [labels]
    with tempfile.TemporaryDirectory() as folder:
        table.to_csv(Path(folder) / "rows.csv", index=False)
        flags = ["--label", *looks] if len(looks) == 1 else ["--looks", *looks]
        flags += ["--audit", "audit"] if row.audit is not None else []
        model = [] if "--model" in row.flags else ["--model", "logistic"]
        command = [sys.executable, "-m", "scarless.cli", "fit", "rows.csv", *flags, "--propensity", "c", *model]
        done = subprocess.run(
            [*command, *row.flags, "--quiet"], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ValueError(done.stderr)
        assert (Path(folder) / "rows-run" / "report.html").is_file()


def logistic_of_groups(row: Observed) -> Any:
    """Fit two logistic models to rows in groups of two."""
    groups = np.arange(len(row.X)) // 2
    model = SAREMClassifier(propensity_attributes=["c"], **dict(row.options))
    return model.fit(row.X, row.labels, groups=groups, **row.given).class_prior_interval()


# Estimators and functions, which are the rows of the page.
COLUMNS: dict[str, Callable[[Observed], Any]] = {
    "`SAREMClassifier`": logistic,
    "`SAREMClassifierCV`": _search,
    "cross-fitted boosting": _boosted,
    "`SARStackingClassifier`": _stack,
    "rows in Parquet": _parquet,
    "rows of Dask": _dask,
    "rows on a device": _device,
    "`summary`": lambda row: logistic(row).summary(),
    "intervals of rows": lambda row: logistic(row).predict_posterior_interval(row.X, row.labels, **row.given),
    "`optima_`, `selection_`": lambda row: (logistic(row).optima_, logistic(row).selection_),
    "groups of rows": logistic_of_groups,
    "bootstrap": _bootstrap,
    "profile": _profile,
    "identifiability": _identifiability,
    "sensitivity": _sensitivity,
    "goodness of fit": _goodness,
    "save and load": _saved,
    "ONNX": _onnx,
    "`TableClassifier`": _table,
    "command line": _command_line,
}
SLOW_COLUMNS = {"command line", "bootstrap", "cross-fitted boosting", "rows of Dask"}  # take seconds for each trial


def refusal(row: Observed, column: str) -> str | None:
    """Try one combination; return the text of the error, or None if it works."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            COLUMNS[column](row)
        except (ValueError, TypeError) as error:
            return " ".join(str(error).split())
    return None


def page() -> str:
    """Try every combination and return the page."""
    tried = {(row.name, column): refusal(row, column) for row in rows() for column in COLUMNS}
    return written({cell: None if error is None else reason_of(*cell) for cell, error in tried.items()})


def written(cells: dict[tuple[str, str], str | None]) -> str:
    """Return the page. `cells` contains the reason why a combination is not supported; None if it is supported."""
    names = list(dict.fromkeys(name for name, _ in cells))
    every = [cells[name, column] for column in COLUMNS for name in names]
    reasons = list(dict.fromkeys(reason for reason in every if reason))
    lines = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for column in COLUMNS:
        marks = [cells[name, column] for name in names]
        texts = ["yes" if mark is None else f"no ({1 + reasons.index(mark)})" for mark in marks]
        lines.append(f"| {column} | {' | '.join(texts)} |")
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, start=1)]
    return "\n".join([HEAD, *lines, "", "Reasons:", "", *notes, ""])


def reason_of(name: str, column: str) -> str:
    """Return why a combination is not supported."""
    return REASONS.get((name, column)) or REASONS[column]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

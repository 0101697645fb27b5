"""Do the complete work of three kinds of users, in the current folder and environment.

The hospital analyst has a CSV file and wants a report. The fraud scientist has a pipeline and wants to rank rows. The
researcher has a method and a table and wants a comparison. ``make test-dist`` runs all three in an empty folder, in a
new environment in which only the package is installed. The tests run one of them in the current environment.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import scarless

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TRUE_CLASS_PRIOR = 0.209  # share of ill patients, from examples/make_patients.py


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--examples", type=Path, default=EXAMPLES, help="folder with the users' files")
    examples = options.parse_args().examples.resolve()
    for user in (analyst, scientist, researcher):
        user(examples)
        print(f"{user.__name__}: passed", flush=True)


def analyst(examples: Path) -> None:
    """Fit a model to a CSV file, check the report, and rank the patients of the next month."""
    shutil.copy(examples / "patients.csv", "patients.csv")
    scarless_tool("inspect", "patients.csv", "--label", "diagnosed")
    columns = ("--label", "diagnosed", "--propensity", "visits", "insurance", "--id", "patient")
    scarless_tool("fit", "patients.csv", *columns, "--model", "logistic", "--out", "run")
    found = json.loads(Path("run", "summary.json").read_text(encoding="utf-8"))
    low, high = found["class_prior_interval"]
    expect(
        low < TRUE_CLASS_PRIOR < high,
        f"the interval of the report, {low:.1%} to {high:.1%}, contains the true share {TRUE_CLASS_PRIOR:.1%}",
    )
    page = Path("run", "report.html").read_text(encoding="utf-8")
    expect("insurance = full" in page, "the report has the column names of the table")
    pd.read_csv("patients.csv").drop(columns=["diagnosed", "region"]).head(500).to_csv("next.csv", index=False)
    scarless_tool("predict", "run/model.skops", "next.csv", "--out", "ranked.csv")
    expect(len(pd.read_csv("ranked.csv")) == 500, "all patients of the next month are ranked")


def scientist(examples: Path) -> None:
    """Fit a pipeline with encoded propensity attributes; check its posterior, its report and its model file."""
    table = pd.read_csv(examples / "patients.csv", index_col="patient")
    s = (table.pop("diagnosed") == "yes").to_numpy()
    numbers, words = ["age", "bmi", "sugar", "visits"], ["smoker", "insurance"]
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(drop="if_binary", sparse_output=False), words),
    )
    pair = scarless.SAREMClassifier(propensity_attributes=["visits", "insurance"])
    pipeline = make_pipeline(prepare.set_output(transform="pandas"), pair).fit(table[numbers + words], s)
    model = scarless.TableClassifier.from_pipeline(pipeline)
    unlabelled = table[~s]
    posterior = model.predict_posterior(unlabelled, np.zeros(len(unlabelled)))
    between = model.predict_posterior_interval(unlabelled, np.zeros(len(unlabelled)))
    expect(((between[:, 0] <= posterior) & (posterior <= between[:, 1])).all(), "every posterior lies in its interval")
    expect("insurance = full" in str(model.summary()), "the summary has the raw column names")
    scarless.save(model, "pipeline.skops")
    again = scarless.load("pipeline.skops").predict_posterior(unlabelled, np.zeros(len(unlabelled)))
    expect((again == posterior).all(), "the loaded model gives the same predictions")
    scarless.report.model_report(pipeline, table[numbers + words], s).save("pipeline.html")
    expect(Path("pipeline.html").stat().st_size > 10_000, "the report is written")


def researcher(examples: Path) -> None:
    """Compare the user's own method with others, on the user's own table."""
    for path in (examples / "compare").iterdir():
        if path.is_file():
            shutil.copy(path, path.name)
    scarless_tool("compare", "spec.toml", "--quick", "--out", "found", "--jobs", "1")
    expect("neighbours" in Path("found", "report.html").read_text(encoding="utf-8"), "the page has the user's method")


def scarless_tool(*arguments: str) -> None:
    """Run the installed command line tool."""
    subprocess.run([str(Path(sys.executable).with_name("scarless")), *arguments], check=True)


def expect(condition: bool, what: str) -> None:
    """Exit with an error if a condition does not hold."""
    if not condition:
        sys.exit(f"Failed: {what}")


if __name__ == "__main__":
    main()

"""Play three users from end to end, in the folder where this is started and the environment that runs it.

The hospital analyst has a CSV file and wants a report; the fraud scientist has a pipeline and wants to rank; the
researcher has a method and a table and wants a comparison. ``make test-dist`` plays them in a fresh environment and an
empty folder, where only the package is installed; the tests, where they are.
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
TRUE_SHARE = 0.209  # of the patients who are ill: examples/make_patients.py says who


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--examples", type=Path, default=EXAMPLES, help="folder with the files that users begin with")
    examples = options.parse_args().examples.resolve()
    for play in (analyst, scientist, researcher):
        play(examples)
        print(f"{play.__name__}: well", flush=True)


def analyst(examples: Path) -> None:
    """From a CSV file to a report, and the patients of the next month ranked."""
    shutil.copy(examples / "patients.csv", "patients.csv")
    scarless_tool("inspect", "patients.csv", "--label", "diagnosed")
    columns = ("--label", "diagnosed", "--propensity", "visits", "insurance", "--id", "patient")
    scarless_tool("fit", "patients.csv", *columns, "--model", "logistic", "--out", "run")
    found = json.loads(Path("run", "summary.json").read_text(encoding="utf-8"))
    low, high = found["class_prior_interval"]
    expect(low < TRUE_SHARE < high, f"{TRUE_SHARE:.1%} are ill, and the report says {low:.1%} to {high:.1%}")
    page = Path("run", "report.html").read_text(encoding="utf-8")
    expect("insurance = full" in page, "the report names columns as the table does")
    pd.read_csv("patients.csv").drop(columns=["diagnosed", "region"]).head(500).to_csv("next.csv", index=False)
    scarless_tool("predict", "run/model.skops", "next.csv", "--out", "ranked.csv")
    expect(len(pd.read_csv("ranked.csv")) == 500, "every patient of the next month is ranked")


def scientist(examples: Path) -> None:
    """A pipeline whose propensity attributes are encoded: its posterior, a report, a file."""
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
    expect(((between[:, 0] <= posterior) & (posterior <= between[:, 1])).all(), "each posterior lies in its interval")
    expect("insurance = full" in str(model.summary()), "the summary names raw columns")
    scarless.save(model, "pipeline.skops")
    again = scarless.load("pipeline.skops").predict_posterior(unlabelled, np.zeros(len(unlabelled)))
    expect((again == posterior).all(), "the model file predicts the same")
    scarless.report.model_report(pipeline, table[numbers + words], s).save("pipeline.html")
    expect(Path("pipeline.html").stat().st_size > 10_000, "there is a report")


def researcher(examples: Path) -> None:
    """A method and a table of one's own in a comparison."""
    for path in (examples / "compare").iterdir():
        if path.is_file():
            shutil.copy(path, path.name)
    scarless_tool("compare", "spec.toml", "--quick", "--out", "found", "--jobs", "1")
    expect("neighbours" in Path("found", "report.html").read_text(encoding="utf-8"), "the page has the new method")


def scarless_tool(*arguments: str) -> None:
    """Run the command as it is installed."""
    subprocess.run([str(Path(sys.executable).with_name("scarless")), *arguments], check=True)


def expect(true: bool, what: str) -> None:
    """End where something is not as it should be."""
    if not true:
        sys.exit(f"not so: {what}")


if __name__ == "__main__":
    main()

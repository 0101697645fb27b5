"""Published worked examples of occupancy models, by `SAREMClassifier`: estimates beside those that were printed.

``python -m benchmarks.published`` prints a table. The same comparison is a test.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.occupancy_examples import EXAMPLES
from benchmarks.printed import Example
from scarless import Labelling, SAREMClassifier


def fit_example(example: Example) -> SAREMClassifier:
    """Fit an example without penalties, as the programs that printed it do."""
    table = example.X.fillna(0.0).assign(nothing=0.0)  # where nobody looked, a visit attribute says nothing
    rate: Any = 0.0
    if example.false_positive_looks:
        rate = ["estimate" if k in example.false_positive_looks else 0.0 for k in range(example.S.shape[1])]
    model = SAREMClassifier(
        classification_attributes=list(example.class_attributes) or ["nothing"],
        propensity_attributes=list(example.propensity_attributes) or None,
        C=np.inf,
        propensity_C=np.inf,
        tol=1e-14,
        labelling=Labelling(
            visit_attributes=example.visit_attributes,
            shared=not example.intercept_per_look,
            false_positive_rate="estimate" if len(set(rate if isinstance(rate, list) else [])) == 1 else rate,
        ),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some of these models do not fit their data, and are told of
        return model.fit(table, example.S)


def found(model: SAREMClassifier, example: Example) -> list[tuple[str, float, float]]:
    """Return name, estimate and standard error of every number that was printed."""
    frame, answers = model.summary().to_frame(), []
    for line in example.estimates:
        if line.model == "h":
            inference = model.fitted_pair_.inference
            place = inference.objective.places[-1].start
            answers.append(("h", float(inference.parameters[place]), float(inference.parameter_errors()[place])))
            continue
        several = f"propensity {line.look}" if line.look is not None else "propensity"
        row = frame.loc[("classifier" if line.model == "f" else several, line.term)]
        answers.append((f"{line.model} {line.term}", float(row["coef"]), float(row["std_err"])))
    return answers


def main() -> None:
    """Print estimates beside printed ones."""
    for name, make in EXAMPLES.items():
        example = make()
        since = time.perf_counter()
        model = fit_example(example)
        took = time.perf_counter() - since
        agree = [
            line.value.agrees(value)
            for line, (_, value, _) in zip(example.estimates, found(model, example), strict=True)
        ]
        errors = [
            line.se.agrees(se)
            for line, (_, _, se) in zip(example.estimates, found(model, example), strict=True)
            if line.se is not None
        ]
        aic = 2 * len(example.estimates) - 2 * model.log_likelihood_
        print(
            f"| {name} | {sum(agree)} of {len(agree)} | {sum(errors)} of {len(errors)} | {aic:.4f}"
            f" ({example.aic.value if example.aic else '-'}) | {took:.2f} s |"
        )


if __name__ == "__main__":
    main()

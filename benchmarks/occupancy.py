"""Our estimates of published occupancy examples, compared with the printed estimates.

Data: the examples of `occupancy_examples`. The published tables are not part of scarless; without them, the program
compares only the two examples that books simulate, and says so.
Time: a few seconds.

For each example, the program prints how many estimates and standard errors agree, the AIC (the printed AIC in
brackets), and the seconds of the fit. A test checks the same estimates.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np

from benchmarks import records
from benchmarks.occupancy_examples import DATA_VARIABLE, EXAMPLES, is_available
from benchmarks.printed_numbers import Example
from benchmarks.runner import add_record_option, command_parser, print_table, record_table
from scarless import Labelling, SAREMClassifier


def fit_example(example: Example) -> SAREMClassifier:
    """Fit an example without penalties, as the programs that printed it do."""
    # The visit attributes of looks that did not take place are not used, so any number can replace a missing value.
    table = example.X.fillna(0.0).assign(nothing=0.0)
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
        warnings.simplefilter("ignore", UserWarning)  # Some of these models fit badly, which causes warnings.
        return model.fit(table, example.S)


def estimates_of(model: SAREMClassifier, example: Example) -> list[tuple[str, float, float]]:
    """Return name, estimate and standard error of every estimate that was printed."""
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


def main(arguments: list[str]) -> None:
    """Print how many estimates agree with the printed ones."""
    parser = command_parser("occupancy", __doc__)
    add_record_option(parser)
    options = parser.parse_args(arguments)
    heads = ["example", "estimates that agree", "standard errors that agree", "AIC (printed)", "seconds"]
    lines, reproduced = [], 0
    here = {name: make for name, make in EXAMPLES.items() if is_available(name)}
    if absent := [name for name in EXAMPLES if name not in here]:
        print(f"Not compared, because {DATA_VARIABLE} names no folder with the tables: {', '.join(absent)}.")
    if absent and options.record:
        sys.exit("A record needs all examples. benchmarks/data/README.md says where the tables are published.")
    for name, make in here.items():
        example = make()
        since = time.perf_counter()
        model = fit_example(example)
        seconds = time.perf_counter() - since
        pairs = list(zip(example.estimates, estimates_of(model, example), strict=True))
        agree = [line.value.agrees(value) for line, (_, value, _) in pairs]
        errors = [line.se.agrees(se) for line, (_, _, se) in pairs if line.se is not None]
        aic = 2 * len(example.estimates) - 2 * model.log_likelihood_
        printed = example.aic.value if example.aic else "-"
        counts = [f"{sum(agree)} of {len(agree)}", f"{sum(errors)} of {len(errors)}"]
        lines.append([name, *counts, f"{aic:.4f} ({printed})", f"{seconds:.2f}"])
        reproduced += all(agree) and all(errors)
    print_table(heads, lines)
    if options.record:
        record_table("occupancy", "agreement", heads, lines)
        makers = [make().printed_by for make in EXAMPLES.values()]
        counts_by_maker = {f"of {maker}": makers.count(maker) for maker in dict.fromkeys(makers)}
        values = {"examples": len(EXAMPLES), "reproduced": reproduced, **counts_by_maker}
        records.append("occupancy", "examples", "all", values)


if __name__ == "__main__":
    main(sys.argv[1:])

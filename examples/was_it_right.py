"""Compare the results of `make demo` with the truth: ``python examples/was_it_right.py demo``.

``make_patients.py`` simulated the patients, so it is known who is ill. A second argument names a file for a picture of
the comparison: ``python examples/was_it_right.py demo docs/_static/was-it-right.svg`` draws the picture of the README.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from make_patients import make_patients
from scarless import NaiveClassifier, TableClassifier

CHECKS = 50
NAMED = ["visits", "insurance"]
OURS, TRUTH, OTHER = "#1f5fa8", "#c4570c", "#8a94a0"


class Interval(NamedTuple):
    """An estimate with its 95% interval."""

    value: float
    low: float
    high: float


class Comparison(NamedTuple):
    """How many patients are ill, and how many ill patients 50 checks find in three orders."""

    patients: int
    diagnosed: int
    estimate: Interval
    truth: int
    forecast: Interval
    ours: int
    ordinary: int
    ordinary_without: int
    random: float


def compare(folder):
    """Compare the results in a folder of `scarless fit` with the truth."""
    table, ill = make_patients()
    has_label = (table["diagnosed"] == "yes").to_numpy()
    summary = json.loads(Path(folder, "summary.json").read_text(encoding="utf-8"))
    ranked = pd.read_csv(Path(folder, "ranked.csv"))
    our_order = ranked.loc[ranked["labelled"] == 0, "row"].to_numpy() - 1
    first = summary["first_rows"]
    return Comparison(
        patients=len(table),
        diagnosed=int(has_label.sum()),
        estimate=Interval(summary["positives"], *(len(table) * end for end in summary["class_prior_interval"])),
        truth=int(ill.sum()),
        forecast=Interval(first["positives"], *first["interval"]),
        ours=int(ill[our_order[:CHECKS]].sum()),
        ordinary=int(ill[ordinary_order(table, has_label)[:CHECKS]].sum()),
        ordinary_without=int(ill[ordinary_order(table, has_label, without=NAMED)[:CHECKS]].sum()),
        random=CHECKS * ill[~has_label].mean(),
    )


def ordinary_order(table, has_label, without=()):
    """Return the undiagnosed patients in the order of a logistic regression that takes them as healthy."""
    columns = table.drop(columns=["patient", "diagnosed", *without])
    classifier = TableClassifier(NaiveClassifier()).fit(columns, has_label.astype(int))
    probability = classifier.predict_proba(columns)[:, 1]
    undiagnosed = np.flatnonzero(~has_label)
    return undiagnosed[np.argsort(-probability[undiagnosed], kind="stable")]


def whole(number):
    """Return a count as it is, and an estimate with three significant digits, as the command line prints it."""
    return f"{number:,}" if isinstance(number, int) else f"{float(f'{number:.3g}'):,.0f}"


def sentences(found):
    estimate, forecast = found.estimate, found.forecast
    return [
        f"{found.truth:,} patients are ill. The estimate was {whole(estimate.value)} (95% interval "
        f"{whole(estimate.low)} to {whole(estimate.high)}).",
        f"Of the {CHECKS} undiagnosed patients that rank highest, {found.ours} are ill. The forecast was "
        f"{forecast.value:.0f} (95% interval {forecast.low:.0f} to {forecast.high:.0f}).",
        f"In the order of an ordinary classifier, {found.ordinary} are ill; in random order, {found.random:.0f}.",
        f"In the order of an ordinary classifier without {' and '.join(NAMED)}, {found.ordinary_without} are ill.",
    ]


def draw(found, path):
    """Draw how many patients are ill, and how many ill patients 50 checks find."""
    import matplotlib as mpl  # noqa: PLC0415 (the sentences do not need it)
    import matplotlib.pyplot as plt  # noqa: PLC0415

    mpl.use("Agg")
    with mpl.rc_context({"font.size": 21, "svg.hashsalt": "scarless"}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.9), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.25, h_pad=0.15)
        counts = {"diagnosed": (found.diagnosed, OTHER), "truly ill": (found.truth, TRUTH)}
        counts["scarless"] = (found.estimate.value, OURS)
        draw_bars(left, f"{found.patients:,} patients: how many are ill?", counts, room=0.64 * found.estimate.high)
        draw_interval(left, "95% interval", found.estimate)
        left.plot(found.truth, 0.3, color=TRUTH, marker="D", markersize=13)
        finds = {"random order": (found.random, OTHER), "ordinary\nclassifier": (found.ordinary, OTHER)}
        finds["scarless"] = (found.ours, OURS)
        draw_bars(right, f"{CHECKS} checks: how many are found?", finds, room=0.64 * found.forecast.high)
        draw_interval(right, "forecast", found.forecast)
        figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)
        plt.close(figure)


def draw_bars(axes, title, bars, room):
    """Draw a bar for each number, with its name in the room on the left and its value on the right."""
    for place, (name, (value, colour)) in zip((3, 2, 1), bars.items(), strict=True):
        axes.barh(place, value, height=0.6, color=colour)
        axes.text(-room, place, name, va="center")
        axes.text(value, place, f" {whole(value)}", va="center", color=colour, weight="bold")
    axes.set_title(title, loc="left", pad=14, size=22, weight="bold")
    axes.set_axis_off()
    axes.set_xlim(left=-room)


def draw_interval(axes, name, interval):
    """Draw an interval with its ends below the last bar."""
    ends = (interval.low, interval.high)
    axes.plot(ends, (0.3, 0.3), color=OURS, marker="|", markersize=18, markeredgewidth=3, linewidth=3)
    axes.text(axes.get_xlim()[0], 0.3, name, va="center", color=OURS)
    for end in ends:
        axes.text(end, -0.2, whole(end), va="center", ha="center", color=OURS)
    axes.set(xlim=(None, 1.1 * interval.high), ylim=(-0.4, 3.4))


if __name__ == "__main__":
    comparison = compare(sys.argv[1])
    print("\n".join(sentences(comparison)))
    if len(sys.argv) > 2:
        draw(comparison, sys.argv[2])

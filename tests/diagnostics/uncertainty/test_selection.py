"""The plot of a selection shows the candidates of the search."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from scarless import SAREMClassifier, SAREMClassifierCV
from scarless.diagnostics.uncertainty.selection_display import SelectionPathDisplay


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    s = ((X[:, 0] + 0.5 * rng.normal(size=300) > 0) & (rng.random(300) < 0.5)).astype(int)
    model = SAREMClassifierCV(propensity_attributes=[2], Cs=[0.1, 1.0, 10.0], propensity_Cs=[1.0, 5.0], cv=3)
    return model.set_params(random_state=0).fit(X, s)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_every_candidate_is_a_dot_and_selected_candidates_have_rings(fitted):
    ax = plt.subplots()[1]
    display = SelectionPathDisplay.from_estimator(fitted, ax=ax)
    assert display.ax_ is ax
    dots = {tuple(point) for line in ax.lines if line.get_marker() == "o" for point in np.column_stack(line.get_data())}
    results = fitted.cv_results_
    assert dots == set(zip(results["param_C"], results["mean_test_score"], strict=True))
    members = list(fitted.selection_.members)
    assert len(members) == 2
    (ring,) = (line for line in ax.lines if line.get_markersize() == 13)
    np.testing.assert_array_equal(ring.get_xdata(), results["param_C"][members])
    np.testing.assert_array_equal(ring.get_ydata(), results["mean_test_score"][members])
    frequencies = results["label_frequency"][members]
    told = f"selected: label frequency {frequencies.min():.2f} to {frequencies.max():.2f}"
    assert told in [text.get_text() for text in ax.get_legend().get_texts()]


def test_without_members_the_ring_is_around_the_best_index(fitted):
    ax = SelectionPathDisplay(fitted.cv_results_, 3).plot().ax_
    (ring,) = (line for line in ax.lines if line.get_markersize() == 13)
    assert ring.get_xdata() == fitted.cv_results_["param_C"][3]
    assert ring.get_ydata() == fitted.cv_results_["mean_test_score"][3]


def test_filled_dots_are_tied_candidates(fitted):
    ax = SelectionPathDisplay.from_estimator(fitted).ax_
    filled = [
        line for line in ax.lines if line.get_marker() == "o" and line.get_markerfacecolor() not in ("white", "none")
    ]
    assert sum(line.get_xdata().size for line in filled if len(line.get_xdata())) == fitted.cv_results_["tied"].sum()


def test_tied_candidates_are_inside_the_axis_limits(fitted):
    results = {**fitted.cv_results_, "mean_test_score": np.linspace(-0.2, -0.21, fitted.cv_results_["tied"].size)}
    results["mean_test_score"][-2:] = -0.3, -9.0
    results["tied"] = np.arange(results["tied"].size) % results["tied"].size == results["tied"].size - 2
    display = SelectionPathDisplay(results, results["tied"].argmax())
    low, high = display.plot().ax_.get_ylim()
    assert -9 < low < -0.3
    assert high > -0.2


def test_dollar_signs_in_column_names_are_escaped():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 3)), columns=["income_$", "tax_$", "visits"])
    s = ((table["income_$"] > 0) & (rng.random(200) < 0.5)).astype(int)
    sets = [["income_$", "tax_$"], None]
    model = SAREMClassifierCV(
        propensity_attributes=["visits"], attribute_sets=sets, Cs=[1.0], propensity_Cs=[1.0], cv=2, random_state=0
    )
    display = SelectionPathDisplay.from_estimator(model.fit(table, s))
    display.figure_.canvas.draw()
    assert any(r"income_\$, tax_\$" in text.get_text() for text in display.ax_.get_legend().get_texts())


def test_other_models_are_refused():
    with pytest.raises(TypeError, match="estimator must be a fitted SAREMClassifierCV; got SAREMClassifier"):
        SelectionPathDisplay.from_estimator(SAREMClassifier())


@pytest.mark.parametrize(
    ("size", "options"),
    [((6.4, 4.8), {"layout": "constrained"}), ((6.4, 4.8), {}), ((4.0, 4.0), {}), ((12.0, 5.0), {"ncols": 2})],
    ids=["constrained", "plain", "small", "two"],
)
def test_the_legend_is_inside_the_figure_and_overlaps_nothing(fitted, size, options):
    figure, axes = plt.subplots(figsize=size, **options)
    ax = np.ravel(axes)[0]
    SelectionPathDisplay.from_estimator(fitted, ax=ax)
    figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    for other in (ax.get_window_extent(), ax.xaxis.label.get_window_extent()):
        assert not legend.overlaps(other)
    assert figure.bbox.y0 <= legend.y0
    assert legend.y1 < ax.get_window_extent().y0
    assert ax.get_position().height > 0.3


def test_a_legend_that_is_too_wide_has_one_column(fitted):
    figure, ax = plt.subplots(figsize=(3.0, 6.0), layout="constrained")
    SelectionPathDisplay.from_estimator(fitted, ax=ax)
    figure.canvas.draw()
    lefts = {round(text.get_window_extent().x0) for text in ax.get_legend().get_texts()}
    assert len(lefts) == 1

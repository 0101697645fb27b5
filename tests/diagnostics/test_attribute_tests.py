"""Which attributes drive the labelling: effects, intervals, tests and their picture."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, ndtri
from scipy.stats import chi2

from scarless.diagnostics._pair_tests import compare
from scarless.diagnostics.attribute_display import LabellingAttributesDisplay
from scarless.diagnostics.attribute_tests import LabellingAttributes, labelling_attributes
from scarless.labelling import LogisticSAR, simulate_labels
from scarless.numerics.likelihood import log_likelihood, pair_terms

mpl.use("Agg")
import matplotlib.pyplot as plt

TRUTH = {2: 1.0, 3: 0.0, 4: -0.6}


def make_rows(n=4000, seed=0):
    """Columns 0 and 1 tell the class; 2 and 4 drive the labelling, 3 does not, 2 goes along with the class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 2] += 0.5 * X[:, 0]
    y = rng.random(n) < expit(3 * X[:, 0] + X[:, 1])
    mechanism = LogisticSAR(attributes=list(TRUTH), coefficients=list(TRUTH.values()))
    return X, simulate_labels(y, mechanism.propensity(X), random_state=seed + 1)


def run(X, s, **options):
    return labelling_attributes(
        X, s, **{"propensity_attributes": [2, 3, 4], "random_state": 0, "n_folds": 3, **options}
    )


@pytest.fixture(scope="module")
def found():
    return run(*make_rows())


def by_name(result):
    return {name: j for j, name in enumerate(result.attributes)}


def test_effects_are_found_and_their_intervals_hold_the_truth(found):
    for column, truth in TRUTH.items():
        j = by_name(found)[f"x{column}"]
        assert found.low[j] < truth < found.high[j]
        assert found.high[j] - found.low[j] < 0.6
    assert found.attributes == ("x2", "x4", "x3")
    assert found.p_adjusted[0] < 1e-6
    assert found.p_adjusted[2] > 0.05


def test_intervals_statistics_and_p_values_belong_together(found):
    half = 0.5 * (found.high - found.low)
    np.testing.assert_allclose(0.5 * (found.high + found.low), found.effect, rtol=1e-12)
    np.testing.assert_allclose(found.statistic, (ndtri(0.975) * found.effect / half) ** 2, rtol=1e-10)
    np.testing.assert_allclose(found.p_value, chi2.sf(found.statistic, 1), rtol=1e-12)
    assert (found.p_adjusted >= found.p_value).all()


def test_standard_errors_are_those_of_the_second_differences_of_the_likelihood():
    rng = np.random.default_rng(1)
    n = 400
    D, Z = rng.normal(size=(n, 1)), rng.normal(size=(n, 1))
    s = ((rng.random(n) < expit(3 * D[:, 0])) & (rng.random(n) < expit(Z[:, 0]))).astype(float)
    fit = compare(D, Z, s)

    def total(beta):
        u, v = beta[0] * D[:, 0] + beta[1], beta[2] * Z[:, 0] + beta[3]
        return log_likelihood(u, v, s, pair_terms(u, v)).sum()

    shift = 1e-4 * np.eye(4)
    slopes = [(total(fit.alternative + h) - total(fit.alternative - h)) / 2e-4 for h in shift]
    assert np.abs(slopes).max() < 1e-2  # it is a maximum, up to the slight penalty

    def second(a, b):
        return sum(i * j * total(fit.alternative + i * a + j * b) for i in (1, -1) for j in (1, -1)) / 4e-8

    information = [[-second(a, b) for b in shift] for a in shift]
    np.testing.assert_allclose(fit.covariance, np.linalg.inv(information), rtol=1e-2)


def test_effects_per_deviation_are_effects_per_unit_times_the_deviation():
    X, s = make_rows(1500)
    X[:, 2] *= 10.0
    unit, deviation = (run(X, s, per=per, classifier="logistic") for per in ("unit", "deviation"))
    spread = [X[:, int(name[1:])].std() for name in unit.attributes]
    np.testing.assert_allclose(deviation.effect, unit.effect * spread, rtol=1e-9)
    np.testing.assert_allclose(deviation.high, unit.high * spread, rtol=1e-9)
    np.testing.assert_allclose(deviation.p_value, unit.p_value, rtol=1e-9)


def test_a_wider_level_gives_wider_intervals():
    X, s = make_rows(1500)
    narrow, wide = (run(X, s, confidence_level=level, classifier="logistic") for level in (0.5, 0.99))
    np.testing.assert_allclose((wide.high - wide.effect) / (narrow.high - narrow.effect), ndtri(0.995) / ndtri(0.75))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_appear_in_table_and_words(frame):
    X, s = make_rows(1500)
    names = ["dose", "lab", "visits", "height", "age"]
    table = frame(dict(zip(names, X.T, strict=True)))
    result = run(table, s, propensity_attributes=["age", "height", "visits"], classifier="logistic")
    assert set(result.attributes) == {"age", "height", "visits"}
    shown = result.to_frame()
    assert shown.index.name == "attribute"
    assert shown.columns.tolist() == ["effect", "low", "high", "statistic", "p_value", "p_adjusted"]
    np.testing.assert_array_equal(shown["effect"], result.effect)
    assert "visits" in str(result)
    assert "95% interval" in str(result)
    assert result.summary() in str(result)
    assert "<td>visits</td>" in result._repr_html_()


def test_an_attribute_that_cannot_be_tested_comes_last_without_numbers():
    X, s = make_rows(1500)
    wide = np.column_stack([X, X[:, 2] + X[:, 3]])
    with pytest.warns(UserWarning, match="labelling_attributes leaves out x5: constant, or a linear combination"):
        result = run(wide, s, propensity_attributes=[2, 3, 4, 5], classifier="logistic")
    assert result.attributes[-1] == "x5"
    assert np.isnan([result.effect[-1], result.p_value[-1], result.p_adjusted[-1]]).all()
    np.testing.assert_allclose(result.p_adjusted[:-1], run(X, s, classifier="logistic").p_adjusted, rtol=1e-9)


def test_an_attribute_of_both_models_gets_a_wide_interval_and_a_warning():
    X, s = make_rows(1500)
    alone = run(X, s, classifier="logistic")
    with pytest.warns(UserWarning, match="x2 may affect the class and the labelling"):
        both = run(X, s, classification_attributes=[0, 1, 2], classifier="logistic")
    width = [r.high[by_name(r)["x2"]] - r.low[by_name(r)["x2"]] for r in (alone, both)]
    assert width[1] > width[0]


def test_effects_that_the_labels_leave_open_are_announced():
    """A rare attribute that no labelled row has: its log odds may be anything below some number."""
    X, s = make_rows(1500)
    X[:, 3] = 0.0
    X[np.flatnonzero(s == 0)[:3], 3] = 1.0
    with pytest.warns(UserWarning, match="cannot tell the effect of x3: the likelihood is flat there"):
        result = run(X, s, classifier="logistic")
    assert result.attributes[-1] == "x3"
    assert np.isnan(result.p_value[-1])
    assert (result.p_value[:2] < 0.05).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per": "sd"}, "per must be one of 'unit', 'deviation'"),
        ({"confidence_level": 95}, "confidence_level must lie strictly between 0 and 1"),
        ({"propensity_attributes": None}, "labelling_attributes needs propensity_attributes"),
        ({"classifier": "trees"}, "classifier must be None, 'logistic' or a scikit-learn classifier"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        run(*make_rows(200), **options)


class TestDisplay:
    def test_dots_lie_at_the_effects_strongest_on_top(self, found):
        display = LabellingAttributesDisplay.from_result(found)
        ax = display.ax_
        heights = dict(zip((t.get_text() for t in ax.get_yticklabels()), ax.get_yticks(), strict=True))
        assert heights["x2"] > heights["x4"] > heights["x3"]
        dots = np.concatenate([np.column_stack(box[0].get_data()) for box in ax.containers])
        expected = np.column_stack([found.effect, [heights[name] for name in found.attributes]])
        np.testing.assert_allclose(dots[np.argsort(-dots[:, 1])], expected)
        assert ax.get_title() == "2 of 3 attributes drive the labelling (95% intervals)"
        assert [t.get_text() for t in ax.get_legend().get_texts()] == [
            "adjusted p below 0.05",
            "no evidence of an effect",
        ]
        plt.close(display.figure_)

    def test_it_draws_where_it_is_told(self, found):
        figure, ax = plt.subplots()
        display = LabellingAttributesDisplay.from_result(found, ax=ax)
        assert display.ax_ is ax
        assert display.plot(ax) is ax
        assert figure.get_figheight() == pytest.approx(plt.rcParams["figure.figsize"][1])
        plt.close(figure)

    def test_from_data_computes_the_same(self):
        X, s = make_rows(600)
        options = {"propensity_attributes": [2, 3], "classifier": "logistic"}
        display = LabellingAttributesDisplay.from_data(X, s, **options)
        np.testing.assert_array_equal(display.result.effect, labelling_attributes(X, s, **options).effect)
        plt.close(display.figure_)

    def test_attributes_without_a_test_and_none_at_all(self):
        gap = np.array([np.nan])
        display = LabellingAttributesDisplay.from_result(
            LabellingAttributes(("age",), gap, gap, gap, gap, gap, gap, 0.95, "unit", 0.3)
        )
        assert "not tested" in [t.get_text() for t in display.ax_.texts]
        assert display.ax_.get_title().startswith("0 of 0 attributes")
        plt.close(display.figure_)

    def test_many_attributes_make_a_high_figure(self):
        many = np.full(40, 0.1)
        names = tuple(f"a{j}" for j in range(40))
        display = LabellingAttributesDisplay.from_result(
            LabellingAttributes(names, many, many - 1, many + 1, many, many, many, 0.95, "unit", 0.3)
        )
        assert display.figure_.get_figheight() > 12
        plt.close(display.figure_)

    def test_another_result_is_refused(self):
        with pytest.raises(TypeError, match="result must come from labelling_attributes; got dict"):
            LabellingAttributesDisplay.from_result({})

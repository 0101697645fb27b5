"""Attributes that drive the labelling: effects, intervals, tests and their plot."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, ndtri
from scipy.stats import chi2

from scarless.diagnostics.scar._pair_tests import compare
from scarless.diagnostics.scar.attribute_display import LabellingAttributesDisplay
from scarless.diagnostics.scar.attribute_tests import LabellingAttributes, labelling_attributes
from scarless.labelling import LogisticSAR, simulate_labels
from scarless.numerics.likelihood import log_likelihood, pair_terms

mpl.use("Agg")
import matplotlib.pyplot as plt

TRUTH = {2: 1.0, 3: 0.0, 4: -0.6}


def make_rows(n=4000, seed=0):
    """The class depends on columns 0 and 1, the labelling on 2 and 4. Column 2 is correlated with column 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, 2] += 0.5 * X[:, 0]
    y = rng.random(n) < expit(3 * X[:, 0] + X[:, 1])
    mechanism = LogisticSAR(attributes=list(TRUTH), coefficients=list(TRUTH.values()))
    return X, simulate_labels(y, mechanism.propensity(X), random_state=seed + 1)


def run(X, s, **options):
    return labelling_attributes(X, s, **{"propensity_attributes": [2, 3, 4], "random_state": 0, "cv": 3, **options})


@pytest.fixture(scope="module")
def found():
    return run(*make_rows())


def by_name(result):
    return {name: j for j, name in enumerate(result.attributes)}


def test_effects_are_found_and_their_intervals_contain_the_truth(found):
    for column, truth in TRUTH.items():
        j = by_name(found)[f"x{column}"]
        assert found.low[j] < truth < found.high[j]
        assert found.high[j] - found.low[j] < 0.6
    assert found.attributes == ("x2", "x4", "x3")
    assert found.p_adjusted[0] < 1e-6
    assert found.p_adjusted[2] > 0.05


def test_intervals_statistics_and_p_values_are_consistent(found):
    half = 0.5 * (found.high - found.low)
    np.testing.assert_allclose(0.5 * (found.high + found.low), found.effect, rtol=1e-12)
    np.testing.assert_allclose(found.statistic, (ndtri(0.975) * found.effect / half) ** 2, rtol=1e-10)
    np.testing.assert_allclose(found.p_value, chi2.sf(found.statistic, 1), rtol=1e-12)
    assert (found.p_adjusted >= found.p_value).all()


def test_standard_errors_agree_with_second_differences_of_the_likelihood():
    rng = np.random.default_rng(1)
    n = 400
    D, Z = rng.normal(size=(n, 1)), rng.normal(size=(n, 1))
    s = ((rng.random(n) < expit(3 * D[:, 0])) & (rng.random(n) < expit(Z[:, 0]))).astype(float)
    fit = compare(D, Z, s, np.ones(s.size))

    def total(beta):
        u, v = beta[0] * D[:, 0] + beta[1], beta[2] * Z[:, 0] + beta[3]
        return log_likelihood(u, v, s, pair_terms(u, v)).sum()

    shift = 1e-4 * np.eye(4)
    slopes = [(total(fit.alternative + h) - total(fit.alternative - h)) / 2e-4 for h in shift]
    assert np.abs(slopes).max() < 1e-2  # a maximum, except for the weak penalty

    def second(a, b):
        return sum(i * j * total(fit.alternative + i * a + j * b) for i in (1, -1) for j in (1, -1)) / 4e-8

    information = [[-second(a, b) for b in shift] for a in shift]
    np.testing.assert_allclose(fit.covariance, np.linalg.inv(information), rtol=1e-2)


def test_effects_per_deviation_are_effects_per_unit_times_the_deviation():
    X, s = make_rows(1500)
    X[:, 2] *= 10.0
    unit, deviation = (run(X, s, per=per, estimator="logistic") for per in ("unit", "deviation"))
    spread = [X[:, int(name[1:])].std() for name in unit.attributes]
    np.testing.assert_allclose(deviation.effect, unit.effect * spread, rtol=1e-9)
    np.testing.assert_allclose(deviation.high, unit.high * spread, rtol=1e-9)
    np.testing.assert_allclose(deviation.p_value, unit.p_value, rtol=1e-9)


def test_the_level_may_have_any_type_of_number():
    X, s = make_rows(500)
    low = run(X, s, level=0.5, estimator="logistic").low
    for level in (np.longdouble("0.5"), np.float16(0.5)):
        np.testing.assert_array_equal(run(X, s, level=level, estimator="logistic").low, low)


def test_a_higher_level_gives_wider_intervals():
    X, s = make_rows(1500)
    narrow, wide = (run(X, s, level=level, estimator="logistic") for level in (0.5, 0.99))
    np.testing.assert_allclose((wide.high - wide.effect) / (narrow.high - narrow.effect), ndtri(0.995) / ndtri(0.75))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_appear_in_the_table_and_the_summary(frame):
    X, s = make_rows(1500)
    names = ["dose", "lab", "visits", "height", "age"]
    table = frame(dict(zip(names, X.T, strict=True)))
    result = run(table, s, propensity_attributes=["age", "height", "visits"], estimator="logistic")
    assert set(result.attributes) == {"age", "height", "visits"}
    shown = result.to_frame()
    assert shown.index.name == "attribute"
    assert shown.columns.tolist() == ["effect", "low", "high", "statistic", "p_value", "p_adjusted"]
    np.testing.assert_array_equal(shown["effect"], result.effect)
    assert "visits" in str(result)
    assert "95% interval" in str(result)
    assert result.summary() in str(result)
    assert "<td>visits</td>" in result._repr_html_()


def test_an_attribute_that_cannot_be_tested_is_last_and_has_no_numbers():
    X, s = make_rows(1500)
    wide = np.column_stack([X, X[:, 2] + X[:, 3]])
    left_out = "labelling_attributes leaves out x5. This column is constant, or a linear combination"
    with pytest.warns(UserWarning, match=left_out):
        result = run(wide, s, propensity_attributes=[2, 3, 4, 5], estimator="logistic")
    assert result.attributes[-1] == "x5"
    assert np.isnan([result.effect[-1], result.p_value[-1], result.p_adjusted[-1]]).all()
    np.testing.assert_allclose(result.p_adjusted[:-1], run(X, s, estimator="logistic").p_adjusted, rtol=1e-9)


def test_an_attribute_of_both_models_gets_a_wide_interval_and_a_warning():
    X, s = make_rows(1500)
    alone = run(X, s, estimator="logistic")
    with pytest.warns(UserWarning, match="x2 may affect both the class and the labelling"):
        both = run(X, s, classification_attributes=[0, 1, 2], estimator="logistic")
    width = [r.high[by_name(r)["x2"]] - r.low[by_name(r)["x2"]] for r in (alone, both)]
    assert width[1] > width[0]


def test_effects_that_cannot_be_estimated_give_a_warning():
    """No labelled row has the rare attribute, so its log odds have no lower limit."""
    X, s = make_rows(1500)
    X[:, 3] = 0.0
    X[np.flatnonzero(s == 0)[:3], 3] = 1.0
    with pytest.warns(UserWarning, match="cannot estimate the effect of x3: the likelihood is flat"):
        result = run(X, s, estimator="logistic")
    assert result.attributes[-1] == "x3"
    assert np.isnan(result.p_value[-1])
    assert (result.p_value[:2] < 0.05).all()


def make_result(**changes):
    """Return a result for two attributes."""
    half = np.array([0.5, 0.1])
    values = {
        "attributes": ("age", "visits"),
        "effect": half,
        "low": half - 0.2,
        "high": half + 0.2,
        "statistic": half,
        "p_value": half,
        "p_adjusted": np.array([0.01, 0.4]),
        "level": 0.95,
        "per": "unit",
        "label_frequency": 0.3,
    }
    return LabellingAttributes(**{**values, **changes})


class TestText:
    def test_a_finding_names_its_condition(self):
        assert make_result().summary() == (
            "The labelling depends on age (Holm-adjusted p below 0.05), provided that age is unrelated to the class "
            "given the classification attributes. Otherwise this may be an effect on the class: add age to "
            "classification_attributes."
        )
        assert make_result().summary() in make_result()._repr_html_()
        both = make_result(shared=("age",)).summary()
        assert "provided that the class and the labelling are logistic in age" in both
        assert "classification_attributes too" not in both

    def test_an_attribute_of_both_models_is_listed_as_shared(self):
        X, s = make_rows(600)
        with pytest.warns(UserWarning, match="may affect both the class and the labelling"):
            result = run(X, s, classification_attributes=[0, 1, 2], estimator="logistic")
        assert result.shared == ("x2",)
        assert run(X, s, estimator="logistic").shared == ()

    def test_nothing_found(self):
        words = make_result(p_adjusted=np.array([0.4, 0.4])).summary()
        assert words == "No evidence that the labelling depends on age and visits (Holm-adjusted p of at least 0.05)."

    def test_untested_attributes_are_not_reported_as_without_effect(self):
        gap = np.array([np.nan, np.nan])
        words = make_result(p_adjusted=gap).summary()
        assert words.startswith("Could not be tested: age and visits (")
        assert "No evidence" not in words
        some = make_result(p_adjusted=np.array([0.4, np.nan])).summary()
        assert "No evidence that the labelling depends on age (" in some
        assert "Could not be tested: visits" in some

    def test_no_effect_can_be_estimated(self):
        X = np.random.default_rng(0).normal(size=(400, 4))
        with pytest.warns(UserWarning, match="cannot estimate the effect of x2 and x3"):
            result = labelling_attributes(X, X[:, 0] > 0, propensity_attributes=[2, 3], estimator="logistic")
        for text in (str(result), result._repr_html_()):
            assert "Could not be tested: x2 and x3" in text

    def test_small_effects_keep_their_digits(self):
        tiny = np.array([4.82e-5, 2.5])
        result = make_result(effect=tiny, low=tiny - 1e-5, high=tiny + 1e-5, p_adjusted=np.array([0.0498, 0.0501]))
        row = next(line for line in str(result).splitlines() if line.startswith("age"))
        assert row.split()[1:4] == ["4.82e-05", "[3.82e-05,", "5.82e-05]"]
        assert row.endswith("0.0498")
        assert "2.500" in str(result)
        assert "<td>4.82e-05</td>" in result._repr_html_()

    def test_columns_are_aligned(self):
        tiny = np.array([-4.82e-5, 12.5])
        lines = str(make_result(effect=tiny, low=tiny - 100.0, high=tiny + 1e5)).splitlines()[1:4]
        assert len({len(line) for line in lines}) == 1

    def test_html_names_the_unit(self):
        assert "<caption>Effect on being labelled, per unit of the attribute</caption>" in make_result()._repr_html_()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per": "sd"}, "per must be one of 'unit', 'deviation'"),
        ({"level": 95}, "level must lie strictly between 0 and 1"),
        ({"propensity_attributes": None}, "labelling_attributes needs propensity_attributes"),
        ({"estimator": "trees"}, "estimator must be None, 'logistic' or an instance of a scikit-learn classifier"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        run(*make_rows(200), **options)


class TestDisplay:
    def test_dots_are_at_the_effects_with_the_strongest_at_the_top(self, found):
        display = LabellingAttributesDisplay.from_result(found)
        ax = display.ax_
        heights = dict(zip((t.get_text() for t in ax.get_yticklabels()), ax.get_yticks(), strict=True))
        assert heights["x2"] > heights["x4"] > heights["x3"]
        dots = np.concatenate([np.column_stack(box[0].get_data()) for box in ax.containers])
        expected = np.column_stack([found.effect, [heights[name] for name in found.attributes]])
        np.testing.assert_allclose(dots[np.argsort(-dots[:, 1])], expected)
        assert ax.get_title() == (
            "2 of 3 attributes drive the labelling (95% intervals)\n"
            "if they are unrelated to the class given the classification attributes"
        )
        assert [t.get_text() for t in ax.get_legend().get_texts()] == [
            "adjusted p below 0.05",
            "no evidence of an effect",
        ]
        plt.close(display.figure_)

    def test_it_draws_on_the_given_axes(self, found):
        figure, ax = plt.subplots()
        display = LabellingAttributesDisplay.from_result(found, ax=ax)
        assert display.ax_ is ax
        assert display.plot(ax) is display
        assert figure.get_figheight() == pytest.approx(plt.rcParams["figure.figsize"][1])
        plt.close(figure)

    def test_from_data_computes_the_same(self):
        X, s = make_rows(600)
        options = {"propensity_attributes": [2, 3], "estimator": "logistic"}
        display = LabellingAttributesDisplay.from_data(X, s, **options)
        expected = labelling_attributes(X, s, per="deviation", **options)
        np.testing.assert_array_equal(display.result.effect, expected.effect)
        assert display.ax_.get_xlabel() == "log odds of being labelled, per standard deviation of the attribute"
        plt.close(display.figure_)

    def test_no_attribute_could_be_tested(self):
        gap = np.array([np.nan])
        display = LabellingAttributesDisplay.from_result(
            LabellingAttributes(("age",), gap, gap, gap, gap, gap, gap, 0.95, "unit", 0.3)
        )
        assert "not tested" in [t.get_text() for t in display.ax_.texts]
        assert display.ax_.get_title() == "No attribute could be tested"
        plt.close(display.figure_)

    @pytest.mark.parametrize(
        ("p_adjusted", "shared", "title"),
        [
            (
                [0.01, 0.4],
                (),
                "1 of 2 attributes drives the labelling (95% intervals)\nif it is unrelated to the class",
            ),
            (
                [0.01, 0.4],
                ("age",),
                "1 of 2 attributes drives the labelling (95% intervals)\nif the class and the labelling are logistic",
            ),
            ([0.6, 0.6], (), "0 of 2 attributes drive the labelling (95% intervals)"),
        ],
    )
    def test_the_title_names_the_condition(self, p_adjusted, shared, title):
        display = LabellingAttributesDisplay.from_result(make_result(p_adjusted=np.array(p_adjusted), shared=shared))
        assert display.ax_.get_title().startswith(title)
        plt.close(display.figure_)

    def test_rounded_p_values_stay_on_their_side_of_the_significance_level(self):
        display = LabellingAttributesDisplay.from_result(make_result(p_adjusted=np.array([0.0498, 0.0501])))
        assert [t.get_text() for t in display.ax_.texts] == ["p = 0.0498", "p = 0.05"]
        plt.close(display.figure_)

    def test_names_with_dollars_can_be_drawn(self):
        display = LabellingAttributesDisplay.from_result(make_result(attributes=("income_$", "$x_{$")))
        display.figure_.canvas.draw()
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
        with pytest.raises(
            TypeError, match="result must be a LabellingAttributes, as returned by labelling_attributes; got dict"
        ):
            LabellingAttributesDisplay.from_result({})

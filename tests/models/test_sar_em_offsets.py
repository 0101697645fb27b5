"""Offsets and bounds of propensities, compared with a direct minimisation of the likelihood."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit

from scarless import Labelling, SAREMClassifier, TableClassifier, load, save
from scarless.labelling import simulate_looks

# Models without these bounds or offsets do not fit the data, so the fit warns.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*labels do not fit a model without false positives:UserWarning",
    "ignore:.*the coefficient of an offset is 1:UserWarning",
    "ignore:.*the share of labelled rows that are labelled again implies:UserWarning",
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 800
    table = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    table["effort_1"], table["effort_2"] = rng.normal(size=(2, n))
    y = rng.random(n) < expit(table["a"] - 0.3)
    e = 0.2 + 0.6 * expit(table["b"].to_numpy()[:, None] + table[["effort_1", "effort_2"]].to_numpy())
    return table, y, simulate_looks(y, e, observed=0.9, random_state=0)


def _by_hand(table, S, *, offsets, bounds, ridge):
    """Minimise the penalised likelihood, with f on column a and e on column b, by a general solver."""
    low, high = bounds
    a, b = table["a"].to_numpy(), table["b"].to_numpy()
    seen, found = ~np.isnan(S), S == 1

    def cost(beta):
        u = beta[0] * a + beta[1]
        e = low + (high - low) * expit(beta[2] * b[:, None] + beta[3] + offsets)
        A = np.where(found, np.log(e), np.where(seen, np.log1p(-e), 0.0)).sum(axis=1)
        nothing = ~found.any(axis=1)
        value = np.where(nothing, np.logaddexp(log_expit(u) + A, log_expit(-u)), log_expit(u) + A)
        return -value.sum() + 0.5 * ridge * (beta[0] ** 2 + beta[2] ** 2)

    return minimize(cost, np.zeros(4), method="BFGS", options={"gtol": 1e-7}).x


@pytest.mark.parametrize("bounds", [None, (0.2, 0.8)])
@pytest.mark.parametrize("offset", [None, ["effort_1", "effort_2"]])
def test_the_fit_is_the_maximum(data, bounds, offset):
    table, _, S = data
    model = SAREMClassifier(
        classification_attributes=["a"],
        propensity_attributes=["b"],
        C=2.0,
        propensity_C=2.0,
        labelling=Labelling(offset=offset, bounds=bounds),
    ).fit(table, S)
    added = table[offset].to_numpy() if offset else np.zeros(S.shape)
    want = _by_hand(table, S, offsets=added, bounds=bounds or (0.0, 1.0), ridge=0.5)
    got = [model.coef_[0, 0], model.intercept_[0], model.propensity_coef_[0, 1], model.propensity_intercept_[0]]
    np.testing.assert_allclose(got, want, atol=2e-5)
    low, high = bounds or (0.0, 1.0)
    for look in range(2):
        e = low + (high - low) * expit(want[2] * table["b"] + want[3] + added[:, look])
        np.testing.assert_allclose(model.predict_propensity(table, look=look), e, atol=2e-5)
        ends = model.predict_propensity_interval(table, look=look)
        assert (ends >= low).all()
        assert (ends <= high).all()
        assert (ends[:, 0] < e).all()
        assert (ends[:, 1] > e).all()
    np.testing.assert_allclose(
        model.detection_curve(table)[0],
        np.average(model.predict_propensity(table, look=0), weights=model.predict_proba(table)[:, 1]),
    )


def test_standard_errors_are_those_of_the_curvature(data):
    """Numerical derivatives of the likelihood, also far from the optimum, agree with the summary."""
    table, _, S = data
    said = Labelling(bounds=(0.2, 0.8), offset=["effort_1", "effort_2"])
    model = SAREMClassifier(propensity_attributes=["b"], classification_attributes=["a"], C=np.inf, labelling=said)
    model.set_params(propensity_C=np.inf).fit(table, S)
    error = model.standard_errors().intercept[0]
    best = model.log_likelihood_
    held = []
    for step in (-0.05, 0.05):
        moved = model.intercept_[0] + step

        def cost(beta, moved=moved):
            u = beta[0] * table["a"].to_numpy() + moved
            v = beta[1] * table["b"].to_numpy()[:, None] + beta[2] + table[["effort_1", "effort_2"]].to_numpy()
            e = 0.2 + 0.6 * expit(v)
            A = np.where(S == 1, np.log(e), np.where(S == 0, np.log1p(-e), 0.0)).sum(axis=1)
            nothing = ~(S == 1).any(axis=1)
            return -np.where(nothing, np.logaddexp(log_expit(u) + A, log_expit(-u)), log_expit(u) + A).sum()

        held.append(best + minimize(cost, [1.0, 1.0, 0.0], method="BFGS").fun)
    assert np.mean(held) == pytest.approx(0.5 * (0.05 / error) ** 2, rel=0.02)


def test_an_offset_is_not_an_attribute(data):
    table, _, S = data
    model = SAREMClassifier(propensity_attributes=["b"], labelling=Labelling(offset="effort_1")).fit(table, S)
    assert model.coef_[0, 2] == 0.0
    assert model.propensity_coef_[0, 2] == 0.0
    moved = table.assign(effort_1=table["effort_1"] + 1.0)
    before, after = (logit(model.predict_propensity(each)) for each in (table, moved))
    np.testing.assert_allclose(after - before, 1.0)
    again = SAREMClassifier(propensity_attributes=["b"], labelling=Labelling(offset="effort_1")).fit(moved, S)
    assert again.propensity_intercept_[0] == pytest.approx(model.propensity_intercept_[0] - 1.0, abs=1e-4)


def test_bounds_of_0_and_1_have_no_effect(data):
    table, _, S = data
    plain = SAREMClassifier(propensity_attributes=["b"]).fit(table, S)
    bounded = SAREMClassifier(propensity_attributes=["b"], labelling=Labelling(bounds=(0, 1))).fit(table, S)
    np.testing.assert_array_equal(plain.coef_, bounded.coef_)


def test_bounds_are_in_the_summary_and_in_a_file(data, tmp_path):
    table, _, S = data
    model = SAREMClassifier(propensity_attributes=["b"], labelling=Labelling(bounds=(0.2, 0.8))).fit(table, S)
    assert "0.2 to 0.8 (given)" in str(model.summary())
    save(model, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_propensity(table), model.predict_propensity(table))


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"bounds": (0.8, 0.2)}, r"for example \(0.2, 1\); got \(0.8, 0.2\)"),
        ({"bounds": 0.2}, r"bounds must be the lowest and the highest possible propensity"),
        ({"bounds": (0.2, 1.2)}, r"for example \(0.2, 1\); got"),
        ({"offset": ["a", "b", "effort_1"]}, "offset has 3 columns, but labels have 2 looks"),
        ({"offset": "b"}, "propensity_attributes has columns that are also visit_attributes or "),
    ],
)
def test_wrong_offsets_and_bounds_are_refused(data, said, match):
    table, _, S = data
    with pytest.raises(ValueError, match=match):
        SAREMClassifier(propensity_attributes=["b"], labelling=Labelling(**said)).fit(table, S)


def test_incompatible_options_are_refused(data):
    table, _, S = data
    inner = SAREMClassifier(propensity_attributes=["b"], labelling=Labelling(offset="effort_1"))
    with pytest.raises(ValueError, match="does not support the offset of Labelling, because a preparation"):
        TableClassifier(inner).fit(table, S)
    far = table.assign(effort_1=1e9 + table["effort_1"])
    with pytest.raises(ValueError, match="offset: the column has a mean more than 1e5 standard deviations from 0"):
        inner.fit(far, S)

"""Penalties and attributes by cross-validation: the table, the rule, the final fit."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold
from tests.helpers import quick_first, simulate

from scarless import ClassPriorWarning, PseudoObservations, SAREMClassifier, SAREMClassifierCV
from scarless.numerics.linear import Design
from scarless.pair.logistic import engine_of
from scarless.pair.problem import PairProblem
from scarless.pair.recalibrated import recalibrate, recalibrate_beside_missing_attribute
from scarless.pair.search import Grid, HeldOutGain, HeldOutSums, PenaltyPath, path_to, results_table, tied_with_best

SMALL = {"Cs": [0.1, 1.0, 10.0], "propensity_Cs": [0.5, 2.0], "random_state": 0}
PLAIN = {"recalibrate": False, "known": [PseudoObservations(0)], **SMALL}
FEW = {"Cs": [0.1, 1.0], "propensity_Cs": [0.5], "random_state": 0}  # small enough to check every candidate


def table_of(model, *names):
    return [model.cv_results_[name] for name in names]


@pytest.fixture(scope="module")
def pu():
    return simulate()


@pytest.fixture(scope="module")
def folds(pu):
    return list(StratifiedKFold(3, shuffle=True, random_state=3).split(pu.X, pu.s))


@pytest.fixture(scope="module")
def fitted(pu, folds):
    """Return a search without recalibration, whose candidates are plain fits."""
    return SAREMClassifierCV(propensity_attributes=[2], cv=folds, **PLAIN).fit(pu.X, pu.s)


@pytest.fixture(scope="module")
def recalibrated(pu, folds):
    return SAREMClassifierCV(propensity_attributes=[2], cv=folds, **SMALL).fit(pu.X, pu.s)


def nearest_to_one(results, rows):
    """Return which of these rows of the results has the penalties nearest to 1."""
    return min(rows, key=lambda i: (abs(np.log(results["param_C"][i])), abs(np.log(results["param_propensity_C"][i]))))


def representatives(results):
    """Return, for each set with tied candidates, the tied candidate with the penalties nearest to 1."""
    rows = np.flatnonzero(results["tied"])
    sets = results["param_attributes"][rows]
    return [nearest_to_one(results, rows[sets == name]) for name in dict.fromkeys(sets)]


def plain_model(params, **options):
    """Return a plain SAREMClassifier with a candidate's parameters."""
    seen = {"all": None, "all but the propensity attributes": [0, 1, 3]}[params["attributes"]]
    penalties = {"C": params["C"], "propensity_C": params["propensity_C"]}
    return SAREMClassifier(propensity_attributes=[2], classification_attributes=seen, **penalties, **options)


def rows_out_of_fold(pu, folds, params):
    """Return each row's held-out log-likelihood under a plain SAREMClassifier with the candidate's parameters."""
    model = plain_model(params)
    value = np.empty(pu.s.size)
    for train, test in folds:
        model.fit(pu.X[train], pu.s[train])
        p = model.predict_proba(pu.X[test])[:, 1] * model.predict_propensity(pu.X[test])
        value[test] = np.where(pu.s[test] == 1, np.log(p), np.log1p(-p))
    return value


def test_the_label_frequency_of_a_candidate_without_expected_positives_is_0():
    sums = HeldOutSums(
        np.full(2, 10.0), np.zeros(2), np.array([0.0, -1.0]), np.eye(2), np.array([4.0, 0.0]), np.array([1.0, 0.0])
    )
    grid = Grid(np.array([0.1, 1.0]), np.array([1.0]))
    table = results_table([PenaltyPath(0, None)], grid, [sums], ["all"], tested=10.0, n_standard_errors=1.0)
    np.testing.assert_array_equal(table["label_frequency"], [0.25, 0.0])
    np.testing.assert_array_equal(table["class_prior"], [0.4, 0.0])


@pytest.mark.filterwarnings("ignore:.* finds that all positives are labelled:UserWarning")  # at C = 0.1
def test_the_results_table_equals_separate_fits(pu, folds, fitted):
    results = fitted.cv_results_
    rows = np.array([rows_out_of_fold(pu, folds, params) for params in results["params"]])
    np.testing.assert_allclose(results["mean_test_score"], rows.mean(axis=1), atol=1e-5)
    per_fold = np.array([rows[:, test].mean(axis=1) for _, test in folds])
    np.testing.assert_allclose([results[f"split{i}_test_score"] for i in range(3)], per_fold, atol=2e-5)
    np.testing.assert_allclose(results["std_test_score"], per_fold.std(axis=0), atol=2e-5)
    best = results["mean_test_score"].argmax()
    behind = rows[best] - rows
    np.testing.assert_allclose(results["behind_best"], behind.mean(axis=1), atol=1e-5)
    np.testing.assert_allclose(results["standard_error"], behind.std(axis=1) / np.sqrt(pu.s.size), atol=1e-5)


def test_the_table_has_every_candidate_once(fitted):
    attributes, C, propensity_C = table_of(fitted, "param_attributes", "param_C", "param_propensity_C")
    assert set(attributes) == {"all", "all but the propensity attributes"}
    rows = list(zip(attributes, C, propensity_C, strict=True))
    assert len(rows) == len(set(rows)) == 2 * 3 * 2
    assert fitted.cv_results_["rank_test_score"].min() == 1
    assert fitted.cv_results_["params"][fitted.best_index_] == fitted.best_params_
    assert fitted.best_score_ == fitted.cv_results_["mean_test_score"][fitted.best_index_]


def test_ties_are_resolved_by_the_penalty_nearest_to_1_then_by_the_lowest_label_frequency(fitted):
    tied, frequency, prior = table_of(fitted, "tied", "label_frequency", "class_prior")
    rows, stand = np.flatnonzero(tied), representatives(fitted.cv_results_)
    assert len(stand) == 2 < rows.size < tied.size
    chosen = min(stand, key=lambda i: frequency[i])
    assert fitted.best_index_ == chosen
    assert fitted.selection_.members == (chosen,)
    assert fitted.selection_.n_tied == rows.size
    assert fitted.selection_.class_priors == (prior[rows].min(), prior[rows].max())
    told = str(fitted.selection_)
    assert f"cannot distinguish {rows.size} of {tied.size} candidates" in told
    assert "For each set of attributes, the penalty nearest to 1 was used" in told
    chosen_by = f"The candidate with the lowest label frequency ({frequency[chosen]:.2f}) was chosen"
    assert f"{chosen_by}: C = {fitted.C_:.3g} (classifier uses" in told
    low, high = fitted.selection_.class_priors
    assert f"The class priors of tied candidates range from {low:.3f} to {high:.3f}" in told


def test_a_path_of_penalties_begins_at_the_value_closest_to_1():
    values = np.array([0.01, 0.1, 1.0, 10.0])
    assert path_to(values, 0.01) == [1.0, 0.1, 0.01]
    assert path_to(values, 10.0) == [1.0, 10.0]
    assert path_to(np.array([0.3, 0.5, 4.0]), 0.3) == [0.5, 0.3]


def test_possible_candidates_are_within_twice_as_many_standard_errors(fitted):
    tied, possible, behind, error, path = table_of(fitted, "tied", "possible", "behind_best", "standard_error", "path")
    own = path == path[np.argmin(behind)]  # in the set of the best candidate, half as many standard errors count
    np.testing.assert_array_equal(tied[own], (behind <= 1.0 * error)[own])
    np.testing.assert_array_equal(possible[own], (behind <= 2.0 * error)[own])
    assert tied.sum() < possible.sum()


def test_recalibrated_sets_that_are_tied_are_all_chosen(recalibrated):
    tied, score, prior = table_of(recalibrated, "tied", "mean_test_score", "class_prior")
    stand = representatives(recalibrated.cv_results_)
    assert len(stand) == 2 < tied.sum()
    assert sorted(recalibrated.selection_.members) == sorted(stand)
    assert set(stand) <= set(recalibrated.selection_.possible)
    assert recalibrated.best_index_ == max(stand, key=lambda i: score[i])
    assert recalibrated.selection_.class_priors == (prior[stand].min(), prior[stand].max())
    told = str(recalibrated.selection_)
    assert (
        "For each set of attributes, the penalty nearest to 1 was used. The average of these candidates was chosen"
        in told
    )
    assert f"Their class priors range from {prior[stand].min():.3f} to {prior[stand].max():.3f}" in told


def test_the_recalibrated_answer_is_the_recalibrated_mean_of_the_members_logits(pu, folds, recalibrated):
    """Repeat every step from plain fits: recalibrate the out-of-fold logits, average them, and recalibrate the mean."""
    e, w = Design.of(np.array([2])), np.ones(pu.s.size)

    def rows_with(u):
        return PairProblem.of(engine_of(pu.X, u=u, s=s, w=w), e, e)

    s, coef, mean = pu.s.astype(float), np.zeros(5), np.zeros(pu.s.size)
    for member in recalibrated.selection_.members:
        params = recalibrated.cv_results_["params"][member]
        model = plain_model(params, tol=1e-12, known=[PseudoObservations(8.0)])
        u = np.empty(pu.s.size)
        for train, test in folds:
            own = clone(model).fit(pu.X[train], pu.s[train])
            u[test] = logit(own.predict_proba(pu.X[test])[:, 1])
        found = recalibrate(rows_with(u), pseudo_weight=8.0)
        model.fit(pu.X, pu.s)
        coef += found.of_linear(np.append(model.coef_[0], model.intercept_)) / 2
        mean += found(u) / 2
    last, _ = recalibrate_beside_missing_attribute(rows_with(mean), pseudo_weight=8.0)
    np.testing.assert_allclose(
        np.append(recalibrated.coef_[0], recalibrated.intercept_), last.of_linear(coef), atol=1e-3
    )
    np.testing.assert_allclose(
        [recalibrated.propensity_coef_[0, 2], *recalibrated.propensity_intercept_], last.e, atol=1e-3
    )
    assert recalibrated.class_prior_ == pytest.approx(last.class_prior, abs=1e-4)
    assert recalibrated.label_frequency_ == pytest.approx(last.label_frequency, abs=1e-4)


def test_sets_are_tied_by_their_best_and_penalties_within_a_set_by_half_as_many_standard_errors():
    # Differences between candidates in each row. The first two candidates are on one path, the others on two more.
    rows = np.random.default_rng(0).normal(size=(400, 4))
    rows -= rows.mean(axis=0)
    rows[:, 0] = 0.0
    rows /= np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1.0)
    paths = np.array([0, 0, 1, 2])

    def tied(*behind):
        values = rows - np.array(behind) / np.sqrt(400)  # in standard errors of the difference to the first
        surplus = HeldOutGain(values.mean(axis=0), values.T @ values / 400, 400.0)
        np.testing.assert_allclose(surplus.error(0)[1:], 1 / 20, rtol=1e-12)
        np.testing.assert_allclose(surplus.behind(0), np.array(behind) / 20, atol=1e-15)
        return tied_with_best(surplus, paths, 2.0).tolist()

    assert tied(0, 0.99, 1.99, 2.01) == [True, True, True, False]
    assert tied(0, 1.01, 2.01, 1.99) == [True, False, False, True]


def test_zero_standard_errors_means_the_best_score(pu, folds):
    model = SAREMClassifierCV(propensity_attributes=[2], cv=folds, n_standard_errors=0, **SMALL).fit(pu.X, pu.s)
    assert model.best_index_ == model.cv_results_["mean_test_score"].argmax()
    assert model.selection_.reason == "Of 12 candidates, the one with the highest held-out log-likelihood was chosen."


@pytest.mark.parametrize("recalibrate", [True, False])
def test_many_standard_errors_mean_the_penalties_nearest_to_1(pu, folds, recalibrate):
    options = {**SMALL, "recalibrate": recalibrate, "n_standard_errors": 1e6}
    model = SAREMClassifierCV(propensity_attributes=[2], cv=folds, **options).fit(pu.X, pu.s)
    results = model.cv_results_
    assert results["tied"].all()
    assert {(results["param_C"][i], results["param_propensity_C"][i]) for i in representatives(results)} == {(1.0, 0.5)}
    expected = representatives(results)
    if not recalibrate:
        expected = [min(expected, key=lambda i: results["label_frequency"][i])]
    assert sorted(model.selection_.members) == sorted(expected)


def test_the_final_fit_is_that_of_the_chosen_parameters(pu, fitted):
    plain = SAREMClassifier(
        propensity_attributes=[2],
        classification_attributes=fitted.classification_attributes_,
        C=fitted.C_,
        propensity_C=fitted.propensity_C_,
    ).fit(pu.X, pu.s)
    np.testing.assert_allclose(fitted.coef_, plain.coef_, atol=1e-4)
    np.testing.assert_allclose(fitted.predict_propensity(pu.X), plain.predict_propensity(pu.X), atol=1e-4)
    assert fitted.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-4)
    np.testing.assert_allclose(fitted.standard_errors().coef, plain.standard_errors().coef, atol=1e-4)


def test_the_order_of_rows_changes_nothing(pu):
    order = np.random.default_rng(0).permutation(pu.s.size)
    model = SAREMClassifierCV(propensity_attributes=[2], **FEW)
    there = model.fit(pu.X, pu.s).cv_results_["mean_test_score"]
    back = clone(model).fit(pu.X[order], pu.s[order]).cv_results_["mean_test_score"]
    np.testing.assert_allclose(there, back, atol=1e-6)


def test_weights_equal_copies_and_rows_of_weight_0_have_no_influence(pu):
    model = SAREMClassifierCV(propensity_attributes=[2], **FEW)
    weight = np.random.default_rng(0).integers(0, 3, pu.s.size)
    weighted = model.fit(pu.X, pu.s, sample_weight=weight).cv_results_
    repeated = clone(model).fit(np.repeat(pu.X, weight, axis=0), np.repeat(pu.s, weight)).cv_results_
    for name in ("mean_test_score", "behind_best", "standard_error", "label_frequency"):
        np.testing.assert_allclose(weighted[name], repeated[name], atol=1e-6)


@pytest.mark.parametrize("convert", [sparse.csr_array, lambda X: X.astype(np.float32)])
def test_sparse_and_single_precision_tables(pu, convert):
    options = {"Cs": [1.0], "propensity_Cs": [1.0], "cv": KFold(2)}
    plain = SAREMClassifierCV(propensity_attributes=[2], **options).fit(pu.X, pu.s)
    other = SAREMClassifierCV(propensity_attributes=[2], **options).fit(convert(pu.X), pu.s)
    np.testing.assert_allclose(plain.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], atol=1e-4)


def test_sets_of_attributes_by_name(pu):
    frame = pd.DataFrame(pu.X, columns=["age", "dose", "visits", "height"])
    options = {"propensity_attributes": "visits", "Cs": [1.0], "recalibrate": False, "cv": 2, "random_state": 0}
    listed = SAREMClassifierCV(attribute_sets=[["age", "dose"], None, "age", [0, 3]], **options).fit(frame, pu.s)
    assert list(dict.fromkeys(listed.cv_results_["param_attributes"])) == ["age, dose", "all", "age", "set 4"]
    named = SAREMClassifierCV(attribute_sets={"two": ["age", "dose"]}, **options).fit(frame, pu.s)
    assert named.best_params_["attributes"] == "two"
    np.testing.assert_array_equal(named.classification_attributes_, [0, 1])
    assert (named.coef_[0, 2:] == 0).all()


def test_without_propensity_attributes_there_is_one_set(pu):
    model = SAREMClassifierCV(Cs=[1.0], propensity_Cs=[1.0], random_state=0).fit(pu.X, pu.s)
    assert list(model.cv_results_["param_attributes"]) == ["all"]
    assert np.ptp(model.predict_propensity(pu.X)) == 0


def test_default_penalties_are_ten_by_one(pu):
    model = SAREMClassifierCV(cv=2, random_state=0).fit(pu.X, pu.s)
    C, propensity_C = table_of(model, "param_C", "param_propensity_C")
    np.testing.assert_allclose(np.unique(C), np.logspace(-2, 2.5, 10))
    np.testing.assert_allclose(np.unique(propensity_C), [1.0])


def test_verbose_prints_each_step(pu, capsys):
    SAREMClassifierCV(propensity_attributes=[2], cv=2, verbose=True, **SMALL).fit(pu.X, pu.s)
    told = capsys.readouterr().out
    assert "fold 2 of 2, 12 candidates" in told
    assert "recalibrating the candidates" in told


def test_a_final_fit_that_did_not_converge_says_so(pu):
    model = SAREMClassifierCV(propensity_attributes=[2], max_iter=1, tol=1e-15, **SMALL)
    with pytest.warns(ConvergenceWarning, match=r"SAREMClassifierCV did not converge in max_iter=1 .*\(lower Cs\)"):
        model.fit(pu.X, pu.s)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Cs": 0}, "Cs must be a whole number of at least 1"),
        ({"Cs": []}, "Cs must be a whole number or a sequence"),
        ({"Cs": "many"}, "Cs must be a whole number or a sequence"),
        ({"Cs": [1.0, -1.0]}, "each of Cs must be a number above 0"),
        ({"propensity_Cs": [np.inf]}, "propensity_Cs must be finite"),
        ({"n_standard_errors": -1}, "n_standard_errors must be a number of at least 0"),
        (
            {"known": [8.0]},
            r"known must contain only ClassPrior\(...\), LabelFrequency\(...\) and PseudoObservations\(...\); got",
        ),
        ({"recalibrate": "yes"}, "recalibrate must be True or False; got 'yes'"),
        ({"max_iter": 0}, "max_iter must be a whole number"),
        ({"tol": 0}, "tol must be a number above 0"),
        ({"cv": 1}, "cv must be a whole number of at least 2"),
        ({"attribute_sets": "most"}, "attribute_sets must be 'auto', or a list or dict"),
        ({"attribute_sets": []}, "attribute_sets must be 'auto', or a list or dict"),
        (
            {"attribute_sets": {1: [0], "1": [1]}},
            "attribute_sets: each set needs a different name; got '1', '1'. Remove duplicate sets",
        ),
        ({"cv": []}, "cv has no folds. If it is a generator, it is empty after one fit"),
        ({"attribute_sets": [[9]]}, "attribute_sets selects column 9, but columns of X are numbered 0 to 3"),
    ],
)
def test_bad_options_are_refused(pu, options, message):
    with pytest.raises(ValueError, match=message):
        SAREMClassifierCV(propensity_attributes=[2], **options).fit(pu.X, pu.s)


def test_folds_without_labels_are_refused(pu):
    order = np.argsort(-pu.s, kind="stable")
    half = np.arange(pu.s.size) < pu.s.sum()
    folds = [(np.flatnonzero(half), np.flatnonzero(~half)), (np.flatnonzero(~half), np.flatnonzero(half))]
    with pytest.raises(ValueError, match="training rows are all labelled or all unlabelled"):
        SAREMClassifierCV(propensity_attributes=[2], cv=folds).fit(pu.X[order], pu.s[order])


def test_too_few_labels_for_folds_are_refused(pu):
    s = np.zeros(pu.s.size)
    s[0] = 1
    with pytest.raises(ValueError, match="needs at least 2 different labelled rows and 2 different unlabelled rows"):
        SAREMClassifierCV(propensity_attributes=[2]).fit(pu.X, s)


def test_rows_that_several_folds_hold_out_count_once(pu):
    options = {"propensity_attributes": [2], **FEW}
    once = SAREMClassifierCV(cv=StratifiedKFold(3), **options).fit(pu.X, pu.s)
    again = SAREMClassifierCV(cv=list(StratifiedKFold(3).split(pu.X, pu.s)) * 2, **options).fit(pu.X, pu.s)
    np.testing.assert_allclose(*table_of(once, "standard_error"), again.cv_results_["standard_error"], rtol=1e-9)


def test_folds_may_be_lists_or_masks(pu, folds):
    every = np.arange(pu.s.size)
    pairs = [(list(train), np.isin(every, test)) for train, test in folds]
    options = {"propensity_attributes": [2], "recalibrate": False, **FEW}
    models = [SAREMClassifierCV(cv=cv, **options).fit(pu.X, pu.s) for cv in (folds, pairs)]
    one, other = (model.cv_results_["mean_test_score"] for model in models)
    np.testing.assert_array_equal(one, other)


def test_rows_without_weight_are_in_no_fold(pu, folds):
    """Folds give positions in X, including rows of weight 0."""
    weight = (np.arange(pu.s.size) % 3 > 0).astype(float)
    kept = np.flatnonzero(weight)
    number = np.cumsum(weight).astype(int) - 1
    fewer = [tuple(number[rows[weight[rows] > 0]] for rows in fold) for fold in folds]
    options = {"propensity_attributes": [2], **FEW}
    weighted = SAREMClassifierCV(cv=folds, **options).fit(pu.X, pu.s, sample_weight=weight)
    alone = SAREMClassifierCV(cv=fewer, **options).fit(pu.X[kept], pu.s[kept])
    np.testing.assert_allclose(*(m.cv_results_["mean_test_score"] for m in (weighted, alone)), rtol=1e-12)


def test_penalties_may_come_from_a_generator_and_sets_from_an_array(pu, folds):
    model = SAREMClassifierCV(
        propensity_attributes=[2], cv=folds, Cs=(C for C in (0.1, 1.0)), attribute_sets=np.array([[0, 1], [0, 2]])
    ).fit(pu.X, pu.s)
    assert set(model.cv_results_["param_C"]) == {0.1, 1.0}
    assert set(model.cv_results_["param_attributes"]) == {"set 1", "set 2"}


@pytest.mark.parametrize("propensity_C", [1.0, 10.0])
def test_models_with_the_same_columns_are_not_swapped(propensity_C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    s = (rng.random(3000) < expit(2 * X[:, 0] + X[:, 1]) * expit(X[:, 2] + 1.5)).astype(int)
    with pytest.warns(UserWarning, match="can be swapped"):
        model = SAREMClassifierCV(
            propensity_attributes=slice(None), Cs=[1.0], propensity_Cs=[propensity_C], random_state=0
        ).fit(X, s)
    np.testing.assert_allclose(model.coef_, [[2, 1, 0]], atol=0.4)
    assert abs(model.class_prior_ - 0.5) < 0.06


@pytest.mark.parametrize("recalibrate", [True, False])
def test_badly_scaled_columns_get_a_warning(pu, recalibrate):
    model = SAREMClassifierCV(propensity_attributes=[2], Cs=[1.0], cv=2, recalibrate=recalibrate, random_state=0)
    told = r"SAREMClassifierCV: column 'x0' \(and 3 more\) has a mean more than 1e5 standard .* are unreliable"
    with pytest.warns(UserWarning, match=told) as record:
        model.fit(pu.X + 1e9, pu.s)
    assert [warning for warning in record if warning.category is not ClassPriorWarning] == record[:1]


@pytest.mark.parametrize("seed", quick_first(0, 1, 2))
def test_precision_and_order_of_columns_do_not_change_the_class_prior(seed):
    # Folds are equal. Differences come from the rounding of float32 (relative error 1e-7), in fits with tol 1e-8.
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 6))
    y = rng.random(600) < expit(2 * X[:, 0] - X[:, 1])
    s = (y & (rng.random(600) < expit(X[:, 5]))).astype(int)
    order = rng.permutation(6)
    options = {"Cs": [0.1, 1.0], "cv": 2, "random_state": 0}
    model = SAREMClassifierCV(propensity_attributes=[5], **options).fit(X, s)
    single = SAREMClassifierCV(propensity_attributes=[5], **options).fit(X.astype(np.float32), s)
    place = [int(np.flatnonzero(order == 5)[0])]
    permuted = SAREMClassifierCV(propensity_attributes=place, **options).fit(X[:, order], s)
    assert permuted.class_prior_ == pytest.approx(model.class_prior_, abs=1e-9)
    assert single.class_prior_ == pytest.approx(model.class_prior_, abs=2e-4)

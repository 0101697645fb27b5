"""Checks of looks on large tables: a part is tested first, and all rows only if a statistic of the part is large."""

import warnings

import numpy as np
import pytest
from scipy.special import expit, logit

from scarless import Labelling, SAREMClassifier
from scarless.engines.base import Rows
from scarless.labelling import simulate_looks
from scarless.models import messages
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.pair import look_checks
from scarless.pair.logistic import engine_of
from scarless.pair.problem import summarise_observations

N = 3000


def make_rows(n=N, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = rng.random(n) < expit(X @ [2, -1, 0.5, 0] - 0.8)
    e = expit(X @ [0, 0.5, 0.5, -1] - 0.8)
    return X, y, e, rng


def looks_that(kind):
    """Return attributes, and labels at three looks that are alike, differ, or depend on each other."""
    X, y, e, rng = make_rows()
    S = simulate_looks(y, [e] * 3, random_state=0)
    if kind == "differ":
        S[:, 2] = simulate_looks(y, [e**3], random_state=1)[:, 0]
    elif kind == "depend":
        S[:, 2] = np.where(rng.random(N) < 0.5, S[:, 1], S[:, 2])
    return X, S


def warnings_of(X, S):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        SAREMClassifier(propensity_attributes="all").fit(X, S)
    return [str(each.message) for each in told]


@pytest.fixture
def rows_tested(monkeypatch):
    """Test 500 of 3,000 rows first; return, for each check, the number of rows of every pass."""
    rows = {"_block_look_gaps": [], "_block_pair_scores": []}
    for name, found in rows.items():
        inner = getattr(look_checks, name)

        def spy(X, values, *given, inner=inner, found=found):
            found.append(X.shape[0])
            return inner(X, values, *given)

        monkeypatch.setattr(look_checks, name, spy)
    monkeypatch.setattr(look_checks, "ROWS_OF_TEST_PART", 500)
    monkeypatch.setattr(look_checks, "LABELLED_OF_TEST_PART", 50)
    return rows


def test_looks_without_violations_are_tested_in_part(rows_tested):
    assert warnings_of(*looks_that("are alike")) == []
    assert {name: sum(n) for name, n in rows_tested.items()} == {"_block_look_gaps": 500, "_block_pair_scores": 500}


@pytest.mark.parametrize(
    ("kind", "check", "match"),
    [
        ("differ", "_block_look_gaps", "found .* labels, but .* are expected if all looks share one propensity"),
        ("depend", "_block_pair_scores", "agree more often than independent looks would"),
    ],
)
def test_violations_are_tested_in_all_rows(rows_tested, monkeypatch, kind, check, match):
    X, S = looks_that(kind)
    with pytest.warns(UserWarning, match=match):
        SAREMClassifier(propensity_attributes="all").fit(X, S)
    assert sum(rows_tested[check]) == 500 + N
    in_part = warnings_of(X, S)
    monkeypatch.setattr(look_checks, "ROWS_OF_TEST_PART", N)
    assert warnings_of(X, S) == in_part


@pytest.mark.parametrize(("most", "pairs"), [(3, [(0, 1), (0, 2), (1, 2)]), (2, [(0, 1), (1, 2)])])
def test_all_pairs_of_few_looks_are_tested_and_neighbours_of_many(monkeypatch, most, pairs):
    tested, inner = [], look_checks._block_pair_scores
    monkeypatch.setattr(look_checks, "MAX_LOOKS_PAIRED", most)
    monkeypatch.setattr(
        look_checks, "_block_pair_scores", lambda *given: tested.append(list(given[4])) or inner(*given)
    )
    warnings_of(*looks_that("are alike"))
    assert tested[0] == pairs


def test_tables_with_few_labels_are_tested_as_a_whole(rows_tested, monkeypatch):
    monkeypatch.setattr(look_checks, "LABELLED_OF_TEST_PART", N)
    assert warnings_of(*looks_that("are alike")) == []
    assert {name: sum(n) for name, n in rows_tested.items()} == {"_block_look_gaps": N, "_block_pair_scores": N}


def rows_of_looks(codes, w):
    """Return a block of rows without audits; the code of a label is 1, of no label 0, and of a missing look -1."""
    values = {"w": w, "labels": (codes == 1) * 1.0, "looks": (codes >= 0) * 1.0, "audit": np.full(len(w), -1.0)}
    return Rows({**values, "codes": codes}, slice(0, len(w)))


def test_expected_labels_of_a_look_and_their_variance():
    """With and without the labels of earlier looks, for rows of weights 1 and 2, one of them not seen at a look."""
    X, codes = np.array([[0.3], [-1.0], [0.8], [0.1]]), np.array([[1, 0], [0, 1], [0, -1], [0, 0]])
    w, f, e = np.array([1.0, 2.0, 1.0, 1.0]), 0.7, np.array([0.4, 0.6])
    one = Design.of(np.arange(0))
    objective = LooksLikelihood(one, ((one,), (one,)), None, None, None)
    rows = rows_of_looks(codes, w)
    beta = logit([f, *e])
    found = look_checks._block_look_gaps(X, rows, objective, beta, np.arange(2))
    after = f * np.where(codes[:, 0] == 1, 1 / f, (1 - e[0]) / (1 - f * e[0]))  # given the label of the first look
    seen = codes[:, 1] >= 0
    for look, p, counted in ((0, [np.full(4, f)] * 2, np.full(4, True)), (1, [np.full(4, f), after], seen)):
        for line, prior in zip(found[look], p, strict=True):
            chance, u = (prior * e[look])[counted], w[counted]
            labels = u @ (codes[counted, look] == 1)
            np.testing.assert_allclose(line, [labels, u @ chance, u**2 @ (chance * (1 - chance))], rtol=1e-9)


@pytest.mark.parametrize("rate", [None, 0.05])
def test_the_score_of_agreeing_looks_is_its_formula(rate):
    rng = np.random.default_rng(1)
    codes, w = rng.integers(-1, 2, size=(30, 2)), rng.uniform(0.5, 2.0, 30)
    f, e, h = 0.6, np.array([0.4, 0.7]), rate or 0.0
    one = Design.of(np.arange(0))
    objective = LooksLikelihood(one, ((one,), (one,)), None if rate is None else logit(np.full(2, rate)), None, None)
    rows = rows_of_looks(codes, w)
    sums = look_checks._block_pair_scores(
        np.zeros((30, 1)), rows, objective, logit([f, *e]), [(0, 1)], np.arange(2), True
    )
    s, seen = codes == 1, codes >= 0
    likelihoods = [np.where(seen, np.where(s, rates, 1 - rates), 1.0).prod(axis=1) for rates in (e, np.full(2, h))]
    q = f * likelihoods[0] / (f * likelihoods[0] + (1 - f) * likelihoods[1])
    g = q * (s - e).prod(axis=1) + (1 - q) * (s - h).prod(axis=1) * (rate is not None)
    np.testing.assert_allclose(sums.added, [w @ (g * seen.all(axis=1))], rtol=1e-9)


def test_a_look_without_variance_has_no_gap():
    """The smaller of the two statistics counts; it is 0 if no label could have been different."""
    sums = np.array([[0.0, 0.0, 0.0], [9.0, 4.0, 4.0]])
    assert look_checks._look_gap(1, sums).z_score == 0.0
    assert look_checks._look_gap(1, sums[::-1]).z_score == 0.0
    sums[0] = [9.0, 6.0, 9.0]
    assert tuple(look_checks._look_gap(1, sums)) == (1, 9.0, 6.0, 1.0)  # found and expected without other looks
    sums[0] = [9.0, 8.4, 9.0]
    assert look_checks._look_gap(1, sums).z_score == pytest.approx(0.2)
    sums[0] = [3.0, 6.0, 9.0]
    assert look_checks._look_gap(1, sums).z_score == 0.0  # the predictions disagree about the sign


@pytest.mark.parametrize(("factor", "least", "most"), [(1.0, 0.0, 0.01), (0.5, 2.0, 99.0)])
def test_an_offset_with_its_best_coefficient_has_no_gap(monkeypatch, factor, least, most):
    """The offset is an attribute times its fitted coefficient, so no other coefficient has a higher likelihood."""
    X, y, e, _ = make_rows()
    S, found, inner = simulate_looks(y, [e] * 2, random_state=0), [], look_checks.offset_gap
    monkeypatch.setattr(messages, "offset_gap", lambda *a, **k: found.append(inner(*a, **k)))
    monkeypatch.setattr(messages, "message_about_offset", lambda gap: [])
    free = {"C": np.inf, "propensity_C": np.inf, "tol": 1e-14, "classification_attributes": [0, 1]}
    fitted = SAREMClassifier(propensity_attributes=[1, 3], **free).fit(X, S)
    table = np.column_stack([X, factor * fitted.propensity_coef_[0, 3] * X[:, 3]])
    SAREMClassifier(propensity_attributes=[1], labelling=Labelling(offset=4), **free).fit(table, S)
    assert found[-1].coefficient == pytest.approx(1 / factor, abs=0.01)
    assert least <= found[-1].z_score <= most


def test_labels_of_audited_rows_are_dropped_or_undone():
    rows = {"labels": np.array([[2], [1], [0], [1]]), "looks": np.array([[3], [1], [2], [2]])}
    rows["audit"] = np.array([1, -1, 0, -1])
    dropped, undone = look_checks._as_dropped(None, rows), look_checks._as_undone(None, rows)
    assert [each.ravel().tolist() for each in dropped.values()] == [[0, 1, 0, 1], [0, 1, 0, 2]]
    assert [each.ravel().tolist() for each in undone.values()] == [[0, 1, 0, 1], [1, 1, 1, 2]]
    assert list(dropped) == list(undone) == ["labels", "looks"]


def test_propensities_at_and_outside_bounds_are_counted_at_positives():
    """Bounds of 0 and 1 are always possible, so they are ignored."""
    X = np.array([[-9.0], [-0.1], [9.0], [9.0]])
    f, e = Design.of(np.arange(0)), Design.of(np.arange(1))
    rows = {"w": np.array([1.0, 2.0, 3.0, 4.0]), "labels": np.zeros((4, 1)), "looks": np.array([[1.0], [1], [1], [2]])}
    rows["audit"], beta = np.full(4, -1.0), np.array([logit(0.3), 1.0, 0.0])
    for bounds, low, high in (((0.1, 0.8), 0.3, 0.3 * 11), ((0.0, 0.8), 0.0, 0.3 * 11), ((0.1, 1.0), 0.3, 0.0)):
        objective = LooksLikelihood(f, ((e,),), None, None, bounds)
        (sums,) = look_checks._block_on_bounds(X, rows, objective, beta, look_checks.BOUND_MARGIN)
        np.testing.assert_allclose(sums, [0.3 * 14, low, high], err_msg=str(bounds))
    (sums,) = look_checks._block_outside(X, rows, LooksLikelihood(f, ((e,),)), beta, (0.1, 0.8))
    np.testing.assert_allclose(sums, [0.3 * 14, 0.3 * (1 + 11)])


def test_later_looks_are_counted_after_a_label_and_without_one():
    codes = np.array([[1, 0, -1], [0, 1, 1], [0, -1, 0], [-1, 1, -1], [1, -1, -1]])
    rows = {"codes": codes, "w": np.array([1.0, 2.0, 1.0, 1.0, 0.0])}  # the last row does not count
    found = look_checks._block_later_looks(None, rows, np.arange(3))
    # After a label: looks 2 and 3 of the first row, look 3 of the second and of the fourth row; two took place.
    assert [float(each) for each in found] == [2.0, 4.0, 3.0, 4.0]


def test_audits_are_counted_if_they_are_informative():
    """Without false positives, an audit of a labelled row says nothing; an audit of a negative row does."""
    design = Design.of(np.arange(1))
    rows = {"labels": np.array([[0.0], [0], [1], [0]]), "looks": np.array([[1.0], [2], [1], [0]])}
    rows |= {"audit": np.array([0.0, 1, 1, -1]), "w": np.array([1.0, 1, 1, 2])}
    engine = engine_of(np.zeros((4, 1)), **rows)
    for rates, n in ((None, 2), ("shared", 3)):
        found = summarise_observations(engine, LooksLikelihood(design, ((design,),), rates))
        assert tuple(found) == (n, 4 / 5, True)
    weightless = engine_of(np.zeros((4, 1)), **(rows | {"w": np.array([1.0, 0, 1, 2])}))
    found = summarise_observations(weightless, LooksLikelihood(design, ((design,),)))
    assert tuple(found) == (1, 2 / 4, False)
